"""F3 in Pyomo: starts in slots, or flows of capacity in continuous time, as the page names them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyomo.environ as pyo

from alloc.clock import check_time
from alloc.formulation import BuiltModel, PyomoModel
from alloc.models.malleable.costs import LevelCosts
from alloc.models.moldable.data import Array, MoldableData, moldable_data
from alloc.models.moldable.serial import by_choices
from alloc.models.named import configuration_names, name_variables
from alloc.models.timed import TimedModel, timed
from alloc.objectives import Held
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule

_SPAN = 1000.0
"""Of all times in continuous time, in the model's units: what a solver's tolerance of 1e-6 leaves
of a big number is then a billionth."""
Mode = tuple[int, int, int]
"""Job, way, placement."""


def build_pyomo(instance: Instance, objective: str, held: Sequence[Held] = ()) -> BuiltModel:
    """Build an instance as a Pyomo model: time-indexed in slots, by flows in continuous time.

    Parameters
    ----------
    instance
        The instance.
    objective
        One level of a goal.
    held
        Earlier levels of the goal.
    """
    data = moldable_data(instance, objective, held, whole=True)
    model = TimedModel("moldable")
    model.J = pyo.Set(initialize=range(data.num_jobs))
    model.R = pyo.Set(initialize=range(len(data.rows)))
    modes = [
        (j, w, p)
        for j, ways in enumerate(data.ways)
        for w, way in enumerate(ways)
        for p in range(len(way.placements))
    ]
    model.M = pyo.Set(initialize=modes, dimen=3)
    drawn = _in_slots if instance.slot_s is not None else _by_flows
    chosen, start_of, variables, end, unit_s = drawn(data, model)

    @model.Constraint(model.J)
    def C3_in_time(m: pyo.ConcreteModel, j: int) -> Any:
        limit = float(data.deadline[j])
        return end(j) <= limit / unit_s if math.isfinite(limit) else pyo.Constraint.Skip

    model.level = pyo.Objective(expr=_value(data, model, data.target.level, end, unit_s, "level"))
    for k, (level, limit) in enumerate(data.target.held):
        value = _value(data, model, level, end, unit_s, f"held{k}")
        model.add_component(f"C4_held{k}", pyo.Constraint(expr=value <= limit))
    _name(data, model)

    def extract(values: Array) -> Schedule:
        taken = chosen(values)
        start = start_of(values)
        runs = [data.ways[j][taken[j][0]].run_s for j in range(data.num_jobs)]
        order = np.lexsort((np.array(runs), start))
        return by_choices(data, order.tolist(), taken).schedule(data)

    return BuiltModel(PyomoModel(model, tuple(variables), "min"), extract)


Drawn = tuple[
    Callable[[Array], list[tuple[int, int]]],
    Callable[[Array], Array],
    list[Any],
    Callable[[int], Any],
    float,
]
"""How to read modes and starts of the jobs off the values, the variables, completions, their
unit."""


def _in_slots(data: MoldableData, model: TimedModel) -> Drawn:
    """Draw the starts in slots."""
    slot_s = data.instance.slot_s
    assert slot_s is not None
    last = math.ceil(data.end_of_all / slot_s)
    release = [round(float(r) / slot_s) for r in data.release]
    hold = {
        (j, w): round(way.hold_s / slot_s)
        for j, ways in enumerate(data.ways)
        for w, way in enumerate(ways)
    }
    keys: list[tuple[int, int, int, int]] = []
    for j, w, p in model.M:
        check_time()
        latest, run_s = float(data.deadline[j]) * (1 + 1e-12), data.ways[j][w].run_s
        starts = range(release[j], last + 1)
        keys += [(j, w, p, t) for t in starts if t * slot_s + run_s <= latest]
    model.JMT = pyo.Set(initialize=keys, dimen=4)
    model.x = pyo.Var(model.JMT, domain=pyo.Binary)
    of_job: dict[int, list[tuple[int, int, int, int]]] = {j: [] for j in model.J}
    running: dict[tuple[int, int], list[Any]] = {}
    for j, w, p, t in keys:
        check_time()
        of_job[j].append((j, w, p, t))
        for row, amount in data.ways[j][w].placements[p].use:
            for at in range(t, t + hold[j, w]):
                running.setdefault((at, row), []).append(amount * model.x[j, w, p, t])

    @model.Constraint(model.J)
    def C1_one_mode(m: pyo.ConcreteModel, j: int) -> Any:
        return pyo.quicksum(m.x[key] for key in of_job[j]) == 1

    @model.Constraint(list(running))
    def C2_capacity(m: pyo.ConcreteModel, t: int, r: int) -> Any:
        return pyo.quicksum(running[t, r]) <= data.capacity[r]

    def end(j: int) -> Any:
        return pyo.quicksum(
            (t + data.ways[j][w].run_s / slot_s) * model.x[j, w, p, t] for _, w, p, t in of_job[j]
        )

    def taken(values: Array) -> list[tuple[int, int]]:
        found = {key[0]: (key[1], key[2]) for key, v in zip(keys, values, strict=True) if v > 0.5}
        return [found[j] for j in range(data.num_jobs)]

    def start_of(values: Array) -> Array:
        found = {key[0]: key[3] for key, v in zip(keys, values, strict=True) if v > 0.5}
        return np.array([found[j] for j in range(data.num_jobs)], dtype=float)

    return taken, start_of, [model.x[key] for key in keys], end, slot_s


def _by_flows(data: MoldableData, model: TimedModel) -> Drawn:
    """Draw the flows of capacity from job to job in continuous time."""
    unit_s = math.ldexp(1.0, math.frexp(data.end_of_all / _SPAN)[1])
    latest = data.end_of_all / unit_s
    jobs, modes = list(model.J), list(model.M)
    use: dict[tuple[int, int], list[tuple[int, Mode]]] = {}
    for mode in modes:
        j, w, p = mode
        for row, amount in data.ways[j][w].placements[p].use:
            use.setdefault((j, row), []).append((amount, mode))
    most = {key: max(amount for amount, _ in own) for key, own in use.items()}
    pairs = [(j, k) for j in jobs for k in jobs if j != k]
    flows: list[tuple[int, int, int]] = []
    for j, k in pairs:
        check_time()
        flows += [(j, k, r) for r in model.R if (j, r) in use and (k, r) in use]
    flows += [(-1, k, r) for k, r in use]
    model.x = pyo.Var(model.M, domain=pyo.Binary)
    model.S = pyo.Var(model.J, bounds=lambda _, j: (float(data.release[j]) / unit_s, latest))
    model.y = pyo.Var(pairs, domain=pyo.Binary)
    # A share of what there is: amounts of memory are large beside the tolerances of solvers.
    model.f = pyo.Var(flows, bounds=(0, 1))

    def length(j: int) -> Any:
        return pyo.quicksum(
            data.ways[i][w].run_s / unit_s * model.x[i, w, p] for i, w, p in modes if i == j
        )

    def end(j: int) -> Any:
        return model.S[j] + length(j)

    def share(j: int, r: int) -> Any:
        size = max(data.capacity[r], 1)
        return pyo.quicksum(amount / size * model.x[mode] for amount, mode in use[j, r])

    @model.Constraint(model.J)
    def C1_one_mode(m: pyo.ConcreteModel, j: int) -> Any:
        return pyo.quicksum(m.x[mode] for mode in modes if mode[0] == j) == 1

    @model.Constraint(pairs)
    def C2_after(m: pyo.ConcreteModel, j: int, k: int) -> Any:
        return m.S[k] >= end(j) - 2 * latest * (1 - m.y[j, k])

    @model.Constraint([key for key in flows if key[0] >= 0])
    def C2_only_after(m: pyo.ConcreteModel, j: int, k: int, r: int) -> Any:
        least = min(most[j, r], most[k, r]) / max(data.capacity[r], 1)
        return m.f[j, k, r] <= least * m.y[j, k]

    into: dict[tuple[int, int], list[Any]] = {key: [] for key in use}
    out: dict[tuple[int, int], list[Any]] = {(j, r): [] for j in (-1, *jobs) for r in model.R}
    for j, k, r in flows:
        into[k, r].append(model.f[j, k, r])
        out[j, r].append(model.f[j, k, r])

    @model.Constraint(list(use))
    def C2_in(m: pyo.ConcreteModel, k: int, r: int) -> Any:
        return pyo.quicksum(into[k, r]) == share(k, r)

    @model.Constraint([key for key in use if out[key]])
    def C2_out(m: pyo.ConcreteModel, j: int, r: int) -> Any:
        return pyo.quicksum(out[j, r]) <= share(j, r)

    @model.Constraint(model.R)
    def C2_capacity(m: pyo.ConcreteModel, r: int) -> Any:
        own = out[-1, r]
        return pyo.quicksum(own) <= 1 if own else pyo.Constraint.Skip

    def taken(values: Array) -> list[tuple[int, int]]:
        found = {
            mode[0]: (mode[1], mode[2])
            for mode, v in zip(modes, values[len(jobs) :], strict=True)
            if v > 0.5
        }
        return [found[j] for j in range(data.num_jobs)]

    variables = [*(model.S[j] for j in jobs), *(model.x[mode] for mode in modes)]
    return taken, lambda values: np.asarray(values[: len(jobs)]), variables, end, unit_s


def _value(
    data: MoldableData,
    model: TimedModel,
    level: LevelCosts,
    end: Callable[[int], Any],
    unit_s: float,
    name: str,
) -> Any:
    """Return a level of the goal, in the objective's unit, with the variables that it needs."""
    costs = level.jobs
    late = [j for j in range(data.num_jobs) if costs.late[j] > 0]
    over = pyo.Var(late, domain=pyo.NonNegativeReals)
    model.add_component(f"o_{name}", over)
    peak = pyo.Var(range(len(level.peaks)), domain=pyo.NonNegativeReals)
    model.add_component(f"z_{name}", peak)

    def beyond(_: pyo.ConcreteModel, j: int) -> Any:
        return over[j] >= end(j) - float(costs.due[j]) / unit_s

    def highest(_: pyo.ConcreteModel, k: int, j: int) -> Any:
        own = level.peaks[k]
        slope = float(own.slope[j] / own.slope.max())
        return peak[k] >= slope * (end(j) - float(own.origin[j]) / unit_s)

    model.add_component(f"late_{name}", pyo.Constraint(late, rule=timed(beyond)))
    keys = [(k, j) for k in range(len(level.peaks)) for j in range(data.num_jobs)]
    model.add_component(f"peak_{name}", pyo.Constraint(keys, rule=timed(highest)))
    value = float(costs.base.sum()) + unit_s * pyo.quicksum(
        float(costs.rate[j]) * end(j) for j in range(data.num_jobs) if costs.rate[j] > 0
    )
    value += unit_s * pyo.quicksum(float(costs.late[j]) * over[j] for j in late)
    heights = [float(own.slope.max()) for own in level.peaks]
    return value + unit_s * pyo.quicksum(h * peak[k] for k, h in enumerate(heights))


def _name(data: MoldableData, model: TimedModel) -> None:
    """Give the modes names that people know: job, configuration, hosts."""
    jobs = data.instance.jobs
    options = [configuration_names(job.configurations) for job in jobs]
    named = {}
    for key in model.x:
        j, w, p = key[:3]
        way = data.ways[j][w]
        hosts = " ".join(f"{t.host}:{t.count} {t.role}" for t in way.placements[p].tasks)
        named[jobs[j].id, options[j][way.configuration], hosts, *key[3:]] = model.x[key]
    slots = ", slot from 0" if data.instance.slot_s is not None else ""
    name_variables(
        model,
        "run",
        named,
        f"job, configuration, hosts{slots}: whether it runs so, and starts then",
    )
