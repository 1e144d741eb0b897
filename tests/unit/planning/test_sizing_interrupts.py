"""Ctrl-C in all kinds of sizing, quota planning and operation keeps what was found, with its bound.

Every interrupt here is a real signal in the middle of the work, at a moment that an event names.
An answer that says "interrupt" and not "time" shows that the interrupt ended the search, which by
itself would go on for minutes.
"""

import dataclasses

import numpy as np
import pytest
from inference_problems import a_class, a_problem, hard_problem
from interrupting import ctrl_c_at, ctrl_c_in_highs, incumbent, press, working
from quota_problems import GPU, hard_quotas

from alloc.instances.operation import generate_operation
from alloc.instances.stored_planning import load_stored_planning
from alloc.planning.inference import read_inference_report, size_inference, write_inference_report
from alloc.planning.operation import operate
from alloc.planning.quotas import plan_quotas
from alloc.planning.resolves import Changed, solve_again
from alloc.problems.inference_sizing.requests import LatencyGoal
from alloc.result import Limits
from alloc.solving.operation.policies import decide_operation
from alloc.solving.outcome import Settings
from alloc.solving.quota_planning import starts as quota_starts
from alloc.solving.right_sizing.method import right_size
from alloc.solving.solver import solve, solve_within
from alloc.verification.inference_sizing import verify_inference
from alloc.verification.operation import verify_operation
from alloc.verification.quota_planning import verify_quota_plan
from alloc.verification.right_sizing import verify_plan

LONG = Limits(seconds=500)
"""Minutes of search, less than a test may take."""


def test_replicas_found_before_an_interrupt_are_kept_with_their_bound():
    problem = hard_problem(8, 3)
    with ctrl_c_in_highs(incumbent):
        result = size_inference(problem, LONG, replayed_requests=0)
    assert result.result.certificate.limit == "interrupt"
    assert result.result.certificate.status == "feasible"
    assert 0 < result.result.certificate.bound < result.result.certificate.objective
    assert verify_inference(problem, result.result.solution) == []
    assert result.result.sensitivities == ()
    assert read_inference_report(write_inference_report(result)) == result


def test_one_program_of_all_scenarios_is_left_with_what_was_found():
    """HiGHS has the whole program in hand, so that it is for HiGHS to stop."""
    problem = load_stored_planning("planning-medium/02")
    with ctrl_c_in_highs(working):
        result = right_size(problem, limits=Limits(seconds=500, gap=0.0), method="extensive")
    assert result.certificate.limit == "interrupt"
    assert result.certificate.status == ("no_solution" if result.solution is None else "feasible")
    if result.solution is not None:
        assert result.certificate.bound < result.certificate.objective
        assert verify_plan(problem, result.solution) == []


@pytest.mark.long
def test_periods_that_were_not_reached_get_a_moment():
    """A plan of some periods is none."""
    problem = hard_problem(6, 2, billing="used")
    with ctrl_c_in_highs(incumbent):
        result = size_inference(problem, LONG, replayed_requests=0)
    assert result.result.certificate.limit == "interrupt"
    assert {group.period for group in result.result.solution.groups} == {
        p.name for p in problem.periods
    }
    assert verify_inference(problem, result.result.solution) == []
    assert 0 < result.result.certificate.bound <= result.result.certificate.objective


def test_an_interrupt_before_any_plan_is_a_result_without_one():
    report = ctrl_c_at("kinds of periods")
    result = size_inference(hard_problem(8, 3), LONG, progress=report)
    assert result.result.solution is None
    assert (result.result.certificate.status, result.result.certificate.limit) == (
        "no_solution",
        "interrupt",
    )


@pytest.mark.long
@pytest.mark.parametrize("line", ["round 1: optimal", "round 1: simulation"])
def test_an_interrupt_of_the_simulation_keeps_the_plan(line):
    base = a_problem(0.82, arrival_scv=6.0)
    kind = a_class(0.82, ttft=LatencyGoal(1.0, 95))
    problem = base.replace(models=(dataclasses.replace(base.models[0], classes=(kind,)),))
    result = size_inference(problem, replayed_requests=100_000, progress=ctrl_c_at(line))
    assert (result.result.certificate.status, result.result.certificate.limit) == (
        "optimal",
        "interrupt",
    )
    assert result.result.solution is not None
    assert bool(result.checks) == ("simulation" in line)
    assert not result.converged
    assert not result.result.sensitivities


@pytest.mark.long
@pytest.mark.parametrize("goal", ["fair_service", "fair_coverage", "least_quota"])
def test_quotas_found_before_an_interrupt_are_kept_with_their_bound(goal):
    problem = hard_quotas(goal)
    with ctrl_c_in_highs(incumbent):
        result = plan_quotas(problem, LONG)
    certificate = result.result.certificate
    assert certificate.limit == "interrupt"
    assert certificate.status in ("feasible", "optimal")
    assert verify_quota_plan(problem, result.result.solution) == []
    better = 1 if certificate.sense == "max" else -1
    assert better * certificate.objective <= better * certificate.bound < np.inf
    assert result.outlooks
    assert result.result.sensitivities == ()


@pytest.mark.parametrize("goal", ["fair_coverage", "least_quota"])
def test_quotas_of_a_local_search_are_kept_at_an_interrupt(goal, monkeypatch):
    """The search for a start comes first; then there is no bound, and the quotas hold."""
    better = quota_starts._better

    def interrupted(data, steps, until):
        for found in better(data, steps, until):
            yield found
            if goal != "least_quota" or quota_starts._kept(data, found):
                press()

    monkeypatch.setattr(quota_starts, "_better", interrupted)
    problem = hard_quotas(goal)
    result = plan_quotas(problem, LONG)
    assert result.result.certificate.limit == "interrupt"
    assert result.result.certificate.bound_proof == "none"
    assert verify_quota_plan(problem, result.result.solution) == []


@pytest.mark.long
@pytest.mark.parametrize("goal", ["fair_coverage", "least_quota"])
def test_an_interrupt_while_a_start_is_written_out_keeps_it(goal, monkeypatch):
    """The search is over, and HiGHS has not begun."""
    by_rule, calls = quota_starts.plan_of_quotas, []

    def interrupted(data, steps):
        calls.append(steps)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return by_rule(data, steps)

    monkeypatch.setattr(quota_starts, "plan_of_quotas", interrupted)
    problem = hard_quotas(goal)
    result = plan_quotas(problem, LONG)
    assert result.result.certificate.limit == "interrupt"
    assert verify_quota_plan(problem, result.result.solution) == []


def test_an_interrupt_after_a_solve_keeps_its_proof():
    problem = hard_quotas("expected_shortfall")
    result = plan_quotas(problem, progress=ctrl_c_at("expected_shortfall"))
    assert (result.result.certificate.status, result.result.certificate.limit) == (
        "optimal",
        "interrupt",
    )
    assert verify_quota_plan(problem, result.result.solution) == []
    assert result.outlooks
    assert result.result.sensitivities == ()


@pytest.mark.long
def test_an_interrupt_while_it_is_said_what_is_missing_is_a_result_too():
    problem = hard_quotas("least_quota")
    [gpus] = problem.capacity
    poor = problem.replace(capacity=(dataclasses.replace(gpus, gpu_milli=20 * GPU),))
    result = plan_quotas(poor, LONG, progress=ctrl_c_at("no plan yet"))
    assert (result.result.certificate.status, result.result.certificate.limit) == (
        "infeasible",
        "interrupt",
    )


def test_a_decision_found_before_an_interrupt_is_kept():
    problem = generate_operation(num_nodes=10, num_jobs=40)
    result = operate(problem, progress=ctrl_c_at("greedy"))
    assert result.result.certificate.limit == "interrupt"
    assert 0 <= result.result.certificate.bound < result.result.certificate.objective
    assert verify_operation(problem, result.result.solution) == []


@pytest.mark.long
def test_who_needs_the_whole_answer_is_interrupted():
    """Half an answer would be held against a whole one, as in a what-if or among policies."""
    base = solve(hard_problem(8, 3), limits=Limits(seconds=1)).certificate
    changes = [Changed("host", "a", 1.0, "hosts", lambda: hard_problem(8, 3))] * 3
    lines: list[str] = []
    with ctrl_c_in_highs(working):
        found, interrupted = solve_again(
            changes,
            base,
            lambda changed, within: solve_within(changed, within).certificate,
            Settings.of(LONG),
            lines.append,
        )
    assert (found, interrupted) == ((), True)
    assert lines == ["interrupted: 3 of 3 what-ifs left out"]
    problem = generate_operation(num_nodes=10, num_jobs=40)
    with ctrl_c_in_highs(working), pytest.raises(KeyboardInterrupt):
        decide_operation(problem, "exact", Settings.of(LONG))
