"""Lessening: a plan whose goals hold gives back the hosts that its pools do not need.

A plan that the time of its solve ended, and whose jobs then stayed where they were, has in every
pool what the formula asks for, and hosts more that draws before it asked for. Here its jobs stay
again. Each of its pools is replayed with fewer GPUs, until it is known how few keep the goals; the
integer program of `alloc.planning.settling` says which hosts are then the cheapest, and all pools
with other hosts than before are replayed by draws of their own. What misses a goal gets back half
of what it had, then all. So the plan becomes cheaper, or stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from alloc.planning.buffers import Knowledge
from alloc.planning.capacity import SIZING, ToMeasure, measured_ratios, ratio
from alloc.planning.pools import Operation, Pool, operations_of, tightest
from alloc.planning.replay import Measured
from alloc.planning.settling import settled
from alloc.planning.verdicts import Verdicts
from alloc.problems.right_sizing.plan import Plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.result import Result
from alloc.solving.outcome import Progress

# Part of the cost that must be saved for it to be worth its replays.
_LITTLE = 0.002
# Programs at most: one with all that is saved, and three that give back half of what was missing,
# then all. Where hosts of one pool make room for those of another, each may move some.
_MAX_PROGRAMS = 4
# Draws of its verdicts are apart from those of so many iterations: no plan is judged by draws that
# it was made by.
_DRAWS = 1000

Judged = Sequence[tuple[Operation, Sequence[Measured]]]
"""What pools met, and how their goals were kept."""


def lessened(
    problem: PlanningProblem,
    knowledge: Knowledge,
    result: Result[Plan],
    judged: Judged,
    verdicts: Verdicts,
    draw: int,
    seconds: float,
    tell: Progress,
) -> tuple[Result[Plan], Judged] | None:
    """Return a cheaper plan with the same jobs whose goals hold, and how its pools kept them.

    Parameters
    ----------
    problem
        The problem without buffers.
    knowledge
        What was known when the plan was made.
    result
        A plan whose goals hold.
    judged
        The pools of it that were replayed.
    verdicts
        All verdicts until now.
    draw
        The draw by which they were replayed.
    seconds
        Wall time of an integer program, more than 0.
    tell
        Takes what each step does.

    Returns
    -------
    result, judged
        None where nothing worth it is saved.

    Raises
    ------
    KeyboardInterrupt
        If it comes meanwhile.
    """
    cost = result.certificate.objective
    assert cost is not None
    by_pool: dict[Pool, list[Operation]] = defaultdict(list)
    for operation, _ in judged:
        if operation.has_goal:
            by_pool[operation.pool].append(operation)
    before, calls = {}, []
    for pool, regimes in by_pool.items():
        has = min(ratio(one, one.gpus) for one in regimes)
        before[pool] = min(knowledge.correction(pool), has)
        calls.append((before[pool], [ToMeasure(one, SIZING, 0.0, has) for one in regimes]))
    tell("measuring with how few hosts its goals hold")
    found = dict(zip(by_pool, measured_ratios(calls, verdicts.settings), strict=True))
    trial = replace(knowledge, corrections=knowledge.corrections | found)
    again: set[Pool] = set()
    for _ in range(_MAX_PROGRAMS):
        less = settled(problem, trial, result, seconds)
        saved = 0.0 if less is None else cost - (less.certificate.objective or 0.0)
        if less is None or saved < _LITTLE * cost:
            return None
        every = operations_of(problem, less.require_solution())
        operations = tightest(every, verdicts.settings.regimes)
        measured = verdicts.of(operations, draw + _DRAWS, tell)
        pairs = tuple(zip(operations, measured, strict=True))
        missed = {one.pool for one, goals in pairs if not all(m.holds for m in goals)}
        if not missed:
            return less, pairs
        for pool in missed & before.keys():
            had, has = before[pool], trial.corrections[pool]
            trial.corrections[pool] = had if pool in again else (had + has) / 2
        again |= missed
    return None
