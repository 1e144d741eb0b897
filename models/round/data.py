"""The data of F1 as arrays: job classes, their undominated configurations, the capacity rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import cast

import numpy as np
import numpy.typing as npt

from alloc.clock import time_is_up
from alloc.formulation import ArrayModel, BuiltModel, CpSatModel, PyomoModel
from alloc.models.capacity import (
    CapacityRows,
    UseOrder,
    burden,
    burden_on_hosts,
    capacity_rows,
    fitting_configurations,
    pareto_fronts,
    quotas_of,
    shape_of,
    use_order,
)
from alloc.models.host_conflicts import Conflict, Hosts, Row, conflict_rows, kind_of, with_new
from alloc.objectives import RoundUtility, require_slot, round_utility
from alloc.packing import HostPool, Undecided, place_jointly, place_together
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.job_view import JobView
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.topology import Topology
from alloc.workload import Configuration, Job

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
_SHAPES, _COMPARED = 64, 256
"""Shapes of tables that a topology remembers, and configurations of one up to which it does: their
comparison takes 64 KiB."""

Burdens = tuple[Array, Index, UseOrder]
TableKey = tuple[int, str | None]
_RATE = attrgetter("rate")


@dataclass(frozen=True)
class RoundData:
    """One round: columns (class, configuration) side by side, the columns of a class together.

    Parameters
    ----------
    topology
        The cluster.
    jobs
        The jobs of the round.
    members
        For each class, the positions of its jobs in `jobs`.
    count
        n_k, shape (K,).
    first
        First column of each class, shape (K + 1,); the last entry is the number of columns.
    configuration
        Position in the job's configurations of each column, shape (N,).
    utility
        u of each column, shape (N,).
    use
        a of each column, shape (N, R).
    rows
        The capacity rows.
    conflicts
        What the hosts do not hold together, as far as it is known.
    fronts
        What it was laid out from, for a round with the same tables; None: it was not kept.
    """

    topology: Topology
    jobs: tuple[Job | JobView, ...]
    members: tuple[tuple[int, ...], ...]
    count: Index
    first: Index
    configuration: Index
    utility: Array
    use: Array
    rows: CapacityRows
    conflicts: tuple[Conflict, ...] = ()
    fronts: Fronts | None = None

    @property
    def num_classes(self) -> int:
        """Number of job classes K."""
        return len(self.members)

    def choose(self, x: Array) -> list[tuple[int, int]]:
        """Return (job position, configuration) for a solution x, shape (N,)."""
        taken = np.rint(x).astype(np.int64)
        columns = np.repeat(np.arange(len(taken)), taken)
        classes = np.searchsorted(self.first, columns, side="right") - 1
        # The first members of a class have its first columns.
        rank = np.arange(len(classes)) - np.searchsorted(classes, classes)
        return [
            (self.members[k][m], c)
            for k, m, c in zip(
                classes.tolist(),
                rank.tolist(),
                self.configuration[columns].tolist(),
                strict=True,
            )
        ]

    @cached_property
    def conflict_rows(self) -> tuple[list[Row[int]], int]:
        """The rows that forbid the conflicts, and how many binaries they need."""
        if not self.conflicts:
            return [], 0
        class_of = np.repeat(np.arange(self.num_classes), np.diff(self.first))
        columns = [
            (i, kind_of(self.jobs[self.members[k][0]].configurations[c]), k, int(self.count[k]))
            for i, (k, c) in enumerate(zip(class_of.tolist(), self.configuration, strict=True))
        ]
        return conflict_rows(conflict.parts(columns) for conflict in self.conflicts)

    def conflict(self, x: Array) -> Conflict | None:
        """Return a conflict on hosts in a solution x, None if it stands or that is not known."""
        return Hosts(self.topology).conflict(self._gangs(self.choose(x)))

    def allocation(self, x: Array, *, exact: bool = False) -> Allocation:
        """Put a solution x on hosts; jobs that find no room stay unplaced with the reason.

        Parameters
        ----------
        x
            The solution, shape (N,).
        exact
            Whether to search for hosts for all where the greedy rules leave some without.
        """
        chosen = self.choose(x)
        gangs = self._gangs(chosen)
        placed = place_jointly(self.topology, [(gang, None) for gang in gangs])
        if exact and None in placed:
            with suppress(Undecided):
                placed = list(place_together(self.topology, gangs) or placed)
        assignments = []
        unplaced = {}
        for (j, c), tasks in zip(chosen, placed, strict=True):
            if tasks is None:
                label = self.jobs[j].configurations[c].label
                unplaced[self.jobs[j].id] = f"no hosts have room left for {label} as a gang"
            else:
                assignments.append(Assignment(self.jobs[j].id, c, tasks))
        running = {j for j, _ in chosen}
        for j, job in enumerate(self.jobs):
            if j not in running:
                unplaced[job.id] = "other jobs gain more from the capacity in this slot"
        return Allocation(tuple(assignments), unplaced)

    def assignments(self, x: Array, pool: HostPool) -> tuple[Assignment, ...]:
        """Put a solution x on hosts by the greedy rules; jobs that find no room are left out.

        Parameters
        ----------
        x
            The solution, shape (N,).
        pool
            All hosts of the cluster, free.
        """
        chosen, jobs = self.choose(x), self.jobs
        requests = [(gang, None) for gang in self._gangs(chosen)]
        placed = place_jointly(self.topology, requests, pool)
        return tuple(
            [
                Assignment(jobs[j].id, c, tasks)
                for (j, c), tasks in zip(chosen, placed, strict=True)
                if tasks is not None
            ]
        )

    def _gangs(self, chosen: Sequence[tuple[int, int]]) -> list[Configuration]:
        jobs = self.jobs
        return [jobs[j].configurations[c] for j, c in chosen]

    def values(self, allocation: Allocation) -> Array:
        """Return x for an allocation; configurations that are not columns count for nothing."""
        column_of = {
            (k, int(self.configuration[column])): column
            for k in range(self.num_classes)
            for column in range(self.first[k], self.first[k + 1])
        }
        class_of = {self.jobs[j].id: k for k, members in enumerate(self.members) for j in members}
        x = np.zeros(len(self.utility))
        for job, c in allocation.configuration_of.items():
            column = column_of.get((class_of[job], c))
            if column is not None:
                x[column] += 1
        return x


def round_data(
    instance: Instance,
    objective: str,
    conflicts: tuple[Conflict, ...] = (),
    keep_all: bool = False,
) -> RoundData:
    """Return the data of an instance's first slot: the jobs that have arrived at 0.

    The parameters are those of `make_round_data`.

    Parameters
    ----------
    instance
        Needs a slot.
    objective
        Name of an objective of a round.
    conflicts, keep_all
        As in `make_round_data`.
    """
    slot_s = require_slot(instance)
    jobs = tuple(job for job in instance.jobs if job.arrival_s == 0)
    return make_round_data(
        instance.topology,
        jobs,
        slot_s,
        round_utility(objective),
        quotas_of(instance),
        conflicts,
        keep_all,
    )


def built_model(
    data: RoundData,
    model: ArrayModel | CpSatModel | PyomoModel,
    build: Callable[[tuple[Conflict, ...]], BuiltModel],
) -> BuiltModel:
    """Return a built model of a round, with the way back, and on to tighter models.

    Parameters
    ----------
    data
        The round.
    model
        Its model; the binaries of the conflicts stand after the columns.
    build
        Builds the round in the same way with other conflicts.
    """
    size = len(data.utility)

    def start(allocation: Allocation) -> Array:
        unknown = np.full(data.conflict_rows[1], np.nan)
        return np.append(data.values(allocation), unknown)

    def refine(values: Array) -> BuiltModel | None:
        conflict = data.conflict(np.asarray(values)[:size])
        return None if conflict is None else build(with_new(data.conflicts, [conflict]))

    return BuiltModel(
        model,
        lambda values: data.allocation(np.asarray(values)[:size], exact=True),
        start=None if isinstance(model, PyomoModel) else start,
        refine=refine,
    )


def _burdens(
    topology: Topology,
    rows: CapacityRows,
    configurations: tuple[Configuration, ...],
    shape: Hashable,
    owner: str | None,
    on_hosts: bool,
) -> Burdens:
    """Return what does not depend on rates: use, which fit the cluster, and how those compare.

    It is kept with the topology: round after round has the same few shapes, and whoever reads
    documents one after the other makes the same tasks of the same texts.
    """
    known = topology.known_burdens
    key = shape, owner, on_hosts, rows.names, rows.capacity.tobytes()
    found: Burdens | None = known.get(key)
    if found is not None:
        return found
    weigh = burden_on_hosts if on_hosts else burden
    use = rows.use(configurations, owner)
    fitting = fitting_configurations(topology, rows, configurations, use)
    order = use_order(weigh([configurations[c] for c in fitting], use[fitting]))
    # A search for hosts that ran out of time has decided nothing.
    if len(configurations) <= _COMPARED and not time_is_up():
        if len(known) >= _SHAPES:
            known.clear()
        known[key] = use, fitting, order
    return use, fitting, order


@dataclass(frozen=True, eq=False)
class Fronts:
    """The configurations of some tables that are worth a column, and what these use.

    Parameters
    ----------
    topology
        The cluster.
    quotas
        GPU quota of each tenant, milli-GPU.
    rows
        The capacity rows.
    tables
        The tables by identity and by the tenant whose quota their use counts against, or None.
    columns
        For each of them, undominated configurations, their use of the rows, and their rates.
    options
        Whether hosts count, and whether dominated configurations stay.
    """

    topology: Topology
    quotas: Mapping[str, int]
    rows: CapacityRows
    tables: dict[TableKey, tuple[Configuration, ...]]
    columns: dict[TableKey, tuple[Index, Array, Array]]
    options: tuple[bool, bool]

    def are_of(
        self,
        topology: Topology,
        quotas: Mapping[str, int],
        tables: dict[TableKey, tuple[Configuration, ...]],
        options: tuple[bool, bool],
    ) -> bool:
        """Return whether they are those of some tables on a cluster.

        Parameters
        ----------
        topology
            The cluster.
        quotas
            GPU quota of each tenant, milli-GPU.
        tables
            The tables by identity and by the tenant whose quota their use counts
            against, or None.
        options
            Whether hosts count, and whether dominated configurations stay.
        """
        same = self.topology is topology and self.options == options
        if not same or self.quotas != quotas or len(self.tables) != len(tables):
            return False
        # An identity may be used again, so the tables themselves are compared.
        return all(self.tables.get(key) is table for key, table in tables.items())


def _fronts(
    topology: Topology,
    quotas: Mapping[str, int],
    tables: dict[TableKey, tuple[Configuration, ...]],
    options: tuple[bool, bool],
) -> Fronts:
    """Prune the configurations of some tables."""
    on_hosts, keep_all = options
    # Tables that differ in nothing but their rates are pruned together.
    alike: dict[tuple[Hashable, str | None], dict[int, tuple[Configuration, ...]]] = {}
    for (key, owner), table in tables.items():
        alike.setdefault((shape_of(table), owner), {})[key] = table
    ones = [next(iter(own.values())) for own in alike.values()]
    rows = capacity_rows(topology, ones, quotas)
    columns: dict[TableKey, tuple[Index, Array, Array]] = {}
    for one, ((shape, owner), own) in zip(ones, alike.items(), strict=True):
        use, fitting, order = _burdens(topology, rows, one, shape, owner, on_hosts)
        rates = np.array(
            [np.fromiter(map(_RATE, table), float, len(table)) for table in own.values()]
        )[:, fitting]
        useful = rates > 0 if keep_all else pareto_fronts(order, rates)
        for key, rate, kept in zip(own, rates, useful, strict=True):
            front = fitting[kept]
            columns[key, owner] = (front, use[front], rate[kept])
    return Fronts(topology, dict(quotas), rows, tables, columns, options)


def make_round_data(
    topology: Topology,
    jobs: Sequence[Job | JobView],
    slot_s: float,
    utility: RoundUtility,
    quotas: Mapping[str, int],
    conflicts: tuple[Conflict, ...] = (),
    keep_all: bool = False,
    *,
    amounts: Array | None = None,
    fronts: Fronts | None = None,
) -> RoundData:
    """Merge equal jobs, drop dominated configurations, and lay out the columns.

    With conflicts, a configuration is dominated only by one that stands wherever it does. Where all
    are kept, dominated ones stay: a constraint of one's own may forbid what dominates them.

    Parameters
    ----------
    topology
        The cluster.
    jobs
        The jobs; views only with their amounts.
    slot_s
        Length of the slot, seconds.
    utility
        Values a configuration of a job.
    quotas
        GPU quota of each tenant, milli-GPU.
    conflicts
        What the hosts do not hold together, as far as it is known.
    keep_all
        Whether dominated configurations stay.
    amounts
        For a utility by work, weight, work and work left of each job, shape (3, J); None: as the
        jobs say.
    fronts
        Those of another round, which are taken over where tables and cluster are the same.
    """
    # Held here, so that no two of them have the same identity one after the other.
    given = [job.configurations for job in jobs]
    keys: list[TableKey]
    if quotas:
        owners = [job.tenant if job.tenant in quotas else None for job in jobs]
        keys = [(id(table), owner) for table, owner in zip(given, owners, strict=True)]
    else:
        keys = [(id(table), None) for table in given]
    tables: dict[TableKey, tuple[Configuration, ...]] = {}
    of_table: dict[TableKey, list[int]] = {}
    for j, key in enumerate(keys):
        own = of_table.get(key)
        if own is None:
            own, tables[key] = of_table.setdefault(key, []), given[j]
        own.append(j)
    options = (bool(conflicts), keep_all)
    if fronts is None or not fronts.are_of(topology, quotas, tables, options):
        fronts = _fronts(topology, quotas, tables, options)
    if amounts is None and utility.by_work:
        amounts = utility.amounts(cast("Sequence[Job]", jobs))
    # Jobs that gain the same from the same configurations are one class, which goes by its first
    # job. Where each table's configurations stand, and the utilities of each class.
    leader = np.zeros(len(jobs), dtype=np.int64)
    width, front_at, value_at = leader.copy(), leader.copy(), leader.copy()
    values: list[Array] = []
    num_columns = num_values = 0
    for key, own in of_table.items():
        front, _, rate = fronts.columns[key]
        if amounts is None:
            some = [cast("Job", jobs[j]) for j in own]
            found = np.array([utility.of_rates(job, rate, slot_s) for job in some], dtype=float)
        else:
            found = utility.of_amounts(amounts[:, own], tables[key], rate, slot_s)
        raw, size = found.tobytes(), found.itemsize * found.shape[1]
        known: dict[bytes, int] = {}
        leader[own] = [
            known.setdefault(raw[k * size : (k + 1) * size], j) for k, j in enumerate(own)
        ]
        width[own] = len(front)
        front_at[own] = num_columns
        value_at[own] = num_values + len(front) * np.arange(len(own))
        values.append(found.ravel())
        num_columns += len(front)
        num_values += found.size
    order = np.argsort(leader, kind="stable")
    first_of, count = np.unique(leader, return_counts=True)
    end = np.cumsum(count)
    if len(first_of) == len(jobs):
        members = tuple(zip(order.tolist(), strict=True))
    else:
        sorted_, ends = order.tolist(), end.tolist()
        members = tuple(tuple(sorted_[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True))
    width = width[first_of]
    first = np.append(0, np.cumsum(width))
    within = np.arange(int(first[-1])) - np.repeat(first[:-1], width)
    column = np.repeat(front_at[first_of], width) + within
    none = np.zeros(0)
    parts = [fronts.columns[key] for key in of_table]
    return RoundData(
        topology=topology,
        jobs=tuple(jobs),
        members=members,
        count=count.astype(np.int64),
        first=first,
        configuration=np.concatenate([none.astype(np.int64), *(f[0] for f in parts)])[column],
        utility=np.concatenate([none, *values])[np.repeat(value_at[first_of], width) + within],
        use=np.concatenate([np.zeros((0, len(fronts.rows.names))), *(f[1] for f in parts)])[column],
        rows=fronts.rows,
        conflicts=conflicts,
        fronts=fronts,
    )
