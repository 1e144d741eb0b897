"""Tightening: what the replay of a plan asks the model to keep more, or less, room for.

Room is asked for as a margin: GPUs that a pool keeps beyond the room for its load while jobs of a
class are sent there. A pool of many GPUs needs hardly more of them than a small one, so that the
model finds out by itself where it pays to bring work together.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from alloc.planning.pools import Operation
from alloc.planning.replay import Measured, ReplaySettings
from alloc.planning.room import (
    Room,
    a_little_more,
    holds,
    key_of,
    keys_of,
    load_carried,
    reserved,
    rooms_needed,
)
from alloc.problems.right_sizing.demand import Tightening, TighteningKey
from alloc.problems.right_sizing.headroom import KEPT_OUT, margins, tightening_factors
from alloc.problems.right_sizing.problem import PlanningProblem

LAST_CAUTION = 1.5
"""By what margins are raised when there is no round left to measure whether they suffice."""
# Margins taken from other pools; more would make the model too large to be solved well.
_MOST_GUESSES = 100
# What is left of a margin where no job is sent.
_HALF = 0.5
# Part of a margin that is worth giving back.
_WORTH = 0.1


@dataclass
class Learned:
    """What the replays of all rounds have taught.

    Parameters
    ----------
    charges
        How often each class has been charged for the room of a pool.
    seen
        The classes and pools that were replayed together.
    sent
        Where plans sent jobs, replayed or not.
    guessed
        The classes and pools whose margin was not measured there.
    settled
        Where classes stay, once they have settled.
    """

    charges: Counter[str] = field(default_factory=Counter)
    seen: set[TighteningKey] = field(default_factory=set)
    sent: set[TighteningKey] = field(default_factory=set)
    guessed: set[TighteningKey] = field(default_factory=set)
    settled: set[TighteningKey] = field(default_factory=set)

    def see(self, operation: Operation) -> None:
        """Take notice of a pool that was replayed."""
        here = keys_of(operation)
        self.seen |= here
        self.guessed -= here


Margins = dict[TighteningKey, float]


def with_margins(asked: PlanningProblem, kept: Mapping[TighteningKey, float]) -> PlanningProblem:
    """Return a problem with margins besides what was asked; where infinite, a class is kept out."""
    added = tuple(
        Tightening(*key[:3], margin=margin, spot=key[3])
        if math.isfinite(margin)
        else Tightening(*key[:3], factor=KEPT_OUT, spot=key[3])
        for key, margin in sorted(kept.items())
    )
    return asked.replace(tightening=asked.tightening + added)


def margins_kept(problem: PlanningProblem) -> Margins:
    """Return the margins of a problem, infinite where a class is kept out."""
    factors = tightening_factors(problem)
    return margins(problem) | {k: math.inf for k, factor in factors.items() if factor >= KEPT_OUT}


def tightened(
    problem: PlanningProblem,
    replayed: Iterable[tuple[Operation, Sequence[Measured]]],
    settings: ReplaySettings,
    learned: Learned,
    *,
    last: bool = False,
) -> Margins:
    """Return margins with which each pool that missed gets the room it needs.

    Where a class that is charged was not replayed yet, it is taken to need as much, gang for gang:
    without that it would be sent from pool to pool, and miss its goal in each. Where these are too
    many, it stays in the pools that plans have sent it to, and in the end where it was replayed.

    Parameters
    ----------
    problem
        The problem, with the tightening under which the goals were missed.
    replayed
        Pools and what was measured there.
    settings
        How they are replayed.
    learned
        What was learned in earlier rounds; added to.
    last
        Whether the next round is the last, and no plan held so far: then margins are rather larger
        than measured.
    """
    replayed = list(replayed)
    for operation, _ in replayed:
        learned.see(operation)
    found = margins_kept(problem)
    per_gpu: dict[str, float] = defaultdict(float)
    for operation, measured in replayed:
        if all(m.holds for m in measured):
            continue
        loads = reserved(problem, operation)
        least = a_little_more(operation)
        rooms = rooms_needed(operation, loads, settings, learned.charges)
        if not rooms:
            # It holds by the draws that sizes are found with, and did not by those of the verdict.
            rooms = [Room(least, tuple({m.job_class for m in measured if not m.holds}))]
        for room in rooms:
            margin = max(room.gpus, least) - sum(loads.values())
            margin *= LAST_CAUTION if last else 1.0
            for name in room.charged:
                key = key_of(operation, name)
                found[key] = max(found.get(key, 0.0), margin)
                if last:
                    # More than was measured: nothing that it rules out is proved impossible.
                    learned.guessed.add(key)
                per_gpu[name] = max(per_gpu[name], margin / _gang(operation, name))
    learned.charges.update(per_gpu.keys())
    every = margins_everywhere(problem, per_gpu)
    guesses = {key: margin for key, margin in every.items() if key not in learned.seen}
    if len(guesses) > _MOST_GUESSES:
        known = learned.seen if last else learned.sent
        guesses |= {key: math.inf for key in guesses.keys() - known}
    for key, margin in guesses.items():
        if margin > found.get(key, 0.0):
            found[key] = margin
            learned.guessed.add(key)
    return found


def margins_everywhere(problem: PlanningProblem, per_gpu: Mapping[str, float]) -> Margins:
    """Return margins for some classes wherever they may run, from margins per GPU of a gang."""
    found: Margins = {}
    for job_class in problem.classes:
        for option in job_class.options if job_class.name in per_gpu else ():
            margin = per_gpu[job_class.name] * option.gpus
            for site in filter(job_class.at, (site.name for site in problem.sites)):
                for spot in (False, True) if job_class.interruptible else (False,):
                    key = job_class.name, option.gpu_type, site, spot
                    found[key] = max(found.get(key, 0.0), margin)
    return found


def relaxed(
    problem: PlanningProblem,
    asked: PlanningProblem,
    operations: Sequence[Operation],
    settings: ReplaySettings,
    learned: Learned,
) -> Margins:
    """Return the margins without what pools whose goals hold can do without.

    Parameters
    ----------
    problem
        The problem, with the tightening of the plan.
    asked
        The problem as it was asked; its margins are kept.
    operations
        The pools of the plan.
    settings
        How they are replayed.
    learned
        What was learned in earlier rounds; added to.
    """
    now, floor = margins_kept(problem), margins_kept(asked)
    needed: Margins = {}
    for operation in operations:
        learned.see(operation)
        keys = keys_of(operation) & now.keys()
        if not keys:
            continue
        margin = _margin_now(operation, sum(reserved(problem, operation).values()), settings)
        for key in keys:
            needed[key] = max(needed.get(key, 0.0), margin)
    found = {}
    for key, margin in now.items():
        # A class that was sent away from a pool may come back at half the price.
        least = max(needed.get(key, _HALF * margin), floor.get(key, 0.0))
        if learned.settled:
            # The margin is for whatever may come together, of which this is a part.
            least = (margin + least) / 2
        found[key] = least if least < (1 - _WORTH) * margin else margin
    return found


def loosened(problem: PlanningProblem, learned: Learned) -> Margins:
    """Return half the margins, with classes let back to wherever plans have sent them.

    For classes that settled where there is no plan: `learned` is told that they stay there.
    """
    learned.settled |= learned.sent
    return {
        key: margin / 2
        for key, margin in margins_kept(problem).items()
        if math.isfinite(margin) or key not in learned.sent
    }


def halfway(problem: PlanningProblem, before: PlanningProblem) -> Margins:
    """Return margins between those of two problems, the second of which has a plan."""
    more, less = margins_kept(problem), margins_kept(before)
    return {key: (margin + less.get(key, 0.0)) / 2 for key, margin in more.items()}


def _gang(operation: Operation, job_class: str) -> int:
    """Return the GPUs of the largest gangs of a class in a pool."""
    return max(s.gpus for s in operation.streams if s.job_class.name == job_class)


def _margin_now(operation: Operation, reserved_gpus: float, settings: ReplaySettings) -> float:
    """Return the margin with which a pool would be as full as it can be."""
    if all(stream.job_class.goal is None for stream in operation.streams):
        return 0.0
    times = 1.0
    if holds(operation, settings):
        times = load_carried(operation, settings, operation.gpus / reserved_gpus)
    return max(operation.gpus - times * reserved_gpus, 0.0)
