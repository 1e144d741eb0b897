"""The question that a gang asks of the cluster, with requirements that may be left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from alloc.packing import HostPool
from alloc.solving.gang.joint import hold_together
from alloc.solving.gang.room import Counts, Mask, Tree, room_by_level, room_on_hosts
from alloc.units import MILLI
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

REQUIREMENTS = (
    "affinity",
    "spread",
    "slices",
    "memory",
    "CPU",
    "GPU type",
    "quota",
    "level",
    "running jobs",
)
"""What may be left out of a question, the first to be blamed last.

``"running jobs"`` stands for the capacity that running jobs hold; ``"level"`` for the level that
one domain must hold the job in; the number of GPUs itself is never left out.
"""

_MANY = 1_000_000
"""More tasks than any host or domain holds: the count at which room is asked for."""


@dataclass(frozen=True)
class GangFeasibility:
    """Can this job start now, in this configuration?

    Parameters
    ----------
    tree
        The domains of the cluster.
    pool
        Its free capacity.
    job
        The job.
    configuration
        The configuration in question.
    admitted
        Hosts that affinities leave to the job, shape (hosts,).
    quota_left_milli
        GPU that its tenant may still take, milli-GPU, or None without a quota.
    together
        Levels of which an affinity wants all its tasks in one domain.
    inside
        One more such level, which narrows the hosts to look at, or None.
    """

    tree: Tree
    pool: HostPool
    job: Job
    configuration: Configuration
    admitted: Mask
    quota_left_milli: int | None = None
    together: tuple[str, ...] = ()
    inside: str | None = None

    @cached_property
    def empty(self) -> HostPool:
        """The cluster as if nothing ran."""
        return HostPool(self.tree.topology)

    @cached_property
    def main(self) -> TaskGroup:
        """The task group that explanations speak of: the one with the most GPUs in all."""
        return max(self.configuration.ruled_groups, key=lambda g: (g.gpu_milli * g.count, g.count))

    @property
    def own_levels(self) -> tuple[str, ...]:
        """Levels of which the job's own rules want one domain, the innermost first."""
        named = {self.job.placement.required, self.configuration.within}
        return tuple(level for level in self.tree.levels if level in named)

    def levels(self, drop: frozenset[str] = frozenset()) -> tuple[str, ...]:
        """Return the levels of which one domain must hold the whole job, the innermost first.

        Domains nest: a job inside one domain of the innermost is inside one of each other level,
        if that domain lies in one at all.
        """
        named = {
            self.inside,
            *(() if "level" in drop else self.own_levels),
            *(() if "affinity" in drop else self.together),
        }
        return tuple(level for level in self.tree.levels if level in named)

    def level(self, drop: frozenset[str] = frozenset()) -> str | None:
        """Return the innermost level that one domain must hold the job in, or None."""
        return next(iter(self.levels(drop)), None)

    def changed(self, rules: PlacementRules, configuration: Configuration) -> GangFeasibility:
        """Return the question of the job with other rules and another configuration.

        The job keeps its other configurations; they are questions of their own.
        """
        job = replace(
            self.job, configurations=(configuration,), elasticity="rigid", placement=rules
        )
        return replace(self, job=job, configuration=configuration)

    def pool_without(self, drop: frozenset[str]) -> HostPool:
        """Return the capacity that counts when some requirements are left out."""
        return self.empty if "running jobs" in drop else self.pool

    def hosts_room(self, group: TaskGroup, drop: frozenset[str]) -> Counts:
        """Return the tasks of a group that each host has room for, shape (hosts,)."""
        asked = replace(
            group,
            count=_MANY,  # room is not to stop at the size of the gang
            cpu_milli=0 if "CPU" in drop else group.cpu_milli,
            memory_mib=0 if "memory" in drop else group.memory_mib,
        )
        gpu_type = None if "GPU type" in drop else self.configuration.gpu_type
        room = room_on_hosts(self.pool_without(drop), asked, gpu_type)
        if "affinity" not in drop:
            room = np.where(self.admitted, room, 0)
        for level in self.levels(drop):
            room = np.where(self.tree.topology.domain_of_host[level] >= 0, room, 0)
        return room

    def rules(self, drop: frozenset[str]) -> PlacementRules:
        """Return the slices and spreads that hold."""
        rules = self.job.placement
        return PlacementRules(
            slices=() if "slices" in drop else rules.slices,
            spread=() if "spread" in drop else rules.spread,
        )

    def room(self, group: TaskGroup, drop: frozenset[str]) -> dict[str, Counts]:
        """Return the room of every unit by level for one task group on its own."""
        ruled = group in self.configuration.ruled_groups
        rules = self.rules(drop) if ruled else PlacementRules()
        return room_by_level(self.tree, self.hosts_room(group, drop), rules)

    def reach(self, group: TaskGroup, drop: frozenset[str] = frozenset()) -> Counts:
        """Return the tasks of a group, on its own, that each place for the job has room for.

        A place is a domain of the level to keep, with what spreads around it allow; without such a
        level only the sum over the units of the outermost level counts. Shape (unit ids,).
        """
        rooms, level = self.room(group, drop), self.level(drop)
        if level is None:
            return rooms[self.tree.levels[-1]]
        room = rooms[level]
        if group in self.configuration.ruled_groups:
            outside = self.tree.levels[self.tree.levels.index(level) + 1 :]
            for spread in self.rules(drop).spread:
                if spread.level in outside:
                    # The gang is in one domain of the outer level too, where there is one.
                    held = self.tree.topology.domain_of_host[spread.level] >= 0
                    units = np.unique(self.tree.unit[level][held])
                    room[units] = np.minimum(room[units], spread.most)
        return room

    def most_tasks(self, drop: frozenset[str] = frozenset()) -> int:
        """Return the most tasks of the main group, on its own, that the best place has room for."""
        room = self.reach(self.main, drop)
        return int(room.sum() if self.level(drop) is None else room.max())

    def within_quota(self) -> bool:
        """Return whether the quota admits the job; one without GPUs takes nothing of it."""
        gpus = self.configuration.demand[0]
        return not gpus or self.quota_left_milli is None or gpus <= self.quota_left_milli

    def candidates(self, drop: frozenset[str] = frozenset()) -> Iterator[Counts]:
        """Yield the sets of hosts with room for each task group on its own, tightest first.

        With a level to keep, each of its domains is a set; otherwise all hosts are the only one.
        """
        level = self.level(drop)
        spare: Counts | None = None
        for group in self.configuration.tasks:
            room = self.reach(group, drop)
            if level is None:
                if int(room.sum()) < group.count:
                    return
                continue
            left = room - group.count
            spare = left if spare is None else np.minimum(spare, left)
        if level is None or spare is None:
            yield np.arange(self.tree.topology.num_hosts)
            return
        units = np.flatnonzero(spare >= 0)
        for unit in units[np.argsort(spare[units], kind="stable")]:
            yield np.flatnonzero(self.tree.unit[level] == unit)

    def fits(self, drop: frozenset[str] = frozenset()) -> bool:
        """Return whether the job could start if some requirements were left out."""
        if "quota" not in drop and not self.within_quota():
            return False
        if len(self.configuration.tasks) == 1:
            return any(True for _ in self.candidates(drop))
        return any(hold_together(self, hosts, drop) is not None for hosts in self.candidates(drop))

    def gpus(self, tasks: float) -> float:
        """Return tasks of the main group in GPUs, or as they are for a job without GPUs."""
        return tasks * self.main.gpu_milli / MILLI if self.main.gpu_milli else float(tasks)
