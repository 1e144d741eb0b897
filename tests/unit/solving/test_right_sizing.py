"""Right-sizing: what is answered when there is no plan or no time, and what its numbers mean."""

import math
from dataclasses import replace

import numpy as np
import pytest
from planning_worlds import A100, METHODS, without_cloud, world

from alloc.backends import SolverOptions, highs
from alloc.errors import InstanceError
from alloc.formulation import RawResult
from alloc.instances.planning import generate_planning
from alloc.instances.stored_planning import load_stored_planning
from alloc.models.right_sizing import SizingData
from alloc.models.right_sizing.arrays import extensive
from alloc.models.right_sizing.blocks import Blocks
from alloc.models.right_sizing.reading import read_plan
from alloc.problems.right_sizing import (
    HostOffer,
    JobClass,
    JobOption,
    Plan,
    PlanningProblem,
    Scenario,
    Site,
    Tightening,
)
from alloc.problems.right_sizing.headroom import KEPT_OUT
from alloc.result import Limits
from alloc.solving.outcome import Settings
from alloc.solving.right_sizing.block_values import BlockValues
from alloc.solving.right_sizing.blocks import block_data
from alloc.solving.right_sizing.candidates import Candidates
from alloc.solving.right_sizing.check import check_out_of_sample
from alloc.solving.right_sizing.method import right_size
from alloc.solving.right_sizing.relaxation import Relaxation
from alloc.solving.right_sizing.slopes import open_by_slopes
from alloc.solving.right_sizing.state import money_unit
from alloc.topology import HostType
from alloc.verification.right_sizing import verify_plan


def spares() -> PlanningProblem:
    """A small problem with a spare host in every pool."""
    return generate_planning("spares", num_host_types=4, num_sites=2, num_quarters=3,
                             num_classes=6, num_scenarios=3, failures=1, seed=5)  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_a_waived_scenario_lets_work_go_unserved(method):
    sites = (Site("north", rack_units=150.0), Site("cloud"))
    problem = without_cloud(sites=sites, epsilon=0.5)
    result = right_size(problem, method=method, limits=Limits(gap=1e-6))
    assert result.solution.waived == ("high",)
    assert result.solution.unserved
    critical = replace(problem.classes[0], critical=True)
    strict = problem.replace(classes=(critical, problem.classes[1]))
    assert right_size(strict, method=method).certificate.status == "infeasible"


@pytest.mark.parametrize("method", METHODS)
def test_marginal_values_are_what_the_relaxation_of_either_method_saves(method):
    """Each is held against the change of the relaxed optimum for a small change of the limit."""
    problem = world(budget=3.2e6, failures=0)
    result = right_size(problem, method=method, limits=Limits(gap=1e-9))
    values = {(v.kind, v.name): -v.value for v in result.sensitivities}

    def relaxed(changed: PlanningProblem) -> float:
        data = SizingData(changed)
        state = Relaxation(data, Settings(60.0), 1e-9)
        with state.values:
            answer = state.relax(None, 60, 1e-10, 60.0)
        return answer[0] * state.unit

    base = relaxed(problem)
    more_space = (replace(problem.sites[0], rack_units=60.6), problem.sites[1])
    assert values["rack_units", "north"] == pytest.approx(
        (base - relaxed(problem.replace(sites=more_space))) / 0.6, rel=1e-3, abs=1e-3
    )
    assert values["budget", ""] == pytest.approx(
        (base - relaxed(problem.replace(budget=3.2e6 + 100))) / 100, rel=1e-3, abs=1e-6
    )
    more_work = tuple(
        replace(s, arrivals={**s.arrivals, "train": tuple(1.01 * a for a in s.arrivals["train"])})
        for s in problem.scenarios
    )
    fixed = problem.replace(pool_gpus=SizingData(problem).pool_gpus)
    change = relaxed(fixed) - relaxed(fixed.replace(scenarios=more_work))
    assert values["demand", "train"] == pytest.approx(change, rel=1e-2)


@pytest.mark.parametrize("method", METHODS)
def test_a_host_that_the_plan_does_without_is_worth_what_it_saves(method):
    """Its dual value is one of many: a solver named 98,644 for what saves 46,727."""
    problem = load_stored_planning("planning-tiny")
    result = right_size(problem, method=method, limits=Limits(gap=1e-6))
    values = {v.name: -v.value for v in result.sensitivities if v.kind == "host"}
    data = SizingData(problem)
    unit = money_unit(data)
    form = extensive(data, blocks=Blocks(data), unit=unit)
    model = replace(form.model, integer=np.zeros(len(form.model.cost), dtype=bool))

    def relaxed(rows, step) -> float:
        lower, upper = model.row_lower.copy(), model.row_upper.copy()
        lower[rows] += step
        upper[rows] += step
        raw = highs.solve(replace(model, row_lower=lower, row_upper=upper), SolverOptions(20.0))
        return raw.objective * unit

    rows = np.arange(*form.first.rows["C1"].indices(len(model.row_lower)))
    base = relaxed(rows, 0.0)
    for k, group in enumerate(data.host_groups):
        own = rows.reshape(len(data.host_groups), -1)[k]
        saved = base - relaxed(own, 1.0)
        assert values[data.offer(group).name] == pytest.approx(saved, rel=1e-5, abs=0.1)


def test_out_of_sample_repeats_the_cost_in_sample_and_tells_what_does_not_fit():
    problem = world()
    result = right_size(problem, limits=Limits(gap=1e-6))
    same = check_out_of_sample(problem, result.solution, problem.scenarios)
    assert same.share == pytest.approx(1.0)
    assert same.mean_cost == pytest.approx(result.certificate.objective)
    closed = without_cloud(sites=(Site("north", rack_units=400.0), Site("cloud")))
    plan = right_size(closed, limits=Limits(gap=1e-6)).solution
    worse = (
        replace(closed.scenarios[1], name="as planned", probability=0.25),
        Scenario("worse", 0.25, {"train": (3.0, 4.4), "batch": (14.0, 18.0)}),
    )
    check = check_out_of_sample(closed, plan, worse)
    assert [s.holds for s in check.scenarios] == [True, False]
    assert check.share == pytest.approx(0.5)
    assert 0.2 < check.scenarios[1].unserved < 0.8
    assert math.isinf(check.scenarios[1].cost)
    with pytest.raises(InstanceError, match="no scenarios; give at least one"):
        check_out_of_sample(problem, result.solution, ())


@pytest.mark.long
def test_a_limit_keeps_the_plan_found_and_the_bound_proved(monkeypatch):
    """Stopped after its first plan, the search still returns it with an honest bound."""
    problem = generate_planning("large", num_host_types=12, num_sites=4, num_quarters=6,
                                num_classes=24, num_scenarios=8, failures=2, seed=2)  # fmt: skip
    seconds_left = Settings.seconds_left

    def sized_until(event: str):
        """Return the answer of a search whose time is up at the first line of progress of it."""
        said: list[str] = []
        monkeypatch.setattr(
            Settings,
            "seconds_left",
            lambda self: 0.0 if any(event in line for line in said) else seconds_left(self),
        )
        limits = Limits(seconds=600, gap=0.0)
        result = right_size(problem, method="decomposition", limits=limits, progress=said.append)
        assert any(event in line for line in said)
        assert result.certificate.limit == "time"
        assert verify_plan(problem, result.require_solution()) == []
        assert result.certificate.bound <= result.certificate.objective
        return result.certificate

    short, longer = sized_until("first: "), sized_until("relaxation: ")
    assert short.bound <= longer.bound <= short.objective * (1 + 1e-9)
    assert short.bound * (1 - 1e-9) <= longer.objective <= short.objective


@pytest.mark.parametrize("method", METHODS)
def test_a_plan_to_start_from_is_used(method):
    problem = world()
    plan = right_size(problem, limits=Limits(gap=1e-6)).solution
    again = right_size(problem, method=method, start=plan, limits=Limits(gap=1e-6))
    assert again.solution.orders == plan.orders
    odd = Plan((replace(plan.orders[0], offer="unknown"), replace(plan.orders[0], quarter=7)))
    assert (
        right_size(problem, method=method, start=odd, limits=Limits(gap=1e-6)).solution.orders
        == plan.orders
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_quarter_without_work_costs_nothing_to_run(method):
    """Its blocks give no cut that says more than 0, and the masters hold together without one."""
    calm, busy = world().scenarios
    problem = world(
        scenarios=(
            replace(calm, arrivals={"train": (0.0, 1.2), "batch": (0.0, 6.0)}),
            replace(busy, arrivals={"train": (0.0, 2.2), "batch": (7.0, 9.0)}),
        )
    )
    result = right_size(problem, method=method, limits=Limits(gap=1e-6))
    assert result.certificate.objective == pytest.approx(1_871_164.84)


def test_the_quarterly_master_starts_from_the_bound_of_the_relaxation():
    """Mixed with the duals of the relaxation, a row for each quarter says as much as all cuts."""
    state = Relaxation(SizingData(world(failures=1)), Settings(60.0), 1e-9)
    with state.values:
        bound, _ = state.relax(None, 60, 1e-10, 60.0)
        state.aggregate_cuts()
    model = state.quarters.model()
    relaxed = replace(model, integer=np.zeros(len(model.cost), dtype=bool))
    assert highs.solve(relaxed, SolverOptions(60.0)).objective == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("part", [0.0, 1e-300, 1e-9])
def test_rows_that_tie_jobs_to_open_pools_leave_out_who_hardly_comes(part):
    rare = spares().classes[0].name
    scenarios = tuple(
        replace(s, arrivals={**s.arrivals, rare: tuple(part * a for a in s.arrivals[rare])})
        for s in spares().scenarios
    )
    state = Relaxation(SizingData(spares().replace(scenarios=scenarios)), Settings(60.0), 1e-7)
    with state.values:
        state.keep_optimum(*state.relax(None, 60, 1e-9, 60.0))
        before = state.bound
        state.strengthen(1e-6, 60.0)
    assert before < state.bound < math.inf
    assert np.isfinite(state.block_data.matrix.data).all()
    assert np.abs(state.block_data.matrix.data).max() < 1e6


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_rows_that_tie_jobs_to_open_pools_raise_the_bound_and_keep_the_optimum(seed):
    """They hold in an optimum whatever is rented, put off or waived."""
    problem = generate_planning("open", num_host_types=3, num_sites=2, num_quarters=2,
                                num_classes=5, num_scenarios=3, failures=1, seed=seed)  # fmt: skip
    problem = problem.replace(epsilon=0.4 if seed % 2 else 0.0)
    best = right_size(problem, method="extensive", limits=Limits(gap=1e-6))
    state = Relaxation(SizingData(problem), Settings(60.0), 1e-7)
    with state.values:
        state.keep_optimum(*state.relax(None, 60, 1e-9, 60.0))
        before, rows = state.bound, state.block_data.matrix.shape[0]
        state.strengthen(1e-8, 60.0)
    assert state.block_data.matrix.shape[0] > rows
    assert before < state.bound <= best.certificate.objective / state.unit * (1 + 1e-7)
    found = right_size(problem, method="decomposition", limits=Limits(gap=1e-5))
    assert found.certificate.bound <= best.certificate.objective * (1 + 1e-7)
    assert found.certificate.objective == pytest.approx(best.certificate.objective, rel=2e-5)


def test_slope_scaling_begins_no_round_after_its_time(monkeypatch):
    state = Relaxation(SizingData(spares()), Settings(60.0), 1e-7)
    with state.values:
        state.keep_optimum(*state.relax(None, 60, 1e-9, 60.0))
    solve = state.master.solve
    solves: list[object] = []
    monkeypatch.setattr(state.master, "solve", lambda: solves.append(None) or solve())
    limits = Candidates(state).limits
    assert open_by_slopes(state.master, state.first, limits, None, 0.0) is not None
    assert len(solves) == 2
    assert open_by_slopes(state.master, state.first, limits, None) is not None
    assert len(solves) > 4


@pytest.mark.long
def test_tightened_limits_keep_every_better_plan():
    """What an incumbent says of the size of pools holds for the optimum, and takes one look."""
    problem = spares()
    best = right_size(problem, method="extensive", limits=Limits(gap=1e-4))
    state = Relaxation(SizingData(problem), Settings(60.0), 1e-9)
    candidates = Candidates(state)
    with state.values:
        began = state.relax(None, 60, 1e-10, 60.0)
        state.keep_optimum(*began)
        candidates.try_candidate(state.completing.round_up(began[1]), "first")
        before = candidates.limits
        candidates.tighten()
        after = candidates.limits
        candidates.tighten()
    assert state.incumbent.cost * state.unit >= best.certificate.objective
    assert candidates.limits is after
    assert (after <= before).all()
    assert (after < before).any()
    optimum = state.completing.complete(state.completing.from_plan(best.solution))
    assert (optimum[state.first.counted[state.first.open >= 0]] <= after).all()


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_the_search_ends_when_the_gap_is_small_enough(workers):
    """By plans that one dive after the other finds, a proof, and neighbourhoods beside it."""
    problem = spares()
    result = right_size(
        problem, method="decomposition", limits=Limits(seconds=60, gap=0.01, workers=workers)
    )
    *earlier, last = [line for line in result.log if "gap" in line]
    assert float(last.split()[-1].rstrip("%")) <= 1.0
    assert all(float(line.split()[-1].rstrip("%")) >= 1.0 for line in earlier)
    assert result.certificate.gap <= 0.01
    assert result.certificate.limit is None
    exact = right_size(problem, method="extensive", limits=Limits(seconds=60, gap=1e-4))
    assert result.certificate.bound <= exact.certificate.objective * (1 + 1e-9)
    assert result.certificate.objective >= exact.certificate.bound * (1 - 1e-9)


@pytest.mark.long
def test_several_processes_value_blocks_as_one_does():
    data = SizingData(world())
    state = Relaxation(data, Settings(10.0), 1e-3)
    point = state.completing.complete(state.first.upper)
    linked, waived = state.setting.points(point)
    values = []
    for workers in (1, 2):
        with BlockValues(block_data(data, state.blocks, state.unit, False), workers) as blocks:
            found = blocks.solve(state.tasks, linked, waived)
        values.append([found[task].value for task in state.tasks])
    assert values[0] == pytest.approx(values[1])


def test_tightening_makes_the_plan_dearer():
    problem = world()
    loose = right_size(problem, limits=Limits(gap=1e-6)).certificate.objective
    tight = problem.replace(
        tightening=(
            Tightening("train", "a100", "north", 1.5),
            Tightening("train", "a100", "cloud", 1.5),
        )
    )
    assert right_size(tight, limits=Limits(gap=1e-6)).certificate.objective > 1.1 * loose


@pytest.mark.parametrize("method", ["extensive", "decomposition"])
def test_a_class_that_is_kept_out_sends_no_job(method):
    """Not even the few for which the hosts that are there anyway have room."""
    problem = world()
    away = problem.replace(tightening=(Tightening("train", "a100", "north", KEPT_OUT),))
    result = right_size(away, limits=Limits(gap=1e-6), method=method)
    plan = result.solution
    assert any("1 combination of class and pool the class is kept" in a for a in result.assumptions)
    shares = [share for share in plan.shares if share.job_class == "train"]
    assert shares
    assert all(share.site != "north" for share in shares)


def test_spares_cost_more_and_assumptions_say_so():
    problem = world()
    none = right_size(problem, limits=Limits(gap=1e-6))
    one = right_size(problem.replace(failures=1), limits=Limits(gap=1e-6))
    assert one.certificate.objective > none.certificate.objective
    assert any("keeps 1 of them spare" in line for line in one.assumptions)
    assert any("No hosts are kept spare" in line for line in none.assumptions)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "magic"}, 'unknown method "magic"'),
        ({"method": "extensiv"}, 'did you mean "extensive"'),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options, sentence):
    with pytest.raises(InstanceError, match=sentence):
        right_size(world(), **options)


def test_all_terms_have_their_assumption():
    problem = generate_planning("words", num_classes=3, budget_share=3.0, epsilon=0.4, seed=3)
    tight = problem.replace(
        tightening=(
            Tightening(problem.classes[0].name, "a100", "room-1", 1.5),
            Tightening(problem.classes[1].name, "a100", "room-1", margin=2.5),
        ),
        carbon_caps_kg=(1e9,) * problem.num_quarters,
    )
    text = " ".join(right_size(tight, limits=Limits(gap=0.01)).assumptions)
    for words in ("Erlang", "Reservations are paid", "may be waived", "Budgets count",
                  "Carbon caps hold", "1.50 times the formula's", "in fractions on average",
                  "margin of up to 2.5 GPUs",
                  "depreciate linearly"):  # fmt: skip
        assert words in text


def test_a_little_of_all_may_be_much_of_one_class():
    """A host too few for a millionth of the demand is too few, for the checker looks at each class.

    The slack that hides it costs less than the host.
    """
    few = HostType("h100x8", 8, "h100")
    problem = PlanningProblem(
        "big and small",
        "EUR",
        1,
        offers=(
            HostOffer("a100", A100, "purchase", 100_000.0, residual_fraction=0.0),
            HostOffer("h100", few, "purchase", 100_000.0, residual_fraction=0.0),
        ),
        sites=(Site("north"),),
        classes=(
            JobClass("big", (JobOption("a100", 1, 1.0),)),
            JobClass("small", (JobOption("h100", 1, 1.0),)),
        ),
        scenarios=(Scenario("1", 1.0, {"big": (30_000.0,), "small": (7.6,)}),),
    )
    fits = right_size(problem, limits=Limits(gap=1e-6), method="decomposition").solution
    assert {order.offer: order.count for order in fits.orders}["h100"] == 1
    over = Scenario("1", 1.0, {"big": (30_000.0,), "small": (7.6 * 1.001,)})
    found = right_size(
        problem.replace(scenarios=(over,)), limits=Limits(gap=1e-6), method="decomposition"
    )
    assert {order.offer: order.count for order in found.solution.orders}["h100"] == 2


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("again", ["infeasible", "no_solution"])
def test_a_refusal_of_the_proof_is_none_beside_a_plan_and_else_only_twice(
    monkeypatch, known, again
):
    """It made the incumbent's cost the bound, though the incumbent itself keeps every row."""
    state = Relaxation(SizingData(spares()), Settings(60.0), 1e-9)
    candidates = Candidates(state)
    refused = RawResult("infeasible", None, None, math.inf, None, "Infeasible")
    answers = [refused, replace(refused, status=again)]
    with state.values:
        bound, point = state.relax(None, 60, 1e-10, 60.0)
        state.keep_optimum(bound, point)
        before = state.bound
        assert bound * (1 - 1e-11) < before <= bound
        if known:
            candidates.try_candidate(state.completing.round_up(point), "first")
            assert state.cost > state.bound
        monkeypatch.setattr(state.values, "solve_programs", lambda programs: [answers.pop(0)])
        assert candidates.prove(1.0) is False
    proved = not known and again == "infeasible"
    assert state.bound == (math.inf if proved else before)


def test_what_a_solver_leaves_unserved_by_rounding_is_served() -> None:
    """Only waived scenarios may say that jobs are unserved, be it a billionth of them."""
    problem = without_cloud(sites=(Site("north"), Site("cloud")), epsilon=0.5)
    data = SizingData(problem)
    form = extensive(data)
    raw = highs.solve(form.model, SolverOptions(gap=1e-6))
    first, running = form.split(raw.values)
    running = running.copy()
    short = form.blocks.columns.short
    running[..., short[short >= 0]] += 5e-8  # half of the solver's tolerance
    plan = read_plan(data, form.first, form.blocks, first, running)
    assert {part.scenario for part in plan.unserved} <= set(plan.waived)
    assert verify_plan(problem, plan) == []
