"""Trained agents from elsewhere: files by their ending, models and modules as they are."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from alloc.errors import InstanceError
from alloc.schedulers.state import Scheduler

_ROOM = "alloc.schedulers.learned"

AGENT_FILES: Mapping[str, str] = {
    ".onnx": f"{_ROOM}.plain_onnx:OnnxFile",
    ".zip": f"{_ROOM}.sb3_archive:Sb3Archive",
    ".pt": f"{_ROOM}.torch_file:TorchFile",
    ".pth": f"{_ROOM}.torch_file:TorchFile",
    ".pt2": f"{_ROOM}.torch_file:TorchFile",
}
"""What makes the scheduler of a file, by the ending of its name."""


def is_agent_path(name: str) -> bool:
    """Return whether a scheduler's name is the path of a trained agent, or policy."""
    return Path(name).suffix in AGENT_FILES


def agent_factory(path: str) -> Callable[..., Scheduler]:
    """Return what makes the scheduler of a file; it is opened when that is called."""
    module, _, attribute = AGENT_FILES[Path(path).suffix].partition(":")
    return cast(Callable[..., Scheduler], getattr(import_module(module), attribute)(Path(path)))


def content_of_file(path: str) -> str:
    """Return a hash of a file.

    Raises
    ------
    InstanceError
        If it cannot be read.
    """
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except FileNotFoundError:
        raise InstanceError(
            f"{path}: there is no such file; name a trained agent or policy."
        ) from None
    except OSError as error:
        raise InstanceError(f"{path}: cannot be read ({error.strerror}).") from None


def agent_of(value: Any) -> Scheduler | None:
    """Return the scheduler of a model of Stable-Baselines3 or a module of PyTorch, else None.

    Raises
    ------
    InstanceError
        If it was trained on something else than alloc's environments show.
    """
    if hasattr(value, "decide") or isinstance(value, type):
        return None
    name = type(value).__name__
    if hasattr(value, "predict") and hasattr(value, "action_space") and hasattr(value, "policy"):
        from alloc.schedulers.learned.sb3_archive import agent_of_model

        return agent_of_model(value, name, name)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.nn.Module):
        from alloc.schedulers.learned.torch_file import module_scheduler

        return module_scheduler(value, name, name)
    return None
