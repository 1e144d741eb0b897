"""Pricing of host patterns: the best pattern of every host at given prices.

A table of loads serves all hosts of a kind (`alloc.solving.placement.tables`); each host tries the
subsets of its own tasks against it. The mathematics is in `alloc.solving.placement.patterns`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.errors import OutOfTime
from alloc.formulation import Array
from alloc.solving.placement.clock import Clock, endless
from alloc.solving.placement.patterns import Patterns, Priced
from alloc.solving.placement.tables import (
    Ints,
    Piece,
    Took,
    cells,
    fill_table,
    max_copies,
    pieces,
    trace_back,
)

MAX_SUBSETS = 17
"""Tasks of a host up to which all subsets are tried; with more, a dynamic program is cheaper."""
_MAX_LOADS = 1 << 19
"""Subsets whose costs are compared at once, some megabytes: more would only take more memory."""


@dataclass(frozen=True)
class More:
    """A table with items besides: for hosts that hold some, where they keep all of one of these.

    Parameters
    ----------
    table, took
        The least cost of completing a load, and what it took of the items.
    items
        The items.
    """

    table: Array
    took: Took
    items: tuple[int, ...]

    def is_open_to(self, tasks: Ints, subsets: Ints) -> npt.NDArray[np.bool_]:
        """Return which subsets of a host's tasks keep all that it has of one of the items.

        Parameters
        ----------
        tasks
            Items of the tasks that the host has now.
        subsets
            Subsets of these tasks as bits: bit n is set where task n stays.
        """
        kept = np.zeros(len(subsets), dtype=bool)
        for i in self.items:
            mask = int(((tasks == i) << np.arange(len(tasks))).sum())
            kept |= (subsets & mask) == mask
        return kept


@dataclass(frozen=True)
class Filled:
    """What completing the load of some hosts costs at least, and what is taken for it."""

    table: Array
    took: Took
    hosts: Ints
    more: More | None = None


class Pricing:
    """Solves the pricing problem of all hosts.

    The value of a host is exact, with two exceptions, where it may be too low but never too high,
    so that the bound holds: a host with more than `MAX_SUBSETS` tasks owes nothing for the gangs of
    `Patterns.holds`; and one that has tasks of several of these gangs may, where it keeps all it
    has of one, take in tasks of the others without owing for them.

    Parameters
    ----------
    patterns
        The program.
    clock
        Tells the seconds left; it is looked at before each table.

    Raises
    ------
    OutOfTime
        If time is up, in the middle of an evaluation too.
    """

    def __init__(self, patterns: Patterns, clock: Clock = endless) -> None:
        self.patterns = p = patterns
        self.clock = clock
        num_classes = len(p.kinds[0].classes)
        self._rooms = [np.array(kind.cost.shape) - 1 for kind in p.kinds]
        self._pieces: list[dict[int, list[Piece]]] = []
        self._ample = np.zeros((len(p.kinds), num_classes), dtype=bool)
        for k, kind in enumerate(p.kinds):
            classes = np.flatnonzero(kind.classes).tolist()
            self._pieces.append({c: self._pieces_of(k, c) for c in classes})
            self._ample[k, classes] = [
                p.copies[c] >= max_copies(p.demand[c], self._rooms[k]) for c in classes
            ]
        self._smaller = _smaller(p.demand, num_classes)
        self._groups = _group_hosts(p)
        self._buckets, self._many = _subset_loads(p)
        self._kept_by = _masks_of_holds(p, self._buckets)
        self._held_items: dict[int, set[int]] = {}
        for (h, _), (_, items) in zip(p.holds, p.held(), strict=True):
            if h not in self._many:
                self._held_items.setdefault(h, set()).update(items.tolist())
        counted = [np.unique(tasks, return_counts=True) for tasks in p.now]
        none = np.zeros(0, dtype=np.int64)
        self._had_host = np.repeat(np.arange(p.num_hosts), [len(items) for items, _ in counted])
        self._had_item = np.concatenate([none, *(items for items, _ in counted)])
        self._had = np.concatenate([none, *(numbers for _, numbers in counted)])
        most = max(
            kind.cost.size * sum(map(len, own.values()))
            for kind, own in zip(p.kinds, self._pieces, strict=True)
        )
        self._pool = np.empty(most, dtype=bool)

    def _pieces_of(self, k: int, item: int) -> list[Piece]:
        p = self.patterns
        return list(pieces(item, int(p.copies[item]), p.demand[item], self._rooms[k]))

    @property
    def work(self) -> float:
        """Table cells filled in one evaluation, about."""
        p = self.patterns
        fill = sum(
            cells(kind.cost.shape, piece)
            for kind, own in zip(p.kinds, self._pieces, strict=True)
            for some in own.values()
            for piece in some
        )
        tables = sum(p.kinds[k].cost.size for k, local, _ in self._groups if len(local))
        tries = 3 * sum(loads.size for *_, loads in self._buckets)
        tries += sum(3 * len(p.now[h]) * p.kinds[int(p.kind_of[h])].cost.size for h in self._many)
        return float(fill + tables + tries)

    def solve(
        self, prices: Array, move_price: float = 0.0, hold_prices: Array | None = None
    ) -> Priced:
        """Return the best pattern of each host.

        Parameters
        ----------
        prices
            pi, shape (I,).
        move_price
            mu.
        hold_prices
            rho, one for each of `Patterns.holds`; None: all 0.
        """
        p = self.patterns
        worth = prices - p.charge
        moving = p.move_weight + move_price
        value = np.zeros(p.num_hosts)
        counts = np.zeros((p.num_hosts, p.num_items), dtype=np.int16)
        load = p.base.copy()

        def follow(took: Took, hosts: Ints) -> None:
            if took and len(hosts):
                at, taken = load[hosts], counts[hosts]
                trace_back(took, at, taken)
                load[hosts], counts[hosts] = at, taken

        for common, groups in self._filled(worth):
            for filled in groups:
                wide = self._keep(filled, worth, moving, hold_prices, (value, counts, load))
                if filled.more is not None:
                    follow(filled.more.took, filled.hosts[wide[filled.hosts]])
                follow(filled.took, filled.hosts)
            follow(common.took, common.hosts)
        cost, moved = self.cost_of(counts, load)
        return Priced(value, counts, cost, moved)

    def _filled(
        self, worth: Array, wanted: npt.NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[Filled, Iterator[Filled]]]:
        """Yield for each kind of hosts what all take in, and what groups of them take besides.

        Hosts of a kind share a table, but for those with local items that are worth taking. A host
        of `Patterns.holds` takes in such an item of the gang only where it keeps what it has of it:
        otherwise it would rather keep that. Tables and flags are good until the next is asked for.
        """
        p = self.patterns
        for k, kind in enumerate(p.kinds):
            useful = self._useful(k, worth)
            common: list[Ints] = []
            special: list[tuple[Ints, Ints]] = []
            for own, local, hosts in self._groups:
                some = hosts if wanted is None else hosts[wanted[hosts]]
                if own == k and len(some):
                    local = local[useful[local]]
                    if len(local):
                        special.append((local, some))
                    else:
                        common.append(some)
            if not (common or special):
                continue
            self._look()
            table = kind.cost.copy()
            offered = [n for c, own in self._pieces[k].items() if useful[c] for n in own]
            took = fill_table(table, offered, worth, self._pool)
            plain = np.sort(np.concatenate([*common, np.zeros(0, dtype=np.int64)]))
            every = np.concatenate([plain, *(hosts for _, hosts in special)])
            yield Filled(table, took, every), self._groups_of(k, table, worth, plain, special)

    def _groups_of(
        self,
        k: int,
        table: Array,
        worth: Array,
        plain: Ints,
        special: list[tuple[Ints, Ints]],
    ) -> Iterator[Filled]:
        """Yield hosts of a kind that follow its table, and groups with local items besides."""
        if len(plain):
            yield Filled(table, [], plain)
        for local, hosts in special:
            by_held: dict[tuple[int, ...], list[int]] = {}
            for h in hosts.tolist():
                held = tuple(i for i in local.tolist() if i in self._held_items.get(h, ()))
                by_held.setdefault(held, []).append(h)
            for held, some_hosts in by_held.items():
                self._look()
                narrow = table.copy()
                others = [i for i in local.tolist() if i not in held]
                offered = [piece for i in others for piece in self._pieces_of(k, i)]
                took = fill_table(narrow, offered, worth)
                more = None
                if held:
                    wide = narrow.copy()
                    offered = [piece for i in held for piece in self._pieces_of(k, i)]
                    more = More(wide, fill_table(wide, offered, worth), held)
                yield Filled(narrow, took, np.array(some_hosts), more)

    def _look(self) -> None:
        if self.clock() <= 0:
            raise OutOfTime

    def _useful(self, k: int, worth: Array) -> npt.NDArray[np.bool_]:
        """Return which items a host of a kind may have to take in, shape (I,).

        It never needs one that is worth nothing, nor one beside which there is a class that asks
        for no more, is worth as much and of which there are always enough.
        """
        useful = worth > 0
        items = np.flatnonzero(useful)
        classes = np.flatnonzero(self._ample[k] & useful[: self._ample.shape[1]])
        better = worth[classes, None] >= worth[None, items]
        useful[items[(better & self._smaller[np.ix_(classes, items)]).any(axis=0)]] = False
        return useful

    def _keep(
        self,
        filled: Filled,
        worth: Array,
        moving: Array,
        hold_prices: Array | None,
        found: tuple[Array, npt.NDArray[np.int16], Ints],
    ) -> npt.NDArray[np.bool_]:
        """Choose the tasks that hosts keep; return the hosts that `Filled.more` completes."""
        p = self.patterns
        value, counts, load = found
        wide = np.zeros(p.num_hosts, dtype=bool)
        for some, tasks, reduced in self._subset_costs(filled, worth + moving, hold_prices):
            best = reduced.argmin(axis=1)
            if filled.more is not None:
                for n, h in enumerate(some.tolist()):
                    wide[h] = filled.more.is_open_to(tasks[n], best[n : n + 1])[0]
            value[some] = reduced[np.arange(len(best)), best]
            keeps = (best[:, None] >> np.arange(tasks.shape[1])) & 1
            row, column = np.nonzero(keeps)
            np.add.at(counts, (some[row], tasks[row, column]), 1)
            load[some] += (keeps[:, :, None] * p.demand[tasks]).sum(axis=1)
            value[some] += moving[tasks].sum(axis=1)
        for h in np.intersect1d(self._many, filled.hosts).tolist():
            value[h] = _keep_many(p, filled.table, h, worth, moving, counts, load)
            value[h] += moving[p.now[h]].sum()
        return wide

    def _subset_costs(
        self, filled: Filled, gains: Array, hold_prices: Array | None = None
    ) -> Iterator[tuple[Ints, Ints, Array]]:
        """Yield hosts, their tasks and, for each subset of these to keep, its cost.

        Bit n of a subset's number says whether the n-th task stays.
        """
        flat = filled.table.ravel()
        chosen = np.zeros(self.patterns.num_hosts, dtype=bool)
        chosen[filled.hosts] = True
        for (hosts, tasks, loads), kept_by in zip(self._buckets, self._kept_by, strict=True):
            rows = chosen[hosts]
            if not rows.any():
                continue
            if not rows.all():
                hosts, tasks, loads = hosts[rows], tasks[rows], loads[rows]
            reduced = np.zeros((len(hosts), 1))
            for n in range(tasks.shape[1]):
                gain = gains[tasks[:, n], None]
                reduced = np.concatenate([reduced, reduced - gain], axis=1)
            if hold_prices is not None:
                subsets = np.arange(reduced.shape[1])
                position = np.cumsum(rows) - 1
                for row, mask, hold in kept_by:
                    if rows[row] and hold_prices[hold] > 0:
                        reduced[position[row], (subsets & mask) != 0] += hold_prices[hold]
            least = flat[loads]
            if filled.more is not None:
                subsets = np.arange(reduced.shape[1])
                for row in range(len(hosts)):
                    wide = filled.more.is_open_to(tasks[row], subsets)
                    least[row, wide] = filled.more.table.ravel()[loads[row, wide]]
            reduced += least
            yield hosts, tasks, reduced

    def cost_of(self, counts: npt.NDArray[np.int16], load: Ints) -> tuple[Array, Ints]:
        """Return k_p and d_p for a pattern of each host and its load in grid steps.

        Parameters
        ----------
        counts
            Tasks of each item in the pattern of each host, shape (hosts, items).
        load
            Its load in grid steps, shape (hosts, resources).
        """
        p = self.patterns
        cost = counts @ p.charge if p.charge.any() else np.zeros(p.num_hosts)
        for k, kind in enumerate(p.kinds):
            mine = np.flatnonzero(p.kind_of == k)
            cost[mine] += kind.cost[tuple(load[mine].T)]
        left = np.maximum(self._had - counts[self._had_host, self._had_item], 0)
        leaving = left * p.move_weight[self._had_item]
        cost += np.bincount(self._had_host, leaving, minlength=p.num_hosts)
        moved = np.bincount(self._had_host, left, minlength=p.num_hosts).astype(np.int64)
        return cost, moved


def _keep_many(
    patterns: Patterns,
    table: Array,
    h: int,
    worth: Array,
    moving: Array,
    counts: npt.NDArray[np.int16],
    load: Ints,
) -> float:
    """Choose what a host with many tasks keeps, by a dynamic program instead of all subsets."""
    items, had = np.unique(patterns.now[h], return_counts=True)
    room = np.array(table.shape) - 1
    mine = [
        piece
        for i, n in zip(items, had, strict=True)
        for piece in pieces(int(i), int(n), patterns.demand[i], room)
    ]
    own = table.copy()
    took = fill_table(own, mine, worth + moving)
    value = float(own[tuple(load[h])])
    trace_back(took, load[h : h + 1], counts[h : h + 1])
    return value


def _smaller(demand: Ints, num_classes: int) -> npt.NDArray[np.bool_]:
    """Return which classes ask for no more than which items; of equal ones only the first do."""
    items = np.arange(len(demand))
    fewer = np.ones((num_classes, len(demand)), dtype=bool)
    equal = fewer.copy()
    for amount in demand.T:
        fewer &= amount[:num_classes, None] <= amount[None]
        equal &= amount[:num_classes, None] == amount[None]
    return fewer & (~equal | (items[:num_classes, None] < items[None]))


def _group_hosts(p: Patterns) -> list[tuple[int, Ints, Ints]]:
    """Return hosts grouped by kind and local items."""
    groups: dict[tuple[int, bytes], list[int]] = {}
    for h in range(p.num_hosts):
        groups.setdefault((int(p.kind_of[h]), p.local[h].tobytes()), []).append(h)
    return [(k, p.local[hosts[0]], np.array(hosts)) for (k, _), hosts in groups.items()]


def _subset_loads(p: Patterns) -> tuple[list[tuple[Ints, Ints, npt.NDArray[np.int32]]], list[int]]:
    """Return hosts in buckets of as many tasks, with the loads of all subsets of these.

    Returns
    -------
    buckets
        Hosts, their tasks, shape (hosts, tasks), and the flat table position of each subset,
        shape (hosts, subsets).
    many
        The hosts with too many tasks for that.
    """
    shapes = np.array([kind.cost.shape for kind in p.kinds])[p.kind_of]
    number = np.array([len(tasks) for tasks in p.now])
    whole = p.base + np.array([p.demand[tasks].sum(axis=0) for tasks in p.now]).reshape(
        p.base.shape
    )
    few = (number <= MAX_SUBSETS) & (whole < shapes).all(axis=1)
    buckets = []
    for n in np.unique(number[few]).tolist():
        hosts = np.flatnonzero(few & (number == n))
        for some in np.array_split(hosts, -(-len(hosts) << n) // _MAX_LOADS + 1):
            if not len(some):
                continue
            tasks = np.array([p.now[h] for h in some], dtype=np.int64).reshape(len(some), n)
            size = shapes[some]
            strides = np.ones_like(size)
            strides[:, :-1] = np.cumprod(size[:, :0:-1], axis=1)[:, ::-1]
            loads = (p.base[some] * strides).sum(axis=1, keepdims=True).astype(np.int32)
            for column in range(n):
                step = (p.demand[tasks[:, column]] * strides).sum(axis=1, keepdims=True)
                loads = np.concatenate([loads, loads + step.astype(np.int32)], axis=1)
            buckets.append((some, tasks, loads))
    return buckets, np.flatnonzero(~few).tolist()


def _masks_of_holds(
    p: Patterns, buckets: list[tuple[Ints, Ints, npt.NDArray[np.int32]]]
) -> list[list[tuple[int, int, int]]]:
    """Return for each bucket, of each hold in it, the row, the tasks as bits, and its number."""
    place = {
        int(h): (n, row) for n, (hosts, *_) in enumerate(buckets) for row, h in enumerate(hosts)
    }
    masks: list[list[tuple[int, int, int]]] = [[] for _ in buckets]
    for number, ((h, _), (_, items)) in enumerate(zip(p.holds, p.held(), strict=True)):
        if h in place and len(items):
            n, row = place[h]
            of_gang = np.isin(buckets[n][1][row], items)
            masks[n].append((row, int((of_gang << np.arange(len(of_gang))).sum()), number))
    return masks
