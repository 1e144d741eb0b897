"""A command loads what it uses: modules are looked at, since clocks differ between machines."""

import os
import subprocess
import sys

import pytest

from alloc.cli import main

BIG = {
    "networkx",
    "pyomo",
    "ortools",
    "joblib",
    "matplotlib",
    "pandas",
    "sqlalchemy",
    "onnxruntime",
}
OTHERS = {
    "alloc.solving.round",
    "alloc.problems.right_sizing",
    "alloc.problems.operation",
    "alloc.problems.inference_sizing",
    "alloc.problems.quota_planning",
    "alloc.problems.pipeline",
    "alloc.problems.project",
}
"""Families that an instance over time has no use for."""


def loaded_by(*arguments):
    """Return the modules that are loaded when a command of a fresh process has ended."""
    code = (
        "import sys, alloc.cli\n"
        "alloc.cli._may_crash = lambda arguments: False  # in this process, which can be asked\n"
        f"sys.argv = ['alloc', *{arguments!r}]\n"
        "try:\n    alloc.cli.main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    # A pipe has no width of its own, which pytest gives it.
    plain = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=True, env=plain
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("arguments", "needless"),
    [
        (
            ("instances", "list"),
            # The manifest alone is read: no arrays, no problems, no documents of them.
            {
                *BIG,
                "rich.console",
                "numpy",
                "scipy",
                "highspy",
                "alloc.problems",
                "alloc.documents.formats",
            },
        ),
        pytest.param(
            ("solve", "elastic-tiny/04"),
            # Column generation proves this one: no matrix is built, and no other family is loaded.
            # Of the manifest, only where the problem is.
            # Builders of clusters are for those who build one, and the goal has one level.
            # Options and a small plain document are read without models; nobody announces plug-ins.
            {
                *BIG,
                "rich.console",
                "scipy",
                "pydantic",
                "importlib.metadata",
                "alloc.documents.yaml_events",
                "alloc.instances.recipes",
                "alloc.instances.catalogue",
                "alloc.topology.fabrics",
                "alloc.topology.graphs",
                "alloc.topology.machines",
                "alloc.topology.queries",
                "alloc.solving.cross_check",
                "alloc.solving.lexicographic",
                *OTHERS,
            },
            marks=pytest.mark.long,
        ),
        (("versions",), {"numpy", "alloc.problems"}),
        (("--help",), {*BIG, "numpy", "pydantic", "importlib.metadata", "alloc.problems"}),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_a_command_loads_what_it_uses(arguments, needless):
    there = loaded_by(*arguments)
    assert "alloc.cli.application" in there
    assert needless & there == set()


@pytest.mark.parametrize(
    ("arguments", "serves"),
    [
        (["serve", "--port", "0"], True),
        (["--quiet", "serve"], True),
        (["solve", "serve"], False),
        ([], False),
    ],
)
def test_a_server_keeps_the_usual_garbage_collector(arguments, serves, monkeypatch):
    told = []
    monkeypatch.setattr("sys.argv", ["alloc", *arguments])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("gc.set_threshold", lambda *given: told.append(given))
    monkeypatch.setattr("alloc.cli._may_crash", lambda _: False)
    monkeypatch.setattr("typer.main.get_command", lambda _: lambda: None)
    main()
    assert bool(told) is not serves
