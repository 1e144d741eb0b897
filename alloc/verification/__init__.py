"""The judge: recomputes every constraint and objective from the instance alone.

No solver is imported here, and nothing a solver said is believed.
"""

from __future__ import annotations

from alloc.instance import Instance
from alloc.solution import Allocation, Run, Schedule, Solution
from alloc.verification.capacity import check_capacity
from alloc.verification.claims import check_claims as check_claims
from alloc.verification.placement import check_assignment
from alloc.verification.time import check_runs
from alloc.verification.violation import Violation as Violation


def verify(instance: Instance, solution: Solution) -> list[Violation]:
    """Check a solution against every rule of its instance.

    Parameters
    ----------
    instance
        The problem.
    solution
        An allocation of the coming round, or a schedule.

    Returns
    -------
    list of Violation
        Empty when the solution is feasible. In a schedule every job must complete unless the
        schedule names it as unplaced.
    """
    if isinstance(solution, Allocation):
        return _verify_allocation(instance, solution)
    return _verify_schedule(instance, solution)


def _verify_allocation(instance: Instance, allocation: Allocation) -> list[Violation]:
    found: list[Violation] = []
    seen: set[str] = set()
    length_s = 1.0 if instance.slot_s is None else instance.slot_s
    runs: list[Run] = []
    for a in allocation.assignments:
        problems = list(check_assignment(instance, a.job, a.configuration, a.tasks))
        found += problems
        if a.job in seen:
            found.append(
                Violation("twice", (a.job,), 1, "job", f'job "{a.job}" is allocated twice.')
            )
        seen.add(a.job)
        if not any(v.code in ("unknown_job", "unknown_configuration") for v in problems):
            runs.append(Run(a.job, a.configuration, 0.0, length_s, a.tasks))
    return found + list(check_capacity(instance, runs))


def _verify_schedule(instance: Instance, schedule: Schedule) -> list[Violation]:
    found: list[Violation] = []
    sound: list[Run] = []
    for run in schedule.runs:
        problems = list(check_assignment(instance, run.job, run.configuration, run.tasks))
        found += problems
        if not any(v.code in ("unknown_job", "unknown_configuration") for v in problems):
            sound.append(run)
    running = {assignment.job: assignment for assignment in instance.running}
    by_job: dict[str, list[Run]] = {}
    for run in sorted(sound, key=lambda r: r.start_s):
        by_job.setdefault(run.job, []).append(run)
    for job in instance.jobs:
        runs = by_job.get(job.id, [])
        for violation in check_runs(instance, job, runs, running.get(job.id)):
            if violation.code != "incomplete" or job.id not in schedule.unplaced:
                found.append(violation)
    return found + list(check_capacity(instance, sound))
