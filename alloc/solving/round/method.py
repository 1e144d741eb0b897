"""The specialised exact method of F1: dual prices, then a small core.

The Lagrangian dual has one price per capacity row. It is found by cutting planes in milliseconds;
at its optimum the relaxation is as strong as the LP. A column whose reduced cost exceeds the
distance between the dual bound and an incumbent is in no better solution, so what is left, the core
(Balas and Zemel 1980), is small, and HiGHS solves it exactly. With a proof, what a few relaxations
decide takes no integer solver (`alloc.backends.second_proof.solve_small`), and where there is room
for every job's best choice, prices of 0 prove it. Of a tiny round all joint choices are looked at
(`alloc.solving.round.looking_at_all`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from alloc.algorithms.multipliers import DualMinimum, minimise_dual
from alloc.backends import SolverOptions, highs
from alloc.backends.scaling import power_of_two
from alloc.backends.second_proof import solve_and_prove, solve_small
from alloc.certificate import OPTIMALITY_GAP, BoundProof, Limit
from alloc.families import FAMILIES
from alloc.formulation import Array, ArrayModel, BuiltModel, RawResult
from alloc.models.host_conflicts import Conflict
from alloc.models.round import RoundData, build_arrays, round_data
from alloc.models.round.arrays import array_model
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Solution
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.refinement import Question, solve_refined
from alloc.solving.round.looking_at_all import best_of_all

_T = TypeVar("_T", bound=np.generic)
_FIRST_CORE = 300
"""Columns in the first core: HiGHS solves so many in about ten milliseconds."""
_SMALL_CORE = 60
"""The same where the optimum needs no second proof, or a solution is known: a few columns most
often suffice. With 60 the longest decision of `rollout` on elastic-medium/07 takes half as long as
with 300, and those of exact rounds with 5,000 jobs spend half the time in HiGHS."""


@dataclass(frozen=True)
class RoundSolution:
    """An answer to a round.

    Parameters
    ----------
    x
        The solution, shape (N,).
    value
        Its utility.
    bound
        A proved upper bound on any utility.
    prices
        Prices of one unit of each capacity row by which the core was chosen, shape (R,); 0 where it
        is all columns (`dual_prices` has them always).
    price_bound
        The bound that these prices alone prove.
    core
        Number of columns handed to HiGHS last.
    limit
        What stopped the search early: time, nodes or an interrupt; None: nothing.
    proof
        On whose word the bound is.
    """

    x: Array
    value: float
    bound: float
    prices: Array
    price_bound: float
    core: int
    limit: Limit | None
    proof: BoundProof = "recomputed"


class PricedRound:
    """A round with its dual function."""

    def __init__(self, data: RoundData) -> None:
        self.data = data
        # A class whose configurations all exceed the cluster has no columns.
        self.filled = np.flatnonzero(np.diff(data.first) > 0)
        self.starts = data.first[self.filled]
        self.count = data.count[self.filled].astype(float)
        self.width = np.diff(data.first)[self.filled]
        # The class of each column, among those with columns.
        self._of = np.repeat(np.arange(len(self.filled)), self.width)

    def reduced(self, prices: Array) -> Array:
        """Return u - a prices of each column, shape (N,)."""
        return self.data.utility - self.data.use @ prices

    def best(self, reduced: Array) -> Array:
        """Return the best value of one job of each filled class, 0 when it had better not run."""
        return np.maximum(np.maximum.reduceat(reduced, self.starts), 0.0)

    def of_class(self, values: npt.NDArray[_T]) -> npt.NDArray[_T]:
        """Return for each column what each filled class has, shape (N,)."""
        return values[self._of]

    def chosen(self, reduced: Array, best: Array) -> Array:
        """Return x of the relaxed choice: every job in its best column, or none.

        Parameters
        ----------
        reduced
            Reduced utility of each column, as `reduced` returns it, shape (N,).
        best
            Best value of each filled class, as `best` returns it.
        """
        columns, count = self._choice(reduced, best)
        x = np.zeros(len(reduced))
        x[columns] = count
        return x

    def _choice(self, reduced: Array, best: Array) -> tuple[npt.NDArray[np.int64], Array]:
        """Return the columns of the relaxed choice, and how many jobs take each."""
        at_best = np.flatnonzero(reduced >= best[self._of])
        own = self._of[at_best]
        first = np.append(True, own[1:] != own[:-1])[: len(own)]  # of equals the first
        at_best, own = at_best[first], own[first]
        runs = best[own] > 0
        return at_best[runs], self.count[own[runs]]

    def dual(self, prices: Array) -> tuple[float, Array]:
        """Return the dual function and a subgradient."""
        reduced = self.reduced(prices)
        best = self.best(reduced)
        columns, count = self._choice(reduced, best)
        capacity = self.data.rows.capacity
        slack = capacity - count @ self.data.use[columns]
        return float(prices @ capacity + self.count @ best), slack


def price_bound(data: RoundData, prices: Array) -> float:
    """Return the upper bound that prices prove by weak duality, in plain numpy.

    ``sum_r B_r p_r + sum_k n_k max(0, max_c u_kc - sum_r a_kcr p_r)`` for any prices p >= 0.

    Parameters
    ----------
    data
        The round.
    prices
        Price of a unit of each capacity row, in utility; a negative one counts as 0.
    """
    return PricedRound(data).dual(np.maximum(prices, 0.0))[0] if len(data.utility) else 0.0


def optimise_round(
    data: RoundData,
    *,
    gap: float = OPTIMALITY_GAP,
    settings: Settings | None = None,
    prove: bool = False,
    known: float = 0.0,
    stoppable: bool = False,
) -> RoundSolution:
    """Solve a round to a relative gap.

    Parameters
    ----------
    data
        The round.
    gap
        Relative gap at which to stop.
    settings
        Time limit and seed.
    prove
        Whether to prove the optimum of a small core a second time, without the solver's word.
    known
        Utility of a solution that the caller has. Only better ones are looked for: where none is
        found, ``x`` is 0 and ``value`` this.
    stoppable
        Whether Ctrl-C while HiGHS works ends the search, and what was found is returned.
    """
    settings = settings or Settings()
    num_rows = len(data.rows.names)
    largest = float(data.utility.max(initial=0.0))
    if largest <= 0:
        nothing = np.zeros(len(data.utility))
        return RoundSolution(nothing, 0.0, 0.0, np.zeros(num_rows), 0.0, 0, None)
    # Every column fits by itself, so the optimum is at least the largest utility: about 1 here.
    unit = power_of_two(largest)
    scaled = replace(data, utility=data.utility * unit)
    found = _optimise(scaled, gap, settings, prove, known * unit, stoppable)
    return replace(
        found,
        value=found.value / unit,
        bound=found.bound / unit,
        prices=found.prices / unit,
        price_bound=found.price_bound / unit,
    )


def _optimise(
    data: RoundData, gap: float, settings: Settings, prove: bool, known: float, stoppable: bool
) -> RoundSolution:
    """Solve a round whose largest utility is about 1."""
    priced = PricedRound(data)
    if prove and known == 0 and (plentiful := _without_prices(priced)) is not None:
        return plentiful
    if prove and known == 0 and (tiny := _by_all_choices(priced)) is not None:
        return tiny
    # Prices choose the core; where that is all columns, HiGHS' root relaxation has them again.
    if known == 0 and len(data.utility) <= _FIRST_CORE:
        prices = np.zeros(len(data.rows.names))
        value = priced.dual(prices)[0]
    else:
        minimum = _dual_minimum(priced, settings)
        prices, value = minimum.multipliers, minimum.value
    return _solve_core(priced, prices, value, gap, settings, prove, known, stoppable)


def _without_prices(priced: PricedRound) -> RoundSolution | None:
    """Return every job's best choice if there is room for all of them: prices of 0 prove it."""
    data = priced.data
    best = priced.best(data.utility)
    x = priced.chosen(data.utility, best)
    if (x @ data.use > data.rows.capacity).any():
        return None
    value = float(data.utility @ x)
    bound = max(float(priced.count @ best), value)
    return RoundSolution(x, value, bound, np.zeros(len(data.rows.names)), bound, 0, None)


def _by_all_choices(priced: PricedRound) -> RoundSolution | None:
    """Return the best of all joint choices where there are few of them."""
    data = priced.data
    found = best_of_all(data)
    if found is None:
        return None
    x, bound = found
    value = float(data.utility @ x)
    nothing = np.zeros(len(data.rows.names))
    root = priced.dual(nothing)[0]
    return RoundSolution(x, value, max(bound, value), nothing, root, 0, None)


def dual_prices(data: RoundData, settings: Settings | None = None) -> Array:
    """Return the prices of one unit of each capacity row with the least bound, shape (R,).

    Parameters
    ----------
    data
        The round.
    settings
        Limits: at the end of the time the best prices so far. By default there is none.
    """
    largest = float(data.utility.max(initial=0.0))
    if largest <= 0:
        return np.zeros(len(data.rows.names))
    unit = power_of_two(largest)
    scaled = replace(data, utility=data.utility * unit)
    return _dual_minimum(PricedRound(scaled), settings or Settings(math.inf)).multipliers / unit


def _dual_minimum(priced: PricedRound, settings: Settings) -> DualMinimum:
    """Return the prices with the least bound, for a round whose largest utility is about 1."""
    data = priced.data
    # Rows in units of their capacity, so that prices are comparable.
    unit = np.where(data.rows.capacity > 0, data.rows.capacity, 1.0)
    limits = np.full(len(unit), 1e-9)
    for r in range(len(unit)):
        touching = data.use[:, r] > 0
        if touching.any():
            limits[r] = (data.utility[touching] / data.use[touching, r]).max() * unit[r]

    def scaled(prices: Array) -> tuple[float, Array]:
        value, gradient = priced.dual(prices / unit)
        return value, gradient / unit

    minimum = minimise_dual(scaled, limits, is_over=settings.time_is_up)
    return replace(minimum, multipliers=minimum.multipliers / unit)


def _solve_core(
    priced: PricedRound,
    prices: Array,
    dual_value: float,
    gap: float,
    settings: Settings,
    prove: bool,
    known: float,
    stoppable: bool,
) -> RoundSolution:
    """Solve growing cores until the answer is proved to the gap or time is up."""
    data = priced.data
    reduced = priced.reduced(prices)
    best = priced.best(reduced)
    # What a job loses against its best choice if it takes this column, or none.
    loss = priced.of_class(best) - reduced
    base = priced.chosen(reduced, best)
    incumbent = np.zeros(len(reduced))
    value, bound, core = known, dual_value, 0
    proof: BoundProof = "recomputed"
    losses = loss[loss > 0]
    # A core of all columns must not hold any job to its only column: reach is then without end.
    first = _FIRST_CORE if prove and known == 0 else _SMALL_CORE
    reach = float(np.partition(losses, first - 1)[first - 1]) if len(losses) > first else np.inf
    if known > 0:
        # What is better than the known solution loses less than it does.
        reach = min(reach, (dual_value - known) * (1 + 1e-9) + 1e-12)
    while True:
        in_core = loss <= reach
        core = int(in_core.sum())
        x, core_bound, core_proof, limit = _solve_columns(
            priced, in_core, best > reach, base, gap, settings, prove, stoppable
        )
        found = float(data.utility @ x)
        if found > value:
            incumbent, value = x, found
        distance = dual_value - value
        # Is every solution better than the incumbent in the core?
        if reach >= distance and max(core_bound, value) < bound:
            bound, proof = max(core_bound, value), core_proof
        if bound - value <= gap * value or limit or reach >= distance:
            break
        reach = distance * (1 + 1e-9) + 1e-12
    return RoundSolution(incumbent, value, bound, prices, dual_value, core, limit, proof)


def _solve_columns(
    priced: PricedRound,
    in_core: np.ndarray,
    must_run: np.ndarray,
    base: Array,
    gap: float,
    settings: Settings,
    prove: bool,
    stoppable: bool,
) -> tuple[Array, float, BoundProof, Limit | None]:
    """Solve the round over the core's columns; return x, their bound, its proof, and a limit hit.

    Classes whose only column in the core is the one they take anyway are fixed to it.
    """
    data = priced.data
    per_class = np.add.reduceat(in_core.astype(np.int64), priced.starts)
    fixed_class = must_run & (per_class == 1)
    fixed_column = priced.of_class(fixed_class) & in_core
    x = np.where(fixed_column, base, 0.0)
    left = data.rows.capacity - x @ data.use
    free = np.flatnonzero(in_core & ~fixed_column)
    if (left < 0).any():
        # The fixed part alone is over capacity: let it all float.
        free, x, left = np.flatnonzero(in_core), np.zeros(len(base)), data.rows.capacity
    fixed_value = float(data.utility @ x)
    if not len(free):
        return x, fixed_value, "recomputed", None
    model = replace(array_model(_restrict(data, free, left)), offset=fixed_value)
    options = SolverOptions(
        settings.seconds_left(),
        settings.seed,
        settings.workers,
        gap=gap / 2,
        nodes=settings.nodes,
        stoppable=stoppable,
    )
    if prove:
        raw = solve_small(model, options)
        if raw is None:
            raw = solve_and_prove(model, replace(options, time_limit_s=settings.seconds_left()))
    else:
        raw = highs.solve(model, options)
    if raw.status == "infeasible":
        # It is not: nothing need run. So nothing is proved; the prices' bound stands.
        return x, np.inf, "none", None
    if raw.values is not None:
        x[free] = np.rint(raw.values)
    return x, raw.bound, raw.bound_proof, raw.limit


def _restrict(data: RoundData, columns: np.ndarray, capacity: Array) -> RoundData:
    """Return the round with some columns only, rising, and other capacities."""
    class_of = np.searchsorted(data.first, columns, side="right") - 1
    kept, width = np.unique(class_of, return_counts=True)
    return replace(
        data,
        members=tuple([data.members[k] for k in kept.tolist()]),
        count=data.count[kept],
        first=np.append(0, np.cumsum(width)),
        configuration=data.configuration[columns],
        utility=data.utility[columns],
        use=data.use[columns],
        rows=replace(data.rows, capacity=capacity),
    )


def solve_round(
    instance: Instance,
    objective: str,
    settings: Settings,
    warm_start: Solution | None,
    report: Callable[[str], None],
) -> Outcome[Solution]:
    """Solve the first slot of an instance: the method behind ``solve(..., "round")``.

    Parameters
    ----------
    instance
        The instance; jobs are asked for the slot that starts at 0.
    objective
        Name of a round utility.
    settings
        Limits.
    warm_start
        Not used: prices lead to the core at once.
    report
        Takes a line of progress.
    """
    data = round_data(instance, objective)
    started = time.perf_counter()
    answer = optimise_round(data, settings=settings, prove=True, stoppable=True)
    report(
        f"prices {', '.join(f'{price:.4g}' for price in answer.prices)} prove "
        f"{answer.price_bound:g}; "
        f"core of {answer.core} of {len(data.utility)} columns solved in "
        f"{time.perf_counter() - started:.3f} s"
    )
    bound, proof = answer.bound, answer.proof
    limit = answer.limit
    conflict = None
    try:
        allocation = data.allocation(answer.x, exact=limit != "interrupt")
        if len(allocation.assignments) < round(answer.x.sum()) and limit is None:
            conflict = data.conflict(answer.x)
    except KeyboardInterrupt:
        allocation, limit = data.allocation(answer.x), "interrupt"
    if conflict is not None:
        raw, allocation = _solve_on_hosts(
            instance, objective, settings, allocation, conflict, report
        )
        if raw.bound < bound:
            bound, proof = raw.bound, raw.bound_proof
        limit = raw.limit
    return Outcome(
        solution=allocation,
        bound=bound,
        bound_proof=proof,
        backend="alloc dual prices + HiGHS core",
        backend_version=highs.version(),
        limit=limit,
    )


def _solve_on_hosts(
    instance: Instance,
    objective: str,
    settings: Settings,
    known: Allocation,
    conflict: Conflict,
    report: Callable[[str], None],
) -> tuple[RawResult, Allocation]:
    """Solve a round whose best answer by the totals does not stand on the hosts."""

    def run(built: BuiltModel) -> RawResult:
        assert isinstance(built.model, ArrayModel)
        start = None if built.start is None else built.start(known)
        options = SolverOptions(
            settings.seconds_left(),
            settings.seed,
            settings.workers,
            gap=OPTIMALITY_GAP / 2,
            start=start,
            stoppable=True,
        )
        return solve_and_prove(built.model, options)

    return solve_refined(
        Question(instance, FAMILIES["round"], objective),
        build_arrays(instance, objective, (conflict,)),
        run,
        settings,
        report,
        known,
    )
