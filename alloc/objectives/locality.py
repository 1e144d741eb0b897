"""Objectives of locality: domains that gangs span, and the bandwidth between their GPUs.

Parameters
----------
instance
    The jobs, and the cluster with its levels and links.
allocation
    Who runs on which hosts in the coming slot.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError
from alloc.objectives.placed import Counts, Placed
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation
from alloc.topology.bandwidths import HostBandwidths, bandwidths_of
from alloc.topology.topology import HOST
from alloc.workload import Job

Array = npt.NDArray[np.float64]
_Measure = Callable[[HostBandwidths, Counts, Counts], float]


def levels_counted(instance: Instance, job: Job) -> tuple[str, ...]:
    """Return the levels at which the domains of a job are counted.

    Its preferred level; without one, every level of the topology and the hosts, so that a gang
    wants few pods, then few racks, then few hosts.

    Parameters
    ----------
    job
        A job of the instance.
    """
    if job.placement.preferred is not None:
        return (job.placement.preferred,)
    return (*instance.topology.levels, HOST)


def places(instance: Instance, level: str) -> Counts:
    """Return a number of the domain of each host at a level, shape (hosts,).

    Hosts outside every domain of the level are domains by themselves.

    Parameters
    ----------
    level
        A level of the topology, or ``"host"``.
    """
    domain = instance.topology.domain_of_host[level]
    own = max(len(instance.topology.domains), 1) + np.arange(len(domain))
    return np.where(domain < 0, own, domain)


def domains_spanned(instance: Instance, allocation: Allocation) -> float:
    """Return the domains beyond the first that each job spans, summed over jobs and levels."""
    placed = Placed.of(instance, allocation)
    if not len(placed.job):
        return 0.0
    total = 0
    for level in (*instance.topology.levels, HOST):
        counted = np.array([level in levels_counted(instance, job) for job in instance.jobs])
        mine = counted[placed.job]
        if not mine.any():
            continue
        pairs = np.stack([placed.job[mine], places(instance, level)[placed.host[mine]]])
        spanned = np.unique(pairs, axis=1).shape[1]
        total += spanned - len(np.unique(placed.job[mine]))
    return float(total)


def ring_bottleneck(instance: Instance, allocation: Allocation) -> float:
    """Return the sum over gangs of the bandwidth between their worst two GPUs, GB/s."""
    return _over_gangs(instance, allocation, _slowest_pair)


def ring_mean(instance: Instance, allocation: Allocation) -> float:
    """Return the sum over gangs of the mean bandwidth along their ring, GB/s."""
    return _over_gangs(instance, allocation, _mean_of_ring)


def all_to_all_bottleneck(instance: Instance, allocation: Allocation) -> float:
    """Return the sum over gangs of what each GPU can send when all send to all, GB/s."""
    return _over_gangs(instance, allocation, _share_of_cuts)


def all_to_all_mean(instance: Instance, allocation: Allocation) -> float:
    """Return the sum over gangs of the mean bandwidth over pairs of their GPUs, GB/s."""
    return _over_gangs(instance, allocation, _mean_of_pairs)


def _over_gangs(instance: Instance, allocation: Allocation, measure: _Measure) -> float:
    """Sum a measure over the jobs that stand on two GPUs or more."""
    bandwidths = bandwidths_of(instance.topology)
    if not np.isfinite(bandwidths.fastest):
        raise InstanceError(
            f'topology "{instance.topology.name}" has no links, so gangs have no bandwidth; add '
            "links to it, or count domains_spanned."
        )
    placed = Placed.of(instance, allocation)
    with_gpu = placed.gpus > 0
    order = np.argsort(placed.job[with_gpu], kind="stable")
    job = placed.job[with_gpu][order]
    host, gpus = placed.host[with_gpu][order], placed.gpus[with_gpu][order]
    starts = np.flatnonzero(np.diff(job, prepend=-1))
    total = 0.0
    for first, last in zip(starts, np.append(starts, len(job))[1:], strict=True):
        hosts, where = np.unique(host[first:last], return_inverse=True)
        number = np.bincount(where, weights=gpus[first:last]).astype(np.int64)
        if number.sum() > 1:
            total += measure(bandwidths, hosts, number)
    return total


def _slowest_pair(bandwidths: HostBandwidths, hosts: Counts, gpus: Counts) -> float:
    # On a tree the ring that visits domain by domain crosses no link twice in one direction, so
    # the slowest pair of all is the slowest hop of the best ring.
    inside = bandwidths.inside[hosts[gpus > 1]].min(initial=bandwidths.fastest)
    return float(min(inside, bandwidths.between(hosts).min(initial=bandwidths.fastest)))


def _mean_of_ring(bandwidths: HostBandwidths, hosts: Counts, gpus: Counts) -> float:
    """Hosts in the order of their domains, the GPUs of one host in a row, and back to the first."""
    order = bandwidths.in_order(hosts)
    hosts, gpus = hosts[order], gpus[order]
    inner = float(((gpus - 1) * bandwidths.inside[hosts]).sum())
    if len(hosts) == 1:
        return inner / float(gpus[0] - 1)
    pair = bandwidths.between(hosts)
    hops = pair[np.arange(len(hosts)), np.roll(np.arange(len(hosts)), -1)]
    return (inner + float(hops.sum())) / float(gpus.sum())


def _share_of_cuts(bandwidths: HostBandwidths, hosts: Counts, gpus: Counts) -> float:
    # A cut with m of n GPUs inside carries m (n - m) / (n - 1) times what each GPU sends.
    n = int(gpus.sum())
    share = float(bandwidths.inside[hosts[gpus > 1]].min(initial=bandwidths.fastest))
    for domain, width in bandwidths.cuts:
        number = np.bincount(domain[hosts] + 1, weights=gpus, minlength=len(width) + 1)[1:]
        crossing = (number > 0) & (number < n)
        m = number[crossing]
        each = width[crossing] * (n - 1) / (m * (n - m))
        share = min(share, float(each.min(initial=bandwidths.fastest)))
    return share


def _mean_of_pairs(bandwidths: HostBandwidths, hosts: Counts, gpus: Counts) -> float:
    n = int(gpus.sum())
    pair = bandwidths.between(hosts)
    np.fill_diagonal(pair, 0.0)
    across = float(gpus @ pair @ gpus) / 2
    within = float((gpus * (gpus - 1) / 2 * bandwidths.inside[hosts]).sum())
    return (across + within) / (n * (n - 1) / 2)
