"""Marginal values: what one more unit would save, from the duals of the linear relaxation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alloc.capacity.plan import MarginalValue

if TYPE_CHECKING:
    from alloc.solving.capacity.right_sizing_decomposition import Decomposition


def marginals_of_cuts(state: Decomposition) -> tuple[MarginalValue, ...]:
    """Return the marginal values at the optimum of the relaxation."""
    return ()
