"""Arrival patterns: how many jobs arrive in each slot.

Jobs arrive at the start of a slot and are there for its decision, as in DL2. All draws come from
`Generator.random`, whose stream numpy keeps stable; its distributions may change between releases,
and then a seed would no longer name the same instance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from alloc.errors import InstanceError, nearest
from alloc.units import require_positive

BURST_PERIOD_SLOTS = 6
"""Slots from one burst to the next in the bursty pattern."""
BURST_SHARE = 0.75
"""Share of a period's jobs that come in its burst slot."""
DIURNAL_SWING = 0.9
"""Amplitude of the daily wave relative to its mean: between 0.1 and 1.9 times the mean rate."""
DAY_S = 86400.0
_LARGEST_MEAN = 500.0  # exp(-745) is 0
_MAX_SLOTS = 1e6


def draw_arrival_slots(
    pattern: str, num_jobs: int, per_slot: float, rng: np.random.Generator, *, slots_per_day: float
) -> list[int]:
    """Return the slot in which each job arrives, in order.

    Parameters
    ----------
    pattern
        ``start``: all in slot 0. ``uniform``: the same number in every slot (DL2's "Uniform").
        ``poisson``: independent Poisson numbers (DL2's "Poisson"). ``bursty``: Poisson with three
        quarters of the jobs in every sixth slot, starting with the first; our own spikes, in place
        of the 20-fold spike in the trace that DL2 used. ``diurnal``: Poisson whose mean follows a
        daily sine wave, starting at its mean and rising.
    num_jobs
        Jobs, 1 or more.
    per_slot
        Mean number of arrivals in a slot, more than 0. Without meaning for ``start``.
    rng
        Source of randomness.
    slots_per_day
        Slots in a period of the diurnal wave.

    Raises
    ------
    InstanceError
        If the pattern is unknown or the rate is not positive.
    """
    if pattern not in PATTERNS:
        raise InstanceError(
            f'unknown arrival pattern "{pattern}"{nearest(pattern, PATTERNS)} '
            f"Known: {', '.join(PATTERNS)}."
        )
    if pattern == "start":
        return [0] * num_jobs
    require_positive(per_slot, f'arrival pattern "{pattern}"', "arrivals_per_slot")
    require_positive(slots_per_day, f'arrival pattern "{pattern}"', "slots_per_day")
    if num_jobs / per_slot > _MAX_SLOTS:
        raise InstanceError(
            f'arrival pattern "{pattern}": arrivals_per_slot is {per_slot:g}, so {num_jobs} jobs '
            "take more than a million slots to arrive; raise the rate."
        )
    slots: list[int] = []
    for slot, count in enumerate(_COUNTS[pattern](per_slot, rng, slots_per_day)):
        slots += [slot] * count
        if len(slots) >= num_jobs:
            break
    return slots[:num_jobs]


def poisson(mean: float, rng: np.random.Generator) -> int:
    """Return a Poisson draw by inversion of one uniform number."""
    if mean > _LARGEST_MEAN:
        return poisson(mean / 2, rng) + poisson(mean / 2, rng)
    threshold = rng.random()
    count = 0
    term = math.exp(-mean)
    total = term
    # A threshold within rounding of 1 may never be reached; the terms have long vanished by then.
    while total < threshold and count < 20 * mean + 100:
        count += 1
        term *= mean / count
        total += term
    return count


def _uniform(per_slot: float, rng: np.random.Generator, _: float) -> Iterator[int]:
    # A rate that is not whole is spread evenly: 0.5 is one job in every second slot.
    given = 0
    slot = 0
    while True:
        due = math.ceil((slot + 1) * per_slot - 1e-9)
        yield due - given
        given = due
        slot += 1


def _poisson(per_slot: float, rng: np.random.Generator, _: float) -> Iterator[int]:
    while True:
        yield poisson(per_slot, rng)


def _bursty(per_slot: float, rng: np.random.Generator, _: float) -> Iterator[int]:
    in_burst = BURST_SHARE * BURST_PERIOD_SLOTS * per_slot
    between = (BURST_PERIOD_SLOTS * per_slot - in_burst) / (BURST_PERIOD_SLOTS - 1)
    while True:
        yield poisson(in_burst, rng)
        for _slot in range(BURST_PERIOD_SLOTS - 1):
            yield poisson(between, rng)


def _diurnal(per_slot: float, rng: np.random.Generator, slots_per_day: float) -> Iterator[int]:
    slot = 0
    while True:
        # The middle of the slot stands for all of it.
        phase = 2 * math.pi * (slot + 0.5) / slots_per_day
        yield poisson(per_slot * (1 + DIURNAL_SWING * math.sin(phase)), rng)
        slot += 1


_COUNTS: dict[str, Callable[[float, np.random.Generator, float], Iterator[int]]] = {
    "uniform": _uniform,
    "poisson": _poisson,
    "bursty": _bursty,
    "diurnal": _diurnal,
}
PATTERNS = ("start", *_COUNTS)
"""Names of the arrival patterns."""
