"""From an instance and a goal to the host patterns that bound it.

What is modelled: capacity, GPU types, pinned jobs, tasks that must go on running, a domain for each
running gang, the price and the budget of moves. What is relaxed, so that bounds hold for every
instance: waiting gangs may run in part and in several domains; a running gang that leaves its
domains may stand anywhere; running jobs with a choice of configurations move for free and may stop;
slices, spreads, affinities, preferred levels and quotas are not there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.formulation import Array
from alloc.models.placement.data import PlacementData
from alloc.objectives.goals import WeightedSum
from alloc.problems.allocation.instance import Instance
from alloc.solving.placement.patterns import Kind, Patterns, Stay
from alloc.solving.placement.tables import Ints
from alloc.units import GB_PER_MIB, MILLI, RESOURCES

_MODELLED = (
    "balance",
    "gpu_hosts_used",
    "hosts_used",
    "whole_hosts_free",
    "moves",
    "moved_gb",
    "gpus_placed",
    "weight_placed",
)

_NOT_NEGATIVE = ("domains_spanned", "fragmentation")
"""Objectives to be minimised that patterns do not know, and that are 0 or more."""
_MAX_CELLS = 400_000
"""Most cells of a table of loads: some megabytes. Where a grid has more, its step grows and the
bound gets weaker."""
_MAX_FILLED = 2 * 10**8
"""Most cells filled for one kind of hosts: a good half second."""
_MAX_NAMED = 3
"""Named resources that have an axis of the tables: each more of them leaves the others a coarser
grid, and with a dozen no bound is left."""
_MAX_LOCAL = 64
"""Gangs beyond this many in one domain are not held together: each has items of its own there, and
the tables of its hosts take them one by one."""


@dataclass(frozen=True)
class Weights:
    """The weights of a goal level in minimisation, each 0 or more.

    Parameters
    ----------
    of
        Weight of each objective that patterns know, by name; those to be maximised are taken off.
    constant
        What the terms cost at least that patterns do not know; -inf if one has no bound.
    """

    of: Mapping[str, float]
    constant: float

    @staticmethod
    def read(level: WeightedSum, instance: Instance) -> Weights:
        """Return the weights of a level.

        Parameters
        ----------
        level
            The level of the goal.
        instance
            The instance, whose capacity limits what terms unknown to patterns may gain.
        """
        of = dict.fromkeys(_MODELLED, 0.0)
        constant = 0.0
        capacity = instance.topology.capacity
        for weight, term in level.terms:
            if term.name in of:
                of[term.name] += weight
            elif term.name == "largest_gang":
                constant -= weight * float(capacity[:, 0].sum()) / MILLI
            elif term.name not in _NOT_NEGATIVE:
                constant = -np.inf
        constant -= of["whole_hosts_free"] * float((capacity[:, 0] > 0).sum())
        return Weights(of, constant)


@dataclass(frozen=True)
class Relaxation:
    """Patterns of an instance, and what their items are.

    Parameters
    ----------
    patterns
        The program.
    class_of
        Class of each task group, -1 for groups of pinned jobs, shape (groups,).
    local_of
        Local item of a task group in a domain: keys are group and domain.
    domain_of
        For each task group held together, the domain of each host, shape (hosts,).
    """

    patterns: Patterns
    class_of: Ints
    local_of: dict[tuple[int, int], int]
    domain_of: dict[int, Ints]


def pinned_jobs(data: PlacementData) -> set[int]:
    """Return the running jobs that must stay as they are.

    Only those that stand whole, in the one configuration they have: others take in what they lack,
    or may have other demands on the same hosts.
    """
    moves = data.instance.allowed_moves
    standing = np.asarray(data.initial.sum(axis=1)).ravel()
    in_part = set(data.job_of[standing != data.count].tolist())
    return {
        j
        for j, running in data.running.items()
        if running.tasks
        and j not in in_part
        and len(data.instance.jobs[j].configurations) == 1
        and (moves.budget == 0 or not data.instance.jobs[j].preemptible)
    }


def _staying_jobs(data: PlacementData) -> set[int]:
    """Return the running jobs that may move and must go on, in the one configuration they have."""
    if data.instance.allowed_moves.evict:
        return set()
    return {
        j
        for j, running in data.running.items()
        if running.tasks and len(data.instance.jobs[j].configurations) == 1
    } - pinned_jobs(data)


def _mean_utilisation(data: PlacementData) -> Array:
    """Return a bound from above on the mean utilisation of each resource, shape (resources,).

    It is the mean itself where hosts are alike and every job runs. Otherwise the most that all jobs
    could ask for is put on the smallest hosts first.
    """
    capacity = data.instance.topology.capacity
    ways = np.stack([data.job_of, data.configuration_of], axis=1)
    jobs, way = np.unique(ways, axis=0, return_inverse=True)
    uses = np.zeros((len(jobs), capacity.shape[1]), dtype=np.int64)
    np.add.at(uses, way.ravel(), data.demand * data.count[:, None])
    largest = np.zeros((len(data.instance.jobs), capacity.shape[1]), dtype=np.int64)
    np.maximum.at(largest, jobs[:, 0], uses)
    most = largest.sum(axis=0)
    mean = np.zeros(capacity.shape[1])
    for r in range(capacity.shape[1]):
        sizes = np.sort(capacity[capacity[:, r] > 0, r])
        before = np.cumsum(sizes) - sizes
        share = np.clip((most[r] - before) / np.maximum(sizes, 1), 0.0, 1.0)
        mean[r] = share.sum() / max(len(sizes), 1)
    return mean


def relax(
    data: PlacementData, weights: Weights, others: Mapping[int, Collection[int]] | None = None
) -> Relaxation:
    """Return the patterns of an instance.

    Parameters
    ----------
    data
        The numbers of the instance.
    weights
        The goal.
    others
        For jobs that stand together, domains in which they may besides those they have tasks in.
    """
    return _Builder(data, weights, others or {}).build()


class _Builder:
    def __init__(
        self, data: PlacementData, weights: Weights, others: Mapping[int, Collection[int]]
    ) -> None:
        self.data, self.weights, self.others = data, weights, others
        self.pinned, self.staying = pinned_jobs(data), _staying_jobs(data)
        initial = data.initial.tocsr()
        self.rows = [
            (
                initial.indices[initial.indptr[k] : initial.indptr[k + 1]],
                initial.data[initial.indptr[k] : initial.indptr[k + 1]],
            )
            for k in range(len(data.groups))
        ]
        self.load = self._pinned_load()
        self.domains: dict[int, list[int]] = {}
        self.elsewhere: dict[int, tuple[Ints, ...]] = {}

    def build(self) -> Relaxation:
        data, weights = self.data, self.weights
        class_of, demand, admits, charge, least, most = self._classes()
        domain_of = self._gangs(class_of)
        keys = [
            (k, r) for k in domain_of for r in self.domains[int(data.job_of[k])]
        ]  # the local items, after the classes
        local_of = {key: len(demand) + n for n, key in enumerate(keys)}
        every = np.array([*range(len(demand)), *(class_of[k] for k, _ in keys)], dtype=np.int64)
        copies = np.array([*most, *(data.count[k] for k, _ in keys)], dtype=np.int64)
        axes, complete = self._axes(demand, most)
        step, on_grid = self._step(demand[:, axes], most, axes)
        grid = data.instance.topology.capacity[:, axes] // step
        kinds, kind_of = self._kinds(grid, step, admits, axes)
        budget = data.instance.allowed_moves.budget
        patterns = Patterns(
            kinds=kinds,
            kind_of=kind_of,
            base=np.minimum(self.load[:, axes] // step, grid),
            now=self._now(class_of, local_of, domain_of),
            local=self._local(local_of, domain_of),
            demand=(demand[:, axes] // step)[every],
            copies=copies,
            charge=charge[every],
            least=np.concatenate([least, np.zeros(len(keys))]),
            most=np.concatenate([most, np.zeros(len(keys))]),
            stays=self._stays(class_of, local_of),
            move_weight=weights.of["moves"]
            + weights.of["moved_gb"] * GB_PER_MIB * demand[every, 2],
            budget=np.inf if budget is None else float(budget),
            constant=weights.constant + self._pinned_cost(),
            exact=on_grid and complete,
            elsewhere=self.elsewhere,
        )
        return Relaxation(patterns, class_of, local_of, domain_of)

    def _pinned_load(self) -> Ints:
        load = np.zeros_like(self.data.instance.topology.capacity)
        for k, (hosts, numbers) in enumerate(self.rows):
            if int(self.data.job_of[k]) in self.pinned:
                load[hosts] += numbers[:, None] * self.data.demand[k]
        return load

    def _pinned_cost(self) -> float:
        """Return what the pinned jobs count in placed GPUs and weights."""
        data, of = self.data, self.weights.of
        gpus = float(self.load[:, 0].sum()) / MILLI
        weight = sum(data.instance.jobs[j].weight for j in self.pinned)
        return -of["gpus_placed"] * gpus - of["weight_placed"] * weight

    def _charge(self, k: int) -> float:
        """Return what a task of a group costs by being there."""
        data, of = self.data, self.weights.of
        charge = -of["gpus_placed"] * int(data.demand[k, 0]) / MILLI
        if of["weight_placed"]:
            j, v = int(data.job_of[k]), int(data.configuration_of[k])
            job = data.instance.jobs[j]
            tasks = sum(group.count for group in job.configurations[v].tasks)
            charge -= of["weight_placed"] * job.weight / tasks
        return charge

    def _classes(self) -> tuple[Ints, Ints, npt.NDArray[np.bool_], Array, Ints, Ints]:
        """Return each group's class; each class' demand, hosts, charge, least and most tasks."""
        data = self.data
        known: dict[tuple[str | None, int, tuple[int, ...], float], int] = {}
        first: list[int] = []
        class_of = np.full(len(data.groups), -1)
        for k, group in enumerate(data.groups):
            if group.job in self.pinned:
                continue
            job = data.instance.jobs[group.job]
            gpu_type = job.configurations[group.configuration].gpu_type
            tasks = group.tasks
            key = (gpu_type, tasks.gpu_memory_mib, tasks.demand, self._charge(k))
            class_of[k] = known.setdefault(key, len(known))
            if class_of[k] == len(first):
                first.append(k)
        least = np.zeros(len(known), dtype=np.int64)
        # A job runs in one configuration: of each class, it has at most as many tasks as in the
        # one with the most of them.
        largest: dict[tuple[int, int], dict[int, int]] = {}
        for k in map(int, np.flatnonzero(class_of >= 0)):
            j, c = int(data.job_of[k]), int(class_of[k])
            if j in self.staying:
                least[c] += data.count[k]
            by_configuration = largest.setdefault((j, c), {})
            way = int(data.configuration_of[k])
            by_configuration[way] = by_configuration.get(way, 0) + int(data.count[k])
        most = np.zeros(len(known), dtype=np.int64)
        for (_, c), numbers in largest.items():
            most[c] += max(numbers.values())
        charge = np.array([e for *_, e in known])
        at = np.array(first, dtype=np.int64)
        return class_of, data.demand[at], data.allowed[at], charge, least, most

    def _gangs(self, class_of: Ints) -> dict[int, Ints]:
        """Return the groups that are held together, and the domain of each host at their level."""
        instance = self.data.instance
        levels = (*instance.topology.levels, "host")
        crowd: dict[tuple[str, int], int] = {}
        held: dict[int, Ints] = {}
        hosts_of: dict[str, dict[int, Ints]] = {}
        by_job: dict[int, list[int]] = {}
        for k in np.flatnonzero(class_of >= 0):
            by_job.setdefault(int(self.data.job_of[k]), []).append(int(k))
        for j in sorted(self.staying):
            own = by_job[j]
            required = self.data.levels_required(j, 0)
            if not required or self.data.count[own].sum() < 2:
                continue
            level = max(required, key=levels.index)
            domain = np.asarray(instance.topology.domain_of_host[level])
            hosts = np.concatenate([self.rows[k][0] for k in own])
            places = sorted(set(domain[hosts].tolist()) - {-1})
            full = any(crowd.get((level, r), 0) + len(own) > _MAX_LOCAL for r in places)
            if full or (domain == domain[0]).all():
                continue
            for r in places:
                crowd[level, r] = crowd.get((level, r), 0) + len(own)
            self.domains[j] = list(dict.fromkeys([*places, *self.others.get(j, ())]))
            if level not in hosts_of:
                hosts_of[level] = {
                    int(r): np.flatnonzero(domain == r) for r in np.unique(domain[domain >= 0])
                }
            own_domains = set(self.domains[j])
            self.elsewhere[j] = tuple(
                hosts for r, hosts in hosts_of[level].items() if r not in own_domains
            )
            held.update(dict.fromkeys(own, domain))
        return held

    def _axes(self, demand: Ints, most: Ints) -> tuple[Ints, bool]:
        """Return the positions of the resources of the tables, and whether these are all asked for.

        GPU, CPU and memory, and the named resources that run out first: without the others the
        patterns are a relaxation.
        """
        asked = demand.T @ most + self.load.sum(axis=0)
        share = asked / np.maximum(self.data.instance.topology.capacity.sum(axis=0), 1)
        named = np.arange(len(RESOURCES), len(asked))
        named = named[asked[named] > 0]
        scarcest = named[np.argsort(-share[named], kind="stable")][:_MAX_NAMED]
        axes = np.concatenate([np.arange(len(RESOURCES)), np.sort(scarcest)])
        return axes, len(scarcest) == len(named)

    def _step(self, demand: Ints, most: Ints, axes: Ints) -> tuple[Ints, bool]:
        """Return the step of the grid in each resource, and whether loads lie on it."""
        capacity = self.data.instance.topology.capacity[:, axes]
        step = np.gcd.reduce(np.concatenate([demand, capacity, self.load[:, axes]]), axis=0)
        step = np.maximum(step, 1)
        num_pieces = float(np.log2(np.minimum(most, 64) + 1).sum()) + 1.0
        limit = min(_MAX_CELLS, _MAX_FILLED / num_pieces)
        exact = True
        largest = capacity.max(axis=0)
        while np.prod(largest // step + 1.0) > limit and (largest // step).max() > 1:
            r = int((largest // step).argmax())
            excess = float(np.prod(largest // step + 1.0)) / limit
            step[r] = int(np.ceil(step[r] * min(max(excess, 1.01), 2.0)))
            exact = False
        return step, exact

    def _kinds(
        self, grid: Ints, step: Ints, admits: npt.NDArray[np.bool_], axes: Ints
    ) -> tuple[tuple[Kind, ...], Ints]:
        """Return the kinds of hosts, and the kind of each host."""
        capacity = self.data.instance.topology.capacity[:, axes]
        mean = _mean_utilisation(self.data)[axes]
        known: dict[tuple[bytes, bytes], int] = {}
        kinds: list[Kind] = []
        kind_of = np.zeros(len(capacity), dtype=np.int64)
        for h, row in enumerate(capacity):
            key = (row.tobytes(), admits[:, h].tobytes())
            if key not in known:
                known[key] = len(kinds)
                cost = self._cost(grid[h], step, row, mean)
                kinds.append(Kind(cost, admits[:, h].copy()))
            kind_of[h] = known[key]
        return tuple(kinds), kind_of

    def _cost(self, grid: Ints, step: Ints, capacity: Ints, mean: Array) -> Array:
        """Return f on the grid of loads of a host; it does not decrease with the load."""
        of = self.weights.of
        cost = np.zeros(grid + 1)
        for r in range(len(grid)):
            share = np.arange(grid[r] + 1) * step[r] / max(capacity[r], 1)
            above = np.maximum(share - mean[r], 0.0) * (capacity[r] > 0)
            along = [1] * len(grid)
            along[r] = -1
            cost += of["balance"] * above.reshape(along)
        cost[1:] += of["gpu_hosts_used"]
        empty = cost.flat[0]
        cost += of["hosts_used"] + of["whole_hosts_free"] * (capacity[0] > 0)
        cost.flat[0] = empty
        return cost

    def _now(
        self, class_of: Ints, local_of: dict[tuple[int, int], int], domain_of: dict[int, Ints]
    ) -> tuple[Ints, ...]:
        """Return the items of the tasks that each host has now and that cost a move to leave."""
        now: list[list[int]] = [[] for _ in range(self.data.instance.topology.num_hosts)]
        for k in np.flatnonzero(class_of >= 0):
            job = self.data.instance.jobs[int(self.data.job_of[k])]
            if len(job.configurations) > 1:
                continue
            domain = domain_of.get(int(k))
            for h, number in zip(*self.rows[k], strict=True):
                item = int(class_of[k])
                if domain is not None:
                    item = local_of.get((int(k), int(domain[h])), item)
                now[h] += [item] * int(number)
        return tuple(np.array(sorted(items), dtype=np.int64) for items in now)

    def _local(
        self, local_of: dict[tuple[int, int], int], domain_of: dict[int, Ints]
    ) -> tuple[Ints, ...]:
        """Return the local items that each host may take."""
        local: list[list[int]] = [[] for _ in range(self.data.instance.topology.num_hosts)]
        members: dict[tuple[int, int], npt.NDArray[np.int64]] = {}
        for (k, r), item in local_of.items():
            key = (id(domain_of[k]), r)
            if key not in members:
                members[key] = np.flatnonzero(domain_of[k] == r)
            for h in members[key]:
                local[h].append(item)
        return tuple(np.array(items, dtype=np.int64) for items in local)

    def _stays(self, class_of: Ints, local_of: dict[tuple[int, int], int]) -> tuple[Stay, ...]:
        """Return the y_gr: for each gang held together, each domain it has tasks in."""
        found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for (k, r), item in local_of.items():
            row = (item, int(class_of[k]), int(self.data.count[k]))
            found.setdefault((int(self.data.job_of[k]), r), []).append(row)
        return tuple(
            Stay(j, *(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)))
            for (j, _), rows in found.items()
        )
