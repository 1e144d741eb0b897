"""`explain`: why a waiting job cannot start, and what would let it."""

from __future__ import annotations

import dataclasses

from alloc.instance import Instance
from alloc.migration import Migration
from alloc.solving.defragmentation import make_room
from alloc.solving.gang import Explanation, Relaxation, decide_for
from alloc.solving.solver import AUTO
from alloc.units import MILLI


def explain(
    instance: Instance,
    job_id: str,
    *,
    moves: bool = True,
    backend: str = AUTO,
    time_limit_s: float = 10.0,
) -> Explanation | None:
    """Say why a waiting job cannot start now, or return None if it can.

    Parameters
    ----------
    instance
        The cluster, what runs and what waits.
    job_id
        The waiting job.
    moves
        Whether to look for moves of running jobs that would let it in (a placement problem).
    backend, time_limit_s
        What searches for them, and its wall time, seconds.

    Raises
    ------
    InstanceError
        If there is no such job, or it runs already.
    """
    explanation = decide_for(instance, job_id).explanation
    if explanation is None or not moves or "running jobs" not in explanation.conflict:
        return explanation
    room = make_room(instance, job_id, backend=backend, time_limit_s=time_limit_s)
    if room.migration is None or not room.migration.steps:
        return explanation
    cure = _moving(instance, room.migration, proved=room.result.certificate.status == "optimal")
    cures = tuple(sorted((*explanation.relaxations, cure), key=lambda r: r.cost))
    stem = explanation.sentence
    if explanation.relaxations:
        stem = stem.removesuffix(f"; {explanation.relaxations[0].sentence}.")
    else:
        stem = stem.removesuffix(".")
    return dataclasses.replace(
        explanation, relaxations=cures, sentence=f"{stem}; {cures[0].sentence}."
    )


def _moving(instance: Instance, migration: Migration, proved: bool) -> Relaxation:
    """Return the relaxation that a migration stands for."""
    tasks: dict[str, int] = {}
    gpus = 0.0
    running = {a.job: a for a in instance.running}
    for step in migration.steps:
        for move in step:
            if move.target is None:
                continue
            tasks[move.job] = tasks.get(move.job, 0) + move.count
            its = instance.job(move.job).configurations[running[move.job].configuration]
            per_task = next(g.gpu_milli for g in its.tasks if g.role == move.role)
            gpus += move.count * per_task / MILLI
    names = list(tasks)
    who = f"job {names[0]}" if len(names) == 1 else f"jobs {', '.join(names[:5])}"
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    least = "" if proved else " (perhaps fewer would do)"
    number = sum(tasks.values())
    plural = "s" if number > 1 else ""
    sentence = f"moving {who}{more} frees it, {number} task{plural}{least}"
    return Relaxation("running jobs", gpus, sentence)
