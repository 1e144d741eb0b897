"""A solver that calls a program infeasible although it has a solution proves nothing with that."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

import alloc
from alloc.backends import SolverOptions
from alloc.backends.second_proof import solve_and_prove
from alloc.formulation import ArrayModel, RawResult
from alloc.problems.allocation.instance import Instance
from alloc.problems.colocation import ColocationProblem
from alloc.result import Limits
from alloc.solving import solve
from alloc.solving.malleable import master
from alloc.solving.outcome import Settings
from alloc.solving.round import method as rounds
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, Job, TaskGroup
from alloc.workload.interference import InterferenceTable

if TYPE_CHECKING:
    import pytest


def refusing(model: object, options: object) -> RawResult:
    """Say that there is no solution, as HiGHS has done of programs that have one."""
    worst = -math.inf if getattr(model, "sense", "min") == "max" else math.inf
    return RawResult("infeasible", None, None, worst, None, "Infeasible")


def three_jobs_of_three_gpus(slot_s: float) -> Instance:
    """A host of four GPUs runs one of them at a time: the linear relaxation runs more."""
    topology = Topology("one", (HostType("k", 4, "a100"),), (Host("h0", "k"),))
    way = Configuration((TaskGroup("w", 1, gpu_milli=3000),), 1.0)
    jobs = tuple(Job(f"j{n}", 0.0, 2.0, (way,), elasticity="rigid") for n in range(3))
    return Instance("three", topology, jobs, slot_s=slot_s)


def test_a_round_keeps_the_bound_of_its_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = three_jobs_of_three_gpus(1.0)
    truth = alloc.solve(instance, "round").certificate
    assert truth.status == "optimal"
    monkeypatch.setattr(rounds, "best_of_all", lambda data: None)
    monkeypatch.setattr(rounds, "solve_small", lambda model, options: None)
    monkeypatch.setattr(rounds, "solve_and_prove", refusing)
    found = alloc.solve(instance, "round").certificate
    assert found.bound >= truth.bound
    assert found.status != "optimal"


def test_what_a_search_in_vain_takes_is_no_longer_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit holds for the search of a round and for the solver after it together."""
    left = [8.0]
    asked = []

    def in_vain(model: object, options: SolverOptions) -> None:
        asked.append(options.time_limit_s)
        left[0] = 3.0

    def last(model: ArrayModel, options: SolverOptions) -> RawResult:
        asked.append(options.time_limit_s)
        return solve_and_prove(model, options)

    monkeypatch.setattr(Settings, "seconds_left", lambda self: left[0])
    monkeypatch.setattr(rounds, "best_of_all", lambda data: None)
    monkeypatch.setattr(rounds, "solve_small", in_vain)
    monkeypatch.setattr(rounds, "solve_and_prove", last)
    assert alloc.solve(three_jobs_of_three_gpus(1.0), "round").certificate.status == "optimal"
    assert asked == [8.0, 3.0]


def test_a_schedule_is_not_proved_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = three_jobs_of_three_gpus(1.0)
    asked = []

    def refuses(model: object, options: object, enough: float) -> RawResult:
        asked.append(model)
        return refusing(model, options)

    monkeypatch.setattr(master, "solve_and_prove", refuses)
    monkeypatch.setattr("alloc.solving.malleable.method.solve_and_prove", refusing)
    found = alloc.solve(instance, "malleable", limits=Limits(seconds=5.0)).certificate
    assert asked
    assert found.status != "optimal"


def test_a_packing_is_not_proved_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # Three kinds of which any two share a GPU well: half of each pair is the linear relaxation.
    beside = np.full((3, 3), 0.9) - np.diag([0.9, 0.9, 0.9])
    table = InterferenceTable("a100", ("a", "b", "c"), np.ones(3), beside)
    truth = solve(ColocationProblem(["a", "b", "c"], table, 1))
    monkeypatch.setattr("alloc.backends.restricted_master.solve_and_prove", refusing)
    found = solve(ColocationProblem(["a", "b", "c"], table, 1))
    assert found.bound >= truth.objective
