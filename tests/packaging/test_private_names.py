"""What another package keeps private is not used, and what is in a module is not replaced.

Ruff refuses `module._name`; here are the ways around it, which break with the next release of
Python or of a package just the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.endswith("__")


def root_of(node: ast.expr) -> str | None:
    """The name that a dotted name begins with, `a` of `a.b.c`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def reaches(source: str) -> Iterator[str]:
    """The places where code takes a private name of a module, or changes what is in one."""
    nodes = list(ast.walk(ast.parse(source)))
    modules = {
        (alias.asname or alias.name).partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in nodes:
        match node:
            case ast.ImportFrom(module, names, 0) if (module or "").partition(".")[0] != "alloc":
                parts = [*(module or "").split("."), *(alias.name for alias in names)]
                wrong = any(map(is_private, parts))
            case ast.Attribute(value, name, ast.Load()):
                wrong = name == "__dict__" and root_of(value) in modules
            case ast.Attribute(value):
                wrong = root_of(value) in modules
            case ast.Call(ast.Name("vars" | "setattr" | "delattr"), [value, *_]):
                wrong = root_of(value) in modules
            case ast.Call(ast.Name("getattr"), [value, ast.Constant(name), *_]):
                wrong = is_private(name) and root_of(value) in modules
            case _:
                wrong = False
        if wrong:
            yield ast.unparse(node)


@pytest.mark.parametrize(
    "folder", [pytest.param("alloc", marks=pytest.mark.long), "models", "instances"]
)
def test_nothing_reaches_into_a_module(folder):
    found = {
        path.relative_to(ROOT).as_posix(): places
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (places := list(reaches(path.read_text(encoding="utf-8"))))
    }
    assert not found, "build it from public means"


@pytest.mark.parametrize(
    "line",
    [
        "from os import _exit_function",
        "from json._private import load",
        "json.loads = None",
        "json.decoder.scanner = None",
        "del json.loads",
        "vars(json)['loads'] = None",
        "vars(json)['_default_decoder']",
        "json.__dict__['_default_decoder']",
        "getattr(json, '_default_decoder')",
        "setattr(json, 'loads', None)",
        "delattr(json.decoder, 'scanner')",
    ],
)
def test_a_reach_is_seen(line):
    assert list(reaches(f"import json\n{line}"))


def test_what_is_public_or_ones_own_is_let_be():
    source = (
        "import json\nfrom alloc.errors import _x\nclass A:\n"
        "    def __init__(self): self._x = json.loads('1'); self.y = vars(self)['_x']\n"
        "a = getattr(A(), '_x'); a.y = json.__name__; json.x[0] = getattr(json, 'x')"
    )
    assert not list(reaches(source))
