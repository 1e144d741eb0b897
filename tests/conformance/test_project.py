"""F9, projects: list schedules and bounds held against the checker, the checker against faults."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import numpy as np
import pytest

import alloc
from alloc.backends import SolverOptions, cpsat
from alloc.errors import InstanceError
from alloc.formulation import CpSatModel
from alloc.instances.projects import generate_dags
from alloc.models.project.cpsat_model import build_cpsat
from alloc.models.project.data import ProjectData
from alloc.models.project.prices import PricesOfGraph
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
from alloc.solving.project import method
from alloc.solving.project.method import _Search, schedule_project
from alloc.solving.project.rules import RULES, plans_by_rule, quick_modes, schedule_by_rule
from benchmarks.tiny.families import FAMILIES
from benchmarks.tiny.project import PROJECT

OBJECTIVES = ("makespan", "weighted_jct", "weighted_tardiness")
GPU = Resource("gpu", 2)
SCALED = FAMILIES["project-scaled"]


def one(seconds: float, gpus: int = 1, **uses: int) -> tuple[Mode, ...]:
    return (Mode(seconds, {"gpu": gpus, **uses}),)


@pytest.mark.parametrize("seed", range(30))
def test_every_rule_makes_schedules_that_keep_all_rules_and_no_bound_is_above_one(seed):
    problem, _ = PROJECT.problem(seed, large=True)
    data = ProjectData(problem)
    for rule in RULES:
        for plan in plans_by_rule(data, rule, quick_modes(data)):
            assert alloc.verify(problem, plan) == []
            for objective in OBJECTIVES:
                bound, value = data.bound(objective), plan.value(problem, objective)
                assert bound <= value * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_putting_a_schedule_in_again_by_its_starts_delays_nothing(seed):
    problem, _ = PROJECT.problem(seed, large=True)
    data, rng = ProjectData(problem), Random(seed)
    modes = [rng.randrange(len(ways)) for ways in data.modes]
    order = data.by_priority([rng.random() for _ in modes])
    # As late as the order lets it: every start moved by a delay that only grows.
    starts, delay = data.schedule(modes, order), 0.0
    late = list(starts)
    for k in sorted(range(len(starts)), key=starts.__getitem__):
        delay += rng.random()
        late[k] += delay
    again = data.schedule(modes, data.order_of(late))
    assert all(a <= b for a, b in zip(again, late, strict=True))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_more_capacity_and_fewer_precedences_never_make_the_optimum_worse(seed, objective):
    problem, _ = PROJECT.problem(seed)
    best = alloc.solve(problem, objective=objective)
    if best.solution is None:
        return
    more = tuple(Resource(r.name, r.capacity + 1, r.is_renewable) for r in problem.resources)
    free = tuple(Activity(a.id, a.modes, (), a.job) for a in problem.activities)
    for easier in (problem.replace(resources=more), problem.replace(activities=free)):
        assert alloc.solve(easier, objective=objective).certificate.bound <= best.objective + 1e-9


def test_a_chain_and_a_crowd_are_proved_without_a_solver():
    """The longest path, and the work on a resource: both bounds are numpy's."""
    chain = ProjectProblem("chain", (Activity("a", one(3)), Activity("b", one(4), ("a",))), (GPU,))
    crowd = ProjectProblem("crowd", tuple(Activity(f"a{k}", one(2)) for k in range(6)), (GPU,))
    for problem, value in ((chain, 7.0), (crowd, 6.0)):
        result = alloc.solve(problem)
        assert (result.status, result.objective) == ("optimal", value)
        assert result.certificate.bound_proof == "recomputed"


def test_objectives_count_from_release_and_due_date():
    jobs = (ProjectJob("x", 10.0, 2.0, 13.0), ProjectJob("y", 0.0, 3.0))
    activities = (Activity("a", one(5), (), "x"), Activity("b", one(4), (), "y"))
    problem = ProjectProblem("two", activities, (GPU,), jobs)
    plan = ProjectPlan((ActivityRun("a", 0, 10.0), ActivityRun("b", 0, 1.0)))
    assert [plan.value(problem, o) for o in OBJECTIVES] == [15.0, 2 * 5 + 3 * 5, 2 * 2.0]


def test_out_of_time_a_schedule_that_was_given_is_kept():
    problem = generate_dags(seed=3)
    data = ProjectData(problem)
    start = next(plans_by_rule(data, "release", quick_modes(data)))
    none = Settings(time_limit_s=0.0)
    outcome = schedule_project(problem, "makespan", none, start, lambda line: None)
    assert outcome.limit == "time"
    assert outcome.solution == start
    assert 0 < outcome.bound <= start.value(problem, "makespan")


@pytest.mark.parametrize("amounts", [(1, 4 * 10**9), (10**6, 1), (10**6, 4 * 10**9)])
@pytest.mark.parametrize("way", ["auto", "cpsat", "pyomo"])
def test_amounts_in_the_billions_are_no_overflow(way, amounts):
    """Capacity times a makespan in small units was beyond 64 bits."""
    use, room = amounts
    activities = tuple(
        Activity(f"a{k}", (Mode(seconds, {"bytes": use}),))
        for k, seconds in enumerate((1.1245424234893, 7.7793795073801, 3.0836692852315))
    )
    problem = ProjectProblem("large", activities, (Resource("bytes", 2 * use + room),))
    result = alloc.solve(problem, backend=way)
    # Two at a time: the short ones follow each other while the long one runs.
    assert result.status == "optimal"
    assert result.objective == pytest.approx(7.7793795073801)


@pytest.mark.parametrize(
    ("seconds", "unit"), [((120.0, 300.0), 60.0), ((1.5, 4.0), 0.5), ((7.0, 14.0, 15.0), 1.0)]
)
def test_times_are_counted_in_what_they_are_whole_in(seconds, unit):
    """Of minutes a bound above 7 minutes is one of 8."""
    activities = tuple(Activity(f"a{k}", one(s)) for k, s in enumerate(seconds))
    problem = ProjectProblem("whole", activities, (GPU,))
    model = build_cpsat(problem).model
    assert isinstance(model, CpSatModel)
    assert model.scale == pytest.approx(1 / unit)
    assert alloc.solve(problem, backend="cpsat").objective == alloc.solve(problem).objective


@pytest.mark.parametrize("seed", [7300064, 7300077, 7300095, 7300142, 7300317])
def test_times_that_are_whole_in_nothing_are_few_enough_units_for_the_solver(seed):
    """With four times as many CP-SAT 9.15 is wrong about each of these."""
    asked = SCALED.problem(seed)
    problem, objective = asked
    result = alloc.solve(problem, backend="cpsat", objective=objective)
    assert result.status == "optimal"
    assert result.objective == pytest.approx(SCALED.truth(asked).values[0], rel=1e-6)


@pytest.mark.parametrize(
    ("one_mode", "linear", "by_bound"),
    [
        (True, False, False),
        (True, False, True),
        (False, True, False),
        (False, False, False),
        (False, False, True),
    ],
)
def test_each_search_of_a_makespan_alone_proves_the_optimum(
    monkeypatch, one_mode, linear, by_bound
):
    """Easy projects never reach the later ones: here the others find nothing."""
    asked, ask = [], _Search._ask_cpsat

    def one_of_them(self, windows, seconds, **ways):
        ways = {"linear": True, "by_bound": False, **ways}
        if ways != {"linear": linear, "by_bound": by_bound}:
            return "time"
        asked.append(ways)
        return ask(self, windows, seconds, **ways)

    monkeypatch.setattr(_Search, "_ask_cpsat", one_of_them)
    monkeypatch.setattr(_Search, "_sweep", lambda *args, **kwargs: False)
    monkeypatch.setattr(method, "_LAST_S", 0.0)
    for seed in range(12):
        problem, _ = PROJECT.problem(seed, large=True)
        first = problem.activities[:8]
        kept = {a.id for a in first}
        activities = tuple(
            replace(
                a,
                modes=(next(m for m in a.modes if problem.fits(m)),) if one_mode else a.modes,
                predecessors=tuple(p for p in a.predecessors if p in kept),
            )
            for a in first
        )
        problem = problem.replace(activities=activities)
        data = ProjectData(problem)
        if not one_mode and not (data.used_up and any(len(modes) > 1 for modes in data.modes)):
            continue
        result = alloc.solve(problem, objective="makespan", limits=alloc.Limits(seconds=20))
        proved = alloc.solve(problem, backend="cpsat", objective="makespan")
        assert (result.status, result.objective) == (proved.status, proved.objective)
    assert asked


def test_budgets_that_no_modes_keep_are_infeasible_with_every_way():
    money = Resource("money", 3, False)
    activities = tuple(Activity(f"a{k}", one(1, money=2)) for k in range(2))
    problem = ProjectProblem("poor", activities, (GPU, money))
    for way in ("auto", "cpsat", "pyomo"):
        result = alloc.solve(problem, backend=way)
        assert (result.status, result.solution) == ("infeasible", None)
    needs = 'budget "money" is 3, and the activities need at least 4 of it in modes that fit'
    assert needs in str(alloc.solve(problem).conflict)


@pytest.mark.parametrize(
    ("runs", "codes"),
    [
        ((("a", 0, 5.0), ("b", 0, 8.0), ("c", 0, 5.0)), set()),
        ((("a", 0, 5.0), ("b", 0, 8.0)), {"missing"}),
        ((("a", 0, 5.0), ("b", 0, 7.0), ("c", 0, 5.0)), {"precedence", "capacity"}),
        ((("a", 0, 4.0), ("b", 0, 8.0), ("c", 0, 5.0)), {"release"}),
        ((("a", 1, 5.0), ("b", 0, 6.0), ("c", 0, 5.0)), {"capacity", "budget"}),
        ((("a", 0, 5.0), ("a", 0, 5.0), ("b", 0, 8.0), ("c", 0, 5.0)), {"runs"}),
        ((("a", 2, 5.0), ("b", 0, 8.0), ("c", 0, 5.0)), {"unknown_mode"}),
        ((("z", 0, 5.0),), {"unknown_activity"}),
    ],
)
def test_the_checker_names_what_is_wrong(runs, codes):
    modes = (*one(3), *one(1, gpus=2, money=9))
    activities = (Activity("a", modes), Activity("b", one(1), ("a",)), Activity("c", one(4)))
    resources = (GPU, Resource("money", 5, False))
    problem = ProjectProblem("p", activities, resources, (ProjectJob("", 5.0),))
    plan = ProjectPlan(tuple(ActivityRun(*run) for run in runs))
    assert {violation.code for violation in alloc.verify(problem, plan)} == codes


A, B = Activity("a", one(1)), Activity("b", one(1), ("a",))


@pytest.mark.parametrize(
    ("build", "part"),
    [
        (lambda: ProjectProblem("p", (), (GPU,)), "no activities"),
        (lambda: ProjectProblem("p", (A, A), (GPU,)), 'activity "a" is there 2 times'),
        (lambda: ProjectProblem("p", (A,), (GPU, GPU)), 'resource "gpu" is there 2 times'),
        (lambda: ProjectProblem("p", (Activity("a", ()),), (GPU,)), "no modes"),
        (lambda: ProjectProblem("p", (Activity("a", one(0)),), (GPU,)), "duration_s is 0"),
        (lambda: ProjectProblem("p", (Activity("a", one(-1)),), (GPU,)), "duration_s is -1"),
        (lambda: ProjectProblem("p", (Activity("a", one(1), ("z",)),), (GPU,)), '"z" is no act'),
        (lambda: ProjectProblem("p", (A,)), '"gpu", which is no resource'),
        (lambda: ProjectProblem("p", (Activity("a", one(1, 3)),), (GPU,)), "uses 3.*there are 2"),
        (lambda: ProjectProblem("p", (A,), (GPU,), (ProjectJob("x"),)), 'job "" is not among'),
        (
            lambda: ProjectProblem("p", (A,), (GPU,), (ProjectJob("", 5.0, 1.0, 4.0),)),
            "due_date_s is 4, before its release at 5",
        ),
        (
            lambda: ProjectProblem("p", (Activity("a", one(1), ("b",)), B), (GPU,)),
            "circle: (a -> b -> a|b -> a -> b)",
        ),
        (lambda: ProjectProblem("p", (A, Activity("c", one(1e10))), (GPU,)), "merge the short"),
        (lambda: ProjectProblem("p", (Activity("a", one(1e308)),), (Resource("gpu", -1),)), "-1"),
        (lambda: ProjectPlan((ActivityRun("a", 0, math.nan),)), "start_s"),
        (
            lambda: schedule_by_rule(ProjectProblem("p", (A,), (GPU,)), "heft"),
            'unknown rule "heft"',
        ),
        (lambda: generate_dags(num_jobs=0), "num_jobs"),
        (lambda: generate_dags(stages=(3, 2)), "fewest stages first"),
    ],
)
def test_what_makes_no_sense_is_refused(build, part):
    with pytest.raises(InstanceError, match=part):
        build()


def test_a_constraint_may_forbid_the_mode_that_beats_another():
    import pyomo.environ as pyo

    activity = Activity("a", (Mode(5.0, {"gpu": 2}), Mode(3.0, {"gpu": 1})))
    model = alloc.model(ProjectProblem("p", (activity,), (GPU,)))
    model.pyomo.never = pyo.Constraint(expr=model.pyomo.y["a", 1] == 0)
    assert model.solve("appsi_highs").objective == pytest.approx(5.0)


def test_a_side_constraint_of_one_s_own_is_kept():
    import pyomo.environ as pyo

    problem = ProjectProblem("p", (A, B, Activity("c", one(2))), (GPU,))
    model = alloc.model(problem, objective="makespan")
    model.pyomo.last = pyo.Constraint(expr=model.pyomo.z["b", "c"] == 1)
    result = model.solve("appsi_highs")
    starts = {run.activity: run.start_s for run in result.solution.runs}
    assert [result.objective, starts["c"]] == pytest.approx([4.0, 2.0])


def test_an_activity_may_be_called_as_the_model_calls_where_flows_begin():
    activities = tuple(Activity(name, one(2, gpus=2)) for name in ("source", "sink"))
    assert alloc.solve(ProjectProblem("p", activities, (GPU,)), backend="pyomo").objective == 4.0


@pytest.mark.parametrize("seed", range(40))
def test_any_prices_prove_a_bound_and_leave_every_schedule_that_is_worth_it(seed):
    """Random prices, not only good ones, on coarse grids; the optimum is that of enumeration."""
    problem, objective = PROJECT.problem(seed)
    truth = PROJECT.truth((problem, objective)).values
    if truth is None or objective == "makespan":
        return
    data, rng = ProjectData(problem), np.random.default_rng(seed)
    plans = [p for rule in RULES for p in plans_by_rule(data, rule, quick_modes(data))]
    best = alloc.solve(problem, objective=objective).solution
    worth = max([plan.value(problem, objective) for plan in plans], default=2 * truth[0] + 1.0)
    graph = PricesOfGraph(
        data, objective, np.linspace(0.0, data.horizon_s * rng.uniform(0.3, 1.0), 6), 3, 1.0, worth
    )
    size = max(worth, 1.0)
    for prices in (
        np.zeros(graph.num_prices),
        graph.start(),
        graph.start() * rng.uniform(0, 1, graph.num_prices),
        *(graph.start() + rng.exponential(size / 30, graph.num_prices) for _ in range(4)),
    ):
        assert graph.bound(prices) <= truth[0] + 1e-9 * size
        for plan in (best, *plans):
            value = plan.value(problem, objective)
            runs = {run.activity: run for run in plan.runs}
            for k, windows in enumerate(graph.windows(prices, value)):
                run = runs[problem.activities[k].id]
                if run.mode not in data.modes[k]:
                    continue
                low, high = windows[data.modes[k].index(run.mode)]
                assert low - 1e-9 * data.horizon_s <= run.start_s <= high + 1e-9 * data.horizon_s


def test_the_use_at_prices_is_the_slope_of_the_bound():
    """A supergradient: no other prices prove more than the linear function that it gives."""
    data, rng = ProjectData(generate_dags(num_jobs=4, num_gpus=4, seed=7)), np.random.default_rng(1)
    worth = data.bound("weighted_jct") * 3
    graph = PricesOfGraph(data, "weighted_jct", np.linspace(0.0, 2000.0, 9), 5, 1.0, worth)

    def drawn():
        return np.maximum(graph.start() + rng.normal(0, worth / 40, graph.num_prices), 0.0)

    for _ in range(30):
        here, there = drawn(), drawn()
        cost, use = graph.relaxed(here)
        most = cost + float(use @ (there - here))
        assert graph.relaxed(there)[0] <= most + 1e-9 * worth


@pytest.mark.parametrize("ways", [1, 2])
def test_windows_without_any_start_are_infeasible(ways):
    """Of all modes, whether one or more; with one left the activity runs in that."""
    modes = tuple(Mode(2.0 + m, {"gpu": 1 + m}) for m in range(ways))
    problem = ProjectProblem("p", (Activity("a", modes), Activity("b", one(3))), (GPU,))
    none, all_ = (1.0, 0.0), (0.0, 9.0)
    for first in ([none] * ways, [all_, *[none] * (ways - 1)]):
        built = build_cpsat(problem, "makespan", [first, [all_]])
        raw = cpsat.solve(built.model, SolverOptions(20.0))
        if none in first[:1]:
            assert raw.status == "infeasible"
        else:
            assert raw.status == "optimal"
            run = next(r for r in built.extract(raw.values).runs if r.activity == "a")
            assert run.mode == 0


@pytest.mark.long
@pytest.mark.parametrize("objective", ["makespan", "weighted_jct", "weighted_tardiness"])
def test_times_of_a_computer_clock_are_proved_as_well_as_those_from_0(objective):
    """Tenths of a second after 1e9 are no tenths as floats."""
    begin_s = 1e9
    problem = generate_dags(num_jobs=3, num_gpus=3, seed=3)
    late = replace(
        problem,
        jobs=tuple(
            replace(
                job,
                release_s=round(begin_s + job.release_s, 1),
                due_date_s=round(begin_s + job.release_s + 20.0, 1),
            )
            for job in problem.jobs
        ),
    )
    early = replace(
        problem,
        jobs=tuple(replace(j, due_date_s=round(j.release_s + 20.0, 1)) for j in problem.jobs),
    )
    first = alloc.solve(early, objective=objective)
    result = alloc.solve(late, objective=objective)
    assert first.status == result.status == "optimal"
    shift = begin_s if objective == "makespan" else 0.0
    assert result.objective - shift == pytest.approx(first.objective, abs=1e-5)
    assert result.certificate.bound - shift == pytest.approx(first.objective, abs=1e-5)
    assert alloc.verify(late, result.solution) == []
    again = alloc.solve(late, objective=objective, warm_start=result.solution)
    assert again.objective <= result.objective


@pytest.mark.parametrize(("begin_s", "unit_s"), [(1.7e9, 1e-3), (1e12, 1.0)])
def test_costs_of_short_stages_by_a_computer_clock_are_proved_up_to_rounding(begin_s, unit_s):
    """Ends are rounded there by a share of the costs: no bound is called false for it."""
    proved = 0
    for seed in range(24, 30):
        problem, _ = PROJECT.problem(seed)
        late = replace(
            problem,
            activities=tuple(
                replace(
                    a,
                    modes=tuple(replace(m, duration_s=unit_s * m.duration_s) for m in a.modes),
                )
                for a in problem.activities
            ),
            jobs=tuple(
                replace(job, release_s=begin_s + unit_s * job.release_s, due_date_s=None)
                for job in problem.jobs
            ),
        )
        best = PROJECT.truth((late, "weighted_jct")).values
        result = alloc.solve(late, objective="weighted_jct", limits=alloc.Limits(seconds=20))
        if best is None:
            assert result.status == "infeasible"
            continue
        weights = sum(job.weight for job in late.jobs)
        assert result.status == "optimal"
        assert alloc.verify(late, result.solution) == []
        assert result.objective == pytest.approx(best[0], abs=4 * math.ulp(begin_s) * weights)
        proved += 1
    assert proved >= 5


@pytest.mark.parametrize("begin_s", [0.0, 1e6, 1.7e9])
@pytest.mark.parametrize("early_s", [0.5, 1e-4])
def test_what_starts_too_early_is_seen_whenever_the_project_begins(begin_s, early_s):
    """A part of a second is no rounding, also by a computer's clock."""
    activities = (
        Activity("a", (Mode(0.7, {"gpu": 2}),), (), "j"),
        Activity("b", (Mode(1.3, {"gpu": 1}),), ("a",), "j"),
        Activity("c", (Mode(1.1, {"gpu": 2}),), (), "j"),
    )
    job = ProjectJob("j", begin_s + 0.1)
    problem = ProjectProblem("clock", activities, (GPU,), (job,))
    result = alloc.solve(problem)
    assert result.status == "optimal"
    assert alloc.verify(problem, result.solution) == []
    starts = {"a": begin_s + 0.1, "b": begin_s + 0.8, "c": begin_s + 2.1}

    def broken(**changed: float) -> set[str]:
        runs = {**starts, **changed}
        plan = ProjectPlan(tuple(ActivityRun(name, 0, at) for name, at in runs.items()))
        return {violation.code for violation in alloc.verify(problem, plan)}

    assert broken() == set()
    assert broken(a=starts["a"] - early_s) == {"release"}
    assert broken(b=starts["b"] - early_s) == {"precedence", "capacity"}
    assert broken(c=starts["c"] - early_s) == {"capacity"}


def test_short_stages_long_after_the_first_job_may_not_overlap():
    """How long nothing runs says nothing of how well the times of what runs are known."""
    modes = (Mode(0.5, {"gpu": GPU.capacity}),)
    jobs = (ProjectJob("first", 0.0), ProjectJob("late", 1e9))
    activities = (
        Activity("a", modes, (), "first"),
        Activity("b", modes, (), "late"),
        Activity("c", modes, (), "late"),
    )
    problem = ProjectProblem("far apart", activities, (GPU,), jobs)

    def broken(c_s: float) -> set[str]:
        runs = (ActivityRun("a", 0, 0.0), ActivityRun("b", 0, 1e9), ActivityRun("c", 0, c_s))
        return {violation.code for violation in alloc.verify(problem, ProjectPlan(runs))}

    assert broken(1e9 + 0.5) == set()
    assert broken(1e9) == {"capacity"}
    assert broken(1e9 + 0.499) == {"capacity"}
    result = alloc.solve(problem)
    assert result.status == "optimal"
    assert result.objective == 1e9 + 1.0
