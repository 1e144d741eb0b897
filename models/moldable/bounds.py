"""Bounds of F3 that are evaluated in numpy: any prices and multipliers prove one.

Both look at the pooled rows only - the resources of the cluster and of each GPU type, quotas, and
rows of dual feasible functions - so they hold wherever gangs stand, and in slots as without them.

Prices of time
    With prices ``lambda_r(t) >= 0``, constant between the moments of a grid, every schedule costs
    at least ``sum_j min over ways and starts [f_j(S + p) + sum_r use_r (Lambda_r(S + h) -
    Lambda_r(S))] - sum_r B_r Lambda_r(end)``, with Lambda the integral of lambda. Between the
    moments at which start or end of a run pass the grid, or its completion the due date, that is a
    linear function of the start S, so its minimum is at one of them: nothing is rounded in
    continuous time.

Energy
    If all jobs keep deadlines, then for multipliers mu of rows r in windows [a, b] with
    ``sum mu_rab B_r (b - a) = 1`` at least one way of each job is affordable: ``sum_j min over ways
    sum mu_rab use_r e_j(a, b) <= 1`` with e the least part of the run inside the window. Where this
    fails, no schedule keeps the deadlines; so peaks (makespan, slowdown) have a least value.

References
----------
Baptiste, Le Pape, Nuijten, Annals of OR 92 (1999) (energetic reasoning). Fekete, Schepers, "New
classes of fast lower bounds for bin packing problems", Math. Programming 91 (2001) (dual feasible
functions). Turek, Wolf, Yu, "Approximate algorithms for scheduling parallelizable tasks", SPAA
1992; Ludwig, Tiwari, "Scheduling malleable and nonmalleable parallel tasks", SODA 1994 (areas of
the least allotments that keep a deadline). Dyer, Wolsey, DAM 26 (1990) (prices of time).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import sparse

from alloc.formulation import ArrayModel
from alloc.models.malleable.costs import JobCosts, Peak
from alloc.models.moldable.data import Array, MoldableData, Way
from alloc.units import MILLI

Index = npt.NDArray[np.int64]

_MAX_STEPS = 4
"""Dual feasible functions u^(k) up to this k: later ones hardly ever say more for a few sizes."""
_MAX_ENDS = 8
"""Beginnings and ends of windows: a bound holds for any choice."""
_MIDDLES = (0.25, 1 / 3, 0.4, 0.45)
"""Windows in the middle of all time, from this share to one less it: long jobs all cross them."""
_CLOSE = 1e-7
"""Relative distance of a peak's bound from a schedule's value at which they count as one."""
_SURE = 1e-9
"""By how much a sum must exceed 1 to prove something: rounding makes 1e-13 of it."""


@dataclass(frozen=True)
class Pool:
    """The ways of all jobs in one list, and the rows that bounds look at.

    Parameters
    ----------
    data
        The instance.
    job
        Job of each way, shape (N,).
    run, hold
        Seconds from start to completion and to the end of the run, shape (N,).
    load
        Use of each row as a share of what there is, shape (N, R).
    has_functions
        Whether some rows are of dual feasible functions.
    """

    data: MoldableData
    job: Index
    run: Array
    hold: Array
    load: Array
    has_functions: bool = False

    @cached_property
    def first(self) -> Index:
        """Position of each job's first way, shape (J,)."""
        return np.flatnonzero(np.diff(self.job, prepend=-1))

    @cached_property
    def release(self) -> Array:
        """Release of each way's job, shape (N,)."""
        return np.asarray(self.data.release[self.job])

    def least(self, values: Array) -> tuple[Array, Index]:
        """Return the least value over the ways of each job, and the way that has it."""
        least = np.minimum.reduceat(values, self.first)
        at = np.flatnonzero(values == least[self.job])
        _, where = np.unique(self.job[at], return_index=True)
        return least, at[where]


def pool_of(data: MoldableData) -> Pool:
    """Return the ways of an instance in one list.

    Parameters
    ----------
    data
        The instance.
    """
    ways = [(j, way) for j, own in enumerate(data.ways) for way in own]
    capacity = np.where(data.pool.capacity > 0, data.pool.capacity, 1.0)
    load = np.array([way.load for _, way in ways]) / capacity
    more = list(_dual_feasible(data, ways))
    load = np.column_stack([load, *more]) if more else load
    load = load[:, load.any(axis=0)]
    return Pool(
        data,
        np.array([j for j, _ in ways], dtype=np.int64),
        np.array([way.run_s for _, way in ways]),
        np.array([way.hold_s for _, way in ways]),
        np.unique(load, axis=1) if load.shape[1] else np.zeros((len(ways), 1)),
        bool(more),
    )


def _dual_feasible(data: MoldableData, ways: list[tuple[int, Way]]) -> Iterator[Array]:
    """Yield rows in which gangs that leave GPUs of a host to nobody count for more."""
    topology = data.instance.topology
    gpus = topology.capacity[:, 0] // MILLI
    if not data.is_complete or not gpus.any():
        return
    host = {own.id: h for h, own in enumerate(topology.hosts)}
    for kind in (None, *dict.fromkeys(t for t in topology.gpu_types if t is not None)):
        hosts = [h for h, own in enumerate(topology.gpu_types) if gpus[h] and kind in (None, own)]
        sizes = {int(gpus[h]) for h in hosts}
        if len(sizes) > 1 or not hosts:
            continue
        whole, among = sizes.pop(), set(hosts)
        parts: list[list[tuple[int, ...]]] = []
        for j, way in ways:
            groups = {
                g.role: g for g in data.instance.jobs[j].configurations[way.configuration].tasks
            }
            found = set()
            for placement in way.placements:
                own: dict[int, int] = {}
                for task in placement.tasks:
                    h, amount = host[task.host], groups[task.role].gpu_milli // MILLI
                    if h in among:
                        own[h] = own.get(h, 0) + task.count * amount
                found.add(tuple(sorted(own.values())))
            parts.append(list(found))
        for function in _functions(whole):
            value = [function(size) for size in range(whole + 1)]
            if all(value[size] <= size / whole for own in parts for p in own for size in p):
                continue  # the row of GPUs says as much
            yield np.array(
                [min(sum(value[size] for size in p) for p in own) / len(hosts) for own in parts]
            )


def _functions(whole: int) -> Iterator[Callable[[int], float]]:
    """Yield dual feasible functions of the GPUs that a gang takes of a host."""
    for k in range(1, _MAX_STEPS + 1):
        yield lambda size, k=k: (  # type: ignore[misc]
            size / whole if (k + 1) * size % whole == 0 else (k + 1) * size // whole / k
        )
    for least in range(1, whole // 2 + 1):
        yield lambda size, least=least: (  # type: ignore[misc]
            1.0 if size > whole - least else size / whole if size >= least else 0.0
        )


class PricesOfTime:
    """The Lagrangian bound, with everything worked out that prices do not change.

    Parameters
    ----------
    pool
        The ways and rows.
    costs
        What completions cost.
    edges
        The grid between whose moments a price is constant, shape (K + 1,).
    """

    def __init__(self, pool: Pool, costs: JobCosts, edges: Array) -> None:
        self.pool, self.edges = pool, edges
        release, deadline = pool.release, pool.data.deadline[pool.job]
        due = costs.due[pool.job]
        last = deadline - pool.run
        starts = np.hstack(
            [
                np.broadcast_to(edges, (len(pool.job), len(edges))),
                edges - pool.hold[:, None],
                np.where(np.isfinite(due), due, 0.0)[:, None] - pool.run[:, None],
                np.where(np.isfinite(last), last, 0.0)[:, None],
            ]
        )
        # Beyond either end the nearest start that is allowed stands for all.
        starts = np.minimum(
            np.maximum(starts, release[:, None]), np.maximum(last, release)[:, None]
        )
        self.starts = starts
        end = starts + pool.run[:, None]
        j = pool.job
        beyond = np.maximum(end - due[:, None], 0.0)
        cost = costs.base[j, None] + costs.rate[j, None] * end + costs.late[j, None] * beyond
        # A way that misses the deadline at once is none.
        self.cost = np.where((last < release * (1 - 1e-12))[:, None], np.inf, cost)
        self._from = self._locate(starts)
        self._to = self._locate(starts + pool.hold[:, None])

    def _locate(self, moments: Array) -> tuple[Index, Array]:
        at = np.clip(np.searchsorted(self.edges, moments, side="right") - 1, 0, len(self.edges) - 2)
        length = self.edges[at + 1] - self.edges[at]
        return at, np.clip((moments - self.edges[at]) / length, 0.0, 1.0)

    def _priced(self, prices: Array) -> Array:
        """Return the cost of each way and start at prices, shape (N, starts)."""
        total = np.hstack([np.zeros((len(prices), 1)), np.cumsum(prices, axis=1)])
        (a, share_a), (b, share_b) = self._from, self._to
        cost: Array = self.cost.copy()
        for r, row in enumerate(prices):
            paid = (total[r][b] + row[b] * share_b) - (total[r][a] + row[a] * share_a)
            cost += self.pool.load[:, r, None] * paid
        return cost

    def relaxed(self, prices: Array) -> tuple[float, Array]:
        """Return the least cost at prices of whole rows, shape (R, K), and the use of each.

        Parameters
        ----------
        prices
            Of a row from one moment of the grid to the next, 0 or more.
        """
        pool, cost = self.pool, self._priced(prices)
        at = cost.argmin(axis=1)
        ways = np.arange(len(at))
        least, chosen = pool.least(cost[ways, at])
        start = self.starts[chosen, at[chosen]]
        end = start + pool.hold[chosen]
        edges = self.edges
        inside = np.minimum(end[:, None], edges[1:]) - np.maximum(start[:, None], edges[:-1])
        inside = np.maximum(inside, 0.0) / np.diff(edges)
        return math.fsum(least), pool.load[chosen].T @ inside

    def least(self, prices: Array) -> Array:
        """Return what each job costs at least at prices, what it takes included, shape (J,).

        Parameters
        ----------
        prices
            As in `relaxed`.
        """
        return self.pool.least(self._priced(prices).min(axis=1))[0]

    def starts_within(self, prices: Array, value: float) -> tuple[Array, Array]:
        """Return between which starts each way can be in a schedule of at most a cost, (N,) each.

        A way whose last start is before its first is in none (variable fixing by reduced costs).

        Parameters
        ----------
        prices
            As in `relaxed`.
        value
            The cost.
        """
        pool, order = self.pool, np.argsort(self.starts, axis=1, kind="stable")
        cost = self._priced(prices)
        least, _ = pool.least(cost.min(axis=1))
        room = value + math.fsum(prices.ravel()) - math.fsum(least) + least[pool.job]
        starts = np.take_along_axis(self.starts, order, axis=1)
        # A sum of many terms rounds: what is at the edge stays.
        able = np.take_along_axis(cost, order, axis=1) <= (room + 1e-9 * abs(value))[:, None]
        last = starts.shape[1] - 1
        # Between two starts the cost is linear: it may fall to the room before the first able one.
        first = np.maximum(able.argmax(axis=1) - 1, 0)
        final = np.minimum(last - able[:, ::-1].argmax(axis=1) + 1, last)
        at = np.arange(len(starts))
        low, high = starts[at, first], starts[at, final]
        # After the last moment of the grid time is free, and costs only rise.
        high = np.where(able[:, last], np.inf, high)
        none = ~able.any(axis=1)
        return np.where(none, 1.0, low), np.where(none, 0.0, high)

    def bound(self, prices: Array) -> float:
        """Return what prices prove: no schedule costs less.

        Parameters
        ----------
        prices
            As in `relaxed`; those below 0 count as 0.
        """
        prices = np.maximum(prices, 0.0)
        return self.relaxed(prices)[0] - math.fsum(prices.ravel())


def least_peak(
    pool: Pool,
    peak: Peak,
    known: float,
    solve: Callable[[ArrayModel], Array | None],
    halvings: int = 14,
) -> float:
    """Return a value that no schedule's peak goes below.

    Parameters
    ----------
    pool
        The ways and rows.
    peak
        The peak.
    known
        Its value in a schedule, or where the search for a bound may end.
    solve
        Solves a linear program and returns the duals of its rows, or None when time is up. They are
        not believed: what they prove is evaluated here.
    halvings
        Halvings of the range that is left.
    """
    low = float(peak.at(pool.data.earliest_end).max())
    high = max(known, low)
    for halving in range(halvings):
        if high - low <= _CLOSE * abs(high):
            break
        # Often the best schedule known is the best there is: then one program says so.
        middle = 0.5 * (low + high) if halving else (1 - _CLOSE) * high
        proved = misses_deadlines(pool, peak.latest(middle), solve)
        if proved is None:
            break
        low, high = (middle, high) if proved else (low, middle)
    return low


def misses_deadlines(
    pool: Pool, deadline: Array, solve: Callable[[ArrayModel], Array | None]
) -> bool | None:
    """Return whether it is proved that no schedule keeps deadlines; None when time is up.

    Parameters
    ----------
    pool
        The ways and rows.
    deadline
        Latest completion of each job, seconds, shape (J,).
    solve
        As in `least_peak`.
    """
    data = pool.data
    deadline = np.minimum(deadline, data.deadline)
    latest = deadline[pool.job]
    able = pool.release + pool.run <= latest * (1 + _SURE)
    if not np.logical_or.reduceat(able, pool.first).all():
        return True
    energy = np.hstack(
        [
            pool.load * (_inside(pool, latest, a, b) / (b - a))[:, None]
            for a, b in _windows(data.release, deadline)
        ]
    )[able]
    job = pool.job[able]
    num_ways, num_rows = energy.shape
    num_jobs = data.num_jobs
    choose = sparse.csr_array(
        (np.ones(num_ways), (job, np.arange(num_ways))), shape=(num_jobs, num_ways + 1)
    )
    rows = sparse.hstack([sparse.csr_array(energy.T), -np.ones((num_rows, 1))])
    model = ArrayModel(
        sense="min",
        cost=np.concatenate([np.zeros(num_ways), [1.0]]),
        matrix=sparse.csr_array(sparse.vstack([choose, rows])),
        row_lower=np.concatenate([np.ones(num_jobs), np.full(num_rows, -np.inf)]),
        row_upper=np.concatenate([np.ones(num_jobs), np.zeros(num_rows)]),
        lower=np.zeros(num_ways + 1),
        upper=np.concatenate([np.ones(num_ways), [max(1.0, float(energy.sum()))]]),
        integer=np.zeros(num_ways + 1, dtype=bool),
    )
    duals = solve(model)
    if duals is None:
        return None
    multipliers = np.maximum(-duals[num_jobs:], 0.0)
    total = float(multipliers.sum())
    if total <= 0:
        return False
    first = np.flatnonzero(np.diff(job, prepend=-1))
    needed = np.minimum.reduceat(energy @ (multipliers / total), first)
    return math.fsum(needed) > 1 + _SURE


def _inside(pool: Pool, latest: Array, a: float, b: float) -> Array:
    """Return the least part of each way's run within a window: at its first or its last start."""
    start, run = pool.release, pool.run
    early = np.minimum(start + run, b) - np.maximum(start, a)
    late = np.minimum(latest, b) - np.maximum(latest - run, a)
    inside: Array = np.maximum(np.minimum(early, late), 0.0)
    return inside


def _windows(release: Array, deadline: Array) -> list[tuple[float, float]]:
    begins, ends = _few(np.unique(release)), _few(np.unique(deadline[np.isfinite(deadline)]))
    found = {(float(a), float(b)) for a in begins for b in ends if b > a}
    low, high = float(begins[0]), float(ends[-1])
    found |= {(low + s * (high - low), high - s * (high - low)) for s in _MIDDLES if high > low}
    return sorted(found)


def _few(moments: Array) -> Array:
    if len(moments) <= _MAX_ENDS:
        return moments
    return np.asarray(moments[np.linspace(0, len(moments) - 1, _MAX_ENDS).astype(int)])
