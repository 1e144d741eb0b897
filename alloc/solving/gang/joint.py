"""Gangs of several task groups, which compete for the same hosts.

One group after the other, the most demanding first, is tried before anything else: with room to
spare that does. Whether there is a place at all is decided by a small integer program.

y_gh in {0, 1, ...}   tasks of group g on host h
(C1)  sum_h y_gh = n_g                                   the gang is whole
(C2)  sum_g d_gr y_gh <= free_hr                         capacity
(C3)  sum_{h in k} y_gh = size * s_gk                    slices, for each domain k of their level
(C4)  sum_{g ruled} sum_{h in k} y_gh <= most            spreads, for each domain k
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alloc.errors import SolverError, UnsupportedFeatureError
from alloc.solving.gang.choosing import choose_hosts
from alloc.solving.gang.room import Counts, room_by_level
from alloc.topology.topology import HOST
from alloc.workload import Configuration, PlacementRules

if TYPE_CHECKING:
    from alloc.solving.gang.question import GangFeasibility

_SECONDS = 10.0
_INFEASIBLE = 2
"""Status of scipy's answer."""


def hold_together(
    question: GangFeasibility, hosts: Counts, drop: frozenset[str]
) -> list[tuple[int, int, int]] | None:
    """Return (group, host, tasks) for all groups of a gang on some hosts, or None: proved not.

    Parameters
    ----------
    question
        The gang and the cluster.
    hosts
        Positions of the hosts to use.
    drop
        Requirements to leave out.

    Raises
    ------
    SolverError
        If neither is found in ten seconds.
    """
    from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp
    from scipy.sparse import csr_array

    groups = question.configuration.tasks
    if any(group.shares_gpu or group.mig_profile for group in groups):
        raise UnsupportedFeatureError(
            f'job "{question.job.id}": has several task groups and some share GPUs, which are '
            'packed GPU by GPU; use the formulation "sharing".'
        )
    found = _one_by_one(question, hosts, drop)
    if found is not None:
        return found
    room = np.array([question.hosts_room(group, drop)[hosts] for group in groups])
    rows: list[tuple[dict[int, float], float, float]] = []
    width = len(hosts)
    columns = len(groups) * width
    for g, group in enumerate(groups):
        rows.append(
            (dict.fromkeys(range(g * width, (g + 1) * width), 1.0), group.count, group.count)
        )
    demand = _demand(question.configuration, drop)
    free = question.pool_without(drop).free[hosts]
    for k in range(width):
        for r in range(free.shape[1]):
            row = {g * width + k: float(d) for g, d in enumerate(demand[:, r]) if d}
            if row:
                rows.append((row, -np.inf, float(free[k, r])))
    ruled = [g for g, group in enumerate(groups) if group in question.configuration.ruled_groups]
    rules = question.rules(drop)
    for cut in rules.slices:
        if cut.level != HOST:
            outside = question.tree.topology.domain_of_host[cut.level][hosts] < 0
            room[np.ix_(np.array(ruled), np.flatnonzero(outside))] = 0
    upper = [float(n) for n in room.ravel()]
    for spread in rules.spread:
        for members in _domains(question, spread.level, hosts):
            row = {g * width + k: 1.0 for g in ruled for k in members}
            rows.append((row, -np.inf, float(spread.most)))
    for cut in rules.slices:
        for members in _domains(question, cut.level, hosts):
            for g in ruled:
                row = {g * width + k: 1.0 for k in members}
                row[columns] = -float(cut.size)
                rows.append((row, 0.0, 0.0))
                upper.append(float(groups[g].count // cut.size))
                columns += 1
    entries = [(i, c, v) for i, (row, _, _) in enumerate(rows) for c, v in row.items()]
    i, c, v = zip(*entries, strict=True)
    matrix = csr_array((v, (i, c)), shape=(len(rows), columns))

    def asked(*, presolve: bool) -> OptimizeResult:
        return milp(
            np.zeros(columns),
            constraints=LinearConstraint(matrix, [r[1] for r in rows], [r[2] for r in rows]),
            bounds=Bounds(0, upper),
            integrality=np.ones(columns),
            options={"time_limit": _SECONDS, "presolve": presolve},
        )

    answer = asked(presolve=True)
    if answer.status == _INFEASIBLE:
        # Presolve alone has refused programs that have a solution; see `alloc.backends.highs`.
        answer = asked(presolve=False)
        if answer.x is None:
            return None
    if answer.x is None:
        raise SolverError(
            f'job "{question.job.id}": whether its task groups fit together is not decided in '
            f"{_SECONDS:g} s; give it fewer hosts to choose from."
        )
    tasks = np.rint(answer.x[: len(groups) * width]).astype(int).reshape(len(groups), width)
    return [(int(g), int(hosts[k]), int(tasks[g, k])) for g, k in np.argwhere(tasks)]


def _one_by_one(
    question: GangFeasibility, hosts: Counts, drop: frozenset[str]
) -> list[tuple[int, int, int]] | None:
    """Return (group, host, tasks) with the groups placed in turn; None where that does not do."""
    tree, rules = question.tree, question.rules(drop)
    configuration = question.configuration
    ruled = configuration.ruled_groups
    if len(ruled) > 1 and rules.spread:
        return None  # a spread counts them together
    demand = _demand(configuration, drop)
    free = question.pool_without(drop).free.copy()
    found = []
    for g in sorted(range(len(demand)), key=lambda g: tuple(demand[g]), reverse=True):
        group, needed = configuration.tasks[g], demand[g] > 0
        room = np.zeros(len(free), dtype=np.int64)
        room[hosts] = question.hosts_room(group, drop)[hosts]
        if needed.any():
            left = (free[:, needed] // demand[g, needed]).min(axis=1)
            room = np.minimum(room, np.maximum(left, 0))
        rooms = room_by_level(tree, room, rules if group in ruled else PlacementRules())
        outermost = tree.levels[-1]
        if int(rooms[outermost][np.unique(tree.unit[outermost][hosts])].sum()) < group.count:
            return None
        for h, n in choose_hosts(tree, rooms, hosts, group.count):
            free[h] -= n * demand[g]
            found.append((g, h, n))
    return found


def _demand(configuration: Configuration, drop: frozenset[str]) -> Counts:
    demand = np.array([group.demand for group in configuration.tasks])
    if "CPU" in drop:
        demand[:, 1] = 0
    if "memory" in drop:
        demand[:, 2] = 0
    return demand


def _domains(question: GangFeasibility, level: str, hosts: Counts) -> list[list[int]]:
    """Return the positions in `hosts` of the hosts of each domain of a level."""
    if level == HOST:
        return [[k] for k in range(len(hosts))]
    domain = question.tree.topology.domain_of_host[level][hosts]
    return [np.flatnonzero(domain == k).tolist() for k in np.unique(domain[domain >= 0])]
