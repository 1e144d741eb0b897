"""The rows of the admission program, over patterns of bays or over counts on hosts.

See `alloc.solving.placement.admission` for (W1)-(W5).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from alloc.formulation import Array, ArrayModel
from alloc.solving.placement.knapsacks import Knapsacks
from alloc.solving.placement.tables import Ints
from alloc.solving.placement.waiting import Waiting

_MAX_COUNTS = 50_000
"""Variables a_hc up to which the program over counts is tried: there is one for each host and
class, too many for an integer program of a large cluster."""


class Rows:
    """The rows (W2), and programs around them.

    Parameters
    ----------
    waiting
        The admission problem.
    """

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        within = self._containment()
        keys: dict[tuple[int, int], int] = {}
        for option in waiting.options:
            for c in option.classes:
                keys.setdefault((option.domain, int(c)), len(keys))
        self.number = len(keys)
        # Entries of (W2): which rows a task of class c on a bay fills, and which an option uses.
        by_class: dict[int, list[tuple[int, int]]] = {}
        for (domain, c), row in keys.items():
            by_class.setdefault(c, []).append((domain, row))
        self.filled: list[csr_array] = []
        for bay in waiting.bays:
            own = set(bay.domains.tolist())
            pairs = [
                (c, row) for c, rows in by_class.items() for domain, row in rows if domain in own
            ]
            at = np.array(pairs, dtype=np.int64).reshape(-1, 2)
            self.filled.append(
                csr_array(
                    (np.ones(len(at)), (at[:, 0], at[:, 1])),
                    shape=(len(waiting.demand), self.number),
                )
            )
        o_rows, o_columns, o_values = [], [], []
        for o, option in enumerate(waiting.options):
            for c, n in zip(option.classes, option.counts, strict=True):
                for domain, row in by_class[int(c)]:
                    if within[option.domain, domain]:
                        o_rows.append(o)
                        o_columns.append(row)
                        o_values.append(float(n))
        self.used = csr_array(
            (np.array(o_values), (np.array(o_rows, dtype=int), np.array(o_columns, dtype=int))),
            shape=(len(waiting.options), self.number),
        )
        self.worth = np.array([option.worth for option in waiting.options])
        self.kind = np.array([option.kind for option in waiting.options], dtype=np.int64)
        self.jobs = np.array([len(kind.jobs) for kind in waiting.kinds], dtype=float)

    def _containment(self) -> npt.NDArray[np.bool_]:
        """Return whether each domain lies within each other one, by the bays in them."""
        waiting = self.waiting
        member = np.zeros((waiting.num_domains, len(waiting.bays)), dtype=bool)
        for b, bay in enumerate(waiting.bays):
            member[bay.domains, b] = True
        inside = np.zeros((waiting.num_domains, waiting.num_domains), dtype=bool)
        for d in range(waiting.num_domains):
            inside[d] = ~(member[d] & ~member).any(axis=1)
        return inside

    def first_prices(self) -> Array:
        """Return prices at which a GPU is worth what it counts, everywhere."""
        prices = np.zeros(self.number)
        for o, option in enumerate(self.waiting.options):
            tasks = float(option.counts.sum())
            rows = self.used.indices[self.used.indptr[o] : self.used.indptr[o + 1]]
            share = option.worth / tasks / max(len(rows) / len(option.classes), 1.0)
            prices[rows] = np.maximum(prices[rows], share)
        return prices

    def task_prices(self, prices: Array) -> list[Array]:
        """Return l_hc for each bay."""
        return [filled @ prices for filled in self.filled]

    def surplus(self, prices: Array) -> float:
        """Return what the kinds of jobs add to the bound."""
        gain = np.zeros(len(self.jobs))
        np.maximum.at(gain, self.kind, self.worth - self.used @ prices)
        return float(gain @ self.jobs)

    def program(
        self, bay: list[int], counts: list[Ints], multiplicity: Ints, integer: bool
    ) -> ArrayModel:
        """Return (W1)-(W3) over some patterns, in maximisation.

        Parameters
        ----------
        bay
            The bay of each pattern.
        counts
            Tasks of each class in each pattern, each of shape (classes,).
        multiplicity
            Hosts of each bay, m_h, at least 1, shape (bays,).
        integer
            Whether hosts and jobs are whole; False gives the linear relaxation.
        """
        num_bays, num_patterns = len(self.waiting.bays), len(bay)
        rows, columns, values = [], [], []
        for i, (b, x) in enumerate(zip(bay, counts, strict=True)):
            fills = x @ self.filled[b]
            at = np.flatnonzero(fills)
            rows += [*at, self.number + b]
            columns += [i] * (len(at) + 1)
            values += [*fills[at], 1.0]
        matrix, size = self._matrix(rows, columns, values, num_patterns, num_bays)
        return ArrayModel(
            sense="max",
            cost=np.concatenate([np.zeros(num_patterns), self.worth]),
            matrix=matrix,
            row_lower=np.concatenate(
                [np.zeros(self.number), np.full(num_bays + len(self.jobs), -np.inf)]
            ),
            row_upper=np.concatenate([np.full(self.number, np.inf), multiplicity, self.jobs]),
            lower=np.zeros(size),
            upper=np.concatenate([multiplicity[np.array(bay, dtype=int)], self.jobs[self.kind]]),
            integer=np.full(size, integer),
        )

    def count_program(
        self, knapsacks: Knapsacks
    ) -> tuple[ArrayModel, list[tuple[int, int, int]]] | None:
        """Return (W2)-(W5) over counts a_hc, and bay, host and class of each; None if too many."""
        waiting = self.waiting
        entries = [
            (b, int(h), int(c))
            for b, bay in enumerate(waiting.bays)
            for h in bay.hosts
            for c in bay.classes
        ]
        if len(entries) > _MAX_COUNTS:
            return None
        gpus = waiting.demand[:, 0].astype(float)
        _, most = knapsacks.solve([gpus for _ in waiting.bays])
        limits: list[float] = []
        host_row: dict[int, int] = {}
        for b, bay in enumerate(waiting.bays):
            for h in bay.hosts:
                host_row[int(h)] = self.number + len(limits)
                limits += [*bay.free.astype(float), most[b]]
        rows, columns, values = [], [], []
        upper = np.zeros(len(entries))
        for i, (b, h, c) in enumerate(entries):
            demand = waiting.demand[c]
            own = self.filled[b]
            fills = own.indices[own.indptr[c] : own.indptr[c + 1]]
            rows += [*fills, *(host_row[h] + np.arange(len(demand) + 1))]
            columns += [i] * (len(fills) + len(demand) + 1)
            values += [*np.ones(len(fills)), *demand, gpus[c]]
            needed = demand > 0
            fit = waiting.bays[b].free[needed] // demand[needed]
            upper[i] = min([int(waiting.copies[c]), *fit.tolist()])
        matrix, size = self._matrix(rows, columns, values, len(entries), len(limits))
        model = ArrayModel(
            sense="max",
            cost=np.concatenate([np.zeros(len(entries)), self.worth]),
            matrix=matrix,
            row_lower=np.concatenate(
                [np.zeros(self.number), np.full(len(limits) + len(self.jobs), -np.inf)]
            ),
            row_upper=np.concatenate([np.full(self.number, np.inf), limits, self.jobs]),
            lower=np.zeros(size),
            upper=np.concatenate([upper, self.jobs[self.kind]]),
            integer=np.full(size, True),
        )
        return model, entries

    def _matrix(
        self,
        rows: list[int],
        columns: list[int],
        values: list[float],
        num_columns: int,
        num_limits: int,
    ) -> tuple[csr_array, int]:
        """Return entries of (W1) or (W4), (W5) with those of the options added; and its width."""
        used = self.used.tocoo()
        options = np.arange(len(self.kind))
        at_rows = np.concatenate([rows, used.col, self.number + num_limits + self.kind])
        at_columns = np.concatenate([columns, num_columns + used.row, num_columns + options])
        size = num_columns + len(options)
        matrix = csr_array(
            (
                np.concatenate([values, -used.data, np.ones(len(options))]),
                (at_rows.astype(np.int64), at_columns.astype(np.int64)),
            ),
            shape=(self.number + num_limits + len(self.jobs), size),
        )
        return matrix, size
