"""Slope scaling: which pools to open, where spare hosts make opening a pool cost something."""

from __future__ import annotations

import math
import time

import numpy as np

from alloc.models.right_sizing.data import Array
from alloc.models.right_sizing.first_stage import FirstStage
from alloc.solving.right_sizing.master import BlockMaster

_ROUNDS = 10
"""Most rounds: what is open mostly stays the same sooner, which ends them."""
_LEAST_HOSTS = 0.3
"""Hosts that a pool in use is taken to hold at least: with fewer, its slope would close it for
good."""
_FIRST_GUESS = 3.0
"""A pool that the relaxation closes is first taken to hold M over this, in the middle of what is
drawn for later guesses."""
_CLOSED = 1e-6
"""Hosts up to which a pool is closed: above the tolerance of HiGHS (1e-7), below any order."""


def open_by_slopes(
    master: BlockMaster,
    first: FirstStage,
    limits: Array,
    rng: np.random.Generator | None,
    seconds: float = math.inf,
) -> Array | None:
    """Return for every switch whether it is open, or None if the master is infeasible.

    In the relaxation a pool with m hosts of at most M pays m/M of its spare hosts. Replacing M by
    the m of the round before makes a pool that stays as it is pay for all of them, and one that
    shrinks no longer worth its while.

    `limits` are the M of (C7) that the master has. With `rng` the guess for pools that the
    relaxation has closed is drawn, so that another call finds another choice. After `seconds` of
    wall time no other round begins: those of a master with many cuts take a second each.

    Parameters
    ----------
    master
        The master; its bounds are as before in the end.
    first
        Its first stage.
    limits
        M of (C7) for each switch.
    rng
        Draws guesses, or None for the first one.
    seconds
        Wall time, seconds.
    """
    ends = time.perf_counter() + seconds
    at = first.open >= 0
    opened, counted = first.open[at], first.counted[at]
    high = np.full(len(opened), 1e4)
    master.fix(opened, np.zeros(len(opened)), high)
    # What a closed pool would have to hold before it pays: another guess every time.
    slope = limits / (_FIRST_GUESS if rng is None else 1.5 + 5.0 * rng.random(len(limits)))
    try:
        answer = master.solve()
        last = None
        for _ in range(_ROUNDS):
            if answer is None:
                return None
            hosts = answer[1][counted]
            slope = np.where(hosts > _CLOSED, np.maximum(hosts, _LEAST_HOSTS), slope)
            master.limit_counted(slope)
            answer = master.solve()
            chosen = None if answer is None else answer[1][counted] > _CLOSED
            if chosen is not None and last is not None and (chosen == last).all():
                break
            last = chosen
            if time.perf_counter() > ends:
                break
        return None if answer is None else np.asarray(answer[1][counted] > _CLOSED, dtype=float)
    finally:
        master.limit_counted(limits)
        master.release(opened)
