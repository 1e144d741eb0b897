"""Quota planning in Pyomo: the Pyomo model, with the names of the page."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from alloc.formulation import PyomoModel
from alloc.models.named import name_variables
from alloc.models.quota_planning.arrays import Extra, QuotaLayout, always_met, held_level
from alloc.models.quota_planning.data import QuotaData
from alloc.models.timed import TimedModel


def concrete_model(data: QuotaData, extra: Extra) -> pyo.ConcreteModel:
    """Return the integer program of a problem, or of one level of a fair goal.

    Parameters
    ----------
    data
        The numbered problem.
    extra
        The level of a fair goal, and what else a solve adds.
    """
    problem, layout = data.problem, QuotaLayout(data, extra)
    goal, u = problem.goal, data.step
    tenants, types = range(layout.tenants), range(layout.types)
    hours = float(data.weight_h.sum())
    d = {key: float(data.demand[key]) for key in data.wants}
    model = TimedModel("quota_planning")
    model.I, model.G = pyo.Set(initialize=tenants), pyo.Set(initialize=types)
    model.W = pyo.Set(initialize=data.wants, dimen=3)
    model.Y = pyo.Set(initialize=layout.y, dimen=3)
    model.V = pyo.Set(initialize=layout.v, dimen=2)
    model.KI = pyo.Set(initialize=sorted({(k, i) for k, i, _ in d}), dimen=2)
    model.KCG = pyo.Set(
        initialize=sorted({(k, int(data.cohort[i]), g) for k, i, g in d if data.cohort[i] >= 0}),
        dimen=3,
    )
    model.N = pyo.RangeSet(0, len(extra.kept) if extra.level else -1)
    model.q = pyo.Var(
        model.I,
        model.G,
        domain=pyo.NonNegativeIntegers,
        bounds=lambda _, i, g: (int(data.least[i, g]), int(data.most[i, g])),
    )
    model.o = pyo.Var(
        model.W,
        bounds=lambda _, k, i, g: (d[k, i, g] if always_met(data, k, i, g) else 0, d[k, i, g]),
    )
    model.r = pyo.Var(
        model.W,
        domain=pyo.NonNegativeReals,
        bounds=lambda _, k, i, g: (0, d[k, i, g] if data.cohort[i] >= 0 else 0),
    )
    model.y = pyo.Var(model.Y, domain=pyo.Binary)
    model.v = pyo.Var(model.V, domain=pyo.Binary)
    model.t = pyo.Var(model.N, bounds=(0, 1))
    model.s = pyo.Var(model.N, model.I, bounds=(0, 1))

    def level(m: pyo.ConcreteModel, i: int) -> Any:
        if goal == "fair_coverage":
            missed = (float(data.weight_h[k]) * m.v[k, j] for k, j in m.V if j == i)
            return 1 - pyo.quicksum(missed) / hours
        asked = sum(float(data.weight_h[k]) * x for (k, j, _), x in d.items() if j == i)
        if not asked:
            return 1.0
        got = (float(data.weight_h[k]) * (m.o[k, j, g] + m.r[k, j, g]) for k, j, g in d if j == i)
        return pyo.quicksum(got) / asked

    def worst(m: pyo.ConcreteModel, n: int) -> Any:
        return (n + 1) * m.t[n] - pyo.quicksum(m.s[n, i] for i in m.I)

    if extra.level:
        model.goal = pyo.Objective(expr=worst(model, len(extra.kept)), sense=pyo.maximize)
    elif goal == "least_quota":
        prices = [capacity.price_per_gpu_hour for capacity in problem.capacity]
        model.goal = pyo.Objective(
            expr=pyo.quicksum(prices[g] * u * model.q[i, g] for i in tenants for g in types)
        )
    else:
        model.goal = pyo.Objective(
            expr=pyo.quicksum(
                float(data.weight_h[k])
                * problem.tenants[i].weight
                * (x - model.o[k, i, g] - model.r[k, i, g])
                for (k, i, g), x in d.items()
            )
        )

    @model.Constraint(model.G)
    def C1_capacity(m: pyo.ConcreteModel, g: int) -> object:
        return pyo.quicksum(u * m.q[i, g] for i in m.I) <= float(data.capacity[g])

    @model.Constraint(model.W)
    def C2_own(m: pyo.ConcreteModel, k: int, i: int, g: int) -> object:
        return m.o[k, i, g] <= u * m.q[i, g]

    @model.Constraint(model.W)
    def C2_demand(m: pyo.ConcreteModel, k: int, i: int, g: int) -> object:
        return m.o[k, i, g] + m.r[k, i, g] <= d[k, i, g]

    @model.Constraint(model.KCG)
    def C3_cohort(m: pyo.ConcreteModel, k: int, c: int, g: int) -> object:
        members = [i for i in tenants if data.cohort[i] == c]
        got = pyo.quicksum(m.o[k, i, g] + m.r[k, i, g] for i in members if (k, i, g) in d)
        return got <= pyo.quicksum(u * m.q[i, g] for i in members)

    @model.Constraint(model.KI)
    def C4_borrowing(m: pyo.ConcreteModel, k: int, i: int) -> object:
        borrowed = pyo.quicksum(m.r[k, i, g] for g in types if (k, i, g) in d)
        return borrowed <= float(data.borrowing[i])

    @model.Constraint(model.Y)
    def C5_all_met(m: pyo.ConcreteModel, k: int, i: int, g: int) -> object:
        return m.o[k, i, g] >= d[k, i, g] * (1 - m.y[k, i, g])

    @model.Constraint(model.Y)
    def C5_all_used(m: pyo.ConcreteModel, k: int, i: int, g: int) -> object:
        most = u * int(data.most[i, g])
        return m.o[k, i, g] >= u * m.q[i, g] - most * (1 - m.y[k, i, g])

    if layout.v:

        @model.Constraint(model.W)
        def C6_met(m: pyo.ConcreteModel, k: int, i: int, g: int) -> object:
            return m.o[k, i, g] + m.r[k, i, g] >= d[k, i, g] * (1 - m.v[k, i])

    if goal == "least_quota":

        @model.Constraint(sorted({i for _, i in layout.v}))
        def C7_exceeding(m: pyo.ConcreteModel, i: int) -> object:
            missed = (float(data.weight_h[k]) * m.v[k, j] for k, j in m.V if j == i)
            return pyo.quicksum(missed) / hours <= problem.tenants[i].exceeding + 1e-9

    @model.Constraint(model.N, model.I)
    def levels(m: pyo.ConcreteModel, n: int, i: int) -> object:
        return m.t[n] - m.s[n, i] <= level(m, i)

    @model.Constraint(pyo.RangeSet(0, len(extra.kept) - 1))
    def kept(m: pyo.ConcreteModel, n: int) -> object:
        unit, least = held_level(extra.kept[n])
        return unit * worst(m, n) >= least

    name_variables(
        model,
        "quota",
        {
            (tenant.name, capacity.gpu_type): model.q[i, g]
            for i, tenant in enumerate(problem.tenants)
            for g, capacity in enumerate(problem.capacity)
        },
        f"tenant, GPU type: its quota in steps of {u:g} GPUs",
    )
    return model


def pyomo_model(layout: QuotaLayout) -> PyomoModel:
    """Return the model with its variables in the order of the layout; nothing may be relaxed."""
    data, extra = layout.data, layout.extra
    model = concrete_model(data, extra)
    variables = (
        *(model.q[key] for key in layout.q),
        *(model.o[key] for key in data.wants),
        *(model.r[key] for key in data.wants),
        *(model.y[key] for key in layout.y),
        *(model.v[key] for key in layout.v),
        *(
            variable
            for n in model.N
            for variable in (model.t[n], *(model.s[n, i] for i in model.I))
        ),
    )
    return PyomoModel(model, variables, "max" if extra.level else "min")
