"""A second proof of what HiGHS calls optimal, where it is cheap.

A small program is searched again by branch and bound of our own: linear relaxations from HiGHS say
which multipliers to take, and weak duality in numpy says what they prove, at every leaf. So neither
presolve nor cuts nor a tolerance of the solver is in the bound. A program whose tree is too large
for that is solved once more by HiGHS without presolve and from another seed. The same search alone
solves a program that ends after a few nodes (`solve_small`, `search_and_solve`).
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.column_bounds import bounded
from alloc.backends.interrupts import Stop, stoppable
from alloc.backends.linear_program import CLOSELY, LinearProgram, LinearSolution
from alloc.backends.scaling import Scaling
from alloc.backends.weak_duality import WeakDuality, plain
from alloc.certificate import OPTIMALITY_GAP, BoundProof, beats, is_within
from alloc.formulation import Array, ArrayModel, RawResult

MAX_ENTRIES = 2_000
"""Entries of the matrix up to which a program is small: a relaxation takes about a millisecond."""
_WORK = 50_000
"""Entries times leaves that may be looked at, some twenty milliseconds."""
_MAX_NODES = 100
"""Relaxations where no other number is given: up to `MAX_ENTRIES` about a tenth of a second."""
_MAX_ENTRIES_FIRST, _MAX_NODES_FIRST, _WORK_FIRST = 30_000, 200, 3_000_000
"""The same for a search that comes before HiGHS. Of 62 capacity plans that were drawn, of up to
20,000 entries, 55 end within. HiGHS takes as long for those of up to 1,000 entries, and up to ten
times as long for those above 5,000."""
_LEAST_S_FIRST = 0.4
"""Seconds from which on it may: in less HiGHS, which rounds at once, is the surer way to a
solution."""
_FEW_NODES = 40
"""Relaxations that take as long as HiGHS does with a small program, and the proof after it: some
fifteen milliseconds. All but one of 33 contended rounds of 20 to 100 jobs end before."""
_BRIEF_S = 0.25
"""For the second run of HiGHS at most, for the tree at least, seconds."""
_USED = 0.5
"""Part of a gap at which a leaf is closed: the rest is for a solution that costs a little less than
is proved, as one may that keeps its rows within a tolerance."""
_WHOLE = 1e-6
"""Distance from a whole number that counts as none, as HiGHS has it."""
_NOTHING = 1e-9
"""Amount of the cheapest column that counts as none: an objective of 0 has no relative gap, and
rounding makes 1e-16 of it."""


def solve_small(model: ArrayModel, options: SolverOptions) -> RawResult | None:
    """Solve a small program by the search of the second proof alone: one proof, no second needed.

    Most small programs end after a relaxation or two. HiGHS' branch and bound takes as long before
    it begins, and its word would be proved again.

    Parameters
    ----------
    model
        A minimisation or maximisation.
    options
        Its time limit, of which half is used at most, and a solution to begin with; where that is
        none of whole numbers, the lower limits of the columns are. The gap is that of an optimum.

    Returns
    -------
    RawResult or None
        The optimum, with its bound recomputed; None where a few nodes do not prove one, where not
        all columns and their limits are whole numbers, or where there is nothing to begin with.
    """
    if model.matrix.nnz > MAX_ENTRIES or not model.integer.all():
        return None
    model = bounded(model)
    limits = np.concatenate([model.lower, model.upper])
    if not np.isfinite(model.lower).all() or (limits != np.rint(limits)).any():
        return None
    begin, start = model.lower, options.start
    # What is unknown of a start is not a number, and equals nothing.
    if start is not None and (np.clip(np.rint(start), model.lower, model.upper) == start).all():
        begin = start
    value = float(model.cost @ begin) + model.offset
    # A simplex method that goes round in circles leaves half the time to others.
    search = _Tree(model, value, begin, options.time_limit_s / 2, is_claimed=False)
    if not search.holds(begin) or not search.run(Stop(), _FEW_NODES):
        return None
    return RawResult(
        "optimal", search.values, search.value, search.bound, None, "Optimal", "recomputed"
    )


def solve_and_prove(
    model: ArrayModel, options: SolverOptions, enough: float | None = None
) -> RawResult:
    """Solve with HiGHS, and prove an optimum a second time where that is cheap.

    Parameters
    ----------
    model
        The program.
    options
        Limits of the search; the time limit holds for both together.
    enough
        As in `with_proof`.
    """
    began = time.perf_counter()
    raw = highs.solve(model, options)
    left = options.time_limit_s - (time.perf_counter() - began)
    return with_proof(model, raw, replace(options, time_limit_s=max(left, 0.0)), enough)


def search_and_solve(model: ArrayModel, options: SolverOptions) -> RawResult:
    """Solve by the search of the second proof, and by HiGHS where that does not end.

    Best first, the search looks at about the same relaxations whether or not it knows the optimum.
    So it comes before HiGHS. Where it fails, a second proof would too, and HiGHS solves a small
    program twice. Large ones, and all in little time, go to `solve_and_prove` at once.

    Parameters
    ----------
    model
        A minimisation or maximisation with integer columns.
    options
        As HiGHS takes them. The search begins with a start of which all columns are known.
    """
    if model.matrix.nnz > _MAX_ENTRIES_FIRST or options.time_limit_s < _LEAST_S_FIRST:
        return solve_and_prove(model, options)
    began = time.perf_counter()
    nothing = np.full(len(model.cost), np.nan)
    worst = np.inf if model.sense == "min" else -np.inf
    # A simplex method that goes round in circles leaves half the time to others.
    half = options.time_limit_s / 2
    search = _Tree(bounded(model), worst, nothing, half, gap=options.gap, is_claimed=False)
    if options.start is not None and np.isfinite(options.start).all():
        search.take(options.start)
    with stoppable() if options.stoppable else nullcontext(Stop()) as stop:
        search.program.end_with(stop)
        is_over = search.run(stop, _MAX_NODES_FIRST, _WORK_FIRST) and np.isfinite(search.value)
    if is_over:
        raw = RawResult(
            "optimal", search.values, search.value, search.bound, None, "Optimal", "recomputed"
        )
        return replace(raw, limit="interrupt") if stop.pressed else raw
    if stop.pressed:
        raw = RawResult("no_solution", None, None, -worst, "interrupt", "Interrupted", "none")
        return _with_found(model, raw, search)
    left = options.time_limit_s - (time.perf_counter() - began)
    raw = highs.solve(model, replace(options, time_limit_s=max(left, 0.0)))
    if raw.status != "optimal" or model.matrix.nnz > MAX_ENTRIES:
        return _with_found(model, raw, search)
    left = options.time_limit_s - (time.perf_counter() - began)
    better = _with_solution(model, raw, search)
    return _by_second_run(model, raw, better, replace(options, time_limit_s=left), search)


def _with_solution(model: ArrayModel, raw: RawResult, search: _Tree) -> RawResult:
    """Return what HiGHS says, with the best solution that a search before it has met, if better."""
    known = raw.objective
    if search.is_better and (known is None or beats(search.value, known, model.sense)):
        return replace(raw, values=search.values, objective=search.value)
    return raw


def _with_found(model: ArrayModel, raw: RawResult, search: _Tree) -> RawResult:
    """Return what HiGHS says, with what a search before it has met and proved, if better.

    Of a limit, or a program that is called infeasible, its solution makes a feasible one. Of a
    bound that it beats nothing is left.
    """
    found = _with_solution(model, raw, search)
    is_false = raw.status == "infeasible" or beats(search.value, raw.bound, model.sense)
    if found is not raw and (is_false or raw.status != "optimal"):
        found = replace(found, status="feasible")
    is_refuted = found is not raw and is_false
    if is_refuted or (not is_false and search.sign * (search.proved - raw.bound) > 0):
        return replace(found, bound=search.proved, bound_proof=search.proof)
    return found


def with_proof(
    model: ArrayModel, raw: RawResult, options: SolverOptions, enough: float | None = None
) -> RawResult:
    """Return an optimum with its bound proved again, or as it is where that is not cheap.

    If the search meets a better solution than the one called optimal, that one is returned, and the
    bound is what was proved until then.

    Parameters
    ----------
    model
        A minimisation or maximisation with integer columns.
    raw
        What HiGHS says of it.
    options
        What it was solved with, and the time that is left.
    enough
        A bound as good as the optimum to who asks, or None. A search that proves it may end there,
        after a tenth of the relaxations, and calls the solution feasible.
    """
    if raw.status != "optimal" or raw.values is None or raw.objective is None:
        return raw
    if model.matrix.nnz > MAX_ENTRIES:
        return raw
    with stoppable() if options.stoppable else nullcontext(Stop()) as stop:
        found = _proved_again(model, raw, options, stop, enough)
    # Also where it was over already: whoever pressed Ctrl-C wants no more of what comes next.
    return replace(found, limit="interrupt") if stop.pressed else found


def _proved_again(
    model: ArrayModel, raw: RawResult, options: SolverOptions, stop: Stop, enough: float | None
) -> RawResult:
    """Search a small program again; see `with_proof`."""
    assert raw.objective is not None
    assert raw.values is not None
    search = _Tree(bounded(model), raw.objective, raw.values, max(options.time_limit_s, _BRIEF_S))
    search.enough = enough
    search.program.end_with(stop)
    proved = search.run(stop)
    found = replace(raw, values=search.values, objective=search.value)
    if proved:
        is_optimal = is_within(search.value, search.bound, OPTIMALITY_GAP)
        status = found.status if enough is None or is_optimal else "feasible"
        return replace(found, status=status, bound=search.bound, bound_proof="recomputed")
    if stop.pressed:
        raw = replace(raw, limit="interrupt")
        found = replace(found, limit="interrupt")
    return _by_second_run(model, raw, found if search.is_better else raw, options, search)


def _by_second_run(
    model: ArrayModel, raw: RawResult, better: RawResult, options: SolverOptions, search: _Tree
) -> RawResult:
    """Return what a second run of HiGHS makes of an optimum that the search has not proved.

    Parameters
    ----------
    model, raw, options
        As `with_proof` has them.
    better
        The same with the best solution that the search has met, or `raw`.
    search
        The search.
    """
    assert raw.objective is not None
    assert better.objective is not None
    # Of a gap that was allowed the second run would leave as much, and confirm nothing; and it
    # leaves room for better solutions.
    is_exact = is_within(raw.objective, raw.bound, OPTIMALITY_GAP)
    if not is_exact and not beats(better.objective, raw.bound, model.sense):
        return better
    confirmed = _confirmed(model, better, options, search) if is_exact else None
    if confirmed is not None or better is raw:
        return confirmed or raw
    # The claim was false; of its bound nothing is left.
    return replace(better, status="feasible", bound=search.proved, bound_proof=search.proof)


def _confirmed(
    model: ArrayModel, raw: RawResult, options: SolverOptions, search: _Tree
) -> RawResult | None:
    """Return an optimum that a second run of HiGHS proves too, as confirmed; None if it does not.

    Where a solution refutes the first run, the word of the second is a claim for itself.
    """
    brief = replace(
        options,
        time_limit_s=min(options.time_limit_s, _BRIEF_S),
        seed=options.seed + 1,
        presolve=False,
        start=None,
        stoppable=False,
    )
    if brief.time_limit_s <= 0 or raw.limit == "interrupt" or raw.objective is None:
        return None
    again = highs.solve(model, brief)
    closer = min if model.sense == "min" else max
    other = None if again.values is None else search.kept(again.values)
    if other is not None:
        value = float(model.cost @ other) + model.offset
        if beats(value, raw.bound, model.sense) and closer(value, raw.objective) == value:
            # Whatever the first run says, here is a better solution.
            return replace(again, values=other, objective=value, limit=raw.limit)
    if not is_within(raw.objective, again.bound, OPTIMALITY_GAP):
        return None
    # A bound that is beaten confirms nothing.
    proof: BoundProof = "confirmed"
    if beats(raw.objective, raw.bound, model.sense):
        proof = "claimed"
    return replace(raw, bound=closer(raw.bound, again.bound), bound_proof=proof)


class _Tree:
    """Best-first branch and bound that closes a leaf only by a bound proved in numpy."""

    def __init__(
        self,
        model: ArrayModel,
        value: float,
        values: Array,
        seconds: float,
        *,
        gap: float = 0.0,
        is_claimed: bool = True,
    ) -> None:
        self.allowed = _USED * max(gap, OPTIMALITY_GAP)
        # A few nodes more are nothing, and prove an optimum.
        self.gap = _USED * OPTIMALITY_GAP
        self.sign = 1.0 if model.sense == "min" else -1.0
        self.model, self.value, self.values = model, value, values
        self.is_claimed, self.is_better = is_claimed, False
        self.is_pure = bool(model.integer.all())
        self.switches = model.integer & (model.upper - model.lower == 1.0) & (not self.is_pure)
        self.program = LinearProgram(model, presolve=False, method="simplex", tolerance=CLOSELY)
        self.duality = WeakDuality(model)
        self.matrix = plain(model.matrix)
        self.sizes = abs(self.matrix)
        self.step = _step(model)
        # Where the value is no more than a beginning, it says nothing of the size of an optimum.
        units = Scaling.of(model).columns if is_claimed else np.ones(len(model.cost))
        self.nothing = _NOTHING * _cheapest(model, units)
        self.proved = -self.sign * np.inf
        self.enough: float | None = None
        """A bound that closes a leaf though the value is better still."""
        self.bound = value
        self.limits = (model.lower, model.upper)
        self.ends = time.perf_counter() + seconds

    def run(self, stop: Stop, max_nodes: int | None = None, work: int | None = None) -> bool:
        """Search until Ctrl-C; return whether `bound` is proved, as close to the value as asked."""
        # The least bound first: depth first solves up to twice as many relaxations.
        leaves = [(-np.inf, 0, self.model.lower, self.model.upper)]
        most = (work or _WORK) // max(self.model.matrix.nnz, 1)
        most = max(min(max_nodes or _MAX_NODES, most), 1)
        least, born, nodes = np.inf, count(1), 0
        while leaves:
            bound, _, lower, upper = heappop(leaves)
            if self._is_closed(bound):
                least = min(least, bound)
                continue
            if nodes == most or stop.pressed:
                break
            if nodes == _FEW_NODES:
                self.gap = self.allowed
            nodes += 1
            self._set_limits(lower, upper)
            # A relaxation takes a millisecond, but the simplex method may go round in circles.
            found = self.program.solve(self.ends - time.perf_counter())
            if found is None:
                ray = self.program.infeasibility_ray() if self.program.is_infeasible else None
                if ray is None or not self.duality.proves_infeasible(ray, lower, upper):
                    break
                continue
            proved = self.duality.bound(found.duals, lower, upper)
            bound = max(bound, self._rounded_up(self.sign * proved))
            if self._is_closed(bound):
                least = min(least, bound)
                continue
            split = self._fractional(found.values)
            if split is None:
                self._take_whole(found)
            elif self.is_pure and not self.is_claimed:
                self._round(found.values)
            if self._is_closed(bound):
                least = min(least, bound)
                continue
            if split is None:
                # What HiGHS calls optimal misses what is proved: its tolerances decide here.
                break
            point = np.floor(found.values[split])
            below, above = upper.copy(), lower.copy()
            below[split], above[split] = point, point + 1.0
            heappush(leaves, (bound, next(born), above, upper))
            heappush(leaves, (bound, next(born), lower, below))
        else:
            # A solution that keeps its rows within a tolerance may cost less than is proved.
            self.bound = self.sign * float(least) if np.isfinite(least) else self.value
            return True
        # What every leaf that is closed, open or was given up proves.
        proved = float(min([bound, least, *(leaf[0] for leaf in leaves[:1])]))
        self.bound = self.proved = self.sign * proved
        return proved >= self._target(self.allowed)

    @property
    def proof(self) -> BoundProof:
        """How a bound is known that was proved before the search ended."""
        return "recomputed" if np.isfinite(self.proved) else "none"

    def _set_limits(self, lower: Array, upper: Array) -> None:
        """Give the relaxation the limits of a leaf; most columns have them from the leaf before."""
        before, self.limits = self.limits, (lower, upper)
        changed = np.flatnonzero((lower != before[0]) | (upper != before[1]))
        self.program.set_column_bounds(changed, lower[changed], upper[changed])

    def _take_whole(self, found: LinearSolution) -> None:
        """Take a relaxation's solution whose integer columns are whole but for a tolerance.

        Made quite whole they may break rows, of which the others have to make up for that.
        """
        if self.take(found.cleaned) or self.is_pure or self.take(found.values):
            return
        integer, (lower, upper) = self.model.integer, (limit.copy() for limit in self.limits)
        lower[integer] = upper[integer] = np.clip(np.rint(found.values), lower, upper)[integer]
        self._set_limits(lower, upper)
        again = self.program.solve(self.ends - time.perf_counter())
        if again is not None and not self.take(again.cleaned):
            self.take(again.values)

    def _target(self, gap: float) -> float:
        """Return what is less than the value by a relative gap, in minimisation."""
        value = self.sign * self.value
        if not np.isfinite(value):
            return value
        return value - max(gap * abs(value), self.nothing)

    def _is_closed(self, bound: float) -> bool:
        """Return whether no more need be proved of a leaf than a bound, in minimisation."""
        suffices = self.enough is not None and bound >= self.sign * self.enough
        return suffices or bound >= self._target(self.gap)

    def _rounded_up(self, bound: float) -> float:
        """Return a bound after the multiples of a step that every value is."""
        if not self.step or not np.isfinite(bound):
            return bound
        offset = self.sign * self.model.offset
        steps = (bound - offset) / self.step
        # Past 2^40 steps, a step is too close to the rounding of the bound itself.
        if abs(steps) > 2.0**40:
            return bound
        return max(bound, offset + self.step * float(np.ceil(steps - _WHOLE)))

    def _fractional(self, values: Array) -> int | None:
        """Return the integer column to branch on, None if all are whole.

        It is the one farthest from a whole number; in a mixed program one of the switches, if one
        is off: whether a pool is open decides more than one host more or less.
        """
        off = np.where(self.model.integer, np.abs(values - np.rint(values)), 0.0)
        for among in (off * self.switches, off):
            column = int(among.argmax()) if len(among) else 0
            if len(among) and among[column] > _WHOLE:
                return column
        return None

    def holds(self, values: Array) -> bool:
        """Return whether values between their columns' limits keep every row."""
        row = self.matrix @ values
        # Relative to what a row adds up: what is nothing beside 1 may be all of a small row.
        slack = 1e-9 * (self.sizes @ np.abs(values))
        kept = (row >= self.model.row_lower - slack) & (row <= self.model.row_upper + slack)
        return bool(kept.all())

    def kept(self, values: Array) -> Array | None:
        """Return a solver's solution without the tolerances of its columns, None if rows break."""
        values = np.where(self.model.integer, np.rint(values), values)
        # HiGHS lets a column miss its limits by a tolerance, which may be worth all of its cost.
        values = np.clip(values, self.model.lower, self.model.upper)
        return values if self.holds(values) else None

    def _round(self, values: Array) -> None:
        """Take what whole numbers make of a relaxation: all down, then up again where rows hold."""
        down = np.floor(values + _WHOLE)
        part = values - down
        for column in np.argsort(-part)[: np.count_nonzero(part > _WHOLE)].tolist():
            down[column] += 1.0
            if not self.holds(down):
                down[column] -= 1.0
        self.take(down)

    def take(self, values: Array) -> bool:
        """Take a solution if it holds and is better; return whether it holds."""
        kept = self.kept(values)
        if kept is None:
            return False
        value = float(self.model.cost @ kept) + self.model.offset
        if self.sign * value < self._target(_USED * OPTIMALITY_GAP):
            self.value, self.values, self.is_better = value, kept, True
        return True


def _cheapest(model: ArrayModel, units: Array) -> float:
    """Return the least cost of an ordinary amount of any column, 0 without costs."""
    costs = np.abs(model.cost * units)
    return float(costs[costs > 0].min(initial=np.inf)) if costs.any() else 0.0


def _step(model: ArrayModel) -> float:
    """Return a number of which every solution's objective is a multiple, 0 if none is known."""
    used = model.cost != 0
    if not used.any() or not model.integer[used].all():
        return 0.0
    step = float(np.abs(model.cost[used]).min())
    multiples = model.cost[used] / step
    return step if (multiples == np.rint(multiples)).all() else 0.0
