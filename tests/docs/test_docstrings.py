"""What a user calls says what its parameters mean, each by name."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest
from docstrings import named

from alloc.families import FAMILIES

ROOMS = (
    *("alloc", "alloc.certificate", "alloc.client", "alloc.comparison", "alloc.documents"),
    *("alloc.families", "alloc.family", "alloc.instances", "alloc.model_builder"),
    *("alloc.objectives", "alloc.plotting", "alloc.problems.right_sizing", "alloc.report"),
    *("alloc.result", "alloc.schedulers", "alloc.schedulers.state", "alloc.server"),
    *("alloc.simulation", "alloc.topology", "alloc.verification", "alloc.workload"),
    "alloc.workload.parallelism",
    # The homes of problems and solutions.
    *sorted(
        {name.partition(":")[0] for f in FAMILIES.values() for name in (f.problem, f.solution)}
        - {"numpy"}
    ),
)
"""Rooms whose names are for users; a room exports what its `__init__` imports, or defines."""
ROOT = Path(__file__).parents[2]
SHOWN = re.compile(
    r"alloc\.(client|documents|instances|models|objectives|problems|schedulers|server|simulation"
    r"|solving|topology|workload)\b"
)
"""Rooms of which the pages for users import more than the room exports."""


def exported(room: str):
    """The functions and classes of alloc that a room offers, by name."""
    module = importlib.import_module(room)
    names = vars(module).keys() | set(getattr(module, "__all__", ()))
    for name in sorted(names):
        value = getattr(module, name)
        home = getattr(value, "__module__", "") or ""
        if name.startswith("_") or not (inspect.isfunction(value) or inspect.isclass(value)):
            continue
        if home == room or (hasattr(module, "__path__") and home.startswith("alloc.")):
            yield name, value


def shown():
    """The functions and classes that the examples of the pages for users import, by name."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and SHOWN.match(node.module or ""):
                    for alias in node.names:
                        yield alias.name, getattr(importlib.import_module(node.module), alias.name)


def callables(offered):
    """The functions and methods of what is offered, with the class of a method, by name."""
    for name, value in offered:
        if inspect.isfunction(value):
            yield name, value, None
        for method, raw in vars(value).items() if inspect.isclass(value) else ():
            function = getattr(raw, "__func__", raw)
            if inspect.isfunction(function) and not method.startswith("_"):
                yield f"{name}.{method}", function, value


def unnamed(function, owner) -> set[str]:
    """Parameters that a docstring leaves out, its own or that of the method it stands in for."""
    method = owner is not None and not isinstance(
        inspect.getattr_static(owner, function.__name__, None), staticmethod
    )
    parameters = list(inspect.signature(function).parameters)[int(method) :]
    wanted = {name for name in parameters if not name.startswith("_")}
    if len(wanted) < 2:
        return set()
    above = [getattr(base, function.__name__, None) for base in (owner.__mro__ if owner else ())]
    return wanted - set().union(*(named(inspect.getdoc(f)) for f in (function, *above) if f))


@pytest.mark.parametrize("room", [*ROOMS, "pages for users"])
def test_every_parameter_of_what_users_call_is_explained(room: str) -> None:
    offered = list(exported(room) if room in ROOMS else shown())
    assert offered, "there is nothing to look at"
    missing = {
        name: sorted(left)
        for name, function, owner in callables(offered)
        if (left := unnamed(function, owner))
    }
    assert not missing, "add them to the section Parameters, with unit and range"


def test_a_parameter_that_is_left_out_is_seen() -> None:
    def short(first: int, second: int) -> int:
        """Return a sum.

        Parameters
        ----------
        first : int
            One number.

        Returns
        -------
        int
            second
        """
        return first + second

    assert unnamed(short, None) == {"second"}
