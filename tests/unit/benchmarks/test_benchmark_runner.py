"""The benchmarks can be listed and run, and best known bounds are written safely."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from alloc.certificate import Certificate
from alloc.errors import SolverError
from alloc.instances import read_manifest
from alloc.instances.maintenance import generate
from alloc.instances.recipes import recipes
from alloc.result import Result
from benchmarks import __main__ as runner
from benchmarks import bounds, load
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
    assert "bounds" in done.stdout
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


@pytest.fixture
def root(tmp_path):
    """A folder with two tiny instances and their manifest."""
    generate(tmp_path, [recipe for recipe in recipes() if recipe.family == "elastic-tiny"][:2])
    return tmp_path


@pytest.fixture
def solver(monkeypatch):
    """A solver that finds a schedule at twice, and proves one and a half times, no contention."""
    calls = []

    def solve(instance, formulation, backend, **options):
        calls.append((instance.name, options["limits"].seconds))
        alone = sum(job.weight * job.min_run_s for job in instance.jobs)
        certificate = Certificate(
            status="feasible",
            objective=2 * alone,
            bound=1.5 * alone,
            sense="min",
            objective_name=options["objective"],
            formulation=formulation,
            backend=backend,
            backend_version="1",
            seed=options["limits"].seed,
            workers=options["limits"].workers,
            seconds=0.5,
            fingerprint=instance.fingerprint,
        )
        return Result(None, certificate)

    monkeypatch.setattr("alloc.solve", solve)
    return calls


def test_bounds_go_to_the_manifest(root, solver, capsys):
    """Both bounds, with the ratio to no contention in the table."""
    assert bounds.main(["elastic-tiny/02", "--seed", "3"], root) == 0
    one, two = read_manifest(root / "manifest.json").instances
    assert one.lower is None
    assert two.lower.value == pytest.approx(1.5 * two.no_contention)
    assert two.upper.seed == 3
    assert solver == [("elastic-tiny/02", bounds.TIME_LIMIT_S["elastic-tiny"])]
    assert "2.000  lower, upper" in capsys.readouterr().out


def test_a_second_run_writes_nothing_that_is_not_better(root, solver, capsys):
    """Same numbers, same manifest: no change of dates."""
    bounds.main(["elastic-tiny"], root)
    before = (root / "manifest.json").read_bytes()
    assert bounds.main(["--time-limit", "5"], root) == 0
    assert (root / "manifest.json").read_bytes() == before
    assert solver[-1] == ("elastic-tiny/02", 5.0)


def test_one_unsolved_instance_does_not_stop_the_others(root, monkeypatch, capsys):
    """The error stands in the table and in the exit code."""

    def solve(*args, **options):
        raise SolverError("no licence")

    monkeypatch.setattr("alloc.solve", solve)
    assert bounds.main([], root) == 1
    out = capsys.readouterr().out
    assert out.count("no licence") == 2


def test_an_unknown_instance_is_refused(root, capsys):
    """Bad input, exit code 2."""
    with pytest.raises(SystemExit, match="2"):
        bounds.main(["elastic-tiny/20"], root)
    assert "did you mean" in capsys.readouterr().err


def test_load_asks_for_a_certified_ratio_in_every_family_but_tiny(root, solver):
    """An upper bound of twice no contention proves nothing about the load."""
    bounds.main([], root)
    entries = read_manifest(root / "manifest.json").instances
    small = [e.model_copy(update={"id": e.id.replace("tiny", "small")}) for e in entries]
    assert load.families_without_load(entries) == []
    assert load.families_without_load(small) == ["elastic-small"]
    assert load.table(entries).row_count == 2
