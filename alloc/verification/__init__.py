"""The checker: recomputes every constraint and objective from the instance alone.

No solver is imported here, and nothing a solver said is believed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import compress

import numpy as np

from alloc.problems.allocation.executors import move_delays
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.run_columns import UNKNOWN, RunColumns, RunsOfOneRound
from alloc.problems.allocation.solution import Allocation, Assignment, Schedule, Solution
from alloc.verification.capacity import check_capacity
from alloc.verification.claims import check_claims as check_claims
from alloc.verification.moves import check_moves
from alloc.verification.outages import check_outages
from alloc.verification.placement import check_assignment
from alloc.verification.precedence import check_precedence
from alloc.verification.rules import check_affinities
from alloc.verification.time import check_times
from alloc.verification.violation import Violation as Violation


def verify(
    instance: Instance, solution: Solution, accept: Iterable[Violation] = ()
) -> list[Violation]:
    """Check a solution against every rule of its instance.

    Parameters
    ----------
    instance
        The problem.
    solution
        An allocation of the coming round, or a schedule.
    accept
        Violations to put up with, as long as they do not grow: those of the same code and ids, up
        to their amounts. `initial_violations` gives those of the jobs that run already.

    Returns
    -------
    list of Violation
        Empty when the solution is feasible. In a schedule every job must complete, but those that
        may be refused (`Job.refusable`), never run, and that the schedule names as unplaced. The
        runs of a job with stages are those of its stages, by their ids in `Instance.unfolded`.
    """
    if isinstance(solution, Allocation):
        found = _verify_allocation(instance, solution)
    else:
        found = check_schedule(
            instance, solution, RunColumns(instance.unfolded, solution.lazy_runs)
        )
    known: dict[tuple[str, tuple[str, ...]], float] = {}
    for v in accept:
        known[v.code, v.ids] = max(known.get((v.code, v.ids), 0.0), v.amount)
    # Not "above": an amount that is no number is in no order and always counts.
    return [v for v in found if not v.amount <= known.get((v.code, v.ids), -math.inf)]


def verify_placement(
    instance: Instance, solution: Solution, accept: Iterable[Violation] = ()
) -> list[Violation]:
    """Check a placement: all that `verify` checks, and that running jobs stay.

    Where the instance says nothing of moves, a placement keeps the jobs that run; rounds and the
    sharing of GPUs start afresh.

    Parameters
    ----------
    instance, solution, accept
        As in `verify`.

    Returns
    -------
    list of Violation
        Empty when the placement is feasible.
    """
    found = verify(instance, solution, accept)
    if instance.moves is None and isinstance(solution, Allocation):
        found += check_moves(instance, solution)
    return found


def initial_violations(instance: Instance) -> list[Violation]:
    """Return which rules the running jobs break before anything is decided.

    An over-full host or a split gang is a fact to report, not to repair in silence: a method may
    keep it as it is (`accept` of `verify`), or remove it. Running jobs whose hosts are not said
    break nothing.
    """
    known = tuple(a for a in instance.running if a.tasks)
    return _check_assignments(instance, Allocation(known))


def _verify_allocation(instance: Instance, allocation: Allocation) -> list[Violation]:
    found = _check_assignments(instance, allocation)
    return found if instance.moves is None else [*found, *check_moves(instance, allocation)]


def _check_assignments(instance: Instance, allocation: Allocation) -> list[Violation]:
    """Check every rule but those of moving."""
    assignments, found = allocation.assignments, list[Violation]()
    span = (0.0, 1.0 if instance.slot_s is None else instance.slot_s)
    columns = RunColumns(instance, assignments, span)
    # All at once what is plain, one by one what may be wrong, in order.
    twice = _again(assignments)
    for k in sorted(twice.union(np.flatnonzero(~columns.well_placed).tolist())):
        a = assignments[k]
        found += check_assignment(instance, a.job, a.configuration, a.tasks)
        if k in twice:
            found.append(
                Violation("twice", (a.job,), 1, "job", f'job "{a.job}" is allocated twice.')
            )
    if (columns.kind == UNKNOWN).any():
        known = columns.kind != UNKNOWN
        assignments = tuple(compress(assignments, known.tolist()))
        columns = RunColumns(instance, assignments, span)
    runs = RunsOfOneRound(assignments, *span)
    found += [*check_capacity(instance, runs, columns), *check_affinities(instance, runs)]
    if instance.outages:
        # It is decided at the start: nobody knows then which hosts go down later.
        now = [replace(run, end_s=math.ulp(0.0)) for run in runs]
        found += check_outages(instance, now)
    return found


def _again(assignments: Sequence[Assignment]) -> set[int]:
    """Return the positions of assignments of jobs that have one before."""
    names = [a.job for a in assignments]
    if len({*names}) == len(names):
        return set()
    first: dict[str, int] = {}
    return {k for k, name in enumerate(names) if first.setdefault(name, k) != k}


def check_schedule(instance: Instance, schedule: Schedule, columns: RunColumns) -> list[Violation]:
    """Check a schedule as `verify` does: all at once what is plain, one by one what may be wrong.

    Parameters
    ----------
    instance
        The problem.
    schedule
        A schedule.
    columns
        Its runs.
    """
    asked, instance = instance, instance.unfolded
    delays = move_delays(asked, schedule)
    runs = schedule.lazy_runs
    found: list[Violation] = []
    for k in np.flatnonzero(~columns.well_placed).tolist():
        found += check_assignment(instance, runs[k].job, runs[k].configuration, runs[k].tasks)
    if (columns.kind == UNKNOWN).any():
        runs = tuple(run for run, k in zip(runs, columns.kind.tolist(), strict=True) if k >= 0)
        columns = RunColumns(instance, runs)
    found += check_times(instance, runs, columns, schedule.unplaced, delays)
    found += [*check_capacity(instance, runs, columns), *check_affinities(instance, runs)]
    found += check_outages(instance, runs)
    if asked is not instance:
        found += check_precedence(asked, replace(schedule, runs=tuple(runs)))
    return found
