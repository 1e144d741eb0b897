"""The specialised method of F5: count equal things, choose patterns, deal them out.

Equal requests, hosts and GPUs become counts, so the integer program has a few hundred columns
however many requests there are. Patterns of MIG instances are all listed; patterns of shares are
generated where they are too many. What the counts choose is dealt out to hosts and GPUs; where CPU
or memory of a single host stood in the way, what is left over is placed greedily and the gap says
so. The goal's optimum is kept while fewer GPUs, and then fewer reconfigurations, are sought.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.second_proof import solve_and_prove, solve_small
from alloc.certificate import OPTIMALITY_GAP, BoundProof, Limit, is_within
from alloc.formulation import Array
from alloc.models.sharing.arrays import (
    PLACES_ALL,
    Column,
    array_model,
    listed_columns,
    sense_of,
)
from alloc.models.sharing.data import SharingData, sharing_data
from alloc.models.sharing.unrolling import to_allocation, unroll
from alloc.objectives import objective as named_objective
from alloc.packing import HostPool
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment, Solution
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.sharing.improvement import improve
from alloc.solving.sharing.pattern_generation import Relaxation, relax, round_bound, whole_gap
from alloc.verification import verify

_ORDER = ("weight_placed", "gpus_used", "reconfigurations")
"""What is sought among the optima of a goal, one after the other."""

_DRAFT = 0.2
"""Share of the time left for the integer program of such a problem; refilling hosts gains more."""
_EXACT_COLUMNS = 4000
"""Columns up to which the model of single hosts is solved as it stands when counts fall short."""
_MANY_OPTIONS = 500
"""Options beyond which the choice of jobs stays as it is while other goals are made small."""
_CORE = 600
"""Patterns in the integer program of a problem that the counts only relax: its optimum is not that
of the problem anyway, so time is better spent on hosts."""


@dataclass
class _Best:
    """The best allocation so far, and the best bound: what an interrupt keeps."""

    instance: Instance
    objective: str
    allocation: Allocation | None = None
    value: float = math.nan
    bound: float | None = None
    proof: BoundProof = "none"

    def offer(self, allocation: Allocation | None) -> bool:
        """Take an allocation if it is better; say whether."""
        if allocation is None:
            return False
        value = named_objective(self.objective).evaluate(self.instance, allocation)
        if not math.isfinite(value):
            return False
        if self.allocation is not None:
            better = value > self.value if self._maximises else value < self.value
            if not better:
                return False
        self.allocation, self.value = allocation, value
        return True

    @property
    def _maximises(self) -> bool:
        return sense_of(self.objective) == "max"


def solve_sharing(
    instance: Instance,
    objective: str,
    settings: Settings,
    warm_start: Solution | None,
    report: Callable[[str], None],
) -> Outcome[Solution]:
    """Solve an instance: the method behind ``solve(..., "sharing")``.

    Parameters
    ----------
    instance
        The instance.
    objective
        One level of a goal.
    settings
        Limits.
    warm_start
        An allocation to start from, or None; of one that keeps every rule nothing is lost.
    report
        Takes a line of progress.
    """
    best = _Best(instance, objective)
    if isinstance(warm_start, Allocation) and not verify(instance, warm_start):
        best.offer(warm_start)
    try:
        return _search(instance, objective, settings, best, report)
    except KeyboardInterrupt:
        bound = best.bound
        if bound is None:
            bound = math.inf if sense_of(objective) == "max" else -math.inf
        found = None if best.allocation is None else _with_reasons(instance, best.allocation)
        return Outcome(
            found,
            bound,
            _proof(bound, best.proof),
            "alloc patterns + HiGHS",
            highs.version(),
            "interrupt",
        )


def _search(
    instance: Instance,
    objective: str,
    settings: Settings,
    best: _Best,
    report: Callable[[str], None],
) -> Outcome[Solution]:
    """Search from the best that is known, and keep there what is found."""
    all_run = objective in PLACES_ALL
    data = sharing_data(instance, aggregate=True, states=objective == "reconfigurations")
    report(
        f"{len(instance.jobs)} jobs in {len(data.classes)} classes, {len(data.items)} kinds of "
        f"tasks, {instance.topology.num_gpus} GPUs in {len(data.groups)} groups, "
        f"{sum(map(len, data.patterns))} patterns"
        f"{'' if data.listed else ' and more to generate'}"
    )
    relaxed = relax(
        data, listed_columns(data), objective, all_run=all_run, settings=settings, report=report
    )
    if relaxed.infeasible:
        return _infeasible(instance, objective, settings)
    bound = round_bound(data, objective, relaxed.bound)
    proof: BoundProof = "recomputed"
    best.bound, best.proof = bound, proof
    # Where the counts are the problem itself, all patterns are worth the search; else the core is.
    columns = relaxed.columns if data.is_exact else relaxed.core(_CORE)
    complete = data.listed and len(columns) == len(relaxed.columns)
    open_options, loss = _open_options(data, relaxed, all_run)
    values, claimed, limit, proof_of_claim = _integers(
        data, columns, objective, all_run, settings, target=bound, options=open_options
    )
    # A solution that decides otherwise about an option taken as decided loses at least so much.
    if sense_of(objective) == "max":
        claimed = max(claimed, relaxed.bound - loss)
    else:
        claimed = min(claimed, relaxed.bound + loss)
    refused = values is None and limit is None
    if refused and complete and all_run and best.allocation is None:
        return _infeasible(instance, objective, settings)
    # Refused may be what is decided about the options. Else something stands that keeps every rule:
    # the warm start, or nothing at all, and the refusal proves nothing.
    if complete and not (refused and open_options is None):
        claimed = round_bound(data, objective, claimed)
        sharper = min(bound, claimed) if sense_of(objective) == "max" else max(bound, claimed)
        if sharper != bound:
            bound, proof = best.bound, best.proof = sharper, proof_of_claim
    polished = False
    if values is not None and data.is_exact and best.allocation is None:
        # Where counts are the problem itself, only the last of them need be dealt out.
        model = array_model(data, columns, objective, all_run=all_run)
        best.value = float(np.rint(values) @ model.cost) + model.offset
        if is_within(best.value, bound, OPTIMALITY_GAP):
            _polish(data, objective, best, values, settings, report)
        polished = best.allocation is not None
    if values is not None and not polished:
        best.offer(_dealt(data, columns, values, report))
    if not _is_optimal(best, bound):
        best.offer(_greedy(instance, best.allocation))
    if not _is_optimal(best, bound) and not data.is_exact:
        bound, proof, limit = _host_by_host(
            instance, objective, best, (bound, proof, limit), settings, report
        )
        if all_run and bound == math.inf:
            return _infeasible(instance, objective, settings)
    if best.allocation is not None and not _is_optimal(best, bound):
        improve(instance, objective, best.allocation, bound, settings, report, best.offer)
    if values is not None and data.is_exact and _is_optimal(best, bound) and not polished:
        _polish(data, objective, best, values, settings, report)
    if best.allocation is None:
        return Outcome(None, bound, _proof(bound, proof), "alloc patterns", highs.version(), limit)
    report(f"{objective} {best.value:g}, bound {bound:g}")
    return Outcome(
        solution=_with_reasons(instance, best.allocation),
        bound=bound,
        bound_proof=_proof(bound, proof),
        backend="alloc patterns + HiGHS",
        backend_version=highs.version(),
        limit=None if _is_optimal(best, bound) else limit,
    )


def _proof(bound: float, proof: BoundProof) -> BoundProof:
    return proof if math.isfinite(bound) else "none"


def _is_optimal(best: _Best, bound: float) -> bool:
    if best.allocation is None:
        return False
    return is_within(best.value, bound, OPTIMALITY_GAP)


def _integers(
    data: SharingData,
    columns: Sequence[Column],
    objective: str,
    all_run: bool,
    settings: Settings,
    held: dict[str, float] | None = None,
    target: float = math.inf,
    options: tuple[Array, Array] | None = None,
    start: Array | None = None,
) -> tuple[Array | None, float, Limit | None, BoundProof]:
    """Solve the integer program over some patterns; return values, bound, limit and proof.

    With a start, an answer to it that is known.
    """
    model = array_model(data, columns, objective, all_run=all_run, held=held)
    if options is not None:
        model.lower[: len(data.options)], model.upper[: len(data.options)] = options
    gap = whole_gap(data, objective, target, OPTIMALITY_GAP / 2)
    seconds = settings.seconds_left() * (1.0 if data.is_exact else _DRAFT)
    limits = SolverOptions(seconds, settings.seed, settings.workers, gap=gap)
    raw = solve_small(model, replace(limits, start=start)) or solve_and_prove(model, limits)
    return raw.values, raw.bound, raw.limit, raw.bound_proof


def _open_options(
    data: SharingData, relaxed: Relaxation, all_run: bool
) -> tuple[tuple[Array, Array] | None, float]:
    """Return limits of z that decide all but the closest options, and what a deviation loses.

    Thousands of jobs of different weight are clear cases but for a few: their reduced cost says how
    much a solution loses, against the bound, that decides otherwise.
    """
    if len(data.options) <= _MANY_OPTIONS or all_run:
        return None, math.inf
    reduced = relaxed.option_reduced
    most = np.array([len(data.classes[k].members) for k, _ in data.options], dtype=float)
    loss = float(np.sort(np.abs(reduced))[_MANY_OPTIONS])
    decided = np.abs(reduced) >= max(loss, 1e-9 * float(np.abs(reduced).max()))
    lowest = np.where(decided & (reduced < 0), most, 0.0)
    highest = np.where(decided & (reduced > 0), 0.0, most)
    return (lowest, highest), loss


def _infeasible(instance: Instance, objective: str, settings: Settings) -> Outcome[Solution]:
    """Return the outcome of jobs that cannot all run, with how many of them can at most."""
    data = sharing_data(instance, aggregate=True, states=False)
    alike = tuple(replace(job_class, weight=1.0) for job_class in data.classes)
    counted = replace(data, classes=alike)
    relaxed = relax(
        counted,
        listed_columns(counted),
        "weight_placed",
        all_run=False,
        settings=settings,
        report=lambda line: None,
    )
    most = len(instance.jobs)
    if math.isfinite(relaxed.bound):
        most = min(most - 1, math.floor(relaxed.bound + 1e-6))
    worst = math.inf if sense_of(objective) == "min" else -math.inf
    return Outcome(
        None,
        worst,
        "none",
        "alloc patterns",
        highs.version(),
        infeasible=True,
        conflict=(
            f"{objective} wants all {len(instance.jobs)} jobs to run at once, and at most {most} "
            f"of them can on the {instance.topology.num_gpus} GPUs; the objective weight_placed "
            "chooses which of them run"
        ),
    )


def _dealt(
    data: SharingData, columns: Sequence[Column], values: Array, report: Callable[[str], None]
) -> Allocation:
    """Deal counts out, and place greedily what found no host."""
    unrolled = unroll(data, [(column.group, column.pattern) for column in columns], values)
    allocation = to_allocation(data, unrolled)
    if not unrolled.left:
        return allocation
    report(f"{len(unrolled.left)} chosen jobs find no host as dealt; placing them one by one")
    return _greedy(data.instance, allocation)


def _greedy(instance: Instance, start: Allocation | None) -> Allocation:
    """Place jobs one by one beside those that stand: the heaviest for their size first."""
    pool = HostPool(instance.topology)
    assignments = [] if start is None else list(start.assignments)
    for a in assignments:
        pool.take(instance.job(a.job).configurations[a.configuration], a.tasks)
    placed = {a.job for a in assignments}
    left = {tenant.name: tenant.gpu_quota_milli for tenant in instance.tenants}
    for a in assignments:
        job = instance.job(a.job)
        if job.tenant in left:
            left[job.tenant] -= job.configurations[a.configuration].demand[0]
    capacity = np.maximum(instance.topology.totals, 1)

    def size(c: int, j: int) -> float:
        configuration = instance.jobs[j].configurations[c]
        slices = sum(group.count for group in configuration.tasks if group.mig_profile)
        share = float((np.array(configuration.demand) / capacity).max())
        return share + slices / 8 / max(instance.topology.num_gpus, 1)

    waiting = [j for j, job in enumerate(instance.jobs) if job.id not in placed]
    first = {
        j: min(size(c, j) for c in range(len(instance.jobs[j].configurations))) for j in waiting
    }
    waiting.sort(key=lambda j: (-instance.jobs[j].weight / max(first[j], 1e-12), -first[j], j))
    # A shape that found no room finds none later: nothing is given back.
    hopeless: set[int] = set()
    for j in waiting:
        job = instance.jobs[j]
        if id(job.configurations) in hopeless:
            continue
        for c, configuration in enumerate(job.configurations):
            if (
                configuration.rate <= 0
                or left.get(job.tenant or "", math.inf) < (configuration.demand[0])
            ):
                continue
            tasks = pool.place(configuration)
            if tasks is not None:
                assignments.append(Assignment(job.id, c, tasks))
                if job.tenant in left:
                    left[job.tenant] -= configuration.demand[0]
                break
        else:
            if job.tenant not in left:
                hopeless.add(id(job.configurations))
    assignments.sort(key=lambda a: instance.job_index[a.job])
    return Allocation(tuple(assignments))


def _host_by_host(
    instance: Instance,
    objective: str,
    best: _Best,
    known: tuple[float, BoundProof, Limit | None],
    settings: Settings,
    report: Callable[[str], None],
) -> tuple[float, BoundProof, Limit | None]:
    """Solve the model in which every host is a class, if it is small; return bound and limit."""
    bound, proof, limit = known
    data = sharing_data(instance, aggregate=False, states=objective == "reconfigurations")
    columns = listed_columns(data)
    if not data.listed or len(columns) + len(data.pairs) > _EXACT_COLUMNS:
        return known
    all_run = objective in PLACES_ALL
    values, claimed, limit, proof_of_claim = _integers(data, columns, objective, all_run, settings)
    if values is None and limit is None and (best.allocation is not None or not all_run):
        # The refusal is false, for something stands that keeps every rule.
        return known
    if values is not None:
        best.offer(_dealt(data, columns, values, report))
    claimed = round_bound(data, objective, claimed)
    sharper = min(bound, claimed) if sense_of(objective) == "max" else max(bound, claimed)
    report(f"host by host: bound {sharper:g}")
    return (bound, proof, limit) if sharper == bound else (sharper, proof_of_claim, limit)


def _polish(
    first: SharingData,
    objective: str,
    best: _Best,
    found: Array,
    settings: Settings,
    report: Callable[[str], None],
) -> None:
    """Among the optima, seek the fewest GPUs and then the fewest reconfigurations.

    What is found is the best; its value must be that of `best`, whose allocation may be missing.
    `found` are the counts that reach it on the first columns.
    """
    instance, num_options = first.instance, len(first.options)
    data, columns, known = first, listed_columns(first), np.rint(found)
    chosen = known[:num_options]
    cut_now = any(task.starts for a in instance.running for task in a.tasks)
    held = {objective: best.value}
    # Weights all of their own leave hardly a choice of jobs; without it the search is short.
    many = len(chosen) > _MANY_OPTIONS and objective == "weight_placed"
    fixed = (chosen, chosen) if many else None
    all_run = objective in PLACES_ALL
    for name in _ORDER:
        if name == objective or (name == "weight_placed" and all_run):
            continue
        if name == "reconfigurations" and not cut_now:
            continue
        if settings.seconds_left() < 0.1:
            report(f"no time left to make {name} small")
            return
        if name == "reconfigurations":
            # Now GPUs are told apart that are cut in another way.
            data = sharing_data(instance, aggregate=True, states=True)
            columns = listed_columns(data)
        kept = {n: v for n, v in held.items() if fixed is None or n != objective}
        num_columns = num_options + len(data.pairs) + len(columns)
        values, bound, limit, _ = _integers(
            data,
            columns,
            name,
            all_run,
            settings,
            kept,
            options=fixed,
            start=known if len(known) == num_columns else None,
        )
        if values is None:
            report(f"{name}: no better answer in time")
            continue
        used = [(column.group, column.pattern) for column in columns]
        unrolled = unroll(data, used, values)
        polished = to_allocation(data, unrolled)
        value = named_objective(objective).evaluate(instance, polished)
        if unrolled.left or not math.isclose(value, best.value):
            report(f"{name}: its counts do not suit single hosts; kept as it was")
            continue
        best.allocation = polished
        reached = float(np.rint(values) @ array_model(data, columns, name, all_run=all_run).cost)
        held[name] = reached
        word = "time is up" if limit else "proved" if fixed is None else "proved for these jobs"
        report(f"then {name} {reached:g} ({word}, bound {bound:g})")


def _with_reasons(instance: Instance, allocation: Allocation) -> Allocation:
    """Name the jobs that do not run, with the reason."""
    runs = {a.job for a in allocation.assignments}
    reason = "finds no room on the GPUs beside the jobs that run, which weigh more together"
    unplaced = {job.id: reason for job in instance.jobs if job.id not in runs}
    return Allocation(allocation.assignments, unplaced)
