"""Jobs that share slots, by columns: each stands for one plan of one job (Dantzig, Wolfe 1960).

    max sum_p w_p z_p,  sum_p use_ptr z_p <= B_r for all t, r,  sum_{p of j} z_p <= 1 for all j

The relaxation is stronger than that of the program in slots: a column is a whole plan, which holds
GPUs for whole slots (`alloc.models.admission.plans`). At any prices q the jobs whose cheapest plans
cost less than they are worth prove ``sum_tr q_tr B_r + sum_j max(0, w_j - cost_j(q))``. Prices are
smoothed towards the best known (Wentges 1997). An integer program then chooses among the columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from alloc.backends import SolverOptions, highs
from alloc.backends.linear_program import LinearProgram
from alloc.backends.restricted_master import MasterColumn, RestrictedMaster
from alloc.errors import OutOfTime
from alloc.formulation import ArrayModel
from alloc.models.admission.data import AdmissionData
from alloc.models.admission.plans import Plan, PlanProblem
from alloc.models.malleable.data import Array
from alloc.models.malleable.grid import Held
from alloc.solving.outcome import Progress, Settings

_STEPS = (0, 4_000, 16_000)
"""Steps of a job's need: first none, where a plan comes from the relaxation in a fifth of a
millisecond, until columns and bound are near each other; then so many that a plan of ten slots is
known to a quarter of a hundredth; and for the last bound, to less."""
_CLOSE = 1e-5
"""Part of the bound by which it may stay above the columns, where no rounding says that it may."""
_SMOOTHING = 0.6
"""Weight of the best prices known when plans are priced: near 1 the prices hardly move, near 0 they
swing from round to round. Where they price no new plan, the prices of the master alone decide."""
_MEANS = 1e-6
"""Part of a job's worth by which a plan must cost less to be a column: less is near the tolerance
of HiGHS (1e-7), and moves no bound."""
_SHRUNK, _MAX_STALLED, _NEAR = 0.95, 4, (0.1, 0.01)
"""Steps begin, and at last columns are enough, when so many rounds in a row left more than this
part of the gap, and the gap is no more than this part of the bound: first rounds gain little where
few jobs are refused. Plans without steps leave some hundredths of the bound open."""
_FAR = 0.3
"""Part of its job's worth by which a column may cost too much and still be chosen from: more of
them slow the integer program, fewer leave it without a plan for jobs that have to give way."""
_CHOICE_GAP = 1e-3
"""Relative gap at which a choice among columns is good enough: the bound is not its own."""
_ROUNDING = 1e-12
"""Part of a capacity that is rounding of a sum."""

_Key = tuple[int, Plan]


def paid(plan: Plan, price: Array) -> float:
    """Return what a plan costs at prices of each configuration in each slot, shape (T, C).

    Parameters
    ----------
    plan
        Pairs of a slot and the configuration that runs in it.
    price
        Price of each configuration in each slot, 0 or more, in the unit of the jobs' worth,
        shape (T, C).
    """
    slots, chosen = np.array(plan, dtype=np.int64).T
    return float(price[slots, chosen].sum())


class PlanColumns:
    """Columns of the jobs of one part.

    Parameters
    ----------
    data
        The admission.
    jobs
        Positions of the jobs.
    report
        Takes a line of progress.

    Attributes
    ----------
    bound
        No answer is worth more.
    prices
        The prices that prove it, shape (slots, R).
    """

    def __init__(self, data: AdmissionData, jobs: Sequence[int], report: Progress) -> None:
        self.data, self.jobs, self.report = data, list(jobs), report
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
        self.prices: Array = np.zeros((self.slots, len(rows)))

    def best_of(self, known: Iterable[Mapping[int, Plan]]) -> dict[int, Plan]:
        """Return the best of some answers to this part, and make columns of all."""
        found = [self._own(plans) for plans in known]
        for plans in found:
            self.add(plans.items())
        return max(found, key=self.value, default={})

    def value(self, plans: Iterable[int]) -> float:
        """Return what accepting some jobs is worth; without a promised one less than nothing."""
        return math.fsum(self.worth[self.position[j]] for j in plans) - float(self.extra.sum())

    def groups(self, size: int) -> list[set[int]]:
        """Return groups of so many jobs whose windows are next to each other, each half the last.

        A part of not many more is one group.
        """
        order = sorted(self.jobs, key=lambda j: self.data.slots(j).start + self.data.slots(j).stop)
        if len(order) <= 3 * size:
            return [set(order)]
        ends = range(size, len(order) + size // 2, size // 2)
        return [set(order[max(end - size, 0) : end]) for end in ends]

    def _own(self, plans: Mapping[int, Plan]) -> dict[int, Plan]:
        """Return the plans of the part's jobs that do all their work, by position."""
        return {
            j: plans[j]
            for i, j in enumerate(self.jobs)
            if j in plans and self.problems[i].is_done_by(plans[j])
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

    def price(self, prices: Array, settings: Settings, fineness: int) -> tuple[float, int]:
        """Return the bound that prices prove, and how many columns they add.

        Parameters
        ----------
        prices
            Price of each row in each slot, 0 or more, shape (slots, R).
        settings
            Limits.
        fineness
            Which of the numbers of steps; the last one gives the bound alone.

        Raises
        ------
        OutOfTime
            If time is up.
        """
        proved = float((prices @ self.capacity).sum())
        new = []
        for i, j in enumerate(self.jobs):
            if settings.time_is_up():
                raise OutOfTime
            slots, worth = self.data.slots(j), float(self.worth[i])
            own = prices[slots.start - self.first : slots.stop - self.first]
            price = own @ self.data.grid.data.table(j).use.T
            steps, last = _STEPS[fineness], fineness == len(_STEPS) - 1
            found = self.problems[i].cheapest(price, steps, plan=not last, below=worth)
            proved += max(worth - found.least, 0.0)
            if found.plan is not None and worth - paid(found.plan, price) > _MEANS * worth:
                new.append((j, found.plan))
        return proved - float(self.extra.sum()), self.add(new)

    def generate(self, settings: Settings, rounded: Callable[[float], float]) -> None:
        """Generate columns until the bound no longer comes closer.

        The bound is `bound`; it holds when time is up, too.

        Parameters
        ----------
        settings
            Limits.
        rounded
            Returns the largest value that a bound leaves open.
        """
        best, stalled, smoothing, fineness = self._first_prices(), 0, 1.0, 0
        gap, rounds, shape = math.inf, 0, best.shape
        try:
            while True:
                found = self.master.solve(settings.seconds_left())
                self.duals = np.maximum(found.duals, 0.0)
                prices = self.duals[: best.size].reshape(shape) / self.scale
                query = smoothing * best + (1 - smoothing) * prices
                proved, new = self.price(query, settings, fineness)
                if proved < self.bound or not rounds:
                    self.bound, best = min(proved, self.bound), query
                value = found.value - float(self.extra.sum())
                rounds += 1
                left = self.bound - value
                stalled = stalled + 1 if left > _SHRUNK * gap else 0
                gap = min(gap, left)
                # No bound of columns is below their value.
                if left <= _CLOSE * self.bound or rounded(value) >= rounded(self.bound):
                    break
                near = stalled >= _MAX_STALLED and left <= _NEAR[fineness] * self.bound
                if near or (not new and smoothing == 0.0):
                    if fineness == 1:
                        break
                    fineness, stalled, gap = 1, 0, math.inf
                smoothing = _SMOOTHING if new else 0.0
            self.bound = min(self.bound, self.price(best, settings, 2)[0])
        except OutOfTime:
            pass
        self.prices = best
        self.report(
            f"plans of {len(self.jobs)} jobs: {len(self.master.keys)} after {rounds} rounds, "
            f"bound {self.bound:g}"
        )

    def near(self, far: float) -> list[_Key]:
        """Return the columns that cost no more than a part of their job's worth too much."""
        model = self.master.program.integer_model()
        return [self.master.keys[k] for k in np.flatnonzero(self._is_near(model, far))]

    def _is_near(self, model: ArrayModel, far: float) -> npt.NDArray[np.bool_]:
        return np.asarray(self.duals @ model.matrix - model.cost <= far * model.cost)

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

    def choose(
        self, start: dict[int, Plan], settings: Settings, among: Collection[int] | None = None
    ) -> tuple[dict[int, Plan], bool]:
        """Return the best choice among the columns that was found, and whether Ctrl-C ended it.

        Parameters
        ----------
        start
            An answer.
        settings
            Limits.
        among
            Jobs that may get other plans; None: all.
        """
        self.add(start.items())
        model, keys = self.master.program.integer_model(), self.master.keys
        standing = np.array([start.get(j) == plan for j, plan in keys], dtype=bool)
        free = np.array([among is None or j in among for j, _ in keys], dtype=bool)
        at = np.flatnonzero(free & (standing | self._is_near(model, _FAR)))
        if not len(at) or settings.time_is_up():
            return start, False
        smaller = replace(
            model,
            cost=model.cost[at],
            matrix=model.matrix.tocsc()[:, at].tocsr(),
            row_upper=model.row_upper - model.matrix @ (standing & ~free).astype(float),
            lower=model.lower[at],
            upper=model.upper[at],
            integer=model.integer[at],
        )
        options = SolverOptions(
            settings.seconds_left(),
            settings.seed,
            settings.workers,
            gap=_CHOICE_GAP,
            start=standing[at].astype(float),
            stoppable=True,
        )
        raw = highs.solve(smaller, options)
        stopped = raw.limit == "interrupt"
        if raw.values is None:
            return start, stopped
        # The solver's rows have a tolerance, and capacities have none but rounding.
        over = smaller.matrix @ (raw.values > 0.5) - smaller.row_upper
        if (over > _ROUNDING * np.maximum(model.row_upper, 1.0)).any():
            return start, stopped
        kept = {j: plan for j, plan in start.items() if among is not None and j not in among}
        chosen = kept | dict(keys[k] for k in at[raw.values > 0.5])
        return max(chosen, start, key=self.value), stopped

    def held(self, plans: dict[int, Plan]) -> list[Held]:
        """Return what the jobs of some plans hold."""
        return [(j, self.data.slots(j).start + t, c) for j, plan in plans.items() for t, c in plan]
