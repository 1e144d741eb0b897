"""The objective of a placement, split into parts that change little when a task moves.

A weighted sum of placement objectives becomes a cost of each host (a function of what its tasks
use) and a price for each task that leaves its host. Costs are minimised here; what is maximised
enters with its sign turned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from alloc.formulation import Array
from alloc.objectives.goals import WeightedSum

Counts = npt.NDArray[np.int64]

OVERLOAD = 1e4
"""Cost of a host whose capacity is used twice: hosts that start over-full are relieved first."""

EARLIER = 1e3
"""By how much a unit of an earlier level outweighs one of the next. It only guides a search: levels
are held by their values, so that it need not outweigh everything."""

_OF_HOSTS = ("balance", "gpu_hosts_used", "moves")
_OF_JOBS = ("gpus_placed", "weight_placed")


@dataclass(frozen=True)
class HostCost:
    """What each host adds to the objective.

    Parameters
    ----------
    capacity
        Shape (hosts, resources); a resource that a host lacks has capacity 1 and no use.
    mean
        Mean utilisation of each resource above which a host costs, shape (resources,).
    balance
        Weight of the utilisation above the mean.
    used
        Weight of a host on which a task holds a GPU.
    overload
        Whether hosts may be over-full, at `OVERLOAD`.
    """

    capacity: Array
    mean: Array
    balance: float
    used: float
    overload: bool = False

    @staticmethod
    def of(levels: Sequence[WeightedSum], capacity: Counts, used: Counts) -> HostCost:
        """Return the cost that levels of a goal give hosts that are used like this.

        The mean utilisation is that of now. It is a constant while the same jobs run, as long as
        all hosts have equal amounts of a resource or none.

        Parameters
        ----------
        levels
            Levels of a goal, the first one first.
        capacity
            What each host has, shape (hosts, resources).
        used
            What its tasks use, same shape and units.
        """
        has = capacity > 0
        safe = np.where(has, capacity, 1).astype(float)
        mean = np.where(has, used / safe, 0.0).sum(axis=0) / np.maximum(has.sum(axis=0), 1)
        return HostCost(
            safe,
            mean,
            weight_of(levels, "balance"),
            weight_of(levels, "gpu_hosts_used"),
            bool((used > capacity).any()),
        )

    def part(self, hosts: Counts) -> HostCost:
        """Return the cost of some of the hosts."""
        return replace(self, capacity=self.capacity[hosts])

    def of_hosts(self, used: Array | Counts, hosts: Counts | slice) -> Array:
        """Return the cost of hosts, shape (..., hosts), from their use, (..., hosts, resources).

        Parameters
        ----------
        used
            Use of each host, in the units of its capacity.
        hosts
            Numbers of the hosts that these are.
        """
        cost = np.zeros(used.shape[:-1])
        if self.balance or self.overload:
            share = used / self.capacity[hosts]
            if self.balance:
                cost += self.balance * np.maximum(share - self.mean, 0.0).sum(axis=-1)
            if self.overload:
                cost += OVERLOAD * np.maximum(share - 1.0, 0.0).sum(axis=-1)
        if self.used:
            cost += self.used * (used[..., 0] > 0)
        return cost


def weight_of(levels: Sequence[WeightedSum], name: str) -> float:
    """Return the weight of an objective in minimisation: an earlier level weighs far more.

    Parameters
    ----------
    levels
        Levels of a goal, the first one first.
    name
        Name of the objective.
    """
    total = 0.0
    for rank, level in enumerate(reversed(levels)):
        for weight, term in level.terms:
            if term.name == name:
                total += weight * (1.0 if term.sense == "min" else -1.0) * EARLIER**rank
    return total


def move_price(levels: Sequence[WeightedSum]) -> float:
    """Return what a task costs that leaves its host."""
    return weight_of(levels, "moves")


def is_split(level: WeightedSum) -> bool:
    """Return whether host costs, move prices and who runs make up the whole objective."""
    return all(term.name in (*_OF_HOSTS, *_OF_JOBS) for _, term in level.terms)
