"""A command whose process dies: one sentence, and every signal and stream as without its parent."""

import os
import re
import signal
import subprocess
import sys

import pytest

DYING = """
import importlib.abc, os, signal, sys

name, number = sys.argv.pop(1), sys.argv.pop(1)

class Deadly(importlib.abc.MetaPathFinder):
    def find_spec(self, found, path=None, target=None):
        if found == name:
            os.kill(os.getpid(), getattr(signal, number))

from alloc.cli import main
sys.meta_path.insert(0, Deadly())
main()
"""
"""The program, whose process dies when it first loads a module: as a solver that crashes."""


def dying(module, number, *words, **options):
    command = [sys.executable, "-c", DYING, module, number, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "number"),
    [
        (("solve", "elastic-tiny/01", "--json"), "SIGSEGV"),
        (("solve", "elastic-tiny/01", "--backend", "highs"), "SIGABRT"),
        (("plan", "planning-tiny"), "SIGBUS"),
        (("plan", "planning-tiny", "--replay"), "SIGSEGV"),
        (("operate", "operation-tiny"), "SIGSEGV"),
    ],
)
def test_a_backend_that_kills_its_process_is_one_sentence(words, number):
    done = dying("highspy", number, *words)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    found = rf"error: the command died \(signal {getattr(signal, number):d}, {number}\) .*; choose "
    assert re.match(found, last), done.stderr
    assert done.stderr.count("died") == 1
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.long
def test_a_command_killed_for_its_memory_is_told_so(instance_file):
    done = dying("alloc.solving.placing.place", "SIGKILL", "place", instance_file)
    assert done.returncode == 1
    assert done.stderr == (
        "error: the command died (signal 9, SIGKILL), most likely ended by the system for its "
        "memory; choose a smaller instance.\n"
    )


@pytest.mark.long
def test_rows_finished_before_the_crash_are_kept_and_named(instance_file, tmp_path):
    """Simulations come first and need no solver; the bound's solver dies."""
    words = ("compare", instance_file, "--schedulers", "fifo,srtf", "--json")
    done = dying("highspy", "SIGSEGV", *words, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith("error: the command died (signal 11, SIGSEGV)")
    place = re.search(r"finished work is in (\S+); the same command with --store \1 goes on", said)
    assert place, done.stderr
    again = subprocess.run(
        [sys.executable, "-m", "alloc", *map(str, words), "--store", place[1]],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("number", ["SIGHUP", "SIGQUIT"])
def test_a_signal_sent_on_purpose_ends_the_program_by_that_signal(number):
    """What started it must see how it ended, as it does of every other program."""
    done = dying("alloc.cli.application", number, "versions", preexec_fn=no_core)
    assert (done.returncode, done.stderr) == (-getattr(signal, number), "")


def no_core():
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


TELLING = """
import os, signal, time
from alloc.cli.supervising import run_supervised

def tell(number, frame):
    os.write(1, f"{number}\\n".encode())

signal.signal(signal.SIGINT, tell)
signal.signal(signal.SIGTERM, tell)
run_supervised()
os.write(1, f"{os.getpid()}\\n".encode())
while True:
    time.sleep(0.05)  # signal.pause would sleep through one that comes just before it
"""
"""A command without end that says each signal that it hears."""


@pytest.fixture
def telling():
    """Start it in a group of its own; return its process and the number of the child."""
    process = subprocess.Popen(
        [sys.executable, "-c", TELLING], stdout=subprocess.PIPE, text=True, process_group=0
    )
    yield process, int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_each_request_to_stop_is_heard_once_whoever_it_is_sent_to(telling, number):
    """To the program, as `kill` does; to all its processes, as a terminal and Slurm do."""
    process, child = telling
    other = signal.SIGINT if number == signal.SIGTERM else signal.SIGTERM
    for send in (
        lambda: process.send_signal(number),
        lambda: os.killpg(process.pid, number),
        lambda: os.kill(child, number),
    ):
        send()
        assert process.stdout.readline() == f"{number:d}\n"
        # What is passed on late comes before what is passed on later.
        process.send_signal(other)
        assert process.stdout.readline() == f"{other:d}\n"


def test_a_killed_program_takes_its_command_with_it(telling):
    """Whoever kills a program with SIGKILL waits for the end of its output."""
    process, _ = telling
    process.send_signal(signal.SIGKILL)
    assert process.stdout.read() == ""  # the end, which comes when both are gone


def test_a_machine_that_forks_no_more_runs_the_command_all_the_same():
    code = (
        "import os, sys\n"
        "def fork(): raise BlockingIOError(11, 'no more processes')\n"
        "os.fork = fork\n"
        "from alloc.cli import main\n"
        "sys.argv = ['alloc', '--version']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.startswith("alloc ")
