"""ONNX networks as anybody exports them: without a feature spec and a model card.

The shapes of the graph tell its kind, or the options do. In memory it becomes a policy file, so
that everything that is checked of one is checked here.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alloc.errors import InstanceError, nearest
from alloc.schedulers.learned.feature_spec import FeatureSpec, TensorSpec
from alloc.schedulers.learned.model_card import ModelCard
from alloc.schedulers.learned.policy_file import (
    KEY,
    PolicyFile,
    build_policy,
    parse_model,
    parse_policy,
    read_whole,
)
from alloc.schedulers.learned.policy_scheduler import PolicyScheduler
from alloc.schedulers.learned.shapes import spec_of_shapes

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto


class OnnxFile:
    """Makes the scheduler of an ONNX file, a policy file or any other network.

    Parameters
    ----------
    path
        The file, whose name ends in ``.onnx``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(
        self, sample: bool = False, kind: str | None = None, **parameters: Any
    ) -> PolicyScheduler:
        """Decide with an ONNX network.

        A policy file says itself what it is shown. For any other network further options are
        parameters of its kind, such as ``encoding`` or ``level``.

        Parameters
        ----------
        sample
            Draw each action from the network's distribution, as in training, instead of taking the
            likeliest.
        kind
            What it is shown and answers, such as ``dl2-window/1``; null: as the file says, or as
            its shapes tell.

        Raises
        ------
        InstanceError
            If the file is no network, or one that fits no kind.
        """
        return PolicyScheduler(read_network(self.path, kind, parameters), sample)


def read_network(path: Path, kind: str | None, parameters: dict[str, Any]) -> PolicyFile:
    """Read an ONNX file as a policy, whether it states what it is or not.

    Parameters
    ----------
    path
        The file.
    kind
        Its kind, for a file that does not state it; None: told by the shapes of its graph.
    parameters
        Parameters of the kind, likewise.

    Raises
    ------
    InstanceError
        If it breaks a rule of policy files, or states what it is and is told so again.
    """
    data = read_whole(path)
    model = parse_model(data, str(path))
    if any(entry.key == KEY for entry in model.metadata_props):
        if kind is not None or parameters:
            first = next(iter(parameters), "kind")
            near = nearest(first, ("sample",), ";")
            raise InstanceError(
                f'scheduler {path} has no option "{first}"{near} a policy file states itself what '
                "it is shown, and it takes sample."
            )
        return parse_policy(data, path)
    spec = _spec_of(model, kind, parameters, str(path))
    _fit(model.graph, spec, str(path))
    return build_policy(path, model, spec, _card(path, spec))


def _spec_of(
    model: ModelProto, kind: str | None, parameters: dict[str, Any], where: str
) -> FeatureSpec:
    inputs, outputs = _ends(model.graph)
    if len(inputs) != 1 or len(outputs) != 1:
        raise InstanceError(
            f"{where}: is a network with {len(inputs)} inputs and {len(outputs)} outputs and "
            "without a feature spec; give it one with alloc.schedulers.learned.write_policy."
        )
    seen, answers = _axes(inputs[0]), _axes(outputs[0])
    # A network for one row of numbers each has as many axes less one; others have a batch in front.
    rows = len(seen) == 2 and len(answers) == 1
    shape = [0, *seen[1:]] if rows else seen[1:]
    actions = None if rows else (answers or [0])[-1]
    return spec_of_shapes(shape, actions, kind, parameters, where)


def _ends(graph: GraphProto) -> tuple[list[ValueInfoProto], list[ValueInfoProto]]:
    weights = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in weights], list(graph.output)


def _axes(value: ValueInfoProto) -> list[int]:
    """Return the lengths of the axes of a tensor, 0 for open ones."""
    return [int(axis.dim_value) for axis in value.type.tensor_type.shape.dim]


def _fit(graph: GraphProto, spec: FeatureSpec, where: str) -> None:
    """Give the ends of a graph the names of its spec, and open the axis of a batch of one."""
    from onnx import helper

    for ends, tensors in zip(_ends(graph), (spec.inputs, spec.outputs), strict=True):
        for value, tensor in zip(ends, tensors, strict=True):
            _open_batch(value, tensor, where)
            old, new = value.name, tensor.name
            if old == new:
                continue
            if value in graph.output:
                graph.node.append(helper.make_node("Identity", [old], [new]))
            else:
                graph.node.insert(0, helper.make_node("Identity", [new], [old]))
            value.name = new


def _open_batch(value: ValueInfoProto, tensor: TensorSpec, where: str) -> None:
    axes = value.type.tensor_type.shape.dim
    if not axes or not isinstance(tensor.shape[0], str) or not axes[0].HasField("dim_value"):
        return
    if tensor.shape[0] != "batch" or axes[0].dim_value != 1:
        raise InstanceError(
            f"{where}: was exported for exactly {axes[0].dim_value} {tensor.shape[0]}; export it "
            "with that axis open (dynamic_shapes)."
        )
    axes[0].dim_param = "batch"


def _card(path: Path, spec: FeatureSpec) -> ModelCard:
    """Return the card of a network that has none."""
    name = re.sub(r"[^a-z0-9._-]+", "-", path.stem.lower()).lstrip("._-")[:64] or "network"
    unknown = "not stated"
    return ModelCard(
        name=name,
        title="A network without a model card",
        information=f"what its network is shown ({spec.kind})",
        data=unknown,
        seeds=(),
        command=unknown,
        training_hours=0.0,
        licence=unknown,
        # The same file is the same policy on every day.
        date=date(1970, 1, 1),
        alloc_version=unknown,
    )
