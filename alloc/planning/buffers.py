"""Capacity buffers: what the model keeps in a pool beyond the room for its load.

The model takes goals class by class. Where jobs of several classes share a pool, more is required:
short jobs that may hardly wait queue up behind gangs that wait for many GPUs at once. A buffer says
how much, for a class in a pool, or for two classes that meet in it; the model pays it, or sends one
of them elsewhere.

There is one rule. After each replay a pool requires what the formula of `alloc.planning.capacity`
says, corrected by what was measured in that pool; a buffer is what it requires in a quarter beyond
what the model sets aside. In pools that were not measured the correction is the median of those
that were.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import joblib

from alloc.errors import worker_deaths
from alloc.planning.capacity import SIZING, formula_gpus, measured_gpus, reserved_gpus
from alloc.planning.pools import Operation, Pool, Regime, Stream, operations_of
from alloc.planning.replay import Measured, ReplaySettings
from alloc.problems.right_sizing.demand import JobClass, MarginKey, Tightening, TighteningKey
from alloc.problems.right_sizing.headroom import ANY_POOL, KEPT_OUT, headroom, reference_gpus
from alloc.problems.right_sizing.plan import Plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.solving.processes import worker_processes

# Decisions whether a class is sent to a pool in a quarter, up to which all of them are left to the
# model: a thousand binaries are solved in seconds, ten thousand in minutes.
_MAX_DECISIONS = 1000
# Part of a host by which a pool that missed a goal requires more than it had, whatever the draws by
# which capacity is measured say: any part makes the model add a host.
_LEAST_STEP = 0.05

# GPUs by which a buffer must be too small to be worth another solve.
_NOTHING = 0.5

Buffers = dict[tuple[MarginKey, int], float]
"""GPUs, by classes and pool and by quarter."""


@dataclass
class Knowledge:
    """What the replays of all plans have shown.

    Parameters
    ----------
    corrections
        What a pool requires beyond its load, as measured, over what the formula says; below 1 where
        it needs less. A ratio holds for other loads and mixes too, a number of GPUs would not.
    buffers
        The buffer of each class, or two, in pools of a plan, quarter by quarter; 0 where none is
        required.
    mixes
        Of each pool and quarter all that plans sent there, at the largest load.
    measured
        The pools of which it was measured what they require.
    held
        Whether the goals of some plan held. Until then corrections only rise: each plan sends other
        jobs to a pool, and what it lacked once is not forgotten because another mix needed less.
    """

    corrections: dict[Pool, float] = field(default_factory=dict)
    buffers: Buffers = field(default_factory=dict)
    mixes: dict[tuple[Pool, int], Operation] = field(default_factory=dict)
    measured: set[Pool] = field(default_factory=set)
    held: bool = False

    def correct(self, pool: Pool, required: float) -> None:
        """Note what a pool was seen to require beyond its load, over what the formula says."""
        before = 0.0 if self.held else self.corrections.get(pool, 0.0)
        self.corrections[pool] = max(required, before)

    def correction(self, pool: Pool) -> float:
        """Return what a pool requires beyond its load, over what the formula says."""
        if pool in self.corrections or not self.corrections:
            return self.corrections.get(pool, 1.0)
        return statistics.median(self.corrections.values())

    def required(self, operation: Operation) -> float:
        """Return the GPUs with which a pool keeps its goals, as far as known."""
        return corrected(
            operation.streams, required_by_formula(operation), self.correction(operation.pool)
        )


def learn(
    knowledge: Knowledge,
    problem: PlanningProblem,
    asked: Collection[MarginKey],
    every: Sequence[Operation],
    replayed: Sequence[tuple[Operation, Sequence[Measured]]],
    settings: ReplaySettings,
    draw: int = 1,
) -> None:
    """Correct the formula by a replay, and set the buffers of the pools of the plan.

    Measured is what the replayed regimes of a pool require if a goal was missed there, or if the
    pool keeps a buffer; the largest counts. A pool without one that held requires no more than it
    had.

    Parameters
    ----------
    knowledge
        What is known; changed.
    problem
        The problem as it was asked, without buffers of replays.
    asked
        Of whom the plan had to keep buffers.
    every
        Every pool of the plan in every regime.
    replayed
        Those that were replayed, and what was measured there.
    settings
        How they are replayed.
    draw
        The draw by which they were replayed. What a regime requires that missed a goal is measured
        by it too: other draws may be kinder, and the next verdict is by another one.
    """
    seen = [one for _, measured in replayed for one in measured]
    knowledge.held |= bool(seen) and all(one.holds for one in seen)
    by_pool: dict[Pool, list[tuple[Operation, Sequence[Measured]]]] = defaultdict(list)
    for operation, measured in replayed:
        if operation.has_goal:
            by_pool[operation.pool].append((operation, measured))
    to_measure = []
    for pool, found in by_pool.items():
        has_missed = not all(m.holds for _, measured in found for m in measured)
        is_asked = any(
            _pool_of(key) == pool and key.job_classes <= _names(operation)
            for key in asked
            for operation, _ in found
        )
        if has_missed or is_asked:
            # Where the goals hold, no regime requires more than it has, whatever other draws say:
            # the next plan costs no more on account of what was replayed.
            has = min(ratio(operation, operation.gpus) for operation, _ in found)
            most = math.inf if has_missed else has
            for operation, measured in found:
                missed = not all(one.holds for one in measured)
                # More than it had when it missed, whatever the draws say.
                step = _LEAST_STEP * max(operation.hosts, default=1)
                least = ratio(operation, operation.gpus + step) if missed else 0.0
                for by in (SIZING, draw) if missed else (SIZING,):
                    to_measure.append((operation, by, least, most))
        elif all(measured for _, measured in found):
            has = min(ratio(operation, operation.gpus) for operation, _ in found)
            knowledge.correct(pool, min(knowledge.correction(pool), has))
    calls = [(one, knowledge.required(one), by) for one, by, _, _ in to_measure]
    sizes = _measure(calls, settings)
    corrections: dict[Pool, float] = {}
    for (operation, _, least, most), gpus in zip(to_measure, sizes, strict=True):
        required = max(min(ratio(operation, gpus), most), least)
        corrections[operation.pool] = max(required, corrections.get(operation.pool, 0.0))
    for pool, correction in corrections.items():
        knowledge.measured.add(pool)
        knowledge.correct(pool, correction)
    operations = [*(operation for operation, _ in replayed), *_largest(every).values()]
    knowledge.buffers |= _buffers(knowledge, problem, every, operations)


def raise_buffers(
    knowledge: Knowledge, problem: PlanningProblem, every: Sequence[Operation]
) -> bool:
    """Raise the buffers of pools that a plan gives fewer GPUs than they require, as far as known.

    Parameters
    ----------
    knowledge
        What is known; changed.
    problem
        The problem as it was asked.
    every
        Every pool of the plan in every regime.

    Returns
    -------
    bool
        Whether any buffer was raised: then a plan that costs more is the one worth a replay.
    """
    short: dict[tuple[Pool, int], tuple[float, Operation]] = {}
    for operation in every:
        if not operation.has_goal:
            continue
        missing = knowledge.required(operation) - operation.gpus
        where = operation.pool, operation.regime.quarter
        if missing > short.get(where, (0.0, operation))[0]:
            short[where] = missing, operation
    operations = [operation for _, operation in short.values()]
    raised = False
    for (key, quarter), gpus in _buffers(knowledge, problem, every, operations).items():
        if gpus > knowledge.buffers.get((key, quarter), 0.0) + _NOTHING:
            knowledge.buffers[key, quarter] = gpus
            raised |= any(
                key.job_classes <= _names(operation)
                and (_pool_of(key), quarter) == (operation.pool, operation.regime.quarter)
                for operation in operations
            )
    return raised


def _buffers(
    knowledge: Knowledge,
    problem: PlanningProblem,
    every: Sequence[Operation],
    operations: Sequence[Operation],
) -> Buffers:
    """Return the buffers that pools of a plan require in some regimes.

    Classes that come to a pool in some quarters only might come in the others too.
    """
    now: Buffers = {}
    for operation in operations:
        for key, gpus in _buffers_of(problem, operation, knowledge.correction(operation.pool)):
            at = key, operation.regime.quarter
            now[at] = max(gpus, now.get(at, 0.0))
    by_quarter = _largest(every)
    for pool in {operation.pool: None for operation in every}:
        here = [operation for operation in every if operation.pool == pool]
        most = max(here, key=lambda operation: operation.load)
        for quarter in range(problem.num_quarters):
            largest = by_quarter.get((pool, quarter), most)
            knowledge.mixes[pool, quarter] = _with_all(largest, here)
    for (pool, quarter), operation in knowledge.mixes.items():
        for key, gpus in _buffers_of(problem, operation, knowledge.correction(pool)):
            now.setdefault((key, quarter), gpus)
    return now


def required_by_formula(operation: Operation) -> float:
    """Return the GPUs with which a pool keeps the goals of all its classes, by formula."""
    classes = {stream.job_class.name: stream.job_class for stream in operation.streams}
    return max(formula_gpus(operation.streams, job_class) for job_class in classes.values())


def corrected(streams: Sequence[Stream], formula: float, correction: float) -> float:
    """Return the GPUs that a pool requires: what the formula says beyond the load is corrected.

    No correction makes a pool smaller than its largest gang.
    """
    load = math.fsum(stream.load for stream in streams)
    return max(load + correction * (formula - load), *(float(stream.gpus) for stream in streams))


def ratio(operation: Operation, gpus: float) -> float:
    """Return so many GPUs of a pool with a goal, beyond its load, over what the formula says.

    With a goal the formula says more than the load, however loose the goal is.
    """
    beyond = required_by_formula(operation) - operation.load
    return max(gpus - operation.load, 0.0) / beyond


def tightened(
    problem: PlanningProblem,
    knowledge: Knowledge,
    *,
    stay: Collection[TighteningKey] | None = None,
    measured_only: bool = False,
) -> PlanningProblem:
    """Return a problem with the buffers that are known, and estimates for pools not used so far.

    Parameters
    ----------
    problem
        The problem as it was asked.
    knowledge
        What is known.
    stay
        The classes and pools where classes are to stay (a trust region); None: they may go
        elsewhere, for what is estimated.
    measured_only
        Whether only buffers of pools that were measured are asked for, and no trust region is kept.
    """
    added = dict(knowledge.buffers)
    if not (knowledge.held or measured_only):
        # Until some plan holds, whatever was required once is kept all the time; then quarters with
        # less load give back, and they do where nothing fits the limits otherwise.
        largest: dict[MarginKey, float] = {}
        for (key, _), gpus in added.items():
            largest[key] = max(gpus, largest.get(key, 0.0))
        added = {(key, quarter): largest[key] for key, quarter in added}
    out: set[TighteningKey] = set()
    if measured_only:
        added = {at: gpus for at, gpus in added.items() if _pool_of(at[0]) in knowledge.measured}
    elif stay is None:
        for quarter in range(problem.num_quarters):
            for key, gpus in _estimates(problem, knowledge, quarter):
                added[key, quarter] = max(gpus, added.get((key, quarter), 0.0))
    else:
        stay = set(stay)
        # A class of which no pool is known may go anywhere: it has to go somewhere.
        names = {name for name, *_ in stay}
        out = {key for key in _everywhere(problem) - stay if key[0] in names}
    tightening = [_as_tightening(*at, gpus) for at, gpus in added.items() if gpus > 0]
    tightening += [Tightening(*key[:3], factor=KEPT_OUT, spot=key[3]) for key in out]
    tightening.sort(key=lambda part: (part.key, part.beside or "", part.quarter or 0))
    return problem.replace(tightening=problem.tightening + tuple(tightening))


def with_shared_pools(problem: PlanningProblem) -> PlanningProblem:
    """Return a problem without headroom for what is lost where pools are small.

    The headroom of a class by itself, in a pool of a size assumed before there is a plan, is what
    buffers say better: they know the sizes, and who shares the pools. A size that is given is kept.
    """
    return problem if problem.pool_gpus is not None else problem.replace(pool_gpus=ANY_POOL)


def keys_of(problem: PlanningProblem, plan: Plan) -> set[TighteningKey]:
    """Return the classes of jobs that a plan sends to pools, and the pools."""
    return {key for operation in operations_of(problem, plan) for key in _keys(operation)}


def is_small(problem: PlanningProblem) -> bool:
    """Return whether all classes may be left free to move to any pool."""
    return len(_everywhere(problem)) * problem.num_quarters <= _MAX_DECISIONS


def _as_tightening(key: MarginKey, quarter: int, gpus: float) -> Tightening:
    name, *beside = sorted(key.job_classes)
    return Tightening(
        name,
        key.gpu_type,
        key.site,
        margin=gpus,
        spot=key.spot,
        beside=beside[0] if beside else None,
        quarter=quarter,
    )


def _pool_of(key: MarginKey) -> Pool:
    return Pool(key.gpu_type, key.site, key.spot)


def _measure(calls: Sequence[tuple[Operation, float, int]], settings: ReplaySettings) -> list[int]:
    """Return what pools require, from guesses and by draws, in parallel if the settings say so."""
    if settings.workers == 1 or len(calls) < 2:
        return [measured_gpus(one, settings, guess, draw) for one, guess, draw in calls]
    jobs = (joblib.delayed(measured_gpus)(one, settings, guess, draw) for one, guess, draw in calls)
    with worker_processes(settings.workers) as parallel, worker_deaths("measuring capacity"):
        return list(parallel(jobs))


def _buffers_of(
    problem: PlanningProblem, operation: Operation, correction: float
) -> Iterator[tuple[MarginKey, float]]:
    """Yield the buffers of the classes with a goal in a pool, and of pairs with a larger class.

    Classes are ordered by their gangs, then loads. The buffer of a class is for what comes before
    it in that order, that of a pair for what comes before the larger of the two. So the largest
    buffer is that of all jobs there are, and if the largest classes leave, that of the rest.
    """
    by_name: dict[str, list[Stream]] = defaultdict(list)
    for stream in operation.streams:
        by_name[stream.job_class.name].append(stream)
    sizes = {
        name: (max(s.gpus for s in streams), sum(s.load for s in streams), name)
        for name, streams in by_name.items()
    }
    order = sorted(by_name, key=lambda name: sizes[name])
    for i in range(len(order)):
        part = replace(operation, streams=tuple(s for n in order[: i + 1] for s in by_name[n]))
        reserved = reserved_gpus(problem, part)
        for name in order[: i + 1]:
            job_class = by_name[name][0].job_class
            if job_class.goal is not None:
                formula = formula_gpus(part.streams, job_class)
                required = corrected(part.streams, formula, correction)
                yield _key(operation.pool, {name, order[i]}), max(required - reserved, 0.0)


def _estimates(
    problem: PlanningProblem, knowledge: Knowledge, quarter: int
) -> Iterator[tuple[MarginKey, float]]:
    """Yield buffers for classes in pools that they were not sent to, were they sent in a quarter.

    As if all their jobs came to what is there already, or where nothing is, to those of another.
    """
    everywhere: dict[Pool, dict[str, Stream]] = defaultdict(dict)
    for name, gpu_type, site, spot in sorted(_everywhere(problem)):
        job_class = problem.classes[problem.class_index[name]]
        stream = _all_jobs(problem, job_class, gpu_type, spot, quarter)
        if stream is not None and stream.jobs_per_hour > 0:
            everywhere[Pool(gpu_type, site, spot)][name] = stream
    for pool, by_name in everywhere.items():
        there = knowledge.mixes.get((pool, quarter))
        known = set() if there is None else {s.job_class.name for s in there.streams}
        for name, stream in by_name.items():
            if name in known:
                continue
            mixes = [(other,) for other in by_name.values()] if there is None else [there.streams]
            for mix in mixes:
                streams = (stream, *(s for s in mix if s is not stream))
                operation = Operation(pool, Regime("", 0, 0), {}, streams)
                for key, gpus in _buffers_of(problem, operation, knowledge.correction(pool)):
                    if name in key.job_classes:
                        yield key, gpus


def _all_jobs(
    problem: PlanningProblem, job_class: JobClass, gpu_type: str, spot: bool, quarter: int
) -> Stream | None:
    """Return all jobs of a class in a quarter, as on average over scenarios, on a GPU type.

    None if no option there is fast enough for the goal: the model sends none.
    """
    options = [
        k
        for k, option in enumerate(job_class.options)
        if option.gpu_type == gpu_type
        and headroom(problem, job_class, k, reference_gpus(problem), spot) is not None
    ]
    if not options:
        return None
    k = min(options, key=lambda k: job_class.options[k].gpu_hours)
    hours = job_class.options[k].hours * (1 + (job_class.spot_overhead if spot else 0.0))
    rate = sum(
        scenario.probability * scenario.arrivals[job_class.name][quarter]
        for scenario in problem.scenarios
    )
    return Stream(job_class, k, hours, rate)


def _everywhere(problem: PlanningProblem) -> set[TighteningKey]:
    """Return all classes with all pools that may be sent jobs of theirs."""
    found = set()
    for offer in problem.offers:
        for site in problem.sites:
            owned = any((h.offer, h.site) == (offer.name, site.name) for h in problem.owned)
            if not (offer.at(site.name) or owned):
                continue
            spot = offer.terms == "spot"
            for c in problem.classes:
                runs = any(option.gpu_type == offer.gpu_type for option in c.options)
                if runs and c.at(site.name) and (c.interruptible or not spot):
                    found.add((c.name, offer.gpu_type, site.name, spot))
    return found


def _largest(every: Iterable[Operation]) -> dict[tuple[Pool, int], Operation]:
    """Return each pool at its largest load in each quarter."""
    largest: dict[tuple[Pool, int], Operation] = {}
    for operation in every:
        at = operation.pool, operation.regime.quarter
        if operation.load >= largest.get(at, operation).load:
            largest[at] = operation
    return largest


def _with_all(largest: Operation, every: Sequence[Operation]) -> Operation:
    """Return a pool at its largest load, with the classes too that come in other regimes only."""
    streams = {(s.job_class.name, s.option): s for s in largest.streams}
    for operation in every:
        for stream in operation.streams:
            streams.setdefault((stream.job_class.name, stream.option), stream)
    return replace(largest, streams=tuple(streams.values()))


def _key(pool: Pool, names: Iterable[str]) -> MarginKey:
    return MarginKey(frozenset(names), pool.gpu_type, pool.site, pool.spot)


def _names(operation: Operation) -> set[str]:
    return {stream.job_class.name for stream in operation.streams}


def _keys(operation: Operation) -> set[TighteningKey]:
    pool = operation.pool
    return {(s.job_class.name, pool.gpu_type, pool.site, pool.spot) for s in operation.streams}
