"""Capacity planning: plans, what-ifs, and plans replayed in the simulator.

`plan` finds the cheapest hosts for a forecast with a proof, `what_if` holds a changed problem
against the base, `pareto` draws what better goals or less energy would cost; forecasts come from
`bootstrap_weeks` and `scenarios_from_rates`. Operation, inference and quotas have their own doors:
`operate`, `size_inference`, `plan_quotas`.
"""

from alloc.planning.change_text import parse_change as parse_change
from alloc.planning.changes import Budget as Budget
from alloc.planning.changes import Change as Change
from alloc.planning.changes import ClosedSite as ClosedSite
from alloc.planning.changes import Demand as Demand
from alloc.planning.changes import EnergyPrice as EnergyPrice
from alloc.planning.changes import Goal as Goal
from alloc.planning.changes import Hosts as Hosts
from alloc.planning.changes import LostRack as LostRack
from alloc.planning.changes import NewTeam as NewTeam
from alloc.planning.changes import NoMore as NoMore
from alloc.planning.changes import Price as Price
from alloc.planning.changes import apply_all as apply_all
from alloc.planning.differences import CostChange as CostChange
from alloc.planning.differences import WhatIf as WhatIf
from alloc.planning.differences import what_if as what_if
from alloc.planning.forecasts import bootstrap_weeks as bootstrap_weeks
from alloc.planning.forecasts import scenarios_from_rates as scenarios_from_rates
from alloc.planning.fronts import Front as Front
from alloc.planning.fronts import Point as Point
from alloc.planning.fronts import pareto as pareto
from alloc.planning.history import History as History
from alloc.planning.history import history_of_instance as history_of_instance
from alloc.planning.history import history_of_jobs as history_of_jobs
from alloc.planning.inference import size_inference as size_inference
from alloc.planning.operation import operate as operate
from alloc.planning.quotas import plan_quotas as plan_quotas
from alloc.planning.reduction import reduce_scenarios as reduce_scenarios
from alloc.planning.replay import Measured as Measured
from alloc.planning.replay import ReplaySettings as ReplaySettings
from alloc.planning.report import PlanReport as PlanReport
from alloc.planning.report import plan as plan
