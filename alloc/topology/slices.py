"""The MIG instances of one GPU while tasks come and go, and greedy choices of where to put more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from functools import cache

import numpy as np
import numpy.typing as npt

from alloc.topology.mig import (
    COMPUTE_SLICES,
    MEMORY_SLICES,
    MigProfile,
    mig_profiles,
    require_profile,
)

_State = tuple[int, int, int]
"""What is taken of a GPU: a bit for each memory slice, compute slices, media engines."""


class _Ways:
    """What can still be cut out of a GPU of one type, by what is taken of it: worked out once."""

    def __init__(self, profiles: tuple[MigProfile, ...]) -> None:
        self._profiles = profiles
        self._masks = {
            (profile, start): sum(1 << s for s in profile.slices(start))
            for profile in profiles
            for start in profile.starts
        }
        self._freedom: dict[_State, int] = {}
        self._room: dict[tuple[_State, MigProfile], int] = {}
        self._start: dict[tuple[_State, MigProfile], int | None] = {}

    def admits(self, state: _State, profile: MigProfile, start: int) -> bool:
        """Return whether one more instance fits at a start."""
        memory, compute, media = state
        return (
            compute + profile.compute_slices <= COMPUTE_SLICES
            and media + profile.media <= 1
            and not memory & self._masks[profile, start]
        )

    def after(self, state: _State, profile: MigProfile, start: int) -> _State:
        """Return what is taken with one more instance."""
        memory, compute, media = state
        mask = self._masks[profile, start]
        return (memory | mask, compute + profile.compute_slices, media + profile.media)

    def freedom(self, state: _State) -> int:
        """Return the ways to place one more instance, each weighed by its memory slices."""
        if state not in self._freedom:
            self._freedom[state] = sum(
                profile.memory_slices
                for profile, start in self._masks
                if self.admits(state, profile, start)
            )
        return self._freedom[state]

    def room(self, state: _State, profile: MigProfile) -> int:
        """Return how many more instances of a profile fit."""
        if (state, profile) not in self._room:
            trial, number = state, 0
            # Equal intervals: taking the first that fits never hurts.
            for start in profile.starts:
                if self.admits(trial, profile, start):
                    trial = self.after(trial, profile, start)
                    number += 1
            self._room[state, profile] = number
        return self._room[state, profile]

    def start(self, state: _State, profile: MigProfile) -> int | None:
        """Return the start that leaves the most freedom, the last of equals, or None."""
        if (state, profile) not in self._start:
            fitting = [s for s in profile.starts if self.admits(state, profile, s)]
            ways = [(self.freedom(self.after(state, profile, s)), k) for k, s in enumerate(fitting)]
            self._start[state, profile] = fitting[max(ways)[1]] if ways else None
        return self._start[state, profile]


@cache
def _ways_of(profiles: tuple[MigProfile, ...]) -> _Ways:
    return _Ways(profiles)


class GpuSlices:
    """What MIG instances take of one GPU.

    Instances may be added where they do not fit; `sound` then says so.

    Parameters
    ----------
    profiles
        The profiles of the GPU's type.
    """

    def __init__(self, profiles: Iterable[MigProfile]) -> None:
        self._ways = _ways_of(tuple(profiles))
        self.memory = [0] * MEMORY_SLICES
        self.compute = 0
        self.media = 0
        self.count = 0
        self.misplaced = 0
        self._state: _State | None = None

    def copy(self) -> GpuSlices:
        """Return an independent copy."""
        other = copy(self)
        other.memory = list(self.memory)
        return other

    def add(self, profile: MigProfile, start: int, sign: int = 1) -> None:
        """Add an instance, or take one away with sign -1.

        Parameters
        ----------
        profile
            A profile of the GPU's type.
        start
            First memory slice, 0 to 7; where the profile may not begin it counts as misplaced.
        sign
            1 adds, -1 takes away.
        """
        for s in profile.slices(start):
            if 0 <= s < MEMORY_SLICES:
                self.memory[s] += sign
        self.compute += sign * profile.compute_slices
        self.media += sign * profile.media
        self.count += sign
        self.misplaced += sign * (start not in profile.starts)
        self._state = None

    @property
    def state(self) -> _State:
        """What is taken."""
        if self._state is None:
            memory = sum(1 << s for s, number in enumerate(self.memory) if number)
            self._state = (memory, self.compute, self.media)
        return self._state

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
        """Return whether one more instance fits at a start.

        Parameters
        ----------
        profile
            A profile of the GPU's type.
        start
            First memory slice, 0 to 7.
        """
        return self._ways.admits(self.state, profile, start)

    def room(self, profile: MigProfile) -> int:
        """Return how many more instances of a profile fit."""
        return self._ways.room(self.state, profile)

    def choose(self, profile: MigProfile) -> int | None:
        """Return the start that leaves the most ways to place any further instance, or None."""
        return self._ways.start(self.state, profile)

    @property
    def freedom(self) -> int:
        """Ways to place one more instance, each weighed by its memory slices."""
        return self._ways.freedom(self.state)


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
        self._most: dict[str, npt.NDArray[np.int64]] = {}
        # Room on each host by profile, and the hosts that changed since.
        self._rooms: dict[str, npt.NDArray[np.int64]] = {}
        self._changed: dict[str, set[int]] = {}

    def clear(self) -> None:
        """Leave no GPU cut."""
        self.on_host.clear()
        self._rooms.clear()
        self._changed.clear()

    def profile(self, host: int, name: str) -> MigProfile | None:
        """Return a profile of the GPUs of a host, or None where they have no such.

        Parameters
        ----------
        host
            Position of the host.
        name
            Name of the profile.
        """
        return mig_profiles(self.gpu_types[host]).get(name)

    def add(self, host: int, gpu: int, name: str, start: int, sign: int) -> int:
        """Add an instance (sign 1) or take it away (-1); return the change in the GPUs cut.

        Parameters
        ----------
        host
            Position of the host.
        gpu
            Position of the GPU on the host.
        name
            Name of the profile.
        start
            First memory slice, 0 to 7.
        sign
            1 adds, -1 takes away.
        """
        profile = require_profile(self.gpu_types[host], name)
        for changed in self._changed.values():
            changed.add(host)
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
        """Return how many more instances fit on the GPUs of a host that are cut already.

        Parameters
        ----------
        host
            Position of the host.
        name
            Name of the profile.
        """
        profile = self.profile(host, name)
        if profile is None:
            return 0
        return sum(gpu.room(profile) for gpu in self.on_host.get(host, {}).values())

    def rooms(self, name: str) -> npt.NDArray[np.int64]:
        """Return how many more instances fit on the GPUs cut already, shape (hosts,)."""
        if name not in self._rooms:
            self._rooms[name] = np.zeros(len(self.gpu_types), dtype=np.int64)
            self._changed[name] = set(self.on_host)
        rooms, changed = self._rooms[name], self._changed[name]
        for host in changed:
            rooms[host] = self.room(host, name)
        changed.clear()
        return rooms

    def most(self, name: str) -> npt.NDArray[np.int64]:
        """Return how many instances a fresh GPU of each host holds, shape (hosts,)."""
        if name not in self._most:
            by_type = {t: mig_profiles(t).get(name) for t in set(self.gpu_types)}
            number = {t: 0 if p is None else p.most for t, p in by_type.items()}
            self._most[name] = np.array([number[t] for t in self.gpu_types], dtype=np.int64)
        return self._most[name]

    def choose(
        self, host: int, name: str, count: int, unused: Iterable[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Choose GPU and start for each of `count` instances that have room on a host.

        The GPU with the least freedom left that has room, then the start that keeps the most of
        it; an unused GPU only when none has room.

        Parameters
        ----------
        host
            Position of the host.
        name
            Name of the profile.
        count
            Instances, at most as many as there is room for.
        unused
            Positions of the host's GPUs that nothing is on, the first to be taken first.
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
