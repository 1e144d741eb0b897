"""Search by whole jobs: some are taken off their hosts, put down again elsewhere, and judged.

It knows every rule and every objective, since each placement is evaluated whole; it is the search
for rules that tie tasks together, for jobs that wait, and for goals that hosts alone do not show.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np
from scipy.sparse import csr_array

from alloc.clock import time_is_up
from alloc.objectives.goals import Held, WeightedSum
from alloc.solving.placement.clock import Clock
from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.gangs import Gangs
from alloc.solving.placement.greedy import (
    RULES,
    HostStates,
    Rule,
    has_own_rules,
    put_down_by,
    rules_for,
)
from alloc.solving.placement.incumbent import Incumbent
from alloc.solving.placement.terms import Counts
from alloc.units import MILLI

_PLACED = ("gpus_placed", "weight_placed")


def must_run(problem: Problem) -> set[int]:
    """Return the running jobs that may not be stopped."""
    moves = problem.instance.allowed_moves
    jobs = problem.instance.jobs
    return {j for j in problem.data.running if not moves.evict or not jobs[j].preemptible}


def first_placements(
    problem: Problem,
    level: WeightedSum,
    held: Sequence[Held] = (),
    later: Sequence[WeightedSum] = (),
    keep: Callable[[csr_array], object] | None = None,
) -> Iterator[csr_array]:
    """Yield placements to start from.

    Where the goal, or an earlier level of it, wants jobs placed: waiting jobs beside what runs, by
    every rule of `greedy`, those that place the most first, and of these the best by the later
    levels. No clock is asked, so that no limit gives less than the rules do; only where gangs have
    slices, spreads or affinities, which take long to put down, no further rule is tried once the
    time of `alloc.clock` is up. Then what runs as it stands, and nothing at all. On Ctrl-C `keep`
    is given the best of the rules that are through, and what runs as it stands.

    Parameters
    ----------
    problem
        The problem.
    level
        The level of the goal that is optimised.
    held
        Earlier levels, with the values that they must keep.
    later
        Levels that come after; they choose among equals.
    keep
        Takes a placement, shape (groups, hosts), on Ctrl-C, or None.
    """
    data = problem.data
    standing = data.initial
    if any(_wants_placed(one) for one in (level, *(one.level for one in held))):
        before = Gangs(problem, standing)
        largest = waiting_jobs(problem, before, by_size=True)
        states, tries = HostStates(before), list[Gangs]()
        tied = any(has_own_rules(before, job) for job in largest)

        def put_down(jobs: Sequence[int], rule: Rule) -> Gangs:
            gangs = before.copy()
            put_down_by(gangs, jobs, rule, states)
            return gangs

        stood = len(before.placed)
        try:
            for rule in rules_for(problem):
                tries.append(put_down(largest, rule))
                if tied and time_is_up():
                    break
            else:
                smallest = waiting_jobs(problem, before, by_size=False)
                tries.append(put_down(smallest, RULES[0]))
        except KeyboardInterrupt:
            if keep is not None:
                for gangs in _best_first(tries, level, later, stood)[:1]:
                    keep(gangs.counts())
                keep(standing)
            raise
        for gangs in _best_first(tries, level, later, stood):
            if all(
                _placed(gangs, one.level) >= one.limit for one in held if only_places(one.level)
            ):
                yield gangs.counts()
    yield standing
    if not must_run(problem):
        yield csr_array(standing.shape, dtype=np.int64)


def _best_first(
    tries: Sequence[Gangs], level: WeightedSum, later: Sequence[WeightedSum], stood: int
) -> list[Gangs]:
    """Return placements, those that place the most first; `stood` jobs stand in all of them."""
    # They differ in those put down last.
    placed = [_placed(gangs, level, stood) for gangs in tries]
    order = sorted(range(len(tries)), key=lambda t: -placed[t])
    most = placed.count(max(placed, default=0.0))
    if later and most > 1:
        worth = {t: _worth(tries[t], later) for t in order[:most]}
        order[:most] = sorted(order[:most], key=worth.__getitem__)
    return [tries[t] for t in order]


def _worth(gangs: Gangs, levels: Sequence[WeightedSum]) -> list[float]:
    """Return the values of levels, less the better."""
    problem = gangs.problem
    allocation = problem.data.allocation(gangs.counts())
    return [
        (1.0 if level.sense == "min" else -1.0) * level.evaluate(problem.instance, allocation)
        for level in levels
    ]


def with_waiting(problem: Problem, level: WeightedSum, counts: csr_array) -> csr_array:
    """Return a placement with waiting jobs put beside it, largest first, where that is wanted.

    Parameters
    ----------
    problem
        The problem.
    level
        The level of the goal, which says whether placed jobs are wanted.
    counts
        Tasks of each group on each host, shape (groups, hosts).
    """
    if not _wants_placed(level):
        return counts
    gangs = Gangs(problem, counts)
    _put_down(gangs, waiting_jobs(problem, gangs, by_size=True))
    return gangs.counts()


def _wants_placed(level: WeightedSum) -> bool:
    return level.sense == "max" and any(term.name in _PLACED for _, term in level.terms)


def only_places(level: WeightedSum) -> bool:
    """Return whether a level counts placed jobs and nothing else: the more, the better."""
    return level.sense == "max" and all(
        weight > 0 and term.name in _PLACED for weight, term in level.terms
    )


def _placed(gangs: Gangs, level: WeightedSum, first: int = 0) -> float:
    """Return what the terms of a level that count placed jobs add up to, from some job on."""
    jobs = gangs.problem.instance.jobs
    terms = [(weight, term.name) for weight, term in level.terms if term.name in _PLACED]
    # Without rounding, so that the same jobs in another order are worth the same.
    return math.fsum(
        weight
        * (jobs[j].configurations[c].demand[0] / MILLI if name == _PLACED[0] else jobs[j].weight)
        for j, c in islice(gangs.placed.items(), first, None)
        for weight, name in terms
    )


def fresh_placements(problem: Problem, attempts: int, seed: int) -> Iterator[csr_array]:
    """Yield placements of what must run, put down afresh: where what stands breaks a rule.

    Parameters
    ----------
    problem
        The problem.
    attempts
        Number of placements; the first puts the largest jobs down first, the others are random.
    seed
        Of the random choices.
    """
    rng = np.random.default_rng(seed)
    required = must_run(problem)
    standing = Gangs(problem, problem.data.initial)
    pinned = {j for j in problem.pinned & required if j in standing.placed}
    order = sorted(required - pinned, key=lambda j: _size(problem, j), reverse=True)
    for attempt in range(attempts):
        gangs = Gangs(problem, csr_array(problem.data.initial.shape, dtype=np.int64))
        for j in pinned:
            gangs.restore(j, (standing.placed[j], standing.tasks_of(j)))
        missed = _put_down(gangs, order, rng if attempt % 2 else None)
        # Who found no room goes first next time.
        order = [*missed, *(j for j in order if j not in missed)]
        yield gangs.counts()


def _put_down(gangs: Gangs, jobs: list[int], rng: np.random.Generator | None = None) -> list[int]:
    """Put jobs on hosts in their order; return those that find no room."""
    return [j for j in jobs if j not in gangs.placed and not gangs.insert(j, rng)]


def _size(problem: Problem, job: int) -> tuple[float, ...]:
    return max(tuple(c.demand) for c in problem.instance.jobs[job].configurations)


def waiting_jobs(problem: Problem, gangs: Gangs, by_size: bool) -> list[int]:
    """Return the jobs that do not stand, the largest or the smallest first.

    Parameters
    ----------
    problem
        The problem.
    gangs
        The jobs that stand.
    by_size
        Whether the largest come first; else the smallest.
    """
    jobs = [j for j in range(len(problem.instance.jobs)) if j not in gangs.placed]
    if by_size:
        return sorted(jobs, key=lambda j: _size(problem, j), reverse=True)
    return sorted(jobs, key=lambda j: _size(problem, j))


class GangSearch:
    """Takes jobs off and puts them down again while that is no worse.

    Parameters
    ----------
    problem
        The problem.
    best
        The incumbent, with a placement.
    seed
        Of the random choices.
    report
        Told what has made the incumbent better.
    """

    def __init__(
        self, problem: Problem, best: Incumbent, seed: int, report: Callable[[str], None]
    ) -> None:
        self.problem = problem
        self.best = best
        self.rng = np.random.default_rng(seed)
        self.report = report
        self.required = must_run(problem)

    def run(self, clock: Clock, bound: float, patience: float = math.inf) -> None:
        """Search until time is up or the bound is reached.

        Parameters
        ----------
        clock
            Tells the seconds left.
        bound
            In minimisation.
        patience
            Tries without a better placement after which to end.
        """
        assert self.best.counts is not None
        if clock() <= 0:
            return
        gangs = Gangs(self.problem, self.best.counts)
        current = self.best.cost
        movable = [j for j in range(len(self.problem.instance.jobs)) if j not in self._stuck()]
        vain = 0
        while movable and vain < patience and clock() > 0 and not self.done(bound):
            before = self.best.cost
            cost = self._try(gangs, movable, current)
            vain = 0 if self.best.cost < before else vain + 1
            if cost is not None:
                current = cost

    def done(self, bound: float) -> bool:
        """Return whether the incumbent has reached a bound."""
        return self.best.cost <= bound + 1e-9 * abs(bound)

    def _stuck(self) -> frozenset[int]:
        return self.problem.pinned

    def _try(self, gangs: Gangs, movable: list[int], current: float) -> float | None:
        """Re-place some jobs; return the cost if the new placement is kept."""
        rng = self.rng
        some = rng.choice(movable, min(len(movable), int(rng.integers(1, 5))), replace=False)
        stood = {j: gangs.remove(j) for j in some.tolist() if j in gangs.placed}
        waiting = [j for j in movable if j not in gangs.placed and j not in stood]
        order = [*stood, *rng.permutation(waiting)[:4].tolist()]
        rng.shuffle(order)
        put = []
        for j in order:
            shuffled = None if rng.random() < 0.5 else rng
            if gangs.insert(j, shuffled):
                put.append(j)
        if all(j in gangs.placed for j in stood if j in self.required):
            allocation = self.problem.data.allocation(gangs.counts())
            cost = self.best.cost_of(allocation)
            if cost <= current and self._within_budget(gangs):
                if cost < self.best.cost and self.best.offer(allocation):
                    self.report("jobs put elsewhere")
                return cost
        for j in put:
            gangs.remove(j)
        for j, way in stood.items():
            gangs.restore(j, way)
        return None

    def _within_budget(self, gangs: Gangs) -> bool:
        budget = self.problem.budget
        if budget is None:
            return True
        initial = self.problem.data.initial
        gone = initial - initial.minimum(gangs.counts())
        moved: Counts = np.asarray(gone.sum(axis=1))
        return int(moved.sum()) <= budget
