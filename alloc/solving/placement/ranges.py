"""How good each term of a goal could be at all: bounds that need no search."""

from __future__ import annotations

import math

from alloc.instance import Instance
from alloc.objectives.goals import WeightedSum
from alloc.units import MILLI

_NEVER_NEGATIVE = frozenset(
    {
        "moves",
        "moved_gb",
        "domains_spanned",
        "balance",
        "gpu_hosts_used",
        "hosts_used",
        "fragmentation",
    }
)


def range_bound(instance: Instance, level: WeightedSum) -> float:
    """Return a bound on a level of a goal from the range of each of its terms.

    Parameters
    ----------
    instance
        The problem.
    level
        The weighted sum.

    Returns
    -------
    float
        No allocation is better; infinite (in the direction of the sense) where a term's range is
        not known.
    """
    worst = math.inf if level.sense == "max" else -math.inf
    total = 0.0
    for weight, term in level.terms:
        best = _best(instance, term.name)
        if best is None:
            return worst
        total += weight * (best if term.sense == level.sense else -best)
    return total


def _best(instance: Instance, name: str) -> float | None:
    """Return the best value that a term could have, or None."""
    if name in _NEVER_NEGATIVE:
        return 0.0
    topology = instance.topology
    if name == "gpus_placed":
        asked = sum(max(c.demand[0] for c in job.configurations) for job in instance.jobs)
        return min(asked / MILLI, float(topology.num_gpus))
    if name == "weight_placed":
        return math.fsum(job.weight for job in instance.jobs)
    if name == "whole_hosts_free":
        return float((topology.capacity[:, 0] > 0).sum())
    if name == "largest_gang":
        return float(topology.num_gpus)
    return None
