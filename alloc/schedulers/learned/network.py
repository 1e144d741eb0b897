"""Running a network: an ONNX Runtime session that opens when it is first asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alloc.errors import BackendUnavailableError, InstanceError, SimulationError
from alloc.schedulers.learned.feature_spec import FeatureSpec, shown

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


class OnnxNetwork:
    """A network in ONNX Runtime, on one thread of the CPU.

    One thread: a comparison runs one simulation on each core, the networks are small, and sums come
    out the same every time. `model` is a policy file that passed `read_policy`, `spec` its feature
    spec, and `name` that of the policy, for messages.
    """

    def __init__(self, model: bytes, spec: FeatureSpec, name: str) -> None:
        self._spec = spec
        self._name = name
        self._outputs = [tensor.name for tensor in spec.outputs]
        self._session = _open(model, name)

    def __call__(self, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs by name.

        Raises
        ------
        SimulationError
            If an input or output is not as the spec states it, or an output is not finite.
        """
        for tensor in self._spec.inputs:
            if tensor.name not in inputs:
                raise SimulationError(f"policy {self._name}: got no input {tensor.name}.")
            self._require(tensor.misfit(inputs[tensor.name]), "input")
        try:
            answers = self._session.run(self._outputs, dict(inputs))
        except Exception as error:  # ONNX Runtime's own classes, which differ between versions
            raise SimulationError(
                f"policy {self._name}: ONNX Runtime could not run it ({_first_line(error)})."
            ) from None
        for tensor, answer in zip(self._spec.outputs, answers, strict=True):
            self._require(tensor.misfit(answer), "output")
            if answer.dtype.kind == "f" and not np.isfinite(answer).all():
                raise SimulationError(
                    f"policy {self._name}: its output {tensor.name} holds NaN or infinity; what "
                    "it was shown lies outside what it can compute with."
                )
        return dict(zip(self._outputs, answers, strict=True))

    def _require(self, misfit: str | None, side: str) -> None:
        if misfit is not None:
            raise SimulationError(f"policy {self._name}: {side} {misfit}.")


def _open(model: bytes, name: str) -> InferenceSession:
    try:
        import onnxruntime
    except ImportError as error:
        raise BackendUnavailableError(
            f"policy {name} needs onnxruntime, which cannot be loaded ({error}); install it with "
            "pip install onnxruntime."
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    # The further fusions win nothing on networks of this size, and one of them (ONNX Runtime 1.31)
    # crashes the process at a LayerNormalization whose bias is left empty.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4  # what is wrong is raised, not printed
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # as in OnnxNetwork
        raise InstanceError(
            f"policy {name}: ONNX Runtime {onnxruntime.__version__} refuses it "
            f"({_first_line(error)}); export it again."
        ) from None


def _first_line(error: Exception) -> str:
    return shown((str(error).strip().splitlines() or [type(error).__name__])[0], 300)
