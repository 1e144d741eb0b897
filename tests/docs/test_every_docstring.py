"""Every public function says what its parameters mean, and every constant why it has its value.

Read from the files, so that no part of the library has to be there.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from docstrings import named

ROOT = Path(__file__).parents[2]
FOLDERS = ("alloc", "models", "instances")
COMMANDS = re.compile(r"\.(command|callback|get|post|put|delete|api_route|head)\(|overload|setter")
"""What decorates a command or a route: its parameters carry their help themselves."""
OPTIONS = re.compile(r"(Option|_option|Argument|typer\.Context)\b")
"""What parameters of commands are annotated with that have a help of their own, or need none."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def names() -> list[str]:
    """The paths of the library's files: the two links into it are left out."""
    paths = (p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*.py")))
    every = [p.relative_to(ROOT).as_posix() for p in paths]
    return [name for name in every if not name.startswith(("alloc/models/", "alloc/instances/"))]


NAMES = names()


@cache
def parsed(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text(encoding="utf-8"))


@cache
def classes() -> dict[str, list[ast.ClassDef]]:
    """The classes of the library by name."""
    found = defaultdict(list)
    for name in NAMES:
        for node in parsed(name).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(node)
    return found


def bases(owner: ast.ClassDef) -> list[ast.ClassDef]:
    """A class and all that it is made from, as far as they are of the library."""
    found, waiting = [], [owner]
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found.append(node)
        for base in node.bases:
            outer = base.value if isinstance(base, ast.Subscript) else base
            waiting += classes().get(ast.unparse(outer).rpartition(".")[2], [])
    return found


def explained(function: Function, owner: ast.ClassDef | None, module: ast.Module) -> set[str]:
    """Parameters that are explained: at the function, in a base class, or once for a module.

    The docstring of a module may have a section Parameters too: of what all its functions take.
    """
    docs = [ast.get_docstring(module)]
    for node in bases(owner) if owner else ():
        same = (f for f in node.body if isinstance(f, Function) and f.name == function.name)
        docs += [ast.get_docstring(f) for f in same]
    docs.append(ast.get_docstring(function))
    return set().union(*(named(doc) for doc in docs))


def is_option(function: Function, parameter: ast.arg) -> bool:
    """Return whether a parameter is an option or argument of a command, which has its own help."""
    annotation = parameter.annotation
    is_command = function.name.endswith("_command") and annotation is not None
    return is_command and bool(OPTIONS.search(ast.unparse(annotation)))


def unexplained(module: ast.Module) -> dict[str, list[str]]:
    """The parameters of a module that nobody explains, by function."""
    missing = {}
    owners = [None, *(n for n in module.body if isinstance(n, ast.ClassDef))]
    for owner in owners:
        if owner is not None and owner.name.startswith("_"):
            continue
        for function in (owner or module).body:
            if not isinstance(function, Function) or function.name.startswith("_"):
                continue
            decorators = [ast.unparse(d) for d in function.decorator_list]
            if any(COMMANDS.search(d) for d in decorators):
                continue
            given = function.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            is_method = owner is not None and "staticmethod" not in decorators
            own = [a for a in every[int(is_method) :] if not a.arg.startswith("_")]
            names = {a.arg for a in own}
            left = {a.arg for a in own if not is_option(function, a)}
            left -= explained(function, owner, module)
            if len(names) >= 2 and left:
                where = f"{owner.name}.{function.name}" if owner else function.name
                missing[where] = sorted(left)
    return missing


def is_number(node: ast.expr | None) -> bool:
    """Return whether an expression is made of numbers alone."""
    parts = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    kinds = (
        {type(n.value) for n in ast.walk(node) if isinstance(n, ast.Constant)} if node else set()
    )
    return (
        node is not None
        and all(isinstance(n, parts) for n in ast.walk(node))
        and bool(kinds)
        and kinds <= {int, float}
    )


def bare_constants(text: str) -> list[str]:
    """Numbers with a name for a whole module, of which no word says why they are what they are.

    A word is a docstring below, a comment at the line, or one above it and those next to it.
    """
    lines, body = text.splitlines(), ast.parse(text).body
    found, is_told, last = [], False, -1
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not (isinstance(node, (ast.Assign, ast.AnnAssign)) and is_number(node.value)):
            continue
        if node.lineno != last + 1:
            is_told = lines[node.lineno - 2].lstrip().startswith("#")
        last = node.end_lineno
        below = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if not (is_told or below or "#" in lines[node.end_lineno - 1]):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found.append(ast.unparse(target))
    return found


@pytest.mark.long
@pytest.mark.parametrize("room", sorted({"/".join(name.split("/")[:2]) for name in NAMES}))
def test_every_parameter_and_constant_is_explained(room: str) -> None:
    here = [name for name in NAMES if name == room or name.startswith(f"{room}/")]
    missing = {name: which for name in here if (which := unexplained(parsed(name)))}
    assert not missing, "add them to a section Parameters, with unit and range"
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in here}
    bare = {name: left for name in here if (left := bare_constants(texts[name]))}
    assert not bare, "say why they have their value"


def test_what_nobody_explains_is_seen() -> None:
    text = '''
"""A module.

Parameters
----------
shared
    Explained once.
"""
BARE = 3
TOLD = 4  # hours of a shift
# Of one source.
FIRST = 1
SECOND = 2.5e3

BELOW = -1
"""Because."""
NAME = "no number"

def one(alone): ...
def two(shared, other): ...
def _hidden(first, second): ...
def go_command(first: Annotated[int, typer.Option(help="")], second: JsonOption, third): ...
def plain(first: ReplicaOption, second: int): ...
class Some:
    @staticmethod
    def three(first, shared): ...
    def four(self, first): ...
    def five(self, first, second):
        """Do.

        Parameters
        ----------
        first, second
            Both.
        """
'''
    assert unexplained(ast.parse(text)) == {
        "two": ["other"],
        "go_command": ["third"],
        "plain": ["first", "second"],
        "Some.three": ["first"],
    }
    assert bare_constants(text) == ["BARE"]
