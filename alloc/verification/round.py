"""The checker of F1: every rule of allocations, and that each job is there when the slot begins."""

from __future__ import annotations

from collections.abc import Iterator

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Solution
from alloc.verification import verify
from alloc.verification.violation import Violation


def verify_round(instance: Instance, solution: Solution) -> list[Violation]:
    """Check an allocation of the first slot, in which jobs run that have arrived at its start.

    Parameters
    ----------
    instance
        The problem.
    solution
        An allocation of it.

    Returns
    -------
    list of Violation
        Empty when the allocation is feasible.
    """
    found = verify(instance, solution)
    if isinstance(solution, Allocation):
        found += _check_arrivals(instance, solution)
    return found


def _check_arrivals(instance: Instance, allocation: Allocation) -> Iterator[Violation]:
    for job_id in allocation.configuration_of:
        known = instance.job_index.get(job_id)
        # Exact, as the models have it: what they leave out must not be accepted.
        if known is not None and (arrival_s := instance.jobs[known].arrival_s) > 0:
            yield Violation(
                "before_arrival",
                (job_id,),
                arrival_s,
                "s",
                f'job "{job_id}" runs in the first slot but arrives at {arrival_s:g} s.',
            )
