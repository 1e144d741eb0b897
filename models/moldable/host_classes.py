"""Hosts of which each can run short of one thing only, say its GPUs, in classes of equal ones.

There a host is a number of units (GPUs), and all that counts of a run is how many it takes and how
long. So of a host in use only the moments matter at which its units become free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.models.moldable.data import Array, MoldableData

Index = npt.NDArray[np.int64]

_MAX_UNITS = 16
"""Units of a host at most: what is kept of a host in use is a moment for each."""


@dataclass(frozen=True)
class HostClass:
    """Hosts that are alike.

    Parameters
    ----------
    hosts
        Positions of the hosts.
    units
        Units of each host.
    amount
        Units that each way of each job takes, in the order of the jobs; 0 where it cannot run.
    placement
        For a host and a way, the position of the placement on that host.
    """

    hosts: tuple[int, ...]
    units: int
    amount: Index
    placement: dict[tuple[int, int], int]

    @property
    def total(self) -> int:
        """Units of all the hosts."""
        return self.units * len(self.hosts)


@dataclass(frozen=True)
class Modes:
    """The ways of all jobs on all that they may run on, in one list.

    Parameters
    ----------
    data
        The instance.
    job, way
        Job of each mode, and position of its way among those of all jobs, shape (N,).
    run, hold
        Seconds to the completion and to the end of the run, shape (N,).
    amount
        What it takes of each row, shape (N, R).
    total
        What there is of each row, shape (R,).
    """

    data: MoldableData
    job: Index
    way: Index
    run: Array
    hold: Array
    amount: Array
    total: Array


def host_classes(data: MoldableData) -> tuple[HostClass, ...] | None:
    """Return the hosts in classes, or None where more than units of single hosts may run short.

    Parameters
    ----------
    data
        The instance.
    """
    if not data.is_complete:
        return None
    short = _may_run_short(data)
    ways = [way for own in data.ways for way in own]
    use: dict[int, dict[int, tuple[int, int]]] = {}
    for n, way in enumerate(ways):
        for p, placement in enumerate(way.placements):
            own = [(row, amount) for row, amount in placement.use if short[row]]
            if len(own) != 1 or data.host_of_row[own[0][0]] < 0:
                return None
            row, amount = own[0]
            known = use.setdefault(row, {})
            known[n] = min(known.get(n, (amount, p)), (amount, p))
    if len({data.host_of_row[row] for row in use}) < len(use):
        return None
    found: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for row, own_use in use.items():
        amounts = [own_use.get(n, (0, 0))[0] for n in range(len(ways))]
        unit = math.gcd(data.capacity[row], *amounts)
        key = (data.capacity[row] // unit, tuple(amount // unit for amount in amounts))
        found.setdefault(key, []).append(row)
    if any(units > _MAX_UNITS for units, _ in found):
        return None
    return tuple(
        HostClass(
            tuple(data.host_of_row[row] for row in rows),
            units,
            np.array(amounts, dtype=np.int64),
            {(data.host_of_row[row], n): p for row in rows for n, (_, p) in use[row].items()},
        )
        for (units, amounts), rows in found.items()
    )


def _may_run_short(data: MoldableData) -> list[bool]:
    """Return of each row whether all jobs together may ask for more than it has."""
    most = np.zeros(len(data.rows))
    for ways in data.ways:
        own = np.zeros(len(data.rows))
        for way in ways:
            for placement in way.placements:
                for row, amount in placement.use:
                    own[row] = max(own[row], amount)
        most += own
    return [bool(m > c) for m, c in zip(most, data.capacity, strict=True)]


def modes_of(data: MoldableData, classes: tuple[HostClass, ...] | None) -> Modes:
    """Return the ways of all jobs, on the classes of hosts as rows, or on the pooled rows.

    Parameters
    ----------
    data
        The instance.
    classes
        The classes of its hosts, or None.
    """
    ways = [(j, way) for j, own in enumerate(data.ways) for way in own]
    if classes is None:
        load = np.array([way.load for _, way in ways], dtype=float)
        rows = [r for r, total in enumerate(data.pool.capacity) if total > 0 and load[:, r].any()]
        pairs = [(n, load[n, rows]) for n in range(len(ways))]
        total = np.array([float(data.pool.capacity[r]) for r in rows])
    else:
        alone = np.eye(len(classes))
        pairs = [
            (n, alone[c] * own.amount[n])
            for n in range(len(ways))
            for c, own in enumerate(classes)
            if own.amount[n]
        ]
        total = np.array([float(own.total) for own in classes])
    at = np.array([n for n, _ in pairs], dtype=np.int64)
    return Modes(
        data,
        np.array([ways[n][0] for n in at], dtype=np.int64),
        at,
        np.array([ways[n][1].run_s for n in at]),
        np.array([ways[n][1].hold_s for n in at]),
        np.array([amount for _, amount in pairs]).reshape(len(pairs), len(total)),
        total,
    )
