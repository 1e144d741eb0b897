"""F9, stages: GPUs that take time to move between jobs, in simulator, checker and bound."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from stage_jobs import of, stage

import alloc
from alloc.errors import InstanceError
from alloc.objectives import objective as objective_of
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, Run, Schedule, TaskPlacement
from alloc.progress import completions
from alloc.schedulers import ClusterState, Decision
from alloc.simulation import simulate
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, Stage, TaskGroup, rigid_gang
from benchmarks.tiny.stages import STAGES, Moving


def moving_seeds(count: int) -> list[int]:
    """Return seeds of tiny problems in which GPUs take time to move."""
    return [seed for seed in range(200) if STAGES.problem(seed)[0].move_s][:count]


@pytest.mark.parametrize("seed", moving_seeds(40))
def test_the_best_schedule_with_moves_is_worth_what_enumeration_says(seed):
    """Enumeration hands out GPUs by name; the checker counts those of each job on each host."""
    instance, objective = STAGES.problem(seed)
    found = Moving(instance, objective)
    found.search({})
    schedule = Schedule(found.runs)
    assert alloc.verify(instance, schedule) == []
    assert objective_of(objective).evaluate(instance, schedule) == pytest.approx(found.best)


def test_a_gpu_moves_to_another_job_and_not_to_its_own():
    """Two GPUs; p takes both, then its second stage one and q the other, which moves for 3 s."""
    two = flat_cluster("two", HostType("two", 2, "generic"), 1)
    once: dict[str, Any] = {"elasticity": "moldable", "preemptible": False}
    p = Job("p", 0.0, stages=(stage("a", sizes=(2,)), stage("b", "a", sizes=(1,))), **once)
    q = Job("q", 1.0, stages=(stage("c", sizes=(1,)),), **once)
    instance = Instance("move", two, (p, q), move_s=3.0)
    assert Instance.from_json(instance.to_json()) == instance
    assert instance.fingerprint != instance.replace(move_s=0.0).fingerprint
    run = simulate(instance, "fifo")
    assert run.completion_s == {"p": 6.0, "q": 9.0}
    assert run.verified
    for changed in ({"move_s": 0.0}, {"jobs": (p, q.replace(arrival_s=0.0))}):
        sooner = simulate(instance.replace(**changed), "fifo")
        assert sooner.completion_s["q"] == (6.0 if "move_s" in changed else 9.0)
    # The checker does not take a run that ends as if nothing had moved.
    short = [r if r.job != "q/c" else Run(r.job, 0, 2.0, 6.0, r.tasks) for r in run.schedule.runs]
    assert {v.code for v in alloc.verify(instance, Schedule(tuple(short)))} == {"incomplete"}
    # Nor in pieces: who waits for a GPU waits on it, and again for the next one.
    (whole,) = [r for r in run.schedule.runs if r.job == "q/c"]
    others = [r for r in run.schedule.runs if r is not whole]
    end = whole.end_s
    for cut_s, end_s, fine in ((3.0, end, True), (6.5, end, True), (3.0, 6.0, False)):
        cut = [
            dataclasses.replace(whole, end_s=cut_s),
            dataclasses.replace(whole, start_s=cut_s, end_s=end_s),
        ]
        broken = alloc.verify(instance, Schedule((*others, *cut)))
        assert [v.code for v in broken] == ([] if fine else ["incomplete"])
    result = alloc.solve(instance, objective="makespan", limits=alloc.Limits(seconds=60))
    assert result.objective >= result.certificate.bound
    assert any("move from job to job" in text for text in result.assumptions)


def one_gpu_jobs(hosts: int, gpus: int, *works: float) -> Instance:
    """Return jobs p, q, ... of one GPU, to which GPUs move for 3 s."""
    cluster = flat_cluster("some", HostType("some", gpus, "generic"), hosts)
    jobs = tuple(
        Job(name, 0.0, work, (rigid_gang(1),), elasticity="rigid", preemptible=False)
        for name, work in zip("pqr", works, strict=False)
    )
    return Instance("move", cluster, jobs, move_s=3.0)


def alone(host: str) -> tuple[TaskPlacement, ...]:
    return (TaskPlacement(host, "worker", 1),)


def test_a_run_in_pieces_waits_for_gpus_that_move_as_a_whole_one_does():
    """Who goes on on its own GPU does not get back the time for which that moved."""
    instance = one_gpu_jobs(1, 1, 4.0, 4.0)
    here, first = alone("host-0"), Run("p", 0, 0.0, 4.0, alone("host-0"))
    whole = Schedule((first, Run("q", 0, 4.0, 11.0, here)))
    pieces = Schedule((first, Run("q", 0, 4.0, 6.0, here), Run("q", 0, 6.0, 11.0, here)))
    for schedule in (whole, pieces):
        assert alloc.verify(instance, schedule) == []
        assert completions(instance, schedule)["q"] == 11.0
    short = Schedule((first, Run("q", 0, 4.0, 6.0, here), Run("q", 0, 6.0, 8.0, here)))
    assert {v.code for v in alloc.verify(instance, short)} == {"incomplete"}
    # Nor does it lend its GPU to a job that starts while it goes on.
    three = one_gpu_jobs(1, 2, 2.0, 9.0, 1.0)
    lent = Schedule(
        (
            Run("p", 0, 0.0, 2.0, here),
            Run("q", 0, 0.0, 2.0, here),
            Run("q", 0, 2.0, 9.0, here),
            Run("r", 0, 2.0, 6.0, here),
        )
    )
    assert completions(three, lent) == {"p": 2.0, "q": 9.0, "r": 6.0}


def test_a_job_that_changes_hosts_waits_again_in_simulator_and_checker():
    def chase(state: ClusterState) -> Decision:
        """Run q on the second host until p has left the first."""
        waits = any(view.id == "p" for view in state.jobs)
        where = {"p": "host-0", "q": "host-1" if waits else "host-0"}
        return Decision(tuple(Assignment(view.id, 0, alone(where[view.id])) for view in state.jobs))

    run = simulate(one_gpu_jobs(2, 1, 2.0, 4.0), chase)
    assert run.completion_s == {"p": 2.0, "q": 7.0}
    assert run.verified


@pytest.mark.parametrize(("back_s", "end_s"), [(2.25, 9.125), (4.0, 10.875), (5.5, 9.0)])
def test_a_gpu_that_did_not_arrive_moves_again_in_simulator_and_checker(back_s, end_s):
    """A job leaves a GPU for a moment while that moves to it, and comes back: it waits again."""
    instance, hop_s = one_gpu_jobs(2, 1, 2.0, 4.0), back_s - 0.125

    def hop(state: ClusterState) -> Decision:
        """Run q on the first host once p is gone, but for a moment on the second."""
        views = [view for view in state.jobs if view.id == "p"] or list(state.jobs)
        later = [s for s in (hop_s, back_s) if s > state.now_s]
        where = alone("host-1" if hop_s <= state.now_s < back_s else "host-0")
        going = tuple(Assignment(view.id, 0, where) for view in views)
        return Decision(going, wake_s=min(later, default=None))

    run = simulate(instance, hop)
    assert run.completion_s == {"p": 2.0, "q": end_s}
    assert run.verified
    assert [r.start_s for r in run.schedule.runs] == [0.0, 2.0, hop_s, back_s]
    (*others, last) = run.schedule.runs
    soon = Schedule((*others, dataclasses.replace(last, end_s=min(end_s, back_s + 3.9))))
    assert {v.code for v in alloc.verify(instance, soon)} == (
        {"incomplete"} if back_s < 5 else set()
    )


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"move_s": -1.0}, "move_s is -1"),
        ({"slot_s": 5.0}, "continuous time from an empty cluster"),
        (
            {"jobs": (Job("p", 0.0, stages=(stage("a"),), preemptible=False),)},
            '"p/a" may pause or change',
        ),
        (
            {
                "jobs": (
                    Job(
                        "p",
                        0.0,
                        elasticity="rigid",
                        preemptible=False,
                        stages=(Stage("a", 1.0, (Configuration((TaskGroup("w", 1, 500),), 1.0),)),),
                    ),
                )
            },
            'whole GPUs, and "p/a" takes parts',
        ),
    ],
)
def test_where_gpus_cannot_move_is_refused(change, part):
    once: dict[str, Any] = {"elasticity": "moldable", "preemptible": False}
    with pytest.raises(InstanceError, match=part):
        of(stage("a"), **once).replace(**{"move_s": 1.0, **change})
