"""Putting a choice of configurations on hosts.

Part of the kind ``job-set/1``. Where all tasks go on any host that has room, they are dealt out
over the hosts in whole arrays, kind by kind, the most demanding first. All else - GPU types,
levels, shared GPUs, quotas, restarts that cost - goes job by job through the pool of hosts, and so
does a gang that the deal leaves without room: it takes the best of its configurations that fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import attrgetter, is_

import numpy as np

from alloc.packing import HostPool
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers.learned.job_set_ladders import Array, Index, JobLadder, LadderBook
from alloc.schedulers.state import ClusterState, JobView
from alloc.topology import Topology
from alloc.workload import NO_RULES

_COUNT_BITS = 32
"""Low half of a code of 64 bits: counts of tasks are at most a million, and host and kind have the
other half.
"""
_RESTART_COST = attrgetter("restart_cost_s")
_RULES = attrgetter("placement")


def usher_for(topology: Topology, known: Usher | None) -> Usher:
    """Return the usher of a cluster: the one that is known, if it is for that cluster.

    Parameters
    ----------
    topology
        The cluster.
    known
        The usher of an earlier round, if there was one.
    """
    if known is not None and known.book.topology is topology:
        return known
    return Usher(LadderBook(topology))


class Usher:
    """Seats gangs on the hosts of the cluster of a book of ladders."""

    def __init__(self, book: LadderBook) -> None:
        self.book = book
        self._hosts = [host.id for host in book.topology.hosts]
        # Placements already made, by host, kind and count: equal ones are one object.
        self._tasks: dict[int, TaskPlacement] = {}
        self._kinds = book.kinds

    def seat(
        self,
        state: ClusterState,
        views: Sequence[JobView],
        table: Index,
        column: Index,
        score: Array,
    ) -> list[Assignment]:
        """Return the assignments of a choice; takes them from ``state.pool``.

        Parameters
        ----------
        state, views
            The state, whose pool already carries the jobs that keep what they have, and the others.
        table, column
            Ladder of each, and the column chosen for it, -1 for none, shape (jobs,).
        score
            Score of each job in each column before prices, shape (jobs, C): a gang that finds no
            room is made smaller by it.
        """
        chosen = np.flatnonzero(column >= 0)
        seating = _OneByOne(state, views, [self.book.ladders[t] for t in table], score)
        if self._may_deal(state, views, table[chosen]):
            dealt, missed = self._deal(state.pool, views, table, column, chosen)
        else:
            wanted = chosen.tolist()
            dealt = seating.keep(wanted, column)
            stays = {assignment.job for assignment in dealt}
            missed = [j for j in wanted if views[j].id not in stays]
        seated = dealt + seating.seat(missed, column)
        # Where nothing fits that was chosen, the first job that can start does: no standstill.
        return seated or seating.rescue(range(len(views)))

    def _may_deal(self, state: ClusterState, views: Sequence[JobView], table: Index) -> bool:
        return (
            not state.quotas
            and not state.pool.open_gpus
            and not state.topology.cluster_columns
            and not state.pool.cut.on_host
            and bool(self.book.plain[table].all())
            and not any(map(_RESTART_COST, views))
            and (
                all(map(is_, map(_RULES, views), repeat(NO_RULES)))
                or not any(view.placement.required for view in views)
            )
        )

    def _deal(
        self, pool: HostPool, views: Sequence[JobView], table: Index, column: Index, chosen: Index
    ) -> tuple[list[Assignment], list[int]]:
        """Deal out all tasks; return the assignments, and the jobs that found no room."""
        counts = self.book.counts[:, table[chosen], column[chosen]]
        parts: list[tuple[Index, ...]] = []
        missed = np.zeros(len(chosen), dtype=bool)
        free = pool.free
        for k, (_, demand) in enumerate(self.book.kinds):
            wanted = np.where(missed, 0, counts[k])
            if not wanted.any():
                continue
            needed = np.array(demand)
            asked = needed > 0
            room = (
                np.maximum((free[:, asked] // needed[asked]).min(axis=1), 0)
                if asked.any()
                else np.full(len(free), int(wanted.sum()))
            )
            # Hosts with fewer free GPUs first: CPU tasks fill them up and leave GPU hosts whole.
            order = np.argsort(free[:, 0], kind="stable")
            order = order[room[order] > 0]
            there = np.cumsum(room[order])
            ends = np.cumsum(wanted)
            if not len(there) or ends[-1] > there[-1]:
                beyond = (ends > (there[-1] if len(there) else 0)) & (wanted > 0)
                missed |= beyond
                wanted = np.where(beyond, 0, wanted)
                ends = np.cumsum(wanted)
            if not ends[-1]:
                continue
            # Cut the row of tasks at the end of every job and of every host.
            cuts = np.union1d(ends[wanted > 0], there[there < ends[-1]])
            job = np.searchsorted(ends, cuts, side="left")
            host = order[np.searchsorted(there, cuts, side="left")]
            count = np.diff(cuts, prepend=0)
            free -= (
                np.bincount(host, weights=count, minlength=len(free)).astype(np.int64)[:, None]
                * needed
            )
            parts.append((job, host, count, np.full(len(job), k)))
        if not parts:
            return [], chosen.tolist()
        # Make assignments of the parts, and give back what jobs without room had been dealt.
        job, host, count, kind = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(job, kind="stable")
        placed = self._placements(host[order], kind[order], count[order])
        ends = np.cumsum(np.bincount(job, minlength=len(chosen))).tolist()
        begins = [0, *ends[:-1]]
        ladders = [self.book.ladders[t] for t in table[chosen].tolist()]
        columns = column[chosen].tolist()
        positions = [ladder.positions[c] for ladder, c in zip(ladders, columns, strict=True)]
        for k in np.flatnonzero(missed).tolist():
            way = ladders[k].configurations[positions[k]]
            pool.release(way, placed[begins[k] : ends[k]])
        dealt = [
            Assignment(views[j].id, position, tuple(placed[start:end]))
            for j, position, start, end, gone in zip(
                chosen.tolist(), positions, begins, ends, missed.tolist(), strict=True
            )
            if not gone
        ]
        return dealt, chosen[missed].tolist()

    def _placements(self, host: Index, kind: Index, count: Index) -> list[TaskPlacement]:
        """Return the placements of tasks, as so many as there are hosts."""
        if self._kinds is not self.book.kinds:
            self._tasks.clear()
            self._kinds = self.book.kinds
        known = self._tasks
        codes = (((host * len(self._kinds) + kind) << _COUNT_BITS) + count).tolist()
        try:
            return [known[code] for code in codes]
        except KeyError:
            for code, h, k, n in zip(
                codes, host.tolist(), kind.tolist(), count.tolist(), strict=True
            ):
                if code not in known:
                    known[code] = TaskPlacement(self._hosts[h], self._kinds[k][0], n)
            return [known[code] for code in codes]


class _OneByOne:
    """Seats gangs one after the other, each in the best configuration that still fits."""

    def __init__(
        self,
        state: ClusterState,
        views: Sequence[JobView],
        ladders: Sequence[JobLadder],
        score: Array,
    ) -> None:
        self._state = state
        self._views = views
        self._ladders = ladders
        self._score = score
        self._held = dict.fromkeys(state.quotas, 0)
        for view in state.jobs if state.quotas else ():
            # What must not be paused was taken from the pool before.
            if view.current is not None and not view.preemptible:
                self._hold(view, view.configurations[view.current.configuration].demand[0])

    def keep(self, chosen: Iterable[int], column: Index) -> list[Assignment]:
        """Leave jobs whose configuration stays on their hosts, as far as those fit."""
        kept = []
        pool = self._state.pool
        for j in chosen:
            view, ladder = self._views[j], self._ladders[j]
            current = view.current
            position = ladder.positions[column[j]]
            if current is None or current.configuration != position or not current.tasks:
                continue
            way = ladder.configurations[position]
            if self._allows(view, way.demand[0]) and pool.fits(way, current.tasks):
                pool.take(way, current.tasks)
                self._hold(view, way.demand[0])
                kept.append(current)
        return kept

    def seat(self, jobs: Iterable[int], column: Index) -> list[Assignment]:
        """Seat jobs, the largest demand first: what is tied to one domain needs it whole."""

        def order(j: int) -> tuple[bool, list[int]]:
            ladder, c = self._ladders[j], column[j]
            way = ladder.configurations[ladder.positions[c]]
            tied = way.within is not None or self._views[j].placement.required is not None
            return tied, ladder.demand[c].tolist()

        seated = (self._seat(j, int(column[j])) for j in sorted(jobs, key=order, reverse=True))
        return [assignment for assignment in seated if assignment is not None]

    def rescue(self, jobs: Iterable[int]) -> list[Assignment]:
        """Seat the first job that fits in any of its configurations that are worth something."""
        for j in jobs:
            assignment = self._try(j, self._falling(j))
            if assignment is not None:
                return [assignment]
        return []

    def _seat(self, j: int, chosen: int) -> Assignment | None:
        """Seat a job as chosen, or smaller: more would take what others were given."""
        score = self._score[j]
        smaller = [c for c in self._falling(j) if score[c] <= score[chosen] and c != chosen]
        return self._try(j, [chosen, *smaller])

    def _falling(self, j: int) -> list[int]:
        """Return the columns of a job that are worth something, the best first."""
        score = self._score[j, : len(self._ladders[j].positions)]
        return [int(c) for c in np.argsort(-score, kind="stable") if score[c] > 0]

    def _try(self, j: int, columns: Iterable[int]) -> Assignment | None:
        view, ladder = self._views[j], self._ladders[j]
        for c in columns:
            way = ladder.configurations[ladder.positions[c]]
            if not self._allows(view, way.demand[0]):
                continue
            tasks = self._state.pool.place(way, required=view.placement.required)
            if tasks is not None:
                self._hold(view, way.demand[0])
                return Assignment(view.id, ladder.positions[c], tasks)
        return None

    def _allows(self, view: JobView, gpu_milli: int) -> bool:
        quota = None if view.tenant is None else self._state.quotas.get(view.tenant)
        return quota is None or self._held[view.tenant or ""] + gpu_milli <= quota

    def _hold(self, view: JobView, gpu_milli: int) -> None:
        if view.tenant in self._held and view.tenant is not None:
            self._held[view.tenant] += gpu_milli
