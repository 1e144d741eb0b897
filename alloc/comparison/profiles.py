"""Performance profiles: how often a contender is within a factor of the best of all.

References
----------
Dolan, Moré. Benchmarking optimization software with performance profiles. Mathematical Programming
91(2), 2002. doi:10.1007/s101070100263.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FACTORS = (1.0, 1.01, 1.1, 1.5, 2.0, 5.0, 10.0)
"""Factors that a table shows: equal to the best, within a per cent, and so on."""


@dataclass(frozen=True)
class Profile:
    """The performance profile of one contender.

    Parameters
    ----------
    contender
        Its name.
    ratios
        Its cost over the least of all contenders, one number for each problem, ascending; infinite
        where it has no answer.
    """

    contender: str
    ratios: tuple[float, ...]

    def share(self, factor: float) -> float:
        """Return the share of the problems on which it is within a factor of the best.

        Parameters
        ----------
        factor
            The factor, 1 or more.
        """
        # Times are measured and values are sums: what differs in the last digits is equal.
        return bisect.bisect_right(self.ratios, factor * (1 + 1e-9)) / len(self.ratios)

    def steps(self) -> list[tuple[float, float]]:
        """Return the factors at which the share rises, each with the share from there on."""
        return [
            (ratio, self.share(ratio)) for ratio in dict.fromkeys(self.ratios) if ratio < math.inf
        ]


def profiles(costs: Mapping[str, Sequence[float | None]]) -> list[Profile]:
    """Return the performance profiles of contenders.

    Parameters
    ----------
    costs
        Name of each contender to its cost on each problem, 0 or more, less is better; None where it
        has no answer. Problems without any answer count against all.

    Returns
    -------
    list of Profile
        In the order of the contenders; none without problems.

    Raises
    ------
    ValueError
        If contenders have different numbers of problems.
    """
    columns = list(zip(*costs.values(), strict=True))
    best = [min((c for c in column if c is not None), default=math.inf) for column in columns]
    if not best:
        return []
    return [
        Profile(name, tuple(sorted(_ratio(c, b) for c, b in zip(row, best, strict=True))))
        for name, row in costs.items()
    ]


def _ratio(cost: float | None, best: float) -> float:
    if cost is None:
        return math.inf
    if cost == best:
        return 1.0  # of nothing, too
    return cost / best if best > 0 else math.inf
