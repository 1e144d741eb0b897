"""No module imports itself by a detour, not even for types."""

from __future__ import annotations

import ast
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[2]
PLACES = {"alloc": "alloc", "models": "alloc.models", "instances": "alloc.instances"}
"""Folders at the top of the tree, and the packages that they are."""


def modules() -> dict[str, Path]:
    """Return every module of the library by its name."""
    found = {}
    for folder, package in PLACES.items():
        for path in (ROOT / folder).rglob("*.py"):
            inner = path.relative_to(ROOT / folder).with_suffix("").parts
            if folder == "alloc" and inner[0] in PLACES:
                continue  # the links of a checkout
            name = ".".join([package, *inner])
            found[name.removesuffix(".__init__")] = path
    return found


def imported_by(path: Path, known: dict[str, Path]) -> set[str]:
    """Return the modules that a file imports, at the top, within functions and for types."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return found & known.keys()


def circles(graph: nx.DiGraph) -> list[list[str]]:
    return [sorted(c) for c in nx.strongly_connected_components(graph) if len(c) > 1]


@pytest.mark.long
def test_no_module_imports_itself_by_a_detour():
    known = modules()
    graph = nx.DiGraph()
    for name, path in known.items():
        graph.add_edges_from((name, other) for other in imported_by(path, known) if other != name)
    assert len(graph) > 600
    assert circles(graph) == []


def test_a_circle_would_be_seen():
    assert circles(nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])) == [
        ["a", "b", "c"]
    ]
