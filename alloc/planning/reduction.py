"""Scenario reduction: few scenarios that stand for many."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError
from alloc.problems.right_sizing.demand import Scenario


def reduce_scenarios(scenarios: Sequence[Scenario], keep: int) -> tuple[Scenario, ...]:
    """Return a few of the scenarios, with the probabilities of those they stand for.

    Fast forward selection [1]_: the next scenario kept is the one that lowers the expected distance
    of all scenarios to their nearest kept one the most. Distances are Euclidean over the arrivals
    of all classes and quarters and the availability of spot hosts, each divided by its mean, so
    that the unit of a class does not matter.

    Parameters
    ----------
    scenarios
        At least one, over the same classes and quarters.
    keep
        How many to keep, from 1 to all.

    Returns
    -------
    tuple of Scenario
        In the order in which they were given.

    Raises
    ------
    InstanceError
        If `keep` is out of range or the scenarios are not over the same classes.

    References
    ----------
    .. [1] H. Heitsch, W. Römisch, "Scenario reduction algorithms in stochastic programming",
       Computational Optimization and Applications 24, 2003, algorithm 2.4.
    """
    if not 1 <= keep <= len(scenarios):
        raise InstanceError(
            f"scenario reduction: cannot keep {keep} of {len(scenarios)} scenarios; keep from 1 to "
            f"{len(scenarios)}."
        )
    probability = np.array([scenario.probability for scenario in scenarios])
    points = _points(scenarios)
    # Row by row: all differences at once are gigabytes for a thousand scenarios.
    distance = np.array([np.sqrt(((points - point) ** 2).sum(axis=1)) for point in points])
    nearest_kept = np.full(len(scenarios), np.inf)
    kept: list[int] = []
    for _ in range(keep):
        # What the expected distance would be with each scenario kept as well.
        would_be = probability @ np.minimum(nearest_kept[:, None], distance)
        would_be[kept] = np.inf
        chosen = int(would_be.argmin())
        kept.append(chosen)
        nearest_kept = np.minimum(nearest_kept, distance[:, chosen])
    kept.sort()
    stands_for = distance[:, kept].argmin(axis=1)
    # Equal scenarios are at distance 0 of each other; each kept one stands for itself.
    stands_for[kept] = np.arange(keep)
    return tuple(
        dataclasses.replace(
            scenarios[s], probability=float(probability[stands_for == position].sum())
        )
        for position, s in enumerate(kept)
    )


def _points(scenarios: Sequence[Scenario]) -> npt.NDArray[np.float64]:
    """Return each scenario as a point, shape (scenarios, numbers)."""
    names = sorted(scenarios[0].arrivals)
    for scenario in scenarios:
        if sorted(scenario.arrivals) != names:
            raise InstanceError(
                f'scenario reduction: scenario "{scenario.name}" has other job classes than '
                f'"{scenarios[0].name}"; give the arrivals of the same classes in all.'
            )
    # Without numbers all spot hosts can be had: 1, wherever other scenarios have numbers.
    all_spot = (1.0,) * max(len(scenario.spot_availability) for scenario in scenarios)
    series = [
        [*(scenario.arrivals[name] for name in names), scenario.spot_availability or all_spot]
        for scenario in scenarios
    ]
    if len({tuple(map(len, rates)) for rates in series}) > 1:
        raise InstanceError(
            "scenario reduction: the scenarios have series of different lengths; give a number for "
            "every quarter in all."
        )
    points = np.array([np.concatenate(rates) for rates in series])
    scale = points.mean(axis=0)
    return np.asarray(points / np.where(scale > 0, scale, 1.0))
