"""Small inference problems, and the cheapest plan of one by trying everything."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from typing import Any, Literal

from alloc.problems.inference_sizing.problem import GpuPool, InferenceProblem, Period
from alloc.problems.inference_sizing.rates import caps_that_fit, group_rate, loss_cases
from alloc.problems.inference_sizing.requests import LatencyGoal, RequestClass, TokenCounts
from alloc.problems.inference_sizing.served import ReplicaOption, ServedModel

CHAT = TokenCounts((100, 500, 2000), (0.5, 0.4, 0.1))
ANSWER = TokenCounts((20, 200), (0.6, 0.4))


def an_option(
    gpu_type: str = "h100",
    tensor: int = 1,
    speed: float = 1.0,
    pipeline: int = 1,
    max_batch: int | None = None,
) -> ReplicaOption:
    """Return an option whose replica decodes 40 tokens/s alone and 160 in a batch of 8."""
    return ReplicaOption(
        gpu_type,
        tensor,
        prefill_tokens_per_s=8000 * speed,
        decode_tokens_per_s=((1, 40 * speed), (4, 110 * speed), (8, 160 * speed)),
        pipeline_parallel=pipeline,
        max_batch=max_batch,
    )


def a_class(
    *rates: float,
    name: str = "chat",
    ttft: LatencyGoal | None = LatencyGoal(2.0, 95),  # noqa: B008 - frozen
    tpot: LatencyGoal | None = None,
) -> RequestClass:
    return RequestClass(name, rates, CHAT, ANSWER, ttft, tpot)


def a_problem(
    *rates: float,
    options: tuple[ReplicaOption, ...] = (),
    pools: tuple[GpuPool, ...] = (),
    failures: int = 0,
    **changes: Any,
) -> InferenceProblem:
    """Return one model of some options on one pool of two hosts of four GPUs."""
    model = ServedModel(
        "chatbot", 1000, (a_class(*rates),), options or (an_option(),), failures=failures, **changes
    )
    pools = pools or (GpuPool("own", "h100", 4, 2, 2.0, 80_000),)
    periods = tuple(Period(f"p{t}", 1.0 + t) for t in range(len(rates)))
    return InferenceProblem((model,), pools, periods)


def hard_problem(
    num_periods: int, num_models: int, billing: Literal["used", "held"] = "held"
) -> InferenceProblem:
    """Return a problem of replicas that do not nest, far from proved in seconds."""
    options = tuple(
        an_option(gpu, size, speed=size**0.9 * (1.0 if gpu == "h100" else 0.6))
        for gpu in ("h100", "a100")
        for size in (2, 3, 5)
    )
    rates = [
        [3.0 + (t * 7 + i * 5) % 11 * 1.3 for t in range(num_periods)] for i in range(num_models)
    ]
    models = tuple(
        ServedModel(f"m{i}", 1000, (a_class(*row),), options, failures=1)
        for i, row in enumerate(rates)
    )
    pools = (
        GpuPool("own", "h100", 8, 12, 2.6, 80_000, billing=billing),
        GpuPool("rented", "h100", 8, 40, 5.0, 80_000),
        GpuPool("lent", "a100", 8, 20, 1.7, 80_000),
    )
    periods = tuple(Period(f"p{t}", 1.0 + t % 3) for t in range(num_periods))
    return InferenceProblem(models, pools, periods)


def cheapest(problem: InferenceProblem) -> float | None:
    """Return the least cost over every number of replicas, every cap and every packing."""
    held = [pool for pool in problem.pools if pool.billing == "held"]
    best = None
    for numbers in itertools.product(*(range(pool.hosts_in(0) + 1) for pool in held)):
        hosts = dict(zip((pool.name for pool in held), numbers, strict=True))
        cost = sum(
            problem.hours * pool.price_in(0) * pool.gpus_per_host * hosts[pool.name]
            for pool in held
        )
        parts = [_cheapest_period(problem, t, hosts) for t in range(len(problem.periods))]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            total = cost + sum(known)
            best = total if best is None else min(best, total)
    return best


def _cheapest_period(problem: InferenceProblem, t: int, held: dict[str, int]) -> float | None:
    ways = [_ways(problem, m, t) for m in range(len(problem.models))]
    best = None
    for chosen in itertools.product(*ways):
        wanted: Counter[tuple[str, int]] = Counter()
        for way in chosen:
            wanted.update(dict(way))
        cost = _packed(problem, t, sorted(wanted.elements(), key=lambda k: -k[1]), held)
        if cost is not None:
            best = cost if best is None else min(best, cost)
    return best


def _ways(
    problem: InferenceProblem, m: int, t: int
) -> list[tuple[tuple[tuple[str, int], int], ...]]:
    """Return every choice of replicas, by type and GPUs, that serves a model after any loss."""
    model = problem.models[m]
    demand = model.rate_per_s(t)
    if demand == 0:
        return [()]
    losses = loss_cases(problem, model)
    ranges = []
    for option in model.options:
        most = sum(
            pool.hosts_in(t) * (pool.gpus_per_host // option.gpus)
            for pool in problem.pools_of(option.gpu_type)
        )
        caps = caps_that_fit(problem, model, t, option)
        ranges.append([(0, 0), *itertools.product(range(1, most + 1), caps)])
    found = set()
    for chosen in itertools.product(*ranges):
        served = min(
            sum(
                group_rate(problem, model, t, option, b, n - lost)
                for option, (n, b), lost in zip(model.options, chosen, loss, strict=True)
                if n > lost
            )
            for loss in losses
        )
        if served >= demand:
            counts: Counter[tuple[str, int]] = Counter()
            for option, (n, _) in zip(model.options, chosen, strict=True):
                counts[option.gpu_type, option.gpus] += n
            found.add(tuple(sorted((k, n) for k, n in counts.items() if n)))
    # More replicas of a size than another choice has, and no fewer of any: never cheaper.
    return [
        way
        for way in sorted(found)
        if not any(other != way and Counter(dict(other)) <= Counter(dict(way)) for other in found)
    ]


def _packed(
    problem: InferenceProblem, t: int, replicas: list[tuple[str, int]], held: dict[str, int]
) -> float | None:
    """Return the least cost of putting replicas on hosts, one by one; None if there is no room."""
    hosts = [
        (pool, pool.gpus_per_host)
        for pool in problem.pools
        for _ in range(held.get(pool.name, pool.hosts_in(t)))
    ]
    hours = problem.periods[t].hours

    @functools.cache
    def place(k: int, free: tuple[int, ...]) -> float:
        if k == len(replicas):
            return 0.0
        gpu_type, size = replicas[k]
        best, tried = math.inf, set()
        for i, (pool, _) in enumerate(hosts):
            if pool.gpu_type != gpu_type or free[i] < size or (pool.name, free[i]) in tried:
                continue
            tried.add((pool.name, free[i]))
            price = 0.0 if pool.billing == "held" else hours * pool.price_in(t) * size
            left = (*free[:i], free[i] - size, *free[i + 1 :])
            best = min(best, price + place(k + 1, left))
        return best

    cost = place(0, tuple(room for _, room in hosts))
    return None if math.isinf(cost) else cost
