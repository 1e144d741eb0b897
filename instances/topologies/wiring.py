"""The wiring of a host: its PCIe tree and its NVLinks, drawn as the links of a host type."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from alloc.errors import InstanceError
from alloc.topology.host import GpuLink, HostType
from alloc.units import MILLI

ONE_UPI_LINK_GB_PER_S = 20.8
"""One UPI link of 10.4 GT/s, one direction; what joins two NUMA islands unless it is told."""

GIB_MIB = 1024
"""MiB in a GiB."""

_STEMS = {"switch": "pcieswitch", "bridge": "hostbridge"}
_SAME = 1e-9
"""Relative: what rounding of printed bandwidths may differ by."""


@dataclass
class Part:
    """A piece of the PCIe tree of a host, with the pieces under it.

    Parameters
    ----------
    kind
        ``device`` (GPU or NIC), ``switch`` (PCIe switch), ``bridge`` (host bridge) or ``island``
        (NUMA node, or the machine as a whole).
    name
        Name of a device or island; switches and bridges are named when they are drawn.
    up_gb_per_s
        Bandwidth of the way to the piece above, GB/s in one direction. Infinite where nothing
        limits it but what is below.
    below
        The pieces under it.
    """

    kind: Literal["device", "switch", "bridge", "island"]
    name: str = ""
    up_gb_per_s: float = float("inf")
    below: list[Part] = field(default_factory=list)


def pcie_links(
    islands: Sequence[Part], between_gb_per_s: float, unknown_gb_per_s: float
) -> Iterator[GpuLink]:
    """Yield the links of the PCIe trees under some islands, and those between the islands.

    A switch or bridge with one piece under it is passed through: it is no meeting point. Nothing
    that leads to no device is drawn.

    Parameters
    ----------
    islands
        NUMA islands with what hangs under each.
    between_gb_per_s
        Bandwidth between every two of them, GB/s in one direction.
    unknown_gb_per_s
        Bandwidth of a device for which none is known, GB/s in one direction.
    """
    counts = dict.fromkeys(_STEMS, 0)
    drawn = []
    for island in islands:
        below = [part for piece in island.below if (part := _tidy(piece)) is not None]
        if not below:
            continue
        drawn.append(island.name)
        yield from _links(Part("island", island.name, below=below), counts, unknown_gb_per_s)
    for a, b in combinations(drawn, 2):
        yield GpuLink(a, b, "upi", between_gb_per_s)


def _tidy(part: Part) -> Part | None:
    """Return the piece without what leads nowhere or only through; None if nothing is left."""
    if part.kind == "device":
        return part
    below = [tidied for piece in part.below if (tidied := _tidy(piece)) is not None]
    if not below:
        return None
    if len(below) == 1:
        only = below[0]
        width = min(part.up_gb_per_s, only.up_gb_per_s)
        return Part(only.kind, only.name, width, only.below)
    return Part(part.kind, part.name, part.up_gb_per_s, below)


def _links(part: Part, counts: dict[str, int], unknown: float) -> Iterator[GpuLink]:
    for piece in part.below:
        if not piece.name:
            piece.name = f"{_STEMS[piece.kind]}{counts[piece.kind]}"
            counts[piece.kind] += 1
        yield GpuLink(piece.name, part.name, "pcie", _width(piece, unknown))
        yield from _links(piece, counts, unknown)


def _width(piece: Part, unknown: float) -> float:
    """Return the bandwidth upwards; what nothing limits carries all that comes from below."""
    if math.isfinite(piece.up_gb_per_s):
        return piece.up_gb_per_s
    return sum(_width(below, unknown) for below in piece.below) if piece.below else unknown


def switched_links(num: int, members: Sequence[tuple[str, float]]) -> Iterator[GpuLink]:
    """Yield the links of GPUs to their NVSwitch number `num`, each of its own bandwidth, GB/s.

    Parameters
    ----------
    num
        Number of the NVSwitch, from 0.
    members
        Each GPU with the bandwidth of its link, GB/s.
    """
    for gpu, width in members:
        yield GpuLink(gpu, f"nvswitch{num}", "nvswitch", width)


def make_host_type(
    name: str | None,
    gpu: str,
    num_gpus: int,
    links: Iterable[GpuLink],
    cpu_cores: float,
    host_memory_gib: float,
) -> HostType:
    """Return the host type; without a name it is called by the number and the type of its GPUs.

    Parameters
    ----------
    name
        Name of the host type, or None.
    gpu
        Name of the GPU type.
    num_gpus
        GPUs, 0 or more.
    links
        Links of the PCIe tree and of NVLink; of several between two ends the widest is
        kept.
    cpu_cores
        CPU cores, 0 or more.
    host_memory_gib
        Memory of the host, GiB, 0 or more.
    """
    return HostType(
        name or (f"{num_gpus}x-{gpu}" if num_gpus else "cpu-host"),
        num_gpus,
        gpu if num_gpus else None,
        int(cpu_cores * MILLI),
        int(host_memory_gib * GIB_MIB),
        _widest(links),
    )


def _widest(links: Iterable[GpuLink]) -> tuple[GpuLink, ...]:
    """Return the links, of several between the same two devices the widest: a graph has one."""
    best: dict[frozenset[str], GpuLink] = {}
    for link in links:
        ends = frozenset((link.a, link.b))
        if ends not in best or best[ends].bandwidth_gb_per_s < link.bandwidth_gb_per_s:
            best[ends] = link
    return tuple(best.values())


def require_symmetric(
    one: float | str, other: float | str, a: str, b: str, where: str, cure: str
) -> None:
    """Refuse a matrix that says one thing of a and b and another of b and a.

    Parameters
    ----------
    one, other
        Entries of the matrix from a to b, and from b to a.
    a, b
        Names of two devices.
    where
        The file, for the message.
    cure
        What to do about it, for the message.
    """
    same = one == other
    if isinstance(one, float) and isinstance(other, float):
        same = abs(one - other) <= _SAME * max(abs(one), abs(other))
    if not same:
        raise InstanceError(
            f"{where}: from {a} to {b} the matrix says {one}, from {b} to {a} it says {other}; "
            f"a link is the same in both directions, so {cure}."
        )


def components(devices: Sequence[str], pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return what hangs together by some pairs, everything in the order of the devices.

    Parameters
    ----------
    devices
        All devices.
    pairs
        Devices that hang together.

    Examples
    --------
    >>> components(["a", "b", "c"], [("a", "c")])
    [['a', 'c'], ['b']]
    """
    leader = {device: device for device in devices}

    def find(device: str) -> str:
        while leader[device] != device:
            leader[device] = leader[leader[device]]
            device = leader[device]
        return device

    for a, b in pairs:
        leader[find(b)] = find(a)
    groups: dict[str, list[str]] = {}
    for device in devices:
        groups.setdefault(find(device), []).append(device)
    return list(groups.values())
