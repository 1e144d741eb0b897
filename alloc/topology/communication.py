"""How fast the GPUs of one job reach each other: a tree of domains, or a matrix of pairs.

Both carry a latency (alpha, seconds) and a bandwidth (beta, GB/s in one direction), as in the
model of Hockney: a message of S bytes takes alpha + S / beta. In a tree the two depend on the level
at which two GPUs meet; its bandwidths are what one GPU gets while all of a domain send outwards at
the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

GB = 1e9
"""Bytes in a GB, as in GB/s."""


@dataclass(frozen=True)
class CommunicationTree:
    """GPUs in nested domains.

    Parameters
    ----------
    gpus
        Ids of the GPUs.
    levels
        Names of the levels, outermost first; the last one holds GPUs directly.
    domains
        Domain of each GPU at each level, any numbers, shape (gpus, levels). All GPUs share their
        domain of the first level, and domains nest.
    bandwidth_gb_per_s
        What a GPU gets towards GPUs that it meets at each level, GB/s, shape (levels,); never
        rising outwards.
    latency_s
        Latency between GPUs that meet at each level, seconds, shape (levels,); never falling
        outwards.
    """

    gpus: tuple[str, ...]
    levels: tuple[str, ...]
    domains: Indices
    bandwidth_gb_per_s: Array
    latency_s: Array

    def __post_init__(self) -> None:
        require_gpus(self.gpus)
        domains = np.array(self.domains, dtype=np.int64)
        shape = (len(self.gpus), len(self.levels))
        if not self.levels or domains.shape != shape:
            raise InstanceError(
                f"communication tree: domains have shape {domains.shape}; expected a row for each "
                f"of {shape[0]} GPUs and a column for each of {shape[1]} levels, 1 or more."
            )
        if np.ptp(domains[:, 0]):
            raise InstanceError(
                f'communication tree: the GPUs lie in several domains of level "{self.levels[0]}"; '
                "add an outer level that joins them."
            )
        for k in range(1, len(self.levels)):
            if len(np.unique(domains[:, k - 1 : k + 1], axis=0)) != len(np.unique(domains[:, k])):
                raise InstanceError(
                    f'communication tree: a domain of level "{self.levels[k]}" lies in two of '
                    f'level "{self.levels[k - 1]}"; domains must nest.'
                )
        object.__setattr__(self, "domains", _read_only(domains))
        for field, sign in (("bandwidth_gb_per_s", 1.0), ("latency_s", -1.0)):
            values = np.array(getattr(self, field), dtype=float)
            if values.shape != shape[1:] or not (values >= 0).all():
                raise InstanceError(
                    f"communication tree: {field} must be one number of 0 or more a level."
                )
            if (np.diff(sign * values) < 0).any():
                raise InstanceError(
                    f"communication tree: {field} gets better outwards; merge the levels, since a "
                    "way through an outer domain passes the inner ones."
                )
            object.__setattr__(self, field, _read_only(values))
        if not (self.bandwidth_gb_per_s > 0).all():
            raise InstanceError(
                "communication tree: bandwidth_gb_per_s is 0 at a level; GPUs without a way to "
                "each other cannot run one job."
            )

    @property
    def num_gpus(self) -> int:
        """Number of GPUs."""
        return len(self.gpus)

    def meeting_level(self, a: Indices, b: Indices) -> Indices:
        """Return the position of the innermost level at which GPUs meet, by their positions.

        Parameters
        ----------
        a, b
            Positions of GPUs, arrays that broadcast to one shape.
        """
        same = self.domains[a] == self.domains[b]
        return np.asarray(same.sum(axis=-1) - 1, dtype=np.int64)

    def graph(self) -> CommunicationGraph:
        """Return the same as a matrix of pairs."""
        index = np.arange(self.num_gpus)
        level = self.meeting_level(index[:, None], index[None, :])
        return CommunicationGraph(self.gpus, self.bandwidth_gb_per_s[level], self.latency_s[level])


@dataclass(frozen=True)
class CommunicationGraph:
    """GPUs with a bandwidth and a latency for every pair.

    Parameters
    ----------
    gpus
        Ids of the GPUs.
    bandwidth_gb_per_s
        From one GPU to another, GB/s, more than 0, shape (gpus, gpus); the diagonal means nothing.
    latency_s
        The same for latencies, seconds; a number stands for all pairs.
    """

    gpus: tuple[str, ...]
    bandwidth_gb_per_s: Array
    latency_s: Array

    def __post_init__(self) -> None:
        require_gpus(self.gpus)
        n = len(self.gpus)
        width = np.array(self.bandwidth_gb_per_s, dtype=float)
        wait = np.array(self.latency_s, dtype=float)
        if not wait.ndim:
            wait = np.full((n, n), float(wait))
        for field, matrix in (("bandwidth_gb_per_s", width), ("latency_s", wait)):
            if matrix.shape != (n, n):
                raise InstanceError(
                    f"communication graph: {field} has shape {matrix.shape}; expected one row and "
                    f"one column for each of {n} GPUs."
                )
        apart = ~np.eye(n, dtype=bool)
        if not ((width > 0) | ~apart).all():
            a, b = np.argwhere(~(width > 0) & apart)[0]
            raise InstanceError(
                f'communication graph: no bandwidth from "{self.gpus[a]}" to "{self.gpus[b]}"; '
                "give what PCIe or the network carries where there is no NVLink."
            )
        if not (np.isfinite(wait) & (wait >= 0) | ~apart).all():
            raise InstanceError("communication graph: latency_s must be 0 or more and finite.")
        width[~apart], wait[~apart] = np.inf, 0.0
        object.__setattr__(self, "bandwidth_gb_per_s", _read_only(width))
        object.__setattr__(self, "latency_s", _read_only(wait))

    @property
    def num_gpus(self) -> int:
        """Number of GPUs."""
        return len(self.gpus)

    @cached_property
    def seconds_per_byte(self) -> Array:
        """Seconds a byte takes from one GPU to another, shape (gpus, gpus)."""
        return 1.0 / (self.bandwidth_gb_per_s * GB)


Fabric = CommunicationTree | CommunicationGraph


def require_gpus(gpus: tuple[str, ...]) -> None:
    """Refuse no GPUs, and a GPU given twice."""
    if not gpus:
        raise InstanceError("communication: no GPUs are given; name at least one.")
    if len(set(gpus)) != len(gpus):
        twice = next(g for k, g in enumerate(gpus) if g in gpus[:k])
        raise InstanceError(f'communication: GPU "{twice}" is given twice; each holds one rank.')


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.setflags(write=False)
    return array
