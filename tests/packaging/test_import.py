"""Importing alloc: light, stable under lazy loading, and only under its own name."""

import subprocess
import sys
from pathlib import Path

import pytest

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


def test_planning_is_there_without_an_import_of_its_own():
    done = run("import alloc; print(alloc.planning.plan.__name__, 'planning' in dir(alloc))")
    assert done.stdout.strip() == "plan True", done.stderr


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
