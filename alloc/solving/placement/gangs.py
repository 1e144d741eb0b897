"""Whole gangs put on hosts and taken off, by every rule of placement.

Single moves keep to the rules that a host or a domain can check by itself. What ties tasks or jobs
together is kept here: a job is put down whole where its required levels, slices, spread, affinities
and quotas hold, or not at all.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.terms import Counts
from alloc.topology.topology import HOST
from alloc.units import RESOURCES
from alloc.workload import Slice

Mask = npt.NDArray[np.bool_]
Tasks = dict[int, tuple[Counts, Counts]]
"""For each task group of a gang, the hosts that it has tasks on, and how many on each."""


class Gangs:
    """Jobs on hosts.

    Parameters
    ----------
    problem
        The problem.
    counts
        Where tasks stand, shape (groups, hosts).
    """

    def __init__(self, problem: Problem, counts: csr_array) -> None:
        self.problem = problem
        self.topology = problem.instance.topology
        self._used = problem.used(counts)
        self._not_counted: list[tuple[Tasks, int]] = []
        self._standing = counts
        self._ends: list[int] = counts.indptr.tolist()
        # Jobs that do not stand as they did in the beginning, and how others stand.
        self._changed: set[int] = set()
        self._tasks: dict[int, Tasks] = {}
        self.affinities_of: dict[int, list[int]] = {}
        index = problem.instance.job_index
        for a, affinity in enumerate(problem.instance.affinities):
            for job in affinity.jobs:
                self.affinities_of.setdefault(index[job], []).append(a)
        self.tenants = {t.name: t for t in problem.instance.tenants}
        self.held = dict.fromkeys(self.tenants, 0)
        self.cluster = list(self.topology.cluster_columns)
        self.cluster_left = self.topology.totals[self.cluster]
        standing, data = np.flatnonzero(np.diff(counts.indptr)), problem.data
        jobs, ways = data.job_of[standing].tolist(), data.configuration_of[standing].tolist()
        self.placed: dict[int, int] = dict(zip(jobs, ways, strict=True))
        """Configuration of each job that stands, those put down last at the end."""
        if self.tenants or self.cluster:
            for j, c in self.placed.items():
                self._charge(j, c, 1)

    @property
    def used(self) -> Counts:
        """What tasks use of each host, shape (hosts, resources)."""
        for tasks, sign in self._not_counted:
            for k, (hosts, number) in tasks.items():
                self._used[hosts] += sign * number[:, None] * self.problem.data.demand[k]
        self._not_counted.clear()
        return self._used

    def copy(self) -> Gangs:
        """Return the same jobs on the same hosts, to be changed by itself."""
        other = copy.copy(self)
        copied = ("_used", "_not_counted", "placed", "held", "cluster_left", "_changed", "_tasks")
        for name in copied:
            setattr(other, name, getattr(self, name).copy())
        return other

    def counts(self) -> csr_array:
        """Return where tasks stand, shape (groups, hosts)."""
        job_of = self.problem.data.job_of
        group = np.repeat(np.arange(len(job_of)), np.diff(self._standing.indptr))
        stays = ~np.isin(job_of[group], list(self._changed))
        rows, columns = [group[stays]], [self._standing.indices[stays]]
        numbers = [self._standing.data[stays]]
        for tasks in self._tasks.values():
            for k, (hosts, number) in tasks.items():
                rows.append(np.full(len(hosts), k))
                columns.append(hosts)
                numbers.append(number)
        index = (np.concatenate(rows), np.concatenate(columns))
        return csr_array((np.concatenate(numbers), index), shape=self._standing.shape)

    def tasks_of(self, job: int) -> Tasks:
        """Return where the tasks of a job are that stands."""
        if job in self._tasks:
            return self._tasks[job]
        ends, rows = self._ends, self.problem.rows_of[job, self.placed[job]]
        return {k: _between(self._standing, ends[k], ends[k + 1]) for k in rows}

    def remove(self, job: int) -> tuple[int, Tasks]:
        """Take a job off its hosts; return how it stood, for `restore`."""
        tasks, configuration = self.tasks_of(job), self.placed.pop(job)
        self._changed.add(job)
        self._tasks.pop(job, None)
        self._not_counted.append((tasks, -1))
        self._charge(job, configuration, -1)
        return configuration, tasks

    def restore(self, job: int, stood: tuple[int, Tasks]) -> None:
        """Put a job where it stood.

        Parameters
        ----------
        job
            Number of the job, which stands nowhere.
        stood
            How it stood, as it was taken off: its configuration, and hosts and tasks of each group.
        """
        self.placed[job], self._tasks[job] = stood
        self._changed.add(job)
        self._not_counted.append((stood[1], 1))
        self._charge(job, stood[0], 1)

    def insert(
        self, job: int, rng: np.random.Generator | None = None, *, home: bool = True
    ) -> bool:
        """Put a job on hosts by the first way that keeps every rule; return whether there is one.

        Parameters
        ----------
        job
            Position of the job; it does not stand.
        rng
            Shuffles what is tried first; None: largest configurations and tightest domains first.
        home
            Whether to try first where it ran before.
        """
        for configuration in self.ways(job):
            if not self.within_quota(job, configuration):
                continue
            masks = list(self._masks(job, configuration, home and rng is None))
            if rng is not None:
                rng.shuffle(masks)
            for mask in masks:
                tasks = self._fill(job, configuration, mask, rng)
                if tasks is not None:
                    self.restore(job, (configuration, tasks))
                    return True
        return False

    def ways(self, job: int) -> list[int]:
        """Return the configurations in which a job may run, the most GPUs first."""
        its = self.problem.instance.jobs[job]
        running = self.problem.data.running.get(job)
        if running is not None and its.elasticity != "malleable":
            return [running.configuration]
        ways = [c for c, configuration in enumerate(its.configurations) if configuration.rate > 0]
        return sorted(ways, key=lambda c: its.configurations[c].demand, reverse=True)

    def _charge(self, job: int, configuration: int, sign: int) -> None:
        its = self.problem.instance.jobs[job]
        if its.tenant in self.held:
            self.held[its.tenant] += sign * its.configurations[configuration].demand[0]
        for k, r in enumerate(self.cluster):
            self.cluster_left[k] -= sign * its.configurations[configuration].demand[r]

    def within_quota(self, job: int, configuration: int) -> bool:
        """Return whether quotas and the cluster's own resources allow a job to run.

        Parameters
        ----------
        job
            Number of the job, which stands nowhere.
        configuration
            The configuration that it is to run in.
        """
        its = self.problem.instance.jobs[job]
        asked = its.configurations[configuration].demand
        if any(asked[r] > self.cluster_left[k] for k, r in enumerate(self.cluster)):
            return False
        if its.tenant not in self.tenants:
            return True
        tenant = self.tenants[its.tenant]
        gpu = asked[0]
        if self.held[tenant.name] + gpu > tenant.gpu_quota_milli + tenant.borrowing_milli:
            return False
        if tenant.cohort is None:
            return True
        members = [t for t in self.tenants.values() if t.cohort == tenant.cohort]
        held = sum(self.held[t.name] for t in members)
        return held + gpu <= sum(t.gpu_quota_milli for t in members)

    def _masks(self, job: int, configuration: int, home: bool) -> Iterator[Mask]:
        """Yield sets of hosts that keep required levels and affinities, each to be tried."""
        instance, topology = self.problem.instance, self.topology
        base = np.ones(topology.num_hosts, dtype=bool)
        levels = list(self.problem.data.levels_required(job, configuration))
        for a in self.affinities_of.get(job, ()):
            affinity = instance.affinities[a]
            domain = topology.domain_of_host[affinity.level]
            hosts = self._hosts_of([instance.job_index[j] for j in affinity.jobs])
            if affinity.kind == "apart":
                base &= ~np.isin(domain, domain[hosts])
            elif hosts.any():
                base &= np.isin(domain, domain[hosts]) & (domain >= 0)
            else:
                levels.append(affinity.level)
        if home and job in self.problem.data.running:
            rows = self.problem.rows_of[job, configuration]
            ran = np.asarray(self.problem.data.initial[rows].sum(axis=0)).ravel() > 0
            yield base & ran
        if not levels:
            yield base
            return
        for level in levels:
            base = base & (topology.domain_of_host[level] >= 0)
        innermost = topology.domain_of_host[max(levels, key=(*topology.levels, HOST).index)]
        need = np.array(instance.jobs[job].configurations[configuration].demand)
        need[self.cluster] = 0
        free = np.zeros((int(innermost.max()) + 1, len(need)), dtype=np.int64)
        room = np.maximum(topology.capacity - self.used, 0)
        np.add.at(free, innermost[base], room[base])
        roomy = np.flatnonzero((free >= need).all(axis=1))
        for d in roomy[
            np.argsort(free[roomy, : len(RESOURCES)].sum(axis=1), kind="stable")
        ].tolist():
            yield base & (innermost == d)

    def _hosts_of(self, jobs: list[int]) -> Mask:
        hosts = np.zeros(self.topology.num_hosts, dtype=bool)
        for j in jobs:
            if j in self.placed:
                for where, _ in self.tasks_of(j).values():
                    hosts[where] = True
        return hosts

    def _fill(
        self, job: int, configuration: int, mask: Mask, rng: np.random.Generator | None
    ) -> Tasks | None:
        """Return the tasks of a job on hosts of a mask, or None where they find no room."""
        its = self.problem.instance.jobs[job]
        way = its.configurations[configuration]
        free = self.topology.capacity - self.used
        spread = {
            limit.level: np.full(
                int(self.topology.domain_of_host[limit.level].max()) + 1, limit.most
            )
            for limit in its.placement.spread
        }
        made: Tasks = {}
        rows = self.problem.rows_of[job, configuration]
        # The most demanding groups go first: the others fit into what is left.
        for k in sorted(rows, key=lambda k: tuple(self.problem.data.demand[k]), reverse=True):
            group = self.problem.data.groups[k].tasks
            ruled = group in way.ruled_groups
            room = self._room(k, free, mask & self.problem.data.allowed_on(k))
            slices = its.placement.slices if ruled else ()
            dealer = _Dealer(self.topology.domain_of_host, spread if ruled else {}, rng)
            where, number = _entries(self.problem.data.initial, k)
            dealer.favoured = np.zeros(len(free), dtype=np.int64)
            dealer.favoured[where] = number
            row = dealer.deal(room, group.count, slices)
            if row is None:
                return None
            where = np.flatnonzero(row)
            made[k] = (where, row[where])
            free = free - row[:, None] * self.problem.data.demand[k]
        return made

    def _room(self, k: int, free: Counts, mask: Mask) -> Counts:
        demand = self.problem.data.demand[k]
        needed = demand > 0
        most = int(self.problem.data.count[k])
        room = np.full(len(free), most, dtype=np.int64)
        if needed.any():
            room = np.minimum(room, (free[:, needed] // demand[needed]).min(axis=1))
        return np.where(mask, np.maximum(room, 0), 0)


def _entries(counts: csr_array, k: int) -> tuple[Counts, Counts]:
    """Return the hosts of a group and its tasks there, without the cost of slicing a matrix."""
    return _between(counts, counts.indptr[k], counts.indptr[k + 1])


def _between(counts: csr_array, first: int, end: int) -> tuple[Counts, Counts]:
    return counts.indices[first:end], counts.data[first:end]


class _Dealer:
    """Deals the tasks of one group out over hosts, slice by slice."""

    def __init__(
        self,
        domains: Mapping[str, Counts],
        spread: dict[str, Counts],
        rng: np.random.Generator | None,
    ) -> None:
        self.domains = domains
        self.spread = spread
        self.rng = rng
        self.favoured: Counts | None = None

    def deal(self, room: Counts, tasks: int, slices: tuple[Slice, ...]) -> Counts | None:
        """Return the tasks on each host, or None; spreads take note of what was dealt."""
        if slices:
            first, rest = slices[0], slices[1:]
            return self._sliced(room, tasks, first, rest)
        return self._plain(room, tasks)

    def _plain(self, room: Counts, tasks: int) -> Counts | None:
        row = np.zeros_like(room)
        for h in self._order(room, tasks).tolist():
            number = min(tasks - int(row.sum()), int(room[h]), self._left(h))
            if number > 0:
                row[h] += number
                self._note(h, number)
            if row.sum() == tasks:
                return row
        self._undo(row)
        return None

    def _sliced(
        self, room: Counts, tasks: int, cut: Slice, rest: tuple[Slice, ...]
    ) -> Counts | None:
        domain = self.domains[cut.level]
        inside = np.where(domain >= 0, room, 0)
        total = np.zeros(int(domain.max()) + 1, dtype=np.int64)
        np.add.at(total, domain[domain >= 0], inside[domain >= 0])
        row = np.zeros_like(room)
        order = np.argsort(-total, kind="stable")
        if self.rng is not None:
            order = self.rng.permutation(order)
        for d in order.tolist():
            here = np.where(domain == d, room, 0)
            while row.sum() < tasks:
                # The most slices that may do first, then one by one.
                part = None
                most = min(tasks - int(row.sum()), int(here.sum()) // cut.size * cut.size)
                for number in dict.fromkeys((most, cut.size)):
                    if number >= cut.size:
                        part = self.deal(here, number, rest)
                    if part is not None:
                        break
                if part is None:
                    break
                row += part
                here = here - part
            if row.sum() == tasks:
                return row
        self._undo(row)
        return None

    def _order(self, room: Counts, tasks: int) -> Counts:
        """Return hosts in the order in which they are filled."""
        hosts = np.flatnonzero(room)
        if self.rng is not None:
            return self.rng.permutation(hosts)
        favoured = np.zeros(len(hosts)) if self.favoured is None else self.favoured[hosts]
        # Where tasks ran before; then a host that takes them all, the tightest; then the roomiest.
        whole = room[hosts] >= tasks
        return hosts[np.lexsort((np.where(whole, 0, -room[hosts]), ~whole, -favoured))]

    def _left(self, h: int) -> int:
        """Return how many more tasks spreads allow on a host."""
        return min(
            (
                int(left[self.domains[level][h]])
                for level, left in self.spread.items()
                if self.domains[level][h] >= 0
            ),
            default=1 << 30,
        )

    def _note(self, h: int, number: int) -> None:
        for level, left in self.spread.items():
            if self.domains[level][h] >= 0:
                left[self.domains[level][h]] -= number

    def _undo(self, row: Counts) -> None:
        for h in np.flatnonzero(row).tolist():
            self._note(h, -int(row[h]))
