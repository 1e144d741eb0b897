"""Exchanges over several hosts at once: negative cycles among kinds of tasks.

Hosts are bound to each other only by the kind of task that passes between them. So let w(k, l) be
the least change of cost of a host that takes a task of row k and gives one of row l, where line 0
stands for nothing. The cycle 0, k, l moves a task of k onto a host that passes a task of l on to a
third; the cycle k, l swaps two tasks; and so on. A cycle of negative length over distinct hosts is
an exchange that pays. The table w has as many lines as there are rows, however many the hosts.

References
----------
Ahuja, Ergun, Orlin, Punnen, "A survey of very large-scale neighborhood search techniques", Discrete
Applied Mathematics 123 (2002), section 4: cyclic exchanges and improvement graphs.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from alloc.formulation import Array
from alloc.solving.placement.state import GAIN, Block, State
from alloc.solving.placement.terms import Counts

Mask = npt.NDArray[np.bool_]

Task = tuple[int, int]
"""Block and row of a task."""

_ATTEMPTS = 3
"""Choices of hosts for the best exchanges, the first of all hosts: when cycles meet on one host,
some hosts are left out at random. Each takes as long as the first."""
_MAX_ROOMS = 100
"""Tasks for which room is made in one insertion: some tenths of a second."""
_MAX_GIVING = 50
"""Hosts that may make room for a task: those that lack least for it."""
_MAX_CYCLES = 1000
"""Most cycles looked at, the most negative first: those after them mostly meet hosts used
before."""
_MAX_LINES = 400
"""Lines of a table up to which cycles of three and four are looked for: time grows with their
cube."""


class Exchanger:
    """Makes exchanges over two to four hosts in a state.

    Parameters
    ----------
    state
        The placement, changed in place.
    rng
        Decides which hosts are left out when the best exchanges meet on one host.
    """

    def __init__(self, state: State, rng: np.random.Generator) -> None:
        self.state = state
        self.rng = rng
        self._books: dict[int, _Book] = {}

    def improve(self, b: int = 0) -> float:
        """Make exchanges among the rows of all hosts and of block `b`; return what they gain.

        Cycles over the same host do not add up: then a part of the hosts is left out, a few times.
        """
        before = self.state.value
        everywhere = self._book(0)
        own = None if b == 0 else self._book(b)
        for attempt in range(_ATTEMPTS):
            mask = None
            if attempt:
                mask = self.rng.random(len(self.state.capacity)) < 0.6
            table = _Table(everywhere, own, mask)
            cycles, found = _negative_cycles(table)
            taken = self._make(table, cycles)
            if taken:
                self.changed(taken)
            if taken or not found:
                break
        return before - self.state.value

    def changed(self, hosts: Iterable[int]) -> None:
        """Take note that the tasks of hosts have changed, and update the state."""
        self.state.changed(hosts)
        self.note(hosts)

    def note(self, hosts: Iterable[int]) -> None:
        """Take note that the tasks of hosts have changed in a state that knows."""
        for book in self._books.values():
            book.stale.update(hosts)

    def _book(self, b: int) -> _Book:
        if b not in self._books:
            if b:
                # Books of blocks are small and quick to write; one at a time is kept.
                self._books = {0: self._books[0]} if 0 in self._books else {}
            self._books[b] = _Book(self.state, b)
        book = self._books[b]
        book.update()
        return book

    def insert(self, hand: list[Task]) -> list[Task]:
        """Put tasks in hand on hosts, the most demanding first, each by its cheapest path.

        A path puts the task on a host that may pass another on, and that host's another on a third.
        Where there is no path, a host makes room by giving up smaller tasks, which are put on hosts
        in turn; tasks get ever smaller, so that comes to an end.

        Parameters
        ----------
        hand
            Block and row of each task.

        Returns
        -------
        list
            The tasks for which there is no place.
        """
        lost: list[Task] = []
        rooms = 0
        while hand:
            hand, homeless = self._insert_by_paths(hand), []
            for task in hand:
                rooms += 1
                smaller = self._make_room(*task) if rooms <= _MAX_ROOMS else None
                if smaller is None:
                    lost.append(task)
                else:
                    homeless += smaller
            hand = homeless
        return lost

    def _insert_by_paths(self, hand: list[Task]) -> list[Task]:
        """Put tasks on hosts by their cheapest paths; return those for which there is none."""
        blocks = self.state.blocks
        left = sorted(hand, key=lambda task: tuple(blocks[task[0]].demand[task[1]]), reverse=True)
        lost: list[Task] = []
        while left:
            b = max(b for b, _ in left)
            table = _Table(self._book(0), None if b == 0 else self._book(b), None)
            line_of = {line: number for number, line in enumerate(table.lines)}
            via, middle = _two_steps(table.cost)
            taken: set[int] = set()
            waiting: list[Task] = []
            for task in left:
                if task not in line_of:
                    waiting.append(task)
                    continue
                path = _path(table, via, middle, line_of[task], taken)
                if path is None:
                    # With no host taken yet, there is none at all.
                    (waiting if taken else lost).append(task)
                else:
                    taken |= self._step(table, path)
            if taken:
                self.changed(taken)
            left = waiting
        return lost

    def _make_room(self, b: int, row: int) -> list[Task] | None:
        """Put a task on the host that gives up least for it; return what that gives up."""
        state, block = self.state, self.state.blocks[b]
        need = block.demand[row]
        hosts = block.hosts[block.count[row] < block.most[row]]
        hosts = hosts[(need <= state.capacity[hosts]).all(axis=1)]
        lack = np.maximum(state.used[hosts] + need - state.capacity[hosts], 0) * (need > 0)
        order = np.argsort((lack / state.cost.capacity[hosts]).sum(axis=1), kind="stable")
        least, best = np.inf, None
        for h in hosts[order[:_MAX_GIVING]].tolist():
            given = self._to_give_up(h, need)
            if given is not None and (size := sum(self._share(h, task) for task in given)) < least:
                least, best = size, (h, given)
        if best is None:
            return None
        h, given = best
        for own, r in given:
            state.add(own, r, state.blocks[own].column[h], -1)
        state.add(b, row, block.column[h], 1)
        self.changed([h])
        return given

    def _share(self, h: int, task: Task, needed: Counts | float = np.inf) -> float:
        """Return which share of a host a task fills, of what is needed only."""
        demand = np.minimum(self.state.blocks[task[0]].demand[task[1]], needed)
        return float((demand / self.state.cost.capacity[h]).sum())

    def _to_give_up(self, h: int, need: Counts) -> list[Task] | None:
        """Return tasks smaller than a demand without which it fits on a host, or None."""
        state = self.state
        short = np.where(need > 0, state.used[h] + need - state.capacity[h], 0)
        tasks: list[Task] = []
        for own in state.blocks_of[h]:
            block = state.blocks[own]
            count = block.count[:, block.column[h]]
            for r in np.flatnonzero(count).tolist():
                if tuple(block.demand[r]) < tuple(need):
                    tasks += [(own, r)] * int(count[r])
        given: list[Task] = []
        while (short > 0).any():
            short = np.maximum(short, 0)
            # Of those that help most, the smallest.
            scores = [(self._share(h, task, short), -self._share(h, task)) for task in tasks]
            if not scores or max(scores)[0] <= 0:
                return None
            task = tasks.pop(scores.index(max(scores)))
            given.append(task)
            short = short - state.blocks[task[0]].demand[task[1]]
        return given

    def _make(self, table: _Table, cycles: Counts) -> set[int]:
        """Make exchanges, the first first, none over a host of another; return their hosts."""
        taken: set[int] = set()
        for cycle in cycles.tolist():
            lines = [line for line in cycle if line >= 0]
            steps = list(zip(lines, [*lines[1:], lines[0]], strict=True))
            if taken.isdisjoint(int(table.host[step]) for step in steps):
                taken |= self._step(table, steps)
        return taken

    def _step(self, table: _Table, steps: list[tuple[int, int]]) -> set[int]:
        """On the host of each step, take what comes and give what goes; return the hosts."""
        state = self.state
        hosts = [int(table.host[step]) for step in steps]
        for (comes, goes), host in zip(steps, hosts, strict=True):
            for line, change in ((comes, 1), (goes, -1)):
                if line:
                    b, row = table.lines[line]
                    state.add(b, row, state.blocks[b].column[host], change)
        return set(hosts)


class _Book:
    """For every host and what it may give, the cost of every row that may come instead.

    With block 0, the rows of all hosts; with another, its hosts only and its rows besides.
    """

    def __init__(self, state: State, b: int) -> None:
        self.state = state
        self.blocks = [0] if b == 0 else [0, b]
        self.hosts = state.blocks[b].hosts
        self.lines = [(-1, -1)] + [
            (own, row) for own in self.blocks for row in range(len(state.blocks[own].demand))
        ]
        demand = [state.blocks[own].demand for own in self.blocks]
        self.demand = np.concatenate([np.zeros((1, state.used.shape[1]), np.int64), *demand])
        self.num_common = 1 + len(state.blocks[0].demand)
        self.pages: dict[int, tuple[Counts, Array]] = {}
        self.stale = {int(h) for h in self.hosts}
        self.owned = frozenset(self.stale)

    def update(self) -> None:
        """Write the pages of changed hosts again."""
        stale = self.stale & self.owned
        self.stale = set()
        if not stale:
            return
        for h in stale:
            self.pages[h] = self._page(h)
        hosts = sorted(self.pages)
        self.gives = np.concatenate([self.pages[h][0] for h in hosts])
        self.cost = np.concatenate([self.pages[h][1] for h in hosts])
        self.host = np.repeat(np.array(hosts), [len(self.pages[h][0]) for h in hosts])

    def _page(self, h: int) -> tuple[Counts, Array]:
        """Return what a host may give, shape (options,), and costs, shape (options, lines)."""
        state = self.state
        count, initial, most = (
            np.concatenate([[0], *(self._column(own, h, name) for own in self.blocks)])
            for name in ("count", "initial", "most")
        )
        gives = np.concatenate([[0], np.flatnonzero(count)])
        used = state.used[h] - self.demand[gives][:, None, :] + self.demand[None]
        cost = state.cost.of_hosts(used[:, :, None, :], np.array([h]))[..., 0]
        cost -= state.host_cost[h]
        price = np.inf if state.closed else state.price
        if price:
            leaves = np.where(count[gives] <= initial[gives], price, 0.0)
            leaves[0] = 0.0
            cost = cost + leaves[:, None] - np.where(count < initial, state.price, 0.0)
        over = (used > state.capacity[h]) & (self.demand > 0)
        cost[over.any(axis=-1)] = np.inf
        full = count >= most
        full[0] = False
        cost[:, full] = np.inf
        return gives, cost

    def _column(self, own: int, h: int, name: str) -> Counts:
        block: Block = self.state.blocks[own]
        column: Counts = getattr(block, name)[:, block.column[h]]
        return column


class _Table:
    """The cheapest host for every pair of what comes and what goes."""

    def __init__(self, everywhere: _Book, own: _Book | None, mask: Mask | None) -> None:
        books = [everywhere] if own is None else [everywhere, own]
        self.lines = books[-1].lines
        size = len(self.lines)
        self.cost = np.full((size, size), np.inf)
        self.host = np.zeros((size, size), dtype=np.int64)
        for book in books:
            goes, least, host = _least(book, mask)
            index = np.ix_(np.arange(len(book.lines)), goes)
            better = self.cost[index] > least.T
            self.cost[index] = np.where(better, least.T, self.cost[index])
            self.host[index] = np.where(better, host.T, self.host[index])
        np.fill_diagonal(self.cost, np.inf)


def _least(book: _Book, mask: Mask | None) -> tuple[Counts, Array, Counts]:
    """Return what some host gives, and the least cost over hosts with its host, (given, lines)."""
    order = np.argsort(book.gives, kind="stable")
    if mask is not None:
        order = order[mask[book.host[order]]]
    if not len(order):
        none = np.zeros((0, len(book.lines)))
        return np.zeros(0, dtype=np.int64), none, none.astype(np.int64)
    gives, cost = book.gives[order], book.cost[order]
    goes, first = np.unique(gives, return_index=True)
    least = np.minimum.reduceat(cost, first, axis=0)
    group = np.repeat(np.arange(len(goes)), np.diff([*first, len(gives)]))
    index = np.where(cost == least[group], np.arange(len(gives))[:, None], len(gives))
    host = book.host[order][np.minimum.reduceat(index, first, axis=0)]
    return goes, least, host


def _path(
    table: _Table, via: Array, middle: Counts, line: int, taken: set[int]
) -> list[tuple[int, int]] | None:
    """Return the cheapest steps from a line to nothing over distinct free hosts, or None."""
    two, three = table.cost[line] + table.cost[:, 0], via[line] + table.cost[:, 0]
    options = [(float(table.cost[line, 0]), [line, 0])]
    for j in np.argsort(two)[:6].tolist():
        options.append((float(two[j]), [line, j, 0]))
    for j in np.argsort(three)[:6].tolist():
        options.append((float(three[j]), [line, int(middle[line, j]), j, 0]))
    for cost, path in sorted(options):
        if not np.isfinite(cost):
            return None
        steps = list(pairwise(path))
        hosts = [int(table.host[step]) for step in steps]
        if len(set(hosts)) == len(hosts) and taken.isdisjoint(hosts):
            return steps
    return None


def _negative_cycles(table: _Table) -> tuple[Counts, bool]:
    """Return cycles of two to four lines of negative length over distinct hosts, shape (cycles, 4).

    The most negative come first; -1 fills up short ones. Also return whether there are negative
    cycles at all.
    """
    cost, host = table.cost, table.host
    size = len(cost)
    via, middle = _two_steps(cost)
    length = np.stack([cost + cost.T, via + cost.T, via + via.T])
    found = np.flatnonzero(length < -GAIN)
    order = found[np.argsort(length.ravel()[found], kind="stable")][:_MAX_CYCLES]
    kind, i, k = np.unravel_index(order, (3, size, size))
    cycles = np.stack([i, middle[i, k], k, middle[k, i]], axis=1)
    cycles[kind == 0, 1] = cycles[kind == 0, 2]
    cycles[kind == 0, 2] = -1
    cycles[kind < 2, 3] = -1
    exact = _length(cycles, cost) < -GAIN
    return cycles[exact & _apart(cycles, host)], bool(exact.any())


def _length(cycles: Counts, cost: Array) -> Array:
    """Return the lengths of cycles, shape (cycles,)."""
    number = (cycles >= 0).sum(axis=1)
    length = np.zeros(len(cycles))
    for step in range(4):
        after = np.where(step + 1 < number, cycles[:, (step + 1) % 4], cycles[:, 0])
        length += np.where(step < number, cost[cycles[:, step], after], 0.0)
    return length


def _apart(cycles: Counts, host: Counts) -> Mask:
    """Return which cycles pass through distinct lines and distinct hosts."""
    length = (cycles >= 0).sum(axis=1)
    hosts = np.empty_like(cycles)
    for step in range(4):
        after = np.where(step + 1 < length, cycles[:, (step + 1) % 4], cycles[:, 0])
        hosts[:, step] = np.where(step < length, host[cycles[:, step], after], -1 - step)
    lines = np.where(cycles >= 0, cycles, -1 - np.arange(4))
    good = np.ones(len(cycles), dtype=bool)
    for a in range(4):
        for b in range(a):
            good &= (lines[:, a] != lines[:, b]) & (hosts[:, a] != hosts[:, b])
    return good


def _two_steps(cost: Array) -> tuple[Array, Counts]:
    """Return the least length from line to line over one other, and that other."""
    size = len(cost)
    via = np.full(cost.shape, np.inf)
    middle = np.zeros(cost.shape, dtype=np.int64)
    if size > _MAX_LINES:
        return via, middle
    chunk = max(1, 400_000 // (size * size))
    # Single precision finds the way in half the time; lengths are added up again afterwards.
    cost = cost.astype(np.float32)
    turned = np.ascontiguousarray(cost.T)
    rows = np.arange(size)
    for first in range(0, size, chunk):
        part = slice(first, first + chunk)
        through = cost[part, None, :] + turned[None, :, :]
        best = through.argmin(axis=2)
        middle[part] = best
        via[part] = through[np.arange(len(best))[:, None], rows[None, :], best]
    return via, middle
