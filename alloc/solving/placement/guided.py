"""Placements from host patterns: the integer master over the patterns that the bound has priced.

Column generation leaves, besides a bound, prices of tasks and patterns of hosts that pay at these
prices. In the linear master nearly every host follows a single pattern, so its solution is nearly a
placement. Here hosts choose among patterns so that every task is covered, an uncovered one at a
penalty; tasks covered twice leave the host they have least business on, and uncovered ones go to
hosts by the cheapest path of exchanges.

With patterns p of host h, x_pi tasks of item i in p, cost k_p, tasks N_i to cover and penalty P_i:

    min sum k_p z_p + sum P_i u_i,  sum_{p of h} z_p = 1,  sum_p x_pi z_p + u_i >= N_i,  z binary
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array, hstack, vstack

from alloc.backends import SolverOptions, highs
from alloc.errors import OutOfTime
from alloc.formulation import Array, ArrayModel
from alloc.solving.placement.clock import Clock
from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.exchange import Exchanger, Mask
from alloc.solving.placement.pattern_master import Columns, Generated, generate, price_scale
from alloc.solving.placement.pattern_pool import Pool
from alloc.solving.placement.patterns import Patterns
from alloc.solving.placement.relaxation import Relaxation
from alloc.solving.placement.state import State
from alloc.solving.placement.terms import Counts
from alloc.solving.placement.variety import Variety

_PENALTIES = (1.0, 10.0)
"""What an uncovered task costs besides its price, in turns: with the first a better pattern may
leave some task to the exchanges, with the second hardly any is left."""
_TAIL = 24
"""Hosts that a dive leaves to an integer program: enough to put right what fits together badly, and
few enough for it to end soon."""
_FIXED = 3
"""Of the hosts that are left, at least one in so many is fixed in a round of a dive, which so takes
some dozen rounds at most."""
_MAX_PRICE = 10.0
"""Most that a task may be worth, in what a full host costs: one that finds no room on hosts left
would have any price, beside which all others are rounding."""
_KNOWN = 20
"""Patterns of a host that a linear master begins with."""
_CHOICE_NODES = 20
"""Most nodes of an integer program: what it gains comes at the root. Seconds would end it at
another place on each machine, and a longer search might then be worse than a shorter one."""
_CHOICE_GAP = 1e-3
"""Relative gap of an integer program: exchanges gain more than the rest of it, in less time."""
_POOLED = 120
"""Patterns of a host that are kept, those that pay best: three times what it may choose from."""
_INTEGRAL = 0.99
"""Share in the linear master from which a pattern is taken as chosen."""


class Guide:
    """Chooses patterns for the hosts of a state.

    Parameters
    ----------
    problem
        The problem.
    state
        A placement, changed in place by `choose`.
    relaxation
        The patterns' program.
    generated
        What column generation found.
    rng
        Source of other prices.
    """

    def __init__(
        self,
        problem: Problem,
        state: State,
        relaxation: Relaxation,
        generated: Generated,
        rng: np.random.Generator,
    ) -> None:
        self.state = state
        self.relaxation = relaxation
        self.patterns = relaxation.patterns
        self.generated = generated
        self.rng = rng
        self.prices = generated.prices
        self.pool = Pool.of(generated.columns)
        self.items = [self._items_of(problem, relaxation, b) for b in range(len(state.blocks))]
        self.demand = np.zeros((self.patterns.num_items, state.capacity.shape[1]), dtype=np.int64)
        for items, block in zip(self.items, state.blocks, strict=True):
            self.demand[items] = block.demand
        self.max_price = _MAX_PRICE * price_scale(self.patterns)[0]
        self._pricing: Variety | None = None
        self.solved = True
        """Whether the last choice was solved within its nodes."""
        self.per_host = 6
        now = self.patterns.now
        row = np.repeat(np.arange(len(now)), [len(tasks) for tasks in now])
        column = np.concatenate([*now, np.zeros(0, dtype=np.int64)]).astype(np.int64)
        shape = (self.patterns.num_hosts, self.patterns.num_items)
        self.now = csr_array((np.ones(len(row), dtype=np.int64), (row, column)), shape=shape)

    def _items_of(self, problem: Problem, relaxation: Relaxation, b: int) -> Counts:
        """Return the item of patterns that each row of a block is."""
        items = []
        for groups in self.state.blocks[b].groups:
            k, h = int(groups[0]), int(self.state.blocks[b].hosts[0])
            domain = int(relaxation.domain_of[k][h]) if b and k in relaxation.domain_of else -1
            items.append(relaxation.local_of.get((k, domain), int(relaxation.class_of[k])))
        return np.array(items, dtype=np.int64)

    def tasks(self) -> csr_array:
        """Return the tasks of each item on each host in the state, shape (hosts, items)."""
        rows, columns, numbers = [], [], []
        for block, items in zip(self.state.blocks, self.items, strict=True):
            k, c = np.nonzero(block.count)
            rows.append(block.hosts[c])
            columns.append(items[k])
            numbers.append(block.count[k, c])
        made = csr_array(
            (np.concatenate(numbers), (np.concatenate(rows), np.concatenate(columns))),
            shape=self.now.shape,
        )
        made.sum_duplicates()
        return made

    def remember(self) -> None:
        """Add the patterns of the state to the pool."""
        tasks = self.tasks()
        gone = self.now - self.now.minimum(tasks)
        cost = self.state.host_cost + gone @ self.patterns.move_weight
        self.pool.add(np.arange(len(cost)), cost, tasks)

    def vary(self, spread: float, clock: Clock, hosts: Counts | None = None) -> None:
        """Add the patterns that pay at other prices.

        Parameters
        ----------
        spread
            Standard deviation of the factor by which prices change.
        clock
            Tells the seconds left.
        hosts
            The hosts, or None for all.

        Raises
        ------
        OutOfTime
            If there is no time to end it.
        """
        if self._pricing is None:
            self._pricing = Variety(self.patterns, clock)
        self._pricing.clock = clock
        prices = self.prices
        noise = self.rng.normal(0.0, spread, len(prices))
        self.pool.add(
            *self._pricing.several(
                prices * (1.0 + noise), self.generated.move_price, self.per_host, hosts
            )
        )

    def reduced(self) -> Array:
        """Return by how much each pattern of the pool is worse than the best of its host."""
        pool = self.pool
        cost = pool.cost - pool.counts @ self.prices
        if self.generated.move_price:
            gone = self.now[pool.host]
            gone = gone - gone.minimum(pool.counts)
            cost = cost + self.generated.move_price * np.asarray(gone.sum(axis=1)).ravel()
        least = np.full(self.patterns.num_hosts, np.inf)
        np.minimum.at(least, pool.host, cost)
        excess: Array = cost - least[pool.host]
        return excess

    def dive(self, hosts: Counts, clock: Clock, report: Callable[[str], None]) -> bool:
        """Follow the linear master: fix what it is sure of, solve it again for the rest, and so on.

        Gangs keep to the domains that they stand in: the relaxation lets those that leave stand
        anywhere, which is no use here. The prices of the linear program guide what follows.

        Parameters
        ----------
        hosts
            The hosts whose tasks are dealt out anew among them, ascending.
        clock
            Tells the seconds left.
        report
            Takes a line of progress.

        Returns
        -------
        bool
            As of `choose`.

        Raises
        ------
        OutOfTime
            If there is no time to end it.
        """
        prices, free = self.prices, hosts
        left = np.asarray(self.tasks()[hosts].sum(axis=0)).ravel()
        known = self.known(free)
        fixed: dict[int, Counts] = {}
        while len(free):
            rest = self._rest(free, left)
            found = generate(rest, prices, clock, _silent, width=0.05, tolerance=1e-3, known=known)
            if found.stopped:
                raise OutOfTime
            prices, columns = np.minimum(found.prices, self.max_price), found.columns
            if not fixed:
                self.prices = np.where(left > 0, prices, self.prices)
                report(f"{len(hosts)} hosts by linear programming: {found.value:.4f}")
            self.pool.add(
                free[columns.host], columns.cost, csr_array(columns.counts).astype(np.int64)
            )
            share = found.share * self._fits(free[columns.host], columns.counts)
            surest = _surest(columns, share, len(free))
            if len(free) <= _TAIL or not surest:
                break
            sure = np.zeros(len(free), dtype=bool)
            for column in surest:
                counts = columns.counts[column].astype(np.int64)
                fixed[int(free[columns.host[column]])] = counts
                sure[columns.host[column]] = True
                left = np.maximum(left - counts, 0)
            known = _still_possible(columns, sure, left)
            free = free[~sure]
        lasting, self.prices = self.prices, prices
        try:
            for spread in (0.0, 0.05, 0.1):
                self.vary(spread, clock, free)
            self.tidy()
            # Tasks that no pattern covers may find no path: then it is worth more to cover them.
            return any(
                self.choose(hosts, clock, 100 * _TAIL, fixed, penalty) for penalty in _PENALTIES
            )
        finally:
            self.prices = lasting

    def known(self, hosts: Counts) -> Columns:
        """Return the patterns of the pool that pay best on some hosts, by position in them."""
        pool = self.pool
        position = np.full(self.patterns.num_hosts, -1, dtype=np.int64)
        position[hosts] = np.arange(len(hosts))
        mine = self._best_of_hosts(_KNOWN)
        mine = mine[position[pool.host[mine]] >= 0]
        counts, host = pool.counts[mine], pool.host[mine]
        now = self.now[host]
        moved = np.asarray((now - now.minimum(counts)).sum(axis=1)).ravel()
        return Columns(position[host], counts.toarray().astype(np.int16), pool.cost[mine], moved)

    def _best_of_hosts(self, number: int) -> Counts:
        """Return the patterns of the pool that pay best, so many of each host, host by host."""
        order = np.lexsort((self.reduced(), self.pool.host))
        host = self.pool.host[order]
        rank = np.arange(len(order)) - np.searchsorted(host, host, side="left")
        best: Counts = order[rank < number]
        return best

    def tidy(self) -> None:
        """Keep each pattern of the pool once, and of each host those that pay best."""
        pool = self.pool
        pool.tidy()
        best = self._best_of_hosts(_POOLED)
        pool.host, pool.cost, pool.counts = pool.host[best], pool.cost[best], pool.counts[best]

    def _rest(self, hosts: Counts, tasks: Counts) -> Patterns:
        """Return the program of some hosts that must hold certain tasks."""
        p = self.patterns
        return replace(
            p,
            kind_of=p.kind_of[hosts],
            base=p.base[hosts],
            now=tuple(p.now[h] for h in hosts),
            local=tuple(p.local[h] for h in hosts),
            least=tasks.astype(float),
            most=tasks.astype(float) + 1.0,
            stays=(),
            constant=0.0,
            elsewhere={},
        )

    def choose(
        self,
        hosts: Counts,
        clock: Clock,
        max_columns: int,
        fixed: dict[int, Counts] | None = None,
        penalty: float | None = None,
    ) -> bool:
        """Let hosts choose their patterns anew, among those of the pool and their own of now.

        Parameters
        ----------
        hosts
            The hosts that choose.
        clock
            Tells the seconds left.
        max_columns
            Patterns that take part: those that pay best.
        fixed
            For hosts that follow a pattern already, its tasks of each item.
        penalty
            What an uncovered task costs besides its price; None: every task must be covered.

        Returns
        -------
        bool
            Whether the state changed and holds all its tasks. A state that does not is restored.

        Raises
        ------
        OutOfTime
            If there is no time to end it.
        """
        if clock() <= 0:
            raise OutOfTime
        picked = self._master(hosts, clock, max_columns, fixed or {}, penalty)
        if clock() <= 0:
            raise OutOfTime
        if picked is None:
            return False
        before = self.state.snapshot()
        hand = self._follow(picked)
        self.state.changed(picked)
        lost = Exchanger(self.state, self.rng).insert(hand)
        if lost:
            self.state.restore(before)
            return False
        return True

    def _master(
        self,
        hosts: Counts,
        clock: Clock,
        max_columns: int,
        fixed: dict[int, Counts],
        penalty: float | None,
    ) -> dict[int, Counts] | None:
        """Return the tasks of each item on each host that chooses, or None for no change."""
        pool, tasks = self.pool, self.tasks()
        free = np.array([h for h in hosts.tolist() if h not in fixed], dtype=np.int64)
        wanted = np.asarray(tasks[hosts].sum(axis=0)).ravel()
        picked = dict(fixed)
        if not len(free):
            return picked or None
        for counts in picked.values():
            wanted = wanted - counts
        wanted = np.maximum(wanted, 0)
        position = np.full(self.patterns.num_hosts, -1, dtype=np.int64)
        position[free] = np.arange(len(free))
        candidates = np.flatnonzero((position[pool.host] >= 0) & self._fits(pool.host, pool.counts))
        excess = self.reduced()[candidates]
        candidates = candidates[np.argsort(excess, kind="stable")[:max_columns]]
        own = tasks[free]
        gone = self.now[free]
        gone = gone - gone.minimum(own)
        own_cost = self.state.host_cost[free] + gone @ self.patterns.move_weight
        host = np.concatenate([np.arange(len(free)), position[pool.host[candidates]]])
        counts = csr_array(vstack([own, pool.counts[candidates]]))
        cost = np.concatenate([own_cost, pool.cost[candidates]])
        items = np.flatnonzero(wanted)
        num = len(cost)
        choice = csr_array((np.ones(num), (host, np.arange(num))), shape=(len(free), num))
        matrix = vstack([choice, csr_array(counts.T)[items].astype(float)])
        upper = np.ones(num)
        if penalty is not None:
            eye = csr_array(
                (np.ones(len(items)), (len(free) + np.arange(len(items)), np.arange(len(items)))),
                shape=(len(free) + len(items), len(items)),
            )
            matrix = hstack([matrix, eye])
            cost = np.concatenate([cost, np.maximum(self.prices[items], 0.0) + penalty])
            upper = np.concatenate([upper, wanted[items].astype(float)])
        start = np.zeros(len(cost))
        start[: len(free)] = 1.0
        lacking = wanted[items] - np.asarray(own.sum(axis=0)).ravel()[items]
        if penalty is not None:
            start[num:] = np.maximum(lacking, 0)
        model = ArrayModel(
            "min",
            cost,
            csr_array(matrix),
            np.concatenate([np.ones(len(free)), wanted[items].astype(float)]),
            np.concatenate([np.ones(len(free)), np.full(len(items), np.inf)]),
            np.zeros(len(cost)),
            upper,
            np.arange(len(cost)) < num,
        )
        options = SolverOptions(
            clock(),
            gap=_CHOICE_GAP,
            start=start if penalty is not None or (lacking <= 0).all() else None,
            nodes=_CHOICE_NODES,
        )
        raw = highs.solve(model, options)
        self.solved = raw.limit is None
        # What time has cut off depends on the machine, and the next step sees that time is up.
        if raw.values is None or raw.limit == "time":
            return None
        for i in np.flatnonzero(raw.values[:num] > 0.5).tolist():
            if i >= len(free) or fixed:
                picked[int(free[host[i]])] = counts[[i]].toarray().ravel()
        return picked or None

    def _fits(self, host: Counts, counts: csr_array | Counts) -> Mask:
        """Return which patterns fit beside the tasks of a host that are in no block.

        The relaxation lets these leave; here they stay, since only whole jobs of theirs move.
        """
        others = self.state.used - self.tasks() @ self.demand
        fits: Mask = (counts @ self.demand <= (self.state.capacity - others)[host]).all(axis=1)
        return fits

    def _follow(self, picked: dict[int, Counts]) -> list[tuple[int, int]]:
        """Put patterns on hosts; return the tasks that no pattern has."""
        state = self.state
        hosts = np.array(sorted(picked), dtype=np.int64)
        target = np.stack([picked[h] for h in hosts.tolist()])
        position = np.full(len(state.capacity), -1, dtype=np.int64)
        position[hosts] = np.arange(len(hosts))
        hand: list[tuple[int, int]] = []
        for b, block in enumerate(state.blocks):
            columns = np.flatnonzero(position[block.hosts] >= 0)
            at = position[block.hosts[columns]]
            for r, item in enumerate(self.items[b].tolist()):
                now = block.count[r, columns]
                total = int(now.sum())
                # Several rows may share an item: each takes what those before it leave.
                share = np.minimum(target[at, item], block.most[r, columns])
                new = _trim(share, total, block.initial[r, columns])
                target[at, item] -= new
                for c in np.flatnonzero(new != now).tolist():
                    state.add(b, r, int(columns[c]), int(new[c] - now[c]))
                hand += [(b, r)] * (total - int(new.sum()))
        return hand


def _trim(count: Counts, total: int, initial: Counts) -> Counts:
    """Return counts of at most a total, dropping first what exceeds the tasks of before."""
    count = count.copy()
    surplus = int(count.sum()) - total
    for least in (initial, np.zeros_like(initial)):
        for c in np.argsort(least - count, kind="stable").tolist():
            if surplus <= 0:
                return count
            drop = min(surplus, max(0, int(count[c] - least[c])))
            count[c] -= drop
            surplus -= drop
    return count


def _still_possible(columns: Columns, gone: Mask, left: Counts) -> Columns:
    """Return the patterns of hosts that are not gone whose tasks are left, hosts counted anew."""
    keep = ~gone[columns.host] & (columns.counts <= left).all(axis=1)
    position = np.cumsum(~gone) - 1
    return Columns(
        position[columns.host[keep]], columns.counts[keep], columns.cost[keep], columns.moved[keep]
    )


def _surest(columns: Columns, share: Array, num_free: int) -> list[int]:
    """Return the columns to fix: what the linear master is sure of, but a third of the hosts."""
    order = np.argsort(-share, kind="stable")
    sure = int((share > _INTEGRAL).sum())
    # What is left must have enough hosts to put right what fits together badly.
    most = max(min(max(sure, num_free // _FIXED), num_free - _TAIL), 1)
    seen: set[int] = set()
    chosen: list[int] = []
    for column in order[: 2 * num_free].tolist():
        host = int(columns.host[column])
        if len(chosen) >= most or share[column] <= 0:
            break
        if host not in seen:
            seen.add(host)
            chosen.append(column)
    return chosen


def _silent(line: str) -> None:
    del line
