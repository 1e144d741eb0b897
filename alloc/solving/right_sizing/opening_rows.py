"""Rows that tie jobs to whether their pool is open, as far as a relaxation breaks them.

With spare hosts a pool costs something to open, and (C7) lets a fraction of it be opened for the
hosts of a fraction. In a plan no class runs on hosts that stand in a pool that is not open, and
what it runs there is no more than all of its demand:

``sum_k a_ckpb / (n_ck h_ck) <= D_cbwt y_p + rented GPUs / (least GPUs for a unit)``

with the demand of the block, not the largest of all: where demand doubles over a plan, half a pool
would else be open enough for all the demand of the beginning. These are the variable upper bounds
of facility location, with which its relaxation is that much closer [1]_.

A deferrable class may come all in one band, so its rows are for the mean over the bands too.
And rented GPUs serve one class at a time: for every set of classes C

``sum_{c in C} g_c (sum_k a_ckpb / (n_ck h_ck) - D_cbwt y_p) <= rented GPUs``

with g_c the least GPUs for a unit. The set that breaks this most has the classes whose own terms
are above 0.

There are many of these rows, and few matter, so they are added where they are broken. They hold in
every plan that serves no more than the demand, and some optimum does; so bounds with them are
bounds of the problem. `with_rows` adds them to the blocks of the decomposition, and
`alloc.solving.right_sizing.strengthened` to the extensive form.

References
----------
.. [1] M. L. Balinski, "Integer programming: methods, uses, computation", Management Science 12(3),
   1965; J. Krarup, P. M. Pruzan, "The simple plant location problem", EJOR 12(1), 1983.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from alloc.models.right_sizing.blocks import Blocks
from alloc.models.right_sizing.data import Array, Ints, SizingData
from alloc.solving.right_sizing.blocks import BlockData, Opening, Task

BROKEN = 1e-3
"""Part of the largest demand of its classes by which a row must be broken to be added: less hardly
moves a bound."""
_LEAST_GPUS = 1e-3
"""GPUs of demand below which a class opens no pool, and entries over its demand would be huge."""
_AMPLE = 1.0 + 1e-5
"""Of a class's demand, what may run: more than all of it, by more than a solver's tolerance."""
_MAX_SETS = 3
"""Sets of classes of a pool and a band that are added at a time."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Some of these rows, which hold in every block: ``body @ own + share * open >= 0``.

    Parameters
    ----------
    body
        Entries in a block's own columns, shape (count, columns).
    levels
        Positions of the levels among what links to the blocks, shape (count,).
    share
        What an open level adds in each block, shape (scenarios, quarters, count).
    """

    body: sparse.csr_array
    levels: Ints
    share: Array

    def with_more(self, other: Rows) -> Rows:
        """Return these rows and others."""
        return Rows(
            sparse.vstack([self.body, other.body], format="csr"),
            np.concatenate([self.levels, other.levels]),
            np.concatenate([self.share, other.share], axis=2),
        )


class OpeningRows:
    """All of these rows of a problem, of which some are broken by a relaxation.

    Parameters
    ----------
    data, blocks
        The problem and its blocks.
    """

    def __init__(self, data: SizingData, blocks: Blocks) -> None:
        # Levels of a pool are largest first, and one that is open opens all the smaller ones.
        open_of_pool = {level.pool: i for i, level in enumerate(data.levels)}
        modes_of = defaultdict(list)
        for w, mode in enumerate(data.modes):
            if not mode.spot and mode.pool in open_of_pool:
                modes_of[mode.pool, mode.job_class].append(w)
        self._blocks, self._part_of_week = blocks, data.bands.hours / data.bands.hours.sum()
        served: list[tuple[int, int, float]] = []
        levels: list[int] = []
        classes, weights, alone = [], [], []
        self._sets: dict[tuple[int, int], list[int]] = defaultdict(list)
        """Rows of the classes of a pool in a band, or on the mean (band -1), where it can rent."""
        self._rented: dict[tuple[int, int], list[tuple[int, float]]] = {}
        """Columns of what is rented there, with the GPUs of a unit."""
        bands, own_rented = range(data.bands.count), []
        for (pool, c), modes in modes_of.items():
            rented = [
                (h, rental.gpus)
                for h, rental in enumerate(data.rental_options)
                if rental.pool == pool and not rental.spot
            ]
            need = min(data.modes[w].gpus_per_unit * data.modes[w].room for w in modes)
            deferrable = data.problem.classes[c].deferrable
            for band in (-1, *bands):
                # In units of the demand, like the checker's measure of what is missing.
                most = data.demand_in_band[c, band] if band >= 0 else data.demand[:, :, c].max()
                unit = _AMPLE * float(most)
                if unit < _LEAST_GPUS:
                    continue
                row = len(levels)
                parts = [(band, 1.0)] if band >= 0 else list(enumerate(self._part_of_week.tolist()))
                for b, part in parts:
                    for w in modes:
                        column = int(blocks.columns.mode[w, b])
                        size = float(blocks.scale[column]) / data.modes[w].gpus_per_unit
                        served.append((row, column, part * size / unit))
                rented_columns = [
                    (int(blocks.columns.rental[h, b]), part * gpus)
                    for b, part in parts
                    for h, gpus in rented
                ]
                own_rented += [(row, column, gpus / need / unit) for column, gpus in rented_columns]
                if rented_columns:
                    self._sets[pool, band].append(row)
                    self._rented[pool, band] = rented_columns
                levels.append(blocks.num_linked + open_of_pool[pool])
                classes.append(c)
                weights.append(need * unit)
                # Of other classes each band has a row of its own, which together say more.
                alone.append(deferrable or band >= 0)
        shape = (len(levels), blocks.num_columns)
        self._served = _matrix(served, shape)
        self._own = _matrix(own_rented, shape) - self._served
        self._levels = np.array(levels, dtype=np.int64)
        self._weights = np.array(weights)
        most = np.maximum(data.demand.max(axis=(0, 1)), np.finfo(float).tiny)
        self._share = (data.demand / most)[:, :, np.array(classes, dtype=np.int64)]
        self._open_to_add = np.array(alone, dtype=bool)
        self._added_sets: set[tuple[int, ...]] = set()

    def broken(self, values: Mapping[Task, Array], linked: Array) -> Rows | None:
        """Return the rows that some blocks break, which are not asked for again; None if none is.

        Parameters
        ----------
        values
            Of the own columns of some blocks, each of shape (columns,).
        linked
            What links to them, then whether each level is open, shape (quarters, linked).
        """
        scenarios, quarters = np.array(list(values)).T
        running = np.array(list(values.values())).T
        opened = self._share[scenarios, quarters] * linked[quarters][:, self._levels]
        kept = (self._own @ running).T + opened
        broken = (kept.min(axis=0) < -BROKEN) & self._open_to_add
        self._open_to_add &= ~broken
        rows = np.flatnonzero(broken)
        above = ((self._served @ running).T - opened) * self._weights
        sets = self._broken_sets(above, running)
        if not len(rows) and not sets:
            return None
        own, levels, share = [self._own[rows]], [self._levels[rows]], [self._share[:, :, rows]]
        for place, members in sets:
            added = self._set_row(place, members)
            own.append(added[0])
            levels.append(self._levels[members[:1]])
            share.append(added[1][:, :, None])
        return Rows(
            sparse.vstack(own, format="csr"), np.concatenate(levels), np.concatenate(share, axis=2)
        )

    def _broken_sets(self, above: Array, running: Array) -> list[tuple[tuple[int, int], Ints]]:
        """Return sets of classes that run more than is open and rented, worst first.

        Parameters
        ----------
        above
            GPUs that each row's class runs beyond what is open to it, shape (blocks, rows).
        running
            Values of the own columns, shape (columns, blocks).
        """
        found = []
        for place, rows in self._sets.items():
            columns, gpus = zip(*self._rented[place], strict=True)
            rented = np.array(gpus) @ running[list(columns)]
            more = above[:, rows]
            excess = np.maximum(more, 0.0).sum(axis=1) - rented
            known = 0
            for block in np.argsort(-excess, kind="stable").tolist():
                members = np.array(rows, dtype=np.int64)[more[block] > 0]
                if len(members) < 2 or known == _MAX_SETS:
                    break
                if excess[block] <= BROKEN * self._weights[members].sum():
                    break
                key = tuple(members.tolist())
                if key not in self._added_sets:
                    self._added_sets.add(key)
                    found.append((place, members))
                    known += 1
        return found

    def _set_row(self, place: tuple[int, int], members: Ints) -> tuple[sparse.csr_array, Array]:
        """Return the row of a set of classes over their demand, and what an open pool adds."""
        weights = self._weights[members] / self._weights[members].sum()
        each = 1.0 / float(self._weights[members].sum())
        columns = self._served.shape[1]
        rented_columns = [(0, column, gpus * each) for column, gpus in self._rented[place]]
        used = sparse.csr_array(weights[None, :]) @ self._served[members]
        return _matrix(rented_columns, (1, columns)) - used, self._share[:, :, members] @ weights


def with_rows(block_data: BlockData, rows: Rows) -> BlockData:
    """Return blocks with more rows in their own columns, to which open levels add something.

    Parameters
    ----------
    block_data
        The blocks.
    rows
        The rows.
    """
    count = rows.body.shape[0]
    slack = block_data.matrix.shape[1] - block_data.own
    wide = sparse.hstack([rows.body, sparse.csr_array((count, slack))])
    more = np.zeros((*block_data.right.shape[:2], count))
    nothing = sparse.csr_array((count, block_data.first_stage.shape[1]))
    begin = block_data.matrix.shape[0]
    opening = Opening(begin + np.arange(count), rows.levels, rows.share)
    return replace(
        block_data,
        matrix=sparse.vstack([block_data.matrix, wide], format="csc"),
        right=np.concatenate([block_data.right, more], axis=2),
        waived=np.concatenate([block_data.waived, more], axis=2),
        first_stage=sparse.vstack([block_data.first_stage, nothing], format="csr"),
        opening=block_data.opening.with_more(opening),
    )


def _matrix(entries: list[tuple[int, int, float]], shape: tuple[int, int]) -> sparse.csr_array:
    row, column, value = zip(*entries, strict=True) if entries else ((), (), ())
    return sparse.coo_array((np.array(value), (row, column)), shape).tocsr()
