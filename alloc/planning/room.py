"""Room: how many GPUs a pool needs so that its goals hold in the simulator, and because of whom."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from alloc.errors import InstanceError
from alloc.planning.pools import Operation
from alloc.planning.replay import Measured, ReplaySettings, replay
from alloc.problems.right_sizing.demand import TighteningKey
from alloc.problems.right_sizing.headroom import headroom, reference_gpus, tightening_factors
from alloc.problems.right_sizing.problem import PlanningProblem

# Draws of arrivals and run times by which rooms are sized; those of the verdicts are others.
_SIZING = 0
_MOST_DOUBLINGS = 12
# Steps of the search for the most load that a pool carries.
_STEPS = 3
# Classes, those with the largest gangs, that are looked at as to blame.
_SUSPECTS = 4
# Part of a host by which a pool that missed needs more than it had, at the least.
_PART = 0.05
# Part of a pool's load that one class may have and the others still stand for the pool.
_MOST = 0.8


@dataclass(frozen=True)
class Room:
    """GPUs that a pool needs, and the classes that they are charged to.

    Parameters
    ----------
    gpus
        GPUs that its load needs: of so large a pool, the part that the load takes up.
    charged
        Classes that need more than the queueing formula gave them.
    """

    gpus: float
    charged: tuple[str, ...]


def reserved(problem: PlanningProblem, operation: Operation) -> dict[str, float]:
    """Return the GPUs that the model sets aside in a pool for each class, without any margin."""
    factors = tightening_factors(problem)
    pool_gpus = reference_gpus(problem)
    found: dict[str, float] = defaultdict(float)
    for stream in operation.streams:
        name = stream.job_class.name
        room = headroom(
            problem, stream.job_class, stream.option, pool_gpus, spot=operation.pool.spot
        )
        factor = factors.get(key_of(operation, name), 1.0)
        found[name] += stream.load * (room or 1.0) * factor
    return dict(found)


def key_of(operation: Operation, job_class: str) -> TighteningKey:
    """Return what the tightening of a class in a pool is for."""
    return job_class, operation.pool.gpu_type, operation.pool.site, operation.pool.spot


def keys_of(operation: Operation) -> set[TighteningKey]:
    """Return what the tightenings of all classes in a pool are for."""
    return {key_of(operation, stream.job_class.name) for stream in operation.streams}


def rooms_needed(
    operation: Operation,
    loads: Mapping[str, float],
    settings: ReplaySettings,
    charges: Mapping[str, int],
) -> list[Room]:
    """Return the room that a pool which misses needs, and whom to charge for it.

    Gangs larger than the pool are looked at first, for nothing else is their fault. The rest is
    charged to a class whose kind of jobs is to blame: without it the pool would carry as much of
    the others' load, as where long jobs of many GPUs hold up short ones. Of several that is the one
    charged least often so far, for one that was sent here would otherwise be sent round all pools;
    then the smallest. Where it is just too much load, those whose goals are missed are charged.

    Parameters
    ----------
    operation
        The pool.
    loads
        GPUs that are set aside for each class, as from `reserved`.
    settings
        How it is replayed.
    charges
        How often each class has been charged.
    """
    found = []
    for stream in operation.streams:
        if stream.gpus > operation.gpus:
            size = -(-stream.gpus // _largest_host(operation)) * _largest_host(operation)
            name = stream.job_class.name
            others = sum(load for other, load in loads.items() if other != name)
            found.append(Room(size + others, (name,)))
            operation = _without(operation, name)
    if not operation.streams:
        return found
    missed = [m.job_class for m in replay(operation, settings, draw=_SIZING) if not _surely(m)]
    if not missed:
        return found
    gangs: dict[str, int] = {}
    for stream in operation.streams:
        gangs[stream.job_class.name] = max(stream.gpus, gangs.get(stream.job_class.name, 0))
    suspects = sorted(gangs, key=lambda name: (-gangs[name], loads[name], name))[:_SUSPECTS]
    suspects.sort(key=lambda name: (charges.get(name, 0), loads[name], name))
    blamed = (name for name in suspects if _is_to_blame(name, operation, loads, settings))
    charged = next(([name] for name in blamed), missed)
    found.append(Room(room_needed(operation, settings), tuple(charged)))
    return found


def _is_to_blame(
    name: str, operation: Operation, loads: Mapping[str, float], settings: ReplaySettings
) -> bool:
    """Return whether a pool without a class would hold with as much load of the others."""
    others = _without(operation, name)
    there = {stream.job_class.name for stream in others.streams}
    left = sum(loads[other] for other in there)
    if name in there or left < (1 - _MOST) * sum(loads.values()):
        return False
    return holds(_scaled(others, 1 + loads[name] / left), settings)


def holds(operation: Operation, settings: ReplaySettings) -> bool:
    """Return whether the goals of a pool surely hold: the whole 95 % interval keeps them."""
    return all(_surely(found) for found in replay(operation, settings, draw=_SIZING))


def gpus_needed(operation: Operation, settings: ReplaySettings) -> int:
    """Return the fewest GPUs with which the goals of a pool surely hold, adding its largest hosts.

    Found by doubling the added hosts, then halving the step; every trial replays the same jobs.

    Raises
    ------
    InstanceError
        If the goals are missed however many hosts there are: a scheduler may not start jobs that
        could start, or the goal be shorter than a run.
    """
    if holds(operation, settings):
        return operation.gpus
    return _with_more(operation, _hosts_missing(operation, settings)).gpus


def a_little_more(operation: Operation) -> float:
    """Return the GPUs that a pool which missed needs at the least: more than it had."""
    return operation.gpus + _PART * _largest_host(operation)


def margin_needed(
    operation: Operation, carried: float, settings: ReplaySettings, least: float = 0.0
) -> float:
    """Return the GPUs beyond those set aside for its load with which the goals of a pool hold.

    In steps of half its largest gang, but of a host at least: found by doubling, then halving.

    Parameters
    ----------
    operation
        The pool; of its hosts only the largest size counts.
    carried
        GPUs that the model sets aside for its load.
    settings
        How it is replayed.
    least
        The margin to begin with.

    Raises
    ------
    InstanceError
        If the goals are missed however many hosts there are.
    """
    size = _largest_host(operation)
    begun = math.ceil((carried + least) / size - 1e-9)
    gang = max(stream.gpus for stream in operation.streams)
    step = max(gang // (2 * size), 1)
    bare = dataclasses.replace(operation, hosts={size: begun})
    if holds(bare, settings):
        return least
    return (begun + _hosts_missing(bare, settings, step)) * size - carried


def room_needed(operation: Operation, settings: ReplaySettings) -> float:
    """Return the GPUs that the load of a pool which misses takes up.

    Hosts come whole: of the pool that the load needs, its part counts, for what is left of the last
    host carries more load. But so many that the load is not carried by the hosts there are when a
    little of it goes elsewhere.
    """
    added = _hosts_missing(operation, settings)
    enough = _with_more(operation, added)
    # With a host less the goals are missed, so that hardly more than its part can be left.
    before = enough.gpus - _largest_host(operation)
    most = min(enough.gpus / max(before, enough.gpus / 2), enough.gpus / operation.load)
    part = enough.gpus / load_carried(enough, settings, most)
    least = operation.gpus / enough.gpus
    if holds(_scaled(operation, least), settings):
        now = operation.gpus / load_carried(_scaled(operation, least), settings, 1 / least) / least
        return max(part, now)
    return float(enough.gpus)


def _hosts_missing(operation: Operation, settings: ReplaySettings, step: int = 1) -> int:
    """Return the hosts to be added until the goals hold, a multiple of `step`."""
    high = 1
    while not holds(_with_more(operation, high * step), settings):
        high *= 2
        if high > 2**_MOST_DOUBLINGS:
            missed = [m.job_class for m in replay(operation, settings) if not m.holds]
            raise InstanceError(
                f"pool {operation.pool}: scheduler {settings.scheduler} misses the goal of "
                f"{', '.join(missed)} with any number of hosts; choose another scheduler or goal."
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        held = holds(_with_more(operation, middle * step), settings)
        low, high = (low, middle) if held else (middle, high)
    return high * step


def load_carried(operation: Operation, settings: ReplaySettings, most: float) -> float:
    """Return how many times its load a pool that holds carries, from 1 to `most`."""
    if most <= 1 or holds(_scaled(operation, most), settings):
        return max(most, 1.0)
    low, high = 1.0, most
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(_scaled(operation, middle), settings) else (low, middle)
    return low


def _surely(measured: Measured) -> bool:
    if not measured.holds:
        return False
    low, high = measured.value.low, measured.value.high
    if measured.in_hours:
        return high is None or high <= measured.wanted
    return low is None or low >= measured.wanted


def _largest_host(operation: Operation) -> int:
    return max(max(operation.hosts, default=1), 1)


def _with_more(operation: Operation, added: int) -> Operation:
    largest = _largest_host(operation)
    hosts = {**operation.hosts, largest: operation.hosts.get(largest, 0) + added}
    return dataclasses.replace(operation, hosts=hosts)


def _scaled(operation: Operation, factor: float) -> Operation:
    return dataclasses.replace(
        operation,
        streams=tuple(
            dataclasses.replace(stream, jobs_per_hour=stream.jobs_per_hour * factor)
            for stream in operation.streams
        ),
    )


def _without(operation: Operation, job_class: str) -> Operation:
    return dataclasses.replace(
        operation,
        streams=tuple(s for s in operation.streams if s.job_class.name != job_class),
    )
