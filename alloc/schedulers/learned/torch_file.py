"""PyTorch modules as schedulers: in a file, or as they are.

``torch.save(module, path)`` and TorchScript hold pickles, and a pickle runs code: open only what
you trust. So one is opened where somebody names its path, and never by the server.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, SimulationError, missing_extra
from alloc.schedulers.learned.feature_spec import FeatureSpec, shown
from alloc.schedulers.learned.kinds import Decider, feature_spec, parameters_of, policy_kind
from alloc.schedulers.learned.module_content import content_of_module
from alloc.schedulers.learned.shapes import DOMAIN, PRIORITY, WINDOW
from alloc.schedulers.learned.window_features import WindowFeatures
from alloc.schedulers.places import raised
from alloc.schedulers.state import ClusterState, Decision, Knowledge

if TYPE_CHECKING:
    import torch

_TRIED = (WINDOW, DOMAIN, PRIORITY)
"""Kinds that a module is tried as where none is named."""

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {WINDOW: {"window": WindowFeatures().window}}
"""What the environments have by default and the kinds leave open."""

_ROWS = 3
"""Length of open axes when a module is tried."""


class TorchFile:
    """Makes the scheduler of a module in a file.

    Parameters
    ----------
    path
        The file: of ``torch.save(module, path)`` or TorchScript (``.pt``, ``.pth``), or of
        ``torch.export.save`` (``.pt2``).
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(
        self, sample: bool = False, kind: str | None = None, **parameters: Any
    ) -> ModuleScheduler:
        """Decide with a PyTorch module over the observations of an environment.

        Further options are parameters of its kind, such as ``window``, ``encoding`` or ``level``.

        Parameters
        ----------
        sample
            Draw each action from the network's distribution instead of taking the likeliest.
        kind
            What it is shown and answers, such as ``dl2-window/1``; null: the one that it runs on.

        Raises
        ------
        InstanceError
            If the file holds no module, or it does not run on what its kind shows.
        BackendUnavailableError
            Without PyTorch.
        """
        module = _load(self.path)
        return module_scheduler(
            module, self.path.stem, str(self.path), sample=sample, kind=kind, parameters=parameters
        )


class ModuleScheduler:
    """Decide with a PyTorch module; `module_scheduler` makes one.

    Parameters
    ----------
    module
        The network: the inputs of the spec in their order to its output, or a tuple of them.
    spec
        What it is shown and answers.
    name
        Name in tables.
    sample
        Whether to draw actions instead of taking the likeliest.
    """

    def __init__(
        self, module: torch.nn.Module, spec: FeatureSpec, name: str, *, sample: bool = False
    ) -> None:
        kind = policy_kind(spec.kind)
        if sample and not kind.can_sample:
            raise InstanceError(
                f"{name} decides on all jobs at once and has nothing to draw; leave out sample."
            )
        self.name = f"{name}(sample=true)" if sample else name
        self.needs: Knowledge = kind.needs
        self.information = f"what its network is shown ({spec.kind})"
        self.features = kind.features
        self.draws = sample
        self._module = module
        self._spec = spec
        self._decider: Decider | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return all but what it remembers of a simulation."""
        return {**self.__dict__, "_decider": None}

    @property
    def content(self) -> str:
        """What its decisions depend on, for the key of stored results."""
        return f"{self._spec.model_dump_json()} {self.draws} {content_of_module(self._module)}"

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        if self._decider is not None:
            self._decider.reset()

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        if self._decider is None:
            self._decider = policy_kind(self._spec.kind).make_decider(
                _Network(self._module, self._spec, self.name),
                parameters_of(self._spec),
                name=self.name,
                sample=self.draws,
            )
        return self._decider.decide(state)


def module_scheduler(
    module: torch.nn.Module,
    name: str,
    where: str,
    *,
    sample: bool = False,
    kind: str | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> ModuleScheduler:
    """Return the scheduler of a module, which is run once to see that it fits its kind.

    Parameters
    ----------
    module
        The network.
    name
        Name in tables.
    where
        What it is called in messages.
    sample
        Whether to draw actions instead of taking the likeliest.
    kind
        Its kind; None for the one of `shapes` that it runs on.
    parameters
        Parameters of the kind.

    Raises
    ------
    InstanceError
        If it runs on none, or gives something else than its kind asks for.
    """
    given = dict(parameters or {})
    reasons = []
    for tried in (kind,) if kind else _TRIED:
        try:
            spec = feature_spec(tried, **{**_DEFAULTS.get(tried, {}), **given})
            _Network(module, spec, name)(_blank(spec))
        except (InstanceError, SimulationError) as error:
            reasons.append(f"as {tried}: {str(error).removeprefix(f'{name}: ').rstrip('.')}")
            continue
        return ModuleScheduler(module, spec, name, sample=sample)
    raise InstanceError(
        f"{where}: cannot decide {'; '.join(reasons)}; give the kind and the parameters it was "
        "trained with, for example kind=dl2-window/1 and window=40."
    )


class _Network:
    """Runs a module on the inputs of its spec."""

    def __init__(self, module: torch.nn.Module, spec: FeatureSpec, name: str) -> None:
        self._module = module
        self._spec = spec
        self._name = name

    def __call__(self, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs by name, as the spec states them."""
        import torch

        try:
            with torch.no_grad(), _inferring(self._module):
                said = self._module(
                    *(torch.from_numpy(inputs[tensor.name]) for tensor in self._spec.inputs)
                )
            given = said if isinstance(said, tuple | list) else (said,)
            answers = [each.detach().cpu().numpy() for each in given]
        except Exception as error:  # whatever somebody's module raises
            text = shown(" ".join(str(error).split()))
            raise SimulationError(
                f"{self._name}: does not run on {self._spec.inputs[0].text} "
                f"({type(error).__name__}: {text})."
            ) from None
        if len(answers) != len(self._spec.outputs):
            raise SimulationError(
                f"{self._name}: gives {len(answers)} outputs, and there must be "
                f"{len(self._spec.outputs)}."
            )
        for tensor, answer in zip(self._spec.outputs, answers, strict=True):
            if (wrong := tensor.misfit(answer)) is not None:
                raise SimulationError(f"{self._name}: its output {wrong}.")
            if answer.dtype.kind == "f" and not np.isfinite(answer).all():
                raise SimulationError(
                    f"{self._name}: its output {tensor.name} holds NaN or infinity."
                )
        return {t.name: a for t, a in zip(self._spec.outputs, answers, strict=True)}


@contextmanager
def _inferring(module: torch.nn.Module) -> Iterator[None]:
    """Run a module as for inference, without dropout, and leave each part in the mode it was in.

    Part by part: an exported program refuses `eval`, a frozen script has no mode, and `train` would
    wake parts that were at rest.
    """
    training = [part for part in module.modules() if getattr(part, "training", False)]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _blank(spec: FeatureSpec) -> dict[str, npt.NDArray[Any]]:
    """Return inputs of zeros; open axes get a length, that of a batch is 1."""
    lengths = {"batch": 1}
    return {
        tensor.name: np.zeros(
            [axis if isinstance(axis, int) else lengths.get(axis, _ROWS) for axis in tensor.shape],
            tensor.dtype,
        )
        for tensor in spec.inputs
    }


def _load(path: Path) -> Any:
    try:
        import torch
    except ImportError as error:
        raise missing_extra(f"{path} needs PyTorch", "learn", error) from None
    if not path.is_file():
        raise InstanceError(f"{path}: there is no such file; name a module that PyTorch saved.")
    for folder in (str(Path.cwd()), str(path.absolute().parent)):
        if folder not in sys.path:  # where the module's class may be
            sys.path.append(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript is on its way out, and still to be read
            if path.suffix == ".pt2":
                found = torch.export.load(path).module()
            elif _is_script(path):
                found = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
            else:
                found = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # whatever pickles raise
        raise InstanceError(
            f"{path}: cannot be loaded, {raised(error)}; its class must be importable here, or "
            "save it with torch.export.save(torch.export.export(module, ...), 'policy.pt2')."
        ) from error
    if not isinstance(found, torch.nn.Module):
        raise InstanceError(
            f"{path}: holds {type(found).__name__}, and no module; save the whole network with "
            "torch.save(module, path), not its weights alone."
        )
    return found


def _is_script(path: Path) -> bool:
    import zipfile

    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())
