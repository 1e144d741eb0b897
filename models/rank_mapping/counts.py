"""The data of the count model: domains, cells and runs of a job on a tree; and its simple case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt

from alloc.topology.communication import GB, CommunicationTree
from alloc.workload.parallelism import Parallelism

Indices = npt.NDArray[np.int64]
Counts = list[Indices]
"""x: for each level, the cells of each stage in each domain, shape (domains, stages)."""


@dataclass(frozen=True)
class DomainTree:
    """The domains of a communication tree, numbered level by level.

    Parameters
    ----------
    parent
        For each level, the parent of each domain, a number of the level above (0 at the first).
    gpus
        Positions of the GPUs of each domain of the last level.
    """

    parent: tuple[Indices, ...]
    gpus: tuple[Indices, ...]

    @staticmethod
    def of(tree: CommunicationTree) -> DomainTree:
        """Return the domains of a tree."""
        numbers = [np.unique(column, return_inverse=True) for column in tree.domains.T]
        parents = [np.zeros(1, dtype=np.int64)]
        for (_, above), (values, own) in pairwise(numbers):
            parent = np.zeros(len(values), dtype=np.int64)
            parent[own] = above
            parents.append(parent)
        last = numbers[-1][1]
        gpus = tuple(np.flatnonzero(last == v) for v in range(len(numbers[-1][0])))
        return DomainTree(tuple(parents), gpus)

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.parent)

    @cached_property
    def room(self) -> Indices:
        """GPUs of each domain of the last level."""
        return np.array([len(gpus) for gpus in self.gpus], dtype=np.int64)

    @cached_property
    def total_room(self) -> tuple[Indices, ...]:
        """GPUs of each domain of each level."""
        found = [self.room]
        for level in range(self.depth - 2, -1, -1):
            below = self.parent[level + 1]
            sums = np.bincount(below, weights=found[-1], minlength=len(self.parent[level]))
            found.append(sums.astype(np.int64))
        return tuple(found[::-1])

    def children(self, level: int, domain: int) -> list[int]:
        """Return the domains of the next level inside a domain.

        Parameters
        ----------
        level
            Position of a level, not the last one.
        domain
            Number of a domain of this level.
        """
        return np.flatnonzero(self.parent[level + 1] == domain).tolist()


@dataclass(frozen=True)
class CountProblem:
    """Where the cells of every stage go, at least pipeline time.

    Parameters
    ----------
    domains
        The domains.
    tensor_blocks, data_blocks
        Of each level, outermost first, how many tensor and data ranks of a group stay together in
        a domain of it: divisors of the degrees, those of inner levels dividing those of outer
        ones, the whole degree at the first level. A cell of a level is such a block of both.
    stages
        P.
    boundary_s
        Seconds of one transfer between stages that meet at each level, never falling outwards.
    micro_batches
        M.
    fewest
        Of each level, the fewest ranks of a stage in a domain that has any: domains with less room
        are left out. Empty for no such limit; only for bounds.
    """

    domains: DomainTree
    tensor_blocks: tuple[int, ...]
    data_blocks: tuple[int, ...]
    stages: int
    boundary_s: tuple[float, ...]
    micro_batches: int
    fewest: tuple[int, ...] = ()

    @cached_property
    def cell(self) -> tuple[int, ...]:
        """Ranks in a cell of each level."""
        return tuple(t * d for t, d in zip(self.tensor_blocks, self.data_blocks, strict=True))

    @property
    def depth(self) -> int:
        """Number of levels."""
        return self.domains.depth

    def cells(self, level: int) -> int:
        """Return the number of cells of a stage at a level."""
        return self.cell[0] // self.cell[level]

    def split(self, level: int) -> int:
        """Return the number of cells of the next level in one of this level."""
        return self.cell[level] // self.cell[level + 1]

    def pipeline_s(self, cuts: tuple[int, ...]) -> float:
        """Return the pipeline time with so many boundaries cut at each level (0 at the first)."""
        boundaries = self.stages - 1
        if not boundaries:
            return 0.0
        total = 2 * (boundaries + self.micro_batches - 1) * self.boundary_s[-1]
        for level in range(1, self.depth):
            extra = self.boundary_s[level - 1] - self.boundary_s[level]
            total += 2 * extra * (cuts[level] + (self.micro_batches - 1) * (cuts[level] > 0))
        return total

    def capacities(self, runs: tuple[int, ...] | None = None) -> list[Indices]:
        """Return how many blocks each domain of each level holds.

        Parameters
        ----------
        runs
            Of each level, the stages in a block, each a multiple of the next; None for one stage.
            A block of a level is one of its cells for so many stages. Blocks of a level are alike,
            so filling domains from the inside out holds as many as there can be.
        """
        runs = runs or (1,) * self.depth
        held = self._enough(self.domains.room // (self.cell[-1] * runs[-1]), -1)
        found = [held]
        for level in range(self.depth - 2, -1, -1):
            inner = self.split(level) * (runs[level] // runs[level + 1])
            sums = np.bincount(
                self.domains.parent[level + 1],
                weights=held,
                minlength=len(self.domains.parent[level]),
            ).astype(np.int64)
            held = self._enough(sums // inner, level)
            found.append(held)
        return found[::-1]

    def _enough(self, held: Indices, level: int) -> Indices:
        """Leave domains out that cannot hold the fewest ranks."""
        if not self.fewest:
            return held
        return np.where(self.domains.total_room[level] < self.fewest[level], 0, held)

    def has_room(self) -> bool:
        """Say whether the cells fit, boundaries between stages cut wherever they like."""
        # Stages are alike and may be cut everywhere: one stage's cell at the root, P times.
        return bool(self.capacities()[0][0] >= self.stages)

    def least_cuts(self) -> tuple[int, ...]:
        """Return a lower bound on the boundaries cut at each level."""
        single = self.capacities()
        found = [0]
        for level in range(1, self.depth):
            held, need = single[level], self.cells(level)
            longest = max(int(held.max()), 1)
            least = -(-self.stages // longest) - 1
            if least == 0 and int((held // self.stages).sum()) < need:
                least = 1
            found.append(max(least, found[-1]))
        return tuple(found)

    @cached_property
    def open_levels(self) -> int:
        """Number of levels, from the outermost, at which some boundary may stay uncut.

        Further in, no domain holds two stages of a cell, so every boundary is cut and only the
        room counts: `capacities` says it without variables.
        """
        least = self.least_cuts()
        shut = [level for level in range(1, self.depth) if least[level] >= self.stages - 1]
        return shut[0] if shut else self.depth

    def extended(self, x: Counts) -> Counts:
        """Return the counts of all levels from those of the open ones."""
        x, single = list(x), self.capacities()
        for level in range(len(x) - 1, self.depth - 1):
            inner = np.zeros((len(self.domains.parent[level + 1]), self.stages), dtype=np.int64)
            for v, wanted in enumerate((x[level] * self.split(level)).tolist()):
                left = {u: int(single[level + 1][u]) for u in self.domains.children(level, v)}
                for p, cells in enumerate(wanted):
                    missing = cells
                    for u, room in left.items():
                        taken = min(room, missing)
                        inner[u, p] += taken
                        left[u] -= taken
                        missing -= taken
            x.append(inner)
        return x

    def equal_runs(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Yield the lengths of equal runs that fit, and the cuts that they make."""
        divisors = [k for k in range(1, self.stages + 1) if self.stages % k == 0]
        for tail in product(divisors, repeat=self.depth - 1):
            runs = (self.stages, *tail)
            nested = all(a % b == 0 for a, b in pairwise(runs))
            if nested and self.capacities(runs)[0][0] >= 1:
                yield runs, tuple(self.stages // run - 1 for run in runs)

    def counts_of_runs(self, runs: tuple[int, ...]) -> Counts:
        """Return the counts x of equal runs that fit."""
        held = self.capacities(runs)
        x = [np.zeros((len(parent), self.stages), dtype=np.int64) for parent in self.domains.parent]
        x[0][:] = 1
        # Of each domain of the level, the first stage of each of its blocks.
        blocks: dict[int, list[int]] = {0: [0]}
        for level in range(self.depth - 1):
            inner, step = {}, runs[level + 1]
            for v, starts in blocks.items():
                queue = [
                    start + part
                    for start in starts
                    for part in range(0, runs[level], step)
                    for _ in range(self.split(level))
                ]
                # Cells of one run side by side: they end in as few domains as can be.
                for u in self.domains.children(level, v):
                    inner[u] = queue[: int(held[level + 1][u])]
                    queue = queue[len(inner[u]) :]
                    for start in inner[u]:
                        x[level + 1][u, start : start + step] += 1
            blocks = inner
        return x

    def places(self, x: Counts, tensor: int, data: int) -> Indices:
        """Return a mapping with the counts x: the position of the GPU of each rank.

        Stage by stage, cells stay in the domain where the stage before had them as far as the
        counts allow: at a boundary that is not cut, all of them.

        Parameters
        ----------
        x
            Cells of each stage in each domain, of every level: shape (domains, stages)
            each.
        tensor
            Degree of tensor parallelism, 1 or more.
        data
            Degree of data parallelism, 1 or more.
        """
        grid = np.zeros((self.stages, data, tensor), dtype=np.int64)
        free = [gpus.tolist() for gpus in self.domains.gpus]
        before: list[dict[tuple[int, int], int]] = [{} for _ in range(self.depth)]
        for p in range(self.stages):
            now: list[dict[tuple[int, int], int]] = [{(0, 0): 0}]
            for level in range(self.depth - 1):
                now.append(self._deal(level, now[level], before[level + 1], x[level + 1][:, p]))
            before = now
            c_t, c_d = self.tensor_blocks[-1], self.data_blocks[-1]
            for (t, d), u in now[-1].items():
                own = [free[u].pop(0) for _ in range(c_t * c_d)]
                grid[p, d : d + c_d, t : t + c_t] = np.array(own).reshape(c_d, c_t)
        return grid.reshape(-1)

    def _deal(
        self,
        level: int,
        cells: dict[tuple[int, int], int],
        before: dict[tuple[int, int], int],
        counts: Indices,
    ) -> dict[tuple[int, int], int]:
        """Deal the inner cells of each domain's cells to its children."""
        inside: dict[int, list[tuple[int, int]]] = {}
        t_in, d_in = self.tensor_blocks[level + 1], self.data_blocks[level + 1]
        for (t, d), v in sorted(cells.items(), key=lambda item: (item[0][1], item[0][0])):
            parts = inside.setdefault(v, [])
            parts += [
                (t + i, d + j)
                for j in range(0, self.data_blocks[level], d_in)
                for i in range(0, self.tensor_blocks[level], t_in)
            ]
        dealt: dict[tuple[int, int], int] = {}
        for v, parts in inside.items():
            left = {u: int(counts[u]) for u in self.domains.children(level, v)}
            for part in parts:
                u = before.get(part, -1)
                if left.get(u, 0):
                    dealt[part] = u
                    left[u] -= 1
            rest = [part for part in parts if part not in dealt]
            for u, count in left.items():
                for part in rest[:count]:
                    dealt[part] = u
                rest = rest[count:]
        return dealt


def boundary_seconds(tree: CommunicationTree, parallelism: Parallelism) -> tuple[float, ...]:
    """Return the seconds of one transfer between stages that meet at each level.

    Parameters
    ----------
    tree
        The levels of the cluster, with their latency and bandwidth.
    parallelism
        Says how many bytes go from stage to stage.
    """
    seconds = tree.latency_s + parallelism.pipeline_bytes / (tree.bandwidth_gb_per_s * GB)
    return tuple(seconds.tolist())
