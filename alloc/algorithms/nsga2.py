"""NSGA-II: many answers to two goals at once, by selection, crossover and mutation.

Genes are numbers from 0 to below 1; what they mean is the caller's. Answers are ranked by how many
fronts lie before theirs, and within a front by how much room there is around them.

References
----------
K. Deb, A. Pratap, S. Agarwal, T. Meyarivan, "A fast and elitist multiobjective genetic algorithm:
NSGA-II", IEEE Transactions on Evolutionary Computation 6(2), 2002, doi:10.1109/4235.996017.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_CROSSOVER = 0.9
"""Share of children with genes of two parents, as in the paper; the others have those of one."""


def evolve(
    costs: Callable[[Array], tuple[float, float]],
    first: Array,
    generations: int,
    rng: np.random.Generator,
    is_over: Callable[[], bool],
) -> tuple[Array, Array]:
    """Return the answers of the last generation that no other beats, and what they cost.

    Parameters
    ----------
    costs
        Costs of an answer in both goals, less is better, infinite where it is none.
    first
        Genes of the first generation, shape (answers, genes), two answers or more.
    generations
        How many follow, 0 or more.
    rng
        Source of all draws.
    is_over
        Whether to stop before the next generation.

    Returns
    -------
    genes, costs
        Shapes (answers found, genes) and (answers found, 2).
    """
    genes, paid = first, _costs(costs, first)
    for _ in range(generations):
        if is_over():
            break
        rank, room = _ranks(paid), _rooms(paid)
        children = _children(genes, rank, room, rng)
        genes = np.concatenate([genes, children])
        paid = np.concatenate([paid, _costs(costs, children)])
        rank, room = _ranks(paid), _rooms(paid)
        kept = np.lexsort((-room, rank))[: len(first)]
        genes, paid = genes[kept], paid[kept]
    best = _ranks(paid) == 0
    return genes[best], paid[best]


def _costs(costs: Callable[[Array], tuple[float, float]], genes: Array) -> Array:
    return np.array([costs(own) for own in genes]).reshape(-1, 2)


def _ranks(paid: Array) -> npt.NDArray[np.int64]:
    """Return how many fronts lie before the one of each answer."""
    mine, other = paid[:, None, :], paid[None, :, :]
    beats: npt.NDArray[np.bool_] = np.all(mine <= other, axis=2) & np.any(mine < other, axis=2)
    rank = np.full(len(paid), -1)
    left, number = np.ones(len(paid), dtype=bool), 0
    while left.any():
        front = left & ~beats[left].any(axis=0)
        rank[front] = number
        left &= ~front
        number += 1
    return rank


def _rooms(paid: Array) -> Array:
    """Return the room around each answer within its front: infinite at its ends."""
    rank, room = _ranks(paid), np.zeros(len(paid))
    for number in range(int(rank.max()) + 1):
        members = np.flatnonzero(rank == number)
        for goal in range(2):
            order = members[np.argsort(paid[members, goal], kind="stable")]
            values = paid[order, goal]
            room[order[[0, -1]]] = np.inf
            # What is no answer costs infinity in both goals: those are a front of their own.
            span = values[-1] - values[0] if np.isfinite(values).all() else 0.0
            if span > 0:
                room[order[1:-1]] += (values[2:] - values[:-2]) / span
    return room


def _children(
    genes: Array, rank: npt.NDArray[np.int64], room: Array, rng: np.random.Generator
) -> Array:
    """Return as many children as there are answers: two of each pair of parents."""
    number, size = genes.shape
    pairs = rng.integers(number, size=(2 * ((number + 1) // 2), 2))
    first_wins = (rank[pairs[:, 0]] < rank[pairs[:, 1]]) | (
        (rank[pairs[:, 0]] == rank[pairs[:, 1]]) & (room[pairs[:, 0]] >= room[pairs[:, 1]])
    )
    parents = genes[np.where(first_wins, pairs[:, 0], pairs[:, 1])]
    mothers, fathers = parents[::2], parents[1::2]
    mixed = rng.random((len(mothers), 1)) < _CROSSOVER
    swap = mixed & (rng.random(mothers.shape) < 0.5)
    children = np.concatenate([np.where(swap, fathers, mothers), np.where(swap, mothers, fathers)])[
        :number
    ]
    # One gene of each child is drawn anew, in the mean.
    drawn = rng.random(children.shape) < 1.0 / size
    return np.where(drawn, rng.random(children.shape), children)
