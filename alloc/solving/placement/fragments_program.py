"""The program behind the bound on fragmentation, and its Lagrangian.

The mathematics is on the page of `alloc.solving.placement.fragments_bound`; here it is written down
for what stands and what waits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from alloc.clock import check_time
from alloc.formulation import Array, ArrayModel
from alloc.model_builder import ModelBuilder, Term
from alloc.objectives.fragmentation import fragments
from alloc.objectives.goals import Held
from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.gang_search import must_run, only_places
from alloc.solving.placement.gangs import Gangs
from alloc.solving.placement.terms import Counts
from alloc.topology.topology import HOST
from alloc.units import MILLI
from alloc.workload import Job

_MAX_COLUMNS = 200_000
"""Patterns over all bays, and ways in domains, up to which they are listed: some seconds of the
linear program."""
_ROWS = ("bays", "tasks", "jobs", "held", "domains", "weights", "in_cases")
"""(G2) to (G8), in the order of their rows."""
_OFTEN = 1000
"""Patterns or jobs between two looks at the clock, about a millisecond: looking costs nothing
then."""

_Sizes = tuple[tuple[int, int], ...]
"""Tasks of a job by their sizes in GPUs."""
Levels = tuple[str, ...]
Place = tuple[Levels, int]
"""Levels of which one domain must hold a gang, and the number of the domain, as in
`alloc.topology.Topology.domain_of_host` of the innermost."""


@dataclass(frozen=True)
class Way:
    """A way to run a job.

    Parameters
    ----------
    configuration
        Position of the configuration.
    tasks
        Its tasks by size, GPUs.
    worth
        What it counts in each level held.
    levels
        Levels of which one domain must hold it; none for what may stand anywhere.
    """

    configuration: int
    tasks: _Sizes
    worth: tuple[float, ...]
    levels: Levels


@dataclass(frozen=True)
class Choice:
    """A way that the jobs of a kind may run in, in a domain.

    Parameters
    ----------
    kind
        Position of the kind.
    way
        The way.
    domain
        Position of the domain in `Program.domains`, or -1: anywhere.
    least, most
        How many of the jobs may run so at once, in a case as a multiple of its weight.
    case
        Position of the case, or -1.
    """

    kind: int
    way: Way
    domain: int
    most: int
    least: int = 0
    case: int = -1


@dataclass(frozen=True)
class Program:
    """(G1)-(G8).

    Parameters
    ----------
    lost, counts, bay
        Of each pattern: what is lost, milli-GPU, tasks of each size, its bay.
    sizes
        GPUs of a task of each size.
    members, case
        The hosts of each bay, and its case, or -1.
    case_of
        The domain that each case is one of, as a number.
    domains
        The domains that may hold gangs.
    inside
        Whether a bay lies in a domain, shape (domains, bays).
    within
        Whether a domain lies in another or is the same, shape (outer, inner).
    choices
        The ways in domains.
    jobs
        Positions of the jobs of each kind.
    must
        Whether the jobs of a kind must run.
    least
        What each level held must keep.
    """

    lost: Array
    counts: Counts
    bay: Counts
    sizes: tuple[int, ...]
    members: tuple[Counts, ...]
    case: Counts
    case_of: Counts
    domains: tuple[Place, ...]
    inside: Counts
    within: Counts
    choices: tuple[Choice, ...]
    jobs: tuple[tuple[int, ...], ...]
    must: Counts
    least: Array

    @property
    def hosts(self) -> Counts:
        """Number of hosts of each bay."""
        return np.array([len(members) for members in self.members], dtype=np.int64)

    @property
    def tasks(self) -> Counts:
        """Tasks of each size of each choice, shape (choices, sizes)."""
        column = {size: s for s, size in enumerate(self.sizes)}
        tasks = np.zeros((len(self.choices), len(self.sizes)), dtype=np.int64)
        for o, choice in enumerate(self.choices):
            for size, number in choice.way.tasks:
                tasks[o, column[size]] = number
        return tasks

    @property
    def worth(self) -> Array:
        """What each choice counts in each level held, shape (choices, levels)."""
        worth = [choice.way.worth for choice in self.choices]
        return np.array(worth, dtype=float).reshape(len(worth), len(self.least))

    @property
    def held_in(self) -> Counts:
        """Whether a domain holds what a choice runs, shape (domains, choices)."""
        domain = np.array([choice.domain for choice in self.choices], dtype=np.int64)
        padded = np.column_stack([self.within, np.zeros(len(self.domains), dtype=np.int64)])
        return padded[:, domain]

    def standing(self, values: Array) -> dict[tuple[Way, Place], float]:
        """Return how many gangs of a way a solution of `arrays` has stand in each domain."""
        found: dict[tuple[Way, Place], float] = {}
        numbers = values[len(self.bay) : len(self.bay) + len(self.choices)].tolist()
        for choice, number in zip(self.choices, numbers, strict=True):
            if choice.domain >= 0:
                key = (choice.way, self.domains[choice.domain])
                found[key] = found.get(key, 0.0) + number
        return found

    @property
    def num_parted(self) -> int:
        """Number of domains that are parted into cases."""
        return int(self.case_of.max(initial=-1)) + 1

    @property
    def num_jobs(self) -> Counts:
        """Number of jobs of each kind."""
        return np.array([len(own) for own in self.jobs], dtype=np.int64)

    def _of_choices(self) -> tuple[Counts, Counts, Counts, Counts]:
        """Return kind, case, least and most of each choice."""
        rows = [(c.kind, c.case, c.least, c.most) for c in self.choices]
        kind, case, least, most = np.array(rows, dtype=np.int64).reshape(len(rows), 4).T
        return kind, case, least, most

    def arrays(self) -> ArrayModel:
        """Return (G1)-(G7), what is lost in milli-GPU.

        Raises
        ------
        OutOfTime
            If the time of `alloc.clock` is up.
        """
        hosts, tasks, worth = self.hosts, self.tasks, self.worth
        kind, case, least, most = self._of_choices()
        builder = ModelBuilder(*_ROWS)
        z = builder.columns(len(self.bay), hosts[self.bay], cost=self.lost, integer=False)
        y = builder.columns(len(kind), most, integer=False)
        w = builder.columns(len(self.case_of), 1.0, integer=False)
        p, s = np.nonzero(self.counts)
        o, t = np.nonzero(tasks)
        v, g = np.nonzero(worth)
        used, needed = self.counts[p, s], -tasks[o, t]
        weighed = np.flatnonzero(self.case >= 0)
        limits = np.where(self.case < 0, hosts, 0)
        terms: list[Term] = [(self.bay, z, 1.0), (weighed, w[self.case[weighed]], -hosts[weighed])]
        builder.rows("bays", len(hosts), terms, limits, limits)
        terms = [(s, z[p], used), (t, y[o], needed)]
        builder.rows("tasks", len(self.sizes), terms, 0.0, 0.0)
        required = np.where(self.must, self.num_jobs, -np.inf)
        builder.rows("jobs", len(self.jobs), [(kind, y, 1.0)], required, self.num_jobs)
        builder.rows("held", len(self.least), [(g, y[v], worth[v, g])], self.least)
        # In each domain that holds it, a task counts once more.
        width = len(self.sizes)
        d_of, at = np.nonzero(self.inside[:, self.bay[p]])
        e_of, so = np.nonzero(self.held_in[:, o])
        terms = [
            (d_of * width + s[at], z[p[at]], used[at]),
            (e_of * width + t[so], y[o[so]], needed[so]),
        ]
        builder.rows("domains", len(self.domains) * width, terms, 0.0)
        builder.rows("weights", self.num_parted, [(self.case_of, w, 1.0)], 1.0, 1.0)
        inside = np.flatnonzero(case >= 0)
        row, weight = np.arange(len(inside)), w[case[inside]]
        for number, lower, upper in ((most, -np.inf, 0.0), (least, 0.0, np.inf)):
            terms = [(row, y[inside], 1.0), (row, weight, -number[inside])]
            builder.rows("in_cases", len(inside), terms, lower, upper)
        return builder.model("min")

    def lagrangian(self, model: ArrayModel, duals: Array) -> float:
        """Return the Lagrangian at multipliers, milli-GPU, less what rounding may have added.

        Parameters
        ----------
        model
            What `arrays` returns.
        duals
            Of its rows; those of the wrong sign count as none.
        """
        prices = -duals[model.rows["tasks"]]
        multipliers = np.maximum(duals[model.rows["held"]], 0.0)
        limits = -duals[model.rows["jobs"]]
        limits = np.where(self.must, limits, np.maximum(limits, 0.0))
        extra = np.maximum(duals[model.rows["domains"]], 0.0)
        extra = extra.reshape(len(self.domains), len(self.sizes))
        in_bay = prices - self.inside.T @ extra
        of_pattern = self.lost + (self.counts * in_bay[self.bay]).sum(axis=1)
        of_bay = np.full(len(self.members), np.inf)
        np.minimum.at(of_bay, self.bay, of_pattern)
        kind, case, least, most = self._of_choices()
        dearer = self.held_in.T @ extra - prices
        of_choice = (self.tasks * dearer).sum(axis=1) - self.worth @ multipliers + limits[kind]
        costs = [self.hosts * of_bay, of_choice * np.where(of_choice < 0, most, least)]
        cases = [self.case, case]
        of_case = np.zeros(len(self.case_of))
        for cost, its in zip(costs, cases, strict=True):
            np.add.at(of_case, its[its >= 0], cost[its >= 0])
        cheapest = np.full(self.num_parted, np.inf)
        np.minimum.at(cheapest, self.case_of, of_case)
        sums = [cost[its < 0] for cost, its in zip(costs, cases, strict=True)]
        sums += [cheapest, multipliers * self.least, -limits * self.num_jobs]
        # What is added up case by case may lose as much as all of it together.
        size = sum(float(np.abs(part).sum()) for part in (*costs, *sums))
        return math.fsum(np.concatenate(sums).tolist()) - 1e-12 * size


def program_of(gangs: Gangs, held: Sequence[Held], *, domains: bool) -> Program | None:
    """Return the program beside gangs that stand, or None where it has too many columns.

    Parameters
    ----------
    gangs
        What stands and stays.
    held
        Earlier levels; those that count jobs placed are kept, others are relaxed.
    domains
        Whether gangs are held in the domains that they require; without, the program is smaller,
        and a relaxation.

    Raises
    ------
    OutOfTime
        If the time of `alloc.clock` is up.
    """
    held = [one for one in held if only_places(one.level)]
    left = np.maximum(gangs.topology.capacity - gangs.used, 0)
    places = _Places(gangs, left[:, 0] // MILLI)
    kinds, least = _kinds(gangs, held, places)
    found: dict[Place, int] = {}
    choices = []
    for k, ((ways, _), jobs) in enumerate(kinds.items()):
        check_time()
        for way in ways:
            if not (domains and way.levels):
                choices.append(Choice(k, way, -1, len(jobs)))
                continue
            for d, most in places.most(way):
                at = found.setdefault((way.levels, d), len(found))
                choices.append(Choice(k, way, at, min(most, len(jobs))))
    sizes = tuple(sorted({size for ways, _ in kinds for way in ways for size, _ in way.tasks}))
    table = places.table(found)
    rooms, lost_of, members = _bays(gangs.problem, left, table)
    number = {room: _num_patterns(sizes, room) for room in set(rooms)}
    if sum(number[room] for room in rooms) + len(choices) > _MAX_COLUMNS:
        return None
    patterns = {room: _patterns(sizes, room) for room in number}
    taken = {room: own @ np.array(sizes, dtype=np.int64) for room, own in patterns.items()}
    lost = [np.array(own)[room - taken[room]] for own, room in zip(lost_of, rooms, strict=True)]
    bay = np.repeat(np.arange(len(rooms)), [number[room] for room in rooms])
    first = np.array([hosts[0] for hosts in members], dtype=np.int64)
    return Program(
        np.concatenate(lost),
        np.concatenate([patterns[room] for room in rooms]),
        bay,
        sizes,
        members,
        np.full(len(members), -1, dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        tuple(found),
        np.array([places.holds(place)[first] for place in found], dtype=np.int64).reshape(
            len(found), len(first)
        ),
        places.within(tuple(found)),
        tuple(choices),
        tuple(map(tuple, kinds.values())),
        np.array([must for _, must in kinds], dtype=bool),
        least,
    )


class _Places:
    """Domains that may hold gangs, and how many tasks they have room for."""

    def __init__(self, gangs: Gangs, gpus_left: Counts) -> None:
        self.topology = gangs.topology
        self.gpus_left = gpus_left
        self._domain: dict[Levels, Counts] = {}
        self._room: dict[Place, Counts] = {}

    def domain(self, levels: Levels) -> Counts:
        """Return the domain of each host at the innermost level, -1 outside any of them."""
        if levels not in self._domain:
            table = self.topology.domain_of_host
            innermost = max(levels, key=(*self.topology.levels, HOST).index)
            inside = np.logical_and.reduce([np.asarray(table[level]) >= 0 for level in levels])
            self._domain[levels] = np.where(inside, np.asarray(table[innermost]), -1)
        return self._domain[levels]

    def most(self, way: Way) -> list[tuple[int, int]]:
        """Return the domains that have room for a way by themselves, and for how many of it."""
        most: Counts | None = None
        for size, count in way.tasks:
            if (way.levels, size) not in self._room:
                domain = self.domain(way.levels)
                rooms = (self.gpus_left // size)[domain >= 0]
                self._room[way.levels, size] = np.bincount(domain[domain >= 0], rooms).astype(int)
            fits = self._room[way.levels, size] // count
            most = fits if most is None else np.minimum(most, fits)
        assert most is not None
        return [(d, int(most[d])) for d in np.flatnonzero(most).tolist()]

    def holds(self, place: Place) -> Counts:
        """Return whether a place holds each host, shape (hosts,)."""
        return np.asarray(self.domain(place[0]) == place[1], dtype=np.int64)

    def table(self, places: Mapping[Place, int]) -> Counts:
        """Return for each host, by the levels of places, which of them holds it, or -1."""
        columns = []
        for levels in dict.fromkeys(levels for levels, _ in places):
            domain = self.domain(levels)
            number = np.full(int(domain.max(initial=-1)) + 2, -1, dtype=np.int64)
            for (own, d), at in places.items():
                if own == levels:
                    number[d] = at
            columns.append(number[domain])
        return np.array(columns, dtype=np.int64).reshape(len(columns), len(self.gpus_left)).T

    def within(self, places: Sequence[Place]) -> Counts:
        """Return whether a place lies in another or is the same, shape (outer, inner)."""
        within = np.eye(len(places), dtype=np.int64)
        at = {place: n for n, place in enumerate(places)}
        for outer, inner in itertools.permutations(dict.fromkeys(own for own, _ in places), 2):
            around, domain = self.domain(outer), self.domain(inner)
            for levels, d in places:
                if levels == inner:
                    held = np.unique(around[domain == d])
                    if len(held) == 1 and (outer, int(held[0])) in at:
                        within[at[outer, int(held[0])], at[inner, d]] = 1
        return within


def _kinds(
    gangs: Gangs, held: Sequence[Held], places: _Places
) -> tuple[dict[tuple[tuple[Way, ...], bool], list[int]], Array]:
    """Return kinds of jobs that do not stand, and what the levels held still want of them."""
    problem, required = gangs.problem, must_run(gangs.problem)

    def worth(job: Job, configuration: int) -> tuple[float, ...]:
        gpus = job.configurations[configuration].demand[0] / MILLI
        counted = {"gpus_placed": gpus, "weight_placed": job.weight}
        return tuple(sum(w * counted[t.name] for w, t in one.level.terms) for one in held)

    least = np.array([one.limit for one in held])
    kinds: dict[tuple[tuple[Way, ...], bool], list[int]] = {}
    for j, job in enumerate(problem.instance.jobs):
        if j % _OFTEN == 0:
            check_time()
        if j in gangs.placed:
            if held:
                least -= worth(job, gangs.placed[j])
            continue
        ways = []
        for c, configuration in enumerate(job.configurations):
            tasks: dict[int, int] = {}
            for group in configuration.tasks:
                if group.gpu_milli:
                    size = group.gpu_milli // MILLI
                    tasks[size] = tasks.get(size, 0) + group.count
            levels = problem.data.levels_required(j, c)
            way = Way(c, tuple(sorted(tasks.items())), worth(job, c), levels if tasks else ())
            if way.levels and not places.most(way):
                continue
            # What stands on one host stands in one domain, and hosts are too many to be domains.
            if HOST in levels or sum(tasks.values()) == 1:
                way = Way(c, way.tasks, way.worth, ())
            ways.append(way)
        if ways or j in required:
            kinds.setdefault((tuple(ways), j in required), []).append(j)
    return kinds, least


def _bays(
    problem: Problem, left: Counts, places: Counts
) -> tuple[list[int], list[tuple[float, ...]], tuple[Counts, ...]]:
    """Return of hosts alike the GPUs, what is lost there by the GPUs left free, and the hosts."""
    rooms = left[:, 0] // MILLI
    types = problem.lost.types
    mix, most = problem.lost.mix, max(int(rooms.max()), 1)
    lost = []
    for free in range(most + 1):
        check_time()
        gpus = np.tile(MILLI * (np.arange(most) < free), (len(left), 1))
        lost.append(fragments(mix, types, left[:, 1:3], gpus))
    found: dict[tuple[int, tuple[float, ...], tuple[int, ...]], list[int]] = {}
    rows = zip(rooms.tolist(), np.stack(lost, 1).tolist(), places.tolist(), strict=True)
    for h, (room, row, inside) in enumerate(rows):
        found.setdefault((room, tuple(row[: room + 1]), tuple(inside)), []).append(h)
    members = tuple(np.array(hosts) for hosts in found.values())
    return [room for room, _, _ in found], [row for _, row, _ in found], members


def _patterns(sizes: Sequence[int], room: int) -> Counts:
    """Return how many tasks of each size go on so many GPUs together, shape (patterns, sizes)."""
    found = []
    for n, pattern in enumerate(_each_pattern(sizes, room)):
        if n % _OFTEN == 0:
            check_time()
        found.append(pattern)
    return np.array(found, dtype=np.int64).reshape(len(found), len(sizes))


def _each_pattern(sizes: Sequence[int], room: int) -> Iterator[tuple[int, ...]]:
    if not sizes:
        yield ()
        return
    for number in range(room // sizes[0] + 1):
        for rest in _each_pattern(sizes[1:], room - number * sizes[0]):
            yield (number, *rest)


def _num_patterns(sizes: Sequence[int], room: int) -> int:
    """Return the number of patterns, without listing them."""
    ways = [1] + [0] * room
    for size in sizes:
        for gpus in range(size, room + 1):
            ways[gpus] += ways[gpus - size]
    return list(itertools.accumulate(ways))[-1]
