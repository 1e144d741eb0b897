"""Hosts of a placement to search together, where all of them at once would take too long."""

from __future__ import annotations

import math

import numpy as np

from alloc.solving.placement.state import State
from alloc.solving.placement.terms import Counts

_SETTLED = 80
"""Hosts that are settled together: where there are many, the whole takes several times as long, for
a gain that patterns make anyway."""


def in_regions(state: State, rng: np.random.Generator) -> list[Counts]:
    """Return all hosts in parts of about `_SETTLED`, hosts of a domain together.

    Parameters
    ----------
    state
        The placement.
    rng
        Draws the order.
    """
    order = rng.permutation(len(state.blocks))
    place = [order[min(own, key=lambda b: len(state.blocks[b].hosts))] for own in state.blocks_of]
    number = math.ceil(len(place) / _SETTLED)
    return np.array_split(np.lexsort((rng.random(len(place)), place)), number)


def region(state: State, size: int, rng: np.random.Generator) -> Counts:
    """Return hosts to search together: whole domains of blocks first, costly hosts rather.

    Parameters
    ----------
    state
        The placement.
    size
        Number of hosts, about.
    rng
        Draws them.
    """
    num_hosts = len(state.capacity)
    weight = state.host_cost + state.host_cost.mean() + 1e-9
    chosen: set[int] = set()
    for h in rng.choice(num_hosts, num_hosts, replace=False, p=weight / weight.sum()):
        chosen.add(int(h))
        for b in state.blocks_of[int(h)]:
            if b and len(state.blocks[b].hosts) <= size // 2:
                chosen.update(state.blocks[b].hosts.tolist())
        if len(chosen) >= size:
            break
    return np.array(sorted(chosen), dtype=np.int64)
