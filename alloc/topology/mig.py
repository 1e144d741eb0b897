"""MIG: how NVIDIA's GPUs can be cut into instances, as the driver's own placement table says.

A GPU with MIG has 7 compute slices and 8 memory slices. A *profile* such as ``3g.20gb`` is an
instance with so many of each; it may begin only at certain memory slices. Instances stand beside
each other as long as their memory slices do not overlap. A *layout* is a set of instances that can
stand on one GPU together.

The starts are those that ``nvidia-smi mig -lgipp`` prints, and they are the same on every type
here. Two profiles are special. ``1g.10gb`` of a 40 GB A100 (``1g.20gb`` of an 80 GB GPU,
``1g.35gb`` of an H200) has one compute slice and *two* memory slices, at the even starts 0, 2, 4
and 6. The guide's table for the A100 says 1/8 of the memory for it; the placements say two slices,
and so do the tables of later GPUs. A ``+me`` profile holds the media extensions, of which a GPU has
one set: at most one instance of such a profile.

References
----------
NVIDIA Multi-Instance GPU User Guide (R580), "Supported MIG Profiles", tables 6 to 8, and "Getting
Started with MIG", listing of ``nvidia-smi mig -lgipp``:
docs.nvidia.com/datacenter/tesla/mig-user-guide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from alloc.errors import InstanceError, nearest
from alloc.topology.gpu_types import ALIASES

COMPUTE_SLICES = 7
"""Compute slices of a GPU with MIG."""

MEMORY_SLICES = 8
"""Memory slices of a GPU with MIG."""

Layout = tuple[tuple[str, int], ...]
"""Instances on one GPU: profile name and first memory slice of each, in the order of the slices."""

_NAME = re.compile(r"(?P<compute>\d+)g\.(?P<memory>\d+)gb(?P<media>\+me)?")


@dataclass(frozen=True)
class MigProfile:
    """A kind of MIG instance.

    Parameters
    ----------
    name
        NVIDIA's name: compute slices and memory in GB, for example ``"3g.20gb"``.
    compute_slices
        Compute slices of an instance, of the 7 of a GPU.
    memory_slices
        Memory slices of an instance, of the 8 of a GPU.
    starts
        Memory slices at which an instance may begin, counted from 0.
    most
        Most instances of the profile on one GPU.
    media
        Whether an instance holds the GPU's media extensions.
    """

    name: str
    compute_slices: int
    memory_slices: int
    starts: tuple[int, ...]
    most: int
    media: bool = False

    def slices(self, start: int) -> range:
        """Return the memory slices of an instance that begins at `start`."""
        return range(start, start + self.memory_slices)


def _profiles(names: Sequence[str]) -> dict[str, MigProfile]:
    """Return the profiles of a GPU type; the geometry is one, the names go by the memory."""
    one, media, wide, two, three, four, seven = names
    table = (
        MigProfile(one, 1, 1, (0, 1, 2, 3, 4, 5, 6), 7),
        MigProfile(media, 1, 1, (0, 1, 2, 3, 4, 5, 6), 1, media=True),
        MigProfile(wide, 1, 2, (0, 2, 4, 6), 4),
        MigProfile(two, 2, 2, (0, 2, 4), 3),
        MigProfile(three, 3, 4, (0, 4), 2),
        MigProfile(four, 4, 4, (0,), 1),
        MigProfile(seven, 7, 8, (0,), 1),
    )
    return {profile.name: profile for profile in table}


_40_GB = _profiles(
    ("1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")
)  # fmt: skip
_80_GB = _profiles(
    ("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
)  # fmt: skip
_141_GB = _profiles(
    ("1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb")
)  # fmt: skip

MIG_PROFILES: dict[str, dict[str, MigProfile]] = {
    "a100-sxm-40gb": _40_GB,
    "a100-pcie-40gb": _40_GB,
    "a100-sxm-80gb": _80_GB,
    "a100-pcie-80gb": _80_GB,
    "h100-sxm-80gb": _80_GB,
    "h100-pcie-80gb": _80_GB,
    "h200-sxm-141gb": _141_GB,
}
"""MIG profiles by GPU type (a name of `GPU_TYPES`) and profile name."""


def _canonical(gpu_type: str) -> str:
    key = "-".join(gpu_type.lower().replace("_", " ").split())
    return ALIASES.get(key, key)


@cache
def mig_profiles(gpu_type: str | None) -> dict[str, MigProfile]:
    """Return the MIG profiles of a GPU type by name; empty when it has no MIG.

    Parameters
    ----------
    gpu_type
        Name or alias, as in `alloc.topology.gpu_type`, or None for a host without GPUs.

    Examples
    --------
    >>> list(mig_profiles("h200-sxm-141gb"))[:3]
    ['1g.18gb', '1g.18gb+me', '1g.35gb']
    """
    return {} if gpu_type is None else MIG_PROFILES.get(_canonical(gpu_type), {})


def require_profile(gpu_type: str | None, profile: str, where: str = "MIG") -> MigProfile:
    """Return a profile of a GPU type.

    Parameters
    ----------
    gpu_type
        The GPU type.
    profile
        Name of the profile.
    where
        Who asks, for the message: ``'job "a"'``.

    Raises
    ------
    InstanceError
        If the type has no such profile; the message names the nearest one.
    """
    known = mig_profiles(gpu_type)
    if profile in known:
        return known[profile]
    raise InstanceError(f"{where}: {no_such_profile([gpu_type], profile)}")


def no_such_profile(gpu_types: Iterable[str | None], profile: str) -> str:
    """Say that none of some GPU types has a profile, and which one comes nearest.

    Parameters
    ----------
    gpu_types
        Types that the profile was looked for in; None: a host without GPUs.
    profile
        The name that none of them has.
    """
    types = sorted({t for t in gpu_types if t is not None})
    able = [t for t in types if mig_profiles(t)]
    if not able:
        have = f"of type {', '.join(types)}, which has no MIG" if types else "without GPUs"
        return (
            f'asks for the MIG profile "{profile}", but the hosts are {have}; types with MIG: '
            f"{', '.join(MIG_PROFILES)}."
        )
    names = list(dict.fromkeys(name for t in able for name in mig_profiles(t)))
    return (
        f'GPU type {", ".join(able)} has no MIG profile "{profile}"'
        f"{_nearest_profile(profile, names)} it has: {', '.join(names)}."
    )


def _nearest_profile(name: str, known: Sequence[str]) -> str:
    """Return ``'; did you mean "x"?'`` for the profile nearest in size, else in spelling."""
    wanted = _NAME.fullmatch(name)
    if wanted is None:
        return nearest(name, known, ";")

    def distance(other: str) -> tuple[int, int, bool]:
        size = _NAME.fullmatch(other)
        assert size is not None  # our own names
        return (
            abs(int(size["compute"]) - int(wanted["compute"])),
            abs(int(size["memory"]) - int(wanted["memory"])),
            size["media"] != wanted["media"],
        )

    return f'; did you mean "{min(known, key=distance)}"?'


def overlap(a: tuple[MigProfile, int], b: tuple[MigProfile, int]) -> bool:
    """Return whether two instances with their starts share a memory slice.

    Parameters
    ----------
    a, b
        Profile and first memory slice, 0 to 7, of each.
    """
    (p, s), (q, t) = a, b
    return s < t + q.memory_slices and t < s + p.memory_slices


def is_layout(gpu_type: str, instances: Sequence[tuple[str, int]]) -> bool:
    """Return whether instances, given by profile and start, can stand on one GPU together.

    Parameters
    ----------
    gpu_type
        A type with MIG.
    instances
        Name of a profile and first memory slice, 0 to 7, of each.

    Raises
    ------
    InstanceError
        If the GPU type has no such profile.
    """
    placed = [(require_profile(gpu_type, name), start) for name, start in instances]
    return (
        all(start in profile.starts for profile, start in placed)
        and sum(profile.compute_slices for profile, _ in placed) <= COMPUTE_SLICES
        and sum(profile.media for profile, _ in placed) <= 1
        and not any(overlap(a, b) for i, a in enumerate(placed) for b in placed[:i])
    )


@cache
def layouts(gpu_type: str, names: frozenset[str] | None = None) -> tuple[Layout, ...]:
    """Return every layout of a GPU type, the empty one included.

    Parameters
    ----------
    gpu_type
        A type with MIG.
    names
        The profiles to use, or None for all.
    """
    known = [p for p in mig_profiles(gpu_type).values() if names is None or p.name in names]
    found: list[Layout] = []

    def extend(layout: Layout, begin: int, compute: int, media: bool) -> None:
        found.append(layout)
        for profile in known:
            if compute + profile.compute_slices > COMPUTE_SLICES or (media and profile.media):
                continue
            for start in profile.starts:
                if start >= begin:
                    extend(
                        (*layout, (profile.name, start)),
                        start + profile.memory_slices,
                        compute + profile.compute_slices,
                        media or profile.media,
                    )

    extend((), 0, 0, False)
    return tuple(found)


@cache
def maximal_layouts(gpu_type: str, names: frozenset[str] | None = None) -> tuple[Layout, ...]:
    """Return the layouts that leave no room for another instance of the profiles used.

    With the five profiles 1g, 2g, 3g, 4g and 7g of a 40 GB A100 there are 19: the left half of the
    memory is 4g, 3g or one of the four mixtures of 2g and 1g, the right half is 3g, 2g + 1g or
    three 1g, and 7g takes all. Where 18 are counted one is left out: the list of 18 that MISO
    (Li et al., SoCC 2022) publishes has no 4g + 3g, which the placements allow.

    Parameters
    ----------
    gpu_type
        A type with MIG.
    names
        Profiles to use; without them all of the type.
    """
    every = layouts(gpu_type, names)
    grown = {tuple(x for x in layout if x != gone) for layout in every if layout for gone in layout}
    return tuple(layout for layout in every if layout not in grown)
