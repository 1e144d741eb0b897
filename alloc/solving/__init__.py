"""The engine: `solve` picks a method, the checker checks its answer, the certificate says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alloc.solving.solver import solve as solve

if TYPE_CHECKING:
    from alloc.solving.round.online import RoundMemory as RoundMemory
    from alloc.solving.round.online import allocate_round as allocate_round


def __getattr__(name: str) -> Any:
    """Load the method of rounds when it is asked for: other families need none of it."""
    if name not in ("RoundMemory", "allocate_round"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from alloc.solving.round import online

    return globals().setdefault(name, getattr(online, name))
