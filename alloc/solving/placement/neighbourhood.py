"""Exact re-optimisation of a few hosts: all their tasks that may move, dealt out anew by HiGHS.

For rows k with tasks on hosts h of the neighbourhood, integers s_kh (tasks that stand where they
stood at first) and e_kh (others):

- (N1) every task stands somewhere: sum_h (s_kh + e_kh) = tasks of k on these hosts
- (N2) capacity of each resource of each host
- (N3) excess o_hr >= share of r used on h - mean share of r, for the weight of balance
- (N4) GPUs used on h <= GPUs of h * y_h, s_kh <= its limit * y_h, for the weight of hosts used
- (N5) spread per host; (N6) the move budget that is left

A task that stands where it stood saves the price of a move. The value on the other hosts does not
change, so what the program gains is gained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from alloc.backends import SolverOptions, highs
from alloc.formulation import Array, ArrayModel
from alloc.solving.placement.state import GAIN, State
from alloc.solving.placement.terms import Counts


@dataclass(frozen=True)
class _Pairs:
    """What may stand where: entries are pairs of a row and a host of the neighbourhood."""

    row: Counts
    host: Counts
    count: Counts
    initial: Counts
    most: Counts
    total: Counts
    demand: Counts
    block: Counts
    block_row: Counts
    column: Counts


class Neighbourhood:
    """The integer program of some hosts.

    Parameters
    ----------
    state
        The placement.
    hosts
        Positions of the hosts, distinct.
    """

    def __init__(self, state: State, hosts: Sequence[int]) -> None:
        self.state = state
        self.hosts = np.array(hosts, dtype=np.int64)
        self.pairs = _pairs(state, self.hosts)
        pairs = self.pairs
        here = np.zeros((len(hosts), state.capacity.shape[1]), dtype=np.int64)
        np.add.at(here, pairs.host, pairs.count[:, None] * pairs.demand)
        used = state.used[self.hosts]
        self.rest = used - here
        # What is over-full may stay so, but gets no worse.
        self.room = np.maximum(state.capacity[self.hosts], used) - self.rest
        needs = pairs.demand > 0
        fit = np.where(needs, self.room[pairs.host] // np.maximum(pairs.demand, 1), 1 << 30)
        self.limit = np.minimum.reduce([fit.min(axis=1), pairs.total, pairs.most])
        self.limit = np.maximum(self.limit, pairs.count)

    def solve(
        self, seconds: float, seed: int = 0, gap: float = 1e-4, nodes: int | None = None
    ) -> float:
        """Put the best placement found into the state; return what it gained, 0 for nothing.

        Parameters
        ----------
        seconds
            Most wall time.
        seed
            Of the solver.
        gap
            Relative gap at which the program counts as solved.
        nodes
            Most nodes of the search tree, or None.
        """
        if not len(self.pairs.row):
            return 0.0
        model, start = self._draw()
        before = float(model.cost @ start)
        raw = highs.solve(model, SolverOptions(seconds, seed, 1, gap, start, nodes=nodes))
        if raw.values is None or raw.objective is None or raw.objective > before - GAIN:
            return 0.0
        tasks = np.rint(raw.values[: 2 * len(self.pairs.row)]).astype(np.int64)
        now = tasks[: len(self.pairs.row)] + tasks[len(self.pairs.row) :]
        self._enter(now)
        return before - raw.objective

    def _enter(self, now: Counts) -> None:
        pairs, state = self.pairs, self.state
        for i in np.flatnonzero(now != pairs.count).tolist():
            change = int(now[i] - pairs.count[i])
            state.add(int(pairs.block[i]), int(pairs.block_row[i]), int(pairs.column[i]), change)
        state.changed(self.hosts.tolist())

    def _draw(self) -> tuple[ArrayModel, Array]:
        """Return the program and the placement of now as its start."""
        pairs, state, hosts = self.pairs, self.state, self.hosts
        size = len(pairs.row)
        num_hosts, num_resources = self.room.shape
        stay_limit = np.minimum(pairs.initial, self.limit)
        stay = np.minimum(pairs.count, pairs.initial)
        use_hosts = state.cost.used > 0
        use_balance = state.cost.balance > 0
        first_y = 2 * size
        first_o = first_y + num_hosts * use_hosts
        columns = first_o + num_hosts * num_resources * use_balance
        lower, upper = np.zeros(columns), np.full(columns, np.inf)
        upper[:size], upper[size:first_y] = stay_limit, self.limit
        cost = np.zeros(columns)
        cost[:size] = -state.price
        start = np.zeros(columns)
        start[:size], start[size:first_y] = stay, pairs.count - stay
        rows = _Rows()
        both = np.concatenate([np.arange(size), np.arange(size) + size])
        row, host = np.tile(pairs.row, 2), np.tile(pairs.host, 2)
        demand = np.tile(pairs.demand, (2, 1))
        # (N1)
        totals = np.zeros(int(pairs.row.max()) + 1)
        totals[pairs.row] = pairs.total
        rows.add(row, both, np.ones(2 * size), totals, totals)
        # (N2), the GPUs with (N4) where hosts count
        for r in range(num_resources):
            room = self.room[:, r].astype(float)
            entries, at, what = demand[:, r].astype(float), host, both
            if r == 0 and use_hosts:
                ys = np.arange(num_hosts) + first_y
                entries = np.concatenate([entries, -room])
                at, what = np.concatenate([at, np.arange(num_hosts)]), np.concatenate([what, ys])
                room = np.zeros(num_hosts)
            scale = max(float(state.capacity[:, r].max()), 1.0)
            rows.add(at, what, entries / scale, np.full(num_hosts, -np.inf), room / scale)
        if use_hosts:
            cost[first_y:first_o] = state.cost.used
            upper[first_y:first_o] = 1
            lower[first_y:first_o] = self.rest[:, 0] > 0
            start[first_y:first_o] = state.used[hosts, 0] > 0
            tight = np.flatnonzero((pairs.demand[:, 0] > 0) & (stay_limit > 0))
            at = np.arange(len(tight))
            rows.add(
                np.tile(at, 2),
                np.concatenate([tight, pairs.host[tight] + first_y]),
                np.concatenate([np.ones(len(tight)), -stay_limit[tight].astype(float)]),
                np.full(len(tight), -np.inf),
                np.zeros(len(tight)),
            )
        if use_balance:
            share = demand / state.cost.capacity[hosts][host]
            cost[first_o:] = state.cost.balance
            excess = state.used[hosts] / state.cost.capacity[hosts] - state.cost.mean
            start[first_o:] = np.maximum(excess, 0.0).ravel()
            index = np.arange(num_hosts * num_resources)
            at = (host[:, None] * num_resources + np.arange(num_resources)).ravel()
            rows.add(
                np.concatenate([at, index]),
                np.concatenate([np.repeat(both, num_resources), index + first_o]),
                np.concatenate([share.ravel(), -np.ones(len(index))]),
                np.full(len(index), -np.inf),
                (state.cost.mean - self.rest / state.cost.capacity[hosts]).ravel(),
            )
        # (N5)
        spread = np.flatnonzero(pairs.most < pairs.total)
        spread = spread[stay_limit[spread] > 0]
        if len(spread):
            rows.add(
                np.tile(np.arange(len(spread)), 2),
                np.concatenate([spread, spread + size]),
                np.ones(2 * len(spread)),
                np.full(len(spread), -np.inf),
                np.maximum(pairs.most, pairs.count)[spread].astype(float),
            )
        # (N6)
        if state.budget is not None:
            least = stay.sum() - max(0, state.budget - state.num_moves)
            rows.add(
                np.zeros(size, dtype=np.int64),
                np.arange(size),
                np.ones(size),
                np.array([float(least)]),
                np.array([np.inf]),
            )
        model = ArrayModel(
            "min",
            cost,
            rows.matrix(columns),
            np.concatenate(rows.lower),
            np.concatenate(rows.upper),
            lower,
            upper,
            np.arange(columns) < first_o,
        )
        return model, start


def _pairs(state: State, hosts: Counts) -> _Pairs:
    """Gather the rows with tasks on the hosts, and the hosts that each may go to."""
    position = np.full(len(state.capacity), -1, dtype=np.int64)
    position[hosts] = np.arange(len(hosts))
    parts: list[tuple[Counts, ...]] = []
    first = 0
    for b in sorted({b for h in hosts.tolist() for b in state.blocks_of[h]}):
        block = state.blocks[b]
        columns = block.columns(hosts.tolist())
        count = block.count[:, columns]
        total = count.sum(axis=1)
        rows = np.flatnonzero(total)
        if not len(rows):
            continue
        shape = (len(rows), len(columns))
        k = np.broadcast_to(np.arange(len(rows))[:, None], shape).ravel()
        at = np.broadcast_to(columns, shape).ravel()
        most = block.most[rows][:, columns].ravel()
        open_ = (most > 0) | (count[rows].ravel() > 0)
        k, at, most = k[open_], at[open_], most[open_]
        parts.append(
            (
                first + k,
                position[block.hosts[at]],
                block.count[rows[k], at],
                block.initial[rows[k], at],
                most,
                total[rows[k]],
                block.demand[rows[k]],
                np.full(len(k), b),
                rows[k],
                at,
            )
        )
        first += len(rows)
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        empty = np.zeros((0, state.used.shape[1]), dtype=np.int64)
        return _Pairs(none, none, none, none, none, none, empty, none, none, none)
    return _Pairs(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class _Rows:
    """Constraint rows in the making."""

    def __init__(self) -> None:
        self.number = 0
        self.entries: list[tuple[Counts, Counts, Array]] = []
        self.lower: list[Array] = []
        self.upper: list[Array] = []

    def add(self, row: Counts, column: Counts, value: Array, lower: Array, upper: Array) -> None:
        """Add rows; `row` counts from 0 within them."""
        nonzero = value != 0
        self.entries.append((row[nonzero] + self.number, column[nonzero], value[nonzero]))
        self.lower.append(np.asarray(lower, dtype=float))
        self.upper.append(np.asarray(upper, dtype=float))
        self.number += len(lower)

    def matrix(self, columns: int) -> csr_array:
        """Return the rows as a matrix."""
        row, column, value = (np.concatenate(part) for part in zip(*self.entries, strict=True))
        return csr_array(coo_array((value, (row, column)), shape=(self.number, columns)))
