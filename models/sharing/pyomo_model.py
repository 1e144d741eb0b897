"""F5 in Pyomo: the Pyomo model, with the names of the page of mathematics."""

from __future__ import annotations

import pyomo.environ as pyo

from alloc.formulation import BuiltModel, PyomoModel
from alloc.models.named import class_name, configuration_names, name_variables
from alloc.models.sharing.arrays import (
    PLACES_ALL,
    listed_columns,
    quota_rows,
    require_listed,
    sense_of,
)
from alloc.models.sharing.data import SharingData, sharing_data
from alloc.models.sharing.unrolling import allocation_of
from alloc.models.timed import TimedModel, timed
from alloc.problems.allocation.instance import Instance
from alloc.units import MILLI


def concrete_model(data: SharingData, objective: str) -> pyo.ConcreteModel:
    """Return the integer program of a problem whose patterns are all listed.

    Parameters
    ----------
    data
        The numbered problem.
    objective
        Name of an objective of the family.
    """
    model = TimedModel("sharing")
    n = [len(job_class.members) for job_class in data.classes]
    columns = listed_columns(data)
    all_run = objective in PLACES_ALL

    model.K = pyo.RangeSet(0, len(n) - 1)
    model.O = pyo.RangeSet(0, len(data.options) - 1)
    model.I = pyo.RangeSet(0, len(data.items) - 1)
    model.S = pyo.RangeSet(0, len(data.sizes) - 1)
    model.H = pyo.RangeSet(0, len(data.host_classes) - 1)
    model.G = pyo.RangeSet(0, len(data.groups) - 1)
    model.IH = pyo.Set(initialize=data.pairs, dimen=2)
    model.Q = pyo.RangeSet(0, len(columns) - 1)

    model.z = pyo.Var(
        model.O, domain=pyo.NonNegativeIntegers, bounds=lambda m, o: (0, n[data.options[o][0]])
    )
    model.y = pyo.Var(model.IH, domain=pyo.NonNegativeIntegers)
    model.x = pyo.Var(
        model.Q,
        domain=pyo.NonNegativeIntegers,
        bounds=lambda m, q: (0, len(data.groups[columns[q].group].gpus)),
    )

    on_class = [data.groups[column.group].host_class for column in columns]
    hosts_of = {i: [h for j, h in data.pairs if j == i] for i in model.I}
    items_on = {h: [i for i, k in data.pairs if k == h] for h in model.H}

    if objective == "weight_placed":
        value = pyo.quicksum(data.classes[data.options[o][0]].weight * model.z[o] for o in model.O)
    elif objective == "gpus_placed":
        gpus = [data.classes[k].configurations[c].demand[0] / MILLI for k, c in data.options]
        value = pyo.quicksum(gpus[o] * model.z[o] for o in model.O)
    elif objective == "gpus_used":
        value = pyo.quicksum(model.x[q] for q in model.Q)
    else:
        value = pyo.quicksum(model.x[q] for q in model.Q if columns[q].pattern.reconfigures)
    sense = pyo.maximize if sense_of(objective) == "max" else pyo.minimize
    model.goal = pyo.Objective(expr=value, sense=sense)

    @model.Constraint(model.K)
    def C1_one_option(m: pyo.ConcreteModel, k: int) -> object:
        left = pyo.quicksum(m.z[o] for o in m.O if data.options[o][0] == k)
        return _relation(left, n[k], equal=all_run)

    @model.Constraint(model.I)
    def C2_tasks_stand(m: pyo.ConcreteModel, i: int) -> object:
        stand = pyo.quicksum(m.y[i, h] for h in hosts_of[i])
        wanted = pyo.quicksum(int(data.need[i, o]) * m.z[o] for o in m.O if data.need[i, o])
        return stand - wanted == 0

    @model.Constraint(model.S, model.H)
    def C3_slots(m: pyo.ConcreteModel, s: int, h: int) -> object:
        taken = pyo.quicksum(
            data.items[i].units * m.y[i, h] for i in items_on[h] if data.items[i].size == s
        )
        offered = pyo.quicksum(
            columns[q].pattern.counts[s] * m.x[q]
            for q in m.Q
            if on_class[q] == h and columns[q].pattern.counts[s]
        )
        return _relation(taken - offered, 0)

    @model.Constraint(model.G)
    def C4_gpus(m: pyo.ConcreteModel, g: int) -> object:
        used = pyo.quicksum(m.x[q] for q in m.Q if columns[q].group == g)
        return _relation(used, len(data.groups[g].gpus))

    def fits_beside(r: int) -> pyo.Constraint:
        def rule(m: pyo.ConcreteModel, h: int) -> object:
            hosts = data.host_classes[h]
            used = pyo.quicksum(data.items[i].beside[r] * m.y[i, h] for i in items_on[h])
            return _relation(used, len(hosts.hosts) * hosts.beside[r])

        return pyo.Constraint(model.H, rule=timed(rule))

    for r, name in enumerate(data.beside):
        model.add_component(f"C5_{name}", fits_beside(r))

    use, quota = quota_rows(data)
    model.T = pyo.RangeSet(0, len(quota) - 1)

    @model.Constraint(model.T)
    def C6_quotas(m: pyo.ConcreteModel, t: int) -> object:
        held = pyo.quicksum(float(use[t, o]) * m.z[o] for o in m.O if use[t, o])
        return _relation(held, float(quota[t]))

    jobs = [class_name([data.instance.jobs[j].id for j in k.members]) for k in data.classes]
    names = [configuration_names(k.configurations) for k in data.classes]
    name_variables(
        model,
        "run",
        {(jobs[k], names[k][c]): model.z[o] for o, (k, c) in enumerate(data.options)},
        "job, configuration: how many of these jobs run in it",
    )
    return model


def _relation(left: object, right: float, *, equal: bool = False) -> object:
    """Return ``left <= right`` (or ``=``); a row without variables is checked on the spot."""
    if isinstance(left, int | float):
        holds = left == right if equal else left <= right
        return pyo.Constraint.Feasible if holds else pyo.Constraint.Infeasible
    return left == right if equal else left <= right  # type: ignore[operator]


def build_pyomo(instance: Instance, objective: str) -> BuiltModel:
    """Build an instance as a Pyomo model, host by host.

    Parameters
    ----------
    instance
        Its patterns must be few enough to list.
    objective
        Name of an objective of the family.
    """
    data = sharing_data(instance, aggregate=False)
    require_listed(data)
    model = concrete_model(data, objective)
    variables = (
        *(model.z[o] for o in model.O),
        *(model.y[pair] for pair in data.pairs),
        *(model.x[q] for q in model.Q),
    )
    used = [(column.group, column.pattern) for column in listed_columns(data)]
    return BuiltModel(
        PyomoModel(model, variables, sense_of(objective)),
        lambda values: allocation_of(data, used, values),
    )
