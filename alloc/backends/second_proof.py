"""A second proof of what HiGHS calls optimal, where it is cheap.

A small program is searched again by branch and bound of our own: linear relaxations from HiGHS say
which multipliers to take, and weak duality in numpy says what they prove, at every leaf. So neither
presolve nor cuts nor a tolerance of the solver is in the bound. A program whose tree is too large
for that is solved once more by HiGHS without presolve and from another seed.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.column_bounds import bounded
from alloc.backends.interrupts import Stop, stoppable
from alloc.backends.linear_program import LinearProgram
from alloc.backends.scaling import Scaling
from alloc.backends.weak_duality import WeakDuality
from alloc.certificate import OPTIMALITY_GAP, BoundProof, beats, is_within
from alloc.formulation import Array, ArrayModel, RawResult

MOST_ENTRIES = 2_000
"""Entries of the matrix up to which a program is small: a relaxation takes about a millisecond."""
_WORK = 50_000
"""Entries times leaves that may be looked at, some twenty milliseconds."""
_MOST_NODES = 100
_BRIEF_S = 0.25
"""For the second run of HiGHS at most, for the tree at least, seconds."""
_WHOLE = 1e-6
"""Distance from a whole number that counts as none, as HiGHS has it."""
_NOTHING = 1e-9
"""Amount of the cheapest column that counts as none: an objective of 0 has no relative gap, and
rounding makes 1e-16 of it."""


def solve_and_prove(model: ArrayModel, options: SolverOptions) -> RawResult:
    """Solve with HiGHS, and prove an optimum a second time where that is cheap."""
    began = time.perf_counter()
    raw = highs.solve(model, options)
    left = options.time_limit_s - (time.perf_counter() - began)
    return with_proof(model, raw, replace(options, time_limit_s=max(left, 0.0)))


def with_proof(model: ArrayModel, raw: RawResult, options: SolverOptions) -> RawResult:
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
    """
    if raw.status != "optimal" or raw.values is None or raw.objective is None:
        return raw
    if model.matrix.nnz > MOST_ENTRIES:
        return raw
    with stoppable() if options.stoppable else nullcontext(Stop()) as stop:
        found = _proved_again(model, raw, options, stop)
    # Also where it was over already: whoever pressed Ctrl-C wants no more of what comes next.
    return replace(found, limit="interrupt") if stop.pressed else found


def _proved_again(
    model: ArrayModel, raw: RawResult, options: SolverOptions, stop: Stop
) -> RawResult:
    """Search a small program again; see `with_proof`."""
    assert raw.objective is not None
    assert raw.values is not None
    search = _Tree(bounded(model), raw.objective, raw.values, max(options.time_limit_s, _BRIEF_S))
    search.program.end_with(stop)
    proved = search.run(stop)
    found = replace(raw, values=search.values, objective=search.value)
    if proved:
        return replace(found, bound=search.bound, bound_proof="recomputed")
    confirmed = None if stop.pressed else _confirmed(model, found, options)
    if confirmed is not None or not search.is_better:
        return confirmed or raw
    # The claim was false; of its bound nothing is left.
    return replace(found, status="feasible", bound=search.root, bound_proof="recomputed")


def _confirmed(model: ArrayModel, raw: RawResult, options: SolverOptions) -> RawResult | None:
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
    other = None if again.values is None else _kept(model, again.values)
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
    """Depth-first branch and bound that closes a leaf only by a bound proved in numpy."""

    def __init__(self, model: ArrayModel, value: float, values: Array, seconds: float) -> None:
        self.sign = 1.0 if model.sense == "min" else -1.0
        self.model, self.value, self.values = model, value, values
        self.is_better = False
        scaling = Scaling.of(model)
        finer = highs.finer_scaling(model, scaling, value * scaling.objective)
        self.program = LinearProgram(
            model,
            presolve=False,
            method="simplex",
            cost_size=None if finer is None else 1.0 / finer.objective,
        )
        self.duality = WeakDuality(model)
        self.step = _step(model)
        self.nothing = _NOTHING * _cheapest(model, scaling)
        self.root = -self.sign * np.inf
        self.bound = value
        self.ends = time.perf_counter() + seconds

    def run(self, stop: Stop) -> bool:
        """Search until Ctrl-C; return whether every leaf is closed, which proves `bound`."""
        leaves = [(self.model.lower, self.model.upper)]
        left = max(min(_MOST_NODES, _WORK // max(self.model.matrix.nnz, 1)), 1)
        columns = np.arange(len(self.model.cost))
        least = np.inf
        while leaves:
            if left == 0 or stop.pressed:
                return False
            left -= 1
            lower, upper = leaves.pop()
            self.program.set_column_bounds(columns, lower, upper)
            # A relaxation takes a millisecond, but the simplex method may go round in circles.
            found = self.program.solve(self.ends - time.perf_counter())
            if found is None:
                ray = self.program.infeasibility_ray() if self.program.is_infeasible else None
                if ray is None or not self.duality.proves_infeasible(ray, lower, upper):
                    return False
                continue
            proved = self.duality.bound(found.duals, lower, upper)
            bound = self._rounded_up(self.sign * proved)
            if lower is self.model.lower and upper is self.model.upper:
                self.root = self.sign * bound
            if bound >= self._target():
                least = min(least, bound)
                continue
            split = self._fractional(found.values)
            if split is None:
                if not self._take(found.values):
                    return False
                least = min(least, bound)
                continue
            point = np.floor(found.values[split])
            below, above = upper.copy(), lower.copy()
            below[split], above[split] = point, point + 1.0
            leaves += [(lower, below), (above, upper)]
        # A solution that keeps its rows within a tolerance only may cost less than is proved.
        self.bound = self.sign * float(least) if np.isfinite(least) else self.value
        return True

    def _target(self) -> float:
        """Return what a leaf's bound must reach, in minimisation."""
        value = self.sign * self.value
        return value - max(0.5 * OPTIMALITY_GAP * abs(value), self.nothing)

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
        """Return the integer column that is farthest from a whole number, None if none is."""
        off = np.where(self.model.integer, np.abs(values - np.rint(values)), 0.0)
        column = int(off.argmax()) if len(off) else 0
        return column if len(off) and off[column] > _WHOLE else None

    def _take(self, values: Array) -> bool:
        """Take a solution that a relaxation found if it holds; return whether it did."""
        kept = _kept(self.model, values)
        if kept is None:
            return False
        value = float(self.model.cost @ kept) + self.model.offset
        if self.sign * value >= self._target():
            return False
        self.value, self.values, self.is_better = value, kept, True
        return True


def _kept(model: ArrayModel, values: Array) -> Array | None:
    """Return a solver's solution without the tolerances of its columns, None if rows break."""
    values = np.where(model.integer, np.rint(values), values)
    # HiGHS lets a column miss its limits by a tolerance, which may be worth all of its cost.
    values = np.clip(values, model.lower, model.upper)
    row = model.matrix @ values
    # Relative to what a row adds up: what is nothing beside 1 may be all of a small row.
    slack = 1e-9 * (abs(model.matrix) @ np.abs(values))
    holds = (row >= model.row_lower - slack) & (row <= model.row_upper + slack)
    return np.asarray(values) if holds.all() else None


def _cheapest(model: ArrayModel, scaling: Scaling) -> float:
    """Return the least cost of an ordinary amount of any column, 0 without costs."""
    costs = np.abs(model.cost * scaling.columns)
    return float(costs[costs > 0].min(initial=np.inf)) if costs.any() else 0.0


def _step(model: ArrayModel) -> float:
    """Return a number of which every solution's objective is a multiple, 0 if none is known."""
    used = model.cost != 0
    if not used.any() or not model.integer[used].all():
        return 0.0
    step = float(np.abs(model.cost[used]).min())
    multiples = model.cost[used] / step
    return step if (multiples == np.rint(multiples)).all() else 0.0
