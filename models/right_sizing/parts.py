"""What a planning problem is made of when it is numbered: pools, host groups, modes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pool:
    """GPUs of one type at one site; firm and spot hosts apart."""

    gpu_type: str
    site: int


@dataclass(frozen=True, eq=False)
class HostGroup:
    """Hosts of one offer at one site that can be in service: ordered, or owned already.

    Parameters
    ----------
    offer, site, pool
        Positions.
    owned
        Hosts owned in each quarter, shape (quarters,).
    can_order
        Whether more can be ordered.
    """

    offer: int
    site: int
    pool: int
    owned: Array
    can_order: bool


@dataclass(frozen=True)
class Mode:
    """One mode in which jobs of a class run: an option in a pool, on firm or on spot hosts.

    Parameters
    ----------
    job_class, option, pool, spot
        Positions, and the kind of hosts.
    gpus_per_unit
        GPUs busy for a unit of the class's demand (GPUs of its leanest option), with the overhead
        on spot hosts.
    room
        GPUs of the pool needed for a busy GPU: headroom times tightening.
    """

    job_class: int
    option: int
    pool: int
    spot: bool
    gpus_per_unit: float
    room: float


@dataclass(frozen=True)
class RentalOption:
    """An offer by the hour at a site."""

    offer: int
    site: int
    pool: int
    spot: bool
    gpus: int
    price: float
    most: float


@dataclass(frozen=True)
class PowerKind:
    """Hosts of a pool that draw the same power per busy GPU beyond what they draw idle.

    Parameters
    ----------
    pool
        Position of the pool.
    kw_per_gpu
        kW with cooling for a busy GPU.
    host_groups
        Positions of the host_groups.
    """

    pool: int
    kw_per_gpu: float
    host_groups: tuple[int, ...]


@dataclass(frozen=True)
class Level:
    """Hosts of one size in a pool; sizes of a pool group largest first.

    Parameters
    ----------
    pool
        Position of the pool.
    gpus
        GPUs of a host, as far as they are of use.
    step
        GPUs of a host beyond those of the next smaller size.
    host_groups
        Positions of the host_groups with hosts of this size.
    """

    pool: int
    gpus: float
    step: float
    host_groups: tuple[int, ...]
