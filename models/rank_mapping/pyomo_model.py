"""Rank mapping in Pyomo: Pyomo models with the names of the page of mathematics."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from alloc.formulation import PyomoModel
from alloc.models.rank_mapping.counts import CountProblem
from alloc.models.timed import TimedModel


def pyomo_counts(problem: CountProblem) -> PyomoModel:
    """Return the count model; its variables are x, level by level, domain by domain."""
    model = TimedModel("rank-mapping")
    depth, last = problem.depth, problem.depth - 1
    stages, boundaries = range(problem.stages), range(problem.stages - 1)
    domains = {level: range(len(problem.domains.parent[level])) for level in range(depth)}
    model.V = pyo.Set(initialize=[(lv, v) for lv in range(depth) for v in domains[lv]], dimen=2)
    model.VP = pyo.Set(initialize=[(*v, p) for v in model.V for p in stages], dimen=3)
    model.LB = pyo.Set(initialize=[(lv, b) for lv in range(1, depth) for b in boundaries], dimen=2)

    model.x = pyo.Var(
        model.VP, domain=pyo.Integers, bounds=lambda _, lv, v, p: (0, problem.cells(lv))
    )
    model.y = pyo.Var(model.LB, domain=pyo.Binary)
    model.z = pyo.Var(range(1, depth), domain=pyo.Binary)
    f, extra = problem.boundary_s, problem.micro_batches - 1

    model.pipeline_s = pyo.Objective(
        expr=(2 * (len(boundaries) + extra) * f[last] if boundaries else 0.0)
        + pyo.quicksum(2 * (f[lv - 1] - f[lv]) * model.y[lv, b] for lv, b in model.LB)
        + pyo.quicksum(
            2 * (f[lv - 1] - f[lv]) * extra * model.z[lv] for lv in range(1, depth) if boundaries
        )
    )

    @model.Constraint(stages)
    def C1_everything_is_placed(m: pyo.ConcreteModel, p: int) -> Any:
        return m.x[0, 0, p] == 1

    @model.Constraint([(*v, p) for v in model.V if v[0] < last for p in stages])
    def C2_cells_fill_cells(m: pyo.ConcreteModel, lv: int, v: int, p: int) -> Any:
        inside = problem.domains.children(lv, v)
        return pyo.quicksum(m.x[lv + 1, u, p] for u in inside) == problem.split(lv) * m.x[lv, v, p]

    @model.Constraint(domains[last])
    def C3_capacity(m: pyo.ConcreteModel, v: int) -> Any:
        held = pyo.quicksum(m.x[last, v, p] for p in stages)
        return problem.cell[last] * held <= int(problem.domains.room[v])

    moves = [(lv, v, b) for lv, b in model.LB for v in domains[lv]]

    @model.Constraint(moves)
    def C4_uncut_none_leaves(m: pyo.ConcreteModel, lv: int, v: int, b: int) -> Any:
        return m.x[lv, v, b] - m.x[lv, v, b + 1] <= problem.cells(lv) * m.y[lv, b]

    @model.Constraint(moves)
    def C4_uncut_none_comes(m: pyo.ConcreteModel, lv: int, v: int, b: int) -> Any:
        return m.x[lv, v, b + 1] - m.x[lv, v, b] <= problem.cells(lv) * m.y[lv, b]

    @model.Constraint([(lv, b) for lv, b in model.LB if lv < last])
    def C5_cuts_nest(m: pyo.ConcreteModel, lv: int, b: int) -> Any:
        return m.y[lv, b] <= m.y[lv + 1, b]

    @model.Constraint(model.LB)
    def C6_the_slowest_counts(m: pyo.ConcreteModel, lv: int, b: int) -> Any:
        return m.y[lv, b] <= m.z[lv]

    return PyomoModel(model, tuple(model.x[key] for key in model.VP), "min")
