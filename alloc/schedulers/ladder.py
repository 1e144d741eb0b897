"""Ladders: the configurations of a job in the order in which a policy climbs them.

Two kinds. A `TaskLadder` is DL2's world: a malleable job of workers and parameter servers that a
policy gives one task at a time. A `GangLadder` is everything else: whole configurations, from the
smallest to the fastest, none of them dominated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from alloc.schedulers.state import JobView
from alloc.topology import Topology
from alloc.workload import Configuration, TaskGroup

WORKER, SERVER = "worker", "ps"
"""Roles of the tasks of parameter-server training."""


@dataclass(frozen=True)
class TaskLadder:
    """Configurations of a parameter-server job by the numbers of its workers and PSs.

    Pairs that are not in the job's table, or are in it with rate 0, cannot be reached: steps go
    over them to the next pair that can.

    Parameters
    ----------
    index
        Configuration of each (workers, PSs).
    worker, server
        Demand of one worker and one PS in the order of `alloc.units.RESOURCES`.
    pairs
        The numbers k with k workers and k PSs in the table, rising: the steps of bundles.
    first
        The smallest (workers, PSs): fewest tasks, then fewest workers.
    """

    index: dict[tuple[int, int], int]
    worker: tuple[int, ...]
    server: tuple[int, ...]
    pairs: tuple[int, ...]
    first: tuple[int, int]
    _workers_with: dict[int, tuple[int, ...]]
    _servers_with: dict[int, tuple[int, ...]]

    @cached_property
    def bundle(self) -> tuple[int, ...]:
        """Demand of one worker and one PS together."""
        return tuple(w + u for w, u in zip(self.worker, self.server, strict=True))

    @cached_property
    def first_tasks(self) -> tuple[tuple[int, ...], ...]:
        """Demands of the tasks of the smallest pair, workers first."""
        workers, servers = self.first
        return (self.worker,) * workers + (self.server,) * servers

    def next_pair(self, workers: int) -> int | None:
        """Return the next larger number of bundles in the table, or None at the top."""
        return _above(self.pairs, workers)

    def next_workers(self, workers: int, servers: int) -> int | None:
        """Return the next larger number of workers with this number of PSs, or None.

        Parameters
        ----------
        workers, servers
            Workers and PSs now, 0 or more.
        """
        return _above(self._workers_with.get(servers, ()), workers)

    def next_servers(self, workers: int, servers: int) -> int | None:
        """Return the next larger number of PSs with this number of workers, or None.

        Parameters
        ----------
        workers, servers
            Workers and PSs now, 0 or more.
        """
        return _above(self._servers_with.get(workers, ()), servers)


@dataclass(frozen=True)
class Level:
    """Configurations of equal demand (on different GPU types or levels), the fastest first."""

    configurations: tuple[int, ...]
    demand: tuple[int, ...]


@dataclass(frozen=True)
class GangLadder:
    """Configurations that no other dominates, from the smallest to the fastest."""

    levels: tuple[Level, ...]

    @cached_property
    def choices(self) -> tuple[int, ...]:
        """All configurations of the ladder."""
        return tuple(c for level in self.levels for c in level.configurations)


Ladder = TaskLadder | GangLadder


def ladder_of(view: JobView, topology: Topology) -> Ladder:
    """Return the ladder of a job: of tasks if its table and the hosts allow that, else of gangs.

    Parameters
    ----------
    view
        What the scheduler sees of the job.
    topology
        The cluster.
    """
    # Tasks given out one by one go to the least loaded hosts, wherever those stand.
    if view.elasticity == "malleable" and view.placement.required is None:
        table = _task_ladder(view.configurations)
        # DL2's hosts are all alike; that a bundle fits on each empty host is what its rule needs.
        if table is not None and (topology.capacity >= table.bundle).all():
            return table
    return gang_ladder(view)


def gang_ladder(view: JobView) -> GangLadder:
    """Return the ladder of gangs of any job; a job that is bound has one level."""
    bound = view.bound_to
    if bound is not None:
        return GangLadder((Level((bound,), view.configurations[bound].demand),))
    return _undominated(view.configurations)


def _task_ladder(configurations: Sequence[Configuration]) -> TaskLadder | None:
    """Return the ladder of tasks, or None if the table is not one of workers and PSs on any host.

    Shares of GPUs, GPU types, levels and resources of the cluster need a choice of hosts that
    giving out single tasks does not make.
    """
    demands: dict[str, tuple[int, ...]] = {}
    index: dict[tuple[int, int], int] = {}
    for c, configuration in enumerate(configurations):
        if configuration.gpu_type is not None or configuration.within is not None:
            return None
        for group in configuration.tasks:
            if not _is_plain(group) or demands.setdefault(group.role, group.demand) != group.demand:
                return None
        if configuration.rate > 0:
            index[configuration.num_tasks(WORKER), configuration.num_tasks(SERVER)] = c
    pairs = tuple(sorted(w for w, u in index if w == u))
    if SERVER not in demands or not pairs:
        return None
    return TaskLadder(
        index,
        demands.get(WORKER, tuple(0 for _ in demands[SERVER])),
        demands[SERVER],
        pairs,
        min(index, key=lambda pair: (sum(pair), pair)),
        {u: tuple(sorted(w for w, v in index if v == u)) for u in {u for _, u in index}},
        {w: tuple(sorted(u for v, u in index if v == w)) for w in {w for w, _ in index}},
    )


def _is_plain(group: TaskGroup) -> bool:
    return group.role in (WORKER, SERVER) and not group.shares_gpu and not group.resources


def _undominated(configurations: Sequence[Configuration]) -> GangLadder:
    """Return the ladder of gangs: dominated configurations out, equal demands together."""
    order = sorted(
        (c for c, configuration in enumerate(configurations) if configuration.rate > 0),
        key=lambda c: (configurations[c].demand, -configurations[c].rate, c),
    )
    kept: dict[tuple[str | None, str | None], list[int]] = {}
    for c in order:
        # Only configurations that may use the same hosts can dominate each other.
        rivals = kept.setdefault((configurations[c].gpu_type, configurations[c].within), [])
        if not any(_dominates(configurations[r], configurations[c]) for r in rivals):
            rivals.append(c)
    levels: dict[tuple[int, ...], list[int]] = {}
    for c in sorted(c for rivals in kept.values() for c in rivals):
        levels.setdefault(configurations[c].demand, []).append(c)
    return GangLadder(
        tuple(
            Level(tuple(sorted(levels[demand], key=lambda c: -configurations[c].rate)), demand)
            for demand in sorted(levels)
        )
    )


def _dominates(a: Configuration, b: Configuration) -> bool:
    """Return whether a needs no more than b and is at least as fast."""
    no_more = all(x <= y for x, y in zip(a.demand, b.demand, strict=True))
    return no_more and a.rate >= b.rate


def _above(numbers: Sequence[int], number: int) -> int | None:
    """Return the first of the rising numbers that is larger, or None."""
    k = bisect_right(numbers, number)
    return numbers[k] if k < len(numbers) else None
