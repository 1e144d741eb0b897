"""Decisions in operation small enough to try every plan."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from alloc.problems.operation.problem import NodePlan, OperationPlan, OperationProblem
from alloc.verification.operation import operation_costs, verify_operation


def every_plan(problem: OperationProblem) -> Iterator[OperationPlan]:
    """Yield every plan: each job on each number of GPUs of each node, every type of each node."""
    nodes = [(node, pool) for pool in problem.pools for node in pool.nodes]
    most = max(t.num_gpus for t in problem.types)
    places = [None, *itertools.product(range(len(nodes)), range(1, most + 1))]
    for chosen in itertools.product(places, repeat=len(problem.jobs)):
        on: dict[int, list[tuple[str, int]]] = {}
        for job, place in zip(problem.jobs, chosen, strict=True):
            if place is not None:
                on.setdefault(place[0], []).append((job.id, place[1]))
        if any(sum(g for _, g in jobs) > most for jobs in on.values()):
            continue
        waiting = tuple(
            job.id for job, place in zip(problem.jobs, chosen, strict=True) if place is None
        )
        for types in itertools.product(*(nodes[n][1].types for n in on)):
            yield OperationPlan(
                tuple(
                    NodePlan(nodes[n][0], kind, tuple(jobs))
                    for (n, jobs), kind in zip(on.items(), types, strict=True)
                ),
                waiting,
            )


def best_cost(problem: OperationProblem, objective: str = "operation-cost") -> float:
    """Return the least cost of any plan, as the checker counts."""
    best = math.inf
    for plan in every_plan(problem):
        if not verify_operation(problem, plan):
            best = min(best, operation_costs(problem, plan, objective).total)
    return best
