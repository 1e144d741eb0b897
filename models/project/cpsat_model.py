"""F9 in CP-SAT: an interval for each mode, a cumulative for each renewable resource.

Times become whole numbers by rounding down, which keeps every schedule (see
`alloc.models.project.whole_times`): so the model is a relaxation, its bound holds as it stands,
and the schedule is built again in seconds, in the order of the starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from ortools.sat.python import cp_model

from alloc.clock import check_time
from alloc.formulation import Array, BuiltModel, CpSatModel
from alloc.models.malleable.cpsat_model import whole_multiples
from alloc.models.project.data import ProjectData
from alloc.models.project.whole_times import WholeTimes
from alloc.problems.project import ProjectPlan, ProjectProblem

_MAX_ORDERED = 60
"""Activities of which every two that clash get literals for who goes first: their number grows by
the square."""
_MAX_SUM = 2**59
"""Of the objective or a row: CP-SAT counts in 64 bits."""

Windows = Sequence[Sequence[tuple[float, float]]]
"""First and last start of each activity in each mode, seconds."""


class _Builder:
    def __init__(
        self, problem: ProjectProblem, objective: str, windows: Windows | None, least: float
    ) -> None:
        self.data, self.objective = ProjectData(problem), objective
        self.windows, self.least = windows, least
        data = self.data
        self.times = WholeTimes(data)
        self.unit, self.last = self.times.unit, self.times.last
        self.model = cp_model.CpModel()
        self.starts: list[cp_model.IntVar] = []
        self.ends: list[cp_model.LinearExprT] = []
        self.taken: list[list[cp_model.IntVar]] = []
        self.intervals: list[list[cp_model.IntervalVar]] = []

    def build(self) -> BuiltModel:
        data, model = self.data, self.model
        for k in range(data.num_activities):
            check_time()
            self._activity(k)
        for k, before in enumerate(data.problem.predecessors):
            for p in before:
                model.add(self.starts[k] >= self.ends[p])
        for r, resource in enumerate(data.renewable):
            rows = [
                (interval, uses[r])
                for intervals, all_uses in zip(self.intervals, data.rates, strict=True)
                for interval, uses in zip(intervals, all_uses, strict=True)
                if uses[r]
            ]
            if rows:
                intervals, demands = zip(*rows, strict=True)
                model.add_cumulative(intervals, demands, resource.capacity)
        if data.num_activities <= _MAX_ORDERED:
            self._orders()
        for r, resource in enumerate(data.used_up):
            model.add(
                sum(
                    uses[r] * x
                    for taken, all_uses in zip(self.taken, data.amounts, strict=True)
                    for x, uses in zip(taken, all_uses, strict=True)
                )
                <= resource.capacity
            )
        scale, offset, least = self._goal()
        variables = (*self.starts, *(x for row in self.taken for x in row))
        return BuiltModel(
            CpSatModel(model, variables, "min", scale, offset, trivial_bound=least),
            self.plan,
            self.values,
        )

    def _activity(self, k: int) -> None:
        """Add an activity: its modes have starts of their own, as versions of CP-SAT need it."""
        data, model = self.data, self.model
        lengths = [self.times.down(t) for t in data.durations[k]]
        spans = [self._span(k, m) for m in range(len(lengths))]
        possible = [(low, high) for low, high in spans if low <= high]
        if not possible:
            model.add_bool_or([])  # false: no better plan starts it in any mode
            possible = [(0, self.last)]
        start = model.new_int_var(
            min(low for low, _ in possible), max(high for _, high in possible), f"start_{k}"
        )
        self.starts.append(start)
        if len(lengths) == 1:
            # Not the constant 1, which all activities would share: no hint names a variable twice.
            self.taken.append([model.new_int_var(1, 1, f"takes_{k}_0")])
            self.ends.append(start + lengths[0])
            self.intervals.append([model.new_fixed_size_interval_var(start, lengths[0], f"i_{k}")])
            return
        taken = [model.new_bool_var(f"takes_{k}_{m}") for m in range(len(lengths))]
        model.add_exactly_one(taken)
        intervals = []
        for m, (length, (low, high)) in enumerate(zip(lengths, spans, strict=True)):
            if low > high:
                model.add(taken[m] == 0)
            own = model.new_int_var(min(low, high), high, f"start_{k}_{m}")
            model.add(own == start).only_enforce_if(taken[m])
            intervals.append(
                model.new_optional_fixed_size_interval_var(own, length, taken[m], f"i_{k}_{m}")
            )
        self.taken.append(taken)
        self.ends.append(start + sum(n * x for n, x in zip(lengths, taken, strict=True)))
        self.intervals.append(intervals)

    def _span(self, k: int, m: int) -> tuple[int, int]:
        """Return the first and last start of an activity in a mode, the last first if in none."""
        head = self.times.down(float(self.data.heads[k]))
        if self.windows is None:
            return head, self.last
        low, high = self.windows[k][m]
        if low > high:
            return head + 1, head
        return max(head, self.times.down(low)), min(
            self.last, self.times.down(min(high, self.last * self.unit)) + 1
        )

    def _orders(self) -> None:
        """Say of every two that cannot run together which one goes first.

        The cumulatives say so too, but only push starts along: where times are long in units, the
        search would creep.
        """
        data, model = self.data, self.model
        before = data.ancestors
        for k, i in combinations(range(data.num_activities), 2):
            if i in before[k] or k in before[i]:
                continue
            clashes = [
                (x, y)
                for x, mine in zip(self.taken[k], data.rates[k], strict=True)
                for y, other in zip(self.taken[i], data.rates[i], strict=True)
                if any(
                    a + b > r.capacity for a, b, r in zip(mine, other, data.renewable, strict=True)
                )
            ]
            if not clashes:
                continue
            check_time()
            first = model.new_bool_var(f"{k}_before_{i}")
            after = model.new_bool_var(f"{i}_before_{k}")
            model.add(self.starts[i] >= self.ends[k]).only_enforce_if(first)
            model.add(self.starts[k] >= self.ends[i]).only_enforce_if(after)
            for x, y in clashes:
                model.add_bool_or([x.negated(), y.negated(), first, after])

    def _goal(self) -> tuple[float, float, float]:
        """Set the objective; return its scale and offset, and what it never falls below."""
        data, model = self.data, self.model
        least = self.least if self.least > 0 else data.bound(self.objective)
        if self.objective == "makespan":
            end = model.new_int_var(self.times.down(least), 2 * self.last, "makespan")
            for k in range(data.num_activities):
                if not data.successors[k]:
                    model.add(end >= self.ends[k])
            self._areas(end)
            model.minimize(end)
            return 1 / self.unit, 0.0, least
        late = self.objective == "weighted_tardiness"
        jobs = [
            (j, job)
            for j, job in enumerate(data.problem.jobs)
            if job.weight > 0 and j in data.problem.job_of and not (late and job.due_date_s is None)
        ]
        if not jobs:
            return 1.0, 0.0, least
        weights = np.array([job.weight for _, job in jobs])
        room = _MAX_SUM // (2 * self.last * len(jobs))
        whole = whole_multiples(weights)
        if whole is None or max(whole) > room:
            # Rounded down: no schedule costs more than it does.
            whole = [int(w) for w in np.floor(weights / weights.max() * min(room, 2**24))]
        step = float(weights[int(np.argmax(whole))] / max(whole))
        step = min(step, min(w / n for w, n in zip(weights, whole, strict=True) if n))
        terms, offset = [], 0.0
        for (j, job), n in zip(jobs, whole, strict=True):
            end = model.new_int_var(0, 2 * self.last, f"end_{j}")
            base = 0
            if late:
                assert job.due_date_s is not None
                base = -self.times.down(-job.due_date_s)
            else:
                offset -= n * step * job.release_s
            for k, owner in enumerate(data.problem.job_of):
                if owner == j:
                    model.add(end >= self.ends[k] - base)
            terms.append(n * end)
        model.minimize(sum(terms))
        return 1 / (self.unit * step), offset, least

    def _areas(self, end: cp_model.IntVar) -> None:
        """Add what the activities that start at a time or later need of a resource until the end.

        No schedule is lost: they follow from the cumulatives. The modes are all in them, so that
        the choice of modes and the makespan meet in one row.
        """
        data = self.data
        heads = [self.times.down(float(head)) for head in data.heads]
        for r, resource in enumerate(data.renewable):
            largest = [max(uses[r] for uses in rates) for rates in data.rates]
            # What all activities together take is no more at any time.
            capacity = min(resource.capacity, sum(largest))
            # CP-SAT counts in 64 bits, and adds up what each term may be: in larger units, then.
            unit = -(-2 * self.last * (capacity + sum(largest)) // _MAX_SUM) or 1
            for head in sorted(set(heads)):
                check_time()
                work = [
                    self.times.down(d) * uses[r] // unit * x
                    for k in range(data.num_activities)
                    if heads[k] >= head
                    for d, uses, x in zip(
                        data.durations[k], data.rates[k], self.taken[k], strict=True
                    )
                    if uses[r]
                ]
                self.model.add(sum(work) <= -(-capacity // unit) * (end - head))

    def plan(self, values: Array) -> ProjectPlan:
        """Return the schedule in seconds: the modes, put in by start."""
        data = self.data
        n = data.num_activities
        modes, at = [], n
        for taken in self.taken:
            modes.append(int(np.argmax(values[at : at + len(taken)])))
            at += len(taken)
        return data.plan(modes, data.schedule(modes, data.order_of(values[:n].tolist())))

    def values(self, plan: ProjectPlan) -> Array | None:
        """Return a plan's values, or None where it uses a mode that is left out."""
        data = self.data
        runs = {run.activity: run for run in plan.runs}
        starts, taken = [], []
        for k, activity in enumerate(data.problem.activities):
            run = runs[activity.id]
            if run.mode not in data.modes[k]:
                return None
            starts.append(float(self.times.down(run.start_s)))
            taken += [float(m == run.mode) for m in data.modes[k]]
        return np.array([*starts, *taken])


def build_cpsat(
    problem: ProjectProblem,
    objective: str = "makespan",
    windows: Windows | None = None,
    least: float = 0.0,
) -> BuiltModel:
    """Return the model for CP-SAT.

    Parameters
    ----------
    problem
        The project.
    objective
        Name of the objective.
    windows
        First and last start of each activity in each mode that a better plan than the one known may
        have, seconds; the last before the first where it may have none. None: any.
    least
        A bound that is proved already; 0: the one that the data prove is worked out.
    """
    return _Builder(problem, objective, windows, least).build()
