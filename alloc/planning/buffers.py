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

from alloc.planning.capacity import (
    SIZING,
    PoolFormula,
    ToMeasure,
    corrected,
    gpus_to_ask,
    measured_ratios,
    ratio,
    ratio_above,
    required_by_formula,
    reserved_gpus,
    usable_gpus,
)
from alloc.planning.pools import Operation, Pool, Stream, tightest_by_band
from alloc.planning.replay import Measured, ReplaySettings
from alloc.problems.right_sizing.bands import bands_of
from alloc.problems.right_sizing.demand import MarginKey
from alloc.problems.right_sizing.problem import PlanningProblem

# Part of a host by which a pool that missed a goal requires more than it had, whatever the draws by
# which capacity is measured say: any part makes the model add a host.
_LEAST_STEP = 0.05

# Hosts by which a pool that missed a goal, or nearly did, requires more than it had if the next
# plan is the last: what is nearly enough is as likely as not missed by other draws, and of a dozen
# such pools one always is. There is no later plan to mend it, and a host costs little.
_SURE_STEP = 1.0

# GPUs by which a buffer must be too small to be worth another solve.
_NOTHING = 0.5

Buffers = dict[tuple[MarginKey, int], float]
"""GPUs, by classes and pool and by quarter."""

ByBand = dict[tuple[Pool, int], tuple[float, ...]]
"""GPUs that all jobs of a pool ask for in a quarter, in each band of hours."""


@dataclass
class Knowledge:
    """What the replays of all plans have shown.

    Parameters
    ----------
    corrections
        What a pool requires beyond its load, as measured, over what the formula says, where it
        needs less; where it needs more, 1 and by how many standard deviations of the GPUs busy, as
        in `alloc.planning.capacity.corrected`. Both hold for other loads and mixes too, a number of
        GPUs would not.
    buffers
        The buffer of each class, or two, in the pools of the last plan, quarter by quarter; 0 where
        none is required.
    by_band
        What all jobs that come to a pool in a quarter ask for in each band of hours: by night
        another mix comes, and fewer hosts are rented, so that no buffer is right for all hours.
    measured
        The pools of which it was measured what they require.
    held
        Whether the goals of some plan held. Until then corrections only rise: each plan sends other
        jobs to a pool, and what it lacked once is not forgotten because another mix needed less.
    """

    corrections: dict[Pool, float] = field(default_factory=dict)
    buffers: Buffers = field(default_factory=dict)
    by_band: ByBand = field(default_factory=dict)
    measured: set[Pool] = field(default_factory=set)
    held: bool = False

    def correct(self, pool: Pool, required: float) -> None:
        """Note what a pool was seen to require, beside what the formula says.

        Parameters
        ----------
        pool
            The pool.
        required
            A ratio, as `alloc.planning.capacity.ratio` returns it, 0 or more.
        """
        before = 0.0 if self.held else self.corrections.get(pool, 0.0)
        self.corrections[pool] = max(required, before)

    def correction(self, pool: Pool) -> float:
        """Return what a pool requires beside what the formula says."""
        if pool in self.corrections or not self.corrections:
            return self.corrections.get(pool, 1.0)
        return statistics.median(self.corrections.values())

    def required(self, operation: Operation) -> float:
        """Return the GPUs with which a pool keeps its goals, as far as known."""
        return corrected(
            operation.streams, required_by_formula(operation), self.correction(operation.pool)
        )

    def parts(self) -> dict[Pool, tuple[float, ...]]:
        """Return of each pool the part of its buffers that it requires in each band of hours.

        Of the largest in a quarter; over the quarters the largest part counts.
        """
        found: dict[Pool, tuple[float, ...]] = {}
        for (pool, _), gpus in self.by_band.items():
            if max(gpus) > 0:
                parts = tuple(each / max(gpus) for each in gpus)
                found[pool] = tuple(map(max, found.get(pool, parts), parts))
        return found

    def missing(self, operation: Operation) -> float:
        """Return the GPUs that a pool requires beyond those that its gangs can fill."""
        return self.required(operation) - usable_gpus(operation.streams, operation.gpus)


def learn(
    knowledge: Knowledge,
    problem: PlanningProblem,
    asked: Collection[MarginKey],
    every: Sequence[Operation],
    replayed: Sequence[tuple[Operation, Sequence[Measured]]],
    settings: ReplaySettings,
    draw: int = 1,
    *,
    surely: bool = False,
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
    surely
        Whether the next plan is the last and this one missed. Then what a regime requires that
        missed a goal, or nearly did, is measured by all draws until now, and it is a host more than
        it had.
    """
    seen = [one for _, measured in replayed for one in measured]
    knowledge.held |= bool(seen) and all(one.holds for one in seen)
    by_pool: dict[Pool, list[tuple[Operation, Sequence[Measured]]]] = defaultdict(list)
    for operation, measured in replayed:
        if operation.has_goal:
            by_pool[operation.pool].append((operation, measured))
    to_measure: dict[Pool, list[ToMeasure]] = {}
    for pool, found in by_pool.items():
        doubtful = [
            any(not m.holds or (surely and not m.is_sure) for m in measured)
            for _, measured in found
        ]
        has_missed = any(doubtful)
        is_asked = any(
            pool_of(key) == pool and key.job_classes <= _names(operation)
            for key in asked
            for operation, _ in found
        )
        # Until the goals hold, what is known of a pool that held its own would not fall.
        if has_missed or (is_asked and (knowledge.held or pool not in knowledge.corrections)):
            # Where the goals hold, no regime requires more than it has, whatever other draws say:
            # the next plan costs no more on account of what was replayed.
            has = min(ratio(operation, operation.gpus) for operation, _ in found)
            most = math.inf if has_missed else has
            to_measure[pool] = []
            draws = range(draw + 1) if surely else (SIZING, draw)
            for (operation, _), missed in zip(found, doubtful, strict=True):
                # More than it had when it missed, whatever the draws say.
                step = (_SURE_STEP if surely else _LEAST_STEP) * max(operation.hosts, default=1)
                least = ratio_above(operation, step) if missed else 0.0
                for by in draws if missed else (SIZING,):
                    to_measure[pool].append(ToMeasure(operation, by, least, most))
        elif all(measured for _, measured in found):
            has = min(ratio(operation, operation.gpus) for operation, _ in found)
            knowledge.correct(pool, min(knowledge.correction(pool), has))
    calls = [(knowledge.correction(pool), regimes) for pool, regimes in to_measure.items()]
    for pool, required in zip(to_measure, measured_ratios(calls, settings), strict=True):
        knowledge.measured.add(pool)
        knowledge.correct(pool, required)
    fit(knowledge, problem, every, [operation for operation, _ in replayed])


def fit(
    knowledge: Knowledge,
    problem: PlanningProblem,
    every: Sequence[Operation],
    replayed: Sequence[Operation] = (),
) -> None:
    """Set the buffers to what the pools of a plan require; those of other plans are forgotten.

    Parameters
    ----------
    knowledge
        What is known; changed.
    problem
        The problem as it was asked.
    every
        Every pool of the plan in every regime.
    replayed
        Those that were replayed; of the others the largest load of a quarter counts.
    """
    largest = _largest(every).values()
    asking = [one for one in tightest_by_band(every) if _is_short_of_own(knowledge, one)]
    operations = [*replayed, *largest]
    knowledge.buffers = _buffers(knowledge, problem, every, operations)
    # No more than the buffers are: those of other hours rise where a plan is short then.
    most = {at: max(gpus) for at, gpus in _by_band(knowledge, problem, operations).items()}
    knowledge.by_band = {
        at: tuple(min(each, most[at]) for each in gpus)
        for at, gpus in _by_band(knowledge, problem, [*operations, *asking]).items()
    }


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
    short = [one for one in tightest_by_band(every) if knowledge.missing(one) > 0]
    operations = _largest_asked(knowledge, problem, short)
    pools = {operation.pool for operation in operations}
    there = [operation for operation in every if operation.pool in pools]
    raised = False
    for (key, quarter), gpus in _buffers(knowledge, problem, there, operations).items():
        if gpus > knowledge.buffers.get((key, quarter), 0.0) + _NOTHING:
            knowledge.buffers[key, quarter] = gpus
            raised |= any(
                key.job_classes <= _names(operation)
                and (pool_of(key), quarter) == (operation.pool, operation.regime.quarter)
                for operation in operations
            )
    for at, asked in _by_band(knowledge, problem, short).items():
        before = knowledge.by_band.get(at, (0.0,) * len(asked))
        raised |= any(new > old + _NOTHING for new, old in zip(asked, before, strict=True))
        knowledge.by_band[at] = tuple(map(max, before, asked))
    return raised


def _is_short_of_own(knowledge: Knowledge, operation: Operation) -> bool:
    """Return whether a pool requires more than the hosts that it has in every regime.

    Where it does not, it has what it requires whatever is rented.
    """
    return knowledge.required(operation) > usable_gpus(operation.streams, operation.own_gpus)


def _beyond(knowledge: Knowledge, problem: PlanningProblem, operation: Operation) -> float:
    """Return the GPUs that a pool requires beyond those that the model sets aside, or 0."""
    if not operation.has_goal:
        return 0.0
    required = knowledge.required(operation)
    asked = gpus_to_ask(operation.streams, required, max(operation.hosts, default=1))
    return max(asked - reserved_gpus(problem, operation), 0.0)


def _largest_asked(
    knowledge: Knowledge, problem: PlanningProblem, operations: Iterable[Operation]
) -> list[Operation]:
    """Return of each pool and quarter the operation with the largest buffer."""
    most: dict[tuple[Pool, int], tuple[float, Operation]] = {}
    for operation in operations:
        at = operation.pool, operation.regime.quarter
        beyond = _beyond(knowledge, problem, operation)
        if at not in most or beyond > most[at][0]:
            most[at] = beyond, operation
    return [operation for _, operation in most.values()]


def _by_band(
    knowledge: Knowledge, problem: PlanningProblem, operations: Iterable[Operation]
) -> ByBand:
    """Return what all jobs of pools ask for in each band of hours of a quarter."""
    none = (0.0,) * bands_of(problem).count
    found: dict[tuple[Pool, int], list[float]] = defaultdict(lambda: [*none])
    for operation in operations:
        asked, band = found[operation.pool, operation.regime.quarter], operation.regime.band
        asked[band] = max(asked[band], _beyond(knowledge, problem, operation))
    return {at: tuple(asked) for at, asked in found.items()}


def is_enough(knowledge: Knowledge, every: Iterable[Operation]) -> bool:
    """Return whether every pool of a plan has what it requires, as far as known.

    Parameters
    ----------
    knowledge
        What the replays have shown so far.
    every
        The pools of a plan in all regimes.
    """
    return not any(
        operation.has_goal and knowledge.missing(operation) > _NOTHING for operation in every
    )


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
            everyone = _with_all(largest, here)
            for key, gpus in _buffers_of(problem, everyone, knowledge.correction(pool)):
                now.setdefault((key, quarter), gpus)
    return now


def pool_of(key: MarginKey) -> Pool:
    """Return the pool that a buffer is kept in."""
    return Pool(key.gpu_type, key.site, key.spot)


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
    host_gpus = max(operation.hosts, default=1)
    for i in range(len(order)):
        part = replace(operation, streams=tuple(s for n in order[: i + 1] for s in by_name[n]))
        reserved, formula = reserved_gpus(problem, part), PoolFormula(part.streams)
        for name in order[: i + 1]:
            job_class = by_name[name][0].job_class
            if job_class.goal is not None:
                required = corrected(part.streams, formula.gpus(job_class), correction)
                asked = gpus_to_ask(part.streams, required, host_gpus)
                yield _key(operation.pool, {name, order[i]}), max(asked - reserved, 0.0)


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
