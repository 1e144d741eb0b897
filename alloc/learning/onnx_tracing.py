"""From a PyTorch module to an ONNX graph, operator by operator.

PyTorch's own exporters do not serve here: the one that traces bakes the number of jobs it saw into
attention and is to be removed, the other needs a package of its own. Policies use few operators, so
the module is read symbolically (`torch.fx`) and each step becomes the ONNX operators in the tables
`alloc.learning.onnx_modules` and `alloc.learning.onnx_functions`; a step that is not in them is
refused by name. Nothing is traced with values, so that axes of any length stay axes of any length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alloc.errors import UnsupportedFeatureError
from alloc.schedulers.learned.feature_spec import FeatureSpec, TensorSpec

if TYPE_CHECKING:
    import torch
    from onnx import ModelProto
from alloc.learning.onnx_functions import function_table
from alloc.learning.onnx_graph import Emit, Graph, Tensor
from alloc.learning.onnx_modules import module_table


def to_onnx(module: torch.nn.Module, spec: FeatureSpec) -> ModelProto:
    """Return the ONNX model of a module.

    Parameters
    ----------
    module
        Takes the inputs of the spec in their order, and returns its output, or a tuple of them.
        It is exported as for inference, whatever mode it is in.
    spec
        The feature spec.

    Raises
    ------
    UnsupportedFeatureError
        If the module does something that has no line in the tables, or branches on values.
    """
    from onnx import helper

    from alloc.schedulers.learned.onnx_rules import OPSET

    graph = Graph()
    results = _walk(module, spec, graph)
    for name, tensor in zip(results, spec.outputs, strict=True):
        graph.nodes.append(helper.make_node("Identity", [name], [tensor.name]))
    made = helper.make_graph(
        graph.nodes,
        "policy",
        [_value_info(tensor) for tensor in spec.inputs],
        [_value_info(tensor) for tensor in spec.outputs],
        graph.weights,
    )
    return helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,
        producer_name="alloc",
    )


def _value_info(tensor: TensorSpec) -> Any:
    from onnx import TensorProto, helper

    kinds = {
        "float32": TensorProto.FLOAT,
        "float64": TensorProto.DOUBLE,
        "int32": TensorProto.INT32,
        "int64": TensorProto.INT64,
        "bool": TensorProto.BOOL,
    }
    return helper.make_tensor_value_info(tensor.name, kinds[tensor.dtype], list(tensor.shape))


def _walk(module: torch.nn.Module, spec: FeatureSpec, graph: Graph) -> list[str]:
    """Add every step of a module to the graph; return the names of its outputs."""
    was_training = module.training
    module.eval()
    try:
        traced = _trace(module)
        return _steps(traced, _ranks(traced, spec), type(module).__name__, spec, graph)
    finally:
        module.train(was_training)


def _steps(
    traced: torch.fx.GraphModule,
    ranks: dict[torch.fx.Node, int | None],
    name: str,
    spec: FeatureSpec,
    graph: Graph,
) -> list[str]:
    from torch.fx.node import map_arg

    values: dict[torch.fx.Node, Any] = {}
    waiting = list(spec.inputs)
    for node in traced.graph.nodes:
        arguments = map_arg(node.args, lambda n: values[n])
        options = map_arg(node.kwargs, lambda n: values[n])
        if node.op == "output":
            return _outputs(arguments[0], name, spec)
        if node.op == "placeholder":
            tensor = waiting.pop(0)  # `_ranks` has run it with exactly these
            values[node] = Tensor(tensor.name, len(tensor.shape))
        elif node.op == "get_attr":
            held = _attribute(traced, str(node.target))
            values[node] = Tensor(graph.weight(held), held.dim())
        else:
            made = _call(traced, node, name, graph, arguments, options)
            rank = ranks[node]
            # What the tables return is a name; a tensor has a rank as well.
            if isinstance(made, str) and rank is not None:
                made = Tensor(made, rank)
            values[node] = made
    raise AssertionError("a graph of torch.fx ends with its output")


def _call(
    traced: torch.fx.GraphModule,
    node: torch.fx.Node,
    name: str,
    graph: Graph,
    arguments: Any,
    options: Any,
) -> Any:
    """Add one step of a module to the graph."""
    # What says nothing: options left at None, where to warn, and whether to save memory.
    options = {
        option: value
        for option, value in options.items()
        if value is not None and option not in ("_stacklevel", "inplace")
    }
    emit, what = _emitter(traced, node)
    if emit is None:
        raise UnsupportedFeatureError(
            f"{name} uses {what}, which the export to ONNX does not know; write it with the "
            "operators of alloc.learning.onnx_functions, or hand write_policy an ONNX model made "
            "otherwise."
        )
    try:
        return emit(graph, *arguments, **options)
    except TypeError:  # an argument that the tables do not have
        raise UnsupportedFeatureError(
            f"{name} uses {what} with options that the export to ONNX does not know; leave them "
            "out."
        ) from None


def _trace(module: torch.nn.Module) -> torch.fx.GraphModule:
    from torch import fx

    try:
        return fx.symbolic_trace(module)
    except Exception as error:  # fx raises TraceError, TypeError and what the module raises
        raise UnsupportedFeatureError(
            f"{type(module).__name__} cannot be read symbolically "
            f"({_first_line(error)}); write its forward without branches on values."
        ) from None


def _ranks(traced: torch.fx.GraphModule, spec: FeatureSpec) -> dict[torch.fx.Node, int | None]:
    """Run the module once on zeros and note what every step gives."""
    import torch
    from torch import fx

    found: dict[fx.Node, int | None] = {}

    class Watcher(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            result = super().run_node(n)
            found[n] = result.dim() if isinstance(result, torch.Tensor) else None
            return result

    zeros = [torch.from_numpy(array) for array in sample_inputs(spec, 3, None)]
    try:
        with torch.no_grad():
            traced(*zeros)  # fails sooner than the watcher, which gathers evidence for seconds
            Watcher(traced).run(*zeros)
    except Exception as error:  # whatever PyTorch raises at shapes that do not fit
        raise UnsupportedFeatureError(
            f"the module does not run on the inputs of its feature spec, "
            f"{', '.join(f'{t.name} {t.text}' for t in spec.inputs)} "
            f"({_first_line(error)}); give it the spec that it was trained with."
        ) from None
    return found


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")


def sample_inputs(
    spec: FeatureSpec, length: int, rng: np.random.Generator | None
) -> list[npt.NDArray[Any]]:
    """Return inputs of a spec with all open axes of one length: drawn, or zeros without `rng`."""
    made = []
    for tensor in spec.inputs:
        shape = [length if isinstance(axis, str) else axis for axis in tensor.shape]
        if rng is None:
            made.append(np.zeros(shape, dtype=tensor.dtype))
        elif tensor.dtype.startswith("float"):
            made.append(rng.standard_normal(shape).astype(tensor.dtype))
        else:
            made.append(rng.integers(0, 2, shape).astype(tensor.dtype))
    return made


def _attribute(root: Any, path: str) -> Any:
    for part in path.split("."):
        root = getattr(root, part)
    return root


def _emitter(traced: torch.fx.GraphModule, node: torch.fx.Node) -> tuple[Emit | None, str]:
    """Return what adds a step to the graph, None if nobody knows how, and its name for people."""
    from functools import partial

    if node.op == "call_module":
        inner = traced.get_submodule(str(node.target))
        emit = module_table().get(type(inner))
        return (None if emit is None else partial(emit, inner)), type(inner).__name__
    if node.op == "call_method":
        return function_table().get(str(node.target)), f"Tensor.{node.target}"
    name = getattr(node.target, "__name__", str(node.target))
    return function_table().get(name), name


def _outputs(returned: Any, name: str, spec: FeatureSpec) -> list[str]:
    results = returned if isinstance(returned, tuple | list) else (returned,)
    if len(results) != len(spec.outputs) or not all(isinstance(r, Tensor) for r in results):
        raise UnsupportedFeatureError(
            f"{name} returns {len(results)} values, and its feature spec has the "
            f"outputs {', '.join(tensor.name for tensor in spec.outputs)}; return those tensors."
        )
    return [result.name for result in results]
