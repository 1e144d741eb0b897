"""Parallelism of one large training job: who talks to whom in a step, and how much.

A job with tensor degree T, pipeline degree P and data degree D has T P D ranks. Rank numbers run
through tensor ranks first, then data, then pipeline stages, as Megatron-LM numbers them:
``rank = t + T (d + D p)``. Expert groups are runs of consecutive data ranks.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest
from alloc.units import require_count, require_non_negative, require_positive

GroupKind = Literal["tensor", "expert", "data", "pipeline"]
GROUP_KINDS: tuple[GroupKind, ...] = get_args(GroupKind)
"""The kinds of groups of ranks, in the order of every table."""

Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Parallelism:
    """How a job is split, and the bytes of each kind of traffic.

    Parameters
    ----------
    tensor, pipeline, data
        Degrees; their product is the number of ranks.
    expert
        Degree of expert parallelism: it divides `data`.
    tensor_bytes
        Bytes that a tensor group all-reduces in one operation.
    tensor_operations
        Such operations of a group in a step.
    data_bytes
        Bytes of gradients that a data group all-reduces in one operation.
    data_operations
        Such operations of a group in a step, usually 1.
    expert_bytes
        Bytes that a rank of an expert group sends in one all-to-all, its own share included.
    expert_operations
        Such operations of a group in a step.
    pipeline_bytes
        Bytes that a rank sends to the same rank of the next stage for one micro-batch; as much
        comes back with the gradients.
    micro_batches
        Micro-batches of a step that pass through the pipeline.
    data_hidden
        Share of the data groups' time that passes behind the backward pass and costs the step
        nothing, from 0 to 1.

    Examples
    --------
    >>> job = Parallelism(tensor=2, pipeline=2, data=2)
    >>> job.num_ranks, job.groups("data").tolist()
    (8, [[0, 2], [1, 3], [4, 6], [5, 7]])
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1
    tensor_bytes: float = 0.0
    tensor_operations: int = 0
    data_bytes: float = 0.0
    data_operations: int = 1
    expert_bytes: float = 0.0
    expert_operations: int = 0
    pipeline_bytes: float = 0.0
    micro_batches: int = 1
    data_hidden: float = 0.0

    def __post_init__(self) -> None:
        for field in ("tensor", "pipeline", "data", "expert", "micro_batches"):
            _require_whole(getattr(self, field), field, least=1)
        for kind in ("tensor", "data", "expert"):
            _require_whole(getattr(self, f"{kind}_operations"), f"{kind}_operations", least=0)
        for kind in GROUP_KINDS:
            require_non_negative(getattr(self, f"{kind}_bytes"), "parallelism", f"{kind}_bytes")
        require_non_negative(self.data_hidden, "parallelism", "data_hidden")
        if self.data_hidden > 1:
            raise InstanceError(
                f"parallelism: data_hidden is {self.data_hidden:g}; it is a share, from 0 to 1."
            )
        if self.data % self.expert:
            raise InstanceError(
                f"parallelism: expert degree {self.expert} does not divide data degree "
                f"{self.data}; experts are spread over a data group, so choose a divisor."
            )
        require_count(self.num_ranks, "parallelism", "tensor x pipeline x data", least=1)

    @property
    def num_ranks(self) -> int:
        """Number of ranks, one GPU each."""
        return self.tensor * self.pipeline * self.data

    @property
    def data_exposed(self) -> float:
        """All-reduces of a data group in a step, counted as far as the step waits for them."""
        return self.data_operations * (1 - self.data_hidden)

    def size(self, kind: GroupKind) -> int:
        """Return the number of ranks in a group."""
        return int(getattr(self, kind))

    def groups(self, kind: GroupKind) -> Ranks:
        """Return the ranks of each group, shape (groups, size); a pipeline in stage order.

        Raises
        ------
        InstanceError
            If there is no such kind.
        """
        grid = np.arange(self.num_ranks).reshape(self.pipeline, self.data, self.tensor)
        match kind:
            case "tensor":
                return grid.reshape(-1, self.tensor)
            case "data":
                return grid.transpose(0, 2, 1).reshape(-1, self.data)
            case "expert":
                return grid.transpose(0, 2, 1).reshape(-1, self.expert)
            case "pipeline":
                return grid.reshape(self.pipeline, -1).T.copy()
        raise InstanceError(
            f'parallelism: no groups of kind "{kind}"{nearest(str(kind), GROUP_KINDS, ";")} '
            f"known: {', '.join(GROUP_KINDS)}."
        )

    def messages(self) -> tuple[Ranks, Ranks, npt.NDArray[np.float64]]:
        """Return who sends to whom in a step, and how many bytes.

        All-reduces go around rings in rank order, ``2 (k - 1) / k`` of the bytes over each edge;
        all-to-alls send ``1 / k`` to every rank of the group; pipelines send every micro-batch
        forwards and its gradients back. A pair may come several times.
        """
        parts: list[tuple[Ranks, Ranks, float]] = []
        for kind in ("tensor", "data"):
            groups, k = self.groups(kind), self.size(kind)
            if k > 1:
                edge = 2 * (k - 1) / k * getattr(self, f"{kind}_bytes")
                times = getattr(self, f"{kind}_operations")
                parts.append((groups, np.roll(groups, -1, axis=1), edge * times))
        experts, k = self.groups("expert"), self.expert
        share = self.expert_bytes / k * self.expert_operations
        parts += [(experts, np.roll(experts, -shift, axis=1), share) for shift in range(1, k)]
        chains, sent = self.groups("pipeline"), self.pipeline_bytes * self.micro_batches
        parts += [(chains[:, :-1], chains[:, 1:], sent), (chains[:, 1:], chains[:, :-1], sent)]
        return (
            np.concatenate([a.reshape(-1) for a, _, _ in parts]),
            np.concatenate([b.reshape(-1) for _, b, _ in parts]),
            np.concatenate([np.full(a.size, each) for a, _, each in parts]),
        )

    def traffic(self) -> npt.NDArray[np.float64]:
        """Return the bytes that each rank sends to each other in a step, shape (ranks, ranks)."""
        sent = np.zeros((self.num_ranks, self.num_ranks))
        senders, receivers, sizes = self.messages()
        np.add.at(sent, (senders, receivers), sizes)
        return sent

    def replace(self, **changes: Any) -> Parallelism:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def transformer_parallelism(
    *,
    layers: int,
    hidden: int,
    sequence: int,
    tensor: int = 1,
    pipeline: int = 1,
    data: int = 1,
    expert: int = 1,
    micro_batch: int = 1,
    micro_batches: int = 1,
    vocabulary: int = 0,
    experts_per_token: int = 0,
    bytes_per_element: float = 2.0,
    bytes_per_gradient: float = 2.0,
    data_hidden: float = 0.0,
) -> Parallelism:
    r"""Return the parallelism of a transformer, with the traffic that its size makes.

    Parameters
    ----------
    layers, hidden, sequence
        Layers l, hidden size h and sequence length s.
    tensor, pipeline, data, expert
        Degrees T, P, D and E; P divides the layers.
    micro_batch
        Sequences b in a micro-batch.
    micro_batches
        Micro-batches of each pipeline in a step.
    vocabulary
        Tokens V in the vocabulary; their embeddings add to the gradients of the first stage.
    experts_per_token
        Experts k that each token goes to; 0 for a dense model. Every layer then has experts.
    bytes_per_element, bytes_per_gradient
        Of activations and gradients, bytes.
    data_hidden
        Share of the data groups' time that passes behind the backward pass.

    Notes
    -----
    In elements:

    - Tensor: b s h are all-reduced twice in the forward and twice in the backward pass of every
      layer and micro-batch (Narayanan et al. 2021, section 3.2; Shoeybi et al. 2019).
    - Pipeline: b s h go to the next stage for every micro-batch (section 3.2), of which each of
      the T ranks sends its part and gathers it there (section 4.1).
    - Data: the gradients of a rank's parameters, (12 l h^2 + 13 l h) / (T P) of the layers and
      (V + s) h / T of the embeddings (equation 2).
    - Expert: k b s h are dispatched and k b s h combined, in both passes of every layer and
      micro-batch (Lepikhin et al. 2021; Rajbhandari et al. 2022). Experts' own parameters are
      spread over the ranks of a group, not added to the gradients.

    References
    ----------
    Narayanan et al. Efficient large-scale language model training on GPU clusters using
    Megatron-LM. SC 2021. doi:10.1145/3458817.3476209.
    Shoeybi et al. Megatron-LM: training multi-billion parameter language models using model
    parallelism. arXiv:1909.08053, 2019.
    Lepikhin et al. GShard: scaling giant models with conditional computation and automatic
    sharding. ICLR 2021.
    Rajbhandari et al. DeepSpeed-MoE. ICML 2022.

    Raises
    ------
    InstanceError
        If a number is out of range, or the stages cannot hold equally many layers.

    Examples
    --------
    >>> job = transformer_parallelism(
    ...     layers=96, hidden=12288, sequence=2048, tensor=8, pipeline=8, data=8, micro_batches=16
    ... )
    >>> job.num_ranks, job.tensor_bytes / 2**20, job.tensor_operations
    (512, 48.0, 768)
    """
    for field, value in (
        ("layers", layers),
        ("hidden", hidden),
        ("sequence", sequence),
        ("micro_batch", micro_batch),
    ):
        _require_whole(value, field, least=1)
    for field, value in (("vocabulary", vocabulary), ("experts_per_token", experts_per_token)):
        _require_whole(value, field, least=0)
    for field, size in (
        ("bytes_per_element", bytes_per_element),
        ("bytes_per_gradient", bytes_per_gradient),
    ):
        require_positive(size, "parallelism", field)
    _require_whole(pipeline, "pipeline", least=1)
    _require_whole(tensor, "tensor", least=1)
    if layers % pipeline:
        raise InstanceError(
            f"parallelism: {layers} layers do not make {pipeline} equal stages; choose a pipeline "
            "degree that divides the layers."
        )
    activation = float(micro_batch) * sequence * hidden * bytes_per_element
    passes = layers // pipeline * micro_batches
    weights = (12.0 * hidden**2 + 13.0 * hidden) * layers / (tensor * pipeline)
    weights += float(vocabulary + sequence) * hidden / tensor if vocabulary else 0.0
    return Parallelism(
        tensor,
        pipeline,
        data,
        expert,
        tensor_bytes=activation,
        tensor_operations=4 * passes,
        data_bytes=weights * bytes_per_gradient,
        data_operations=1,
        expert_bytes=activation * experts_per_token,
        expert_operations=4 * passes if experts_per_token else 0,
        pipeline_bytes=activation / tensor,
        micro_batches=micro_batches,
        data_hidden=data_hidden,
    )


def _require_whole(value: object, field: str, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InstanceError(f"parallelism: {field} is {value!r}; give a whole number.")
    require_count(int(value), "parallelism", field, least=least)
