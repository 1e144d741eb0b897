"""The decision on one gang: where it starts now, or why it cannot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from alloc.errors import InstanceError
from alloc.instance import Affinity, Instance
from alloc.packing import HostPool
from alloc.solution import Assignment, TaskPlacement
from alloc.solving.gang.choosing import choose_hosts
from alloc.solving.gang.explanation import Explanation, explain_gang
from alloc.solving.gang.joint import hold_together
from alloc.solving.gang.question import Question
from alloc.solving.gang.room import Mask, Tree, free_pool
from alloc.topology import Topology
from alloc.workload import Job, TaskGroup


@dataclass(frozen=True)
class GangDecision:
    """Where a gang starts, or why it does not.

    Parameters
    ----------
    assignment
        Its hosts, or None.
    explanation
        Without hosts, the reason for the fastest configuration, if it was asked for.
    """

    assignment: Assignment | None
    explanation: Explanation | None


def decide(
    pool: HostPool,
    job: Job,
    *,
    tree: Tree | None = None,
    admitted: Mask | None = None,
    quota_left_milli: int | None = None,
    explained: bool = True,
) -> GangDecision:
    """Place one gang on free capacity, or explain why it cannot start.

    The configurations are tried in order of falling rate. Tasks go to one domain of the innermost
    level that holds them all, no wider than the required one; then to the fewest and the tightest
    domains inside it. Whether there is a place at all is decided exactly.

    Parameters
    ----------
    pool
        The free capacity; it is not changed.
    job
        The job.
    tree
        The domains of the pool's topology, if they are at hand: `Tree.of(topology)`.
    admitted
        Hosts that affinities leave to the job, shape (hosts,); None: all.
    quota_left_milli
        GPU that its tenant may still take, milli-GPU, or None without a quota.
    explained
        Whether a job that cannot start is told why; a scheduler need not know.
    """
    tree = Tree.of(pool.topology) if tree is None else tree
    if admitted is None:
        admitted = np.full(pool.topology.num_hosts, True)
    first: Question | None = None
    order = sorted(range(len(job.configurations)), key=lambda c: -job.configurations[c].rate)
    for c in order:
        question = Question(tree, pool, job, job.configurations[c], admitted, quota_left_milli)
        first = first or question
        tasks = _place(question)
        if tasks is not None:
            return GangDecision(Assignment(job.id, c, tasks), None)
    assert first is not None
    return GangDecision(None, explain_gang(first) if explained else None)


def decide_for(instance: Instance, job_id: str) -> GangDecision:
    """Decide on one waiting job of an instance beside its running jobs.

    Raises
    ------
    InstanceError
        If there is no such job, or it runs already.
    """
    job = instance.job(job_id)
    if any(running.job == job_id for running in instance.running):
        raise InstanceError(f'job "{job_id}" runs already; ask about a job that waits.')
    return decide(
        free_pool(instance),
        job,
        admitted=admitted_hosts(instance, job),
        quota_left_milli=quota_left(instance, job),
    )


def admitted_hosts(instance: Instance, job: Job) -> Mask:
    """Return the hosts that affinities with running jobs leave to a job, shape (hosts,)."""
    running = {a.job: a for a in instance.running}
    admitted = np.full(instance.topology.num_hosts, True)
    for affinity in instance.affinities:
        if job.id not in affinity.jobs:
            continue
        others = [running[other] for other in affinity.jobs if other != job.id and other in running]
        beside = _beside(instance.topology, affinity, others)
        if affinity.kind == "apart":
            admitted &= ~beside
        elif others:
            admitted &= beside
    return admitted


def _beside(topology: Topology, affinity: Affinity, others: Iterable[Assignment]) -> Mask:
    """Return the hosts in the domains that hold tasks of some jobs."""
    domain = topology.domain_of_host[affinity.level]
    held = {int(domain[topology.host_index[t.host]]) for a in others for t in a.tasks} - {-1}
    return np.isin(domain, sorted(held))


def quota_left(instance: Instance, job: Job) -> int | None:
    """Return the GPU that a job's tenant may still take, milli-GPU, or None without a quota.

    A tenant in a cohort may go beyond its quota as far as it may borrow and the cohort has left.
    """
    tenants = {tenant.name: tenant for tenant in instance.tenants}
    if job.tenant not in tenants:
        return None
    held: dict[str | None, int] = dict.fromkeys(tenants, 0)
    for running in instance.running:
        its = instance.job(running.job)
        if its.tenant in held:
            held[its.tenant] += its.configurations[running.configuration].demand[0]
    own = tenants[job.tenant]
    left = own.gpu_quota_milli + own.borrowing_milli - held[own.name]
    if own.cohort is None:
        return left
    cohort = [t for t in instance.tenants if t.cohort == own.cohort]
    return min(left, sum(t.gpu_quota_milli - held[t.name] for t in cohort))


def _place(question: Question) -> tuple[TaskPlacement, ...] | None:
    """Return where the tasks of a question stand, or None if there is no place."""
    if not question.within_quota():
        return None
    several = len(question.configuration.tasks) > 1
    for narrowed in _narrowest_first(question):
        for hosts in narrowed.candidates():
            if several:
                found = hold_together(narrowed, hosts, frozenset())
                if found is not None:
                    return _placements(question, found)
                continue
            group = question.configuration.tasks[0]
            rooms = narrowed.room(group, frozenset())
            chosen = choose_hosts(question.tree, rooms, hosts, group.count)
            return _placements(question, [(0, h, n) for h, n in chosen])
    return None


def _narrowest_first(question: Question) -> Iterable[Question]:
    """Yield the question with ever wider levels to keep the gang in, up to its own."""
    levels = question.tree.levels
    required = question.level(frozenset())
    preferred = question.job.placement.preferred
    widest = len(levels) if required is None else levels.index(required)
    first = 0 if preferred is None else min(levels.index(preferred), widest)
    for level in levels[first:widest]:
        yield question.within(level)
    yield question


def _placements(
    question: Question, chosen: Iterable[tuple[int, int, int]]
) -> tuple[TaskPlacement, ...]:
    hosts, groups = question.tree.topology.hosts, question.configuration.tasks
    return tuple(
        TaskPlacement(hosts[h].id, groups[g].role, n, _gpus(question.pool, h, groups[g], n))
        for g, h, n in chosen
    )


def _gpus(pool: HostPool, host: int, group: TaskGroup, count: int) -> tuple[int, ...]:
    return pool.share_gpus(host, group, count) if group.shares_gpu else ()
