"""F1 in Pyomo: the Pyomo model, with the names of the page of mathematics."""

from __future__ import annotations

from functools import partial

import pyomo.environ as pyo

from alloc.formulation import BuiltModel, PyomoModel
from alloc.models.host_conflicts import Conflict
from alloc.models.named import class_name, configuration_names, name_variables
from alloc.models.round.data import RoundData, built_model, round_data
from alloc.models.timed import TimedModel
from alloc.problems.allocation.instance import Instance


def concrete_model(data: RoundData) -> pyo.ConcreteModel:
    """Return the integer program of a round."""
    model = TimedModel("round")
    columns = [
        (k, int(data.configuration[i]))
        for k in range(data.num_classes)
        for i in range(data.first[k], data.first[k + 1])
    ]
    u = dict(zip(columns, data.utility.tolist(), strict=True))
    a = dict(zip(columns, data.use.tolist(), strict=True))
    choices: dict[int, list[int]] = {k: [] for k in range(data.num_classes)}
    for k, c in columns:
        choices[k].append(c)

    model.K = pyo.Set(initialize=range(data.num_classes))
    model.R = pyo.Set(initialize=range(len(data.rows.names)))
    model.KC = pyo.Set(initialize=columns, dimen=2)
    model.x = pyo.Var(model.KC, domain=pyo.NonNegativeIntegers)

    model.utility = pyo.Objective(
        expr=pyo.quicksum(u[k, c] * model.x[k, c] for k, c in columns), sense=pyo.maximize
    )

    @model.Constraint(model.K)
    def C1_one_configuration(m: pyo.ConcreteModel, k: int) -> object:
        if not choices[k]:
            return pyo.Constraint.Skip
        return pyo.quicksum(m.x[k, c] for c in choices[k]) <= int(data.count[k])

    @model.Constraint(model.R)
    def C2_capacity(m: pyo.ConcreteModel, r: int) -> object:
        touching = [(k, c) for k, c in columns if a[k, c][r]]
        if not touching:
            return pyo.Constraint.Skip
        left = pyo.quicksum(a[k, c][r] * m.x[k, c] for k, c in touching)
        return left <= float(data.rows.capacity[r])

    conflicts, switches = data.conflict_rows
    if conflicts:
        model.y = pyo.Var(range(switches), domain=pyo.Binary)

        @model.Constraint(range(len(conflicts)))
        def C3_hosts(m: pyo.ConcreteModel, i: int) -> object:
            row = conflicts[i]
            runs = pyo.quicksum(m.x[columns[c]] for c in row.columns)
            return runs + pyo.quicksum(factor * m.y[k] for k, factor in row.switches) <= row.limit

    _name(model, data)
    return model


def _name(model: pyo.ConcreteModel, data: RoundData) -> None:
    """Offer x by the names of jobs and configurations."""
    jobs = [[data.jobs[j] for j in members] for members in data.members]
    names = [class_name([job.id for job in each]) for each in jobs]
    options = [configuration_names(each[0].configurations) for each in jobs]
    name_variables(
        model,
        "run",
        {(names[k], options[k][c]): model.x[k, c] for k, c in model.KC},
        "job, configuration: how many of these jobs run in it",
    )


def build_pyomo(
    instance: Instance, objective: str, conflicts: tuple[Conflict, ...] = ()
) -> BuiltModel:
    """Build the first slot of an instance as a Pyomo model; see `build_arrays`.

    It holds every configuration: a constraint of one's own may forbid what dominates another.

    Parameters
    ----------
    instance
        Needs a slot; the jobs that have arrived at 0 take part.
    objective
        Name of an objective of a round.
    conflicts
        What the hosts do not hold together, as far as it is known.
    """
    data = round_data(instance, objective, conflicts, keep_all=True)
    model = concrete_model(data)
    variables = tuple(model.x[key] for key in model.KC)
    again = partial(build_pyomo, instance, objective)
    return built_model(data, PyomoModel(model, variables, "max"), again)
