"""What replicas of a model sustain in a problem, and what may fail at once.

Parameters
----------
problem
    The models, periods, pools and types of GPU.
model
    A model of the problem.
period
    Position of a period in the problem.
option
    How a replica of the model runs.
batch_cap
    Largest batch of a replica, one of `option.batches`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from functools import lru_cache

from alloc.problems.inference_sizing.problem import InferenceProblem
from alloc.problems.inference_sizing.requests import RequestClass
from alloc.problems.inference_sizing.served import ReplicaOption, ServedModel
from alloc.problems.inference_sizing.serving import Load, batch_memory_mib, sustainable_rate

Loss = tuple[int, ...]
"""Replicas lost of each option, in the order of a model's options."""


def load_of(model: ServedModel, period: int, option: ReplicaOption, batch_cap: int) -> Load:
    """Return what the requests of a period ask of a replica; rates are left out of it."""
    return _load(
        tuple(_without_rate(kind) for kind in model.classes),
        model.mix(period),
        option,
        batch_cap,
        model.arrival_scv,
    )


@lru_cache(maxsize=4096)
def _without_rate(kind: RequestClass) -> RequestClass:
    """Return a class that stands for all of the same tokens and goals."""
    return dataclasses.replace(kind, rate_per_s=(0.0,))


@lru_cache(maxsize=1 << 14)
def _load(
    classes: tuple[RequestClass, ...],
    mix: tuple[float, ...],
    option: ReplicaOption,
    batch_cap: int,
    arrival_scv: float,
) -> Load:
    """Return one object for equal loads, so that what it works out is worked out once."""
    return Load(classes, mix, option, batch_cap, arrival_scv)


def caps_that_fit(
    problem: InferenceProblem, model: ServedModel, period: int, option: ReplicaOption
) -> list[int]:
    """Return the batch caps whose weights and KV cache fit the GPUs of a replica."""
    memory = option.gpus * problem.gpu_memory_mib(option.gpu_type)
    mix = model.mix(period)
    return [b for b in option.batches if batch_memory_mib(model, b, mix) <= memory]


def group_rate(
    problem: InferenceProblem,
    model: ServedModel,
    period: int,
    option: ReplicaOption,
    batch_cap: int,
    replicas: int,
) -> float:
    """Return the largest rate, requests/s, at which replicas keep every goal of the model.

    Parameters
    ----------
    replicas
        Replicas in the group, 0 or more.
    """
    place = (model.name, problem.periods[period].name, option.key)
    factor = problem.factors.get(place, 1.0)
    return factor * sustainable_rate(load_of(model, period, option, batch_cap), replicas)


def max_rate(
    problem: InferenceProblem,
    model: ServedModel,
    period: int,
    option: ReplicaOption,
    batch_cap: int,
) -> float:
    """Return a rate per replica, requests/s, that no number of replicas exceeds."""
    place = (model.name, problem.periods[period].name, option.key)
    factor = problem.factors.get(place, 1.0)
    return factor * load_of(model, period, option, batch_cap).max_per_replica


def loss_cases(problem: InferenceProblem, model: ServedModel) -> list[Loss]:
    """Return the losses that a model must survive; each other loss is part of one of them.

    With failures of replicas, any that many. With failures of hosts, all replicas that could stand
    on that many hosts, whatever the plan puts there: the plan is good for every packing.
    """
    number = len(model.options)
    if model.failures == 0:
        return [(0,) * number]
    if model.failure_unit == "replica":
        single = [tuple(int(i == o) for i in range(number)) for o in range(number)]
    else:
        single = list(_host_losses(problem, model))
    cases: list[Loss] = [(0,) * number]
    for _ in range(model.failures):
        sums = (tuple(map(sum, zip(a, b, strict=True))) for a in cases for b in single)
        cases = largest_only(sums)
    return cases


def _host_losses(problem: InferenceProblem, model: ServedModel) -> Iterable[Loss]:
    """Yield what one host can hold of a model's replicas, the fullest ways only."""
    number = len(model.options)
    for gpu_type in sorted({option.gpu_type for option in model.options}):
        host = max(pool.gpus_per_host for pool in problem.pools_of(gpu_type))
        here = [o for o, option in enumerate(model.options) if option.gpu_type == gpu_type]
        for counts in fullest([model.options[o].gpus for o in here], host):
            loss = [0] * number
            for o, count in zip(here, counts, strict=True):
                loss[o] = count
            yield tuple(loss)


def fullest(sizes: Sequence[int], room: int) -> list[tuple[int, ...]]:
    """Return the ways to fill a host with things of these sizes to which nothing can be added.

    Parameters
    ----------
    sizes
        What each kind of thing takes, 1 or more.
    room
        What the host offers, in the same unit, 0 or more.
    """
    ranges = [range(room // size + 1) for size in sizes]
    ways = []
    for counts in itertools.product(*ranges):
        left = room - sum(n * s for n, s in zip(counts, sizes, strict=True))
        if 0 <= left < min(sizes):
            ways.append(counts)
    return ways


def largest_only(vectors: Iterable[Loss]) -> list[Loss]:
    """Return the vectors that no other dominates, sorted."""
    distinct = sorted(set(vectors), reverse=True)
    kept: list[Loss] = []
    for vector in distinct:
        if not any(all(a <= b for a, b in zip(vector, other, strict=True)) for other in kept):
            kept.append(vector)
    return kept
