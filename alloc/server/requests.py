"""Requests: the bodies that the operations take, as pydantic models.

Instances, topologies and solutions in them are the documents of `alloc.documents`; where one is
wanted that is stored with alloc, its id does. No field is a path.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from alloc.certificate import OPTIMALITY_GAP
from alloc.documents.building import built
from alloc.documents.models import Part, Whole
from alloc.documents.typed import (
    PROBLEM_KINDS,
    SOLUTION_KINDS,
    AnyProblem,
    AnySolution,
    InstanceDocument,
    TopologyDocument,
)
from alloc.errors import InstanceError, nearest
from alloc.problems.allocation.instance import Instance
from alloc.server.problems import blame
from alloc.topology import Topology

STORED, DOCUMENT = "<id>", "<document>"
# A comparison runs every scheduler on every instance with every seed: a request is minutes of work
# long before all of these are reached.
_MAX_INSTANCES = 50
_MAX_SCHEDULERS = 50
_MAX_SEEDS = 100


def _instance_kind(value: Any) -> str:
    return STORED if isinstance(value, str) else DOCUMENT


InstanceField = Annotated[
    Annotated[str, Tag(STORED)] | Annotated[InstanceDocument, Tag(DOCUMENT)],
    Discriminator(_instance_kind),
]
"""An instance document, or the id of a stored instance such as ``elastic-tiny/01``."""

AnyProblemField = Annotated[
    Annotated[str, Tag(STORED)] | Annotated[AnyProblem, Tag(DOCUMENT)],
    Discriminator(_instance_kind),
]
"""The document of a problem of any family, or the id of a stored one."""

TimeLimit = Annotated[float, Field(gt=0, description="Wall time of the search, seconds.")]
Seed = Annotated[Whole, Field(ge=0, le=2**31 - 1, description="Seed of everything random.")]
Threads = Annotated[Whole, Field(ge=1, le=64, description="Threads of the solver.")]
Backend = Annotated[
    str,
    Field(description="Solver: auto for the formulation's own method, or highs, pyomo, cpsat."),
]


class Request(Part):
    """Base of all requests."""

    OPEN: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Fields that take documents of several kinds, and which."""


class SolveRequest(Request):
    """Solve a problem of any family, with a proof of how good the answer is."""

    OPEN: ClassVar[Mapping[str, Sequence[str]]] = {
        "instance": PROBLEM_KINDS,
        "warm_start": SOLUTION_KINDS,
    }

    instance: AnyProblemField = Field(
        description="The problem: an instance or a problem of any other family; or the id "
        "of a stored one."
    )
    formulation: str | None = Field(
        None,
        description="What is solved: a formulation by name; by default that of the problem, of "
        "an instance malleable.",
    )
    objective: str | None = Field(
        None, description="What to optimise; by default the formulation's own objective."
    )
    backend: Annotated[
        str,
        Field(description="auto or another method of the family, or highs, pyomo, cpsat."),
    ] = "auto"
    time_limit_s: TimeLimit = 60.0
    gap: Annotated[
        float,
        Field(ge=0, description="Relative gap at which to stop, where a method can stop early."),
    ] = OPTIMALITY_GAP
    seed: Seed = 0
    workers: Threads = 1
    warm_start: AnySolution | None = Field(None, description="A solution to start from.")


class PlaceRequest(Request):
    """Place a queue on a cluster as it stands."""

    instance: InstanceField = Field(description="Cluster, running jobs and queue.")
    topology: TopologyDocument | None = Field(
        None, description="A cluster instead of the instance's own."
    )
    goal: str = Field(
        "gpus_placed then moves",
        description="Objectives, for example `gpus_placed then moves` or `balance + 0.05 moves`.",
    )
    backend: Backend = "auto"
    move_budget: Annotated[Whole, Field(ge=0)] | None = Field(
        None, description="Running tasks that may move, at most; by default what the instance says."
    )
    evict: bool = Field(False, description="Whether running preemptible jobs may be stopped.")
    repair: bool = Field(False, description="Whether to fix violations already present as well.")
    time_limit_s: TimeLimit = 60.0
    seed: Seed = 0
    workers: Threads = 1


class ExplainRequest(Request):
    """Say why waiting jobs cannot start now, and what would let them."""

    instance: InstanceField = Field(description="Cluster, running jobs and queue.")
    topology: TopologyDocument | None = Field(
        None, description="A cluster instead of the instance's own."
    )
    job: str | None = Field(None, description="A waiting job; by default all of them.")
    moves: bool = Field(True, description="Whether to look for moves of running jobs that help.")
    time_limit_s: TimeLimit = 10.0


class CompareRequest(Request):
    """Run schedulers on instances, against the certified bound."""

    instances: list[InstanceField] = Field(
        min_length=1, max_length=_MAX_INSTANCES, description="The instances, all different."
    )
    schedulers: list[str] = Field(
        min_length=1, max_length=_MAX_SCHEDULERS, description="Names of schedulers."
    )
    seeds: Annotated[Whole, Field(ge=1, le=_MAX_SEEDS)] = Field(
        1, description="Simulations of each scheduler on each instance, with seeds from 0."
    )
    knowledge: Literal["exact", "estimate", "none"] = Field(
        "exact", description="What schedulers are told of the work of a job."
    )
    work_error: Annotated[float, Field(ge=0)] = Field(
        0.0, description="Largest relative error in the work that schedulers see."
    )
    speed_error: Annotated[float, Field(ge=0)] = Field(
        0.0, description="Largest relative error in the speeds that schedulers see."
    )
    objective: str = Field("weighted_jct", description="What the gap is about.")
    formulation: str = Field("malleable", description="What is solved for the bound.")
    backend: Backend = "auto"
    time_limit_s: TimeLimit = 60.0


def instance_of(part: InstanceDocument | str) -> Instance:
    """Return the instance that a field of a request stands for.

    Raises
    ------
    InstanceError
        If the instance contradicts itself, or no instance of that id is stored.
    """
    if not isinstance(part, str):
        instance: Instance = built(part)
        return instance
    from alloc.instances import load, manifest

    known = [entry.id for entry in manifest()]
    # Looked up, never opened: an id that is not in the manifest reaches no file.
    if part not in known:
        raise InstanceError(
            f'instance "{part}" is not stored with alloc{nearest(part, known) or ";"} '
            "/v1/instances lists the ids."
        )
    return load(part)


def asked_of(part: AnyProblem | str) -> Any:
    """Return the problem of any family that a field of a request stands for.

    Raises
    ------
    InstanceError
        If the problem contradicts itself, or none of that id is stored.
    """
    if not isinstance(part, str):
        return built(part)
    from alloc.instances.stored_planning import load_stored_planning, stored_planning_ids

    # Looked up among the ids, never opened: no text reaches a file.
    return load_stored_planning(part) if part in stored_planning_ids() else instance_of(part)


def problem_of(request: PlaceRequest | ExplainRequest) -> Instance:
    """Return the instance of a request, on the topology that it gives.

    Raises
    ------
    ProblemError
        If they contradict themselves or each other.
    """
    with blame("/instance"):
        problem = instance_of(request.instance)
    with blame("/topology"):
        topology = None if request.topology is None else topology_of(request.topology)
        return problem if topology is None else problem.replace(topology=topology)


def topology_of(part: TopologyDocument) -> Topology:
    """Return the topology of a document in a request."""
    topology: Topology = built(part)
    return topology


def require_scheduler(name: str, known: Collection[str]) -> None:
    """Refuse what is not the name of a scheduler: strangers may not have files here opened.

    Parameters
    ----------
    name
        What a request asks for.
    known
        Names of schedulers.

    Raises
    ------
    InstanceError
        If the name is none of those known.
    """
    if name not in known:
        raise InstanceError(
            f'unknown scheduler "{name}"{nearest(name, known) or ";"} '
            "/v1/schedulers lists the names."
        )
