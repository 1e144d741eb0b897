"""Prices for long instances of counted jobs: the volume algorithm in place of a linear master.

With hundreds of jobs over hundreds of slots the linear master takes longer at each round than the
pricing of all jobs. The volume algorithm (`alloc.algorithms.volume`) needs only the pricing; the
completions in its last rounds guide insertion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alloc.algorithms.volume import raise_dual
from alloc.formulation import Array
from alloc.models.malleable.data import SlotData
from alloc.solving.malleable.counted import CountedPricing, counted_profile
from alloc.solving.malleable.master import Column, make_column
from alloc.solving.outcome import Settings

_KEPT = 12
"""Rounds whose profiles are kept as columns: those of rounds long ago belong to prices far off."""
_KEEP_EVERY = 5
"""Of so many rounds the last is one of them: from one to the next, few jobs change their
profile."""


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
    kept: list[np.ndarray] = []
    count = 0

    def relaxed(prices: Array) -> tuple[float, Array]:
        nonlocal kept, count
        priced = pricing.solve(prices / capacity)
        count += 1
        if count == 1 or count % _KEEP_EVERY == 0:
            kept = [*kept[1 - _KEPT :], priced.chosen]
        return priced.value, pricing.total_use(priced.chosen) / capacity

    found = raise_dual(
        relaxed,
        (num_slots, len(capacity)),
        upper,
        lambda: settings.seconds_left() <= deadline,
        report,
    )
    columns, z = _columns(data, kept)
    return Ascent(found.prices / capacity, found.value, columns, z, found.rounds)


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
