"""A first point: the linear relaxation for the expected scenario alone."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from alloc.backends.linear_program import LinearProgram
from alloc.formulation import ArrayModel
from alloc.models.right_sizing.data import Array
from alloc.solving.right_sizing.blocks import BlockData
from alloc.solving.right_sizing.master import MasterData


def expected_optimum(
    setting: MasterData, blocks: BlockData, seed: int, seconds: float
) -> tuple[Array, Array] | None:
    """Return the first stage that is best if every number is as expected, or None if there is none.

    The expected scenario costs no more than the scenarios on average (Jensen's inequality: a
    block's cost is convex in its right-hand side).

    Parameters
    ----------
    setting, blocks
        First stage and blocks.
    seed
        Seed of the solver.
    seconds
        Wall time, seconds.

    Returns
    -------
    point, duals : ndarray
        Values of the first stage, and dual values of each quarter's rows, shape (quarters, rows).
    """
    quarters, linked = setting.shape[1], setting.linked
    probability = setting.data.probability
    right = np.tensordot(probability, blocks.right, axes=1)
    upper = np.tile(blocks.fixed_upper, (quarters, 1))
    upper[:, blocks.varying] = np.tensordot(probability, blocks.upper, axes=1)
    begin, (rows, columns) = len(setting.cost), blocks.matrix.shape
    place = blocks.first_stage.tocoo()
    links = sparse.vstack(
        [
            sparse.coo_array((place.data, (place.row, linked[t][place.col])), shape=(rows, begin))
            for t in range(quarters)
        ]
    )
    base = setting.model(np.zeros(0), np.zeros((quarters, 0)))
    spare = sparse.csr_array((base.matrix.shape[0], quarters * columns))
    body = sparse.block_diag([blocks.matrix] * quarters)
    weight = setting.quarter_weight
    model = ArrayModel(
        sense="min",
        cost=np.concatenate([base.cost, *(weight[t] * blocks.cost for t in range(quarters))]),
        matrix=sparse.block_array([[base.matrix, spare], [links, body]], format="csr"),
        row_lower=np.concatenate([base.row_lower, right.ravel()]),
        row_upper=np.concatenate([base.row_upper, np.full(right.size, np.inf)]),
        lower=np.concatenate([base.lower, np.zeros(upper.size)]),
        upper=np.concatenate([base.upper, upper.ravel()]),
        integer=np.zeros(begin + upper.size, dtype=bool),
    )
    found = LinearProgram(model, seed=seed, by_largest=True).solve(seconds)
    if found is None:
        return None
    duals = np.maximum(found.duals[len(base.row_lower) :], 0.0)
    return found.values[:begin], duals.reshape(quarters, rows) / weight[:, None]
