"""Which running jobs have to end before a waiting job can start."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Sequence

import numpy as np

from alloc.errors import SolverError
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment
from alloc.solving.gang import Relaxation, Tree, decide, free_pool
from alloc.solving.gang.decision import neighbours_of, quota_left
from alloc.solving.placing.standing import held_on_hosts
from alloc.units import MILLI, RESOURCES

_MAX_NAMED = 5
"""Jobs that a sentence names; a list of more is not read."""


def jobs_to_end(
    instance: Instance, job_id: str, ends: float, closed: Collection[str] = ()
) -> tuple[str, ...] | None:
    """Return running jobs after whose end a waiting job can start, none of them for nothing.

    Whether it can is decided exactly for each set that is tried. More jobs that end never hurt:
    they leave capacity and quota, of the tenant and its cohort, and the affinities of those that
    go on name fewer domains; all other rules are about the waiting job alone. The largest of the
    jobs, in GPUs, is as small as it can be; then the next one is, given that, and so on: so with
    any one of them left running it could not start.

    Parameters
    ----------
    instance
        What runs and what waits.
    job_id
        The waiting job.
    ends
        When to give up, on the clock of `time.perf_counter`, seconds.
    closed
        Ids of hosts that take nothing new, whatever ends there.

    Returns
    -------
    tuple of str or None
        The jobs, the largest first, or None if it cannot start after the end of all, or the time
        was up before this was known.

    Raises
    ------
    SolverError
        If a set is too hard to decide.
    """
    order = sorted(instance.running, key=lambda a: (_gpus(instance, a), a.job))
    tree = Tree.of(instance.topology)
    is_open = np.array([host.id not in closed for host in instance.topology.hosts])

    pool = free_pool(instance)
    job = instance.job(job_id)

    def starts(gone: Sequence[Assignment]) -> bool:
        names = {a.job for a in gone}
        beside = [a for a in instance.running if a.job not in names]
        near = neighbours_of(instance, job, beside)
        for a in gone:
            pool.release(instance.job(a.job).configurations[a.configuration], a.tasks)
        found = decide(
            pool,
            job,
            tree=tree,
            neighbours=dataclasses.replace(near, admitted=near.admitted & is_open),
            quota_left_milli=quota_left(instance, job, beside),
            explained=False,
        )
        for a in gone:
            pool.take(instance.job(a.job).configurations[a.configuration], a.tasks)
        return found.assignment is not None

    needed: list[Assignment] = []
    if not starts(order):
        return None
    while not starts(needed):
        # The least number of the smallest jobs that do beside those needed; the last is needed too.
        low, high = 0, len(order)
        while high - low > 1:
            if time.perf_counter() > ends:
                return None
            middle = (low + high) // 2
            low, high = (low, middle) if starts([*order[:middle], *needed]) else (middle, high)
        needed.append(order[high - 1])
        order = order[: high - 1]
    return tuple(a.job for a in needed)


def cure_by_ending(
    instance: Instance, job_id: str, ends: float, closed: Collection[str] = ()
) -> Relaxation | None:
    """Return the relaxation that waiting for the end of running jobs stands for, or None.

    In a snapshot a host that takes nothing new is as large as what runs on it, and that stays
    (`preemptible` is false); a full host may look the same. So what would start on such hosts is
    named only where nothing else is known to do, and on that condition.

    It says what the job waits for, and is no advice to stop anything.

    Parameters
    ----------
    instance, job_id, ends, closed
        As of `jobs_to_end`.
    """
    try:
        return _cure(instance, job_id, ends, closed)
    except SolverError:
        return None  # too hard to decide for one of the sets, which proves nothing


def _cure(
    instance: Instance, job_id: str, ends: float, closed: Collection[str]
) -> Relaxation | None:
    jobs = jobs_to_end(instance, job_id, ends, closed)
    if not jobs:
        return None
    doubtful = _perhaps_closed(instance) - {*closed}
    running = {a.job: a for a in instance.running}
    under = {task.host for name in jobs for task in running[name].tasks} & doubtful
    if under:
        elsewhere = jobs_to_end(instance, job_id, ends, {*closed, *doubtful})
        jobs, under = (elsewhere, set()) if elsewhere else (jobs, under)
    return _ending(instance, jobs, sorted(under))


def _perhaps_closed(instance: Instance) -> set[str]:
    """Return the hosts with nothing to spare that hold only jobs which may not be preempted."""
    spare = (instance.topology.capacity - held_on_hosts(instance))[:, : len(RESOURCES)]
    stays = {a.job for a in instance.running if not instance.job(a.job).preemptible}
    others = {task.host for a in instance.running if a.job not in stays for task in a.tasks}
    there = {task.host for a in instance.running if a.job in stays for task in a.tasks} - others
    index = instance.topology.host_index
    return {host for host in there if (spare[index[host]] <= 0).all()}


def _ending(instance: Instance, jobs: Sequence[str], hosts: Sequence[str]) -> Relaxation:
    """Return the relaxation that waiting for some jobs is, if some hosts take new jobs then."""
    running = {a.job: a for a in instance.running}
    gpus = sum(_gpus(instance, running[name]) for name in jobs)
    tasks = sum(task.count for name in jobs for task in running[name].tasks)
    named = ", ".join(jobs[:_MAX_NAMED])
    more = f" and {len(jobs) - _MAX_NAMED} more" if len(jobs) > _MAX_NAMED else ""
    who = f"job {named} ends" if len(jobs) == 1 else f"jobs {named}{more} end"
    if hosts:
        others = f" and {len(hosts) - _MAX_NAMED} more" if len(hosts) > _MAX_NAMED else ""
        verb = "takes" if len(hosts) == 1 else "take"
        who += f", if {', '.join(hosts[:_MAX_NAMED])}{others} {verb} new jobs then"
    cost, unit = (gpus, "GPUs") if gpus else (float(tasks), "tasks")
    return Relaxation("running jobs", cost, f"it can start once {who}", unit)


def _gpus(instance: Instance, assignment: Assignment) -> float:
    job = instance.job(assignment.job)
    return job.configurations[assignment.configuration].demand[0] / MILLI
