"""F6 in Pyomo: the Pyomo model, with the names of the page of mathematics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyomo.environ as pyo

from alloc.formulation import BuiltModel, PyomoModel
from alloc.models.admission.data import AdmissionData, admission_data
from alloc.models.malleable.data import Array
from alloc.models.malleable.grid import Held
from alloc.models.named import Names, configuration_names, name_variables
from alloc.models.timed import TimedModel
from alloc.objectives import Held as HeldLevel
from alloc.objectives import WeightedSum
from alloc.problems.allocation.instance import Instance


def concrete_model(data: AdmissionData) -> pyo.ConcreteModel:
    """Return the mixed-integer program of an admission."""
    grid, slot_data = data.grid, data.grid.data
    model = TimedModel("admission")
    jobs = range(len(data.jobs))
    slots = {j: data.slots(j) for j in jobs}
    choices = {j: range(len(slot_data.table(j).rate)) for j in jobs}
    rho = {(j, c): float(r) for j in jobs for c, r in enumerate(slot_data.table(j).rate)}
    part = {(j, t): float(f) for j in jobs for t, f in zip(slots[j], data.usable(j), strict=True)}
    need = {j: float(data.need[j]) for j in jobs}
    delta = {j: grid.restart(j) for j in jobs}
    jt = [(j, t) for j in jobs for t in slots[j]]
    jtc = [(j, t, c) for j, t in jt for c in choices[j]]
    paying = [(j, t) for j, t in jt if delta[j] > 0]
    effort = [j for j in jobs if data.best_effort[j]]
    lasting = [(j, t) for j in effort for t in slots[j]]
    fixed = [(j, c) for j in jobs if data.jobs[j].elasticity != "malleable" for c in choices[j]]
    steady = [(j, t) for j, t in jt if not data.jobs[j].preemptible]

    model.J = pyo.Set(initialize=jobs)
    model.E = pyo.Set(initialize=effort)
    model.JT = pyo.Set(initialize=jt, dimen=2)
    model.JTC = pyo.Set(initialize=jtc, dimen=3)
    model.ET = pyo.Set(initialize=lasting, dimen=2)
    model.TR = pyo.Set(
        initialize=[
            (t, r) for t in range(grid.num_slots) for r in range(len(slot_data.rows.names))
        ],
        dimen=2,
    )
    model.paying = pyo.Set(initialize=paying, dimen=2)

    model.a = pyo.Var(model.J, domain=pyo.Binary)
    for j in jobs:
        least, most = data.accepts(j)
        model.a[j].setlb(least)
        model.a[j].setub(most)
    model.x = pyo.Var(model.JTC, domain=pyo.Binary)
    model.b = pyo.Var(model.paying, domain=pyo.Binary)
    model.z = pyo.Var([(j, t, c) for j, t in paying for c in choices[j]], bounds=(0, 1))
    model.m = pyo.Var(fixed, domain=pyo.Binary)
    model.s = pyo.Var(steady, bounds=(0, 1))
    model.v = pyo.Var([(j, t, c) for j, t in lasting for c in choices[j]], bounds=(0, 1))
    model.u = pyo.Var([(j, t + 1) for j, t in lasting], domain=pyo.Binary)
    model.e = pyo.Var(model.ET, bounds=lambda _, j, t: (0, grid.longest_stay(j, t)))
    model.o = pyo.Var(model.E, bounds=lambda _, j: (0, need[j] if grid.may_run_over(j) else 0))
    for j in effort:
        if len(slots[j]) and not grid.may_run_over(j):
            model.u[j, slots[j].stop].fix(0)

    def runs(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        """Return whether a job runs in a slot; before its first it does not."""
        return pyo.quicksum(m.x[j, t, c] for c in choices[j]) if t in slots[j] else 0

    def alive(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return 1 if t == slots[j].start else m.u[j, t]

    def pays(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return pyo.quicksum(m.z[j, t, c] for c in choices[j]) * delta[j] if delta[j] else 0

    def value(m: pyo.ConcreteModel, level: WeightedSum) -> Any:
        """Return a level of the goal."""
        total: Any = 0.0
        for factor, term in level.terms:
            sign = factor if term.sense == level.sense else -factor
            if term.name == "value":
                total += pyo.quicksum(sign * data.jobs[j].weight * m.a[j] for j in jobs)
            elif term.name == "gpu_time":
                total += pyo.quicksum(
                    sign * data.slot_h * float(data.gpus[j][c]) * m.x[j, t, c]
                    for j, t, c in jtc
                    if not data.best_effort[j]
                )
            else:
                for j in effort:
                    stay = pyo.quicksum(m.e[j, t] for t in slots[j])
                    over = m.o[j] * (float(slot_data.shortest[j]) / float(slot_data.work[j]))
                    unit = sign * data.jobs[j].weight * slot_data.slot_s
                    total += unit * (float(slot_data.lag[j]) + stay + over)
        return total

    sense = pyo.minimize if data.level.sense == "min" else pyo.maximize
    model.level = pyo.Objective(expr=value(model, data.level), sense=sense)

    @model.Constraint([j for j in jobs if not data.best_effort[j] and len(slots[j])])
    def C1_work(m: pyo.ConcreteModel, j: int) -> Any:
        done = pyo.quicksum(
            rho[j, c] * part[j, t] * m.x[j, t, c] for t in slots[j] for c in choices[j]
        )
        if delta[j]:
            done -= pyo.quicksum(
                rho[j, c] * min(delta[j], part[j, t]) * m.z[j, t, c]
                for t in slots[j]
                for c in choices[j]
            )
        return done >= need[j] * m.a[j]

    @model.Constraint(model.JT)
    def C2_one_way(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return runs(m, j, t) <= m.a[j]

    @model.Constraint(model.TR)
    def C3_capacity(m: pyo.ConcreteModel, t: int, r: int) -> Any:
        terms = [
            float(slot_data.table(j).use[c, r]) * m.x[j, t, c]
            for j in jobs
            if t in slots[j]
            for c in choices[j]
            if slot_data.table(j).use[c, r]
        ]
        if not terms:
            return pyo.Constraint.Skip
        return pyo.quicksum(terms) <= float(slot_data.rows.capacity[r])

    @model.Constraint([(j, t, c) for j, c in fixed for t in slots[j]])
    def C4_one_choice(m: pyo.ConcreteModel, j: int, t: int, c: int) -> Any:
        return m.x[j, t, c] <= m.m[j, c]

    @model.Constraint(sorted({j for j, _ in fixed}))
    def C4_choice(m: pyo.ConcreteModel, j: int) -> Any:
        return pyo.quicksum(m.m[j, c] for c in choices[j]) <= m.a[j]

    @model.Constraint(steady)
    def C5_begins(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return m.s[j, t] >= runs(m, j, t) - runs(m, j, t - 1)

    @model.Constraint(sorted({j for j, _ in steady}))
    def C5_no_pause(m: pyo.ConcreteModel, j: int) -> Any:
        return pyo.quicksum(m.s[j, t] for t in slots[j]) <= m.a[j]

    @model.Constraint([(j, t) for j, t in lasting if t > slots[j].start])
    def C5_until_complete(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        if data.jobs[j].preemptible:
            return pyo.Constraint.Skip
        return runs(m, j, t) >= runs(m, j, t - 1) + m.u[j, t] - 1

    @model.Constraint([j for j in sorted({j for j, _ in steady}) if slot_data.started[j]])
    def C5_goes_on(m: pyo.ConcreteModel, j: int) -> Any:
        return runs(m, j, slots[j].start) >= 1

    @model.Constraint([(j, t, c) for j, t in paying for c in choices[j]])
    def C6_restart(m: pyo.ConcreteModel, j: int, t: int, c: int) -> Any:
        before = float(grid.held(j) == c) if t == slots[j].start else m.x[j, t - 1, c]
        return m.z[j, t, c] >= m.x[j, t, c] - before + m.b[j, t] - 1

    @model.Constraint(model.paying)
    def C6_stays_started(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        first = t == slots[j].start
        return m.b[j, t] >= (float(grid.has_started(j)) if first else m.b[j, t - 1])

    @model.Constraint([(j, t) for j, t in paying if t > slots[j].start])
    def C6_has_started(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return m.b[j, t] >= runs(m, j, t - 1)

    @model.Constraint(model.E)
    def C7_work(m: pyo.ConcreteModel, j: int) -> Any:
        done = pyo.quicksum(rho[j, c] * m.v[j, t, c] for t in slots[j] for c in choices[j])
        return done + m.o[j] >= need[j]

    @model.Constraint(model.ET)
    def C7_alive(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return runs(m, j, t) <= alive(m, j, t)

    @model.Constraint([(j, t, c) for j, t in lasting for c in choices[j]])
    def C7_working(m: pyo.ConcreteModel, j: int, t: int, c: int) -> Any:
        return m.v[j, t, c] <= m.x[j, t, c]

    @model.Constraint([(j, t) for j, t in lasting if delta[j]])
    def C7_working_after_restart(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        works = pyo.quicksum(m.v[j, t, c] for c in choices[j])
        return works <= runs(m, j, t) - pays(m, j, t)

    @model.Constraint(model.ET)
    def C7_monotone(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return m.u[j, t + 1] <= alive(m, j, t)

    @model.Constraint(model.ET)
    def C7_time_whole(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return m.e[j, t] >= m.u[j, t + 1]

    @model.Constraint(model.ET)
    def C7_time_last(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        works = pyo.quicksum(m.v[j, t, c] for c in choices[j])
        return m.e[j, t] >= works + pays(m, j, t)

    @model.Constraint([j for j in effort if len(slots[j])])
    def C7_left_over(m: pyo.ConcreteModel, j: int) -> Any:
        return m.o[j] <= need[j] * m.u[j, slots[j].stop]

    cuts = data.flow_cuts

    @model.Constraint(range(len(cuts)))
    def C8_flow_cuts(m: pyo.ConcreteModel, i: int) -> Any:
        at, area, most = cuts[i]
        own = zip(at.tolist(), area.tolist(), strict=True)
        return pyo.quicksum(use * m.a[j] for j, use in own) <= most

    conflicts, switches = grid.conflict_rows
    if conflicts:
        model.y = pyo.Var(range(switches), domain=pyo.Binary)

        @model.Constraint(range(len(conflicts)))
        def C9_hosts(m: pyo.ConcreteModel, i: int) -> Any:
            row = conflicts[i]
            own = [m.x[key] for key in row.columns if key in m.JTC]
            if not own:
                return pyo.Constraint.Skip
            held = pyo.quicksum(own)
            return held + pyo.quicksum(factor * m.y[k] for k, factor in row.switches) <= row.limit

    @model.Constraint(range(len(data.held)))
    def C10_held(m: pyo.ConcreteModel, h: int) -> Any:
        each = data.held[h]
        now = value(m, each.level)
        if isinstance(now, float):  # of a level that no job counts in
            return pyo.Constraint.Skip
        return now >= each.limit if each.level.sense == "max" else now <= each.limit

    ids = [job.id for job in data.jobs]
    options = [configuration_names(job.configurations) for job in data.jobs]
    name_variables(
        model,
        "run",
        {
            (ids[j], t, options[j][slot_data.table(j).configuration[c]]): model.x[j, t, c]
            for j, t, c in jtc
        },
        "job, slot from 0, configuration: whether it runs so in the slot",
    )
    accepted: dict[Names, Any] = {(ids[j],): model.a[j] for j in jobs}
    name_variables(model, "accept", accepted, "job: whether it is accepted")
    return model


def build_pyomo(instance: Instance, objective: str, held: Sequence[HeldLevel] = ()) -> BuiltModel:
    """Build an instance as a Pyomo model.

    It holds every configuration: a constraint of one's own may forbid what dominates another.

    Parameters
    ----------
    instance
        Needs a slot, and a deadline for each job that may be refused.
    objective
        A level of a goal of admission, as `alloc.objectives.parse_level` reads it.
    held
        Earlier levels of the goal, with the values that they must keep.
    """
    return build_data(admission_data(instance, objective, held, keep_all=True))


def build_data(data: AdmissionData) -> BuiltModel:
    """Build an admission as a Pyomo model."""
    model = concrete_model(data)
    keys, number = list(model.JTC), len(data.jobs)

    def answer(values: Array) -> tuple[list[Held], list[int]]:
        accepted = [j for j in range(number) if values[j] > 0.5]
        held = zip(keys, values[number:], strict=True)
        return [key for key, value in held if value > 0.5], accepted

    def refine(values: Array) -> BuiltModel | None:
        tighter = data.refined(*answer(values))
        return None if tighter is None else build_data(tighter)

    variables = (*(model.a[j] for j in range(number)), *(model.x[key] for key in keys))
    built = PyomoModel(model, variables, data.level.sense)
    return BuiltModel(built, lambda values: data.schedule(*answer(values)), None, refine)
