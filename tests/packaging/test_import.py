"""Importing alloc: light, stable under lazy loading, and only under its own name."""

import ast
import importlib
import subprocess
import sys
import types
from pathlib import Path

import pytest

import alloc

ROOT = Path(__file__).parents[2]
HEAVY = [
    "highspy",
    "jinja2",
    "joblib",
    "matplotlib",
    "ortools",
    "pydantic",
    "pyomo",
    "rich",
    "scipy",
    "sqlalchemy",
    "typer",
]


def run(code: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter: this one has long imported everything."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=120
    )


def test_import_is_light():
    done = run(f"import sys, alloc; print([name for name in {HEAVY} if name in sys.modules])")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_importing_alloc_loads_nothing_yet():
    """So the program can say what an interrupt does before half a second of loading begins."""
    done = run("import sys, alloc.cli; print([m for m in sys.modules if m.startswith('alloc.')])")
    # The first imports nothing of alloc: through it types reach their documents later.
    assert done.stdout.strip() == "['alloc.serialisation', 'alloc.cli']", done.stderr


def test_importing_alloc_loads_next_to_nothing_of_the_standard_library():
    """Each of these takes longer to load than all that the import of alloc does by itself."""
    slow = ("typing", "dataclasses", "inspect", "re")
    code = f"import sys, alloc; print([name for name in {slow} if name in sys.modules])"
    # Without `site`, which loads some of them where packages are installed for editing.
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True)
    assert done.stdout.strip() == b"[]", done.stderr


@pytest.mark.long
def test_a_star_import_brings_the_public_names():
    done = run("from alloc import *; print(Instance.__name__, solve.__name__, 'Any' in vars())")
    assert done.stdout.strip() == "Instance solve False", done.stderr


def test_what_type_checkers_see_is_what_there_is():
    """The names are written twice, once for type checkers; a name in one place only is a lie."""
    tree = ast.parse(Path(alloc.__file__).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        name.asname: (line.module, name.name)
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for name in line.names
    }
    assert set(seen) <= set(dir(alloc))
    for name, (module, original) in seen.items():
        assert getattr(alloc, name) is getattr(importlib.import_module(module), original)
    public = {name for name in dir(alloc) if name[0] != "_"}
    modules = {name for name in public if isinstance(getattr(alloc, name), types.ModuleType)}
    assert public - modules - {"TYPE_CHECKING", "Any"} == set(seen) - {"instances", "planning"}


@pytest.mark.long
def test_solve_stays_a_function():
    # A module of the same name would take its place on second access.
    done = run(
        "import alloc, types\n"
        "first = alloc.solve\n"
        "import alloc.solving\n"
        "assert first is alloc.solve\n"
        "assert isinstance(alloc.solve, types.FunctionType), alloc.solve\n"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize(("room", "name"), [("planning", "plan"), ("instances", "load")])
def test_a_room_is_there_without_an_import_of_its_own(room, name):
    done = run(f"import alloc; print(alloc.{room}.{name}.__name__, {room!r} in dir(alloc))")
    assert done.stdout.strip() == f"{name} True", done.stderr


@pytest.mark.parametrize("name", ["models", "instances"])
def test_bare_import_is_refused(name):
    # In the root of the checkout Python finds the folder; a second copy of it would follow.
    done = run(f"import {name}")
    assert done.returncode != 0
    assert f"import alloc.{name}, not {name}" in done.stderr


@pytest.mark.parametrize("name", ["models", "instances"])
def test_bare_name_is_no_global_module(name, tmp_path):
    done = run(f"import importlib.util as u; print(u.find_spec({name!r}))", cwd=tmp_path)
    assert done.stdout.strip() == "None", done.stderr
