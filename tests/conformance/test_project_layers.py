"""Layers of partial plans: what they prove held against enumeration and CP-SAT."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import alloc
from alloc.instances.projects import generate_dags
from alloc.models.project.data import ProjectData
from alloc.models.project.prices import PricesOfGraph
from alloc.models.project.whole_times import WholeTimes
from alloc.problems.project import (
    Activity,
    ActivityRun,
    Mode,
    ProjectJob,
    ProjectPlan,
    ProjectProblem,
    Resource,
)
from alloc.solving.outcome import Settings
from alloc.solving.project import layers as layers_module
from alloc.solving.project import partial_plans, rest_bounds
from alloc.solving.project.layers import Layers
from alloc.solving.project.method import _Search, schedule_project
from alloc.solving.project.partial_plans import PartialPlans, Steps
from alloc.solving.project.raised_prices import raised_price
from alloc.solving.project.rest_bounds import PathsAndWork, PricedRest, RestBound
from alloc.solving.project.rules import plans_by_rule, quick_modes
from alloc.solving.project.time_prices import Deadline, TimePrice
from benchmarks.tiny.project import PROJECT

OBJECTIVES = ("makespan", "weighted_jct", "weighted_tardiness")
WIDE = 10**6


def prices_of_time(plain: PathsAndWork, seed: int) -> list[TimePrice]:
    """Return prices drawn for one deadline, and the others raised for shorter ones."""
    rng, steps, found = np.random.default_rng(seed), plain.steps, []
    edges = np.unique(np.r_[0, rng.integers(1, plain.deadline.target, 6)])
    drawn = rng.exponential(1.0, (len(steps.data.renewable), len(edges)))
    found.append(TimePrice(plain.deadline, edges, drawn))
    begin, target = steps.begin(), plain.deadline.target
    while target := target // 2:
        shorter = Deadline(steps, plain.deadline.parent, plain.tails, target)
        price = raised_price(shorter, begin, plain._starts(begin)[:, 0])
        found += [] if price is None else [price]
    return found


def rests(steps: Steps, seed: int, worth: float) -> list[RestBound]:
    """Return bounds: of paths and work, or of good, bad and no prices of time."""
    if steps.objective == "makespan":
        plain = PathsAndWork(steps, worth)
        return [plain, PathsAndWork(steps, worth, prices_of_time(plain, seed))]
    rng, data = np.random.default_rng(seed), steps.data
    edges = np.linspace(0.0, data.horizon_s * rng.uniform(0.3, 1.0), 6)
    graph = PricesOfGraph(data, steps.objective, edges, 3, 2.0, worth)
    drawn = rng.exponential(max(worth, 1.0) / 15, graph.num_prices)
    return [
        PricedRest(steps, graph, prices)
        for prices in (np.zeros(graph.num_prices), graph.start(), graph.start() + drawn)
    ]


def asked(seed: int, objective: str):
    """Return a tiny project with its steps, its optimum, and a value above that; or None."""
    problem, _ = PROJECT.problem(seed)
    truth = PROJECT.truth((problem, objective)).values
    if truth is None:
        return None
    data = ProjectData(problem)
    steps = Steps(data, objective, WholeTimes(data))
    worst = sum(max(times) for times in data.durations) + max(data.release)
    value = 2 * worst * (1 + sum(job.weight for job in problem.jobs))
    return (problem, steps, truth[0], value) if steps.fit else None


def cases(objective):
    """Yield tiny problems, each with every bound: what it is, its steps, truth, value and bound."""
    for seed in range(40):
        found = asked(seed, objective)
        if found is not None:
            problem, steps, truth, value = found
            for bound in rests(steps, seed, value):
                yield problem, steps, truth, value, bound


@pytest.mark.long
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_all_layers_prove_what_enumeration_finds(objective):
    compared = 0
    for problem, steps, truth, value, bound in cases(objective):
        swept = Layers(steps, 1e-6).sweep(WIDE, value, bound)
        assert swept.plan is not None
        assert alloc.verify(problem, swept.plan) == []
        assert swept.plan.value(problem, objective) == pytest.approx(truth, rel=1e-6, abs=1e-7)
        assert swept.bound == pytest.approx(truth, rel=1e-6, abs=1e-6)
        compared += 1
    assert compared > 20


@pytest.mark.long
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("width", [1, 4])
def test_layers_that_leave_plans_out_prove_no_more_than_the_optimum(objective, width):
    short = 0
    for problem, steps, truth, value, bound in cases(objective):
        swept = Layers(steps, 1e-6).sweep(width, value, bound)
        assert swept.bound <= truth * (1 + 1e-9) + 1e-9
        if swept.plan is not None:
            best = swept.plan.value(problem, objective)
            assert best >= truth * (1 - 1e-9) - 1e-9
            short += swept.bound < best * (1 - 1e-6) - 1e-9
    assert short > 0


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(6))
def test_nothing_better_is_found_below_the_optimum(objective, seed):
    found = asked(seed, objective)
    if found is None:
        problem = generate_dags(num_jobs=2, num_gpus=3, seed=seed)
        best = alloc.solve(problem, objective=objective, backend="cpsat")
        data = ProjectData(problem)
        steps, truth = Steps(data, objective, WholeTimes(data)), best.objective
    else:
        _, steps, truth, _ = found
    for bound in rests(steps, seed, max(truth, 1.0)):
        swept = Layers(steps, 1e-6).sweep(WIDE, truth, bound)
        assert swept.plan is None
        assert swept.bound == pytest.approx(truth, rel=1e-6, abs=1e-6)


def linked(seed: int, later_s: float) -> ProjectProblem | None:
    """Return a tiny project whose jobs wait for one another, all so much later; None: of one."""
    problem, _ = PROJECT.problem(seed)
    if len(problem.jobs) == 1:
        return None
    rng = np.random.default_rng(seed)
    jobs = tuple(
        replace(
            job,
            release_s=job.release_s + later_s,
            due_date_s=None if job.due_date_s is None else job.due_date_s + later_s,
        )
        for job in problem.jobs
    )
    activities = tuple(
        replace(
            a,
            predecessors=(
                *a.predecessors,
                *(b.id for b in problem.activities if b.job < a.job and rng.random() < 0.4),
            ),
        )
        for a in problem.activities
    )
    return replace(problem, activities=activities, jobs=jobs)


@pytest.mark.long
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("later_s", [0.0, 1e9])
def test_jobs_that_wait_for_others_and_clock_times_are_proved_from_any_value(objective, later_s):
    """A bound that is a little too high shows only where the value is just above the optimum."""
    compared = 0
    for seed in range(40):
        problem = linked(seed, later_s)
        truth = None if problem is None else PROJECT.truth((problem, objective)).values
        if problem is None or truth is None or truth[0] <= 0:
            continue
        data = ProjectData(problem)
        steps = Steps(data, objective, WholeTimes(data))
        if not steps.fit:
            continue
        layers = Layers(steps, 0.0)
        for value in (truth[0] + layers.grain, truth[0] * 1.03, truth[0] * 1.3):
            if layers.grain:
                value = truth[0] + layers.grain * round((value - truth[0]) / layers.grain)
            for bound in rests(steps, seed, value):
                swept = layers.sweep(WIDE, value, bound)
                assert swept.bound <= truth[0] * (1 + 1e-9) + later_s * 1e-15
                compared += 1
    assert compared > 30


@pytest.mark.parametrize("objective", OBJECTIVES[1:])
def test_prices_bound_jobs_that_wait_for_others(objective):
    """What follows in another job does not make a job longer."""
    compared = 0
    for seed in range(40):
        problem = linked(seed, 0.0)
        truth = None if problem is None else PROJECT.truth((problem, objective)).values
        if problem is None or truth is None:
            continue
        data = ProjectData(problem)
        worth = max(1.2 * truth[0], 1.0)
        graph = PricesOfGraph(data, objective, np.linspace(0.0, data.horizon_s, 6), 3, 1.0, worth)
        assert graph.bound(graph.start()) <= truth[0] * (1 + 1e-9) + 1e-9
        compared += 1
    assert compared > 15


@pytest.mark.parametrize("value", [101.0, 110.0, 200.0])
def test_work_with_a_tail_may_end_before_some_units_are_free(value):
    """The unit that the long activity holds does none of it."""
    activities = (
        Activity("long", (Mode(100.0, {"gpu": 1}),), (), "a"),
        Activity("short", (Mode(1.0, {"gpu": 1}),), (), "b"),
        Activity("tail", (Mode(60.0, {"gpu": 1}),), ("short",), "b"),
    )
    resources = (Resource("gpu", 2), Resource("none", 0))
    jobs = (ProjectJob("a"), ProjectJob("b", 5.0))
    data = ProjectData(ProjectProblem("p", activities, resources, jobs))
    steps = Steps(data, "makespan", WholeTimes(data))
    swept = Layers(steps, 1e-6).sweep(WIDE, value, PathsAndWork(steps, value))
    assert swept.plan is not None
    assert swept.bound == swept.plan.value(data.problem, "makespan") == 100.0


@pytest.mark.long
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(5))
def test_layers_and_cpsat_agree_on_jobs_of_stages(objective, seed):
    problem = generate_dags(num_jobs=4, num_gpus=4, seed=seed)
    data = ProjectData(problem)
    steps = Steps(data, objective, WholeTimes(data))
    start = next(plans_by_rule(data, "release", quick_modes(data))).value(problem, objective)
    expected = alloc.solve(problem, backend="cpsat", objective=objective)
    assert expected.status == "optimal"
    for bound in rests(steps, seed, start * 1.01 + 1.0)[-1:]:
        swept = Layers(steps, 1e-6).sweep(WIDE, start * 1.01 + 1.0, bound)
        assert swept.plan is not None
        assert swept.plan.value(problem, objective) == pytest.approx(expected.objective, rel=1e-6)
        assert swept.bound == pytest.approx(expected.objective, rel=1e-6, abs=1e-6)


@pytest.mark.long
def test_ten_jobs_on_ten_gpus_are_proved_by_layers_alone(monkeypatch):
    """CP-SAT left this one 11 % open after a minute."""
    problem = generate_dags(num_jobs=10, num_gpus=10, seed=2)

    def unasked(*args, **kwargs):
        raise AssertionError("CP-SAT is not needed")

    monkeypatch.setattr(_Search, "_ask_cpsat", unasked)
    outcome = schedule_project(problem, "weighted_jct", Settings(600.0), None, lambda line: None)
    assert outcome.solution is not None
    assert alloc.verify(problem, outcome.solution) == []
    assert outcome.solution.value(problem, "weighted_jct") == pytest.approx(4652.7)
    assert outcome.bound == pytest.approx(4652.7)
    assert outcome.bound_proof == "recomputed"


@pytest.mark.long
@pytest.mark.parametrize("objective", ["makespan", "weighted_jct"])
def test_ctrl_c_in_a_pass_keeps_what_the_one_before_found(monkeypatch, objective):
    sweep = Layers.sweep
    values: list[float] = []

    def pressed(self, width, value, least):
        if values:
            raise KeyboardInterrupt
        swept = sweep(self, width, value, least)
        assert swept.plan is not None
        values.append(swept.plan.value(self.steps.data.problem, objective))
        return swept

    monkeypatch.setattr(Layers, "sweep", pressed)
    monkeypatch.setattr(_Search, "_ask_cpsat", lambda *args, **kwargs: "time")
    problem = generate_dags(num_jobs=10, num_gpus=10, seed=3)
    outcome = schedule_project(problem, objective, Settings(600.0), None, lambda line: None)
    assert outcome.limit == "interrupt"
    assert outcome.solution is not None
    assert outcome.solution.value(problem, objective) == pytest.approx(values[0])
    assert outcome.bound <= values[0]


@pytest.mark.parametrize("one_mode", [True, False])
def test_a_makespan_that_cpsat_leaves_open_is_proved_by_layers(monkeypatch, one_mode):
    problem = generate_dags(num_jobs=5, num_gpus=4, seed=5)
    if one_mode:
        activities = tuple(replace(a, modes=a.modes[1:2]) for a in problem.activities)
        problem = replace(problem, activities=activities)
    best = alloc.solve(problem, objective="makespan", backend="cpsat")
    assert best.status == "optimal"
    monkeypatch.setattr(_Search, "_ask_cpsat", lambda *args, **kwargs: "time")
    # Longest paths alone leave it open.
    monkeypatch.setattr("alloc.models.project.data.ProjectData._work_bound", lambda self: 0.0)
    outcome = schedule_project(problem, "makespan", Settings(600.0), None, lambda line: None)
    assert outcome.solution is not None
    assert alloc.verify(problem, outcome.solution) == []
    assert outcome.solution.value(problem, "makespan") == pytest.approx(best.objective)
    assert outcome.bound == pytest.approx(best.objective)
    assert outcome.bound_proof == "recomputed"


def test_a_pass_that_finds_nothing_better_is_not_made_again(monkeypatch):
    """Its plan may be better in whole times alone: the same pass would find it for ever."""
    problem = generate_dags(num_jobs=4, num_gpus=3, seed=2)
    widths = list[int]()

    def same(self, width, value, least):
        widths.append(width)
        return layers_module.Swept(search.plan, search.bound)

    monkeypatch.setattr(Layers, "sweep", same)
    search = _Search(ProjectData(problem), "makespan", Settings(20.0), lambda line: None)
    for plan in plans_by_rule(search.data, "critical-path", quick_modes(search.data)):
        search.take(plan)
    search.bound = search.value / 2
    search._sweep(PathsAndWork, to_the_end=True)
    # Of the widest there is a pass below the value itself.
    assert len(widths) == len(set(widths)) + 1


def test_a_schedule_between_whole_times_is_put_on_them_before_its_value_counts():
    """Its value is no whole multiple: without that a better one would count as none."""
    jobs = tuple(ProjectJob(f"j{k}", 0.0, 1.0 + k) for k in range(3))
    modes = (Mode(2.0, {"gpu": 1}), Mode(1.0, {"gpu": 2}))
    problem = ProjectProblem(
        "late",
        tuple(Activity(f"a{k}", modes, (), f"j{k}") for k in range(3)),
        (Resource("gpu", 2),),
        jobs,
    )
    best = alloc.solve(problem, objective="weighted_jct")
    data = ProjectData(problem)
    plan = next(plans_by_rule(data, "release", quick_modes(data)))
    late = ProjectPlan(tuple(replace(run, start_s=run.start_s + 0.25) for run in plan.runs))
    again = alloc.solve(problem, objective="weighted_jct", warm_start=late)
    assert again.status == best.status == "optimal"
    assert again.objective == pytest.approx(best.objective)


def test_a_start_in_any_order_and_in_a_mode_that_was_left_out_is_put_in_again():
    modes = (Mode(2.0, {"gpu": 1}), Mode(1.0, {"gpu": 2}), Mode(3.0, {"gpu": 1}))
    activities = tuple(Activity(f"a{k}", modes[k:] + modes[:k]) for k in range(3))
    problem = ProjectProblem("p", activities, (Resource("gpu", 2),))
    plan = ProjectPlan(
        (ActivityRun("a2", 0, 3.0), ActivityRun("a0", 2, 0.0), ActivityRun("a1", 1, 0.0))
    )
    assert alloc.verify(problem, plan) == []
    data = ProjectData(problem)
    again = data.put_in_again(plan)
    assert [run.activity for run in again.runs] == ["a0", "a1", "a2"]
    assert [run.mode for run in again.runs] == [0, 2, 1]
    assert alloc.verify(problem, again) == []
    assert again.value(problem, "makespan") == 4.0
    search = _Search(data, "makespan", Settings(60.0), lambda line: None)
    search.take(plan)
    search._sweep(PathsAndWork)
    assert search.value == search.bound == 3.0


def test_an_activity_that_takes_no_unit_is_left_to_cpsat():
    activities = (Activity("a", (Mode(1.0, {}),)), Activity("b", (Mode(1.0, {"gpu": 1}),), ("a",)))
    problem = ProjectProblem("p", activities, (Resource("gpu", 1),))
    data = ProjectData(problem)
    assert not Steps(data, "weighted_jct", WholeTimes(data)).fit
    assert alloc.solve(problem, objective="weighted_jct").objective == 2.0


def test_of_two_plans_with_the_same_activities_the_beaten_one_goes():
    activities = tuple(
        Activity(f"a{k}", (Mode(1.0 + k, {"gpu": 1}), Mode(4.0, {"gpu": 2}))) for k in range(3)
    )
    data = ProjectData(ProjectProblem("p", activities, (Resource("gpu", 2),)))
    steps = Steps(data, "makespan", WholeTimes(data))
    plans, beaten = steps.begin(), 0
    for _ in range(3):
        plans = steps.following(plans)
        kept = steps.not_beaten(plans)
        assert 0 < len(kept) <= len(plans)
        for row in range(len(plans)):
            same = (kept.started == plans.started[row]).all(axis=1)
            free = np.maximum(kept.free, kept.now[:, None])
            sooner = (free <= np.maximum(plans.free[row], plans.now[row])).all(axis=1)
            assert (same & sooner).any()
        beaten += len(plans) - len(kept)
        plans = kept
    assert beaten > 0
    assert plans.cost.min() == 3.0


@pytest.mark.parametrize(("columns", "values"), [(2, 40), (4, 6), (6, 3)])
def test_what_no_other_plan_beats_stays(monkeypatch, columns, values):
    """As two loops over all pairs say, whatever fits a block."""
    monkeypatch.setattr(partial_plans, "_BLOCK", 7)
    monkeypatch.setattr(partial_plans, "_AT_ONCE", 50)
    rng, beaten = np.random.default_rng(columns), 0
    for count in (1, 2, 7, 8, 300):
        told = rng.integers(0, values, (columns, count))
        cost = rng.integers(1, values, count).astype(float)
        order = np.lexsort((cost, told.sum(axis=0)))
        told, cost = told[:, order], cost[order]
        alive = partial_plans._unbeaten(told, cost)
        for k in range(count):
            rivals = (told[:, :k] <= told[:, [k]]).all(axis=0) & (cost[:k] <= cost[k])
            assert alive[k] == (not rivals.any())
        beaten += count - int(alive.sum())
    assert beaten > 100


def test_a_layer_raises_no_more_prices_than_are_kept(monkeypatch):
    """Tables of prices fill the memory as plans do."""
    data = ProjectData(generate_dags(num_jobs=4, num_gpus=3, seed=2))
    steps = Steps(data, "makespan", WholeTimes(data))
    rest, asked_for = PathsAndWork(steps, 0.9 * data.horizon_s), list[int]()
    monkeypatch.setattr(rest_bounds, "_MANY", 1)
    monkeypatch.setattr(rest_bounds, "_WORTH", 0)

    def none(deadline, plan, starts):
        asked_for.append(len(plan))

    monkeypatch.setattr(rest_bounds, "raised_price", none)
    plans = rest.sharpen(steps.following(steps.begin()))
    assert len(plans) > 0
    assert len(asked_for) == rest.most


def test_a_pass_holds_no_more_plans_than_its_memory(monkeypatch):
    data = ProjectData(generate_dags(seed=1))
    steps = Steps(data, "makespan", WholeTimes(data))
    monkeypatch.setattr(layers_module, "_BYTES", 2**20)
    layers = Layers(steps, 1e-6)
    widest, held = layers.widths()[-1], []
    together = PartialPlans.together

    def counted(parts):
        found = together(parts)
        held.append(len(found))
        return found

    monkeypatch.setattr(PartialPlans, "together", staticmethod(counted))
    layers.sweep(widest, data.horizon_s, PathsAndWork(steps, data.horizon_s))
    size = sum(
        array.nbytes for array in vars(together([steps.following(steps.begin())])[:1]).values()
    )
    assert max(held) * size < 4 * 2**20
