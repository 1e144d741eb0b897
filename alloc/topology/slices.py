"""The MIG instances of one GPU while tasks come and go, and greedy choices of where to put more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alloc.topology.mig import (
    COMPUTE_SLICES,
    MEMORY_SLICES,
    MigProfile,
    mig_profiles,
    require_profile,
)


class GpuSlices:
    """What MIG instances take of one GPU.

    Instances may be added where they do not fit; `sound` then says so.

    Parameters
    ----------
    profiles
        The profiles of the GPU's type.
    """

    def __init__(self, profiles: Iterable[MigProfile]) -> None:
        self.profiles = tuple(profiles)
        self.memory = [0] * MEMORY_SLICES
        self.compute = 0
        self.media = 0
        self.count = 0
        self.misplaced = 0

    def copy(self) -> GpuSlices:
        """Return an independent copy."""
        other = GpuSlices(self.profiles)
        other.memory = list(self.memory)
        other.compute, other.media = self.compute, self.media
        other.count, other.misplaced = self.count, self.misplaced
        return other

    def add(self, profile: MigProfile, start: int, sign: int = 1) -> None:
        """Add an instance, or take one away with sign -1."""
        for s in profile.slices(start):
            if 0 <= s < MEMORY_SLICES:
                self.memory[s] += sign
        self.compute += sign * profile.compute_slices
        self.media += sign * profile.media
        self.count += sign
        self.misplaced += sign * (start not in profile.starts)

    @property
    def sound(self) -> bool:
        """Whether the instances form a layout."""
        return (
            max(self.memory) <= 1
            and self.compute <= COMPUTE_SLICES
            and self.media <= 1
            and not self.misplaced
        )

    def admits(self, profile: MigProfile, start: int) -> bool:
        """Return whether one more instance fits at a start."""
        return (
            self.compute + profile.compute_slices <= COMPUTE_SLICES
            and self.media + profile.media <= 1
            and not any(self.memory[s] for s in profile.slices(start))
        )

    def room(self, profile: MigProfile) -> int:
        """Return how many more instances of a profile fit."""
        trial, number = self.copy(), 0
        # Equal intervals: taking the first that fits never hurts.
        for start in profile.starts:
            if trial.admits(profile, start):
                trial.add(profile, start)
                number += 1
        return number

    def choose(self, profile: MigProfile) -> int | None:
        """Return the start that leaves the most ways to place any further instance, or None."""
        best: tuple[int, int] | None = None
        for start in profile.starts:
            if self.admits(profile, start):
                self.add(profile, start)
                ways = self.freedom
                self.add(profile, start, -1)
                if best is None or ways >= best[0]:
                    best = (ways, start)
        return None if best is None else best[1]

    @property
    def freedom(self) -> int:
        """Ways to place one more instance, each weighed by its memory slices."""
        return sum(
            profile.memory_slices
            for profile in self.profiles
            for start in profile.starts
            if self.admits(profile, start)
        )


class CutGpus:
    """The GPUs of a cluster that are cut into MIG instances.

    Parameters
    ----------
    gpu_types
        GPU type of each host.
    """

    def __init__(self, gpu_types: Sequence[str | None]) -> None:
        self.gpu_types = gpu_types
        self.on_host: dict[int, dict[int, GpuSlices]] = {}

    def profile(self, host: int, name: str) -> MigProfile | None:
        """Return a profile of the GPUs of a host, or None where they have no such."""
        return mig_profiles(self.gpu_types[host]).get(name)

    def add(self, host: int, gpu: int, name: str, start: int, sign: int) -> int:
        """Add an instance (sign 1) or take it away (-1); return the change in the GPUs cut."""
        profile = require_profile(self.gpu_types[host], name)
        cut = self.on_host.setdefault(host, {})
        fresh = gpu not in cut
        if fresh:
            cut[gpu] = GpuSlices(mig_profiles(self.gpu_types[host]).values())
        cut[gpu].add(profile, start, sign)
        if not cut[gpu].count:
            del cut[gpu]
        return int(gpu in cut) - int(not fresh)

    def sound(self, host: int) -> bool:
        """Return whether the instances on every GPU of a host form a layout."""
        return all(gpu.sound for gpu in self.on_host.get(host, {}).values())

    def room(self, host: int, name: str) -> int:
        """Return how many more instances fit on the GPUs of a host that are cut already."""
        profile = self.profile(host, name)
        if profile is None:
            return 0
        return sum(gpu.room(profile) for gpu in self.on_host.get(host, {}).values())

    def most(self, name: str) -> list[int]:
        """Return how many instances a fresh GPU of each host holds, shape (hosts,)."""
        by_type = {t: mig_profiles(t).get(name) for t in set(self.gpu_types)}
        number = {t: 0 if p is None else p.most for t, p in by_type.items()}
        return [number[t] for t in self.gpu_types]

    def choose(
        self, host: int, name: str, count: int, unused: Iterable[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Choose GPU and start for each of `count` instances that have room on a host.

        The GPU with the least freedom left that has room, then the start that keeps the most of
        it; an unused GPU only when none has room.
        """
        profile = self.profile(host, name)
        assert profile is not None  # there is room
        trial = {g: gpu.copy() for g, gpu in self.on_host.get(host, {}).items()}
        fresh = iter(unused)
        gpus, starts = [], []
        for _ in range(count):
            found = [(gpu.freedom, g) for g, gpu in trial.items() if gpu.room(profile)]
            if found:
                g = min(found)[1]
            else:
                g = next(fresh)
                trial[g] = GpuSlices(mig_profiles(self.gpu_types[host]).values())
            start = trial[g].choose(profile)
            assert start is not None
            trial[g].add(profile, start)
            gpus.append(g)
            starts.append(start)
        return tuple(gpus), tuple(starts)
