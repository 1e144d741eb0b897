"""The numbers of a GPU sharing problem: equal jobs, equal tasks, equal hosts and equal GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.errors import UnsupportedFeatureError
from alloc.models.sharing.patterns import (
    Counts,
    Pattern,
    Size,
    mig_patterns,
    share_patterns,
)
from alloc.objectives.sharing import gpu_layouts
from alloc.problems.allocation.instance import Instance
from alloc.topology import Topology
from alloc.topology.gpu_fit import type_admits
from alloc.topology.mig import Layout
from alloc.units import MILLI
from alloc.workload import Configuration, Job, TaskGroup

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class JobClass:
    """Jobs that are alike: the same configurations, weight and tenant."""

    members: tuple[int, ...]
    configurations: tuple[Configuration, ...]
    weight: float
    tenant: str | None


@dataclass(frozen=True)
class Item:
    """Tasks that are alike.

    Parameters
    ----------
    size
        Position of the size in `SharingData.sizes`, or -1 without GPU.
    units
        GPUs of that size that one task takes: more than 1 only for whole ones.
    beside
        What one task takes of its host beside GPUs, in the order of `SharingData.beside`.
    gpu_type
        GPU type that its host must have, or None.
    """

    size: int
    units: int
    beside: tuple[int, ...]
    gpu_type: str | None


@dataclass(frozen=True)
class HostClass:
    """Hosts that are alike, by position in the topology.

    What each offers beside GPUs is in the order of `SharingData.beside`.
    """

    hosts: tuple[int, ...]
    gpu_type: str | None
    num_gpus: int
    beside: tuple[int, ...]


@dataclass(frozen=True)
class GpuGroup:
    """GPUs that are alike: on hosts of one class and cut the same way now.

    Parameters
    ----------
    host_class
        Position of the class in `SharingData.host_classes`.
    state
        The MIG instances in use now.
    gpus
        The GPUs, as host and position.
    """

    host_class: int
    state: Layout
    gpus: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SharingData:
    """A GPU sharing problem in classes.

    Parameters
    ----------
    instance
        The problem.
    classes
        The job classes k.
    options
        The ways o to run a job, as class and position of the configuration.
    items
        The kinds of tasks i.
    need
        Tasks of each kind in each option, shape (items, options).
    sizes
        The sizes s.
    host_classes
        The classes h of hosts.
    groups
        The groups g of GPUs.
    patterns
        The patterns listed for each group.
    listed
        Whether every maximal pattern is listed.
    """

    instance: Instance
    classes: tuple[JobClass, ...]
    options: tuple[tuple[int, int], ...]
    items: tuple[Item, ...]
    need: Whole
    sizes: tuple[Size, ...]
    host_classes: tuple[HostClass, ...]
    groups: tuple[GpuGroup, ...]
    patterns: tuple[tuple[Pattern, ...], ...]
    listed: bool

    @cached_property
    def beside(self) -> tuple[str, ...]:
        """Names of what hosts offer beside GPUs: CPU, memory, and resources of their own."""
        topology = self.instance.topology
        return tuple(topology.resource_names[r] for r in _beside(topology))

    @cached_property
    def roles(self) -> tuple[tuple[tuple[str, int, int], ...], ...]:
        """Role, kind and number of the tasks of each option."""
        sizes = {size: s for s, size in enumerate(self.sizes)}
        index = {item: i for i, item in enumerate(self.items)}
        columns = _beside(self.instance.topology)
        found = []
        for k, c in self.options:
            configuration = self.classes[k].configurations[c]
            found.append(
                tuple(
                    (
                        group.role,
                        index[_item(group, configuration.gpu_type, sizes, columns)],
                        group.count,
                    )
                    for group in configuration.tasks
                )
            )
        return tuple(found)

    @cached_property
    def state_of(self) -> dict[tuple[int, int], Layout]:
        """How each GPU that is cut now is cut."""
        return {gpu: group.state for group in self.groups if group.state for gpu in group.gpus}

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Kinds of tasks and the host classes they may stand on."""
        found = []
        for i, item in enumerate(self.items):
            for h, hosts in enumerate(self.host_classes):
                if item.gpu_type not in (None, hosts.gpu_type):
                    continue
                if any(n > have for n, have in zip(item.beside, hosts.beside, strict=True)):
                    continue
                if item.size >= 0 and (
                    item.units > hosts.num_gpus
                    or not type_admits(hosts.gpu_type, _group_of(self.sizes[item.size]))
                ):
                    continue
                found.append((i, h))
        return tuple(found)

    @cached_property
    def tight(self) -> tuple[tuple[bool, ...], ...]:
        """Whether each resource of `beside` can run out on a host of each class before its GPUs."""
        width = len(self.beside)
        most = np.zeros((len(self.host_classes), len(self.sizes), width))
        free = np.zeros((len(self.host_classes), width))
        for i, h in self.pairs:
            item = self.items[i]
            use = np.array(item.beside) / max(item.units, 1)
            if item.size < 0:
                free[h] = np.where(use > 0, np.inf, free[h])
            else:
                np.maximum(most[h, item.size], use, out=most[h, item.size])
        per_gpu = np.zeros((len(self.host_classes), width))
        for group, patterns in zip(self.groups, self.patterns, strict=True):
            for pattern in patterns:
                use = np.array(pattern.counts) @ most[group.host_class]
                np.maximum(per_gpu[group.host_class], use, out=per_gpu[group.host_class])
        found = []
        for h, hosts in enumerate(self.host_classes):
            worst = free[h] + hosts.num_gpus * per_gpu[h]
            shared = not self.listed  # patterns to come may hold more
            # Of what nobody asks for nothing runs out.
            asked = [r < 2 or any(i.beside[r] for i in self.items) for r in range(width)]
            found.append(
                tuple(
                    bool((shared and a) or w > c)
                    for a, w, c in zip(asked, worst, hosts.beside, strict=True)
                )
            )
        return tuple(found)

    @property
    def is_exact(self) -> bool:
        """Whether the model of the classes is the problem itself: hosts never bind by themselves.

        So it is if no CPU, memory or other resource can run out and no task takes several GPUs, or
        every class is a single host.
        """
        single = all(len(hosts.hosts) == 1 for hosts in self.host_classes)
        loose = not any(any(tight) for tight in self.tight)
        return single or (loose and all(item.units <= 1 for item in self.items))


def sharing_data(instance: Instance, *, aggregate: bool, states: bool = True) -> SharingData:
    """Gather the numbers of an instance.

    Parameters
    ----------
    instance
        The problem.
    aggregate
        Whether equal hosts become one class; otherwise each host is its own.
    states
        Whether to tell GPUs apart by how they are cut now; only reconfigurations depend on it.

    Raises
    ------
    UnsupportedFeatureError
        If a configuration wants its tasks within one domain.
    """
    classes = _job_classes(instance.jobs)
    options = tuple(
        (k, c)
        for k, job_class in enumerate(classes)
        for c, configuration in enumerate(job_class.configurations)
        if configuration.rate > 0
    )
    sizes: dict[Size, int] = {}
    items: dict[Item, int] = {}
    needs: list[dict[int, int]] = []
    columns = _beside(instance.topology)
    for k, c in options:
        configuration = classes[k].configurations[c]
        if configuration.within is not None:
            job = instance.jobs[classes[k].members[0]]
            raise UnsupportedFeatureError(
                f'job "{job.id}": wants its tasks within one {configuration.within}, which the '
                'formulation "sharing" does not model; leave out within.'
            )
        need: dict[int, int] = {}
        for group in configuration.tasks:
            item = _item(group, configuration.gpu_type, sizes, columns)
            i = items.setdefault(item, len(items))
            need[i] = need.get(i, 0) + group.count
        needs.append(need)
    matrix = np.zeros((len(items), len(options)), dtype=np.int64)
    for o, need in enumerate(needs):
        for i, count in need.items():
            matrix[i, o] = count
    host_classes = _host_classes(instance, aggregate)
    groups = _gpu_groups(instance, host_classes, states)
    wanted = _wanted(classes, options, matrix, tuple(items), len(sizes))
    patterns, listed = _patterns(host_classes, groups, tuple(sizes), wanted)
    return SharingData(
        instance,
        classes,
        options,
        tuple(items),
        matrix,
        tuple(sizes),
        host_classes,
        groups,
        patterns,
        listed,
    )


def _job_classes(jobs: Sequence[Job]) -> tuple[JobClass, ...]:
    # Equal configurations count as one even where they are different objects.
    canonical: dict[tuple[Configuration, ...], tuple[Configuration, ...]] = {}
    by_id: dict[int, int] = {}
    found: dict[tuple[int, float, str | None], list[int]] = {}
    for j, job in enumerate(jobs):
        table = job.configurations
        of = by_id.get(id(table))
        if of is None:
            of = by_id[id(table)] = id(canonical.setdefault(table, table))
        key = of, job.weight, job.tenant
        members = found.get(key)
        if members is None:
            found[key] = [j]
        else:
            members.append(j)
    return tuple(
        JobClass(tuple(members), jobs[members[0]].configurations, weight, tenant)
        for (_, weight, tenant), members in found.items()
    )


def _beside(topology: Topology) -> tuple[int, ...]:
    """Return the positions on the axis of what hosts offer beside GPUs."""
    return tuple(
        r for r in range(1, len(topology.resource_names)) if r not in topology.cluster_columns
    )


def _item(
    group: TaskGroup, gpu_type: str | None, sizes: dict[Size, int], columns: Sequence[int]
) -> Item:
    beside = tuple(group.demand[r] for r in columns)
    if not group.uses_gpu:
        return Item(-1, 0, beside, gpu_type)
    size = Size(min(group.gpu_milli, MILLI), group.gpu_memory_mib, group.mig_profile)
    s = sizes.setdefault(size, len(sizes))
    units = max(group.gpu_milli // MILLI, 1)
    return Item(s, units, beside, gpu_type)


def _group_of(size: Size) -> TaskGroup:
    """Return a task of a size, to ask whether a GPU type admits it."""
    return TaskGroup(
        "task", 1, size.gpu_milli, gpu_memory_mib=size.memory_mib, mig_profile=size.profile
    )


def _host_classes(instance: Instance, aggregate: bool) -> tuple[HostClass, ...]:
    topology = instance.topology
    beside = topology.capacity[:, list(_beside(topology))].tolist()
    found: dict[tuple[object, ...], list[int]] = {}
    for h, host in enumerate(topology.hosts):
        kind = topology.host_type(host)
        key = (kind.gpu_type, kind.num_gpus, *beside[h])
        found.setdefault(key if aggregate else (h,), []).append(h)
    classes = []
    for hosts in found.values():
        kind = topology.host_type(topology.hosts[hosts[0]])
        classes.append(
            HostClass(tuple(hosts), kind.gpu_type, kind.num_gpus, tuple(beside[hosts[0]]))
        )
    return tuple(classes)


def _gpu_groups(
    instance: Instance, host_classes: Sequence[HostClass], states: bool
) -> tuple[GpuGroup, ...]:
    topology = instance.topology
    running = gpu_layouts(instance, instance.running) if states else {}
    found: dict[tuple[int, Layout], list[tuple[int, int]]] = {}
    for c, hosts in enumerate(host_classes):
        for h in hosts.hosts:
            for g in range(hosts.num_gpus):
                state = running.get((topology.hosts[h].id, g), ()) if running else ()
                found.setdefault((c, state), []).append((h, g))
    return tuple(GpuGroup(c, state, tuple(gpus)) for (c, state), gpus in found.items())


def _wanted(
    classes: Sequence[JobClass],
    options: Sequence[tuple[int, int]],
    need: Whole,
    items: Sequence[Item],
    num_sizes: int,
) -> Whole:
    """Return the most tasks of each size there can be, shape (sizes,)."""
    most = np.zeros((len(items), len(classes)), dtype=np.int64)
    for o, (k, _) in enumerate(options):
        np.maximum(most[:, k], need[:, o] * len(classes[k].members), out=most[:, k])
    wanted = np.zeros(num_sizes, dtype=np.int64)
    for i, item in enumerate(items):
        if item.size >= 0:
            wanted[item.size] += most[i].sum()
    return wanted


def _patterns(
    host_classes: Sequence[HostClass],
    groups: Sequence[GpuGroup],
    sizes: Sequence[Size],
    wanted: Whole,
) -> tuple[tuple[tuple[Pattern, ...], ...], bool]:
    """Return the patterns of each group, and whether all are listed."""
    shares: dict[str | None, list[Counts] | None] = {}
    listed = True
    found = []
    for group in groups:
        gpu_type = host_classes[group.host_class].gpu_type
        if gpu_type not in shares:
            shares[gpu_type] = share_patterns(gpu_type, sizes, wanted.tolist())
        of_shares = shares[gpu_type]
        if of_shares is None:
            listed = False
            of_shares = []
        cut = bool(group.state)
        patterns = [Pattern(counts, reconfigures=cut) for counts in of_shares]
        patterns += mig_patterns(gpu_type, sizes, group.state)
        for s, size in enumerate(sizes):
            if size.is_whole and type_admits(gpu_type, _group_of(size)):
                counts = tuple(int(t == s) for t in range(len(sizes)))
                patterns.append(Pattern(counts, reconfigures=cut))
        found.append(tuple(patterns))
    return tuple(found), listed
