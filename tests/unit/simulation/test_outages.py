"""Hosts that fail in the simulator: small cases worked out by hand, and laws."""

from __future__ import annotations

import pytest

from alloc.errors import InstanceError, SimulationError
from alloc.instances import generate_elastic, generate_gangs
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.outages import Outage
from alloc.problems.allocation.solution import Assignment, Run, Schedule, TaskPlacement
from alloc.schedulers.state import ClusterState, Decision
from alloc.simulation import SimulationResult, metrics_of, simulate
from alloc.topology import Host, HostType, flat_cluster
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup

HOST = HostType("box", num_gpus=2, gpu_type="h100")
ON_EACH = Configuration((TaskGroup("worker", 2, 2000),), 1.0)
"""Both GPUs of two hosts, one second of work a second."""
ON_ONE = Configuration((TaskGroup("worker", 1, 2000),), 1.0)


def job(name: str = "a", work: float = 100.0, **fields: object) -> Job:
    fields = {"arrival_s": 0.0, "configurations": (ON_ONE,), "elasticity": "rigid", **fields}
    return Job(name, work=work, **fields)  # type: ignore[arg-type]


def world(*jobs: Job, hosts: int = 1, **fields: object) -> Instance:
    return Instance("w", flat_cluster("c", HOST, hosts), jobs, **fields)  # type: ignore[arg-type]


def spans(result: SimulationResult, name: str = "a") -> list[tuple[float, float]]:
    return [(run.start_s, run.end_s) for run in result.schedule.runs_of[name]]


@pytest.mark.parametrize(
    ("checkpoint_s", "completes_s", "lost_gpu_s"),
    [
        # Runs 0-50, waits until 60, restarts until 65, and has 100, 60 or 50 s left.
        (None, 165.0, 100.0),
        (40.0, 125.0, 20.0),
        (0.0, 115.0, 0.0),
        (50.0, 115.0, 0.0),
        (50.1, 165.0, 100.0),
    ],
)
def test_what_a_run_loses(
    checkpoint_s: float | None, completes_s: float, lost_gpu_s: float
) -> None:
    """It goes back to its last save, waits for the repair, and pays its restart."""
    instance = world(
        job(restart_cost_s=5.0, checkpoint_s=checkpoint_s), outages=(Outage("host-0", 50.0, 60.0),)
    )
    result = simulate(instance, "fifo")
    assert result.completion_s["a"] == completes_s
    assert (result.failures, result.restarts, result.lost_gpu_s) == (1, 1, lost_gpu_s)
    assert spans(result) == [(0.0, 50.0), (60.0, completes_s)]
    found = metrics_of(result)
    assert found.lost_gpu_h == lost_gpu_s / 3600
    # Both GPUs are held whenever their host is up.
    assert found.utilisation == pytest.approx(1.0)


def test_a_restart_that_fails_is_paid_again() -> None:
    """The second failure falls into the restart: nothing is lost by it but its time."""
    instance = world(
        job(restart_cost_s=20.0, checkpoint_s=10.0),
        outages=(Outage("host-0", 50.0, 60.0), Outage("host-0", 70.0, 75.0)),
    )
    result = simulate(instance, "fifo")
    assert spans(result) == [(0.0, 50.0), (60.0, 70.0), (75.0, 145.0)]
    assert (result.failures, result.lost_gpu_s) == (2, 0.0)


def test_a_gang_stops_with_the_first_of_its_hosts_and_goes_elsewhere() -> None:
    """The other host is free at once; the gang needs two that are up."""
    instance = world(
        job(configurations=(ON_EACH,), checkpoint_s=0.0),
        job("b", 10.0, arrival_s=1.0),
        hosts=3,
        outages=(Outage("host-1", 30.0, 500.0), Outage("host-2", 20.0)),
    )
    result = simulate(instance, "easy-backfill")
    assert spans(result) == [(0.0, 30.0), (500.0, 570.0)]
    assert result.completion_s["b"] == 11.0
    assert {task.host for task in result.schedule.runs_of["a"][1].tasks} == {"host-0", "host-1"}
    assert result.migrations == 0


def test_in_slots_a_run_fails_in_the_middle_of_a_slot() -> None:
    """The gang's other host idles to the end of the slot; a repair counts from the next slot."""
    instance = world(
        job(checkpoint_s=10.0, restart_cost_s=5.0),
        slot_s=20.0,
        outages=(Outage("host-0", 30.0, 31.0), Outage("host-0", 60.0, 65.0)),
    )
    result = simulate(instance, "fifo")
    # Done at 30: 30. From 40 to 60, restart 5 and 10 of 15 saved; from 80, restart 5 and 60 left.
    assert spans(result) == [(0.0, 30.0), (40.0, 60.0), (80.0, 160.0)]
    assert result.completion_s["a"] == 145.0
    assert (result.failures, result.lost_gpu_s) == (2, 10.0)


def test_a_job_that_is_done_before_its_host_goes_down_in_the_slot_is_done() -> None:
    """Its run ends with the host, and nothing has failed."""
    instance = world(job(work=5.0), slot_s=20.0, outages=(Outage("host-0", 10.0, 12.0),))
    result = simulate(instance, "fifo")
    assert (spans(result), result.completion_s["a"], result.failures) == ([(0.0, 10.0)], 5.0, 0)


@pytest.mark.parametrize("slot_s", [None, 10.0])
def test_a_job_that_completes_as_its_host_goes_down_is_done(slot_s: float | None) -> None:
    """Completions come first."""
    instance = world(job(), slot_s=slot_s, outages=(Outage("host-0", 100.0),))
    result = simulate(instance, "fifo")
    assert (result.completion_s["a"], result.failures) == (100.0, 0)


@pytest.mark.parametrize("slot_s", [None, 10.0])
@pytest.mark.parametrize("preemptible", [True, False])
def test_what_ran_before_on_a_host_that_is_down_at_the_start_waits(
    slot_s: float | None, preemptible: bool
) -> None:
    """It has what it had done, pays its restart, and may pause even if not preemptible."""
    instance = world(
        job(work_done=40.0, restart_cost_s=5.0, preemptible=preemptible),
        slot_s=slot_s,
        running=(Assignment("a", 0, (TaskPlacement("host-0", "worker", 1),)),),
        outages=(Outage("host-0", 0.0, 30.0),),
    )
    result = simulate(instance, "fifo")
    assert result.completion_s["a"] == 95.0
    assert (result.failures, result.restarts) == (0, 1)


def test_a_job_that_must_not_pause_may_fail() -> None:
    """And no scheduler is blamed for the pause."""
    instance = world(job(preemptible=False), outages=(Outage("host-0", 50.0, 60.0),))
    assert simulate(instance, "fifo").completion_s["a"] == 160.0


@pytest.mark.parametrize("slot_s", [None, 10.0])
def test_where_no_host_is_left_jobs_stay_unfinished(slot_s: float | None) -> None:
    """That is an outcome of the hosts, and no stall of the scheduler."""
    instance = world(job(), slot_s=slot_s, outages=(Outage("host-0", 50.0),))
    result = simulate(instance, "fifo")
    assert (result.unfinished, result.failures) == (("a",), 1)
    two = world(job(configurations=(ON_EACH,)), hosts=2, slot_s=slot_s, outages=instance.outages)
    assert simulate(two, "fifo").unfinished == ("a",)


def test_schedulers_see_a_host_go_down_when_it_does() -> None:
    """Before it is like any other; then it offers nothing, in pool and topology."""
    seen: list[tuple[float, int, int]] = []

    def watch(state: ClusterState) -> Decision:
        seen.append((state.now_s, int(state.pool.free[:, 0].sum()), state.topology.num_gpus))
        return Decision(wake_s=state.now_s + 25.0 if state.now_s < 100.0 else None)

    instance = world(job(), hosts=2, outages=(Outage("host-1", 40.0, 80.0),))
    simulate(instance, watch, max_time_s=101.0)
    assert (
        seen
        == [
            (0.0, 4000, 4),
            (25.0, 4000, 4),
            (50.0, 2000, 2),
            (75.0, 2000, 2),
            (80.0, 4000, 4),
            (105.0, 4000, 4),
        ][: len(seen)]
    )
    assert len(seen) >= 5


@pytest.mark.parametrize("slot_s", [None, 10.0])
def test_a_decision_for_a_host_that_is_down_is_refused(slot_s: float | None) -> None:
    """In the words of the checker."""

    def stubborn(state: ClusterState) -> Decision:
        tasks = (TaskPlacement("host-0", "worker", 1),)
        return Decision(assign=tuple(Assignment(view.id, 0, tasks) for view in state.waiting))

    instance = world(job(), hosts=2, slot_s=slot_s, outages=(Outage("host-0", 0.0, 30.0),))
    with pytest.raises(SimulationError, match='"host-0", which is down from 0 s until 30 s'):
        simulate(instance, stubborn)


def test_the_checker_knows_outages_by_itself() -> None:
    """A run across an outage breaks a rule, by as long as it lasts; one beside it does not."""
    instance = world(job(), hosts=2, outages=(Outage("host-0", 50.0, 60.0),))

    def found(*runs: tuple[float, float, str]) -> list[tuple[str, float]]:
        made = [Run("a", 0, s, e, (TaskPlacement(h, "worker", 1),)) for s, e, h in runs]
        return [(v.code, v.amount) for v in verify(instance, Schedule(tuple(made)))]

    assert found((0.0, 100.0, "host-0")) == [("host_down", 10.0)]
    assert found((0.0, 100.0, "host-1")) == []
    assert found((60.0, 160.0, "host-0")) == []
    # Stopped in order before it fails, it keeps its work; stopped by the failure, it does not.
    assert found((0.0, 49.0, "host-0"), (60.0, 111.0, "host-0")) == []
    assert found((0.0, 50.0, "host-0"), (60.0, 111.0, "host-0")) == [("incomplete", 49.0)]


@pytest.mark.parametrize(
    ("outages", "sentence"),
    [
        ((Outage("host-9", 1.0),), 'an outage is of host "host-9", which is not in the topology'),
        (
            (Outage("host-0", 1.0, 5.0), Outage("host-0", 4.0)),
            "goes down at 4 s, but is down since",
        ),
        ((Outage("host-0", 1.0), Outage("host-0", 9.0)), "goes down at 9 s, but is down since 1 s"),
    ],
)
def test_outages_that_contradict_the_instance(outages: tuple[Outage, ...], sentence: str) -> None:
    """One sentence each."""
    with pytest.raises(InstanceError, match=sentence):
        world(job(), outages=outages)


@pytest.mark.parametrize(
    ("start_s", "end_s", "sentence"),
    [
        (-1.0, None, "start_s"),
        (5.0, 5.0, "is over at 5 s, not after it begins at 5 s"),
        (0.0, float("inf"), "end_s"),
        (float("nan"), None, "start_s"),
    ],
)
def test_outages_that_make_no_sense(start_s: float, end_s: float | None, sentence: str) -> None:
    """One sentence each."""
    with pytest.raises(InstanceError, match=sentence):
        Outage("host-0", start_s, end_s)


WORLDS = (
    generate_elastic("e", num_jobs=5, num_hosts=4, max_workers=3, max_ps=3),
    generate_gangs("g", num_jobs=25, num_hosts=3, gpus={1: 1, 4: 1, 8: 2}, seed=3),
)


@pytest.mark.parametrize("instance", WORLDS, ids=lambda i: i.name)
@pytest.mark.parametrize("name", ["fifo", "srtf", "easy-backfill", "drf"])
def test_outages_before_the_first_arrival_are_fewer_hosts_afterwards(
    instance: Instance, name: str
) -> None:
    """Hosts that never come back are not there: the same jobs end at the same times."""
    last = instance.topology.hosts[-1].id
    late = tuple(
        job.replace(arrival_s=job.arrival_s + 1200.0, restart_cost_s=30.0) for job in instance.jobs
    )
    instance = instance.replace(jobs=late)
    down = simulate(instance.replace(outages=(Outage(last, 600.0),)), name)
    fewer = instance.topology.replace(hosts=instance.topology.hosts[:-1])
    assert down.completion_s == simulate(instance.replace(topology=fewer), name).completion_s


@pytest.mark.parametrize("slot_s", [None, 60.0])
@pytest.mark.parametrize("name", ["fifo", "srtf", "las", "drf", "tetris", "best-fit"])
def test_an_outage_of_a_host_on_which_nothing_runs_changes_nothing(
    slot_s: float | None, name: str
) -> None:
    """Bit for bit, and nobody is asked because of it: the host is too small for any job."""
    spare = Host("spare", "spare")
    instance = WORLDS[1].replace(slot_s=slot_s)
    larger = instance.topology.replace(
        host_types=(*instance.topology.host_types, HostType("spare", cpu_milli=1000)),
        hosts=(*instance.topology.hosts, spare),
    )
    instance = instance.replace(topology=larger)
    before = simulate(instance, name)
    after = instance.replace(outages=(Outage("spare", 301.0),))
    found = simulate(after, name)
    assert found.schedule == before.schedule
    assert len(found.decision_s) == len(before.decision_s)


def test_a_later_repair_never_helps_a_lone_job() -> None:
    """Its completion rises with the end of the outage, on one host and on two."""
    for hosts in (1, 2):
        ends = [
            simulate(
                world(
                    job(configurations=(ON_EACH if hosts == 2 else ON_ONE,), checkpoint_s=30.0),
                    hosts=hosts,
                    outages=(Outage("host-0", 50.0, end_s),),
                ),
                "fifo",
            ).completion_s["a"]
            for end_s in (50.5, 60.0, 99.0, 1000.0)
        ]
        assert ends == sorted(ends)


@pytest.mark.parametrize("slot_s", [1.0, None])
def test_while_no_host_is_up_time_passes_at_once(slot_s: float | None) -> None:
    """An outage of years is one step, in slots too, and the time that was asked for is reached."""
    years_s = 3e9
    jobs = (job("a", 5.0), job("b", 5.0, arrival_s=30.0))
    down = world(*jobs, slot_s=slot_s, outages=(Outage("host-0", 0.0, years_s),))
    assert dict(simulate(down, "fifo").completion_s) == {"a": years_s + 5, "b": years_s + 10}
    stopped = simulate(down, "fifo", max_time_s=1000.0)
    assert (stopped.end_s, set(stopped.unfinished)) == (1000.0, {"a", "b"})
