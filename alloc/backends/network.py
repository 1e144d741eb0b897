"""Programs on a network: their linear relaxation has whole vertices, so no tree is needed."""

from __future__ import annotations

import numpy as np

from alloc.formulation import Array, ArrayModel


def is_network(model: ArrayModel) -> bool:
    """Return whether a program is one of flows in a network, with whole limits.

    Each column has at most two entries, 1 or -1, and the rows have signs by which two entries of a
    column are opposite. Then every vertex of the relaxation is whole (I. Heller, C. B. Tompkins,
    "An extension of a theorem of Dantzig's", 1956).
    """
    limits = (model.lower, model.upper, model.row_lower, model.row_upper)
    if (np.abs(model.matrix.data) != 1.0).any() or not all(map(_is_whole, limits)):
        return False
    from scipy import sparse

    matrix = sparse.csc_array(model.matrix, copy=True)
    matrix.sum_duplicates()
    entries = np.diff(matrix.indptr)
    if (entries > 2).any() or (np.abs(matrix.data) != 1.0).any():
        return False
    first = matrix.indptr[:-1][entries == 2]
    one, other = matrix.indices[first], matrix.indices[first + 1]
    # A row as it is and the same with the other sign are two nodes; what a column's two entries
    # say of the signs of their rows are edges. A row may not be joined to itself with another sign.
    rows = matrix.shape[0]
    turned = np.where(matrix.data[first] == matrix.data[first + 1], rows, 0)
    tail = np.concatenate([one, one + rows])
    head = np.concatenate([other + turned, other + (rows - turned)])
    from scipy.sparse.csgraph import connected_components  # loads all of linear algebra

    graph = sparse.coo_array((np.ones(len(tail)), (tail, head)), shape=(2 * rows, 2 * rows))
    _, labels = connected_components(graph, directed=False)
    return bool((labels[:rows] != labels[rows:]).all())


def _is_whole(limits: Array) -> bool:
    finite = limits[np.isfinite(limits)]
    return bool((finite == np.rint(finite)).all())
