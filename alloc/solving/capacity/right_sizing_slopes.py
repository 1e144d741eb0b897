"""Slope scaling: which pools to open, where spare hosts make opening a pool cost something."""

from __future__ import annotations

import numpy as np

from alloc.models.right_sizing.data import Array
from alloc.models.right_sizing.first_stage import FirstStage
from alloc.solving.capacity.right_sizing_master import BlockMaster

_ROUNDS = 10
_LEAST_HOSTS = 0.3
_CLOSED = 1e-6


def open_by_slopes(
    master: BlockMaster, first: FirstStage, rng: np.random.Generator
) -> Array | None:
    """Return for every switch whether it is open, or None if the master is infeasible.

    In the relaxation a pool with m hosts of at most M pays m/M of its spare hosts. Replacing M by
    the m of the round before makes a pool that stays as it is pay for all of them, and one that
    shrinks no longer worth its while.
    """
    at = first.open >= 0
    opened, counted, rows = first.open[at], first.counted[at], first.switch[at]
    matrix = first.matrix
    own = np.array([float(matrix[[r], [c]][0]) for r, c in zip(rows, opened, strict=True)])
    high = np.full(len(opened), 1e4)
    master.fix(opened, np.zeros(len(opened)), high)
    # What a closed pool would have to hold before it pays: another guess every time.
    slope = -own / (1.5 + 5.0 * rng.random(len(own)))
    try:
        answer = master.solve()
        last = None
        for _ in range(_ROUNDS):
            if answer is None:
                return None
            hosts = answer[1][counted]
            slope = np.where(hosts > _CLOSED, np.maximum(hosts, _LEAST_HOSTS), slope)
            for row, column, value in zip(rows, opened, slope, strict=True):
                master.solver.changeCoeff(int(row), int(column), -float(value))
            answer = master.solve()
            chosen = None if answer is None else answer[1][counted] > _CLOSED
            if chosen is not None and last is not None and (chosen == last).all():
                break
            last = chosen
        return None if answer is None else np.asarray(answer[1][counted] > _CLOSED, dtype=float)
    finally:
        for row, column, value in zip(rows, opened, own, strict=True):
            master.solver.changeCoeff(int(row), int(column), float(value))
        master.release(opened)
