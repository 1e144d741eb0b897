"""Rounds of a scheduler: the jobs as it knows them, decided by the exact method of F1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from alloc.models.round.data import make_round_data
from alloc.objectives import round_utility
from alloc.packing import HostPool
from alloc.problems.allocation.job_view import JobView
from alloc.problems.allocation.solution import Assignment
from alloc.solving.outcome import Settings
from alloc.solving.round.method import optimise_round
from alloc.topology import Topology
from alloc.workload import Job

NODES = 200
"""Nodes of a tree in the round of a scheduler. A count, so that equal inputs give equal decisions
on every machine, busy or not; rounds of the rows of `benchmarks.online` need one."""


def allocate_round(
    topology: Topology,
    views: Sequence[JobView],
    slot_s: float,
    utility: str,
    quotas: Mapping[str, int],
    pool: HostPool | None = None,
    *,
    gap: float = 1e-4,
    nodes: int = NODES,
    known: dict[str, Job] | None = None,
) -> tuple[tuple[Assignment, ...], dict[str, float]]:
    """Decide a slot for the jobs a scheduler sees, placed on hosts: the exact per-round policy.

    Parameters
    ----------
    topology
        The cluster, empty at the start of the slot.
    views
        The jobs in the system, with work as known.
    slot_s
        Length of the slot, seconds.
    utility
        Name of the round utility.
    quotas
        GPU quota of each tenant, milli-GPU.
    pool
        Not used: a round starts from the empty cluster.
    gap
        Relative gap at which to stop.
    nodes
        Most nodes of each integer program: the best choice found by then stands, and the notes
        carry its bound.
    known
        The jobs of the round before, by id: those that have not changed are taken over. It then
        holds those of this round.

    Returns
    -------
    assignments
        The jobs that run, with hosts.
    notes
        ``utility``, ``bound``, and ``unplaced``: jobs chosen by the model that found no hosts.
    """
    known = {} if known is None else known
    jobs = tuple([_as_job(view, known.get(view.id)) for view in views])
    known.clear()
    known.update(zip([job.id for job in jobs], jobs, strict=True))
    data = make_round_data(topology, jobs, slot_s, round_utility(utility), quotas)
    answer = optimise_round(data, gap=gap, settings=Settings(math.inf, nodes=nodes))
    allocation = data.allocation(answer.x)
    chosen = int(np.rint(answer.x).sum())
    notes = {
        "utility": answer.value,
        "bound": answer.bound,
        "unplaced": float(chosen - len(allocation.assignments)),
    }
    return allocation.assignments, notes


def _with_work_done(job: Job, done: float) -> Job:
    """Return a job with other work done, which is in its range: nothing else is checked again."""
    changed: Job = object.__new__(Job)
    vars(changed).update(vars(job), work_done=done)
    return changed


def _as_job(view: JobView, before: Job | None = None) -> Job:
    """Return the job as the scheduler knows it, the same as before where nothing has changed."""
    work = 1.0 if view.work is None else view.work
    left = work if view.work_left is None else view.work_left
    done = min(max(work - left, 0.0), work * (1 - 1e-12))
    if (
        before is not None
        and before.configurations is view.configurations
        and (before.work, before.weight, before.tenant) == (work, view.weight, view.tenant)
        and before.preemptible == view.preemptible
    ):
        return before if before.work_done == done else _with_work_done(before, done)
    return Job(
        view.id,
        0.0,
        work,
        view.configurations,
        weight=view.weight,
        tenant=view.tenant,
        work_done=done,
        preemptible=view.preemptible,
    )
