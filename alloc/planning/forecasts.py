"""Forecasts: scenarios of the work to come, from a history of weeks or from rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest
from alloc.planning.history import History
from alloc.problems.right_sizing.demand import JobClass, Scenario
from alloc.units import require_count, require_finite, require_non_negative, require_positive

WEEKS_PER_QUARTER = 13
"""Weeks of a quarter of `PlanningProblem.quarter_hours`, 2190 hours, in whole numbers."""

Growth = float | Mapping[str, float]
"""Growth per quarter as a fraction, for all classes or for each by name (0 where not named)."""


def bootstrap_weeks(
    history: History,
    num_quarters: int,
    *,
    num_scenarios: int = 20,
    growth: Growth = 0.0,
    block_weeks: int = 1,
    seed: int = 0,
) -> tuple[Scenario, ...]:
    """Return equally probable scenarios whose quarters are made of weeks drawn from a history.

    Each quarter is the mean of 13 weeks, drawn with replacement. A week is drawn whole, so that
    classes which rise and fall together do so in the scenarios.

    Parameters
    ----------
    history
        The weeks to draw from.
    num_quarters
        Quarters of the forecast, 1 or more.
    num_scenarios
        Scenarios, 1 or more.
    growth
        Growth from quarter to quarter; the first quarter is as large as the history.
    block_weeks
        Weeks in a row that are drawn together, to keep what lasts longer than a week (the moving
        block bootstrap [1]_).
    seed
        Seed of the draws.

    Raises
    ------
    InstanceError
        If a number is out of range or a growth names an unknown class.

    References
    ----------
    .. [1] H. R. Künsch, "The jackknife and the bootstrap for general stationary observations",
       Annals of Statistics 17(3), 1989.
    """
    require_count(num_quarters, "forecast", "num_quarters", least=1)
    require_count(num_scenarios, "forecast", "num_scenarios", least=1)
    require_count(block_weeks, "forecast", "block_weeks", least=1)
    if block_weeks > history.num_weeks:
        raise InstanceError(
            f"forecast: block_weeks is {block_weeks}, and the history has {history.num_weeks} "
            "weeks; draw shorter blocks."
        )
    rng = np.random.default_rng(seed)
    blocks = -(-WEEKS_PER_QUARTER // block_weeks)
    starts = rng.integers(
        0, history.num_weeks - block_weeks + 1, size=(num_scenarios, num_quarters, blocks)
    )
    weeks = (starts[..., None] + np.arange(block_weeks)).reshape(num_scenarios, num_quarters, -1)
    rates = history.jobs_per_hour[weeks[..., :WEEKS_PER_QUARTER]].mean(axis=2)
    return _scenarios(rates, history.classes, growth)


def scenarios_from_rates(
    classes: Sequence[JobClass],
    jobs_per_hour: Mapping[str, float],
    num_quarters: int,
    *,
    num_scenarios: int = 20,
    growth: Growth = 0.0,
    variation: float = 0.0,
    shared: float = 0.5,
    seed: int = 0,
) -> tuple[Scenario, ...]:
    """Return equally probable scenarios around given rates.

    Rates are lognormal with the given mean and coefficient of variation. A part of the variance of
    their logarithm is shared by all classes of a quarter: busy times are busy for everybody.

    Parameters
    ----------
    classes
        The classes.
    jobs_per_hour
        Mean rate of each class in the first quarter, by name.
    num_quarters, num_scenarios, growth, seed
        As in `bootstrap_weeks`.
    variation
        Coefficient of variation of a class's rate in a quarter, 0 or more.
    shared
        Part of the variance that all classes share, from 0 to 1.

    Raises
    ------
    InstanceError
        If a class has no rate, a rate no class, or a number is out of range.
    """
    require_count(num_quarters, "forecast", "num_quarters", least=1)
    require_count(num_scenarios, "forecast", "num_scenarios", least=1)
    require_non_negative(variation, "forecast", "variation")
    require_finite(shared, "forecast", "shared")
    if not 0 <= shared <= 1:
        raise InstanceError(f"forecast: shared is {shared:g}; give a part between 0 and 1.")
    names = [job_class.name for job_class in classes]
    for name in jobs_per_hour:
        _require_class(name, names, "a rate")
    for name in names:
        if name not in jobs_per_hour:
            raise InstanceError(
                f'forecast: job class "{name}" has no rate; give its jobs per hour.'
            )
        require_non_negative(jobs_per_hour[name], f'forecast: job class "{name}"', "jobs_per_hour")
    rng = np.random.default_rng(seed)
    spread = np.sqrt(np.log1p(variation**2))
    common = rng.standard_normal((num_scenarios, num_quarters, 1))
    own = rng.standard_normal((num_scenarios, num_quarters, len(names)))
    normal = np.sqrt(shared) * common + np.sqrt(1 - shared) * own
    mean = np.array([jobs_per_hour[name] for name in names])
    return _scenarios(mean * np.exp(spread * normal - spread**2 / 2), classes, growth)


def _scenarios(
    rates: npt.NDArray[np.float64], classes: Sequence[JobClass], growth: Growth
) -> tuple[Scenario, ...]:
    """Return scenarios of rates, shape (scenarios, quarters, classes), as they grow."""
    num_scenarios, num_quarters, _ = rates.shape
    factors = _growth_factors(growth, [job_class.name for job_class in classes], num_quarters)
    grown = rates * factors
    width = len(str(num_scenarios))
    return tuple(
        Scenario(
            name=f"{s + 1:0{width}d}",
            probability=1 / num_scenarios,
            arrivals={
                job_class.name: tuple(float(rate) for rate in grown[s, :, j])
                for j, job_class in enumerate(classes)
            },
        )
        for s in range(num_scenarios)
    )


def _growth_factors(
    growth: Growth, names: Sequence[str], num_quarters: int
) -> npt.NDArray[np.float64]:
    """Return the growth of each class up to each quarter, shape (quarters, classes)."""
    if isinstance(growth, Mapping):
        for name in growth:
            _require_class(name, names, "a growth")
        each = np.array([growth.get(name, 0.0) for name in names])
    else:
        each = np.full(len(names), float(growth))
    for rate in each:
        require_positive(1 + float(rate), "forecast", "1 + growth")
    return np.asarray((1 + each) ** np.arange(num_quarters)[:, None])


def _require_class(name: str, names: Sequence[str], what: str) -> None:
    if name not in names:
        raise InstanceError(
            f'forecast: {what} is given for the unknown class "{name}"{nearest(name, names) or "."}'
            f" The classes are {', '.join(names)}."
        )
