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
from alloc.models.malleable.labels import WIDTH, cheapest_profiles, lagrangian_bound
from alloc.models.malleable.profiles import Pricing
from alloc.solving.malleable.ascent import ascend
from alloc.solving.malleable.counted import CountedPricing
from alloc.solving.malleable.master import Column, Master, make_column
from alloc.solving.outcome import Settings

_SMOOTHING = 0.6
"""Weight of the best prices known when profiles are priced: near 1 the prices hardly move, near 0
they swing from round to round. Where they price no new column, the prices of the master alone
decide."""
_CONVERGED = 1e-6
"""Gap of the master that counts as none, as for an optimal answer: less cannot be shown anyway."""
_CELLS_A_JOB = 50_000
"""Size of the dynamic programs while columns are generated (slots x configurations x grid steps),
for each job: about as long as following the labels takes. The finer the grid, the fewer labels."""
_BOUND_CELLS = 10**8
"""The same for the last bound, of all jobs: about a second."""
_CLOSE, _SHRUNK, _MAX_STALLED = 3e-4, 0.9, 3
"""A gap of the master that is left alone, once some iterations in a row did not shrink it to a
share: the time goes to schedules, which are farther away."""
_FAR = 0.05
"""Gap of the master from which on prices are rough: then any cheap profile will do."""
_MIN_STATES = 400
"""Least grid steps: on a coarser grid the labels take longer than the programs."""
_BOUND_SHARE = 0.1
"""Share of the time left that the proof of a bound on the fine grid may take: incumbents need the
rest."""
_LONG = 20_000
"""Jobs times slots from which counted jobs are priced by ascent: solving a linear master of that
many rows takes longer than the pricing."""


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


def grid_steps(data: SlotData, num_slots: int, cells: int | None = None) -> int:
    """Return the grid steps that a number of dynamic programming cells affords.

    Parameters
    ----------
    data
        The instance on its slots.
    num_slots
        Slots of the programs, at least 1.
    cells
        Slots x configurations x grid steps, at least 1; None: so many as the pricing takes.
    """
    configurations = sum(len(table.rate) for table in data.tables)
    cells = _CELLS_A_JOB * data.num_jobs if cells is None else cells
    return int(np.clip(cells // (num_slots * configurations), _MIN_STATES, 20000))


def proved_bound(
    data: SlotData, prices: Array, settings: Settings, multipliers: Multipliers | None = None
) -> float:
    """Return the bound that prices prove on a fine grid, weighted slots.

    Minus infinity where time is too short: the bound of every job alone holds always.

    Parameters
    ----------
    data
        The instance on its slots.
    prices
        Prices of capacity, 0 or more, shape (slots, R).
    settings
        Limits; the time of this bound.
    multipliers
        Of peaks and held levels, or None where nothing links the jobs.
    """
    states = grid_steps(data, len(prices), _BOUND_CELLS)
    with suppress(OutOfTime):
        bound = lagrangian_bound(data, prices, states, settings.time_is_up, multipliers)
        return bound / data.slot_s
    return -np.inf


def generate_columns(
    data: SlotData,
    num_slots: int,
    first_columns: list[Column],
    settings: Settings,
    seconds: float,
    report: Callable[[str], None],
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
    """
    if data.num_jobs * num_slots >= _LONG and CountedPricing.applies(data, num_slots):
        return _by_ascent(data, num_slots, first_columns, settings, seconds, report)
    master = Master(data, num_slots, penalty=10.0 * num_slots)
    master.add(first_columns)
    whole, settings = settings, settings.within(seconds)
    pricing = Pricing(data, grid_steps(data, num_slots), settings.time_is_up)
    target, states = data.target, pricing.num_states
    multipliers = best_multipliers = target.nothing()
    constant = 0.0
    best, lost, best_prices = -np.inf, 0.0, np.zeros((num_slots, len(data.rows.names)))
    smoothing, iteration, stalled, gap, converged = 0.0, 0, 0, np.inf, False
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
            solved = pricing.solve(query, "lower")
            far = value - best > _FAR * abs(value)
            found = cheapest_profiles(pricing, solved, query, 1 if far else WIDTH)
        except OutOfTime:
            break
        paid = constant - float((query @ data.rows.capacity).sum())
        if (lagrangian := float(found.least.sum()) + paid) > best:
            best, best_prices, best_multipliers = lagrangian, query, at
            # What is lost to labels given up, or to a job that would rather end after the slots.
            lost = float(found.costs.sum()) + paid - lagrangian
        added = master.add(
            [make_column(data, j, profile) for j, profile in enumerate(found.profiles) if profile]
        )
        iteration += 1
        report(
            f"column generation {iteration}: master {value:.4f}, Lagrangian {best:.4f}, "
            f"{len(master.columns)} columns"
        )
        if value - best <= _CONVERGED * abs(value) or (not added and smoothing == 0.0):
            converged = True
            break
        shrunk = value - best < _SHRUNK * gap
        gap, stalled = value - best, 0 if shrunk else stalled + 1
        if settings.time_is_up() or (stalled > _MAX_STALLED and gap <= _CLOSE * abs(value)):
            break
        # A smoothed query that finds nothing new is followed by one at the master's own prices.
        smoothing = _SMOOTHING if added else 0.0
    with suppress(OutOfTime):
        value, prices, multipliers, z = master.solve(settings.seconds_left())
    z = np.concatenate([z, np.zeros(len(master.columns) - len(z))])
    if lost > _CONVERGED * abs(value):
        brief = whole.within(_BOUND_SHARE * whole.seconds_left())
        best = max(best, proved_bound(data, best_prices, brief, best_multipliers))
    return Relaxation(
        best_prices, best, value, master.columns, z, converged, multipliers=best_multipliers
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
