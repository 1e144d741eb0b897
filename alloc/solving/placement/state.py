"""Where tasks stand, and what every single move would gain: arrays kept up to date move by move.

Tasks that need the same and may go to the same hosts at the same price are one *row* with a count
on each host. Rows live in *blocks*: one of rows that may go to any host, and one for each domain
that holds gangs which must stay together. A move changes two hosts, so two columns of each block
that has them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from alloc.formulation import Array
from alloc.solving.placement.terms import Counts, HostCost

GAIN = 1e-9
"""Least gain that counts: smaller ones are rounding."""
_NEARLY = 0.7
"""Share of the best move's gain from which others are made along with it: nearly as steep as one by
one, and many times as quick on thousands of hosts."""


@dataclass
class Block:
    """Rows that may go to the same hosts.

    Parameters
    ----------
    hosts
        The hosts, shape (columns,).
    demand
        Demand of one task of each row, shape (rows, resources).
    count, initial
        Tasks of each row on each host, now and before, shape (rows, columns).
    most
        Most tasks of each row on each host, shape (rows, columns).
    groups
        The task groups that each row stands for.
    """

    hosts: Counts
    demand: Counts
    count: Counts
    initial: Counts
    most: Counts
    groups: tuple[Counts, ...]
    leave: Array = field(init=False)
    enter: Array = field(init=False)
    gain: Array = field(init=False)
    source: Counts = field(init=False)
    target: Counts = field(init=False)

    def __post_init__(self) -> None:
        self.leave = np.full(self.count.shape, -np.inf)
        self.enter = np.full(self.count.shape, np.inf)
        # Identity columns for the block of all hosts.
        self.everywhere = bool(np.array_equal(self.hosts, np.arange(len(self.hosts))))
        self.column = {int(h): c for c, h in enumerate(self.hosts)}

    def columns(self, hosts: Iterable[int]) -> Counts:
        """Return the columns of those of the hosts that the block has."""
        if self.everywhere:
            return np.array([h for h in hosts if h < len(self.hosts)], dtype=np.int64)
        return np.array([self.column[h] for h in hosts if h in self.column], dtype=np.int64)

    @property
    def moves(self) -> int:
        """Tasks that have left their host."""
        return int(np.maximum(self.initial - self.count, 0).sum())

    def choose(self) -> None:
        """Find the best single move of each row: what it gains, and from where to where.

        Costs are convex along each row (a task that comes costs at least what one that goes saves),
        so the best host to leave and the best to enter can be chosen apart.
        """
        if not self.count.size:
            self.gain = np.zeros(0)
            return
        rows = np.arange(len(self.demand))
        self.source = self.leave.argmax(axis=1)
        self.target = self.enter.argmin(axis=1)
        self.gain = self.leave[rows, self.source] - self.enter[rows, self.target]
        self.gain[self.source == self.target] = -np.inf


class State:
    """A placement in the making.

    Parameters
    ----------
    capacity
        Shape (hosts, resources).
    used
        What all tasks use, those in no block included, shape (hosts, resources); changed in place.
    blocks
        The rows that move. The first block is that of all hosts.
    cost
        What each host costs.
    price
        What a task costs that leaves its host.
    budget
        How many tasks of the blocks may be off their host, or None.
    """

    def __init__(
        self,
        capacity: Counts,
        used: Counts,
        blocks: list[Block],
        cost: HostCost,
        price: float,
        budget: int | None = None,
    ) -> None:
        self.capacity = capacity
        self.used = used
        self.blocks = blocks
        self.cost = cost
        self.price = price
        self.budget = budget
        self.blocks_of: list[list[int]] = [[] for _ in range(len(capacity))]
        for b, block in enumerate(blocks):
            for h in block.hosts:
                self.blocks_of[int(h)].append(b)
        self.host_cost = np.zeros(len(capacity))
        self.refresh()

    def refresh(self) -> None:
        """Compute every gain afresh."""
        self.host_cost = self.cost.of_hosts(self.used, slice(None))
        self.num_moves = sum(block.moves for block in self.blocks)
        self.closed = self._at_budget()
        for block in self.blocks:
            self._columns(block, np.arange(len(block.hosts)))
            block.choose()
        self._best = np.array([block.gain.max(initial=0.0) for block in self.blocks])

    @property
    def value(self) -> float:
        """Cost of hosts and moves."""
        return float(self.host_cost.sum()) + self.price * self.num_moves

    def _at_budget(self) -> bool:
        return self.budget is not None and self.num_moves >= self.budget

    def _columns(self, block: Block, columns: Counts) -> None:
        """Update what leaving and entering some columns of a block gains and costs."""
        if not len(columns):
            return
        hosts = block.hosts[columns]
        used, base = self.used[hosts], self.host_cost[hosts]
        count, initial = block.count[:, columns], block.initial[:, columns]
        after = used + block.demand[:, None, :]
        cost = self.cost.of_hosts(after, hosts) - base - self.price * (count < initial)
        # What a row does not need may be over-full.
        over = (after > self.capacity[hosts]) & (block.demand[:, None, :] > 0)
        cost[over.any(axis=-1) | (count >= block.most[:, columns])] = np.inf
        block.enter[:, columns] = cost
        away = count <= initial
        price = np.inf if self.closed else self.price
        saved = base - self.cost.of_hosts(used - block.demand[:, None, :], hosts)
        if price:
            saved = saved - np.where(away, price, 0.0)
        saved[count == 0] = -np.inf
        block.leave[:, columns] = saved

    def changed(self, hosts: Iterable[int]) -> None:
        """Update what depends on hosts whose tasks have changed."""
        touched = sorted({int(h) for h in hosts})
        index = np.array(touched, dtype=np.int64)
        self.host_cost[index] = self.cost.of_hosts(self.used[index], index)
        if self._at_budget() != self.closed:
            self.refresh()
            return
        for b in sorted({b for h in touched for b in self.blocks_of[h]}):
            block = self.blocks[b]
            self._columns(block, block.columns(touched))
            block.choose()
            self._best[b] = block.gain.max(initial=0.0)

    def shift(self, b: int, row: int, source: int, target: int, tasks: int = 1) -> None:
        """Move tasks of a row between two columns of its block, without updating the gains.

        Parameters
        ----------
        b
            Number of the block.
        row
            A row of it.
        source, target
            Columns of the block, for the hosts that give and take.
        tasks
            How many tasks move, at most those that the source has.
        """
        for column, change in ((source, -tasks), (target, tasks)):
            self.add(b, row, column, change)

    def add(self, b: int, row: int, column: int, change: int) -> None:
        """Put tasks on a column, or take them off, without updating the gains.

        Parameters
        ----------
        b
            Number of the block.
        row, column
            Row and column of it.
        change
            Tasks put on; negative: taken off.
        """
        block = self.blocks[b]
        before = max(0, int(block.initial[row, column] - block.count[row, column]))
        block.count[row, column] += change
        after = max(0, int(block.initial[row, column] - block.count[row, column]))
        self.num_moves += after - before
        self.used[block.hosts[column]] += change * block.demand[row]

    def tasks_with_gpus(self, h: int) -> list[tuple[int, int]]:
        """Return block and row of every task on a host that holds a GPU and may move."""
        tasks = []
        for b in self.blocks_of[h]:
            block = self.blocks[b]
            count = np.where(block.demand[:, 0] > 0, block.count[:, block.column[h]], 0)
            tasks += [(b, r) for r in np.flatnonzero(count).tolist() for _ in range(int(count[r]))]
        return tasks

    def descend(self, enough: float = math.inf) -> int:
        """Make single moves until none gains, or enough are made; return their number.

        The best ones go together where they touch no host twice: then each gains what it says.
        """
        made = 0
        while made < enough:
            least = _NEARLY * self._best.max(initial=0.0)
            if least <= GAIN:
                break
            moves = [
                (-float(self.blocks[b].gain[row]), b, row)
                for b in np.flatnonzero(self._best >= least).tolist()
                for row in np.flatnonzero(self.blocks[b].gain >= least).tolist()
            ]
            touched: set[int] = set()
            for _, b, row in sorted(moves):
                block = self.blocks[b]
                source, target = int(block.source[row]), int(block.target[row])
                hosts = {int(block.hosts[source]), int(block.hosts[target])}
                if touched.isdisjoint(hosts) and self._at_budget() == self.closed:
                    self.shift(b, row, source, target)
                    touched |= hosts
                    made += 1
            self.changed(touched)
        return made

    def snapshot(self) -> tuple[Counts, ...]:
        """Return the counts of every block, to `restore` later."""
        return tuple(block.count.copy() for block in self.blocks)

    def restore(self, counts: tuple[Counts, ...]) -> set[int]:
        """Return to counts of before; return the hosts that change."""
        touched: set[int] = set()
        for block, count in zip(self.blocks, counts, strict=True):
            rows, columns = np.nonzero(block.count != count)
            if len(rows):
                difference = count[rows, columns] - block.count[rows, columns]
                hosts = block.hosts[columns]
                np.add.at(self.used, hosts, difference[:, None] * block.demand[rows])
                before = np.maximum(block.initial - block.count, 0)[rows, columns].sum()
                block.count[rows, columns] = count[rows, columns]
                after = np.maximum(block.initial - block.count, 0)[rows, columns].sum()
                self.num_moves += int(after - before)
                touched |= {int(h) for h in hosts}
        if touched:
            self.changed(touched)
        return touched

    def part(self, hosts: Counts) -> Part:
        """Return the state of some hosts alone, in ascending order."""
        return Part(self, np.sort(hosts))


class Part:
    """Some hosts of a state as a state of their own, and the way back.

    Parameters
    ----------
    whole
        The state.
    hosts
        The hosts, ascending.
    """

    def __init__(self, whole: State, hosts: Counts) -> None:
        self.whole = whole
        self.hosts = hosts
        position = np.full(len(whole.capacity), -1, dtype=np.int64)
        position[hosts] = np.arange(len(hosts))
        blocks, self._origin = [], []
        for b in [0, *sorted({b for h in hosts.tolist() for b in whole.blocks_of[h]} - {0})]:
            block = whole.blocks[b]
            columns = block.columns(hosts.tolist())
            rows = np.flatnonzero(block.count[:, columns].any(axis=1))
            if b and not len(rows):
                continue
            index = np.ix_(rows, columns)
            blocks.append(
                Block(
                    position[block.hosts[columns]],
                    block.demand[rows],
                    block.count[index].copy(),
                    block.initial[index].copy(),
                    block.most[index].copy(),
                    tuple(block.groups[r] for r in rows),
                )
            )
            self._origin.append((b, index))
        moves = sum(block.moves for block in blocks)
        budget = None
        if whole.budget is not None:
            budget = moves + max(0, whole.budget - whole.num_moves)
        self.state = State(
            whole.capacity[hosts],
            whole.used[hosts],
            blocks,
            whole.cost.part(hosts),
            whole.price,
            budget,
        )

    def adopt(self) -> None:
        """Take the placement of the part over into the whole."""
        for block, (b, index) in zip(self.state.blocks, self._origin, strict=True):
            target = self.whole.blocks[b]
            initial = target.initial[index]
            before = np.maximum(initial - target.count[index], 0).sum()
            target.count[index] = block.count
            self.whole.num_moves += int(np.maximum(initial - block.count, 0).sum() - before)
        self.whole.used[self.hosts] = self.state.used
        self.whole.changed(self.hosts.tolist())
