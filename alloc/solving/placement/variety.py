"""More patterns at given prices: for each host the best ones, each with other tasks kept."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, vstack

from alloc.formulation import Array
from alloc.solving.placement.pricing import Filled, Pricing
from alloc.solving.placement.tables import Ints, trace_back


class Variety(Pricing):
    """Finds several good patterns of each host, where `Pricing` finds the best."""

    def several(
        self, prices: Array, move_price: float, most: int, hosts: Ints | None = None
    ) -> tuple[Ints, Array, csr_array]:
        """Return patterns of hosts: for the subsets of tasks to keep that pay best, the best each.

        Parameters
        ----------
        prices
            pi, shape (I,).
        move_price
            mu.
        most
            Patterns of a host.
        hosts
            The hosts, or None for all.

        Returns
        -------
        hosts, cost, counts
            Host and cost of each pattern, and its tasks of each item, shape (patterns, items).
        """
        p = self.patterns
        worth = prices - p.charge
        moving = p.move_weight + move_price
        wanted = np.ones(p.num_hosts, dtype=bool)
        if hosts is not None:
            wanted = np.zeros(p.num_hosts, dtype=bool)
            wanted[hosts] = True
        host_parts, cost_parts, counts_parts = [], [], []
        for common, groups in self._filled(worth, wanted):
            found = [self._kept(filled, worth + moving, most) for filled in groups]
            host, counts, load = (np.concatenate(part) for part in zip(*found, strict=True))
            trace_back(common.took, load, counts)
            kind = p.kinds[int(p.kind_of[common.hosts[0]])]
            host_parts.append(host)
            cost_parts.append(self._cost(host, counts, kind.cost[tuple(load.T)]))
            counts_parts.append(csr_array(counts))
        if not host_parts:
            none = np.zeros(0)
            return none.astype(np.int64), none, csr_array((0, p.num_items), dtype=np.int64)
        return (
            np.concatenate(host_parts),
            np.concatenate(cost_parts),
            csr_array(vstack(counts_parts)),
        )

    def _kept(self, filled: Filled, gains: Array, most: int) -> tuple[Ints, Ints, Ints]:
        """Return hosts, counts and loads of what they keep in their best patterns.

        Local items that are taken in are there too.
        """
        p = self.patterns
        none = np.zeros(0, dtype=np.int64)
        kept_hosts, row_parts, item_parts, loads = [none], [none], [none], [p.base[:0]]
        size = 0
        for some, tasks, reduced in self._subset_costs(filled, gains):
            number = min(most, reduced.shape[1])
            best = np.argpartition(reduced, number - 1, axis=1)[:, :number]
            row, column = np.nonzero(np.isfinite(np.take_along_axis(reduced, best, axis=1)))
            subset, own = best[row, column], tasks[row]
            keeps = (subset[:, None] >> np.arange(tasks.shape[1])) & 1
            kept_hosts.append(some[row])
            at, task = np.nonzero(keeps)
            row_parts.append(size + at)
            item_parts.append(own[at, task])
            loads.append(p.base[some[row]] + (keeps[:, :, None] * p.demand[own]).sum(axis=1))
            size += len(row)
        counts = np.zeros((size, p.num_items), dtype=np.int64)
        np.add.at(counts, (np.concatenate(row_parts), np.concatenate(item_parts)), 1)
        load = np.concatenate(loads)
        trace_back(filled.took, load, counts)
        return np.concatenate(kept_hosts), counts, load

    def _cost(self, host: Ints, counts: Ints, stand: Array) -> Array:
        """Return k_p of patterns whose hosts cost `stand`."""
        p = self.patterns
        had = csr_array(
            (self._had, (self._had_host, self._had_item)), shape=(p.num_hosts, p.num_items)
        )[host].tocoo()
        left = np.maximum(had.data - counts[had.row, had.col], 0) * p.move_weight[had.col]
        total: Array = counts @ p.charge + stand + np.bincount(had.row, left, minlength=len(host))
        return total
