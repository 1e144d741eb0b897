"""Tightening: what the replay of a plan asks the model to keep more, or less, room for."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from alloc.capacity.headroom import KEPT_OUT, tightening_factors
from alloc.capacity.problem import PlanningProblem
from alloc.planning.pools import Operation
from alloc.planning.replay import Measured, ReplaySettings
from alloc.planning.room import Key, Room, holds, key_of, load_carried, reserved, rooms_needed

# Part of a host by which a pool that missed needs more than it had, at the least.
_PART = 0.05
# Part of a class that is little enough to be sent elsewhere.
_FEW = 0.2
# Part of the room beyond the formula's that is worth giving back.
_WORTH = 0.1


def tightened(
    problem: PlanningProblem,
    replayed: Iterable[tuple[Operation, Sequence[Measured]]],
    settings: ReplaySettings,
    charges: Counter[str],
) -> dict[Key, float]:
    """Return the factors with which each pool that missed gets the room it needs.

    Parameters
    ----------
    problem
        The problem, with the tightening under which the goals were missed.
    replayed
        Pools and what was measured there.
    settings
        How they are replayed.
    charges
        How often each class has been charged for the room of a pool; counted on.
    """
    factors = tightening_factors(problem)
    raised = dict(factors)
    replayed = list(replayed)
    newly: set[str] = set()
    for operation, measured in replayed:
        if all(m.holds for m in measured):
            continue
        loads = reserved(problem, operation)
        least = operation.gpus + _PART * max(operation.hosts, default=1)
        rooms = rooms_needed(operation, loads, settings, charges)
        if not rooms:
            # It holds by the draws that sizes are found with, and did not by those of the verdict.
            rooms = [Room(least, tuple({m.job_class for m in measured if not m.holds}))]
        for room in rooms:
            charged = sum(loads[name] for name in room.charged)
            growth = 1 + (max(room.gpus, least) - sum(loads.values())) / charged
            for name in room.charged:
                key = key_of(operation, name)
                if room.misfit and _fits_elsewhere(name, operation, [o for o, _ in replayed]):
                    raised[key] = max(raised.get(key, 1.0), KEPT_OUT)
                else:
                    raised[key] = max(raised.get(key, 1.0), factors.get(key, 1.0) * growth)
            newly.update(room.charged)
    charges.update(newly)
    return raised


def settled(
    problem: PlanningProblem, factors: Mapping[Key, float], operations: Sequence[Operation]
) -> dict[Key, float]:
    """Return factors that also keep classes where they are, the small parts of them aside.

    A class that is charged for the room of a pool may go to another one and miss its goal there, or
    jobs that promise nothing fill the room that was made for others. So a class with a goal stays
    in the one pool where most of it runs, and the others where a good part of them does. Then only
    hosts are added, until the goals hold.

    Parameters
    ----------
    problem
        The problem.
    factors
        The factors so far.
    operations
        All pools of the plan, in all regimes.
    """
    loads: dict[str, dict[Key, float]] = defaultdict(lambda: defaultdict(float))
    for operation in operations:
        for stream in operation.streams:
            # Where its gangs do not fit is no place to stay.
            if stream.gpus <= operation.gpus:
                name = stream.job_class.name
                loads[name][key_of(operation, name)] += stream.load
    found = dict(factors)
    for job_class in problem.classes:
        load = loads[job_class.name]
        if not load:
            continue
        least = max(load.values()) if job_class.goal is not None else _FEW * sum(load.values())
        for gpu_type in {option.gpu_type for option in job_class.options}:
            for site in filter(job_class.at, (site.name for site in problem.sites)):
                key = (job_class.name, gpu_type, site)
                if load.get(key, 0.0) < least:
                    found[key] = max(found.get(key, 1.0), KEPT_OUT)
    return found


def _fits_elsewhere(job_class: str, here: Operation, operations: Sequence[Operation]) -> bool:
    """Return whether another pool that the class may use holds its gangs."""
    (found,) = {s.job_class for s in here.streams if s.job_class.name == job_class}
    return any(
        other.pool != here.pool
        and found.at(other.pool.site)
        and (found.interruptible or not other.pool.spot)
        and any(
            option.gpu_type == other.pool.gpu_type and option.gpus <= other.gpus
            for option in found.options
        )
        for other in operations
    )


def relaxed(
    problem: PlanningProblem,
    asked: PlanningProblem,
    operations: Sequence[Operation],
    settings: ReplaySettings,
) -> dict[Key, float]:
    """Return the factors without the room that pools whose goals hold can do without.

    Parameters
    ----------
    problem
        The problem, with the tightening of the plan.
    asked
        The problem as it was asked; its tightening is kept.
    operations
        The pools of the plan.
    settings
        How they are replayed.
    """
    factors, floor = tightening_factors(problem), tightening_factors(asked)
    needed: dict[Key, float] = {}
    for operation in operations:
        now = reserved(problem, operation)
        least = reserved(asked, operation)
        extra = sum(now.values()) - sum(least.values())
        if extra <= 0:
            continue
        part = (_room_now(operation, sum(least.values()), settings) - sum(least.values())) / extra
        for name in now:
            key = key_of(operation, name)
            needed[key] = max(needed.get(key, 0.0), min(max(part, 0.0), 1.0))
    found = dict(factors)
    for key, factor in factors.items():
        # A class that was sent away from a pool may come back half the way.
        part = needed.get(key, 1.0 if factor >= KEPT_OUT else 0.5)
        if part < 1 - _WORTH:
            least_factor = floor.get(key, 1.0)
            found[key] = least_factor + part * (factors[key] - least_factor)
    return found


def halfway(problem: PlanningProblem, before: PlanningProblem) -> dict[Key, float]:
    """Return factors between those of two problems, the second of which has a plan."""
    factors, less = tightening_factors(problem), tightening_factors(before)
    return {key: math.sqrt(factor * less.get(key, 1.0)) for key, factor in factors.items()}


def _room_now(operation: Operation, least: float, settings: ReplaySettings) -> float:
    """Return the GPUs that the load of a pool takes up, for all the pool can tell."""
    if all(stream.job_class.goal is None for stream in operation.streams):
        return least
    if not holds(operation, settings):
        return float(operation.gpus)
    return operation.gpus / load_carried(operation, settings, operation.gpus / least)
