"""HiveD's cells: buddy allocation of GPUs, hosts and domains."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from alloc.schedulers.placement.free_hosts import Counts, FreeHosts, Mask
from alloc.schedulers.placement.policy import Request
from alloc.schedulers.placement.tasks import TaskRule, domain_of, single_domains
from alloc.topology.topology import HOST
from alloc.units import MILLI
from alloc.workload import TaskGroup


class HivedCells(TaskRule):
    """Take the smallest free cell: split large cells as late as can be.

    The cells of a host are its GPUs in blocks of 1, 2, 4, ... up to all; then come hosts, and the
    domains of the topology from the inside out. A task takes a cell of the smallest size that
    holds its GPUs, cut from the smallest free cell there is: first from broken hosts (with f free
    GPUs the free cells are the powers of two of which f is the sum), then from whole hosts in
    broken domains, then from domains that are free entirely, innermost first. A gang is tried in
    single domains, innermost first, the one with the fewest free GPUs before the others.

    With cells of equal make and requests of power-of-two sizes, all in one virtual cluster, this
    places whatever fits in number (buddy allocation, Theorem 1 of the paper).

    References
    ----------
    Zhao et al., "HiveD: Sharing a GPU Cluster for Deep Learning with Guarantees", OSDI 2020,
    section 4 and algorithm 1. Departures: one virtual cluster that is the physical one, so no
    reserved cells and no low-priority jobs; GPUs of a host are interchangeable, as everywhere here,
    so a cell of a host is a number of GPUs; what a request leaves of a cell stays usable; shares of
    a GPU, which HiveD does not have, go to the tightest GPU that is shared already, else to a
    one-GPU cell. Tasks without GPUs go to the host with the fewest free GPUs.
    """

    name = "hived"
    information = "free cells of GPUs, hosts and domains"

    def pick(
        self, free: FreeHosts, group: TaskGroup, hosts: Counts, rng: np.random.Generator
    ) -> tuple[int, int | None]:
        """Return the host with the smallest free cell that holds the task."""
        if not group.gpu_milli:
            return int(hosts[np.lexsort((free.cpu[hosts], free.left[hosts]))[0]]), None
        if group.shares_gpu:
            rows = free.gpus[hosts]
            shared = free.holds(hosts, group) & (rows < MILLI)
            if shared.any():
                tightest = np.where(shared, rows, MILLI).min(axis=1)
                return int(hosts[tightest.argmin()]), None
        size = 1 << (-(-group.gpu_milli // MILLI) - 1).bit_length()
        whole = free.whole[hosts]
        # Cells of at least the size; where only a smaller number is free (a host of six GPUs asked
        # for six, say), the host goes as one cell.
        above = whole & ~(size - 1)
        cell = np.where(above > 0, above & -above, whole)
        # Ties and whole hosts: the innermost domain that is still free entirely is split last.
        intact = self._intact_levels(free)[hosts]
        return int(hosts[np.lexsort((cell, intact))[0]]), None

    def _intact_levels(self, free: FreeHosts) -> Counts:
        """Return how many cells around each host are free entirely: itself, its domain, ..."""
        untouched = (free.whole == free.num_gpus) & (free.num_gpus > 0)
        levels = untouched.astype(np.int64)
        for level in reversed(free.topology.levels):
            domain = domain_of(free, level)
            inside = domain >= 0
            broken = np.bincount(domain[inside], weights=~untouched[inside]) > 0
            whole = np.zeros(len(untouched), dtype=bool)
            whole[inside] = ~broken[domain[inside]]
            levels += whole
        return np.asarray(levels, dtype=np.int64)

    def homes(self, free: FreeHosts, request: Request) -> Iterator[Mask | None]:
        """Yield single domains, innermost level first, and last what the request allows at all."""
        # A single task says by itself, cell by cell, where it goes.
        if sum(group.count for group in request.configuration.tasks) > 1:
            for level in (HOST, *reversed(free.topology.levels)):
                if level in request.required:
                    break
                yield from single_domains(free, request, (*request.required, level))
        yield from super().homes(free, request)
