"""Candidates of rank mapping on a tree: how long each kind of group may take, and what that needs.

A group of k ranks is described by its chain of blocks (`alloc.problems.rank_mapping`). If all
groups of a kind take at most tau, every one of them has a chain of time at most tau, so at each
level its blocks are multiples of the greatest common divisor of these chains: what tau *needs*.
The larger tau, the less it needs, in few steps; candidates are one step for each kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from alloc.models.rank_mapping.counts import DomainTree
from alloc.problems.rank_mapping import Algorithm, Array, Indices, all_reduce_s, all_to_all_s
from alloc.topology.communication import CommunicationTree
from alloc.workload.parallelism import Parallelism

Blocks = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """A time that groups of a kind may take, and the blocks that it needs at each level.

    `finest` are the finest blocks that do take no longer: usually just the needed ones.
    """

    seconds: float
    blocks: Blocks
    finest: tuple[Blocks, ...]


@dataclass(frozen=True)
class Plan:
    """A candidate: the time of the collectives, and the blocks of tensor and data groups.

    Parameters
    ----------
    seconds
        Time of tensor, expert and data groups together.
    tensor_blocks, data_blocks
        What it needs of each level.
    finest
        Pairs of tensor and data blocks that reach the time.
    data_finest, expert_finest
        The finest blocks that data groups, and expert groups, can have in it.
    """

    seconds: float
    tensor_blocks: Blocks
    data_blocks: Blocks
    finest: tuple[tuple[Blocks, Blocks], ...]
    data_finest: tuple[Blocks, ...]
    expert_finest: tuple[Blocks, ...]

    def relaxations(self) -> list[tuple[Blocks, Blocks]]:
        """Return the blocks whose cells must have room whatever the mapping.

        Where one of the two blocks is whole or single, a domain's ranks do split into cells. Where
        both are parts of their groups they need not, so each is asked for without the other.
        """
        t, d = self.tensor_blocks, self.data_blocks
        both = [1 < a < t[0] and 1 < b < d[0] for a, b in zip(t, d, strict=True)]
        if not any(both):
            return [(t, d)]
        first = both.index(True)
        return [
            (t, d[:first] + (1,) * (len(d) - first)),
            (t[:first] + (1,) * (len(t) - first), d),
        ]

    @property
    def fewest(self) -> tuple[int, ...]:
        """The fewest ranks of a stage in a domain of each level that has any.

        A table of zeros and ones, not empty, whose rows sum to multiples of a and whose columns to
        multiples of b holds at least a b ones.
        """
        return tuple(a * b for a, b in zip(self.tensor_blocks, self.data_blocks, strict=True))


def has_enough(plan: Plan, domains: DomainTree, ranks: int) -> bool:
    """Say whether domains filled with blocks of any of the finest kinds can hold all ranks.

    Groups may differ in their blocks, so that what all need alone says too little: of hosts of
    eight GPUs, blocks of six and of eight need blocks of two, but fill six or eight.

    Parameters
    ----------
    plan
        A candidate.
    domains
        The tree, with the room of each domain in GPUs.
    ranks
        Ranks to place, at least 1.
    """
    tensor = plan.tensor_blocks[0]
    for level, rooms in enumerate(domains.total_room):
        # Whole tensor groups bring all of their ranks along.
        width = tensor if plan.tensor_blocks[level] == tensor else 1
        for kind in (plan.data_finest, plan.expert_finest):
            sizes = sorted({width * blocks[level] for blocks in kind})
            if int(_most_filled(sizes, int(rooms.max()))[rooms].sum()) < ranks:
                return False
    return True


def _most_filled(sizes: Sequence[int], room: int) -> Indices:
    """Return how much of each room up to the largest can be filled with pieces of given sizes."""
    reached = np.zeros(room + 1, dtype=bool)
    reached[0] = True
    for size in sizes:
        for start in range(size, room + 1, size):
            # Piece by piece: what was reached with one less.
            stop = min(start + size, room + 1)
            reached[start:stop] |= reached[start - size : stop - size]
    return np.maximum.accumulate(np.where(reached, np.arange(room + 1), 0))


def plans(parallelism: Parallelism, tree: CommunicationTree, algorithm: Algorithm) -> list[Plan]:
    """Return the candidates, the fastest first.

    Parameters
    ----------
    parallelism
        Degrees, operations and bytes of the job.
    tree
        The cluster, with latency and bandwidth of each level.
    algorithm
        Collective algorithm of the all-reduces.
    """
    domains = DomainTree.of(tree)
    single = (1,) * domains.depth
    tensor = _steps(
        _possible(parallelism.tensor, domains, single),
        parallelism.tensor_operations,
        lambda chains: all_reduce_s(tree, chains, parallelism.tensor_bytes, algorithm),
    )
    found: dict[object, Plan] = {}
    for t in tensor:
        data = _steps(
            _possible(parallelism.data, domains, t.blocks),
            parallelism.data_exposed,
            lambda chains: all_reduce_s(tree, chains, parallelism.data_bytes, algorithm),
        )
        expert = _steps(
            _possible(parallelism.expert, domains, t.blocks),
            parallelism.expert_operations,
            lambda chains: all_to_all_s(tree, chains, parallelism.expert_bytes),
        )
        for e in expert:
            for d in data:
                finest = tuple(
                    (blocks, _shared(one, other))
                    for blocks in t.finest
                    for one in d.finest
                    for other in e.finest
                )
                seconds = t.seconds + e.seconds + d.seconds
                shared = _shared(d.blocks, e.blocks)
                plan = Plan(seconds, t.blocks, shared, finest, d.finest, e.finest)
                key = (plan.tensor_blocks, plan.data_blocks, frozenset(finest))
                if key not in found or plan.seconds < found[key].seconds:
                    found[key] = plan
    return sorted(found.values(), key=lambda plan: plan.seconds)


def _shared(data: Blocks, expert: Blocks) -> Blocks:
    """Return blocks that suit data groups and the expert groups, runs of them, at once."""
    inner = (math.lcm(a, b) for a, b in zip(data[1:], expert[1:], strict=True))
    return (data[0], *inner)


def _possible(size: int, domains: DomainTree, width: Blocks) -> Indices:
    """Return the chains that a single group can have, with all GPUs to itself.

    Each of its ranks brings at least `width` ranks of its tensor group along at each level.
    """
    chains = block_chains_of(size, domains.depth)
    # Most ask for more than the largest domain of a level has.
    largest = np.array([rooms.max() for rooms in domains.total_room])
    chains = chains[(chains[:, :-1] * np.array(width) <= largest).all(axis=1)]
    return np.asarray(chains[np.array([_fits(chain, domains, width) for chain in chains])])


def _fits(chain: Indices, domains: DomainTree, width: Blocks) -> bool:
    held = domains.room // (chain[-2] * width[-1])
    for level in range(domains.depth - 2, -1, -1):
        below = domains.parent[level + 1]
        sums = np.bincount(below, weights=held, minlength=len(domains.parent[level]))
        own = domains.total_room[level] // (chain[level] * width[level])
        held = np.minimum(sums.astype(np.int64) // (chain[level] // chain[level + 1]), own)
    return bool(held[0] >= 1)


def block_chains_of(size: int, depth: int) -> Indices:
    """Return all chains of blocks of a group: from its size, by divisors, to 1 at the GPUs.

    Shape (chains, depth + 1).

    Parameters
    ----------
    size
        Ranks of the group, at least 1.
    depth
        Levels of the tree, at least 1.
    """
    return np.array(list(_chains((size,), depth)), dtype=np.int64)


def _chains(head: Blocks, depth: int) -> Iterator[Blocks]:
    if len(head) == depth:
        yield (*head, 1)
        return
    for block in range(1, head[-1] + 1):
        if head[-1] % block == 0:
            yield from _chains((*head, block), depth)


def _steps(
    chains: Indices, operations: float, seconds_of: Callable[[Indices], Array]
) -> list[Step]:
    """Return the distinct needs, each with the least time that needs no more."""
    seconds = seconds_of(chains) * operations
    order = np.argsort(seconds, kind="stable")
    found: list[Step] = []
    need = np.zeros(chains.shape[1] - 1, dtype=np.int64)
    finest: list[Blocks] = []
    for k, index in enumerate(order.tolist()):
        chain = chains[index, :-1]
        need = np.gcd(need, chain)
        if not any(_divides(blocks, chain) for blocks in finest):
            finest = [b for b in finest if not _divides(chain, b)] + [tuple(chain.tolist())]
        # Times that differ by rounding are one time: the later, so that it holds for both.
        last = k + 1 == len(order) or seconds[order[k + 1]] > seconds[index] * (1 + 1e-12)
        step = Step(float(seconds[index]), tuple(need.tolist()), tuple(finest))
        if last and (
            not found or (found[-1].blocks, found[-1].finest) != (step.blocks, step.finest)
        ):
            found.append(step)
    return found


def _divides(finer: Sequence[int] | Indices, coarser: Sequence[int] | Indices) -> bool:
    return all(b % a == 0 for a, b in zip(finer, coarser, strict=True))
