"""Column generation for F2: the linear master, prices, and the Lagrangian bound.

Profiles are generated where prices say they help. The prices are smoothed towards the best point
known (Wentges 1997), which tames their swings. At any prices the Lagrangian function is a lower
bound on every schedule; at convergence it equals the linear master, which is stronger than the
time-indexed LP because each column is a whole profile. Long instances of counted jobs, whose linear
master would be slow, get their prices by ascent instead; the bound is proved in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from alloc.errors import OutOfTime
from alloc.formulation import Array
from alloc.models.malleable.costs import JobCosts, Multipliers
from alloc.models.malleable.data import SlotData
from alloc.models.malleable.profiles import Pricing, lagrangian_bound
from alloc.solving.malleable.ascent import ascend
from alloc.solving.malleable.counted import CountedPricing
from alloc.solving.malleable.master import Column, Master, make_column
from alloc.solving.outcome import Settings

_SMOOTHING = 0.6
_CONVERGED = 1e-6
_PRICING_CELLS = 5 * 10**6
_BOUND_CELLS = 2 * 10**8
"""Sizes of the dynamic programs (slots x configurations x grid steps), a tenth of a second and a
few seconds of numpy: the finer the grid, the less the bound loses to rounding."""
_BOUND_SHARE = 0.3
"""Share of the time left that each proof of a bound may take: incumbents need the rest."""
_LONG = 20_000
"""Jobs times slots from which counted jobs are priced by ascent, without a linear master."""


@dataclass(frozen=True)
class Relaxation:
    """What column generation found.

    Parameters
    ----------
    prices
        The best prices, shape (slots, R).
    bound
        The lower bound they prove, weighted slots after arrival.
    value
        Value of the linear master, weighted slots; of the best Lagrangian where there was none.
    columns
        All columns generated.
    z
        Their values in the last linear master, shape (columns,).
    converged
        Whether no column could improve the master.
    mastered
        Whether there was a linear master. Without one, the columns are too few for an integer
        master over all jobs to be worth its time.
    multipliers
        The multipliers of peaks and held levels beside the prices; None where there are none.
    """

    prices: Array
    bound: float
    value: float
    columns: list[Column]
    z: Array
    converged: bool
    mastered: bool = True
    multipliers: Multipliers | None = None

    def relaxed(self, data: SlotData) -> tuple[JobCosts, float]:
        """Return what completions cost in the bound, and its constant (`Target.relaxed`)."""
        return data.target.relaxed(self.multipliers or data.target.nothing())

    def completion(self, num_jobs: int) -> Array:
        """Return each job's mean completion in the linear master, slots, shape (J,)."""
        mean: Array = np.zeros(num_jobs)
        share = np.full(num_jobs, 1e-12)
        for column, z in zip(self.columns, self.z, strict=True):
            mean[column.job] += z * column.profile.completion
            share[column.job] += z
        return np.asarray(mean / share)


def grid_steps(data: SlotData, num_slots: int, cells: int) -> int:
    """Return the grid steps that a number of dynamic programming cells affords."""
    configurations = sum(len(table.rate) for table in data.tables)
    return int(np.clip(cells // (num_slots * configurations), 1000, 20000))


def bound_states(data: SlotData, num_slots: int) -> int:
    """Return the grid steps of the bound."""
    return grid_steps(data, num_slots, _BOUND_CELLS)


def proved_bound(
    data: SlotData, prices: Array, settings: Settings, multipliers: Multipliers | None = None
) -> float:
    """Return the bound that prices prove, weighted slots, on the finest grid that time allows.

    Minus infinity where time is too short for any: the bound of every job alone holds always.
    """
    num_slots = len(prices)
    coarse = grid_steps(data, num_slots, _PRICING_CELLS)
    fine = bound_states(data, num_slots)
    best = -np.inf
    for states in dict.fromkeys((coarse, fine)):
        left = settings.seconds_left()
        try:
            value = lagrangian_bound(data, prices, states, settings.time_is_up, multipliers)
        except OutOfTime:
            break
        best = max(best, value / data.slot_s)
        if (left - settings.seconds_left()) * fine / states > settings.seconds_left():
            break
    return best


def generate_columns(
    data: SlotData,
    num_slots: int,
    first_columns: list[Column],
    settings: Settings,
    seconds: float,
    report: Callable[[str], None],
    *,
    prove: bool = True,
) -> Relaxation:
    """Generate columns until nothing improves the master, or time is up.

    Parameters
    ----------
    data
        The instance on its slots.
    num_slots
        Slots of the master. Profiles in the master end within them; the bound holds for schedules
        of any length.
    first_columns
        Columns to start with; a complete schedule gives sensible first prices.
    settings
        The limits of the whole solve.
    seconds
        Wall time for this step, seconds.
    report
        Takes a line of progress.
    prove
        Whether to prove the bound of the best prices, which takes longer than all the rest on small
        instances; without, the bound is minus infinity.
    """
    if data.num_jobs * num_slots >= _LONG and CountedPricing.applies(data, num_slots):
        return _by_ascent(data, num_slots, first_columns, settings, seconds, report)
    master = Master(data, num_slots, penalty=10.0 * num_slots)
    master.add(first_columns)
    whole, settings = settings, settings.within(seconds)
    pricing = Pricing(data, grid_steps(data, num_slots, _PRICING_CELLS), settings.time_is_up)
    target, states = data.target, pricing.num_states
    multipliers = best_multipliers = target.nothing()
    constant = 0.0
    best, best_prices = -np.inf, np.zeros((num_slots, len(data.rows.names)))
    smoothing, iteration, converged = 0.0, 0, False
    # What is known before the first master: the first columns, at no prices.
    value, prices, z = np.inf, best_prices, np.ones(len(master.columns))
    while True:
        try:
            value, prices, multipliers, z = master.solve(settings.seconds_left())
            query = smoothing * best_prices + (1 - smoothing) * prices
            at = multipliers.towards(best_multipliers, smoothing)
            if target.links_jobs:
                costs, constant = target.relaxed(at)
                pricing = Pricing(data, states, settings.time_is_up, costs)
            solved = pricing.solve(query, "upper")
        except OutOfTime:
            break
        lagrangian = float(pricing.costs(solved).sum() - (query @ data.rows.capacity).sum())
        lagrangian += constant
        if lagrangian > best:
            best, best_prices, best_multipliers = lagrangian, query, at
        profiles = pricing.profiles(solved)
        added = master.add(
            [make_column(data, j, profile) for j, profile in enumerate(profiles) if profile]
        )
        iteration += 1
        report(
            f"column generation {iteration}: master {value:.4f}, Lagrangian {best:.4f}, "
            f"{len(master.columns)} columns"
        )
        if value - best <= _CONVERGED * abs(value) or (not added and smoothing == 0.0):
            converged = True
            break
        if settings.time_is_up():
            break
        # A smoothed query that finds nothing new is followed by one at the master's own prices.
        smoothing = _SMOOTHING if added else 0.0
    with suppress(OutOfTime):
        value, prices, multipliers, z = master.solve(settings.seconds_left())
    z = np.concatenate([z, np.zeros(len(master.columns) - len(z))])
    bound = -np.inf
    if not prove:
        return Relaxation(prices, bound, value, master.columns, z, converged)
    best_point = best_prices, best_multipliers
    for candidate in (best_point, (prices, multipliers)):
        # Both are valid; the better one depends on how far the master has come.
        brief = whole.within(_BOUND_SHARE * whole.seconds_left())
        proved = proved_bound(data, candidate[0], brief, candidate[1])
        if proved > bound:
            bound, best_point = proved, candidate
    return Relaxation(
        best_point[0], bound, value, master.columns, z, converged, multipliers=best_point[1]
    )


def _by_ascent(
    data: SlotData,
    num_slots: int,
    first_columns: list[Column],
    settings: Settings,
    seconds: float,
    report: Callable[[str], None],
) -> Relaxation:
    """Return the relaxation of a long instance of counted jobs."""
    upper = sum(column.cost for column in first_columns)
    found = ascend(data, num_slots, upper, settings, seconds, report)
    bound = proved_bound(data, found.prices, settings.within(0.5 * settings.seconds_left()))
    report(f"ascent done after {found.rounds} rounds: {found.value:.4f}, proved {bound:.4f}")
    return Relaxation(
        found.prices, bound, found.value, found.columns, found.z, False, mastered=False
    )
