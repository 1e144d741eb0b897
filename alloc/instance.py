"""The instance: a cluster, its jobs and the rules of time."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from alloc.errors import InstanceError, nearest
from alloc.solution import Assignment
from alloc.topology import Topology
from alloc.units import (
    MILLI,
    RESOURCES,
    require_positive,
    require_share,
    require_slot_length,
    require_time,
)
from alloc.workload import Configuration, Job


@dataclass(frozen=True)
class Tenant:
    """A tenant and its quota.

    Parameters
    ----------
    name
        Unique name.
    gpu_quota_milli
        Most GPU that the tenant's jobs may hold at any time, milli-GPU.
    """

    name: str
    gpu_quota_milli: int

    def __post_init__(self) -> None:
        require_share(self.gpu_quota_milli, f'tenant "{self.name}"', "gpu_quota_milli")


@dataclass(frozen=True)
class Instance:
    """A scheduling instance: everything that the problem is, and nothing that is an answer.

    Parameters
    ----------
    name
        For people; part of the fingerprint.
    topology
        The cluster.
    jobs
        At least one job, ids unique.
    slot_s
        Length of a slot, seconds: decisions are taken at multiples of it and hold until the next.
        None for continuous time.
    horizon_s
        Time by which every job must be complete, seconds, or None for an open end.
    tenants
        Tenants with quotas. A job of a tenant that is not listed has no quota.
    running
        What ran just before the start: it decides whether going on costs a restart.
    description
        Where the instance comes from: generator, seed, trace, sources. Not part of the problem,
        so not part of the fingerprint.
    """

    name: str
    topology: Topology
    jobs: tuple[Job, ...]
    slot_s: float | None = None
    horizon_s: float | None = None
    tenants: tuple[Tenant, ...] = ()
    running: tuple[Assignment, ...] = ()
    description: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f'instance "{self.name}"'
        if not self.jobs:
            raise InstanceError(f"{where}: has no jobs; there is nothing to allocate.")
        if self.slot_s is not None:
            require_slot_length(self.slot_s, where, "slot_s")
        if self.horizon_s is not None:
            require_positive(self.horizon_s, where, "horizon_s")
            require_time(self.horizon_s, where, "horizon_s")
        if len(self.job_index) != len(self.jobs):
            seen: set[str] = set()
            twice = next(j.id for j in self.jobs if j.id in seen or seen.add(j.id))  # type: ignore[func-returns-value]
            raise InstanceError(f'{where}: job "{twice}" appears twice; job ids must be unique.')
        tenants = {tenant.name for tenant in self.tenants}
        if len(tenants) != len(self.tenants):
            raise InstanceError(f"{where}: a tenant appears twice; tenant names must be unique.")
        _check_demands(self)
        _check_running(self, where)

    @cached_property
    def job_index(self) -> dict[str, int]:
        """Position of each job id in `jobs`."""
        return {job.id: j for j, job in enumerate(self.jobs)}

    def job(self, job_id: str) -> Job:
        """Return the job with that id.

        Raises
        ------
        InstanceError
            If there is none.
        """
        if job_id not in self.job_index:
            raise InstanceError(
                f'instance "{self.name}" has no job "{job_id}"'
                f"{nearest(job_id, self.job_index, '; give the id of one of its jobs.')}"
            )
        return self.jobs[self.job_index[job_id]]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of the problem (without `description`)."""
        from alloc.documents import canonical_json

        return hashlib.sha256(canonical_json(self)).hexdigest()

    def replace(self, **changes: Any) -> Instance:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return the instance as a JSON document, and write it if a path is given."""
        from alloc.documents import write_instance

        return write_instance(self, path)

    @staticmethod
    def from_json(text: str | bytes) -> Instance:
        """Read an instance from the text of a JSON document.

        Raises
        ------
        InstanceError
            If the document is malformed; the message names job, field, value and cure.
        """
        from alloc.documents import parse_instance

        return parse_instance(text)

    @staticmethod
    def load(path: str | PathLike[str]) -> Instance:
        """Read an instance from a JSON file (plain, or gzip when the name ends in ``.gz``)."""
        from alloc.documents import load_instance

        return load_instance(path)


def _check_demands(instance: Instance) -> None:
    """Refuse jobs that cannot run on the empty cluster in any of their configurations."""
    # Jobs share configuration tuples, so each tuple is checked once.
    checked: dict[int, str | None] = {}
    for job in instance.jobs:
        key = id(job.configurations)
        if key not in checked:
            smallest_first = sorted(job.configurations, key=lambda c: c.demand)
            reasons = [misfit(instance.topology, c) for c in smallest_first if c.rate > 0]
            checked[key] = None if None in reasons else reasons[0]
        if (reason := checked[key]) is not None:
            raise InstanceError(
                f'job "{job.id}": fits the empty cluster in none of its configurations ({reason}); '
                "add hosts, shrink the job or drop it."
            )


def _check_running(instance: Instance, where: str) -> None:
    """Refuse running placements that name what the instance does not have, or a job twice."""
    seen: set[str] = set()
    for running in instance.running:
        if running.job not in instance.job_index:
            raise InstanceError(
                f'{where}: running names job "{running.job}", which is not in jobs'
                f"{nearest(running.job, instance.job_index, '; add the job or drop this.')}"
            )
        if running.job in seen:
            raise InstanceError(f'{where}: running names job "{running.job}" twice; keep one.')
        seen.add(running.job)
        count = len(instance.job(running.job).configurations)
        if not 0 <= running.configuration < count:
            raise InstanceError(
                f'job "{running.job}": runs in configuration {running.configuration}, but has '
                f"{count}; count them from 0."
            )
        for task in running.tasks:
            if task.host not in instance.topology.host_index:
                cure = nearest(task.host, instance.topology.host_index, "; name one of its hosts.")
                raise InstanceError(
                    f'job "{running.job}": runs on host "{task.host}", which is not in the '
                    f"topology{cure}"
                )


def misfit(topology: Topology, configuration: Configuration) -> str | None:
    """Say why a configuration can never run on a topology, or return None if counts allow it.

    The test is exact for one task group and necessary in general: it checks every group against
    the hosts, one by one, and the totals. Two groups that compete for the same hosts are left to
    the placement.
    """
    if configuration.within is not None and configuration.within not in topology.domain_of_host:
        known = (*topology.levels, "host")
        return (
            f'its level "{configuration.within}" is not in the topology'
            f"{nearest(configuration.within, known)}"
        )
    capacity = topology.capacity
    if configuration.gpu_type is not None:
        of_type = np.array([t == configuration.gpu_type for t in topology.gpu_types])
        if not of_type.any():
            return f'the cluster has no GPU of type "{configuration.gpu_type}"'
        capacity = capacity[of_type]
    totals = capacity.sum(axis=0)
    for resource, need, have in zip(RESOURCES, configuration.demand, totals, strict=True):
        if need > have:
            return (
                f"{configuration.label} needs {_amount(resource, need)} of "
                f"{_amount(resource, have)}"
            )
    for group in configuration.tasks:
        demand = np.array(group.demand)
        needed = demand > 0
        if not needed.any():
            continue
        per_host = (capacity[:, needed] // demand[needed]).min(axis=1)
        if per_host.sum() < group.count:
            return (
                f"{group.count} {group.role} tasks of {group.gpu_milli / MILLI:g} GPU, "
                f"{group.cpu_milli / MILLI:g} CPU, {group.memory_mib} MiB each, but the empty "
                f"cluster holds {per_host.sum()}"
            )
    return None


def _amount(resource: str, amount: float) -> str:
    """Return an amount of a resource in words, for example ``8 GPU``."""
    if resource == "memory_mib":
        return f"{amount:g} MiB"
    return f"{amount / MILLI:g} {'GPU' if resource == 'gpu_milli' else 'CPU'}"
