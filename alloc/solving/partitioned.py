"""Placements and rounds in parts: the method ``partitioned`` of F4 and F1, for large instances.

The instance is cut (`alloc.solving.parts`), each part is solved by the family's own method on a
worker, and the answers are put together. Jobs that found no room in their part are offered what is
left anywhere. The bound beside the answer is one of the whole, so the gap says how much the
cuts can have cost.

Parameters
----------
instance
    The instance, to be cut.
objective
    One level of a goal.
settings
    Limits of the whole solve.
warm_start
    An answer to start from, or None; what is returned is never worse.
report
    Takes a line of progress.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from alloc.backends import highs
from alloc.certificate import OPTIMALITY_GAP, BoundProof, Limit, is_within
from alloc.errors import SolverError, UnsupportedFeatureError, worker_deaths
from alloc.families import FAMILIES
from alloc.models.placement.data import PlacementData
from alloc.models.round import round_data
from alloc.objectives.goals import parse_level
from alloc.parallel import workers
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment, Solution
from alloc.solving.outcome import Outcome, Progress, Settings
from alloc.solving.parts import Cut, cut
from alloc.solving.placement.admission import solve_admission
from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.gang_search import with_waiting
from alloc.solving.placement.incumbent import Incumbent
from alloc.solving.placement.method import solve_placement
from alloc.solving.placement.ranges import range_bound
from alloc.solving.round.filling import filled
from alloc.solving.round.method import dual_prices, price_bound, solve_round

Method = Callable[..., Outcome[Solution]]

_PARTS_SHARE = 0.6
"""Share of the time for the parts; the rest is for the bound of the whole, and for putting the
answers together."""
_PRICES_SHARE = 0.5
"""Share of the time left then for the prices that bound a round: as much for filling it up."""
_LATEST_SHARE = 0.8
"""Share of the time after which no part is solved any more, however late its worker started:
joining the parts and their bound need the rest."""
_BACKEND = "alloc parts"
_ELSEWHERE = "fits no part of the cluster that it may be in; solve it whole"


def place_in_parts(
    instance: Instance,
    objective: str,
    settings: Settings,
    warm_start: Solution | None,
    report: Progress,
) -> Outcome[Solution]:
    """Solve an instance of F4 in parts: ``solve(..., "placement", "partitioned")``.

    Raises
    ------
    UnsupportedFeatureError
        If it cannot be cut, or an earlier level of the goal is to be held: it is one of the whole.
    """
    if settings.held:
        raise UnsupportedFeatureError(
            "parts cannot hold an earlier level of a goal, which is one of the whole; give a goal "
            'of one level, or take the method "auto".'
        )
    level = parse_level(objective)
    found, parts, limit = _in_parts(
        solve_placement, instance, objective, settings, report, instance.running
    )
    problem = Problem(PlacementData.of(instance))
    best = Incumbent(problem, level, ())
    best.offer(warm_start)
    best.offer(Allocation(instance.running))
    best.offer(found)
    bound = best.sign * range_bound(instance, level)
    proof: BoundProof = "recomputed"
    try:
        if best.counts is not None and not is_within(best.cost, bound, OPTIMALITY_GAP):
            best.offer_counts(with_waiting(problem, level, best.counts))
        report(f"together {best.sign * best.cost:.6g}, bound so far {best.sign * bound:.6g}")
        if limit != "interrupt" and not is_within(best.cost, bound, OPTIMALITY_GAP):
            sharper, how = _bound(problem, best, settings, report)
            if sharper > bound:
                bound, proof = sharper, how
    except KeyboardInterrupt:
        limit = "interrupt"
    return _outcome(best.allocation, best.sign * bound, proof, parts, limit, settings)


def _bound(
    problem: Problem, best: Incumbent, settings: Settings, report: Progress
) -> tuple[float, BoundProof]:
    """Return a bound on the whole, in minimisation; a better answer met on the way is kept."""
    found = solve_admission(
        problem.data, best.level, settings.seconds_left(), report, seed=settings.seed
    )
    best.offer(found.allocation)
    return best.sign * found.bound, found.proof


def round_in_parts(
    instance: Instance,
    objective: str,
    settings: Settings,
    warm_start: Solution | None,
    report: Progress,
) -> Outcome[Solution]:
    """Solve the first slot of an instance in parts: ``solve(..., "round", "partitioned")``.

    Raises
    ------
    UnsupportedFeatureError
        If it cannot be cut.
    """
    # A round starts afresh: nothing stays as it is.
    found, parts, limit = _in_parts(solve_round, instance, objective, settings, report, ())
    # Of equals the start is kept.
    known = [warm_start, found] if isinstance(warm_start, Allocation) else [found]
    value = FAMILIES["round"].measure_of(objective).evaluate
    best = max(known, key=lambda one: value(instance, one))
    bound = math.inf
    try:
        if limit != "interrupt":
            data = round_data(instance, objective)
            prices = dual_prices(data, settings.within(_PRICES_SHARE * settings.seconds_left()))
            bound = price_bound(data, prices)
            report(f"together {value(instance, best):.6g}, bound {bound:.6g}")
            for one in known:
                fuller = filled(data, one, prices, settings.time_is_up)
                best = max(best, fuller, key=lambda one: value(instance, one))
    except KeyboardInterrupt:  # what was found is kept
        limit = "interrupt"
    return _outcome(best, bound, "recomputed", parts, limit, settings)


def _outcome(
    solution: Solution | None,
    bound: float,
    proof: BoundProof,
    parts: int,
    limit: Limit | None,
    settings: Settings,
) -> Outcome[Solution]:
    if limit is None and settings.time_is_up():
        limit = "time"
    return Outcome(
        solution,
        bound,
        proof if math.isfinite(bound) else "none",
        _BACKEND,
        highs.version(),
        limit,
        assumptions=(
            f"solved in {parts} parts first, where no job may use hosts of another part; the bound "
            "is that of the whole",
        ),
    )


def _in_parts(
    method: Method,
    instance: Instance,
    objective: str,
    settings: Settings,
    report: Progress,
    standing: Sequence[Assignment],
) -> tuple[Allocation, int, Limit | None]:
    """Return the answers of all parts together, the number of parts, and what ended the search.

    Where a part has no answer, what is standing in it stays as it is.
    """
    pieces = cut(instance, settings.workers, settings.seed)
    # Parts that wait for a worker wait for those before them; those that start late end no later.
    turns = math.ceil(pieces.num_parts / settings.workers)
    seconds = _PARTS_SHARE * settings.seconds_left() / turns
    ends = time.time() + _LATEST_SHARE * settings.seconds_left()
    report(f"{pieces.num_parts} parts of about {_mean_hosts(pieces):.0f} hosts")
    calls = [
        (method, instance, pieces, part, objective, replace(settings, workers=1), seconds, ends)
        for part in range(pieces.num_parts)
    ]
    answers: dict[int, Outcome[Solution]] = {}
    limit: Limit | None = None
    try:
        with (
            workers(None, settings.workers, [instance, pieces]) as crew,
            closing(crew.run(_solve_part, calls)) as results,
            worker_deaths("parts"),
        ):
            for part, outcome in results:
                answers[part] = outcome
                report(f"part {part + 1}: {_said(outcome)}")
                if outcome.limit == "interrupt":  # of a part that was solved in this process
                    raise KeyboardInterrupt
    except KeyboardInterrupt:
        limit = "interrupt"
    except SolverError as death:
        report(f"{death} The parts that were done are kept.")
    if limit is None and any(answer.limit for answer in answers.values()):
        limit = "time"
    return _together(instance, pieces, answers, standing), pieces.num_parts, limit


def _mean_hosts(pieces: Cut) -> float:
    return len(pieces.part_of_host) / pieces.num_parts


def _said(outcome: Outcome[Any]) -> str:
    placed = 0 if outcome.solution is None else len(outcome.solution.assignments)
    return f"{placed} jobs run, bound {outcome.bound:.6g} by itself"


def _solve_part(
    method: Method,
    instance: Instance,
    pieces: Cut,
    part: int,
    objective: str,
    settings: Settings,
    seconds: float,
    ends: float,
) -> tuple[int, Outcome[Solution]]:
    """Solve a part, on a worker whose clock is another one; return its number and the answer."""
    within = max(min(seconds, ends - time.time()), 0.0)
    here = replace(settings, time_limit_s=within, started=time.perf_counter())
    piece = pieces.instance(instance, part)
    if piece is None:
        nothing = Allocation(())
        return part, Outcome(nothing, math.nan, "none", _BACKEND, highs.version())
    return part, method(piece, objective, here, None, lambda line: None)


def _together(
    instance: Instance,
    pieces: Cut,
    answers: dict[int, Outcome[Solution]],
    standing: Sequence[Assignment],
) -> Allocation:
    """Return the answers of the parts as one of the whole."""
    assignments: list[Assignment] = []
    unplaced = {instance.jobs[j].id: _ELSEWHERE for j in np.flatnonzero(pieces.part_of_job < 0)}
    for part in range(pieces.num_parts):
        answer = answers.get(part)
        if answer is not None and isinstance(answer.solution, Allocation):
            assignments += answer.solution.assignments
            unplaced |= answer.solution.unplaced
            continue
        own = {instance.jobs[j].id for j in np.flatnonzero(pieces.part_of_job == part)}
        stay = [a for a in standing if a.job in own and a.tasks]
        assignments += stay
        unplaced |= {job: "its part was not solved" for job in own - {a.job for a in stay}}
    return Allocation(tuple(assignments), unplaced)
