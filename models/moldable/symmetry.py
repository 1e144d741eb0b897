"""Hosts that are alike: of all names for a schedule of F3, models keep one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from alloc.models.moldable.data import MoldableData, Placement
from alloc.models.moldable.serial import Choice, Plan
from alloc.topology.topology import HOST


class Symmetry:
    """Hosts that are alike, which may be renamed: of all names for a schedule, one is kept.

    The hosts of a class are numbered in the order in which the jobs, in the order of the instance,
    first use them. So no job uses a number that the jobs before it and itself cannot have reached.

    Parameters
    ----------
    data
        The instance.
    """

    def __init__(self, data: MoldableData) -> None:
        self._data, topology = data, data.instance.topology
        ways = (c for job in data.instance.jobs for c in job.configurations)
        levels = sorted({c.within for c in ways if c.within is not None and c.within != HOST})
        kinds: dict[object, list[int]] = {}
        for h in range(topology.num_hosts):
            within = tuple(int(topology.domain_of_host[level][h]) for level in levels)
            key = (topology.gpu_types[h], tuple(topology.capacity[h].tolist()), within)
            kinds.setdefault(key, []).append(h)
        self._classes = list(kinds.values())
        self._of = {
            topology.hosts[h].id: (k, at)
            for k, hosts in enumerate(self._classes)
            for at, h in enumerate(hosts)
        }
        self._names = [[topology.hosts[h].id for h in hosts] for hosts in self._classes]
        # Before each job, how many hosts of any class the jobs before it can have reached.
        most = [
            max(len(self._hosts(p)) for way in ways for p in way.placements) for ways in data.ways
        ]
        self._reached = [0, *np.cumsum(most).tolist()]
        self.is_safe = data.is_complete

    def _hosts(self, placement: Placement) -> list[tuple[int, int]]:
        return list(dict.fromkeys(self._of[task.host] for task in placement.tasks))

    def allows(self, j: int, placement: Placement) -> bool:
        """Return whether a job may take a placement, all others named in order.

        Parameters
        ----------
        j
            Position of the job.
        placement
            Where it would run.
        """
        if not self.is_safe:
            return True
        hosts = self._hosts(placement)
        for k, at in hosts:
            if at >= self._reached[j] + sum(1 for own, _ in hosts if own == k):
                return False
        return True

    def renamed(self, plan: Plan) -> Plan:
        """Return a plan on hosts that are numbered in order."""
        if not self.is_safe:
            return plan
        named: dict[str, str] = {}
        used = [0] * len(self._classes)
        choice: list[Choice] = []
        for j, (w, p) in enumerate(plan.choice):
            placements = self._data.ways[j][w].placements
            for task in placements[p].tasks:
                if task.host not in named:
                    k, _ = self._of[task.host]
                    named[task.host] = self._names[k][used[k]]
                    used[k] += 1
            wanted = _signature(placements[p], named)
            found = (q for q, other in enumerate(placements) if _signature(other, None) == wanted)
            choice.append((w, next(found, p)))
        return Plan(choice, plan.start, plan.completion)


def _signature(placement: Placement, named: Mapping[str, str] | None) -> frozenset[object]:
    return frozenset(
        (task.role, task.host if named is None else named[task.host], task.count)
        for task in placement.tasks
    )
