"""What an ONNX graph may hold to be a policy, checked before anything of it runs.

A policy is a plain network: standard operators, its weights inside the file, no branches or loops,
nothing drawn at random. Such a graph cannot read files or call code. It can still be slow; that is
measured, not refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from alloc.errors import InstanceError
from alloc.schedulers.learned.feature_spec import FeatureSpec, TensorSpec, shown

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

OPSET = 18
"""Operator set that alloc writes: the one for which PyTorch's exporter has its operators."""

OPSETS = range(13, 22)
"""Operator sets that are read: those that every ONNX Runtime since 1.18 runs."""

IR_VERSIONS = range(7, 11)
"""Versions of the file format that are read, for the same reason."""

MAX_NODES = 20_000
"""Most nodes of a graph."""

MAX_ELEMENTS = 2**26
"""Most elements of a tensor whose size the graph fixes: a small file may ask for terabytes."""

_STANDARD = ("", "ai.onnx")

_RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)


def check_model(model: ModelProto, spec: FeatureSpec, where: str) -> int:
    """Hold an ONNX model to the rules and to its spec; return its operator set.

    Parameters
    ----------
    model
        The model as it was read; nothing of it has run.
    spec
        The tensors that it must take and give.
    where
        Name of its file, for the message.

    Raises
    ------
    InstanceError
        If a rule is broken, in one sentence.
    """
    opset = _check_graph(model, where)
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    _check_ends(inputs, spec.inputs, "input", where)
    _check_ends(list(graph.output), spec.outputs, "output", where)
    return opset


def _check_graph(model: ModelProto, where: str) -> int:
    """Hold an ONNX model to the rules that need no spec; return its operator set.

    Raises
    ------
    InstanceError
        If a rule is broken, in one sentence.
    """
    opset = _check_versions(model, where)
    if model.functions:
        raise InstanceError(
            f"{where}: defines functions of its own, which policies must not; export the network "
            "inlined."
        )
    if model.training_info:
        raise InstanceError(
            f"{where}: holds graphs for training; export the network for inference alone."
        )
    if len(model.graph.node) > MAX_NODES:
        raise InstanceError(
            f"{where}: has {len(model.graph.node):,} nodes, and policies have at most "
            f"{MAX_NODES:,}; simplify the network."
        )
    if model.graph.sparse_initializer:
        raise InstanceError(f"{where}: has sparse weights; store them dense.")
    for node in model.graph.node:
        _check_node(node, where)
    for tensor in model.graph.initializer:
        _check_weights(tensor, f'weights "{shown(tensor.name)}"', where)
    _check_with_onnx(model, where)
    return opset


def _check_versions(model: ModelProto, where: str) -> int:
    if model.ir_version not in IR_VERSIONS:
        raise InstanceError(
            f"{where}: has IR version {model.ir_version}, and versions {IR_VERSIONS[0]} to "
            f"{IR_VERSIONS[-1]} are read; export the network again with opset {OPSET}."
        )
    opsets = {}
    for entry in model.opset_import:
        if entry.domain not in _STANDARD:
            raise _custom(entry.domain, where)
        opsets[entry.version] = entry.domain
    if len(opsets) != 1:
        raise InstanceError(
            f"{where}: names {len(opsets)} versions of the standard operators; a policy names one."
        )
    (opset,) = opsets
    if opset not in OPSETS:
        raise InstanceError(
            f"{where}: uses opset {opset}, and opsets {OPSETS[0]} to {OPSETS[-1]} are read; export "
            f"the network again with opset {OPSET}."
        )
    return int(opset)


def _custom(domain: str, where: str) -> InstanceError:
    return InstanceError(
        f'{where}: uses custom operators of "{shown(domain)}"; a policy has standard operators '
        "only."
    )


def _check_node(node: NodeProto, where: str) -> None:
    if node.domain not in _STANDARD:
        raise _custom(node.domain, where)
    if node.op_type in _RANDOM:
        raise InstanceError(
            f"{where}: draws random numbers ({node.op_type}), so that no run could be repeated; "
            "let the network give logits and sample with the option sample=true."
        )
    for attribute in node.attribute:
        if attribute.HasField("g") or attribute.graphs:
            raise InstanceError(
                f"{where}: has control flow ({shown(node.op_type)}), which policies must not; "
                "write the network without branches and loops."
            )
        if attribute.ref_attr_name:
            raise InstanceError(
                f"{where}: refers to an attribute of a function; export the network inlined."
            )
        if attribute.HasField("sparse_tensor") or attribute.sparse_tensors:
            raise InstanceError(f"{where}: has sparse constants; store them dense.")
        for tensor in _tensors_of(attribute):
            _check_weights(tensor, f"a constant of {shown(node.op_type)}", where)
        # -inf is what a mask is filled with, so only NaN is wrong in a single number.
        if any(math.isnan(value) for value in (attribute.f, *attribute.floats)):
            raise _not_finite(f"{shown(node.op_type)} {shown(attribute.name)}", where)


def _tensors_of(attribute: AttributeProto) -> Iterator[TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors


def _check_weights(tensor: TensorProto, what: str, where: str) -> None:
    import onnx
    from onnx import numpy_helper

    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
        raise InstanceError(
            f"{where}: keeps {what} in another file; save the network with its weights inside."
        )
    if math.prod(tensor.dims) > MAX_ELEMENTS or any(axis < 0 for axis in tensor.dims):
        raise _too_large(what, tensor.dims, where)
    try:
        values = numpy_helper.to_array(tensor)
    except Exception as error:  # whatever numpy and onnx raise at contents that contradict shapes
        raise InstanceError(
            f"{where}: {what} cannot be read ({_first_line(error)}); export the network again."
        ) from None
    if values.dtype.kind in "iub":
        return
    if values.dtype.kind not in "fV" or tensor.data_type not in _FLOATS:
        name = _type_name(tensor.data_type)
        raise InstanceError(
            f"{where}: {what} is of type {name}; a policy's weights are numbers of 16 to 64 bits."
        )
    with np.errstate(invalid="ignore"):  # a signalling NaN warns as it is converted
        numbers = values.astype(np.float64)
    # A single number may be the -inf of a mask.
    if np.isnan(numbers).any() or (numbers.size > 1 and np.isinf(numbers).any()):
        raise _not_finite(what, where)


# FLOAT, FLOAT16, DOUBLE, BFLOAT16.
_FLOATS = frozenset({1, 10, 11, 16})


def _not_finite(what: str, where: str) -> InstanceError:
    return InstanceError(
        f"{where}: {what} holds NaN or infinity; the training diverged, take an earlier checkpoint."
    )


def _too_large(what: str, shape: Iterable[int], where: str) -> InstanceError:
    axes = " x ".join(map(str, shape))
    return InstanceError(
        f"{where}: {what} is of size {axes}, and tensors have at most {MAX_ELEMENTS:,} elements; "
        "make the network smaller."
    )


def _check_with_onnx(model: ModelProto, where: str) -> None:
    """Let onnx check the graph and infer every shape, and look for sizes that explode."""
    import onnx

    try:
        onnx.checker.check_model(model)
        inferred = onnx.shape_inference.infer_shapes(
            model, check_type=True, strict_mode=True, data_prop=True
        )
    except Exception as error:  # ValidationError, InferenceError, and what pybind lets through
        raise InstanceError(
            f"{where}: is not a valid network ({_first_line(error)}); export it again."
        ) from None
    graph: GraphProto = inferred.graph
    for value in (*graph.value_info, *graph.output, *graph.input):
        shape = [
            axis.dim_value
            for axis in value.type.tensor_type.shape.dim
            if axis.HasField("dim_value")
        ]
        if math.prod(shape) > MAX_ELEMENTS:
            raise _too_large(f'tensor "{shown(value.name)}"', shape, where)


def _check_ends(
    have: Sequence[ValueInfoProto], want: Sequence[TensorSpec], side: str, where: str
) -> None:
    """Hold the inputs or outputs of a graph to those of its spec."""
    names, wanted = [value.name for value in have], [tensor.name for tensor in want]
    if names != wanted:
        raise InstanceError(
            f"{where}: has the {side}s {_list(names)}, and its feature spec asks for "
            f"{_list(wanted)}; name them alike, in that order."
        )
    for value, tensor in zip(have, want, strict=True):
        if not _alike(value, tensor, side):
            raise InstanceError(
                f'{where}: {side} "{shown(value.name)}" is {_text_of(value)}, and its feature '
                f"spec asks for {tensor.text}; export the network with that shape and type."
            )


def _alike(value: ValueInfoProto, tensor: TensorSpec, side: str) -> bool:
    if not value.type.HasField("tensor_type"):
        return False
    kind = value.type.tensor_type
    if _type_name(kind.elem_type) != tensor.dtype:
        return False
    if not kind.HasField("shape"):
        return side == "output"  # held to the spec each time the network runs
    axes = kind.shape.dim
    if len(axes) != len(tensor.shape):
        return False
    for axis, want in zip(axes, tensor.shape, strict=True):
        fixed = axis.HasField("dim_value")
        if isinstance(want, str) and fixed:
            return False
        # Exporters leave axes of outputs open that they could not work out.
        if isinstance(want, int) and (axis.dim_value != want if fixed else side == "input"):
            return False
    return True


def _text_of(value: ValueInfoProto) -> str:
    if not value.type.HasField("tensor_type"):
        return "no tensor"
    kind = value.type.tensor_type
    axes = [
        str(axis.dim_value) if axis.HasField("dim_value") else (shown(axis.dim_param, 50) or "?")
        for axis in kind.shape.dim
    ]
    return f"{_type_name(kind.elem_type)} [{', '.join(axes)}]"


_TYPES = {1: "float32", 6: "int32", 7: "int64", 9: "bool", 11: "float64"}


def _type_name(number: int) -> str:
    """Return the name of an ONNX element type, as numpy has it."""
    import onnx

    if number in _TYPES:
        return _TYPES[number]
    known: dict[int, Any] = {v: k for k, v in onnx.TensorProto.DataType.items()}
    return str(known.get(number, f"number {number}")).lower()


def _list(names: Sequence[str]) -> str:
    return ", ".join(f'"{shown(name)}"' for name in names[:10]) or "none"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return shown(lines[0] if lines else type(error).__name__, 200).rstrip(".")
