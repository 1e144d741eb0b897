"""F2 in CP-SAT: the same program in integers.

Fractions of a slot become whole parts of it, work and weights become integers: exactly where they
are multiples of something, else work per slot and weights are rounded up and work to do is rounded
down, so that every schedule stays feasible. The parts of a slot round a job's completion up, by
less than one part. The backend takes that off the bound; there are so many parts that what is left
proves an optimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from alloc.clock import check_time
from alloc.formulation import BuiltModel, CpSatModel
from alloc.models.malleable.costs import LevelCosts
from alloc.models.malleable.data import Array
from alloc.models.malleable.grid import Grid, Held, built_model, fractions, grid_of, idle_free
from alloc.objectives import Held as HeldLevel
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Solution

_FEWEST_PARTS, _MAX_PARTS = 10**4, 10**8
"""Parts of a slot: completions, and so the bound, are exact to one."""
_PARTS_SHARE = 1e-7
"""Of the sum of all jobs alone, what the parts may round: a tenth of what is called optimal."""
_LARGEST_PRODUCT = 10**14
"""Work units of a job times parts of a slot: with larger coefficients CP-SAT gets slow."""
_LARGEST_SUM = 2**60
"""Of any row or the objective: CP-SAT counts in 64 bits."""
_LARGEST_WORK = 10**9
"""Units of work, where it has no common unit: rounding costs a billionth, and `_LARGEST_PRODUCT`
still leaves 10^5 parts of a slot."""
_LARGEST_WEIGHT = 10**6
"""Of a job, where weights have no common unit: rounding costs a millionth of the largest."""
_LARGEST_WHOLE = 10**6
"""Of numbers with a common unit: with larger ones products soon exceed `_LARGEST_PRODUCT`."""
_MAX_ENTRIES = 20_000
"""Numbers times multiples of the least of them that are tried, until all are whole."""
_WHOLE = 1e-12
"""Relative distance from a whole number that double precision explains."""
_CUT_SCALE = 10**6
"""Coefficients of (C9) are rounded down to millionths, so that it stays valid."""


@dataclass(frozen=True)
class _JobVariables:
    x: list[list[cp_model.IntVar]]
    v: list[list[cp_model.IntVar]]
    u: list[cp_model.IntVar]
    e: list[cp_model.IntVar]
    o: cp_model.IntVar
    q: cp_model.IntVar | None

    @property
    def stay(self) -> cp_model.LinearExprT:
        """Parts of slots from the first slot to the completion."""
        return sum(self.e) + self.o


@dataclass(frozen=True)
class _WholeCosts:
    """The costs of a level in whole numbers.

    Parameters
    ----------
    unit
        Whole numbers per cost of a slot.
    rate, late
        As in `alloc.models.malleable.costs.JobCosts`, shape (J,).
    slopes
        Of each peak, shape (J,).
    """

    unit: float
    rate: list[int]
    late: list[int]
    slopes: list[list[int]]

    @staticmethod
    def of(level: LevelCosts, *, up: bool) -> _WholeCosts:
        """Return a level's costs, exactly where they are multiples of something.

        Else those of jobs are rounded up or down, and those of peaks down.
        """
        parts = [level.jobs.rate, level.jobs.late, *(peak.slope for peak in level.peaks)]
        values = np.concatenate(parts)
        exact = whole_multiples(values[values > 0])
        if exact is not None:
            unit = exact[0] / float(values[values > 0][0])
            whole = [np.rint(part * unit).astype(int).tolist() for part in parts]
        else:
            unit = _LARGEST_WEIGHT / float(values.max())
            own = (lambda part: np.ceil(part - 1e-9)) if up else np.floor
            whole = [own(part * unit).astype(int).tolist() for part in parts[:2]]
            whole += [np.floor(part * unit).astype(int).tolist() for part in parts[2:]]
        return _WholeCosts(unit, whole[0], whole[1], whole[2:])

    @property
    def parts_off(self) -> int:
        """What two parts more for every job may cost."""
        return 2 * (sum(self.rate) + sum(self.late) + sum(max(slope) for slope in self.slopes))


class _Builder:
    """Builds the CP-SAT model of a grid."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.model = cp_model.CpModel()
        data = grid.data
        self.parts = _parts(grid)
        self.jobs = [self._job(j) for j in range(data.num_jobs)]
        self._capacity()
        self._hosts()

    def _job(self, j: int) -> _JobVariables:
        check_time()
        grid, data, model = self.grid, self.grid.data, self.model
        slots, job = grid.slots(j), data.instance.jobs[j]
        parts, (rate, work) = self.parts, self._whole_work(j)
        x = [[model.new_bool_var(f"x[{j},{t},{c}]") for c in range(len(rate))] for t in slots]
        v = [
            [model.new_int_var(0, parts, f"v[{j},{t},{c}]") for c in range(len(rate))]
            for t in slots
        ]
        u = [model.new_bool_var(f"u[{j},{t + 1}]") for t in slots]
        stay = [int(np.ceil(parts * grid.longest_stay(j, t))) for t in slots]
        e = [model.new_int_var(0, s, f"e[{j},{t}]") for s, t in zip(stay, slots, strict=True)]
        # Work left over, in parts of a slot at full speed.
        most = int(np.ceil(parts * float(data.shortest[j]))) if grid.may_run_over(j) else 0
        o = model.new_int_var(0, most, f"o[{j}]")
        delta = int(np.floor(parts * grid.restart(j)))
        z = self._restarts(j, x) if delta else []
        done = [sum(r * part for r, part in zip(rate, row, strict=True)) for row in v]
        model.add(sum(done) + max(rate) * o >= parts * work)  # (C1)
        for k, _ in enumerate(slots):
            check_time()
            if k:
                model.add(sum(x[k]) <= u[k - 1])  # (C2)
                model.add_implication(u[k], u[k - 1])  # (C4)
            else:
                model.add(sum(x[k]) <= 1)
            for part, chosen in zip(v[k], x[k], strict=True):
                model.add(part <= parts * chosen)  # (C3)
            pause = delta * z[k] if delta else 0
            model.add(sum(v[k]) <= parts * sum(x[k]) - pause)
            model.add(e[k] >= stay[k]).only_enforce_if(u[k])  # (C5)
            model.add(e[k] >= sum(v[k]) + pause)
        self._strengthen(j, done, parts * work, v, u, e, o)
        if slots:
            model.add(o == 0).only_enforce_if(~u[-1])  # (C7)
            if not grid.may_run_over(j):
                model.add(u[-1] == 0)
        if job.elasticity != "malleable":
            chosen_once = [model.new_bool_var(f"m[{j},{c}]") for c in range(len(rate))]
            model.add_at_most_one(chosen_once)  # (C11)
            for row in x:
                for holds, chosen in zip(row, chosen_once, strict=True):
                    model.add_implication(holds, chosen)
        if not job.preemptible:
            for k in range(len(x) - 1):
                model.add(sum(x[k + 1]) >= sum(x[k]) + u[k] - 1)  # (C12)
            if x and data.started[j]:
                model.add(sum(x[0]) >= 1)
        return _JobVariables(x, v, u, e, o, self._late_part(j, e, o))

    def _late_part(
        self, j: int, e: list[cp_model.IntVar], o: cp_model.IntVar
    ) -> cp_model.IntVar | None:
        """Return the late part of what the due date splits, None if it splits nothing."""
        split = self.grid.split(j)
        if split is None:
            return None
        position, early = split
        last = o if position == len(e) else e[position]
        most = int(np.ceil(self.parts * max(float(self.grid.data.shortest[j]), 1.0)))
        q = self.model.new_int_var(0, most, f"q[{j}]")
        self.model.add(q >= last - int(np.ceil(self.parts * early)))  # (C14)
        return q

    def _strengthen(
        self,
        j: int,
        done: Sequence[cp_model.LinearExprT],
        work: int,
        v: list[list[cp_model.IntVar]],
        u: list[cp_model.IntVar],
        e: list[cp_model.IntVar],
        o: cp_model.IntVar,
    ) -> None:
        """Add the rows that only strengthen the relaxation: CP-SAT's bound lives on them."""
        data, model = self.grid.data, self.model
        for k in range(len(u)):
            check_time()  # a row of all slots before it
            model.add(work * u[k] >= work - sum(done[: k + 1]))  # (C6)
        exact = data.table(j).rate / float(data.work[j])
        busy = self.grid.mean_busy_constant(j)
        # A job of a billionth of a slot has coefficients that large: fewer digits of them are kept.
        slots, shortest = len(u), float(data.shortest[j])
        amounts = (slots + shortest, exact.sum() * slots**2, exact.max() * slots * shortest, busy)
        most = self.parts * sum(abs(float(amount)) for amount in amounts)
        scale = min(_CUT_SCALE, int(_LARGEST_SUM / max(most, 1.0)))
        if not scale:
            return
        mean = [
            int(np.floor(scale * share * (k + 0.5))) * part
            for k, row in enumerate(v)
            for share, part in zip(exact, row, strict=True)
        ]
        over = int(np.floor(scale * exact.max() * slots))
        constant = int(np.floor(scale * self.parts * busy))
        model.add(scale * (sum(e) + o) >= sum(mean) + over * o + constant)  # (C9)

    def _restarts(self, j: int, x: list[list[cp_model.IntVar]]) -> list[cp_model.IntVar]:
        model = self.model
        held = self.grid.held(j)
        z = [model.new_bool_var(f"z[{j},{k}]") for k in range(len(x))]
        b = [model.new_bool_var(f"b[{j},{k}]") for k in range(len(x))]
        for k, row in enumerate(x):
            if k == 0:
                model.add(b[0] >= int(self.grid.has_started(j)))
            else:
                model.add_implication(b[k - 1], b[k])
                for holds in x[k - 1]:
                    model.add_implication(holds, b[k])
            for c, holds in enumerate(row):
                before = x[k - 1][c] if k else int(held == c)
                model.add(z[k] >= holds - before + b[k] - 1)  # (C10)
        return z

    def _capacity(self) -> None:
        data = self.grid.data
        for t in range(self.grid.num_slots):
            check_time()
            for r, capacity in enumerate(data.rows.capacity):
                terms, weights = [], []
                for j, variables in enumerate(self.jobs):
                    slots = self.grid.slots(j)
                    if t in slots:
                        use = data.table(j).use[:, r].astype(int)
                        terms += variables.x[t - slots.start]
                        weights += use.tolist()
                if any(weights):
                    expression = cp_model.LinearExpr.weighted_sum(terms, weights)
                    self.model.add(expression <= int(capacity))  # (C8)

    def _hosts(self) -> None:
        rows, switches = self.grid.conflict_rows
        y = [self.model.new_bool_var(f"y[{k}]") for k in range(switches)]
        for row in rows:
            held = [self.jobs[j].x[t - self.grid.slots(j).start][c] for j, t, c in row.columns]
            switched = [factor * y[k] for k, factor in row.switches]
            self.model.add(sum(held) + sum(switched) <= row.limit)  # (C13)

    def _whole_work(self, j: int) -> tuple[list[int], int]:
        """Return the rates and the work of a job in whole units: at least, and at most, theirs."""
        rate, work = self.grid.data.table(j).rate, float(self.grid.data.work[j])
        exact = whole_multiples(np.array([*rate, work]))
        if exact is not None:
            return exact[:-1], exact[-1]
        scale = _LARGEST_WORK / max(work, float(rate.max()))
        return np.ceil(rate * scale).astype(int).tolist(), int(np.floor(work * scale))

    def objective(self) -> tuple[float, float, float]:
        """Set the objective; return its scale, its constant, and what rounding may add, slots."""
        target = self.grid.data.target
        whole = _WholeCosts.of(target.level, up=True)
        value, constant = self._level(target.level, whole, 0)
        self.model.minimize(value)
        first = len(target.level.peaks)
        for level, limit in target.held:
            own = _WholeCosts.of(level, up=False)
            value, start = self._level(level, own, first)
            most = int(np.ceil((limit - start) * own.unit * self.parts)) + own.parts_off
            self.model.add(value <= most)  # (C16)
            first += len(level.peaks)
        data, costs = self.grid.data, target.costs
        stay = np.array([len(self.grid.slots(j)) for j in range(data.num_jobs)]) + data.shortest
        above = np.maximum(np.array(whole.rate) / whole.unit - costs.rate, 0.0)
        above += np.maximum(np.array(whole.late) / whole.unit - costs.late, 0.0)
        rounding = float(above @ stay) + whole.parts_off / whole.unit / self.parts
        return whole.unit * self.parts, constant, rounding

    def _level(
        self, level: LevelCosts, whole: _WholeCosts, first_peak: int
    ) -> tuple[cp_model.LinearExprT, float]:
        """Return a level in whole numbers, its peaks as variables, and its constant in slots."""
        grid, constant, terms = self.grid, 0.0, []
        for j, job in enumerate(self.jobs):
            costs = grid.stay_costs(level.jobs, j)
            constant += costs.start
            late = whole.late[j]
            each = [whole.rate[j] + late * (cost > level.jobs.rate[j]) for cost in costs.each]
            over = whole.rate[j] + late * (costs.over > level.jobs.rate[j])
            terms += [int(cost) * e for cost, e in zip(each, job.e, strict=True)]
            terms.append(int(over) * job.o)
            if job.q is not None:
                terms.append(late * job.q)
        scale = whole.unit * self.parts
        last = np.array([grid.longest(j) for j in range(len(self.jobs))])
        first = np.array([grid.slots(j).start for j in range(len(self.jobs))], dtype=float)
        for k, (peak, slope) in enumerate(zip(level.peaks, whole.slopes, strict=True), first_peak):
            floor = grid.data.target.floors[k]
            top = int(np.ceil(scale * max(float(peak.at(last).max()), floor))) + whole.parts_off
            z = self.model.new_int_var(int(np.floor(scale * floor)), top, f"z[{k}]")
            for job, factor, begin in zip(self.jobs, slope, peak.at(first), strict=True):
                self.model.add(z >= factor * job.stay + int(np.floor(scale * begin)))  # (C15)
            terms.append(z)
        return sum(terms), constant


def _parts(grid: Grid) -> int:
    """Return how many parts of a slot to count.

    Where all else is whole, so many that they round less than is called optimal. Where work or
    weights are rounded too, few: large numbers that have no common divisor make CP-SAT slow.
    """
    data = grid.data
    level, largest = data.target.level, 1
    costs = np.concatenate([level.jobs.rate, level.jobs.late, *(p.slope for p in level.peaks)])
    weights = whole_multiples(costs[costs > 0])
    if weights is None:
        return _FEWEST_PARTS
    for j in range(data.num_jobs):
        whole = whole_multiples(np.array([*data.table(j).rate, data.work[j]]))
        if whole is None:
            return _FEWEST_PARTS
        largest = max(largest, *whole)
    each = level.jobs.rate + level.jobs.late
    slopes = sum(float(peak.slope.max()) for peak in level.peaks)
    alone = sum(float((peak.slope * data.shortest).max()) for peak in level.peaks)
    value = float(each @ data.shortest) + alone
    wanted = 2 * (float(each.sum()) + slopes) / (_PARTS_SHARE * value)
    choices, distance = max(grid.num_choices, 1), float(grid.num_slots + 1)
    share = max(float((1 / data.shortest).max()), 1.0)
    most = min(
        _MAX_PARTS,
        _LARGEST_PRODUCT / largest,
        _LARGEST_SUM / (_CUT_SCALE * share * choices * distance),  # (C9)
        _LARGEST_SUM / (max(weights) * choices),
    )
    return int(max(min(wanted, most), _FEWEST_PARTS))


def whole_multiples(values: Array) -> list[int] | None:
    """Return the smallest whole numbers that are to each other as values, all more than 0.

    None where there are none up to `_LARGEST_WHOLE`.
    """
    distinct, at = np.unique(values / values.min(), return_inverse=True)
    multiples = np.outer(np.arange(1, _MAX_ENTRIES // len(distinct) + 1), distinct)
    whole = np.abs(multiples - np.rint(multiples)) <= _WHOLE * multiples
    found = np.flatnonzero(whole.all(axis=1))
    if not len(found) or multiples[found[0]].max() > _LARGEST_WHOLE:
        return None
    return [int(n) for n in np.rint(multiples[found[0]])[at]]


def build_cpsat(
    instance: Instance,
    objective: str,
    held: Sequence[HeldLevel] = (),
    num_slots: int | None = None,
) -> BuiltModel:
    """Build an instance as a CP-SAT model, over a number of slots or one chosen from its load.

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
    return build_grid(grid_of(instance, num_slots, objective=objective, held=held))


def build_grid(grid: Grid) -> BuiltModel:
    """Build a grid as a CP-SAT model."""
    builder = _Builder(grid)
    scale, constant, rounding = builder.objective()
    slot_s = grid.data.slot_s
    held = [x for job in builder.jobs for row in job.x for x in row]
    rest = [v for job in builder.jobs for v in (*(p for row in job.v for p in row), *job.u, *job.e)]
    positions = [
        (j, t, c)
        for j, job in enumerate(builder.jobs)
        for t, row in zip(grid.slots(j), job.x, strict=True)
        for c in range(len(row))
    ]

    def chosen(values: Array) -> Iterator[Held]:
        yield from (at for at, value in zip(positions, values, strict=False) if value > 0.5)

    def start(solution: Solution) -> Array | None:
        plan = grid.profiles(solution)
        if plan is None:
            return None
        holds, rests = [], []
        for j, job in enumerate(builder.jobs):
            profile, slots = plan[j], grid.slots(j)
            at = {profile.start + k: c for k, c in idle_free(profile.choice)}
            stay = np.ceil(fractions(grid, j, profile) * builder.parts - 1e-6)
            for t, row in zip(slots, job.x, strict=True):
                holds += [float(at.get(t) == c) for c in range(len(row))]
            for k, (t, row) in enumerate(zip(slots, job.x, strict=True)):
                rests += [stay[k] * (at.get(t) == c) for c in range(len(row))]
            rests += [float(profile.completion > t + 1 + 1e-9) for t in slots]
            rests += stay.tolist()
        return np.array([*holds, *rests])

    model = CpSatModel(
        builder.model,
        (*held, *rest),
        "min",
        scale / slot_s,
        constant * slot_s,
        rounding * slot_s,
        grid.data.no_contention,
    )
    return built_model(grid, model, chosen, start, build_grid)
