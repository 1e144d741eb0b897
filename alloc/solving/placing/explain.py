"""`explain`: why a waiting job cannot start, and what would let it."""

from __future__ import annotations

import time
from collections.abc import Collection

from alloc.families import AUTO
from alloc.objectives.placed import moved_tasks_by_role
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation
from alloc.result import Limits
from alloc.solving.gang import Explanation, Relaxation, decide_for
from alloc.solving.placing.defragmentation import Defragmentation, make_room
from alloc.solving.placing.ending import cure_by_ending
from alloc.solving.placing.standing import staying
from alloc.units import MILLI


def explain(
    instance: Instance,
    job_id: str,
    *,
    moves: bool = True,
    closed: Collection[str] = (),
    backend: str = AUTO,
    limits: Limits = Limits(seconds=10.0),
) -> Explanation | None:
    """Say why a waiting job cannot start now, or return None if it can.

    Parameters
    ----------
    instance
        The cluster, what runs and what waits.
    job_id
        The waiting job.
    moves
        Whether to look for running jobs that would have to move (a placement problem) or to end to
        let it in.
    closed
        Ids of hosts that take nothing new, and offer no more than what runs there.
    backend, limits
        What searches for them, and for how long, the whole in the time of `limits`. Reading and
        checking a placement is not cut short, which takes some seconds on ten thousand hosts.

    Raises
    ------
    InstanceError
        If there is no such job, or it runs already.
    """
    ends = time.perf_counter() + limits.seconds
    explanation = decide_for(instance, job_id).explanation
    # Running jobs are in the way by what they hold, or by where they stand.
    in_the_way = explanation is not None and {"running jobs", "affinity"} & {*explanation.conflict}
    if explanation is None or not moves or not in_the_way or not instance.running:
        return explanation
    left = ends - time.perf_counter()
    if left <= 0:
        return explanation
    # What leaves a closed host would make room there.
    known = staying(instance, closed)
    room = make_room(known, job_id, backend=backend, limits=limits.replace(seconds=left))
    if room.migration is not None and room.migration.steps:
        explanation = explanation.with_cure(_moving(instance, room))
    if cure := cure_by_ending(instance, job_id, ends, closed):
        explanation = explanation.with_cure(cure)
    return explanation


def _moving(instance: Instance, room: Defragmentation) -> Relaxation:
    """Return the relaxation that the moves which let a job in stand for."""
    assert isinstance(room.result.solution, Allocation)
    moved = moved_tasks_by_role(instance, room.result.solution)
    running = {a.job: a for a in instance.running}
    names = [job for job, tasks in moved.items() if any(tasks.values())]
    number, gpus = 0, 0.0
    for name in names:
        for group in instance.job(name).configurations[running[name].configuration].tasks:
            tasks = moved[name].get(group.role, 0)
            number += tasks
            gpus += tasks * group.gpu_milli / MILLI
    who = f"job {names[0]}" if len(names) == 1 else f"jobs {', '.join(names[:5])}"
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    proved = room.result.certificate.status == "optimal"
    least = "" if proved else " (perhaps fewer would do)"
    plural = "s" if number > 1 else ""
    sentence = f"moving {who}{more} frees it, {number} task{plural}{least}"
    cost, unit = (gpus, "GPUs") if gpus else (float(number), "tasks")
    return Relaxation("running jobs", cost, sentence, unit)
