"""The reference of the Python functions: one page for each room, filled from the docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alloc.errors import BackendUnavailableError
from alloc.families import FAMILIES

DOCS = Path(__file__).parents[1]
ROOMS = (
    *("alloc", "alloc.certificate", "alloc.client", "alloc.comparison", "alloc.documents"),
    *("alloc.errors", "alloc.families", "alloc.family", "alloc.formulation", "alloc.instances"),
    *("alloc.model_builder", "alloc.objectives", "alloc.parallel", "alloc.planning"),
    *("alloc.plotting", "alloc.problems.right_sizing", "alloc.report", "alloc.result"),
    *("alloc.schedulers", "alloc.schedulers.state", "alloc.server", "alloc.simulation"),
    *("alloc.topology", "alloc.units", "alloc.verification", "alloc.workload"),
    "alloc.workload.parallelism",
    # The homes of problems and solutions.
    *sorted(
        {name.partition(":")[0] for f in FAMILIES.values() for name in (f.problem, f.solution)}
        - {"numpy"}
    ),
)
"""Rooms, and modules in them, all of whose public names are for users."""


def public_names() -> dict[str, set[str]]:
    """Return the public names by the module that a user imports them from.

    They are what the modules of `ROOMS` export, and what the examples of the pages import. Names
    that need an extra which is not here are left out.
    """
    names: defaultdict[str, set[str]] = defaultdict(set)
    for module in ROOMS:
        names[module].update(_exported(module))
    for (module, name), value in _imported_by_pages().items():
        if _is_shown(value):
            names[module].add(name)
    return names


def left_out() -> list[str]:
    """Return what pages import and the reference lacks, since an extra is not installed."""
    found = _imported_by_pages()
    return sorted(f"{module}.{name}" for (module, name), value in found.items() if value is None)


def _imported_by_pages() -> dict[tuple[str, str], Any]:
    """Return what the examples of all pages import, by module and name: None without its extra."""
    found: dict[tuple[str, str], Any] = {}
    for page in sorted(DOCS.glob("*.md")):
        for module, name in _imported(page.read_text(encoding="utf-8")):
            try:
                home = importlib.import_module(module)
                # A module in a package is loaded when it is asked for, as `from` does.
                if not hasattr(home, name):
                    importlib.import_module(f"{module}.{name}")
                found[module, name] = getattr(home, name)
            except BackendUnavailableError:
                found[module, name] = None
    return found


def _is_shown(value: Any) -> bool:
    """Return whether a value is a class or a function, with a cache of its own or not."""
    return inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value))


def _exported(module: str) -> Iterator[str]:
    """Yield the functions and classes of alloc that a module offers."""
    found = importlib.import_module(module)
    for name in {*vars(found), *getattr(found, "__all__", ())}:
        value = getattr(found, name)
        home = getattr(value, "__module__", "") or ""
        if name.startswith("_") or not _is_shown(value):
            continue
        if home == module or (hasattr(found, "__path__") and home.startswith("alloc.")):
            yield name


def _imported(page: str) -> Iterator[tuple[str, str]]:
    """Yield what the examples of a page import from alloc: module and name."""
    for block in re.findall(r"^```python[^\n]*\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("alloc"):
                for alias in node.names:
                    yield str(node.module), alias.name


def reference_pages() -> dict[str, str]:
    """Return the pages of the reference by their place."""
    names = public_names()
    # A name has one home: the shortest way to import it; elsewhere it is told where that is.
    homes: dict[int, tuple[str, str]] = {}
    for module in sorted(names, key=lambda module: (module.count("."), module)):
        for name in sorted(names[module]):
            value: Any = getattr(importlib.import_module(module), name)
            homes.setdefault(id(value), (module, name))
    rooms: defaultdict[str, list[str]] = defaultdict(list)
    for module in sorted(names):
        rooms[_room(module)].append(module)
    pages = {
        f"api/{room}.rst": _page(room, modules, names, homes) for room, modules in rooms.items()
    }
    lines = [f"- :doc:`{room}`: {_summary(room)}" for room in rooms]
    pages["api/index.rst"] = "\n".join(
        [
            *_heading("Python", "="),
            "The public functions and types, room by room, from their docstrings. What the page",
            "``alloc`` holds is imported from ``alloc`` itself.",
            "",
            *lines,
            "",
            *(".. toctree::", "   :hidden:", ""),
            *(f"   {room}" for room in rooms),
            "",
        ]
    )
    return pages


def _heading(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def _room(module: str) -> str:
    """Return the page of a module: its room, and in `alloc.problems` the problem."""
    parts = module.split(".")
    return ".".join(parts[: 3 if parts[1:2] == ["problems"] else 2])


def _summary(module: str) -> str:
    """Return the first sentence of a module's docstring."""
    text = inspect.cleandoc(importlib.import_module(module).__doc__ or "")
    return " ".join(text.partition("\n\n")[0].split())


def _page(
    room: str,
    modules: list[str],
    names: dict[str, set[str]],
    homes: dict[int, tuple[str, str]],
) -> str:
    """Return the page of a room, with a section for each of its modules that has names."""
    lines = [*_heading(room, "="), _summary(room), ""]
    own = [
        f":py:obj:`{name} <{module}.{name}>`"
        for module in modules
        for name in sorted(names[module], key=str.lower)
        if homes[id(getattr(importlib.import_module(module), name))] == (module, name)
    ]
    lines += ["On this page: " + ", ".join(own) + ".", ""] if own else []
    for module in modules:
        if module != room:
            lines += [*_heading(module, "-"), _summary(module), ""]
        elsewhere = []
        for name in sorted(names[module], key=str.lower):
            value = getattr(importlib.import_module(module), name)
            is_class = inspect.isclass(value)
            home = homes[id(value)]
            if home == (module, name):
                lines.append(f".. {'autoclass' if is_class else 'autofunction'}:: {module}.{name}")
                lines += ["   :members:", ""] if is_class else [""]
            else:
                elsewhere.append(f":py:{'class' if is_class else 'func'}:`{'.'.join(home)}`")
        if elsewhere:
            lines += [f"Also from here: {', '.join(elsewhere)}.", ""]
    return "\n".join(lines)
