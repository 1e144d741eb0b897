"""Ctrl-C while HiGHS works: it stops at once, and its incumbent and bound are kept."""

import signal
import threading
from dataclasses import replace
from typing import Any

import highspy
import numpy as np
import pytest
from interrupting import ctrl_c_in_highs, incumbent, press
from scipy.sparse import csr_array

from alloc.backends import SolverOptions, highs, second_proof
from alloc.backends.interrupts import stoppable
from alloc.formulation import ArrayModel


@pytest.fixture(scope="module")
def market_split() -> ArrayModel:
    """Return equations with slack, far from proved in minutes (Cornuéjols, Dawande 1998)."""
    rng = np.random.default_rng(3)
    rows, columns = 5, 40
    split = rng.integers(1, 100, (rows, columns)).astype(float)
    half = np.floor(split.sum(axis=1) / 2)
    matrix = csr_array(np.hstack([split, np.eye(rows), -np.eye(rows)]))
    most = np.concatenate([np.ones(columns), np.full(2 * rows, 1e4)])
    return ArrayModel(
        sense="min",
        cost=np.concatenate([np.full(columns, 0.001), np.ones(2 * rows)]),
        matrix=matrix,
        row_lower=half,
        row_upper=half,
        lower=np.zeros(len(most)),
        upper=most,
        integer=np.concatenate([np.ones(columns, bool), np.zeros(2 * rows, bool)]),
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_stops_the_solver_and_keeps_what_it_found(market_split, workers):
    with ctrl_c_in_highs(incumbent):
        raw = highs.solve(market_split, SolverOptions(500, workers=workers, stoppable=True))
    assert (raw.status, raw.limit) == ("feasible", "interrupt")
    assert raw.values is not None
    assert 0 < raw.bound < raw.objective
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.fixture
def ctrl_c_while_it_runs(monkeypatch):
    """Press Ctrl-C during a run of HiGHS; Python hears of it when the run is over."""

    class Interrupted(highspy.Highs):  # type: ignore[misc]
        def run(self):
            status = super().run()
            press()
            return status

    monkeypatch.setattr(highspy, "Highs", Interrupted)


@pytest.mark.long
@pytest.mark.usefixtures("ctrl_c_while_it_runs")
def test_without_being_asked_the_interrupt_is_raised(market_split):
    """Callers that look at no limit must not go on as if nothing had been said."""
    with pytest.raises(KeyboardInterrupt):
        highs.solve(market_split, SolverOptions(1.0))


@pytest.mark.long
@pytest.mark.usefixtures("ctrl_c_while_it_runs")
def test_a_program_with_signals_of_its_own_keeps_them(market_split):
    """The server, or a notebook with its own way, decides what Ctrl-C means."""
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        raw = highs.solve(market_split, SolverOptions(1.0, stoppable=True))
    finally:
        signal.signal(signal.SIGINT, before)
    assert raw.limit == "time"
    assert heard == [signal.SIGINT]


@pytest.mark.long
def test_in_a_thread_it_solves_as_ever(market_split):
    """Signals go to the main thread, and only it may say what they do."""
    found = []
    options = SolverOptions(0.5, stoppable=True)
    thread = threading.Thread(target=lambda: found.append(highs.solve(market_split, options)))
    thread.start()
    thread.join()
    assert found[0].limit == "time"


@pytest.mark.long
def test_the_second_opinion_on_presolve_is_stopped_too(market_split, monkeypatch):
    """It did not hear of Ctrl-C, and ran to the end of its time."""
    second = []
    monkeypatch.setattr(highs, "_is_of_presolve", lambda solver: second.append(solver) or True)
    monkeypatch.setattr(highs, "SECONDS_FOR_SECOND", 30.0)
    with ctrl_c_in_highs(lambda found: bool(second)) as sent:
        raw = highs.solve(market_split, SolverOptions(0.5, stoppable=True))
    assert sent
    assert raw.limit == "interrupt"
    assert raw.values is not None


def test_ctrl_c_in_a_second_proof_keeps_the_first(market_split, monkeypatch):
    """It was raised between two relaxations, and the optimum was lost with it."""
    small = replace(
        market_split,
        matrix=market_split.matrix[:1, :],
        row_lower=market_split.row_lower[:1],
        row_upper=market_split.row_upper[:1],
    )
    fractional = second_proof._Tree._fractional
    nodes: list[Any] = []

    def pressed(self, values):
        nodes.append(press())
        return fractional(self, values)

    monkeypatch.setattr(second_proof._Tree, "_fractional", pressed)
    raw = second_proof.solve_and_prove(small, SolverOptions(20.0, stoppable=True))
    assert (raw.status, raw.limit, raw.bound_proof) == ("optimal", "interrupt", "claimed")
    assert len(nodes) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_inside_another_one_ctrl_c_reaches_both() -> None:
    """A search with several solvers is told of it once, whichever of them works."""
    with stoppable() as outer:
        with stoppable() as inner:
            signal.raise_signal(signal.SIGINT)
        assert inner.pressed
        assert outer.pressed
        with stoppable() as later:
            assert later.pressed
    with stoppable() as fresh:
        assert not fresh.pressed
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
