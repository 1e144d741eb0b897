"""Right-sizing by Benders decomposition with shared cuts.

1. The expected scenario alone gives a first point.
2. The linear relaxation: the block master is solved, and the blocks between its optimum and the
   best point so far (in-out separation [1]_); every dual solution becomes a cut for all blocks.
3. Integers: which pools are open is found by slope scaling [2]_ where spare hosts make opening cost
   something; numbers of hosts by a small integer program around the relaxation; every candidate
   is valued by the blocks, so that what is returned is a plan and its true cost.
4. The bound: the integer program over quarterly cuts, each the expectation of cuts with the
   multipliers of the relaxation, so that it starts from the relaxation's bound.

References
----------
.. [1] W. Ben-Ameur, J. Neto, "Acceleration of cutting-plane and column generation algorithms",
   Networks 49(1), 2007.
.. [2] D. Kim, P. M. Pardalos, "A solution approach to the fixed charge network flow problem using a
   dynamic slope scaling procedure", Operations Research Letters 24(4), 1999.
.. [3] R. M. Van Slyke, R. Wets, "L-shaped linear programs with applications to optimal control and
   stochastic programming", SIAM Journal on Applied Mathematics 17(4), 1969; J. R. Birge,
   F. V. Louveaux, "A multicut algorithm for two-stage stochastic linear programs", EJOR 34, 1988.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from alloc.backends import SolverOptions
from alloc.capacity.plan import Plan
from alloc.certificate import relative_gap
from alloc.models.right_sizing.blocks import Blocks
from alloc.models.right_sizing.data import Array, Ints, SizingData
from alloc.models.right_sizing.first_stage import first_stage
from alloc.models.right_sizing.reading import read_plan
from alloc.solving.capacity.right_sizing_blocks import (
    BlockValue,
    BlockValues,
    Task,
    block_data,
)
from alloc.solving.capacity.right_sizing_completing import Completing
from alloc.solving.capacity.right_sizing_cuts import CutPool
from alloc.solving.capacity.right_sizing_marginals import marginals_of_cuts
from alloc.solving.capacity.right_sizing_master import BlockMaster, QuarterMaster, Setting
from alloc.solving.capacity.right_sizing_slopes import open_by_slopes
from alloc.solving.capacity.right_sizing_start import expected_start
from alloc.solving.capacity.right_sizing_state import Found, Watch, money_unit
from alloc.solving.outcome import Settings

_SHORT = 1e-6
"""GPUs in emergency, relative to the demand, that rounding explains."""
_MOST_STEPS = 60
_SHARE_OF_RELAXATION = 0.4
"""Of the time, for the linear relaxation."""


@dataclass(frozen=True, eq=False)
class Incumbent:
    """A first stage with the values of its blocks."""

    values: Array
    cost: float
    blocks: dict[Task, BlockValue]


class Decomposition:
    """The state of one solve.

    Parameters
    ----------
    data
        The problem.
    settings
        Limits.
    gap
        Relative gap at which to stop.
    watch
        Takes lines of progress.
    feasibility
        Whether only emergencies count.
    """

    def __init__(
        self,
        data: SizingData,
        settings: Settings,
        gap: float,
        watch: Watch | None = None,
        feasibility: bool = False,
    ) -> None:
        self.data, self.settings, self.gap, self.watch = data, settings, gap, watch
        self.unit = money_unit(data)
        self.first = first_stage(data)
        self.blocks = Blocks(data)
        self.setting = Setting(data, self.first, self.unit, feasibility)
        self.block_data = block_data(data, self.blocks, self.unit, feasibility)
        self.pool = CutPool(self.block_data)
        self.master = BlockMaster(self.setting, self.pool)
        self.quarters = QuarterMaster(self.setting, self.pool)
        self.completing = Completing(data, self.first)
        self.values = BlockValues(self.block_data, settings.workers)
        self.tasks = [
            (w, t) for t in range(self.setting.shape[1]) for w in range(self.setting.shape[0])
        ]
        self.incumbent: Incumbent | None = None
        self.bound = -math.inf
        self.seconds_to_value = 0.0
        self.log: list[str] = []
        self._tried: set[bytes] = set()

    # Small steps ------------------------------------------------------------------------------

    def say(self, what: str) -> None:
        """Report where the search is."""
        cost = "no plan yet" if self.incumbent is None else f"{self.incumbent.cost * self.unit:.6g}"
        gap = relative_gap(None if self.incumbent is None else self.incumbent.cost, self.bound)
        after = time.perf_counter() - self.settings.started
        line = f"{after:6.1f} s  {what}: cost {cost}, bound {self.bound * self.unit:.6g}"
        if gap is not None and math.isfinite(gap):
            line += f", gap {gap:.2%}"
        self.log.append(line)
        if self.watch is not None:
            self.watch(line)

    def closed(self) -> bool:
        """Return whether the gap is small enough."""
        if self.incumbent is None:
            return False
        gap = relative_gap(self.incumbent.cost, self.bound)
        return gap is not None and gap <= self.gap

    def seconds_left(self) -> float:
        """Return the seconds left after what a last valuation and the judge take."""
        return self.settings.seconds_left() - 1.5 * self.seconds_to_value

    def value(self, point: Array, tasks: list[Task], keep: bool = False) -> dict[Task, BlockValue]:
        """Value blocks at a point and learn their cuts."""
        linked, waived = self.setting.points(point)
        began = time.perf_counter()
        found = self.values.solve(tasks, linked, waived, keep)
        took = (time.perf_counter() - began) * len(self.tasks) / max(len(tasks), 1)
        self.seconds_to_value = max(took, 0.5 * self.seconds_to_value)
        self.pool.add([found[task].dual for task in tasks])
        return found

    def cut(self, *points: Array) -> None:
        """Add the best cuts known at some points to the masters."""
        rows = []
        for point in points:
            linked, waived = self.setting.points(point)
            _, at = self.pool.best(linked, waived)
            rows += [(w, t, int(at[w, t])) for w, t in self.tasks]
            one = np.ones(1)
            self.quarters.add({(w, t): (at[[w], t], one) for w, t in self.tasks})
        self.master.add(rows)

    def mix(self) -> None:
        """Add to the quarterly master the cuts that hold the relaxation's optimum together."""
        _, duals = self.master.duals()
        used: dict[Task, list[int]] = {task: [] for task in self.tasks}
        for row in np.flatnonzero(duals > 1e-12).tolist():
            w, t, _ = self.master.cuts[row]
            used[w, t].append(row)
        chosen = {}
        for task, rows in used.items():
            if not rows:
                # The running cost is at its bound of 0: any cut will do.
                rows = [next(i for i, cut in enumerate(self.master.cuts) if cut[:2] == task)]
            weights = np.maximum(duals[rows], 1e-300)
            at = np.array([self.master.cuts[row][2] for row in rows])
            chosen[task] = (at, weights / weights.sum())
        self.quarters.add(chosen)

    # The relaxation ---------------------------------------------------------------------------

    def relax(
        self, inner: Array | None, steps: int, target: float, seconds: float
    ) -> tuple[float, Array] | None:
        """Close the relaxation's gap, in the master's bounds as they are.

        Returns
        -------
        (float, Array) or None
            The bound and the last optimum; None if the master is infeasible.
        """
        best, ends = math.inf, time.perf_counter() + seconds
        answer = self.master.solve()
        for step in range(steps):
            if answer is None:
                return None
            outer = answer[1]
            point = outer if inner is None else 0.5 * inner + 0.5 * outer
            if step == 0 and inner is not None:
                point = inner
            found = self.value(point, self.tasks)
            worth = self.setting.cost @ point + sum(
                self.setting.weight[task] * found[task].value for task in self.tasks
            )
            if worth < best:
                best, inner = float(worth), point
            self.cut(point, outer)
            answer = self.master.solve()
            if answer is None:
                return None
            gap = relative_gap(best, answer[0])
            out_of_time = time.perf_counter() + self.seconds_to_value > ends
            if out_of_time or (gap is not None and gap <= target):
                break
        assert answer is not None
        return answer[0], answer[1]

    # Integers ---------------------------------------------------------------------------------

    def try_candidate(self, values: Array, what: str) -> bool:
        """Value a first stage whose integers are set; return whether it is the best so far."""
        point = self.completing.complete(values)
        key = np.round(point[self.first.integer]).tobytes()
        if key in self._tried:
            return False
        self._tried.add(key)
        found = self.value(point, self.tasks, keep=True)
        self.cut(point)
        worth = float(
            self.setting.cost @ point
            + sum(self.setting.weight[task] * found[task].value for task in self.tasks)
        )
        better = self.incumbent is None or worth < self.incumbent.cost
        if better and self._is_plan(point, found):
            self.incumbent = Incumbent(point, worth, found)
            self.say(what)
            return True
        return False

    def _is_plan(self, point: Array, found: dict[Task, BlockValue]) -> bool:
        if self.setting.feasibility:
            return True
        most = max(1.0, float(self.data.demand.sum(axis=2).max()))
        if any(value.emergency > _SHORT * most for value in found.values()):
            return False
        spent = self.first.spent @ point / self.unit
        for (w, t), value in found.items():
            spent[t] += self.data.probability[w] * value.value
        budgets = self.setting.budget_rows @ spent
        return bool(np.all(budgets <= self.setting.budgets * (1 + 1e-7) + 1e-9))

    def dive(self, guess: Array | None) -> None:
        """Choose what is open, close the relaxation around it, and round the orders."""
        switches = self.first.open[self.first.open >= 0]
        fixed = switches
        if len(switches):
            settled = open_by_slopes(self.master, self.first) if guess is None else None
            chosen = np.round(guess[switches]) if settled is None and guess is not None else settled
            if chosen is None:
                return
            self.master.fix(switches, chosen, chosen)
        waive = self.first.waive
        if len(waive):
            answer = self.master.solve()
            if answer is not None:
                allowed = self.completing.waive(answer[1][waive])
                self.master.fix(waive, allowed, allowed)
                fixed = np.concatenate([switches, waive])
        answer2 = self.relax(None, 2, self.gap / 4, 0.25 * self.seconds_left())
        if answer2 is not None:
            self.mix()
        self.master.release(np.concatenate([switches, waive]).astype(np.int64))
        if answer2 is None:
            return
        self.round(answer2[1], fixed)

    def round(self, point: Array, fixed: Ints) -> None:
        """Round the orders near a point, as well as the quarterly cuts know how."""
        orders = self.first.order[self.first.order >= 0]
        columns = np.concatenate([fixed, orders]).astype(np.int64)
        held = np.round(point[fixed])
        low = np.maximum(np.floor(point[orders] - 1e-6) - 1, 0)
        high = np.minimum(np.ceil(point[orders] + 1e-6) + 1, self.first.upper[orders])
        limits = (columns, np.concatenate([held, low]), np.concatenate([held, high]))
        raw = self.quarters.solve(self._options(5.0, self.gap / 10), limits)
        if raw.values is not None:
            self.try_candidate(raw.values[: len(self.setting.cost)], "rounded")

    def _options(self, seconds: float, gap: float, start: Array | None = None) -> SolverOptions:
        seconds = max(min(seconds, self.seconds_left()), 0.1)
        return SolverOptions(
            seconds, self.settings.seed, self.settings.workers, gap=gap, start=start
        )

    def prove(self, seconds: float) -> Array | None:
        """Raise the bound by the quarterly integer program; return its best point."""
        start = None
        if self.incumbent is not None:
            start = np.full(len(self.quarters.base.cost), np.nan)
            integers = np.flatnonzero(self.first.integer)
            start[integers] = self.incumbent.values[integers]
        raw = self.quarters.solve(self._options(seconds, self.gap / 3, start))
        if raw.status == "infeasible":
            self.bound = math.inf
            return None
        self.bound = max(self.bound, raw.bound)
        self.say("integers")
        return None if raw.values is None else raw.values[: len(self.setting.cost)]

    # All together -----------------------------------------------------------------------------

    def run(self, start: Plan | None = None) -> Found:
        """Search until the gap is closed or the time is up."""
        with self.values:
            limit = self._run(start)
        return self._found(limit)

    def _run(self, start: Plan | None) -> str | None:
        began = expected_start(self)
        if start is not None:
            self.try_candidate(self.completing.from_plan(start), "start")
        share = _SHARE_OF_RELAXATION * self.seconds_left()
        relaxed = self.relax(began, _MOST_STEPS, self.gap / 5, share)
        if relaxed is None:
            self.bound = math.inf
            return None
        self.bound = max(self.bound, relaxed[0])
        self.marginals = marginals_of_cuts(self)
        self.mix()
        self.say("relaxation")
        guess: Array | None = None
        turns = 0
        while not self.closed() and not math.isinf(self.bound):
            if self.seconds_left() < self.seconds_to_value:
                return "time"
            before = self.bound, None if self.incumbent is None else self.incumbent.cost
            self.dive(guess)
            if self.closed() or self.seconds_left() < self.seconds_to_value:
                continue
            point = self.prove(max(0.2 * self.seconds_left(), 1.0))
            guess = None
            if point is not None:
                if self.seconds_left() > 2 * self.seconds_to_value:
                    self.try_candidate(point, "integers")
                if turns % 2 == 0:
                    guess = point
            turns += 1
            after = self.bound, None if self.incumbent is None else self.incumbent.cost
            if before == after and turns > 40:
                return None
        return None

    def _found(self, limit: str | None) -> Found:
        infeasible = math.isinf(self.bound) and self.bound > 0
        plan = None
        if self.incumbent is not None and not self.setting.feasibility:
            running = np.zeros((*self.setting.shape, self.blocks.num_columns))
            for task, value in self.incumbent.blocks.items():
                running[task] = value.values
            plan = read_plan(self.data, self.first, self.blocks, self.incumbent.values, running)
        return Found(
            plan,
            self.bound * self.unit,
            "claimed" if math.isfinite(self.bound) else "none",
            infeasible and plan is None,
            "time" if limit == "time" else None,
            getattr(self, "marginals", ()),
            self.log,
        )


def solve_by_decomposition(
    data: SizingData,
    settings: Settings,
    gap: float,
    start: Plan | None = None,
    watch: Watch | None = None,
) -> Found:
    """Return the best plan within the limits, and the bound of the masters."""
    return Decomposition(data, settings, gap, watch).run(start)
