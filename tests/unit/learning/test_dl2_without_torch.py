"""Without the `learn` extra DL2's training says what is missing; the rest of alloc runs."""

from __future__ import annotations

import pytest

from alloc.errors import BackendUnavailableError


def test_without_pytorch_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base install has no PyTorch: no traceback of an import, but the cure."""
    import importlib.util
    import sys

    known = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> object:
        return None if name == "torch" else known(name, package)

    for name in [name for name in sys.modules if name.startswith("alloc.learning.dl2")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(BackendUnavailableError, match=r'pip install "alloc\[learn\]"'):
        importlib.import_module("alloc.learning.dl2")
