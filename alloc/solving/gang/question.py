"""The question that a gang asks of the cluster, with requirements that may be left out.

Gangs of several task groups compete for the same hosts. One group after the other, the most
demanding first, is tried before anything else: with room to spare that does. Whether there is a
place at all is decided by a small integer program.

y_gh in {0, 1, ...}   tasks of group g on host h
(C1)  sum_h y_gh = n_g                                   the gang is whole
(C2)  sum_g d_gr y_gh <= free_hr                         capacity
(C3)  sum_{h in k} y_gh = size * s_gk                    slices, for each domain k of their level
(C4)  sum_{g ruled} sum_{h in k} y_gh <= most            spreads, for each domain k
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.errors import SolverError, UnsupportedFeatureError
from alloc.formulation import ArrayModel
from alloc.model_builder import ModelBuilder
from alloc.packing import HostPool
from alloc.resources import Amounts, amounts_of, on_axis
from alloc.solving.gang.choosing import choose_hosts
from alloc.solving.gang.room import Counts, Mask, Tree, room_by_level, room_on_hosts
from alloc.topology.topology import HOST
from alloc.units import MILLI
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

_SECONDS = 10.0
"""Wall time of the program, seconds: somebody waits for the answer, and each cure that is tried
asks again. A job that is not decided by then is refused with a message, not guessed at."""
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
one domain must hold the job in; the number of GPUs itself is never left out. The named resources
that a job asks for are blamed before all of them (`GangFeasibility.requirements`).
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

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The named resources that the job asks for in this configuration, sorted."""
        return tuple(sorted({n for group in self.configuration.tasks for n in group.resources}))

    @property
    def requirements(self) -> tuple[str, ...]:
        """What may be left out of the question, the first to be blamed last."""
        return (*REQUIREMENTS, *self.named)

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

        Parameters
        ----------
        rules
            Placement rules in place of the job's own.
        configuration
            The only configuration that is left.
        """
        job = replace(
            self.job, configurations=(configuration,), elasticity="rigid", placement=rules
        )
        return replace(self, job=job, configuration=configuration)

    def pool_without(self, drop: frozenset[str]) -> HostPool:
        """Return the capacity that counts when some requirements are left out."""
        return self.empty if "running jobs" in drop else self.pool

    def hosts_room(self, group: TaskGroup, drop: frozenset[str]) -> Counts:
        """Return the tasks of a group that each host has room for, shape (hosts,).

        Parameters
        ----------
        group
            A task group of the configuration; its count does not limit the room.
        drop
            Requirements left out, of `requirements`.
        """
        asked = replace(
            group,
            count=_MANY,  # room is not to stop at the size of the gang
            cpu_milli=0 if "CPU" in drop else group.cpu_milli,
            memory_mib=0 if "memory" in drop else group.memory_mib,
            resources=self._of_hosts(group, drop),
        )
        gpu_type = None if "GPU type" in drop else self.configuration.gpu_type
        room = room_on_hosts(self.pool_without(drop), asked, gpu_type)
        if "affinity" not in drop:
            room = np.where(self.admitted, room, 0)
        for level in self.levels(drop):
            room = np.where(self.tree.topology.domain_of_host[level] >= 0, room, 0)
        return room

    def _of_hosts(self, group: TaskGroup, drop: frozenset[str]) -> Amounts:
        """Return what a task asks of its host by name; `lacking` looks at the cluster's own."""
        if not group.resources:
            return amounts_of(group.resources)
        topology = self.tree.topology
        cluster = {topology.resource_names[r] for r in topology.cluster_columns}
        kept = {n: a for n, a in group.resources.items() if n not in drop and n not in cluster}
        return on_axis(kept, group.resources_on_axis)

    def rules(self, drop: frozenset[str]) -> PlacementRules:
        """Return the slices and spreads that hold."""
        rules = self.job.placement
        return PlacementRules(
            slices=() if "slices" in drop else rules.slices,
            spread=() if "spread" in drop else rules.spread,
        )

    def room(self, group: TaskGroup, drop: frozenset[str]) -> dict[str, Counts]:
        """Return the room of every unit by level for one task group on its own.

        Parameters
        ----------
        group
            A task group of the configuration.
        drop
            Requirements left out, of `requirements`.
        """
        ruled = group in self.configuration.ruled_groups
        rules = self.rules(drop) if ruled else PlacementRules()
        return room_by_level(self.tree, self.hosts_room(group, drop), rules)

    def reach(self, group: TaskGroup, drop: frozenset[str] = frozenset()) -> Counts:
        """Return the tasks of a group, on its own, that each place for the job has room for.

        A place is a domain of the level to keep, with what spreads around it allow; without such a
        level only the sum over the units of the outermost level counts. Shape (unit ids,).

        Parameters
        ----------
        group
            A task group of the configuration.
        drop
            Requirements left out, of `requirements`.
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

    def max_tasks(self) -> int:
        """Return the most tasks of the main group, on its own, that the best place has room for."""
        room = self.reach(self.main)
        most = int(room.sum() if self.level() is None else room.max())
        free = self.pool_without(frozenset()).free[0]
        left = [
            max(int(free[r]), 0) // self.main.demand[r]
            for r in self.tree.topology.cluster_columns
            if self.main.demand[r]
        ]
        return min([most, *left])

    def lacking(self, drop: frozenset[str] = frozenset()) -> dict[str, int]:
        """Return what the cluster has left of those of its own resources that are not enough."""
        free, demand = self.pool_without(drop).free[0], self.configuration.demand
        names = self.tree.topology.resource_names
        return {
            names[r]: max(int(free[r]), 0)
            for r in self.tree.topology.cluster_columns
            if demand[r] > free[r] and demand[r] and names[r] not in drop
        }

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
        if self.lacking(drop):
            return False
        if len(self.configuration.tasks) == 1:
            return any(True for _ in self.candidates(drop))
        return any(hold_together(self, hosts, drop) is not None for hosts in self.candidates(drop))

    def gpus(self, tasks: float) -> float:
        """Return tasks of the main group in GPUs, or as they are for a job without GPUs."""
        return tasks * self.main.gpu_milli / MILLI if self.main.gpu_milli else float(tasks)


def hold_together(
    question: GangFeasibility, hosts: Counts, drop: frozenset[str]
) -> list[tuple[int, int, int]] | None:
    """Return (group, host, tasks) for all groups of a gang on some hosts, or None: proved not.

    Parameters
    ----------
    question
        The gang and the cluster.
    hosts
        Positions of the hosts to use.
    drop
        Requirements to leave out.

    Raises
    ------
    SolverError
        If neither is found in ten seconds.
    """
    groups = question.configuration.tasks
    if any(group.shares_gpu or group.mig_profile for group in groups):
        raise UnsupportedFeatureError(
            f'job "{question.job.id}": has several task groups and some share GPUs, which are '
            'packed GPU by GPU; use the formulation "sharing".'
        )
    found = _one_by_one(question, hosts, drop)
    if found is not None:
        return found
    raw = highs.solve(_together(question, hosts, drop), SolverOptions(_SECONDS))
    if raw.status == "infeasible":
        return None
    if raw.values is None:
        raise SolverError(
            f'job "{question.job.id}": whether its task groups fit together is not decided in '
            f"{_SECONDS:g} s; give it fewer hosts to choose from."
        )
    counts = raw.values[: len(groups) * len(hosts)].reshape(len(groups), -1)
    tasks = np.rint(counts).astype(int)
    return [(int(g), int(hosts[k]), int(tasks[g, k])) for g, k in np.argwhere(tasks)]


def _together(question: GangFeasibility, hosts: Counts, drop: frozenset[str]) -> ArrayModel:
    """Return the program of a gang's task groups on some hosts: (C1) to (C4) above."""
    groups, rules = question.configuration.tasks, question.rules(drop)
    room = np.array([question.hosts_room(group, drop)[hosts] for group in groups])
    ruled = [g for g, group in enumerate(groups) if group in question.configuration.ruled_groups]
    for cut in rules.slices:
        if cut.level != HOST:
            outside = question.tree.topology.domain_of_host[cut.level][hosts] < 0
            room[np.ix_(np.array(ruled), np.flatnonzero(outside))] = 0
    model = ModelBuilder("C1_whole", "C2_capacity", "C3_slices", "C4_spread")
    tasks = model.columns(room.shape, upper=room)
    for g, group in enumerate(groups):
        model.row("C1_whole", [(tasks[g], 1.0)], group.count, group.count)
    free = question.pool_without(drop).free[hosts]
    for r, demand in enumerate(_demand(question, drop).T):
        if demand.any():
            on = np.arange(len(hosts))
            terms = [(on, tasks[g], demand[g]) for g in np.flatnonzero(demand)]
            model.rows("C2_capacity", len(hosts), terms, upper=free[:, r])
    for cut in rules.slices:
        for members in _domains(question, cut.level, hosts):
            for g in ruled:
                slices = model.columns(1, upper=groups[g].count // cut.size)
                terms_of_slice = [(tasks[g, members], 1.0), (slices, -float(cut.size))]
                model.row("C3_slices", terms_of_slice, 0.0, 0.0)
    for spread in rules.spread:
        for members in _domains(question, spread.level, hosts):
            model.row("C4_spread", [(tasks[g, members], 1.0) for g in ruled], upper=spread.most)
    return model.model("min")


def _one_by_one(
    question: GangFeasibility, hosts: Counts, drop: frozenset[str]
) -> list[tuple[int, int, int]] | None:
    """Return (group, host, tasks) with the groups placed in turn; None where that does not do."""
    tree, rules = question.tree, question.rules(drop)
    configuration = question.configuration
    ruled = configuration.ruled_groups
    if len(ruled) > 1 and rules.spread:
        return None  # a spread counts them together
    demand = _demand(question, drop)
    free = question.pool_without(drop).free.copy()
    found = []
    for g in sorted(range(len(demand)), key=lambda g: tuple(demand[g]), reverse=True):
        group, needed = configuration.tasks[g], demand[g] > 0
        room = np.zeros(len(free), dtype=np.int64)
        room[hosts] = question.hosts_room(group, drop)[hosts]
        if needed.any():
            left = (free[:, needed] // demand[g, needed]).min(axis=1)
            room = np.minimum(room, np.maximum(left, 0))
        rooms = room_by_level(tree, room, rules if group in ruled else PlacementRules())
        outermost = tree.levels[-1]
        if int(rooms[outermost][np.unique(tree.unit[outermost][hosts])].sum()) < group.count:
            return None
        for h, n in choose_hosts(tree, rooms, hosts, group.count):
            free[h] -= n * demand[g]
            found.append((g, h, n))
    return found


def _demand(question: GangFeasibility, drop: frozenset[str]) -> Counts:
    """Return what a task of each group takes of its host, shape (groups, resources)."""
    topology = question.tree.topology
    demand = np.array([group.demand for group in question.configuration.tasks])
    words = {"cpu_milli": "CPU", "memory_mib": "memory"}
    for r, name in enumerate(topology.resource_names):
        if words.get(name, name) in drop or r in topology.cluster_columns:
            demand[:, r] = 0
    return demand


def _domains(question: GangFeasibility, level: str, hosts: Counts) -> list[list[int]]:
    """Return the positions in `hosts` of the hosts of each domain of a level."""
    if level == HOST:
        return [[k] for k in range(len(hosts))]
    domain = question.tree.topology.domain_of_host[level][hosts]
    return [np.flatnonzero(domain == k).tolist() for k in np.unique(domain[domain >= 0])]
