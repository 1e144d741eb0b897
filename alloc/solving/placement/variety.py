"""More patterns at given prices: for each host the best ones, each with other tasks kept."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, vstack

from alloc.formulation import Array
from alloc.solving.placement.patterns import Ints, Pricing, fill_table, pieces, trace_back


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
        for k, kind in enumerate(p.kinds):
            table = kind.cost.copy()
            took = fill_table(table, self._pieces[k], worth, self._pool)
            for own, local, members in self._groups:
                mine = members[wanted[members]]
                if own != k or not len(mine):
                    continue
                host, counts, load = self._kept(table, local, mine, worth, moving, most)
                for (item, times, shift), flags in zip(
                    reversed(self._pieces[k]), reversed(took), strict=True
                ):
                    at = np.flatnonzero((load + shift < kind.cost.shape).all(axis=1))
                    at = at[flags[tuple(load[at].T)]]
                    load[at] += shift
                    counts[at, item] += times
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

    def _kept(
        self, table: Array, local: Ints, hosts: Ints, worth: Array, moving: Array, most: int
    ) -> tuple[Ints, Ints, Ints]:
        """Return hosts, counts and loads of what the hosts keep, local tasks taken in included."""
        p = self.patterns
        room = np.array(table.shape) - 1
        mine = [
            piece for i in local for piece in pieces(int(i), int(p.copies[i]), p.demand[i], room)
        ]
        took = []
        if mine:
            table = table.copy()
            took = fill_table(table, mine, worth)
        flat = table.ravel()
        found_hosts, found_counts, found_loads = [], [], []
        for h in hosts.tolist():
            tasks, loads = p.now[h], self._subsets[h]
            if loads is None:
                continue
            reduced = np.zeros(1)
            for i in tasks:
                reduced = np.concatenate([reduced, reduced - (worth[i] + moving[i])])
            reduced += flat[loads]
            best = np.argpartition(reduced, min(most, len(reduced)) - 1)[:most]
            for subset in best[np.isfinite(reduced[best])].tolist():
                keeps = tasks[(subset >> np.arange(len(tasks))) & 1 == 1]
                counts = np.zeros(p.num_items, dtype=np.int64)
                np.add.at(counts, keeps, 1)
                load = p.base[h] + p.demand[keeps].sum(axis=0)
                trace_back(mine, took, load, counts)
                found_hosts.append(h)
                found_counts.append(counts)
                found_loads.append(load)
        shape = (len(found_hosts), p.num_items)
        return (
            np.array(found_hosts, dtype=np.int64),
            np.array(found_counts, dtype=np.int64).reshape(shape),
            np.array(found_loads, dtype=np.int64).reshape(-1, p.demand.shape[1]),
        )

    def _cost(self, host: Ints, counts: Ints, stand: Array) -> Array:
        """Return k_p of patterns whose hosts cost `stand`."""
        p = self.patterns
        cost = counts @ p.charge + stand
        now = np.zeros((p.num_hosts, p.num_items), dtype=np.int64)
        for h in np.unique(host).tolist():
            np.add.at(now[h], p.now[h], 1)
        gone = np.maximum(now[host] - counts, 0)
        total: Array = cost + gone @ p.move_weight
        return total
