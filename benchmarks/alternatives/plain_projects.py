"""Projects as the CP-SAT model that one writes in an hour: an interval a mode, a row a resource.

No rules to start from, no work on resources, no order of pairs. Each mode has a start of its own,
as CP-SAT's cumulative wants it; without that, versions 9.12 to 9.15 return wrong optima.
"""

from __future__ import annotations

import math

from ortools.sat.python import cp_model

from alloc.problems.project import Activity, ProjectProblem
from benchmarks.alternatives.plain_gangs import PlainAnswer


def solve_project_plainly(
    problem: ProjectProblem, seconds: float, workers: int, seed: int = 0
) -> PlainAnswer:
    """Return the makespan of a project whose run times are whole seconds.

    Parameters
    ----------
    problem
        The project, of one job that is released at 0.
    seconds, workers, seed
        Of CP-SAT.
    """
    model = cp_model.CpModel()
    last = sum(max(_length(a, m) for m in range(len(a.modes))) for a in problem.activities)
    rows: dict[str, list[tuple[cp_model.IntervalVar, int]]] = {}
    used_up: dict[str, list[cp_model.LinearExprT]] = {}
    renewable = {r.name for r in problem.resources if r.is_renewable}
    starts, ends = [], []
    for activity in problem.activities:
        start, end = model.new_int_var(0, last, ""), model.new_int_var(0, last, "")
        chosen = []
        for m, mode in enumerate(activity.modes):
            x, own = model.new_bool_var(""), model.new_int_var(0, last, "")
            length = _length(activity, m)
            model.add(own == start).only_enforce_if(x)
            model.add(end == own + length).only_enforce_if(x)
            interval = model.new_optional_fixed_size_interval_var(own, length, x, "")
            for name, amount in mode.uses.items():
                if name in renewable:
                    rows.setdefault(name, []).append((interval, amount))
                else:
                    used_up.setdefault(name, []).append(amount * x)
            chosen.append(x)
        model.add_exactly_one(chosen)
        starts.append(start)
        ends.append(end)
    for k, before in enumerate(problem.predecessors):
        for p in before:
            model.add(starts[k] >= ends[p])
    for resource in problem.resources:
        if resource.name in rows:
            intervals, amounts = zip(*rows[resource.name], strict=True)
            model.add_cumulative(intervals, amounts, resource.capacity)
        if resource.name in used_up:
            model.add(sum(used_up[resource.name]) <= resource.capacity)
    over = model.new_int_var(0, last, "")
    model.add_max_equality(over, ends)
    model.minimize(over)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = seed
    solver.parameters.use_disjunctive_constraint_in_cumulative = False
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return PlainAnswer(math.inf, solver.best_objective_bound)
    return PlainAnswer(solver.objective_value, solver.best_objective_bound)


def _length(activity: Activity, mode: int) -> int:
    return round(activity.modes[mode].duration_s)
