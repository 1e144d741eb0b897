"""Arrival patterns: how many jobs arrive in each slot.

Jobs arrive at the start of a slot and are there for its decision, as in DL2. All draws come from
`Generator.random`, whose stream numpy keeps stable; its distributions may change between releases,
and then a seed would no longer name the same instance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Integral

import numpy as np

from alloc.errors import InstanceError, nearest
from alloc.units import require_positive

BURST_PERIOD_SLOTS = 6
"""Slots from one burst to the next in the bursty pattern."""
BURST_SHARE = 0.75
"""Share of a period's jobs that come in its burst slot."""
DIURNAL_SWING = 0.9
"""Amplitude of the daily wave relative to its mean: between 0.1 and 1.9 times the mean rate."""
DAY_S = 86400.0  # 24 hours
_LARGEST_MEAN = 500.0  # exp(-745) is 0
_MAX_SLOTS = 1e6
"""Above it a rate is a mistake: of slots of a minute, a million are nearly two years."""


ArrivalProcess = Callable[[np.random.Generator], Iterable[int]]
"""Gives the number of jobs that arrive in each slot, slot after slot; draws from the generator."""


def draw_arrival_slots(
    pattern: str | ArrivalProcess,
    num_jobs: int,
    per_slot: float,
    rng: np.random.Generator,
    *,
    slots_per_day: float,
) -> list[int]:
    """Return the slot in which each job arrives, in order.

    Parameters
    ----------
    pattern
        ``start``: all in slot 0. ``uniform``: the same number in every slot (DL2's "Uniform").
        ``poisson``: independent Poisson numbers (DL2's "Poisson"). ``bursty``: Poisson with three
        quarters of the jobs in every sixth slot, starting with the first; our own spikes, in place
        of the 20-fold spike in the trace that DL2 used. ``diurnal``: Poisson whose mean follows a
        daily sine wave, starting at its mean and rising. Or a process of your own, such as
        `resampled`: a function from the random generator to the numbers of arrivals, slot by slot.
    num_jobs
        Jobs, 1 or more.
    per_slot
        Mean number of arrivals in a slot, more than 0. Without meaning for ``start`` and for a
        process of your own.
    rng
        Source of randomness.
    slots_per_day
        Slots in a period of the diurnal wave.

    Raises
    ------
    InstanceError
        If the pattern is unknown, the rate is not positive, or a process gives something else than
        whole numbers or ends before all jobs have arrived.
    """
    if callable(pattern):
        return _slots_of(_counted(pattern, num_jobs, rng), num_jobs)
    if pattern not in PATTERNS:
        raise InstanceError(
            f'unknown arrival pattern "{pattern}"{nearest(str(pattern), PATTERNS)} '
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
    return _slots_of(_COUNTS[pattern](per_slot, rng, slots_per_day), num_jobs)


def _slots_of(counts: Iterable[int], num_jobs: int) -> list[int]:
    slots: list[int] = []
    for slot, count in enumerate(counts):
        slots += [slot] * min(count, num_jobs - len(slots))
        if len(slots) >= num_jobs:
            break
    return slots


def _counted(process: ArrivalProcess, num_jobs: int, rng: np.random.Generator) -> Iterator[int]:
    """Yield the numbers that a process gives, each held to what it must be."""
    name = getattr(process, "__name__", "the process")
    arrived = 0
    counts = process(rng)
    if not isinstance(counts, Iterable):
        raise InstanceError(
            f"arrivals: {name} gives {counts!r}; it must give the number of jobs that arrive in "
            "each slot, slot after slot."
        )
    for slot, count in enumerate(counts):
        if isinstance(count, bool) or not isinstance(count, Integral) or count < 0:
            raise InstanceError(
                f"arrivals: {name} gives {count!r} for slot {slot}; it must give the number of "
                "jobs that arrive in each slot, a whole number from 0."
            )
        if slot >= _MAX_SLOTS:
            raise InstanceError(
                f"arrivals: {name} takes more than a million slots for {num_jobs} jobs; let more "
                "arrive."
            )
        arrived += int(count)
        yield int(count)
    if arrived < num_jobs:
        raise InstanceError(
            f"arrivals: {name} ends after {arrived} of {num_jobs} jobs; let it go on, or ask for "
            "fewer jobs."
        )


def resampled(
    arrival_s: Sequence[float], slot_s: float, *, block_s: float = DAY_S
) -> ArrivalProcess:
    """Return a process that repeats the arrivals of a trace in blocks drawn at random.

    Within a block arrivals are as bursty as in the trace; where the next block begins is drawn. So
    it gives streams of any length with the trace's mean rate.

    Parameters
    ----------
    arrival_s
        Times of the trace's arrivals, seconds, at least one.
    slot_s
        Length of a slot, seconds, more than 0.
    block_s
        Length of a block, seconds: at least a slot. At the end of the trace a block goes on from
        its beginning.

    Raises
    ------
    InstanceError
        If there are no arrivals, one is not finite, or a length is out of range.

    References
    ----------
    The circular block bootstrap: Politis and Romano, "A circular block-resampling procedure for
    stationary data", in Exploring the Limits of Bootstrap, Wiley 1992.
    """
    where = "resampled arrivals"
    require_positive(slot_s, where, "slot_s")
    try:
        times = np.asarray(arrival_s, dtype=float).ravel()
    except (TypeError, ValueError):  # text in it, or rows of several lengths
        times = np.empty(0)
    if not times.size or not np.isfinite(times).all():
        raise InstanceError(
            f"{where}: a trace needs at least one arrival, and every time finite, in seconds."
        )
    if not slot_s <= block_s < math.inf:
        raise InstanceError(
            f"{where}: block_s is {block_s:g}; it must be at least a slot, {slot_s:g} s."
        )
    # Looked at as a float: no whole number holds all of them.
    if not times.max() - times.min() < _MAX_SLOTS * slot_s:
        raise InstanceError(f"{where}: the trace has more than a million slots; take longer ones.")
    counts = np.bincount(((times - times.min()) // slot_s).astype(np.int64))
    length = min(int(block_s // slot_s), len(counts))

    def process(rng: np.random.Generator) -> Iterator[int]:
        while True:
            first = int(rng.random() * len(counts))
            for k in range(length):
                yield int(counts[(first + k) % len(counts)])

    return process


def poisson(mean: float, rng: np.random.Generator) -> int:
    """Return a Poisson draw by inversion of one uniform number.

    Parameters
    ----------
    mean
        Mean of the distribution, 0 or more; a large one is drawn as the sum of two halves.
    rng
        Where the uniform number comes from.
    """
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
