"""The extensive form with the rows for open pools that its linear relaxation breaks.

With spare hosts the relaxation of a small problem is up to 14 % below the optimum, with these rows
2 %: a branch and bound of some thirty nodes is left of one of two thousand.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from scipy import sparse

from alloc.backends.column_bounds import bounded
from alloc.backends.interrupts import Stop
from alloc.backends.linear_program import LinearProgram
from alloc.backends.weak_duality import WeakDuality
from alloc.formulation import ArrayModel
from alloc.models.right_sizing.arrays import Extensive
from alloc.models.right_sizing.data import Array, Ints, SizingData
from alloc.solving.right_sizing.opening_rows import BROKEN, OpeningRows, Rows

_LEAST_GAIN = 1e-3
"""Part of its objective that a relaxation must gain from a round of rows, or it is the last one:
less is soon branched away, and every row takes time in every relaxation of the search."""


def strengthened(
    data: SizingData, form: Extensive, model: ArrayModel, seconds: float, stop: Stop
) -> tuple[ArrayModel, float]:
    """Return an extensive form with the rows that its linear relaxation breaks.

    Parameters
    ----------
    data
        The problem.
    form
        Its extensive form.
    model
        The program of that form, whatever way it states its costs.
    seconds
        Wall time, seconds. The rows that were added by then stay.
    stop
        Ends it when somebody presses Ctrl-C.

    Returns
    -------
    ArrayModel
        The program with more rows.
    float
        What the last relaxation proves of every plan, worked out in numpy; -inf without one.
    """
    bound = -np.inf
    if not data.spares:
        return model, bound  # no pool costs anything to open
    ends = time.perf_counter() + seconds
    opening, known = OpeningRows(data, form.blocks), _Known(form)
    program = LinearProgram(model)
    program.end_with(stop)
    before = -np.inf
    while (found := program.solve(ends - time.perf_counter())) is not None:
        bound = max(bound, WeakDuality(bounded(model)).bound(found.duals))
        if found.value - before <= _LEAST_GAIN * abs(found.value):
            break
        before = found.value
        matrix = known.broken(opening, found.values)
        if matrix is None:
            break
        count = matrix.shape[0]
        lower, upper = np.zeros(count), np.full(count, np.inf)
        program.add_rows(lower, upper, matrix.indptr[:-1], matrix.indices, matrix.data)
        model = replace(
            model,
            matrix=sparse.vstack([model.matrix, matrix], format="csr"),
            row_lower=np.concatenate([model.row_lower, lower]),
            row_upper=np.concatenate([model.row_upper, upper]),
        )
    return model, bound


class _Known:
    """The rows that some block has broken, and the blocks that have them.

    Parameters
    ----------
    form
        The extensive form.
    """

    def __init__(self, form: Extensive) -> None:
        scenarios, quarters, _ = form.shape
        self._form = form
        self._linked = np.array([form.first.linked(t, opened=True) for t in range(quarters)])
        self._quarter = np.tile(np.arange(quarters), scenarios)
        self._rows: Rows | None = None
        self._has = np.zeros((scenarios * quarters, 0), dtype=bool)

    def broken(self, opening: OpeningRows, values: Array) -> sparse.csr_array | None:
        """Return the rows that blocks break and do not have yet, None if there are none.

        Parameters
        ----------
        opening
            Knows more rows.
        values
            Of the columns of the extensive form, shape (columns,).
        """
        scenarios, quarters, columns = self._form.shape
        first, running = self._form.split(values)
        tasks = [(w, t) for w in range(scenarios) for t in range(quarters)]
        more = opening.broken({task: running[task] for task in tasks}, first[self._linked])
        if more is not None:
            self._rows = more if self._rows is None else self._rows.with_more(more)
            has_none = np.zeros((len(tasks), len(more.levels)), dtype=bool)
            self._has = np.concatenate([self._has, has_none], axis=1)
        if self._rows is None:
            return None
        opened = first[self._linked][self._quarter][:, self._rows.levels]
        share = self._rows.share.reshape(len(tasks), -1)
        kept = (self._rows.body @ running.reshape(-1, columns).T).T + share * opened
        block, row = np.nonzero((kept < -BROKEN) & ~self._has)
        if not len(block):
            return None
        self._has[block, row] = True
        return self._in_blocks(block, row, share[block, row])

    def _in_blocks(self, block: Ints, row: Ints, share: Array) -> sparse.csr_array:
        """Return the rows over all columns, each in its block."""
        assert self._rows is not None
        columns = self._form.shape[2]
        body = self._rows.body[row].tocoo()
        own = len(self._form.first.cost) + block[body.row] * columns + body.col
        opened = self._linked[self._quarter[block], self._rows.levels[row]]
        at = np.concatenate([body.row, np.arange(len(row))])
        entries = (np.concatenate([body.data, share]), (at, np.concatenate([own, opened])))
        shape = (len(row), len(self._form.model.cost))
        return sparse.coo_array(entries, shape).tocsr()
