"""Column generation for operation: whole nodes as columns, an independent proof of its bounds.

A pattern is a node of some type with its jobs, their GPUs, and the job called first. The linear
master chooses patterns, ``min sum_p cost_p x_p + sum_j b_j q_j`` with each job in one pattern or
waiting, patterns of type v on nodes that can be of it, and the power cap. A pattern that pays is
found by a dynamic program over jobs and GPUs for each first job, which takes no job twice. So the
master is at least as strong as the relaxation of the aggregated model, and an integer master over
the patterns found gives a plan. Slower than the aggregated model; it shares no line of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alloc.backends import SolverOptions
from alloc.backends.highs import solve
from alloc.backends.linear_program import LinearProgram
from alloc.backends.restricted_master import MasterColumn, RestrictedMaster
from alloc.errors import OutOfTime
from alloc.formulation import Array
from alloc.models.operation.data import OperationData, operation_data
from alloc.models.operation.unrolling import name_nodes
from alloc.problems.operation.problem import OperationPlan, OperationProblem
from alloc.solving.outcome import Settings

_TOLERANCE = 1e-8


@dataclass(frozen=True)
class Pattern:
    """A node: its type, its jobs with their GPUs, the one called first in front, and its cost."""

    type: int
    members: tuple[tuple[int, int], ...]
    cost: float

    @property
    def gpus(self) -> int:
        """GPUs in use."""
        return sum(gpus for _, gpus in self.members)


@dataclass(frozen=True)
class PatternResult:
    """What column generation found.

    Parameters
    ----------
    bound
        Proved bound on the cost of every plan.
    plan
        The best plan of the patterns found.
    cost
        Its cost in the master, money; the checker's is at most that.
    patterns, rounds
        Numbers of patterns generated and of rounds.
    converged
        Whether no further pattern pays.
    """

    bound: float
    plan: OperationPlan
    cost: float
    patterns: int
    rounds: int
    converged: bool


def solve_by_patterns(
    problem: OperationProblem,
    settings: Settings | None = None,
    objective: str = "operation-cost",
) -> PatternResult:
    """Return a bound and a plan by column generation over node patterns.

    Parameters
    ----------
    problem
        The decision; a hundred jobs take seconds.
    settings
        Time limit and seed.
    objective
        One of `alloc.verification.operation.OBJECTIVES`.
    """
    settings = settings or Settings()
    data = operation_data(problem, objective)
    master = _Master(data, settings)
    rounds, bound, converged = 0, -np.inf, False
    while not converged and settings.seconds_left() > 0:
        try:
            value, prices = master.solve()
        except OutOfTime:
            break
        rounds += 1
        priced = [_best_pattern(data, v, *prices) for v in range(data.num_types)]
        least = min((reduced for reduced, _ in priced), default=0.0)
        # No more patterns are chosen than there are nodes, each at the least reduced cost.
        bound = max(bound, value + float(data.nodes_of.sum()) * min(least, 0.0))
        scale = abs(value)
        new = [p for reduced, p in priced if p is not None and reduced < -_TOLERANCE * scale]
        converged = not master.add(new)
    cost, chosen = master.solve_integer()
    return PatternResult(bound, chosen, cost, len(master.patterns), rounds, converged)


Prices = tuple[Array, Array, float]
"""Of a job that runs, of a node of each type, of a watt."""


_Key = tuple[int, tuple[tuple[int, int], ...]]


class _Master:
    """The master: rows of jobs, types, pools and power; waiting and pools are its first columns."""

    def __init__(self, data: OperationData, settings: Settings) -> None:
        self.data, self.patterns = data, list[Pattern]()
        self.settings = settings
        program = LinearProgram(seed=settings.seed)
        inf = np.inf
        jobs, types, pools = data.num_jobs, data.num_types, len(data.nodes_of)
        cap = data.problem.power_cap_w
        program.add_rows(
            np.array([*[1.0] * jobs, *[-inf] * (types + pools + 1)]),
            np.array([*[1.0] * jobs, *[0.0] * types, *data.nodes_of, inf if cap is None else cap]),
        )
        self.power_row = jobs + types + pools
        every = np.arange(jobs)
        program.add_columns(
            data.wait_cost, np.zeros(jobs), np.ones(jobs), every, every, np.ones(jobs)
        )
        pool, node_type = np.nonzero(data.offers)
        offers = len(pool)
        program.add_columns(
            np.zeros(offers),
            np.zeros(offers),
            data.nodes_of[pool].astype(float),
            2 * np.arange(offers),
            np.stack([jobs + node_type, jobs + types + pool], axis=1).ravel(),
            np.tile([-1.0, 1.0], offers),
        )
        self.first = program.num_columns
        self.master = RestrictedMaster[_Key]("the linear master of node patterns", program)

    def add(self, patterns: list[Pattern]) -> int:
        """Add the patterns that are new; return how many."""
        new = {(p.type, p.members): p for p in patterns}
        new = {key: p for key, p in new.items() if key not in self.master}
        self.patterns += new.values()
        return self.master.add(self._column(key, pattern) for key, pattern in new.items())

    def _column(self, key: _Key, pattern: Pattern) -> MasterColumn[_Key]:
        rows = [j for j, _ in pattern.members]
        rows += [self.data.num_jobs + pattern.type, self.power_row]
        power = float(self.data.power_w[pattern.type, pattern.gpus])
        return MasterColumn(key, pattern.cost, rows, [1.0] * (len(rows) - 1) + [power], 1.0)

    def solve(self) -> tuple[float, Prices]:
        """Solve the linear master in the time left; return its value and prices."""
        seconds = self.settings.seconds_left()
        found = self.master.solve(seconds)
        dual = found.duals
        jobs, types = self.data.num_jobs, self.data.num_types
        watt = max(-float(dual[self.power_row]), 0.0)
        return found.value, (dual[:jobs], np.maximum(-dual[jobs : jobs + types], 0.0), watt)

    def solve_integer(self) -> tuple[float, OperationPlan]:
        """Choose whole patterns among those found; every job may wait, so there is a choice."""
        model = self.master.program.integer_model()
        waiting = (np.arange(len(model.cost)) < self.data.num_jobs).astype(float)
        seconds = max(self.settings.seconds_left(), 1.0)
        options = SolverOptions(seconds, self.settings.seed, gap=0.0, start=waiting)
        raw = solve(model, options)
        if raw.values is None or raw.objective is None:
            return float(model.cost @ waiting), name_nodes(self.data, [])
        values = np.rint(raw.values).astype(int)
        pools: dict[int, list[int]] = {v: [] for v in range(self.data.num_types)}
        start = self.data.num_jobs
        for number, (p, v) in zip(
            values[start : self.first], np.argwhere(self.data.offers).tolist(), strict=True
        ):
            pools[v] += [p] * int(number)
        chosen = [self.patterns[c] for c in np.flatnonzero(values[self.first :] > 0)]
        filled = [(pools[p.type].pop(0), p.type, list(p.members)) for p in chosen]
        return raw.objective, name_nodes(self.data, filled)


def _best_pattern(
    data: OperationData, v: int, job_price: Array, node_price: Array, watt_price: float
) -> tuple[float, Pattern | None]:
    """Return the least reduced cost of a node of a type, and the pattern.

    ``head[i, r]`` is the least of sum (cost - price) over followers among the first i jobs on
    exactly r GPUs, ``tail[i, r]`` the same over the jobs from i on; together they leave one out.
    """
    most = int(data.gpus[v])
    worth = data.run_cost[:, v, : most + 1] - job_price[:, None]
    head = _tables(worth, most)
    tail = _tables(worth[::-1], most)[::-1]
    best, found = 0.0, None
    for j in range(data.num_jobs):
        without = _joined(head[j], tail[j + 1])
        for g in np.flatnonzero(np.isfinite(data.hours[j, v, : most + 1])).tolist():
            used = np.arange(g, most + 1)
            cost = data.node_rate[v, used] * data.hours[j, v, g] + worth[j, g]
            cost = cost + without[: len(used)] + node_price[v] + watt_price * data.power_w[v, used]
            k = int(np.argmin(cost))
            if cost[k] < best:
                best, found = float(cost[k]), (j, g, k)
    if found is None:
        return 0.0, None
    j, g, rest = found
    others = np.delete(np.arange(data.num_jobs), j)
    members = _followers(worth[others], rest, most)
    chosen = ((j, g), *((int(others[i]), k) for i, k in members))
    cost = float(data.node_rate[v, g + rest] * data.hours[j, v, g])
    cost += float(sum(data.run_cost[i, v, k] for i, k in chosen))
    return best, Pattern(v, chosen, cost)


def _tables(worth: Array, most: int) -> Array:
    """Return, for the first 0, 1, ... jobs, the least worth on exactly r GPUs, shape (J+1, G+1)."""
    table = np.full((len(worth) + 1, most + 1), np.inf)
    table[0, 0] = 0.0
    for i, row in enumerate(worth):
        table[i + 1] = table[i]
        for g in range(1, most + 1):
            if np.isfinite(row[g]):
                taken = table[i, : most + 1 - g] + row[g]
                table[i + 1, g:] = np.minimum(table[i + 1, g:], taken)
    return table


def _joined(a: Array, b: Array) -> Array:
    """Return the least sum of two tables on exactly r GPUs."""
    return np.array([(a[: r + 1] + b[r::-1][: r + 1]).min() for r in range(len(a))])


def _followers(worth: Array, rest: int, most: int) -> list[tuple[int, int]]:
    """Return the jobs and GPUs behind the least worth on exactly `rest` GPUs."""
    table = _tables(worth, most)
    found = []
    for i in range(len(worth) - 1, -1, -1):
        if table[i + 1, rest] == table[i, rest]:
            continue
        for g in range(1, rest + 1):
            if table[i, rest - g] + worth[i, g] == table[i + 1, rest]:
                found.append((i, g))
                rest -= g
                break
    return found
