"""The door: every failure is one line on standard error with its exit code, never a traceback."""

import errno
import json
import subprocess
import sys

import pytest
from typer.main import get_command

import alloc.solving
from alloc import (
    AllocError,
    BackendUnavailableError,
    CertificateError,
    InstanceError,
    Limits,
    SimulationError,
    SolverError,
    UnsupportedFeatureError,
)
from alloc.cli import options
from alloc.cli.application import app


def commands(command=None, path=()):
    """Yield the words of every command."""
    command = command or get_command(app)
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_command_explains_itself(run, words):
    done = run(*words, "--help")
    assert done.exit_code == 0
    assert "Usage:" in done.stdout
    # A sentence, not only the list of options.
    assert "." in done.stdout.split("Options")[0]


def test_the_promised_commands_are_there():
    there = {" ".join(words) for words in commands()}
    assert there >= {
        *("solve", "verify", "compare", "simulate", "demo", "versions"),
        *("instances list", "instances show", "instances generate", "instances import"),
        *("instances schema", "models list", "models show", "schedulers list"),
    }


def test_help_loads_no_solver_and_no_plotting():
    # People ask for help more often than for anything else; solvers take seconds to load.
    heavy = ["numpy", "highspy", "ortools", "pyomo", "scipy", "matplotlib", "sqlalchemy", "joblib"]
    code = (
        "import sys\n"
        "from alloc.cli import main\n"
        "sys.argv = ['alloc', '--help']\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stderr.strip() == "[]"


def test_version_is_printed(run):
    done = run("--version")
    assert done.exit_code == 0
    assert done.stdout.startswith("alloc ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InstanceError("a wrong file."), 2),
        (UnsupportedFeatureError("not with this method."), 2),
        (BackendUnavailableError("no such solver here."), 2),
        (SolverError("the solver broke its word."), 1),
        (CertificateError("the bound is false."), 1),
        (SimulationError("the policy broke a rule."), 1),
        (AllocError("something else."), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_of_alloc_is_its_own_sentence(run, instance_file, monkeypatch, error, code):
    done = fail(run, instance_file, monkeypatch, error)
    assert done.exit_code == code
    assert done.stderr == f"error: {error}\n"
    assert done.stdout == ""


def test_an_unexpected_error_asks_for_a_report(run, instance_file, monkeypatch):
    done = fail(run, instance_file, monkeypatch, KeyError("rate"))
    assert done.exit_code == 1
    assert done.stderr.startswith("error: unexpected KeyError: 'rate'")
    assert "--debug" in done.stderr
    assert done.stderr.count("\n") == 1


def test_debug_shows_the_traceback(run, instance_file, monkeypatch):
    done = fail(run, instance_file, monkeypatch, KeyError("rate"), "--debug")
    assert done.exit_code == 1
    assert "Traceback" in done.stderr


def test_an_error_of_many_lines_stays_one_line(run, instance_file, monkeypatch):
    done = fail(run, instance_file, monkeypatch, RuntimeError("first\nsecond"))
    assert "first second" in done.stderr
    assert done.stderr.count("\n") == 1


def test_running_out_of_memory_is_said_plainly(run, instance_file, monkeypatch):
    done = fail(run, instance_file, monkeypatch, MemoryError())
    assert done.exit_code == 1
    assert "out of memory" in done.stderr


def test_a_failing_file_is_named(run, instance_file, monkeypatch):
    error = OSError(errno.EIO, "Input/output error", "disk.json")
    done = fail(run, instance_file, monkeypatch, error)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: disk.json: Input/output error")


def test_an_interrupt_outside_a_search_is_exit_130(run, instance_file, monkeypatch):
    done = fail(run, instance_file, monkeypatch, KeyboardInterrupt())
    assert done.exit_code == 130
    assert done.stderr == "error: interrupted.\n"


def test_an_interrupt_that_an_extension_module_wraps_is_still_one(run, instance_file, monkeypatch):
    """pybind11 says "initialization failed" of a solver that was loading; that is no bug."""
    error = ImportError("initialization failed")
    error.__cause__ = KeyboardInterrupt()
    done = fail(run, instance_file, monkeypatch, error)
    assert done.exit_code == 130
    assert done.stderr == "error: interrupted.\n"


def test_a_reader_that_went_away_is_quiet(run, instance_file, monkeypatch):
    done = fail(run, instance_file, monkeypatch, BrokenPipeError(), "--debug")
    assert done.exit_code == 141
    assert done.stderr == ""


def fail(run, instance_file, monkeypatch, error, *options):
    """Run a solve that ends in an error."""

    def solve(*arguments, **options):
        raise error

    monkeypatch.setattr(alloc.solving, "solve", solve)
    return run(*options, "solve", instance_file)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solv"], "No such command 'solv'"),
        (["solve"], "PROBLEM"),
        (["solve", "x", "--tim-limit", "3"], "--time-limit"),
        (["solve", "missing.json"], "there is no such file"),
        (["solve", "elastic-smal/01"], 'did you mean "elastic-small/01"'),
        (["simulate", "elastic-small", "--scheduler", "fifo"], "alloc instances list"),
        (["instances", "list", "--family", "elastic-smal"], 'did you mean "elastic-small"'),
        (["models", "show", "maleable"], 'did you mean "malleable"'),
        (["instances", "schema", "instanc"], 'did you mean "instance"'),
        (["simulate", "elastic-tiny/01", "--scheduler", "fif"], 'did you mean "fifo"'),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_wrong_usage_is_exit_2_in_one_line_with_the_cure(run, arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_no_command_shows_the_help(run):
    done = run()
    assert done.exit_code == 2
    assert "Solve and place" in done.output
    assert "Plan capacity" in done.output
    assert "error" not in done.stderr


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b'{"kind": "instance"}',
        b'{"schema_version": 1, "kind": "result"}',
        b"\xff\xfe\x00",
        b'{"schema_version": 1e999, "kind": "instance"}',
        b"7" * 10_000,
    ],
    ids=["empty", "cut", "deep", "bare", "other kind", "no text", "infinite", "huge number"],
)
def test_hostile_files_are_exit_2_in_one_line(run, tmp_path, content):
    path = tmp_path / "hostile.json"
    path.write_bytes(content)
    done = run("solve", path, "--json")
    assert done.exit_code == 2, done.stderr
    assert "hostile.json" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_versions_hold_what_a_report_needs(run):
    found = json.loads(run("versions", "--json").stdout)
    assert found["alloc"]
    for name in ["Python", "platform", "highspy", "ortools", "pyomo"]:
        assert found[name]
    assert "highspy" in run("versions").stdout


def test_the_defaults_of_a_solve_are_those_of_the_library():
    """They stand in both: help says them, and the library's would take numpy along."""
    assert (Limits.seconds, Limits.gap) == (options.SECONDS, options.GAP)
