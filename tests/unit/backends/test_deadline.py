"""A deadline ends Python code that looks at no clock, and nothing else."""

import itertools
import threading

import pytest

import alloc
from alloc.backends import SolverOptions, pyomo_highs
from alloc.backends.deadline import Deadline
from alloc.errors import InstanceError, OutOfTime
from alloc.families import FAMILIES
from alloc.instances import load
from alloc.result import Limits


def never_end(*arguments, **options):
    """Look at no clock, as code that builds a model."""
    for _ in itertools.count():
        pass


def test_code_without_end_ends_when_its_time_is_up():
    with pytest.raises(OutOfTime), Deadline(0.01):
        never_end()


def test_it_ends_code_in_any_thread_and_only_there():
    ended = threading.Event()

    def work():
        try:
            with Deadline(0.01):
                never_end()
        except OutOfTime:
            ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended.is_set()


def test_nothing_is_raised_after_its_block():
    ended = 0
    for steps in range(300):
        try:
            with Deadline(0.0):
                sum(range(steps))
        except OutOfTime:
            ended += 1
        for _ in range(1000):
            pass
    assert ended <= 300


def test_what_the_block_raises_and_what_it_does_in_time_is_as_ever():
    with pytest.raises(InstanceError), Deadline(60.0):
        raise InstanceError("wrong")
    with Deadline(60.0):
        found = sum(range(10))
    assert found == 45


def test_a_model_that_takes_too_long_to_build_is_a_limit(monkeypatch):
    monkeypatch.setattr("alloc.models.round.build_pyomo", never_end)
    result = alloc.solve(load("elastic-tiny/01"), "round", "pyomo", limits=Limits(seconds=0.05))
    assert (result.status, result.certificate.limit) == ("no_solution", "time")


def test_a_model_that_takes_too_long_to_write_out_is_a_limit(monkeypatch):
    built = FAMILIES["round"].build("pyomo", load("elastic-tiny/01"))
    monkeypatch.setattr(pyomo_highs, "as_arrays", never_end)
    raw = pyomo_highs.solve(built.model, SolverOptions(0.05))
    assert (raw.status, raw.limit) == ("no_solution", "time")
