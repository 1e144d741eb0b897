"""Steps of bandwidth: at each width, the parts of the cluster whose hosts are joined so widely."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.models.placement.data import Counts
from alloc.topology import Topology
from alloc.topology.bandwidths import bandwidths_of

_MAX_STEPS = 32
"""Each width has rows of its own for every job, and clusters have a handful of kinds of link: more
of them come from a table of measured numbers."""


@dataclass(frozen=True)
class Step:
    """One width b_t.

    Parameters
    ----------
    rise
        b_t - b_(t-1), GB/s.
    part
        Number of the part of each host, shape (hosts,): hosts of one part are joined at b_t.
    too_narrow
        Hosts whose own GPUs are joined at less, shape (hosts,).
    """

    rise: float
    part: Counts
    too_narrow: npt.NDArray[np.bool_]


def steps_of(topology: Topology) -> list[Step]:
    """Return the steps of a topology, from the narrowest width.

    Raises
    ------
    InstanceError
        If no link has a bandwidth.
    UnsupportedFeatureError
        If hosts are not joined like a tree: a wide to b and b to c, but not a to c.
    """
    bandwidths = bandwidths_of(topology)
    if not np.isfinite(bandwidths.fastest):
        raise InstanceError(
            f'topology "{topology.name}" has no links, so gangs have no bandwidth; add links to '
            "it, or count domains_spanned."
        )
    hosts = np.arange(topology.num_hosts)
    pair = bandwidths.between(hosts)
    with_gpus = topology.capacity[:, 0] > 0
    widths = np.unique(np.concatenate([pair.ravel(), bandwidths.inside[with_gpus]]))
    widths = widths[widths > 0]
    if len(widths) > _MAX_STEPS:
        raise UnsupportedFeatureError(
            f'topology "{topology.name}" has {len(widths)} different bandwidths, and the models '
            f"take {_MAX_STEPS}; count domains_spanned instead."
        )
    steps = []
    previous = 0.0
    for width in widths:
        joined = pair >= width
        part = np.argmax(joined, axis=1)
        if not np.array_equal(joined, part[:, None] == part[None, :]):
            raise UnsupportedFeatureError(
                f'topology "{topology.name}" joins some hosts at {width:g} GB/s through others '
                "that are not joined themselves, so its widths are no tree; count "
                "domains_spanned instead."
            )
        narrow = with_gpus & (bandwidths.inside < width)
        steps.append(Step(float(width - previous), part.astype(np.int64), narrow))
        previous = float(width)
    return steps
