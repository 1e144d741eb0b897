"""How PyTorch's modules are written in ONNX."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from alloc.errors import UnsupportedFeatureError
from alloc.learning.onnx_functions import attend, function_table, gelu, linear
from alloc.learning.onnx_graph import Emit, Graph, Tensor

if TYPE_CHECKING:
    import torch


@cache
def module_table() -> dict[type, Emit]:
    """Return what adds a module to a graph, by its class."""
    from torch import nn

    def plain(operator: str) -> Emit:
        return lambda module, g, x: g.add(operator, x.name)

    return {
        nn.Linear: _linear,
        nn.LayerNorm: _layer_norm,
        nn.BatchNorm1d: _batch_norm,
        nn.MultiheadAttention: _multihead,
        nn.TransformerEncoderLayer: _encoder_layer,
        nn.Dropout: lambda module, g, x: x.name,
        nn.Identity: lambda module, g, x: x.name,
        nn.Flatten: lambda module, g, x: function_table()["flatten"](
            g, x, module.start_dim, module.end_dim
        ),
        nn.Softmax: lambda module, g, x: g.add("Softmax", x.name, axis=module.dim),
        nn.GELU: lambda module, g, x: gelu(g, x.name, module.approximate),
        nn.LeakyReLU: lambda module, g, x: g.add(
            "LeakyRelu", x.name, alpha=float(module.negative_slope)
        ),
        nn.ELU: lambda module, g, x: g.add("Elu", x.name, alpha=float(module.alpha)),
        nn.SiLU: lambda module, g, x: g.add("Mul", x.name, g.add("Sigmoid", x.name)),
        nn.ReLU: plain("Relu"),
        nn.Tanh: plain("Tanh"),
        nn.Sigmoid: plain("Sigmoid"),
    }


def _optional(g: Graph, tensor: torch.Tensor | None) -> str | None:
    return None if tensor is None else g.weight(tensor)


def _linear(module: Any, g: Graph, x: Tensor) -> str:
    return linear(g, x.name, g.weight(module.weight), _optional(g, module.bias))


def _layer_norm(module: Any, g: Graph, x: Tensor) -> str:
    shape = tuple(module.normalized_shape)
    scale = _optional(g, module.weight) or g.constant(np.ones(shape, np.float32))
    shift = _optional(g, module.bias)
    names = [x.name, scale] + ([] if shift is None else [shift])
    return g.add("LayerNormalization", *names, axis=-len(shape), epsilon=float(module.eps))


def _batch_norm(module: Any, g: Graph, x: Tensor) -> str:
    if module.running_mean is None:
        raise UnsupportedFeatureError(
            "the export to ONNX knows BatchNorm1d with running statistics only: without them its "
            "answer depends on the other rows of the batch."
        )
    ones = np.ones(module.num_features, np.float32)
    scale = _optional(g, module.weight) or g.constant(ones)
    shift = _optional(g, module.bias) or g.constant(0 * ones)
    mean, variance = g.weight(module.running_mean), g.weight(module.running_var)
    return g.add(
        "BatchNormalization", x.name, scale, shift, mean, variance, epsilon=float(module.eps)
    )


def _multihead(
    module: Any,
    g: Graph,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    need_weights: bool = True,
    **options: Any,
) -> tuple[Tensor, None]:
    masked = any(option is not None and option is not False for option in options.values())
    ready = module.batch_first and module.in_proj_weight is not None and module.bias_k is None
    if need_weights or masked or query.rank != 3 or not ready or module.add_zero_attn:
        raise UnsupportedFeatureError(
            "the export to ONNX knows MultiheadAttention with batch_first=True, need_weights=False,"
            " a batch axis and without masks."
        )
    heads, width = int(module.num_heads), int(module.embed_dim)

    def project(x: Tensor, part: int, order: list[int]) -> str:
        rows = slice(part * width, (part + 1) * width)
        bias = None if module.in_proj_bias is None else g.weight(module.in_proj_bias[rows])
        projected = linear(g, x.name, g.weight(module.in_proj_weight[rows]), bias)
        split = g.reshape(projected, [0, 0, heads, width // heads])
        return g.add("Transpose", split, perm=order)

    rows_first, transposed = [0, 2, 1, 3], [0, 2, 3, 1]
    mixed = attend(
        g,
        project(query, 0, rows_first),
        project(key, 1, transposed),
        project(value, 2, rows_first),
        g.constant(np.float32(1.0 / math.sqrt(width // heads))),
    )
    joined = g.reshape(g.add("Transpose", mixed, perm=rows_first), [0, 0, width])
    out = linear(g, joined, g.weight(module.out_proj.weight), _optional(g, module.out_proj.bias))
    return Tensor(out, 3), None


def _encoder_layer(module: Any, g: Graph, x: Tensor) -> str:
    import torch

    activations = {torch.nn.functional.relu: "relu", torch.nn.functional.gelu: "gelu"}
    name = activations.get(module.activation)
    if name is None:
        raise UnsupportedFeatureError(
            "the export to ONNX knows TransformerEncoderLayer with relu or gelu only."
        )

    def attention(x: str) -> str:
        row = Tensor(x, 3)
        return _multihead(module.self_attn, g, row, row, row, need_weights=False)[0].name

    def feed_forward(x: str) -> str:
        inner = Tensor(_linear(module.linear1, g, Tensor(x, 3)), 3)
        return _linear(module.linear2, g, Tensor(function_table()[name](g, inner), 3))

    def norm(which: Any, x: str) -> str:
        return _layer_norm(which, g, Tensor(x, 3))

    h = x.name
    if module.norm_first:
        h = g.add("Add", h, attention(norm(module.norm1, h)))
        return g.add("Add", h, feed_forward(norm(module.norm2, h)))
    h = norm(module.norm1, g.add("Add", h, attention(h)))
    return norm(module.norm2, g.add("Add", h, feed_forward(h)))
