"""Patterns of single hosts that an integer program may choose from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from alloc.formulation import Array
from alloc.solving.placement.pattern_master import Columns
from alloc.solving.placement.terms import Counts


@dataclass
class Pool:
    """Patterns of single hosts, each once.

    Parameters
    ----------
    host, cost
        Host and cost of each pattern, shape (patterns,).
    counts
        Tasks of each item, shape (patterns, items).
    """

    host: Counts
    cost: Array
    counts: csr_array

    @staticmethod
    def of(columns: Columns) -> Pool:
        """Return the patterns that column generation has met."""
        return Pool(columns.host, columns.cost, csr_array(columns.counts).astype(np.int64))

    def add(self, host: Counts, cost: Array, counts: csr_array) -> None:
        """Add patterns.

        Parameters
        ----------
        host, cost
            Host and cost of each new pattern, shape (patterns,).
        counts
            Tasks of each item, shape (patterns, items).
        """
        self.host = np.concatenate([self.host, host])
        self.cost = np.concatenate([self.cost, cost])
        self.counts = csr_array(vstack([self.counts, counts]))

    def tidy(self) -> None:
        """Drop patterns that are there twice."""
        weights = np.random.default_rng(0).random(self.counts.shape[1])
        key = np.stack([self.host, np.round(self.counts @ weights, 9)], axis=1)
        _, first = np.unique(key, axis=0, return_index=True)
        self.host, self.cost, self.counts = self.host[first], self.cost[first], self.counts[first]
