"""Fabrics of ranks made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from alloc.topology.communication import CommunicationTree


def symmetric_tree(
    levels: Sequence[tuple[str, int]],
    bandwidth_gb_per_s: Mapping[str, float],
    latency_s: Mapping[str, float] | float = 0.0,
) -> CommunicationTree:
    """Return a tree in which every domain of a level has equally many children.

    Parameters
    ----------
    levels
        Name and number of children of a domain of each level, outermost first; the last one's
        children are GPUs.
    bandwidth_gb_per_s, latency_s
        By level, or one latency for all.

    Examples
    --------
    >>> symmetric_tree((("leaf", 2), ("host", 4)), {"leaf": 50, "host": 450}).num_gpus
    8
    """
    names = tuple(name for name, _ in levels)
    counts = [count for _, count in levels]
    total = int(np.prod(counts))
    index = np.arange(total)
    inner = [int(np.prod(counts[k:])) for k in range(len(counts))]
    waits = [latency_s[n] if isinstance(latency_s, Mapping) else latency_s for n in names]
    return CommunicationTree(
        tuple(f"gpu{g}" for g in range(total)),
        names,
        np.stack([index // size for size in inner], axis=1),
        np.array([bandwidth_gb_per_s[name] for name in names], dtype=float),
        np.array(waits, dtype=float),
    )
