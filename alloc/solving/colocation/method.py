"""Co-location: which jobs share a GPU, so that the cluster does the most work.

``max sum_b v_b x_b  subject to  sum_b n_bt x_b <= n_t for every class t,  sum_b x_b <= G,
x integer``: a bundle b is what one GPU runs, n_bt its jobs of class t, and v_b the weighted sum of
their measured speeds. Equal jobs are a class. With at most two jobs a GPU this is a maximum-weight
b-matching; with more it is set packing.

Bundles are priced: at dual prices mu_t of the classes and lambda of a GPU the best bundle is found
exactly by a bounded search, and ``sum_t n_t mu_t + G (lambda + max(0, max_b (v_b - sum_t n_bt mu_t
- lambda)))`` bounds every packing, whatever the prices: at most G bundles run. The bound is
computed in numpy. A bundle whose reduced value is below the distance of the bound to an incumbent
is in no better packing, so an integer program over the others, the core, is a proof.

References
----------
Edmonds, "Maximum matching and a polyhedron with 0,1-vertices", J. Res. NBS 69B (1965); Balas,
Zemel, "An algorithm for large zero-one knapsack problems", Operations Research 28 (1980); Narayanan
et al., "Heterogeneity-aware cluster scheduling policies" (Gavel), OSDI 2020, section 4.3; Hu et
al., "Lucid", ASPLOS 2023, doi:10.1145/3575693.3575705.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.linear_program import LinearProgram
from alloc.backends.restricted_master import MasterColumn, RestrictedMaster
from alloc.backends.scaling import power_of_two
from alloc.certificate import OPTIMALITY_GAP, BoundProof, Limit, is_within
from alloc.errors import OutOfTime
from alloc.formulation import Array, RawResult
from alloc.problems.colocation import ColocationProblem, Packing
from alloc.solving.outcome import Outcome, Settings
from alloc.workload.interference import InterferenceTable

Bundle = tuple[int, ...]
"""Classes of the jobs on one GPU, in ascending order."""

_FIRST_S = 1.0
"""For a linear program at least: without its prices there is no bound."""
_CONVERGED = 1e-9
"""Reduced value from which a bundle is worth adding, where the largest weight is about 1: less is
rounding. The bound does not lean on it: it takes the best value found, however small."""
_PER_ROUND = 2000
"""Most bundles added in a round of pricing, the best first: the linear program stays small, and
prices of the next round say which of the others are worth it."""
_MAX_CORE = 60_000
"""Most bundles in the last integer program; with more, the gap stays open and says so."""


def pack(
    problem: ColocationProblem,
    objective: str,
    settings: Settings,
    start: Packing | None,
    report: Callable[[str], None],
) -> Outcome[Packing]:
    """Choose which jobs run and which of them share a GPU.

    Parameters
    ----------
    problem
        Jobs, measured speeds and GPUs.
    objective
        ``speed``.
    settings
        Limits.
    start
        Not used: single jobs are a packing from the first moment.
    report
        Takes a line of progress.
    """
    members: dict[tuple[int, float], list[int]] = {}
    for j, (kind, weight) in enumerate(zip(problem.kinds, problem.weights, strict=True)):
        members.setdefault((problem.table.position(kind), weight), []).append(j)
    # Bundles are compared with fixed tolerances, so the largest weight is about 1 here.
    unit = power_of_two(max(problem.weights, default=1.0))
    classes = _Classes(
        np.array([k for k, _ in members], dtype=np.int64),
        np.array([w * unit for _, w in members]),
        np.array([len(jobs) for jobs in members.values()], dtype=np.int64),
        problem.table,
        problem.num_gpus,
        problem.max_per_gpu,
    )
    if not members or not problem.num_gpus:
        nothing = Packing((), tuple(range(len(problem.kinds))))
        return Outcome(nothing, 0.0, "recomputed", "alloc bundles", highs.version())
    try:
        chosen, bound, proof, known = _solve(classes, settings)
    except KeyboardInterrupt:
        nothing = Packing((), tuple(range(len(problem.kinds))))
        version = highs.version()
        return Outcome(nothing, math.inf, "none", "alloc bundles", version, "interrupt")
    report(f"{known} bundles priced, bound {bound / unit:g}")
    packing = _unroll(list(members.values()), chosen)
    limit: Limit | None = "time" if settings.time_is_up() else None
    return Outcome(packing, bound / unit, proof, "alloc bundles", highs.version(), limit)


@dataclass(frozen=True, eq=False)
class _Classes:
    """A packing problem in classes: kind and weight of class t, and its number of jobs."""

    kind: np.ndarray
    weight: Array
    count: np.ndarray
    table: InterferenceTable
    num_gpus: int
    most: int

    @cached_property
    def beside(self) -> Array:
        """Speed of class t beside class u, 0 unless both of them run, shape (classes, classes)."""
        beside = self.table.beside[np.ix_(self.kind, self.kind)]
        return np.where(beside.T > 0, beside, 0.0)

    def value(self, bundle: Bundle) -> float:
        """Return the worth of a bundle."""
        at = np.array(bundle)
        speed = self.beside[np.ix_(at, at)].copy()
        np.fill_diagonal(speed, 1.0)
        return float(self.weight[at] @ speed.prod(axis=1))

    def price(
        self, prices: Array, gpu: float, least: float, most: int
    ) -> tuple[list[Bundle], float]:
        """Return bundles of reduced value above `least`, the best first, and the best value.

        At most `most` bundles are returned; the best value holds for those left out too.
        """
        found: list[tuple[float, Bundle]] = []
        # Adding a job changes another's speed by at most this factor.
        factor = max(1.0, float(self.beside.max(initial=0.0)))
        gain = np.maximum(self.weight * factor ** (self.most - 1) - prices, 0.0)
        top = float(np.sort(gain)[::-1][0]) if len(gain) else 0.0

        def extend(bundle: Bundle, speed: Array, reach: Array, paid: float) -> None:
            """Try every class from the last on as a further member, all at once."""
            at = np.array(bundle, dtype=np.int64)
            first = bundle[-1] if bundle else 0
            tail = slice(first, None)
            own = (self.weight[at] * speed) @ self.beside[at, tail] if bundle else 0.0
            reduced = own + self.weight[tail] * reach[tail] - prices[tail] - paid
            able = reach[tail] > 0
            if bundle:
                here = bundle.count(first)
                able &= np.where(np.arange(len(able)) == 0, here < self.count[first], True)
            left = self.most - len(bundle) - 1
            for k in np.flatnonzero(able & (reduced - gpu > least)).tolist():
                found.append((float(reduced[k] - gpu), (*bundle, first + k)))
            if not left:
                return
            # The present members run at most `factor` times faster for each job that joins.
            ceiling = (own + self.weight[tail] * reach[tail]) * factor**left - prices[tail] - paid
            for k in np.flatnonzero(able & (ceiling + left * top - gpu > least)).tolist():
                t = first + k
                extend(
                    (*bundle, t),
                    np.append(speed * self.beside[at, t], reach[t]),
                    reach * self.beside[:, t],
                    paid + float(prices[t]),
                )

        extend((), np.zeros(0), np.ones(len(self.kind)), 0.0)
        found.sort(key=lambda pair: -pair[0])
        best = found[0][0] if found else least
        return [bundle for _, bundle in found[:most]], best


def _solve(
    problem: _Classes, settings: Settings
) -> tuple[dict[Bundle, int], float, BoundProof, int]:
    """Return how many GPUs run each bundle, the bound, whose word it is, and the bundles known."""
    master = _master(problem, [(t,) for t in range(len(problem.kind))])
    bound, best = math.inf, (np.zeros(len(problem.kind)), 0.0)
    while True:
        try:
            prices, gpu = _prices(master, max(settings.seconds_left(), _FIRST_S))
        except OutOfTime:
            break
        bundles, top = problem.price(prices, gpu, _CONVERGED, _PER_ROUND)
        proved = float(problem.count @ prices) + problem.num_gpus * (gpu + max(top, 0.0))
        if proved < bound:
            bound, best = proved, (prices, gpu)
        added = master.add(_column(problem, bundle) for bundle in bundles)
        if not added or settings.seconds_left() < 0.3 * settings.time_limit_s:
            break
    chosen, value, _ = _integers(problem, master, settings)
    proof: BoundProof = "recomputed" if math.isfinite(bound) else "none"
    open_ = math.isfinite(bound) and not is_within(value, bound, OPTIMALITY_GAP)
    if open_ and settings.seconds_left() > 0:
        # What loses more than the gap at the best prices is in no better packing.
        core, _ = problem.price(*best, value - bound - 1e-9, _MAX_CORE + 1)
        if len(core) <= _MAX_CORE:
            again, better, raw = _integers(problem, _master(problem, [*core, *chosen]), settings)
            if better > value:
                chosen, value = again, better
            # An empty packing is one: whoever calls the program infeasible proves nothing.
            if raw.status != "infeasible" and max(raw.bound, value) < bound:
                bound, proof = max(raw.bound, value), raw.bound_proof
    return chosen, bound, proof, len(master.keys)


def _master(problem: _Classes, bundles: Sequence[Bundle]) -> RestrictedMaster[Bundle]:
    """Return the linear program over some bundles: a row for each class, one for the GPUs."""
    program = LinearProgram(sense="max")
    limit = np.append(problem.count, problem.num_gpus).astype(float)
    program.add_rows(np.full(len(limit), -np.inf), limit)
    master = RestrictedMaster[Bundle]("the linear program of bundles", program)
    master.add(_column(problem, bundle) for bundle in bundles)
    return master


def _column(problem: _Classes, bundle: Bundle) -> MasterColumn[Bundle]:
    members, counts = np.unique(bundle, return_counts=True)
    rows, values = np.append(members, len(problem.kind)), np.append(counts, 1.0)
    return MasterColumn(bundle, problem.value(bundle), rows, values)


def _prices(master: RestrictedMaster[Bundle], seconds: float) -> tuple[Array, float]:
    """Return the price of a job of each class, and of a GPU.

    Raises
    ------
    OutOfTime
        If so many seconds are too short.
    """
    duals = np.abs(master.solve(seconds).duals)
    return duals[:-1], float(duals[-1])


def _integers(
    problem: _Classes, master: RestrictedMaster[Bundle], settings: Settings
) -> tuple[dict[Bundle, int], float, RawResult]:
    """Choose among the bundles known; return the choice, its value and what is proved of it."""
    pairs = [np.unique(bundle, return_counts=True) for bundle in master.keys]
    most = [min(min(problem.count[r] // n), problem.num_gpus) for r, n in pairs]
    options = SolverOptions(settings.seconds_left(), settings.seed, gap=OPTIMALITY_GAP / 4)
    raw = master.solve_integer(options, np.array(most, dtype=float))
    if raw.values is None:
        return {}, 0.0, raw
    number = np.rint(raw.values).astype(int)
    chosen = {master.keys[b]: int(number[b]) for b in np.flatnonzero(number).tolist()}
    return chosen, math.fsum(n * problem.value(b) for b, n in chosen.items()), raw


def _unroll(members: list[list[int]], chosen: dict[Bundle, int]) -> Packing:
    """Name the jobs on every GPU."""
    waiting = [list(reversed(jobs)) for jobs in members]
    gpus = [
        tuple(waiting[t].pop() for t in bundle)
        for bundle, number in sorted(chosen.items())
        for _ in range(number)
    ]
    return Packing(tuple(gpus), tuple(sorted(j for jobs in waiting for j in jobs)))
