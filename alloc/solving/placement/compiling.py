"""From a placement as counts of task groups to a state of rows, and back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from alloc.models.placement.data import PlacementData
from alloc.objectives.goals import WeightedSum
from alloc.solving.placement.lost import Lost
from alloc.solving.placement.state import Block, State
from alloc.solving.placement.terms import Counts, HostCost, move_price
from alloc.topology.topology import HOST

_ANY = (HOST, -1)
_Place = tuple[str, int]
_Kind = tuple[object, ...]


class Problem:
    """A placement problem with what the search asks of it again and again.

    Parameters
    ----------
    data
        Its numbers.
    """

    def __init__(self, data: PlacementData) -> None:
        self.data = data
        self.instance = data.instance
        self.capacity: Counts = data.instance.topology.capacity

    @cached_property
    def rows_of(self) -> dict[tuple[int, int], list[int]]:
        """Task groups of each configuration of each job."""
        rows: dict[tuple[int, int], list[int]] = {}
        for k, (j, c) in enumerate(
            zip(self.data.job_of.tolist(), self.data.configuration_of.tolist(), strict=True)
        ):
            rows.setdefault((j, c), []).append(k)
        return rows

    @cached_property
    def lost(self) -> Lost:
        """Free GPUs that are of no use, by what is free on a host."""
        return Lost(self.instance)

    @cached_property
    def tied(self) -> frozenset[int]:
        """Jobs whose rules single moves may break: they move whole."""
        instance = self.instance
        tied = {instance.job_index[j] for affinity in instance.affinities for j in affinity.jobs}
        for j, job in enumerate(instance.jobs):
            levels = {limit.level for limit in job.placement.spread}
            several = any(len(c.ruled_groups) > 1 for c in job.configurations)
            if job.placement.slices or levels - {HOST} or (levels and several):
                tied.add(j)
        return frozenset(tied)

    @cached_property
    def pinned(self) -> frozenset[int]:
        """Running jobs that may not move."""
        moves = self.instance.allowed_moves
        jobs = self.instance.jobs
        return frozenset(
            j for j in self.data.running if moves.budget == 0 or not jobs[j].preemptible
        )

    @property
    def budget(self) -> int | None:
        """Most tasks that may move, or None."""
        return self.instance.allowed_moves.budget

    def used(self, counts: csr_array) -> Counts:
        """Return what tasks use on each host, shape (hosts, resources)."""
        return np.asarray(counts.T @ self.data.demand, dtype=np.int64)

    def in_part(self, counts: csr_array) -> set[int]:
        """Return the jobs that stand with some of their tasks, not with all."""
        standing = np.asarray(counts.sum(axis=1)).ravel()
        some = np.flatnonzero(standing)
        jobs, ways = self.data.job_of[some].tolist(), self.data.configuration_of[some].tolist()
        return {
            job
            for job, way in zip(jobs, ways, strict=True)
            if (standing[rows := self.rows_of[job, way]] != self.data.count[rows]).any()
        }

    def place_of(self, counts: csr_array, k: int) -> _Place | None:
        """Return the domain that the tasks of a group must stay in; None if none may move alone.

        Parameters
        ----------
        counts
            Tasks of each group on each host, shape (groups, hosts).
        k
            A task group, 0 <= k < groups.
        """
        job, configuration = int(self.data.job_of[k]), int(self.data.configuration_of[k])
        levels = self.data.levels_required(job, configuration)
        rows = self.rows_of[job, configuration]
        if not levels or int(self.data.count[rows].sum()) == 1:
            return _ANY
        topology = self.instance.topology
        innermost = max(levels, key=(*topology.levels, HOST).index)
        if innermost == HOST:
            return None
        hosts = np.concatenate([_hosts(counts, row) for row in rows])
        domains = np.unique(topology.domain_of_host[innermost][hosts])
        # A gang that stands split already is for moves of whole jobs to mend.
        return (innermost, int(domains[0])) if len(domains) == 1 and domains[0] >= 0 else None

    def max_per_host(self, k: int) -> int | None:
        """Return how many tasks of a group its job's spread allows on one host, or None."""
        group = self.data.groups[k]
        job = self.instance.jobs[group.job]
        if group.tasks not in job.configurations[group.configuration].ruled_groups:
            return None
        limits = [limit.most for limit in job.placement.spread if limit.level == HOST]
        return min(limits, default=None)


def compile_state(
    problem: Problem,
    counts: csr_array,
    levels: Sequence[WeightedSum],
    fixed: Collection[int] = (),
) -> State:
    """Return the state of a placement for some levels of a goal.

    Parameters
    ----------
    problem
        The problem.
    counts
        Where the tasks stand, shape (groups, hosts).
    levels
        Levels of a goal, the last to be optimised, those before it to be kept at almost any price.
        What host costs and move prices do not show is left out.
    fixed
        Positions of jobs that stay as they are, besides those that move only whole or not at all
        and those of which a part is missing.
    """
    data = problem.data
    used = problem.used(counts)
    stay = problem.tied | problem.pinned | problem.in_part(counts) | set(fixed)
    places: dict[_Place, dict[_Kind, list[int]]] = {_ANY: {}}
    others = np.ones(len(data.groups), dtype=bool)
    for k in np.flatnonzero(np.diff(counts.indptr)).tolist():
        job = int(data.job_of[k])
        place = None if job in stay else problem.place_of(counts, k)
        if place is not None:
            others[k] = False
            places.setdefault(place, {}).setdefault(_kind(problem, k, place), []).append(k)
    blocks = [
        _block(problem, counts, place, list(kinds.values())) for place, kinds in places.items()
    ]
    budget = problem.budget
    if budget is not None:
        budget -= _moved(data.initial[others], counts[others])
    cost = HostCost.of(levels, problem.capacity, used)
    return State(problem.capacity, used, blocks, cost, move_price(levels), budget)


def _kind(problem: Problem, k: int, place: _Place) -> _Kind:
    """Return what the tasks of two groups must share to be interchangeable."""
    data = problem.data
    group = data.groups[k]
    if place != _ANY:
        return (k,)
    most = problem.max_per_host(k)
    if most is not None and data.count[k] > 1:
        return (k,)
    job = problem.instance.jobs[group.job]
    return (
        group.tasks.demand,
        job.configurations[group.configuration].gpu_type,
        data.levels_required(group.job, group.configuration),
    )


def _block(problem: Problem, counts: csr_array, place: _Place, kinds: list[list[int]]) -> Block:
    topology, data = problem.instance.topology, problem.data
    if place == _ANY:
        hosts = np.arange(topology.num_hosts)
    else:
        hosts = np.flatnonzero(topology.domain_of_host[place[0]] == place[1])
    row_of = np.repeat(np.arange(len(kinds)), [len(rows) for rows in kinds])
    groups = np.array([k for rows in kinds for k in rows], dtype=np.int64)
    gather = csr_array(
        (np.ones(len(groups), dtype=np.int64), (row_of, np.arange(len(groups)))),
        shape=(len(kinds), len(groups)),
    )
    count = np.asarray((gather @ counts[groups]).toarray(), dtype=np.int64)[:, hosts]
    initial = np.asarray((gather @ data.initial[groups]).toarray(), dtype=np.int64)[:, hosts]
    most = np.empty(count.shape, dtype=np.int64)
    for r, rows in enumerate(kinds):
        limit = problem.max_per_host(rows[0]) if len(rows) == 1 else None
        whole = int(data.count[rows].sum())
        most[r] = np.where(_open(problem, rows[0])[hosts], whole if limit is None else limit, 0)
    return Block(
        hosts,
        data.demand[[rows[0] for rows in kinds]].reshape(-1, data.demand.shape[1]),
        count,
        initial,
        most,
        tuple(np.array(rows, dtype=np.int64) for rows in kinds),
    )


def _open(problem: Problem, k: int) -> np.ndarray:
    """Return the hosts that a task of a group may go to, by type, size and required domains."""
    data = problem.data
    hosts: np.ndarray = data.allowed[k]
    for level in data.levels_required(int(data.job_of[k]), int(data.configuration_of[k])):
        hosts = hosts & (problem.instance.topology.domain_of_host[level] >= 0)
    return hosts


def _hosts(counts: csr_array, k: int) -> Counts:
    hosts: Counts = counts.indices[counts.indptr[k] : counts.indptr[k + 1]]
    return hosts


def _moved(initial: csr_array, counts: csr_array) -> int:
    return int((initial - initial.minimum(counts)).sum())


def read_counts(problem: Problem, counts: csr_array, state: State) -> csr_array:
    """Return the counts of task groups that a state stands for.

    Tasks of a row stay where they were at first as far as the row has tasks there.

    Parameters
    ----------
    problem
        The problem.
    counts
        The counts that the state was compiled from: jobs outside its blocks keep them.
    state
        The state.
    """
    data = problem.data
    inside = np.zeros(len(data.groups), dtype=bool)
    rows, columns = [], []
    for block in state.blocks:
        for r, groups in enumerate(block.groups):
            inside[groups] = True
            tasks, hosts = _deal(data, groups, block.hosts, block.count[r])
            rows.append(tasks)
            columns.append(hosts)
    rest = counts.tocoo()
    keep = ~inside[rest.row]
    all_rows = np.concatenate([rest.row[keep], *rows])
    all_columns = np.concatenate([rest.col[keep], *columns])
    numbers = np.concatenate([rest.data[keep], *(np.ones(len(r), dtype=np.int64) for r in rows)])
    made = csr_array((numbers, (all_rows, all_columns)), shape=counts.shape)
    made.sum_duplicates()
    return made


def _deal(
    data: PlacementData, groups: Counts, hosts: Counts, count: Counts
) -> tuple[Counts, Counts]:
    """Return the group and the host of every task of a row."""
    initial = data.initial[groups].tocoo()
    group = np.repeat(groups[initial.row], initial.data)
    host = np.repeat(initial.col, initial.data)
    room = np.zeros(data.initial.shape[1], dtype=np.int64)
    room[hosts] = count
    order = np.argsort(host, kind="stable")
    group, host = group[order], host[order]
    # Of the tasks that a host had, the first so many stay.
    first = np.searchsorted(host, host, side="left")
    stays = np.arange(len(host)) - first < room[host]
    stayed, at = group[stays], host[stays]
    np.subtract.at(room, at, 1)
    left = data.count[groups] - np.bincount(np.searchsorted(groups, stayed), minlength=len(groups))
    free = np.repeat(np.arange(len(room)), room)
    return np.concatenate([stayed, np.repeat(groups, left)]), np.concatenate([at, free])
