"""Rules of moving: what an allocation does to the jobs that run."""

from __future__ import annotations

from collections.abc import Iterator

from alloc.objectives import moved_tasks
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation
from alloc.verification.violation import Violation


def check_moves(instance: Instance, allocation: Allocation) -> Iterator[Violation]:
    """Yield what an allocation may not do to the running jobs.

    A job that is stopped moves all its tasks. A job that is not malleable keeps its configuration.

    Parameters
    ----------
    instance
        The problem, with what runs and what may move; see `Instance.allowed_moves`.
    allocation
        A decision of one round.
    """
    moves = instance.allowed_moves
    now = {a.job: a for a in allocation.assignments}
    moved = moved_tasks(instance, allocation)
    for before in instance.running:
        after = now.get(before.job)
        if after is before:
            continue
        job = instance.job(before.job)
        if after is None:
            if not job.preemptible or not moves.evict:
                why = "it is not preemptible" if not job.preemptible else "no job may be evicted"
                yield Violation(
                    "evicted",
                    (job.id,),
                    1,
                    "job",
                    f'job "{job.id}" runs and is stopped, but {why}.',
                )
            continue
        if after.configuration != before.configuration and job.elasticity != "malleable":
            yield Violation(
                "elasticity",
                (job.id,),
                1,
                "configurations",
                f'job "{job.id}" is {job.elasticity} and runs in configuration '
                f"{before.configuration}, but gets configuration {after.configuration}.",
            )
        if not job.preemptible and moved[job.id]:
            yield Violation(
                "pinned",
                (job.id,),
                moved[job.id],
                "tasks",
                f'job "{job.id}" is not preemptible, but {moved[job.id]} of its tasks leave their '
                "hosts.",
            )
    budget, total = moves.budget, sum(moved.values())
    if budget is not None and total > budget:
        yield Violation(
            "move_budget",
            (),
            total - budget,
            "tasks",
            f"{total} tasks of running jobs move, {total - budget} more than the budget of "
            f"{budget}.",
        )
