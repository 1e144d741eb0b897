"""A round's choice held against its dual: proved good enough, or replaced by the exact optimum."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.algorithms.multipliers import minimise_dual
from alloc.models.capacity import CapacityRows
from alloc.models.round import RoundData
from alloc.solving.outcome import Settings
from alloc.solving.round.method import PricedRound, optimise_round
from alloc.topology import Topology

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

NODES = 20
"""Nodes of a tree. A count, so that equal inputs give equal choices on every machine.

Rounds of the rows of `benchmarks.online` need one; of 32 random ones with three scarce resources
the hardest needs 38, and with 20 ends 0.46 % from its bound. The first node takes most of the time.
"""
_SLACK = 1e-9
"""Rounding of sums of shares: a choice that fits up to this much fits."""


@dataclass(frozen=True)
class ProvedChoice:
    """A choice, its value, and what no choice can exceed.

    Parameters
    ----------
    column
        Column of each job, -1 for none, shape (J,).
    value
        Sum of the scores.
    bound
        Upper bound on the sum of the scores of any choice that fits.
    solved
        Whether the choice that was given was not good enough, and HiGHS was asked.
    """

    column: Index
    value: float
    bound: float
    solved: bool


def prove_choice(
    topology: Topology,
    score: Array,
    share: Array,
    free: Array,
    column: Index,
    *,
    gap: float,
    nodes: int = NODES,
) -> ProvedChoice:
    """Prove a choice of one configuration a job within a relative gap, or solve for a better one.

    The bound is weak duality's, at prices found by cutting planes; only where the choice is farther
    from it than the gap is the integer program solved.

    Parameters
    ----------
    topology
        The cluster.
    score
        Score of each job in each column, shape (J, C); columns of score 0 or less are not used.
    share
        What each takes of the whole of each resource, shape (J, C, R).
    free
        What is free of each resource, shape (R,).
    column
        The choice: column of each job, -1 for none, shape (J,). It must fit.
    gap
        Relative gap that is good enough, more than 0.
    nodes
        Most nodes of each integer program, 1 or more.
    """
    jobs, columns = np.nonzero(score > 0)
    runs = np.flatnonzero(column >= 0)
    value = float(score[runs, column[runs]].sum())
    if not len(jobs):
        return ProvedChoice(column, value, value, False)
    unit = float(score.max())
    data = _round(topology, score / unit, share, free, jobs, columns)
    priced = PricedRound(data)
    use = data.use
    limits = np.full(len(free), 1e-9)
    for r in np.flatnonzero((use > 0).any(axis=0)):
        touching = use[:, r] > 0
        limits[r] = (data.utility[touching] / use[touching, r]).max()
    bound = minimise_dual(priced.dual, limits).value * unit
    if bound - value <= gap * bound:
        return ProvedChoice(column, value, bound, False)
    settings = Settings(math.inf, nodes=nodes)
    answer = optimise_round(data, gap=gap, settings=settings, known=value / unit)
    bound = min(bound, answer.bound * unit)
    if answer.value * unit <= value:
        return ProvedChoice(column, value, bound, True)
    chosen = np.flatnonzero(np.rint(answer.x) > 0)
    found = np.full(len(column), -1, dtype=np.int64)
    found[jobs[chosen]] = columns[chosen]
    return ProvedChoice(found, answer.value * unit, bound, True)


def _round(
    topology: Topology, score: Array, share: Array, free: Array, jobs: Index, columns: Index
) -> RoundData:
    """Return the round as F1 states it, with every job a class of its own."""
    resources = len(free)
    width = np.bincount(jobs, minlength=len(score))
    return RoundData(
        topology=topology,
        jobs=(),
        members=tuple((j,) for j in range(len(score))),
        count=np.ones(len(score), dtype=np.int64),
        first=np.concatenate([[0], np.cumsum(width)]).astype(np.int64),
        configuration=columns,
        utility=score[jobs, columns],
        use=share[jobs, columns],
        rows=CapacityRows(
            names=tuple(f"resource {r}" for r in range(resources)),
            capacity=free + _SLACK,
            resource=tuple(range(resources)),
            gpu_type=(None,) * resources,
            tenant=(None,) * resources,
        ),
    )
