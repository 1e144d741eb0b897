"""The structure of every document: pydantic models, from which the JSON Schema is made.

The models say which fields there are and of what JSON type they are. Ranges are stated for people
only: the checks are those of the dataclasses, so that a document and a program hear the same
sentence. Defaults are the dataclasses' own.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    Tag,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError

from alloc.certificate import BoundProof, Certificate, Limit, Status
from alloc.instance import Moves, Tenant
from alloc.objectives import Sense
from alloc.topology import HostType
from alloc.workload import Configuration, Elasticity, Job, PlacementRules, TaskGroup

SCHEMA_VERSION = 1
"""Version of the format of documents; a change that older readers would misread raises it."""

INFINITIES = {"inf": math.inf, "-inf": -math.inf}
"""How documents write the infinities that a certificate may hold; JSON has no number for them."""

# Tags of the two ways to write a job's configurations; pydantic puts them in error locations.
BY_NAME, INLINE = "<name>", "<list>"

_CONTAINERS = ("list", "tuple", "dict")
"""Types of core schemas that hold any number of items."""


def _whole(value: Any) -> Any:
    """Take 4.0 for 4: JSON Schema and many writers of JSON make no difference."""
    if type(value) is float and value.is_integer():
        return int(value)
    return value


def _infinite(value: Any) -> Any:
    """Take the words for infinity; 1e400, which JSON readers also turn into one, is a mistake."""
    if type(value) is str and value in INFINITIES:
        return INFINITIES[value]
    if type(value) is float and not math.isfinite(value):
        raise PydanticCustomError("quoted_infinity", "Input should be a finite number")
    return value


def _way_to_write(configurations: Any) -> str | None:
    if isinstance(configurations, str):
        return BY_NAME
    return INLINE if isinstance(configurations, list) else None


# 64 bits: what the integer arrays behind the models hold.
Whole = Annotated[int, Field(ge=-(2**63), le=2**63 - 1), BeforeValidator(_whole)]
Extended = Annotated[
    float,
    Field(allow_inf_nan=True),
    BeforeValidator(_infinite),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": list(INFINITIES)}]}),
]


def _stop_at_first(schema: Any) -> None:
    """Let every list, tuple and mapping in a schema fail with its first bad item."""
    if isinstance(schema, dict):
        if schema.get("type") in _CONTAINERS:
            schema["fail_fast"] = True
        inner: Any = schema.values()
    elif isinstance(schema, list | tuple):
        inner = schema
    else:
        return
    for value in inner:
        _stop_at_first(value)


class Part(BaseModel):
    """Base of all parts: no unknown fields, no conversions (``"3"`` is no number), no NaN.

    Of a list or a mapping only the first bad item is reported: a hostile document of 1 MB would
    otherwise make millions of errors, and gigabytes of them.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return pydantic's schema, in which containers stop at the first bad item."""
        schema = handler(source)
        _stop_at_first(schema)
        return schema


class GpuLinkPart(Part):
    """A link between two devices inside a host."""

    a: str = Field(description="Device within the host: gpu0, nvswitch0, numa0, nic0 ...")
    b: str = Field(description="The other device.")
    kind: str = Field(description="nvlink, nvswitch, pcie, upi ...")
    bandwidth_gb_per_s: float = Field(
        description="Bandwidth in one direction, GB/s, more than 0.",
    )


class HostTypePart(Part):
    """A kind of server: what one host offers and how its devices are wired."""

    name: str = Field(description="Unique name, not empty.")
    num_gpus: Whole = Field(HostType.num_gpus, description="Whole GPUs per host, 0 or more.")
    gpu_type: str | None = Field(
        HostType.gpu_type, description="Name of the GPU type; null for hosts without GPUs."
    )
    cpu_milli: Whole = Field(
        HostType.cpu_milli, description="CPU for jobs, milli-cores (1000 = one core), 0 or more."
    )
    memory_mib: Whole = Field(
        HostType.memory_mib, description="Host memory for jobs, MiB, 0 or more."
    )
    links: list[GpuLinkPart] = Field([], description="Links between the devices of the host.")


class HostPart(Part):
    """A server."""

    id: str = Field(description="Unique among hosts and domains.")
    type: str = Field(description="Name of one of host_types.")
    domain: str | None = Field(None, description="Id of the innermost domain it stands in.")


class DomainPart(Part):
    """A network or failure domain: a site, pod, rack, NVLink domain ..."""

    id: str = Field(description="Unique among hosts and domains.")
    level: str = Field(description="One of levels.")
    parent: str | None = Field(None, description="Id of the domain it lies in; null at the top.")


class NetworkLinkPart(Part):
    """A link of the fabric between two nodes of the topology."""

    a: str = Field(description="Id of a host or domain, or a device as host/device.")
    b: str = Field(description="The other end.")
    bandwidth_gb_per_s: float = Field(description="Bandwidth in one direction, GB/s, more than 0.")


class TopologyPart(Part):
    """A cluster: hosts in nested domains, joined by links."""

    name: str = Field(description="Name for people.")
    host_types: list[HostTypePart] = Field(description="The kinds of servers, names unique.")
    hosts: list[HostPart] = Field(description="The servers, at least one.")
    levels: list[str] = Field(
        [], description="Domain levels, outermost first, without host and gpu."
    )
    domains: list[DomainPart] = Field([], description="The domains of those levels.")
    links: list[NetworkLinkPart] = Field([], description="Links of the fabric.")


class TaskGroupPart(Part):
    """Identical tasks of one role."""

    role: str = Field(description='What the tasks do, for example "worker" or "ps"; not empty.')
    count: Whole = Field(description="Number of tasks, 1 or more.")
    gpu_milli: Whole = Field(
        TaskGroup.gpu_milli,
        description="GPU of one task, milli-GPU (1000 = one GPU): 0, a share from 10 to 999, or "
        "whole GPUs as a multiple of 1000, all on one host.",
    )
    cpu_milli: Whole = Field(
        TaskGroup.cpu_milli, description="CPU of one task, milli-cores (1000 = one core)."
    )
    memory_mib: Whole = Field(TaskGroup.memory_mib, description="Host memory of one task, MiB.")
    gpu_memory_mib: Whole = Field(
        TaskGroup.gpu_memory_mib,
        description="GPU memory of one task on each GPU that it holds or shares, MiB; 0: no "
        "statement.",
    )
    mig_profile: str | None = Field(
        TaskGroup.mig_profile,
        description='MIG slice of one task, for example "3g.20gb"; gpu_milli is then 0.',
    )


class ConfigurationPart(Part):
    """One way to run a job: its tasks and the rate at which they get work done."""

    tasks: list[TaskGroupPart] = Field(
        description="Task groups, at least one, at most one per role; all run, or none."
    )
    rate: float = Field(description="Work units per second, 0 or more.")
    gpu_type: str | None = Field(
        Configuration.gpu_type, description="GPU type that the tasks' hosts must have."
    )
    within: str | None = Field(
        Configuration.within,
        description='Level ("host" or one of levels) that must hold all tasks in one domain.',
    )


class SlicePart(Part):
    """Tasks that belong together: every `size` of them stand in one domain of the level."""

    level: str = Field(description='Level whose domains hold the slices, "host" included.')
    size: Whole = Field(description="Tasks in a slice, 1 or more; it divides their number.")


class SpreadPart(Part):
    """At most so many tasks of the job in any one domain of the level."""

    level: str = Field(description='Level, "host" included.')
    most: Whole = Field(description="Most tasks per domain, 1 or more.")


class PlacementRulesPart(Part):
    """Rules about the domains that the tasks of a job stand in."""

    required: str | None = Field(
        PlacementRules.required, description="Level that must hold all tasks in one domain."
    )
    preferred: str | None = Field(
        PlacementRules.preferred, description="Level that should hold all tasks in one domain."
    )
    slices: list[SlicePart] = Field(
        [], description="Nested slices, coarsest first; each size divides the one before it."
    )
    spread: list[SpreadPart] = Field([], description="Limits on the tasks per domain.")


_NO_RULES = PlacementRulesPart.model_validate({})


class JobPart(Part):
    """A training job."""

    id: str = Field(description="Unique name, not empty.")
    arrival_s: float = Field(
        description="Arrival, seconds since the start of the instance, 0 or more."
    )
    work: float = Field(description="Total work, work units of the rates, more than 0.")
    configurations: Annotated[
        Annotated[str, Tag(BY_NAME)] | Annotated[list[ConfigurationPart], Tag(INLINE)],
        Discriminator(_way_to_write),
    ] = Field(description="Name of one of configuration_sets, or a list of configurations.")
    weight: float = Field(Job.weight, description="Importance, more than 0.")
    deadline_s: float | None = Field(
        Job.deadline_s, description="Hard limit on the completion, seconds since the start."
    )
    due_date_s: float | None = Field(
        Job.due_date_s,
        description="Soft limit on the completion, seconds since the start; later is tardiness.",
    )
    tenant: str | None = Field(Job.tenant, description="Tenant whose quota the job uses.")
    elasticity: Elasticity = Field(
        Job.elasticity,
        description="malleable: may change its configuration while it runs; moldable: chooses one "
        "and keeps it; rigid: has exactly one.",
    )
    preemptible: bool = Field(
        Job.preemptible, description="Whether the job may be paused after it has started."
    )
    restart_cost_s: float = Field(
        Job.restart_cost_s,
        description="Seconds without progress at each resumption or move, 0 or more.",
    )
    work_done: float = Field(
        Job.work_done,
        description="Work already done at the start, work units, at least 0, less than work.",
    )
    model: str | None = Field(Job.model, description='What is trained, for example "resnet-50".')
    placement: PlacementRulesPart = Field(
        # A default would be copied, in depth, for every job that has no rules.
        default_factory=lambda: _NO_RULES,
        description="Rules about the domains that its tasks stand in.",
        json_schema_extra={"default": _NO_RULES.model_dump(mode="json")},
    )


class TenantPart(Part):
    """A tenant and its quota."""

    name: str = Field(description="Unique name.")
    gpu_quota_milli: Whole = Field(
        description="Most GPU that its jobs may hold at any time without borrowing, milli-GPU."
    )
    cohort: str | None = Field(
        Tenant.cohort,
        description="Tenants of one cohort lend each other what they leave idle; null: none.",
    )
    borrowing_milli: Whole = Field(
        Tenant.borrowing_milli,
        description="Most GPU beyond its quota that it may borrow from its cohort, milli-GPU.",
    )


class AffinityPart(Part):
    """Jobs that stand together or apart."""

    kind: Literal["together", "apart"] = Field(
        description="together: their tasks stand in one domain of the level; apart: no domain of "
        "the level holds tasks of two of them."
    )
    level: str = Field(description='Level, "host" included.')
    jobs: list[str] = Field(description="Ids of the jobs, two or more.")


class MovesPart(Part):
    """What an allocation may do to the jobs that run."""

    budget: Whole | None = Field(
        Moves.budget, description="Most tasks that may move; null: any number; 0 pins all."
    )
    evict: bool = Field(Moves.evict, description="Whether running preemptible jobs may be stopped.")


class TaskPlacementPart(Part):
    """Tasks of one role of a job on one host."""

    host: str = Field(description="Host id.")
    role: str = Field(description="Role of the tasks.")
    count: Whole = Field(description="Number of tasks, 1 or more.")
    gpus: list[Whole] = Field(
        [],
        description="For tasks that share a GPU or hold a MIG slice, the position on the host "
        "(from 0) of each task's GPU; otherwise empty.",
    )
    starts: list[Whole] = Field(
        [],
        description="For tasks with a MIG slice, the memory slice (from 0) at which each begins; "
        "otherwise empty.",
    )


class AssignmentPart(Part):
    """A job in one of its configurations on hosts."""

    job: str = Field(description="Job id.")
    configuration: Whole = Field(
        description="Position in the job's configurations, counted from 0."
    )
    tasks: list[TaskPlacementPart] = Field([], description="Where its tasks are.")


class RunPart(Part):
    """A stretch of time in which a job keeps a configuration and hosts."""

    job: str = Field(description="Job id.")
    configuration: Whole = Field(
        description="Position in the job's configurations, counted from 0."
    )
    start_s: float = Field(description="Start, seconds since the start of the instance.")
    end_s: float = Field(description="End, seconds since the start of the instance.")
    tasks: list[TaskPlacementPart] = Field([], description="Where its tasks are.")


class AllocationPart(Part):
    """The decision of one round: which jobs run, how and where."""

    type: Literal["allocation"] = Field(description="Kind of solution.")
    assignments: list[AssignmentPart] = Field(description="At most one per job.")
    unplaced: dict[str, str] = Field({}, description="For jobs that do not run, the reason.")


class SchedulePart(Part):
    """A plan over time: the runs of every job."""

    type: Literal["schedule"] = Field(description="Kind of solution.")
    runs: list[RunPart] = Field(description="The runs, in any order.")
    unplaced: dict[str, str] = Field({}, description="For jobs that never run, the reason.")


class CertificatePart(Part):
    """What is claimed about an answer, and on whose word."""

    status: Status = Field(
        description="optimal: gap at most 1e-6; feasible: an answer with a larger gap; infeasible: "
        "proved that there is none; no_solution: none found, nothing proved."
    )
    objective: Extended | None = Field(
        description="Value of the answer as the judge recomputed it; null without an answer; "
        '"inf" if a job that counts never completes.'
    )
    bound: Extended = Field(
        description='Proved bound on every solution\'s value; "-inf" (minimisation) or "inf" when '
        "nothing is proved."
    )
    sense: Sense = Field(description="Whether less or more is better.")
    objective_name: str = Field(description="Name of the objective.")
    formulation: str = Field(description="What was solved.")
    backend: str = Field(description="By what.")
    backend_version: str = Field(description="Version of the backend.")
    seed: Whole = Field(description="Random seed of the solver.")
    workers: Whole = Field(description="Threads of the solver.")
    seconds: float = Field(description="Wall time from the call to the answer, seconds.")
    fingerprint: str = Field(description="Fingerprint of the instance, SHA-256 in hexadecimal.")
    limit: Limit | None = Field(
        Certificate.limit, description="Why the search stopped early; null if it did not."
    )
    verified: bool = Field(
        Certificate.verified,
        description="Whether the judge recomputed every constraint and the objective.",
    )
    bound_proof: BoundProof = Field(
        Certificate.bound_proof,
        description="recomputed: evaluated again from multipliers; confirmed: a second run, "
        "or a second solver, proves it too; claimed: the solver's word; none: there is no bound.",
    )


class Document(Part):
    """Base of the documents: what every one of them starts with."""

    schema_version: Literal[1] = Field(description="Version of the format of documents.")


class InstanceDocument(Document):
    """A scheduling instance of alloc: a cluster, its jobs and the rules of time."""

    kind: Literal["instance"] = Field(description="What the document holds.")
    name: str = Field(description="Name for people.")
    topology: TopologyPart = Field(description="The cluster.")
    jobs: list[JobPart] = Field(description="The jobs, at least one, ids unique.")
    configuration_sets: dict[str, list[ConfigurationPart]] = Field(
        {}, description="Lists of configurations that jobs share, by name."
    )
    slot_s: float | None = Field(
        None, description="Length of a slot, seconds, more than 0; null for continuous time."
    )
    horizon_s: float | None = Field(
        None, description="Time by which every job must be complete, seconds; null: open end."
    )
    tenants: list[TenantPart] = Field([], description="Tenants with quotas, names unique.")
    running: list[AssignmentPart] = Field([], description="What ran just before the start.")
    affinities: list[AffinityPart] = Field([], description="Jobs that stand together or apart.")
    moves: MovesPart | None = Field(
        None,
        description="What an allocation may do to the jobs in running; null: anything, as if none "
        "of them ran.",
    )
    description: dict[str, str] = Field(
        {}, description="Where the instance comes from; not part of the problem."
    )


class TopologyDocument(Document, TopologyPart):
    """A cluster of alloc: hosts in nested domains, joined by links."""

    kind: Literal["topology"] = Field(description="What the document holds.")


class AllocationDocument(Document, AllocationPart):
    """A solution of alloc: the decision of one round."""

    kind: Literal["solution"] = Field(description="What the document holds.")


class ScheduleDocument(Document, SchedulePart):
    """A solution of alloc: a plan over time."""

    kind: Literal["solution"] = Field(description="What the document holds.")


class ResultDocument(Document):
    """A result of alloc: an answer with its certificate."""

    kind: Literal["result"] = Field(description="What the document holds.")
    solution: Annotated[AllocationPart | SchedulePart, Discriminator("type")] | None = Field(
        description="The best solution found, or null."
    )
    certificate: CertificatePart = Field(description="What is proved about it.")
    log: list[str] = Field([], description="What the method reports, one line a step.")
    conflict: str | None = Field(
        None, description="For an infeasible instance, the requirements in conflict."
    )
    stages: list[CertificatePart] = Field(
        [], description="For a goal of several levels, the certificate of each."
    )


SolutionDocument = Annotated[AllocationDocument | ScheduleDocument, Discriminator("type")]

Kind = Literal[
    "instance",
    "solution",
    "result",
    "topology",
    "planning",
    "plan",
    "plan_result",
    "operation",
    "operation_plan",
    "operation_result",
]
