"""From a trained PyTorch module to a policy file, and the proof that both say the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alloc.documents.files import write_bytes
from alloc.errors import CertificateError
from alloc.learning.training import require_torch
from alloc.schedulers.learned.feature_spec import FeatureSpec
from alloc.schedulers.learned.model_card import ModelCard
from alloc.schedulers.learned.network import OnnxNetwork
from alloc.schedulers.learned.policy_file import PolicyFile, build_policy

if TYPE_CHECKING:
    import torch

TOLERANCE = 1e-5
"""Largest difference between ONNX Runtime's output and PyTorch's, relative where it exceeds 1."""

_LENGTHS = (1, 2, 7, 40)


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
        If the module cannot be written in ONNX.
    InstanceError
        If the result breaks a rule of policy files.
    CertificateError
        If the file would not say what the module says; then nothing is written.
    BackendUnavailableError
        Without PyTorch.
    """
    require_torch()
    from alloc.learning.onnx_tracing import sample_inputs, to_onnx

    model = to_onnx(module, spec)
    rng = np.random.default_rng(0)
    drawn = [sample_inputs(spec, length, rng) for length in _LENGTHS]
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
        Without PyTorch.
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
