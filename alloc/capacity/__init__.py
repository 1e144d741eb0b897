"""What a cluster could be made of and what it must serve: offers, sites, demand, plans."""

from alloc.capacity.bands import Bands as Bands
from alloc.capacity.bands import bands_of as bands_of
from alloc.capacity.demand import JobClass as JobClass
from alloc.capacity.demand import JobOption as JobOption
from alloc.capacity.demand import Scenario as Scenario
from alloc.capacity.demand import Tightening as Tightening
from alloc.capacity.goals import ServiceGoal as ServiceGoal
from alloc.capacity.offers import HostOffer as HostOffer
from alloc.capacity.offers import Owned as Owned
from alloc.capacity.plan import CostBreakdown as CostBreakdown
from alloc.capacity.plan import MarginalValue as MarginalValue
from alloc.capacity.plan import Order as Order
from alloc.capacity.plan import Plan as Plan
from alloc.capacity.plan import PlanResult as PlanResult
from alloc.capacity.plan import Relief as Relief
from alloc.capacity.plan import Rental as Rental
from alloc.capacity.plan import Share as Share
from alloc.capacity.plan import Unserved as Unserved
from alloc.capacity.problem import PlanningProblem as PlanningProblem
from alloc.capacity.sites import Site as Site
