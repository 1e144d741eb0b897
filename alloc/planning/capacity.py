"""Required capacity: the GPUs with which a pool keeps the goals of the jobs that share it.

Twice: by a formula, which knows every pool at once, and by simulation, which is believed. Gangs of
different sizes wait in one queue. The number of GPUs busy, were there no limit, has the mean of the
load and a variance larger by ``z``, the mean gang weighted by load: its peakedness. Hayward's
approximation [1]_ [2]_ takes R GPUs for ``R / z`` servers that ``load / z`` is offered to; Erlang's
formula then says how long jobs wait [3]_. A pool also has to have the GPUs of its largest gang.

References
----------
.. [1] A. A. Fredericks, "Congestion in blocking systems: a simple approximation technique", Bell
   System Technical Journal 59(6), 1980.
.. [2] W. Whitt, "Heavy-traffic approximations for service systems with blocking", AT&T Bell
   Laboratories Technical Journal 63(5), 1984: the load plus a multiple of the standard deviation
   (square-root staffing), for peaked arrivals too.
.. [3] D. Gross et al., *Fundamentals of Queueing Theory*, 4th ed., 2008, section 2.4.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from alloc.errors import InstanceError
from alloc.planning.pools import Operation, Stream
from alloc.planning.replay import ReplaySettings, replay
from alloc.problems.right_sizing.demand import JobClass
from alloc.problems.right_sizing.goals import ServiceGoal
from alloc.problems.right_sizing.headroom import headroom, reference_gpus, tightening_factors
from alloc.problems.right_sizing.problem import PlanningProblem

# Draws of arrivals and run times by which capacity is measured; those of the verdicts are others.
SIZING = 0
# Parts of a host to which capacity is measured. Finer is beyond what the draws say: in a pool of
# three hosts of eight GPUs, two GPUs are a twelfth.
_PARTS = 4
# With two thousand hosts more, in parts, a pool that misses its goals is not short of hosts.
_MAX_DOUBLINGS = 12
# The formula is known to a host or two; a thousandth of the load, or of the largest gang where the
# load is less, is beyond its accuracy. Of next to no load it would be finer than round-off.
_ACCURACY = 1e-3


def formula_gpus(streams: Sequence[Stream], job_class: JobClass) -> float:
    """Return the GPUs with which a class keeps its goal in a pool that others share, by formula.

    Parameters
    ----------
    streams
        What arrives at the pool, that of the class among it.
    job_class
        The class.

    Returns
    -------
    float
        GPUs, no less than those of the largest gang; without a goal just the load.
    """
    load = math.fsum(stream.load for stream in streams)
    gang = float(max(stream.gpus for stream in streams))
    goal = job_class.goal
    if goal is None:
        return max(load, gang)
    peakedness = math.fsum(stream.gpus * stream.load for stream in streams) / load
    hours = math.fsum(stream.hours * stream.load for stream in streams) / load
    own = [stream.hours for stream in streams if stream.job_class.name == job_class.name]
    wait_hours = max(goal.wait_hours(max(own)), 0.0)
    low, high = load, load + gang
    blocked = [1.0]

    def keeps(gpus: float) -> bool:
        return _keeps(goal, wait_hours, gpus / peakedness, load / peakedness, hours, blocked)

    while not keeps(high):
        low, high = high, high + 2 * (high - load)
    while high - low > _ACCURACY * max(load, gang):
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return max(high, gang)


def _keeps(
    goal: ServiceGoal,
    wait_hours: float,
    servers: float,
    offered: float,
    hours: float,
    blocked: list[float],
) -> bool:
    """Return whether a goal holds with so many servers, which need not be whole (M/M/c)."""
    if servers <= offered:
        return False
    # Between whole numbers of servers the logarithm is about straight.
    whole, part = int(servers), servers - int(servers)
    waits = math.pow(_waits(whole, offered, blocked), 1 - part)
    waits *= math.pow(max(_waits(whole + 1, offered, blocked), 1e-300), part)
    drain_per_hour = (servers - offered) / hours
    if goal.fraction is None:
        return waits / drain_per_hour <= wait_hours
    return waits * math.exp(-drain_per_hour * wait_hours) <= 1 - goal.fraction


def _waits(servers: int, offered: float, blocked: list[float]) -> float:
    """Return Erlang C, as `alloc.workload.queueing.erlang_c`; one load is asked for many servers.

    By the recursion from each number of servers to the next, which is stable. ``blocked`` is Erlang
    B of this load for 0, 1, ... servers, as far as it was asked for; it begins as ``[1.0]``.
    """
    if servers <= offered:
        return 1.0
    for n in range(len(blocked), servers + 1):
        blocked.append(offered * blocked[-1] / (n + offered * blocked[-1]))
    return blocked[servers] / (1 - (offered / servers) * (1 - blocked[servers]))


def reserved_gpus(problem: PlanningProblem, operation: Operation) -> float:
    """Return the GPUs that the model sets aside for the load of a pool, without any margin."""
    factors = tightening_factors(problem)
    pool_gpus, pool = reference_gpus(problem), operation.pool
    total = 0.0
    for stream in operation.streams:
        room = headroom(problem, stream.job_class, stream.option, pool_gpus, spot=pool.spot)
        key = stream.job_class.name, pool.gpu_type, pool.site, pool.spot
        total += stream.load * (room or 1.0) * factors.get(key, 1.0)
    return total


def measured_gpus(
    operation: Operation, settings: ReplaySettings, guess: float, draw: int = SIZING
) -> int:
    """Return the fewest GPUs with which the goals of a pool hold in simulation.

    Found by steps from a guess that double, then by bisection; every trial replays the same jobs on
    more or fewer of the pool's largest hosts, the last of which may be a part of one: what is
    required of a host holds for other loads too, whole hosts are what a plan makes of it.

    Parameters
    ----------
    operation
        The pool.
    settings
        How it is replayed.
    guess
        GPUs from which to search, as from `formula_gpus`.
    draw
        Draw of arrivals and run times.

    Raises
    ------
    InstanceError
        If the goals are missed however many hosts there are: a scheduler may not start jobs that
        could start, or the goal be shorter than a run.
    """
    size = max(max(operation.hosts, default=1), 1)
    smaller = {gpus: count for gpus, count in operation.hosts.items() if gpus != size}
    part = max(size // _PARTS, 1)
    others = sum(gpus * count for gpus, count in smaller.items())

    def with_parts(count: int) -> Operation:
        whole, rest = divmod(count * part, size)
        hosts = {**smaller, size: whole} if whole else dict(smaller)
        if rest:
            hosts[rest] = hosts.get(rest, 0) + 1
        return dataclasses.replace(operation, hosts=hosts)

    # Fewer than carry the load cannot do.
    least = max(math.ceil((operation.load - others) / part), 1)
    high = max(math.ceil((guess - others) / part), least)
    low, step = least - 1, 1
    if holds(with_parts(high), settings, draw):
        while high - step > low and holds(with_parts(high - step), settings, draw):
            high, step = high - step, 2 * step
        low = max(high - step, low)
    else:
        low = high
        while not holds(with_parts(low + step), settings, draw):
            low, step = low + step, 2 * step
            if step > 2**_MAX_DOUBLINGS:
                missed = [
                    m.job_class for m in replay(operation, settings, draw=draw) if not m.holds
                ]
                raise InstanceError(
                    f"pool {operation.pool}: scheduler {settings.scheduler} misses the goal of "
                    f"{', '.join(missed)} with any number of hosts, by the jobs drawn; choose "
                    "another scheduler or goal, or replay more jobs if run times vary."
                )
        high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(with_parts(middle), settings, draw) else (middle, high)
    return high * part + others


def holds(operation: Operation, settings: ReplaySettings, draw: int = SIZING) -> bool:
    """Return whether the goals of a pool hold, as a verdict says it."""
    return all(found.holds for found in replay(operation, settings, draw=draw))
