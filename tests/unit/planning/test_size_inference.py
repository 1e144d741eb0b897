"""Inference sizing from end to end: rounds, what-ifs, infeasible problems, documents."""

import dataclasses
import json
import math

import pytest
from inference_problems import a_class, a_problem
from numpy.random import default_rng

from alloc.errors import AllocError, InstanceError
from alloc.planning import inference
from alloc.planning.inference import (
    load_inference_problem,
    read_inference_problem,
    read_inference_report,
    size_inference,
    write_inference_problem,
    write_inference_report,
)
from alloc.planning.inference_replay import replay_stream
from alloc.problems.inference_sizing.problem import GpuPool, InferenceProblem
from alloc.problems.inference_sizing.rates import group_rate, load_of
from alloc.problems.inference_sizing.requests import LatencyGoal, TokenSummary
from alloc.result import Result
from alloc.simulation.serving import draw_requests
from alloc.solving.solver import solve, solve_within
from alloc.verification.inference_sizing import verify_inference


def test_a_plan_shows_both_fidelities_and_what_more_would_change():
    problem = a_problem(1.5, 0.4)
    seen: list[str] = []
    result = size_inference(problem, progress=seen.append)
    assert result.result.certificate.status == "optimal"
    assert result.result.certificate.verified
    assert result.converged
    assert {check.measure for check in result.checks} == {"ttft"}
    assert all(check.predicted <= check.allowed + 1e-9 for check in result.checks)
    assert {(r.kind, r.name) for r in result.result.sensitivities} == {
        ("host", "own"),
        ("rate", "chatbot"),
    }
    assert all(r.is_exact for r in result.result.sensitivities)
    more = next(r for r in result.result.sensitivities if r.kind == "rate")
    assert more.value is None or more.value >= 0
    assert len(seen) == len(result.result.log) > 1


def test_as_many_hosts_as_there_may_be_have_a_plan_without_one_more():
    """One more than a million is refused, which is no reason to lose what was found."""
    pool = GpuPool("own", "h100", 4, 1_000_000, 2.0, 80_000)
    result = size_inference(a_problem(0.5, pools=(pool,)), replayed_requests=0)
    assert result.result.certificate.status == "optimal"
    assert [(r.kind, r.name) for r in result.result.sensitivities] == [("rate", "chatbot")]
    assert any('no what-if for "own" (+1 hosts)' in line for line in result.result.log)


def test_a_goal_that_the_simulation_misses_is_tightened_until_it_holds():
    """Bursty requests find all places taken more often than Erlang's formula says of steady ones.

    The simulation sees it; the second round trusts the closed form with less, and pays for more.
    """
    base = a_problem(0.82, arrival_scv=6.0)
    kind = a_class(0.82, ttft=LatencyGoal(1.0, 95))
    problem = base.replace(models=(dataclasses.replace(base.models[0], classes=(kind,)),))
    once = size_inference(problem, what_if=False, replayed_requests=5000, max_iterations=1)
    assert not once.converged
    [check] = once.checks
    assert check.predicted <= check.allowed < check.simulated
    result = size_inference(problem, what_if=False, replayed_requests=5000)
    assert result.converged
    assert result.iterations == 2
    assert result.result.certificate.objective > once.result.certificate.objective
    assert result.result.certificate.fingerprint != once.result.certificate.fingerprint


def test_a_round_out_of_time_leaves_the_last_plan(monkeypatch):
    """A limit must never lose an incumbent: the round that was cut off had its plan thrown away."""
    base = a_problem(0.82, arrival_scv=6.0)
    kind = a_class(0.82, ttft=LatencyGoal(1.0, 95))
    problem = base.replace(models=(dataclasses.replace(base.models[0], classes=(kind,)),))
    solved = []

    def cut_off(changed, settings, report):
        outcome = solve_within(changed, settings, report)
        solved.append(outcome)
        if len(solved) == 1:
            return outcome
        nothing = outcome.certificate.replace(status="no_solution", objective=None, limit="time")
        return Result(None, nothing)

    monkeypatch.setattr(inference, "solve_within", cut_off)
    result = size_inference(problem, what_if=False, replayed_requests=5000)
    assert len(solved) == 2
    assert result.result.solution == solved[0].solution
    assert result.result.certificate == solved[0].certificate
    assert not result.converged


def test_what_the_simulation_forbids_may_leave_no_plan():
    """One GPU keeps the goal by the closed form and not in the simulation: then there is none."""
    base = a_problem(0.82, arrival_scv=6.0, pools=(GpuPool("own", "h100", 1, 1, 2.0, 80_000),))
    kind = a_class(0.82, ttft=LatencyGoal(1.0, 95))
    problem = base.replace(models=(dataclasses.replace(base.models[0], classes=(kind,)),))
    result = size_inference(problem, what_if=False, replayed_requests=5000)
    assert result.result.certificate.status == "infeasible"
    assert "the simulation shows that it misses goals" in result.result.conflict
    assert result.result.repairs


def test_dearer_gpus_cost_in_proportion_and_more_hosts_never_more():
    problem = a_problem(1.5, 0.8)
    base = solve(problem).certificate.objective
    [pool] = problem.pools
    dear = problem.replace(pools=(dataclasses.replace(pool, price_per_gpu_hour=6.0),))
    assert solve(dear).certificate.objective == pytest.approx(3 * base)
    roomy = problem.replace(pools=(dataclasses.replace(pool, hosts=5),))
    assert solve(roomy).certificate.objective == pytest.approx(base)


def test_training_lends_in_the_hours_in_which_it_is_cheap():
    """Co-location: the peak borrows from training, the night runs on its own GPUs."""
    own = GpuPool("own", "h100", 4, 1, 1.0, 80_000)
    lent = GpuPool("training", "h100", 4, (0, 3), (9.0, 1.5), 80_000, lender="training")
    problem = a_problem(0.4, 9.0, pools=(own, lent))
    result = size_inference(problem, what_if=False)
    plan = result.result.require_solution()
    assert plan.gpus_used("p0", "training") == 0
    assert plan.gpus_used("p1", "training") > 0
    assert any("training" in sentence for sentence in result.result.assumptions)


def test_a_recorded_stream_is_routed_over_the_groups_of_a_plan():
    problem = a_problem(1.5)
    plan = size_inference(problem, what_if=False).result.require_solution()
    load = load_of(problem.models[0], 0, problem.models[0].options[0], 8)
    checks = replay_stream(
        problem, plan, "chatbot", "p0", draw_requests(load, 1.5, 3000, default_rng(3))
    )
    assert sum(check.requests for check in checks) == 3000
    assert all(check.holds for check in checks)
    with pytest.raises(InstanceError, match="no replicas of model"):
        replay_stream(problem, plan, "chatbot", "p7", draw_requests(load, 1, 10, default_rng(3)))


def shrunk(problem: InferenceProblem, hosts: int) -> InferenceProblem:
    return problem.replace(
        pools=tuple(dataclasses.replace(pool, hosts=hosts) for pool in problem.pools)
    )


def test_too_few_gpus_are_said_with_changes_that_are_each_enough():
    problem = shrunk(a_problem(9.0, 0.5, failures=1), 1)
    result = size_inference(problem)
    assert result.result.certificate.status == "infeasible"
    assert 'period "p0"' in result.result.conflict
    assert '"chatbot"' in result.result.conflict
    with pytest.raises(AllocError, match="there is no solution: period"):
        result.result.require_solution()
    kinds = {relaxation.kind: relaxation for relaxation in result.result.repairs}
    assert {"rate", "hosts"} <= set(kinds)
    relative = [r.amount / r.before for r in result.result.repairs]
    assert relative == sorted(relative)
    assert [r.option for r in result.result.repairs] == list(range(len(relative)))
    enough = int(kinds["hosts"].after)
    solved = solve(shrunk(problem, enough))
    assert solved.certificate.objective == pytest.approx(kinds["hosts"].cost)
    assert solve(shrunk(problem, enough - 1)).solution is None


def test_a_goal_that_idle_replicas_miss_is_named_with_what_can_be_had():
    """The prompt of 2,000 tokens takes 0.25 s by itself, and the running step comes before it."""
    problem = a_problem(0.1)
    kind = dataclasses.replace(problem.models[0].classes[0], ttft=LatencyGoal(0.1, 95))
    problem = problem.replace(models=(dataclasses.replace(problem.models[0], classes=(kind,)),))
    result = size_inference(problem)
    assert 'class "chat" asks for ttft within 0.1 s' in result.result.conflict
    [relaxation] = result.result.repairs
    assert "gets 0.275" in result.result.conflict
    assert relaxation.after == pytest.approx(0.25 + 1 / 40, rel=0.03)
    # Idle replicas attain it, replicas at work a little later: what is said must be enough.
    looser = dataclasses.replace(kind, ttft=LatencyGoal(relaxation.after, 95))
    solvable = problem.replace(models=(dataclasses.replace(problem.models[0], classes=(looser,)),))
    assert solve(solvable).solution is not None


def test_a_replica_of_absurd_slowness_is_idle_too():
    """At its fixed rate it had more to do than time: no latency was ever enough, not even inf."""
    problem = a_problem(1.0)
    model = problem.models[0]
    slow = dataclasses.replace(model.options[0], prefill_tokens_per_s=1e-9)
    result = size_inference(problem.replace(models=(dataclasses.replace(model, options=(slow,)),)))
    assert "asks for ttft within" in result.result.conflict
    assert math.isfinite(result.result.repairs[0].after)


def test_weights_that_fit_nowhere_are_said_with_the_memory_they_need():
    problem = a_problem(1.0)
    large = dataclasses.replace(problem.models[0], memory_mib=100_000)
    result = size_inference(problem.replace(models=(large,)))
    assert "100000 MiB" in result.result.conflict
    assert result.result.repairs[0].kind == "memory"


def test_hosts_that_no_plan_can_hold_throughout_are_explained():
    """Each hour has its hosts, but none is there in both hours to be held."""
    held = (
        GpuPool("day", "h100", 4, (2, 0), 1.0, 80_000, billing="held"),
        GpuPool("night", "h100", 4, (0, 2), 1.0, 80_000, billing="held"),
    )
    result = size_inference(a_problem(1.0, 1.0, pools=held))
    assert "held throughout" in result.result.conflict


def test_documents_come_back_as_they_were(tmp_path):
    summary = dataclasses.replace(
        a_class(1.0), input_tokens=TokenSummary(300, 95, 900), name="summary"
    )
    problem = a_problem(1.0, failures=1)
    problem = problem.replace(
        models=(dataclasses.replace(problem.models[0], classes=(a_class(1.0), summary)),)
    )
    path = tmp_path / "problem.json"
    text = write_inference_problem(problem, path)
    assert read_inference_problem(text) == load_inference_problem(path) == problem
    result = size_inference(problem, replayed_requests=1000)
    assert read_inference_report(write_inference_report(result)) == result


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(kind="instance"), "this is an instance, and an inference problem was"),
        (lambda d: d.update(schema_version=99), "has schema_version 99, and this alloc"),
        (lambda d: d["pools"][0].update(host=3), 'pools.0. "own": unknown field "host"'),
        (lambda d: d["pools"][0].pop("gpu_type"), 'field "gpu_type" is missing; add it .GPU type'),
        (lambda d: d["pools"][0].update(price_per_gpu_hour="2"), "price_per_gpu_hour is \"2\""),
        (lambda d: d["models"][0]["classes"][0]["ttft"].update(seconds=True), "give a number"),
        (lambda d: d["models"][0]["classes"][0]["input_tokens"].update(mean=3),
         'unknown field "mean"'),
        (lambda d: d["models"][0].update(failure_unit="rack"), "known: replica, host"),
        (lambda d: d["periods"][0].update(hours=-1), "hours is -1; it must be more than 0"),
    ],
)  # fmt: skip
def test_a_malformed_document_is_one_sentence(change, message):
    document = json.loads(write_inference_problem(a_problem(1.0, failure_unit="host")))
    change(document)
    with pytest.raises(InstanceError, match=message):
        read_inference_problem(json.dumps(document))


def test_options_out_of_range_are_refused():
    with pytest.raises(InstanceError, match="cannot show a percentile; ask for 100 or more"):
        size_inference(a_problem(1.0), replayed_requests=5)
    with pytest.raises(InstanceError, match="max_iterations is 0"):
        size_inference(a_problem(1.0), max_iterations=0)


def broken(problem, plan, code):
    """Return a plan that breaks one rule."""
    group, contents = plan.groups[0], plan.contents[0]
    model = problem.models[0]
    most = group_rate(problem, model, 0, model.options[0], group.batch_cap, group.replicas)
    groups = {
        "rate": dataclasses.replace(group, rate_per_s=group.rate_per_s * 50),
        "ttft": dataclasses.replace(group, rate_per_s=most * 1.01),
        "batch_cap": dataclasses.replace(group, batch_cap=7),
        "replicas": dataclasses.replace(group, replicas=0),
        "routing": dataclasses.replace(group, rate_per_s=group.rate_per_s / 2),
        "one_group": group,
    }
    hosts = {
        "host_gpus": dataclasses.replace(contents, replica_gpus=(4, 4)),
        "hosts": dataclasses.replace(contents, hosts=9),
        "replicas_stand": dataclasses.replace(contents, replica_gpus=contents.replica_gpus[1:]),
    }
    if code == "one_group":
        return dataclasses.replace(plan, groups=(group, group, *plan.groups[1:]))
    if code in groups:
        return dataclasses.replace(plan, groups=(groups[code], *plan.groups[1:]))
    return dataclasses.replace(plan, contents=(hosts[code], *plan.contents[1:]))


@pytest.mark.parametrize(
    "code",
    ["rate", "ttft", "batch_cap", "replicas", "routing", "one_group", "host_gpus", "hosts",
     "replicas_stand"],
)  # fmt: skip
def test_the_judge_sees_each_broken_rule(code):
    problem = a_problem(1.5)
    plan = solve(problem).solution
    assert verify_inference(problem, plan) == []
    found = {violation.code for violation in verify_inference(problem, broken(problem, plan, code))}
    assert code in found


def test_the_judge_sees_memory_and_held_hosts():
    problem = a_problem(1.5, pools=(GpuPool("own", "h100", 4, 2, 2.0, 80_000, billing="held"),))
    plan = solve(problem).solution
    unpaid = dataclasses.replace(plan, held=())
    assert {v.code for v in verify_inference(problem, unpaid)} == {"hosts"}
    small = dataclasses.replace(problem.pools[0], gpu_memory_mib=10)
    codes = {v.code for v in verify_inference(problem.replace(pools=(small,)), plan)}
    assert "gpu_memory" in codes
    other = problem.replace(models=(dataclasses.replace(problem.models[0], name="x"),))
    with pytest.raises(InstanceError, match='there is no model "chatbot"'):
        verify_inference(other, plan)


def test_a_tight_goal_may_be_loosened_and_a_failure_less_planned_for():
    """One host of two GPUs: with a spare replica, or with the goal, the second is not enough."""
    pool = GpuPool("own", "h100", 2, 1, 2.0, 80_000)
    base = a_problem(1.2, pools=(pool,), failures=1)
    kind = a_class(1.2, ttft=LatencyGoal(0.5, 97))
    problem = base.replace(models=(dataclasses.replace(base.models[0], classes=(kind,)),))
    result = size_inference(problem)
    by_kind = {(r.kind, r.name): r for r in result.result.repairs}
    looser = by_kind["goal", "all latency goals"].after
    enough = dataclasses.replace(kind, ttft=LatencyGoal(0.5 * looser, 97))
    changed = problem.replace(models=(dataclasses.replace(problem.models[0], classes=(enough,)),))
    assert solve(changed).solution is not None
    fewer = by_kind["failures", "all models"]
    assert (fewer.before, fewer.after) == (1, 0)
    assert fewer.cost == pytest.approx(2.0 * 2)
