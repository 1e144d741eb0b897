"""Offline packing by column generation: a proved bound, and an allocation close to it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import highspy
import numpy as np

from alloc.backends import SolverOptions
from alloc.backends.highs import highs_model, quiet_solver, solve, version
from alloc.certificate import OPTIMALITY_GAP, Certificate, Result, relative_gap
from alloc.errors import CertificateError
from alloc.formulation import Array, ArrayModel
from alloc.instance import Instance
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
from alloc.solution import Allocation
from alloc.solving.host_contents import allocation_of, contents_of
from alloc.verification import verify

TOLERANCE = 1e-6
"""A pattern enters when it is worth more than it costs by so much, GPUs."""


def pack_offline(
    instance: Instance,
    *,
    starts: Sequence[Allocation] = (),
    time_limit_s: float = 60.0,
    seed: int = 0,
) -> Result:
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
        An allocation, which the judge has checked, and a bound recomputed from prices.

    Raises
    ------
    UnsupportedFeatureError
        If the instance asks for what offline packing does not know.
    CertificateError
        If the judge refuses the allocation or finds more GPUs than the bound.
    """
    began = time.perf_counter()
    data = PackingData.of(instance)
    bound, patterns, log = bound_gpus(data)
    deadline = time.perf_counter() + time_limit_s
    value = objective("gpus_placed").evaluate
    best = max(starts, key=lambda a: value(instance, a), default=Allocation(()))
    found = _pack(data, patterns, (*starts, best), deadline, seed, log)
    if value(instance, found) > value(instance, best) or not starts:
        best = found
    _judge(instance, best, value(instance, best), bound)
    reached = value(instance, best)
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


def _judge(instance: Instance, allocation: Allocation, value: float, bound: float) -> None:
    problems = verify(instance, allocation)
    if problems:
        raise CertificateError(
            f"offline packing: {len(problems)} rules broken; the first: {problems[0]}"
        )
    if value > bound * (1 + OPTIMALITY_GAP):
        raise CertificateError(
            f"offline packing: an allocation holds {value:g} GPUs, more than the bound {bound:g}."
        )


def bound_gpus(data: PackingData) -> tuple[float, list[list[Pattern]], list[str]]:
    """Return an upper bound on the GPUs held, the GPU patterns of each class, and a log.

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
    log = [f"bound {bound:.3f} GPUs after {rounds} rounds, {sum(map(len, patterns))} GPU patterns"]
    return bound, patterns, log


def solve_linear(model: ArrayModel) -> tuple[float, Array, Array]:
    """Solve a linear program for maximisation; return value, columns and dual values (>= 0)."""
    solver = quiet_solver(SolverOptions(time_limit_s=1e9))
    solver.passModel(highs_model(model))
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise CertificateError("offline packing: HiGHS did not solve a bounded linear program.")
    answer = solver.getSolution()
    # HiGHS gives the change of the value by a row's limit: 0 or more for <= rows when maximising.
    return (
        float(solver.getInfo().objective_function_value),
        np.array(answer.col_value),
        np.maximum(np.array(answer.row_dual), 0.0),
    )


def _pack(
    data: PackingData,
    gpu_patterns: Sequence[Sequence[Pattern]],
    starts: Sequence[Allocation],
    deadline: float,
    seed: int,
    log: list[str],
) -> Allocation:
    """Return an allocation from a restricted integer master over host patterns."""
    known = sorted({pattern for patterns in gpu_patterns for pattern in patterns})
    columns: dict[tuple[int, HostPattern], None] = {}
    for start in starts:
        for c, pattern in contents_of(data, start):
            columns.setdefault((c, pattern))
    began = time.perf_counter()
    share = 0.6 * (deadline - began)
    rounds, value = 0, 0.0
    while time.perf_counter() < began + share:
        rounds += 1
        model = master(data, tuple(columns), integer=False)
        value, _, duals = solve_linear(model)
        new = 0
        for c in range(len(data.members)):
            worth = data.value - duals[model.rows["copies"]]
            found, pattern = _best_host(data, c, worth, known, seed)
            if found > duals[model.rows["hosts"]][c] + 1e-4 and (c, pattern) not in columns:
                columns[c, pattern] = None
                new += 1
        if not new:
            break
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


def _best_host(
    data: PackingData, c: int, worth: Array, known: Sequence[Pattern], seed: int
) -> tuple[float, HostPattern]:
    """Return the most valuable content of one host of a class, and its worth."""
    model, kinds = pricing(data, c, worth, known)
    if not len(kinds):
        return 0.0, ()
    raw = solve(model, SolverOptions(time_limit_s=5.0, seed=seed, gap=1e-4))
    if raw.values is None or raw.objective is None:
        return 0.0, ()
    counts = np.zeros(len(data.jobs), dtype=np.int64)
    counts[kinds] = np.round(raw.values[: len(kinds)]).astype(np.int64)
    return float(raw.objective), pattern_of(counts)
