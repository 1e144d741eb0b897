"""Good quotas found quickly: steps moved between tenants, judged by the rule of equal borrowing."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from alloc.models.quota_planning import QuotaData
from alloc.problems.quota_planning.measures import coverage, level_of, share_out
from alloc.problems.quota_planning.problem import Quota, QuotaPlan, TenantUse
from alloc.units import MILLI

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


def quick_plan(data: QuotaData, seconds: float) -> tuple[QuotaPlan | None, bool]:
    """Return quotas by local search, with what the rule of equal borrowing makes of them.

    An interrupt (Ctrl-C) ends the search with the best quotas until then.

    Parameters
    ----------
    data
        The problem; its goal is a fair one or ``least_quota``.
    seconds
        Wall time, seconds.

    Returns
    -------
    QuotaPlan or None
        None if the search found no quotas that keep the promises of ``least_quota``.
    bool
        Whether there was an interrupt.
    """
    until = time.perf_counter() + seconds
    steps = _first(data)
    try:
        for better in _better(data, steps, until):
            steps = better
        return _plan(data, steps), False
    except KeyboardInterrupt:
        return _plan(data, steps), True


def _plan(data: QuotaData, steps: Whole) -> QuotaPlan | None:
    """Return the plan of quotas that keep the promises of ``least_quota``, else None."""
    if data.problem.goal == "least_quota" and not _kept(data, steps):
        return None
    return plan_of_quotas(data, steps)


def _better(data: QuotaData, steps: Whole, until: float) -> Iterator[Whole]:
    """Yield quotas, each better than the one before."""
    if data.problem.goal != "least_quota":
        yield from _levelled(data, steps, until)
        return
    for better in _raised(data, steps, until):
        steps = better
        yield steps
    if _kept(data, steps):
        yield from _lowered(data, steps, until)


def plan_of_quotas(data: QuotaData, steps: Whole) -> QuotaPlan:
    """Return the plan of quotas, shared out by the rule of equal borrowing.

    Parameters
    ----------
    data
        The problem.
    steps
        Quota of each tenant of each GPU type, in steps of the problem, shape (tenants, types).
    """
    problem = data.problem
    quotas = tuple(
        Quota(tenant.name, gpu_type, int(steps[i, g]) * problem.step_milli)
        for i, tenant in enumerate(problem.tenants)
        for g, gpu_type in enumerate(problem.types)
    )
    served = _shared(data, steps) * MILLI
    uses = tuple(
        TenantUse(scenario.name, tenant.name, gpu_type, tuple(served[data.outcome_of[s], i, g]))
        for s, scenario in enumerate(problem.scenarios)
        for i, tenant in enumerate(problem.tenants)
        for g, gpu_type in enumerate(problem.types)
    )
    return QuotaPlan(quotas, uses)


def _shared(data: QuotaData, steps: Whole) -> Array:
    """Return what tenants get in each outcome, GPUs."""
    quota: Array = steps.astype(float) * data.step * MILLI
    return share_out(data.problem, quota, data.demand * MILLI) / MILLI


def _by_scenario(data: QuotaData, steps: Whole) -> Array:
    """Return what tenants get in each scenario and period, milli-GPU."""
    return _shared(data, steps)[data.outcome_of] * MILLI


def _first(data: QuotaData) -> Whole:
    """Return quotas in proportion to mean demands, the floors first, within the capacity."""
    steps = data.least.copy()
    mean = data.weight_h @ data.demand.reshape(len(data.demand), -1)
    mean = mean.reshape(steps.shape)
    for g in range(steps.shape[1]):
        free = int(data.capacity[g] / data.step + 1e-9) - int(steps[:, g].sum())
        total = float(mean[:, g].sum())
        if free > 0 and total > 0:
            extra = np.floor(free * mean[:, g] / total).astype(np.int64)
            steps[:, g] = np.minimum(steps[:, g] + extra, data.most[:, g])
    return steps


def _free(data: QuotaData, steps: Whole) -> Whole:
    found: Whole = np.floor(data.capacity / data.step + 1e-9).astype(np.int64) - steps.sum(axis=0)
    return found


def _levelled(data: QuotaData, steps: Whole, until: float) -> Iterator[Whole]:
    """Give steps to the worst tenant, free ones or those of the tenants that are better off."""

    def levels(now: Whole) -> tuple[float, ...]:
        return tuple(np.sort(level_of(data.problem, _by_scenario(data, now))).tolist())

    best = levels(steps)
    improved = True
    while improved and time.perf_counter() < until:
        improved = False
        order = np.argsort(level_of(data.problem, _by_scenario(data, steps)), kind="stable")
        for moved in _moves(data, steps, int(order[0]), order[::-1]):
            if time.perf_counter() >= until:
                break
            if (found := levels(moved)) > best:
                steps, best, improved = moved, found, True
                yield steps
                break


def _moves(data: QuotaData, steps: Whole, poor: int, givers: Whole) -> list[Whole]:
    """Return the quotas with a few steps more for one tenant, larger moves first."""
    found = []
    free = _free(data, steps)
    for number in (8, 4, 2, 1):
        for g in range(steps.shape[1]):
            if steps[poor, g] + number > data.most[poor, g]:
                continue
            if free[g] >= number:
                moved = steps.copy()
                moved[poor, g] += number
                found.append(moved)
                continue
            for giver in givers.tolist():
                if giver != poor and steps[giver, g] - number >= data.least[giver, g]:
                    moved = steps.copy()
                    moved[poor, g] += number
                    moved[giver, g] -= number
                    found.append(moved)
    return found


def _missing(data: QuotaData, steps: Whole) -> Array:
    """Return by how much of the time each tenant's promise is missed."""
    exceeded = 1 - coverage(data.problem, _by_scenario(data, steps))
    allowed = np.array([tenant.exceeding for tenant in data.problem.tenants])
    found: Array = np.maximum(exceeded - allowed - 1e-9, 0.0)
    return found


def _kept(data: QuotaData, steps: Whole) -> bool:
    return not _missing(data, steps).any()


def _raised(data: QuotaData, steps: Whole, until: float) -> Iterator[Whole]:
    """Move steps to the tenants that miss their promise until none does, or nothing helps."""
    now = float(_missing(data, steps).sum())
    while now > 0 and time.perf_counter() < until:
        missing = _missing(data, steps)
        order = np.argsort(missing, kind="stable")
        best, following = now, None
        for moved in _moves(data, steps, int(order[-1]), order):
            if (found := float(_missing(data, moved).sum())) < best:
                best, following = found, moved
            if time.perf_counter() >= until:
                break
        if following is None:
            break
        steps, now = following, best
        yield steps


def _lowered(data: QuotaData, steps: Whole, until: float) -> Iterator[Whole]:
    """Take steps away, the dearest first, as long as every promise holds."""
    for number in (16, 8, 4, 2, 1):
        for i in range(steps.shape[0]):
            for g in range(steps.shape[1]):
                while steps[i, g] - number >= data.least[i, g] and time.perf_counter() < until:
                    lower = steps.copy()
                    lower[i, g] -= number
                    if not _kept(data, lower):
                        break
                    steps = lower
                    yield steps
