"""What all trainers share: steps, checkpoints that survive anything, the curve, the clock.

A trainer is a deterministic machine: `advance` takes one step, and what it does depends on nothing
but its state and its settings. Randomness comes from generators whose state is in the checkpoint or
that are made anew for each step from the seed (`step_rng`). So training that is interrupted at any
moment, and taken up from the last checkpoint, ends in the same weights as training in one go.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from alloc.documents.files import read_bytes, write_bytes, write_text
from alloc.errors import AllocError, InstanceError, worker_deaths
from alloc.parallel import Workers, workers

if TYPE_CHECKING:
    import torch
    from torch import nn

    from alloc.schedulers.learned.feature_spec import FeatureSpec

Out = TypeVar("Out")

State = dict[str, Any]
"""What a checkpoint holds: tensors, numbers, strings, and lists and dicts of those."""

Report = Callable[[int, int, str], None]
"""Told after each step: steps done, steps in all, and in words how it goes."""

CHECKPOINT = "checkpoint.pt"
"""Name of the checkpoint in a training folder."""
CURVE = "curve.json"
"""Name of the training curve in a training folder."""

_MAGIC = b"alloc checkpoint 1\n"


def require_torch() -> Any:
    """Return PyTorch.

    Raises
    ------
    BackendUnavailableError
        Without it; the message says how to get it.
    """
    from alloc.learning.pytorch import torch

    return torch


@dataclass(frozen=True)
class Measurement:
    """A point of the training curve: steps done, stage, and values by name with their unit."""

    step: int
    stage: str
    values: Mapping[str, float]


@dataclass
class Curve:
    """The training curve: what was measured when."""

    points: list[Measurement] = field(default_factory=list)

    def add(self, step: int, stage: str, **values: float) -> None:
        """Add a point.

        Parameters
        ----------
        step
            Step of the training, 0 or more, not below the last.
        stage
            Part of the training that the step is of.
        **values
            What was measured, by name.
        """
        plain = {name: float(value) for name, value in values.items()}
        self.points.append(Measurement(step, stage, plain))

    def series(self, name: str) -> tuple[list[int], list[float]]:
        """Return the steps at which a value was measured, and the values."""
        found = [(p.step, p.values[name]) for p in self.points if name in p.values]
        return [step for step, _ in found], [value for _, value in found]

    def to_list(self) -> list[dict[str, Any]]:
        """Return the points as plain JSON values."""
        return [{"step": p.step, "stage": p.stage, **p.values} for p in self.points]

    @staticmethod
    def from_list(rows: list[dict[str, Any]]) -> Curve:
        """Return the curve of `to_list`."""
        curve = Curve()
        for row in rows:
            values = {k: float(v) for k, v in row.items() if k not in ("step", "stage")}
            curve.add(int(row["step"]), str(row["stage"]), **values)
        return curve


@dataclass(frozen=True)
class Account:
    """What the model card of one training says that those of others do not.

    Parameters
    ----------
    title, information, data, limits, references
        As in `ModelCard`.
    measure
        The validation's measure, a name in the training curve.
    curve_step, curve_value
        What the steps of the curve and that measure are, with unit.
    stage
        The only stage of the training whose validations are shown, or None for all.
    """

    title: str
    information: str
    data: str
    limits: tuple[str, ...]
    references: tuple[str, ...]
    measure: str
    curve_step: str
    curve_value: str
    stage: str | None = None


class Trainer(ABC):
    """A training run, step by step, that keeps the weights best in validation.

    A subclass sets `kind`, what is trained, `settings`, plain JSON values (a checkpoint is taken up
    only by a trainer of equal kind and settings), and `spec`, what its policy is shown and answers.

    Parameters
    ----------
    network
        What is trained.
    steps
        Steps in all; `step` of them are done, and `curve` grows as training goes on.
    seed
        Seed of everything random.

    Attributes
    ----------
    crew
        Whom `rollouts` go to; None: this process.
    elsewhere_s
        CPU time of rollouts in other processes, seconds.
    """

    kind: str
    settings: Mapping[str, Any]
    spec: FeatureSpec

    def __init__(self, network: nn.Module, steps: int, seed: int) -> None:
        self.network, self.steps, self.seed = network, steps, seed
        self.step, self.curve = 0, Curve()
        self.best_value, self._best = math.inf, weights_of(network)
        self.crew: Workers | None = None
        self.elsewhere_s = 0.0

    def rollouts(self, function: Callable[..., Out], calls: Sequence[tuple[Any, ...]]) -> list[Out]:
        """Return the results of calls that know nothing of each other, in their order.

        They go to the workers of `train`, if it has some; the results are the same bit for bit.

        Parameters
        ----------
        function
            A function of a module, such as one that plays an episode.
        calls
            The arguments of each call; what they change is lost.
        """
        if self.crew is None:
            return [function(*given) for given in calls]
        done = self.crew.in_order(_timed, [(function, *given) for given in calls])
        self.elsewhere_s += sum(seconds for _, seconds in done)
        return [result for result, _ in done]

    @abstractmethod
    def advance(self) -> str:
        """Take one step; return in words how it went."""

    @abstractmethod
    def state(self) -> State:
        """Return all that the next step depends on."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Take up a state; `step` and `curve` are set by then."""

    @abstractmethod
    def account(self) -> Account:
        """Return what the model card says of this training."""

    def best(self) -> Any:
        """Return the network that did best in validation."""
        network = copy.deepcopy(self.network)
        network.load_state_dict(self._best)
        return network

    def _keep_best(self, value: float) -> bool:
        """Keep the weights if they are the best in validation so far; return whether they are.

        A value that is not a number is never the best.
        """
        if not value < self.best_value:
            return False
        self.best_value, self._best = value, weights_of(self.network)
        return True


def weights_of(network: nn.Module) -> dict[str, torch.Tensor]:
    """Return a copy of the weights of a network."""
    return {name: weights.detach().clone() for name, weights in network.state_dict().items()}


def _timed(function: Callable[..., Out], *given: Any) -> tuple[Out, float]:
    """Return the result of a rollout, and its CPU time, seconds."""
    began_s = time.process_time()
    with single_thread():
        result = function(*given)
    return result, time.process_time() - began_s


def train(
    trainer: Trainer,
    folder: str | PathLike[str],
    *,
    resume: bool = True,
    report: Report | None = None,
    stop: Callable[[], bool] | None = None,
    jobs: int | None = None,
    parallel: str | None = None,
) -> float:
    """Run a trainer to its end, with a checkpoint after every step; return its CPU time, hours.

    The time is that of the whole training, also of the runs before an interruption and of other
    processes.

    Parameters
    ----------
    trainer
        What to run; at its beginning.
    folder
        Where checkpoint and curve are kept; made if it is not there.
    resume
        Whether to go on from a checkpoint that is there; otherwise one that is there is refused.
    report, stop
        Told after each step; asked before each step whether to stop there, so that a later call
        goes on.
    jobs, parallel
        Processes that play rollouts, and where they are: `count` and `kind` of
        `alloc.parallel.workers`. The weights do not depend on either.

    Raises
    ------
    InstanceError
        If the checkpoint is of other settings, damaged, or not wanted, or there are no such
        workers.
    SolverError
        If a worker process died.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InstanceError(f"{folder}: cannot be made ({error.strerror}).") from None
    path = folder / CHECKPOINT
    before_s = 0.0
    if path.exists():
        if not resume:
            raise InstanceError(
                f"{path}: is there already; resume it, or name another folder for a new run."
            )
        before_s = _take_up(trainer, path)
    trainer.elsewhere_s = 0.0  # that of an earlier call is in the checkpoint
    began_s = time.process_time()

    def spent_s() -> float:
        return before_s + time.process_time() - began_s + trainer.elsewhere_s

    with workers(parallel, jobs) as crew, worker_deaths("train"):
        trainer.crew = None if crew.is_alone else crew
        try:
            while trainer.step < trainer.steps and not (stop is not None and stop()):
                said = trainer.advance()
                _keep(trainer, path, spent_s())
                if report is not None:
                    report(trainer.step, trainer.steps, said)
        finally:
            trainer.crew = None
    return spent_s() / 3600


def _take_up(trainer: Trainer, path: Path) -> float:
    kept = load_checkpoint(path)
    for name, mine in (("kind", trainer.kind), ("settings", dict(trainer.settings))):
        if kept[name] != mine:
            raise InstanceError(
                f"{path}: belongs to a training of other {name} ({_difference(kept[name], mine)}); "
                "give the same ones, or name another folder."
            )
    try:
        trainer.step = int(kept["step"])
        trainer.curve.points[:] = Curve.from_list(kept["curve"]).points
        trainer.restore(kept["state"])
        return float(kept["cpu_s"])
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        if isinstance(error, AllocError):
            raise
        found = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise InstanceError(
            f"{path}: does not hold the state of this training ({found[:100]}), perhaps because "
            "another version of alloc wrote it; train from the start in another folder."
        ) from None


def _keep(trainer: Trainer, path: Path, cpu_s: float) -> None:
    curve = trainer.curve.to_list()
    save_checkpoint(
        path,
        {
            "kind": trainer.kind,
            "settings": dict(trainer.settings),
            "step": trainer.step,
            "curve": curve,
            "cpu_s": cpu_s,
            "state": trainer.state(),
        },
    )
    write_text(path.with_name(CURVE), json.dumps(curve, indent=1) + "\n")


def _difference(theirs: Any, mine: Any) -> str:
    if not isinstance(theirs, dict) or not isinstance(mine, dict):
        return f"there {theirs}, here {mine}"
    for name in sorted({*theirs, *mine}):
        if theirs.get(name) != mine.get(name):
            return f"{name}: there {theirs.get(name)}, here {mine.get(name)}"
    return "they differ"


def save_checkpoint(path: str | PathLike[str], state: State) -> None:
    """Write a checkpoint as a whole: until the last byte is on disk, the old one stays.

    The file begins with the SHA-256 of what follows.

    Parameters
    ----------
    path
        The file; one that is there is replaced.
    state
        Tensors and plain values, nested in dictionaries and lists.

    Raises
    ------
    TypeError
        If the state holds more than tensors and plain values: it could never be read back.
    """
    torch = require_torch()
    buffer = io.BytesIO()
    torch.save(state, buffer)
    payload = buffer.getvalue()
    try:
        torch.load(io.BytesIO(payload), weights_only=True)
    except Exception as error:
        raise TypeError("a checkpoint holds tensors and plain values only") from error
    digest = hashlib.sha256(payload).hexdigest().encode()
    write_bytes(path, _MAGIC + digest + b"\n" + payload)


def load_checkpoint(path: str | PathLike[str]) -> State:
    """Read a checkpoint; nothing in it is executed.

    Raises
    ------
    InstanceError
        If it is not there, is not a checkpoint, or is not whole.
    """
    torch = require_torch()
    path = Path(path)
    data = read_bytes(path)
    head, length = len(_MAGIC), 64
    if data[:head] != _MAGIC[: len(data)]:
        raise InstanceError(f"{path}: is not a checkpoint of alloc.")
    digest, payload = data[head : head + length], data[head + length + 1 :]
    if hashlib.sha256(payload).hexdigest().encode() != digest:
        raise InstanceError(
            f"{path}: is damaged or cut short; go back to a copy, or train from the start in "
            "another folder."
        )
    try:
        state = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except Exception:
        raise InstanceError(
            f"{path}: holds something else than tensors and plain values, so it is not a "
            "checkpoint of alloc; nothing in it was executed."
        ) from None
    if not isinstance(state, dict) or not {"kind", "settings", "step", "state"} <= state.keys():
        raise InstanceError(f"{path}: is not a checkpoint of alloc.")
    return state


@contextmanager
def single_thread() -> Iterator[None]:
    """Let PyTorch use one thread: sums in one order are the same numbers wherever it runs.

    Small networks are also faster so. Afterwards PyTorch uses as many as before.
    """
    torch = require_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def step_rng(seed: int, *position: int) -> np.random.Generator:
    """Return the generator of a step: the same whenever that step is taken.

    The position, such as stage, step and purpose, sets this use of a seed apart from all others.
    """
    return np.random.default_rng([seed, *position])


def step_generator(seed: int, *position: int) -> torch.Generator:
    """Return PyTorch's generator of a step, see `step_rng`."""
    torch = require_torch()
    generator = torch.Generator()
    generator.manual_seed(int(step_rng(seed, *position).integers(2**63 - 1)))
    return generator  # type: ignore[no-any-return]
