"""An ONNX graph in the making: tensors with their shapes, and operators added one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch
    from onnx import NodeProto, TensorProto


@dataclass(frozen=True)
class Tensor:
    """A tensor in the graph: its name there, and its rank in PyTorch."""

    name: str
    rank: int


@dataclass(frozen=True)
class Shape:
    """The shape of a tensor: an int64 vector in the graph."""

    name: str


@dataclass(frozen=True)
class Length:
    """The length of one axis: an int64 vector of one element in the graph."""

    name: str


class Graph:
    """An ONNX graph under construction."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._count = 0

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; return its name."""
        from onnx import helper

        self._count += 1
        output = f"v{self._count}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> str:
        """Return the name of a constant, the same for equal ones."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(np.asarray(value, dtype=dtype))
        # ascontiguousarray makes a vector of a single number.
        array = array.reshape(np.shape(value))
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self._constants:
            name = f"w{len(self._constants)}"
            self.weights.append(numpy_helper.from_array(array, name))
            self._constants[key] = name
        return self._constants[key]

    def weight(self, tensor: torch.Tensor) -> str:
        """Return the name of a parameter or buffer."""
        return self.constant(tensor.detach().cpu().numpy())

    def lengths(self, parts: Sequence[int | Length]) -> str:
        """Return an int64 vector put together from numbers and lengths of axes."""
        numbers = [part for part in parts if isinstance(part, int)]
        if len(numbers) == len(parts):
            return self.constant(numbers, np.int64)
        names = [p.name if isinstance(p, Length) else self.constant([p], np.int64) for p in parts]
        return self.add("Concat", *names, axis=0)

    def reshape(self, tensor: str, parts: Sequence[int | Length]) -> str:
        """Reshape; 0 keeps an axis, -1 takes what is left."""
        return self.add("Reshape", tensor, self.lengths(parts))


Emit = Callable[..., Any]
"""Adds what a step of a module does to a `Graph`."""
