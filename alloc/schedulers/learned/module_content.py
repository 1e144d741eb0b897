"""What the decisions of a PyTorch module depend on, as a hash for stored results."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from alloc.schedulers.places import code_of

if TYPE_CHECKING:
    import torch


def content_of_module(module: torch.nn.Module) -> str:
    """Return a hash of a module's weights, its parts, their plain attributes and their code.

    Two networks of the same weights may differ in an activation, or in a number that is no weight.
    """
    digest = hashlib.sha256()
    codes: dict[type, str] = {}
    for name, part in module.named_modules():
        kind = type(part)
        if kind not in codes:
            # PyTorch's own layers are known by their names.
            own = "" if kind.__module__.startswith("torch.") else code_of(kind)
            codes[kind] = f"{kind.__module__}.{kind.__qualname__} {own}"
        # Whether it trains is none: it is asked as for inference.
        attributes = [
            (key, _plain(value))
            for key, value in sorted(vars(part).items())
            if not key.startswith("_") and key != "training"
        ]
        # Of TorchScript and of exported programs, whose class says nothing.
        generated = getattr(part, "code", "")
        digest.update(f"{name} {codes[kind]} {generated} {attributes}\n".encode())
    for name, value in module.state_dict().items():
        digest.update(f"{name} {_plain(value)}\n".encode())
        if hasattr(value, "detach"):
            import torch

            # As bytes: NumPy has not every number of PyTorch's.
            flat = value.detach().cpu().reshape(-1)
            digest.update(f"{value.dtype} {tuple(value.shape)}\n".encode())
            digest.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return digest.hexdigest()


def _plain(value: Any) -> str:
    """Return a value as text that is the same in every process; of an object only its type."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_plain(k)}: {_plain(v)}' for k, v in value.items())}}}"
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
