"""A bound on fragmentation beside jobs that must be placed: patterns of whole hosts.

How much of a host's free GPU is of no use depends on how many of its GPUs are free, so a host is a
*bay* with a *pattern*: how many tasks of each size (in GPUs) it takes. Let z_bp be the hosts of bay
b with pattern p, y_ko the jobs of kind k that run in way o, n_k the jobs of a kind, m_b the hosts
of a bay, f_b(p) what is lost there, c_sp and q_so the tasks of size s of a pattern and a way, w_o
what a job so run counts in an earlier level of the goal, and W what that level must keep:

(G1) min   sum_bp f_b(p) z_bp
(G2) bays   sum_p z_bp = m_b                       for all b
(G3) tasks  sum_bp c_sp z_bp = sum_ko q_so y_ko    for all s
(G4) jobs   sum_o y_ko <= n_k, = n_k if they must run      for all k
(G5) held   sum_ko w_o y_ko >= W                   for each level held that counts jobs placed

Host resources besides GPUs, domains, and rules between jobs are left out, so that every placement
gives a solution of no more cost: the optimum of the linear relaxation is a bound. What the solver
says of it is not believed: at its multipliers p_s of (G3) and l >= 0 of (G5) the Lagrangian

    sum_b m_b min_p (f_b(p) + sum_s p_s c_sp)
      + sum_k n_k min_o (- sum_s p_s q_so - l w_o, and 0 unless they must run) + l W

is worked out here, and is a bound whatever the multipliers are.

References
----------
Gilmore, Gomory, "A linear programming approach to the cutting-stock problem", Operations Research
9(6), 1961; Geoffrion, "Lagrangean relaxation for integer programming", 1974; the measure is that
of Weng et al., "Beware of Fragmentation", ATC 2023.

In whole numbers the program says how many tasks of each size each host should take. Gangs put down
along that plan (`alloc.solving.placement.greedy`) come close to the bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.sparse import csr_array

from alloc.backends import SolverOptions, highs
from alloc.backends.linear_program import LinearProgram
from alloc.errors import OutOfTime, SolverError
from alloc.formulation import Array, ArrayModel
from alloc.objectives.fragmentation import fragments, mix_of
from alloc.objectives.goals import Held, WeightedSum
from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.gang_search import must_run, only_places, waiting_jobs
from alloc.solving.placement.gangs import Gangs
from alloc.solving.placement.greedy import Plan, put_down_along
from alloc.solving.placement.terms import Counts
from alloc.units import MILLI
from alloc.workload import Job

_MAX_PATTERNS = 200_000
"""Patterns over all bays up to which they are listed: some seconds of the linear program."""

_PLAN_GAP, _PLAN_NODES = 1e-3, 100
"""Of the plan, which need not be the best: rules that it does not know move gangs about anyway."""

_Sizes = tuple[tuple[int, int], ...]
"""Tasks of a job by their sizes in GPUs."""


@dataclass(frozen=True)
class _Way:
    """A way to run a job: its tasks by size, and what it counts in each level held."""

    tasks: _Sizes
    worth: tuple[float, ...]


@dataclass(frozen=True)
class _Program:
    """(G1)-(G5).

    Parameters
    ----------
    lost, counts, bay
        Of each pattern: what is lost, milli-GPU, tasks of each size, its bay.
    sizes
        GPUs of a task of each size.
    members
        The hosts of each bay.
    tasks, worth, kind
        Of each way: tasks of each size, what it counts in each level, its kind.
    jobs, must
        Jobs of each kind, and whether they must run.
    least
        What each level must keep.
    """

    lost: Array
    counts: Counts
    bay: Counts
    sizes: tuple[int, ...]
    members: tuple[Counts, ...]
    tasks: Counts
    worth: Array
    kind: Counts
    jobs: Counts
    must: Counts
    least: Array

    @property
    def hosts(self) -> Counts:
        """Number of hosts of each bay."""
        return np.array([len(members) for members in self.members], dtype=np.int64)


def fragments_bound(
    problem: Problem, level: WeightedSum, held: Sequence[Held], seconds: float
) -> float:
    """Return a bound on a level that is minimised and counts fragmentation alone.

    Parameters
    ----------
    problem
        The problem.
    level
        The level.
    held
        Earlier levels; those that count jobs placed are kept, others are relaxed.
    seconds
        Wall time, seconds.

    Returns
    -------
    float
        Minus infinity where there is none: the level has other terms, hosts have too many patterns,
        or the time is up.
    """
    if not counts_fragments(level):
        return -math.inf
    gangs = Gangs(problem, problem.data.initial)
    # A malleable job that may not move may still change its configuration.
    fixed = {
        j
        for j in problem.pinned & must_run(problem)
        if problem.instance.jobs[j].elasticity != "malleable"
        or len(problem.instance.jobs[j].configurations) == 1
    }
    for j in gangs.placed.keys() - fixed:
        gangs.remove(j)
    program = _program(gangs, held)
    if program is None:
        return -math.inf
    try:
        duals = LinearProgram(_arrays(program)).optimum("the patterns of hosts", seconds).duals
    except (OutOfTime, SolverError):
        return -math.inf
    first = len(program.hosts)
    sizes = duals[first : first + program.counts.shape[1]]
    levels = duals[first + len(sizes) + len(program.jobs) :]
    best = max(_lagrangian(program, -sizes, np.maximum(levels, 0.0)), 0.0)
    return level.terms[0][0] * best / MILLI


def planned_again(
    problem: Problem, counts: csr_array, held: Sequence[Held], seconds: float
) -> csr_array | None:
    """Return a placement with the waiting jobs that are free to stand anywhere put down anew.

    They follow a plan of the hosts beside all others, which stay where they are.

    Parameters
    ----------
    problem
        The problem.
    counts
        Where tasks stand, shape (groups, hosts).
    held
        Levels of the goal before that of fragmentation.
    seconds
        Wall time, seconds.

    Returns
    -------
    csr_array or None
        Shape (groups, hosts); None if there is no plan.
    """
    gangs = Gangs(problem, counts)
    for j in [j for j in gangs.placed if j not in problem.data.running]:
        if not _is_tied(problem, j, gangs.placed[j]):
            gangs.remove(j)
    plan = _plan(gangs, held, seconds)
    if plan is None:
        return None
    waiting = waiting_jobs(problem, gangs, by_size=True)
    put_down_along(gangs, [j for j in waiting if not _is_tied(problem, j, 0)], plan)
    return gangs.counts()


def _is_tied(problem: Problem, job: int, configuration: int) -> bool:
    """Return whether a job may not stand just anywhere: its tasks need one domain."""
    tasks = int(problem.data.count[problem.rows_of[job, configuration]].sum())
    return tasks > 1 and bool(problem.data.levels_required(job, configuration))


def counts_fragments(level: WeightedSum) -> bool:
    """Return whether a level is minimised and counts fragmentation alone."""
    return level.sense == "min" and [term.name for _, term in level.terms] == ["fragmentation"]


def _plan(gangs: Gangs, held: Sequence[Held], seconds: float) -> Plan | None:
    """Return the tasks of each size that hosts should take beside gangs that stand, or None."""
    program = _program(gangs, held)
    if program is None or seconds <= 0:
        return None
    model = _arrays(program)
    whole = replace(model, integer=np.ones(len(model.cost), dtype=bool))
    raw = highs.solve(whole, SolverOptions(seconds, gap=_PLAN_GAP, nodes=_PLAN_NODES))
    if raw.values is None:
        return None
    number = np.round(raw.values[: len(program.bay)]).astype(np.int64)
    tasks = np.zeros((gangs.topology.num_hosts, len(program.sizes)), dtype=np.int64)
    for b, members in enumerate(program.members):
        own = np.flatnonzero(program.bay == b)
        tasks[members] = np.repeat(program.counts[own], number[own], axis=0)
    return Plan(program.sizes, tasks)


def _lagrangian(program: _Program, prices: Array, multipliers: Array) -> float:
    """Return the Lagrangian, milli-GPU, less what rounding may have added."""
    of_pattern = program.lost + program.counts @ prices
    of_bay = np.full(len(program.hosts), np.inf)
    np.minimum.at(of_bay, program.bay, of_pattern)
    of_way = -(program.tasks @ prices) - program.worth @ multipliers
    of_kind = np.where(program.must, np.inf, 0.0)
    np.minimum.at(of_kind, program.kind, of_way)
    terms = [*(program.hosts * of_bay), *(program.jobs * of_kind), *(multipliers * program.least)]
    return math.fsum(terms) - 1e-12 * math.fsum(map(abs, terms))


def _arrays(program: _Program) -> ArrayModel:
    """Return (G1)-(G5) with what is lost as a share of all GPUs that may be lost."""
    num_patterns, num_sizes = program.counts.shape
    num_bays, num_kinds, num_ways = len(program.hosts), len(program.jobs), len(program.kind)
    at = np.arange(num_patterns)
    ways = num_patterns + np.arange(num_ways)
    p, s = np.nonzero(program.counts)
    o, t = np.nonzero(program.tasks)
    v, g = np.nonzero(program.worth)
    rows = [
        program.bay,
        num_bays + s,
        num_bays + t,
        num_bays + num_sizes + program.kind,
        num_bays + num_sizes + num_kinds + g,
    ]
    columns = [at, p, num_patterns + o, ways, num_patterns + v]
    values = [
        np.ones(num_patterns),
        program.counts[p, s],
        -program.tasks[o, t],
        np.ones(num_ways),
        program.worth[v, g],
    ]
    height = num_bays + num_sizes + num_kinds + len(program.least)
    matrix = csr_array(
        (np.concatenate(values).astype(float), (np.concatenate(rows), np.concatenate(columns))),
        shape=(height, num_patterns + num_ways),
    )
    free = np.full(num_kinds, -np.inf)
    return ArrayModel(
        sense="min",
        cost=np.concatenate([program.lost, np.zeros(num_ways)]),
        matrix=matrix,
        row_lower=np.concatenate(
            [
                program.hosts,
                np.zeros(num_sizes),
                np.where(program.must, program.jobs, free),
                program.least,
            ]
        ),
        row_upper=np.concatenate(
            [program.hosts, np.zeros(num_sizes), program.jobs, np.full(len(program.least), np.inf)]
        ),
        lower=np.zeros(num_patterns + num_ways),
        upper=np.concatenate([program.hosts[program.bay], program.jobs[program.kind]]).astype(
            float
        ),
        integer=np.zeros(num_patterns + num_ways, dtype=bool),
    )


def _program(gangs: Gangs, held: Sequence[Held]) -> _Program | None:
    """Return the program beside gangs that stand, or None where hosts have too many patterns."""
    problem = gangs.problem
    held = [one for one in held if only_places(one.level)]
    left = np.maximum(gangs.topology.capacity - gangs.used, 0)
    kinds, least = _kinds(gangs, held, left[:, 0] // MILLI)
    sizes = sorted({size for ways, _ in kinds for way in ways for size, _ in way.tasks})
    rooms, lost_of, members = _bays(problem, left)
    if sum(_num_patterns(sizes, room) for room in rooms) > _MAX_PATTERNS:
        return None
    lost: list[float] = []
    counts: list[tuple[int, ...]] = []
    bay: list[int] = []
    for b, room in enumerate(rooms):
        for pattern in _patterns(sizes, room):
            left = room - sum(n * s for n, s in zip(pattern, sizes, strict=True))
            lost.append(lost_of[b][left])
            counts.append(pattern)
            bay.append(b)
    ways = [(way, k) for k, (own, _) in enumerate(kinds) for way in own]
    position = {size: s for s, size in enumerate(sizes)}
    tasks = np.zeros((len(ways), len(sizes)), dtype=np.int64)
    for o, (way, _) in enumerate(ways):
        for size, number in way.tasks:
            tasks[o, position[size]] = number
    return _Program(
        np.array(lost),
        np.array(counts, dtype=np.int64).reshape(len(counts), len(sizes)),
        np.array(bay, dtype=np.int64),
        tuple(sizes),
        members,
        tasks,
        np.array([way.worth for way, _ in ways]).reshape(len(ways), len(held)),
        np.array([k for _, k in ways], dtype=np.int64),
        np.array(list(kinds.values()), dtype=np.int64),
        np.array([must for _, must in kinds], dtype=bool),
        least,
    )


def _kinds(
    gangs: Gangs, held: Sequence[Held], gpus_left: Counts
) -> tuple[dict[tuple[tuple[_Way, ...], bool], int], Array]:
    """Return kinds of jobs that do not stand, and what the levels held still want of them."""
    problem, required = gangs.problem, must_run(gangs.problem)
    domain_of_host = gangs.topology.domain_of_host

    @cache
    def room(level: str, size: int) -> int:
        """Return the most tasks of a size that one domain of a level has room for."""
        domain = np.asarray(domain_of_host[level])
        inside = domain >= 0
        return int(np.bincount(domain[inside], (gpus_left // size)[inside]).max(initial=0))

    def worth(job: Job, configuration: int) -> tuple[float, ...]:
        gpus = job.configurations[configuration].demand[0] / MILLI
        counted = {"gpus_placed": gpus, "weight_placed": job.weight}
        return tuple(sum(w * counted[t.name] for w, t in one.level.terms) for one in held)

    least = np.array([one.limit for one in held])
    kinds: dict[tuple[tuple[_Way, ...], bool], int] = {}
    for j, job in enumerate(problem.instance.jobs):
        if j in gangs.placed:
            least -= worth(job, gangs.placed[j])
            continue
        ways = []
        for c, configuration in enumerate(job.configurations):
            levels = problem.data.levels_required(j, c)
            tasks: dict[int, int] = {}
            for group in configuration.tasks:
                if group.gpu_milli:
                    size = group.gpu_milli // MILLI
                    tasks[size] = tasks.get(size, 0) + group.count
            if all(room(level, size) >= n for level in levels for size, n in tasks.items()):
                ways.append(_Way(tuple(sorted(tasks.items())), worth(job, c)))
        if ways or j in required:
            key = (tuple(ways), j in required)
            kinds[key] = kinds.get(key, 0) + 1
    return kinds, least


def _bays(
    problem: Problem, left: Counts
) -> tuple[list[int], list[tuple[float, ...]], tuple[Counts, ...]]:
    """Return of hosts alike the GPUs, what is lost there by the GPUs left free, and the hosts."""
    topology = problem.instance.topology
    rooms = left[:, 0] // MILLI
    types = np.array([str(t) for t in topology.gpu_types])
    mix, most = mix_of(problem.instance), max(int(rooms.max()), 1)
    lost = []
    for free in range(most + 1):
        gpus = np.tile(MILLI * (np.arange(most) < free), (len(left), 1))
        lost.append(fragments(mix, types, left[:, 1:3], gpus))
    found: dict[tuple[int, tuple[float, ...]], list[int]] = {}
    for h, (room, row) in enumerate(zip(rooms.tolist(), np.stack(lost, 1).tolist(), strict=True)):
        found.setdefault((room, tuple(row[: room + 1])), []).append(h)
    members = tuple(np.array(hosts) for hosts in found.values())
    return [room for room, _ in found], [row for _, row in found], members


def _patterns(sizes: Sequence[int], room: int) -> Iterator[tuple[int, ...]]:
    """Yield how many tasks of each size go on so many GPUs together."""
    if not sizes:
        yield ()
        return
    for number in range(room // sizes[0] + 1):
        for rest in _patterns(sizes[1:], room - number * sizes[0]):
            yield (number, *rest)


def _num_patterns(sizes: Sequence[int], room: int) -> int:
    """Return the number of patterns, without listing them."""
    ways = [1] + [0] * room
    for size in sizes:
        for gpus in range(size, room + 1):
            ways[gpus] += ways[gpus - size]
    return list(itertools.accumulate(ways))[-1]
