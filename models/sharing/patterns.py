"""Patterns: what one GPU can hold, as a number of each size of request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from alloc.topology.gpu_fit import gpu_memory_mib
from alloc.topology.mig import (
    COMPUTE_SLICES,
    MEMORY_SLICES,
    Layout,
    is_layout,
    layouts,
    mig_profiles,
)
from alloc.units import MILLI

Whole = npt.NDArray[np.int64]

MAX_PATTERNS = 20_000
"""Patterns of shares a GPU type may have before they are generated instead of listed."""

_MAX_STEPS = 200_000
"""Steps that listing them may take; each is a few microseconds."""


class _TooManyError(Exception):
    """There are too many patterns to list."""


@dataclass(frozen=True)
class Size:
    """What a task wants of one GPU, whatever it wants of the host.

    Parameters
    ----------
    gpu_milli
        Share of the GPU, milli-GPU; 1,000 for a whole one; 0 for a MIG slice.
    memory_mib
        GPU memory of a share, MiB.
    profile
        MIG profile, or None.
    """

    gpu_milli: int
    memory_mib: int = 0
    profile: str | None = None

    @property
    def is_share(self) -> bool:
        """Whether the task shares a GPU by milli-GPU."""
        return 0 < self.gpu_milli < MILLI

    @property
    def is_whole(self) -> bool:
        """Whether the task holds the GPU alone."""
        return self.gpu_milli == MILLI


Counts = tuple[int, ...]
"""Number of tasks of each size, in the order of the sizes of a problem."""


@dataclass(frozen=True)
class Pattern:
    """What one GPU holds.

    Parameters
    ----------
    counts
        Number of tasks of each size.
    reconfigures
        Whether the GPU must be drained and cut anew for it.
    """

    counts: Counts
    reconfigures: bool = False


def maximal(found: Sequence[Counts]) -> list[Counts]:
    """Return the vectors that no other one exceeds or equals in every entry, each once."""
    kept: list[Counts] = []
    for counts in sorted(set(found), key=lambda c: (-sum(c), c)):
        if not any(all(a >= b for a, b in zip(k, counts, strict=True)) for k in kept):
            kept.append(counts)
    return kept


def share_patterns(
    gpu_type: str | None, sizes: Sequence[Size], wanted: Sequence[int]
) -> list[Counts] | None:
    """Return the maximal patterns of shares of one GPU, or None if there are too many.

    Parameters
    ----------
    gpu_type
        Type of the GPU; its memory limits shares that name theirs.
    sizes
        All sizes; those that are no shares, or do not fit, get 0.
    wanted
        Most tasks of each size there are.
    """
    found: list[Counts] = []
    try:
        for counts in _fillings(gpu_type, sizes, wanted):
            found.append(counts)
            if len(found) > MAX_PATTERNS:
                return None
    except _TooManyError:
        return None
    return found


def _fillings(
    gpu_type: str | None, sizes: Sequence[Size], wanted: Sequence[int]
) -> Iterator[Counts]:
    """Yield the multisets of shares to which none can be added."""
    memory = gpu_memory_mib(gpu_type) or 0
    able = [
        k
        for k, size in enumerate(sizes)
        if size.is_share and size.memory_mib <= memory and wanted[k]
    ]
    able.sort(key=lambda k: (-sizes[k].gpu_milli, -sizes[k].memory_mib))
    counts = [0] * len(sizes)
    steps = 0

    def fits(k: int, milli: int, mib: int) -> bool:
        return sizes[k].gpu_milli <= milli and sizes[k].memory_mib <= mib

    def fill(position: int, milli: int, mib: int) -> Iterator[Counts]:
        nonlocal steps
        steps += 1
        if steps > _MAX_STEPS:
            raise _TooManyError
        if position == len(able):
            if not any(counts[k] < wanted[k] and fits(k, milli, mib) for k in able):
                yield tuple(counts)
            return
        k = able[position]
        most = min(wanted[k], milli // sizes[k].gpu_milli)
        if sizes[k].memory_mib:
            most = min(most, mib // sizes[k].memory_mib)
        for number in range(most, -1, -1):
            counts[k] = number
            yield from fill(
                position + 1,
                milli - number * sizes[k].gpu_milli,
                mib - number * sizes[k].memory_mib,
            )
        counts[k] = 0

    if able:
        yield from fill(0, MILLI, memory)


@dataclass(frozen=True, eq=False)
class _Catalogue:
    """The layouts of a GPU type as arrays: a GPU in use is compared with all of them at once."""

    layouts: tuple[Layout, ...]
    instances: dict[tuple[str, int], int]
    has: Whole
    memory: Whole
    compute: Whole
    media: Whole
    counts: list[Counts]
    kind: Whole


@cache
def _catalogue(gpu_type: str, names: tuple[str, ...]) -> _Catalogue:
    """Return the layouts of some profiles of a GPU type; `kind` is their position in `counts`."""
    every = layouts(gpu_type, frozenset(names))
    profiles = mig_profiles(gpu_type)
    instances = {
        (name, start): k
        for k, (name, start) in enumerate(
            (name, start) for name, profile in profiles.items() for start in profile.starts
        )
    }
    has = np.zeros((len(every), len(instances)), dtype=np.int64)
    for row, layout in enumerate(every):
        has[row, [instances[instance] for instance in layout]] = 1
    memory = np.zeros((len(instances), MEMORY_SLICES), dtype=np.int64)
    for (name, start), k in instances.items():
        memory[k, list(profiles[name].slices(start))] = 1
    of_name = np.array([[int(name == n) for n in names] for name, _ in instances], dtype=np.int64)
    numbers, kind = np.unique(
        has @ of_name.reshape(len(instances), len(names)), axis=0, return_inverse=True
    )
    return _Catalogue(
        every,
        instances,
        has,
        memory,
        np.array([profiles[name].compute_slices for name, _ in instances], dtype=np.int64),
        np.array([profiles[name].media for name, _ in instances], dtype=np.int64),
        [tuple(row) for row in numbers.tolist()],
        kind.ravel(),
    )


@cache
def _layouts_by_counts(
    gpu_type: str, names: tuple[str, ...], state: Layout
) -> tuple[Mapping[Counts, Layout], frozenset[Counts]]:
    """Return a layout for every number of instances, nearest to a state, and which keep it."""
    known = _catalogue(gpu_type, names)
    had = np.zeros(len(known.instances), dtype=np.int64)
    had[[known.instances[instance] for instance in state]] = 1
    added = known.has * (1 - had)
    if state and not is_layout(gpu_type, state):
        keeping = np.zeros(len(known.layouts), dtype=bool)  # nothing stands beside what overlaps
    else:
        keeping = (
            ((added @ known.memory) * (had @ known.memory) == 0).all(axis=1)
            & (added @ known.compute + had @ known.compute <= COMPUTE_SLICES)
            & (added @ known.media + had @ known.media <= 1)
        )
    rank = keeping * (len(had) + 1) + known.has @ had
    order = np.lexsort((-rank, known.kind))
    first = order[np.unique(known.kind[order], return_index=True)[1]]
    chosen = {known.counts[known.kind[k]]: known.layouts[k] for k in first.tolist()}
    free = frozenset(known.counts[known.kind[k]] for k in first.tolist() if keeping[k])
    return chosen, free


def layout_of(gpu_type: str, sizes: Sequence[Size], counts: Counts, state: Layout) -> Layout:
    """Return a layout with (at least) so many instances that is nearest to a GPU's present one.

    Parameters
    ----------
    gpu_type
        Name of the GPU type, one that MIG can cut.
    sizes
        The sizes of requests; only those of MIG profiles count here.
    counts
        How many of each size, in their order.
    state
        The present layout of the GPU.
    """
    number = {size.profile: n for n, size in zip(counts, sizes, strict=True) if size.profile}
    names = tuple(sorted(number))
    return _layouts_by_counts(gpu_type, names, state)[0][tuple(number[name] for name in names)]


def mig_patterns(gpu_type: str | None, sizes: Sequence[Size], state: Layout) -> list[Pattern]:
    """Return the maximal patterns of MIG instances on a GPU in a state.

    Those that fit beside the present instances are free; of the others, which cut the GPU anew,
    only what no free one offers.

    Parameters
    ----------
    gpu_type
        Name of the GPU type; without one there are no patterns.
    sizes
        The sizes of requests; only those of MIG profiles count here.
    state
        The present layout of the GPU.
    """
    if gpu_type is None or not any(size.profile for size in sizes):
        return []
    # In the order of their names, so that all problems with these profiles share what is known.
    names = tuple(sorted({size.profile for size in sizes if size.profile}))
    every, free = _layouts_by_counts(gpu_type, names, state)
    at = [names.index(size.profile) if size.profile else -1 for size in sizes]

    def spread(counts: Counts) -> Counts:
        return tuple([counts[k] if k >= 0 else 0 for k in at])

    kept = maximal(list(free))
    patterns = [Pattern(spread(counts)) for counts in kept if any(counts)]
    if len(free) < len(every):
        for counts in maximal(list(every)):
            if not any(all(a >= b for a, b in zip(k, counts, strict=True)) for k in kept):
                patterns.append(Pattern(spread(counts), reconfigures=True))
    return patterns
