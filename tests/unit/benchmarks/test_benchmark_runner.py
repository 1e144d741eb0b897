"""The benchmarks can be listed and run."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from alloc.errors import SolverError
from alloc.instances import entry
from benchmarks import __main__ as runner
from benchmarks import load
from benchmarks.environment import PACKAGES, environment

REPOSITORY = Path(__file__).parents[3]


def benchmark(code, *, doc="Count to three.\n\nMore.", on_request=False):
    module: Any = ModuleType("made")
    module.__doc__ = doc
    module.ON_REQUEST = on_request

    def main(argv):
        if isinstance(code, Exception):
            raise code
        return code

    module.main = main
    return module


@pytest.fixture
def modules(monkeypatch):
    """A package of made-up benchmarks instead of the real ones."""
    found = {"one": benchmark(None), "two": benchmark(0), "slow": benchmark(0, on_request=True)}
    monkeypatch.setattr(runner, "discover", lambda: found)
    return found


@pytest.mark.long
def test_the_command_lists_every_benchmark():
    """`make bench` runs what this names; run as users run it."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--list"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert "right_sizing" in done.stdout
    assert "(only when named)" in done.stdout
    # A module without a `main` is no benchmark.
    assert "environment" not in [line.split()[0] for line in done.stdout.splitlines()]


def test_each_benchmark_is_described():
    """The list is of no use without."""
    for name, module in runner.discover().items():
        assert len(runner.describe(module)) > 20, name


def test_by_default_all_run_but_those_on_request(modules, capsys):
    """Benchmarks that take an hour or change files must not start by accident."""
    assert runner.main([]) == 0
    out = capsys.readouterr().out
    assert "== one: Count to three." in out
    assert "== two" in out
    assert "== slow" not in out
    assert out.startswith("cpu")


def test_named_benchmarks_run_alone(modules, capsys):
    """Also those on request."""
    assert runner.main(["slow"]) == 0
    out = capsys.readouterr().out
    assert "== slow" in out
    assert "== one" not in out


def test_a_failure_is_told_and_does_not_stop_the_others(modules, capsys):
    """The numbers of an hour must not be lost to one bad benchmark."""
    modules["one"] = benchmark(SolverError("the solver broke"))
    assert runner.main([]) == 1
    captured = capsys.readouterr()
    assert "== two" in captured.out
    assert "the solver broke" in captured.err
    assert "failed: one" in captured.err


def test_an_unknown_name_suggests_the_nearest(modules, capsys):
    """Exit code 2 is bad input."""
    with pytest.raises(SystemExit, match="2"):
        runner.main(["slov"])
    assert 'did you mean "slow"' in capsys.readouterr().err


def test_the_environment_names_versions_and_hardware():
    """A number without them cannot be compared."""
    found = environment()
    assert set(PACKAGES) <= set(found)
    assert found["python"].endswith(".".join(map(str, sys.version_info[:3])))
    assert all(found.values())


def test_load_asks_for_a_certified_ratio_in_every_family_but_tiny():
    """An upper bound of twice no contention proves nothing about the load."""
    known = entry("elastic-tiny/01")
    upper = known.upper.model_copy(update={"value": 3 * known.no_contention})
    lower = known.lower.model_copy(update={"value": 1.5 * known.no_contention})
    entries = [known.model_copy(update={"upper": upper, "lower": lower})]
    small = [e.model_copy(update={"id": e.id.replace("tiny", "small")}) for e in entries]
    assert load.families_without_load(entries) == []
    assert load.families_without_load(small) == ["elastic-small"]
    assert load.table(entries).row_count == 1
    enough = lower.model_copy(update={"value": 2.5 * known.no_contention})
    assert load.families_without_load([small[0].model_copy(update={"lower": enough})]) == []


def test_the_help_of_a_benchmark_calls_it_by_its_name():
    """What stands after "usage:" is what people copy."""
    called = re.compile(r'prog="python -m ([\w.]+)"')
    wrong = {}
    for path in sorted((REPOSITORY / "benchmarks").rglob("*.py")):
        module = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
        for name in called.findall(path.read_text(encoding="utf-8")):
            if name != module.removesuffix(".__main__"):
                wrong[module] = name
    assert not wrong
