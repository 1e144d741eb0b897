"""Quadratic assignment in Pyomo, with the names of the page of mathematics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from alloc.formulation import BuiltModel, PyomoModel
from alloc.models.timed import TimedModel
from alloc.problems.quadratic_assignment import QuadraticAssignment


def build_pyomo(problem: QuadraticAssignment, objective: str = "cost") -> BuiltModel:
    """Return the model, linearised after Kaufman and Broeckx; for tiny n.

    Distances are shifted to be at least 0 and flows
    split by sign, so that the linearisation, which wants costs of 0 or more, holds for all numbers.

    Parameters
    ----------
    problem
        Flows and distances of a handful of facilities.
    objective
        `cost`, the only one of the family.
    """
    n = problem.size
    a, b = problem.flow, problem.distance
    # Every permutation pays the same for a constant, on and off the diagonal together.
    shift = min(float(b.min()), 0.0)
    lift = min(float(a.min()), 0.0)
    flow, distance = a - lift, b - shift
    constant = shift * float(flow.sum()) + lift * float(b.sum())
    model = TimedModel("quadratic-assignment")
    model.I = pyo.RangeSet(0, n - 1)
    model.x = pyo.Var(model.I, model.I, domain=pyo.Binary)
    model.w = pyo.Var(model.I, model.I, domain=pyo.NonNegativeReals)
    most = np.sort(flow, axis=1) @ np.sort(distance, axis=1).T

    model.cost = pyo.Objective(expr=pyo.quicksum(model.w.values()) + constant)

    @model.Constraint(model.I)
    def C1_one_location(m: pyo.ConcreteModel, i: int) -> Any:
        return pyo.quicksum(m.x[i, j] for j in m.I) == 1

    @model.Constraint(model.I)
    def C1_one_facility(m: pyo.ConcreteModel, j: int) -> Any:
        return pyo.quicksum(m.x[i, j] for i in m.I) == 1

    @model.Constraint(model.I, model.I)
    def C2_pays(m: pyo.ConcreteModel, i: int, j: int) -> Any:
        paid = pyo.quicksum(
            float(flow[i, k] * distance[j, place]) * m.x[k, place]
            for k in m.I
            for place in m.I
            if flow[i, k] and distance[j, place]
        )
        return m.w[i, j] >= paid - float(most[i, j]) * (1 - m.x[i, j])

    variables = tuple(model.x[i, j] for i in model.I for j in model.I)
    return BuiltModel(
        PyomoModel(model, variables, "min"), lambda values: values.reshape(n, n).argmax(axis=1)
    )
