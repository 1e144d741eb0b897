"""The numbers of admission: free capacity, waiting jobs, and the domains they may stand in.

Jobs that are alike (same tasks, same level, same worth) are one *kind* with a number; hosts that
are alike (same free capacity and domains) are one *bay*. Only hosts with room for some waiting task
matter, and only demands of waiting tasks set the grid, so that a cluster of 500 hosts is often down
to some dozens of bays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.models.placement.data import PlacementData
from alloc.objectives.goals import WeightedSum
from alloc.solving.placement.relaxation import pinned_jobs
from alloc.solving.placement.tables import Ints
from alloc.topology.topology import HOST
from alloc.units import MILLI

_WORTH = ("gpus_placed", "weight_placed")
EVERYWHERE = 0
"""The domain that holds all hosts."""

_Way = tuple[str | None, tuple[tuple[int, int], ...], float]
"""A configuration: level, tasks of each class, worth."""


@dataclass(frozen=True)
class Bay:
    """Hosts alike: their free capacity in grid steps, their domains, and the classes they take."""

    hosts: Ints
    free: Ints
    domains: Ints
    classes: Ints


@dataclass(frozen=True)
class Kind:
    """Waiting jobs alike, by position in the instance."""

    jobs: tuple[int, ...]


@dataclass(frozen=True)
class Option:
    """A way to run one job of a kind: a configuration in a domain.

    Parameters
    ----------
    kind, configuration, domain
        Which kind, which of its configurations, which domain.
    classes, counts
        Tasks of each class.
    worth
        What a job that runs so adds to the objective.
    """

    kind: int
    configuration: int
    domain: int
    classes: Ints
    counts: Ints
    worth: float


@dataclass(frozen=True)
class Waiting:
    """An admission problem.

    Parameters
    ----------
    bays
        Hosts with room.
    demand
        Demand of a task of each class, grid steps, shape (classes, resources).
    copies
        Tasks of each class over all waiting jobs, shape (classes,).
    kinds, options
        Waiting jobs, and the ways to run them.
    num_domains
        Domains, `EVERYWHERE` included.
    class_of
        Class of each task group, -1 for those that run, shape (groups,).
    constant
        What the pinned jobs add to the objective.
    """

    bays: tuple[Bay, ...]
    demand: Ints
    copies: Ints
    kinds: tuple[Kind, ...]
    options: tuple[Option, ...]
    num_domains: int
    class_of: Ints
    constant: float


def admission_obstacle(data: PlacementData, level: WeightedSum) -> str | None:
    """Say why a problem is not one of pure admission, or return None if it is.

    Parameters
    ----------
    data
        The instance.
    level
        The level of the goal.
    """
    other = [term.name for _, term in level.terms if term.name not in _WORTH]
    if other:
        return f"the goal has the term {other[0]}"
    instance = data.instance
    pinned = pinned_jobs(data)
    free = [j for j in data.running if j not in pinned]
    if free:
        return f'job "{instance.jobs[free[0]].id}" runs and may move'
    if instance.affinities:
        return "there are affinities"
    listed = {tenant.name for tenant in instance.tenants}
    cluster = instance.topology.cluster_columns
    for j, job in enumerate(instance.jobs):
        if job.tenant in listed:
            return f'job "{job.id}" has a tenant with a quota'
        if any(c.demand[r] for c in job.configurations for r in cluster):
            return f'job "{job.id}" asks for a resource of the cluster'
        if j not in data.running and (job.placement.slices or job.placement.spread):
            return f'job "{job.id}" has slices or a spread'
    return None


def gather(data: PlacementData, level: WeightedSum) -> Waiting:
    """Return the numbers of an admission problem; `admission_obstacle` must have none.

    Parameters
    ----------
    data
        The instance.
    level
        The level of the goal, whose terms say what a placed job is worth.
    """
    weights = {term.name: weight for weight, term in level.terms}
    waiting = np.array([int(j) not in data.running for j in data.job_of], dtype=bool)
    class_of, demand, admits, copies = _classes(data, waiting)
    capacity = data.instance.topology.capacity
    load = np.zeros_like(capacity)
    initial = data.initial.tocoo()
    np.add.at(load, initial.col, initial.data[:, None] * data.demand[initial.row])
    step = (
        np.maximum(np.gcd.reduce(demand, axis=0), 1)
        if len(demand)
        else np.ones(demand.shape[1], dtype=int)
    )
    free = np.maximum(capacity - load, 0) // step
    demand = demand // step
    takes = admits & (free[None] >= demand[:, None]).all(axis=2)
    domains, number_of = _domains(data, waiting)
    bays = _bays(free, takes, domains, demand)
    room = _room(bays, demand, int(sum(number_of.values())) + 1)
    kinds, options = _kinds(data, weights, class_of, number_of, room)
    constant = sum(_worth(data, weights, j, a.configuration) for j, a in data.running.items())
    return Waiting(
        bays,
        demand,
        copies,
        kinds,
        options,
        sum(number_of.values()) + 1,
        class_of,
        constant,
    )


def _worth(data: PlacementData, weights: dict[str, float], j: int, v: int) -> float:
    job = data.instance.jobs[j]
    gpus = job.configurations[v].demand[0] / MILLI
    return weights.get("gpus_placed", 0.0) * gpus + weights.get("weight_placed", 0.0) * job.weight


def _classes(
    data: PlacementData, waiting: npt.NDArray[np.bool_]
) -> tuple[Ints, Ints, npt.NDArray[np.bool_], Ints]:
    """Return each waiting group's class; each class' demand, hosts, and number of tasks."""
    known: dict[tuple[bytes, tuple[int, ...]], int] = {}
    class_of = np.full(len(data.groups), -1)
    first: list[int] = []
    most: dict[tuple[int, int], dict[int, int]] = {}
    for k in map(int, np.flatnonzero(waiting)):
        group = data.groups[k]
        c = known.setdefault((data.allowed[k].tobytes(), group.tasks.demand), len(known))
        class_of[k] = c
        if c == len(first):
            first.append(k)
        ways = most.setdefault((group.job, int(c)), {})
        ways[group.configuration] = ways.get(group.configuration, 0) + group.tasks.count
    copies = np.zeros(len(known), dtype=np.int64)
    for (_, c), ways in most.items():
        copies[c] += max(ways.values())
    at = np.array(first, dtype=np.int64)
    return class_of, data.demand[at], data.allowed[at], copies


def _level(data: PlacementData, j: int, v: int) -> str | None:
    """Return the innermost level of which one domain must hold a job."""
    required = data.levels_required(j, v)
    levels = (*data.instance.topology.levels, HOST)
    return max(required, key=levels.index) if required else None


def _domains(data: PlacementData, waiting: npt.NDArray[np.bool_]) -> tuple[Ints, dict[str, int]]:
    """Return for each host its domain at each level that some job requires; their numbers.

    Domains are numbered from 1 through all levels, outer levels first; 0 is everywhere. A host
    in no domain of a level has -1 there.
    """
    instance = data.instance
    pairs = {(int(data.job_of[k]), int(data.configuration_of[k])) for k in np.flatnonzero(waiting)}
    used = {_level(data, j, v) for j, v in pairs}
    columns = [np.full(instance.topology.num_hosts, EVERYWHERE)]
    number_of: dict[str, int] = {}
    for level in (*instance.topology.levels, HOST):
        if level in used:
            raw = np.asarray(instance.topology.domain_of_host[level])
            names, inverse = np.unique(raw[raw >= 0], return_inverse=True)
            column = np.full(len(raw), -1)
            column[raw >= 0] = inverse + 1 + sum(number_of.values())
            number_of[level] = len(names)
            columns.append(column)
    return np.stack(columns, axis=1), number_of


def _bays(free: Ints, takes: npt.NDArray[np.bool_], domains: Ints, demand: Ints) -> tuple[Bay, ...]:
    """Return the hosts that take some class, those alike together."""
    groups: dict[tuple[bytes, bytes, bytes], list[int]] = {}
    # More than all waiting tasks need makes no difference.
    for h in np.flatnonzero(takes.any(axis=0)):
        key = (free[h].tobytes(), domains[h].tobytes(), takes[:, h].tobytes())
        groups.setdefault(key, []).append(int(h))
    return tuple(
        Bay(
            np.array(hosts),
            free[hosts[0]],
            domains[hosts[0]][domains[hosts[0]] >= 0],
            np.flatnonzero(takes[:, hosts[0]]),
        )
        for hosts in groups.values()
    )


def _room(bays: tuple[Bay, ...], demand: Ints, num_domains: int) -> Ints:
    """Return how many tasks of each class alone each domain has room for."""
    room = np.zeros((num_domains, len(demand)), dtype=np.int64)
    for bay in bays:
        for c in bay.classes:
            needed = demand[c] > 0
            fit = 10**6 if not needed.any() else (bay.free[needed] // demand[c][needed]).min()
            room[bay.domains, c] += int(fit) * len(bay.hosts)
    return room


def _kinds(
    data: PlacementData,
    weights: dict[str, float],
    class_of: Ints,
    number_of: dict[str, int],
    room: Ints,
) -> tuple[tuple[Kind, ...], tuple[Option, ...]]:
    """Return waiting jobs by kind, and the ways to run them that have room."""
    first: dict[str | None, range] = {None: range(EVERYWHERE, EVERYWHERE + 1)}
    start = 1
    for name, number in number_of.items():
        first[name] = range(start, start + number)
        start += number
    groups_of: dict[int, list[int]] = {}
    for k in map(int, np.flatnonzero(class_of >= 0)):
        groups_of.setdefault(int(data.job_of[k]), []).append(k)
    alike: dict[tuple[_Way, ...], list[int]] = {}
    for j, groups in groups_of.items():
        ways: list[_Way] = []
        for v in range(len(data.instance.jobs[j].configurations)):
            tasks: dict[int, int] = {}
            for k in groups:
                if int(data.configuration_of[k]) == v:
                    c = int(class_of[k])
                    tasks[c] = tasks.get(c, 0) + int(data.count[k])
            worth = _worth(data, weights, j, v)
            ways.append((_level(data, j, v), tuple(sorted(tasks.items())), worth))
        alike.setdefault(tuple(ways), []).append(j)
    kinds, options = [], []
    for ways_of, jobs in alike.items():
        kinds.append(Kind(tuple(jobs)))
        for v, (level, needs, worth) in enumerate(ways_of):
            classes = np.array([c for c, _ in needs], dtype=np.int64)
            counts = np.array([n for _, n in needs], dtype=np.int64)
            # One task is in one domain wherever it stands.
            anywhere = counts.sum() == 1 and (room[EVERYWHERE] == room[first[level]].sum(0)).all()
            for domain in first[None] if anywhere else first[level]:
                if worth > 0 and (room[domain, classes] >= counts).all():
                    options.append(Option(len(kinds) - 1, v, domain, classes, counts, worth))
    return tuple(kinds), tuple(options)
