"""Rows that tie jobs to whether their pool is open, as far as a relaxation breaks them.

With spare hosts a pool costs something to open, and (C7) lets a fraction of it be opened for the
hosts of a fraction. In a plan no class runs on hosts that stand in a pool that is not open, and
what it runs there is no more than all of its demand:

``sum_k a_ckpb / (n_ck h_ck) <= D_cbwt y_p + rented GPUs / (least GPUs for a unit)``

with the demand of the block, not the largest of all: where demand doubles over a plan, half a pool
would else be open enough for all the demand of the beginning. These are the variable upper bounds
of facility location, with which its relaxation is that much closer [1]_. There are a class times a
pool times a band of them, and few matter, so they are added where they are broken. They hold in
every plan that serves no more than the demand, and some optimum does; so bounds with them are
bounds of the problem.

References
----------
.. [1] M. L. Balinski, "Integer programming: methods, uses, computation", Management Science 12(3),
   1965; J. Krarup, P. M. Pruzan, "The simple plant location problem", EJOR 12(1), 1983.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from scipy import sparse

from alloc.models.right_sizing.blocks import AMPLE_SENT, Blocks
from alloc.models.right_sizing.data import Array, SizingData
from alloc.solving.right_sizing.blocks import BlockData, Opening, Task

# Part of a class's largest demand by which a row must be broken to be added: less hardly moves a
# bound.
_BROKEN = 1e-3
# GPUs of demand below which a class opens no pool, and entries over its demand would be huge.
_LEAST_GPUS = 1e-3


class OpeningRows:
    """All of these rows of a problem, of which some are added to its blocks.

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
        own: list[tuple[int, int, float]] = []
        levels, classes = [], []
        count = 0
        for (pool, c), modes in modes_of.items():
            rented = [
                (h, rental.gpus)
                for h, rental in enumerate(data.rental_options)
                if rental.pool == pool and not rental.spot
            ]
            need = min(data.modes[w].gpus_per_unit * data.modes[w].room for w in modes)
            for b in range(data.bands.count):
                # In units of the demand, like the checker's measure of what is missing.
                unit = AMPLE_SENT * float(data.demand_in_band[c, b])
                if unit < _LEAST_GPUS:
                    continue
                for w in modes:
                    column = int(blocks.columns.mode[w, b])
                    size = float(blocks.scale[column]) / data.modes[w].gpus_per_unit
                    own.append((count, column, -size / unit))
                for h, gpus in rented:
                    own.append((count, int(blocks.columns.rental[h, b]), gpus / need / unit))
                levels.append(blocks.num_linked + open_of_pool[pool])
                classes.append(c)
                count += 1
        self._own = _matrix(own, (count, blocks.num_columns))
        self._levels = np.array(levels, dtype=np.int64)
        most = np.maximum(data.demand.max(axis=(0, 1)), np.finfo(float).tiny)
        self._share = (data.demand / most)[:, :, np.array(classes, dtype=np.int64)]
        self._added = np.zeros(count, dtype=bool)

    def add_broken(
        self, block_data: BlockData, values: Mapping[Task, Array], linked: Array
    ) -> BlockData | None:
        """Return the blocks with the rows that some of them break; None if none does.

        Parameters
        ----------
        block_data
            The blocks, with the rows that were added before.
        values
            Of the own columns of some blocks, each of shape (columns,).
        linked
            What links to them, then whether each level is open, shape (quarters, linked).
        """
        scenarios, quarters = np.array(list(values)).T
        kept = (self._own @ np.array(list(values.values())).T).T
        kept += self._share[scenarios, quarters] * linked[quarters][:, self._levels]
        broken = (kept.min(axis=0) < -_BROKEN) & ~self._added
        if not broken.any():
            return None
        self._added |= broken
        rows, count = np.flatnonzero(broken), int(broken.sum())
        slack = block_data.matrix.shape[1] - block_data.own
        body = sparse.hstack([self._own[rows], sparse.csr_array((count, slack))])
        more = np.zeros((*block_data.right.shape[:2], count))
        nothing = sparse.csr_array((count, block_data.first_stage.shape[1]))
        begin = block_data.matrix.shape[0]
        opening = Opening(begin + np.arange(count), self._levels[rows], self._share[:, :, rows])
        return dataclasses.replace(
            block_data,
            matrix=sparse.vstack([block_data.matrix, body], format="csc"),
            right=np.concatenate([block_data.right, more], axis=2),
            waived=np.concatenate([block_data.waived, more], axis=2),
            first_stage=sparse.vstack([block_data.first_stage, nothing], format="csr"),
            opening=block_data.opening.with_more(opening),
        )


def _matrix(entries: list[tuple[int, int, float]], shape: tuple[int, int]) -> sparse.csr_array:
    row, column, value = zip(*entries, strict=True) if entries else ((), (), ())
    return sparse.coo_array((np.array(value), (row, column)), shape).tocsr()
