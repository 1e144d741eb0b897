"""Job classes: equal jobs as one with a count, and back.

Counts of a class are exact where its tasks can be dealt out to the jobs afterwards. That is so for
tasks without rules, for gangs that must stand in one domain (the class counts gangs per domain) and
for slices (a domain holds whole slices, which make up gangs). It is so for running jobs of one task
each, and for those that all keep running, when no rule ties their tasks: as many tasks stay on a
host as were there and still are, whichever jobs they belong to.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np

from alloc.models.placement.data import Counts, PlacementData
from alloc.problems.allocation.instance import Instance
from alloc.topology.topology import HOST
from alloc.workload import Job, PlacementRules


def classes_of(data: PlacementData, apart: Collection[int] = ()) -> tuple[tuple[int, ...], ...]:
    """Group the jobs of an instance into classes of equal jobs.

    Parameters
    ----------
    data
        The problem.
    apart
        Positions of jobs that are classes by themselves, because an objective looks at each.

    Returns
    -------
    tuple of tuple of int
        Positions of the jobs of each class, in order of first members.
    """
    instance = data.instance
    named = {instance.job_index[job] for a in instance.affinities for job in a.jobs} | set(apart)
    classes: dict[Hashable, list[int]] = {}
    for j, job in enumerate(instance.jobs):
        key: Hashable = j
        if j not in named:
            rules = _countable(job)
            if rules is not None and (j not in data.running or _may_merge_running(data, j)):
                key = (job.configurations, job.weight, job.tenant, rules, _state(data, j))
        classes.setdefault(key, []).append(j)
    return tuple(tuple(members) for members in classes.values())


def _countable(job: Job) -> Hashable | None:
    """Return the rules of a job that counts can keep, or None if they look at the single job."""
    rules = job.placement
    if rules.spread:
        return None
    within = {c.within for c in job.configurations}
    if len(within) > 1 or HOST in within or rules.required == HOST:
        return None
    # Slices beside a level that holds all: only the order of the domains would show the pieces.
    if rules.slices and (rules.required or within != {None}):
        return None
    return PlacementRules(rules.required, None, rules.slices), within.copy().pop()


def _may_merge_running(data: PlacementData, j: int) -> bool:
    job = data.instance.jobs[j]
    if job.placement.required or job.placement.slices or len(job.configurations) > 1:
        return False
    if job.configurations[0].within is not None:
        return False
    single = sum(group.count for group in job.configurations[0].tasks) == 1
    return single or must_run(data.instance, job, running=True)


def _state(data: PlacementData, j: int) -> Hashable:
    """Return what of a running job decides how it may move."""
    if j not in data.running:
        return None
    job = data.instance.jobs[j]
    return (job.preemptible, job.elasticity, bool(data.running[j].tasks))


def must_run(instance: Instance, job: Job, *, running: bool) -> bool:
    """Return whether a job has to go on running.

    Parameters
    ----------
    instance
        Says whether jobs may be evicted.
    job
        The job.
    running
        Whether it runs now.
    """
    return running and not (job.preemptible and instance.allowed_moves.evict)


def deal(
    data: PlacementData,
    members: Sequence[int],
    way: int,
    total: dict[int, Counts],
    gangs: int,
    domain: Counts | None,
) -> dict[int, dict[int, dict[int, int]]]:
    """Deal the tasks of a class out to its jobs.

    Parameters
    ----------
    data
        The problem.
    members
        Jobs that may get them.
    way
        Their configuration.
    total
        Tasks of each group of the first member on each host, by position of the group among the
        configuration's, shape (hosts,).
    gangs
        How many jobs run.
    domain
        Domain of each host at the innermost level that holds gangs, shape (hosts,); None without.

    Returns
    -------
    dict
        For each job that runs, for each of its groups, its tasks by host.
    """
    instance = data.instance
    counts = [group.count for group in instance.jobs[members[0]].configurations[way].tasks]
    left = {g: per_host.copy() for g, per_host in total.items()}
    dealt: dict[int, dict[int, dict[int, int]]] = {j: {g: {} for g in total} for j in members}
    for j in members:
        # Tasks that stay on their host first.
        for task in data.running[j].tasks if j in data.running else ():
            roles = [g.role for g in instance.jobs[j].configurations[way].tasks]
            if task.role not in roles:
                continue  # it runs in another configuration now
            g, h = roles.index(task.role), instance.topology.host_index[task.host]
            short = counts[g] - sum(dealt[j][g].values())
            stay = min(task.count, int(left[g][h]), short)
            if stay > 0:
                dealt[j][g][h] = dealt[j][g].get(h, 0) + stay
                left[g][h] -= stay
    # Those that keep tasks run; of the others as many as are left.
    order = sorted(members, key=lambda j: -sum(sum(own.values()) for own in dealt[j].values()))
    waiting = order[:gangs]
    path = _path(instance)
    parts = (
        [np.arange(len(path))]
        if domain is None
        else [np.flatnonzero(domain == k) for k in np.unique(domain[domain >= 0])]
    )
    for part in parts:
        hosts = part[np.argsort(path[part], kind="stable")]
        while waiting and any(left[g][hosts].any() for g in total):
            j = waiting.pop(0)
            for g in total:
                _fill(dealt[j][g], left[g], hosts, counts[g] - sum(dealt[j][g].values()))
    return {j: dealt[j] for j in order[:gangs]}


def _fill(own: dict[int, int], left: Counts, hosts: Counts, short: int) -> None:
    """Take tasks from hosts in order until nothing is short."""
    for h in hosts[left[hosts] > 0]:
        if short <= 0:
            return
        taken = min(short, int(left[h]))
        own[int(h)] = own.get(int(h), 0) + taken
        left[h] -= taken
        short -= taken


def _path(instance: Instance) -> Counts:
    """Return the rank of each host in the order in which every domain is contiguous."""
    topology = instance.topology
    keys = [np.arange(topology.num_hosts)]
    keys += [topology.domain_of_host[level] for level in reversed(topology.levels)]
    rank = np.empty(topology.num_hosts, dtype=np.int64)
    rank[np.lexsort(keys)] = np.arange(topology.num_hosts)
    return rank
