"""The masters of right-sizing: the first stage with cuts instead of blocks.

`BlockMaster` is a linear program with a variable for the cost of every scenario and quarter; it
finds where the optimum is. `QuarterMaster` has one for every quarter, expected over the scenarios,
and few rows; it finds integers and proves the bound. Both are relaxations of the problem, whatever
cuts they have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from alloc.backends.linear_program import LinearProgram, LinearSolution
from alloc.errors import OutOfTime, SolverError
from alloc.formulation import ArrayModel
from alloc.models.right_sizing.data import Array, Ints, SizingData
from alloc.models.right_sizing.first_stage import FirstStage
from alloc.solving.right_sizing.cuts import CutPool

_LEAST = 1e-11
"""Coefficients and dual values below it count as 0: in units of money they are far below the
tolerances of HiGHS (1e-7), and would only fill the rows."""
_LARGE_MARGIN = 2.0**20
"""GPUs of a margin up to which backends leave a row of (C17) as it is. They divide larger ones, and
count the margin in about as many GPUs then."""
_FOR_ROUNDING = 1e-9
"""Part by which a plan may be dearer than the cost known and still not be left out: a cost is a sum
of many doubles."""
_MAX_ROWS = 240
"""Rows of the quarterly master up to which none is dropped: it is solved as an integer program,
whose time grows with them."""
_MAX_SLACK = 5
"""Solves of the block master for which a cut may be slack before it is dropped: dropped sooner,
many would soon be back."""
_MANY_CUTS = 1000
"""Cuts of the block master up to which none is dropped: a master of so few takes milliseconds, and
one of 6,500 rows, to which those of planning-large grow, three times as long as without."""
_MAX_IDLE = 8
"""Solves for which a row may be slack before it is dropped from many: a row too few weakens the
bound."""
_KEPT = -(10**9)
"""Solves counted for a row that is never dropped."""


class MasterData:
    """The first stage in units of money, with what running costs are worth in it.

    Parameters
    ----------
    data, first
        The problem and its first stage.
    unit
        Unit of money.
    feasibility
        Whether only slack counts: then a bound above 0 proves that there is no plan.
    """

    def __init__(
        self, data: SizingData, first: FirstStage, unit: float, feasibility: bool = False
    ) -> None:
        self.data, self.first, self.unit = data, first, unit
        self.feasibility = feasibility
        scenarios, quarters = data.demand.shape[:2]
        self.shape = (scenarios, quarters)
        self.levels = len(first.open) if data.spares else 0
        """Levels that may be open, with spare hosts."""
        self.linked = np.array([first.linked(t, opened=True) for t in range(quarters)])
        """Columns of z in each quarter, then whether each of the levels is open."""
        self.cost = first.cost / unit
        ordered, in_service = first.paid_when_ordered()
        self.cost_of_orders, self.cost_in_service = ordered / unit, in_service / unit
        """What the masters minimise instead, and what they leave out of the duals of (C1)."""
        self.quarter_weight = data.discount.copy()
        if feasibility:
            self.cost = np.zeros(len(first.cost))
            self.cost_of_orders = self.cost
            self.cost_in_service = np.zeros(len(self.cost_in_service))
            self.quarter_weight = np.ones(quarters)
        self.weight = data.probability[:, None] * self.quarter_weight
        if feasibility:
            # Every scenario counts as much as any other.
            self.weight = np.ones(self.shape)
        self.budget_rows, self.budgets = self._budgets()

    def _budgets(self) -> tuple[Array, Array]:
        """Return which quarters each budget is for, shape (budgets, quarters), and the limits."""
        problem, quarters = self.data.problem, self.shape[1]
        rows, limits = [], []
        if self.feasibility:
            return np.zeros((0, quarters)), np.zeros(0)
        for t, budget in enumerate(problem.quarter_budgets):
            rows.append(np.eye(quarters)[t])
            limits.append(budget / self.unit)
        if problem.budget is not None:
            rows.append(np.ones(quarters))
            limits.append(problem.budget / self.unit)
        return np.array(rows).reshape(-1, quarters), np.array(limits)

    def model(self, running: Array, spending: Array) -> ArrayModel:
        """Return the first stage with columns for running costs, and the budgets.

        Parameters
        ----------
        running
            What a unit of each running cost counts, shape (columns,).
        spending
            What it is of each quarter's expected spending, shape (quarters, columns).
        """
        first, count = self.first, len(running)
        body = [[first.matrix, sparse.csr_array((first.matrix.shape[0], count))]]
        if len(self.budgets):
            choose = sparse.csr_array(self.budget_rows)
            body.append([choose @ first.spent / self.unit, choose @ sparse.csr_array(spending)])
        units = self._rows_of_unit()
        free = np.full(units.shape[0], np.inf)
        if len(free):
            body.append([units, sparse.csr_array((len(free), count))])
        return ArrayModel(
            sense="min",
            cost=np.concatenate([self.cost_of_orders, running]),
            matrix=sparse.block_array(body, format="csr"),
            row_lower=np.concatenate([first.row_lower, np.full(len(self.budgets), -np.inf), -free]),
            row_upper=np.concatenate([first.row_upper, self.budgets, free]),
            lower=np.concatenate([first.lower, np.zeros(count)]),
            upper=np.concatenate([first.upper, np.full(count, np.inf)]),
            integer=np.concatenate([first.integer, np.zeros(count, dtype=bool)]),
            offset=float(self.cost_in_service @ first.row_lower[first.rows["C1"]]),
        )

    def _rows_of_unit(self) -> sparse.csr_array:
        """Return rows without limits that keep the unit of large margins, shape (rows, columns).

        A cut holds what a missing GPU of a margin costs beside what one in service saves. With the
        margin counted in millions of GPUs the second is below a billionth of the first, and HiGHS
        takes it for nothing: it called optimal what was 6e-6 dearer than a plan. A column that has
        an entry of 1 beside whole columns, not all of which are fixed, keeps its own unit. What
        (C17) asks for is faint beside it then, so from margins of 2^24 GPUs on integer programs are
        solved without presolve (`alloc.backends.highs`).
        """
        rows = self.first.matrix[self.first.rows["C17"]].tocsr()
        largest = abs(rows).max(axis=1).toarray().ravel() if rows.shape[0] else np.zeros(0)
        units = rows[np.flatnonzero(largest > _LARGE_MARGIN)]
        units.data = np.ones(len(units.data))
        return sparse.csr_array(units)

    def points(self, values: Array) -> tuple[Array, Array]:
        """Return what links to the blocks, shape (quarters, linked), and what is waived."""
        waive = self.first.waive
        waived = values[waive] if len(waive) else np.zeros(self.shape[0])
        # A rounding error below 0 would leave a block without any solution.
        return np.maximum(values[self.linked], 0.0), np.clip(waived, 0.0, 1.0)


class BlockMaster:
    """The linear program with a cost for every scenario and quarter.

    Parameters
    ----------
    setting, pool
        What it is about, and the cuts.
    seconds_left
        Asked before each solve how long it may take.
    """

    def __init__(
        self,
        setting: MasterData,
        pool: CutPool,
        seconds_left: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self.setting, self.pool, self.seconds_left = setting, pool, seconds_left
        scenarios, quarters = setting.shape
        self.begin = len(setting.cost)
        spending = np.zeros((quarters, scenarios * quarters))
        for w in range(scenarios):
            for t in range(quarters):
                spending[t, w * quarters + t] = setting.data.probability[w]
        model = setting.model(setting.weight.ravel(), spending)
        self.lower, self.upper = setting.first.lower.copy(), setting.first.upper.copy()
        self.rows = model.matrix.shape[0]
        # Devex weights take a third of the time of steepest edges here, too, planning-large.
        self.program = LinearProgram(model, devex=True)
        self._optimum: LinearSolution | None = None
        self.cuts: list[tuple[int, int, int]] = []
        self._known: set[tuple[int, int, int]] = set()
        self._has = np.zeros((0, *setting.shape), dtype=bool)
        self._idle = np.zeros(0, dtype=np.int64)
        """For every cut, the solves since it was last tight."""

    def add(self, cuts: Sequence[tuple[int, int, int]]) -> None:
        """Add cuts that are new, each a scenario, a quarter and a position in the pool."""
        new = [cut for cut in dict.fromkeys(cuts) if cut not in self._known]
        if not new:
            return
        self._known.update(new)
        grown = np.zeros((len(self.pool), *self.setting.shape), dtype=bool)
        grown[: len(self._has)] = self._has
        for w, t, k in new:
            grown[k, w, t] = True
        self._has = grown
        self.cuts += new
        self._idle = np.concatenate([self._idle, np.zeros(len(new), dtype=np.int64)])
        rows = [self._row(*cut) for cut in new]
        lengths = [len(columns) for columns, _ in rows]
        self.program.add_rows(
            np.array([self.pool.alpha[k, w, t] for w, t, k in new]),
            np.full(len(new), np.inf),
            np.cumsum([0, *lengths[:-1]]),
            np.concatenate([columns for columns, _ in rows]),
            np.concatenate([values for _, values in rows]),
        )

    def known_values(self, values: Array) -> Array:
        """Return the largest values among the cuts that the master has.

        Parameters
        ----------
        values
            Of all cuts of the pool at a point, shape (cuts, scenarios, quarters).
        """
        has = self._has
        return np.asarray(np.where(has, values[: len(has)], 0.0).max(axis=0, initial=0.0))

    def _row(self, w: int, t: int, k: int) -> tuple[Ints, Array]:
        setting, beta = self.setting, self.pool.slopes([k], w, t)[0]
        used = np.flatnonzero(np.abs(beta) > _LEAST)
        columns, values = [setting.linked[t][used]], [-beta[used]]
        if len(setting.first.waive):
            columns.append(setting.first.waive[[w]])
            values.append(-self.pool.gamma[[k], w, t])
        columns.append(np.array([self.begin + w * setting.shape[1] + t]))
        values.append(np.ones(1))
        return np.concatenate(columns), np.concatenate(values)

    def solve(self) -> tuple[float, Array] | None:
        """Return the optimum and the first stage's values, or None if infeasible.

        Raises
        ------
        OutOfTime
            If the time was too short.
        """
        self._forget()
        self._optimum = self.program.solve(self.seconds_left())
        if self._optimum is None:
            if self.program.is_infeasible:
                return None
            if self.program.is_stopped:
                raise OutOfTime
            raise SolverError(f'HiGHS ended the master of the plan with "{self.program.status}".')
        tight = self._optimum.duals[self.rows :] > _LEAST
        self._idle = np.where(tight, 0, self._idle + 1)
        return self._optimum.value, self._optimum.values[: self.begin]

    def _forget(self) -> None:
        """Drop cuts that have been slack for long; the pool has them still, should they matter."""
        idle = self._idle > _MAX_SLACK
        if len(self.cuts) <= _MANY_CUTS or not idle.any():
            return
        drop = np.flatnonzero(idle)
        self.program.delete_rows(self.rows + drop)
        gone = [self.cuts[i] for i in drop.tolist()]
        self._known.difference_update(gone)
        w, t, k = np.array(gone).T
        self._has[k, w, t] = False
        self.cuts = [self.cuts[i] for i in np.flatnonzero(~idle).tolist()]
        self._idle = self._idle[~idle]
        self._optimum = None

    def duals(self) -> tuple[Array, Array]:
        """Return the last duals of the first stage's rows and budgets, and of the cuts."""
        if self._optimum is None:
            raise SolverError("the master of the plan has no dual values: it has no optimum.")
        found = self._optimum.duals
        rows = found[: self.rows].copy()
        rows[self.setting.first.rows["C1"]] += self.setting.cost_in_service
        return rows, found[self.rows :]

    def fix(self, columns: Ints, lower: Array, upper: Array) -> None:
        """Set the bounds of some columns.

        Parameters
        ----------
        columns
            Positions of the columns, each once.
        lower, upper
            Their bounds, shape (len(columns),).
        """
        if len(columns):
            self.program.set_column_bounds(columns, lower.astype(float), upper.astype(float))

    def limit_counted(self, limits: Array) -> None:
        """Set M of (C7) for every switch."""
        first = self.setting.first
        at = first.open >= 0
        rows, columns = first.switch[at].tolist(), first.open[at].tolist()
        for row, column, limit in zip(rows, columns, limits.tolist(), strict=True):
            self.program.set_coefficient(row, column, -limit)

    def release(self, columns: Ints) -> None:
        """Give columns their own bounds again."""
        self.fix(columns, self.lower[columns], self.upper[columns])


class QuarterMaster:
    """The mixed-integer program with a cost for every quarter."""

    def __init__(self, setting: MasterData, pool: CutPool) -> None:
        self.setting, self.pool = setting, pool
        quarters = setting.shape[1]
        # In units of the expectation over scenarios, or of their sum when all count alike.
        self.share = setting.weight / setting.quarter_weight
        self.base = setting.model(setting.quarter_weight, np.eye(quarters))
        self.rows: list[tuple[int, float, Array, Array]] = []
        """Quarter, constant, slope in what links, slope in what is waived."""
        self._idle: list[int] = []
        """For every row, the solves since it was last tight; below 0 for those to keep."""

    def add(self, chosen: Mapping[tuple[int, int], tuple[Ints, Array]], keep: bool = False) -> None:
        """Add for every quarter the expectation over the scenarios of cuts.

        Parameters
        ----------
        chosen
            For each scenario and quarter positions of cuts, and weights that sum to 1.
        keep
            Whether they stay, however long they are slack.
        """
        scenarios, quarters = self.setting.shape
        for t in range(quarters):
            constant, slope = 0.0, np.zeros(self.pool.beta.shape[1])
            lift = np.zeros(scenarios)
            for w in range(scenarios):
                at, weights = chosen[w, t]
                share = self.share[w, t]
                constant += share * float(weights @ self.pool.alpha[at, w, t])
                slope += share * (weights @ self.pool.slopes(at, w, t))
                lift[w] = share * float(weights @ self.pool.gamma[at, w, t])
            self.rows.append((t, constant, slope, lift))
            self._idle.append(_KEPT if keep else 0)

    def add_single(self, at: Ints, keep: bool = False) -> None:
        """Add for every quarter the expectation over the scenarios of one cut of each.

        Parameters
        ----------
        at
            Positions of the cuts, shape (scenarios, quarters).
        keep
            Whether they stay, however long they are slack; those that are there are not added
            again.
        """
        for t in range(self.setting.shape[1]):
            row = (t, *self.pool.expected(at[:, t], self.share[:, t], t))
            if keep and (known := self._position(row)) is not None:
                self._idle[known] = _KEPT
                continue
            self.rows.append(row)
            self._idle.append(_KEPT if keep else 0)

    def _position(self, row: tuple[int, float, Array, Array]) -> int | None:
        """Return where a row is, None if it is not there."""
        for i, other in enumerate(self.rows):
            if other[:2] == row[:2] and all(map(np.array_equal, other[2:], row[2:])):
                return i
        return None

    def leave_out_dearer(self, cost: float) -> None:
        """Leave out orders that alone, with keeping what is ordered, cost more than a known plan.

        What is left out is no cheaper plan. Where a host costs far more than renting what little is
        asked for, a solver would else weigh a billionth of it.
        """
        setting, first = self.setting, self.setting.first
        if setting.feasibility or (setting.cost < 0).any():
            return
        upper = self.base.upper.copy()
        for k, t in np.argwhere(first.order >= 0).tolist():
            column = first.order[k, t]
            kept = first.hosts[k, list(setting.data.in_service(k, t))]
            each = float(setting.cost[column] + setting.cost[kept].sum())
            if each * upper[column] > cost:
                most = cost / each * (1 + _FOR_ROUNDING)
                upper[column] = np.floor(most) if first.integer[column] else most
        # Cuts count slack at a price that makes thousands of plans of what a single one costs.
        running = np.arange(len(setting.cost), len(upper))
        upper[running] = cost * (1 + _FOR_ROUNDING) / self.base.cost[running]
        self.base = replace(self.base, upper=upper)

    def limit_counted(self, limits: Array) -> None:
        """Set M of (C7) for every switch."""
        first = self.setting.first
        at = first.open >= 0
        matrix = self.base.matrix.copy()
        matrix[first.switch[at], first.open[at]] = -limits
        self.base = replace(self.base, matrix=matrix)

    def model(self) -> ArrayModel:
        """Return the program."""
        base, setting = self.base, self.setting
        begin = len(setting.cost)
        entries: list[tuple[Ints, Array]] = []
        for t, _, slope, lift in self.rows:
            used = np.flatnonzero(np.abs(slope) > _LEAST)
            columns, values = [setting.linked[t][used]], [-slope[used]]
            if len(setting.first.waive):
                columns.append(setting.first.waive)
                values.append(-lift)
            columns.append(np.array([begin + t]))
            values.append(np.ones(1))
            entries.append((np.concatenate(columns), np.concatenate(values)))
        starts = np.concatenate([[0], np.cumsum([len(c) for c, _ in entries])])
        cuts = sparse.csr_array(
            (
                np.concatenate([v for _, v in entries]) if entries else np.zeros(0),
                np.concatenate([c for c, _ in entries]) if entries else np.zeros(0, dtype=int),
                starts,
            ),
            shape=(len(entries), len(base.cost)),
        )
        return ArrayModel(
            sense="min",
            cost=base.cost,
            matrix=sparse.vstack([base.matrix, cuts], format="csr"),
            row_lower=np.concatenate([base.row_lower, [row[1] for row in self.rows]]),
            row_upper=np.concatenate([base.row_upper, np.full(len(entries), np.inf)]),
            lower=base.lower,
            upper=base.upper,
            integer=base.integer,
            offset=base.offset,
        )

    def program(self, fixed: tuple[Ints, Array, Array] | None = None) -> ArrayModel:
        """Return the program with some columns between other bounds."""
        model = self.model()
        if fixed is None:
            return model
        columns, lower, upper = fixed
        low, high = model.lower.copy(), model.upper.copy()
        low[columns], high[columns] = lower, upper
        return replace(model, lower=low, upper=high)

    def forget(self, points: Sequence[Array]) -> None:
        """Drop rows that have been slack at the optima for long, if there are many."""
        if not points:
            return
        model, begin = self.model(), len(self.base.row_lower)
        low = model.row_lower[begin:]
        tight = np.zeros(len(low), dtype=bool)
        for values in points:
            slack = (model.matrix[begin:] @ values) - low
            tight |= slack <= 1e-7 * np.maximum(1.0, np.abs(low))
        for i, is_tight in enumerate(tight.tolist()):
            self._idle[i] = min(self._idle[i], 0) if is_tight else self._idle[i] + 1
        if len(self.rows) > _MAX_ROWS:
            stay = [i for i, idle in enumerate(self._idle) if idle <= _MAX_IDLE]
            self.rows = [self.rows[i] for i in stay]
            self._idle = [self._idle[i] for i in stay]
