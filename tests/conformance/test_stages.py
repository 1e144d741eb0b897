"""F9, stages: schedules in the simulator against enumeration, and the checker against faults."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from stage_jobs import BOX, of, stage

import alloc
from alloc.comparison import compare
from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.instances.projects import generate_staged
from alloc.objectives import objective as objective_of
from alloc.packing import HostPool
from alloc.problems.allocation.instance import Affinity, Instance, Tenant
from alloc.problems.allocation.solution import Assignment, Run, Schedule, TaskPlacement
from alloc.schedulers import ClusterState, Decision, make_scheduler, scheduler_names
from alloc.schedulers.graphs import paths_of, worst_ahead
from alloc.schedulers.state import JobView
from alloc.simulation import metrics_of, simulate
from alloc.workload import Configuration, Job, Stage, TaskGroup, rigid_gang
from benchmarks.tiny.stages import STAGES

GRAPH_RULES = ("critical-path", "heft", "shortest-job", "troublesome-first", "weighted-fair")


def simulated(instance: Instance, name: str):
    """Return what a scheduler does, or None where it says that it cannot."""
    try:
        return simulate(instance, name)
    except UnsupportedFeatureError:
        return None


@pytest.mark.parametrize("name", sorted({*scheduler_names(), *GRAPH_RULES}))
def test_no_scheduler_is_below_the_optimum_and_the_checker_passes_every_schedule(name):
    """In slots and without; `simulate` lets the checker look at the whole schedule."""
    kept = 0
    for seed in range(4):
        instance, objective = STAGES.problem(seed)
        best = STAGES.truth((instance, objective)).values[0]
        # GPUs move in continuous time only.
        slotted = () if instance.move_s else (instance.replace(slot_s=2.5),)
        for asked in (instance, *slotted):
            result = simulated(asked, name)
            if result is not None:
                kept += 1
                value = objective_of(objective).evaluate(asked, result.schedule)
                assert value >= best * (1 - 1e-9)
                assert not result.unfinished
    assert kept or not hasattr(make_scheduler(name), "preemptive")


@pytest.mark.long
@pytest.mark.parametrize("name", [*GRAPH_RULES, "fifo", "srtf", "las", "drf", "easy-backfill"])
@pytest.mark.parametrize("slot_s", [None, 30.0])
def test_no_scheduler_is_below_the_bound_where_stages_may_pause(name, slot_s):
    for seed in range(2):
        instance = generate_staged(num_jobs=5, seed=seed, num_hosts=3)
        jobs = tuple(j.replace(preemptible=True, elasticity="malleable") for j in instance.jobs)
        instance = instance.replace(jobs=jobs, slot_s=slot_s)
        ran = simulate(instance, name)
        for goal in ("makespan", "weighted_jct", "mean_jct", "tardiness"):
            proved = alloc.solve(instance, objective=goal, limits=alloc.Limits(seconds=0.1))
            assert proved.certificate.bound_proof == "recomputed"
            value = objective_of(goal).evaluate(instance, ran.schedule)
            assert proved.certificate.bound <= value * (1 + 1e-9)


@pytest.mark.parametrize("name", [n for n in scheduler_names() if n not in ("dl2", "dl2-rl-only")])
def test_a_job_of_one_stage_is_treated_as_the_job(name):
    """And a stage that waits for nothing as a job that arrives with its own."""
    for slot_s in (None, 5.0):
        plain = tuple(
            Job(f"j{k}", 3.0 * k, 4.0 + k, stage("", sizes=(1, 2, 4)).configurations)
            for k in range(6)
        )
        staged = tuple(
            Job(j.id, j.arrival_s, stages=(Stage("only", j.work, j.configurations),)) for j in plain
        )
        a = simulated(Instance("plain", BOX, plain, slot_s=slot_s), name)
        b = simulated(Instance("staged", BOX, staged, slot_s=slot_s), name)
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            assert a.completion_s == b.completion_s


def test_completion_metrics_and_objectives_count_jobs():
    instance = of(stage("a", sizes=(1,)), stage("b", "a", sizes=(1,)), weight=3.0, due_date_s=5.0)
    result = simulate(instance, "fifo")
    assert result.completion_s == {"q": 8.0}
    assert result.start_s == {"q": 0.0}
    assert [run.job for run in result.schedule.runs] == ["q/a", "q/b"]
    found = metrics_of(result)
    assert (found.num_jobs, found.mean_jct_s, found.makespan_s) == (1, 8.0, 8.0)
    assert math.isnan(found.mean_fairness)
    values = {"weighted_jct": 24.0, "tardiness": 9.0, "max_slowdown": 1.0}
    for name, value in values.items():
        assert objective_of(name).evaluate(instance, result.schedule) == pytest.approx(value)


@pytest.mark.parametrize(
    ("runs", "codes"),
    [
        ((("q/a", 0, 4), ("q/b", 4, 8), ("q/c", 4, 8)), set()),
        ((("q/a", 0, 4), ("q/b", 3, 7), ("q/c", 4, 8)), {"precedence"}),
        ((("q/a", 0, 3), ("q/b", 4, 8), ("q/c", 4, 8)), {"incomplete", "precedence"}),
        ((("q/a", 0, 4), ("q/b", 4, 8)), {"incomplete"}),
        ((("q", 0, 4),), {"unknown_job", "incomplete"}),
        ((("q/a", 0, 4), ("q/b", 4, 8), ("q/c", 4, 8), ("q/d", 4, 8)), {"unknown_job"}),
    ],
)
def test_the_checker_names_what_is_wrong(runs, codes):
    one = (1,)
    instance = of(stage("a", sizes=one), stage("b", "a", sizes=one), stage("c", "a", sizes=one))
    host = instance.topology.hosts[0].id
    tasks = (TaskPlacement(host, "w", 1),)
    schedule = Schedule(tuple(Run(job, 0, float(s), float(e), tasks) for job, s, e in runs))
    assert {violation.code for violation in alloc.verify(instance, schedule)} == codes


def test_each_stage_moved_before_its_predecessor_is_seen():
    """Metamorphic: of a sound schedule, any run that begins before what it waits for ends."""
    instance = generate_staged(num_jobs=4, seed=1)
    schedule = simulate(instance, "fifo").schedule
    followers = 0
    for k, run in enumerate(schedule.runs):
        job, name = run.job.split("/")
        if not instance.job(job).stages[int(name)].predecessors:
            continue
        followers += 1
        moved = Run(run.job, run.configuration, 0.0, run.end_s, run.tasks)
        runs = (*schedule.runs[:k], moved, *schedule.runs[k + 1 :])
        codes = {violation.code for violation in alloc.verify(instance, Schedule(runs))}
        assert "precedence" in codes
    assert followers


@pytest.mark.parametrize(
    ("build", "part"),
    [
        (lambda: of(stage("a", "b"), stage("b", "a")), "circle: (a -> b -> a|b -> a -> b)"),
        (lambda: of(stage("a", "a")), "circle: a -> a"),
        (lambda: of(stage("a"), stage("b", "aa")), '"aa" is no stage of the job; did you mean "a"'),
        (lambda: of(stage("a", sizes=())), "no configuration with a rate above 0"),
        (lambda: of(stage("a"), stage("a")), 'stage "a" is there 2 times'),
        (lambda: of(stage("")), "an empty id"),
        (lambda: of(stage("a", work=0.0)), 'stage "a": work is 0'),
        (lambda: of(stage("a", work=-1.0)), 'stage "a": work is -1'),
        (lambda: of(stage("a"), elasticity="rigid"), "is rigid but has 2 configurations"),
        (lambda: of(stage("a"), work=1.0), "has stages and work"),
        (lambda: of(stage("a"), configurations=(rigid_gang(1),)), "has stages and configurations"),
        (lambda: of(stage("a"), refusable=True), "has stages and refusable"),
        (lambda: of(stage("a", sizes=(9,))), 'job "q/a": fits the empty cluster in none'),
        (lambda: Job("q", 0.0), "work is 0"),
        (lambda: of(stage("a")).replace(running=(Assignment("q", 0),)), "named in running"),
        (
            lambda: Instance(
                "two",
                BOX,
                (Job("q", 0.0, stages=(stage("a"),)), Job("r", 0.0, 1.0, (rigid_gang(1),))),
                affinities=(Affinity("apart", "host", ("q", "r")),),
            ),
            "named in affinities",
        ),
        (
            lambda: Instance(
                "two",
                BOX,
                (Job("q", 0.0, stages=(stage("a"),)), Job("q/a", 0.0, 1.0, (rigid_gang(1),))),
            ),
            'its stage is called "q/a"',
        ),
        (
            lambda: alloc.solve(of(stage("a")), objective="max_slowdown"),
            'does not take objective "max_slowdown"',
        ),
    ],
)
def test_what_makes_no_sense_is_refused(build, part):
    with pytest.raises(InstanceError, match=part):
        build()


def test_other_families_say_that_they_take_no_stages():
    for family in ("malleable", "moldable", "admission"):
        with pytest.raises(UnsupportedFeatureError, match=r"does not model stages.*stages"):
            alloc.solve(of(stage("a")), family)


def test_documents_keep_stages_and_old_ones_stay_as_they_were():
    instance = generate_staged(num_jobs=3, seed=5)
    assert Instance.from_json(instance.to_json()) == instance
    plain = Instance("plain", BOX, (Job("a", 0.0, 1.0, (rigid_gang(1),)),))
    assert "stages" not in plain.to_json()
    # Stages and their order are part of the problem, and so of its fingerprint.
    names = {
        of(stage("a"), stage("b")).fingerprint,
        of(stage("a"), stage("b", "a")).fingerprint,
        of(stage("b"), stage("a")).fingerprint,
    }
    assert len(names) == 3


def test_a_scheduler_sees_the_graphs_of_jobs_that_have_arrived_and_no_others():
    first = Job("p", 0.0, stages=(stage("a", sizes=(1,)), stage("b", "a", sizes=(1,))))
    instance = Instance("two", BOX, (first, Job("q", 5.0, stages=(stage("c", sizes=(1,)),))))
    seen = []

    def watch(state: ClusterState):
        graph = state.jobs[0].stages
        seen.append(
            (state.now_s, [v.id for v in state.jobs], [(v.id, v.is_complete) for v in graph])
        )
        return list(state.jobs)

    simulate(instance, watch)
    assert seen == [
        (0.0, ["p/a"], [("p/a", False), ("p/b", False)]),
        (4.0, ["p/b"], [("p/a", True), ("p/b", False)]),
        (5.0, ["p/b", "q/c"], [("p/a", True), ("p/b", False)]),
        (8.0, ["q/c"], [("q/c", False)]),
    ]


def test_of_stages_to_come_no_more_is_told_than_of_others():
    instance = of(stage("a"), stage("b", "a"))
    shown: dict[str, list[float | None]] = {}

    def look(state: ClusterState) -> Decision | list[JobView]:
        for view in state.jobs[0].stages:
            shown.setdefault(view.id, []).append(view.work)
        return list(state.jobs)

    simulate(instance, look, knowledge="none")
    assert set(shown["q/b"]) == {None}
    shown.clear()
    simulate(instance, look, knowledge="estimate", work_error=0.5, speed_error=0.1)
    # The error of a stage is drawn once, before it starts.
    assert len(set(shown["q/b"])) == 1
    assert shown["q/b"][0] != 4.0


def views(rng: Random) -> list[JobView]:
    """Return a random graph in random order of positions."""
    order = rng.sample(range(6), 6)
    return [
        JobView(
            str(k),
            0.0,
            (),
            1.0,
            1.0,
            1.0,
            before=[p for p in range(6) if order[p] < order[k] and rng.random() < 0.4],
        )
        for k in range(6)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_paths_are_those_of_enumeration(seed):
    rng = Random(seed)
    graph = views(rng)
    cost = {view.id: rng.random() for view in graph}

    def ways(k: int) -> list[list[int]]:
        after = [s for s, view in enumerate(graph) if k in view.before]
        return [[k, *way] for s in after for way in ways(s)] or [[k]]

    longest = [max(sum(cost[str(s)] for s in way) for way in ways(k)) for k in range(6)]
    worst = [max(cost[str(s)] for way in ways(k) for s in way) for k in range(6)]
    assert paths_of(graph, lambda view: cost[view.id]) == pytest.approx(longest)
    assert worst_ahead(graph, lambda view: cost[view.id]) == worst


@pytest.mark.long
def test_a_chain_of_thousands_of_stages_is_no_recursion():
    stages = [stage("0", work=1.0)]
    stages += [stage(str(k), str(k - 1), work=1.0) for k in range(1, 3000)]
    assert of(*stages).jobs[0].min_run_s == pytest.approx(1500.0)
    graph = [
        JobView(str(k), 0.0, (), 1.0, 1.0, 1.0, before=[k - 1] if k else []) for k in range(3000)
    ]
    assert paths_of(graph, lambda view: 1.0)[0] == 3000.0


@pytest.mark.long
def test_a_comparison_has_the_bound_of_stages():
    instance = generate_staged(num_jobs=3, stages=(2, 2), num_hosts=3, seed=2)
    table = compare([instance], ["fifo", "shortest-job"], time_limit_s=5.0)
    bound = table.bounds[instance.fingerprint]
    assert bound.certificate.formulation == "stages"
    for name in ("fifo", "shortest-job"):
        value = objective_of("weighted_jct").evaluate(
            instance, table.schedule(instance.fingerprint, name)
        )
        assert value >= bound.value * (1 - 1e-9)
        assert bound.certificate.objective <= value * (1 + 1e-9)


def test_the_bound_looks_at_types_of_gpus_and_at_quotas():
    """Two gangs that only the quota, or only the type, keeps from running at once."""
    ways = (Configuration((TaskGroup("w", 1, 1000),), 1.0),)
    jobs = tuple(
        Job(f"j{k}", 0.0, tenant="red", preemptible=False, stages=(Stage("a", 4.0, ways),))
        for k in range(2)
    )
    free = Instance("free", BOX, jobs)
    held = free.replace(tenants=(Tenant("red", 1000),))
    for instance, best in ((free, 4.0), (held, 8.0)):
        result = alloc.solve(instance, objective="makespan")
        assert (result.status, result.objective) == ("optimal", best)
    none = alloc.solve(free.replace(tenants=(Tenant("red", 500),)))
    assert none.status == "infeasible"


@pytest.mark.parametrize("limit", ["deadline", "horizon"])
def test_a_path_too_long_for_its_limit_is_infeasible_and_one_just_short_enough_is_not(limit):
    """Without a proof it said "no solution", as if a limit of time had ended the search."""
    ways = (Configuration((TaskGroup("w", 1, 1000),), 1.0),)
    graph = (Stage("a", 4.0, ways), Stage("b", 3.0, ways, ("a",)), Stage("c", 1.0, ways))

    def solved(limit_s):
        deadline_s, horizon_s = (limit_s, None) if limit == "deadline" else (None, limit_s)
        job = Job("path", 2.0, deadline_s=deadline_s, preemptible=False, stages=graph)
        return alloc.solve(Instance("late", BOX, (job,), horizon_s=horizon_s))

    late = solved(8.9)
    assert late.status == "infeasible"
    assert late.conflict.startswith('job "path" completes at 9 s at the earliest')
    assert solved(9.0).status == "optimal"


@pytest.mark.parametrize("left", [1e-300, 1e-12, 1e-8])
def test_what_runs_holds_its_hosts_even_if_its_end_is_now_up_to_rounding(left):
    """Late in a simulation the time that a job has left is lost in the sum of both."""
    gang = (rigid_gang(4),)
    host = BOX.hosts[0].id
    tasks = (TaskPlacement(host, "worker", 4),)
    runs = JobView("a", 0.0, gang, 1.0, 3.0, left, current=Assignment("a", 0, tasks))
    waits = JobView("b", 0.0, gang, 1.0, 3.0, 3.0)
    pool = HostPool(BOX)
    pool.take(gang[0], tasks)
    state = ClusterState(1e9, None, [runs, waits], BOX, pool, {}, "exact", np.random.default_rng(0))
    for name in ("lpt", "conservative-backfill", "turn-around"):
        assert make_scheduler(name).decide(state).assign == ()
