"""F9 in Pyomo: continuous times, resources that flow from activity to activity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from alloc.clock import check_time
from alloc.errors import UnsupportedFeatureError
from alloc.formulation import Array, BuiltModel, PyomoModel
from alloc.models.project.data import ProjectData
from alloc.models.timed import TimedModel, timed
from alloc.problems.project import ProjectPlan, ProjectProblem

_SPAN = 1000.0
"""Of all times, in the model's units: what a solver's tolerance of 1e-6 leaves of a big number is
then a billionth."""
_OFF = 1e-7
"""Share of the horizon by which a solver's start may be off, its tolerance a hundred times over."""
_MAX_FLOWS = 200_000
"""Flows beyond which the model takes minutes to build, and no solver ends with it."""


def build_pyomo(problem: ProjectProblem, objective: str = "makespan") -> BuiltModel:
    """Return the model in Pyomo, by ids of activities; times in thousandths of the horizon.

    Parameters
    ----------
    problem
        At most as many activities as a model of flows holds.
    objective
        Name of an objective of the family.
    """
    data = ProjectData(problem, whole=True)
    n = data.num_activities
    if (n + 2) ** 2 * max(len(data.renewable), 1) > _MAX_FLOWS:
        raise UnsupportedFeatureError(
            f"{problem.name}: {n} activities are more than a model of flows holds; use the method "
            '"auto", or the backend "cpsat".'
        )
    unit = data.horizon_s / _SPAN
    ids = [activity.id for activity in problem.activities]
    m: Any = TimedModel(problem.name)
    m.ACTIVITIES = pyo.Set(initialize=ids, doc="activities, by id")
    keys = [(ids[k], mode) for k in range(n) for mode in data.modes[k]]
    m.MODES = pyo.Set(initialize=keys, dimen=2, doc="activity, and the position of its mode")
    times = [t / unit for row in data.durations for t in row]
    m.duration = pyo.Param(m.MODES, initialize=dict(zip(keys, times, strict=True)))
    m.y = pyo.Var(m.MODES, domain=pyo.Binary, doc="the activity runs in the mode")
    head = dict(zip(ids, (data.heads / unit).tolist(), strict=True))
    m.start = pyo.Var(m.ACTIVITIES, bounds=lambda _, i: (head[i], _SPAN), doc="start")
    own = {ids[k]: [(ids[k], mode) for mode in data.modes[k]] for k in range(n)}

    def end(i: str) -> Any:
        return m.start[i] + pyo.quicksum(m.duration[key] * m.y[key] for key in own[i])

    m.C1_mode = pyo.Constraint(
        m.ACTIVITIES, rule=timed(lambda _, i: pyo.quicksum(m.y[key] for key in own[i]) == 1)
    )
    before = {(ids[p], ids[k]) for k in range(n) for p in problem.predecessors[k]}
    _add_flows(m, data, ids, own, before)

    @m.Constraint(m.PAIRS)
    def C2_precedence(_: Any, i: str, k: str) -> Any:
        late = 0.0 if (i, k) in before else 2 * _SPAN * (1 - m.z[i, k])
        return end(i) <= m.start[k] + late

    names = [resource.name for resource in data.used_up]
    m.BUDGETS = pyo.Set(initialize=names, doc="resources that are used up")
    amounts = [use for row in data.amounts for use in row]

    @m.Constraint(m.BUDGETS)
    def C7_budget(_: Any, name: str) -> Any:
        at = names.index(name)
        used = pyo.quicksum(use[at] * m.y[key] for key, use in zip(keys, amounts, strict=True))
        # A plain number where no mode uses any.
        return pyo.inequality(None, used + 0 * m.y[keys[0]], data.used_up[at].capacity)

    _add_goal(m, data, ids, objective, end, unit)
    variables = (*m.start.values(), *m.y.values())
    return BuiltModel(
        PyomoModel(m, variables, "min"), lambda values: _plan(data, np.asarray(values))
    )


def _add_flows(
    m: Any,
    data: ProjectData,
    ids: list[str],
    own: dict[str, list[tuple[str, int]]],
    before: set[tuple[str, str]],
) -> None:
    """Add the pairs that may follow each other, and the units of resources that go along."""
    pairs = [(i, k) for i in ids for k in ids if i != k and (k, i) not in before]
    m.PAIRS = pyo.Set(initialize=pairs, dimen=2, doc="activities, of which the first may end first")
    m.z = pyo.Var(m.PAIRS, domain=pyo.Binary, doc="the first ends before the second starts")
    for pair in before:
        m.z[pair].fix(1)
    both = [(i, k) for i, k in pairs if i < k and (k, i) in m.PAIRS]
    m.UNORDERED = pyo.Set(initialize=both, dimen=2, doc="pairs without a precedence")
    m.C3_one_way = pyo.Constraint(
        m.UNORDERED, rule=timed(lambda _, i, k: m.z[i, k] + m.z[k, i] <= 1)
    )
    source, sink = "source", "sink"
    while source in ids or sink in ids:
        source, sink = f"{source} of resources", f"{sink} of resources"
    names = [resource.name for resource in data.renewable]
    m.RENEWABLE = pyo.Set(initialize=names, doc="renewable resources")
    use = {
        (ids[k], mode, name): rates[r]
        for k, modes in enumerate(data.modes)
        for mode, rates in zip(modes, data.rates[k], strict=True)
        for r, name in enumerate(names)
    }
    capacity = {resource.name: resource.capacity for resource in data.renewable}
    most = {(i, r): max(use[i, mode, r] for _, mode in own[i]) for i in ids for r in names}
    most |= {(end, r): capacity[r] for end in (source, sink) for r in names}
    arcs = [*pairs, *((source, i) for i in ids), *((i, sink) for i in ids), (source, sink)]
    flows = [(i, k, r) for i, k in arcs for r in names if min(most[i, r], most[k, r]) > 0]
    check_time()
    m.FLOWS = pyo.Set(initialize=flows, dimen=3, doc="from, to, resource")
    m.f = pyo.Var(
        m.FLOWS,
        bounds=lambda _, i, k, r: (0, min(most[i, r], most[k, r])),
        doc="units that the second takes over from the first",
    )
    out: dict[tuple[str, str], list[Any]] = {}
    into: dict[tuple[str, str], list[Any]] = {}
    for i, k, r in flows:
        out.setdefault((i, r), []).append(m.f[i, k, r])
        into.setdefault((k, r), []).append(m.f[i, k, r])

    def used(i: str, r: str) -> Any:
        if i in (source, sink):
            return capacity[r]
        return pyo.quicksum(use[i, mode, r] * m.y[i, mode] for _, mode in own[i])

    m.SENDERS = pyo.Set(initialize=sorted(out), dimen=2, doc="who gives a resource on")
    m.TAKERS = pyo.Set(initialize=sorted(into), dimen=2, doc="who takes a resource over")
    m.C4_out = pyo.Constraint(
        m.SENDERS, rule=timed(lambda _, i, r: pyo.quicksum(out[i, r]) == used(i, r))
    )
    m.C5_in = pyo.Constraint(
        m.TAKERS, rule=timed(lambda _, i, r: pyo.quicksum(into[i, r]) == used(i, r))
    )

    @m.Constraint(m.FLOWS)
    def C6_way(_: Any, i: str, k: str, r: str) -> Any:
        if (i, k) not in m.PAIRS:
            return pyo.Constraint.Skip
        return m.f[i, k, r] <= min(most[i, r], most[k, r]) * m.z[i, k]


def _add_goal(
    m: Any, data: ProjectData, ids: list[str], objective: str, end: Any, unit: float
) -> None:
    """Add completions, and the objective in seconds."""
    jobs = {job.id: job for job in data.problem.jobs}
    owner = {ids[k]: data.problem.jobs[j].id for k, j in enumerate(data.problem.job_of)}
    m.JOBS = pyo.Set(initialize=sorted(set(owner.values())), doc="jobs, by id")
    m.completion = pyo.Var(m.JOBS, bounds=(0.0, 2 * _SPAN), doc="end of the last activity")
    m.C8_completion = pyo.Constraint(
        m.ACTIVITIES, rule=timed(lambda _, i: end(i) <= m.completion[owner[i]])
    )
    if objective == "makespan":
        m.makespan = pyo.Var(bounds=(0.0, 2 * _SPAN), doc="end of all")
        m.C8_all = pyo.Constraint(m.JOBS, rule=timed(lambda _, j: m.completion[j] <= m.makespan))
        m.goal = pyo.Objective(expr=unit * m.makespan)
    elif objective == "weighted_jct":
        m.goal = pyo.Objective(
            expr=pyo.quicksum(
                jobs[j].weight * (unit * m.completion[j] - jobs[j].release_s) for j in m.JOBS
            )
        )
    else:
        due = {j: due for j in m.JOBS if (due := jobs[j].due_date_s) is not None}
        m.DUE = pyo.Set(initialize=sorted(due), doc="jobs with a due date")
        m.tardiness = pyo.Var(m.DUE, bounds=(0.0, 2 * _SPAN), doc="time after the due date")
        m.C8_late = pyo.Constraint(
            m.DUE, rule=timed(lambda _, j: m.completion[j] - due[j] / unit <= m.tardiness[j])
        )
        m.goal = pyo.Objective(
            expr=pyo.quicksum(unit * jobs[j].weight * m.tardiness[j] for j in m.DUE)
            + 0.0 * m.completion[m.JOBS.first()]
        )


def _plan(data: ProjectData, values: Array) -> ProjectPlan:
    """Return the schedule in seconds, with the starts that the solver chose.

    A constraint of the user's own may ask for them: no activity starts earlier.
    """
    modes, at = [], data.num_activities
    for choice in data.modes:
        modes.append(int(np.argmax(values[at : at + len(choice)])))
        at += len(choice)
    starts = (values[: data.num_activities] * (data.horizon_s / _SPAN)).tolist()
    order = data.order_of(starts)
    return data.plan(modes, data.schedule(modes, order, starts, _OFF * data.horizon_s))
