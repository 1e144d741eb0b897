"""CP-SAT's word held against the array model: a false claim of either is never passed on."""

import math
from dataclasses import replace

import numpy as np
import pytest

from alloc.backends import cpsat, highs
from alloc.problems.allocation.instance import Instance
from alloc.solving import cross_check, solve
from alloc.topology import HostType, flat_cluster
from alloc.workload import Job, rigid_gang

ROUND = Instance(
    "round",
    flat_cluster("c", HostType("h", 4, "v100", 0, 0), 1),
    tuple(
        Job(f"j{i}", 0.0, 100.0, (rigid_gang(g, rate=r),))
        for i, (g, r) in enumerate([(2, 3.0), (2, 2.0), (3, 4.5), (1, 1.0)])
    ),
    slot_s=10.0,
)


def the_certificate(objective="progress"):
    return solve(ROUND, "round", "cpsat", objective=objective).certificate


def test_a_small_optimum_of_cpsat_is_proved_again():
    found = the_certificate()
    assert found.status == "optimal"
    assert found.bound_proof == "recomputed"
    assert found.backend == "cpsat"


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_false_optimum_of_cpsat_is_replaced(monkeypatch, share):
    """Its solution loses all jobs, and its bound is what it then claims to be the best."""
    true = the_certificate().objective
    honest = cpsat.solve

    def lies(model, options):
        raw = honest(model, options)
        return replace(
            raw, values=np.zeros(len(raw.values)), objective=0.0, bound=share * raw.bound
        )

    monkeypatch.setattr(cpsat, "solve", lies)
    found = the_certificate()
    assert found.status == "optimal"
    assert found.objective == pytest.approx(true)
    assert found.bound == pytest.approx(true)


def test_two_words_that_differ_leave_the_weaker_bound(monkeypatch):
    """Neither is proved: HiGHS says twice as much is possible."""

    def other(model, options):
        raw = highs.solve(model, options)
        return replace(raw, bound=2 * raw.bound, bound_proof="claimed")

    monkeypatch.setattr(cross_check, "solve_and_prove", other)
    found = the_certificate()
    assert found.status == "feasible"
    assert found.bound == pytest.approx(2 * found.objective)


def test_a_bound_at_the_edge_of_the_gap_confirms(monkeypatch):
    """HiGHS may stop at the gap, and then be a rounding away: no optimum is lost to that."""

    def near(model, options):
        raw = highs.solve(model, options)
        return replace(raw, bound=raw.bound * (1 + 1.001e-6), bound_proof="claimed")

    monkeypatch.setattr(cross_check, "solve_and_prove", near)
    found = the_certificate()
    assert (found.status, found.bound_proof) == ("optimal", "confirmed")


def test_two_words_that_agree_confirm_each_other(monkeypatch):
    monkeypatch.setattr(cross_check, "solve_and_prove", highs.solve)
    found = the_certificate()
    assert (found.status, found.bound_proof) == ("optimal", "confirmed")


@pytest.mark.parametrize("status", ["infeasible", "no_solution", "feasible"])
def test_an_array_model_without_an_answer_changes_nothing(monkeypatch, status):
    def none(model, options):
        return replace(highs.solve(model, options), status=status, values=None, bound=math.nan)

    monkeypatch.setattr(cross_check, "solve_and_prove", none)
    found = the_certificate()
    assert (found.status, found.bound_proof) == ("optimal", "claimed")


def test_a_better_solution_that_breaks_a_rule_refutes_nothing(monkeypatch):
    """HiGHS keeps rows within a tolerance, which may be more than one unit of a large amount."""
    jobs = tuple(Job(f"j{n}", 0.0, 100.0, (rigid_gang(n, rate=1.0),)) for n in (2, 3))
    two = Instance("two", flat_cluster("c", HostType("h", 4, "v100", 0, 0), 1), jobs)

    def generous(model, options):
        """Return both jobs on four GPUs."""
        best = float(model.cost @ model.upper) + model.offset
        raw = highs.solve(model, options)
        return replace(raw, values=model.upper, objective=best, bound=best, bound_proof="claimed")

    monkeypatch.setattr(cross_check, "solve_and_prove", generous)
    found = solve(two, "placement", "cpsat", objective="gpus_placed").certificate
    assert (found.status, found.objective, found.bound_proof) == ("optimal", 3.0, "claimed")
