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

from alloc.formulation import BuiltModel, CpSatModel
from alloc.models.malleable.data import Array
from alloc.models.malleable.grid import Grid, Held, built_model, fractions, grid_of, idle_free
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Solution

_FEWEST_PARTS, _MOST_PARTS = 10**4, 10**8
"""Parts of a slot: completions, and so the bound, are exact to one."""
_PARTS_SHARE = 1e-7
"""Of the sum of all jobs alone, what the parts may round: a tenth of what is called optimal."""
_LARGEST_PRODUCT = 10**14
"""Work units of a job times parts of a slot: with larger coefficients CP-SAT gets slow."""
_LARGEST_SUM = 2**60
"""Of any row or the objective: CP-SAT counts in 64 bits."""
_LARGEST_WORK = 10**9
_LARGEST_WEIGHT = _LARGEST_WHOLE = 10**6
_MOST_ENTRIES = 20_000
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
        return _JobVariables(x, v, u, e, o)

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
            model.add(work * u[k] >= work - sum(done[: k + 1]))  # (C6)
        exact = data.table(j).rate / float(data.work[j])
        mean = [
            int(np.floor(_CUT_SCALE * share * (k + 0.5))) * part
            for k, row in enumerate(v)
            for share, part in zip(exact, row, strict=True)
        ]
        over = int(np.floor(_CUT_SCALE * exact.max() * len(u)))
        constant = int(np.floor(_CUT_SCALE * self.parts * self.grid.mean_busy_constant(j)))
        stay = _CUT_SCALE * (sum(e) + o)
        model.add(stay >= sum(mean) + over * o + constant)  # (C9)

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

    def objective(self) -> tuple[float, float]:
        """Set the objective; return its scale and what rounding may add, weighted slots."""
        data = self.grid.data
        exact = whole_multiples(data.weight)
        if exact is not None:
            weights, unit = np.array(exact), exact[0] / float(data.weight[0])
        else:
            unit = _LARGEST_WEIGHT / float(data.weight.max())
            weights = np.ceil(data.weight * unit - 1e-9).astype(int)
        self.model.minimize(
            sum(int(w) * (sum(job.e) + job.o) for w, job in zip(weights, self.jobs, strict=True))
        )
        stay = np.array([len(self.grid.slots(j)) for j in range(data.num_jobs)]) + data.shortest
        above = np.maximum(weights / unit - data.weight, 0.0)
        rounding = float(above @ stay) + 2 * float(data.weight.sum()) / self.parts
        return unit * self.parts, rounding


def _parts(grid: Grid) -> int:
    """Return how many parts of a slot to count.

    Where all else is whole, so many that they round less than is called optimal. Where work or
    weights are rounded too, few: large numbers that have no common divisor make CP-SAT slow.
    """
    data = grid.data
    weights, largest = whole_multiples(data.weight), 1
    if weights is None:
        return _FEWEST_PARTS
    for j in range(data.num_jobs):
        whole = whole_multiples(np.array([*data.table(j).rate, data.work[j]]))
        if whole is None:
            return _FEWEST_PARTS
        largest = max(largest, *whole)
    wanted = 2 * float(data.weight.sum()) / (_PARTS_SHARE * float(data.weight @ data.shortest))
    choices, distance = max(grid.num_choices, 1), float(grid.num_slots + 1)
    share = max(float((1 / data.shortest).max()), 1.0)
    most = min(
        _MOST_PARTS,
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
    multiples = np.outer(np.arange(1, _MOST_ENTRIES // len(distinct) + 1), distinct)
    whole = np.abs(multiples - np.rint(multiples)) <= _WHOLE * multiples
    found = np.flatnonzero(whole.all(axis=1))
    if not len(found) or multiples[found[0]].max() > _LARGEST_WHOLE:
        return None
    return [int(n) for n in np.rint(multiples[found[0]])[at]]


def build_cpsat(instance: Instance, objective: str, num_slots: int | None = None) -> BuiltModel:
    """Build an instance as a CP-SAT model, over a number of slots or one chosen from its load."""
    return build_grid(grid_of(instance, num_slots))


def build_grid(grid: Grid) -> BuiltModel:
    """Build a grid as a CP-SAT model."""
    builder = _Builder(grid)
    scale, rounding = builder.objective()
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
        grid.constant * slot_s,
        rounding * slot_s,
    )
    return built_model(grid, model, chosen, start, build_grid)
