"""A bound on fragmentation beside jobs that must be placed: patterns of hosts, cases of domains.

How much of a host's free GPU is of no use depends on how many of its GPUs are free, so a host is
one of a *bay* of hosts alike, with a *pattern*: how many tasks of each size (in GPUs) it takes.
What must stand in one domain, such as a rack, is chosen domain by domain. A part of a gang would
fill what little is left all over a domain, which no whole gang can do; so the hosts of a domain are
weighed between *cases* of what stands there, each with its own patterns.

Let z_bp be the hosts of bay b (in one case of one domain) with pattern p, y_o the jobs that run by
choice o (jobs of kind k in one way and one case, or anywhere), v_e the weight of case e, n_k the
jobs of a kind, m_b the hosts of a bay, f_b(p) what is lost there, c_sp and q_so the tasks of size s
of a pattern and a choice, w_o what a job so run counts in an earlier level of the goal, W what that
level must keep, and l_o <= u_o how many jobs choice o may run in its case:

(G1) min   sum_bp f_b(p) z_bp
(G2) bays     sum_p z_bp = m_b v_e                    for all b in case e; = m_b outside domains
(G3) tasks    sum_bp c_sp z_bp = sum_o q_so y_o       for all s
(G4) jobs     sum_{o of k} y_o <= n_k, = n_k if they must run             for all k
(G5) held     sum_o w_o y_o >= W                      for each level held that counts jobs placed
(G6) domains  sum_{b in e, p} c_sp z_bp >= sum_{o in e} q_so y_o          for all s, e
(G7) weights  sum_{e of d} v_e = 1                    for all domains d
(G8) cases    l_o v_e <= y_o <= u_o v_e               for all o in case e

The cases of a domain leave nothing out. At first there is one, in which as many gangs may stand as
have room by themselves; wherever the linear program takes a part of a gang, the cases of all
domains are parted, into those with at most so many of such gangs and those with more. (G6) is there
for domains of other levels too; they are not parted.

Host resources besides GPUs and rules between jobs are left out, so every placement gives a solution
of no more cost: the optimum of the linear relaxation is a bound. What the solver says of it is not
believed. At its multipliers p_s of (G3), a_k of (G4), l >= 0 of (G5) and r_se >= 0 of (G6) the
Lagrangian

    sum_d min_{e of d} (sum_{b in e} m_b min_p (f_b(p) + sum_s (p_s - r_se) c_sp)
                        + sum_{o in e} min over l_o <= y <= u_o of g_o y)
      + the same for what is in no case + l W - sum_k a_k n_k
      with g_o = sum_s (r_se - p_s) q_so - l w_o + a_k

is worked out in numpy, and is a bound whatever the multipliers are (a_k >= 0 where jobs may wait).

In whole numbers the program without cases says how many tasks of each size each host should take,
and which gangs stand in which domain. Gangs put down along that plan
(`alloc.solving.placement.greedy`) come close to the bound.

References
----------
Gilmore, Gomory, "A linear programming approach to the cutting-stock problem", Operations Research
9(6), 1961; Geoffrion, "Lagrangean relaxation for integer programming", 1974; Balas, "Disjunctive
programming", Annals of Discrete Mathematics 5, 1979, for the cases; the measure is that of Weng et
al., "Beware of Fragmentation", ATC 2023.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.linear_program import LinearProgram
from alloc.clock import time_limit
from alloc.errors import OutOfTime, SolverError
from alloc.formulation import Array
from alloc.objectives.goals import Held, WeightedSum
from alloc.solving.placement.clock import timer
from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.fragments_cases import Cases
from alloc.solving.placement.fragments_program import Place, Program, Way, program_of
from alloc.solving.placement.gang_search import must_run, waiting_jobs
from alloc.solving.placement.gangs import Gangs
from alloc.solving.placement.greedy import Plan, put_down_along
from alloc.units import MILLI

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MAX_COLUMNS = 30_000
"""Of the program with domains: a second or two of the linear program; on 500 hosts twice as many
gain nothing."""
_WHOLE = 1e-6
"""Parts of gangs up to this are rounding of the linear program."""
_PLAN_GAP, _PLAN_NODES = 1e-3, 100
"""Of the plan, which need not be the best: rules that it does not know move gangs about anyway."""


Standing = Mapping[tuple[Way, Place], float]
"""Gangs of a way that a linear program lets stand in each domain, whole ones or parts."""


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
        Minus infinity where the level has other terms, and 0 where hosts have too many patterns or
        the time is up.
    """
    rough, _ = relaxed(problem, level, held, seconds, domains=False)
    return max(rough, relaxed(problem, level, held, seconds, domains=True)[0])


def relaxed(
    problem: Problem, level: WeightedSum, held: Sequence[Held], seconds: float, *, domains: bool
) -> tuple[float, Standing]:
    """Return a bound on a level, as `fragments_bound`, and where the relaxation has gangs stand.

    Parameters
    ----------
    problem, level, held, seconds
        As in `fragments_bound`.
    domains
        Whether gangs are held in the domains that they require. Without, it takes a moment.
    """
    if not counts_fragments(level):
        return -math.inf, {}
    clock = timer(seconds)
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
    bound, standing = 0.0, dict[tuple[Way, Place], float]()
    with suppress(OutOfTime, SolverError), time_limit(seconds):
        program = program_of(gangs, held, domains=domains)
        cases = None if program is None else Cases(program)
        while cases is not None and (not domains or cases.num_columns <= _MAX_COLUMNS):
            parted = cases.applied()
            model = parted.arrays()
            optimum = LinearProgram(model).optimum("the patterns of hosts", clock())
            bound = max(bound, parted.lagrangian(model, optimum.duals))
            standing = parted.standing(optimum.values)
            if not cases.part(parted, optimum.values):
                break
    return level.terms[0][0] * bound / MILLI, standing


def planned_again(
    problem: Problem,
    counts: csr_array,
    held: Sequence[Held],
    seconds: float,
    *,
    domains: bool = True,
    standing: Standing | None = None,
) -> csr_array | None:
    """Return a placement with waiting jobs put down anew, along a plan of the hosts.

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
    domains
        Whether the plan is for gangs too that must stand in one domain. Without, they stay where
        they are, and the plan takes a moment.
    standing
        Where gangs stand in the plan; those that stand there in part are left to it. None: all are
        left to the plan.

    Returns
    -------
    csr_array or None
        Shape (groups, hosts); None if there is no plan.
    """
    gangs = Gangs(problem, counts)
    for j in [j for j in gangs.placed if j not in problem.data.running]:
        if domains or not _is_tied(problem, j, gangs.placed[j]):
            gangs.remove(j)
    plan = _plan(gangs, held, seconds, domains=domains, standing=standing or {})
    if plan is None:
        return None
    waiting = waiting_jobs(problem, gangs, by_size=True)
    put_down_along(gangs, [j for j in waiting if domains or not _is_tied(problem, j, 0)], plan)
    return gangs.counts()


def _is_tied(problem: Problem, job: int, configuration: int) -> bool:
    """Return whether a job may not stand just anywhere: its tasks need one domain."""
    tasks = int(problem.data.count[problem.rows_of[job, configuration]].sum())
    return tasks > 1 and bool(problem.data.levels_required(job, configuration))


def counts_fragments(level: WeightedSum) -> bool:
    """Return whether a level is minimised and counts fragmentation alone."""
    return level.sense == "min" and [term.name for _, term in level.terms] == ["fragmentation"]


def _plan(
    gangs: Gangs, held: Sequence[Held], seconds: float, *, domains: bool, standing: Standing
) -> Plan | None:
    """Return the tasks of each size that hosts should take beside gangs that stand, or None."""
    clock = timer(seconds)
    with suppress(OutOfTime), time_limit(seconds):
        program = program_of(gangs, held, domains=domains)
        if program is None:
            return None
        model = program.arrays()
        lower, upper = model.lower.copy(), model.upper.copy()
        for column, choice in enumerate(program.choices, len(program.bay)):
            number = None
            if choice.domain >= 0:
                number = standing.get((choice.way, program.domains[choice.domain]))
            if number is not None and abs(number - round(number)) < _WHOLE:
                lower[column] = upper[column] = min(round(number), choice.most)
        whole = replace(
            model, lower=lower, upper=upper, integer=np.ones(len(model.cost), dtype=bool)
        )
        raw = highs.solve(whole, SolverOptions(clock(), gap=_PLAN_GAP, nodes=_PLAN_NODES))
        return None if raw.values is None else _plan_of(gangs, program, raw.values)
    return None


def _plan_of(gangs: Gangs, program: Program, values: Array) -> Plan:
    number = np.round(values).astype(np.int64)
    of_pattern, of_choice = np.split(number, [len(program.bay)])
    tasks = np.zeros((gangs.topology.num_hosts, len(program.sizes)), dtype=np.int64)
    for b, members in enumerate(program.members):
        own = np.flatnonzero(program.bay == b)
        tasks[members] = np.repeat(program.counts[own], of_pattern[own], axis=0)
    places = []
    waiting = [list(jobs) for jobs in program.jobs]
    for choice, jobs in zip(program.choices, of_choice.tolist(), strict=True):
        if choice.domain >= 0:
            domain = program.domains[choice.domain][1]
            for job in waiting[choice.kind][:jobs]:
                places.append((job, choice.way.configuration, domain))
            del waiting[choice.kind][:jobs]
    return Plan(program.sizes, tasks, tuple(places))
