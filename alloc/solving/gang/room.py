"""How many tasks of a gang the hosts, and the domains that hold them, have room for.

With nested domains and slices whose sizes divide each other, the room of a domain is

``room(host) = cut(min over resources of free // demand)``,
``room(domain) = cut(sum of the rooms of its parts)``,

where ``cut`` takes the limit of a spread at that level and rounds down to a multiple of the slice
size at that level or, without one, at the next level inside that has one. It is exact: by induction
from the inside out a domain can take every multiple of that size up to its room, since parts offer
multiples of sizes that divide it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.packing import HostPool
from alloc.problems.allocation.instance import Instance
from alloc.topology import Topology
from alloc.topology.topology import HOST
from alloc.workload import PlacementRules, TaskGroup

Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

OUTSIDE = -1
"""What `Topology.domain_of_host` says of a host in no domain of a level."""


@dataclass(frozen=True)
class Tree:
    """The domains of a topology as one array per level.

    Parameters
    ----------
    topology
        The cluster.
    levels
        Levels from the inside out, ``"host"`` first.
    unit
        For each level the unit of each host, shape (hosts,): the position in `Topology.domains`
        of its domain; a host in no domain of a level belongs to its unit of the level inside, and
        host h itself is unit ``len(domains) + h``.
    proper
        For each level which units are domains of it (hosts, for ``"host"``), and not what stands
        outside them, shape (unit ids,).
    parts
        For each level but ``"host"``: the units of the level inside, and the unit that each of
        them is part of.
    size
        Number of unit ids.
    """

    topology: Topology
    levels: tuple[str, ...]
    unit: dict[str, Counts]
    proper: dict[str, Mask]
    parts: dict[str, tuple[Counts, Counts]]
    size: int

    @staticmethod
    def of(topology: Topology) -> Tree:
        """Return the tree of a topology."""
        levels = (HOST, *reversed(topology.levels))
        first = len(topology.domains)
        unit = {HOST: first + np.arange(topology.num_hosts, dtype=np.int64)}
        kinds = [domain.level for domain in topology.domains] + [HOST] * topology.num_hosts
        proper = {level: np.array([kind == level for kind in kinds]) for level in levels}
        inner = unit[HOST]
        parts = {}
        for level in levels[1:]:
            domain = topology.domain_of_host[level]
            unit[level] = np.where(domain >= 0, domain, inner)
            units, hosts = np.unique(inner, return_index=True)
            parts[level] = (units, unit[level][hosts])
            inner = unit[level]
        return Tree(topology, levels, unit, proper, parts, first + topology.num_hosts)

    def name(self, unit: int) -> str:
        """Return the id of the domain or host that a unit is."""
        first = len(self.topology.domains)
        if unit < first:
            return self.topology.domains[unit].id
        return self.topology.hosts[unit - first].id


def free_pool(instance: Instance) -> HostPool:
    """Return the free capacity of a cluster beside its running jobs."""
    pool = HostPool(instance.topology)
    for running in instance.running:
        configuration = instance.job(running.job).configurations[running.configuration]
        pool.take(configuration, running.tasks)
    return pool


def room_on_hosts(pool: HostPool, group: TaskGroup, gpu_type: str | None = None) -> Counts:
    """Return how many tasks of a group each host has room for, shape (hosts,).

    Parameters
    ----------
    pool
        The free capacity.
    group
        The tasks.
    gpu_type
        GPU type they need, or None.
    """
    room = pool.room(group)
    return room if gpu_type is None else np.where(pool.hosts_of_type(gpu_type), room, 0)


def room_by_level(tree: Tree, room: Counts, rules: PlacementRules) -> dict[str, Counts]:
    """Return the room of every unit of every level, each of shape (unit ids,).

    Parameters
    ----------
    tree
        The domains.
    room
        Tasks each host has room for, shape (hosts,).
    rules
        Slices and spreads; the required level is left to the caller.
    """
    limit = {spread.level: spread.most for spread in rules.spread}
    size = {cut.level: cut.size for cut in rules.slices}
    for level in size:
        # A slice stands whole in a domain of its level: a host outside them all holds none.
        room = np.where(tree.topology.domain_of_host[level] >= 0, room, 0)
    found: dict[str, Counts] = {}
    step = 1  # what parts offer comes in multiples of the slice size inside
    inner = np.zeros(tree.size, dtype=np.int64)
    inner[tree.unit[HOST]] = room
    for level in tree.levels:
        total = inner.copy()
        if level != HOST:
            parts, parents = tree.parts[level]
            total = np.bincount(parents, inner[parts], tree.size).astype(np.int64)
        if level in limit:
            # What stands outside the domains of the level is in none that could be too full.
            total[tree.proper[level]] = np.minimum(total[tree.proper[level]], limit[level])
        step = size.get(level, step)
        total -= total % step
        found[level] = inner = total
    return found
