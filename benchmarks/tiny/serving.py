"""F7 for inference and quotas: every number of replicas, every division among tenants."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import get_args

import numpy as np
from inference_problems import a_class, an_option, cheapest
from quota_problems import GPU, a_quota_problem, best_value

from alloc.families import verify
from alloc.problems.inference_sizing.problem import GpuPool, InferenceProblem, Period
from alloc.problems.inference_sizing.served import ServedModel
from alloc.problems.quota_planning.measures import level_of
from alloc.problems.quota_planning.problem import GpuAmount, QuotaGoal, QuotaProblem, QuotaTenant
from alloc.result import Limits
from alloc.solving import solve
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result


def make_inference(rng: Random, scaled: bool, large: bool) -> InferenceProblem:
    """Return a few replicas: sizes that nest and that do not, losses, held hosts."""
    price = rng.choice(SCALES) if scaled else 1.0
    periods = rng.randint(2, 6) if large else rng.randint(1, 2)
    sizes = rng.choice(((1,), (1, 2), (2, 3), (1, 3)))
    types = rng.choice((("h100",), ("h100", "a100")))
    room = rng.choice((3, 4))
    options = [
        an_option(g, s, speed=(0.7 + 0.6 * s) * (1.0 if g == "h100" else 0.6))
        for g in types
        for s in sizes
    ]
    models = tuple(
        ServedModel(
            f"m{i}",
            1000,
            (a_class(*(rng.choice((0.0, 0.3, 1.0, 2.0)) for _ in range(periods))),),
            tuple(rng.sample(options, min(len(options), rng.randint(1, 2)))),
            failures=rng.randint(0, 1),
            failure_unit=rng.choice(("replica", "host")),
        )
        for i in range(rng.randint(2, 5) if large else rng.randint(1, 2))
    )
    pools = []
    for g in types:
        number = rng.randint(1, 2)
        pools += [
            GpuPool(
                f"{g}-{k}",
                g,
                room,
                rng.randint(2, 12) if large else rng.randint(0, 3 - number),
                price * rng.choice((1.0, 1.5, 4.0)),
                80_000,
                billing=rng.choice(("used", "held")),
            )
            for k in range(number)
        ]
    spans = tuple(Period(f"p{t}", rng.choice((1.0, 5.0))) for t in range(periods))
    return InferenceProblem(models, tuple(pools), spans)


def truth_inference(problem: InferenceProblem) -> Truth:
    """Try every number of replicas, every cap and every packing."""
    best = cheapest(problem)
    return Truth(None if best is None else (best,))


def solve_sizing(problem: InferenceProblem, way: str, seconds: float) -> Answer:
    """Size by mixes, columns, or a general solver."""
    result = solve(problem, backend=way, limits=Limits(seconds=seconds))
    return of_result(result, [] if result.solution is None else verify(problem, result.solution))


WAYS = ("auto", "columns", "highs", "pyomo")
INFERENCE = Family("inference", make_inference, WAYS, truth_inference, solve_sizing)


def make_quotas(rng: Random, scaled: bool, large: bool) -> QuotaProblem:
    """Return two or three tenants, some in a cohort, some with weights and floors."""
    number = rng.randint(4, 8) if large else rng.randint(2, 3)
    weight = rng.choice(SCALES) if scaled else 1.0
    weights = [weight * (1.0 + i % 3 * rng.choice((0, 1))) for i in range(number)]
    tenants = []
    for i in range(number):
        cohort = rng.choice(("c", "c", None))
        tenants.append(
            QuotaTenant(
                f"t{i}",
                cohort,
                0 if cohort is None else rng.choice((0, 1, 5)) * GPU,
                weights[i],
                (GpuAmount("a100", GPU),) if rng.random() < 0.3 else (),
                rng.choice((0.0, 0.4)),
            )
        )
    demands = [
        [rng.randint(0, 12 if large else 4) for _ in range(number)]
        for _ in range(rng.randint(5, 40) if large else rng.randint(1, 3))
    ]
    goal = rng.choice(get_args(QuotaGoal))
    return a_quota_problem(tenants, demands, rng.randint(1, 40 if large else 6), goal)


def truth_quotas(problem: QuotaProblem) -> Truth:
    """Try every division; of coverage all levels count, from the worst tenant's."""
    best = best_value(problem)
    senses = ("min",) if problem.goal in ("expected_shortfall", "least_quota") else ("max",)
    if best is None:
        return Truth(None, senses, 1.0)
    values = tuple(best) if isinstance(best, tuple) else (best,)
    # Shares of a demand: a millionth of it is nothing.
    size = 1.0 if senses == ("max",) else 0.0
    return Truth(values, senses * len(values), size)


def solve_division(problem: QuotaProblem, way: str, seconds: float) -> Answer:
    """Divide by arrays or Pyomo; of coverage every level is held to the truth."""
    result = solve(problem, backend=way, limits=Limits(seconds=seconds))
    plan = result.solution
    broken = [] if plan is None else verify(problem, plan)
    if problem.goal != "fair_coverage" or result.status != "optimal" or plan is None:
        return of_result(result.replace(stages=result.stages[:1]), broken)
    values = tuple(float(v) for v in np.sort(level_of(problem, plan.served_milli(problem))))
    answer = of_result(result, broken)
    return replace(answer, statuses=("optimal",) * len(values), values=values, bounds=values)


QUOTAS = Family("quotas", make_quotas, ("auto", "highs", "pyomo"), truth_quotas, solve_division)
