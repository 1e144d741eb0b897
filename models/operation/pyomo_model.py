"""Operation in Pyomo: node by node in Pyomo, with the names of the page of mathematics."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo

from alloc.formulation import Array, PyomoModel
from alloc.models.named import name_variables
from alloc.models.operation.data import OperationData
from alloc.models.timed import TimedModel
from alloc.problems.operation.problem import NodePlan, OperationPlan


def concrete_model(data: OperationData) -> pyo.ConcreteModel:
    """Return the model of a decision; for a few jobs and nodes only."""
    problem = data.problem
    nodes = [(p, node) for p, pool in enumerate(problem.pools) for node in pool.nodes]
    runs = [(j, v, g) for j, v, g in np.argwhere(np.isfinite(data.hours)).tolist()]
    types_of = {n: np.flatnonzero(data.offers[p]).tolist() for n, (p, _) in enumerate(nodes)}
    model = TimedModel("operation")
    model.J = pyo.RangeSet(0, data.num_jobs - 1)
    model.N = pyo.RangeSet(0, len(nodes) - 1)
    model.NV = pyo.Set(initialize=[(n, v) for n, vs in types_of.items() for v in vs], dimen=2)
    model.NVU = pyo.Set(
        initialize=[(n, v, u) for n, v in model.NV for u in range(1, int(data.gpus[v]) + 1)],
        dimen=3,
    )
    model.JNVG = pyo.Set(
        initialize=[(j, n, v, g) for n in model.N for j, v, g in runs if v in types_of[n]],
        dimen=4,
    )
    runs_on: dict[tuple[int, int], list[tuple[int, int]]] = {
        (j, n): [] for j in model.J for n in model.N
    }
    for j, n, v, g in model.JNVG:
        runs_on[j, n].append((v, g))

    model.w = pyo.Var(model.N, domain=pyo.Binary)
    model.y = pyo.Var(model.NV, domain=pyo.Binary)
    model.r = pyo.Var(model.NVU, domain=pyo.Binary)
    model.x = pyo.Var(model.JNVG, domain=pyo.Binary)
    model.z = pyo.Var(model.J, model.N, domain=pyo.Binary)
    model.alpha = pyo.Var(model.J, model.N, domain=pyo.Binary)
    model.q = pyo.Var(model.J, domain=pyo.Binary)
    most = data.node_rate[np.isfinite(data.node_rate)].max()
    longest = data.hours[np.isfinite(data.hours)].max()
    # Backends want bounded columns; no charge exceeds the highest rate over the longest run.
    model.pi = pyo.Var(model.J, model.N, bounds=(0, float(most * longest)))

    charges = pyo.quicksum(model.pi[j, n] for j in model.J for n in model.N)
    own = pyo.quicksum(
        float(data.run_cost[j, v, g]) * model.x[j, n, v, g] for j, n, v, g in model.JNVG
    )
    waits = pyo.quicksum(float(data.wait_cost[j]) * model.q[j] for j in model.J)
    model.cost = pyo.Objective(expr=charges + own + waits)

    @model.Constraint(model.N)
    def C1_one_type(m, n):  # type: ignore[no-untyped-def]
        return sum(m.y[n, v] for v in types_of[n]) == m.w[n]

    @model.Constraint(model.J)
    def C2_runs_or_waits(m, j):  # type: ignore[no-untyped-def]
        return sum(m.z[j, n] for n in m.N) + m.q[j] == 1

    @model.Constraint(model.J, model.N)
    def C3_one_run(m, j, n):  # type: ignore[no-untyped-def]
        return sum(m.x[j, n, v, g] for v, g in runs_on[j, n]) == m.z[j, n]

    @model.Constraint(model.JNVG)
    def C4_on_its_type(m, j, n, v, g):  # type: ignore[no-untyped-def]
        return m.x[j, n, v, g] <= m.y[n, v]

    @model.Constraint(model.NV)
    def C5_gpus_in_use(m, n, v):  # type: ignore[no-untyped-def]
        return sum(m.r[n, v, u] for u in range(1, int(data.gpus[v]) + 1)) == m.y[n, v]

    @model.Constraint(model.NV)
    def C5_gpus_of_jobs(m, n, v):  # type: ignore[no-untyped-def]
        held = sum(g * m.x[j, n, v, g] for j in m.J for k, g in runs_on[j, n] if k == v)
        return held == sum(u * m.r[n, v, u] for u in range(1, int(data.gpus[v]) + 1))

    @model.Constraint(model.N)
    def C6_one_first(m, n):  # type: ignore[no-untyped-def]
        return sum(m.alpha[j, n] for j in m.J) == m.w[n]

    @model.Constraint(model.J, model.N)
    def C6_first_is_there(m, j, n):  # type: ignore[no-untyped-def]
        return m.alpha[j, n] <= m.z[j, n]

    @model.Constraint(
        [(*run, u) for run in model.JNVG for u in range(run[3], int(data.gpus[run[2]]) + 1)]
    )
    def C7_charge(m, j, n, v, g, u):  # type: ignore[no-untyped-def]
        charge = float(data.node_rate[v, u] * data.hours[j, v, g])
        return m.pi[j, n] >= charge * (m.alpha[j, n] + m.r[n, v, u] + m.x[j, n, v, g] - 2)

    if problem.power_cap_w is not None:
        drawn = pyo.quicksum(float(data.power_w[v, u]) * model.r[n, v, u] for n, v, u in model.NVU)
        model.C8_power = pyo.Constraint(expr=drawn <= problem.power_cap_w)
    _name(model, data)
    return model


def _name(model: pyo.ConcreteModel, data: OperationData) -> None:
    """Offer x, y and q by the names of jobs, nodes and types."""
    problem = data.problem
    job = [j.id for j in problem.jobs]
    node = [node for pool in problem.pools for node in pool.nodes]
    kind = [t.name for t in problem.types]
    name_variables(
        model,
        "run",
        {(job[j], node[n], kind[v], g): model.x[j, n, v, g] for j, n, v, g in model.JNVG},
        "job, node, type, GPUs: whether it runs so",
    )
    name_variables(
        model,
        "on",
        {(node[n], kind[v]): model.y[n, v] for n, v in model.NV},
        "node, type: whether the node is on as that type",
    )
    name_variables(
        model, "waits", {(job[j],): model.q[j] for j in model.J}, "job: whether it waits"
    )


def pyomo_model(data: OperationData) -> PyomoModel:
    """Return the model with the variables that `read_plan` wants: x in the order of JNVG."""
    model = concrete_model(data)
    return PyomoModel(model, tuple(model.x[index] for index in model.JNVG), "min")


def read_plan(data: OperationData, model: pyo.ConcreteModel, values: Array) -> OperationPlan:
    """Return the plan that the values of x state.

    Parameters
    ----------
    data
        The numbered problem.
    model
        The Pyomo model whose set JNVG the values follow.
    values
        Values of x, shape (columns,), integers up to rounding.
    """
    names = [(node, p) for p, pool in enumerate(data.problem.pools) for node in pool.nodes]
    on: dict[int, tuple[int, list[tuple[str, int]]]] = {}
    for (j, n, v, g), value in zip(model.JNVG, values, strict=True):
        if value > 0.5:
            on.setdefault(n, (v, []))[1].append((data.problem.jobs[j].id, g))
    nodes = tuple(
        NodePlan(names[n][0], data.problem.types[v].name, tuple(jobs))
        for n, (v, jobs) in sorted(on.items())
    )
    placed = {job for node in nodes for job, _ in node.jobs}
    return OperationPlan(nodes, tuple(j.id for j in data.problem.jobs if j.id not in placed))
