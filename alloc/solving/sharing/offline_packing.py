"""Offline packing by column generation: a proved bound, and an allocation close to it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alloc.backends import SolverOptions
from alloc.backends.highs import solve, version
from alloc.backends.linear_program import LinearProgram
from alloc.certificate import OPTIMALITY_GAP, Certificate, relative_gap
from alloc.errors import CertificateError
from alloc.formulation import Array, ArrayModel
from alloc.models.offline_packing.data import PackingData
from alloc.models.offline_packing.gpu_patterns import (
    Pattern,
    best_gpu,
    first_patterns,
    prices_of,
    proved_bound,
    relaxation,
)
from alloc.models.offline_packing.host_patterns import HostPattern, master, pattern_of, pricing
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Solution
from alloc.result import Result
from alloc.solving.sharing.host_contents import allocation_of, contents_of, greedy_packings
from alloc.verification import verify

TOLERANCE = 1e-6
"""A pattern enters when it is worth more than it costs by so much, GPUs."""

_SHARE = 0.7
"""Part of the time for patterns; the rest is for choosing among them."""

_CLOSE = 1e-5
"""Patterns are enough when they come so close to the bound, relative."""


def pack_offline(
    instance: Instance,
    *,
    starts: Sequence[Allocation] = (),
    time_limit_s: float = 60.0,
    seed: int = 0,
) -> Result[Solution]:
    """Place the jobs of an instance so that the most GPUs are held, and prove how near that is.

    Parameters
    ----------
    instance
        Jobs of one task each; arrival times mean nothing.
    starts
        Allocations to start from, for example those of heuristics: their hosts are patterns, and
        the answer holds at least as many GPUs as the best of them.
    time_limit_s
        Time to look for an allocation, seconds; the bound takes what it takes (seconds for
        thousands of jobs).
    seed
        Seed of the solver.

    Returns
    -------
    Result
        An allocation, which the checker has checked, and a bound recomputed from prices.

    Raises
    ------
    UnsupportedFeatureError
        If the instance asks for what offline packing does not know.
    CertificateError
        If the checker refuses the allocation or finds more GPUs than the bound.
    """
    began = time.perf_counter()
    data = PackingData.of(instance)
    relaxed = bound_gpus(data)
    bound, log = relaxed.bound, list(relaxed.log)
    deadline = time.perf_counter() + time_limit_s
    value = objective("gpus_placed").evaluate
    begin = (*starts, *greedy_packings(data, np.random.default_rng(seed)))
    found = _pack(data, relaxed, begin, deadline, seed, log)
    best = max((found, *begin), key=lambda allocation: value(instance, allocation))
    reached = value(instance, best)
    _check(instance, best, reached, bound)
    gap = relative_gap(reached, bound)
    certificate = Certificate(
        "optimal" if gap is not None and gap <= OPTIMALITY_GAP else "feasible",
        reached,
        bound,
        "max",
        "gpus_placed",
        "offline_packing",
        "highs",
        version(),
        seed,
        1,
        time.perf_counter() - began,
        instance.fingerprint,
        limit="time" if time.perf_counter() > deadline else None,
        verified=True,
        bound_proof="recomputed",
    )
    return Result(best, certificate, tuple(log))


def _check(instance: Instance, allocation: Allocation, value: float, bound: float) -> None:
    problems = verify(instance, allocation)
    if problems:
        raise CertificateError(
            f"offline packing: {len(problems)} rules broken; the first: {problems[0]}"
        )
    if value > bound * (1 + OPTIMALITY_GAP):
        raise CertificateError(
            f"offline packing: an allocation holds {value:g} GPUs, more than the bound {bound:g}."
        )


@dataclass(frozen=True)
class Relaxed:
    """What the relaxation over GPU patterns tells.

    Parameters
    ----------
    bound
        Upper bound on the GPUs held by any allocation, proved by prices.
    patterns
        GPU patterns of all classes of hosts.
    log
        What was done.
    """

    bound: float
    patterns: tuple[Pattern, ...]
    log: tuple[str, ...]


def bound_gpus(data: PackingData) -> Relaxed:
    """Return an upper bound on the GPUs held, with what led to it.

    Column generation on the relaxation of `alloc.models.offline_packing`; the bound is recomputed
    from the prices of each round, and the lowest counts.
    """
    patterns = [first_patterns(data) for _ in data.members]
    bound = float(min(data.value @ data.copies, data.size[:, 0] @ data.hosts))
    rounds = 0
    while data.jobs and data.members:
        rounds += 1
        model = relaxation(data, patterns)
        value, _, duals = solve_linear(model)
        prices = prices_of(data, model, duals)
        bound = min(bound, proved_bound(data, prices))
        new = 0
        for c, known in enumerate(patterns):
            worth, pattern = best_gpu(data, prices.slot[c])
            if worth > prices.gpu[c] + TOLERANCE and pattern not in known:
                known.append(pattern)
                new += 1
        if not new or bound <= value + TOLERANCE:
            break
    every = tuple(sorted({pattern for these in patterns for pattern in these}))
    said = f"bound {bound:.3f} GPUs after {rounds} rounds, {len(every)} GPU patterns"
    return Relaxed(bound, every, (said,))


def solve_linear(model: ArrayModel) -> tuple[float, Array, Array]:
    """Solve a linear program for maximisation; return value, columns and dual values (>= 0)."""
    found = LinearProgram(model).optimum("the linear program of offline packing")
    # The change of the value by a row's limit is 0 or more for <= rows when maximising.
    return found.value, found.values, np.maximum(found.duals, 0.0)


def _pack(
    data: PackingData,
    relaxed: Relaxed,
    starts: Sequence[Allocation],
    deadline: float,
    seed: int,
    log: list[str],
) -> Allocation:
    """Return an allocation from a restricted integer master over host patterns."""
    columns: dict[tuple[int, HostPattern], None] = {}
    for start in starts:
        for c, pattern in contents_of(data, start):
            columns.setdefault((c, pattern))
    value, rounds = _generate(data, relaxed, columns, deadline, seed)
    left = max(deadline - time.perf_counter(), 0.5)
    model = master(data, tuple(columns), integer=True)
    raw = solve(model, SolverOptions(time_limit_s=left, seed=seed, gap=1e-5))
    log.append(
        f"host patterns: {value:.3f} GPUs after {rounds} rounds, {len(columns)} patterns; "
        f"integer {'none' if raw.objective is None else f'{raw.objective:.3f}'}"
    )
    if raw.values is None:
        return Allocation(())
    numbers = np.round(raw.values[: len(columns)]).astype(int)
    chosen = [(c, q, int(n)) for (c, q), n in zip(columns, numbers, strict=True) if n]
    return allocation_of(data, chosen)


def _generate(
    data: PackingData,
    relaxed: Relaxed,
    columns: dict[tuple[int, HostPattern], None],
    deadline: float,
    seed: int,
) -> tuple[float, int]:
    """Add host patterns until none is worth more than it costs; return the value and the rounds."""
    began = time.perf_counter()
    until = began + _SHARE * (deadline - began)
    value, rounds = 0.0, 0
    while data.members and data.jobs:
        # Without time, the patterns at hand still make a master.
        value, _, duals = solve_linear(model := master(data, tuple(columns), integer=False))
        if time.perf_counter() >= until or value >= relaxed.bound * (1 - _CLOSE):
            break
        rounds += 1
        worth, per_host = data.value - duals[model.rows["copies"]], duals[model.rows["hosts"]]
        new = 0
        for c in range(len(data.members)):
            pattern = _best_host(data, c, worth, relaxed.patterns, seed)
            reduced = sum(worth[k] * number for k, number in pattern) - per_host[c]
            if reduced > TOLERANCE and (c, pattern) not in columns:
                columns[c, pattern] = None
                new += 1
        if not new:
            break
    return value, rounds


def _best_host(
    data: PackingData, c: int, worth: Array, known: Sequence[Pattern], seed: int
) -> HostPattern:
    """Return the most valuable content of one host of a class."""
    model, kinds = pricing(data, c, worth, known)
    if not len(kinds):
        return ()
    raw = solve(model, SolverOptions(time_limit_s=5.0, seed=seed, gap=1e-4))
    if raw.values is None:
        return ()
    counts = np.zeros(len(data.jobs), dtype=np.int64)
    counts[kinds] = np.round(raw.values[: len(kinds)]).astype(np.int64)
    return pattern_of(counts)
