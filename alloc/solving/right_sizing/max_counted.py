"""M of (C7): how many hosts of a size a pool ever counts, as far as limits say so by themselves."""

from __future__ import annotations

import numpy as np

from alloc.models.right_sizing.data import Array, SizingData
from alloc.models.right_sizing.first_stage import FirstStage
from alloc.problems.right_sizing.sites import SITE_LIMITS

_ONE_MORE = 1.0
"""Units of each limit beyond what there is: marginal values ask what one more is worth."""
_ROUNDING = 1e-6
"""Part of a host by which rounding may make too little of the room for it."""


def max_counted(data: SizingData, first: FirstStage) -> Array:
    """Return M for every switch: what the demand asks for at most, and its site has room for.

    Parameters
    ----------
    data
        The problem.
    first
        Its first stage.
    """
    at = first.open >= 0
    if not at.any():
        return np.zeros(0)
    of_use = -first.matrix[first.switch[at], first.open[at]]
    return np.asarray(np.minimum(of_use, room_of_sites(data)[at]))


def room_of_sites(data: SizingData) -> Array:
    """Return how many hosts of each level its site has room for beside all others that are owned.

    The shape is (levels, quarters). Where hosts are counted in other units than one, they are not
    whole, and no room is known.
    """
    found = np.full((len(data.levels), data.num_quarters), np.inf)
    if data.host_unit != 1:
        return found
    for i, level in enumerate(data.levels):
        site = data.problem.sites[data.pools[level.pool].site]
        here = [
            (k in level.host_groups, group.owned, data.offer(group))
            for k, group in enumerate(data.host_groups)
            if group.site == data.pools[level.pool].site
        ]
        for field in SITE_LIMITS:
            limit = getattr(site, field)
            least = min(offer.takes_up(field, site.pue) for own, _, offer in here if own)
            if limit is None or least <= 0:
                continue
            left = np.full(data.num_quarters, limit + _ONE_MORE)
            for own, owned, offer in here:
                if not own:
                    left -= offer.takes_up(field, site.pue) * owned
            found[i] = np.minimum(found[i], np.floor(np.maximum(left, 0.0) / least + _ROUNDING))
    return found
