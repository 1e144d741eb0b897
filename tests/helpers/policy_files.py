"""Small policy files for tests: a network of one product, and ways to spoil it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from alloc.schedulers.learned import ModelCard, PolicyFile, write_policy
from alloc.schedulers.learned.job_priority import FEATURES
from alloc.schedulers.learned.kinds import feature_spec

SPEC = feature_spec("job-priority/1")
"""One row of features for each job in, one priority for each job out."""


def card(name: str = "short-first", **changes: Any) -> ModelCard:
    """Return a model card."""
    values: dict[str, Any] = {
        "name": name,
        "title": "The shortest job first",
        "information": "remaining time at the fastest rate",
        "data": "none: its weights were written by hand",
        "seeds": (1, 2),
        "command": "python make_policy.py --seed 1",
        "training_hours": 0.25,
        "curve": (
            {"step": 0, "value": 5.5},
            {"step": 50, "value": 3.25},
            {"step": 100, "value": 4},
        ),
        "curve_value": "mean JCT, slots",
        "licence": "MIT",
        "versions": {"python": "3.12"},
        "date": datetime.date(2026, 11, 21),
        "alloc_version": "0.1.0",
        "limits": ("Never saw more than ten jobs.",),
        "references": ("Smith, Naval Research Logistics Quarterly, 1956.",),
    }
    return ModelCard.model_validate({**values, **changes})


def priority_model(**weights: float) -> onnx.ModelProto:
    """Return a network that weighs the named features: ``left_h=-1.0`` is shortest first."""
    column = np.zeros(len(FEATURES), np.float32)
    for name, weight in weights.items():
        column[FEATURES.index(name)] = weight
    return model_of(
        [helper.make_node("MatMul", ["jobs", "weights"], ["priority"])],
        [numpy_helper.from_array(column, "weights")],
    )


def model_of(
    nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], opset: int = 17
) -> onnx.ModelProto:
    """Return a network with the inputs and outputs of `SPEC`."""
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("jobs", TensorProto.FLOAT, ["jobs", len(FEATURES)])],
        [helper.make_tensor_value_info("priority", TensorProto.FLOAT, ["jobs"])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def write_short_first(path: Path, name: str = "short-first") -> PolicyFile:
    """Write the policy that serves the job with the least remaining time first."""
    return write_policy(path, priority_model(left_h=-1.0), SPEC, card(name))


def spoil(source: Path, change: Callable[[onnx.ModelProto], None]) -> Path:
    """Write a policy file with its model changed; return the new file."""
    model = onnx.ModelProto()
    model.ParseFromString(source.read_bytes())
    change(model)
    target = source.with_name(f"spoilt-{source.name}")
    target.write_bytes(model.SerializeToString())
    return target


def spoil_document(source: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Write a policy file with its JSON document changed; return the new file."""

    def edit(model: onnx.ModelProto) -> None:
        [entry] = [e for e in model.metadata_props if e.key == "alloc_policy"]
        document = json.loads(entry.value)
        change(document)
        entry.value = json.dumps(document)

    return spoil(source, edit)


def random_policy(kind: str, path: Path, seed: int = 0, **parameters: Any) -> PolicyFile:
    """Write a policy of a kind with random weights: each output is linear in one input, made >= 0.

    What it decides is nonsense, and a different nonsense for each seed.
    """
    spec = feature_spec(kind, **parameters)
    rng = np.random.default_rng(seed)
    nodes, arrays = [], {"flat": np.array([0, -1])}
    for k, out in enumerate(spec.outputs):
        seen = next(tensor for tensor in spec.inputs if tensor.shape[0] == out.shape[0])
        width = int(np.prod([int(axis) for axis in seen.shape[1:]]))
        rest = [int(axis) for axis in out.shape[1:]]
        arrays[f"w{k}"] = rng.standard_normal((width, int(np.prod(rest)))).astype(np.float32)
        arrays[f"to{k}"] = np.array([0, *rest])
        nodes += [
            helper.make_node("Reshape", [seen.name, "flat"], [f"rows{k}"]),
            helper.make_node("MatMul", [f"rows{k}", f"w{k}"], [f"all{k}"]),
            helper.make_node("Abs", [f"all{k}"], [f"abs{k}"]),
            helper.make_node("Reshape", [f"abs{k}", f"to{k}"], [out.name]),
        ]
    ends = [
        [helper.make_tensor_value_info(t.name, TensorProto.FLOAT, list(t.shape)) for t in tensors]
        for tensors in (spec.inputs, spec.outputs)
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "nonsense", ends[0], ends[1], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return write_policy(path, model, spec, card(f"random-{kind.partition('/')[0]}"))
