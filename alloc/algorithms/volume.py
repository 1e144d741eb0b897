"""The volume algorithm: a Lagrangian dual raised by steps along an average of subgradients.

It needs only the relaxed problem's solutions, no linear program: the average of what they use of
the rows converges to a solution of the linear master, and the steps along its excess to the prices.

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

_AVERAGING = 0.1
"""Weight of the newest solution in the average."""
_FACTORS = (0.001, 2.0)
"""Smallest and largest step factor."""
_PATIENCE = 20
"""Rounds without a better value after which steps become shorter."""
_STALLED = 150
"""Rounds over which a gain of less than `_MIN_GAIN` ends the ascent."""
_MIN_GAIN = 2e-4
"""Relative gain that is worth that many rounds."""

Relaxed = Callable[[Array], tuple[float, Array]]
"""At prices of rows: the least cost, the price of what is used included, and the use of each row in
units of what there is of it."""


@dataclass(frozen=True)
class DualMaximum:
    """What the ascent found.

    Parameters
    ----------
    prices
        The best prices of whole rows, 0 or more.
    value
        Their Lagrangian value: a lower bound on the minimisation that is relaxed.
    rounds
        Number of evaluations.
    """

    prices: Array
    value: float
    rounds: int


def raise_dual(
    relaxed: Relaxed,
    shape: tuple[int, ...],
    upper: float,
    is_over: Callable[[], bool],
    report: Callable[[str], None],
    start: Array | None = None,
) -> DualMaximum:
    """Raise the Lagrangian bound until it stalls or time is up.

    Parameters
    ----------
    relaxed
        Solves the relaxed minimisation, whose rows are ``use <= 1``.
    shape
        Of the prices.
    upper
        Value of a solution.
    is_over
        Asked before each round whether to stop.
    report
        Takes a line of progress.
    start
        Prices to begin from; by default 0.
    """
    centre = np.zeros(shape) if start is None else start
    best, average = relaxed(centre)
    best -= float(centre.sum())
    factor, target, idle, rounds = 0.1, _goal(best, upper, 0.05), 0, 1
    milestone, since = best, 0
    while not is_over():
        if best > 0.98 * target:
            target = _goal(best, upper, 0.02)
        excess = average - 1.0
        excess[(centre <= 0) & (excess < 0)] = 0.0
        norm = float((excess**2).sum())
        if norm <= 1e-12:
            break
        point = np.maximum(centre + factor * max(target - best, 1e-9) / norm * excess, 0.0)
        cost, use = relaxed(point)
        value = cost - float(point.sum())
        rounds += 1
        if value > best:
            # Uphill still where the new excess points: longer steps.
            if float((excess * (use - 1.0)).sum()) > 0:
                factor = min(1.1 * factor, _FACTORS[1])
            best, centre, idle = value, point, 0
        else:
            idle += 1
            if idle >= _PATIENCE:
                factor, idle = max(0.66 * factor, _FACTORS[0]), 0
        average = _AVERAGING * use + (1 - _AVERAGING) * average
        if rounds % 50 == 0:
            report(f"ascent {rounds}: Lagrangian {best:.4f}, step factor {factor:.4f}")
        since += 1
        if best > milestone + _MIN_GAIN * abs(best):
            milestone, since = best, 0
        if since >= _STALLED:
            break
    return DualMaximum(centre, best, rounds)


def _goal(best: float, upper: float, share: float) -> float:
    """Return a value a little above the best one, which steps aim at.

    A share of its size above, or of the way to the upper value where it is not yet more than 0.
    """
    above = share * best + 1e-9 * abs(upper) if best > 0 else share * (upper - best)
    return min(upper, best + above)
