"""Proving F2 optimal: all profiles that any better schedule could use, then the integer master.

At prices p the Lagrangian bound splits over jobs. A profile that costs a job more than its cheapest
by at least the distance between incumbent and bound is in no better schedule (reduced cost fixing).
The profiles left are enumerated breadth first, cut off by the dynamic program's value as a bound on
their completion, and the integer master over them is solved exactly (route enumeration, Baldacci,
Christofides and Mingozzi 2008).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from alloc.errors import OutOfTime
from alloc.formulation import Array
from alloc.models.malleable.costs import JobCosts
from alloc.models.malleable.data import SlotData
from alloc.models.malleable.labels import cheapest_profiles
from alloc.models.malleable.profiles import IDLE, Pricing, Profile, Solved, never

_FIT = 1e-9
"""Part of a slot by which a completion may be late through rounding of the work that was done."""


def enumerate_profiles(
    data: SlotData,
    prices: Array,
    value: float,
    *,
    num_states: int,
    most: int,
    stop: Callable[[], bool] = never,
    job_costs: JobCosts | None = None,
) -> list[list[Profile]] | None:
    """Return every profile that a schedule better than a value may hold, by these prices.

    In such a schedule no job costs more than its cheapest profile by as much as the value is above
    the sum of them all. That sum is taken from the same bounds as the cheapest profiles: others may
    prove more, and cut off too much here.

    Parameters
    ----------
    data
        The instance on its slots, without restart costs.
    prices
        Price of each row in each slot, shape (slots, R).
    value
        What all jobs together may cost: the incumbent's value, less what the bound holds besides
        the jobs (`Target.relaxed`, capacity at its prices).
    num_states
        Grid of the dynamic program that cuts off.
    most
        Give up beyond so many profiles, counting partial ones of a slot.
    stop
        Asked again and again whether time is up.
    job_costs
        What completions cost in that bound (`Target.relaxed`); None for the costs of single jobs.

    Returns
    -------
    list or None
        For each job its profiles; None if there are too many, if a job could end after the priced
        slots, or if time is up.
    """
    pricing = Pricing(data, num_states, stop, job_costs)
    try:
        prices = np.maximum(prices, 0.0)
        solved_groups = pricing.solve(prices, "lower")
        least = cheapest_profiles(pricing, solved_groups, prices).least
    except OutOfTime:
        return None
    found: list[list[Profile]] = [[] for _ in range(data.num_jobs)]
    total = 0
    slack = value - float(least.sum())
    slack += 1e-9 * abs(slack) + 1e-9
    for (_, jobs), programs in zip(pricing.groups, solved_groups, strict=True):
        for j in jobs:
            release, work = int(data.release[j]), float(data.work[j])
            started = bool(data.started[j])
            cutoff = float(least[j]) - pricing.job_costs.of(int(j), release) + slack
            for solved in programs:
                own = _profiles_of(
                    solved, prices, release, work, started, cutoff, most - total, stop
                )
                if own is None:
                    return None
                found[int(j)] += own
                total += len(own)
    return found


def _profiles_of(
    solved: Solved,
    prices: Array,
    release: int,
    work: float,
    started: bool,
    cutoff: float,
    most: int,
    stop: Callable[[], bool],
) -> list[Profile] | None:
    """Return the profiles of one job in one program whose cost is at most `cutoff`.

    None if there are more than `most`, if one could end after the priced slots, or if time is up.
    """
    program = solved.program
    rate = program.table.rate[program.columns]
    price = prices @ program.table.use[program.columns].T
    extra = program.surcharge(work)
    left, cost = np.array([work]), np.zeros(1)
    history = np.zeros((1, 0), dtype=np.int16)
    running = np.array([started])
    profiles: list[Profile] = []
    horizon = len(prices)
    if release >= horizon:
        return None
    rise = program.delay_of_slots(horizon)
    for t in range(release, horizon):
        if stop():
            return None
        fraction = left[:, None] / rate[None, :]
        fits = fraction <= 1 + _FIT
        fraction = np.minimum(fraction, 1.0)
        whole = cost[:, None] + price[t] + program.delay(t, fraction)
        done = np.argwhere(fits & (whole <= cutoff) & (t + fraction <= program.limit + _FIT))
        if len(profiles) + len(done) > most:
            return None
        for i, c in done:
            if stop():
                return None
            choice = [int(k) if k == IDLE else int(program.columns[k]) for k in history[i]]
            choice.append(int(program.columns[c]))
            start = next(k for k, column in enumerate(choice) if column != IDLE)
            profiles.append(
                Profile(release + start, tuple(choice[start:]), t + float(fraction[i, c]))
            )
        after_run = left[:, None] - rate[None, :]
        spent = cost[:, None] + price[t] + rise[t]
        # After a run a job that may not pause goes on running.
        ahead = solved.value if program.pausable else solved.run_value
        bound = spent + ahead[t + 1][_clip(solved, after_run)] + extra
        i, c = np.nonzero(~fits & (bound <= cutoff))
        waits = np.flatnonzero(
            (program.pausable | ~running)
            & (cost + rise[t] + solved.value[t + 1][_clip(solved, left)] + extra <= cutoff)
        )
        idle = np.full((len(waits), 1), IDLE, dtype=np.int16)
        history = np.concatenate(
            [
                np.hstack([history[i], c[:, None].astype(np.int16)]),
                np.hstack([history[waits], idle]),
            ]
        )
        left = np.concatenate([after_run[i, c], left[waits]])
        cost = np.concatenate([spent[i, c], cost[waits] + rise[t]])
        running = np.concatenate([np.ones(len(i), dtype=bool), running[waits]])
        if len(left) + len(profiles) > most:
            return None
        if not len(left):
            return profiles
    return None  # some profile could end after the priced slots


def _clip(solved: Solved, left: Array) -> np.ndarray:
    """Return the states of work left, within the program's table."""
    return np.minimum(solved.program.states(np.maximum(left, 0.0)), solved.program.num_states)
