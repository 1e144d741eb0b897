"""Every repair that is named of sizing and quotas is enough as it is written, and no more."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from alloc.problems.inference_sizing.problem import InferenceProblem
from alloc.problems.inference_sizing.requests import LatencyGoal, RequestClass
from alloc.problems.inference_sizing.served import ServedModel
from alloc.problems.quota_planning.problem import QuotaProblem
from alloc.result import Repair
from alloc.solving import solve
from benchmarks.tiny.families import FAMILIES

LESS = 0.98
"""Part of a least repair that must not be enough; sizing finds its repairs to 1 %."""


def has_solution(problem: object) -> bool:
    return solve(problem).solution is not None


def written(repair: Repair) -> float:
    """Return the last number of the sentence, which is what a reader goes by."""
    *_, number = re.findall(r"\d[\d,]*\.?\d*", repair.sentence)
    return float(number.replace(",", ""))


def divided(problem: QuotaProblem, repair: Repair, part: float = 1.0) -> QuotaProblem:
    """Return a quota problem with a repair, or a part of it."""
    if repair.kind == "capacity":
        (capacity,) = problem.capacity
        more = round(repair.amount * part * 1000)
        return problem.replace(capacity=(replace(capacity, gpu_milli=capacity.gpu_milli + more),))
    assert repair.kind == "exceeding"
    share = written(repair) / 100 if part == 1.0 else repair.amount * part
    return problem.replace(
        tenants=tuple(replace(t, exceeding=t.exceeding + share) for t in problem.tenants)
    )


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 80, 20))
def test_every_repair_of_quotas_is_enough_and_less_is_not(first: int) -> None:
    """A promise given up for all of the time once led the list, and no problem can ask for it."""
    asked: Counter[str] = Counter()
    for seed in range(first, first + 20):
        problem: QuotaProblem = FAMILIES["quotas"].problem(seed)
        result = solve(problem)
        if result.status != "infeasible":
            continue
        assert result.repairs, seed
        for repair in result.repairs:
            asked[repair.kind] += 1
            assert has_solution(divided(problem, repair)), (seed, repair)
            if repair.least:
                assert not has_solution(divided(problem, repair, LESS)), (seed, repair)
    assert asked["capacity"] > 0


def alone(problem: InferenceProblem, t: int) -> InferenceProblem:
    """Return the problem in one of its periods."""
    return InferenceProblem(
        tuple(slowed(model, [t], [1.0]) for model in problem.models),
        tuple(
            replace(
                pool,
                hosts=pool.hosts_in(t),
                price_per_gpu_hour=pool.price_in(t),
                billing="used",
            )
            for pool in problem.pools
        ),
        (problem.periods[t],),
    )


def slowed(model: ServedModel, periods: list[int], factors: list[float]) -> ServedModel:
    """Return a model in some periods, with its rates times a factor each."""
    return replace(
        model,
        classes=tuple(
            replace(
                c,
                rate_per_s=tuple(
                    c.rate_per_s[t] * factor for t, factor in zip(periods, factors, strict=True)
                ),
            )
            for c in model.classes
        ),
    )


def looser(kind: RequestClass, factor: float) -> RequestClass:
    def longer(goal: LatencyGoal | None) -> LatencyGoal | None:
        return goal and LatencyGoal(goal.seconds * factor, goal.percentile)

    return replace(kind, ttft=longer(kind.ttft), tpot=longer(kind.tpot))


def sized(problem: InferenceProblem, repair: Repair, part: float = 1.0) -> InferenceProblem:
    """Return a sizing problem with a repair, or a part of it."""
    if repair.kind == "hosts":
        pools = tuple(
            replace(
                pool,
                hosts=tuple(
                    pool.hosts_in(t) + int(repair.amount - (part < 1.0))
                    for t in range(len(problem.periods))
                ),
            )
            if pool.name == repair.name
            else pool
            for pool in problem.pools
        )
        return problem.replace(pools=pools)
    if repair.kind == "failures":
        most = int(repair.after or 0) + (part < 1.0)
        models = tuple(replace(m, failures=min(m.failures, most)) for m in problem.models)
    elif repair.kind == "rate":
        periods = list(range(len(problem.periods)))
        short = [t for t in periods if not has_solution(alone(problem, t))] or periods
        less = written(repair) / 100 * part
        factors = [1.0 - less if t in short else 1.0 for t in periods]
        models = tuple(slowed(model, periods, factors) for model in problem.models)
    else:
        assert (repair.kind, repair.name) == ("goal", "all latency goals")
        factor = written(repair) if part == 1.0 else 1.0 + repair.amount * part
        models = tuple(
            replace(m, classes=tuple(looser(c, factor) for c in m.classes)) for m in problem.models
        )
    return problem.replace(models=models)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 80, 20))
def test_every_repair_of_inference_sizing_is_enough_and_less_is_not(first: int) -> None:
    asked: Counter[str] = Counter()
    for seed in range(first, first + 20):
        problem: InferenceProblem = FAMILIES["inference"].problem(seed)
        result = solve(problem)
        if result.status != "infeasible":
            continue
        assert result.repairs, seed
        for repair in result.repairs:
            asked[repair.kind] += 1
            assert has_solution(sized(problem, repair)), (seed, repair)
            if repair.kind in ("hosts", "failures"):
                assert not has_solution(sized(problem, repair, LESS)), (seed, repair)
    assert asked["hosts"] > 0
