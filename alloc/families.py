"""The registry of problem families: one line each, which every door reads.

A *family* is what is asked, its mathematics, and the ways to answer it. `alloc.solve`,
`alloc.verify`, ``alloc models``, the documents and the conformance tests find everything here; none
of them names a family by hand.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from alloc.certificate import Certificate
from alloc.errors import InstanceError, nearest
from alloc.family import AUTO as AUTO
from alloc.family import CURRENCY as CURRENCY
from alloc.family import FAMILIES as FAMILIES
from alloc.family import Family as Family
from alloc.family import kind_of_class as kind_of_class
from alloc.family import load as load
from alloc.objectives import (
    ADMISSION_OBJECTIVES,
    OBJECTIVES,
    PLACEMENT_OBJECTIVES,
    SCHEDULE_OBJECTIVES,
    RoundUtility,
)
from alloc.plugins import loaded
from alloc.verification.violation import Violation

INSTANCE = "alloc.problems.allocation.instance:Instance"
ALLOCATION, SCHEDULE = (
    "alloc.problems.allocation.solution:Allocation",
    "alloc.problems.allocation.solution:Schedule",
)
_MEASURE, _CHECKER = "alloc.objectives:objective", "alloc.verification:verify"

FAMILIES |= {
    f.name: f
    for f in (
        Family(
            name="round",
            code="F1",
            title="Round allocation: which configuration does each job get for the coming slot?",
            problem=INSTANCE,
            solution=ALLOCATION,
            solution_kind="solution",
            page="alloc.models.round",
            objective="progress",
            objectives=tuple(o.name for o in OBJECTIVES.values() if isinstance(o, RoundUtility)),
            models=("arrays", "pyomo", "cpsat"),
            methods={
                AUTO: "alloc.solving.round.method:solve_round",
                "partitioned": "alloc.solving.partitioned:round_in_parts",
            },
            approximate=("partitioned",),
            features=("refusal",),
            measure=_MEASURE,
            checker="alloc.verification.round:verify_round",
        ),
        Family(
            name="malleable",
            code="F2",
            title="Malleable jobs over time: who runs in which configuration in every slot?",
            problem=INSTANCE,
            solution=SCHEDULE,
            solution_kind="solution",
            page="alloc.models.malleable",
            objective="weighted_jct",
            objectives=tuple(o.name for o in SCHEDULE_OBJECTIVES),
            goals=True,
            models=("arrays", "pyomo", "cpsat"),
            methods={AUTO: "alloc.solving.malleable.method:solve_malleable"},
            default=True,
            measure=_MEASURE,
            checker=_CHECKER,
        ),
        Family(
            name="moldable",
            code="F3",
            title="Moldable gangs: which configuration, hosts and start does each job get, once?",
            problem=INSTANCE,
            solution=SCHEDULE,
            solution_kind="solution",
            page="alloc.models.moldable",
            objective="makespan",
            objectives=tuple(o.name for o in SCHEDULE_OBJECTIVES),
            goals=True,
            models=("arrays", "pyomo", "cpsat"),
            methods={AUTO: "alloc.solving.moldable.method:solve_moldable"},
            conflict="the hosts do not let all jobs run once within their deadlines and the "
            "horizon; add hosts, drop jobs, or move the limits",
            measure=_MEASURE,
            checker="alloc.verification.moldable:verify_moldable",
        ),
        Family(
            name="saturn-spase",
            code="F3",
            title="Saturn's SPASE as published: strategy, node, GPUs and start, makespan least",
            problem=INSTANCE,
            solution=SCHEDULE,
            solution_kind="solution",
            page="alloc.models.saturn_spase",
            objective="makespan",
            objectives=("makespan",),
            models=("pyomo",),
            conflict="the hosts do not let all jobs run once within their deadlines and the "
            "horizon; add hosts, drop jobs, or move the limits",
            measure=_MEASURE,
            checker="alloc.verification.moldable:verify_moldable",
        ),
        Family(
            name="admission",
            code="F6",
            title="Admission: which jobs with deadlines to accept, and who runs when?",
            problem=INSTANCE,
            solution=SCHEDULE,
            solution_kind="solution",
            page="alloc.models.admission",
            objective="value",
            objectives=tuple(o.name for o in ADMISSION_OBJECTIVES),
            goals=True,
            models=("arrays", "pyomo"),
            methods={AUTO: "alloc.solving.admission.method:solve_admission"},
            features=("refusal",),
            conflict="the jobs that may not be refused cannot all complete by their deadlines and "
            "the horizon; let some be refused, move limits, or add hosts",
            measure=_MEASURE,
            checker=_CHECKER,
        ),
        Family(
            name="placement",
            code="F4",
            title="Gang placement: which jobs run, and on which hosts do their tasks stand?",
            problem=INSTANCE,
            solution=ALLOCATION,
            solution_kind="solution",
            page="alloc.models.placement",
            objective="gpus_placed",
            objectives=tuple(o.name for o in PLACEMENT_OBJECTIVES),
            models=("arrays", "pyomo", "cpsat"),
            methods={
                AUTO: "alloc.solving.placement.method:solve_placement",
                "partitioned": "alloc.solving.partitioned:place_in_parts",
            },
            approximate=("partitioned",),
            features=(
                "placement rules",
                "GPU memory",
                "affinities",
                "moves",
                "borrowing",
                "refusal",
            ),
            goals=True,
            conflict="capacity, placement rules and the jobs that must keep running together leave "
            "no placement; allow moves or evictions, relax a rule or add hosts",
            measure=_MEASURE,
            checker="alloc.verification:verify_placement",
        ),
        Family(
            name="sharing",
            code="F5",
            title="GPU sharing: which shares, MIG slices and whole GPUs does every GPU hold?",
            problem=INSTANCE,
            solution=ALLOCATION,
            solution_kind="solution",
            page="alloc.models.sharing",
            objective="weight_placed",
            objectives=("weight_placed", "gpus_placed", "gpus_used", "reconfigurations"),
            models=("arrays", "pyomo"),
            methods={AUTO: "alloc.solving.sharing.method:solve_sharing"},
            features=("MIG slices", "GPU memory", "refusal"),
            conflict="the GPUs, CPU, memory and quotas do not hold all jobs at once; take the "
            "objective weight_placed, which chooses, or add hosts",
            measure=_MEASURE,
            checker=_CHECKER,
        ),
        Family(
            name="right_sizing",
            code="F7",
            title="Right-sizing: which hosts to buy, reserve and rent for a forecast?",
            problem="alloc.problems.right_sizing.problem:PlanningProblem",
            solution="alloc.problems.right_sizing.plan:Plan",
            kind="planning",
            page="alloc.models.right_sizing",
            objective="cost",
            objectives=("cost",),
            measure="alloc.verification.right_sizing:objective",
            checker="alloc.verification.right_sizing:verify_plan",
            units={"cost": CURRENCY},
            models=("arrays", "pyomo"),
            methods={
                AUTO: "alloc.solving.right_sizing.method:solve_right_sizing",
                "extensive": "alloc.solving.right_sizing.method:by_extensive_form",
                "decomposition": "alloc.solving.right_sizing.method:by_decomposition",
            },
            takes_hints=True,
            conflict="no plan keeps every limit and goal",
        ),
        Family(
            name="operation",
            code="F7",
            title="Operation: which nodes are on, and which job runs on how many GPUs of which?",
            problem="alloc.problems.operation.problem:OperationProblem",
            solution="alloc.problems.operation.problem:OperationPlan",
            kind="operation",
            report="alloc.problems.operation.report:OperationReport",
            page="alloc.models.operation",
            objective="operation-cost",
            objectives=("operation-cost", "expected-operation-cost"),
            measure="alloc.verification.operation:objective",
            checker="alloc.verification.operation:verify_operation",
            units={"operation-cost": CURRENCY, "expected-operation-cost": CURRENCY},
            models=("arrays", "pyomo"),
            methods={AUTO: "alloc.solving.operation.method:by_aggregation"},
        ),
        Family(
            name="inference_sizing",
            code="F7",
            title="Inference: how many replicas of which option serve the requests in time?",
            problem="alloc.problems.inference_sizing.problem:InferenceProblem",
            solution="alloc.problems.inference_sizing.plan:InferencePlan",
            report="alloc.problems.inference_sizing.report:InferenceReport",
            page="alloc.models.inference_sizing",
            objective="cost",
            objectives=("cost",),
            measure="alloc.verification.inference_sizing:objective",
            checker="alloc.verification.inference_sizing:verify_inference",
            units={"cost": CURRENCY},
            models=("arrays", "pyomo"),
            methods={
                AUTO: "alloc.solving.inference_sizing.method:by_mixes",
                "columns": "alloc.solving.inference_sizing.method:by_columns",
            },
            conflict="no replicas on the pools serve every request within its goals",
        ),
        Family(
            name="colocation",
            code="F5",
            title="Co-location: which jobs that slow each other down share a GPU?",
            problem="alloc.problems.colocation:ColocationProblem",
            solution="alloc.problems.colocation:Packing",
            page="alloc.models.colocation",
            objective="speed",
            objectives=("speed",),
            measure="alloc.verification.colocation:objective",
            checker="alloc.verification.colocation:verify_packing",
            models=("arrays", "pyomo"),
            methods={AUTO: "alloc.solving.colocation.method:pack"},
        ),
        Family(
            name="rank_mapping",
            code="F4",
            title="Rank mapping: which GPU of its placement runs which rank of a job?",
            problem="alloc.problems.rank_mapping:RankMappingProblem",
            solution="alloc.problems.rank_mapping:RankMapping",
            page="alloc.models.rank_mapping",
            objective="",
            objectives=("step", "transfer"),
            measure="alloc.verification.rank_mapping:objective",
            checker="alloc.verification.rank_mapping:verify_mapping",
            units={"step": "s", "transfer": "s"},
            methods={AUTO: "alloc.solving.rank_mapping.method:solve_mapping"},
        ),
        Family(
            name="quadratic_assignment",
            code="F4",
            title="Quadratic assignment: who goes where, when the cost lies between pairs?",
            problem="alloc.problems.quadratic_assignment:QuadraticAssignment",
            solution="numpy:ndarray",
            solution_kind="permutation",
            page="alloc.models.quadratic_assignment",
            objective="cost",
            objectives=("cost",),
            measure="alloc.verification.quadratic_assignment:objective",
            checker="alloc.verification.quadratic_assignment:verify_permutation",
            models=("pyomo", "cpsat"),
            methods={AUTO: "alloc.solving.quadratic_assignment.method:assign"},
        ),
        Family(
            name="checkpointing",
            code="F12",
            title="Checkpointing: after which phases is the state of a run saved?",
            problem="alloc.problems.checkpointing:CheckpointProblem",
            solution="alloc.problems.checkpointing:CheckpointPlan",
            page="alloc.models.checkpointing",
            objective="expected_time",
            objectives=("expected_time",),
            measure="alloc.verification.checkpointing:objective",
            checker="alloc.verification.checkpointing:verify_checkpoints",
            units={"expected_time": "s"},
            models=("arrays", "pyomo"),
            methods={AUTO: "alloc.solving.checkpointing:save_points"},
        ),
        Family(
            name="project",
            code="F9",
            title="Projects: when, and in which mode, does each activity of a job's graph run?",
            problem="alloc.problems.project:ProjectProblem",
            solution="alloc.problems.project:ProjectPlan",
            page="alloc.models.project",
            objective="makespan",
            objectives=("makespan", "weighted_jct", "weighted_tardiness"),
            measure="alloc.verification.project:objective",
            checker="alloc.verification.project:verify_project",
            units={"makespan": "s", "weighted_jct": "s", "weighted_tardiness": "s"},
            models=("pyomo", "cpsat"),
            methods={AUTO: "alloc.solving.project.method:schedule_project"},
            conflict="the budgets do not let every activity run in some mode; raise one, or add "
            "modes",
        ),
        Family(
            name="stages",
            code="F9",
            title="Stages: when, in which configuration and on which hosts does each stage run?",
            problem=INSTANCE,
            solution=SCHEDULE,
            solution_kind="solution",
            page="alloc.models.stages",
            objective="weighted_jct",
            objectives=("weighted_jct", "mean_jct", "makespan", "tardiness"),
            methods={AUTO: "alloc.solving.stages:solve_stages"},
            features=("stages", "moving GPUs"),
            measure=_MEASURE,
            checker=_CHECKER,
        ),
        Family(
            name="pipeline",
            code="F9",
            title="Pipeline: which consecutive layers of a model does each device run?",
            problem="alloc.problems.pipeline.problem:PipelineProblem",
            solution="alloc.problems.pipeline.problem:PipelinePlan",
            page="alloc.models.pipeline",
            objective="bottleneck",
            objectives=("bottleneck",),
            measure="alloc.verification.pipeline:objective",
            checker="alloc.verification.pipeline:verify_pipeline",
            units={"bottleneck": "s"},
            models=("arrays", "pyomo"),
            methods={AUTO: "alloc.solving.pipeline:cut_layers"},
            conflict="the layers do not fit in the memory of the devices, whatever the cuts",
        ),
        Family(
            name="quota_planning",
            code="F7",
            title="Quotas: which GPUs is each tenant guaranteed, and who may borrow them?",
            problem="alloc.problems.quota_planning.problem:QuotaProblem",
            solution="alloc.problems.quota_planning.problem:QuotaPlan",
            report="alloc.problems.quota_planning.report:QuotaReport",
            page="alloc.models.quota_planning",
            objective="",
            objectives=("expected_shortfall", "fair_service", "fair_coverage", "least_quota"),
            measure="alloc.verification.quota_planning:objective",
            checker="alloc.verification.quota_planning:verify_quota_plan",
            units={"expected_shortfall": "GPU h"},
            models=("arrays", "pyomo"),
            methods={
                AUTO: "alloc.solving.quota_planning.method:by_arrays",
                "highs": "alloc.solving.quota_planning.method:by_arrays",
                "pyomo": "alloc.solving.quota_planning.method:by_pyomo",
            },
        ),
    )
}
"""Every family by name; a problem of several families is one of the first that is asked for."""


def _admit(family: Family) -> None:
    """Take in a family that a package announces, and every door knows it.

    A kind of document that is another's would make that one unreadable: it is left out.
    """
    # A result calls its solution by its class where several classes have one kind of documents.
    names = {"result", "topology", *(kind_of_class(f.solution) for f in FAMILIES.values())}
    known = {document for f in FAMILIES.values() for document in f.documents.items()}
    names |= {kind for kind, _ in known}
    taken = [kind for kind, code in set(family.documents.items()) - known if kind in names]
    if taken:
        warnings.warn(
            f'alloc.families: "{family.name}" calls its documents "{taken[0]}", as others are '
            "called; name another kind in the Family.",
            stacklevel=2,
        )
    else:
        FAMILIES[family.name] = family


for _family in loaded("alloc.families", Family, FAMILIES).values():
    _admit(_family)


def family_of(problem: Any, name: str | None = None) -> Family:
    """Return the family that answers a problem.

    Parameters
    ----------
    problem
        The problem.
    name
        Name of a family, or None for the default of the problem's type.

    Raises
    ------
    InstanceError
        If there is no family of that name, or none for such a problem.
    """
    if name is None:
        found = [f for f in FAMILIES.values() if f.takes(problem)]
        if not found:
            raise InstanceError(
                f"{type(problem).__name__} is the problem of no family; give one of: "
                f"{', '.join(_kinds(FAMILIES.values()))}."
            )
        own = {"stages", "moving GPUs"} & {*getattr(problem, "features", ())}
        if own:
            # Questions of their own, which no other family of instances takes.
            found = [f for f in found if own <= {*f.features}]
        return next((f for f in found if f.default), found[0])
    chosen = require_family(name)
    if not chosen.takes(problem):
        family_of(problem)  # of no family at all: that is said instead
        raise InstanceError(
            f'family "{name}" is for {_kinds([chosen])[0]}, and this is of type '
            f"{type(problem).__name__}; name one of: "
            f"{', '.join(f.name for f in FAMILIES.values() if f.takes(problem))}."
        )
    return chosen


def _kinds(families: Iterable[Family]) -> list[str]:
    return list(dict.fromkeys(f.problem.split(":")[1] for f in families))


def instance_families() -> dict[str, Family]:
    """Return the families that an instance is a problem of, by name."""
    return {name: family for name, family in FAMILIES.items() if family.problem == INSTANCE}


def require_family(name: str) -> Family:
    """Return the family of that name.

    Raises
    ------
    InstanceError
        If there is none.
    """
    if name not in FAMILIES:
        raise InstanceError(
            f'unknown family "{name}"{nearest(name, FAMILIES, ".")} Known: {", ".join(FAMILIES)}.'
        )
    return FAMILIES[name]


def family_of_result(problem: Any, certificate: Certificate) -> Family:
    """Return the family that a certificate of a problem is of.

    Parameters
    ----------
    problem
        The problem.
    certificate
        What is claimed about an answer to it. Where it names no family that takes the problem, that
        of the problem is returned.
    """
    name = certificate.formulation
    known = name in FAMILIES and FAMILIES[name].takes(problem)
    return FAMILIES[name] if known else family_of(problem)


def verify(problem: Any, solution: Any, family: str | None = None) -> list[Violation]:
    """Check a solution against every rule of its problem, whatever its family.

    Parameters
    ----------
    problem
        What was asked.
    solution
        An answer to it, whoever made it.
    family
        Name of the family whose rules are asked for; None: the default for the problem. Some have
        rules of their own: a placement, for one, keeps the jobs that run (``"placement"``).

    Returns
    -------
    list of Violation
        Empty when the solution is feasible. No solver is asked, and nothing that one said is
        believed.
    """
    return family_of(problem, family).check(problem, solution)
