"""How good each term of a goal could be at all: bounds that need no search.

Hosts in use are bounded by area: what must go on running fills at least so many hosts, taken
largest first, in each resource by itself. What is placed is bounded by what the cluster offers as a
whole: with a price on a unit of it, every job is worth at most its value less that of what it asks
for, or nothing (Lagrange); the best price of a few is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from alloc.objectives.goals import WeightedSum
from alloc.problems.allocation.instance import Instance
from alloc.units import MILLI
from alloc.workload import Configuration, Job

_MAX_PRICES = 64
"""Prices of a resource that are tried: what a unit of it is worth to some job."""
_ROUNDING = 1e-12
"""Share by which sums may be rounded down: more than a thousand doubles lose, far below any gap."""
_NEVER_NEGATIVE = frozenset(
    {
        "moves",
        "moved_gb",
        "domains_spanned",
        "balance",
        "fragmentation",
    }
)


def range_bound(instance: Instance, level: WeightedSum) -> float:
    """Return a bound on a level of a goal from the range of each of its terms.

    Parameters
    ----------
    instance
        The problem.
    level
        The weighted sum.

    Returns
    -------
    float
        No allocation is better; infinite (in the direction of the sense) where a term's range is
        not known.
    """
    worst = math.inf if level.sense == "max" else -math.inf
    total = 0.0
    for weight, term in level.terms:
        best = _best(instance, term.name)
        if best is None:
            return worst
        total += weight * (best if term.sense == level.sense else -best)
    return total


def _best(instance: Instance, name: str) -> float | None:
    """Return the best value that a term could have, or None."""
    if name in _NEVER_NEGATIVE:
        return 0.0
    topology = instance.topology
    if name == "gpus_placed":
        asked = sum(max(c.demand[0] for c in job.configurations) for job in instance.jobs)
        whole = _max_within_totals(instance, lambda _, way: way.demand[0] / MILLI)
        return min(asked / MILLI, float(topology.num_gpus), whole)
    if name == "weight_placed":
        whole = _max_within_totals(instance, lambda job, _: job.weight)
        return min(math.fsum(job.weight for job in instance.jobs), whole)
    if name in ("gpu_hosts_used", "hosts_used"):
        return float(fewest_hosts(instance, with_gpus=name == "gpu_hosts_used"))
    if name == "whole_hosts_free":
        gpu_hosts = int((topology.capacity[:, 0] > 0).sum())
        return float(gpu_hosts - fewest_hosts(instance, with_gpus=True))
    if name == "largest_gang":
        return float(topology.num_gpus)
    return None


def _max_within_totals(instance: Instance, worth: Callable[[Job, Configuration], float]) -> float:
    """Return a worth that jobs placed together do not pass within the cluster's own resources.

    Parameters
    ----------
    instance
        The problem.
    worth
        What a job is worth in a configuration, 0 or more.

    Returns
    -------
    float
        Infinite where the cluster has no resources of its own.
    """
    if not instance.topology.cluster_columns:
        return math.inf
    ways = [(n, job, way) for n, job in enumerate(instance.jobs) for way in job.configurations]
    value = np.array([worth(job, way) for _, job, way in ways], dtype=float)
    first = np.flatnonzero(np.diff([-1, *(n for n, _, _ in ways)]))
    least = math.inf
    for r in instance.topology.cluster_columns if ways else ():
        amount = np.array([way.demand[r] for _, _, way in ways], dtype=float)
        rates = np.unique(value[amount > 0] / amount[amount > 0])
        some = np.linspace(0, len(rates) - 1, min(len(rates), _MAX_PRICES)).round().astype(int)
        for price in (0.0, *rates[some].tolist()):
            gain = np.maximum.reduceat(np.maximum(value - price * amount, 0.0), first)
            total = float(gain.sum()) + price * float(instance.topology.totals[r])
            least = min(least, total * (1.0 + _ROUNDING))
    return least


def fewest_hosts(instance: Instance, *, with_gpus: bool) -> int:
    """Return a number of hosts without which what must go on running has no room.

    Parameters
    ----------
    instance
        The problem.
    with_gpus
        Count only hosts that hold a GPU of some task, and only what tasks with GPUs need.
    """
    moves, topology = instance.allowed_moves, instance.topology
    needed = np.zeros(topology.capacity.shape[1], dtype=np.int64)
    load = np.zeros_like(topology.capacity)
    for running in instance.running:
        job = instance.job(running.job)
        groups = {group.role: group for group in job.configurations[running.configuration].tasks}
        for tasks in running.tasks:
            demand = np.array(groups[tasks.role].demand)
            load[topology.host_index[tasks.host]] += tasks.count * demand
        if running.tasks and not (moves.evict and job.preemptible):
            needed += np.min([_needs(way, with_gpus) for way in job.configurations], axis=0)
    # Hosts that start over-full may stay so.
    capacity = np.maximum(topology.capacity, load)
    if with_gpus:
        capacity = capacity[topology.capacity[:, 0] > 0]
    most = -np.sort(-capacity, axis=0).cumsum(axis=0)
    short = (most < needed).any(axis=1)
    return int(short.sum()) + int(needed.any() and not short.all())


def _needs(way: Configuration, with_gpus: bool) -> npt.NDArray[np.int64]:
    """Return what a configuration needs in all, or its tasks with GPUs alone."""
    groups = [group for group in way.tasks if group.demand[0] > 0 or not with_gpus]
    needs = np.zeros(len(way.demand), dtype=np.int64)
    for group in groups:
        needs += group.count * np.array(group.demand)
    return needs
