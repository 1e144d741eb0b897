"""Waiting gangs put down by the rules that schedulers use: first fit, best fit, FGD, tightest host.

A search that starts from the best of them is never worse than any. Gangs go down one after the
other, and only the hosts that one fills look different to the next (`seen_hosts`). Gangs with
slices, spreads or affinities are put down by `Gangs.insert`, which knows every rule.

References
----------
Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", ATC 2023, for FGD, here with whole gangs, and with the mix of the instance or its shapes
of tasks alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.gangs import Gangs, Tasks
from alloc.solving.placement.seen_hosts import (
    Domains,
    Key,
    SeenHosts,
    State,
    States,
    places_of,
)
from alloc.solving.placement.terms import Counts
from alloc.topology.topology import HOST
from alloc.units import MILLI, RESOURCES
from alloc.workload import PlacementRules

HostRule = Literal["tightest", "first_fit", "best_fit", "fgd", "fgd_whole"]
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
    ("fgd_whole", "first"),
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
    places
        Jobs that go to a domain, the configuration, and the number of the domain.
    """

    sizes: tuple[int, ...]
    tasks: Counts
    places: tuple[tuple[int, int, int], ...] = ()


class HostStates:
    """The states that hosts are in before gangs are put down, for every rule that starts there.

    Parameters
    ----------
    gangs
        What stands.
    """

    def __init__(self, gangs: Gangs) -> None:
        self.states = States()
        free = gangs.topology.capacity - gangs.used
        rows = np.column_stack([gangs.problem.lost.type_of, free])
        # Few states are many hosts'.
        distinct, which = np.unique(rows, axis=0, return_inverse=True)
        numbers = np.array([self.states.number(tuple(state)) for state in distinct.tolist()])
        self.state: list[int] = numbers[which.ravel()].tolist()
        self.places: dict[tuple[str, ...], tuple[list[int], tuple[list[int], ...]]] = {}
        """What `Domains` says of hosts, by the levels that a gang must stand in."""


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
    for job, configuration, domain in plan.places:
        planned.put_into(job, configuration, domain)
    for job in jobs:
        if job not in gangs.placed and not planned.put_down(job):
            free.append(job)
    put_down_by(gangs, free, rule)


def put_down_by(
    gangs: Gangs, jobs: Sequence[int], rule: Rule, before: HostStates | None = None
) -> None:
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
        ``fgd``: those whose free GPUs lose the least use, to the mix of the instance;
        ``fgd_whole``: when as many tasks of each shape as fit have come. And the domain with room,
        the first or the fullest.
    before
        The states of hosts as the gangs stand, if they are known.
    """
    greedy = _Greedy(gangs, rule, before=before)
    for job in jobs:
        greedy.put_down(job)


def has_own_rules(gangs: Gangs, job: int) -> bool:
    """Return whether a job has slices, spreads or affinities: only `Gangs.insert` knows these.

    Parameters
    ----------
    gangs
        The jobs on hosts, with their affinities.
    job
        Number of the job.
    """
    rules = gangs.problem.instance.jobs[job].placement
    return bool(rules.slices or rules.spread) or job in gangs.affinities_of


def rules_for(problem: Problem) -> Iterator[Rule]:
    """Yield the rules that are worth trying on a problem."""
    few = len(problem.lost.mix) <= _FEW_SHAPES
    yield from (rule for rule in RULES if few or not rule[0].startswith("fgd"))


class _Greedy:
    def __init__(
        self,
        gangs: Gangs,
        rule: Rule,
        plan: Plan | None = None,
        before: HostStates | None = None,
    ) -> None:
        self.gangs = gangs
        self.rule, self.domains = rule
        self.data = gangs.problem.data
        self.topology = gangs.topology
        # No more than any gang asks for, where a task asks for nothing.
        self._most = int(self.data.count.max())
        before = HostStates(gangs) if before is None else before
        self._before, self._states, self._state = before, before.states, [*before.state]
        self._changed: list[int] = []
        self._seen: dict[tuple[object, ...], SeenHosts] = {}
        self._seen_by: dict[int, SeenHosts] = {}
        self._upto: dict[int, int] = {}
        self._hopeless: set[tuple[int, PlacementRules]] = set()
        self._domains: dict[tuple[str, ...], Domains] = {}
        self._planned = None if plan is None else plan.tasks.tolist()
        self._column = {} if plan is None else {size: s for s, size in enumerate(plan.sizes)}

    def put_down(self, job: int) -> bool:
        """Put a job down; return whether there was room."""
        its = self.gangs.problem.instance.jobs[job]
        if has_own_rules(self.gangs, job):
            if not self.gangs.insert(job):
                return False
            for k, (hosts, number) in self.gangs.tasks_of(job).items():
                self._use(k, hosts.tolist(), number.tolist(), 1)
            return True
        kind = (id(its.configurations), its.placement)
        if kind in self._hopeless:
            return False
        held_back = job in self.data.running
        for configuration in self.gangs.ways(job):
            if not self.gangs.within_quota(job, configuration):
                held_back = True
                continue
            tasks = self._find(job, configuration)
            if tasks is not None:
                self.gangs.restore(job, (configuration, tasks))
                return True
        # Nothing is given back, so who lacks no more than room for one group finds none later.
        if not held_back and all(len(way.tasks) == 1 for way in its.configurations):
            self._hopeless.add(kind)
        return False

    def put_into(self, job: int, configuration: int, domain: int) -> bool:
        """Put a job into a domain of the level that it requires; return whether there was room."""
        if has_own_rules(self.gangs, job):
            return False
        if not self.gangs.within_quota(job, configuration):
            return False
        tasks = self._find(job, configuration, domain)
        if tasks is None:
            return False
        self.gangs.restore(job, (configuration, tasks))
        return True

    def _find(self, job: int, configuration: int, only: int | None = None) -> Tasks | None:
        """Take hosts for a job, or return None where there is no room; in one domain, if given."""
        demand = self.data.demand
        rows = self.gangs.problem.rows_of[job, configuration]
        if len(rows) > 1:
            # The most demanding groups go first: the others fit into what is left.
            rows = sorted(rows, key=lambda k: tuple(demand[k]), reverse=True)
        levels = self.data.levels_required(job, configuration)
        for domain in self._places(levels, rows[0]) if only is None else (only,):
            made: dict[int, tuple[list[int], list[int]]] = {}
            for k in rows:
                where = self._hosts(k, levels, domain)
                if where is None:
                    break
                made[k] = where
                self._use(k, *where, 1)
            else:
                return {k: (np.array(hosts), np.array(n)) for k, (hosts, n) in made.items()}
            for k, where in made.items():
                self._use(k, *where, -1)
        return None

    def _use(self, k: int, hosts: list[int], number: list[int], sign: int) -> None:
        """Take what tasks use on hosts, or give it back."""
        demand, state = tuple(self.data.demand[k].tolist()), self._state
        after = self._states.after(demand)
        for h, n in zip(hosts, number, strict=True):
            state[h] = after(state[h], sign * n)
        if self._planned is not None and (column := self._size_of(k)) is not None:
            for h, n in zip(hosts, number, strict=True):
                self._planned[h][column] -= sign * n
        one = sign * sum(demand[: len(RESOURCES)])
        for domains in self._domains.values() if self.domains == "fullest" else ():
            for h, n in zip(hosts, number, strict=True):
                domains.left[domains.of_host[h]] -= n * one
        self._changed += hosts

    def _size_of(self, k: int) -> int | None:
        """Return the column of a group's size in the plan; None for tasks without GPUs."""
        return self._column.get(int(self.data.demand[k, 0]) // MILLI)

    def _places(self, levels: tuple[str, ...], k: int) -> Iterator[int]:
        """Yield domains of which a job may take any hosts, in the order to be tried."""
        domains, count = self._domains_of(levels), int(self.data.count[k])
        fits = self._looked_at(k).room_in(domains) >= count
        # The first will do nearly always, and there are many.
        if self.domains == "first":
            first = int(fits.argmax())
            if not fits[first]:
                return
            yield first
            yield from (first + 1 + fits[first + 1 :].nonzero()[0]).tolist()
            return
        fitting = fits.nonzero()[0]
        if len(fitting):
            left = domains.left[fitting]
            yield int(fitting[left.argmin()])
            yield from fitting[np.argsort(left, kind="stable")[1:]].tolist()

    def _domains_of(self, levels: tuple[str, ...]) -> Domains:
        """Return the domains of the innermost of some levels that lie in domains of all."""
        if levels in self._domains:
            return self._domains[levels]
        left = np.array([sum(row[1 : 1 + len(RESOURCES)]) for row in self._states.rows])
        places = self._before.places
        if levels not in places:
            table = self.topology.domain_of_host
            domain = np.zeros(self.topology.num_hosts, dtype=np.int64)
            if levels:
                innermost = max(levels, key=(*self.topology.levels, HOST).index)
                inside = np.logical_and.reduce([table[level] >= 0 for level in levels])
                domain = np.where(inside, table[innermost], -1)
            places[levels] = places_of(domain)
        self._domains[levels] = Domains.of(*places[levels], left[self._state])
        return self._domains[levels]

    def _hosts(
        self, k: int, levels: tuple[str, ...], domain: int
    ) -> tuple[list[int], list[int]] | None:
        """Return the hosts of a domain that a group's tasks go to, and how many to each."""
        domains, count = self._domains_of(levels), int(self.data.count[k])
        seen = self._looked_at(k)
        if seen.room_in(domains)[domain] < count:
            return None
        queue = seen.queue_of(domains, domain)
        if self.rule == "tightest" and (h := queue.pop_upto((-count, 0.0))) is not None:
            return [h], [count]
        hosts: list[int] = []
        number: list[int] = []
        while count:
            hosts.append(queue.pop())
            number.append(min(seen.room[hosts[-1]], count))
            count -= number[-1]
        return hosts, number

    def _looked_at(self, k: int) -> SeenHosts:
        """Return the hosts as tasks of a group see them now."""
        seen = self._seen_by.get(k)
        if seen is None:
            key = (self.data.demand[k].tobytes(), self.data.allowed_key(k))
            if key not in self._seen:
                self._seen[key] = self._look(k)
                self._upto[id(self._seen[key])] = len(self._changed)
            seen = self._seen_by[k] = self._seen[key]
        upto = self._upto[id(seen)]
        if upto < len(self._changed):
            seen.look_again(self._changed[upto:])
            self._upto[id(seen)] = len(self._changed)
        return seen

    def _look(self, k: int) -> SeenHosts:
        demand = self.data.demand[k]
        types = self.gangs.problem.lost.type_of
        # Of one type some hosts may be too small, but these have no room either.
        fits = np.zeros(int(types.max()) + 1, dtype=bool)
        fits[types[self.data.allowed_on(k)]] = True

        def measure(states: Sequence[State]) -> Iterator[tuple[int, Key]]:
            rows = np.array(states)
            room = np.full(len(rows), self._most, dtype=np.int64)
            for r in np.flatnonzero(demand).tolist():
                np.minimum(room, rows[:, 1 + r] // demand[r], out=room)
            room = np.where(fits[rows[:, 0]], np.maximum(room, 0), 0)
            return zip(room.tolist(), self._keys(k, states, room), strict=True)

        planned, column = self._planned, self._size_of(k)
        if planned is None or column is None:
            return SeenHosts(measure, self._states, self._state)
        return SeenHosts(measure, self._states, self._state, lambda h: planned[h][column])

    def _keys(self, k: int, states: Sequence[State], room: Counts) -> list[Key]:
        """Return the keys of states: whose is less is filled first."""
        match self.rule:
            case "tightest":
                return [(-n, 0.0) for n in room.tolist()]
            case "best_fit":
                return [(state[1], 0.0) for state in states]
            case "fgd" | "fgd_whole":
                demand = (0, *self.data.demand[k].tolist())
                after = [
                    tuple([max(a - b, 0) for a, b in zip(state, demand, strict=True)])
                    for state in states
                ]
                lost = self.gangs.problem.lost
                measure = lost.of if self.rule == "fgd" else lost.left_over
                pairs = zip(measure(after), measure(states), states, strict=True)
                return [(new - old, state[1]) for new, old, state in pairs]
            case _:
                return [(0.0, 0.0)] * len(states)
