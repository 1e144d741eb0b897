"""What runs and breaks a rule from the start, left as it is: the problem for all the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant, misfit
from alloc.problems.allocation.solution import Assignment
from alloc.solving.gang import domains_held
from alloc.solving.gang.room import OUTSIDE
from alloc.topology import HostType, Topology
from alloc.units import MILLI, RESOURCES
from alloc.verification.violation import Violation
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

_NAMED_FIRST = {
    "host_capacity": "host",
    "gpu_capacity": "host",
    "gpu_memory": "host",
    "gpu_use": "host",
    "mig_compute": "host",
    "mig_media": "host",
    "mig_overlap": "host",
    "cluster_capacity": "resource",
    "quota": "tenant",
    "cohort": "cohort",
    "apart": "domain",
    "together": "level",
}
"""What a violation names first, by its code; of all others it is the job."""

_NOWHERE = "nowhere"
"""A level without domains, as long as no other level has the name."""


def leave_broken(instance: Instance, broken: Sequence[Violation]) -> Instance:
    """Return the problem in which nobody repairs what is broken, and nobody breaks it further.

    Hosts are as large as what is on them, quotas as large as what is held, and the jobs concerned
    (`jobs_concerned`) have no rules: they stay where they are, so that none of this gives room to
    anybody else. Jobs too close to each other stay so, and all others keep apart from them; where
    jobs that must stand together do not, those of them that wait are left out: they cannot start.

    Parameters
    ----------
    instance
        What runs and what waits.
    broken
        What `initial_violations` found.
    """
    if not broken:
        return instance
    fixed = jobs_concerned(instance, broken)
    cohorts = _cohorts(instance, broken)
    affinities, barred = _affinities(instance)
    problem = instance.replace(
        topology=_grown(instance),
        jobs=tuple(_pinned(job) if job.id in fixed else job for job in instance.jobs),
        tenants=_grown_quotas(instance, cohorts),
        affinities=tuple(affinities),
    )
    return only(problem, instance.job_index.keys() - barred) if barred else problem


def jobs_concerned(instance: Instance, broken: Sequence[Violation]) -> set[str]:
    """Return the running jobs that have a part in what is broken from the start.

    Parameters
    ----------
    instance
        The instance.
    broken
        Rules that what runs breaks from the start.
    """
    named: dict[str, set[str]] = {kind: set() for kind in ("job", "host", "resource", "tenant")}
    for violation in broken:
        kind = _NAMED_FIRST.get(violation.code, "job")
        if kind in ("domain", "level"):
            named["job"].update(violation.ids[1:])
        elif kind in named:
            named[kind].add(violation.ids[0])
    cohorts = _cohorts(instance, broken)
    named["tenant"] |= {t.name for t in instance.tenants if t.cohort in cohorts}
    scarce = [instance.topology.resource_names.index(name) for name in named["resource"]]

    def is_concerned(a: Assignment) -> bool:
        demand = instance.job(a.job).configurations[a.configuration].demand
        return (
            a.job in named["job"]
            or any(task.host in named["host"] for task in a.tasks)
            or any(demand[r] for r in scarce)
            or instance.job(a.job).tenant in named["tenant"]
        )

    return {a.job for a in instance.running if is_concerned(a)}


def only(instance: Instance, jobs: Collection[str], moves: Moves | None = None) -> Instance:
    """Return the problem of some of its jobs, every running one among them.

    A job that must stand together with jobs left out keeps together by itself: in their place
    stands one job that can start nowhere, since a rule takes two.

    Parameters
    ----------
    instance
        The whole problem.
    jobs
        Ids of the jobs to keep.
    moves
        What may move then; None for what might before.
    """
    kept: list[Affinity] = []
    absent: set[str] = set()
    for affinity in instance.affinities:
        left = [job for job in affinity.jobs if job in jobs]
        if affinity.kind == "together" and len(left) == 1:
            left.append(next(job for job in affinity.jobs if job not in jobs))
            absent.add(left[1])
        if len(left) > 1:
            kept.append(dataclasses.replace(affinity, jobs=tuple(left)))
    topology, nowhere = instance.topology, _NOWHERE
    if absent:
        while nowhere in topology.levels:
            nowhere += "-"
        topology = topology.replace(levels=(*topology.levels, nowhere))
    idle = (Configuration((TaskGroup("task", 1),), 1.0),)
    return instance.replace(
        topology=topology,
        jobs=(
            *(job for job in instance.jobs if job.id in jobs),
            *(
                Job(name, 0.0, 1.0, idle, elasticity="rigid", placement=PlacementRules(nowhere))
                for name in sorted(absent)
            ),
        ),
        affinities=tuple(kept),
        moves=moves or instance.moves,
    )


def _cohorts(instance: Instance, broken: Sequence[Violation]) -> set[str]:
    named = {v.ids[0] for v in broken if v.code == "cohort"}
    return {tenant.cohort for tenant in instance.tenants if tenant.cohort in named} - {None}


def _affinities(instance: Instance) -> tuple[list[Affinity], set[str]]:
    """Return what is left of the affinities, and the waiting jobs that cannot start under them."""
    running = {a.job: a for a in instance.running if a.tasks}
    kept: list[Affinity] = []
    barred: set[str] = set()
    for affinity in instance.affinities:
        if affinity.kind == "together":
            held = domains_held(instance.topology, affinity, running)
            if len(held) > 1 or OUTSIDE in held:
                barred |= set(affinity.jobs) - running.keys()
            else:
                kept.append(affinity)
            continue
        where = {
            job: domains_held(instance.topology, affinity, {job: running[job]}) - {OUTSIDE}
            for job in affinity.jobs
            if job in running
        }
        pairs = list(combinations(affinity.jobs, 2))
        sound = [(a, b) for a, b in pairs if not where.get(a, set()) & where.get(b, set())]
        if len(sound) == len(pairs):
            kept.append(affinity)
        else:
            kept += [dataclasses.replace(affinity, jobs=pair) for pair in sound]
    return kept, barred


def _pinned(job: Job) -> Job:
    """Return a job that stays exactly as it runs; what it would prefer still counts in goals."""
    configurations = tuple(
        dataclasses.replace(c, within=None, gpu_type=None) for c in job.configurations
    )
    return keeping_size(job).replace(
        configurations=configurations,
        placement=PlacementRules(preferred=job.placement.preferred),
        preemptible=False,
    )


def standing_on(assignment: Assignment, hosts: Collection[str]) -> bool:
    """Return whether tasks of a job stand on some hosts, given by id.

    Parameters
    ----------
    assignment
        The job, on its hosts.
    hosts
        Ids of the hosts.
    """
    return any(task.host in hosts for task in assignment.tasks)


def staying(instance: Instance, hosts: Collection[str]) -> Instance:
    """Return the problem in which what runs on some hosts may not move.

    Parameters
    ----------
    instance
        What runs and what waits.
    hosts
        Ids of the hosts.
    """
    there = {a.job for a in instance.running if standing_on(a, hosts)}
    if not there:
        return instance
    jobs = (j.replace(preemptible=False) if j.id in there else j for j in instance.jobs)
    return instance.replace(jobs=tuple(jobs))


def held_on_hosts(instance: Instance) -> npt.NDArray[np.int64]:
    """Return what running jobs hold of each host, shape (hosts, resources).

    Parameters
    ----------
    instance
        What runs.
    """
    topology = instance.topology
    held = np.zeros_like(topology.capacity)
    for a in instance.running:
        groups = {g.role: g for g in instance.job(a.job).configurations[a.configuration].tasks}
        for task in a.tasks:
            held[topology.host_index[task.host]] += task.count * np.array(groups[task.role].demand)
    return held


def keeping_size(job: Job) -> Job:
    """Return a job that keeps its configuration while it runs."""
    return job.replace(elasticity="moldable") if job.elasticity == "malleable" else job


def holding(topology: Topology, kind: HostType, row: Sequence[int], name: str) -> HostType:
    """Return a type of hosts that offer other amounts than a known one.

    Parameters
    ----------
    topology
        The cluster.
    kind
        The known type.
    row
        What a host offers, on the topology's axis; of GPUs it offers whole ones.
    name
        Name of the type.
    """
    gpus, cpu, memory = row[: len(RESOURCES)]
    return HostType(
        name,
        -(-gpus // MILLI),
        kind.gpu_type or ("generic" if gpus else None),
        cpu,
        memory,
        resources=topology.host_amounts(row),
    )


def without_room(instance: Instance, hosts: Collection[str]) -> Topology:
    """Return the topology with some hosts as large as what runs on them.

    Parameters
    ----------
    instance
        What runs, in whole GPUs on these hosts.
    hosts
        Ids of the hosts.
    """
    topology = instance.topology
    used = held_on_hosts(instance)
    types = {kind.name: kind for kind in topology.host_types}
    made = list(topology.hosts)
    for h, host in enumerate(topology.hosts):
        if host.id in hosts and (used[h] != topology.capacity[h]).any():
            kind, mark = topology.host_type(host), f", {host.id} closed"
            name = kind.name.removesuffix(mark) + mark
            types[name] = holding(topology, kind, used[h].tolist(), name)
            made[h] = dataclasses.replace(host, type=name)
    return topology.replace(host_types=tuple(types.values()), hosts=tuple(made))


def _grown(instance: Instance) -> Topology:
    """Return the topology with over-full hosts, and cluster, as large as what is on them."""
    topology = instance.topology
    used = held_on_hosts(instance)
    types = {t.name: t for t in topology.host_types}
    hosts = list(topology.hosts)
    for h in np.flatnonzero((used > topology.capacity).any(axis=1)):
        kind = topology.host_type(hosts[h])
        row = np.maximum(used[h], topology.capacity[h]).tolist()
        large = holding(topology, kind, row, f"{kind.name} with what is on {hosts[h].id}")
        types[large.name] = large
        hosts[h] = dataclasses.replace(hosts[h], type=large.name)
    held = np.maximum(used.sum(axis=0), topology.totals).tolist()
    return topology.replace(
        host_types=tuple(types.values()),
        hosts=tuple(hosts),
        resources=topology.cluster_amounts(held),
    )


def _grown_quotas(instance: Instance, cohorts: set[str]) -> tuple[Tenant, ...]:
    """Return the tenants with quotas of at least what they hold, and no more in full cohorts.

    A tenant beyond its quota borrows the excess, so that its cohort as a whole has no more to lend.
    """
    held = dict.fromkeys((t.name for t in instance.tenants), 0)
    for a in instance.running:
        job = instance.job(a.job)
        if job.tenant in held:
            held[job.tenant] += job.configurations[a.configuration].demand[0]

    def grown(tenant: Tenant) -> Tenant:
        over = held[tenant.name] - tenant.gpu_quota_milli
        if tenant.cohort in cohorts or (tenant.cohort is None and over > 0):
            return dataclasses.replace(tenant, gpu_quota_milli=held[tenant.name])
        return dataclasses.replace(tenant, borrowing_milli=max(tenant.borrowing_milli, over))

    return tuple(map(grown, instance.tenants))


def misfit_of(topology: Topology, configurations: Sequence[Configuration]) -> str | None:
    """Return why a job can never run on a cluster in its smallest configuration, or None if it can.

    Parameters
    ----------
    topology
        The cluster, empty.
    configurations
        The ways the job can run.
    """
    first: str | None = None
    for configuration in sorted(configurations, key=lambda c: c.demand):
        if configuration.rate > 0:
            reason = misfit(topology, configuration)
            if reason is None:
                return None
            first = first or reason
    return first


def quota_within(tenant: Tenant, topology: Topology) -> Tenant:
    """Return a tenant whose quota is no more than there is, as an instance wants it.

    It may hold no less for that: nobody holds more than there is, nor does a cohort.

    Parameters
    ----------
    tenant
        The tenant.
    topology
        The cluster.
    """
    most = topology.num_gpus * MILLI
    if tenant.gpu_quota_milli <= most:
        return tenant
    return dataclasses.replace(tenant, gpu_quota_milli=most)
