"""A limit holds while a model is built and written out: every family, every general solver."""

from __future__ import annotations

import itertools
import logging
import threading
from contextlib import suppress
from types import SimpleNamespace

import pyomo.environ as pyo
import pytest
from problems_of_families import answered, tiny_problems

import alloc
import alloc.clock
from alloc.backends import BACKENDS, backend, pyomo_highs
from alloc.clock import check_time, time_limit
from alloc.errors import OutOfTime, UnsupportedFeatureError
from alloc.families import FAMILIES
from alloc.formulation import ProvedInfeasible
from alloc.topology import Host, HostType, Topology
from alloc.workload import Job, rigid_gang

AT_ONCE = {("round", "arrays"), ("checkpointing", "arrays")}
"""A few steps of NumPy, without rows one by one: there is nothing to cut short."""
MODELS = [
    (name, kind)
    for name, family in FAMILIES.items()
    for kind in family.models
    if (name, kind) not in AT_ONCE
]
GENERAL = [
    (name, known)
    for name, family in FAMILIES.items()
    for known in BACKENDS
    if known not in family.methods and backend(known).MODEL_KIND in family.models
]


@pytest.fixture
def ticks(monkeypatch):
    """Let the clock of models go on by a second each time that somebody looks at it."""
    count = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: float(next(count)))
    monkeypatch.setattr(alloc.clock, "time", clock)


def some_problem(name, kind):
    """Return a problem of a family and its model of a kind."""
    for problem in tiny_problems(name):
        try:
            return problem, FAMILIES[name].build(kind, problem)
        except (UnsupportedFeatureError, ProvedInfeasible):
            continue
    raise AssertionError(f"no tiny problem of {name} has such a model")


@pytest.mark.parametrize(("name", "kind"), MODELS)
def test_every_model_looks_at_the_clock(name, kind):
    problem, _ = some_problem(name, kind)
    with pytest.raises(OutOfTime), time_limit(0.0):
        FAMILIES[name].build(kind, problem)


@pytest.mark.parametrize("name", [name for name, kind in MODELS if kind == "pyomo"])
def test_a_pyomo_model_looks_at_it_for_every_row_that_it_makes_or_writes(name, ticks, caplog):
    problem, built = some_problem(name, "pyomo")
    rows = pyomo_highs.as_arrays(built.model)[0].matrix.shape[0]
    with caplog.at_level(logging.WARNING):
        with pytest.raises(OutOfTime), time_limit(0.9 * rows):
            FAMILIES[name].build("pyomo", problem)
        with pytest.raises(OutOfTime), time_limit(0.9 * rows):
            pyomo_highs.as_arrays(built.model)
    assert not caplog.records, "Pyomo reports a failure"


def test_the_slots_of_a_job_in_cp_sat_look_at_the_clock(ticks):
    """Their rows hold all slots before: with 4,500 of these a limit of 2 s took 13."""
    slots = 50
    topology = Topology("t", (HostType("k", 1, "gpu"),), (Host("h", "k"),))
    job = Job("long", 0.0, 10.0 * slots, (rigid_gang(1),))
    problem = alloc.Instance("long", topology, (job,), slot_s=10.0)
    with pytest.raises(OutOfTime), time_limit(1.5 * slots):
        FAMILIES["malleable"].build("cpsat", problem)


@pytest.mark.parametrize("name", [name for name, kind in MODELS if kind == "pyomo"])
def test_no_row_of_a_pyomo_model_is_made_once_time_is_up(name, monkeypatch):
    """Of one family, most rows came of a rule that never looked: a limit of 2 s took 11."""
    problem, _ = some_problem(name, "pyomo")
    add, late = pyo.ConcreteModel.add_component, []

    def add_late(self, component, val):
        if not (isinstance(val, pyo.Constraint) and val.is_indexed()):
            add(self, component, val)
            return
        with time_limit(0.0), suppress(OutOfTime):
            add(self, component, val)
        late.extend([component] * bool(len(val)))

    monkeypatch.setattr(pyo.ConcreteModel, "add_component", add_late)
    FAMILIES[name].build("pyomo", problem)
    assert not late


@pytest.mark.parametrize("seconds", [1e-9, 1e-3, 0.1])
@pytest.mark.parametrize(("name", "way"), GENERAL)
def test_however_short_a_limit_the_answer_is_a_result(name, way, seconds):
    problem, _ = some_problem(name, backend(way).MODEL_KIND)
    result = alloc.solve(problem, name, way, limits=alloc.Limits(seconds))
    if result.status in ("feasible", "no_solution"):
        assert result.certificate.limit == "time"
    if seconds < 1e-6 and (name, backend(way).MODEL_KIND) not in AT_ONCE:
        assert result.status == "no_solution"


# What a family that takes hints starts from is no answer that must be kept.
KEPT = [(name, way) for name, way in GENERAL if not FAMILIES[name].takes_hints]


@pytest.mark.parametrize(("name", "way"), KEPT)
def test_a_start_outlives_a_limit_that_ends_while_the_model_is_built(name, way):
    family = FAMILIES[name]
    for problem, known in answered(name, 4):
        try:
            family.build(backend(way).MODEL_KIND, problem)
        except UnsupportedFeatureError:
            continue
        result = alloc.solve(problem, name, way, limits=alloc.Limits(1e-9), warm_start=known)
        assert result.solution == known.solution
        if (name, backend(way).MODEL_KIND) not in AT_ONCE:
            assert result.certificate.limit == "time"
        return
    raise AssertionError(f"no tiny problem of {name} that {way} models has an answer")


def test_a_limit_ends_with_its_block_and_only_tightens_within_another():
    with time_limit(60.0):
        with pytest.raises(OutOfTime), time_limit(0.0):
            check_time()
        check_time()
    with time_limit(0.0), time_limit(60.0), pytest.raises(OutOfTime):
        check_time()
    check_time()


def test_a_limit_is_its_threads_own():
    free = []

    def work():
        check_time()
        free.append(True)

    with time_limit(0.0):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert free


def test_a_pyomo_model_of_ones_own_is_cut_off_as_it_is_written(ticks):
    built = FAMILIES["round"].build("pyomo", next(tiny_problems("round")))
    raw = pyomo_highs.solve(built.model, alloc.backends.SolverOptions(1.0))
    assert (raw.status, raw.limit) == ("no_solution", "time")
