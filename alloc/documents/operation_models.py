"""The structure of documents of operation: decisions, plans and their results."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from alloc.capacity.operation import Accounting, NodeType, OperationJob, OperationProblem
from alloc.documents.models import CertificatePart, Document, Part, Whole


class NodeTypePart(Part):
    """What a node can be while it is on."""

    name: str = Field(description="Unique name.")
    num_gpus: Whole = Field(description="GPUs of the node, 1 to 64.")
    price_per_h: list[float] = Field(
        list(NodeType.price_per_h),
        description="Money per hour with 1, 2, ... GPUs in use, never falling; empty: no price.",
    )
    power_w: list[float] = Field(
        list(NodeType.power_w),
        description="Watts with 1, 2, ... GPUs in use, never falling; empty: not modelled.",
    )
    currency: str = Field(NodeType.currency, description="Currency of the price.")


class NodePoolPart(Part):
    """Identical nodes."""

    name: str = Field(description="Unique name; its nodes are name-0, name-1 ...")
    count: Whole = Field(description="Number of nodes, 1 or more.")
    types: list[str] = Field(description="Names of the types that each node can be switched on as.")


class EarlyStopPart(Part):
    """A chance that a job ends before its work is done."""

    fraction: float = Field(description="Part of the work after which it may end, 0 to 1.")
    probability: float = Field(description="Chance that it ends just then, seen from now.")


class OperationJobPart(Part):
    """A job that runs on one node."""

    id: str = Field(description="Unique name.")
    duration_s: dict[str, list[float | None]] = Field(
        description="By type of node, seconds of the remaining work on 1, 2, ... GPUs; null where "
        "it cannot run."
    )
    due_date_s: float = Field(description="Completion beyond it is tardiness, seconds.")
    tardiness_cost_per_h: float = Field(description="Money per hour of tardiness, 0 or more.")
    arrival_s: float = Field(OperationJob.arrival_s, description="When it was submitted, seconds.")
    restart_s: float = Field(
        OperationJob.restart_s,
        description="Seconds lost at first unless it goes on as it runs now.",
    )
    stops: list[EarlyStopPart] = Field([], description="Chances that it ends early, in order.")


class RunningJobPart(Part):
    """A job that runs now."""

    job: str = Field(description="Id of the job.")
    node: str = Field(description="Id of the node.")
    type: str = Field(description="What the node is switched on as.")
    gpus: Whole = Field(description="GPUs that the job holds.")


class OperationDocument(Document):
    """A decision in operation: nodes, jobs, what runs now, and what counts."""

    kind: Literal["operation"] = Field(description="What the document holds.")
    name: str = Field(description="Name for people.")
    types: list[NodeTypePart] = Field(description="The types of nodes, names unique.")
    pools: list[NodePoolPart] = Field(description="The nodes, names of pools unique.")
    jobs: list[OperationJobPart] = Field(description="The jobs that are not complete, ids unique.")
    now_s: float = Field(OperationProblem.now_s, description="Time of the decision, seconds.")
    replan_s: float = Field(
        OperationProblem.replan_s, description="Time to the next decision at the latest, seconds."
    )
    postponement_factor: float = Field(
        OperationProblem.postponement_factor,
        description="Weight of the tardiness to be feared of jobs that wait, 0 or more.",
    )
    currency: str = Field(OperationProblem.currency, description="Currency of all money.")
    energy_price_per_kwh: float = Field(
        OperationProblem.energy_price_per_kwh, description="Money per kWh, 0 or more."
    )
    power_cap_w: float | None = Field(
        OperationProblem.power_cap_w, description="Most power of all nodes, watts; null: none."
    )
    running: list[RunningJobPart] = Field([], description="What runs now.")
    accounting: Accounting = Field(
        OperationProblem.accounting,
        description="What a plan is charged for its nodes: until the first completion, or each "
        "job its share until it completes.",
    )


class NodePlanPart(Part):
    """A node that is on."""

    node: str = Field(description="Id of the node.")
    type: str = Field(description="What it is switched on as.")
    jobs: dict[str, Whole] = Field(description="GPUs of each job on it, by id.")


class OperationPlanPart(Part):
    """What is on and what runs until the next decision."""

    nodes: list[NodePlanPart] = Field(description="The nodes that are on.")
    postponed: list[str] = Field([], description="Ids of the jobs that wait.")


class OperationPlanDocument(Document, OperationPlanPart):
    """A plan of alloc for a decision in operation."""

    kind: Literal["operation_plan"] = Field(description="What the document holds.")


class OperationCostsPart(Part):
    """What a plan costs, part by part."""

    operating: float = Field(description="What its nodes are charged, money.")
    tardiness: float = Field(description="Of the jobs that run, money.")
    postponement: float = Field(description="Of the jobs that wait, money.")
    power_w: float = Field(description="Power that the plan draws at first, watts.")


class OperationResultDocument(Document):
    """A result of a decision in operation: a plan with its costs and certificate."""

    kind: Literal["operation_result"] = Field(description="What the document holds.")
    plan: OperationPlanPart = Field(description="The plan.")
    costs: OperationCostsPart = Field(description="Its costs, as the judge recomputes them.")
    certificate: CertificatePart = Field(description="What is proved about it.")
    log: list[str] = Field([], description="What the method reports, one line a step.")
