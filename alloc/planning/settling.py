"""Settling: classes stay in the pools they are in, and these keep the room that the mix needs.

As long as classes move from pool to pool, a replay measures mixes of jobs that the next plan does
not have. So where there are too many pools to learn about all of them, every class is kept to the
pools that most of it is sent to. What is left to the model is how many jobs go to each and how many
hosts there are, and a pool's margin is measured for all that may come there together: at the
largest load, and at a small one, for a margin has to do for both.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence

from alloc.errors import worker_deaths
from alloc.planning.pools import Operation, Pool, Stream
from alloc.planning.replay import Measured, ReplaySettings
from alloc.planning.room import a_little_more, key_of, margin_needed, reserved
from alloc.planning.tightening import (
    LAST_CAUTION,
    Learned,
    Margins,
    margins_everywhere,
    margins_kept,
)
from alloc.problems.right_sizing.demand import TighteningKey
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.solving.processes import worker_processes

# Part of a class, in every quarter, that is worth a pool of its own.
_MOSTLY = 0.9
# Part of the regimes of a pool that have less load than its small one.
_SMALL = 0.2
# By what margins with which a goal was missed are raised above what was measured.
_CAUTION = 1.25
# Pools that classes may go to beyond which no number of rounds would teach all about them.
_MOST_PLACES = 500

Sample = tuple[Operation, float, float]
"""A pool, the GPUs that the model sets aside for its load, and the least margin."""


def is_crowded(problem: PlanningProblem) -> bool:
    """Return whether classes may go to so many pools that they had better settle."""
    return len(_everywhere(problem)) > _MOST_PLACES


def settled(
    problem: PlanningProblem,
    every: Sequence[Operation],
    replayed: Sequence[tuple[Operation, Sequence[Measured]]],
    settings: ReplaySettings,
    learned: Learned,
    *,
    last: bool = False,
) -> Margins:
    """Return margins for classes that stay in their pools, infinite for all other pools.

    Parameters
    ----------
    problem
        The problem, with the tightening under which goals were missed.
    every
        Every pool of the plan in every regime.
    replayed
        Those that were replayed, and what was measured there.
    settings
        How they are replayed.
    learned
        What was learned in earlier rounds; added to. Classes settle where they are the first time.
    last
        Whether the next round is the last.
    """
    for operation, _ in replayed:
        learned.see(operation)
    missed = [operation for operation, found in replayed if not all(m.holds for m in found)]
    mixed: list[Operation] = []
    caution = LAST_CAUTION if last else _CAUTION
    if not learned.settled:
        learned.settled = places(every)
        mixed, caution = mixes(_within(every, learned.settled)), 1.0
    margins = {k: margin for k, margin in margins_kept(problem).items() if k in learned.settled}
    by_pool: dict[Pool, list[Sample]] = defaultdict(list)
    for operation in mixed:
        carried = sum(reserved(problem, operation).values())
        by_pool[operation.pool].append((operation, carried, 0.0))
    for operation in _within(missed, learned.settled):
        carried = sum(reserved(problem, operation).values())
        least = a_little_more(operation) - carried
        by_pool[operation.pool].append((operation, carried, least))
    goals = {c.name for c in problem.classes if c.goal is not None}
    measured = _in_parallel([*by_pool.values()], settings)
    for pool, margin in zip(by_pool, measured, strict=True):
        for key in learned.settled:
            if key[0] in goals and key[1:] == (pool.gpu_type, pool.site, pool.spot):
                margins[key] = max(margins.get(key, 0.0), caution * margin)
    # Neither measured one by one nor needed at every load: they prove nothing impossible.
    learned.guessed |= margins.keys()
    out = _everywhere(problem) - learned.settled
    learned.guessed |= out
    return dict.fromkeys(out, math.inf) | margins


def _everywhere(problem: PlanningProblem) -> set[TighteningKey]:
    """Return all classes with all pools that they may go to."""
    return {*margins_everywhere(problem, dict.fromkeys(problem.class_index, 0.0))}


def places(every: Sequence[Operation]) -> set[TighteningKey]:
    """Return the pools that most jobs of each class are sent to in some quarter."""
    loads: dict[tuple[str, int], dict[TighteningKey, float]] = defaultdict(dict)
    for operation in every:
        for stream in operation.streams:
            key = key_of(operation, stream.job_class.name)
            there = loads[key[0], operation.regime.quarter]
            there[key] = there.get(key, 0.0) + stream.load
    found = set()
    for there in loads.values():
        left = _MOSTLY * sum(there.values())
        for key, load in sorted(there.items(), key=lambda item: (-item[1], item[0])):
            if left <= 0:
                break
            found.add(key)
            left -= load
    return found


def mixes(every: Sequence[Operation]) -> list[Operation]:
    """Return for each pool with goals all that comes there together, at two loads.

    Each class comes at its mean rate in the regimes in which it does, all of them then scaled to
    the load of the fullest regime, and to that of one with little.
    """
    by_pool: dict[Pool, list[Operation]] = defaultdict(list)
    for operation in every:
        if any(stream.job_class.goal is not None for stream in operation.streams):
            by_pool[operation.pool].append(operation)
    found = []
    for operations in by_pool.values():
        operations.sort(key=lambda operation: operation.load)
        alike: dict[tuple[str, int], list[Stream]] = defaultdict(list)
        for operation in operations:
            for stream in operation.streams:
                alike[stream.job_class.name, stream.option].append(stream)
        mixed = {
            streams[0]: math.fsum(stream.jobs_per_hour for stream in streams) / len(streams)
            for streams in alike.values()
        }
        load = math.fsum(s.load * rate / s.jobs_per_hour for s, rate in mixed.items())
        small = operations[int(_SMALL * len(operations))]
        for like in (small, operations[-1]) if small.load < operations[-1].load else (small,):
            streams = tuple(
                dataclasses.replace(stream, jobs_per_hour=rate * like.load / load)
                for stream, rate in mixed.items()
            )
            found.append(dataclasses.replace(like, streams=streams))
    return found


def _within(operations: Sequence[Operation], kept: set[TighteningKey]) -> list[Operation]:
    """Return pools without the classes that do not stay there."""
    found = []
    for operation in operations:
        streams = tuple(s for s in operation.streams if key_of(operation, s.job_class.name) in kept)
        if any(stream.job_class.goal is not None for stream in streams):
            found.append(dataclasses.replace(operation, streams=streams))
    return found


def _in_parallel(pools: Sequence[Sequence[Sample]], settings: ReplaySettings) -> list[float]:
    if settings.workers == 1 or len(pools) < 2:
        return [_margin_of(samples, settings) for samples in pools]
    import joblib

    jobs = (joblib.delayed(_margin_of)(samples, settings) for samples in pools)
    with worker_processes(settings.workers) as parallel, worker_deaths("settling margins"):
        return list(parallel(jobs))


def _margin_of(samples: Sequence[Sample], settings: ReplaySettings) -> float:
    """Return a margin with which all samples of a pool hold."""
    margin = 0.0
    for operation, carried, least in samples:
        margin = margin_needed(operation, carried, settings, max(margin, least))
    return margin
