"""What a call costs in counts, which are the same on every machine: calls, lines, bytes."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[tuple[Any, ...]]:
    """Return the list that the arguments of each call of a function are put into from now on."""
    plain = getattr(owner, name)
    calls: list[tuple[Any, ...]] = []

    def noted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return plain(*arguments, **options)

    monkeypatch.setattr(owner, name, noted)
    return calls


def lines_of(call: Callable[[], object]) -> int:
    """Return how many lines of Python a call runs."""
    number = 0

    def follow(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal number
        number += event == "line"
        return follow

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        call()
    finally:
        sys.settrace(before)
    return number


def peak_of(call: Callable[[], object]) -> int:
    """Return the most memory that a call holds at a time, bytes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
