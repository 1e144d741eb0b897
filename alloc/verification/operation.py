"""The checker of plans in operation: rules and costs, recomputed from the problem alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

from alloc.errors import InstanceError, nearest
from alloc.objectives import Measure, Value
from alloc.problems.operation.problem import (
    NodePlan,
    OperationJob,
    OperationPlan,
    OperationProblem,
)
from alloc.problems.operation.report import OperationCosts
from alloc.units import HOUR_S
from alloc.verification.violation import Violation

OBJECTIVES = {
    "operation-cost": "nodes, tardiness and postponement if every job does all its work",
    "expected-operation-cost": "the same with each job's mean duration and mean tardiness over its "
    "chances to stop early",
}
"""What a plan can be judged by; less is better."""

_TOLERANCE = 1e-9
"""Share of the cap that rounding may add: a sum over a million nodes errs by less."""


def require_operation_objective(name: str) -> str:
    """Return the name of an objective.

    Raises
    ------
    InstanceError
        If there is none of that name.
    """
    if name not in OBJECTIVES:
        raise InstanceError(
            f'unknown objective "{name}"{nearest(name, OBJECTIVES, ".")} '
            f"Known: {', '.join(OBJECTIVES)}."
        )
    return name


def objective(name: str) -> Measure:
    """Return an objective of `OBJECTIVES`."""
    require_operation_objective(name)
    return Value(name, "min", lambda problem, plan: operation_costs(problem, plan, name).total)


def operation_costs(
    problem: OperationProblem, plan: OperationPlan, objective: str = "operation-cost"
) -> OperationCosts:
    """Return what a plan costs; infinite where a job cannot run as the plan says.

    Parameters
    ----------
    problem
        The decision.
    plan
        A plan for it that names only its jobs, nodes and types (`verify_operation` says so).
    objective
        One of `OBJECTIVES`.
    """
    expected = require_operation_objective(objective) == "expected-operation-cost"
    operating = tardiness = power_w = 0.0
    for node in plan.nodes:
        parts = [_run(problem, node, job, gpus, expected) for job, gpus in node.jobs]
        operating += _node_cost(problem, node, [duration for duration, _ in parts])
        tardiness += sum(cost for _, cost in parts)
        power_w += problem.type(node.type).power_at(_in_use(problem, node))
    waiting = [problem.jobs[problem.job_index[job]] for job in plan.postponed]
    postponement = sum(_postponement(problem, job, expected) for job in waiting)
    return OperationCosts(operating, tardiness, postponement, power_w)


def _run(
    problem: OperationProblem, node: NodePlan, job_id: str, gpus: int, expected: bool
) -> tuple[float, float]:
    """Return how long a job runs, seconds, and what its tardiness costs."""
    job = problem.jobs[problem.job_index[job_id]]
    duration = problem.duration(job, node.type, gpus)
    if duration is None:
        return math.inf, math.inf
    full = job.duration_s[node.type][gpus - 1] or 0.0
    chances = [(1.0, 1.0)]
    if expected:
        chances = [(stop.fraction, stop.probability) for stop in job.stops]
        chances.append((1.0, 1.0 - sum(p for _, p in chances)))
    mean = late = 0.0
    for fraction, probability in chances:
        time = duration - full + fraction * full
        mean += probability * time
        late += probability * max(problem.now_s + time - job.due_date_s, 0.0)
    return mean, late / HOUR_S * job.tardiness_cost_per_h


def _share_per_gpu_h(problem: OperationProblem, type_name: str) -> float:
    """Return the least rate of a GPU of a node, money per GPU and hour: a job's share."""
    node_type = problem.type(type_name)
    return min(problem.rate_per_h(node_type, u) / u for u in range(1, node_type.num_gpus + 1))


def _in_use(problem: OperationProblem, node: NodePlan) -> int:
    """Return the GPUs in use; of a node filled beyond its GPUs, a violation, all of them."""
    return min(node.gpus, problem.type(node.type).num_gpus)


def _node_cost(problem: OperationProblem, node: NodePlan, durations: list[float]) -> float:
    if not durations:
        return 0.0
    used = _in_use(problem, node)
    rate = problem.rate_per_h(problem.type(node.type), used)
    if problem.accounting == "first-completion":
        return rate * min(durations) / HOUR_S
    share = _share_per_gpu_h(problem, node.type)
    own = sum(
        share * gpus * duration for (_, gpus), duration in zip(node.jobs, durations, strict=True)
    )
    return (own + (rate - share * used) * min(durations)) / HOUR_S


def _postponement(problem: OperationProblem, job: OperationJob, expected: bool) -> float:
    late = problem.now_s + problem.replan_s + problem.worst_duration(job) - job.due_date_s
    cost = problem.postponement_factor * job.tardiness_cost_per_h * max(late, 0.0) / HOUR_S
    if problem.accounting == "whole-job":
        cost += min(
            _share_per_gpu_h(problem, name)
            * gpus
            * _run(problem, NodePlan("", name, ()), job.id, gpus, expected)[0]
            / HOUR_S
            for name, times in job.duration_s.items()
            if name in problem.offered_types
            for gpus, time in enumerate(times, 1)
            if time is not None
        )
    return cost


def verify_operation(problem: OperationProblem, plan: OperationPlan) -> list[Violation]:
    """Check a plan against every rule of its problem.

    Parameters
    ----------
    problem
        The jobs of a moment, the nodes and the power cap.
    plan
        Which job runs on which node, and which jobs wait.

    Returns
    -------
    list of Violation
        Empty when the plan can be carried out: every job runs once or waits, on nodes and types
        that there are, within their GPUs and the power cap.
    """
    found = list(_check_nodes(problem, plan))
    seen: dict[str, int] = {}
    for job, _ in [pair for node in plan.nodes for pair in node.jobs]:
        seen[job] = seen.get(job, 0) + 1
    for job in plan.postponed:
        seen[job] = seen.get(job, 0) + 1
    for job, times in seen.items():
        if job not in problem.job_index:
            cure = nearest(job, problem.job_index, "; name one of the jobs.")
            found.append(_violation("unknown_job", job, 1, "job", f"is not in the problem{cure}"))
        elif times > 1:
            found.append(_violation("twice", job, times - 1, "job", "is planned more than once."))
    for job in problem.job_index:
        if job not in seen:
            found.append(_violation("missing", job, 1, "job", "neither runs nor waits."))
    return found


def _violation(code: str, job: str, amount: float, unit: str, text: str) -> Violation:
    return Violation(code, (job,), amount, unit, f'job "{job}" {text}')


def _check_nodes(problem: OperationProblem, plan: OperationPlan) -> Iterator[Violation]:
    used: set[str] = set()
    power = 0.0
    for node in plan.nodes:
        where = f'node "{node.node}"'
        if node.node in used:
            yield Violation("node_twice", (node.node,), 1, "node", f"{where} is planned twice.")
        used.add(node.node)
        pool = problem.pool_of_node.get(node.node)
        if pool is None:
            yield Violation("unknown_node", (node.node,), 1, "node", f"{where} is in no pool.")
            continue
        if node.type not in pool.types:
            yield Violation(
                "node_type",
                (node.node,),
                1,
                "node",
                f'{where} cannot be of type "{node.type}"; its pool offers '
                f"{', '.join(pool.types)}.",
            )
            continue
        if not node.jobs:
            yield Violation("idle_node", (node.node,), 1, "node", f"{where} is on without a job.")
        yield from _check_gpus(problem, node)
        power += problem.type(node.type).power_at(_in_use(problem, node))
    cap = problem.power_cap_w
    if cap is not None and power > cap * (1 + _TOLERANCE):
        yield Violation(
            "power_cap",
            tuple(node.node for node in plan.nodes),
            power - cap,
            "W",
            f"the plan draws {power:g} W, and the cap is {cap:g} W.",
        )


def _check_gpus(problem: OperationProblem, node: NodePlan) -> Iterator[Violation]:
    have = problem.type(node.type).num_gpus
    if node.gpus > have:
        yield Violation(
            "node_gpus",
            (node.node, *(job for job, _ in node.jobs)),
            node.gpus - have,
            "GPU",
            f'node "{node.node}" gives {node.gpus} GPUs to its jobs, and a "{node.type}" has '
            f"{have}.",
        )
    for job, gpus in node.jobs:
        if job not in problem.job_index:
            continue
        if problem.duration(problem.jobs[problem.job_index[job]], node.type, gpus) is None:
            yield _violation(
                "configuration",
                job,
                1,
                "job",
                f'cannot run on {gpus} GPUs of a "{node.type}"; its durations do not list it.',
            )
