"""Column generation over host patterns: the linear master, and the prices that bound best.

The master is (P1)-(P5) of `alloc.solving.placement.patterns` over the patterns generated so far.
Its prices swing wildly at first, so they are kept in a box around the best prices known (Marsten,
Hogan and Blankenship 1975), which moves and changes its size with success: outside supply is bought
and sold at the edges of the box.

References
----------
Marsten, Hogan, Blankenship, "The boxstep method for large-scale optimization", OR 23 (1975).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from alloc.backends.linear_program import LinearProgram
from alloc.backends.restricted_master import MasterColumn, RestrictedMaster
from alloc.formulation import Array
from alloc.solving.placement.clock import Clock
from alloc.solving.placement.patterns import Ints, Patterns, Priced, Pricing, lagrangian

_CONVERGED = 1e-4
"""Relative difference between master and bound at which generation stops."""
_NOTHING = 1e-7
"""The same for bounds near 0, relative to what a full host costs."""
_IDLE = 5
"""Rounds without a gain or a new pattern that end the generation."""
_SERIOUS = 0.1
"""Share of the promised gain from which a step moves the box."""


@dataclass(frozen=True)
class Columns:
    """Patterns of single hosts: host, tasks of each item, cost and moves, one row a pattern."""

    host: Ints
    counts: npt.NDArray[np.int16]
    cost: Array
    moved: Ints


@dataclass(frozen=True)
class Generated:
    """What column generation found.

    Parameters
    ----------
    bound
        The best Lagrangian bound.
    prices, move_price
        The prices that give it.
    value
        Value of the linear master.
    columns
        Every pattern met, each once.
    share
        z of each in the last master, shape (columns,); empty if hosts were merged into blocks.
    converged
        Whether the bound has reached the linear relaxation.
    stopped
        Whether time ended the generation.
    stays
        y_gr in the last master, one for each of `Patterns.stays`.
    """

    bound: float
    prices: Array
    move_price: float
    value: float
    columns: Columns
    share: Array
    converged: bool
    stays: Array
    stopped: bool


class Master:
    """The linear master, growing by patterns and re-solved from the last basis.

    Parameters
    ----------
    patterns
        The program.
    blocks
        Block of each host, shape (hosts,): the patterns that the hosts of a block get at one time
        are one column. Fewer blocks make smaller programs that take more rounds.
    size
        What a full host costs, more than 0: beside it the prices outside the box may be any.
    """

    def __init__(self, patterns: Patterns, blocks: Ints, size: float) -> None:
        self.patterns, self.blocks = patterns, blocks
        self.program = LinearProgram(cost_size=size)
        self._artificial = 0
        self.stays: Array = np.zeros(len(patterns.stays))
        self._build()
        self._master = RestrictedMaster[tuple[int, bytes]]("the master of patterns", self.program)

    @property
    def num_columns(self) -> int:
        """Number of patterns."""
        return len(self._master.keys)

    def _build(self) -> None:
        p, infinite = self.patterns, np.inf
        gangs = sorted({stay.gang for stay in p.stays})
        num_blocks = int(self.blocks.max()) + 1
        budget = p.budget if np.isfinite(p.budget) else infinite
        fewest = 1.0 if p.together else -infinite
        lower = np.array([*p.least, *(fewest for _ in gangs), -infinite, *np.ones(num_blocks)])
        upper = np.array([*p.most, *(1.0 for _ in gangs), budget, *np.ones(num_blocks)])
        self.program.add_rows(lower, upper)
        self._budget_row = p.num_items + len(gangs)
        self._artificial = 2 * p.num_items + 1
        sides = np.append(np.tile([1.0, -1.0], p.num_items), -1.0)
        rows = np.append(np.repeat(np.arange(p.num_items), 2), self._budget_row)
        self._add(np.zeros(len(rows)), np.arange(len(rows)), rows, sides)
        starts: list[int] = []
        index: list[int] = []
        value: list[float] = []
        for stay in p.stays:
            starts.append(len(index))
            # A class may stand for several roles of a gang: entries of one row are summed.
            entries = dict.fromkeys(stay.classes.tolist(), 0.0)
            for c, n in zip(stay.classes, stay.counts, strict=True):
                entries[int(c)] += float(n)
            entries |= {int(i): -float(n) for i, n in zip(stay.items, stay.counts, strict=True)}
            entries[p.num_items + gangs.index(stay.gang)] = 1.0
            index += list(entries)
            value += list(entries.values())
        if starts:
            self._add(np.zeros(len(starts)), np.array(starts), np.array(index), np.array(value))

    def _add(self, cost: Array, starts: Ints, index: Ints, value: Array) -> None:
        """Add columns without an upper limit of their own."""
        size = len(cost)
        self.program.add_columns(cost, np.zeros(size), np.full(size, np.inf), starts, index, value)

    def add(self, priced: Priced) -> int:
        """Add the patterns of all hosts, by block, where they are new; return how many were."""
        p = self.patterns
        num_blocks = int(self.blocks.max()) + 1
        counts = np.zeros((num_blocks, p.num_items), dtype=np.int32)
        np.add.at(counts, self.blocks, priced.counts)
        cost = np.bincount(self.blocks, weights=priced.cost, minlength=num_blocks)
        moved = np.bincount(self.blocks, weights=priced.moved, minlength=num_blocks)
        new: list[MasterColumn[tuple[int, bytes]]] = []
        for b in range(num_blocks):
            key = (b, counts[b].tobytes() + moved[b].tobytes())
            if key not in self._master:
                items = np.flatnonzero(counts[b])
                rows = np.append(items, [self._budget_row, self._budget_row + 1 + b])
                values = np.append(counts[b, items], [moved[b], 1.0])
                new.append(MasterColumn(key, cost[b], rows, values))
        return self._master.add(new)

    def add_known(self, known: Columns) -> None:
        """Add patterns of single hosts, each once, to a master in which hosts are by themselves."""
        if not len(known.host):
            return
        counts = csr_array(known.counts)
        budget = np.full_like(known.host, self._budget_row)
        rows = np.stack([budget, budget + 1 + known.host])
        tails = csr_array(
            (
                np.stack([known.moved.astype(float), np.ones(len(known.host))], axis=1).ravel(),
                rows.T.ravel(),
                np.arange(0, 2 * len(known.host) + 1, 2),
            ),
            shape=(len(known.host), self._budget_row + 1 + self.patterns.num_hosts),
        )
        counts.resize(tails.shape)
        matrix = csr_array(counts.astype(float) + tails)
        self._add(known.cost, matrix.indptr[:-1], matrix.indices, matrix.data)
        self._master.count_in(
            (int(h), row.astype(np.int32).tobytes() + np.float64(moved).tobytes())
            for h, row, moved in zip(known.host, known.counts, known.moved, strict=True)
        )

    def set_box(self, centre: Array, width: Array, most_move_price: float) -> None:
        """Keep the prices of items within a width of the centre, and that of moves below a limit.

        The limit matters where hosts start over-full and more moves are needed than the patterns
        met so far know how to save.
        """
        edges = np.stack([centre + width, width - centre], axis=1).ravel()
        edges = np.append(edges, most_move_price)
        self.program.set_costs(np.arange(len(edges)), edges)

    def solve(self, seconds: float) -> tuple[float, Array, float, Array, bool] | None:
        """Solve the linear master, for some seconds at most; None if there is no optimum then.

        Returns
        -------
        value, prices, move_price : float, ndarray, float
            Its optimum and its dual prices.
        share : ndarray
            z of each column.
        inside : bool
            Whether nothing was bought or sold outside.
        """
        p = self.patterns
        found = self.program.solve(seconds)
        if found is None:
            return None
        dual, values = found.duals, found.values
        self.stays = values[self._artificial : self._artificial + len(p.stays)]
        inside = bool(values[: self._artificial].max(initial=0.0) <= 1e-7)
        value = found.value + p.constant
        move_price = max(-float(dual[self._budget_row]), 0.0)
        if not np.isfinite(p.budget):
            move_price = 0.0
        return value, dual[: p.num_items], move_price, self._master.generated(values), inside


def generate(
    patterns: Patterns,
    prices: Array,
    clock: Clock,
    report: Callable[[str], None],
    *,
    blocks: Ints | None = None,
    width: float = 0.2,
    tolerance: float = _CONVERGED,
    known: Columns | None = None,
    on_round: Callable[[float], None] | None = None,
) -> Generated:
    """Generate patterns until the bound reaches the linear relaxation, or time is up.

    Parameters
    ----------
    patterns
        The program.
    prices
        Where to start, shape (I,).
    clock
        Tells the seconds left. One evaluation is always made; another begins only where there is
        time for one like the last.
    report
        Takes a line of progress.
    blocks
        As in `Master`; None: every host by itself.
    width
        First width of the box, in units of what a full host costs.
    tolerance
        Relative difference between master and bound at which to stop.
    known
        Patterns to start with, each once; only without `blocks`.
    on_round
        Called after each round with the best bound so far.
    """
    own = blocks is None
    blocks = np.arange(patterns.num_hosts) if blocks is None else blocks
    pricing = Pricing(patterns)
    size, scale = _scale(patterns)
    centre, move_price = prices.copy(), 0.0
    before = clock()
    priced = pricing.solve(centre)
    evaluation_s = before - clock()
    best = lagrangian(patterns, centre, 0.0, priced.value)
    met = _Met(patterns)
    value, converged, stopped, share, rounds = np.inf, False, False, np.zeros(0), 0
    idle = 0
    master = Master(patterns, blocks, size)
    standing = stand_still(patterns, pricing)
    if known is not None and own:
        master.add_known(known)
        met.add_known(known)
    for first in (priced,) if standing is None else (standing, priced):
        master.add(first)
        met.add(first)
    while not stopped:
        master.set_box(centre, width * scale, move_price + width * size)
        solved = master.solve(clock())
        if solved is None:
            stopped = clock() <= 0
            break
        value, query, move_query, share, inside = solved
        if value - best <= tolerance * abs(best) + _NOTHING * size:
            if inside:
                converged = True
                break
            # The edge of the box is what holds the master down.
            width *= 3.0
            continue
        before = clock()
        if before <= evaluation_s:
            stopped = True
            break
        priced = pricing.solve(query, move_query)
        evaluation_s = before - clock()
        found = lagrangian(patterns, query, move_query, priced.value)
        gain, promised = found - best, value - best
        if gain > 0:
            best, centre, move_price = found, query, move_query
        width *= 1.5 if gain > 0.5 * promised else (1.0 if gain > _SERIOUS * promised else 0.7)
        width = max(width, 1e-4)
        added = master.add(priced)
        met.add(priced)
        rounds += 1
        if on_round is not None:
            on_round(best)
        idle = 0 if added or gain > 0 else idle + 1
        if idle == _IDLE:
            break  # what is left is rounding
        if rounds % 5 == 0:
            report(
                f"patterns {rounds}: master {value:.4f}, bound {best:.4f}, box {width:.4f}, "
                f"{master.num_columns} columns"
            )
    columns = met.columns()
    # Patterns met after the last master have no share in it.
    share = np.pad(share, (0, len(columns.host) - len(share))) if own else np.zeros(0)
    stays = master.stays
    return Generated(best, centre, move_price, value, columns, share, converged, stays, stopped)


def stand_still(patterns: Patterns, pricing: Pricing) -> Priced | None:
    """Return the patterns in which nothing moves, or None if a host is over-full."""
    counts = np.zeros((patterns.num_hosts, patterns.num_items), dtype=np.int16)
    for h, tasks in enumerate(patterns.now):
        np.add.at(counts[h], tasks, 1)
    load = patterns.base + counts @ patterns.demand
    sizes = np.array([kind.cost.shape for kind in patterns.kinds])[patterns.kind_of]
    if (load >= sizes).any():
        return None
    cost, moved = pricing.cost_of(counts, load)
    return Priced(cost, counts, cost, moved)


def _scale(patterns: Patterns) -> tuple[float, Array]:
    """Return what a full host costs, and for each item its share of that."""
    largest = np.max([kind.cost.shape for kind in patterns.kinds], axis=0) - 1
    share = (patterns.demand / np.maximum(largest, 1)).sum(axis=1) / 3.0
    most = max(float(kind.cost.max()) for kind in patterns.kinds)
    charges = np.concatenate([np.abs(patterns.charge), patterns.move_weight])
    size = max(most, float(charges.max(initial=0.0))) or 1.0
    return size, np.asarray(size * (share + 0.02))


class _Met:
    """The patterns met on the way, each once."""

    def __init__(self, patterns: Patterns) -> None:
        self._known: set[tuple[int, bytes]] = set()
        self._rows: list[tuple[int, npt.NDArray[np.int16], float, int]] = []
        self._width = patterns.num_items

    def add(self, priced: Priced) -> None:
        for h in range(len(priced.cost)):
            key = (h, priced.counts[h].tobytes())
            if key not in self._known:
                self._known.add(key)
                self._rows.append(
                    (h, priced.counts[h], float(priced.cost[h]), int(priced.moved[h]))
                )

    def add_known(self, known: Columns) -> None:
        for h, row, cost, moved in zip(
            known.host.tolist(), known.counts, known.cost, known.moved, strict=True
        ):
            self._known.add((h, row.tobytes()))
            self._rows.append((h, row, float(cost), int(moved)))

    def columns(self) -> Columns:
        if not self._rows:
            counts = np.zeros((0, self._width), dtype=np.int16)
            return Columns(np.zeros(0, int), counts, np.zeros(0), np.zeros(0, int))
        return Columns(
            np.array([row[0] for row in self._rows]),
            np.array([row[1] for row in self._rows]),
            np.array([row[2] for row in self._rows]),
            np.array([row[3] for row in self._rows]),
        )
