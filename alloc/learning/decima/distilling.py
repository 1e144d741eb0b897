"""From a network over graphs of stages to a tree that people can read.

The tree answers for the network in the states that the tree itself comes to, again and again
(DAgger), so that it learns what to do after its own mistakes.

References
----------
Breiman, Friedman, Olshen, Stone, "Classification and regression trees", 1984 (splits that lower the
squared error most). Ross, Gordon, Bagnell, AISTATS 2011 (DAgger). Hu et al., 2024, arXiv:2405.19131
(a tree distilled from Decima).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.instances.learning_worlds import TRAINING_SEEDS
from alloc.learning.decima.rollout import Played, batch_of, play
from alloc.learning.decima.trainer import draw_jobs
from alloc.learning.pytorch import nn, torch
from alloc.learning.training import single_thread, step_rng
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.stage_graph import SCORE, StageGraphParameters
from alloc.schedulers.learned.stage_graph_features import Tensors
from alloc.schedulers.learned.stage_tree import (
    COLUMNS,
    Leaf,
    Node,
    Split,
    StageTree,
    tree_columns,
)

Array = npt.NDArray[np.float64]

WORST = -4.0
"""Scores are cut off so far below the best: how bad a bad way is is nothing to learn."""
_FEWEST = 30
"""Ways in a leaf at least: of fewer the mean says little."""
_LABEL_BATCH = 256
"""Questions put to the network at once: each takes the room of the largest among them."""


@dataclass(frozen=True)
class Growing:
    """How a tree is grown.

    Parameters
    ----------
    leaves
        Most leaves.
    rounds
        Rounds of play; in the first the network plays, then the tree of the round before.
    instances
        Instances of a round.
    """

    leaves: int = 16
    rounds: int = 4
    instances: int = 12


def grow_tree(rows: Array, target: Array, leaves: int) -> Node:
    """Return the tree that splits where the squared error falls most, up to so many leaves.

    Parameters
    ----------
    rows
        What it looks at, shape (ways, `COLUMNS`).
    target
        What it answers, shape (ways,).
    leaves
        Most leaves, 1 or more.
    """
    # The open leaf whose split gains most comes first; the count breaks ties.
    cuts: list[tuple[float, int, npt.NDArray[np.int64], tuple[int, float]]] = []
    children: dict[int, tuple[int, float, int, int]] = {}
    members = {0: np.arange(len(target))}

    def consider(node: int) -> None:
        gain, column, at = _best_cut(rows[members[node]], target[members[node]])
        if gain > 0:
            heapq.heappush(cuts, (-gain, node, members[node], (column, at)))

    consider(0)
    while cuts and len(members) - len(children) < leaves:
        _, node, at_node, (column, at) = heapq.heappop(cuts)
        below = rows[at_node, column] <= at
        first = len(members)
        members[first], members[first + 1] = at_node[below], at_node[~below]
        children[node] = (column, at, first, first + 1)
        consider(first)
        consider(first + 1)

    def build(node: int) -> Node:
        if node not in children:
            return Leaf(round(float(target[members[node]].mean()), 4))
        column, at, below, above = children[node]
        return Split(COLUMNS[column], at, build(below), build(above))

    return build(0)


def _best_cut(rows: Array, target: Array) -> tuple[float, int, float]:
    """Return by how much the best cut lowers the squared error, its column and its threshold."""
    count = len(target)
    best = (0.0, 0, 0.0)
    if count < 2 * _FEWEST:
        return best
    total = target.sum()
    sizes = np.arange(1, count)
    for column in range(rows.shape[1]):
        order = np.argsort(rows[:, column], kind="stable")
        values, sums = rows[order, column], np.cumsum(target[order])[:-1]
        gain = sums**2 / sizes + (total - sums) ** 2 / (count - sizes) - total**2 / count
        open_ = (values[1:] > values[:-1]) & (sizes >= _FEWEST) & (count - sizes >= _FEWEST)
        gain[~open_] = -np.inf
        k = int(gain.argmax())
        if gain[k] > best[0] * (1 + 1e-9) + 1e-12:
            best = (float(gain[k]), column, _between(float(values[k]), float(values[k + 1])))
    return best


def _between(low: float, high: float) -> float:
    """Return a number with few digits from `low` to below `high`."""
    middle = (low + high) / 2
    for digits in range(2, 17):
        found = float(f"{middle:.{digits}g}")
        if low <= found < high:
            return found
    return low


def distil(network: nn.Module, *, may_wait: bool, growing: Growing, seed: int = 0) -> StageTree:
    """Return a tree that chooses as a network does.

    Parameters
    ----------
    network
        A network of ``stage-graph/1``.
    may_wait
        Whether it may wait.
    growing
        How the tree is grown.
    seed
        Draws the instances.
    """
    parameters = StageGraphParameters(may_wait=may_wait)
    tree: StageTree | None = None
    rows: list[Array] = []
    targets: list[Array] = []
    with single_thread():
        for k in range(growing.rounds):
            rng = step_rng(seed, 2, k)
            drawn = [
                draw_jobs(rng, TRAINING_SEEDS[int(rng.integers(len(TRAINING_SEEDS)))])
                for _ in range(growing.instances)
            ]
            for episode in _played(network if tree is None else tree, drawn, parameters):
                for shown, score in zip(
                    episode.shown, scores_of(network, episode.shown), strict=True
                ):
                    if len(score) > 1:
                        rows.append(tree_columns(shown))
                        targets.append(np.maximum(score - score.max(), WORST))
            root = grow_tree(np.concatenate(rows), np.concatenate(targets), growing.leaves)
            tree = StageTree(root, may_wait)
    assert tree is not None
    return tree


def _played(
    chooser: nn.Module | StageTree, instances: Sequence[Instance], parameters: StageGraphParameters
) -> list[Played]:
    def choose(shown: Sequence[Tensors]) -> list[int]:
        if isinstance(chooser, StageTree):
            return [int(chooser(one)[SCORE].argmax()) for one in shown]
        return [int(score.argmax()) for score in scores_of(chooser, shown)]

    return play(instances, choose, parameters)


def scores_of(network: nn.Module, shown: Sequence[Tensors]) -> list[Array]:
    """Return the scores that a network gives the ways of some questions.

    Parameters
    ----------
    network
        A network of ``stage-graph/1``.
    shown
        The questions.
    """
    found: list[Array] = []
    for start in range(0, len(shown), _LABEL_BATCH):
        part = shown[start : start + _LABEL_BATCH]
        inputs, _ = batch_of(part)
        with torch.no_grad():
            scores = network(*inputs).double().numpy()
        found += [row[: len(one["ways"])] for row, one in zip(scores, part, strict=True)]
    return found
