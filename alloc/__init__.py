"""alloc: how good could this GPU cluster's schedule have been?

Allocation and placement for deep-learning clusters as optimisation models over a GPU topology
graph, solved exactly or in rolling horizons, with a proof of how good each answer is.

Importing alloc loads nothing yet: every part loads when it is used.
"""

from alloc.serialisation import answer_with as _answer_with

TYPE_CHECKING = False  # as type checkers know it; `typing` takes longer to load than all of this

if TYPE_CHECKING:
    import typing

    from alloc import instances as instances
    from alloc import planning as planning
    from alloc.certificate import Certificate as Certificate
    from alloc.documents.reading import load as load
    from alloc.documents.reading import save as save
    from alloc.errors import AllocError as AllocError
    from alloc.errors import BackendUnavailableError as BackendUnavailableError
    from alloc.errors import CertificateError as CertificateError
    from alloc.errors import InstanceError as InstanceError
    from alloc.errors import SimulationError as SimulationError
    from alloc.errors import SolverError as SolverError
    from alloc.errors import UnsupportedFeatureError as UnsupportedFeatureError
    from alloc.families import verify as verify
    from alloc.objectives import OBJECTIVES as OBJECTIVES
    from alloc.objectives import Objective as Objective
    from alloc.objectives import objective as objective
    from alloc.problems.allocation.instance import Affinity as Affinity
    from alloc.problems.allocation.instance import Instance as Instance
    from alloc.problems.allocation.instance import Moves as Moves
    from alloc.problems.allocation.instance import Tenant as Tenant
    from alloc.problems.allocation.migration import Migration as Migration
    from alloc.problems.allocation.migration import Move as Move
    from alloc.problems.allocation.solution import Allocation as Allocation
    from alloc.problems.allocation.solution import Assignment as Assignment
    from alloc.problems.allocation.solution import Run as Run
    from alloc.problems.allocation.solution import Schedule as Schedule
    from alloc.problems.allocation.solution import Solution as Solution
    from alloc.problems.allocation.solution import TaskPlacement as TaskPlacement
    from alloc.result import Limits as Limits
    from alloc.result import Repair as Repair
    from alloc.result import Result as Result
    from alloc.result import Sensitivity as Sensitivity
    from alloc.simulation import simulate as simulate
    from alloc.solving import solve as solve
    from alloc.solving.model import Model as Model
    from alloc.solving.model import model as model
    from alloc.solving.placing.explain import explain as explain
    from alloc.solving.placing.place import place as place
    from alloc.topology import Domain as Domain
    from alloc.topology import Host as Host
    from alloc.topology import HostType as HostType
    from alloc.topology import Topology as Topology
    from alloc.verification import Violation as Violation
    from alloc.workload import Configuration as Configuration
    from alloc.workload import Job as Job
    from alloc.workload import PlacementRules as PlacementRules
    from alloc.workload import Slice as Slice
    from alloc.workload import Spread as Spread
    from alloc.workload import TaskGroup as TaskGroup

_NAMES = {
    "alloc.certificate": ("Certificate",),
    "alloc.errors": (
        "AllocError",
        "BackendUnavailableError",
        "CertificateError",
        "InstanceError",
        "SimulationError",
        "SolverError",
        "UnsupportedFeatureError",
    ),
    "alloc.documents.reading": ("load", "save"),
    "alloc.families": ("verify",),
    "alloc.problems.allocation.instance": ("Affinity", "Instance", "Moves", "Tenant"),
    "alloc.problems.allocation.migration": ("Migration", "Move"),
    "alloc.objectives": ("OBJECTIVES", "Objective", "objective"),
    "alloc.result": ("Limits", "Repair", "Result", "Sensitivity"),
    "alloc.simulation": ("simulate",),
    "alloc.problems.allocation.solution": (
        "Allocation",
        "Assignment",
        "Run",
        "Schedule",
        "Solution",
        "TaskPlacement",
    ),
    "alloc.solving": ("solve",),
    "alloc.solving.placing.explain": ("explain",),
    "alloc.solving.model": ("Model", "model"),
    "alloc.solving.placing.place": ("place",),
    "alloc.topology": ("Domain", "Host", "HostType", "Topology"),
    "alloc.verification": ("Violation",),
    "alloc.workload": ("Configuration", "Job", "PlacementRules", "Slice", "Spread", "TaskGroup"),
}
"""Public names, by the module that each is at home in."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = [*_HOMES]
_ROOMS = (
    "certificate",
    "errors",
    "instances",
    "objectives",
    "planning",
    "problems",
    "progress",
    "result",
    "topology",
    "units",
    "verification",
    "workload",
)
"""Modules that are there as ``alloc.NAME`` without an import of their own."""


def _format_of_type(record_class: "typing.Any") -> "typing.Any":
    """Return the format of the documents of a type: the types themselves import none."""
    from alloc.documents import format_of_type

    return format_of_type(record_class)


def _tables() -> "typing.Any":
    """Return the module that makes tables: the types themselves import none."""
    from importlib import import_module

    return import_module("alloc.report.notebook")


_answer_with(_format_of_type, _tables)


def __getattr__(name: str) -> "typing.Any":
    """Load what is asked for when it is asked for."""
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"alloc.{name}")
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name == "__version__":
        from alloc.release import alloc_version

        value = alloc_version()
    else:
        raise AttributeError(f"module 'alloc' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_ROOMS, "__version__"})
