"""F4 in Pyomo: the Pyomo model, with the names of the page of mathematics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from alloc.formulation import Array, BuiltModel, PyomoModel
from alloc.models.named import class_name, configuration_names, name_variables
from alloc.models.placement.facts import Facts
from alloc.models.placement.pyomo_measures import PyomoMeasures
from alloc.models.timed import TimedModel
from alloc.objectives import Held, parse_level
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation


def concrete_model(facts: Facts) -> pyo.ConcreteModel:
    """Return variables x and y with (C1) to (C11), without an objective."""
    instance = facts.instance
    topology = instance.topology
    capacity = topology.capacity
    ways, rows = facts.ways, facts.rows
    model = TimedModel("placement")

    model.K = pyo.Set(initialize=range(len(facts.classes)))
    model.V = pyo.Set(initialize=range(len(ways)))
    model.I = pyo.Set(initialize=range(len(rows)))
    model.H = pyo.Set(initialize=range(topology.num_hosts))
    model.R = pyo.Set(initialize=range(len(topology.resource_names)))
    model.x = pyo.Var(
        model.V, domain=pyo.Integers, bounds=lambda _, v: (0, facts.size(ways[v].job_class))
    )
    model.y = pyo.Var(
        model.I, model.H, domain=pyo.Integers, bounds=lambda _, i, h: (0, int(facts.upper[i, h]))
    )

    # An expression without variables is not a constraint in Pyomo; goals add this one.
    model.zero = pyo.Var(bounds=(0, 0))

    def hosts_in(level: str, k: int) -> list[int]:
        return np.flatnonzero(facts.domain(level) == k).tolist()

    def domains(level: str) -> list[int]:
        return sorted({int(k) for k in facts.domain(level) if k >= 0})

    def tasks_in(m: pyo.ConcreteModel, i: int, level: str, k: int) -> Any:
        return pyo.quicksum(m.y[i, h] for h in hosts_in(level, k))

    def runs(m: pyo.ConcreteModel, k: int) -> Any:
        return pyo.quicksum(m.x[v] for v in facts.ways_by_class[k])

    def rows_of(k: int) -> list[int]:
        return [i for v in facts.ways_by_class[k] for i in ways[v].rows]

    @model.Constraint(model.K)
    def C1_one_way(m: pyo.ConcreteModel, k: int) -> Any:
        least = facts.size(k) if facts.must(k) else 0
        return pyo.inequality(least, runs(m, k), facts.size(k))

    @model.Constraint(model.I)
    def C2_gang(m: pyo.ConcreteModel, i: int) -> Any:
        return pyo.quicksum(m.y[i, h] for h in m.H) == rows[i].count * m.x[rows[i].way]

    @model.Constraint(model.H, model.R)
    def C3_capacity(m: pyo.ConcreteModel, h: int, r: int) -> Any:
        amounts = [(i, int(facts.demand[i, r])) for i in m.I if facts.demand[i, r]]
        if not amounts:
            return pyo.Constraint.Skip
        return pyo.quicksum(d * m.y[i, h] for i, d in amounts) <= int(capacity[h, r])

    inside = [(v, level) for v, way in enumerate(ways) for level in way.inside]
    model.W = pyo.Set(initialize=[(v, level, k) for v, level in inside for k in domains(level)])
    model.w = pyo.Var(
        model.W, domain=pyo.Integers, bounds=lambda _, v, *_k: (0, facts.size(ways[v].job_class))
    )

    @model.Constraint(inside)
    def C4_one_domain(m: pyo.ConcreteModel, v: int, level: str) -> Any:
        return pyo.quicksum(m.w[v, level, k] for k in domains(level)) - m.x[v] == 0

    @model.Constraint([(i, *key) for key in model.W for i in ways[key[0]].rows])
    def C4_inside(m: pyo.ConcreteModel, i: int, v: int, level: str, k: int) -> Any:
        return tasks_in(m, i, level, k) == rows[i].count * m.w[v, level, k]

    cuts = [
        (i, cut.level, cut.size, k)
        for i, row in enumerate(rows)
        for cut in facts.slices(row)
        for k in domains(cut.level)
    ]
    model.q = pyo.Var(cuts, domain=pyo.NonNegativeIntegers)

    @model.Constraint(cuts)
    def C5_slices(m: pyo.ConcreteModel, i: int, level: str, size: int, k: int) -> Any:
        return tasks_in(m, i, level, k) == size * m.q[i, level, size, k]

    spreads = [
        (v, limit.level, limit.most, k)
        for v, way in enumerate(ways)
        for limit in facts.job(way.job_class).placement.spread
        for k in domains(limit.level)
    ]

    @model.Constraint(spreads)
    def C6_spread(m: pyo.ConcreteModel, v: int, level: str, most: int, k: int) -> Any:
        ruled = [i for i in ways[v].rows if rows[i].ruled]
        return pyo.quicksum(tasks_in(m, i, level, k) for i in ruled) <= most

    def classes(jobs: tuple[str, ...]) -> list[int]:
        return [k for k in model.K if facts.job(k).id in jobs and facts.size(k) == 1]

    together = [
        (a, rule.level, k)
        for a, rule in enumerate(instance.affinities)
        if rule.kind == "together"
        for k in domains(rule.level)
    ]
    model.p = pyo.Var(together, domain=pyo.Binary)

    @model.Constraint(sorted({(a, level) for a, level, _ in together}))
    def C7_one_domain(m: pyo.ConcreteModel, a: int, level: str) -> Any:
        return pyo.quicksum(m.p[a, level, k] for k in domains(level)) <= 1

    @model.Constraint(
        [
            (i, *key)
            for key in together
            for c in classes(instance.affinities[key[0]].jobs)
            for i in rows_of(c)
        ]
    )
    def C7_together(m: pyo.ConcreteModel, i: int, a: int, level: str, k: int) -> Any:
        return tasks_in(m, i, level, k) <= rows[i].count * m.p[a, level, k]

    apart = [
        (a, c, k)
        for a, rule in enumerate(instance.affinities)
        if rule.kind == "apart"
        for c in classes(rule.jobs)
        for k in domains(rule.level)
    ]
    model.s = pyo.Var(apart, domain=pyo.Binary)

    @model.Constraint(sorted({(a, k) for a, _, k in apart}))
    def C8_apart(m: pyo.ConcreteModel, a: int, k: int) -> Any:
        return pyo.quicksum(m.s[a, c, k] for c in classes(instance.affinities[a].jobs)) <= 1

    @model.Constraint([(i, *key) for key in apart for i in rows_of(key[1])])
    def C9_presence(m: pyo.ConcreteModel, i: int, a: int, c: int, k: int) -> Any:
        level = instance.affinities[a].level
        return tasks_in(m, i, level, k) <= rows[i].count * m.s[a, c, k]

    quotas = facts.quotas()

    @model.Constraint(range(len(quotas)))
    def C10_quota(m: pyo.ConcreteModel, n: int) -> Any:
        _, uses, most = quotas[n]
        if not uses:
            return pyo.Constraint.Skip
        return pyo.quicksum(amount * m.x[v] for v, amount in uses) <= most

    def stays(m: pyo.ConcreteModel, k: int, role: str, h: int) -> Any:
        return pyo.quicksum(
            m.y[i, h] for i in rows_of(k) if facts.data.groups[rows[i].group].tasks.role == role
        )

    pinned = [key for key in facts.initial if facts.pinned(key[0])]
    free = [key for key in facts.initial if not facts.pinned(key[0])]
    model.m = pyo.Var(free, bounds=lambda _, *key: (0, facts.initial[key]))

    @model.Constraint(pinned)
    def C11_pinned(m: pyo.ConcreteModel, k: int, role: str, h: int) -> Any:
        return stays(m, k, role, h) >= facts.initial[k, role, h]

    @model.Constraint(free)
    def C11_moved(m: pyo.ConcreteModel, k: int, role: str, h: int) -> Any:
        return m.m[k, role, h] + stays(m, k, role, h) >= facts.initial[k, role, h]

    _name(model, facts)
    budget = instance.allowed_moves.budget
    if budget is not None and free:
        model.C11_budget = pyo.Constraint(expr=pyo.quicksum(model.m.values()) <= budget)
    return model


def _name(model: pyo.ConcreteModel, facts: Facts) -> None:
    """Offer x and y by the names of jobs, configurations, roles and hosts."""
    instance, ways = facts.instance, facts.ways
    job = [class_name([instance.jobs[j].id for j in members]) for members in facts.classes]
    options = [configuration_names(facts.job(k).configurations) for k in range(len(job))]
    key = [(job[way.job_class], options[way.job_class][way.configuration]) for way in ways]
    name_variables(
        model,
        "run",
        {key[v]: model.x[v] for v in model.V},
        "job, configuration: how many of these jobs run in it",
    )
    role = [facts.data.groups[row.group].tasks.role for row in facts.rows]
    name_variables(
        model,
        "tasks",
        {
            (*key[row.way], role[i], host.id): model.y[i, h]
            for i, row in enumerate(facts.rows)
            for h, host in enumerate(instance.topology.hosts)
        },
        "job, configuration, role, host: how many tasks stand there",
    )


def build_pyomo(instance: Instance, objective: str, held: tuple[Held, ...] = ()) -> BuiltModel:
    """Build a placement as a Pyomo model.

    Parameters
    ----------
    instance
        The problem.
    objective
        A level of a goal.
    held
        Earlier levels and the values that they must keep.
    """
    level = parse_level(objective)
    facts = Facts(instance, (level, *(each.level for each in held)))
    model = concrete_model(facts)
    measures = PyomoMeasures(model, facts)
    sense = pyo.maximize if level.sense == "max" else pyo.minimize
    model.goal = pyo.Objective(expr=measures.expression(level), sense=sense)
    for n, each in enumerate(held):
        value = measures.expression(each.level)
        kept = value >= each.limit if each.level.sense == "max" else value <= each.limit
        model.add_component(f"held_{n}", pyo.Constraint(expr=kept))
    shape = facts.upper.shape

    def extract(values: Array) -> Allocation:
        found = np.rint(values)
        x, y = found[: len(facts.ways)], found[len(facts.ways) :]
        return facts.allocation(x, y.reshape(shape).astype(np.int64))

    variables = (*model.x.values(), *model.y.values())
    return BuiltModel(PyomoModel(model, variables, level.sense), extract)
