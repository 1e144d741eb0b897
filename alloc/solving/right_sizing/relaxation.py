"""The linear relaxation of right-sizing, by cuts shared between scenarios."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alloc.backends import SolverOptions
from alloc.certificate import relative_gap
from alloc.formulation import ArrayModel, RawResult
from alloc.models.right_sizing.blocks import Blocks
from alloc.models.right_sizing.data import Array, Ints, SizingData
from alloc.models.right_sizing.first_stage import first_stage
from alloc.solving.outcome import Settings
from alloc.solving.progress_line import standing
from alloc.solving.right_sizing.block_values import BlockValues
from alloc.solving.right_sizing.blocks import (
    BlockData,
    BlockValue,
    Task,
    block_data,
    with_raised_penalty,
)
from alloc.solving.right_sizing.cuts import ZERO_CUT, CutPool
from alloc.solving.right_sizing.first_stage_completion import FirstStageCompletion
from alloc.solving.right_sizing.master import BlockMaster, MasterData, QuarterMaster
from alloc.solving.right_sizing.opening_rows import OpeningRows, with_rows
from alloc.solving.right_sizing.start import expected_optimum
from alloc.solving.right_sizing.state import Watch, money_unit

_LAST_S = 1.0
"""Beyond the limit, for a step that has begun: the first plan is valued however short it is."""
_CUT_TOLERANCE = 1e-7
"""Relative amount by which a new cut must exceed the known ones: less is the solver's tolerance."""
_LEAST_DUAL = 1e-12
"""Dual value of a cut from which it holds the optimum: less is rounding of the simplex method."""
_SURE = 1e-9
"""Units of money by which a solver's word may be too much: a millionth of a millionth of what work
usually costs. A plan may cost next to nothing; what it costs to keep owned hosts is its bound then.
"""
MAX_STEPS = 60
"""Steps of a relaxation; most close within twenty."""
_MIN_GAIN = 0.05
"""Gaps below which a gain counts for little: twenty such gains close the gap asked for."""
_OF_SCENARIOS, _LEAST_SCENARIOS = 20, 1
"""Of so many scenarios one is solved in a step of the relaxation, but at least so many: their duals
say nearly as much as those of all, and the blocks take most of the time."""

_LATE = 0.25
"""Part of the blocks of a step that may come late: of the eight of planning-large two, about what
another process does while the master is solved here. With half of them late relaxations took a
quarter more steps."""
_SCENARIOS_FOR_ROWS = 5
"""Scenarios in which rows that tie jobs to open pools are looked for."""
_BEFORE_MORE_ROWS = 5e-4
"""Relative gap to which a relaxation is closed while it breaks more of these rows: the rest of the
way takes half the time, and rows are worth more."""


@dataclass(frozen=True, eq=False)
class Incumbent:
    """A first stage with the values of its blocks."""

    values: Array
    cost: float
    blocks: dict[Task, BlockValue]


class Relaxation:
    """Masters, cuts and bound of one solve.

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
        Whether only slack counts.
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
        self.first = first_stage(data, within_budgets=True)
        self.blocks = Blocks(data)
        self.setting = MasterData(data, self.first, self.unit, feasibility)
        self.block_data = block_data(data, self.blocks, self.unit, feasibility, self.setting.levels)
        self.pool = CutPool(self.block_data)
        self.master = BlockMaster(self.setting, self.pool, self.seconds_for_step)
        self.quarters = QuarterMaster(self.setting, self.pool)
        self.completing = FirstStageCompletion(data, self.first)
        self.values = BlockValues(self.block_data, settings.workers, watch)
        self.tasks = [
            (w, t) for t in range(self.setting.shape[1]) for w in range(self.setting.shape[0])
        ]
        self.incumbent: Incumbent | None = None
        self._least = self._cost_of_owned()
        self.bound = -math.inf
        self.relaxed_bound = -math.inf
        """Bound of the linear relaxation, before any integers."""
        self.linear_bound = -math.inf
        """Bound of the linear relaxation with the rows that were added."""
        self.relaxed_point = np.zeros(len(self.setting.cost))
        """Its optimum."""
        self.duals: tuple[Array, Array] | None = None
        """Dual values of its rows and cuts, once it is solved."""
        self.cuts_of_duals: list[tuple[int, int, int]] = []
        """The master's cuts then: it drops some later."""
        self.seconds_to_value = 0.0
        self.rng = np.random.default_rng(settings.seed)
        self._shuffled = np.argsort(self.rng.random(self.setting.shape[0]), kind="stable").tolist()
        self._turn = 0

    # Small steps ------------------------------------------------------------------------------

    @property
    def cost(self) -> float:
        """Cost of the best plan so far, infinite if there is none."""
        return math.inf if self.incumbent is None else self.incumbent.cost

    def small_change(self, value: float) -> float:
        """Return the change of a cost or bound that counts for little beside the gap wanted."""
        return _MIN_GAIN * self.gap * abs(value)

    def wanted(self) -> float:
        """Return the cost that a plan must promise to be worth the time to look for it."""
        return math.inf if self.incumbent is None else self.cost - self.small_change(self.cost)

    def say(self, what: str) -> None:
        """Report where the search is."""
        cost = None if self.incumbent is None else self.incumbent.cost
        gap = relative_gap(None if cost is None else self.cost, self.bound)
        money = None if cost is None else cost * self.unit
        line = f"{what}: {standing(money, self.bound * self.unit)}"
        if gap is not None and math.isfinite(gap):
            line += f", gap {gap:.2%}"
        if self.watch is not None:
            self.watch(line)

    def take(self, incumbent: Incumbent, what: str) -> None:
        """Make a plan that is better than all before the incumbent.

        Parameters
        ----------
        incumbent
            The plan, which a caller has checked.
        what
            What found it, for the line of progress.
        """
        self.incumbent = incumbent
        self.quarters.leave_out_dearer(incumbent.cost)
        self.say(what)

    def raise_bound(self, bound: float) -> None:
        """Take a bound that a solver claims, if it is better; no plan may cost less than it."""
        self.bound = min(max(self.bound, bound - _SURE, self._least), self.cost)

    def _cost_of_owned(self) -> float:
        """Return what every plan costs: the hosts that are owned, if nothing earns money."""
        if (self.setting.cost < 0).any():
            return -math.inf
        owned = np.array([group.owned for group in self.data.host_groups], dtype=float)
        return float(
            (self.setting.cost[self.first.hosts] * owned.reshape(self.first.hosts.shape)).sum()
        )

    def refute(self) -> None:
        """Note that it is proved that there is no plan."""
        self.bound = math.inf

    def closed(self) -> bool:
        """Return whether the gap is small enough."""
        if self.incumbent is None:
            return False
        gap = relative_gap(self.incumbent.cost, self.bound)
        return gap is not None and gap <= self.gap

    def seconds_left(self) -> float:
        """Return the seconds left after what a last valuation and the checker take."""
        return self.settings.seconds_left() - 1.5 * self.seconds_to_value

    def seconds_for_step(self) -> float:
        """Return the seconds that a linear program may take, late as it may be: see `_LAST_S`."""
        return self.settings.seconds_left() + _LAST_S

    def value(
        self, point: Array, tasks: list[Task], keep: bool = False, may_be_late: float = 0.0
    ) -> dict[Task, BlockValue]:
        """Value blocks at a point and learn their cuts.

        Parameters
        ----------
        point
            First stage, shape (columns,).
        tasks
            Blocks to value.
        keep
            Whether the columns of the blocks are asked for too.
        may_be_late
            Part of the blocks whose cuts may come with the next values.
        """
        linked, waived = self.setting.points(point)
        # Whatever this waits for, processes that start among it, is no part of a valuation.
        self.learn_late()
        began = time.perf_counter()
        found = self.values.solve(tasks, linked, waived, keep, self.seconds_for_step(), may_be_late)
        # The first block of a quarter takes as long as dozens after it, at the same point.
        more = math.sqrt(len(self.tasks) / max(len(tasks), 1))
        took = (time.perf_counter() - began) * more
        self.seconds_to_value = max(took, 0.5 * self.seconds_to_value)
        self.pool.add([found[task].dual for task in tasks if task in found])
        return found

    def learn_late(self, wait_for_all: bool = False) -> None:
        """Learn the cuts of blocks that other workers have solved meanwhile.

        Parameters
        ----------
        wait_for_all
            Whether those that they are solving are waited for.
        """
        self.pool.add([value.dual for value in self.values.take_late(wait_for_all)])

    def solve_programs(
        self, programs: Sequence[tuple[ArrayModel, SolverOptions]], proves: bool = False
    ) -> list[RawResult]:
        """Solve integer programs (`BlockValues.solve_programs`); what Ctrl-C ends is kept.

        Parameters
        ----------
        programs
            The programs, and how to solve them.
        proves
            Whether the first is a relaxation of the problem, so that its bound is one of it.

        Raises
        ------
        KeyboardInterrupt
            If Ctrl-C has ended the first.
        """
        answers = self.values.solve_programs(programs)
        if answers[0].limit == "interrupt":
            if proves:
                self.raise_bound(answers[0].bound)
            raise KeyboardInterrupt
        return answers

    def raise_slack_penalty(self) -> None:
        """Raise the penalty of slack; the cuts known so far are true all the more."""
        self._change(with_raised_penalty(self.block_data))

    def _change(self, changed: BlockData) -> None:
        """Take blocks with other costs or more rows from now on."""
        self.learn_late(wait_for_all=True)
        self.block_data = changed
        self.pool.change(changed)
        self.values.change(changed)

    def cut(self, *points: Array, keep: bool = False) -> list[Array]:
        """Add the best cuts known at some points to the masters, where they say something new.

        Parameters
        ----------
        points
            First stages, each of shape (columns,).
        keep
            Whether the quarterly master keeps them, however long they are slack.

        Returns
        -------
        list of ndarray
            What they say that each block costs at each point, shape (scenarios, quarters).
        """
        rows, said = [], []
        for point in points:
            linked, waived = self.setting.points(point)
            values = self.pool.values(linked, waived)
            at = values.argmax(axis=0)
            self.quarters.add_single(at, keep)
            known = self.master.known_values(values)
            best = values.max(axis=0)
            new = best > known + _CUT_TOLERANCE * np.maximum(1.0, np.abs(best))
            rows += [(w, t, int(at[w, t])) for w, t in self.tasks if new[w, t]]
            said.append(best)
        self.master.add(rows)
        return said

    def aggregate_cuts(self, keep: bool = False) -> None:
        """Add to the quarterly master the cuts that hold the relaxation's optimum together."""
        _, duals = self.master.duals()
        used: dict[Task, list[int]] = {task: [] for task in self.tasks}
        for row in np.flatnonzero(duals > _LEAST_DUAL).tolist():
            w, t, _ = self.master.cuts[row]
            used[w, t].append(row)
        chosen = {}
        for task, rows in used.items():
            weights = duals[rows] / self.setting.weight[task]
            # What is missing is the dual of the running cost's own bound of 0.
            missing = max(1.0 - float(weights.sum()), 0.0)
            at = np.array([ZERO_CUT, *(self.master.cuts[row][2] for row in rows)])
            weights = np.array([missing, *weights])
            chosen[task] = (at, weights / weights.sum())
        self.quarters.add(chosen, keep)

    # The relaxation ---------------------------------------------------------------------------

    def start(self) -> Array | None:
        """Return the first stage that is best for the expected scenario; its duals become cuts.

        None if no first stage is feasible for it, or the time is up.
        """
        found = expected_optimum(
            self.setting, self.block_data, self.settings.seed, 0.3 * self.settings.seconds_left()
        )
        if found is None:
            return None
        point, duals = found
        self.pool.add(list(duals))
        self.cut(point)
        return point

    def keep_optimum(self, bound: float, point: Array) -> None:
        """Keep what the linear relaxation says, now that it is solved.

        Parameters
        ----------
        bound
            Its value, in units of money.
        point
            Its optimum, shape (columns,).
        """
        self.relaxed_bound, self.relaxed_point = bound, point
        self.linear_bound = bound
        self.raise_bound(bound)
        self.aggregate_cuts(keep=True)
        self.duals, self.cuts_of_duals = self.master.duals(), list(self.master.cuts)

    def strengthen(self, target: float, seconds: float, worth: float = 0.0) -> None:
        """Add rows that tie jobs to open pools where the relaxation breaks them, and relax again.

        Parameters
        ----------
        target
            Relative gap to which it is closed each time.
        seconds
            Wall time for all of it, seconds.
        worth
            Part of the gap asked for that a round must gain, or it is the last one for now.
        """
        if not self.setting.levels:
            return
        opening = OpeningRows(self.data, self.blocks)
        ends = time.perf_counter() + seconds
        is_close = False  # closed no further than is worth it while there are rows to come
        while not self.closed() and time.perf_counter() + 2 * self.seconds_to_value < ends:
            point, before = self.relaxed_point, self.bound
            # Most rows that any scenario breaks are broken in a few.
            tasks = self.tasks if is_close else self.some(_SCENARIOS_FOR_ROWS)
            found = self.value(point, tasks, keep=True)
            values = {task: value.values for task, value in found.items()}
            rows = opening.broken(values, self.setting.points(point)[0])
            if rows is not None:
                self._change(with_rows(self.block_data, rows))
            elif is_close:
                break
            nearly = max(target, _BEFORE_MORE_ROWS) if rows is not None else target
            left = ends - time.perf_counter()
            relaxed = self.relax(point, MAX_STEPS, nearly, left, surely=rows is None)
            if relaxed is None:
                break
            self.raise_bound(relaxed[0])
            self.linear_bound, self.relaxed_point = relaxed
            self.aggregate_cuts(keep=True)
            self.say("opening")
            if self.bound - before < worth * self.gap * abs(self.bound):
                break
            gains = self.bound - before >= self.small_change(self.bound)
            if is_close and rows is not None and not gains:
                break
            is_close = rows is None or not gains

    def relax(
        self,
        inner: Array | None,
        steps: int,
        target: float,
        seconds: float,
        surely: bool = True,
    ) -> tuple[float, Array] | None:
        """Close the relaxation's gap, in the master's bounds as they are.

        Parameters
        ----------
        inner
            Best point so far: blocks are solved half way to the optimum; None: at the optimum.
        steps
            Most steps, at least 1.
        target
            Relative gap at which it counts as closed.
        seconds
            Wall time, seconds; a step that has begun is ended.
        surely
            Whether all blocks have their word before it counts as closed, which takes as long as
            ten steps; else it is enough that those of two steps in a row say so.

        Returns
        -------
        (float, Array) or None
            The bound and the last optimum; None if the master is infeasible.
        """
        ends = time.perf_counter() + seconds
        answer = self.master.solve()
        looks_closed, running, cuts = False, np.zeros(self.setting.shape), 0
        for step in range(steps):
            if answer is None:
                return None
            outer = answer[1]
            point = outer if inner is None else 0.5 * inner + 0.5 * outer
            if step == 0 and inner is not None:
                point = inner
            # What few blocks say is too little: all have a word before it counts as closed.
            needs_all = looks_closed and surely
            tasks = self.tasks if needs_all else self.some()
            self.value(point, tasks, may_be_late=0.0 if needs_all else _LATE)
            found = self.cut(point, outer)[0]
            if inner is not None:
                more = self.pool.values(*self.setting.points(inner), since=cuts)
                running = np.maximum(running, more.max(axis=0, initial=0.0))
            if inner is None or self._worth(point, found) <= self._worth(inner, running):
                inner, running = point, found
            cuts = len(self.pool)
            answer = self.master.solve()
            if answer is None:
                return None
            gap = relative_gap(self._worth(inner, running), answer[0])
            closed = gap is not None and gap <= target
            if (closed and looks_closed) or time.perf_counter() + self.seconds_to_value > ends:
                break
            looks_closed = closed
        assert answer is not None
        return answer[0], answer[1]

    def promise(self, columns: Ints, values: Array) -> tuple[float, Array]:
        """Return what the master promises with some columns fixed, and its optimum.

        Parameters
        ----------
        columns
            Positions of the columns.
        values
            What they are fixed at, shape (len(columns),).

        Returns
        -------
        (float, ndarray)
            The least cost by the cuts known, in units of money, infinite if nothing is feasible;
            and the first stage, shape (columns,), empty then.
        """
        self.master.fix(columns, values, values)
        answer = self.master.solve()
        self.master.release(columns)
        if answer is None:
            return math.inf, np.zeros(0)
        point = answer[1].copy()
        point[columns] = values
        return answer[0], point

    def _worth(self, point: Array, running: Array) -> float:
        """Return what a point costs when its blocks cost so much, (scenarios, quarters)."""
        return float(self.setting.cost @ point + (self.setting.weight * running).sum())

    def some(self, count: int | None = None) -> list[Task]:
        """Return blocks of some scenarios, others every time: their duals serve all."""
        scenarios, quarters = self.setting.shape
        count = max(scenarios // _OF_SCENARIOS, _LEAST_SCENARIOS) if count is None else count
        count = min(count, scenarios)
        begin = self._turn * count
        self._turn += 1
        chosen = {self._shuffled[(begin + i) % scenarios] for i in range(count)}
        return [(w, t) for t in range(quarters) for w in sorted(chosen)]
