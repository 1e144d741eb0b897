"""The first stage: what is ordered, what host_groups where, and which GPUs can be counted on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from alloc.model_builder import ModelBuilder
from alloc.models.right_sizing.blocks import BOUND_SLACK
from alloc.models.right_sizing.data import Array, Ints, SizingData
from alloc.problems.right_sizing.sites import SITE_LIMITS

Flags = npt.NDArray[np.bool_]
_FOR_ROUNDING = 1e-9
"""Part by which a host may cost more than a budget and still not be left out."""


@dataclass(frozen=True, eq=False)
class FirstStage:
    """Rows and columns of the first stage; money discounted.

    ``row_lower <= matrix @ x <= row_upper``. `order[k, t]` is the column of the order of group k in
    quarter t (-1 if none makes sense), `hosts[k, t]` the hosts in service, `usable[p, t]` the
    usable GPUs of a pool; with spare hosts, `counted[i, t]` the hosts of a level that are counted,
    `open[i, t]` whether there are any, and `switch[i, t]` the row between the two (else all -1);
    `sent[i, t]` whether jobs are sent to destination i, and `margin[q, t]` the GPUs that a pool
    keeps; `waive[w]` says whether a scenario is waived.

    Parameters
    ----------
    cost
        Discounted money, shape (columns,).
    spent
        Undiscounted money in each quarter, without what is worth something at the end, shape
        (quarters, columns).
    """

    order: Ints
    hosts: Ints
    usable: Ints
    counted: Ints
    open: Ints
    switch: Ints
    sent: Ints
    margin: Ints
    waive: Ints
    cost: Array
    spent: sparse.csr_array
    matrix: sparse.csr_array
    row_lower: Array
    row_upper: Array
    lower: Array
    upper: Array
    integer: Flags
    rows: dict[str, slice]

    def linked(self, quarter: int, *, opened: bool = False) -> Ints:
        """Return the columns of z in a quarter, as the blocks number them.

        Parameters
        ----------
        quarter
            The quarter.
        opened
            Whether those that say which levels are open come after them, if pools have spares.
        """
        linked = [self.usable, self.hosts, self.margin, self.sent]
        if opened and (self.open >= 0).all():
            linked.append(self.open)
        return np.concatenate([columns[:, quarter] for columns in linked])

    def paid_when_ordered(self) -> tuple[Array, Array]:
        """Return costs in which hosts in service cost nothing, and what they cost by (C1) instead.

        (C1) says what is in service. What is owned may cost millions of times what work does:
        beside it what work costs would be within the tolerance of a solver, and its optimum a false
        one.

        Returns
        -------
        cost
            With what hosts ordered cost in service as a cost of orders, shape (columns,).
        each
            What a host in service costs, by row of (C1); owned ones cost it times the row's limit.
        """
        rows = self.rows["C1"]
        each = self.cost[self.hosts.ravel()]
        return self.cost - self.matrix[rows].T @ each, each


def first_stage(data: SizingData, *, within_budgets: bool = False) -> FirstStage:
    """Return the first stage of a problem.

    Parameters
    ----------
    data
        The problem.
    within_budgets
        Whether nothing is ordered of which no budget pays for a single host, beside whose price the
        rest of a budget's row would be below what a solver sees. What a host or a larger budget
        would be worth cannot be read off then.
    """
    return _Builder(data).build(within_budgets)


class _Builder:
    def __init__(self, data: SizingData) -> None:
        self.data = data
        self.quarters = data.num_quarters
        self.model = ModelBuilder("C1", "C2", "C3", "C4", "C5", "C6", "C7", "C17", "C8")

    def build(self, within_budgets: bool) -> FirstStage:
        order, hosts = self._hosts()
        # Ample, like the bounds of the blocks.
        usable = self.model.columns(
            (len(self.data.pools), self.quarters), BOUND_SLACK * self.data.max_gpus, integer=False
        )
        self._service(order, hosts)
        self._room(hosts)
        counted, opened, switch = self._usable(hosts, usable)
        sent, margin = self._margins()
        waive = self._chance()
        cost, spent = self._money(order, hosts)
        model = self.model.model("min", cost=cost)
        upper = model.upper.copy()
        if within_budgets:
            is_too_dear = self._too_dear(order, hosts, spent)
            upper[order[is_too_dear]] = 0.0
            upper[hosts[self._without_hosts((order >= 0) & ~is_too_dear)]] = 0.0
        return FirstStage(
            order,
            hosts,
            usable,
            counted,
            opened,
            switch,
            sent,
            margin,
            waive,
            cost,
            spent,
            model.matrix,
            model.row_lower,
            model.row_upper,
            model.lower,
            upper,
            model.integer,
            dict(model.rows),
        )

    def _column(self, upper: float, *, integer: bool = False) -> int:
        return int(self.model.columns(1, upper, integer=integer)[0])

    def _hosts(self) -> tuple[Ints, Ints]:
        """Add the orders that make sense, and the hosts in service."""
        data, quarters = self.data, self.quarters
        shape = (len(data.host_groups), quarters)
        most = np.zeros(shape)
        for k, group in enumerate(data.host_groups):
            limit = data.offer(group).most_hosts
            for t in range(quarters):
                if group.can_order and data.in_service(k, t):
                    useful: float = data.max_ordered(k)
                    if limit is not None:
                        useful = min(useful, (limit - data.kept_free) / data.host_unit)
                    most[k, t] = useful
        order = np.full(shape, -1, dtype=np.int64)
        order[most > 0] = self.model.columns(
            int((most > 0).sum()), most[most > 0], integer=data.host_unit == 1
        )
        arriving = np.zeros(shape)
        for k in range(len(data.host_groups)):
            for q in range(quarters):
                arriving[k, list(data.in_service(k, q))] += most[k, q]
        owned = np.array([group.owned for group in data.host_groups], dtype=float).reshape(shape)
        hosts = self.model.columns(shape, BOUND_SLACK * (owned + arriving) + 1.0, integer=False)
        return order, hosts

    def _service(self, order: Ints, hosts: Ints) -> None:
        """(C1) Hosts in service are those owned and those ordered, from arrival to retirement."""
        data = self.data
        for k, group in enumerate(data.host_groups):
            for t in range(self.quarters):
                arrived = [
                    (int(order[k, q]), -1.0)
                    for q in range(t + 1)
                    if order[k, q] >= 0 and t in data.in_service(k, q)
                ]
                owned = float(group.owned[t])
                self.model.row("C1", [(int(hosts[k, t]), 1.0), *arrived], owned, owned)

    def _room(self, hosts: Ints) -> None:
        """(C2) rack units, (C3) ports and (C4) power of each site hold its hosts."""
        data = self.data
        beside = data.kept_free / data.host_unit * self.quarters
        for name, field in zip(("C2", "C3", "C4"), SITE_LIMITS, strict=True):
            for s, site in enumerate(data.problem.sites):
                limit = getattr(site, field)
                if limit is None:
                    continue
                each = [
                    (k, data.offer(group).takes_up(field, site.pue) * data.host_unit)
                    for k, group in enumerate(data.host_groups)
                    if group.site == s
                ]
                limit -= beside * sum(value for k, value in each if data.host_groups[k].can_order)
                for t in range(self.quarters):
                    entries = [(int(hosts[k, t]), value) for k, value in each if value > 0]
                    self.model.row(name, entries, upper=float(limit))

    def _usable(self, hosts: Ints, usable: Ints) -> tuple[Ints, Ints, Ints]:
        """(C5)-(C7) The usable GPUs of a pool are those of its hosts less the spare ones."""
        data, spares = self.data, self.data.spares
        counted = np.full((len(data.levels), self.quarters), -1, dtype=np.int64)
        opened, switch = counted.copy(), counted.copy()
        levels = defaultdict(list)
        for i, level in enumerate(data.levels):
            levels[level.pool].append(i)
        most = np.zeros((len(data.levels), self.quarters))
        for i, level in enumerate(data.levels):
            most[i] = np.ceil(data.max_gpus[level.pool] / level.gpus + 1e-9) + spares
            if spares:
                for t in range(self.quarters):
                    counted[i, t] = self._column(most[i, t])
                    opened[i, t] = self._column(1.0, integer=True)
        for p in range(len(data.pools)):
            for t in range(self.quarters):
                entries = [(int(usable[p, t]), 1.0)]
                for i in levels[p]:
                    level = data.levels[i]
                    if spares:
                        entries.append((int(counted[i, t]), -float(level.gpus)))
                        entries.append((int(opened[i, t]), float(spares * level.step)))
                    else:
                        entries += [
                            (int(hosts[k, t]), -float(level.gpus)) for k in level.host_groups
                        ]
                self.model.row("C5", entries, upper=0.0)
        if spares:
            for i, level in enumerate(data.levels):
                for t in range(self.quarters):
                    standing = [(int(hosts[k, t]), -1.0) for k in level.host_groups]
                    owned = float(sum(data.host_groups[k].owned[t] for k in level.host_groups))
                    if owned:
                        # In a relaxation hosts that stand anyway would else be of use as long as
                        # a sliver of their pool is open, and spare hosts cost next to nothing.
                        standing.append((int(opened[i, t]), -owned))
                    self.model.row("C6", [(int(counted[i, t]), 1.0), *standing], upper=-owned)
        if spares:
            for i, level in enumerate(data.levels):
                for t in range(self.quarters):
                    own = (int(opened[i, t]), -float(most[i, t]))
                    entries = [(int(counted[i, t]), 1.0), own]
                    switch[i, t] = self.model.row("C7", entries, upper=0.0)
                    if i and data.levels[i - 1].pool == level.pool:
                        larger = (int(opened[i - 1, t]), 1.0)
                        self.model.row("C7", [larger, (int(opened[i, t]), -1.0)], upper=0.0)
                    if t and self._stays(level.pool):
                        before = (int(opened[i, t - 1]), 1.0)
                        self.model.row("C7", [before, (int(opened[i, t]), -1.0)], upper=0.0)
        return counted, opened, switch

    def _stays(self, pool: int) -> bool:
        """Return whether all hosts that a pool ever has stay until the end.

        Then it loses nothing by staying open: what paid for its spare hosts still does.
        """
        data, end = self.data, self.quarters
        for k, group in enumerate(data.host_groups):
            if group.pool != pool:
                continue
            if group.can_order and any(
                len(data.in_service(k, t)) < end - t - data.offer(group).lead_time_quarters
                for t in range(end)
            ):
                return False
            if (np.diff(group.owned) < 0).any():
                return False
        return True

    def _margins(self) -> tuple[Ints, Ints]:
        """(C17) A pool keeps the largest margin of the classes and pairs that are sent there."""
        data = self.data
        shapes = (len(data.destinations), self.quarters), (len(data.with_margin), self.quarters)
        sent, kept = np.zeros(shapes[0], dtype=np.int64), np.zeros(shapes[1], dtype=np.int64)
        alone = np.zeros((len(data.destinations), self.quarters))
        for margin in data.margins:
            if len(margin.destinations) == 1:
                (i,) = margin.destinations
                alone[i] = np.maximum(alone[i], margin.gpus)
        for i, at in enumerate(data.destinations):
            had = data.spot_gpus[at.pool] if at.spot else np.full(self.quarters, np.inf)
            sent[i] = self.model.columns(self.quarters, (alone[i] <= had).astype(float))
        for q, (pool, spot) in enumerate(data.with_margin):
            most = BOUND_SLACK * data.max_margin(spot)[pool]
            if spot:
                # No scenario has room for more: pairs that ask for it are not sent there together.
                most = np.minimum(most, data.spot_gpus[pool])
            kept[q] = self.model.columns(self.quarters, most, integer=False)
        for margin in data.margins:
            q, others = data.place_of(margin), len(margin.destinations) - 1
            for t, gpus in enumerate(margin.gpus):
                if gpus > 0:
                    together = [(int(sent[i, t]), -gpus) for i in margin.destinations]
                    entries = [(int(kept[q, t]), 1.0), *together]
                    self.model.row("C17", entries, lower=-gpus * others)
        return sent, kept

    def _chance(self) -> Ints:
        """(C8) The scenarios waived have at most the probability allowed."""
        problem = self.data.problem
        if not problem.epsilon:
            return np.zeros(0, dtype=np.int64)
        waive = self.model.columns(len(problem.scenarios), 1.0)
        # Probabilities written with few digits may just miss epsilon.
        chances = np.array([scenario.probability for scenario in problem.scenarios])
        self.model.row("C8", [(waive, chances)], upper=problem.epsilon + 1e-9)
        return waive

    def _too_dear(self, order: Ints, hosts: Ints, spent: sparse.csr_array) -> Flags:
        """Return of which orders a single host overruns a budget, with all that it costs."""
        data, problem = self.data, self.data.problem
        found = np.zeros(order.shape, dtype=bool)
        if problem.budget is None and not problem.quarter_budgets:
            return found
        in_quarter = np.array(problem.quarter_budgets)
        in_all = np.inf if problem.budget is None else problem.budget
        each = spent.toarray() / data.host_unit
        for k, t in np.argwhere(order >= 0).tolist():
            costs = each[:, order[k, t]].copy()
            for q in data.in_service(k, t):
                costs[q] += each[q, hosts[k, q]]
            over = costs[: len(in_quarter)] > in_quarter * (1 + _FOR_ROUNDING)
            found[k, t] = over.any() or costs.sum() > in_all * (1 + _FOR_ROUNDING)
        return found

    def _without_hosts(self, may_come: Flags) -> Flags:
        """Return in which quarters a group has no hosts, given which orders may come."""
        data = self.data
        owned = np.array([group.owned for group in data.host_groups])
        found: Flags = (owned == 0).reshape(may_come.shape)
        for k, t in np.argwhere(may_come).tolist():
            service = data.in_service(k, t)
            found[k, service.start : service.stop] = False
        return found

    def _money(self, order: Ints, hosts: Ints) -> tuple[Array, sparse.csr_array]:
        data, quarters = self.data, self.quarters
        groups = range(len(data.host_groups))
        running = data.running_cost + np.array([data.reserved_cost(k) for k in groups])
        once = np.array([[data.order_cost(k, t) for t in range(quarters)] for k in groups])
        left = np.array([[data.residual(k, t) for t in range(quarters)] for k in groups])
        ordered, quarter = order >= 0, np.broadcast_to(np.arange(quarters), order.shape)
        worth = np.zeros(self.model.num_columns)
        worth[order[ordered]] = left.reshape(order.shape)[ordered]
        kept = np.broadcast_to(running[:, None], order.shape).ravel()
        money = np.concatenate([kept, once.reshape(order.shape)[ordered]])
        at = (
            np.concatenate([quarter.ravel(), quarter[ordered]]),
            np.concatenate([hosts.ravel(), order[ordered]]),
        )
        spent = sparse.coo_array((money, at), (quarters, self.model.num_columns)).tocsr()
        spent.eliminate_zeros()
        end = data.problem.discount(quarters)
        return np.asarray(spent.T @ data.discount - end * worth), spent
