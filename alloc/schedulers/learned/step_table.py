"""Step tables: what one more worker, PS or bundle leads to, worked out once a speed table."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from alloc.errors import UnsupportedFeatureError
from alloc.schedulers.ladder import TaskLadder, ladder_of
from alloc.schedulers.state import JobView
from alloc.topology import Topology
from alloc.workload import NO_RULES, Configuration

WORKER, SERVER, BUNDLE = range(3)
"""The steps of a job, in the order in which DL2 counts them."""

_MAX_TABLES = 128
"""Tables kept; more come only where rates are drawn anew for every job."""


class Cell(NamedTuple):
    """Where a job stands with so many workers and PSs.

    Parameters
    ----------
    share
        Dominant share: the largest fraction of a resource of the cluster that it holds.
    steps
        Tasks that the next worker step and PS step add, and pairs that the next bundle adds; 0
        where there is no such step. 1 unless the job's speed table has a gap.
    configuration
        The configuration that it can run, or None.
    open
        Whether any step is left.
    """

    share: float
    steps: tuple[int, int, int]
    configuration: int | None
    open: bool


@dataclass(frozen=True)
class StepTable:
    """The cells of a job, by the numbers of its workers and PSs.

    Pairs that are missing from the speed table, or in it with rate 0, are stepped over. Workers
    without PSs, and PSs without workers, are on the way to a pair and run nothing.

    The cell of w workers and u PSs is ``cells[w * stride + u]``; `demands` are those of a worker,
    of a PS, and of both together, in the order of `alloc.units.RESOURCES`.
    """

    cells: tuple[Cell, ...]
    stride: int
    demands: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]

    def cell(self, workers: int, servers: int) -> Cell:
        """Return the cell of so many workers and PSs.

        Parameters
        ----------
        workers, servers
            Workers and PSs, 0 or more, as far as the table goes.
        """
        return self.cells[workers * self.stride + servers]


def step_table(ladder: TaskLadder, totals: tuple[int, ...], max_tasks: int) -> StepTable:
    """Return the step table of a ladder.

    Parameters
    ----------
    ladder
        Configurations by workers and PSs.
    totals
        Capacity of the cluster, in the order of its resources: dominant shares are of it.
    max_tasks
        Largest number of workers, and of PSs, 1 or more.
    """
    index = {pair: c for pair, c in ladder.index.items() if max(pair) <= max_tasks}
    max_w = max((w for w, _ in index), default=0)
    max_u = max((u for _, u in index), default=0)
    with_workers, with_servers = {w for w, _ in index}, {u for _, u in index}

    def leads_on(w: int, u: int) -> bool:
        return (w, u) in index or (u == 0 and w in with_workers) or (w == 0 and u in with_servers)

    stride = max_u + 1
    found: dict[tuple[int, int], tuple[int, int, int]] = {}
    # From the top down: a step leads to the next pair, or as far as the step from there does.
    for w in range(max_w, -1, -1):
        for u in range(max_u, -1, -1):
            worker = server = bundle = 0
            if w < max_w:
                further = found[w + 1, u][WORKER]
                worker = 1 if leads_on(w + 1, u) else further + (further > 0)
            if u < max_u:
                further = found[w, u + 1][SERVER]
                server = 1 if leads_on(w, u + 1) else further + (further > 0)
            if w < max_w and u < max_u:
                further = found[w + 1, u + 1][BUNDLE]
                bundle = 1 if (w + 1, u + 1) in index else further + (further > 0)
            found[w, u] = (worker, server, bundle)
    need, serve = ladder.worker, ladder.server
    cells = tuple(
        Cell(
            max(
                (w * a + u * b) / total
                for a, b, total in zip(need, serve, totals, strict=True)
                if total
            ),
            found[w, u],
            index.get((w, u)),
            any(found[w, u]),
        )
        for w in range(max_w + 1)
        for u in range(stride)
    )
    return StepTable(cells, stride, (need, serve, ladder.bundle))


_Key = tuple[int, str, bool, tuple[int, ...], tuple[int, ...]]


class StepTables:
    """Step tables already worked out, by speed table and cluster, of at most `max_tasks` tasks."""

    def __init__(self, max_tasks: int) -> None:
        self._max_tasks = max_tasks
        # What a key names is kept beside it, so that its id stays its own.
        self._known: OrderedDict[_Key, tuple[tuple[Configuration, ...], StepTable]] = OrderedDict()
        self._topology: Topology | None = None
        self._totals: tuple[int, ...] = ()
        self._least: tuple[int, ...] = ()

    def get(self, view: JobView, topology: Topology, name: str) -> StepTable:
        """Return the step table of a job.

        Parameters
        ----------
        view
            What the scheduler sees of the job.
        topology
            The cluster.
        name
            Name of the policy, for the message.

        Raises
        ------
        UnsupportedFeatureError
            If it is not a malleable job of workers and PSs, or may not stand on every host.
        """
        if topology is not self._topology:
            self._topology = topology
            self._totals = tuple(topology.totals.tolist())
            self._least = tuple(topology.capacity.min(axis=0).tolist())
        # The smallest host is all that the ladder asks of the hosts, the totals all of the shares.
        free = view.placement == NO_RULES
        key = (id(view.configurations), view.elasticity, free, self._totals, self._least)
        known = self._known.get(key)
        if known is not None:
            return known[1]
        ladder = ladder_of(view, topology)
        table = None
        if isinstance(ladder, TaskLadder) and free:
            table = step_table(ladder, self._totals, self._max_tasks)
        if table is None or not table.cells[0].open:
            raise UnsupportedFeatureError(
                f'policy {name} gives out workers and PSs one by one, but job "{view.id}" is not a '
                "malleable job with a table of workers and PSs (at most "
                f"{self._max_tasks} of each) that may stand on any host; take a policy for gangs, "
                "or leave such jobs out."
            )
        self._known[key] = (view.configurations, table)
        if len(self._known) > _MAX_TABLES:
            self._known.popitem(last=False)
        return table


@cache
def shared_tables(max_tasks: int) -> StepTables:
    """Return the step tables that all windows of this process share."""
    return StepTables(max_tasks)
