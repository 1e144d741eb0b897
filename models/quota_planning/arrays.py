"""Quota planning as sparse arrays (matrix form)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from alloc.formulation import ArrayModel
from alloc.model_builder import ModelBuilder
from alloc.models.quota_planning.data import QuotaData
from alloc.problems.quota_planning.measures import AMOUNT_DIGITS, MET_TOLERANCE_MILLI
from alloc.problems.quota_planning.problem import Quota, QuotaPlan, TenantUse
from alloc.units import MILLI

Array = npt.NDArray[np.float64]
Relaxed = Literal["capacity", "exceeding"]

HELD_SLACK = 1e-7
"""How far, relatively, a later level may fall short of an earlier one, as solvers keep rows."""


@dataclass(frozen=True)
class Extra:
    """What a solve adds to the problem.

    Parameters
    ----------
    level
        For fair goals, how many of the worst tenants the level sums, 1 or more; 0: no level.
    kept
        Values of the earlier levels, to be kept.
    relaxed
        Minimise instead what would have to be added: GPUs of any type to the capacity, or the same
        share of the time to every tenant's `exceeding`.
    guarded
        Whether (C5) is part of it; without, the optimum is a bound.
    fixed
        Steps of every quota, in the order of `QuotaLayout.q`, if they are given: then (C5) needs no
        binaries.
    """

    level: int = 0
    kept: tuple[float, ...] = ()
    relaxed: Relaxed | None = None
    guarded: bool = True
    fixed: tuple[int, ...] = ()


@dataclass(frozen=True)
class QuotaLayout:
    """Where each variable stands: q, o, r, y, v, what is relaxed, then t and s of each level.

    Parameters
    ----------
    data
        The data.
    extra
        What the solve adds.
    """

    data: QuotaData
    extra: Extra = Extra()

    @cached_property
    def q(self) -> list[tuple[int, int]]:
        """Tenant and type of each q."""
        return [(i, g) for i in range(self.tenants) for g in range(self.types)]

    @cached_property
    def y(self) -> list[tuple[int, int, int]]:
        """Outcome, tenant and type of each y: where the quota may turn out below the demand."""
        data = self.data
        return [
            (k, i, g) for k, i, g in data.wants if data.guarded[i] and not always_met(data, k, i, g)
        ]

    @cached_property
    def v(self) -> list[tuple[int, int]]:
        """Outcome and tenant of each v."""
        if self.data.problem.goal not in ("fair_coverage", "least_quota"):
            return []
        return sorted({(k, i) for k, i, _ in self.data.wants})

    @cached_property
    def starts(self) -> dict[str, int]:
        """First position of each kind of variable, and ``end``."""
        levels = (len(self.extra.kept) + 1) if self.extra.level else 0
        sizes = {
            "q": len(self.q),
            "o": len(self.data.wants),
            "r": len(self.data.wants),
            "y": len(self.y),
            "v": len(self.v),
            "relaxed": 0 if self.extra.relaxed is None else max(self.types, 1),
            "levels": levels * (1 + self.tenants),
        }
        found, at = {}, 0
        for name, size in sizes.items():
            found[name] = at
            at += size
        return {**found, "end": at}

    @property
    def tenants(self) -> int:
        """Number of tenants."""
        return len(self.data.problem.tenants)

    @property
    def types(self) -> int:
        """Number of GPU types."""
        return len(self.data.problem.types)

    def plan(self, values: Array) -> QuotaPlan:
        """Turn values of the variables into a plan."""
        data, problem = self.data, self.data.problem
        quotas = tuple(
            Quota(problem.tenants[i].name, problem.types[g], round(values[k]) * problem.step_milli)
            for k, (i, g) in enumerate(self.q)
        )
        served = np.zeros(data.demand.shape)
        for n, key in enumerate(data.wants):
            got = values[self.starts["o"] + n] + values[self.starts["r"] + n]
            served[key] = min(max(got, 0.0), data.demand[key])
        steps = np.rint(values[: len(self.q)]).reshape(self.tenants, self.types)
        served = guaranteed(data, steps * data.step, served)
        uses = []
        for s, scenario in enumerate(problem.scenarios):
            for i, tenant in enumerate(problem.tenants):
                for g, gpu_type in enumerate(problem.types):
                    amounts = served[data.outcome_of[s], i, g] * MILLI
                    if amounts.any():
                        given = tuple(round(float(a), 6) for a in amounts)
                        uses.append(TenantUse(scenario.name, tenant.name, gpu_type, given))
        return QuotaPlan(quotas, tuple(uses))


def _amounts(milli: Array) -> Array:
    """Return amounts rounded, milli-GPU: to whole ones as far as that is the solver's tolerance.

    What is all but met is met: beside a tenant of weight 1e9, a billionth of a GPU weighs a GPU.
    """
    whole = np.rint(milli)
    return np.where(
        np.abs(milli - whole) <= MET_TOLERANCE_MILLI, whole, np.round(milli, AMOUNT_DIGITS)
    )


def start_values(layout: QuotaLayout, plan: QuotaPlan) -> Array:
    """Return the integers of a plan for a warm start; what is continuous is left to the solver.

    Parameters
    ----------
    layout
        The variables of the model.
    plan
        A plan of the problem.
    """
    data, problem, at = layout.data, layout.data.problem, layout.starts
    quota = plan.quota_milli(problem) / MILLI
    served = plan.served_milli(problem) / MILLI
    got = np.zeros(data.demand.shape)
    for s in range(len(problem.scenarios)):
        got[data.outcome_of[s]] = served[s]
    values = np.full(at["end"], np.nan)
    values[: at["o"]] = np.rint(quota / data.step).ravel()
    for m, (k, i, g) in enumerate(layout.y):
        values[at["y"] + m] = float(quota[i, g] < data.demand[k, i, g])
    for m, (k, i) in enumerate(layout.v):
        missing = data.demand[k, i] - got[k, i] > MET_TOLERANCE_MILLI / MILLI
        values[at["v"] + m] = float(missing.any())
    return values


def guaranteed(data: QuotaData, quota: Array, served: Array) -> Array:
    """Return what tenants get once each takes what it is guaranteed, back from borrowers.

    Where a goal does not mind, a solution may leave a guaranteed GPU unused or with another tenant
    of the cohort; giving it back changes no total for the worse.

    Parameters
    ----------
    data
        The numbered problem.
    quota
        GPUs that each tenant is guaranteed, shape (tenants, types).
    served
        GPUs that each tenant gets, shape (outcomes, tenants, types).
    """
    base = np.minimum(data.demand, quota)
    found = np.maximum(served, base)
    for c in set(data.cohort.tolist()) - {-1}:
        members = np.flatnonzero(data.cohort == c)
        excess = found[:, members, :].sum(axis=1) - quota[members].sum(axis=0)
        for i in members.tolist():
            back = np.minimum(np.maximum(excess, 0.0), found[:, i, :] - base[:, i, :])
            found[:, i, :] -= back
            excess -= back
    return found


def always_met(data: QuotaData, k: int, i: int, g: int) -> bool:
    """Return whether every quota that a tenant may get guarantees it this demand.

    Parameters
    ----------
    data
        The numbered problem.
    k
        Position of the outcome.
    i
        Position of the tenant.
    g
        Position of the GPU type.
    """
    return bool(data.least[i, g] * data.step >= data.demand[k, i, g])


def array_model(layout: QuotaLayout) -> ArrayModel:
    """Return the integer program."""
    data, extra, at = layout.data, layout.extra, layout.starts
    builder = ModelBuilder()
    lower, upper, integer = _limits(layout)
    builder.columns(at["end"], upper, lower, cost=_cost(layout), integer=integer)
    relaxed = range(at["relaxed"], at["levels"])
    for g in range(layout.types):
        terms = [(k, data.step) for k, (_, h) in enumerate(layout.q) if h == g]
        if extra.relaxed == "capacity":
            terms.append((relaxed[g], -1.0))
        builder.row("C1_capacity", terms, upper=float(data.capacity[g]))
    _second_stage(builder, layout)
    _time(builder, layout)
    _levels(builder, layout)
    return builder.model("max" if extra.level else "min", _offset(layout))


def _second_stage(builder: ModelBuilder, layout: QuotaLayout) -> None:
    data, at = layout.data, layout.starts
    q_at = {key: k for k, key in enumerate(layout.q)}
    number = {key: n for n, key in enumerate(data.wants)}
    for (k, i, g), n in number.items():
        builder.row("C2_own", [(at["o"] + n, 1.0), (q_at[i, g], -data.step)], upper=0.0)
        builder.row(
            "C2_own", [(at["o"] + n, 1.0), (at["r"] + n, 1.0)], upper=float(data.demand[k, i, g])
        )
    shared: dict[tuple[int, int, int], list[tuple[int, float]]] = {}
    borrowed: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for (k, i, g), n in number.items():
        if data.cohort[i] >= 0:
            here = shared.setdefault((k, int(data.cohort[i]), g), [])
            here += [(at["o"] + n, 1.0), (at["r"] + n, 1.0)]
            borrowed.setdefault((k, i), []).append((at["r"] + n, 1.0))
    for (_, c, g), terms in shared.items():
        members = np.flatnonzero(data.cohort == c).tolist()
        builder.row("C3_cohort", [*terms, *((q_at[i, g], -data.step) for i in members)], upper=0.0)
    for (_, i), terms in borrowed.items():
        builder.row("C4_borrowing", terms, upper=float(data.borrowing[i]))
    for m, (k, i, g) in enumerate(layout.y):
        own, wanted = at["o"] + number[k, i, g], float(data.demand[k, i, g])
        most = float(data.most[i, g]) * data.step
        builder.row("C5_guarantee", [(own, 1.0), (at["y"] + m, wanted)], lower=wanted)
        builder.row(
            "C5_guarantee",
            [(own, 1.0), (q_at[i, g], -data.step), (at["y"] + m, -most)],
            lower=-most,
        )


def _time(builder: ModelBuilder, layout: QuotaLayout) -> None:
    data, at = layout.data, layout.starts
    v_at = {key: at["v"] + k for k, key in enumerate(layout.v)}
    if not v_at:
        return
    for n, (k, i, g) in enumerate(data.wants):
        wanted = float(data.demand[k, i, g])
        builder.row(
            "C6_met", [(at["o"] + n, 1.0), (at["r"] + n, 1.0), (v_at[k, i], wanted)], lower=wanted
        )
    if data.problem.goal == "least_quota":
        hours = float(data.weight_h.sum())
        for i, tenant in enumerate(data.problem.tenants):
            terms = [(v, float(data.weight_h[k]) / hours) for (k, j), v in v_at.items() if j == i]
            if layout.extra.relaxed == "exceeding":
                terms.append((at["relaxed"], -1.0))
            # A share of the time that sums to the limit up to rounding is within it.
            builder.row("C7_exceeding", terms, upper=tenant.exceeding + 1e-9)


def _levels(builder: ModelBuilder, layout: QuotaLayout) -> None:
    """Add, for each level, ``t - s_i <= level_i``, and keep the values of the earlier ones."""
    extra, at = layout.extra, layout.starts
    if not extra.level:
        return
    tenants = layout.tenants
    for n in range(len(extra.kept) + 1):
        t = at["levels"] + n * (1 + tenants)
        for i in range(tenants):
            terms, constant = _level(layout, i)
            builder.row(
                "levels",
                [(t, 1.0), (t + 1 + i, -1.0), *((c, -v) for c, v in terms)],
                upper=constant,
            )
        if n < len(extra.kept):
            unit, least = held_level(extra.kept[n])
            total = [(t, unit * (n + 1)), *((t + 1 + i, -unit) for i in range(tenants))]
            builder.row("levels", total, lower=least)


def held_level(value: float) -> tuple[float, float]:
    """Return the factor of the row that keeps an earlier level, and what it must reach.

    The row is in units of the value: tolerances are absolute, and 1e-7 of a GPU's worth is too much
    of a level of 0.05 to be called optimal. Levels are never below 0.
    """
    return (1.0, 0.0) if value <= 0 else (1.0 / value, 1.0 - HELD_SLACK)


def _level(layout: QuotaLayout, i: int) -> tuple[list[tuple[int, float]], float]:
    """Return the level of a tenant as terms and a constant."""
    data, at = layout.data, layout.starts
    if data.problem.goal == "fair_service":
        asked = float(data.weight_h @ data.demand[:, i, :].sum(axis=1))
        if asked <= 0:
            return [], 1.0
        terms = []
        for n, (k, j, _) in enumerate(data.wants):
            if j == i:
                share = float(data.weight_h[k]) / asked
                terms += [(at["o"] + n, share), (at["r"] + n, share)]
        return terms, 0.0
    hours = float(data.weight_h.sum())
    missed = [
        (at["v"] + m, -float(data.weight_h[k]) / hours)
        for m, (k, j) in enumerate(layout.v)
        if j == i
    ]
    return missed, 1.0


def _cost(layout: QuotaLayout) -> Array:
    data, extra, at = layout.data, layout.extra, layout.starts
    cost = np.zeros(at["end"])
    if extra.relaxed is not None:
        width = layout.types if extra.relaxed == "capacity" else 1
        cost[at["relaxed"] : at["relaxed"] + width] = 1.0
    elif extra.level:
        t = at["levels"] + len(extra.kept) * (1 + layout.tenants)
        cost[t], cost[t + 1 : t + 1 + layout.tenants] = extra.level, -1.0
    elif data.problem.goal == "least_quota":
        prices = [capacity.price_per_gpu_hour for capacity in data.problem.capacity]
        for k, (_, g) in enumerate(layout.q):
            cost[k] = prices[g] * data.step
    else:
        for n, (k, i, _) in enumerate(data.wants):
            value = -float(data.weight_h[k]) * data.problem.tenants[i].weight
            cost[at["o"] + n] = cost[at["r"] + n] = value
    return cost


def _offset(layout: QuotaLayout) -> float:
    data = layout.data
    if layout.extra.relaxed or layout.extra.level or data.problem.goal != "expected_shortfall":
        return 0.0
    weight = np.array([tenant.weight for tenant in data.problem.tenants])
    return float(data.weight_h @ (data.demand.sum(axis=2) @ weight))


def _limits(layout: QuotaLayout) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    data, at = layout.data, layout.starts
    lower, upper = np.zeros(at["end"]), np.ones(at["end"])
    integer = np.zeros(at["end"], dtype=bool)
    for k, (i, g) in enumerate(layout.q):
        lower[k], upper[k], integer[k] = data.least[i, g], data.most[i, g], True
        if layout.extra.fixed:
            lower[k] = upper[k] = layout.extra.fixed[k]
    for n, (k, i, g) in enumerate(data.wants):
        wanted = float(data.demand[k, i, g])
        upper[at["o"] + n] = wanted
        if always_met(data, k, i, g):
            lower[at["o"] + n] = wanted
        if layout.extra.fixed and layout.extra.guarded:
            given = layout.extra.fixed[i * layout.types + g] * data.step
            lower[at["o"] + n] = min(wanted, given)
        upper[at["r"] + n] = wanted if data.cohort[i] >= 0 else 0.0
    integer[at["y"] : at["relaxed"]] = True
    if layout.extra.relaxed == "capacity":
        # All that the least quotas and the demands could ask for.
        upper[at["relaxed"] : at["levels"]] = np.maximum((data.most * data.step).sum(axis=0), 1.0)
    return lower, upper, integer
