r"""Rank mappings: which GPU runs each rank, and the communication time of a step that follows.

`step_time` is the one place where a mapping is valued: solvers, checks and reports call it.

A message of S bytes takes alpha + S / beta (Hockney). All groups of a kind communicate at once and
a step waits for the slowest, so a kind takes as long as its slowest group; kinds follow each other.

In a tree of domains a group of k ranks is described by its *blocks*: c_l is the greatest number
that divides the group's ranks in each domain of level l that holds any, c = k at the outermost
level and 1 at single GPUs. Where c_l = k / n_l, the group spans n_l domains of level l evenly. A
collective can run over c_l channels side by side out of every domain of level l, each from a GPU of
its own, as NCCL opens one ring a NIC. The levels crossed are those l with c_{l+1} < k, and with m
the outermost of them and B = max over crossed l of 1 / (c_{l+1} beta_l):

- ring all-reduce:  2 (k - 1) (alpha_m + S B / k)
- tree all-reduce:  2 ceil(log2 k) alpha_m + 2 S B   (two trees, each for half of the data)
- all-to-all, in rounds of pairs:  sum_l (c_l - c_{l+1}) (alpha_l + S / (k beta_l))
- pipeline, boundary b between two stages:  t_b = max over chains of alpha + S / beta; filling and
  draining pass each boundary once in both directions, the other M - 1 micro-batches come at the
  pace of the slowest:  2 sum_b t_b + 2 (M - 1) max_b t_b

In a graph of pairs there is one channel, in rank order: the ring takes 2 (k - 1) times its slowest
edge, rank r of the tree hangs on rank (r - 1) // 2, and round j of the all-to-all pairs r with
r + j. On one level with c = 1 both agree.

References
----------
Hockney. The communication challenge for MPP. Parallel Computing 20(3), 1994.
Patarasuk, Yuan. Bandwidth optimal all-reduce algorithms for clusters of workstations. JPDC 69(2),
2009. doi:10.1016/j.jpdc.2008.09.002 (ring).
Sanders, Speck, Träff. Two-tree algorithms for full bandwidth broadcast, reduction and scan.
Parallel Computing 35(12), 2009. doi:10.1016/j.parco.2009.09.001 (trees).
Thakur, Rabenseifner, Gropp. Optimization of collective communication operations in MPICH. IJHPCA
19(1), 2005. doi:10.1177/1094342005051521 (pairwise all-to-all, costs).
Narayanan et al. Efficient large-scale language model training on GPU clusters using Megatron-LM.
SC 2021. doi:10.1145/3458817.3476209 (one forward, one backward).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest
from alloc.fingerprint import digest
from alloc.problems import Problem
from alloc.tabular import Tabular
from alloc.topology.communication import GB, CommunicationGraph, CommunicationTree, Fabric
from alloc.workload.parallelism import Parallelism

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_MAX_S = 1e300
"""Longest time that messages may add up to: numbers end at 1.8e308, and methods add and scale times
before they compare them."""

Algorithm = Literal["auto", "ring", "tree"]
"""How all-reduces run; ``auto`` takes the faster one for each group, as NCCL does."""


@dataclass(frozen=True)
class StepTime:
    """The predicted communication time of one training step, by kind of group.

    Parameters
    ----------
    tensor_s, expert_s, data_s, pipeline_s
        Seconds in a step, none hidden behind computation but what the job says of its gradients.
    """

    tensor_s: float
    expert_s: float
    data_s: float
    pipeline_s: float

    @property
    def step_s(self) -> float:
        """All kinds together, seconds."""
        return self.tensor_s + self.expert_s + self.data_s + self.pipeline_s


@dataclass(frozen=True)
class RankMapping(Tabular):
    """Which GPU runs each rank.

    Parameters
    ----------
    gpus
        Id of the GPU of each rank, in the order of rank numbers.
    time
        The predicted communication time of a step.
    transfer_s
        Seconds that all bytes of a step take, one after the other, each at the bandwidth of its
        pair: the traffic's total load on the links.
    """

    gpus: tuple[str, ...]
    time: StepTime
    transfer_s: float


def value_mapping(
    parallelism: Parallelism, fabric: Fabric, places: npt.ArrayLike, algorithm: Algorithm = "auto"
) -> RankMapping:
    """Return the mapping that puts each rank on a GPU, with its predicted times.

    Parameters
    ----------
    parallelism, fabric
        The job and its GPUs.
    places
        Position in ``fabric.gpus`` of the GPU of each rank, shape (ranks,).
    algorithm
        How all-reduces run.

    Raises
    ------
    InstanceError
        If two ranks share a GPU or one has none.
    """
    places = require_places(parallelism, fabric, places)
    return RankMapping(
        tuple(fabric.gpus[g] for g in places.tolist()),
        step_time(parallelism, fabric, places, algorithm),
        transfer_time(parallelism, fabric, places),
    )


def require_places(parallelism: Parallelism, fabric: Fabric, places: npt.ArrayLike) -> Indices:
    """Return the places as whole numbers, refusing what is not a mapping of all ranks.

    Parameters
    ----------
    parallelism
        What the ranks do and send.
    fabric
        The GPUs, and how fast they reach each other.
    places
        Position of each rank's GPU in the fabric, shape (ranks,).
    """
    array = np.asarray(places)
    if array.shape != (parallelism.num_ranks,) or array.dtype.kind not in "iu":
        raise InstanceError(
            f"rank mapping: has shape {array.shape}; expected the position of a GPU for each of "
            f"{parallelism.num_ranks} ranks."
        )
    if array.min() < 0 or array.max() >= fabric.num_gpus:
        raise InstanceError(
            f"rank mapping: names GPU {array.min() if array.min() < 0 else array.max()}; there are "
            f"{fabric.num_gpus}, numbered from 0."
        )
    values, counts = np.unique(array, return_counts=True)
    if len(values) < len(array):
        shared = fabric.gpus[int(values[counts.argmax()])]
        raise InstanceError(
            f'rank mapping: puts several ranks on GPU "{shared}"; each rank needs its own.'
        )
    return array.astype(np.int64)


def step_time(
    parallelism: Parallelism, fabric: Fabric, places: Indices, algorithm: Algorithm = "auto"
) -> StepTime:
    """Return the predicted communication time of a step; see the module for the formulas.

    Parameters
    ----------
    parallelism
        What the ranks do and send.
    fabric
        The GPUs, and how fast they reach each other.
    places
        Position of each rank's GPU in the fabric, shape (ranks,).
    algorithm
        How all-reduces run: ``ring``, ``tree``, or ``auto`` for the faster one of each group.
    """
    require_algorithm(algorithm)
    p = parallelism
    groups = {kind: places[p.groups(kind)] for kind in ("tensor", "expert", "data", "pipeline")}
    if isinstance(fabric, CommunicationTree):
        tree = fabric
        chains = {k: block_chains(tree, groups[k]) for k in ("tensor", "expert", "data")}
        tensor = all_reduce_s(tree, chains["tensor"], p.tensor_bytes, algorithm)
        data = all_reduce_s(tree, chains["data"], p.data_bytes, algorithm)
        expert = all_to_all_s(tree, chains["expert"], p.expert_bytes)
    else:
        tensor = _graph_all_reduce(fabric, groups["tensor"], p.tensor_bytes, algorithm)
        data = _graph_all_reduce(fabric, groups["data"], p.data_bytes, algorithm)
        expert = _graph_all_to_all(fabric, groups["expert"], p.expert_bytes)
    boundaries = _boundaries(fabric, groups["pipeline"], p.pipeline_bytes)
    return StepTime(
        float(tensor.max()) * p.tensor_operations,
        float(expert.max()) * p.expert_operations,
        float(data.max()) * p.data_exposed,
        pipeline_s(boundaries, p.micro_batches),
    )


def transfer_time(parallelism: Parallelism, fabric: Fabric, places: Indices) -> float:
    """Return the seconds that all bytes of a step take one after the other.

    It is the cost of a quadratic assignment: traffic of the ranks times seconds per byte of the
    GPUs. Latency is not in it.

    Parameters
    ----------
    parallelism
        What the ranks do and send.
    fabric
        The GPUs, and how fast they reach each other.
    places
        Position of each rank's GPU in the fabric, shape (ranks,).
    """
    senders, receivers, sizes = parallelism.messages()
    a, b = places[senders], places[receivers]
    if isinstance(fabric, CommunicationTree):
        seconds = 1.0 / (fabric.bandwidth_gb_per_s[fabric.meeting_level(a, b)] * GB)
    else:
        seconds = fabric.seconds_per_byte[a, b]
    return float((sizes * seconds).sum())


def require_algorithm(algorithm: str) -> None:
    """Refuse unknown names of all-reduce algorithms."""
    known = get_args(Algorithm)
    if algorithm not in known:
        raise InstanceError(
            f'rank mapping: algorithm "{algorithm}" is unknown{nearest(algorithm, known, ";")} '
            f"known: {', '.join(known)}."
        )


def block_chains(tree: CommunicationTree, groups: Indices) -> Indices:
    """Return the blocks c of groups of GPUs, shape (groups, levels + 1), outermost first.

    Parameters
    ----------
    tree
        The fabric.
    groups
        Positions of GPUs in the tree, shape (groups, ranks of a group).
    """
    count, k = groups.shape
    chains = np.ones((count, len(tree.levels) + 1), dtype=np.int64)
    for level in range(len(tree.levels)):
        held = np.sort(tree.domains[groups, level], axis=1)
        starts = np.ones((count, k), dtype=bool)
        starts[:, 1:] = held[:, 1:] != held[:, :-1]
        # Where a domain's run starts; the differences, taken over the whole table, are run lengths.
        lengths = np.diff(np.append(np.flatnonzero(starts), count * k))
        first = np.concatenate([[0], np.cumsum(starts.sum(axis=1))[:-1]])
        chains[:, level] = np.gcd.reduceat(lengths, first)
    return chains


def all_reduce_s(
    tree: CommunicationTree, chains: Indices, size: float, algorithm: Algorithm
) -> Array:
    """Return the seconds of an all-reduce of `size` bytes, by blocks, shape (groups,).

    Parameters
    ----------
    tree
        The fabric.
    chains
        Blocks of the groups, as `block_chains` returns them.
    size
        Bytes, 0 or more.
    algorithm
        As in `step_time`.
    """
    k = chains[:, 0]
    crossed = chains[:, 1:] < k[:, None]
    per_byte = np.where(crossed, 1.0 / (chains[:, 1:] * tree.bandwidth_gb_per_s * GB), 0.0)
    slow = per_byte.max(axis=1)
    alpha = np.where(crossed, tree.latency_s, 0.0).max(axis=1)
    return _all_reduce(k, alpha, slow, slow, size, algorithm)


def _all_reduce(
    k: Indices, alpha: Array, ring_slow: Array, tree_slow: Array, size: float, algorithm: Algorithm
) -> Array:
    ring = 2 * (k - 1) * (alpha + size / k * ring_slow)
    tree = 2 * np.ceil(np.log2(k)) * alpha + 2 * size * tree_slow
    if algorithm == "auto":
        return np.asarray(np.minimum(ring, tree))
    return np.asarray(ring if algorithm == "ring" else np.where(k > 1, tree, 0.0))


def all_to_all_s(tree: CommunicationTree, chains: Indices, size: float) -> Array:
    """Return the seconds of an all-to-all of `size` bytes a rank, by blocks, shape (groups,).

    Parameters
    ----------
    tree
        The fabric.
    chains
        Blocks of the groups, as `block_chains` returns them.
    size
        Bytes of a rank, 0 or more.
    """
    rounds = chains[:, :-1] - chains[:, 1:]
    share = size / chains[:, :1]
    return np.asarray(
        (rounds * (tree.latency_s + share / (tree.bandwidth_gb_per_s * GB))).sum(axis=1)
    )


def pipeline_s(boundaries: Array, micro_batches: int) -> float:
    """Return the seconds of all transfers between stages, from those of one at each boundary.

    Parameters
    ----------
    boundaries
        Seconds of one transfer at each boundary between stages, shape (stages - 1,).
    micro_batches
        Micro-batches of a step, 1 or more.
    """
    if not boundaries.size:
        return 0.0
    return float(2 * boundaries.sum() + 2 * (micro_batches - 1) * boundaries.max())


def _boundaries(fabric: Fabric, chains: Indices, size: float) -> Array:
    a, b = chains[:, :-1], chains[:, 1:]
    if isinstance(fabric, CommunicationTree):
        level = fabric.meeting_level(a, b)
        seconds = fabric.latency_s[level] + size / (fabric.bandwidth_gb_per_s[level] * GB)
    else:
        seconds = _way(fabric, a, b, size)
    return np.asarray(seconds.max(axis=0))


def _longest_s(fabric: Fabric, job: Parallelism) -> float:
    """Return seconds that no mapping takes longer than, infinite or no number if they are none."""
    bytes_of = (job.tensor_bytes, job.data_bytes, job.expert_bytes, job.pipeline_bytes)
    sizes = [float(size) for size in bytes_of]
    operations = (job.tensor_operations, job.data_operations, job.expert_operations)
    # Each operation is at most two rounds of messages between all pairs, as is a micro-batch.
    rounds = 2.0 * job.num_ranks**2 * (sum(operations) + 2 * job.micro_batches)
    with np.errstate(over="ignore", invalid="ignore"):
        per_byte = float((1.0 / (fabric.bandwidth_gb_per_s * GB)).max())
        way = float(fabric.latency_s.max()) + max(1.0, *sizes) * per_byte
        return rounds * way if max(sizes) <= _MAX_S else math.inf


def _way(fabric: CommunicationGraph, a: Indices, b: Indices, size: float) -> Array:
    """Return the seconds of a message from each GPU to another."""
    return np.asarray(fabric.latency_s[a, b] + size * fabric.seconds_per_byte[a, b])


def _graph_all_reduce(
    fabric: CommunicationGraph, groups: Indices, size: float, algorithm: Algorithm
) -> Array:
    count, k = groups.shape
    if k == 1:
        return np.zeros(count)
    ring = 2 * (k - 1) * _way(fabric, groups, np.roll(groups, -1, axis=1), size / k).max(axis=1)
    if algorithm == "ring":
        return np.asarray(ring)
    child, parent = groups[:, 1:], groups[:, (np.arange(1, k) - 1) // 2]
    alpha = np.maximum(fabric.latency_s[child, parent], fabric.latency_s[parent, child])
    slow = np.maximum(
        fabric.seconds_per_byte[child, parent], fabric.seconds_per_byte[parent, child]
    )
    tree = 2 * np.ceil(np.log2(k)) * alpha.max(axis=1) + 2 * size * slow.max(axis=1)
    return np.asarray(tree if algorithm == "tree" else np.minimum(ring, tree))


def _graph_all_to_all(fabric: CommunicationGraph, groups: Indices, size: float) -> Array:
    count, k = groups.shape
    total = np.zeros(count)
    for shift in range(1, k):
        total += _way(fabric, groups, np.roll(groups, -shift, axis=1), size / k).max(axis=1)
    return total


@dataclass(frozen=True, eq=False)
class RankMappingProblem(Problem):
    """The ranks of a job, and the GPUs of its placement.

    Parameters
    ----------
    fabric
        What the GPUs are joined by, at least as many as ranks.
    parallelism
        The job.
    algorithm
        How all-reduces run.
    name
        For people.

    Raises
    ------
    InstanceError
        If there are fewer GPUs than ranks, or no such algorithm.
    """

    fabric: Fabric
    parallelism: Parallelism
    algorithm: Algorithm = "auto"
    name: str = "rank mapping"

    def __post_init__(self) -> None:
        require_algorithm(self.algorithm)
        if self.fabric.num_gpus < self.parallelism.num_ranks:
            raise InstanceError(
                f"{self.name}: the job has {self.parallelism.num_ranks} ranks and its placement "
                f"{self.fabric.num_gpus} GPUs; each rank needs one of its own."
            )
        if not _longest_s(self.fabric, self.parallelism) <= _MAX_S:
            raise InstanceError(
                f"{self.name}: its messages may take more than {_MAX_S:g} s by the latencies and "
                "bandwidths of its GPUs; give bytes, GB/s and seconds."
            )

    @property
    def objective(self) -> str:
        """``step`` on a tree, whose steps are predicted exactly, ``transfer`` on a graph."""
        return "step" if isinstance(self.fabric, CommunicationTree) else "transfer"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of name, fabric, job and algorithm."""
        fabric = self.fabric
        parts = (getattr(fabric, field.name) for field in fields(fabric))
        return digest(self.name, type(fabric).__name__, *parts, self.parallelism, self.algorithm)

    def places(self, mapping: RankMapping) -> Indices:
        """Return the position among the fabric's GPUs of the GPU of each rank, shape (ranks,)."""
        index = {gpu: g for g, gpu in enumerate(self.fabric.gpus)}
        return np.array([index[gpu] for gpu in mapping.gpus], dtype=np.int64)
