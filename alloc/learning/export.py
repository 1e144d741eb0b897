"""From a trained PyTorch module to a policy file, and the proof that both say the same.

PyTorch's exporter (`torch.onnx.export`) writes the network, with every open axis named, so that a
module which depends on the length of one is refused. What it wrote is then compared with the module
on lengths that the exporter was not shown.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alloc.documents.files import write_bytes
from alloc.errors import CertificateError, UnsupportedFeatureError
from alloc.learning.training import require_torch
from alloc.schedulers.learned.feature_spec import FeatureSpec
from alloc.schedulers.learned.model_card import ModelCard
from alloc.schedulers.learned.network import OnnxNetwork
from alloc.schedulers.learned.policy_file import PolicyFile, build_policy

if TYPE_CHECKING:
    import torch
    from onnx import ModelProto

TOLERANCE = 1e-5
"""Largest difference between ONNX Runtime's output and PyTorch's, relative where it exceeds 1."""

_LENGTHS = (1, 2, 7, 40)
"""Lengths of open axes that every file is compared on: one row, where axes of length 1 would be
taken for absent ones, and more rows than the exporter was shown."""

_SHOWN = (5, 6, 9, 11)
"""Lengths that the exporter is shown: none of those compared, so that none of them is fixed in."""


def export_policy(
    module: torch.nn.Module,
    spec: FeatureSpec,
    card: ModelCard,
    path: str | PathLike[str],
    *,
    samples: Iterable[Sequence[npt.NDArray[Any]]] = (),
) -> PolicyFile:
    """Write a trained module as a policy file, and hold the file to the module.

    Parameters
    ----------
    module
        The network. It takes the inputs of the spec in their order and returns its output, or a
        tuple of them. It is exported as for inference (batch norm with its running statistics, no
        dropout) and left as it was.
    spec, card
        What the policy says of itself.
    path
        Where to; the name must end in ``.onnx``.
    samples
        Real inputs to compare on, beside random ones of several lengths: each the arrays of one
        call, in the order of the spec.

    Raises
    ------
    UnsupportedFeatureError
        If the module does not run on the inputs of the spec, or cannot be written in ONNX.
    InstanceError
        If the result breaks a rule of policy files.
    CertificateError
        If the file would not say what the module says; then nothing is written.
    BackendUnavailableError
        Without PyTorch or onnxscript.
    """
    require_torch()
    rng = np.random.default_rng(0)
    num = len(_LENGTHS)
    # Axes of different names get different lengths, and each of them all lengths.
    drawn = [_draw(spec, [_LENGTHS[(k + n) % num] for n in range(num)], rng) for k in range(num)]
    was_training = module.training
    module.eval()
    try:
        _require_running(module, spec, drawn)
        model = _to_onnx(module, spec, _draw(spec, _SHOWN, rng))
    finally:
        module.train(was_training)
    # Compared before it is written: a file that says something else must not lie around.
    policy = build_policy(path, model, spec, card)
    assert_parity(module, policy, [*drawn, *samples])
    write_bytes(policy.path, policy.model)
    return policy


def assert_parity(
    torch_module: torch.nn.Module,
    policy_file: PolicyFile,
    samples: Iterable[Sequence[npt.NDArray[Any]]],
    tolerance: float = TOLERANCE,
) -> float:
    """Compare a policy file with the module it was made from; return the largest difference.

    Parameters
    ----------
    torch_module
        The module; it is run as for inference.
    policy_file
        The policy file.
    samples
        Inputs: each the arrays of one call, in the order of the spec. At least one.
    tolerance
        Largest difference that is allowed: absolute for outputs up to 1, relative beyond.

    Raises
    ------
    CertificateError
        If an output differs by more, or there are no samples.
    BackendUnavailableError
        Without PyTorch or onnxscript.
    """
    torch = require_torch()
    spec = policy_file.spec
    network = OnnxNetwork(policy_file.model, spec, policy_file.name)
    was_training = torch_module.training
    torch_module.eval()
    worst, compared = 0.0, 0
    try:
        for sample in samples:
            compared += 1
            with torch.no_grad():
                said = torch_module(*(torch.from_numpy(np.asarray(array)) for array in sample))
            theirs = said if isinstance(said, tuple | list) else (said,)
            ours = network(
                {tensor.name: array for tensor, array in zip(spec.inputs, sample, strict=True)}
            )
            for tensor, output in zip(spec.outputs, theirs, strict=True):
                worst = max(worst, _difference(ours[tensor.name], output.cpu().numpy()))
    finally:
        torch_module.train(was_training)
    if compared == 0 or not worst <= tolerance:
        found = f"differ by {worst:.3g}" if compared else "were compared on no sample"
        raise CertificateError(
            f"policy {policy_file.name}: its ONNX file and its PyTorch module {found}; at most "
            f"{tolerance:g} is allowed."
        )
    return worst


def _draw(
    spec: FeatureSpec, lengths: Sequence[int], rng: np.random.Generator
) -> list[npt.NDArray[Any]]:
    """Return random inputs of a spec; its open axes have these lengths, in order of their names."""
    names = dict.fromkeys(a for tensor in spec.inputs for a in tensor.shape if isinstance(a, str))
    length_of = {name: lengths[k % len(lengths)] for k, name in enumerate(names)}
    made = []
    for tensor in spec.inputs:
        shape = [length_of[axis] if isinstance(axis, str) else axis for axis in tensor.shape]
        if tensor.dtype.startswith("float"):
            made.append(rng.standard_normal(shape).astype(tensor.dtype))
        else:
            made.append(rng.integers(0, 2, shape).astype(tensor.dtype))
    return made


def _require_running(
    module: torch.nn.Module, spec: FeatureSpec, samples: Iterable[Sequence[npt.NDArray[Any]]]
) -> None:
    """Refuse a module that does not take the inputs of its spec or does not give its outputs."""
    import torch

    for sample in samples:
        try:
            with torch.no_grad():
                said = module(*map(torch.from_numpy, sample))
        except Exception as error:  # whatever PyTorch raises at shapes that do not fit
            raise UnsupportedFeatureError(
                f"the module does not run on the inputs of its feature spec, "
                f"{', '.join(f'{t.name} {t.text}' for t in spec.inputs)} "
                f"({_first_line(error)}); give it the spec that it was trained with."
            ) from None
        results = said if isinstance(said, tuple | list) else (said,)
        if len(results) != len(spec.outputs) or not all(map(torch.is_tensor, results)):
            raise UnsupportedFeatureError(
                f"{type(module).__name__} returns {len(results)} values, and its feature spec has "
                f"the outputs {', '.join(tensor.name for tensor in spec.outputs)}; return those "
                "tensors."
            )


def _to_onnx(
    module: torch.nn.Module, spec: FeatureSpec, sample: Sequence[npt.NDArray[Any]]
) -> ModelProto:
    """Return what PyTorch's exporter makes of a module."""
    import torch

    from alloc.schedulers.learned.onnx_rules import OPSET

    attention = torch.ops.aten.scaled_dot_product_attention.default
    try:
        # PyTorch refuses a module whose steps depend on the length of a named axis, except one that
        # treats a length of 1 as special: that one is among the lengths that are compared.
        open_axes = tuple(
            {k: torch.export.Dim(axis) for k, axis in enumerate(t.shape) if isinstance(axis, str)}
            for t in spec.inputs
        )
        with _quiet():
            program = torch.export.export(
                module, tuple(map(torch.from_numpy, sample)), dynamic_shapes=open_axes
            )
            if any(node.target is attention for node in program.graph.nodes):
                program = program.run_decompositions({attention: _with_heads})
            exported = torch.onnx.export(
                program,
                dynamic_shapes=open_axes,
                dynamo=True,
                opset_version=OPSET,
                input_names=[tensor.name for tensor in spec.inputs],
                output_names=[tensor.name for tensor in spec.outputs],
                verbose=False,
            )
    except Exception as error:  # whatever PyTorch raises at what it cannot export
        raise UnsupportedFeatureError(
            f"PyTorch cannot export {type(module).__name__} to ONNX ({_first_line(error)}); write "
            "its forward without branches on values and for axes of any length, or hand "
            "write_policy an ONNX model made otherwise."
        ) from None
    if exported is None:
        raise AssertionError("with dynamo=True the exporter returns what it made")
    model: ModelProto = exported.model_proto
    # The exporter notes where in the source each step stands, with the paths of this machine.
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        del part.metadata_props[:]
        part.ClearField("doc_string")
    del graph.value_info[:]
    return model


def _with_heads(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *given: Any, **options: Any
) -> Any:
    """Give attention an axis of heads, without which the exporter does not know it."""
    from torch.nn.functional import scaled_dot_product_attention

    if query.dim() >= 4:
        return NotImplemented  # it stays as it is
    query, key, value = (tensor.unsqueeze(-3) for tensor in (query, key, value))
    return scaled_dot_product_attention(query, key, value, *given, **options).squeeze(-3)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what PyTorch says of its names to come and of packages that policies do not use."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _first_line(error: BaseException) -> str:
    # The exporter wraps the reason in advice on how to report it.
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")


def _difference(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> float:
    if ours.shape != theirs.shape:
        return float("inf")
    if ours.size == 0:
        return 0.0
    if ours.dtype.kind != "f":
        return 0.0 if np.array_equal(ours, theirs) else float("inf")
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    if not np.isfinite(b).all():  # ours is: the network checks what it gives
        return float("inf")
    return float((np.abs(a - b) / np.maximum(np.abs(b), 1.0)).max())
