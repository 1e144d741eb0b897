"""Pipelines of large language models: layers that cost what the published formulas say.

For s tokens of a sequence, b sequences of a micro-batch, hidden size h and vocabulary V:

- forward FLOPs of a transformer layer 24 b s h^2 + 4 b s^2 h, of the output layer 2 b s h V; a
  backward pass takes twice as many (D. Narayanan et al., "Efficient large-scale language model
  training on GPU clusters using Megatron-LM", SC 2021, appendix; doi:10.1145/3458817.3476209);
- 12 h^2 parameters of a layer, V h of the embedding and of the output (same source);
- 4 bytes of each parameter for weights and gradients and 12 for the optimiser, which the data ranks
  share (S. Rajbhandari et al., "ZeRO", SC 2020, section 3.1 and stage 1 of 5);
- 34 s b h bytes of activations of a layer, attention recomputed (V. Korthikanti et al., "Reducing
  activation recomputation in large transformer models", MLSys 2023, section 4, equation 4 at one
  tensor rank), 2 s b h bytes from layer to layer.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from alloc.errors import InstanceError
from alloc.problems.pipeline.passes import PassOrder
from alloc.problems.pipeline.problem import Device, Layer, PipelineProblem
from alloc.units import require_count

_MIB = 1024**2
"""Bytes in a MiB."""
_UTILISATION = 0.4
"""Share of the peak that training reaches: 38 to 43 % of Llama 3 405B (Llama Team,
arXiv:2407.21783, table 4)."""
_H100_FLOPS, _A100_FLOPS = 989e12, 312e12
"""Peak of dense BF16 operations a second (data sheets of NVIDIA)."""
_GPU_MIB = 80 * 1024
"""Memory of either GPU, MiB."""
_NETWORK_GB_PER_S = 50.0
"""One 400 Gbit/s port a GPU."""


class _Model(NamedTuple):
    """Shape of a language model: transformer layers, hidden size, vocabulary, sequence length."""

    num_layers: int
    hidden: int
    vocabulary: int
    sequence: int


MODELS = {
    "gpt-1b": _Model(24, 2048, 50_257, 2048),
    "llama-8b": _Model(32, 4096, 128_256, 8192),
    "gpt-20b": _Model(44, 6144, 50_257, 2048),
    "gpt-175b": _Model(96, 12_288, 50_257, 2048),
    "llama-405b": _Model(126, 16_384, 128_256, 8192),
}
"""Published shapes: GPT-3 XL and 175B (T. Brown et al., NeurIPS 2020, table 2.1), GPT-NeoX-20B
(S. Black et al., 2022), Llama 3 8B and 405B (arXiv:2407.21783, table 3)."""


def transformer_pipeline(
    model: str = "gpt-175b",
    num_devices: int = 8,
    num_micro_batches: int = 32,
    order: PassOrder = "1f1b",
    chunks: int = 1,
    tensor: int = 8,
    data: int = 1,
    slow_devices: int = 0,
    seed: int = 0,
) -> PipelineProblem:
    """Return the pipeline of a language model; each micro-batch is one sequence.

    Parameters
    ----------
    model
        One of `MODELS`.
    num_devices
        Devices of the row, each a group of `tensor` H100s.
    num_micro_batches
        Micro-batches of a step.
    order, chunks
        As in `alloc.problems.pipeline.problem.PipelineProblem`.
    tensor
        GPUs of a device; they share its layers evenly and count as one with their speed, memory
        and bandwidth together.
    data
        Data ranks that share the optimiser's state.
    slow_devices
        How many devices are of A100s instead.
    seed
        Which ones they are.

    Raises
    ------
    InstanceError
        If the model is unknown, or a number makes no sense.
    """
    if model not in MODELS:
        raise InstanceError(f'unknown model "{model}"; known: {", ".join(MODELS)}.')
    for count, field in ((num_devices, "num_devices"), (tensor, "tensor"), (data, "data")):
        require_count(count, "transformer_pipeline", field, least=1)
    require_count(slow_devices, "transformer_pipeline", "slow_devices")
    if slow_devices > num_devices:
        raise InstanceError(
            f"transformer_pipeline: slow_devices is {slow_devices}, of {num_devices} devices."
        )
    shape = MODELS[model]
    slow = set(np.random.default_rng(seed).random(num_devices).argsort()[:slow_devices].tolist())
    devices = tuple(
        Device(
            tensor * (_A100_FLOPS / _H100_FLOPS if k in slow else 1.0),
            tensor * _GPU_MIB,
            tensor * _NETWORK_GB_PER_S,
        )
        for k in range(num_devices)
    )
    return PipelineProblem(
        f"{model}-{num_devices}x{tensor}-{order}",
        _layers(shape, 4 + 12 / data),
        devices,
        num_micro_batches,
        order,
        chunks,
    )


def _layers(shape: _Model, bytes_per_parameter: float) -> tuple[Layer, ...]:
    """Return embedding, transformer layers and output layer at the speed of one H100."""
    s, h, v = shape.sequence, shape.hidden, shape.vocabulary
    states_mib = math.ceil(2 * s * h / _MIB)

    def layer(flops: float, parameters: float, activations: float) -> Layer:
        forward_s = flops / (_UTILISATION * _H100_FLOPS)
        return Layer(
            forward_s,
            2 * forward_s,
            math.ceil(bytes_per_parameter * parameters / _MIB),
            math.ceil(activations / _MIB),
            states_mib,
        )

    # The embedding looks a row up and adds positions: some ten operations a number.
    embedding = layer(10 * s * h, v * h, 2 * s * h)
    inner = layer(24 * s * h**2 + 4 * s**2 * h, 12 * h**2, 34 * s * h)
    # Logits in four bytes, and the hidden states.
    output = layer(2 * s * h * v, v * h, 4 * s * v + 2 * s * h)
    return (embedding, *[inner] * shape.num_layers, output)
