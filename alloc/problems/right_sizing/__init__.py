"""What a cluster could be made of and what it must serve: offers, sites, demand, plans."""

from alloc.problems.right_sizing.bands import Bands as Bands
from alloc.problems.right_sizing.bands import bands_of as bands_of
from alloc.problems.right_sizing.demand import JobClass as JobClass
from alloc.problems.right_sizing.demand import JobOption as JobOption
from alloc.problems.right_sizing.demand import Scenario as Scenario
from alloc.problems.right_sizing.demand import Tightening as Tightening
from alloc.problems.right_sizing.goals import ServiceGoal as ServiceGoal
from alloc.problems.right_sizing.offers import HostOffer as HostOffer
from alloc.problems.right_sizing.offers import Owned as Owned
from alloc.problems.right_sizing.plan import CostBreakdown as CostBreakdown
from alloc.problems.right_sizing.plan import Order as Order
from alloc.problems.right_sizing.plan import Plan as Plan
from alloc.problems.right_sizing.plan import Rental as Rental
from alloc.problems.right_sizing.plan import Share as Share
from alloc.problems.right_sizing.plan import Unserved as Unserved
from alloc.problems.right_sizing.problem import PlanningProblem as PlanningProblem
from alloc.problems.right_sizing.sites import Site as Site
