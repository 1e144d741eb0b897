"""Bands: the hours of the week in groups in which prices and arrivals are about the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.problems.right_sizing.series import HOURS_OF_WEEK, hours_of_week

Array = npt.NDArray[np.float64]

# Series that differ less than this are written differently, not meant differently.
_DIGITS = 9


@dataclass(frozen=True, eq=False)
class Bands:
    """Groups of the hours of the week.

    Parameters
    ----------
    of_hour
        Band of each hour of the week, shape (168,).
    hours
        Hours of each band in a quarter, shape (bands,).
    arrivals
        Arrivals of each class in each band over its mean, shape (classes, bands).
    energy_price
        Price of energy at each site, money per kWh, shape (sites, bands).
    carbon
        Carbon dioxide of energy at each site, kg per kWh, shape (sites, bands).
    peak
        Largest ratio of a class's arrivals in one hour to those of its band; 1 if bands are exact.
    merged
        Whether hours that differ, in prices or arrivals, stand in one band.
    """

    of_hour: npt.NDArray[np.int64]
    hours: Array
    arrivals: Array
    energy_price: Array
    carbon: Array
    peak: float
    merged: bool = False

    @property
    def count(self) -> int:
        """Number of bands."""
        return len(self.hours)

    def sentence(self) -> str:
        """Return what is assumed about hours, in words."""
        if not self.merged:
            if self.count == 1:
                return "all hours of a week are alike"
            return (
                f"the hours of a week fall into {self.count} bands within which prices and "
                "arrivals are the same"
            )
        if self.count == 1:
            bands = "the hours of a week are all taken together, with their mean"
        else:
            bands = (
                f"the hours of a week are put into {self.count} bands by prices and arrivals, each "
                "with its mean"
            )
        return (
            f"{bands}; in its busiest hour a class has {self.peak:.2f} times the arrivals of its "
            "band"
        )


def bands_of(problem: PlanningProblem) -> Bands:
    """Return the bands of a problem.

    Hours in which all prices, carbon figures and arrivals are equal form one band. If there are
    more than ``problem.bands``, the two nearest are merged again and again (Ward's distance, each
    series in units of its mean, classes weighted by their share of the GPU-hours). They are worked
    out once, and kept with the problem.
    """
    if not problem.known_bands:
        problem.known_bands.append(_bands(problem))
    bands: Bands = problem.known_bands[0]
    return bands


def _bands(problem: PlanningProblem) -> Bands:
    """Work the bands out."""
    profiles = np.array([_unit_mean(hours_of_week(c.hourly_profile)) for c in problem.classes])
    prices = np.array([hours_of_week(s.energy_price_per_kwh) for s in problem.sites])
    carbon = np.array([hours_of_week(s.carbon_kg_per_kwh) for s in problem.sites])
    everything = np.round(np.vstack([profiles, prices, carbon]), _DIGITS)
    _, group = np.unique(everything, axis=1, return_inverse=True)
    # In order of the first hour, so that the order of parts does not matter.
    group = _in_order(group.ravel())
    merged = bool(group.max() + 1 > problem.bands)
    if merged:
        weighted = profiles * _weights(problem)[:, None]
        features = np.vstack([weighted, _scaled(prices), _scaled(carbon)])
        group = _in_order(_merge(features, group, problem.bands))
    weight = np.bincount(group).astype(float)

    def mean(values: Array) -> Array:
        return np.asarray(np.array([np.bincount(group, row) for row in values]) / weight)

    arrivals = mean(profiles)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = profiles / arrivals[:, group]
    hours = weight * problem.quarter_hours / HOURS_OF_WEEK
    parts = (group, hours, arrivals, mean(prices), mean(carbon))
    for part in parts:
        part.flags.writeable = False  # model and checker read the same
    return Bands(*parts, float(np.nanmax(ratio)), merged)


def _unit_mean(values: tuple[float, ...]) -> Array:
    found = np.array(values)
    return np.asarray(found / found.mean())


def _scaled(values: Array) -> Array:
    """Return series in units of their overall mean, all of them together as heavy as one class."""
    mean = values.mean()
    return np.asarray(values / mean / np.sqrt(len(values))) if mean > 0 else values


def _weights(problem: PlanningProblem) -> Array:
    """Return the square root of each class's share of all GPU-hours."""
    load = expected_load(problem)
    total = load.sum()
    return np.asarray(np.sqrt(load / total if total > 0 else np.full(len(load), 1 / len(load))))


def expected_load(problem: PlanningProblem) -> Array:
    """Return the expected load of each class, mean over the quarters, GPUs, shape (classes,).

    On the option with the fewest GPU-hours.
    """
    return np.array(
        [
            min(option.gpu_hours for option in c.options)
            * sum(s.probability * float(np.mean(s.arrivals[c.name])) for s in problem.scenarios)
            for c in problem.classes
        ]
    )


def _in_order(group: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[inverse.ravel()])


def _merge(features: Array, group: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """Merge the two nearest groups until there are at most `most` (Ward 1963)."""
    count = np.bincount(group).astype(float)
    centre = np.array([np.bincount(group, row) for row in features]).T / count[:, None]
    label = group.copy()
    alive = list(range(len(count)))
    while len(alive) > most:
        at = np.array(alive)
        square = ((centre[at][:, None, :] - centre[at][None, :, :]) ** 2).sum(axis=2)
        weight = count[at][:, None] * count[at][None, :] / (count[at][:, None] + count[at][None, :])
        distance = np.round(square * weight, 12)
        np.fill_diagonal(distance, np.inf)
        a, b = sorted(np.unravel_index(int(distance.argmin()), distance.shape))
        keep, gone = alive[a], alive[b]
        total = count[keep] + count[gone]
        centre[keep] = (count[keep] * centre[keep] + count[gone] * centre[gone]) / total
        count[keep] = total
        label[label == gone] = keep
        alive.pop(int(b))
    return label
