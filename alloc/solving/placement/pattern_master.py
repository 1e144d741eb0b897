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
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from alloc.backends.linear_program import LinearProgram
from alloc.backends.restricted_master import RestrictedMaster
from alloc.errors import OutOfTime
from alloc.formulation import Array
from alloc.solving.placement.clock import Clock
from alloc.solving.placement.patterns import Patterns, Priced, lagrangian
from alloc.solving.placement.pricing import MAX_SUBSETS, Pricing
from alloc.solving.placement.tables import Ints

_CONVERGED = 1e-4
"""Relative difference between master and bound at which generation stops."""
_NOTHING = 1e-7
"""The same for bounds near 0, relative to what a full host costs."""
_IDLE = 5
"""Rounds without a gain or a new pattern that end the generation: what is left by then is
rounding."""
_BROKEN = 1e-3
"""How much of a gang must leave for (P6) to be worth having: less hardly moves the bound."""
_WIDEST = 1e3
"""Widest box, in units of what a full host costs: no task that has room is worth so much."""
_SERIOUS = 0.1
"""Share of the promised gain from which a step moves the box."""


@dataclass(frozen=True)
class Columns:
    """Patterns of single hosts: host, tasks of each item, cost and moves, one row a pattern."""

    host: Ints
    counts: npt.NDArray[np.int16]
    cost: Array
    moved: Ints

    @staticmethod
    def best(priced: Priced) -> Columns:
        """Return the best pattern of each host at some prices."""
        return Columns(np.arange(len(priced.cost)), priced.counts, priced.cost, priced.moved)

    def widened(self, num_items: int) -> Columns:
        """Return the patterns with none of the items that are new."""
        new = num_items - self.counts.shape[1]
        return replace(self, counts=np.pad(self.counts, ((0, 0), (0, new)))) if new else self

    def of(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> Columns:
        """Return some of the patterns."""
        return Columns(self.host[rows], self.counts[rows], self.cost[rows], self.moved[rows])


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
        z of each in the last master, shape (columns,).
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
    """

    def __init__(self, patterns: Patterns) -> None:
        self.patterns = patterns
        # A pattern is known by a number: of two that differ, it is hardly ever the same.
        numbers = np.random.default_rng(0)
        self._code = numbers.integers(1 << 62, size=patterns.num_items)
        self._host_code = numbers.integers(1 << 62, size=patterns.num_hosts)
        self._parts: list[Columns] = []
        self.program = LinearProgram()
        self._artificial = 0
        self.stays: Array = np.zeros(len(patterns.stays))
        self._build()
        self._master = RestrictedMaster[int]("the master of patterns", self.program)

    @property
    def num_columns(self) -> int:
        """Number of patterns."""
        return len(self._master.keys)

    def _build(self) -> None:
        p, infinite = self.patterns, np.inf
        gangs = sorted({stay.gang for stay in p.stays})
        budget = p.budget if np.isfinite(p.budget) else infinite
        fewest = [1.0 if gang in p.together else -infinite for gang in gangs]
        lower = np.array([*p.least, *fewest, -infinite, *np.ones(p.num_hosts)])
        upper = np.array([*p.most, *(1.0 for _ in gangs), budget, *np.ones(p.num_hosts)])
        self.program.add_rows(lower, upper)
        self._budget_row = p.num_items + len(gangs)
        self._first_hold = self._budget_row + 1 + p.num_hosts
        self._held = p.held()
        none = np.zeros(len(p.holds))
        self.program.add_rows(none - infinite, none)
        holds_of: dict[int, list[int]] = {}
        for n, (s, _) in enumerate(self._held):
            holds_of.setdefault(s, []).append(self._first_hold + n)
        self._artificial = 2 * p.num_items + 1
        sides = np.append(np.tile([1.0, -1.0], p.num_items), -1.0)
        rows = np.append(np.repeat(np.arange(p.num_items), 2), self._budget_row)
        self._add(np.zeros(len(rows)), np.arange(len(rows)), rows, sides)
        starts: list[int] = []
        index: list[int] = []
        value: list[float] = []
        for s, stay in enumerate(p.stays):
            starts.append(len(index))
            # A class may stand for several roles of a gang: entries of one row are summed.
            entries = dict.fromkeys(stay.classes.tolist(), 0.0)
            for c, n in zip(stay.classes, stay.counts, strict=True):
                entries[int(c)] += float(n)
            entries |= {int(i): -float(n) for i, n in zip(stay.items, stay.counts, strict=True)}
            entries[p.num_items + gangs.index(stay.gang)] = 1.0
            entries |= dict.fromkeys(holds_of.get(s, ()), -1.0)
            index += list(entries)
            value += list(entries.values())
        if starts:
            self._add(np.zeros(len(starts)), np.array(starts), np.array(index), np.array(value))
        self._first = self._artificial + len(starts)

    def _add(self, cost: Array, starts: Ints, index: Ints, value: Array) -> None:
        """Add columns without an upper limit of their own."""
        size = len(cost)
        self.program.add_columns(cost, np.zeros(size), np.full(size, np.inf), starts, index, value)

    def add(self, patterns: Columns) -> int:
        """Add the patterns that are new; return how many were."""
        counts = csr_array(patterns.counts)
        codes = (counts.astype(np.int64) @ self._code + self._host_code[patterns.host]).tolist()
        new_codes: dict[int, int] = {}
        for n, code in enumerate(codes):
            if code not in self._master:
                new_codes.setdefault(code, n)
        if not new_codes:
            return 0
        fresh = list(new_codes.values())
        new = patterns.of(np.array(fresh))
        counts, size = counts[fresh], len(fresh)
        budget = np.full(size, self._budget_row)
        # These lie behind the rows of all items.
        tails = csr_array(
            (
                np.stack([new.moved.astype(float), np.ones(size)], axis=1).ravel(),
                np.stack([budget, budget + 1 + new.host], axis=1).ravel(),
                np.arange(0, 2 * size + 1, 2),
            ),
            shape=(size, self._first_hold + len(self._held)),
        )
        counts.resize(tails.shape)
        matrix = csr_array(counts.astype(float) + tails + self._holding(new, tails.shape))
        self._add(new.cost, matrix.indptr[:-1], matrix.indices, matrix.data)
        self._master.count_in(new_codes)
        self._parts.append(new)
        return size

    def _holding(self, patterns: Columns, shape: tuple[int, int]) -> csr_array:
        """Return the entries of patterns in the rows of (P6)."""
        none = np.zeros(0, dtype=np.int64)
        rows, columns = [none], [none]
        for n, ((h, _), (_, items)) in enumerate(zip(self.patterns.holds, self._held, strict=True)):
            own = np.flatnonzero(patterns.host == h)
            own = own[patterns.counts[own][:, items].any(axis=1)]
            rows.append(own)
            columns.append(np.full(len(own), self._first_hold + n))
        place = (np.concatenate(rows), np.concatenate(columns))
        return csr_array((np.ones(len(place[0])), place), shape=shape)

    def columns(self) -> Columns:
        """Return the patterns in the order in which they were added."""
        parts = self._parts
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            counts = np.zeros((0, self.patterns.num_items), dtype=np.int16)
            return Columns(none, counts, np.zeros(0), none)
        return Columns(
            np.concatenate([part.host for part in parts]),
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.cost for part in parts]),
            np.concatenate([part.moved for part in parts]),
        )

    def set_box(self, centre: Array, width: Array, max_move_price: float) -> None:
        """Keep the prices of items within a width of the centre, and that of moves below a limit.

        The limit matters where hosts start over-full and more moves are needed than the patterns
        met so far know how to save.

        Parameters
        ----------
        centre
            Prices of items in the middle of the box, shape (items,).
        width
            How far prices may go from it on either side, 0 or more, shape (items,).
        max_move_price
            Highest price of a move, 0 or more.
        """
        edges = np.stack([centre + width, width - centre], axis=1).ravel()
        edges = np.append(edges, max_move_price)
        self.program.set_costs(np.arange(len(edges)), edges)

    def decided(self, gang: int, clock: Clock) -> list[float]:
        """Return the optimum with a gang in each domain it may stand in alone, and in none.

        Parameters
        ----------
        gang
            An undecided gang.
        clock
            Tells the seconds left.
        """
        own = [s for s, stay in enumerate(self.patterns.stays) if stay.gang == gang]
        columns = [self._artificial + s for s in own]
        none = np.zeros(len(own))
        ways = [*np.eye(len(own)), none]
        values = []
        for way in ways:
            self.program.set_column_bounds(columns, way, way)
            solved = self.program.solve(clock())
            if solved is None:
                if clock() <= 0:
                    raise OutOfTime
                values.append(np.inf)
            else:
                values.append(solved.value + self.patterns.constant)
        self.program.set_column_bounds(columns, none, none + np.inf)
        return values

    def solve(self, seconds: float) -> tuple[float, Array, float, Array, Array, bool] | None:
        """Solve the linear master, for some seconds at most; None if there is no optimum then.

        Returns
        -------
        value, prices, move_price, hold_prices : float, ndarray, float, ndarray
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
        self.stays = values[self._artificial : self._first]
        inside = bool(values[: self._artificial].max(initial=0.0) <= 1e-7)
        value = found.value + p.constant
        move_price = max(-float(dual[self._budget_row]), 0.0)
        if not np.isfinite(p.budget):
            move_price = 0.0
        hold_prices = np.maximum(-dual[self._first_hold :], 0.0)
        return (
            value,
            dual[: p.num_items],
            move_price,
            hold_prices,
            self._master.generated(values),
            inside,
        )


def generate(
    patterns: Patterns,
    prices: Array,
    clock: Clock,
    report: Callable[[str], None],
    *,
    width: float = 0.2,
    tolerance: float = _CONVERGED,
    known: Columns | None = None,
    max_rounds: float = np.inf,
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
        Tells the seconds left.
    report
        Takes a line of progress.
    width
        First width of the box, in units of what a full host costs.
    tolerance
        Relative difference between master and bound at which to stop.
    known
        Patterns to start with.
    max_rounds
        Most rounds of pricing after the first.
    on_round
        Called after each round with the best bound so far.

    Raises
    ------
    OutOfTime
        If time is up before there is a bound at all.
    """
    pricing = Pricing(patterns, clock)
    size, scale = price_scale(patterns)
    centre, move_price = prices.copy(), 0.0
    priced = pricing.solve(centre)
    best = lagrangian(patterns, centre, 0.0, priced.value)
    value, converged, stopped, share, rounds = np.inf, False, False, np.zeros(0), 0
    idle = 0
    master = Master(patterns)
    standing = _stand_still(patterns, pricing)
    if known is not None:
        master.add(known)
    for first in (priced,) if standing is None else (standing, priced):
        master.add(Columns.best(first))
    while not stopped:
        master.set_box(centre, width * scale, move_price + width * size)
        solved = master.solve(clock())
        if solved is None:
            stopped = clock() <= 0
            break
        value, query, move_query, hold_query, share, inside = solved
        if value - best <= tolerance * abs(best) + _NOTHING * size:
            if inside:
                converged = True
                break
            if width > _WIDEST:
                break  # what is left to do has no room on these hosts, at any price
            # The edge of the box is what holds the master down.
            width *= 3.0
            continue
        if rounds == max_rounds:
            break
        try:
            priced = pricing.solve(query, move_query, hold_query)
        except OutOfTime:
            stopped = True
            break
        found = lagrangian(patterns, query, move_query, priced.value, hold_query)
        gain, promised = found - best, value - best
        if gain > 0:
            best, centre, move_price = found, query, move_query
        width *= 1.5 if gain > 0.5 * promised else (1.0 if gain > _SERIOUS * promised else 0.7)
        if width > _WIDEST:
            break  # there is no solution
        width = max(width, 1e-4)
        added = master.add(Columns.best(priced))
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
    columns = master.columns()
    # Patterns met after the last master have no share in it.
    share = np.pad(share, (0, len(columns.host) - len(share)))
    stays = master.stays
    return Generated(best, centre, move_price, value, columns, share, converged, stays, stopped)


def _stand_still(patterns: Patterns, pricing: Pricing) -> Priced | None:
    """Return the patterns in which nothing moves, or None if a host is over-full."""
    counts = np.zeros((patterns.num_hosts, patterns.num_items), dtype=np.int16)
    host = np.repeat(np.arange(patterns.num_hosts), [len(tasks) for tasks in patterns.now])
    np.add.at(counts, (host, np.concatenate(patterns.now)), 1)
    load = patterns.base + counts @ patterns.demand
    sizes = np.array([kind.cost.shape for kind in patterns.kinds])[patterns.kind_of]
    if (load >= sizes).any():
        return None
    cost, moved = pricing.cost_of(counts, load)
    return Priced(cost, counts, cost, moved)


def price_scale(patterns: Patterns) -> tuple[float, Array]:
    """Return what a full host costs, and for each item its share of that."""
    largest = np.max([kind.cost.shape for kind in patterns.kinds], axis=0) - 1
    share = (patterns.demand / np.maximum(largest, 1)).sum(axis=1) / 3.0
    most = max(float(kind.cost.max()) for kind in patterns.kinds)
    charges = np.concatenate([np.abs(patterns.charge), patterns.move_weight])
    size = max(most, float(charges.max(initial=0.0))) or 1.0
    return size, np.asarray(size * (share + 0.02))


def undecided_holds(patterns: Patterns, found: Generated) -> tuple[tuple[int, int], ...]:
    """Return hosts and gangs on them that leave at least in part: there (P6) may be violated.

    Parameters
    ----------
    patterns
        The program, with the undecided gangs.
    found
        What column generation found on it.
    """
    leaves = {
        int(i): stay.gang
        for stay, y in zip(patterns.stays, found.stays, strict=True)
        if y < 1.0 - _BROKEN
        for i in stay.items
    }
    pairs = {
        (h, leaves[i])
        for h, tasks in enumerate(patterns.now)
        for i in tasks.tolist()
        if i in leaves and len(tasks) <= MAX_SUBSETS
    }
    return tuple(sorted(pairs))
