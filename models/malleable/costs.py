r"""What completions cost in F2: every objective as costs of single jobs, and peaks over all jobs.

With C_j the completion of job j, a level of a goal is ``sum_j f_j(C_j) + sum_k max_j g_kj(C_j)``.
Each ``f_j(C) = base_j + rate_j C + late_j max(C - due_j, 0)`` is convex and never falls; each
``g_kj(C) = slope_kj (C - origin_kj)`` is a *peak*: of makespan and slowdown only the worst job
counts. So the completions say all that an objective asks about a schedule, and an earlier
completion is never worse.

Both are closed under what a bound does with them: for shares ``pi_kj >= 0`` with ``sum_j pi_kj <=
1`` a peak is at least ``sum_j pi_kj g_kj(C_j)``, and for a multiplier ``mu >= 0`` a level that is
held at a limit L adds ``mu (level - L) <= 0``. What is left is again one `JobCosts`: a bound needs
nothing else from an objective.

Costs are in the objective's unit per slot length, completions in slots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.objectives import Held, WeightedSum, due_dates, parse_level
from alloc.workload import Job

Array = npt.NDArray[np.float64]

_ON_GRID = 1e-14
"""Relative distance of a due date from the end of a slot that counts as none: what double precision
makes of products. A run time may be far below a billionth of a slot, and so may what is late."""
_BISECTIONS = 60
"""Halvings that leave of an interval what double precision does."""
_MAX_BEGINNINGS = 40
"""Moments from which the load is summed: a bound holds for any choice of them."""


@dataclass(frozen=True)
class JobCosts:
    """What each job's completion costs.

    Parameters
    ----------
    base
        Constant of each job, shape (J,).
    rate
        Cost of each slot until the completion, 0 or more, shape (J,).
    late
        Cost of each slot between due date and completion besides, 0 or more, shape (J,).
    due
        Due dates, slots since the start, infinite where there is none, shape (J,).
    """

    base: Array
    rate: Array
    late: Array
    due: Array

    def at(self, completion: Array) -> Array:
        """Return the cost of each job's completion, slots since the start, shape (J,)."""
        beyond = np.maximum(completion - self.due, 0.0)
        return np.asarray(self.base + self.rate * completion + self.late * beyond)

    def of(self, j: int, completion: float) -> float:
        """Return the cost of one job's completion.

        Parameters
        ----------
        j
            Position of the job.
        completion
            Slots since the start, with fractions.
        """
        late = float(self.late[j])
        cost = float(self.base[j]) + float(self.rate[j]) * completion
        return cost + late * max(completion - float(self.due[j]), 0.0) if late else cost

    def ends(self, j: int, fraction: float, num_slots: int) -> Array:
        """Return the cost of completing after a fraction of each slot, shape (num_slots,).

        Parameters
        ----------
        j
            Position of the job.
        fraction
            Part of its last slot that the job needs, from 0 to 1.
        num_slots
            Slots to give a cost for, from the first.
        """
        end = np.arange(num_slots) + fraction
        cost = self.base[j] + self.rate[j] * end
        if self.late[j]:
            cost = cost + self.late[j] * np.maximum(end - self.due[j], 0.0)
        return np.asarray(cost)

    def plus(self, other: JobCosts, factor: float = 1.0) -> JobCosts:
        """Return the sum of these costs and a multiple of others.

        Parameters
        ----------
        other
            Costs of the same jobs with the same due dates.
        factor
            What to take them times, 0 or more.
        """
        return JobCosts(
            self.base + factor * other.base,
            self.rate + factor * other.rate,
            self.late + factor * other.late,
            self.due,
        )


@dataclass(frozen=True)
class Peak:
    """``max_j slope_j (C_j - origin_j)``.

    Parameters
    ----------
    slope
        More than 0, shape (J,).
    origin
        Slots since the start, at most the job's arrival, shape (J,).
    """

    slope: Array
    origin: Array

    def at(self, completion: Array) -> Array:
        """Return what each job asks of the peak, shape (J,)."""
        return self.slope * (completion - self.origin)

    def latest(self, value: float) -> Array:
        """Return the completions up to which the peak is no more than a value, slots."""
        return self.origin + value / self.slope

    def shared(self, shares: Array) -> JobCosts:
        """Return the costs ``shares_j slope_j (C_j - origin_j)``."""
        rate = shares * self.slope
        zero = np.zeros(len(rate))
        return JobCosts(-rate * self.origin, rate, zero, np.full(len(rate), np.inf))


@dataclass(frozen=True)
class LevelCosts:
    """One level of a goal.

    Parameters
    ----------
    jobs
        The costs of single jobs.
    peaks
        The peaks that are added to them.
    """

    jobs: JobCosts
    peaks: tuple[Peak, ...] = ()

    def value(self, completion: Array) -> float:
        """Return the value of a schedule by its completions, slots since the start."""
        peaks = sum(float(peak.at(completion).max()) for peak in self.peaks)
        return float(self.jobs.at(completion).sum()) + peaks

    @property
    def is_peak(self) -> bool:
        """Whether the level is a single peak, so that holding it is a deadline for every job."""
        return len(self.peaks) == 1 and not (self.jobs.rate.any() or self.jobs.late.any())

    @property
    def size(self) -> float:
        """The largest cost of a slot, more than 0."""
        slopes = [float(peak.slope.max()) for peak in self.peaks]
        return max(float((self.jobs.rate + self.jobs.late).max()), *slopes, 0.0)

    def scaled(self, factor: float) -> LevelCosts:
        """Return the level with all costs times a factor."""
        jobs = replace(
            self.jobs,
            base=factor * self.jobs.base,
            rate=factor * self.jobs.rate,
            late=factor * self.jobs.late,
        )
        return LevelCosts(jobs, tuple(Peak(factor * p.slope, p.origin) for p in self.peaks))


@dataclass(frozen=True)
class Multipliers:
    """Multipliers of what links jobs besides capacity, 0 or more.

    Parameters
    ----------
    peaks
        For each of `Target.peaks`, how much each job bears of it, shape (J,).
    held
        Of each held level, shape (levels,).
    """

    peaks: tuple[Array, ...]
    held: Array

    def towards(self, other: Multipliers, share: float) -> Multipliers:
        """Return the point at a share of the way to others.

        Parameters
        ----------
        other
            Multipliers of the same peaks and levels.
        share
            0 for these, 1 for the others.
        """
        return Multipliers(
            tuple(
                (1 - share) * a + share * b for a, b in zip(self.peaks, other.peaks, strict=True)
            ),
            (1 - share) * self.held + share * other.held,
        )


@dataclass(frozen=True)
class Target:
    """What is asked of the completions: a level, and earlier levels that are held.

    Parameters
    ----------
    level
        The level to minimise.
    held
        Earlier levels that are no deadlines, and their limits.
    floors
        For each of `peaks`, a value that no schedule goes below.
    """

    level: LevelCosts
    held: tuple[tuple[LevelCosts, float], ...] = ()
    floors: tuple[float, ...] = ()

    @property
    def costs(self) -> JobCosts:
        """The level's costs of single jobs."""
        return self.level.jobs

    @cached_property
    def peaks(self) -> tuple[Peak, ...]:
        """The peaks of the level, then those of the held levels in order."""
        held = (peak for level, _ in self.held for peak in level.peaks)
        return (*self.level.peaks, *held)

    @property
    def links_jobs(self) -> bool:
        """Whether peaks or held levels link jobs: else the value is a sum over them."""
        return bool(self.peaks or self.held)

    @property
    def is_linear(self) -> bool:
        """Whether the value is a weighted sum of completions, all weights more than 0."""
        return not (self.links_jobs or self.costs.late.any()) and bool((self.costs.rate > 0).all())

    def value(self, completion: Array) -> float:
        """Return the value of a schedule by its completions; infinite if a limit is not kept."""
        if any(level.value(completion) > limit for level, limit in self.held):
            return math.inf
        return self.level.value(completion)

    def nothing(self) -> Multipliers:
        """Return multipliers of 0."""
        zero = np.zeros(len(self.costs.rate))
        return Multipliers((zero,) * len(self.peaks), np.zeros(len(self.held)))

    def relaxed(self, given: Multipliers) -> tuple[JobCosts, float]:
        """Return job costs and a constant whose sum is at most the value of every schedule.

        Of every schedule, that is, that keeps what is held. Multipliers of any kind may be given:
        those below 0 count as 0, and shares that exceed what there is of a peak are scaled down.
        """
        held = np.maximum(given.held, 0.0)
        weights = [1.0] * len(self.level.peaks)
        costs, constant = self.costs, 0.0
        for multiplier, (level, limit) in zip(held, self.held, strict=True):
            costs = costs.plus(level.jobs, float(multiplier))
            constant -= float(multiplier) * limit
            weights += [float(multiplier)] * len(level.peaks)
        for peak, weight, shares, floor in zip(
            self.peaks, weights, given.peaks, self.floors, strict=True
        ):
            borne = np.maximum(shares, 0.0)
            total = float(borne.sum())
            if total > weight:
                borne, total = borne * (weight / total), weight
            costs = costs.plus(peak.shared(borne))
            constant += (weight - total) * floor
        return costs, constant

    def scaled(self, factor: float, held: Sequence[float]) -> Target:
        """Return the same target with the costs of the level and the held ones times factors.

        Parameters
        ----------
        factor
            What the level is taken times, above 0.
        held
            What each held level is taken times, above 0, in their order.
        """
        levels = [
            (own.scaled(f), f * limit) for f, (own, limit) in zip(held, self.held, strict=True)
        ]
        factors = [factor] * len(self.level.peaks)
        for f, (own, _) in zip(held, self.held, strict=True):
            factors += [f] * len(own.peaks)
        floors = tuple(f * floor for f, floor in zip(factors, self.floors, strict=True))
        return replace(self, level=self.level.scaled(factor), held=tuple(levels), floors=floors)


def level_costs(jobs: Sequence[Job], level: WeightedSum, slot_s: float) -> LevelCosts:
    """Return a level of a goal as costs.

    Parameters
    ----------
    jobs
        The jobs.
    level
        A weighted sum of objectives of schedules.
    slot_s
        Length of a slot, seconds.

    Raises
    ------
    InstanceError
        If tardiness is asked for and no job has a due date.
    """
    weight = np.array([job.weight for job in jobs])
    arrival = np.array([job.arrival_s for job in jobs]) / slot_s
    zero = np.zeros(len(jobs))
    rate, late, due, peaks = zero, zero, np.full(len(jobs), np.inf), []
    base = zero
    for factor, term in level.terms:
        if term.name in ("weighted_jct", "mean_jct"):
            own = factor * (weight if term.name == "weighted_jct" else zero + 1 / len(jobs))
            rate, base = rate + own, base - own * arrival
        elif term.name == "tardiness":
            due = due_dates(jobs) / slot_s
            on_grid = np.isclose(due, np.rint(due), rtol=_ON_GRID, atol=0.0)
            due = np.where(on_grid, np.rint(due), due)
            late = late + factor * np.where(np.isfinite(due), weight, 0.0)
        elif term.name == "makespan":
            peaks.append(Peak(zero + factor, zero))
        else:
            peaks.append(Peak(factor / np.array([job.min_run_s for job in jobs]), arrival))
    return LevelCosts(JobCosts(base, rate, late, due), tuple(peaks))


def target_of(
    jobs: Sequence[Job], objective: str, held: Sequence[Held], slot_s: float
) -> tuple[Target, Array]:
    """Return a target without floors, and the deadlines that held peaks set, slots, shape (J,).

    Parameters
    ----------
    jobs
        The jobs.
    objective
        The level to minimise, as `alloc.objectives.parse_level` reads it.
    held
        Earlier levels, with the values that they must keep, in their own units.
    slot_s
        Length of a slot, seconds, above 0.
    """
    latest: Array = np.full(len(jobs), np.inf)
    kept: list[tuple[LevelCosts, float]] = []
    for each in held:
        level, limit = level_costs(jobs, each.level, slot_s), each.limit / slot_s
        if level.is_peak:
            latest = np.minimum(latest, level.peaks[0].latest(limit))
        else:
            kept.append((level, limit))
    target = Target(level_costs(jobs, parse_level(objective), slot_s), tuple(kept))
    dues = [level.jobs.due for level in (target.level, *(level for level, _ in kept))]
    due = np.min(dues, axis=0)  # one due date a job, whichever level asks for it
    level = replace(target.level, jobs=replace(target.level.jobs, due=due))
    return replace(target, level=level), latest


def peak_floor(peak: Peak, begin: Array, shortest: Array, area: Array, capacity: Array) -> float:
    """Return a value that a peak has in every schedule.

    No job completes before it could alone; and the jobs that begin at a moment or later, and must
    complete by another, do not use more of a row than it has between the two (energetic reasoning:
    Baptiste, Le Pape, Nuijten, "Satisfiability tests and time-bound adjustments for cumulative
    scheduling problems", Annals of OR 92, 1999).

    Parameters
    ----------
    peak
        The peak.
    begin
        Earliest start of each job, slots, shape (J,).
    shortest
        Least number of slots, a fraction included, in which each job can run, shape (J,).
    area
        Least use of each row times slots that each job takes, shape (J, R).
    capacity
        Capacity of the rows, shape (R,).
    """
    alone = float(peak.at(begin + shortest).max())
    rows = capacity > 0
    load = area[:, rows] / capacity[rows]
    moments = np.unique(begin)
    if len(moments) > _MAX_BEGINNINGS:
        moments = moments[np.linspace(0, len(moments) - 1, _MAX_BEGINNINGS).astype(int)]
    best = alone
    for moment in moments:
        there = begin >= moment
        late = Peak(peak.slope[there], peak.origin[there])
        best = _least_value(late, load[there], float(moment), best)
    return best


def _least_value(peak: Peak, load: Array, moment: float, least: float) -> float:
    """Return the least value at which the load of some jobs fits between a moment and their ends.

    Or the given value, where that is more.
    """

    def fits(value: float) -> bool:
        end = peak.latest(value)
        order = np.argsort(end)
        return bool((np.cumsum(load[order], axis=0) <= end[order][:, None] - moment).all())

    if fits(least):
        return least
    low, high = least, 2 * least
    while not fits(high):
        low, high = high, 2 * high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return low
