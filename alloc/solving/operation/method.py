"""Solving a decision in operation: the aggregated model, its proved bound, and named policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from alloc.backends import SolverOptions
from alloc.backends.highs import version
from alloc.backends.linear_program import LinearProgram
from alloc.backends.second_proof import solve_and_prove
from alloc.certificate import BoundProof, Limit, is_within
from alloc.formulation import Array, ArrayModel, RawResult
from alloc.models.operation.arrays import OperationArrays, operation_arrays
from alloc.models.operation.data import operation_data
from alloc.models.operation.unrolling import plan_of, values_of
from alloc.problems.operation.problem import OperationPlan, OperationProblem
from alloc.problems.operation.report import OperationCosts
from alloc.solving.operation.rules import cheapest_insertion, pressure_order
from alloc.solving.outcome import Outcome, Settings
from alloc.units import format_number
from alloc.verification.operation import operation_costs

Report = Callable[[str], None]

_DIVE_COLUMNS = 3000
"""Columns of a first integer program over the most promising: its plan leaves few in play."""


def by_aggregation(
    problem: OperationProblem,
    objective: str,
    settings: Settings,
    start: OperationPlan | None,
    report: Report,
) -> Outcome[OperationPlan]:
    """Return the best plan found and a proved bound on every plan.

    A greedy plan is there after milliseconds; the linear relaxation of the aggregated model gives
    a bound that is proved again in numpy from its multipliers; an integer program over the columns
    that these two leave in play ends it. Whatever the time limit, the best plan is returned.

    Parameters
    ----------
    problem
        The decision: jobs, nodes and prices.
    objective
        Name of the objective, ``operation-cost``.
    settings
        Limits.
    start
        A plan to start from, or None; the answer is never worse.
    report
        Takes a line of progress.
    """
    search = _Search(problem, settings, objective, report)
    if start is not None:
        search.offer(start, "start")
    try:
        search.run()
    except KeyboardInterrupt:
        search.limit = "interrupt"
    return search.outcome()


class _Search:
    """The state of a solve: incumbent, bound, log."""

    def __init__(
        self,
        problem: OperationProblem,
        settings: Settings,
        objective: str,
        report: Report,
    ) -> None:
        self.problem, self.settings, self.objective = problem, settings, objective
        self.data = operation_data(problem, objective)
        self.plan = OperationPlan((), tuple(job.id for job in problem.jobs))
        self.value = self._cost(self.plan).total
        self.bound = self._trivial_bound()
        self.proof: BoundProof = "recomputed"
        self.limit: Limit | None = None
        self._say = report

    def run(self) -> None:
        self.offer(cheapest_insertion(self.data, pressure_order(self.data)).plan(), "greedy")
        if not self.problem.jobs or self._done():
            return
        arrays = operation_arrays(self.data)
        prices = self._relaxed(arrays.model)
        if prices is None or self._done():
            return
        reduced, bound = reduced_costs(arrays, prices)
        self.raise_bound(bound, "recomputed", "linear relaxation")
        if self._done():
            return
        if self._in_play(reduced).sum() > 2 * _DIVE_COLUMNS:
            some = reduced <= np.partition(reduced, _DIVE_COLUMNS)[_DIVE_COLUMNS]
            self._integer(arrays, some, 0.3)
            if self._done():
                return
        raw = self._integer(arrays, self._in_play(reduced), 1.0)
        # The incumbent is among its solutions: whoever calls it infeasible proves nothing.
        if raw.status != "infeasible":
            self.raise_bound(min(raw.bound, self.value), raw.bound_proof, "integer program")

    def offer(self, plan: OperationPlan, who: str) -> None:
        """Take a plan if it is the best so far."""
        cost = self._cost(plan).total
        if cost < self.value:
            self.plan, self.value = plan, cost
        self._say(f"{who}: cost {format_number(cost)}")

    def raise_bound(self, bound: float, proof: BoundProof, who: str) -> None:
        """Take a bound if it is the best so far."""
        if bound > self.bound:
            self.bound, self.proof = bound, proof
        self._say(f"{who}: bound {format_number(bound)}")

    def _cost(self, plan: OperationPlan) -> OperationCosts:
        return operation_costs(self.problem, plan, self.objective)

    def _trivial_bound(self) -> float:
        """Each job at the least that it can cost by itself, on nodes without charge."""
        least = np.minimum(self.data.wait_cost, self.data.run_cost.min(axis=(1, 2)))
        return float(least.sum())

    def _in_play(self, reduced: Array) -> npt.NDArray[np.bool_]:
        """Return the columns that a better plan can have: a higher reduced cost is too much."""
        return reduced <= (self.value - self.bound) * (1 + 1e-6) + 1e-9 * abs(self.value)

    def _done(self) -> bool:
        if is_within(self.value, self.bound, self.settings.gap):
            return True
        if self.limit == "interrupt":
            return True
        if self.settings.seconds_left() <= 0:
            self.limit = "time"
            return True
        return False

    def _relaxed(self, model: ArrayModel) -> Array | None:
        """Return the multipliers of the linear relaxation, or None when time is up."""
        program = LinearProgram(model, seed=self.settings.seed)
        found = program.solve(self.settings.seconds_left(), stop_on_interrupt=True)
        self.limit = "interrupt" if program.interrupted else None
        if found is None:
            self.limit = self.limit or "time"
            return None
        return found.duals

    def _integer(
        self, arrays: OperationArrays, in_play: npt.NDArray[np.bool_], part: float
    ) -> RawResult:
        """Solve the integer program over some columns; return what is proved about it."""
        start = values_of(arrays, self.plan)
        keep = np.flatnonzero(in_play | (start > 0) | (arrays.kind >= 2))
        model = arrays.model
        reduced = replace(
            model,
            cost=model.cost[keep],
            matrix=model.matrix[:, keep],
            lower=model.lower[keep],
            upper=model.upper[keep],
            integer=model.integer[keep],
        )
        options = SolverOptions(
            self.settings.seconds_left() * part,
            self.settings.seed,
            self.settings.workers,
            self.settings.gap,
            start[keep],
            stoppable=True,
        )
        raw = solve_and_prove(reduced, options)
        if raw.values is not None:
            values: Array = np.zeros(len(start))
            values[keep] = raw.values
            self.offer(plan_of(arrays, values), f"integer program over {len(keep):,} columns")
        self.limit = raw.limit
        return raw

    def outcome(self) -> Outcome[OperationPlan]:
        """Return what was found."""
        return Outcome(self.plan, self.bound, self.proof, "aggregated", version(), limit=self.limit)


def reduced_costs(arrays: OperationArrays, prices: Array) -> tuple[Array, float]:
    """Return reduced costs, and the bound that the prices prove by weak duality, in plain numpy.

    Every job takes one of its columns, so it costs at least the least of theirs at the prices of
    the other rows; every other column lies between its limits.

    Parameters
    ----------
    arrays
        The aggregated model.
    prices
        A multiplier for each row, of any sign and quality, shape (rows,).
    """
    model = arrays.model
    rows = model.rows["A1_jobs"]
    price = np.array(prices)
    price[rows] = 0.0
    # A row with one limit only takes multipliers of one sign.
    price = np.where(np.isneginf(model.row_lower), np.minimum(price, 0.0), price)
    price = np.where(np.isposinf(model.row_upper), np.maximum(price, 0.0), price)
    limit = np.where(price > 0, model.row_lower, model.row_upper)
    bound = float((price * np.where(price == 0, 0.0, limit)).sum())
    reduced: Array = model.cost - model.matrix.T @ price
    least = np.full(arrays.data.num_jobs, np.inf)
    np.minimum.at(least, arrays.owner[arrays.is_jobs], reduced[arrays.is_jobs])
    bound += float(least.sum())
    others = ~arrays.is_jobs
    bound += float((np.minimum(reduced[others], 0.0) * model.upper[others]).sum())
    reduced[arrays.is_jobs] -= least[arrays.owner[arrays.is_jobs]]
    return reduced, bound
