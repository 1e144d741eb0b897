"""Ladders of jobs as arrays: what each undominated configuration of a job gives and takes.

Part of the kind ``job-set/1``. Jobs that share a table of configurations share its ladder, which is
worked out when the table is first seen; the rest of a decision is arithmetic on whole arrays.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import attrgetter, gt, ne

import numpy as np
import numpy.typing as npt

from alloc.models.capacity import UseOrder, burden, pareto_fronts, shape_of, use_order
from alloc.problems.allocation.instance import misfit
from alloc.schedulers.state import JobView
from alloc.topology import Topology
from alloc.units import RESOURCES
from alloc.workload import Configuration

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

SPEEDS = (0.25, 0.5, 0.7, 0.85, 0.95, 1.0)
"""Fractions of the best rate at which the table's embedding states what they take."""

TaskKind = tuple[str, tuple[int, ...]]
"""Role and demand of one task, as `TaskGroup.demand`."""

FULL = 1e9
"""Share that a column takes which is only there to fill up an array: nobody can afford it."""


@dataclass(frozen=True)
class JobLadder:
    """The undominated configurations of a table, C of them by rising dominant share.

    Parameters
    ----------
    configurations
        The table itself, kept so that its identity stays its own.
    positions
        Positions in the table.
    rate
        Work units per second, more than 0, shape (C,).
    demand, share
        Demand in the order of `RESOURCES`, and over what the whole cluster has, shape (C,
        resources).
    plain
        Whether all tasks go on any host that has room: no GPU type, level, shared GPU or MIG slice.
    tasks
        For a plain ladder, its kinds of tasks and how many of each kind, shape (C,).
    slowest
        Least rate above 0 of the whole table, work units per second.
    """

    configurations: tuple[Configuration, ...]
    positions: tuple[int, ...]
    rate: Array
    demand: Index
    share: Array
    plain: bool
    tasks: Mapping[TaskKind, Index]
    slowest: float


@dataclass(frozen=True, eq=False)
class _Shape:
    """What tables share that differ in nothing but their rates, worked out once.

    Parameters
    ----------
    fitting, order
        Positions of the configurations that fit the empty cluster, shape (F,), and which of these
        use no more than which.
    rank
        Place of each configuration by rising dominant share, then sum of shares, shape (C,).
    demand, share, plain
        As in `JobLadder`, of all configurations: shape (C, resources), and (C,) for `plain`.
    kinds, counts
        Kinds of tasks, and how many of each kind, shape (kinds, C).
    """

    fitting: Index
    order: UseOrder
    rank: Index
    demand: Index
    share: Array
    plain: npt.NDArray[np.bool_]
    kinds: tuple[TaskKind, ...]
    counts: Index


@dataclass(frozen=True)
class LadderStats:
    """What a network is shown of ladders, all ladders of a book side by side along the first axis.

    Parameters
    ----------
    best, least, slowest
        Rate of the fastest configuration, of the smallest one, and the least rate of the table,
        work units per second, shape (tables,).
    need
        Log of the dominant share that a rate of each of `SPEEDS` times the best takes at least,
        shape (tables, speeds).
    lean
        Share of each resource that the configuration at 0.7 of the best rate takes, over its
        dominant share, shape (tables, resources).
    frugality
        Log of the rate per dominant share of the thriftiest configuration, over that of the
        fastest.
    shares
        Shares of the fastest configuration, of the one at 0.7 of its rate, and of the smallest,
        shape (tables, 3, resources).
    """

    best: Array
    least: Array
    slowest: Array
    need: Array
    lean: Array
    frugality: Array
    shares: Array


_MANY_SHAPES = 256
"""Shapes that may outlive their tables: with an error in the rates, tables are new at each look and
their shapes are not."""

_RATE = attrgetter("rate")
_TABLE = attrgetter("configurations")
_ELASTICITY = attrgetter("elasticity")


class LadderBook:
    """The ladders of all tables seen on one cluster, and their arrays side by side.

    Attributes
    ----------
    rate, share
        Ladders padded to a common length, shape (tables, C) and (tables, C, resources). Padding has
        rate 0 and takes `FULL`.
    stats
        What a network is shown of them.
    kinds, counts
        Kinds of tasks of plain ladders, the most demanding first, and tasks of each, shape (kinds,
        tables, C).
    plain
        Which ladders are plain, shape (tables,).
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.total = topology.totals[: len(RESOURCES)].astype(float)
        self._totals = topology.totals.tolist()
        self.ladders: list[JobLadder] = []
        self.rate: Array = np.zeros((0, 0))
        self.share: Array = np.zeros((0, 0, len(RESOURCES)))
        self.stats = _stats([])
        self.kinds: tuple[TaskKind, ...] = ()
        self.counts: Index = np.zeros((0, 0, 0), dtype=np.int64)
        self.plain = np.zeros(0, dtype=bool)
        self._of_table: dict[tuple[int, int | None], int] = {}
        # The same for jobs that are free to choose, by the table alone.
        self._of_free: dict[int, int] = {}
        self._shapes: dict[Hashable, _Shape] = {}
        self._stale = False
        self._room: dict[tuple[int, ...], int] = {}

    def forget(self) -> None:
        """Forget all tables."""
        self.ladders.clear()
        self._of_table.clear()
        self._of_free.clear()
        if len(self._shapes) > _MANY_SHAPES:
            self._shapes.clear()
        self._stale = True

    def tables_of(self, views: Sequence[JobView]) -> Index:
        """Return the position of each job's ladder in `ladders`, shape (jobs,)."""
        # Straight through built-in functions: a thousand jobs pass here in every decision.
        tables = list(map(self._of_free.get, map(id, map(_TABLE, views))))
        # With an error in the rates seen, tables are new at each look: old ones must not pile up.
        all_new = len(self.ladders) >= len(tables) and not any(t is not None for t in tables)
        if all_new or len(self.ladders) > 2 * len(tables) + 256:
            self.forget()
            tables = [None] * len(tables)
        if None in tables or any(map(ne, map(_ELASTICITY, views), repeat("malleable"))):
            keys = [(id(view.configurations), view.bound_to) for view in views]
            self._add(dict(zip(keys, map(_TABLE, views), strict=True)))
            tables = [self._of_table[key] for key in keys]
        if self._stale:
            self._stack()
        return np.array(tables, dtype=np.int64)

    def _add(self, seen: Mapping[tuple[int, int | None], tuple[Configuration, ...]]) -> None:
        """Add the ladders of those tables, by identity and bound configuration, that are new."""
        new = {key: table for key, table in seen.items() if key not in self._of_table}
        alike: dict[_Shape, list[tuple[int, int | None]]] = {}
        for key, table in new.items():
            alike.setdefault(self._shape_of(table), []).append(key)
        built: dict[tuple[int, int | None], JobLadder] = {}
        for shape, keys in alike.items():
            rates = np.array([list(map(_RATE, new[key])) for key in keys], dtype=float)
            fronts = pareto_fronts(shape.order, rates[:, shape.fitting])
            for key, rate, front in zip(keys, rates, fronts, strict=True):
                if key[1] is None:
                    columns = shape.fitting[front]
                    columns = columns[shape.rank[columns].argsort()]
                else:
                    columns = np.array([key[1]], dtype=np.int64)
                built[key] = _ladder(new[key], shape, rate, columns)
        for key in new:
            self._of_table[key] = len(self.ladders)
            self.ladders.append(built[key])
            self._stale = True
        for identity, bound in seen:
            if bound is None:
                self._of_free[identity] = self._of_table[identity, None]

    def _shape_of(self, configurations: tuple[Configuration, ...]) -> _Shape:
        key = shape_of(configurations)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = self._new_shape(configurations)
        return shape

    def _new_shape(self, configurations: tuple[Configuration, ...]) -> _Shape:
        asked = np.array([way.demand for way in configurations], dtype=np.int64)
        demand = asked.reshape(len(configurations), -1)[:, : len(RESOURCES)]  # what a policy sees
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(demand > 0, demand / self.total, 0.0)
        by_share = np.lexsort((share.sum(axis=1), share.max(axis=1, initial=0.0)))
        rank = np.empty(len(by_share), dtype=np.int64)
        rank[by_share] = np.arange(len(by_share))
        fitting = np.array(
            [c for c, way in enumerate(configurations) if self._fits(way)], dtype=np.int64
        )
        use = asked[fitting].astype(float)
        tasks = _tasks(configurations)
        return _Shape(
            fitting=fitting,
            order=use_order(burden([configurations[c] for c in fitting], use)),
            rank=rank,
            demand=demand,
            share=share,
            plain=np.array([_is_plain(way) for way in configurations], dtype=bool),
            kinds=tuple(tasks),
            counts=np.array(list(tasks.values())).reshape(-1, len(configurations)),
        )

    def _fits(self, way: Configuration) -> bool:
        """Return whether a configuration can ever run on the cluster, as `misfit` has it."""
        if not _is_plain(way):
            return misfit(self.topology, way) is None
        if any(map(gt, way.demand, self._totals)):
            return False
        for group in way.tasks:
            room = self._room.get(group.demand)
            if room is None:
                demand = np.array(group.demand)
                asked = demand > 0
                per_host = self.topology.capacity[:, asked] // demand[asked]
                room = int(per_host.min(axis=1).sum()) if asked.any() else np.iinfo(np.int64).max
                self._room[group.demand] = room
            if group.count > room:
                return False
        return True

    def _stack(self) -> None:
        width = max((len(ladder.rate) for ladder in self.ladders), default=0)
        self.rate = np.zeros((len(self.ladders), width))
        self.share = np.full((len(self.ladders), width, len(RESOURCES)), FULL)
        for t, ladder in enumerate(self.ladders):
            self.rate[t, : len(ladder.rate)] = ladder.rate
            self.share[t, : len(ladder.rate)] = ladder.share
        self.stats = _stats(self.ladders)
        self.plain = np.array([ladder.plain for ladder in self.ladders], dtype=bool)
        kinds = {kind for ladder in self.ladders for kind in ladder.tasks}
        self.kinds = tuple(sorted(kinds, key=lambda kind: (kind[1], kind[0]), reverse=True))
        self.counts = np.zeros((len(self.kinds), len(self.ladders), width), dtype=np.int64)
        for k, kind in enumerate(self.kinds):
            for t, ladder in enumerate(self.ladders):
                if kind in ladder.tasks:
                    self.counts[k, t, : len(ladder.rate)] = ladder.tasks[kind]
        self._stale = False


def _ladder(
    configurations: tuple[Configuration, ...], shape: _Shape, rate: Array, columns: Index
) -> JobLadder:
    """Return the ladder of some configurations of a table, in this order."""
    plain = bool(shape.plain[columns].all())
    counts = shape.counts[:, columns]
    return JobLadder(
        configurations=configurations,
        positions=tuple(columns.tolist()),
        rate=rate[columns],
        demand=shape.demand[columns],
        share=shape.share[columns],
        plain=plain,
        tasks={shape.kinds[k]: counts[k] for k in np.flatnonzero(plain & counts.any(axis=1))},
        slowest=float(rate[rate > 0].min(initial=np.inf)) if (rate > 0).any() else 0.0,
    )


def _is_plain(way: Configuration) -> bool:
    """Return whether the tasks of a configuration go on any host that has room."""
    return (
        way.gpu_type is None
        and way.within is None
        and not any(
            group.shares_gpu or group.mig_profile is not None or group.gpu_memory_mib
            for group in way.tasks
        )
    )


def _tasks(ways: Sequence[Configuration]) -> dict[TaskKind, Index]:
    """Return how many tasks of each kind configurations have."""
    tasks: dict[TaskKind, Index] = {}
    for c, way in enumerate(ways):
        for group in way.tasks:
            kind = (group.role, group.demand)
            tasks.setdefault(kind, np.zeros(len(ways), dtype=np.int64))[c] = group.count
    return tasks


def _stats(ladders: Sequence[JobLadder]) -> LadderStats:
    """Return the stats of ladders; where nothing fits or runs, rate 1 that takes nothing."""
    count, resources = len(ladders), len(RESOURCES)
    stats = LadderStats(
        best=np.ones(count),
        least=np.ones(count),
        slowest=np.ones(count),
        need=np.zeros((count, len(SPEEDS))),
        lean=np.zeros((count, resources)),
        frugality=np.zeros(count),
        shares=np.zeros((count, 3, resources)),
    )
    for t, ladder in enumerate(ladders):
        if not ladder.rate.any():
            continue
        rate, share = ladder.rate, ladder.share
        dominant = np.maximum(share.max(axis=1), 1e-12)
        best = rate.max()
        # The cheapest at each speed: rows are in order of dominant share.
        at = [int((rate >= speed * best * (1 - 1e-9)).argmax()) for speed in SPEEDS]
        mid = at[SPEEDS.index(0.7)]
        thrift = rate / dominant
        stats.best[t], stats.least[t], stats.slowest[t] = best, rate[0], ladder.slowest
        stats.need[t] = np.log(dominant[at])
        stats.lean[t] = share[mid] / dominant[mid]
        stats.frugality[t] = np.log(thrift.max() / thrift[at[-1]])
        stats.shares[t] = share[[at[-1], mid, 0]]
    return stats
