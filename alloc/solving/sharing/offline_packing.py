"""Offline packing by column generation: a proved bound, and an allocation close to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alloc.backends import SolverOptions
from alloc.backends.highs import solve, version
from alloc.backends.linear_program import LinearProgram
from alloc.backends.restricted_master import MasterColumn, RestrictedMaster
from alloc.errors import OutOfTime
from alloc.families import FAMILIES
from alloc.formulation import Array
from alloc.models.offline_packing import gpu_patterns, host_patterns
from alloc.models.offline_packing.data import PackingData
from alloc.models.offline_packing.gpu_patterns import Pattern, best_gpu, prices_of, proved_bound
from alloc.models.offline_packing.host_patterns import HostPattern, pattern_of, pricing
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Solution
from alloc.result import Limits, Result
from alloc.solving.certify import certify
from alloc.solving.outcome import Outcome, Progress, Settings, timed_log
from alloc.solving.sharing.host_contents import allocation_of, contents_of, greedy_packings

TOLERANCE = 1e-6
"""A pattern enters when it is worth more than it costs by so much, GPUs: less is rounding."""

_SHARE = 0.7
"""Part of the time left for host patterns; the rest is for choosing among them."""

_CLOSE = 1e-5
"""Patterns are enough when they come so close to the bound, relative: shares of GPUs are printed
with no more digits than that."""

_PRICING_S = 5.0
"""Most wall time for the best content of one host, seconds; a good one does as well."""

_CHOICE_S = 0.5
"""Wall time for choosing among the patterns even when none is left, seconds: without it the
patterns found would be lost."""

_On = tuple[int, HostPattern]
"""A class of hosts and what one of them carries."""


def pack_offline(
    instance: Instance,
    *,
    starts: Sequence[Allocation] = (),
    limits: Limits = Limits(),
    progress: Progress | None = None,
) -> Result[Solution]:
    """Place the jobs of an instance so that the most GPUs are held, and prove how near that is.

    Parameters
    ----------
    instance
        Jobs of one task each; arrival times mean nothing.
    starts
        Allocations to start from, for example those of heuristics: their hosts are patterns, and
        the answer holds at least as many GPUs as the best of them.
    limits
        Time and seed. A bound cut off is weaker, never false; greedy packings and the starts answer
        even when there is hardly any time.
    progress
        Takes a line of progress.

    Returns
    -------
    Result
        As of the family ``sharing`` with the objective ``gpus_placed``: an allocation that the
        checker has checked, and a bound recomputed from prices.

    Raises
    ------
    UnsupportedFeatureError
        If the instance asks for what offline packing does not know.
    CertificateError
        If the checker refuses the allocation or finds more GPUs than the bound.
    """
    settings = Settings.of(limits)
    log, report = timed_log(settings, progress)
    data = PackingData.of(instance)
    relaxed = bound_gpus(data, settings)
    report(
        f"bound {relaxed.bound:.3f} GPUs after {relaxed.rounds} rounds, "
        f"{len(relaxed.patterns)} GPU patterns"
    )
    begin = (*starts, *greedy_packings(data, np.random.default_rng(limits.seed)))
    found = _pack(data, relaxed, begin, settings, report)
    value = objective("gpus_placed").evaluate
    best = max((found, *begin), key=lambda allocation: value(instance, allocation))
    outcome: Outcome[Solution] = Outcome(
        best,
        relaxed.bound,
        "recomputed",
        "offline packing",
        version(),
        "time" if settings.time_is_up() else None,
    )
    result = certify(FAMILIES["sharing"], instance, "gpus_placed", outcome, settings)
    return result.replace(log=tuple(log))


@dataclass(frozen=True)
class Relaxed:
    """What the relaxation over GPU patterns tells.

    Parameters
    ----------
    bound
        Upper bound on the GPUs held by any allocation, proved by prices.
    patterns
        GPU patterns of all classes of hosts.
    rounds
        Rounds of pricing.
    """

    bound: float
    patterns: tuple[Pattern, ...]
    rounds: int = 0


def bound_gpus(data: PackingData, settings: Settings | None = None) -> Relaxed:
    """Return an upper bound on the GPUs held, with what led to it.

    Column generation on the relaxation of `alloc.models.offline_packing`; the bound is recomputed
    from the prices of each round, and the lowest counts.

    Parameters
    ----------
    data
        The numbers.
    settings
        Limits; None: no limit but that of the method, which ends.
    """
    settings = settings or Settings(math.inf)
    bound = float(min(data.value @ data.copies, data.size[:, 0] @ data.hosts))
    if not (data.jobs and data.members):
        return Relaxed(bound, ())
    model = gpu_patterns.relaxation(data)
    master = RestrictedMaster[tuple[int, Pattern]](
        "the relaxation of offline packing", LinearProgram(model)
    )

    def column(c: int, pattern: Pattern) -> MasterColumn[tuple[int, Pattern]]:
        rows, values = gpu_patterns.pattern_entries(data, model, c, pattern)
        return MasterColumn((c, pattern), 0.0, rows, values)

    classes = range(len(data.members))
    master.add(column(c, p) for c in classes for p in gpu_patterns.first_patterns(data))
    rounds = 0
    while True:
        try:
            found = master.solve(settings.seconds_left())
        except OutOfTime:
            break
        rounds += 1
        prices = prices_of(data, model, found.duals)
        bound = min(bound, proved_bound(data, prices))
        priced = [(c, *best_gpu(data, prices.slot[c])) for c in classes]
        added = master.add(
            column(c, pattern) for c, worth, pattern in priced if worth > prices.gpu[c] + TOLERANCE
        )
        if not added or bound <= found.value + TOLERANCE:
            break
    return Relaxed(bound, tuple(sorted({pattern for _, pattern in master.keys})), rounds)


def _pack(
    data: PackingData,
    relaxed: Relaxed,
    starts: Sequence[Allocation],
    settings: Settings,
    report: Progress,
) -> Allocation:
    """Return an allocation from a restricted integer master over host patterns."""
    model = host_patterns.master(data)
    master = RestrictedMaster[_On]("the master of host patterns", LinearProgram(model))
    master.add(_column(data, on) for start in starts for on in contents_of(data, start))
    until = settings.within(_SHARE * settings.seconds_left())
    value, rounds = 0.0, 0
    while data.members and data.jobs:
        try:
            found = master.solve(until.seconds_left())
        except OutOfTime:
            break
        value, duals = found.value, np.maximum(found.duals, 0.0)
        if until.time_is_up() or value >= relaxed.bound * (1 - _CLOSE):
            break
        rounds += 1
        worth, per_host = data.value - duals[model.rows["copies"]], duals[model.rows["hosts"]]
        new: list[_On] = []
        for c in range(len(data.members)):
            pattern = _best_host(data, c, worth, relaxed.patterns, until)
            reduced = sum(worth[k] * number for k, number in pattern) - per_host[c]
            if reduced > TOLERANCE:
                new.append((c, pattern))
        if not master.add(_column(data, on) for on in new):
            break
    options = SolverOptions(max(settings.seconds_left(), _CHOICE_S), seed=settings.seed, gap=_CLOSE)
    raw = master.solve_integer(
        options, np.array([data.hosts[c] for c, _ in master.keys], dtype=float)
    )
    report(
        f"host patterns: {value:.3f} GPUs after {rounds} rounds, {len(master.keys)} patterns; "
        f"integer {'none' if raw.objective is None else f'{raw.objective:.3f}'}"
    )
    if raw.values is None:
        return Allocation(())
    numbers = np.round(master.generated(raw.values)).astype(int)
    chosen = [(c, q, int(n)) for (c, q), n in zip(master.keys, numbers, strict=True) if n]
    return allocation_of(data, chosen)


def _column(data: PackingData, on: _On) -> MasterColumn[_On]:
    return MasterColumn(on, *host_patterns.pattern_entries(data, *on))


def _best_host(
    data: PackingData, c: int, worth: Array, known: Sequence[Pattern], settings: Settings
) -> HostPattern:
    """Return the most valuable content of one host of a class."""
    model, kinds = pricing(data, c, worth, known)
    seconds = min(_PRICING_S, settings.seconds_left())
    if not len(kinds) or seconds <= 0:
        return ()
    raw = solve(model, SolverOptions(time_limit_s=seconds, seed=settings.seed, gap=1e-4))
    if raw.values is None:
        return ()
    counts = np.zeros(len(data.jobs), dtype=np.int64)
    counts[kinds] = np.round(raw.values[: len(kinds)]).astype(np.int64)
    return pattern_of(counts)
