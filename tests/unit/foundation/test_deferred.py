"""What a result defers is worked out once, when somebody looks, and Ctrl-C loses no answer."""

import copy
import dataclasses
import pickle

import pytest

from alloc.documents.formats import format_of
from alloc.instances.stored_planning import load_stored_planning
from alloc.planning.documents import encode_report
from alloc.planning.replay import ReplaySettings
from alloc.planning.report import plan
from alloc.result import Deferred, Limits, Result
from alloc.solving import isolation, solve, solver
from alloc.solving.right_sizing.marginals import marginal_values

LIMITS = Limits(gap=1e-4)
REPLAY = ReplaySettings(jobs=20, replications=2)


@pytest.fixture
def counted(monkeypatch):
    """How often marginal values are worked out; tests may make it an interrupt."""
    calls = []
    real = marginal_values

    def values(data, seconds):
        calls.append(seconds)
        return real(data, seconds)

    monkeypatch.setattr("alloc.solving.right_sizing.method.marginal_values", values)
    return calls


@pytest.fixture
def interrupted(monkeypatch):
    def values(data, seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("alloc.solving.right_sizing.method.marginal_values", values)


def tiny():
    return load_stored_planning("planning-tiny/01")


def test_a_deferred_sequence_is_the_tuple_of_its_items():
    calls = []
    given = Deferred(lambda: calls.append(1) or [3, 4, 5])
    assert not calls
    assert given == (3, 4, 5) == given
    assert given == Deferred(lambda: (3, 4, 5))
    assert given != (3, 4)
    assert (len(given), given[1], given[1:], [*given], 4 in given) == (
        3,
        4,
        (4, 5),
        [3, 4, 5],
        True,
    )
    assert hash(given) == hash((3, 4, 5))
    assert repr(given) == "(3, 4, 5)"
    for other in (pickle.loads(pickle.dumps(given)), copy.deepcopy(given)):
        assert type(other) is tuple
        assert other == given
    assert calls == [1]
    assert not Deferred(tuple)


def test_a_solve_works_them_out_when_somebody_looks_and_once(counted):
    result = solve(tiny(), limits=LIMITS)
    copied = result.replace(log=())
    assert not counted
    assert any(value.kind == "demand" for value in result.sensitivities)
    assert copied.sensitivities is result.sensitivities
    assert len(counted) == 1
    assert 0 < counted[0] <= LIMITS.seconds


def test_documents_and_copies_hold_them(counted):
    result = solve(tiny(), limits=LIMITS)
    read = Result.from_json(result.to_json())
    assert len(counted) == 1
    assert read.sensitivities
    assert read == result == pickle.loads(pickle.dumps(result))
    assert format_of("result").encode(result)["sensitivities"]
    assert dataclasses.replace(result, log=()).sensitivities == result.sensitivities


def test_an_interrupt_goes_to_who_looks_and_may_be_tried_again(monkeypatch, interrupted):
    result = solve(tiny(), limits=LIMITS)
    with pytest.raises(KeyboardInterrupt):
        len(result.sensitivities)
    monkeypatch.undo()
    assert len(result.sensitivities)


def test_an_interrupt_while_a_result_is_completed_keeps_the_answer(interrupted):
    result = solve(tiny(), limits=LIMITS)
    complete = result.complete()
    assert complete.solution == result.solution
    assert complete.sensitivities == ()
    assert complete.certificate.limit == "interrupt"
    assert complete.certificate.bound == result.certificate.bound


def test_an_interrupt_while_a_result_is_written_or_sent_keeps_the_answer(interrupted):
    read = Result.from_json(solve(tiny(), limits=LIMITS).to_json())
    assert read.solution is not None
    assert read.certificate.limit == "interrupt"
    sent = pickle.loads(pickle.dumps(solve(tiny(), limits=LIMITS)))
    assert sent.solution is not None
    assert sent.sensitivities == ()
    assert sent.certificate.limit == "interrupt"


def test_what_an_interrupt_left_out_is_said_every_time(interrupted):
    """The second document of a result says what the first said."""
    result = solve(tiny(), limits=LIMITS)
    assert result.to_json() == result.to_json()
    assert result.complete().certificate.limit == "interrupt"
    assert result.complete().complete().certificate.limit == "interrupt"


@pytest.mark.parametrize("memory_mib", [None, 10**6])
def test_a_process_of_its_own_completes_what_it_sends(monkeypatch, counted, memory_mib):
    """There, limits and Ctrl-C count no more once the answer is on its way."""
    monkeypatch.setattr(solver, "limit_memory", lambda mib: None)
    monkeypatch.setattr(
        isolation, "run_isolated", lambda run, *given, on_death, **options: run(*given, **options)
    )
    limits = LIMITS.replace(memory_mib=memory_mib)
    result = solve(tiny(), limits=limits, isolated=True)
    assert len(counted) == 1
    assert result.sensitivities
    assert len(counted) == 1


def test_an_interrupted_report_keeps_its_plan(interrupted):
    report = plan(tiny(), limits=LIMITS)
    assert report.result.solution is not None
    assert report.interrupted


def test_an_interrupted_report_of_a_replay_keeps_its_plan_and_says_so(interrupted):
    report = plan(tiny(), limits=LIMITS, replay=REPLAY, max_iterations=1)
    assert report.result.solution is not None
    assert report.interrupted
    assert encode_report(report)["result"]["certificate"]["limit"] == "interrupt"


def test_of_a_replay_the_answer_alone_is_complete(counted):
    report = plan(tiny(), limits=LIMITS, replay=REPLAY, max_iterations=2)
    assert len(counted) == 1
    assert encode_report(report)["result"]["sensitivities"]
    assert len(counted) == 1


def test_a_report_is_complete(counted):
    report = plan(tiny(), limits=LIMITS)
    assert len(counted) == 1
    assert report.result.sensitivities
