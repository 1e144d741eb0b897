"""F2 in CP-SAT: the same program in integers.

Fractions of a slot become whole parts of it, work becomes integers. Work per slot is rounded up and
work to do is rounded down, so that every schedule stays feasible; the parts of a slot round a job's
completion up, by less than one part. The backend takes that off the bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from alloc.formulation import CpSatModel, Drawing
from alloc.instance import Instance
from alloc.models.malleable.data import Array
from alloc.models.malleable.grid import Grid, fractions, grid_of, idle_free
from alloc.solution import Schedule, Solution

PARTS = 10_000
"""Parts of a slot: completions are exact to a ten-thousandth of a slot, and so is the bound."""
_LARGEST_WORK = 10**9
_LARGEST_WEIGHT = 10**6
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
        self.jobs = [self._job(j) for j in range(data.num_jobs)]
        self._capacity()

    def _job(self, j: int) -> _JobVariables:
        grid, data, model = self.grid, self.grid.data, self.model
        slots, table, job = grid.slots(j), data.table(j), data.instance.jobs[j]
        rate = np.ceil(table.rate * self.work_scale(j)).astype(int).tolist()
        work = int(np.floor(data.work[j] * self.work_scale(j)))
        x = [[model.new_bool_var(f"x[{j},{t},{c}]") for c in range(len(rate))] for t in slots]
        v = [
            [model.new_int_var(0, PARTS, f"v[{j},{t},{c}]") for c in range(len(rate))]
            for t in slots
        ]
        u = [model.new_bool_var(f"u[{j},{t + 1}]") for t in slots]
        stay = [int(np.ceil(PARTS * grid.longest_stay(j, t))) for t in slots]
        e = [model.new_int_var(0, s, f"e[{j},{t}]") for s, t in zip(stay, slots, strict=True)]
        # Work left over, in parts of a slot at full speed.
        most = int(np.ceil(PARTS * float(data.shortest[j]))) if grid.may_run_over(j) else 0
        o = model.new_int_var(0, most, f"o[{j}]")
        delta = int(np.floor(PARTS * grid.restart(j)))
        z = self._restarts(j, x) if delta else []
        done = [sum(r * part for r, part in zip(rate, row, strict=True)) for row in v]
        model.add(sum(done) + max(rate) * o >= PARTS * work)  # (C1)
        for k, _ in enumerate(slots):
            if k:
                model.add(sum(x[k]) <= u[k - 1])  # (C2)
                model.add_implication(u[k], u[k - 1])  # (C4)
            else:
                model.add(sum(x[k]) <= 1)
            for part, chosen in zip(v[k], x[k], strict=True):
                model.add(part <= PARTS * chosen)  # (C3)
            pause = delta * z[k] if delta else 0
            model.add(sum(v[k]) <= PARTS * sum(x[k]) - pause)
            model.add(e[k] >= stay[k]).only_enforce_if(u[k])  # (C5)
            model.add(e[k] >= sum(v[k]) + pause)
        self._strengthen(j, done, rate, PARTS * work, v, u, e, o)
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
        done: list[cp_model.LinearExprT],
        rate: list[int],
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
        constant = int(np.floor(_CUT_SCALE * PARTS * self.grid.mean_busy_constant(j)))
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

    def work_scale(self, j: int) -> float:
        """Return integer work units per work unit of job j."""
        data = self.grid.data
        return _LARGEST_WORK / max(float(data.work[j]), float(data.table(j).rate.max()))

    def objective(self) -> tuple[float, float]:
        """Set the objective; return its scale and what rounding may add, weighted slots."""
        data = self.grid.data
        unit = _LARGEST_WEIGHT / float(data.weight.max())
        weights = np.ceil(data.weight * unit - 1e-9).astype(int)
        self.model.minimize(
            sum(int(w) * (sum(job.e) + job.o) for w, job in zip(weights, self.jobs, strict=True))
        )
        stay = np.array([len(self.grid.slots(j)) for j in range(data.num_jobs)]) + data.shortest
        rounding = (
            float((weights / unit - data.weight) @ stay) + 2 * float(data.weight.sum()) / PARTS
        )
        return unit * PARTS, rounding


def draw_cpsat(instance: Instance, objective: str, num_slots: int | None = None) -> Drawing:
    """Draw an instance as a CP-SAT model, over a number of slots or one chosen from its load."""
    grid = grid_of(instance, num_slots)
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

    def extract(values: Array) -> Schedule:
        def chosen() -> Iterator[tuple[int, int, int]]:
            yield from (at for at, value in zip(positions, values, strict=False) if value > 0.5)

        return grid.schedule(chosen())

    def start(solution: Solution) -> Array | None:
        plan = grid.profiles(solution)
        if plan is None:
            return None
        holds, rests = [], []
        for j, job in enumerate(builder.jobs):
            profile, slots = plan[j], grid.slots(j)
            at = {profile.start + k: c for k, c in idle_free(profile.choice)}
            stay = np.ceil(fractions(grid, j, profile) * PARTS - 1e-6)
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
    return Drawing(model, extract, start)
