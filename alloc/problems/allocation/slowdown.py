"""Slow-down: how fast jobs run that share a GPU with others.

Tables are measured for pairs of models (`alloc.workload.InterferenceTable`). A job whose tasks
share GPUs runs at the rate of its configuration times the least factor of its tasks: each waits for
the slowest. A task's factor is the product, over the other tasks on its GPU, of what the table says
of its model beside theirs. Where a GPU type has no table, sharing costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, Run, TaskPlacement
from alloc.workload.interference import InterferenceTable

Gpu = tuple[str, int]
"""Host id and position of a GPU on it."""
Neighbours = tuple[tuple[Gpu, tuple[str, ...]], ...]
"""For each shared GPU of a job, the jobs of the other tasks on it, sorted; those with none left
out."""


@dataclass(frozen=True)
class Piece:
    """A part of a run in which a job has the same neighbours.

    Parameters
    ----------
    run
        The part.
    factor
        Its speed there as a fraction of that of its configuration.
    """

    run: Run
    factor: float


def sharing(instance: Instance, run: Assignment | Run) -> tuple[TaskPlacement, ...]:
    """Return the tasks of a run that may share GPUs, on hosts of its GPU type.

    What is placed otherwise than the instance has it is for the checker to say.

    Parameters
    ----------
    instance
        The instance unfolded.
    run
        What runs.
    """
    hosts, types = instance.topology.host_index, instance.topology.gpu_types
    position = instance.job_index.get(run.job)
    if position is None:
        return ()
    configuration = instance.jobs[position].configurations[run.configuration]
    roles = {group.role for group in configuration.tasks if group.shares_gpu}
    wanted = configuration.gpu_type
    return tuple(
        task
        for task in run.tasks
        if task.role in roles
        and task.host in hosts
        and (wanted is None or types[hosts[task.host]] == wanted)
    )


def neighbours(placed: Mapping[str, Sequence[TaskPlacement]]) -> dict[str, Neighbours]:
    """Return who shares GPUs with whom, of the jobs that share any.

    Parameters
    ----------
    placed
        The tasks of the jobs that run now and may share GPUs (`sharing`), by job id.
    """
    on: dict[Gpu, list[str]] = {}
    for job, tasks in placed.items():
        for gpu in _shared(tasks):
            on.setdefault(gpu, []).append(job)
    found: dict[str, dict[Gpu, tuple[str, ...]]] = {}
    for gpu, jobs in on.items():
        for k, job in enumerate(jobs if len(jobs) > 1 else ()):
            found.setdefault(job, {})[gpu] = tuple(sorted([*jobs[:k], *jobs[k + 1 :]]))
    return {job: tuple(sorted(its.items())) for job, its in found.items()}


def factor(instance: Instance, job: str, beside: Neighbours) -> float:
    """Return the speed of a job beside its neighbours, as a fraction of its configuration's.

    Parameters
    ----------
    instance
        The instance unfolded.
    job
        Id of the job.
    beside
        Its neighbours.

    Returns
    -------
    float
        0 where it cannot share a GPU with one of them.
    """
    return min((_on_gpu(instance, job, gpu, others) for gpu, others in beside), default=1.0)


def _on_gpu(instance: Instance, job: str, gpu: Gpu, others: Iterable[str]) -> float:
    topology = instance.topology
    host = topology.host_index.get(gpu[0])
    gpu_type = None if host is None else str(topology.gpu_types[host])
    table = tables_of(instance.interference).get(gpu_type or "")
    models = [str(instance.job(one).model) for one in (job, *others)]
    # Who may not share this GPU at all, or on a host that is not there, is for the checker to say.
    if table is None or not all(model in table.index for model in models):
        return 1.0
    own, *beside = map(table.position, models)
    return math.prod(float(table.beside[own, other]) for other in beside)


def tables_of(tables: Iterable[InterferenceTable]) -> dict[str, InterferenceTable]:
    """Return tables by GPU type."""
    return {table.gpu_type: table for table in tables}


def pieces(instance: Instance, runs: Iterable[Run]) -> dict[str, list[Piece]]:
    """Return the runs of each job in pieces in which its neighbours stay the same.

    Parameters
    ----------
    instance
        The instance unfolded, with interference.
    runs
        All runs of a schedule, of its jobs in known configurations.
    """
    placed = [(run, sharing(instance, run)) for run in runs if run.job in instance.job_index]
    on: dict[Gpu, list[tuple[Run, tuple[TaskPlacement, ...]]]] = {}
    for run, tasks in placed:
        for gpu in set(_shared(tasks)):
            on.setdefault(gpu, []).append((run, tasks))
    found: dict[str, list[Piece]] = {}
    for run, tasks in sorted(placed, key=lambda one: one[0].start_s):
        near = [one for gpu in set(_shared(tasks)) for one in on[gpu] if one[0] is not run]
        moments = {moment for other, _ in near for moment in (other.start_s, other.end_s)}
        cuts = sorted({m for m in moments if run.start_s < m < run.end_s} | {run.start_s})
        known: Neighbours | None = None
        for k, start_s in enumerate(cuts):
            end_s = cuts[k + 1] if k + 1 < len(cuts) else run.end_s
            there = {o.job: its for o, its in near if o.start_s <= start_s < o.end_s}
            beside = neighbours({**there, run.job: tasks}).get(run.job, ())
            own = found.setdefault(run.job, [])
            if known == beside:
                last = own.pop()
                start_s = last.run.start_s
            known = beside
            part = Run(run.job, run.configuration, start_s, end_s, run.tasks)
            own.append(Piece(part, factor(instance, run.job, beside)))
    return found


def _shared(tasks: Iterable[TaskPlacement]) -> list[Gpu]:
    """Return the GPU of each task that shares one."""
    return [(task.host, gpu) for task in tasks if not task.starts for gpu in task.gpus]
