"""The decision on one gang: where it starts now, or why it cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from alloc.errors import InstanceError
from alloc.packing import HostPool
from alloc.problems.allocation.instance import Affinity, Instance
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.solving.gang.choosing import choose_hosts
from alloc.solving.gang.explanation import Explanation, explain_gang
from alloc.solving.gang.question import GangFeasibility, hold_together
from alloc.solving.gang.room import OUTSIDE, Mask, Tree, free_pool
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
        Without hosts, the reason, if it was asked for.
    """

    assignment: Assignment | None
    explanation: Explanation | None


@dataclass(frozen=True)
class Neighbours:
    """What the affinities of a job with running jobs leave to it.

    Parameters
    ----------
    admitted
        Hosts that it may stand on, shape (hosts,).
    together
        Levels of which all its tasks must stand in one domain.
    """

    admitted: Mask
    together: tuple[str, ...] = ()


def decide(
    pool: HostPool,
    job: Job,
    *,
    tree: Tree | None = None,
    neighbours: Neighbours | None = None,
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
    neighbours
        What affinities leave to the job; None: everything.
    quota_left_milli
        GPU that its tenant may still take, milli-GPU, or None without a quota.
    explained
        Whether a job that cannot start is told why; a scheduler need not know.
    """
    tree = Tree.of(pool.topology) if tree is None else tree
    if neighbours is None:
        neighbours = Neighbours(np.full(pool.topology.num_hosts, True))
    admitted, together = neighbours.admitted, neighbours.together
    order = sorted(range(len(job.configurations)), key=lambda c: -job.configurations[c].rate)
    questions = tuple(
        GangFeasibility(
            tree,
            pool,
            job,
            pool.on_axis(job.configurations[c]),
            admitted,
            quota_left_milli,
            together,
        )
        for c in order
    )
    for c, question in zip(order, questions, strict=True):
        tasks = _place(question)
        if tasks is not None:
            return GangDecision(Assignment(job.id, c, tasks), None)
    return GangDecision(None, explain_gang(questions) if explained else None)


class Decider:
    """Decides on waiting jobs of an instance beside its running jobs, one at a time.

    Parameters
    ----------
    instance
        The cluster, what runs and what waits. A rule that the running jobs break stays broken, and
        keeps no job out that has no part in it.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.tree = Tree.of(instance.topology)
        self.pool = free_pool(instance)

    def decide(self, job_id: str) -> GangDecision:
        """Decide on one waiting job.

        Raises
        ------
        InstanceError
            If there is no such job, or it runs already.
        """
        job = self.instance.job(job_id)
        if any(running.job == job_id for running in self.instance.running):
            raise InstanceError(f'job "{job_id}" runs already; ask about a job that waits.')
        return decide(
            self.pool,
            job,
            tree=self.tree,
            neighbours=neighbours_of(self.instance, job),
            quota_left_milli=quota_left(self.instance, job),
        )


def decide_for(instance: Instance, job_id: str) -> GangDecision:
    """Decide on one waiting job of an instance beside its running jobs; see `Decider`.

    Parameters
    ----------
    instance
        What runs and what waits.
    job_id
        Id of a job that waits.
    """
    return Decider(instance).decide(job_id)


def neighbours_of(
    instance: Instance, job: Job, beside: Sequence[Assignment] | None = None
) -> Neighbours:
    """Return what the affinities of a job leave to it, beside the jobs that run.

    Jobs that must stand together do so in one domain, the first of them to start by itself too.
    Where those that run stand in several domains, or outside them all, no other can join them.

    Parameters
    ----------
    instance
        The rules and the cluster.
    job
        The waiting job.
    beside
        What runs; None: what runs in the instance.
    """
    beside = instance.running if beside is None else beside
    running = {a.job: a for a in beside if a.tasks}
    admitted = np.full(instance.topology.num_hosts, True)
    together = []
    for affinity in instance.affinities:
        if job.id not in affinity.jobs:
            continue
        domain = instance.topology.domain_of_host[affinity.level]
        held = domains_held(instance.topology, affinity, running)
        if affinity.kind == "apart":
            admitted &= ~np.isin(domain, sorted(held - {OUTSIDE}))
            continue
        together.append(affinity.level)
        if held:
            admitted &= np.isin(domain, sorted(held)) & (len(held) == 1) & (domain != OUTSIDE)
    return Neighbours(admitted, tuple(together))


def domains_held(
    topology: Topology, affinity: Affinity, running: Mapping[str, Assignment]
) -> set[int]:
    """Return the domains of an affinity's level that hold tasks of its running jobs.

    Parameters
    ----------
    topology
        The cluster.
    affinity
        The rule.
    running
        Running jobs by id, in the rule or not.
    """
    domain = topology.domain_of_host[affinity.level]
    return {
        int(domain[topology.host_index[task.host]])
        for name in affinity.jobs
        if name in running
        for task in running[name].tasks
    }


def quota_left(
    instance: Instance, job: Job, beside: Sequence[Assignment] | None = None
) -> int | None:
    """Return the GPU that a job's tenant may still take, milli-GPU, or None without a quota.

    A tenant in a cohort may go beyond its quota as far as it may borrow and the cohort has left.

    Parameters
    ----------
    instance, job, beside
        As of `neighbours_of`.
    """
    tenants = {tenant.name: tenant for tenant in instance.tenants}
    if job.tenant not in tenants:
        return None
    held: dict[str | None, int] = dict.fromkeys(tenants, 0)
    for running in instance.running if beside is None else beside:
        its = instance.job(running.job)
        if its.tenant in held:
            held[its.tenant] += its.configurations[running.configuration].demand[0]
    own = tenants[job.tenant]
    left = own.gpu_quota_milli + own.borrowing_milli - held[own.name]
    if own.cohort is None:
        return left
    cohort = [t for t in instance.tenants if t.cohort == own.cohort]
    return min(left, sum(t.gpu_quota_milli - held[t.name] for t in cohort))


def _place(question: GangFeasibility) -> tuple[TaskPlacement, ...] | None:
    """Return where the tasks of a question stand, or None if there is no place."""
    if not question.within_quota() or question.lacking():
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


def _narrowest_first(question: GangFeasibility) -> Iterable[GangFeasibility]:
    """Yield the question with ever wider levels to keep the gang in, up to its own."""
    levels = question.tree.levels
    required = question.level()
    preferred = question.job.placement.preferred
    widest = len(levels) if required is None else levels.index(required)
    first = 0 if preferred is None else min(levels.index(preferred), widest)
    for level in levels[first:widest]:
        yield replace(question, inside=level)
    yield question


def _placements(
    question: GangFeasibility, chosen: Iterable[tuple[int, int, int]]
) -> tuple[TaskPlacement, ...]:
    hosts, groups = question.tree.topology.hosts, question.configuration.tasks
    return tuple(
        TaskPlacement(hosts[h].id, groups[g].role, n, _gpus(question.pool, h, groups[g], n))
        for g, h, n in chosen
    )


def _gpus(pool: HostPool, host: int, group: TaskGroup, count: int) -> tuple[int, ...]:
    return pool.share_gpus(host, group, count) if group.shares_gpu else ()
