"""Changes to a cluster as it stands: what a what-if asks of an instance of a snapshot.

A change makes one instance of another. Where hosts go, jobs that then fit nowhere, not even the
empty cluster, are left out, each with the reason.

Parameters
----------
standing
    The cluster before the change.
empty
    Empties hosts: asked where what runs is to move away.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from alloc.errors import InstanceError, nearest
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.solving.placing.defragmentation import Defragmentation, hosts_of
from alloc.solving.placing.standing import (
    misfit_of,
    only,
    quota_within,
    standing_on,
    staying,
    without_room,
)
from alloc.topology import Host, Topology
from alloc.units import MILLI
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

Drainer = Callable[[Instance, Sequence[str]], Defragmentation]
"""Empties hosts or domains, as `alloc.solving.placing.defragmentation.drain` does."""


@dataclass(frozen=True)
class Standing:
    """A cluster after some changes.

    Parameters
    ----------
    instance
        What runs and waits then.
    tenants
        Its tenants with quotas as they are asked for; the instance cuts them to the cluster.
    submitted, stopped
        Jobs that the changes submitted; running jobs that lost hosts and wait again.
    ended
        Jobs that the changes ended. One that others must stand together with stays in the
        instance, to start nowhere.
    closed
        Ids of hosts that take nothing new, whatever ends or leaves there.
    impossible
        Jobs that fit nowhere any more, with the reason; the instance is without them.
    drained
        The moves that emptied hosts, in the order of the changes. One without steps that can be
        carried out ends the changes.
    """

    instance: Instance
    tenants: tuple[Tenant, ...]
    submitted: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    closed: frozenset[str] = frozenset()
    impossible: Mapping[str, str] = field(default_factory=dict)
    drained: tuple[Defragmentation, ...] = ()

    @property
    def blocked(self) -> bool:
        """Whether hosts that were to be emptied cannot be."""
        return any(found.migration is None for found in self.drained)


class Change(Protocol):
    """A change to a cluster as it stands."""

    @property
    def sentence(self) -> str:
        """The change in words."""
        ...

    def apply(self, standing: Standing, empty: Drainer) -> Standing:
        """Return the cluster after the change.

        Raises
        ------
        InstanceError
            If it names what is not there, or leaves nothing to ask about.
        """
        ...


@dataclass(frozen=True)
class Submit:
    """A job that is not submitted yet.

    Parameters
    ----------
    job
        Id of the new job.
    count
        Tasks, or None for those of `like`.
    gpus
        Whole GPUs of a task, 0 or more.
    cpu_milli, memory_mib
        CPU and memory of a task, milli-cores and MiB; None: those of `like`, or none.
    gpu_type, level, tenant
        GPU type, level that holds all tasks in one domain, and tenant; None: those of `like`, if
        any.
    like
        Job whose demands and rules it has where nothing else is said, but for affinities.
    """

    job: str
    count: int | None = None
    gpus: int = 0
    cpu_milli: int | None = None
    memory_mib: int | None = None
    gpu_type: str | None = None
    level: str | None = None
    tenant: str | None = None
    like: str | None = None

    @property
    def sentence(self) -> str:
        """The change in words."""
        if self.count is None:
            return f'job "{self.job}", like "{self.like}", is submitted'
        size = f"{self.count} x {self.gpus} GPU{'' if self.gpus == 1 else 's'}"
        level = f" in one {self.level}" if self.level else ""
        return f'job "{self.job}", {size}{level}, is submitted'

    def apply(self, standing: Standing, empty: Drainer) -> Standing:
        """Return the cluster with the job in its queue."""
        instance = standing.instance
        if self.job in instance.job_index or self.job in standing.impossible:
            raise InstanceError(f'what if: there is a job "{self.job}"; submit it by another name.')
        known = {t.name for t in instance.tenants} | {str(job.tenant) for job in instance.jobs}
        if self.tenant is not None and self.tenant not in known:
            raise InstanceError(
                f'what if: no quota and no job names tenant "{self.tenant}"'
                f"{nearest(self.tenant, known, '.')} Leave the tenant out for a job without a "
                "quota."
            )
        job = self._new() if self.like is None else self._as(instance)
        grown = _remade(standing, instance.topology, (*instance.jobs, job), instance.running)
        return dataclasses.replace(grown, submitted=(*standing.submitted, self.job))

    def _new(self) -> Job:
        assert self.count is not None
        group = TaskGroup(
            "worker", self.count, self.gpus * MILLI, self.cpu_milli or 0, self.memory_mib or 0
        )
        return Job(
            self.job,
            0.0,
            1.0,
            (Configuration((group,), 1.0, self.gpu_type),),
            tenant=self.tenant,
            elasticity="rigid",
            placement=PlacementRules(required=self.level),
        )

    def _as(self, instance: Instance) -> Job:
        """Return a job like another one, but for what is said of it."""
        model = instance.job(str(self.like))
        asked = {n for c in model.configurations for group in c.tasks for n in group.resources}
        shared = {instance.topology.resource_names[r] for r in instance.topology.cluster_columns}
        if (self.count, self.cpu_milli, self.memory_mib) != (None,) * 3 and asked & shared:
            raise InstanceError(
                f'what if: job "{self.like}" takes {min(asked & shared)} by its size, so of a job '
                "like it no size can be said; leave the size out, or leave like out."
            )
        rules = model.placement
        if self.level is not None:
            rules = dataclasses.replace(rules, required=self.level)
        return model.replace(
            id=self.job,
            arrival_s=0.0,
            work_done=0.0,
            configurations=tuple(map(self._resized, model.configurations)),
            tenant=self.tenant or model.tenant,
            placement=rules,
        )

    def _resized(self, configuration: Configuration) -> Configuration:
        asked: dict[str, Any] = {}
        if self.count is not None:
            asked |= {"count": self.count, "gpu_milli": self.gpus * MILLI}
        if self.cpu_milli is not None:
            asked["cpu_milli"] = self.cpu_milli
        if self.memory_mib is not None:
            asked["memory_mib"] = self.memory_mib
        tasks = configuration.tasks
        if asked and len(tasks) > 1:
            raise InstanceError(
                f'what if: job "{self.like}" has {len(tasks)} kinds of tasks, so of a job like it '
                "no size can be said; leave the size out, or leave like out."
            )
        return dataclasses.replace(
            configuration,
            tasks=tuple(dataclasses.replace(group, **asked) for group in tasks),
            gpu_type=self.gpu_type or configuration.gpu_type,
        )


@dataclass(frozen=True)
class End:
    """A job that ends now, or is withdrawn.

    Parameters
    ----------
    job
        Its id.
    """

    job: str

    @property
    def sentence(self) -> str:
        """The change in words."""
        return f'job "{self.job}" ends'

    def apply(self, standing: Standing, empty: Drainer) -> Standing:
        """Return the cluster without the job."""
        instance = standing.instance
        kept = instance.job_index.keys() - {instance.job(self.job).id}
        if not kept:
            raise InstanceError(f'what if: "{self.job}" is the only job; nothing is left to ask.')
        running = tuple(a for a in instance.running if a.job != self.job)
        rest = only(instance.replace(running=running), kept)
        return dataclasses.replace(standing, instance=rest, ended=(*standing.ended, self.job))


@dataclass(frozen=True)
class Cordon:
    """Hosts that take nothing new; what runs there stays.

    Parameters
    ----------
    place
        Id of a host or domain.
    """

    place: str

    @property
    def sentence(self) -> str:
        """The change in words."""
        return f"{self.place} is cordoned: nothing new starts there"

    def apply(self, standing: Standing, empty: Drainer) -> Standing:
        """Return the cluster with the hosts closed."""
        instance = standing.instance
        closed = hosts_of(instance, [self.place])
        for a in instance.running:
            groups = {g.role: g for g in instance.job(a.job).configurations[a.configuration].tasks}
            for task in a.tasks:
                group = groups[task.role]
                if task.host in closed and (group.shares_gpu or group.mig_profile):
                    raise InstanceError(
                        f'what if: cannot cordon {self.place}: job "{a.job}" holds part of a GPU '
                        f"on {task.host}, whose rest cannot be closed; drain it or lose it instead."
                    )
        return dataclasses.replace(standing, closed=standing.closed | closed)


@dataclass(frozen=True)
class Drain:
    """Hosts that go after what runs there has moved away, with as few moves as it takes.

    Parameters
    ----------
    place
        Id of a host or domain.
    """

    place: str

    @property
    def sentence(self) -> str:
        """The change in words."""
        return f"{self.place} is drained: what runs there moves, and nothing new starts there"

    def apply(self, standing: Standing, empty: Drainer) -> Standing:
        """Return the cluster without the hosts, what ran there elsewhere."""
        instance = standing.instance
        gone = hosts_of(instance, [self.place])
        running = instance.running
        if any(task.host in gone for a in running for task in a.tasks):
            # What leaves a closed host would make room there for what moves.
            closed = standing.closed - gone
            for a in running:
                if {task.host for task in a.tasks} & gone and standing_on(a, closed):
                    raise InstanceError(
                        f'what if: job "{a.job}" runs on {self.place} and on cordoned hosts; drain '
                        "first, and cordon then."
                    )
            found = empty(staying(instance, closed), [self.place])
            standing = dataclasses.replace(standing, drained=(*standing.drained, found))
            if found.migration is None:
                return standing
            assert isinstance(found.result.solution, Allocation)
            running = found.result.solution.assignments
        return _remade(standing, instance.topology.without_hosts(gone), instance.jobs, running)


@dataclass(frozen=True)
class Lose:
    """Hosts that fail: what runs there stops and waits again.

    Parameters
    ----------
    place
        Id of a host or domain.
    """

    place: str

    @property
    def sentence(self) -> str:
        """The change in words."""
        return f"{self.place} fails: what runs there stops and waits"

    def apply(self, standing: Standing, empty: Drainer) -> Standing:
        """Return the cluster without the hosts."""
        instance = standing.instance
        gone = hosts_of(instance, [self.place])
        hit = {a.job for a in instance.running if any(task.host in gone for task in a.tasks)}
        left = tuple(a for a in instance.running if a.job not in hit)
        again = dataclasses.replace(standing, stopped=(*standing.stopped, *sorted(hit)))
        return _remade(again, instance.topology.without_hosts(gone), instance.jobs, left)


@dataclass(frozen=True)
class AddHosts:
    """More hosts of a type that is there.

    Parameters
    ----------
    type, number
        Name of the host type, and how many hosts, 1 or more.
    domain
        Domain that they stand in; None in a flat cluster.
    """

    type: str
    number: int
    domain: str | None = None

    @property
    def sentence(self) -> str:
        """The change in words."""
        where = f" in {self.domain}" if self.domain else ""
        return f"{self.number} more host{'s' if self.number > 1 else ''} of {self.type}{where}"

    def apply(self, standing: Standing, empty: Drainer) -> Standing:
        """Return the cluster with the hosts."""
        if standing.impossible:
            raise InstanceError(
                f'what if: before these hosts come, job "{min(standing.impossible)}" fits nowhere; '
                "name hosts before the change that it has no place after."
            )
        topology = standing.instance.topology
        kinds = [kind.name for kind in topology.host_types]
        if self.type not in kinds:
            raise InstanceError(
                f'what if: no host is of type "{self.type}"'
                f"{nearest(self.type, kinds, '.')} Known: {', '.join(kinds)}."
            )
        # A host in an outer domain alone would stand outside the inner levels.
        used = {domain.level for domain in topology.domains}
        innermost = next((level for level in reversed(topology.levels) if level in used), None)
        inner = [domain.id for domain in topology.domains if domain.level == innermost]
        if (self.domain is not None or inner) and self.domain not in inner:
            here = "no place for the hosts" if self.domain is None else f'no "{self.domain}"'
            known = ", ".join(inner[:20]) or "none, the cluster is flat"
            raise InstanceError(
                f"what if: {here} among the domains of the innermost level"
                f"{nearest(self.domain or '', inner, '.')} Write hosts:{self.type}@DOMAIN="
                f"+{self.number} with one of: {known}."
            )
        taken = topology.host_index.keys() | {domain.id for domain in topology.domains}
        names: list[str] = []
        k = 0
        while len(names) < self.number:
            k += 1
            if (name := f"new-{k}") not in taken:
                names.append(name)
        more = tuple(Host(name, self.type, self.domain) for name in names)
        larger = topology.replace(hosts=(*topology.hosts, *more))
        tenants = tuple(quota_within(tenant, larger) for tenant in standing.tenants)
        instance = standing.instance.replace(topology=larger, tenants=tenants)
        return dataclasses.replace(standing, instance=instance)


@dataclass(frozen=True)
class Quota:
    """Another quota of a tenant.

    Parameters
    ----------
    tenant
        Its name.
    gpus, relative
        GPUs of the quota, or with `relative` how many more or fewer than before.
    """

    tenant: str
    gpus: float
    relative: bool = False

    @property
    def sentence(self) -> str:
        """The change in words."""
        number = f"{self.gpus:+g} GPUs" if self.relative else f"{self.gpus:g} GPUs"
        return f'the quota of "{self.tenant}" is {number}'

    def apply(self, standing: Standing, empty: Drainer) -> Standing:
        """Return the cluster with the quota."""
        instance = standing.instance
        known = [tenant.name for tenant in standing.tenants]
        if self.tenant not in known:
            raise InstanceError(
                f'what if: no tenant "{self.tenant}" has a quota'
                f"{nearest(self.tenant, known, '.')} Those with one: {', '.join(known) or 'none'}."
            )
        before = standing.tenants[known.index(self.tenant)]
        gpus = self.gpus + (before.gpu_quota_milli / MILLI if self.relative else 0.0)
        if not 0 <= gpus < math.inf:
            raise InstanceError(
                f'what if: the quota of "{self.tenant}" would be {gpus:g} GPUs; give 0 or more.'
            )
        after = dataclasses.replace(before, gpu_quota_milli=round(gpus * MILLI))
        tenants = tuple(after if t.name == after.name else t for t in instance.tenants)
        return dataclasses.replace(
            standing,
            instance=instance.replace(tenants=tenants),
            tenants=tuple(after if t is before else t for t in standing.tenants),
        )


def made(change: Change, standing: Standing, empty: Drainer) -> Standing:
    """Return a cluster after a change, its closed hosts as large as what is left on them.

    Parameters
    ----------
    change
        The change.
    standing
        The cluster before it.
    empty
        What empties hosts.
    """
    after = change.apply(standing, empty)
    instance, topology = after.instance, after.instance.topology
    if after.blocked or after.closed.isdisjoint(topology.host_index):
        return after
    smaller = without_room(instance, after.closed)
    return _remade(after, smaller, instance.jobs, instance.running)


def _remade(
    standing: Standing, topology: Topology, jobs: Sequence[Job], running: Sequence[Assignment]
) -> Standing:
    """Return a changed cluster without the waiting jobs that fit nowhere on it."""
    instance = standing.instance
    runs = {a.job for a in running}
    seen: dict[int, str | None] = {}
    impossible = dict(standing.impossible)
    for job in jobs:
        key = id(job.configurations)
        if job.id in runs:
            continue
        if key not in seen:
            seen[key] = misfit_of(topology, job.configurations)
        if (reason := seen[key]) is not None:
            impossible[job.id] = reason
    left = [job for job in jobs if job.id not in impossible]
    if not left:
        raise InstanceError("what if: no job fits what is left of the cluster; change less.")
    before = instance.replace(running=tuple(running))
    if gone := impossible.keys() & before.job_index.keys():
        before = only(before, before.job_index.keys() - gone)
    # Of jobs that must stand together with one that is gone: see `only`.
    stands_in = [job for job in before.jobs if job.id in impossible]
    changed = before.replace(
        topology=topology.replace(levels=before.topology.levels),
        jobs=(*left, *stands_in),
        tenants=tuple(quota_within(tenant, topology) for tenant in standing.tenants),
    )
    return dataclasses.replace(standing, instance=changed, impossible=impossible)
