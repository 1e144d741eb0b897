"""Shapes: the few ways in which documents differ from the fields of the dataclasses.

A dataclass that is not listed here needs nothing: its documents have its fields, in their order,
without those that have their default.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any

import numpy as np
from pydantic import Discriminator, Tag

from alloc.certificate import Certificate
from alloc.documents.models import INFINITIES, Extended
from alloc.errors import InstanceError, nearest
from alloc.families import FAMILIES, kind_of_class, load
from alloc.problems.allocation.instance import Instance, Moves, Tenant
from alloc.problems.allocation.solution import Allocation, Assignment, Run, Schedule
from alloc.problems.operation.problem import (
    NodePlan,
    NodePool,
    NodeType,
    OperationJob,
    OperationPlan,
    RunningJob,
)
from alloc.problems.right_sizing import (
    HostOffer,
    JobClass,
    JobOption,
    Order,
    Owned,
    Scenario,
    ServiceGoal,
    Site,
)
from alloc.result import Result
from alloc.topology import Domain, GpuLink, Host, HostType, Topology
from alloc.topology.communication import CommunicationGraph
from alloc.workload import Configuration, Job, PlacementRules, Stage, TaskGroup

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
    typed
        Whether the value says of which class it is, by `Shape.tag`.
    """

    type: Any = None
    write: Callable[[Any, str], Any] | None = None
    read: Callable[[Any, Any, Convert], Any] | None = None
    typed: bool = False


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
        Whether messages name it without what it is a part of where it is not an item of a list.
    by_place
        Whether the place goes before what the class says is wrong with it: True for its own, False
        for that of what it is a part of; None: its own unless it is an item of a list.
    joint
        What stands between the two.
    tag
        What is said in a field ``type``, to tell the class from others.
    typed
        Whether the documents of the class by itself say it too; else only results, of their
        solution.
    first, last
        Fields written before and after the others.
    always
        Fields written even if they have their default.
    shared
        A field of the document alone.
    repeated
        Whether a document has the same one again and again, all of plain values: then one object
        stands for all, and is checked and written once.
    fields
        The fields that are held in another form.
    """

    noun: str = ""
    name: str = "name"
    nouns: Mapping[str, str] = field(default_factory=dict)
    within: bool = False
    alone: bool = False
    by_place: bool | None = None
    joint: str = ": "
    tag: str = ""
    typed: bool = True
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    shared: Shared | None = None
    repeated: bool = False
    fields: Mapping[str, Special] = field(default_factory=dict)


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


@dataclass(frozen=True)
class Permutation:
    """An assignment of things to places.

    Parameters
    ----------
    places
        Position of the place of each thing, counted from 0.
    """

    places: tuple[int, ...]


@cache
def classes_of_families() -> dict[str, tuple[Any, ...]]:
    """Return the dataclasses of the documents of each kind of all families.

    A package's family whose types are not there, or are no dataclasses, goes without documents.
    """
    found: dict[str, dict[Any, None]] = {}
    for family in FAMILIES.values():
        try:
            classes = {kind: _record_class(code) for kind, code in family.documents.items()}
        except Exception as error:  # whatever a stranger's module raises
            warnings.warn(
                f'the family "{family.name}" has no documents ({type(error).__name__}: {error}).',
                stacklevel=2,
            )
        else:
            for kind, one in classes.items():
                found.setdefault(kind, {})[one] = None
    return {kind: tuple(classes) for kind, classes in found.items()}


def _record_class(code: str) -> Any:
    one = load(code)
    if one is np.ndarray:
        return Permutation
    if not dataclasses.is_dataclass(one):
        raise TypeError(f"{code} is no dataclass")
    return one


def _solution_classes() -> dict[Any, str]:
    """Return the classes of the solutions of all families, and what documents call each.

    It is the kind of the documents, or, where several classes have one, the class.
    """
    known = classes_of_families()
    kinds = dict.fromkeys(f.solution_kind for f in FAMILIES.values() if f.solution_kind in known)
    return {
        one: kind if len(known[kind]) == 1 else kind_of_class(one.__name__)
        for kind in kinds
        for one in known[kind]
    }


def as_record(solution: Any, name: str) -> Any:
    """Return a solution as a dataclass; refuse what is not a family's."""
    if isinstance(solution, np.ndarray):
        return Permutation(tuple(solution.tolist()))
    if solution is None or type(solution) in _SOLUTIONS:
        return solution
    raise InstanceError(
        f"a result with a {type(solution).__name__} has no document; the solutions of the "
        f"families have: {', '.join(one.__name__ for one in _SOLUTIONS)}."
    )


def _from_record(value: Any, shared: Any, convert: Convert) -> Any:
    return from_record(convert(value, shared))


def from_record(found: Any) -> Any:
    """Return a solution as its family has it."""
    return np.array(found.places, dtype=np.int64) if isinstance(found, Permutation) else found


def _off_the_diagonal(matrix: Any, name: str) -> Any:
    """Write 0 where a GPU would talk to itself: the types put there what they need."""
    plain = np.array(matrix)
    np.fill_diagonal(plain, 0.0)
    return plain


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
_SOLUTIONS = _solution_classes()
_Answer = reduce(or_, _SOLUTIONS) | None
_TEXTS = Special(write=_texts)
SHAPES: dict[Any, Shape] = {
    # The cluster.
    Topology: Shape("topology", alone=True),
    HostType: Shape("host type"),
    Host: Shape("host", "id"),
    Domain: Shape("domain", "id"),
    GpuLink: Shape(joint=", "),
    CommunicationGraph: Shape(fields={"bandwidth_gb_per_s": Special(write=_off_the_diagonal)}),
    # The work.
    Job: Shape(
        "job",
        "id",
        last=("configurations", "stages"),
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
    Stage: Shape("stage", "id", within=True, last=("configurations",)),
    Configuration: Shape(by_place=True),
    TaskGroup: Shape("task group", "role", within=True, repeated=True),
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
        fields={"solution": Special(_Answer, as_record, _from_record, typed=True)},
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
}
for _class, _tag in _SOLUTIONS.items():
    if not shape_of(_class).tag:  # those of instances say it by themselves
        SHAPES[_class] = replace(shape_of(_class), tag=_tag, typed=False)
