"""F2 in Pyomo: the Pyomo model, with the names of the page of mathematics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyomo.environ as pyo

from alloc.formulation import BuiltModel, PyomoModel
from alloc.models.malleable.costs import LevelCosts
from alloc.models.malleable.data import Array
from alloc.models.malleable.grid import Grid, Held, built_model, grid_of
from alloc.models.named import configuration_names, name_variables
from alloc.models.timed import TimedModel
from alloc.objectives import Held as HeldLevel
from alloc.problems.allocation.instance import Instance


def concrete_model(grid: Grid) -> pyo.ConcreteModel:
    """Return the mixed-integer program of a grid."""
    data = grid.data
    model = TimedModel("malleable")
    jobs = range(data.num_jobs)
    rho = {(j, c): float(r) for j in jobs for c, r in enumerate(data.table(j).rate)}
    choices = {j: range(len(data.table(j).rate)) for j in jobs}
    slots = {j: grid.slots(j) for j in jobs}
    fastest = {j: float(data.table(j).rate.max()) for j in jobs}
    work = {j: float(data.work[j]) for j in jobs}
    delta = {j: grid.restart(j) for j in jobs}
    jt = [(j, t) for j in jobs for t in slots[j]]
    jtc = [(j, t, c) for j, t in jt for c in choices[j]]
    paying = [(j, t) for j, t in jt if delta[j] > 0]
    fixed = [
        (j, c) for j in jobs if data.instance.jobs[j].elasticity != "malleable" for c in choices[j]
    ]
    steady = [j for j in jobs if not data.instance.jobs[j].preemptible]

    model.J = pyo.Set(initialize=jobs)
    model.JT = pyo.Set(initialize=jt, dimen=2)
    model.JTC = pyo.Set(initialize=jtc, dimen=3)
    model.TR = pyo.Set(
        initialize=[(t, r) for t in range(grid.num_slots) for r in range(len(data.rows.names))],
        dimen=2,
    )
    model.paying = pyo.Set(initialize=paying, dimen=2)
    model.fixed = pyo.Set(initialize=fixed, dimen=2)

    model.x = pyo.Var(model.JTC, domain=pyo.Binary)
    model.v = pyo.Var(model.JTC, bounds=(0, 1))
    model.u = pyo.Var([(j, t + 1) for j, t in jt], domain=pyo.Binary)
    model.e = pyo.Var(model.JT, bounds=lambda _, j, t: (0, grid.longest_stay(j, t)))
    model.o = pyo.Var(model.J, bounds=lambda _, j: (0, work[j] if grid.may_run_over(j) else 0))
    model.b = pyo.Var(model.paying, domain=pyo.Binary)
    model.z = pyo.Var(model.paying, bounds=(0, 1))
    model.m = pyo.Var(model.fixed, domain=pyo.Binary)
    for j in jobs:
        if len(slots[j]) and not grid.may_run_over(j):
            model.u[j, slots[j].stop].fix(0)

    def alive(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return 1 if t == slots[j].start else m.u[j, t]

    def runs(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return pyo.quicksum(m.x[j, t, c] for c in choices[j])

    def works(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return pyo.quicksum(m.v[j, t, c] for c in choices[j])

    def pause(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return delta[j] * m.z[j, t] if delta[j] else 0

    def done(m: pyo.ConcreteModel, j: int, until: int) -> Any:
        return pyo.quicksum(
            rho[j, c] * m.v[j, t, c] for t in slots[j] if t <= until for c in choices[j]
        )

    target = data.target
    splits = {j: split for j in jobs if (split := grid.split(j)) is not None}
    model.q = pyo.Var(
        list(splits), bounds=lambda _, j: (0, max(grid.longest(j) - slots[j].stop, 1))
    )
    model.peak = pyo.Var(range(len(target.peaks)), bounds=lambda _, k: (target.floors[k], None))

    def value(m: pyo.ConcreteModel, level: LevelCosts, first_peak: int) -> Any:
        """Return a level of the goal, weighted slots."""
        expression = pyo.quicksum(m.peak[first_peak + k] for k in range(len(level.peaks)))
        for j in jobs:
            costs = grid.stay_costs(level.jobs, j)
            stay = zip(costs.each.tolist(), slots[j], strict=True)
            expression += costs.start + pyo.quicksum(cost * m.e[j, t] for cost, t in stay)
            expression += costs.over / fastest[j] * m.o[j]
            if j in splits:
                expression += costs.late * m.q[j]
        return expression

    model.level = pyo.Objective(expr=data.slot_s * value(model, target.level, 0))

    @model.Constraint(model.J)
    def C1_work(m: pyo.ConcreteModel, j: int) -> Any:
        return done(m, j, slots[j].stop) + m.o[j] >= work[j]

    @model.Constraint(model.JT)
    def C2_alive(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return runs(m, j, t) <= alive(m, j, t)

    @model.Constraint(model.JTC)
    def C3_working(m: pyo.ConcreteModel, j: int, t: int, c: int) -> Any:
        return m.v[j, t, c] <= m.x[j, t, c]

    @model.Constraint(model.paying)
    def C3_working_after_restart(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return works(m, j, t) <= runs(m, j, t) - pause(m, j, t)

    @model.Constraint(model.JT)
    def C4_monotone(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return m.u[j, t + 1] <= alive(m, j, t)

    @model.Constraint(model.JT)
    def C5_time_whole(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return m.e[j, t] >= m.u[j, t + 1]

    @model.Constraint(model.JT)
    def C5_time_last(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return m.e[j, t] >= works(m, j, t) + pause(m, j, t)

    @model.Constraint(model.JT)
    def C6_unfinished(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        return work[j] * m.u[j, t + 1] >= work[j] - done(m, j, t)

    @model.Constraint(model.J)
    def C7_left_over(m: pyo.ConcreteModel, j: int) -> Any:
        if not len(slots[j]):
            return pyo.Constraint.Skip
        return m.o[j] <= work[j] * m.u[j, slots[j].stop]

    @model.Constraint(model.TR)
    def C8_capacity(m: pyo.ConcreteModel, t: int, r: int) -> Any:
        terms = [
            float(data.table(j).use[c, r]) * m.x[j, t, c]
            for j in jobs
            if t in slots[j]
            for c in choices[j]
            if data.table(j).use[c, r]
        ]
        if not terms:
            return pyo.Constraint.Skip
        return pyo.quicksum(terms) <= float(data.rows.capacity[r])

    @model.Constraint(model.J)
    def C9_mean_busy_time(m: pyo.ConcreteModel, j: int) -> Any:
        first, span = slots[j].start, len(slots[j])
        stay = pyo.quicksum(m.e[j, t] for t in slots[j]) + m.o[j] / fastest[j]
        mean = pyo.quicksum(
            rho[j, c] * (t - first + 0.5) / work[j] * m.v[j, t, c]
            for t in slots[j]
            for c in choices[j]
        )
        return stay >= mean + m.o[j] * span / work[j] + grid.mean_busy_constant(j)

    @model.Constraint([(j, t, c) for j, t in paying for c in choices[j]])
    def C10_restart(m: pyo.ConcreteModel, j: int, t: int, c: int) -> Any:
        before = float(grid.held(j) == c) if t == slots[j].start else m.x[j, t - 1, c]
        return m.z[j, t] >= m.x[j, t, c] - before + m.b[j, t] - 1

    @model.Constraint(model.paying)
    def C10_stays_started(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        if t == slots[j].start:
            return m.b[j, t] >= float(grid.has_started(j))
        return m.b[j, t] >= m.b[j, t - 1]

    @model.Constraint(model.paying)
    def C10_has_started(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        if t == slots[j].start:
            return pyo.Constraint.Skip
        return m.b[j, t] >= runs(m, j, t - 1)

    @model.Constraint([(j, t, c) for j, c in fixed for t in slots[j]])
    def C11_one_choice(m: pyo.ConcreteModel, j: int, t: int, c: int) -> Any:
        return m.x[j, t, c] <= m.m[j, c]

    @model.Constraint(sorted({j for j, _ in fixed}))
    def C11_choice(m: pyo.ConcreteModel, j: int) -> Any:
        return pyo.quicksum(m.m[j, c] for c in choices[j]) <= 1

    @model.Constraint([(j, t) for j in steady for t in slots[j]])
    def C12_no_pause(m: pyo.ConcreteModel, j: int, t: int) -> Any:
        if t + 1 < slots[j].stop:
            return runs(m, j, t + 1) >= runs(m, j, t) + m.u[j, t + 1] - 1
        return pyo.Constraint.Skip

    @model.Constraint([j for j in steady if data.started[j] and len(slots[j])])
    def C12_goes_on(m: pyo.ConcreteModel, j: int) -> Any:
        return runs(m, j, slots[j].start) >= 1

    @model.Constraint(list(splits))
    def C14_late(m: pyo.ConcreteModel, j: int) -> Any:
        position, early = splits[j]
        if position == len(slots[j]):
            return m.q[j] >= m.o[j] / fastest[j] - early
        return m.q[j] >= m.e[j, slots[j][position]] - early

    @model.Constraint(range(len(target.peaks)), model.J)
    def C15_peak(m: pyo.ConcreteModel, k: int, j: int) -> Any:
        peak = target.peaks[k]
        end = slots[j].start + pyo.quicksum(m.e[j, t] for t in slots[j]) + m.o[j] / fastest[j]
        return m.peak[k] >= float(peak.slope[j]) * (end - float(peak.origin[j]))

    @model.Constraint(range(len(target.held)))
    def C16_held(m: pyo.ConcreteModel, h: int) -> Any:
        level, limit = target.held[h]
        before = sum(len(other.peaks) for other, _ in target.held[:h])
        return value(m, level, len(target.level.peaks) + before) <= limit

    conflicts, switches = grid.conflict_rows
    if conflicts:
        model.y = pyo.Var(range(switches), domain=pyo.Binary)

        @model.Constraint(range(len(conflicts)))
        def C13_hosts(m: pyo.ConcreteModel, i: int) -> Any:
            row = conflicts[i]
            held = pyo.quicksum(m.x[key] for key in row.columns)
            return held + pyo.quicksum(factor * m.y[k] for k, factor in row.switches) <= row.limit

    options = [configuration_names(job.configurations) for job in data.instance.jobs]
    name_variables(
        model,
        "run",
        {
            (data.instance.jobs[j].id, t, options[j][data.table(j).configuration[c]]): model.x[
                j, t, c
            ]
            for j, t, c in model.JTC
        },
        "job, slot from 0, configuration: whether it runs so in the slot",
    )
    return model


def build_pyomo(
    instance: Instance,
    objective: str,
    held: Sequence[HeldLevel] = (),
    num_slots: int | None = None,
) -> BuiltModel:
    """Build an instance as a Pyomo model, over a number of slots or one chosen from its load.

    It holds every configuration: a constraint of one's own may forbid what dominates another.

    Parameters
    ----------
    instance
        Needs a slot.
    objective
        A level of a goal of schedules, as `alloc.objectives.parse_level` reads it.
    held
        Earlier levels of the goal, with the values that they must keep.
    num_slots
        Slots of the model, 1 or more; None for as many as good schedules need.
    """
    return build_grid(grid_of(instance, num_slots, keep_all=True, objective=objective, held=held))


def build_grid(grid: Grid) -> BuiltModel:
    """Build a grid as a Pyomo model."""
    model = concrete_model(grid)
    keys = list(model.JTC)

    def held(values: Array) -> Iterator[Held]:
        yield from (key for key, value in zip(keys, values, strict=True) if value > 0.5)

    drawn = PyomoModel(model, tuple(model.x[key] for key in keys), "min")
    return built_model(grid, drawn, held, None, build_grid)
