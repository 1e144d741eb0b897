"""The program as a process: signals, pipes, full disks, streams, completion."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from alloc.cli.application import app
from alloc.documents.reading import load

LONG = ("solve", "elastic-large/04", "--time-limit", 3600)
"""Far from solved in an hour, yet with a first schedule in a second."""
HANG_S = 300
"""Seconds after which a process hangs, however busy the machine is."""


def wait_for_incumbent(process, log: Path) -> None:
    """Wait until the log says that there is a schedule."""
    while not (log.exists() and "first schedule" in log.read_text(encoding="utf-8")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_solve_writes_its_incumbent(program, tmp_path, number):
    """What an hour of search has found must survive Ctrl-C and the end of a batch job."""
    output, log = tmp_path / "kept.json", tmp_path / "log"
    process = program(*LONG, "-o", output, "--log-file", log)
    wait_for_incumbent(process, log)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, stderr
    result = load(output)
    assert result.certificate.limit == "interrupt"
    assert result.certificate.verified
    assert result.solution is not None
    assert f"interrupted: the best answer so far is in {output}." in stderr
    assert "Traceback" not in stderr


WHILE_LOADING = """
import importlib.abc, os, signal, sys

wanted, number, *command = sys.argv[1:]
sys.argv[1:] = command or [wanted]

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            os.kill(os.getpid(), getattr(signal, number))

from alloc.cli import main
sys.meta_path.insert(0, Interrupting())
main()
"""


@pytest.mark.parametrize(
    "name", ["alloc.processes", "typer.main", "alloc.cli.lazily", "alloc.cli.versions"]
)
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_an_interrupt_while_the_program_loads_is_one_line(name, number):
    """Loading takes half a second: whoever saw a typo has pressed Ctrl-C by then."""
    command = [sys.executable, "-c", WHILE_LOADING, name, number, "versions"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert (done.returncode, done.stderr) == (130, "error: interrupted.\n")
    assert done.stdout == ""


def test_an_interrupt_that_is_ignored_stays_so():
    """Under `nohup` and in the background of a script Ctrl-C means another program."""
    ignoring = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN){WHILE_LOADING}"
    command = [sys.executable, "-c", ignoring, "typer.main", "SIGINT"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert done.stderr.startswith("error: No such command 'typer.main'")


IMPATIENT = "import alloc.cli.console as c; c.PATIENCE_S = 0.0; from alloc.cli import main; main()"
"""The program with people who want to hear of everything, however short it takes."""


@pytest.mark.long
@pytest.mark.parametrize("quiet", [False, True])
def test_progress_goes_to_stderr_and_json_alone_to_stdout(quiet):
    words = ["solve", "elastic-tiny/01", "--json", *(["--quiet"] if quiet else [])]
    command = [sys.executable, "-c", IMPATIENT, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kind"] == "result"
    if quiet:
        assert done.stderr == ""
    else:
        assert "solving elastic-tiny/01: " in done.stderr


@pytest.mark.long
def test_a_reader_that_leaves_early_sees_no_traceback(program):
    # `alloc instances schema | head -1`
    process = program("instances", "schema", "result")
    process.stdout.close()
    stderr = process.stderr.read()
    assert process.wait(timeout=HANG_S) == 141
    assert stderr == ""


@pytest.mark.long
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_stdout_is_a_sentence(tmp_path, unbuffered):
    """A file that may not grow stands for a disk without room.

    With PYTHONUNBUFFERED, as in many containers, Python itself loses the rest of such a write
    without a word.
    """

    limited = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh"]
    with (tmp_path / "schema.json").open("w") as full:
        done = subprocess.run(
            [*limited, sys.executable, "-m", "alloc", "instances", "schema"],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            text=True,
            timeout=HANG_S,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error: standard output: File too large")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_printed(shell):
    assert "_ALLOC_COMPLETE" in completion(_ALLOC_COMPLETE=f"source_{shell}")


@pytest.mark.long
def test_a_shell_completes_names_by_calling_the_program():
    asked = asked_by_bash("alloc solve elastic-s")
    done = subprocess.run(
        # The script's own name is what the shell completes.
        [Path(sys.executable).with_name("alloc")],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert done.stdout == completion(**asked)
    assert "elastic-small/01" in done.stdout.split()


def completion(**environment: str) -> str:
    """Return what the program tells a shell."""
    return CliRunner().invoke(app, [], env=environment, prog_name="alloc").stdout


def asked_by_bash(line: str) -> dict[str, str]:
    """Return the environment in which bash asks for completion."""
    word = str(len(line.split(" ")) - 1)
    return {"_ALLOC_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": word}


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("alloc sol", "solve"),
        ("alloc solve elastic-s", "elastic-small/01"),
        ("alloc solve x --formulation mal", "malleable"),
        ("alloc solve x --backend ", "cpsat"),
        ("alloc solve x --objective weighted_j", "weighted_jct"),
        ("alloc simulate x --scheduler opt", "optimus"),
        ("alloc compare x --schedulers fifo,opt", "fifo,optimus"),
        ("alloc compare elastic-m", "elastic-medium"),
        ("alloc instances list --family elastic-t", "elastic-tiny"),
        ("alloc instances import ph", "philly"),
        ("alloc instances schema re", "result"),
    ],
)
def test_names_are_completed(line, offered):
    assert offered in completion(**asked_by_bash(line)).split()


@pytest.mark.long
def test_a_terminal_gets_a_live_line():
    """On a terminal progress is one line that is redrawn and goes when the work is done."""
    leader, follower = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "alloc", "solve", "elastic-tiny/04", "--json"],
        stdout=subprocess.PIPE,
        stderr=follower,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(follower)
    seen: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(leader, 4096):
                seen.append(data)
        except OSError:  # how Linux says that the other side closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    stdout, _ = process.communicate(timeout=HANG_S)
    reader.join(timeout=HANG_S)
    os.close(leader)
    assert json.loads(stdout)["kind"] == "result"
    assert b"solving elastic-tiny/04" in b"".join(seen)
