"""alloc: how good could this GPU cluster's schedule have been?

Allocation and placement for deep-learning clusters as optimisation models over a GPU topology
graph, solved exactly or in rolling horizons, with a proof of how good each answer is.

Importing alloc is light: solvers load when they are used.
"""

from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

from alloc.certificate import Certificate as Certificate
from alloc.certificate import Result as Result
from alloc.errors import AllocError as AllocError
from alloc.errors import BackendUnavailableError as BackendUnavailableError
from alloc.errors import CertificateError as CertificateError
from alloc.errors import InstanceError as InstanceError
from alloc.errors import SimulationError as SimulationError
from alloc.errors import SolverError as SolverError
from alloc.errors import UnsupportedFeatureError as UnsupportedFeatureError
from alloc.instance import Affinity as Affinity
from alloc.instance import Instance as Instance
from alloc.instance import Moves as Moves
from alloc.instance import Tenant as Tenant
from alloc.migration import Migration as Migration
from alloc.migration import Move as Move
from alloc.objectives import OBJECTIVES as OBJECTIVES
from alloc.objectives import Objective as Objective
from alloc.objectives import objective as objective
from alloc.solution import Allocation as Allocation
from alloc.solution import Assignment as Assignment
from alloc.solution import Run as Run
from alloc.solution import Schedule as Schedule
from alloc.solution import Solution as Solution
from alloc.solution import TaskPlacement as TaskPlacement
from alloc.topology import Domain as Domain
from alloc.topology import Host as Host
from alloc.topology import HostType as HostType
from alloc.topology import Topology as Topology
from alloc.verification import Violation as Violation
from alloc.verification import verify as verify
from alloc.workload import Configuration as Configuration
from alloc.workload import Job as Job
from alloc.workload import PlacementRules as PlacementRules
from alloc.workload import Slice as Slice
from alloc.workload import Spread as Spread
from alloc.workload import TaskGroup as TaskGroup

if TYPE_CHECKING:
    from alloc import planning as planning
    from alloc.formulation import build_model as build_model
    from alloc.simulation import simulate as simulate
    from alloc.solving import solve as solve
    from alloc.solving.explaining import explain as explain
    from alloc.solving.placing import place as place

__version__ = _version("alloc")

_LAZY = {
    "solve": "alloc.solving",
    "place": "alloc.solving.placing",
    "explain": "alloc.solving.explaining",
    "simulate": "alloc.simulation",
    "build_model": "alloc.formulation",
}
_ROOMS = ("planning",)


def __getattr__(name: str) -> Any:
    """Load the rooms that need solvers only when they are asked for."""
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"alloc.{name}")
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'alloc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY, *_ROOMS])
