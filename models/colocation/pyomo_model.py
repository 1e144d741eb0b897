"""Co-location in Pyomo, with the names of the page of mathematics."""

from __future__ import annotations

import pyomo.environ as pyo

from alloc.formulation import BuiltModel, PyomoModel
from alloc.models.colocation.data import Bundles
from alloc.models.named import name_variables, unique
from alloc.models.timed import TimedModel
from alloc.problems.colocation import ColocationProblem


def build_pyomo(problem: ColocationProblem, objective: str = "speed") -> BuiltModel:
    """Return the model of all bundles.

    Parameters
    ----------
    problem
        The jobs, and how fast they run side by side.
    objective
        `speed`, the only one of the family.
    """
    data = Bundles.of(problem)
    model = TimedModel("colocation")
    model.T = pyo.RangeSet(0, len(data.members) - 1, doc="classes of jobs")
    model.B = pyo.RangeSet(0, len(data.bundles) - 1, doc="bundles")
    model.x = pyo.Var(
        model.B,
        domain=pyo.NonNegativeIntegers,
        bounds=lambda m, b: (0, data.limit(b)),
        doc="GPUs that run a bundle",
    )
    model.speed = pyo.Objective(
        expr=pyo.quicksum(float(data.worth[b]) * model.x[b] for b in model.B), sense=pyo.maximize
    )

    @model.Constraint(model.T)
    def C1_jobs(m, t):  # type: ignore[no-untyped-def]
        number = [(b, data.bundles[b].count(t)) for b in m.B]
        return pyo.quicksum(n * m.x[b] for b, n in number if n) <= len(data.members[t])

    @model.Constraint()
    def C2_gpus(m):  # type: ignore[no-untyped-def]
        if not data.bundles:
            return pyo.Constraint.Skip
        return pyo.quicksum(m.x[b] for b in m.B) <= problem.num_gpus

    kind = [problem.kinds[jobs[0]] for jobs in data.members]
    bundles = unique([" + ".join(kind[t] for t in bundle) for bundle in data.bundles])
    name_variables(
        model,
        "gpus",
        {(bundle,): model.x[b] for b, bundle in enumerate(bundles)},
        "kinds of jobs together: how many GPUs run them",
    )
    return BuiltModel(PyomoModel(model, tuple(model.x[b] for b in model.B), "max"), data.packing)
