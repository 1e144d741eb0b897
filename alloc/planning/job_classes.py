"""Classes of jobs: how the jobs of a history are grouped by size, run time and tenant."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from alloc.errors import InstanceError
from alloc.units import require_count

GPU_EDGES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Most GPUs of a job in each class of sizes, by default."""
HOUR_EDGES = (1.0, 8.0, 48.0)
"""Most hours of a job in each class of run times but the last, by default."""
MAX_TENANTS = 4
"""Tenants with classes of their own; of more a person can hardly set the goals."""
OTHERS = "others"
"""Name of the tenants that have no classes of their own."""


@dataclass(frozen=True)
class SeenJob:
    """A job as a history sees it.

    Parameters
    ----------
    arrival_s
        Arrival, seconds.
    gpus
        GPUs held.
    hours
        Run time, hours.
    tenant
        Its tenant, or None.
    interruptible
        Whether it may be interrupted.
    """

    arrival_s: float
    gpus: int
    hours: float
    tenant: str | None = None
    interruptible: bool = False


class ClassKey(NamedTuple):
    """What the jobs of a class have in common.

    Parameters
    ----------
    gpus
        Most GPUs of a job.
    length
        Position of its run time among the edges of that size.
    tenant
        Name of the tenant, `OTHERS`, or "" where tenants are not told apart.
    interruptible
        Whether they may be interrupted.
    """

    gpus: int
    length: int
    tenant: str
    interruptible: bool


@dataclass(frozen=True)
class Grouping:
    """A rule that gives every job its class.

    Parameters
    ----------
    hour_edges
        For the most GPUs of each class of sizes, increasing, the most hours in each of its classes
        of run times but the last.
    tenants
        Tenants with classes of their own; None: tenants are not told apart.
    """

    hour_edges: Mapping[int, tuple[float, ...]]
    tenants: tuple[str, ...] | None = None

    def key_of(self, job: SeenJob) -> ClassKey | None:
        """Return the class of a job; None if it has more GPUs than any class."""
        sizes = list(self.hour_edges)
        at = bisect_left(sizes, job.gpus)
        if at == len(sizes):
            return None
        length = bisect_left(self.hour_edges[sizes[at]], job.hours)
        return ClassKey(sizes[at], length, self._tenant(job), job.interruptible)

    def name_of(self, key: ClassKey) -> str:
        """Return the name of a class: its tenant, its most GPUs, and its run times."""
        edges = self.hour_edges[key.gpus]
        words = [key.tenant, f"{key.gpus}-gpu", _hours(edges, key.length)]
        return " ".join([word for word in words if word] + ["interruptible"] * key.interruptible)

    def _tenant(self, job: SeenJob) -> str:
        if self.tenants is None:
            return ""
        return job.tenant if job.tenant in self.tenants and job.tenant else OTHERS


def _hours(edges: tuple[float, ...], length: int) -> str:
    if not edges:
        return ""
    least = 0 if length == 0 else edges[length - 1]
    return f"{least:g}-{edges[length]:g}h" if length < len(edges) else f"{least:g}h+"


def grouping_of(
    jobs: Sequence[SeenJob],
    *,
    gpu_edges: Sequence[int] = GPU_EDGES,
    hour_edges: Sequence[float] = HOUR_EDGES,
    by_tenant: bool = False,
    max_classes: int | None = None,
) -> Grouping:
    """Return a rule that groups jobs into no more classes than wanted.

    Of too many classes, neighbours become one: two run times of one size, or a size and the next
    larger one, where the smaller of the two has the least share of the jobs and of the GPU time
    (the two shares count alike: many short jobs are somebody's promise, however little they use).

    Parameters
    ----------
    jobs
        The jobs.
    gpu_edges
        Most GPUs in each class of sizes, increasing.
    hour_edges
        Most hours in each class of run times, increasing; longer jobs are a class of their own.
    by_tenant
        Whether the `MAX_TENANTS` tenants with the most GPU time have classes of their own.
    max_classes
        Most classes; None: as many as there are.

    Raises
    ------
    InstanceError
        If an edge is wrong, or there are more tenants than classes.
    """
    _require_edges(gpu_edges, "gpu_edges")
    _require_edges(hour_edges, "hour_edges")
    tenants = _largest_tenants(jobs) if by_tenant else None
    found = Grouping({size: tuple(hour_edges) for size in gpu_edges}, tenants)
    if max_classes is None:
        return found
    require_count(max_classes, "history", "max_classes", least=1)
    cells = _weights(jobs, found)
    kinds = len({(tenant, interruptible) for _, _, tenant, interruptible in cells})
    if kinds > max_classes:
        raise InstanceError(
            f"history: tenants and what may be interrupted alone make {kinds} classes, and "
            f"max_classes is {max_classes}; allow {kinds} or more, or do not tell tenants apart."
        )
    while len(_merged(cells, found)) > max_classes:
        found = _coarser(cells, found)
    return found


def _largest_tenants(jobs: Sequence[SeenJob]) -> tuple[str, ...]:
    used: defaultdict[str, float] = defaultdict(float)
    for job in jobs:
        if job.tenant and job.tenant != OTHERS:
            used[job.tenant] += job.gpus * job.hours
    return tuple(sorted(used, key=lambda name: (-used[name], name))[:MAX_TENANTS])


_Cell = tuple[int, float, str, bool]
"""Most GPUs, a run time in hours, tenant, and whether jobs may be interrupted."""


def _weights(jobs: Sequence[SeenJob], fine: Grouping) -> dict[_Cell, float]:
    """Return for each class its share of the jobs and of the GPU time together."""
    counts: defaultdict[ClassKey, int] = defaultdict(int)
    used: defaultdict[ClassKey, float] = defaultdict(float)
    for job in jobs:
        key = fine.key_of(job)
        if key is not None:
            counts[key] += 1
            used[key] += job.gpus * job.hours
    every, total = sum(counts.values()), math.fsum(used.values()) or 1.0
    found = {}
    for key, count in counts.items():
        hours = (*fine.hour_edges[key.gpus], math.inf)[key.length]
        found[key.gpus, hours, key.tenant, key.interruptible] = count / every + used[key] / total
    return found


def _merged(cells: Mapping[_Cell, float], grouping: Grouping) -> dict[ClassKey, float]:
    """Return the weights of the classes of a grouping that is coarser than that of the cells."""
    found: defaultdict[ClassKey, float] = defaultdict(float)
    for (gpus, hours, tenant, interruptible), weight in cells.items():
        size = next(size for size in grouping.hour_edges if size >= gpus)
        length = bisect_left(grouping.hour_edges[size], hours)
        found[ClassKey(size, length, tenant, interruptible)] += weight
    return found


def _coarser(cells: Mapping[_Cell, float], grouping: Grouping) -> Grouping:
    """Return the grouping with one edge less, that between the neighbours that matter least."""
    of_length: defaultdict[tuple[int, int], float] = defaultdict(float)
    of_size: defaultdict[int, float] = defaultdict(float)
    for key, weight in _merged(cells, grouping).items():
        of_length[key.gpus, key.length] += weight
        of_size[key.gpus] += weight
    edges = grouping.hour_edges
    # Run times first where two are worth the same: a job on more GPUs than it asked for is further
    # from the truth than a mean of two run times.
    choices = [
        (min(of_length[size, k], of_length[size, k + 1]), 0, size, k)
        for size in edges
        for k in range(len(edges[size]))
    ]
    choices += [(of_size[size], 1, size, 0) for size in list(edges)[:-1]]
    _, whole, size, k = min(choices)
    if whole:
        kept = {one: of for one, of in edges.items() if one != size}
    else:
        kept = {**edges, size: (*edges[size][:k], *edges[size][k + 1 :])}
    return Grouping(kept, grouping.tenants)


def _require_edges(edges: Sequence[float], name: str) -> None:
    if not edges or edges[0] <= 0 or any(b <= a for a, b in pairwise(edges)):
        raise InstanceError(
            f"history: {name} is {list(edges)}; give positive numbers in increasing order."
        )
