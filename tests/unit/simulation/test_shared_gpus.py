"""Jobs that share a GPU slow each other down: by hand, in the simulator and in the checker."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import alloc
from alloc.comparison import compare
from alloc.errors import InstanceError, SimulationError, UnsupportedFeatureError
from alloc.instances.shared_gpus import generate_shared_gpus
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.outages import Outage
from alloc.problems.allocation.slowdown import factor, neighbours, pieces
from alloc.problems.allocation.solution import Assignment, Run, Schedule, TaskPlacement
from alloc.progress import completions
from alloc.schedulers import make_scheduler
from alloc.schedulers.state import Decision
from alloc.simulation import simulate
from alloc.solving.colocation.makespan import makespan_bound
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, InterferenceTable, Job, TaskGroup

TABLE = InterferenceTable(
    "v100",
    ("a", "b", "c"),
    np.array([1.0, 2.0, 4.0]),
    np.array([[0.5, 0.8, 0.9], [0.6, 0.7, 0.0], [0.4, 0.0, 1.1]]),
)
WHOLE = Configuration((TaskGroup("worker", 1, 1000),), 1.0)
HALF = Configuration((TaskGroup("worker", 1, 500),), 1.0)
THIRD = Configuration((TaskGroup("worker", 1, 300),), 1.0)


def instance(*models: str, gpus: int = 1, work: float = 120.0, **changes) -> Instance:
    jobs = tuple(
        Job(f"j{k}", 0.0, work * (k + 1), (WHOLE, HALF, THIRD), model=model)
        for k, model in enumerate(models)
    )
    cluster = flat_cluster("c", HostType("box", gpus, "v100"), 1)
    asked = {"jobs": jobs, "slot_s": 60.0, "interference": (TABLE,), **changes}
    return Instance("shared", cluster, **asked)


def on(gpu: int) -> tuple[TaskPlacement, ...]:
    return (TaskPlacement("host-0", "worker", 1, (gpu,)),)


def together(state, configuration: int = 1) -> Decision:
    """Everybody on the first GPU."""
    return Decision(tuple(Assignment(v.id, configuration, on(0)) for v in state.jobs))


def test_two_jobs_run_at_the_speeds_of_the_table_until_one_is_done():
    run = simulate(instance("a", "b"), together)
    # 120 at 0.8 take 150 s, to the end of the third slot; 240 less 180 at 0.6 are then alone.
    assert run.completion_s == {"j0": 150.0, "j1": 180.0 + 132.0}
    assert run.verified


def test_three_jobs_multiply_what_the_table_says_of_pairs():
    problem = instance("a", "a", "b")
    beside = neighbours({job.id: on(0) for job in problem.jobs})
    assert [factor(problem, job.id, beside[job.id]) for job in problem.jobs] == [
        0.5 * 0.8,
        0.5 * 0.8,
        0.6 * 0.6,
    ]
    run = simulate(problem, lambda state: together(state, 2))
    assert run.verified
    assert run.completion_s["j0"] == pytest.approx(120 / 0.4)


def test_who_has_another_gpu_is_not_slowed_down():
    problem = instance("a", "b", gpus=2)

    def apart(state):
        return Decision(
            tuple(Assignment(v.id, 1, on(int(v.id[1:]))) for v in state.jobs),
        )

    assert simulate(problem, apart).completion_s == {"j0": 120.0, "j1": 240.0}


def test_a_gang_runs_at_the_speed_of_its_slowest_task():
    pair = Configuration((TaskGroup("worker", 2, 500),), 1.0)
    problem = instance("a", "b", gpus=2)
    gang = problem.jobs[0].replace(configurations=(pair,))
    problem = problem.replace(jobs=(gang, problem.jobs[1]))
    tasks = {"j0": (TaskPlacement("host-0", "worker", 2, (0, 1)),), "j1": on(1)}
    beside = neighbours(tasks)
    assert factor(problem, "j0", beside["j0"]) == 0.8
    assert factor(problem, "j1", beside["j1"]) == 0.6


def test_two_tasks_of_a_job_on_one_gpu_slow_each_other_down():
    problem = instance("a")
    beside = neighbours({"j0": (TaskPlacement("host-0", "worker", 2, (0, 0)),)})
    assert factor(problem, "j0", beside["j0"]) == 0.5


def test_whole_gpus_and_types_without_a_table_cost_nothing():
    assert neighbours({"j0": (TaskPlacement("host-0", "worker", 1),), "j1": on(0)}) == {}
    other = instance("a", "b").replace(
        interference=(dataclasses.replace(TABLE, gpu_type="a100-sxm-40gb"),)
    )
    assert simulate(other, together).completion_s == {"j0": 120.0, "j1": 240.0}


def test_a_run_is_cut_where_its_neighbours_change_and_nowhere_else():
    problem = instance("a", "b", "a")
    runs = (
        Run("j0", 2, 0.0, 240.0, on(0)),
        Run("j1", 2, 60.0, 120.0, on(0)),
        Run("j1", 2, 120.0, 180.0, on(0)),
        Run("j2", 2, 300.0, 360.0, on(0)),
    )
    found = [(p.run.start_s, p.run.end_s, p.factor) for p in pieces(problem, runs)["j0"]]
    assert found == [(0.0, 60.0, 1.0), (60.0, 180.0, 0.8), (180.0, 240.0, 1.0)]


def test_the_checker_counts_the_slow_down():
    problem = instance("a", "b")
    fast = Schedule((Run("j0", 1, 0.0, 120.0, on(0)), Run("j1", 1, 0.0, 240.0, on(0))))
    assert {v.code for v in alloc.verify(problem, fast)} == {"incomplete"}
    assert completions(problem, fast) == {"j0": None, "j1": None}
    slow = Schedule((Run("j0", 1, 0.0, 180.0, on(0)), Run("j1", 1, 0.0, 360.0, on(0))))
    assert alloc.verify(problem, slow) == []
    assert completions(problem, slow) == {"j0": 150.0, "j1": 312.0}


def test_the_checker_names_what_shares_no_gpu_of_the_cluster():
    problem = instance("a", "b")
    away = (TaskPlacement("host-9", "worker", 1, (0,)),)
    nowhere = Schedule((Run("j0", 1, 0.0, 120.0, away), Run("j1", 1, 0.0, 240.0, away)))
    assert "unknown_host" in {v.code for v in alloc.verify(problem, nowhere)}
    # A job on whole GPUs needs no model, and has no place on a shared one.
    whole = problem.jobs[1].replace(configurations=(WHOLE,), model=None)
    mixed = problem.replace(jobs=(problem.jobs[0], whole))
    beside = Schedule((Run("j0", 1, 0.0, 120.0, on(0)), Run("j1", 0, 0.0, 240.0, on(0))))
    assert "gpu_capacity" in {v.code for v in alloc.verify(mixed, beside)}


def test_models_that_cannot_share_are_refused_by_simulator_and_checker():
    problem = instance("b", "c")
    with pytest.raises(SimulationError, match=r'"j0", at 0 s: it shares a GPU with a job that'):
        simulate(problem, together)
    schedule = Schedule((Run("j0", 1, 0.0, 120.0, on(0)), Run("j1", 1, 0.0, 240.0, on(0))))
    assert "interference" in {v.code for v in alloc.verify(problem, schedule)}


@pytest.mark.parametrize(
    ("tasks", "code"),
    [
        ((TaskPlacement("nowhere", "worker", 1, (0,)),), "unknown_host"),
        ((TaskPlacement("host-0", "nobody", 1, (0,)),), "gang"),
        ((TaskPlacement("host-0", "worker", 1, (7,)),), "gpu_position"),
        ((TaskPlacement("host-0", "worker", 1),), "gpu_position"),
    ],
)
def test_the_checker_says_what_is_placed_wrong_beside_others(tasks, code):
    """It looks at no table for a task that is nowhere."""
    problem = instance("a", "b", "c")
    runs = (Run("j0", 1, 0.0, 120.0, tasks), Run("j1", 1, 0.0, 120.0, tasks))
    assert code in {v.code for v in alloc.verify(problem, Schedule(runs))}
    unknown = dataclasses.replace(runs[0], job="nobody")
    assert "unknown_job" in {v.code for v in alloc.verify(problem, Schedule((unknown, runs[1])))}
    assert set(completions(problem, Schedule((unknown,))).values()) == {None}


def test_whole_gpus_share_none_whatever_position_they_name():
    """A job without a model may run beside shares on a host, in the simulator and the checker."""
    problem = instance("a", gpus=2)
    whole = Job("w", 0.0, 120.0, (WHOLE,))
    problem = problem.replace(jobs=(*problem.jobs, whole))
    by_hand = {"j0": Assignment("j0", 1, on(0)), "w": Assignment("w", 0, on(0))}
    run = simulate(problem, lambda state: Decision(tuple(by_hand[v.id] for v in state.jobs)))
    assert run.verified
    assert run.completion_s == {"j0": 120.0, "w": 120.0}


def test_no_family_solves_what_it_does_not_model_and_no_scheduler_ignores_it():
    problem = instance("a", "b")
    with pytest.raises(UnsupportedFeatureError, match=r"does not model interference, which GPU"):
        alloc.solve(problem)
    with pytest.raises(UnsupportedFeatureError, match=r"srtf does not look at interference.*simil"):
        simulate(problem, "srtf")


@pytest.mark.parametrize(
    "answer", [lambda state: list(state.jobs), lambda state: {view.id: 0.5 for view in state.jobs}]
)
def test_a_function_that_returns_jobs_is_refused_at_its_first_decision(answer):
    """Models a and c may not share a GPU, but c comes later; what is said does not wait for it."""
    late = instance("a", "c").jobs[1].replace(arrival_s=600.0)
    problem = instance("a", "c").replace(jobs=(instance("a").jobs[0], late))
    times = []

    def rule(state):
        times.append(state.now_s)
        return answer(state)

    with pytest.raises(
        UnsupportedFeatureError, match=r"rule does not look at interference.*\"v100"
    ):
        simulate(problem, rule)
    assert times == [0.0]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"slot_s": None}, "has interference and no slots"),
        ({"outages": (Outage("host-0", 60.0, 120.0),)}, "has interference and outages"),
        ({"interference": (TABLE, TABLE)}, 'two interference tables of "v100"'),
    ],
)
def test_tables_that_do_not_fit_are_refused(changes, says):
    with pytest.raises(InstanceError, match=says):
        instance("a", "b", **changes)


def test_a_job_that_may_share_names_a_model_of_the_table():
    with pytest.raises(InstanceError, match='has no kind "d"'):
        instance("a", "d")
    nameless = instance("a").jobs[0].replace(model=None)
    with pytest.raises(InstanceError, match='"j0": may share a GPU of type "v100" and names no mo'):
        instance("a", jobs=(nameless,))


def test_an_instance_with_interference_is_read_back_as_it_was_written():
    problem = instance("a", "b")
    again = Instance.from_json(problem.to_json())
    assert again == problem
    assert again.fingerprint == problem.fingerprint
    assert again.interference == (TABLE,)
    assert problem.replace(interference=()).fingerprint != problem.fingerprint
    assert hash(again.interference) == hash(problem.interference)


def drawn(seed: int, num_jobs: int = 12) -> Instance:
    rng = np.random.default_rng(seed)
    names = tuple(f"m{k}" for k in range(5))
    tables = []
    for gpu_type in ("slow", "quick"):
        beside = rng.uniform(0.3, 1.0, (5, 5))
        never = np.triu(rng.random((5, 5)) < 0.15)
        beside[never | never.T] = 0.0
        tables.append(InterferenceTable(gpu_type, names, rng.uniform(1.0, 9.0, 5), beside))
    return generate_shared_gpus(
        f"drawn-{seed}", tables, {"slow": 2, "quick": 3}, num_jobs=num_jobs, seed=seed
    )


PAIRINGS = ("similarity", "matching", "none")


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("seed", range(4))
def test_every_pairing_keeps_every_rule_and_the_bound(pairing, seed):
    problem = drawn(seed)
    run = simulate(problem, make_scheduler("similarity-packing", pairing=pairing))
    assert run.verified
    assert run.unfinished == ()
    ends = [end for end in run.completion_s.values() if end is not None]
    assert max(ends) >= makespan_bound(problem) * (1 - 1e-9)
    shared = {run.job for run in run.schedule.runs if any(task.gpus for task in run.tasks)}
    assert bool(shared) == (pairing != "none")


def test_a_comparison_holds_the_makespan_against_the_bound():
    problem = drawn(0)
    found = compare([problem], ["similarity-packing"], objective="makespan")
    best, row = found.rows
    assert row.error is None
    assert row.gap == pytest.approx(row.objective / makespan_bound(problem) - 1)
    assert best.objective == row.objective
    assert found.bound_proofs()["recomputed"] == 1
    other = compare([problem], ["similarity-packing"], objective="mean_jct")
    (bound,) = other.bounds.values()
    assert "only the makespan has a bound" in str(bound.error)


def test_packing_beats_waiting_where_two_jobs_together_do_more():
    even = InterferenceTable("v100", ("a",), np.ones(1), np.array([[0.9]]))
    problem = instance("a", "a", "a", "a", work=600.0, interference=(even,))
    spans = {}
    for pairing in PAIRINGS:
        run = simulate(problem, make_scheduler("similarity-packing", pairing=pairing))
        spans[pairing] = max(end for end in run.completion_s.values() if end is not None)
    assert spans["none"] == pytest.approx(6000.0)
    assert max(spans["similarity"], spans["matching"]) < 0.7 * spans["none"]
    # Two at 0.9: the GPU does 1.8 in a second.
    halves = tuple(job.replace(configurations=(WHOLE, HALF)) for job in problem.jobs)
    assert makespan_bound(problem.replace(jobs=halves)) == pytest.approx(6000.0 / 1.8)


def test_jobs_that_do_less_together_do_not_share():
    bad = InterferenceTable("v100", ("a",), np.ones(1), np.array([[0.4]]))
    problem = instance("a", "a", interference=(bad,))
    run = simulate(problem, "similarity-packing")
    assert not any(task.gpus for one in run.schedule.runs for task in one.tasks)


def test_similarity_takes_the_model_that_is_as_fast():
    """Of a, b, c, d only a and c are measured; d is as fast as c, b as a."""
    names = ("a", "b", "c", "d")
    beside = np.full((4, 4), 0.3)
    beside[0, 2] = beside[2, 0] = 0.9  # a and c get on, so b and d are thought to
    table = InterferenceTable("v100", names, np.array([1.0, 1.1, 8.0, 7.0]), beside)
    problem = instance("b", "d", interference=(table,))

    def shares(every: int) -> bool:
        run = simulate(problem, make_scheduler("similarity-packing", measured_every=every))
        return any(task.gpus for one in run.schedule.runs for task in one.tasks)

    assert shares(2)
    assert not shares(1)


def test_the_fastest_gpus_go_to_those_who_gain_most_by_them():
    table = [
        InterferenceTable(t, ("x", "y"), np.array(alone), np.full((2, 2), 0.1))
        for t, alone in (("slow", [1.0, 1.0]), ("quick", [2.0, 8.0]))
    ]
    problem = generate_shared_gpus("two", table, {"slow": 1, "quick": 1}, num_jobs=2)
    jobs = tuple(
        job.replace(model=model, work=7200.0, configurations=ways)
        for job, model, ways in zip(
            problem.jobs,
            ("x", "y"),
            (
                (
                    Configuration((TaskGroup("worker", 1, 1000),), 1.0, "slow"),
                    Configuration((TaskGroup("worker", 1, 1000),), 2.0, "quick"),
                ),
                (
                    Configuration((TaskGroup("worker", 1, 1000),), 1.0, "slow"),
                    Configuration((TaskGroup("worker", 1, 1000),), 8.0, "quick"),
                ),
            ),
            strict=True,
        )
    )
    run = simulate(problem.replace(jobs=jobs), "similarity-packing")
    first = {r.job: r.configuration for r in run.schedule.runs if r.start_s == 0.0}
    assert first == {"job-0": 0, "job-1": 1}


def test_options_of_the_scheduler_are_checked():
    with pytest.raises(InstanceError, match=r'did you mean "matching"'):
        make_scheduler("similarity-packing", pairing="match")
    with pytest.raises(InstanceError, match="measured_every"):
        make_scheduler("similarity-packing", measured_every=0)


def test_the_bound_says_what_it_does_not_take():
    with pytest.raises(UnsupportedFeatureError, match='"j0" does not run as one task'):
        makespan_bound(instance("a"))
    bare = instance("a").replace(interference=())
    with pytest.raises(UnsupportedFeatureError, match='"v100" has no interference table'):
        makespan_bound(bare)
    whole = Job("w", 0.0, 60.0, (WHOLE,))
    halves = instance("a").jobs[0].replace(configurations=(HALF,))
    with pytest.raises(UnsupportedFeatureError, match='"w" names no model'):
        makespan_bound(instance(jobs=(halves, whole)))
