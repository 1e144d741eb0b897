"""Prices for long instances of counted jobs: the volume algorithm in place of a linear master.

With hundreds of jobs over hundreds of slots the linear master takes longer at each round than the
pricing of all jobs. The volume algorithm needs only the pricing: it steps along an average of the
jobs' excess use, and the average converges to a solution of the linear master, whose completions
guide insertion.

References
----------
Barahona and Anbil, The volume algorithm: producing primal solutions with a subgradient method,
Mathematical Programming 87 (2000).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alloc.formulation import Array
from alloc.models.malleable.data import SlotData
from alloc.solving.malleable.counted import CountedPricing, counted_profile
from alloc.solving.malleable.master import Column, make_column
from alloc.solving.outcome import Settings

_AVERAGING = 0.1
"""Weight of the newest profiles in the average."""
_FACTORS = (0.001, 2.0)
"""Smallest and largest step factor."""
_PATIENCE = 20
"""Rounds without a better value after which steps become shorter."""
_STALLED = 150
"""Rounds over which a gain of less than `_WORTHWHILE` ends the ascent."""
_WORTHWHILE = 2e-4
_KEPT = 12
_KEEP_EVERY = 5
"""How many rounds' profiles are kept as columns: every fifth of the last ones."""


@dataclass(frozen=True)
class Ascent:
    """What the ascent found.

    Parameters
    ----------
    prices
        The best prices, shape (slots, R).
    value
        Their Lagrangian value, weighted slots after arrival.
    columns
        Profiles of the last rounds.
    z
        Their shares, shape (columns,).
    rounds
        Rounds done.
    """

    prices: Array
    value: float
    columns: list[Column]
    z: Array
    rounds: int


def ascend(
    data: SlotData,
    num_slots: int,
    upper: float,
    settings: Settings,
    seconds: float,
    report: Callable[[str], None],
) -> Ascent:
    """Raise the Lagrangian bound until it stalls or time is up.

    Parameters
    ----------
    data
        The instance on its slots; all its jobs counted, without limits.
    num_slots
        Slots that are priced.
    upper
        Value of a schedule, weighted slots.
    settings
        The limits of the whole solve.
    seconds
        Wall time for this step, seconds.
    report
        Takes a line of progress.
    """
    pricing = CountedPricing(data, num_slots)
    capacity = np.where(data.rows.capacity > 0, data.rows.capacity, 1.0)
    deadline = max(settings.seconds_left() - seconds, 0.0)
    centre = np.zeros((num_slots, len(capacity)))  # prices of whole rows, not of units
    priced = pricing.solve(centre)
    best, average = priced.value, pricing.total_use(priced.chosen) / capacity
    factor, target, idle, rounds = 0.1, min(upper, 1.05 * best), 0, 1
    milestone, since = best, 0
    kept = [priced.chosen]
    while settings.seconds_left() > deadline:
        if best > 0.98 * target:
            target = min(upper, 1.02 * best + 1e-9 * abs(upper))
        excess = average - 1.0
        excess[(centre <= 0) & (excess < 0)] = 0.0
        norm = float((excess**2).sum())
        if norm <= 1e-12:
            break
        point = np.maximum(centre + factor * max(target - best, 1e-9) / norm * excess, 0.0)
        priced = pricing.solve(point / capacity)
        value = priced.value - float(point.sum())
        load = pricing.total_use(priced.chosen) / capacity
        rounds += 1
        if rounds % _KEEP_EVERY == 0:
            kept = [*kept[1 - _KEPT :], priced.chosen]
        if value > best:
            # Uphill still where the new excess points: longer steps.
            if float((excess * (load - 1.0)).sum()) > 0:
                factor = min(1.1 * factor, _FACTORS[1])
            best, centre, idle = value, point, 0
        else:
            idle += 1
            if idle >= _PATIENCE:
                factor, idle = max(0.66 * factor, _FACTORS[0]), 0
        average = _AVERAGING * load + (1 - _AVERAGING) * average
        if rounds % 50 == 0:
            report(f"ascent {rounds}: Lagrangian {best:.4f}, step factor {factor:.4f}")
        since += 1
        if best > milestone + _WORTHWHILE * abs(best):
            milestone, since = best, 0
        if since >= _STALLED:
            break
    columns, z = _columns(data, kept)
    return Ascent(centre / capacity, best, columns, z, rounds)


def _columns(data: SlotData, kept: list[np.ndarray]) -> tuple[list[Column], Array]:
    """Return the distinct profiles of some rounds, and the share of the rounds each was in."""
    share: dict[tuple[int, bytes], float] = {}
    for chosen in kept:
        by_job = np.ascontiguousarray(chosen.T)
        for j in range(data.num_jobs):
            key = (j, by_job[j].tobytes())
            share[key] = share.get(key, 0.0) + 1.0 / len(kept)
    columns = [
        make_column(data, j, counted_profile(data, j, np.flatnonzero(np.frombuffer(row, bool))))
        for j, row in share
    ]
    return columns, np.array(list(share.values()))
