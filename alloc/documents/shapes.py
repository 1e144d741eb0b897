"""Shapes: the few ways in which documents differ from the fields of the dataclasses.

A dataclass that is not listed here needs nothing: its documents have its fields, in their order,
without those that have their default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Discriminator, Tag

from alloc.certificate import Certificate, Result
from alloc.documents.models import INFINITIES, Extended
from alloc.errors import InstanceError, nearest
from alloc.problems.allocation.instance import Instance, Moves, Tenant
from alloc.problems.allocation.solution import Allocation, Assignment, Run, Schedule, Solution
from alloc.problems.operation.problem import (
    NodePlan,
    NodePool,
    NodeType,
    OperationJob,
    OperationPlan,
    RunningJob,
)
from alloc.problems.operation.result import OperationResult
from alloc.problems.right_sizing import (
    HostOffer,
    JobClass,
    JobOption,
    Order,
    Owned,
    PlanResult,
    Scenario,
    ServiceGoal,
    Site,
)
from alloc.topology import Domain, GpuLink, Host, HostType, Topology
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

Convert = Callable[[Any, Any], Any]
"""Turns a checked value of a document, given what the document shares, into that of a field."""


@dataclass(frozen=True)
class Special:
    """A field that documents hold in another form.

    Parameters
    ----------
    type
        What pydantic makes its model of; None: as for any other field.
    write
        Returns what is written for the field's value, given its name; None: the value.
    read
        Returns the field's value, given that in the document, what the document shares, and how
        any other field would be read; None: so.
    """

    type: Any = None
    write: Callable[[Any, str], Any] | None = None
    read: Callable[[Any, Any, Convert], Any] | None = None


@dataclass(frozen=True)
class Shared:
    """A field of the document alone, whose values other parts of it name.

    Parameters
    ----------
    name, type, meaning
        Name, type and description; it stands after the fields that have no default.
    """

    name: str
    type: Any
    meaning: str


@dataclass(frozen=True)
class Shape:
    """How the documents of a dataclass differ from its fields.

    Parameters
    ----------
    noun, name
        What messages call an item of a list of these, and the field with the item's own name. An
        item without a noun is told by its position in the list.
    nouns
        Other nouns of the items in some fields of this class.
    within
        Whether the noun needs what the item is a part of: no two jobs have one id, but many have a
        task group "worker".
    alone
        Whether messages name it without what it is a part of where it is no item of a list.
    by_place
        Whether the place goes before what the class says is wrong with it: True for its own, False
        for that of what it is a part of; None: its own unless it is an item of a list.
    joint
        What stands between the two.
    tag
        What documents say in their field ``type``, to tell the class from others.
    first, last
        Fields written before and after the others.
    always
        Fields written even if they have their default.
    shared
        A field of the document alone.
    fields
        The fields that are held in another form.
    omitted
        Fields that documents do not hold.
    """

    noun: str = ""
    name: str = "name"
    nouns: Mapping[str, str] = field(default_factory=dict)
    within: bool = False
    alone: bool = False
    by_place: bool | None = None
    joint: str = ": "
    tag: str = ""
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    shared: Shared | None = None
    fields: Mapping[str, Special] = field(default_factory=dict)
    omitted: tuple[str, ...] = ()


def shape_of(record_class: Any) -> Shape:
    """Return how the documents of a dataclass differ from its fields."""
    return SHAPES.get(record_class, _PLAIN)


def _infinity(value: Any, name: str) -> Any:
    """Write the infinities that a certificate may hold as words."""
    words = (word for word, number in INFINITIES.items() if number == value)
    return next(words, value)


def _texts(mapping: Mapping[str, Any], name: str) -> dict[str, str]:
    """Refuse what a reader would refuse: a key or value that is not text."""
    for key, text in mapping.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise InstanceError(f"{name}: {key!r} is {text!r}; give text, for example str(...).")
    return dict(mapping)


def _answer_to_instance(solution: Any, name: str) -> Any:
    """Refuse the answers of other families, which have documents of their own kinds."""
    if isinstance(solution, Allocation | Schedule | None):
        return solution
    raise InstanceError(
        f"a result with a {type(solution).__name__} has no document; `alloc.planning` writes "
        "results of its problems."
    )


def _way_to_write(configurations: Any) -> str | None:
    if isinstance(configurations, str):
        return "<name>"
    return "<list>" if isinstance(configurations, list | tuple) else None


def _configurations(value: Any, sets: Any, convert: Convert) -> Any:
    """Read a job's configurations: the name of a set, or the configurations themselves."""
    if not isinstance(value, str):
        return convert(value, sets)
    known = sets or {}
    if value not in known:
        cure = nearest(value, known) or "; define it there, or list the configurations in the job."
        raise InstanceError(
            f'configurations names the set "{value}", which is not in configuration_sets{cure}'
        )
    return known[value]


_PLAIN = Shape()
_TEXTS = Special(write=_texts)
SHAPES: dict[Any, Shape] = {
    # The cluster.
    Topology: Shape("topology", alone=True),
    HostType: Shape("host type"),
    Host: Shape("host", "id"),
    Domain: Shape("domain", "id"),
    GpuLink: Shape(joint=", "),
    # The work.
    Job: Shape(
        "job",
        "id",
        last=("configurations",),
        fields={
            "configurations": Special(
                type=Annotated[
                    Annotated[str, Tag("<name>")]
                    | Annotated[tuple[Configuration, ...], Tag("<list>")],
                    Discriminator(_way_to_write),
                ],
                read=_configurations,
            )
        },
    ),
    Configuration: Shape(by_place=True),
    TaskGroup: Shape("task group", "role", within=True),
    PlacementRules: Shape(by_place=False),
    Instance: Shape(
        "instance",
        nouns={"running": "running job"},
        first=("name", "description"),
        last=("jobs",),
        shared=Shared(
            "configuration_sets",
            Mapping[str, tuple[Configuration, ...]],
            "Lists of configurations that jobs share, by name.",
        ),
        fields={"description": _TEXTS},
    ),
    Tenant: Shape("tenant"),
    Moves: Shape(by_place=False),
    # Answers.
    Assignment: Shape("assignment of job", "job"),
    Run: Shape("run of job", "job"),
    Allocation: Shape(alone=True, tag="allocation", fields={"unplaced": _TEXTS}),
    Schedule: Shape(alone=True, tag="schedule", fields={"unplaced": _TEXTS}),
    Certificate: Shape(
        alone=True,
        fields={
            "objective": Special(Extended | None, _infinity),
            "bound": Special(Extended, _infinity),
        },
    ),
    Result: Shape(
        first=("certificate",),
        last=("solution",),
        fields={"solution": Special(Solution | None, _answer_to_instance)},
        # An instance's answer has none of these.
        omitted=("repairs", "sensitivities", "assumptions"),
    ),
    # Planning.
    HostOffer: Shape("offer"),
    Site: Shape("site"),
    JobClass: Shape("job class"),
    JobOption: Shape(joint=", "),
    ServiceGoal: Shape(by_place=False, joint=", "),
    Scenario: Shape("scenario"),
    Owned: Shape("owned hosts of offer", "offer"),
    Order: Shape("order of offer", "offer"),
    PlanResult: Shape(first=("certificate",), last=("plan",)),
    # Operation.
    NodeType: Shape("node type"),
    NodePool: Shape("node pool"),
    OperationJob: Shape("job", "id"),
    RunningJob: Shape("running job", "job"),
    NodePlan: Shape(
        "node",
        "node",
        fields={
            "jobs": Special(
                type=Mapping[str, int],
                write=lambda jobs, name: dict(jobs),
                read=lambda jobs, shared, convert: tuple(jobs.items()),
            )
        },
    ),
    OperationPlan: Shape(always=("postponed",)),
    OperationResult: Shape(first=("certificate", "costs")),
}
