"""F7 in operation: every plan of a decision, costed by the checker."""

from __future__ import annotations

from random import Random

from operation_oracle import best_cost
from operation_patterns import solve_by_patterns

from alloc.families import verify
from alloc.problems.operation.problem import (
    EarlyStop,
    NodePool,
    NodeType,
    OperationJob,
    OperationProblem,
    RunningJob,
)
from alloc.result import Limits
from alloc.solving import solve as solve_problem
from alloc.solving.outcome import Settings
from alloc.verification.operation import OBJECTIVES, operation_costs
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result

Problem = tuple[OperationProblem, str]


def make(rng: Random, scaled: bool, large: bool) -> Problem:
    """Return up to three jobs on up to two nodes, with all that a problem can have."""
    price = rng.choice(SCALES) if scaled else 1.0
    gpus_max = rng.randint(2, 4) if large else 2
    types = []
    for k in range(rng.randint(1, 2)):
        gpus = rng.randint(max(1, gpus_max - k), gpus_max)
        table = sorted(price * rng.randint(0, 20) for _ in range(gpus))
        power = sorted(float(rng.randint(1, 900)) for _ in range(gpus))
        types.append(NodeType(f"t{k}", gpus, tuple(table), tuple(power)))
    names = [t.name for t in types]
    pools = [
        NodePool(
            f"p{k}",
            rng.randint(1, 6) if large else 1,
            tuple(rng.sample(names, rng.randint(1, len(names)))),
        )
        for k in range(rng.randint(1, 2))
    ]
    offered = sorted({name for pool in pools for name in pool.types})
    gpus_of = {t.name: t.num_gpus for t in types}
    jobs, running = [], []
    for k in range(rng.randint(8, 30) if large else rng.randint(1, 3)):
        must = rng.choice(offered)
        duration = {}
        for name in sorted({must, *rng.choices(names, k=rng.randint(0, 2))}):
            times = [rng.choice((None, rng.randint(1, 20), rng.randint(1, 20)))
                     for _ in range(gpus_of[name])]  # fmt: skip
            if name == must and not any(times):
                times[0] = 7
            duration[name] = tuple(None if t is None else t * 600.0 for t in times)
        stops = (EarlyStop(0.5, rng.choice((0.25, 0.5, 1.0))),) if rng.random() < 0.5 else ()
        job = OperationJob(
            f"j{k}",
            duration,
            due_date_s=rng.randint(1, 12) * 600.0,
            tardiness_cost_per_h=price * rng.randint(0, 9) * 10,
            restart_s=rng.choice((0.0, 0.0, 600.0)),
            stops=stops,
        )
        jobs.append(job)
        if k == 0 and rng.random() < 0.5:
            pool = rng.choice(pools)
            kind = rng.choice(pool.types)
            running.append(RunningJob(job.id, pool.nodes[0], kind, gpus_of[kind]))
    problem = OperationProblem(
        "random",
        tuple(types),
        tuple(pools),
        tuple(jobs),
        now_s=1800.0 * rng.randint(0, 2),
        replan_s=rng.choice((3600.0, 0.0)),
        postponement_factor=float(rng.choice((10, 10, 1, 0))),
        energy_price_per_kwh=price * rng.choice((0.0, 0.5, 2.0)),
        power_cap_w=float(rng.randint(300, 1800)) if rng.random() < 0.25 else None,
        running=tuple(running),
        accounting=rng.choice(("first-completion", "whole-job")),
    )
    return problem, rng.choice(tuple(OBJECTIVES))


def truth(problem: Problem) -> Truth:
    """Cost every plan."""
    decision, objective = problem
    return Truth((best_cost(decision, objective),))


def solve(problem: Problem, way: str, seconds: float) -> Answer:
    """Decide by the aggregated model, by a general solver, or by patterns, which prove a bound."""
    decision, objective = problem
    if way != "patterns":
        result = solve_problem(
            decision, backend=way, objective=objective, limits=Limits(seconds=seconds)
        )
        found = result.solution
        return of_result(result, [] if found is None else verify(decision, found))
    priced = solve_by_patterns(decision, Settings(seconds), objective=objective)
    value = operation_costs(decision, priced.plan, objective).total
    broken = verify(decision, priced.plan)
    return Answer(("feasible",), (value,), (priced.bound,), "recomputed", violations=broken)


OPERATION = Family(
    "operation", make, ("auto", "patterns", "highs", "pyomo"), truth, solve, open_ways=("patterns",)
)
