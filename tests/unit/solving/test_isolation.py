"""A solve in a process of its own: the same answers, and a death there is an error here."""

import signal
import subprocess
import sys
from pathlib import Path

import isolated_calls
import pytest
from interrupting import ctrl_c_at, press

import alloc
from alloc.errors import InstanceError, SolverError, UnsupportedFeatureError
from alloc.instances import load
from alloc.result import Limits
from alloc.solving import solver
from alloc.solving.isolation import run_isolated
from alloc.solving.outcome import Settings


@pytest.mark.long
def test_the_answer_is_that_of_a_solve_in_this_process():
    instance = load("elastic-tiny/02")
    told: list[str] = []
    apart = alloc.solve(instance, isolated=True, progress=told.append)
    here = alloc.solve(instance)
    assert apart.solution == here.solution
    assert apart.certificate.replace(seconds=0.0) == here.certificate.replace(seconds=0.0)
    assert tuple(told) == apart.log


@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGSEGV, "signal 11, SIGSEGV"), (signal.SIGKILL, "SIGKILL.*for its memory")],
)
def test_a_solver_that_kills_its_process_is_one_sentence_and_the_session_lives(number, words):
    with pytest.raises(SolverError, match=rf"^die: its process died \(.*{words}") as caught:
        run_isolated(isolated_calls.die, number)
    assert "; choose " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.long
def test_errors_of_the_call_are_raised_here_with_their_traceback():
    with pytest.raises(InstanceError, match='"malleble"') as caught:
        alloc.solve(load("elastic-tiny/01"), "malleble", isolated=True)
    assert "require_family" in caught.value.__notes__[0]
    with pytest.raises(SolverError, match="Stubborn: it needs two arguments"):
        run_isolated(isolated_calls.fail)


def test_an_answer_that_cannot_be_read_is_an_error_and_no_wait_for_ever():
    with pytest.raises(SolverError, match="the answer of another process: ValueError"):
        run_isolated(isolated_calls.answer_unreadably)


def test_what_cannot_be_sent_is_refused():
    with pytest.raises(InstanceError, match="cannot be sent to a process of its own"):
        run_isolated(isolated_calls.die, lambda: None)


@pytest.mark.long
def test_ctrl_c_ends_the_search_there_and_returns_what_was_found():
    result = alloc.solve(
        load("elastic-large/04"),
        limits=Limits(seconds=300),
        isolated=True,
        progress=ctrl_c_at("first schedule"),
    )
    assert result.certificate.limit == "interrupt"
    assert result.solution is not None


def test_a_second_ctrl_c_gives_up_a_call_that_hears_none():
    with pytest.raises(KeyboardInterrupt):
        run_isolated(isolated_calls.stay, progress=lambda line: press())


SESSION = """
import sys
sys.path.insert(0, sys.argv[1])
import isolated_calls
from alloc.solving.isolation import run_isolated

run_isolated(isolated_calls.stay, progress=lambda line: print(line, flush=True))
"""


def test_the_process_ends_with_its_session():
    """Also one that is killed: a solve that nobody waits for holds a core and memory for hours."""
    session = subprocess.Popen(
        [sys.executable, "-c", SESSION, str(Path(isolated_calls.__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with session.stdout:
        child = session.stdout.readline()
        session.kill()
        assert session.wait() == -signal.SIGKILL
        # The call holds the same output: its end is the end of both.
        rest = session.stdout.read()
    assert rest in ("", child)


@pytest.mark.long
def test_a_search_is_interrupted_before_it_has_taken_all_of_its_memory():
    taken, ran_short = run_isolated(isolated_calls.fill_until_interrupted, 100)
    assert ran_short
    assert 80 <= taken <= 1000  # how soon the thread looks is up to the machine


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits address space")
def test_what_is_asked_for_at_once_fails():
    with pytest.raises(MemoryError):
        run_isolated(isolated_calls.ask_at_once, 64, 2048)
    assert run_isolated(isolated_calls.ask_at_once, 2048, 64) == 64 * 2**20


@pytest.mark.long
def test_a_solve_short_of_memory_keeps_its_incumbent_and_bound():
    result = alloc.solve(load("elastic-large/04"), limits=Limits(seconds=60, memory_mib=15))
    assert (result.status, result.certificate.limit) == ("feasible", "memory")
    assert 0 < result.bound < result.objective


@pytest.mark.long
def test_enough_memory_changes_nothing():
    instance = load("elastic-tiny/02")
    within = alloc.solve(instance, limits=Limits(memory_mib=4000))
    here = alloc.solve(instance)
    assert within.solution == here.solution
    assert within.certificate.replace(seconds=0.0) == here.certificate.replace(seconds=0.0)


def test_no_memory_left_is_a_sentence(monkeypatch):
    def solve_nothing(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(solver, "solve", solve_nothing)
    monkeypatch.setattr(solver, "limit_memory", lambda mib: None)
    with pytest.raises(SolverError, match=r"more than was left of 70 MiB.*; raise memory_mib"):
        solver._solve_within_memory(limits=Limits(memory_mib=70))


def test_a_step_that_cannot_limit_memory_refuses_to():
    with pytest.raises(UnsupportedFeatureError, match=r"memory_mib is kept by alloc\.solve"):
        Settings.of(Limits(memory_mib=70))


@pytest.mark.parametrize("memory_mib", [0, -1, 1.5, True, 2**31])
def test_a_limit_of_memory_is_a_whole_number_of_mebibytes(memory_mib):
    with pytest.raises(InstanceError, match=r"memory_mib is .*; give a whole number from 1"):
        Limits(memory_mib=memory_mib)
