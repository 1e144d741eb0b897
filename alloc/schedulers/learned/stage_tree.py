"""A decision tree in place of the network of ``stage-graph/1``: what Decima does, in words.

The tree looks at one way to go on at a time, at twelve numbers with names, and gives it a score;
the best is taken. `alloc.learning.decima.distilling` grows it from the choices of a network.

References
----------
Hu et al., "Interpretable schedulers", 2024, arXiv:2405.19131: a decision tree distilled from
Decima, which does about as well. Features, growing and the score of ways are ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.documents.files import read_bytes, write_text
from alloc.documents.parsing import parse_json
from alloc.errors import InstanceError, nearest
from alloc.schedulers.learned.stage_graph import (
    SCORE,
    StageGraphDecider,
    StageGraphParameters,
)
from alloc.schedulers.learned.stage_graph_features import (
    JOB_FEATURES,
    JOBS,
    STAGE_FEATURES,
    STAGE_OF,
    STAGES,
    STAGES_OF,
    WAY_FEATURES,
    WAYS,
)

COLUMNS = (
    "jobs before",
    "stages before",
    "GPUs",
    "of free",
    "time",
    "slower",
    "thrift",
    "next end",
    "ready",
    "left",
    "weight",
    "waits",
)
"""What the tree looks at.

``jobs before``: jobs that have a stage to start and less work left for their weight. ``stages
before``: stages of the job to start that have a longer path. ``GPUs`` and ``of free``: GPUs that
the way takes, of the cluster and of the free ones, 0 to 1. ``time``: time that the stage then
takes, over the mean GPU time that stages in the system still take. ``slower``: that time over the
time on the fastest configuration, 1 or more. ``thrift``: rate per GPU over the best of its
configurations, 0 to 1. ``next end``: time to the next end of a stage, as ``time``. ``ready``:
stages to start. ``left`` and ``weight``: work left and weight of the job over the means. ``waits``:
1 for waiting, 0 for a start. Of waiting, all that speaks of a stage or job is 0."""

TREE = Path(__file__).parent / "policies" / "decima-tree.json"
"""The tree that alloc ships."""

_TIE = 1e-6
"""Of two ways with one score the job, then the stage, then the speed decides, and all ways together
by less than the scores of two leaves differ, which have four decimals."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Leaf:
    """The end of a branch: ways that come here have this score."""

    score: float


@dataclass(frozen=True)
class Split:
    """A question: is a column at most so much?

    Parameters
    ----------
    column
        One of `COLUMNS`.
    at
        The threshold.
    below, above
        Where ways go that are at most at it, and the others.
    """

    column: str
    at: float
    below: Node
    above: Node


Node = Leaf | Split


def tree_columns(shown: Mapping[str, npt.NDArray[Any]]) -> Array:
    """Return `COLUMNS` of each way, shape (ways, columns).

    Parameters
    ----------
    shown
        What a network of ``stage-graph/1`` is shown.
    """
    stages, jobs = shown[STAGES].astype(float), shown[JOBS].astype(float)
    ways, stage_of = shown[WAYS].astype(float), shown[STAGE_OF]
    starts = stage_of.any(axis=1)
    stage = stage_of.argmax(axis=1)
    job = shown[STAGES_OF].argmax(axis=0)[stage] if len(stages) else stage
    left, weight = (
        np.exp(_column(jobs, JOB_FEATURES, "left")),
        _column(jobs, JOB_FEATURES, "weight"),
    )
    path = _column(stages, STAGE_FEATURES, "path")
    burden = left / np.exp(weight)
    able = np.unique(stage[starts])
    job_of_able = shown[STAGES_OF].argmax(axis=0)[able] if len(able) else able
    waiting = burden[np.unique(job_of_able)]
    rows = np.zeros((len(ways), len(COLUMNS)))
    rows[:, 0] = [(waiting < burden[j]).sum() for j in job]
    rows[:, 1] = [
        ((job_of_able == j) & (path[able] > path[s])).sum() for s, j in zip(stage, job, strict=True)
    ]
    rows[:, 2] = _column(ways, WAY_FEATURES, "gpus")
    rows[:, 3] = _column(ways, WAY_FEATURES, "of_free")
    rows[:, 4] = np.exp(_column(ways, WAY_FEATURES, "time"))
    rows[:, 5] = np.exp(_column(ways, WAY_FEATURES, "slower"))
    rows[:, 6] = np.exp(_column(ways, WAY_FEATURES, "thrift"))
    rows[:, 9] = left[job]
    rows[:, 10] = np.exp(weight[job])
    rows[~starts] = 0.0
    rows[:, 7] = np.expm1(_column(ways, WAY_FEATURES, "next_end"))
    rows[:, 8] = np.expm1(_column(ways, WAY_FEATURES, "others")) + 1.0
    rows[:, 11] = ~starts
    return rows


def _column(rows: Array, names: tuple[str, ...], name: str) -> Array:
    return rows[:, names.index(name)]


@dataclass(frozen=True)
class StageTree:
    """A tree that scores ways, as a network of ``stage-graph/1`` does.

    Parameters
    ----------
    root
        Its first question, or its only leaf.
    may_wait
        Whether it was grown for an agent that may wait.
    """

    root: Node
    may_wait: bool = True

    def __call__(self, shown: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return the scores of the ways; ties go to the job, then the stage that is before."""
        rows = tree_columns(shown)
        score = self.score(rows)
        # Fewer jobs before, then fewer stages before, then the less slow.
        order = np.lexsort((rows[:, 5], rows[:, 1], rows[:, 0]))
        score[order] -= _TIE * np.arange(len(score)) / max(len(score), 1)
        return {SCORE: score}

    def score(self, rows: Array) -> Array:
        """Return the score of rows of `COLUMNS`, shape (rows,)."""
        found = np.empty(len(rows))
        todo: list[tuple[Node, npt.NDArray[np.int64]]] = [(self.root, np.arange(len(rows)))]
        while todo:
            node, at = todo.pop()
            if isinstance(node, Leaf):
                found[at] = node.score
                continue
            below = rows[at, COLUMNS.index(node.column)] <= node.at
            todo += [(node.below, at[below]), (node.above, at[~below])]
        return found

    @property
    def text(self) -> str:
        """The tree for people, a line a question or leaf."""
        return "\n".join(_lines(self.root, ""))

    @property
    def num_leaves(self) -> int:
        """Number of its leaves."""
        return self.text.count("score ")


def _lines(node: Node, indent: str) -> Iterator[str]:
    if isinstance(node, Leaf):
        yield f"{indent}score {node.score:.2f}"
        return
    for branch, sign in ((node.below, "<="), (node.above, "> ")):
        head = f"{indent}{node.column} {sign} {node.at:.3g}"
        if isinstance(branch, Leaf):
            yield f"{head}: score {branch.score:.2f}"
        else:
            yield f"{head}:"
            yield from _lines(branch, f"{indent}  ")


def write_tree(tree: StageTree, path: str | PathLike[str]) -> None:
    """Write a tree as JSON.

    Parameters
    ----------
    tree
        The tree.
    path
        Where to.
    """
    plain = {"stage_tree_version": 1, "may_wait": tree.may_wait, "root": _plain(tree.root)}
    write_text(path, json.dumps(plain, indent=1) + "\n")


def read_tree(path: str | PathLike[str]) -> StageTree:
    """Read a tree.

    Raises
    ------
    InstanceError
        If it is not there, or is no tree.
    """
    raw = parse_json(read_bytes(path), str(path))
    if not isinstance(raw, dict) or raw.get("stage_tree_version") != 1 or "root" not in raw:
        raise InstanceError(
            f"{path}: is no tree for stages; give a file that `alloc train decima` wrote."
        )
    return StageTree(_node(raw["root"], str(path)), raw.get("may_wait") is True)


def _plain(node: Node) -> dict[str, Any]:
    if isinstance(node, Leaf):
        return {"score": node.score}
    below, above = _plain(node.below), _plain(node.above)
    return {"column": node.column, "at": node.at, "below": below, "above": above}


def _node(raw: Any, where: str, depth: int = 0) -> Node:
    if depth > 50:
        raise InstanceError(f"{where}: has questions more than 50 deep; grow a smaller tree.")
    if isinstance(raw, dict) and raw.keys() == {"score"} and _is_number(raw["score"]):
        return Leaf(float(raw["score"]))
    if not isinstance(raw, dict) or raw.keys() != {"column", "at", "below", "above"}:
        raise InstanceError(
            f"{where}: holds a node that is neither a score nor a question (column, at, below, "
            "above)."
        )
    if raw["column"] not in COLUMNS or not _is_number(raw["at"]):
        raise InstanceError(
            f'{where}: asks for the column "{raw["column"]}" at {raw["at"]}'
            f"{nearest(str(raw['column']), COLUMNS, ';')} known: {', '.join(COLUMNS)}; the "
            "threshold is a number."
        )
    below, above = (_node(raw[side], where, depth + 1) for side in ("below", "above"))
    return Split(raw["column"], float(raw["at"]), below, above)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class DecimaTree(StageGraphDecider):
    """Start the stage, on the number of GPUs, that a decision tree scores best.

    The tree is distilled from the choices of `decima`; ``print(scheduler.tree.text)`` shows it.

    Parameters
    ----------
    tree
        File of another tree, which ``alloc train decima`` writes; null: the one of alloc.

    References
    ----------
    Hu et al., "Interpretable schedulers", 2024, arXiv:2405.19131.
    """

    def __init__(self, tree: str | None = None) -> None:
        self.tree = read_tree(TREE if tree is None else tree)
        super().__init__(
            self.tree, StageGraphParameters(may_wait=self.tree.may_wait), "decima-tree"
        )
