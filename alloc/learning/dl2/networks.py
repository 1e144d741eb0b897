"""DL2's networks: policy and value, and their fast twins in numpy.

A single small forward pass costs PyTorch three times what it costs numpy, and a training makes
nearly a million of them; so decisions are made by `DenseForward`, and PyTorch does the learning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from alloc.learning.pytorch import nn, torch

INIT_STD = 0.02
"""Standard deviation of the initial weights, drawn from a normal cut off at two deviations."""
SCALE_STD = 0.002
"""Standard deviation of the initial scales around 1."""
BATCH_NORM_EPSILON = 1e-5
"""What the released code's batch normalisation adds to its variance of 1, which never changes."""

Array = npt.NDArray[np.float32]


class ScaleShift(nn.Module):
    """A scale and a shift for each unit: batch normalisation that never saw a batch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the inputs, scaled and shifted."""
        return x * (self.scale / math.sqrt(1.0 + BATCH_NORM_EPSILON)) + self.shift


class DenseNetwork(nn.Module):
    """Dense ReLU layers, each with scale and shift if wanted, and a linear layer.

    Parameters
    ----------
    shape
        Shape of an observation, (rows, columns).
    hidden, outputs
        Widths of the hidden layers; actions of a policy, 1 for a value.
    scale_shift
        Whether `ScaleShift` follows each hidden layer.
    generator
        Draws the initial weights.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        hidden: Sequence[int],
        outputs: int,
        *,
        scale_shift: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Flatten()]
        width = shape[0] * shape[1]
        for units in hidden:
            layers += [nn.Linear(width, units), nn.ReLU()]
            if scale_shift:
                layers.append(ScaleShift(units))
            width = units
        layers.append(nn.Linear(width, outputs))
        self.layers = nn.Sequential(*layers)
        for layer in layers:
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(
                    layer.weight,
                    std=INIT_STD,
                    a=-2 * INIT_STD,
                    b=2 * INIT_STD,
                    generator=generator,
                )
                nn.init.zeros_(layer.bias)
            elif isinstance(layer, ScaleShift):
                nn.init.normal_(layer.scale, mean=1.0, std=SCALE_STD, generator=generator)

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        """Return the outputs, shape (batch, outputs), for observations (batch, rows, columns)."""
        return cast(torch.Tensor, self.layers(window))

    def folded(self) -> list[tuple[Array, Array]]:
        """Return weights (inputs, outputs) and biases, with scales and shifts folded in."""
        found: list[tuple[Array, Array]] = []
        scale: npt.NDArray[np.float64] | None = None
        shift: npt.NDArray[np.float64] | None = None
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                weight = layer.weight.detach().numpy().T.astype(np.float64)
                bias = layer.bias.detach().numpy().astype(np.float64)
                if scale is not None and shift is not None:
                    bias = bias + shift @ weight
                    weight = scale[:, None] * weight
                    scale = shift = None
                found.append(
                    (
                        np.ascontiguousarray(weight, dtype=np.float32),
                        bias.astype(np.float32),
                    )
                )
            elif isinstance(layer, ScaleShift):
                root = math.sqrt(1.0 + BATCH_NORM_EPSILON)
                scale = layer.scale.detach().numpy().astype(np.float64) / root
                shift = layer.shift.detach().numpy().astype(np.float64)
        return found


class DenseForward:
    """A dense network in numpy, for decisions, with a copy of the weights."""

    def __init__(self, network: DenseNetwork) -> None:
        self.load(network)

    def load(self, network: DenseNetwork) -> None:
        """Copy the weights of a network."""
        *self._hidden, self._last = network.folded()

    def __call__(self, x: Array) -> Array:
        """Return the outputs for flat observations, shape (inputs,) or (batch, inputs)."""
        for weight, bias in self._hidden:
            x = x @ weight
            x += bias
            np.maximum(x, 0.0, out=x)
        weight, bias = self._last
        return cast(Array, x @ weight + bias)
