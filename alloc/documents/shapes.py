"""Shapes: the few ways in which documents differ from the fields of the dataclasses.

A dataclass that is not listed here needs nothing: its documents have its fields, in their order,
without those that have their default. The list goes by paths, ``module:name``: who reads one kind
of document loads no class of another.
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

from alloc.documents.constants import INFINITIES
from alloc.errors import InstanceError, nearest
from alloc.families import FAMILIES, kind_of_class, load
from alloc.family import path_of
from alloc.workload.configuration import Configuration

Convert = Callable[[Any, Any], Any]
"""Turns a checked value of a document, given what the document shares, into that of a field."""


@dataclass(frozen=True)
class Special:
    """A field that documents hold in another form.

    Parameters
    ----------
    type
        Returns what pydantic makes its model of; None: as for any other field.
    write
        Returns what is written for the field's value, given its name; None: the value.
    read
        Returns the field's value, given that in the document, what the document shares, and how
        any other field would be read; None: so.
    typed
        Whether the value says of which class it is, by `Shape.tag`.
    named
        Whether the document may give a name, a text, in the place of the value.
    """

    type: Callable[[], Any] | None = None
    write: Callable[[Any, str], Any] | None = None
    read: Callable[[Any, Any, Convert], Any] | None = None
    typed: bool = False
    named: bool = False


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


@cache
def shape_of(record_class: Any) -> Shape:
    """Return how the documents of a dataclass differ from its fields."""
    path = path_of(record_class)
    shape, tag = SHAPES.get(path, _PLAIN), _tags().get(path)
    if tag is None or shape.tag:  # those of instances say it by themselves
        return shape
    return replace(shape, tag=tag, typed=False)


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
def paths_of_families() -> Mapping[str, tuple[str, ...]]:
    """Return where the dataclasses of each kind of documents of all families are; none is loaded.

    But those of other packages are: where types are not there, or are no dataclasses, the family
    goes without documents.
    """
    found: dict[str, dict[str, None]] = {}
    for family in FAMILIES.values():
        try:
            paths = {kind: _own_path(code) for kind, code in family.documents.items()}
        except Exception as error:  # whatever a stranger's module raises
            warnings.warn(
                f'the family "{family.name}" has no documents ({type(error).__name__}: {error}).',
                stacklevel=2,
            )
        else:
            for kind, path in paths.items():
                found.setdefault(kind, {})[path] = None
    return {kind: tuple(paths) for kind, paths in found.items()}


def _own_path(code: str) -> str:
    """Return the path of a family's class by which `shape_of` knows it."""
    if code == "numpy:ndarray":
        return path_of(Permutation)
    if code.startswith("alloc."):
        return code
    one = load(code)
    if not dataclasses.is_dataclass(one):
        raise TypeError(f"{code} is no dataclass")
    return path_of(one)


@cache
def _tags() -> Mapping[str, str]:
    """Return what documents call the solutions of all families, by the paths of their classes.

    It is the kind of the documents, or, where several classes have one, the class.
    """
    known = paths_of_families()
    kinds = dict.fromkeys(f.solution_kind for f in FAMILIES.values() if f.solution_kind in known)
    return {
        path: kind if len(known[kind]) == 1 else kind_of_class(path)
        for kind in kinds
        for path in known[kind]
    }


def _answers() -> Any:
    """Return the type of the solution of a result."""
    return reduce(or_, map(load, _tags())) | None


def as_record(solution: Any, name: str) -> Any:
    """Return a solution as a dataclass; refuse what is not a family's.

    Parameters
    ----------
    solution
        A solution of any family; a permutation as an array.
    name
        Name of the field, which all writers of fields take.
    """
    if isinstance(solution, np.ndarray):
        return Permutation(tuple(solution.tolist()))
    if solution is None or path_of(type(solution)) in _tags():
        return solution
    raise InstanceError(
        f"a result with a {type(solution).__name__} has no document; the solutions of the "
        f"families have: {', '.join(path.partition(':')[2] for path in _tags())}."
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


def _extended() -> Any:
    """Return the type of a number that may be infinite."""
    from alloc.documents.models import Extended

    return Extended


def _name_or_configurations() -> Any:
    from pydantic import Discriminator, Tag

    return Annotated[
        Annotated[str, Tag("<name>")] | Annotated[tuple[Configuration, ...], Tag("<list>")],
        Discriminator(_way_to_write),
    ]


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
SHAPES: dict[str, Shape] = {
    # The cluster.
    "alloc.topology.topology:Topology": Shape("topology", alone=True),
    "alloc.topology.host:HostType": Shape("host type"),
    "alloc.topology.host:Host": Shape("host", "id"),
    "alloc.topology.host:Domain": Shape("domain", "id"),
    "alloc.topology.host:GpuLink": Shape(joint=", "),
    "alloc.topology.communication:CommunicationGraph": Shape(
        fields={"bandwidth_gb_per_s": Special(write=_off_the_diagonal)}
    ),
    # The work.
    "alloc.workload.job:Job": Shape(
        "job",
        "id",
        last=("configurations", "stages"),
        fields={
            "configurations": Special(
                type=_name_or_configurations, read=_configurations, named=True
            )
        },
    ),
    "alloc.workload.stages:Stage": Shape("stage", "id", within=True, last=("configurations",)),
    "alloc.workload.configuration:Configuration": Shape(by_place=True),
    "alloc.workload.configuration:TaskGroup": Shape(
        "task group", "role", within=True, repeated=True
    ),
    "alloc.workload.placement_rules:PlacementRules": Shape(by_place=False),
    "alloc.problems.allocation.instance:Instance": Shape(
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
    "alloc.problems.allocation.terms:Tenant": Shape("tenant"),
    "alloc.problems.allocation.terms:Moves": Shape(by_place=False),
    # Answers.
    "alloc.problems.allocation.solution:Assignment": Shape("assignment of job", "job"),
    "alloc.problems.allocation.solution:Run": Shape("run of job", "job"),
    "alloc.problems.allocation.solution:Allocation": Shape(
        alone=True, tag="allocation", fields={"unplaced": _TEXTS}
    ),
    "alloc.problems.allocation.solution:Schedule": Shape(
        alone=True, tag="schedule", fields={"unplaced": _TEXTS}
    ),
    "alloc.certificate:Certificate": Shape(
        alone=True,
        fields={
            "objective": Special(lambda: _extended() | None, _infinity),
            "bound": Special(_extended, _infinity),
        },
    ),
    "alloc.result:Result": Shape(
        first=("certificate",),
        last=("solution",),
        fields={"solution": Special(_answers, as_record, _from_record, typed=True)},
    ),
    # Planning.
    "alloc.problems.right_sizing.offers:HostOffer": Shape("offer"),
    "alloc.problems.right_sizing.sites:Site": Shape("site"),
    "alloc.problems.right_sizing.demand:JobClass": Shape("job class"),
    "alloc.problems.right_sizing.demand:JobOption": Shape(joint=", "),
    "alloc.problems.right_sizing.goals:ServiceGoal": Shape(by_place=False, joint=", "),
    "alloc.problems.right_sizing.demand:Scenario": Shape("scenario"),
    "alloc.problems.right_sizing.offers:Owned": Shape("owned hosts of offer", "offer"),
    "alloc.problems.right_sizing.plan:Order": Shape("order of offer", "offer"),
    # Operation.
    "alloc.problems.operation.nodes:NodeType": Shape("node type"),
    "alloc.problems.operation.nodes:NodePool": Shape("node pool"),
    "alloc.problems.operation.jobs:OperationJob": Shape("job", "id"),
    "alloc.problems.operation.problem:RunningJob": Shape("running job", "job"),
    "alloc.problems.operation.problem:NodePlan": Shape(
        "node",
        "node",
        fields={
            "jobs": Special(
                type=lambda: Mapping[str, int],
                write=lambda jobs, name: dict(jobs),
                read=lambda jobs, shared, convert: tuple(jobs.items()),
            )
        },
    ),
    "alloc.problems.operation.problem:OperationPlan": Shape(always=("postponed",)),
}
