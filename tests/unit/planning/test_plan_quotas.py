"""Quota planning from end to end: replays, scenarios held out, what-ifs, instances, documents."""

import dataclasses
import json

import numpy as np
import pytest
from quota_problems import GPU, a_quota_problem

from alloc.errors import AllocError, InstanceError
from alloc.instances.generators import generate_elastic
from alloc.planning import quotas
from alloc.planning.quotas import (
    load_quota_problem,
    plan_quotas,
    read_quota_problem,
    read_quota_report,
    resample_days,
    write_quota_problem,
    write_quota_report,
)
from alloc.problems.quota_planning.measures import coverage, service, share_out
from alloc.problems.quota_planning.problem import (
    DemandScenario,
    GpuAmount,
    GpuCapacity,
    QuotaPlan,
    QuotaProblem,
    QuotaTenant,
    TenantDemand,
)
from alloc.solving.outcome import Settings
from alloc.solving.solver import solve, solve_within
from alloc.verification.quota_planning import verify_quota_plan

PAIR = [QuotaTenant("a", "c", 4 * GPU), QuotaTenant("b", "c", 4 * GPU)]


def test_the_rule_lends_what_is_idle_in_equal_amounts():
    """By hand: 6 idle; b wants 4 and may borrow 4, d wants 1; so d gets 1, b gets 4, 1 is left."""
    tenants = [
        QuotaTenant("a", "c", 0),
        QuotaTenant("b", "c", 4 * GPU),
        QuotaTenant("d", "c", 9 * GPU),
        QuotaTenant("e"),
    ]
    problem = a_quota_problem(tenants, [[2, 6, 3, 5]], 20)
    quota = np.array([[8.0], [2.0], [2.0], [3.0]]) * GPU
    shared = share_out(problem, quota, problem.demand_milli)[0, 0, :, 0] / GPU
    assert shared.tolist() == [2.0, 6.0, 3.0, 3.0]
    scarce = a_quota_problem(tenants, [[7, 6, 6, 5]], 20)
    shared = share_out(scarce, quota, scarce.demand_milli)[0, 0, :, 0] / GPU
    assert shared.tolist() == [7.0, 2.5, 2.5, 3.0]


def test_the_rule_lends_no_more_than_may_be_borrowed_over_all_types():
    """By hand: b wants 5 of each of two types, both are idle, and 4 may be borrowed in all."""
    tenants = (QuotaTenant("a", "c"), QuotaTenant("b", "c", 4 * GPU))
    wants = tuple(TenantDemand("b", name, (5 * GPU,)) for name in ("x", "y"))
    problem = QuotaProblem(
        tenants,
        (GpuCapacity("x", 10 * GPU), GpuCapacity("y", 10 * GPU)),
        (DemandScenario("s", 1.0, wants),),
        (1.0,),
    )
    quota = np.array([[10.0, 10.0], [0.0, 0.0]]) * GPU
    shared = share_out(problem, quota, problem.demand_milli)[0, 0] / GPU
    assert shared.tolist() == [[0.0, 0.0], [2.0, 2.0]]


def test_measures_count_hours_not_periods():
    """Two hours of eight are a quarter of the time, though they are one period of two."""
    tenants = (QuotaTenant("a"), QuotaTenant("idle"))
    demand = TenantDemand("a", "x", (2 * GPU, 4 * GPU))
    problem = QuotaProblem(
        tenants, (GpuCapacity("x", 9 * GPU),), (DemandScenario("s", 1.0, (demand,)),), (2.0, 6.0)
    )
    served = np.minimum(problem.demand_milli, 3 * GPU)
    assert coverage(problem, served).tolist() == [0.25, 1.0]
    assert service(problem, served).tolist() == [(2 * 2 + 6 * 3) / (2 * 2 + 6 * 4), 1.0]


def few_and_many(seed):
    """Return a problem with ten scenarios, and two hundred others of the same distribution."""
    rng = np.random.default_rng(seed)
    tenants = [QuotaTenant("a", exceeding=0.2), QuotaTenant("b", exceeding=0.2)]
    few = a_quota_problem(tenants, rng.integers(0, 50, (10, 2)).tolist(), 200, "least_quota")
    many = a_quota_problem(tenants, rng.integers(0, 50, (200, 2)).tolist(), 200, "least_quota")
    return few, many


def test_a_promise_that_fails_out_of_sample_is_tightened():
    """Ten scenarios seen, two hundred held out: the quantile of ten is too hopeful."""
    few, many = few_and_many(6)
    loose = plan_quotas(few, held_out=many.scenarios, max_iterations=1, what_if=False)
    tight = plan_quotas(few, held_out=many.scenarios, what_if=False)
    held = {o.tenant: 1 - o.coverage for o in loose.outlooks if o.sample == "held out"}
    assert not loose.converged
    assert max(held.values()) > 0.2
    held = {o.tenant: 1 - o.coverage for o in tight.outlooks if o.sample == "held out"}
    assert tight.converged
    assert max(held.values()) <= 0.2
    assert tight.iterations > 1
    assert tight.result.certificate.objective > loose.result.certificate.objective


def test_a_promise_beyond_all_that_was_seen_is_not_said_to_hold():
    """The largest demand of the ten scenarios is too small: no tightening can help."""
    few, many = few_and_many(8)
    result = plan_quotas(few, held_out=many.scenarios, what_if=False)
    assert not result.converged
    assert result.result.solution is not None
    assert max(1 - o.coverage for o in result.outlooks if o.sample == "held out") > 0.2


def test_a_result_shows_what_each_tenant_gets_and_what_more_would_change():
    problem = a_quota_problem(PAIR, [[8, 2], [3, 9]], 10, "fair_service")
    result = plan_quotas(problem)
    assert result.result.certificate.status == "optimal"
    assert len(result.result.stages) == 2
    planned = [o.service for o in result.outlooks if o.sample == "planned"]
    assert min(planned) == pytest.approx(result.result.certificate.objective)
    by_name = {(r.kind, r.name): r for r in result.result.sensitivities}
    assert by_name["gpu", "a100"].value >= -1e-9
    assert by_name["demand", "a"].value <= 1e-9
    assert all(r.is_exact for r in result.result.sensitivities)
    assert {o.sample for o in result.outlooks} == {"planned", "replayed"}


def test_as_many_gpus_as_there_may_be_have_a_plan_without_one_more():
    """One more than a million is refused, which is no reason to lose what was found."""
    problem = a_quota_problem(PAIR, [[8, 2]], 1_000_000, "least_quota")
    result = plan_quotas(problem)
    assert result.result.certificate.objective == pytest.approx(10)
    assert [(r.kind, r.name) for r in result.result.sensitivities] == [
        ("demand", "a"),
        ("demand", "b"),
    ]
    assert any('no what-if for "a100" (+1 GPUs)' in line for line in result.result.log)


def test_types_are_divided_apart_and_borrowing_is_limited_over_both():
    def demand(tenant, gpu_type, gpus):
        return TenantDemand(tenant, gpu_type, (gpus * GPU,))

    problem = QuotaProblem(
        (QuotaTenant("a", "c", 3 * GPU), QuotaTenant("b", "c", least_quota=(
            GpuAmount("h100", 4 * GPU), GpuAmount("a100", 4 * GPU)))),
        (GpuCapacity("h100", 4 * GPU), GpuCapacity("a100", 4 * GPU)),
        (DemandScenario("s", 1.0, (demand("a", "h100", 4), demand("a", "a100", 4))),),
        (2.0,),
    )  # fmt: skip
    outcome = solve(problem)
    assert outcome.certificate.objective == pytest.approx(2.0 * (8 - 3))
    assert verify_quota_plan(problem, outcome.solution) == []


def test_a_plan_gives_an_instance_its_tenants():
    problem = a_quota_problem(PAIR, [[4, 2]], 8)
    result = plan_quotas(problem, what_if=False)
    instance = generate_elastic("small", num_jobs=3, num_hosts=5)
    jobs = tuple(dataclasses.replace(job, tenant="a") for job in instance.jobs)
    applied = result.result.require_solution().apply(problem, instance.replace(jobs=jobs))
    quotas = {tenant.name: tenant.gpu_quota_milli for tenant in applied.tenants}
    assert quotas["a"] + quotas["b"] <= 8 * GPU
    assert applied.tenants[0].cohort == "c"
    assert applied.tenants[0].borrowing_milli == 4 * GPU
    foreign = tuple(dataclasses.replace(job, tenant="aa") for job in instance.jobs)
    with pytest.raises(InstanceError, match='belongs to tenant "aa", which has no planned quota'):
        result.result.solution.apply(problem, instance.replace(jobs=foreign))


def test_days_are_drawn_whole():
    """What tenants ask for at the same time stays together."""
    series = np.array([[[1.0, 10.0]], [[2.0, 20.0]], [[3.0, 30.0]]]) * GPU
    scenarios = resample_days(series, ("a", "b"), "a100", 50, np.random.default_rng(0))
    assert len(scenarios) == 50
    assert sum(s.probability for s in scenarios) == pytest.approx(1.0)
    pairs = {tuple(d.gpu_milli[0] for d in s.demands) for s in scenarios}
    assert pairs == {(1000, 10000), (2000, 20000), (3000, 30000)}
    series[1, 0, 1] = np.nan
    with pytest.raises(InstanceError, match='day 1, period 0 of tenant "b" is missing'):
        resample_days(series, ("a", "b"), "a100", 5, np.random.default_rng(0))


def test_documents_come_back_as_they_were(tmp_path):
    tenants = [*PAIR, QuotaTenant("e", least_quota=(GpuAmount("a100", GPU),), exceeding=0.5)]
    problem = a_quota_problem(tenants, [[4, 2, 1], [1, 5, 3]], 8, "least_quota")
    path = tmp_path / "quotas.json"
    text = write_quota_problem(problem, path)
    assert read_quota_problem(text) == load_quota_problem(path) == problem
    result = plan_quotas(problem)
    assert read_quota_report(write_quota_report(result)) == result
    document = json.loads(text)
    document["tenants"][0]["borowing_milli"] = 3
    with pytest.raises(InstanceError, match='did you mean "borrowing_milli"'):
        read_quota_problem(json.dumps(document))


GOOD = a_quota_problem(PAIR, [[1, 1]], 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QuotaTenant("a", borrowing_milli=GPU), "borrow 1000 milli-GPU but from nobody"),
        (lambda: QuotaTenant("a", weight=0), "weight is 0"),
        (lambda: QuotaTenant("a", exceeding=1.0), "below 1"),
        (lambda: QuotaTenant("a", "c", 4), "less than 1 % of a GPU.*4000 for 4 GPU"),
        (lambda: QuotaTenant(""), "empty name"),
        (lambda: a_quota_problem(PAIR, [[0.004, 0]], 4), "more than 4 milli-GPU.*write 4000"),  # type: ignore[list-item]
        (
            lambda: GOOD.replace(tenants=(QuotaTenant("alice"), PAIR[1])),
            'scenario "s0", tenant "a": there is no such tenant; there are: alice, b',
        ),
        (lambda: GpuCapacity("a100", -1), "gpu_milli is -1"),
        (lambda: GpuCapacity("a100", 30), "gpu_milli is 30, less than one GPU.*by 1,000"),
        (lambda: TenantDemand("a", "a100", (-5,)), "gpu_milli is -5"),
        (lambda: a_quota_problem(PAIR, [[1, 1]], 4, "fair"), 'goal is "fair"'),  # type: ignore[arg-type]
        (lambda: a_quota_problem(PAIR, [[1, 1]], 4, probabilities=[0.5]), "sum to 0.5"),
        (lambda: GOOD.replace(tenants=(*PAIR, PAIR[0])), 'has tenant "a" twice'),
        (lambda: GOOD.replace(period_hours=(1.0, 1.0)), "has 1 numbers for 2 periods"),
        (lambda: GOOD.replace(capacity=(GpuCapacity("a10", GPU),)), 'did you mean "a10"'),
        (lambda: plan_quotas(GOOD, max_iterations=0), "max_iterations is 0"),
    ],
)
def test_bad_input_is_one_sentence_with_the_cure(make, message):
    with pytest.raises(InstanceError, match=message):
        make()


def test_an_infeasible_problem_has_no_plan_and_says_why():
    tenants = [QuotaTenant("a", least_quota=(GpuAmount("a100", 9 * GPU),))]
    result = plan_quotas(a_quota_problem(tenants, [[1]], 8))
    with pytest.raises(AllocError, match="there is no solution: the least quotas"):
        result.result.require_solution()


@pytest.mark.parametrize(
    ("code", "quotas", "uses"),
    [
        ("capacity", {"a": 5000, "b": 5000}, {}),
        ("step", {"a": 500}, {}),
        ("least_quota", {"a": -1000}, {}),
        ("demand", {}, {"a": 9000.0}),
        ("guarantee", {}, {"a": 0.0}),
        ("cohort", {"a": 1000, "b": 1000}, {"a": 4000.0, "b": 1000.0}),
        ("borrowing", {"a": 0, "b": 8000}, {"a": 6000.0}),
    ],
)
def test_the_judge_sees_each_broken_rule(code, quotas, uses):
    problem = a_quota_problem(PAIR, [[6, 1]], 8)
    plan = solve(problem).solution
    assert verify_quota_plan(problem, plan) == []
    changed = QuotaPlan(
        tuple(
            dataclasses.replace(q, gpu_milli=quotas.get(q.tenant, q.gpu_milli)) for q in plan.quotas
        ),
        tuple(
            dataclasses.replace(u, gpu_milli=(uses.get(u.tenant, u.gpu_milli[0]),))
            for u in plan.uses
        ),
    )
    assert code in {violation.code for violation in verify_quota_plan(problem, changed)}


def test_the_judge_counts_the_time_of_a_promise():
    problem = a_quota_problem([QuotaTenant("a", exceeding=0.4)], [[1], [2]], 8, "least_quota")
    plan = QuotaPlan((dataclasses.replace(solve(problem).solution.quotas[0], gpu_milli=1000),))
    codes = {violation.code for violation in verify_quota_plan(problem, plan)}
    assert codes == {"guarantee", "exceeding"}


def test_gpus_that_are_not_there_yet_are_a_cure_that_can_be_written():
    """A type without any GPU: the cure is infinitely more, which no document holds."""
    none = a_quota_problem([QuotaTenant("a")], [[2]], 0, "least_quota")
    found = plan_quotas(none)
    cure = next(r for r in found.result.repairs if r.kind == "capacity")
    assert (cure.before, cure.after, cure.amount) == (0.0, 2.0, 2.0)
    assert read_quota_report(write_quota_report(found)) == found


@pytest.mark.parametrize("goal", ["fair_service", "fair_coverage", "least_quota"])
def test_a_limit_does_not_lose_what_was_found(goal):
    """A moment is enough for quotas by local search, and they are judged like all others."""
    rng = np.random.default_rng(2)
    tenants = [QuotaTenant(f"t{i}", "c", 4 * GPU, exceeding=0.3) for i in range(5)]
    problem = a_quota_problem(tenants, rng.integers(0, 12, (30, 5)).tolist(), 60, goal)
    outcome = solve_within(problem, Settings(time_limit_s=0.3))
    assert outcome.solution is not None
    assert outcome.certificate.verified
    assert outcome.certificate.status in ("optimal", "feasible")
    assert verify_quota_plan(problem, outcome.solution) == []


def test_an_interrupt_leaves_out_what_ifs_and_keeps_the_plan(monkeypatch):
    """Ctrl-C keeps what was found: what-ifs come last, and take the longest."""
    solved = []

    def interrupted(changed, *arguments, **options):
        solved.append(changed)
        if len(solved) == 3:
            raise KeyboardInterrupt
        return solve_within(changed, *arguments, **options)

    monkeypatch.setattr(quotas, "solve_within", interrupted)
    result = plan_quotas(GOOD)
    assert result.result.solution is not None
    assert len(result.result.sensitivities) == 1
    assert "interrupted" in result.result.log[-1]
    assert (result.result.certificate.status, result.result.certificate.limit) == (
        "optimal",
        "interrupt",
    )


def test_a_round_out_of_time_does_not_say_that_nothing_keeps_the_promise(monkeypatch):
    """That would be a proof, and the time was up: more of it may find tighter quotas."""
    few, many = few_and_many(6)
    rounds = []

    def solve(problem, *arguments, **options):
        rounds.append(problem)
        outcome = solve_within(problem, *arguments, **options)
        if len(rounds) == 1:
            return outcome
        late = outcome.certificate.replace(objective=None, status="no_solution", limit="time")
        return dataclasses.replace(outcome, solution=None, certificate=late)

    monkeypatch.setattr(quotas, "solve_within", solve)
    result = plan_quotas(few, held_out=many.scenarios, what_if=False)
    assert len(rounds) == 2
    assert result.result.solution is not None
    assert "no quotas were found in time; the last plan stands" in result.result.log[-1]
