"""Headroom: how much more than its load a class needs in a pool, so that its goal is kept.

A class whose jobs hold n GPUs finds, in a pool of R GPUs, about ``m = floor(R / n)`` servers. With
Poisson arrivals and exponential run times of mean h (M/M/m, Erlang C) a job waits longer than t
with probability ``C(m, a) exp(-(m - a) t / h)``, which rises with the load a [1]_. The largest load
a* that keeps the goal gives the utilisation ``a* / m`` and the headroom ``m / a*``.

On the safe side: run times of training jobs vary, but those of one class in one option less than
exponentially, and less variation means shorter waits (halved for constant run times [2]_). Not on
the safe side: gangs wait for n GPUs at once and leave some idle meanwhile, arrivals come in bursts,
and R is what pools are taken to have before their size is known. The replay of a plan in the
simulator finds where that matters; `alloc.problems.right_sizing.Tightening` is its answer.

References
----------
.. [1] D. Gross et al., *Fundamentals of Queueing Theory*, 4th ed., 2008, section 2.4.
.. [2] L. Kleinrock, *Queueing Systems I*, 1975, section 5.6 (Pollaczek-Khinchine), for one server;
   A. O. Allen, 1990, section 5.3, for several.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from alloc.errors import InstanceError
from alloc.problems.right_sizing.bands import bands_of, expected_load
from alloc.problems.right_sizing.demand import JobClass, MarginKey, Tightening, TighteningKey
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.workload.queueing import wait_in_queue

_MAX_SERVERS = 1000
"""Beyond it a few more servers hardly matter; fewer than there are is on the safe side."""
_STEPS = 40
"""Halvings of a load between 0 and 1: 40 leave 1e-12, beneath every tolerance of a plan."""
MAX_HEADROOM = 1000
"""GPUs for a busy one from which on a goal cannot be kept: nobody buys a pool that is idle for all
but a thousandth of the time, and one as large as that keeps the goal with far less."""
ANY_POOL = 1e6
"""GPUs from which on it makes no difference how large a pool is: more than `_MAX_SERVERS` of any
gang. Such a pool is taken where capacity buffers, which know the sizes, stand for the headroom."""
KEPT_OUT = 1e5
"""Factor of a tightening from which on a class is kept out of a pool. A smaller one is no wall: the
host that is there anyway has room for a few jobs whatever they count."""


@lru_cache(maxsize=65536)
def max_utilisation(
    servers: int, run_hours: float, wait_hours: float, fraction: float | None
) -> float:
    """Return the largest utilisation at which jobs wait no longer than promised (M/M/c).

    Parameters
    ----------
    servers
        Jobs that fit at the same time, 1 or more.
    run_hours
        Mean run time, hours.
    wait_hours
        Most wait, hours.
    fraction
        Fraction of the jobs that keep to it; None: the mean does.
    """
    servers = min(servers, _MAX_SERVERS)
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        wait = wait_in_queue(servers, middle * servers / run_hours, run_hours, 1.0)
        if fraction is None:
            kept = wait.mean_s <= wait_hours
        else:
            kept = wait.is_stable and wait.exceeds(wait_hours) <= 1 - fraction
        low, high = (middle, high) if kept else (low, middle)
    return low


def reference_gpus(problem: PlanningProblem) -> float:
    """Return the GPUs a pool is taken to have."""
    if problem.pool_gpus is not None:
        return problem.pool_gpus
    return float(expected_load(problem).sum()) / len(problem.sites)


def headroom(
    problem: PlanningProblem, job_class: JobClass, option: int, pool_gpus: float, spot: bool = False
) -> float | None:
    """Return by what the load of a class in an option is multiplied to get the GPUs it needs.

    Parameters
    ----------
    problem, job_class
        The problem, and one of its classes.
    option
        Position of the option in the class.
    pool_gpus
        GPUs of the pool.
    spot
        Whether on spot hosts, where a job takes longer by the class's overhead.

    Returns
    -------
    float or None
        1 or more, without any `Tightening`; None if the option is too slow for the goal, or would
        need more than `MAX_HEADROOM` GPUs for a busy one.
    """
    way = job_class.options[option]
    floor = 1 / problem.utilisation
    if job_class.goal is None:
        return floor
    hours = way.hours * (1 + (job_class.spot_overhead if spot else 0.0))
    wait_hours = job_class.goal.wait_hours(hours)
    if wait_hours < 0:
        return None
    servers = max(int(pool_gpus // way.gpus), 1)
    busy = max_utilisation(servers, hours, wait_hours, job_class.goal.fraction)
    return None if busy * MAX_HEADROOM < 1 else max(1 / busy, floor)


def require_goals_can_be_kept(problem: PlanningProblem) -> None:
    """Refuse a goal that a pool keeps only if next to none of its GPUs is ever busy.

    Raises
    ------
    InstanceError
        If for a class with jobs the formula asks for more than `MAX_HEADROOM` GPUs for a busy one
        on every option that is fast enough.
    """
    pool_gpus = reference_gpus(problem)
    types = {offer.gpu_type for offer in problem.offers}
    for job_class in problem.classes:
        goal = job_class.goal
        if goal is None or not any(any(s.arrivals[job_class.name]) for s in problem.scenarios):
            continue
        fast = [
            k
            for k, option in enumerate(job_class.options)
            if option.gpu_type in types and goal.wait_hours(option.hours) >= 0
        ]
        if fast and all(headroom(problem, job_class, k, pool_gpus) is None for k in fast):
            raise InstanceError(
                f'job class "{job_class.name}": that {goal.sentence} would take more than '
                f"{MAX_HEADROOM:,} GPUs for each busy one in pools of {pool_gpus:,.0f} GPUs; give "
                "a longer goal, fewer jobs that must keep it, or say in pool_gpus how large pools "
                "are."
            )


def tightening_factors(problem: PlanningProblem) -> dict[TighteningKey, float]:
    """Return the factor of each (class, GPU type, site, spot) that has one; several multiply.

    From `KEPT_OUT` on the models offer no way there at all.
    """
    found: dict[TighteningKey, float] = {}
    for part in problem.tightening:
        found[part.key] = found.get(part.key, 1.0) * part.factor
    return found


def margin_parts(
    problem: PlanningProblem, num_bands: int
) -> dict[tuple[str, str, bool], tuple[float, ...]]:
    """Return the part of its margin that each pool with one keeps in each band of hours.

    Pools are GPU type, site, and whether spot hosts are meant. Of several parts the largest counts.

    Parameters
    ----------
    problem
        Its `tightening` names the margins.
    num_bands
        Bands that the hours of a week fall into, 1 to 168.

    Raises
    ------
    InstanceError
        If parts are given for another number of bands than there are.
    """
    found: dict[tuple[str, str, bool], tuple[float, ...]] = {}
    for part in problem.tightening:
        if part.margin > 0:
            kept = part.bands or (1.0,) * num_bands
            if len(kept) != num_bands:
                raise InstanceError(
                    f'tightening of "{part.job_class}" on "{part.gpu_type}" at "{part.site}": '
                    f"bands has {len(kept)} values, and the hours of a week fall into {num_bands} "
                    "bands; give one for each, or none."
                )
            pool = part.gpu_type, part.site, part.spot
            before = found.get(pool, kept)
            found[pool] = tuple(max(pair) for pair in zip(before, kept, strict=True))
    return found


def with_margins_by_hour(changed: PlanningProblem, before: PlanningProblem) -> PlanningProblem:
    """Return a changed problem whose margins keep in every hour the part that they kept before.

    Other prices, arrivals or sites may put the hours of the week into other bands. Of hours that
    share a band now the largest part counts.

    Parameters
    ----------
    changed
        The problem after the change; its margins are still given by the bands of `before`.
    before
        The problem that the margins were given for.

    Raises
    ------
    InstanceError
        If parts are given for another number of bands than there were.
    """
    if not any(part.bands for part in changed.tightening):
        return changed
    old, new = bands_of(before), bands_of(changed)
    margin_parts(before, old.count)
    if np.array_equal(old.of_hour, new.of_hour):
        return changed

    def moved(part: Tightening) -> Tightening:
        if not part.bands:
            return part
        by_hour = np.array(part.bands)[old.of_hour]
        parts = (by_hour[new.of_hour == band].max() for band in range(new.count))
        return replace(part, bands=tuple(float(each) for each in parts))

    return changed.replace(tightening=tuple(moved(part) for part in changed.tightening))


def margins(problem: PlanningProblem) -> dict[MarginKey, tuple[float, ...]]:
    """Return the margins of each pool and class, or pair of classes, that has any.

    In GPUs, quarter by quarter; of several the largest counts.
    """
    found: dict[MarginKey, list[float]] = {}
    for part in problem.tightening:
        if part.margin > 0:
            kept = found.setdefault(part.margin_key, [0.0] * problem.num_quarters)
            every = range(problem.num_quarters)
            for quarter in every if part.quarter is None else (part.quarter,):
                kept[quarter] = max(kept[quarter], part.margin)
    return {key: tuple(kept) for key, kept in found.items()}
