"""Misfits: why a configuration can never run on a cluster."""

from __future__ import annotations

import numpy as np

from alloc.errors import nearest
from alloc.packing import is_known_to_stand, on_one_axis, stands_alone
from alloc.resources import format_amount
from alloc.topology import Topology
from alloc.topology.gpu_fit import gpu_misfit
from alloc.units import MILLI, RESOURCES
from alloc.workload import Configuration


def unfit(topology: Topology, configurations: tuple[Configuration, ...]) -> str | None:
    """Return why the smallest configuration fits the empty cluster not, or None if some does.

    Parameters
    ----------
    topology
        The cluster, all of it free.
    configurations
        Ways to run one job, at least one; those with rate 0 are left out.
    """
    # Most tables begin with a small one that fits; to sort asks each for its demand.
    if configurations[0].rate > 0 and misfit(topology, configurations[0]) is None:
        return None
    first: str | None = None
    for configuration in sorted(configurations, key=lambda c: c.demand):
        if configuration.rate > 0:
            reason = misfit(topology, configuration)
            if reason is None:
                return None
            first = reason if first is None else first
    return first


def misfit(topology: Topology, configuration: Configuration) -> str | None:
    """Say why a configuration can never run on a topology, or return None if it can.

    Totals, GPUs and single groups are looked at first, since they make the better sentences; what
    passes them is placed on the empty cluster. What is said is proved; a gang that is not decided
    on, seldom any but one with MIG slices, passes (`alloc.packing.stands_alone`).

    Parameters
    ----------
    topology
        The cluster, empty.
    configuration
        The configuration.
    """
    if configuration.within is not None and configuration.within not in topology.domain_of_host:
        known = (*topology.levels, "host")
        return (
            f'its level "{configuration.within}" is not in the topology'
            f"{nearest(configuration.within, known)}"
        )
    topology, configuration = on_one_axis(topology, configuration)
    if is_known_to_stand(topology, configuration):
        return None
    capacity = topology.capacity
    if configuration.gpu_type is not None:
        of_type = np.array([t == configuration.gpu_type for t in topology.gpu_types])
        if not of_type.any():
            return f'the cluster has no GPU of type "{configuration.gpu_type}"'
        capacity = capacity[of_type]
    totals = capacity.sum(axis=0)
    for r, (resource, need) in enumerate(
        zip(topology.resource_names, configuration.demand, strict=True)
    ):
        have = topology.totals[r] if r in topology.cluster_columns else totals[r]
        if need > have:
            if not have and resource not in RESOURCES and not topology.totals[r]:
                offered = zip(topology.resource_names, topology.totals, strict=True)
                names = [name for name, amount in offered if amount]
                return (
                    f"{configuration.label} needs {format_amount(resource, need)}, which no host "
                    f"and not the cluster has{nearest(resource, names)}"
                )
            return (
                f"{configuration.label} needs {format_amount(resource, need)} of "
                f"{format_amount(resource, have)}"
            )
    if (reason := gpu_misfit(topology, configuration)) is not None:
        return reason
    for group in configuration.tasks:
        demand = np.array(group.demand)
        needed = demand > 0
        if not needed.any():
            continue
        per_host = (capacity[:, needed] // demand[needed]).min(axis=1)
        if per_host.sum() < group.count:
            own = "".join(f", {format_amount(n, a)}" for n, a in group.resources.items())
            return (
                f"{group.count} {group.role} tasks of {group.gpu_milli / MILLI:g} GPU, "
                f"{group.cpu_milli / MILLI:g} CPU, {group.memory_mib} MiB{own} each, but the empty "
                f"cluster holds {per_host.sum()}"
            )
    if stands_alone(topology, configuration):
        return None
    where = "hosts" if configuration.within is None else f"hosts of one {configuration.within}"
    return (
        f"{configuration.label} fit by their totals, but not on the {where} of the empty cluster, "
        "where no task may be split"
    )
