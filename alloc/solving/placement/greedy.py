"""Waiting gangs put down by the rules that schedulers use: first fit, best fit, FGD, tightest host.

A search that starts from the best of them is never worse than any. Gangs go down one after the
other, so what is worked out for one serves the next: how many tasks of a demand fit on each host,
and what a task costs there, change on the hosts of the last gang alone. Gangs with slices, spreads
or affinities are put down by `Gangs.insert`, which knows every rule.

References
----------
Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", ATC 2023, for FGD, here with the mix of the instance and whole gangs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import numpy as np

from alloc.formulation import Array
from alloc.objectives.fragmentation import Shape, fragments, mix_of
from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.gangs import Gangs, Tasks
from alloc.solving.placement.terms import Counts
from alloc.topology.topology import HOST
from alloc.units import MILLI, RESOURCES

HostRule = Literal["tightest", "first_fit", "best_fit", "fgd"]
DomainRule = Literal["first", "fullest"]
Rule = tuple[HostRule, DomainRule]
"""Which hosts are filled first, and which domain holds a gang that must stand in one."""
RULES: tuple[Rule, ...] = (
    ("tightest", "fullest"),
    ("first_fit", "first"),
    ("best_fit", "first"),
    ("best_fit", "fullest"),
    ("fgd", "first"),
    ("fgd", "fullest"),
)

_FEW_SHAPES = 64
"""Shapes of tasks up to which FGD is tried: each is looked at for each new state of a host."""


@dataclass(frozen=True)
class Plan:
    """How many tasks of each size each host should take.

    Parameters
    ----------
    sizes
        GPUs of a task of each size.
    tasks
        Shape (hosts, sizes).
    """

    sizes: tuple[int, ...]
    tasks: Counts


def put_down_along(gangs: Gangs, jobs: Sequence[int], plan: Plan) -> None:
    """Put jobs that do not stand down along a plan as far as it goes, the rest by best fit.

    Parameters
    ----------
    gangs
        What stands; the jobs are added.
    jobs
        Positions of jobs.
    plan
        What hosts should take.
    """
    rule: Rule = ("best_fit", "fullest")
    planned, free = _Greedy(gangs, rule, plan), list[int]()
    for job in jobs:
        if not planned.put_down(job):
            free.append(job)
    put_down_by(gangs, free, rule)


def put_down_by(gangs: Gangs, jobs: Sequence[int], rule: Rule) -> None:
    """Put jobs that do not stand on hosts, in their order and by a rule, as far as there is room.

    Parameters
    ----------
    gangs
        What stands; the jobs are added.
    jobs
        Positions of jobs.
    rule
        The hosts that are filled first. ``tightest``: that with the least room of those that hold
        all, or else those with the most; ``first_fit``: as they come; ``best_fit``: the fullest;
        ``fgd``: those whose free GPUs lose the least use. And the domain with room, the first or
        the fullest.
    """
    greedy = _Greedy(gangs, rule)
    for job in jobs:
        greedy.put_down(job)


def rules_for(problem: Problem) -> Iterator[Rule]:
    """Yield the rules that are worth trying on a problem."""
    few = len(mix_of(problem.instance)) <= _FEW_SHAPES
    yield from (rule for rule in RULES if few or rule[0] != "fgd")


T = TypeVar("T", Counts, Array)


@dataclass
class _Numbers(Generic[T]):
    """A number for each host, and up to which change of hosts it is right."""

    values: T
    seen: int


class _Greedy:
    def __init__(self, gangs: Gangs, rule: Rule, plan: Plan | None = None) -> None:
        self.gangs = gangs
        self.rule, self.domains = rule
        self.data = gangs.problem.data
        self.topology = gangs.topology
        self.free = self.topology.capacity - gangs.used
        self._changed: list[int] = []
        self._rooms: dict[tuple[object, ...], _Numbers[Counts]] = {}
        self._losses: dict[bytes, _Numbers[Array]] = {}
        self._in_domain: dict[tuple[str, ...], tuple[Counts, list[Counts]]] = {}
        self._planned = None if plan is None else plan.tasks.copy()
        self._column = {} if plan is None else {size: s for s, size in enumerate(plan.sizes)}
        self._loss = _Loss(gangs.problem) if self.rule == "fgd" else None

    def put_down(self, job: int) -> bool:
        """Put a job down; return whether there was room."""
        its = self.gangs.problem.instance.jobs[job]
        if its.placement.slices or its.placement.spread or job in self.gangs.affinities_of:
            if not self.gangs.insert(job):
                return False
            for hosts, _ in self.gangs.placed[job][1].values():
                self._touch(hosts)
            return True
        for configuration in self.gangs.ways(job):
            if not self.gangs.within_quota(job, configuration):
                continue
            tasks = self._find(job, configuration)
            if tasks is not None:
                self.gangs.restore(job, (configuration, tasks))
                return True
        return False

    def _find(self, job: int, configuration: int) -> Tasks | None:
        """Take hosts for a job, or return None where there is no room."""
        demand = self.data.demand
        rows = self.gangs.problem.rows_of[job, configuration]
        # The most demanding groups go first: the others fit into what is left.
        rows = sorted(rows, key=lambda k: tuple(demand[k]), reverse=True)
        for hosts in self._places(job, configuration, rows[0]):
            made: Tasks = {}
            for k in rows:
                where = self._hosts(k, hosts)
                if where is None:
                    break
                made[k] = where
                self._take(k, where, 1)
            else:
                return made
            for k, where in made.items():
                self._take(k, where, -1)
        return None

    def _take(self, k: int, where: tuple[Counts, Counts], sign: int) -> None:
        hosts, number = where
        self.free[hosts] -= sign * number[:, None] * self.data.demand[k]
        if self._planned is not None and (column := self._size_of(k)) is not None:
            self._planned[hosts, column] -= sign * number
        self._touch(hosts)

    def _size_of(self, k: int) -> int | None:
        """Return the column of a group's size in the plan; None for tasks without GPUs."""
        return self._column.get(int(self.data.demand[k, 0]) // MILLI)

    def _places(self, job: int, configuration: int, k: int) -> Iterator[Counts | None]:
        """Yield hosts of which a job may take any, in the order to be tried; None: all hosts."""
        levels = self.data.levels_required(job, configuration)
        room = self._room(k)
        count = int(self.data.count[k])
        if not levels:
            if int(room.sum()) >= count:
                yield None
            return
        domain, hosts_of = self._domains_of(levels)
        fitting = np.flatnonzero(np.bincount(domain, room)[1:] >= count)
        if self.domains == "fullest" and len(fitting) > 1:
            left = self.free[:, : len(RESOURCES)].sum(axis=1)
            fitting = fitting[np.argsort(np.bincount(domain, left)[1:][fitting], kind="stable")]
        yield from (hosts_of[d] for d in fitting.tolist())

    def _domains_of(self, levels: tuple[str, ...]) -> tuple[Counts, list[Counts]]:
        """Return each host's domain of the innermost level, from 1, and each domain's hosts.

        Hosts outside a domain of any of the levels have 0.
        """
        if levels not in self._in_domain:
            table = self.topology.domain_of_host
            innermost = max(levels, key=(*self.topology.levels, HOST).index)
            inside = np.logical_and.reduce([table[level] >= 0 for level in levels])
            domain = np.where(inside, table[innermost], -1) + 1
            cuts = np.cumsum(np.bincount(domain))
            hosts_of = np.split(np.argsort(domain, kind="stable"), cuts[:-1])[1:]
            self._in_domain[levels] = (domain, hosts_of)
        return self._in_domain[levels]

    def _hosts(self, k: int, hosts: Counts | None) -> tuple[Counts, Counts] | None:
        """Return the hosts that a group's tasks go to, of those given, and how many to each."""
        room, count = self._room(k), int(self.data.count[k])
        open_ = np.flatnonzero(room) if hosts is None else hosts[room[hosts] > 0]
        there = room[open_]
        match self.rule:
            case "tightest":
                whole = there >= count
                order = np.lexsort((np.where(whole, 0, -there), ~whole))
            case "best_fit":
                order = np.argsort(self.free[open_, 0], kind="stable")
            case "fgd":
                order = np.lexsort((self.free[open_, 0], self._gradient(k)[open_]))
            case _:
                order = np.arange(len(open_))
        filled = np.minimum(np.cumsum(there[order]), count)
        if not len(filled) or filled[-1] < count:
            return None
        number = np.diff(filled, prepend=0)
        taken = number > 0
        return open_[order[taken]], number[taken]

    def _room(self, k: int) -> Counts:
        """Return how many tasks of a group fit on each host."""
        demand = self.data.demand[k]
        key = (demand.tobytes(), self.data.allowed_key(k))
        known = self._rooms.get(key)
        if known is None:
            known = self._rooms[key] = _Numbers(np.zeros(len(self.free), dtype=np.int64), 0)
            stale: Counts | slice = slice(None)
        elif known.seen == len(self._changed):
            return known.values
        else:
            stale = np.array(self._changed[known.seen :])
        needed = demand > 0
        # No more than any gang asks for, where a task asks for nothing.
        most = int(self.data.count.max())
        room = np.full(len(self.free[stale]), most, dtype=np.int64)
        if needed.any():
            room = (self.free[stale][:, needed] // demand[needed]).min(axis=1)
        if self._planned is not None and (column := self._size_of(k)) is not None:
            room = np.minimum(room, self._planned[stale, column])
        known.values[stale] = np.where(self.data.allowed_on(k)[stale], np.clip(room, 0, most), 0)
        known.seen = len(self._changed)
        return known.values

    def _gradient(self, k: int) -> Array:
        """Return by how much one task of a group on each host raises the GPUs without use."""
        assert self._loss is not None
        demand = self.data.demand[k]
        known = self._losses.get(demand.tobytes())
        if known is None:
            known = self._losses[demand.tobytes()] = _Numbers(np.zeros(len(self.free)), 0)
            stale = np.arange(len(self.free))
        else:
            stale = np.unique(np.array(self._changed[known.seen :], dtype=np.int64))
        before = self.free[stale]
        after = np.maximum(before - demand, 0)
        known.values[stale] = self._loss.of(stale, after) - self._loss.of(stale, before)
        known.seen = len(self._changed)
        return known.values

    def _touch(self, hosts: Counts) -> None:
        self._changed += hosts.tolist()


class _Loss:
    """GPUs that are free on hosts and that a task of the mix could not use, by what is free."""

    def __init__(self, problem: Problem) -> None:
        topology = problem.instance.topology
        self._mix: dict[Shape, float] = mix_of(problem.instance)
        self._types = np.array([str(t) for t in topology.gpu_types])
        self._type_of = np.unique(self._types, return_inverse=True)[1].tolist()
        self._known: dict[tuple[int, tuple[int, ...]], float] = {}

    def of(self, hosts: Counts, free: Counts) -> Array:
        """Return them for hosts with so much free, milli-GPU, shape (hosts,)."""
        rows = free[:, : len(RESOURCES)].tolist()
        keys = [(self._type_of[h], tuple(row)) for h, row in zip(hosts.tolist(), rows, strict=True)]
        new = {
            key: h for key, h in zip(keys, hosts.tolist(), strict=True) if key not in self._known
        }
        if new:
            gpus = np.array([row[0] for _, row in new]) // MILLI
            whole = MILLI * (np.arange(max(int(gpus.max()), 1)) < gpus[:, None])
            host_free = np.array([row[1:] for _, row in new])
            lost = fragments(self._mix, self._types[list(new.values())], host_free, whole)
            self._known.update(zip(new, lost.tolist(), strict=True))
        return np.array([self._known[key] for key in keys])
