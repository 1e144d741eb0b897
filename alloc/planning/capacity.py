"""Required capacity: the GPUs with which a pool keeps the goals of the jobs that share it.

Twice: by a formula, which knows every pool at once, and by simulation, which is believed. Gangs of
different sizes wait in one queue. The number of GPUs busy, were there no limit, has the mean of the
load and a variance larger by ``z``, the mean gang weighted by load: its peakedness. Hayward's
approximation [1]_ [2]_ takes R GPUs for ``R / z`` servers that ``load / z`` is offered to: so it is
known how often fewer than n GPUs are free for a gang of n, were there no queue. How often there is
one follows from that for the mean gang, as in Erlang's formula [3]_.

Gangs are whole. While the first in the queue waits for its GPUs, those that are free stand idle,
for nobody overtakes: with gangs from a mix, half the mean gang ``z``, less half the step in which
gangs fill a pool (the waiting time of a renewal process [4]_). Jobs that wait are served by the
others alone. A pool also has to have the GPUs of its largest gang.

Parameters
----------
operation
    A pool in a regime: its hosts and what arrives.
streams
    What arrives at a pool.
draw
    Which draw of arrivals and run times, 0 or more.
settings
    How pools are replayed.
gpus
    GPUs of the pool, 0 or more.

References
----------
.. [1] A. A. Fredericks, "Congestion in blocking systems: a simple approximation technique", Bell
   System Technical Journal 59(6), 1980.
.. [2] W. Whitt, "Heavy-traffic approximations for service systems with blocking", AT&T Bell
   Laboratories Technical Journal 63(5), 1984: the load plus a multiple of the standard deviation
   (square-root staffing), for peaked arrivals too.
.. [3] D. Gross et al., *Fundamentals of Queueing Theory*, 4th ed., 2008, section 2.4.
.. [4] W. Feller, *An Introduction to Probability Theory and Its Applications*, vol. II, 2nd ed.,
   1971, section XI.4.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import joblib
from scipy.special import gammainc

from alloc.errors import InstanceError, worker_deaths
from alloc.planning.pools import Operation, Stream
from alloc.planning.replay import ReplaySettings, replay
from alloc.problems.right_sizing.demand import JobClass
from alloc.problems.right_sizing.goals import ServiceGoal
from alloc.problems.right_sizing.headroom import headroom, reference_gpus, tightening_factors
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.solving.processes import worker_processes

# Draws of arrivals and run times by which capacity is measured; those of the verdicts are others.
SIZING = 0
# Parts of a host to which capacity is measured. Finer is beyond what the draws say: in a pool of
# three hosts of eight GPUs, two GPUs are a twelfth.
_PARTS = 4
# Part of the standard deviation of the GPUs busy to which capacity is measured in large pools: what
# draws require differs by some times as much.
_FINEST = 0.1
# Jobs after which a number of GPUs is judged by the mean, half a second of a queue. Only pools of
# hundreds of GPUs have so many in fewer replications than a verdict may take; there what is not
# known for that is a percent of the GPUs.
_ENOUGH_JOBS = 400_000
# With two thousand hosts more, in parts, a pool that misses its goals is not short of hosts.
_MAX_DOUBLINGS = 12
# The formula is known to a host or two; a thousandth of the load, or of the largest gang where the
# load is less, is beyond its accuracy. Of next to no load it would be finer than round-off.
_ACCURACY = 1e-3
# Part of a gang that is round-off of the sums that GPUs are added up by.
_ROUND_OFF = 1e-9

# Regimes of pools of which it is kept what the formula says: those of three plans of a thousand
# hosts. Most pools meet the same jobs when their plan is relieved, settled and judged.
_REGIMES = 2**15


class PoolFormula:
    """The formula for the classes that share a pool; they share its recursion, too.

    Parameters
    ----------
    streams
        What arrives at the pool, one or more.
    """

    def __init__(self, streams: Sequence[Stream]) -> None:
        self.streams = streams
        loads = [stream.load for stream in streams]
        self.load = math.fsum(loads)
        """GPUs busy on average."""
        self.gang = float(max(stream.gpus for stream in streams))
        gangs = [float(stream.gpus) for stream in streams]
        stretched = [stream.gpus * stream.hours for stream in streams]
        self._peakedness = self._mean(gangs, loads)
        self._gang_hours = self._mean(stretched, loads)
        """Hours of the mean gang: its GPUs times the hours that it runs, by load."""
        self._waste = (self._peakedness - _step(streams)) / 2
        """GPUs that are left while the job that is first in the queue finds too few."""
        self._offered = self.load / self._peakedness

    def _mean(self, values: Sequence[float], loads: Sequence[float]) -> float:
        return math.fsum(map(operator.mul, values, loads)) / self.load

    def gpus(self, job_class: JobClass, known: float = 0.0) -> float:
        """Return the GPUs with which a class keeps its goal, by formula.

        Parameters
        ----------
        job_class
            One of those that come.
        known
            GPUs that others require: a class that keeps its goal with so many is looked into no
            further.

        Returns
        -------
        float
            GPUs, no less than those of the largest gang and those known; without a goal just the
            load.
        """
        goal, load, gang = job_class.goal, self.load, self.gang
        if goal is None:
            return max(load, gang, known)
        own = [stream for stream in self.streams if stream.job_class.name == job_class.name]
        wait_hours = max(goal.wait_hours(max(stream.hours for stream in own)), 0.0)
        size = float(max(stream.gpus for stream in own))
        if known >= gang and self._keeps(goal, wait_hours, size, known):
            return known
        low, high = load, load + gang
        while not self._keeps(goal, wait_hours, size, high):
            low, high = high, high + 2 * (high - load)
        while high - low > _ACCURACY * max(load, gang):
            middle = (low + high) / 2
            keeps = self._keeps(goal, wait_hours, size, middle)
            low, high = (low, middle) if keeps else (middle, high)
        return max(high, gang, known)

    def _keeps(self, goal: ServiceGoal, wait_hours: float, size: float, gpus: float) -> bool:
        """Return whether gangs of a size keep a goal with so many GPUs, which need not be whole."""
        filled = gpus - self._waste
        if filled <= self.load:
            return False
        first = self._finds_less(self._peakedness, gpus)
        busy = self.load / filled
        queue = busy * first / (1 - busy * (1 - first))
        waits = queue + (1 - queue) * self._finds_less(size, gpus)
        drain_per_hour = (filled - self.load) / self._gang_hours
        if goal.fraction is None:
            return waits / drain_per_hour <= wait_hours
        return waits * math.exp(-drain_per_hour * wait_hours) <= 1 - goal.fraction

    def _finds_less(self, size: float, gpus: float) -> float:
        """Return the chance that fewer GPUs than a gang takes are free, were there no queue.

        The sum of the Poisson distribution up to a number of servers, which need not be whole, is
        an incomplete gamma function.
        """
        if gpus < size:
            return 1.0
        servers, free, offered = gpus / self._peakedness, size / self._peakedness, self._offered
        more = float(gammainc(servers + 1, offered))
        return (float(gammainc(servers - free + 1, offered)) - more) / (1 - more)


def formula_gpus(streams: Sequence[Stream], job_class: JobClass) -> float:
    """Return what `PoolFormula` says of a class in a pool that streams arrive at.

    Parameters
    ----------
    job_class
        A class with a goal, one of those that arrive.
    """
    return PoolFormula(streams).gpus(job_class)


def reserved_gpus(problem: PlanningProblem, operation: Operation) -> float:
    """Return the GPUs that the model sets aside for the load of a pool, without any margin.

    Parameters
    ----------
    problem
        The problem; its margins by class count.
    """
    factors = tightening_factors(problem)
    pool_gpus, pool = reference_gpus(problem), operation.pool
    total = 0.0
    for stream in operation.streams:
        room = headroom(problem, stream.job_class, stream.option, pool_gpus, spot=pool.spot)
        key = stream.job_class.name, pool.gpu_type, pool.site, pool.spot
        total += stream.load * (room or 1.0) * factors.get(key, 1.0)
    return total


def required_by_formula(operation: Operation) -> float:
    """Return the GPUs with which a pool keeps the goals of all its classes, by formula."""
    return _required(operation.streams)


@lru_cache(maxsize=_REGIMES)
def _required(streams: tuple[Stream, ...]) -> float:
    classes = {stream.job_class.name: stream.job_class for stream in streams}
    formula, known = PoolFormula(streams), 0.0
    for job_class in classes.values():
        known = formula.gpus(job_class, known)
    return known


def corrected(streams: Sequence[Stream], formula: float, correction: float) -> float:
    """Return the GPUs that a pool requires: what the formula says beyond the load is corrected.

    No correction makes a pool smaller than its largest gang.

    Parameters
    ----------
    formula
        GPUs that the formula says.
    correction
        0 or more, as `ratio` returns it. Up to 1: the part of what the formula says beyond the load
        that is required. Above 1: by how much more is required than the formula says, in standard
        deviations of the GPUs busy, were there no limit. Of a goal that hardly asks for more than
        the load, a pool may require many times as much; no other goal does, nor any larger pool.
    """
    load = math.fsum(stream.load for stream in streams)
    required = load + min(correction, 1.0) * (formula - load)
    required += max(correction - 1.0, 0.0) * _spread(streams)
    return max(required, *(float(stream.gpus) for stream in streams))


def _spread(streams: Sequence[Stream]) -> float:
    """Return the standard deviation of the GPUs busy, were there no limit."""
    return math.sqrt(math.fsum(stream.gpus * stream.load for stream in streams))


def usable_gpus(streams: Sequence[Stream], gpus: float) -> float:
    """Return the GPUs that gangs can fill: the others are no use to any job, however many wait.

    Parameters
    ----------
    streams
        What arrives at the pool.
    gpus
        GPUs it has.

    Returns
    -------
    float
        The largest multiple, up to `gpus`, of the greatest common divisor of the gangs.
    """
    step = _step(streams)
    return step * math.floor(gpus / step + _ROUND_OFF)


def gpus_to_ask(streams: Sequence[Stream], required: float, host_gpus: int) -> float:
    """Return for how many GPUs to ask, so that gangs can fill as many as are required.

    Whole hosts make a little more of what is asked for. That is no help where it does not hold
    another gang: the pool needs the hosts of a whole one. Half a host less is asked for than these
    have, so that a load that turns out a little larger does not take one more.

    Parameters
    ----------
    streams
        What arrives at the pool.
    required
        GPUs with which it keeps its goals.
    host_gpus
        GPUs of a host.

    Returns
    -------
    float
        GPUs, no fewer than are required.
    """
    step = _step(streams)
    if host_gpus % step == 0:
        return required
    hosts = math.ceil(step * math.ceil(required / step - _ROUND_OFF) / host_gpus)
    return max(required, (hosts - 0.5) * host_gpus)


def _step(streams: Sequence[Stream]) -> int:
    return math.gcd(*(stream.gpus for stream in streams))


def ratio(operation: Operation, gpus: float) -> float:
    """Return the correction by which a pool with a goal requires so many GPUs, as in `corrected`.

    Of the GPUs those count that gangs can fill. With a goal the formula says more than the load,
    however loose the goal is.
    """
    return _ratio_of_usable(operation, usable_gpus(operation.streams, gpus))


def ratio_above(operation: Operation, part: float) -> float:
    """Return the ratio of a pool that requires more than its gangs can fill, by a part of a GPU.

    Parameters
    ----------
    part
        GPUs more than gangs can fill, above 0.
    """
    usable = usable_gpus(operation.streams, operation.gpus)
    return _ratio_of_usable(operation, usable + part)


def _ratio_of_usable(operation: Operation, usable: float) -> float:
    formula = required_by_formula(operation)
    if usable > formula:
        return 1.0 + (usable - formula) / _spread(operation.streams)
    return max(usable - operation.load, 0.0) / (formula - operation.load)


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
    part, others = _parts(operation)

    def with_parts(count: int) -> Operation:
        return _with_gpus(operation, count * part + others)

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
                found = replay(operation, settings, draw=draw, enough_jobs=_ENOUGH_JOBS)
                missed = [m.job_class for m in found if not m.holds]
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


def holds_with(
    operation: Operation, settings: ReplaySettings, gpus: float, draw: int = SIZING
) -> bool:
    """Return whether the goals of a pool hold with no more than so many GPUs.

    Parameters
    ----------
    operation
        The pool.
    settings
        How it is replayed.
    gpus
        GPUs, rounded down to what `measured_gpus` tries.
    draw
        Draw of arrivals and run times.
    """
    part, others = _parts(operation)
    count = math.floor((gpus - others) / part + 1e-9)
    if count < 1 or count * part + others < operation.load:
        return False
    return holds(_with_gpus(operation, count * part + others), settings, draw)


def _parts(operation: Operation) -> tuple[int, int]:
    """Return to how many GPUs capacity is measured, and those of a pool's smaller hosts."""
    size = max(max(operation.hosts, default=1), 1)
    smaller = sum(gpus * count for gpus, count in operation.hosts.items() if gpus != size)
    return max(size // _PARTS, int(_FINEST * math.sqrt(operation.variance)), 1), smaller


def _with_gpus(operation: Operation, gpus: int) -> Operation:
    """Return a pool with other largest hosts, the last of which may be a part of one."""
    size = max(max(operation.hosts, default=1), 1)
    hosts = {each: count for each, count in operation.hosts.items() if each != size}
    whole, rest = divmod(gpus - sum(each * count for each, count in hosts.items()), size)
    if whole:
        hosts[size] = whole
    if rest:
        hosts[rest] = hosts.get(rest, 0) + 1
    return dataclasses.replace(operation, hosts=hosts)


def holds(operation: Operation, settings: ReplaySettings, draw: int = SIZING) -> bool:
    """Return whether the goals of a pool hold: a verdict, of no more jobs than it takes."""
    found = replay(operation, settings, draw=draw, enough_jobs=_ENOUGH_JOBS)
    return all(one.holds for one in found)


class ToMeasure(NamedTuple):
    """A regime of a pool, a draw, and the ratios between which what it requires is taken."""

    operation: Operation
    draw: int
    least: float
    most: float


def measured_ratios(
    calls: Sequence[tuple[float, Sequence[ToMeasure]]], settings: ReplaySettings
) -> list[float]:
    """Return the largest ratio that pools require in some regimes, as `ratio` has it.

    Parameters
    ----------
    calls
        Of each pool a ratio from which to search, and its regimes.
    settings
        How they are replayed, in parallel if the settings say so.
    """
    if settings.workers == 1 or len(calls) < 2:
        return [_measured_ratio(guess, regimes, settings) for guess, regimes in calls]
    jobs = (joblib.delayed(_measured_ratio)(*call, settings) for call in calls)
    with worker_processes(settings.workers) as parallel, worker_deaths("measuring capacity"):
        return list(parallel(jobs))


def _measured_ratio(guess: float, regimes: Sequence[ToMeasure], settings: ReplaySettings) -> float:
    """Return the largest that any of the regimes of a pool requires, as `ratio` has it.

    A regime that holds with what those before require needs no number of its own: one replay says
    so. Those that missed come first, by how much more they need at least.
    """
    largest = 0.0
    for one in sorted(regimes, key=lambda one: -one.least):
        operation = one.operation
        formula = required_by_formula(operation)
        if largest >= one.most:
            continue
        known = corrected(operation.streams, formula, largest)
        if largest >= one.least and largest and holds_with(operation, settings, known, one.draw):
            continue
        start = corrected(operation.streams, formula, max(guess, largest, one.least))
        required = _measured_middle(operation, settings, start, one.draw)
        largest = max(largest, min(required, one.most), one.least)
    return largest


def _measured_middle(
    operation: Operation, settings: ReplaySettings, guess: float, draw: int
) -> float:
    """Return the ratio that a pool requires in a regime, by simulation.

    What holds is measured to a part of a host, or to a gang where all gangs are larger. If what the
    formula says makes just as many gangs, nothing is to be corrected. Else what is required of
    gangs lies between those that missed and one more, and the middle of it counts. At this load
    that asks for the same hosts as the whole gang; at others it is as likely too much.
    """
    needed = measured_gpus(operation, settings, guess, draw)
    part, _ = _parts(operation)
    step = _step(operation.streams)
    usable = usable_gpus(operation.streams, needed)
    if step > part and usable - step < required_by_formula(operation) <= usable:
        return 1.0
    return _ratio_of_usable(operation, usable - max(step - part, 0) / 2)
