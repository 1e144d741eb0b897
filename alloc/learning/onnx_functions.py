"""How PyTorch's functions and tensor methods are written in ONNX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from alloc.errors import UnsupportedFeatureError
from alloc.learning.onnx_graph import Emit, Graph, Length, Shape, Tensor


@cache
def function_table() -> dict[str, Emit]:
    """Return what adds a function or method to a graph, by its name."""
    same = {
        "relu": "Relu",
        "tanh": "Tanh",
        "sigmoid": "Sigmoid",
        "exp": "Exp",
        "log": "Log",
        "sqrt": "Sqrt",
        "abs": "Abs",
        "neg": "Neg",
    }
    pairs = {
        "add": "Add",
        "sub": "Sub",
        "mul": "Mul",
        "truediv": "Div",
        "div": "Div",
        "matmul": "MatMul",
        "bmm": "MatMul",
        "maximum": "Max",
        "minimum": "Min",
        "gt": "Greater",
        "lt": "Less",
        "ge": "GreaterOrEqual",
        "le": "LessOrEqual",
        "floordiv": "Div",
        "pow": "Pow",
    }
    reductions = {
        "mean": "ReduceMean",
        "sum": "ReduceSum",
        "amax": "ReduceMax",
        "amin": "ReduceMin",
    }
    return {
        **{name: _unary(operator) for name, operator in same.items()},
        **{name: _binary(operator) for name, operator in pairs.items()},
        **{name: _reduction(operator) for name, operator in reductions.items()},
        "getattr": _getattr,
        "getitem": _getitem,
        "size": lambda g, x, dim=None: _shape(g, x) if dim is None else _length(g, x, dim),
        "cat": _cat,
        "stack": lambda g, xs, dim=0: _cat(g, [_unsqueeze(g, x, dim) for x in xs], dim),
        "clamp": lambda g, x, min=None, max=None: _clamp(g, x, min, max),
        "contiguous": lambda g, x: x.name,
        "detach": lambda g, x: x.name,
        "dropout": lambda g, x, p=0.5, training=False: x.name,
        "expand": _expand,
        "expand_as": lambda g, x, y: g.add("Expand", x.name, g.add("Shape", y.name)),
        "flatten": _flatten,
        "float": lambda g, x: g.add("Cast", x.name, to=1),
        "gelu": lambda g, x, approximate="none": gelu(g, x.name, approximate),
        "layer_norm": _layer_norm,
        "linear": lambda g, x, weight, bias=None: linear(
            g, x.name, weight.name, None if bias is None else bias.name
        ),
        "log_softmax": lambda g, x, dim=-1: g.add("LogSoftmax", x.name, axis=dim),
        "masked_fill": _masked_fill,
        "permute": _permute,
        "reshape": _reshape,
        "scaled_dot_product_attention": _attention,
        "softmax": lambda g, x, dim=-1: g.add("Softmax", x.name, axis=dim),
        "squeeze": lambda g, x, dim: g.add("Squeeze", x.name, g.constant([dim], np.int64)),
        "transpose": _transpose,
        "unsqueeze": lambda g, x, dim: _unsqueeze(g, x, dim).name,
        "view": _reshape,
        "where": lambda g, mask, a, b: g.add("Where", mask.name, operand(g, a), operand(g, b)),
    }


def operand(g: Graph, value: Any) -> str:
    """Return the name of a tensor, or of the float32 constant that a number is."""
    if isinstance(value, Tensor):
        return value.name
    return g.constant(np.float32(value))


def _unary(operator: str) -> Emit:
    return lambda g, x: g.add(operator, x.name)


def _binary(operator: str) -> Emit:
    def emit(g: Graph, a: Any, b: Any) -> Any:
        if isinstance(a, Length) or isinstance(b, Length):
            sides = [
                v.name if isinstance(v, Length) else g.constant([int(v)], np.int64) for v in (a, b)
            ]
            return Length(g.add(operator, *sides))
        return g.add(operator, operand(g, a), operand(g, b))

    return emit


def _reduction(operator: str) -> Emit:
    def emit(g: Graph, x: Tensor, dim: Any = None, keepdim: bool = False) -> str:
        axes = None if dim is None else ([dim] if isinstance(dim, int) else list(dim))
        if operator == "ReduceSum" and axes is not None:
            # Its axes are an input since opset 13, those of the others since opset 18.
            return g.add(operator, x.name, g.constant(axes, np.int64), keepdims=int(keepdim))
        chosen = {} if axes is None else {"axes": axes}
        return g.add(operator, x.name, keepdims=int(keepdim), **chosen)

    return emit


def _getattr(g: Graph, x: Tensor, name: str) -> Any:
    if name == "shape":
        return _shape(g, x)
    if name == "T":
        return g.add("Transpose", x.name)
    raise UnsupportedFeatureError(
        f"the export to ONNX does not know the attribute {name} of tensors; it knows shape and T."
    )


def _shape(g: Graph, x: Tensor) -> Shape:
    return Shape(g.add("Shape", x.name))


def _length(g: Graph, x: Tensor, axis: int) -> Length:
    return _axis(g, _shape(g, x), axis)


def _axis(g: Graph, shape: Shape, axis: int) -> Length:
    return Length(g.add("Gather", shape.name, g.constant([axis], np.int64), axis=0))


def _getitem(g: Graph, x: Any, index: Any) -> Any:
    if isinstance(x, Shape):
        if isinstance(index, int):
            return _axis(g, x, index)
        raise UnsupportedFeatureError(
            "the export to ONNX takes single axes of a shape, not slices of it."
        )
    if isinstance(x, tuple | list):
        return x[index]
    parts = index if isinstance(index, tuple) else (index,)
    name, axis, rank = x.name, 0, x.rank
    for k, part in enumerate(parts):
        if part is None:
            name = g.add("Unsqueeze", name, g.constant([axis], np.int64))
            axis, rank = axis + 1, rank + 1
        elif isinstance(part, int):
            name = g.add("Gather", name, g.constant(np.int64(part)), axis=axis)
            rank -= 1
        elif isinstance(part, slice):
            name = _slice(g, name, part, axis)
            axis += 1
        elif part is Ellipsis:
            axis = rank - sum(behind is not None for behind in parts[k + 1 :])
        else:
            raise UnsupportedFeatureError(
                "the export to ONNX takes numbers, slices, None and ... between brackets."
            )
    return name


def _slice(g: Graph, name: str, part: slice, axis: int) -> str:
    if part == slice(None):
        return name

    def bound(value: Any, otherwise: int) -> str:
        if isinstance(value, Length):
            return value.name
        return g.constant([otherwise if value is None else value], np.int64)

    starts, ends = bound(part.start, 0), bound(part.stop, np.iinfo(np.int64).max)
    steps = g.constant([part.step or 1], np.int64)
    return g.add("Slice", name, starts, ends, g.constant([axis], np.int64), steps)


def _cat(g: Graph, tensors: Sequence[Tensor], dim: int = 0) -> str:
    return g.add("Concat", *(tensor.name for tensor in tensors), axis=dim)


def _unsqueeze(g: Graph, x: Tensor, dim: int) -> Tensor:
    return Tensor(g.add("Unsqueeze", x.name, g.constant([dim], np.int64)), x.rank + 1)


def _clamp(g: Graph, x: Tensor, low: float | None, high: float | None) -> str:
    names = ["" if bound is None else g.constant(np.float32(bound)) for bound in (low, high)]
    return g.add("Clip", x.name, *names)


def _sizes(sizes: tuple[Any, ...]) -> Any:
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple | list | Shape) else sizes


def _expand(g: Graph, x: Tensor, *sizes: Any) -> str:
    wanted = _sizes(sizes)
    if isinstance(wanted, Shape):
        return g.add("Expand", x.name, wanted.name)
    # -1 keeps an axis in PyTorch; in ONNX an axis of 1 does.
    return g.add("Expand", x.name, g.lengths([1 if size == -1 else size for size in wanted]))


def _reshape(g: Graph, x: Tensor, *sizes: Any) -> str:
    wanted = _sizes(sizes)
    if isinstance(wanted, Shape):
        return g.add("Reshape", x.name, wanted.name)
    return g.reshape(x.name, list(wanted))


def _flatten(g: Graph, x: Tensor, start_dim: int = 0, end_dim: int = -1) -> str:
    start, end = start_dim % x.rank, end_dim % x.rank
    if end != x.rank - 1:
        raise UnsupportedFeatureError("the export to ONNX flattens up to the last axis only.")
    return g.reshape(x.name, [0] * start + [-1])


def _transpose(g: Graph, x: Tensor, first: int, second: int) -> str:
    order = list(range(x.rank))
    order[first], order[second] = order[second], order[first]
    return g.add("Transpose", x.name, perm=order)


def _permute(g: Graph, x: Tensor, *order: Any) -> str:
    return g.add("Transpose", x.name, perm=[axis % x.rank for axis in _sizes(order)])


def _masked_fill(g: Graph, x: Tensor, mask: Tensor, value: float) -> str:
    return g.add("Where", mask.name, g.constant(np.float32(value)), x.name)


def linear(g: Graph, x: str, weight: str, bias: str | None) -> str:
    """Add ``x @ weight.T + bias``."""
    product = g.add("MatMul", x, g.add("Transpose", weight, perm=[1, 0]))
    return product if bias is None else g.add("Add", product, bias)


def gelu(g: Graph, x: str, approximate: str = "none") -> str:
    """Add GELU, which ONNX has only since opset 20: x/2 (1 + erf(x / sqrt 2))."""
    if approximate != "none":
        raise UnsupportedFeatureError('the export to ONNX knows GELU with approximate="none" only.')
    inner = g.add("Erf", g.add("Mul", x, g.constant(np.float32(math.sqrt(0.5)))))
    half = g.add("Mul", x, g.constant(np.float32(0.5)))
    return g.add("Mul", half, g.add("Add", inner, g.constant(np.float32(1.0))))


def _layer_norm(
    g: Graph,
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> str:
    scale = g.constant(np.ones(tuple(normalized_shape), np.float32)) if not weight else weight.name
    names = [x.name, scale] + ([] if bias is None else [bias.name])
    return g.add("LayerNormalization", *names, axis=-len(normalized_shape), epsilon=eps)


def _attention(
    g: Graph, query: Tensor, key: Tensor, value: Tensor, *, scale: float | None = None
) -> str:
    order = list(range(key.rank))
    order[-1], order[-2] = order[-2], order[-1]
    if scale is None:
        width = g.add("Cast", _length(g, query, -1).name, to=1)
        by = g.add("Reciprocal", g.add("Sqrt", width))
    else:
        by = g.constant(np.float32(scale))
    return attend(g, query.name, g.add("Transpose", key.name, perm=order), value.name, by)


def attend(g: Graph, query: str, key_t: str, value: str, scale: str) -> str:
    """Add ``softmax(query @ key_t * scale) @ value``; the key comes transposed."""
    scores = g.add("MatMul", g.add("Mul", query, scale), key_t)
    return g.add("MatMul", g.add("Softmax", scores, axis=-1), value)
