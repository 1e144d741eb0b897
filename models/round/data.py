"""The data of F1 as arrays: job classes, their undominated configurations, the capacity rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

import numpy as np
import numpy.typing as npt

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
from alloc.packing import Undecided, place_jointly, place_together
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.topology import Topology
from alloc.workload import Configuration, Job

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
Burdens = tuple[Array, Index, UseOrder]
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
    """

    topology: Topology
    jobs: tuple[Job, ...]
    members: tuple[tuple[int, ...], ...]
    count: Index
    first: Index
    configuration: Index
    utility: Array
    use: Array
    rows: CapacityRows
    conflicts: tuple[Conflict, ...] = ()

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
        gangs = [self.jobs[j].configurations[c] for j, c in self.choose(x)]
        return Hosts(self.topology).conflict(gangs)

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
        gangs = [self.jobs[j].configurations[c] for j, c in chosen]
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
    owner: str | None,
    on_hosts: bool,
) -> Burdens:
    """Return what does not depend on rates: use, which fit the cluster, and how those compare."""
    weigh = burden_on_hosts if on_hosts else burden
    use = rows.use(configurations, owner)
    fitting = fitting_configurations(topology, rows, configurations, use)
    order = use_order(weigh([configurations[c] for c in fitting], use[fitting]))
    return use, fitting, order


def make_round_data(
    topology: Topology,
    jobs: Sequence[Job],
    slot_s: float,
    utility: RoundUtility,
    quotas: Mapping[str, int],
    conflicts: tuple[Conflict, ...] = (),
    keep_all: bool = False,
) -> RoundData:
    """Merge equal jobs, drop dominated configurations, and lay out the columns.

    With conflicts, a configuration is dominated only by one that stands wherever it does. Where all
    are kept, dominated ones stay: a constraint of one's own may forbid what dominates them.
    """
    owners = [job.tenant if job.tenant in quotas else None for job in jobs]
    own = {
        (id(job.configurations), owner): job.configurations
        for job, owner in zip(jobs, owners, strict=True)
    }
    # Tables that differ in nothing but their rates are pruned together.
    alike: dict[tuple[Hashable, str | None], dict[int, tuple[Configuration, ...]]] = {}
    for (key, owner), table in own.items():
        alike.setdefault((shape_of(table), owner), {})[key] = table
    ones = [next(iter(tables.values())) for tables in alike.values()]
    rows = capacity_rows(topology, ones, quotas)
    fronts: dict[tuple[int, str | None], tuple[Index, Array, Array]] = {}
    for one, ((_, owner), tables) in zip(ones, alike.items(), strict=True):
        use, fitting, order = _burdens(topology, rows, one, owner, bool(conflicts))
        rates = np.array(
            [np.fromiter(map(_RATE, table), float, len(table)) for table in tables.values()]
        )[:, fitting]
        useful = rates > 0 if keep_all else pareto_fronts(order, rates)
        for key, rate, kept in zip(tables, rates, useful, strict=True):
            front = fitting[kept]
            fronts[key, owner] = (front, use[front], rate[kept])
    classes: dict[tuple[int, str | None, bytes], list[int]] = {}
    of_table: dict[tuple[int, str | None], list[int]] = {}
    for j, (job, owner) in enumerate(zip(jobs, owners, strict=True)):
        of_table.setdefault((id(job.configurations), owner), []).append(j)
    values: list[bytes] = [b""] * len(jobs)
    for of, own_jobs in of_table.items():
        found = utility.of_jobs([jobs[j] for j in own_jobs], fronts[of][2], slot_s)
        raw, width = found.tobytes(), found.itemsize * found.shape[1]
        for i, j in enumerate(own_jobs):
            values[j] = raw[i * width : (i + 1) * width]
    for j, (job, owner) in enumerate(zip(jobs, owners, strict=True)):
        # Jobs that gain the same from the same configurations are one class.
        classes.setdefault((id(job.configurations), owner, values[j]), []).append(j)
    parts = [(fronts[which[:2]], np.frombuffer(which[2])) for which in classes]
    none = np.zeros(0)
    return RoundData(
        topology=topology,
        jobs=tuple(jobs),
        members=tuple(tuple(m) for m in classes.values()),
        count=np.array([len(m) for m in classes.values()], dtype=np.int64),
        first=np.cumsum([0, *(len(values) for _, values in parts)]),
        configuration=np.concatenate([none.astype(np.int64), *(f[0] for f, _ in parts)]),
        utility=np.concatenate([none, *(values for _, values in parts)]),
        use=np.concatenate([np.zeros((0, len(rows.names))), *(f[1] for f, _ in parts)]),
        rows=rows,
        conflicts=conflicts,
    )
