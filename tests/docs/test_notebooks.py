"""The notebooks in examples/: without outputs, and every cell runs, in order, in a fresh folder."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
names = [path.name for path in NOTEBOOKS]


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    return [cell for cell in document["cells"] if cell["cell_type"] == kind]


def shown(source: str, namespace: dict[str, Any]) -> object:
    """Run a cell; return what a notebook shows: the value of an expression in the last line."""
    parts = ast.parse(source)
    last = parts.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(parts, "cell", "exec"), namespace)
        return None
    exec(compile(ast.Module(parts.body[:-1], []), "cell", "exec"), namespace)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)


def test_there_is_a_notebook_for_each_user():
    assert names == [
        "bound_by_api.ipynb",  # who builds a tool
        "extend_a_model.ipynb",  # an engineer or operations researcher
        "my_scheduler_against_the_bound.ipynb",  # who studies schedulers
        "trace_to_purchase.ipynb",  # who plans capacity
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=names)
def test_no_output_is_kept(path):
    """Outputs are another version's, and of somebody's machine."""
    for cell in cells(path, "code"):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
    assert path.stat().st_size < 12_000
    assert cells(path, "markdown")[0]["source"][0].startswith("# ")


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=names)
def test_every_cell_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    views = []
    for cell in cells(path, "code"):
        value = shown("".join(cell["source"]), namespace)
        view = getattr(value, "_repr_html_", None)
        views.append("" if view is None else view())
    # A notebook that shows nothing teaches nothing.
    assert any("<table" in view for view in views)
