"""Inference sizing in Pyomo: the Pyomo model, with the names of the page."""

from __future__ import annotations

import pyomo.environ as pyo

from alloc.formulation import PyomoModel
from alloc.models.inference_sizing.data import SizingData
from alloc.models.inference_sizing.layout import Layout
from alloc.models.named import class_name, name_variables
from alloc.models.timed import TimedModel


def concrete_model(data: SizingData) -> pyo.ConcreteModel:
    """Return the integer program, hosts filled by patterns."""
    problem, layout = data.problem, Layout(data)
    model = TimedModel("inference_sizing")
    model.Z = pyo.Set(initialize=layout.z, dimen=2)
    model.X = pyo.Set(initialize=layout.x, dimen=3)
    periods_of = sorted({(t, p) for t, p, _ in layout.x})
    model.TP = pyo.Set(initialize=periods_of, dimen=2)
    model.Y = pyo.Set(
        initialize=[(t, p, q) for t, p in periods_of for q in range(len(layout.patterns[p]))],
        dimen=3,
    )
    model.H = pyo.Set(initialize=layout.held)
    model.C = pyo.RangeSet(0, len(data.choices) - 1)
    model.F = pyo.Set(
        initialize=[
            (m, t, f)
            for m in range(len(problem.models))
            for t in range(len(data.periods))
            for f in range(len(data.losses[m]))
            if data.demand(m, t) > 0
        ],
        dimen=3,
    )
    model.z = pyo.Var(model.Z, domain=pyo.Binary)
    model.x = pyo.Var(model.X, domain=pyo.NonNegativeIntegers)
    model.y = pyo.Var(
        model.Y, domain=pyo.NonNegativeIntegers, bounds=lambda _, t, p, q: (0, data.hosts(p, t))
    )
    model.h = pyo.Var(
        model.H, domain=pyo.NonNegativeIntegers, bounds=lambda _, p: (0, data.max_held(p))
    )

    used = pyo.quicksum(
        s * data.price(p, t) * model.x[t, p, s]
        for t, p, s in model.X
        if problem.pools[p].billing == "used"
    )
    held = pyo.quicksum(data.held_price(p) * model.h[p] for p in model.H)
    model.cost = pyo.Objective(expr=used + held, sense=pyo.minimize)

    @model.Constraint(model.C)
    def C1_one_column(m: pyo.ConcreteModel, c: int) -> object:
        return pyo.quicksum(m.z[c, j] for j in range(len(data.choices[c].columns))) <= 1

    @model.Constraint(model.F)
    def C2_rate(m: pyo.ConcreteModel, i: int, t: int, f: int) -> object:
        served = [
            (column.rates[data.losses[i][f][choice.option]], c, j)
            for c, choice in enumerate(data.choices)
            if (choice.model, choice.period) == (i, t)
            for j, column in enumerate(choice.columns)
        ]
        if not any(rate > 0 for rate, _, _ in served):
            return pyo.Constraint.Infeasible
        demand = data.demand(i, t)
        return pyo.quicksum(rate / demand * m.z[c, j] for rate, c, j in served) >= 1

    @model.Constraint(sorted({(t, problem.pools[p].gpu_type, s) for t, p, s in layout.x}))
    def C3_replicas_stand(m: pyo.ConcreteModel, t: int, gpu_type: str, s: int) -> object:
        stand = pyo.quicksum(
            m.x[u, p, r]
            for u, p, r in m.X
            if (u, r) == (t, s) and problem.pools[p].gpu_type == gpu_type
        )
        return stand == pyo.quicksum(
            column.replicas * m.z[c, j]
            for c, choice in enumerate(data.choices)
            for option in [problem.models[choice.model].options[choice.option]]
            if (choice.period, option.gpu_type, option.gpus) == (t, gpu_type, s)
            for j, column in enumerate(choice.columns)
        )

    @model.Constraint(model.X)
    def C4_capacity(m: pyo.ConcreteModel, t: int, p: int, s: int) -> object:
        position = data.sizes[p].index(s)
        return m.x[t, p, s] <= pyo.quicksum(
            pattern[position] * m.y[t, p, q] for q, pattern in enumerate(layout.patterns[p])
        )

    @model.Constraint(model.TP)
    def C5_hosts(m: pyo.ConcreteModel, t: int, p: int) -> object:
        hosts = pyo.quicksum(m.y[t, p, q] for q in range(len(layout.patterns[p])))
        return hosts <= data.hosts(p, t)

    @model.Constraint(model.TP)
    def C5_hosts_held(m: pyo.ConcreteModel, t: int, p: int) -> object:
        if p not in m.H:
            return pyo.Constraint.Skip
        return pyo.quicksum(m.y[t, p, q] for q in range(len(layout.patterns[p]))) <= m.h[p]

    pool = [each.name for each in problem.pools]
    period = [class_name([problem.periods[k].name for k in t.members]) for t in data.periods]
    name_variables(
        model,
        "replicas",
        {(period[t], pool[p], s): model.x[t, p, s] for t, p, s in model.X},
        "period, pool, GPUs of a replica: how many stand there",
    )
    name_variables(
        model, "hosts_held", {(pool[p],): model.h[p] for p in model.H}, "pool: hosts held"
    )
    return model


def pyomo_model(layout: Layout) -> PyomoModel:
    """Return the model, with its variables in the order of the layout."""
    model = concrete_model(layout.data)
    variables = (
        *(model.z[key] for key in layout.z),
        *(model.x[key] for key in layout.x),
        *(model.y[key] for key in layout.y),
        *(model.h[p] for p in layout.held),
    )
    return PyomoModel(model, variables, "min")
