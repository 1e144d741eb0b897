"""Jobs that share slots, by columns: each stands for one plan of one job (Dantzig, Wolfe 1960).

    max sum_p w_p z_p,  sum_p use_ptr z_p <= B_r for all t, r,  sum_{p of j} z_p <= 1 for all j

The relaxation is stronger than that of the program in slots: a column is a whole plan, which holds
GPUs for whole slots (`alloc.models.admission.plans`). At any prices q the jobs whose cheapest plans
cost less than they are worth prove ``sum_tr q_tr B_r + sum_j max(0, w_j - cost_j(q))``. Prices are
smoothed towards the best known (Wentges 1997). An integer program then chooses among the columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.linear_program import LinearProgram
from alloc.backends.restricted_master import MasterColumn, RestrictedMaster
from alloc.errors import OutOfTime
from alloc.models.admission.data import AdmissionData
from alloc.models.admission.plans import Plan, PlanProblem
from alloc.models.malleable.data import Array
from alloc.models.malleable.grid import Held
from alloc.solving.outcome import Progress, Settings

_STEPS, _FINE_STEPS = 800, 8_000
"""Steps of a job's need: while columns are generated, where a plan of ten slots is then known to a
hundredth, and of the last bound, to a thousandth."""
_SMOOTHING = 0.6
_MEANS = 1e-6
"""Part of a job's worth by which a plan must cost less to be a column."""
_SHRUNK, _MAX_STALLED = 0.95, 4
"""Column generation ends when so many rounds in a row left more than this part of the gap."""
_FAR = 0.3
"""Part of its job's worth by which a column may cost too much and still be chosen from."""

_Key = tuple[int, Plan]


def columns_apply(data: AdmissionData) -> bool:
    """Return whether the jobs of an admission are described by plans and what they are worth."""
    return (
        [term.name for _, term in data.level.terms] == ["value"]
        and data.level.terms[0][0] > 0
        and not data.held
        and not any(data.best_effort)
        and all(
            job.preemptible and not job.restart_cost_s and not data.grid.has_started(j)
            for j, job in enumerate(data.jobs)
        )
    )


def parts_of(data: AdmissionData) -> list[list[int]]:
    """Return the jobs in parts that share no slot, the smallest part first."""
    order = sorted((data.slots(j).start, data.slots(j).stop, j) for j in range(len(data.jobs)))
    parts: list[list[int]] = []
    end = -math.inf
    for start, stop, j in order:
        if stop == start:
            continue
        if start >= end:
            parts.append([])
        parts[-1].append(j)
        end = max(end, stop)
    return sorted(parts, key=len)


class PlanColumns:
    """Columns of the jobs of one part.

    Parameters
    ----------
    data
        The admission.
    jobs
        Positions of the jobs.
    settings
        Limits.
    report
        Takes a line of progress.

    Attributes
    ----------
    bound
        No answer is worth more.
    """

    def __init__(
        self, data: AdmissionData, jobs: Sequence[int], settings: Settings, report: Progress
    ) -> None:
        self.data, self.jobs, self.settings, self.report = data, list(jobs), settings, report
        self.first = min(data.slots(j).start for j in jobs)
        self.slots = max(data.slots(j).stop for j in jobs) - self.first
        rows = data.grid.data.rows.capacity
        self.capacity = rows
        self.scale = np.where(rows > 0, rows, 1.0)
        weight = data.level.terms[0][0] * np.array([data.jobs[j].weight for j in jobs])
        promised = np.array([not data.jobs[j].refusable for j in jobs])
        # Promised jobs are worth more than all others; the bound is told of it.
        self.extra = float(weight.sum()) * promised
        self.worth = weight + self.extra
        self.bound = float(weight.sum())
        self.problems = [
            PlanProblem(
                data.grid.data.table(j).rate,
                data.usable(j),
                float(data.need[j]),
                data.jobs[j].elasticity != "malleable",
            )
            for j in jobs
        ]
        self.position = {j: i for i, j in enumerate(jobs)}
        program = LinearProgram(sense="max")
        limit = np.tile(np.where(rows > 0, 1.0, 0.0), self.slots)
        upper = np.concatenate([limit, np.ones(len(jobs))])
        program.add_rows(np.full(len(upper), -np.inf), upper)
        self.master = RestrictedMaster[_Key]("the master of plans", program)
        self.duals: Array = np.zeros(len(upper))

    def plans(self, held: Iterable[Held]) -> dict[int, Plan]:
        """Return the plans of the part's jobs that do all their work, by position."""
        own: dict[int, list[tuple[int, int]]] = {}
        for j, t, c in held:
            if j in self.position:
                own.setdefault(j, []).append((t - self.data.slots(j).start, c))
        found = {j: tuple(sorted(plan)) for j, plan in own.items()}
        return {
            j: plan
            for j, plan in found.items()
            if self.problems[self.position[j]].is_done_by(plan)
        }

    def add(self, plans: Iterable[tuple[int, Plan]]) -> int:
        """Add columns; return how many are new."""
        num_rows = len(self.capacity)
        columns = []
        for j, plan in plans:
            i = self.position[j]
            t, c = np.array(plan, dtype=np.int64).T
            at = (t + (self.data.slots(j).start - self.first))[:, None] * num_rows
            rows = (at + np.arange(num_rows)).ravel()
            values = (self.data.grid.data.table(j).use[c] / self.scale).ravel()
            used = values > 0
            columns.append(
                MasterColumn(
                    (j, plan),
                    float(self.worth[i]),
                    np.concatenate([rows[used], [self.slots * num_rows + i]]),
                    np.concatenate([values[used], [1.0]]),
                    1.0,
                )
            )
        return self.master.add(columns)

    def price(self, prices: Array, steps: int, *, plans: bool = True) -> tuple[float, int]:
        """Return the bound that prices prove, and how many columns they add.

        Parameters
        ----------
        prices
            Price of each row in each slot, 0 or more, shape (slots, R).
        steps
            Steps of a job's need.
        plans
            Whether to add columns.

        Raises
        ------
        OutOfTime
            If time is up.
        """
        proved = float((prices @ self.capacity).sum())
        new = []
        for i, j in enumerate(self.jobs):
            if self.settings.time_is_up():
                raise OutOfTime
            slots = self.data.slots(j)
            own = prices[slots.start - self.first : slots.stop - self.first]
            found = self.problems[i].cheapest(
                own @ self.data.grid.data.table(j).use.T, steps, plan=plans
            )
            gain = float(self.worth[i]) - found.least
            proved += max(gain, 0.0)
            if found.plan is not None and gain > _MEANS * self.worth[i]:
                new.append((j, found.plan))
        return proved - float(self.extra.sum()), self.add(new)

    def generate(self) -> Array:
        """Generate columns until the bound no longer comes closer; return the best prices.

        The bound is `bound`; it holds when time is up, too.
        """
        best, stalled, smoothing = self._first_prices(), 0, 1.0
        gap, rounds, shape = math.inf, 0, best.shape
        try:
            while True:
                found = self.master.solve(self.settings.seconds_left())
                self.duals = np.maximum(found.duals, 0.0)
                prices = self.duals[: best.size].reshape(shape) / self.scale
                query = smoothing * best + (1 - smoothing) * prices
                proved, new = self.price(query, _STEPS)
                if proved < self.bound or not rounds:
                    self.bound, best = min(proved, self.bound), query
                value = found.value - float(self.extra.sum())
                rounds += 1
                left = self.bound - value
                stalled = stalled + 1 if left > _SHRUNK * gap else 0
                gap = min(gap, left)
                if (not new and smoothing == 0.0) or stalled >= _MAX_STALLED:
                    break
                smoothing = _SMOOTHING if new else 0.0
            self.bound = min(self.bound, self.price(best, _FINE_STEPS, plans=False)[0])
        except OutOfTime:
            pass
        self.report(f"plans of {len(self.jobs)} jobs: {rounds} rounds, bound {self.bound:g}")
        return best

    def _first_prices(self) -> Array:
        """Return prices at which the GPU time of the jobs worth it is what the part has.

        One price throughout, for the row that all jobs together exceed most.
        """
        prices = np.zeros((self.slots, len(self.capacity)))
        area = self.data.grid.data.area[self.jobs]
        room = self.capacity * self.slots
        r = int((area.sum(axis=0) / np.maximum(room, 1e-12)).argmax())
        density = self.worth / np.maximum(area[:, r], 1e-12)
        order = np.argsort(-density, kind="stable")
        full = np.flatnonzero(np.cumsum(area[order, r]) > room[r])
        if len(full):
            prices[:, r] = density[order[full[0]]]
        return prices

    def choose(self, start: dict[int, Plan], seconds: float) -> tuple[dict[int, Plan], bool]:
        """Return the best choice among the columns that was found, and whether Ctrl-C ended it.

        Parameters
        ----------
        start
            A choice, whose columns are known.
        seconds
            Wall time, seconds.
        """
        model = self.master.program.integer_model()
        keys = self.master.keys
        reduced = self.duals @ model.matrix - model.cost
        kept = np.array([start.get(j) == plan for j, plan in keys], dtype=bool)
        values = kept.astype(float)
        kept |= reduced <= _FAR * model.cost
        at = np.flatnonzero(kept)
        smaller = replace(
            model,
            cost=model.cost[at],
            matrix=model.matrix.tocsc()[:, at].tocsr(),
            lower=model.lower[at],
            upper=model.upper[at],
            integer=model.integer[at],
        )
        raw = highs.solve(
            smaller,
            SolverOptions(
                seconds,
                self.settings.seed,
                self.settings.workers,
                gap=1e-4,
                start=values[at],
                stoppable=True,
            ),
        )
        stopped = raw.limit == "interrupt"
        if raw.values is None:
            return start, stopped
        chosen = dict(keys[k] for k in at[raw.values > 0.5])
        before, after = (sum(self.worth[self.position[j]] for j in own) for own in (start, chosen))
        return (chosen if after >= before else start), stopped

    def held(self, plans: dict[int, Plan]) -> list[Held]:
        """Return what the jobs of some plans hold."""
        return [(j, self.data.slots(j).start + t, c) for j, plan in plans.items() for t, c in plan]
