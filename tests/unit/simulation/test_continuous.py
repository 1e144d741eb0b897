"""The clock of continuous time, on cases small enough for paper."""

from __future__ import annotations

import pytest

from alloc.errors import SimulationError
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers import ClusterState, Decision, Knowledge, make_scheduler
from alloc.simulation import simulate
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang

HOSTS = flat_cluster("two", HostType("h", 2, "generic", 8000, 0), 2)


def gang(job_id: str, arrival_s: float, work: float, gpus: int, **changes: object) -> Job:
    return Job(job_id, arrival_s, work, (rigid_gang(gpus),), elasticity="rigid").replace(**changes)


def stream(*jobs: Job, **changes: object) -> Instance:
    return Instance("stream", HOSTS, jobs).replace(**changes)


def on(job: str, host: str = "host-0", configuration: int = 0, count: int = 1) -> Assignment:
    return Assignment(job, configuration, (TaskPlacement(host, "worker", count),))


class ByTime:
    """A policy with a decision for some times, and nothing to say at others."""

    name = "by-time"
    needs: Knowledge = "none"
    information = "a timetable"

    def __init__(self, timetable: dict[float, Decision]) -> None:
        self._timetable = timetable
        self.times: list[float] = []
        self.free: list[int] = []
        self.seen: list[dict[str, tuple[float | None, float]]] = []

    def reset(self) -> None:
        self.times.clear()

    def decide(self, state: ClusterState) -> Decision:
        self.times.append(state.now_s)
        self.free.append(int(state.pool.free[:, 0].sum()))
        self.seen.append({v.id: (v.work_left, v.attained_gpu_s) for v in state.jobs})
        # Taking from the pool is a scheduler's right, and must not leak into the next decision.
        state.pool.free[:] = 0
        return self._timetable.get(state.now_s, Decision())


def test_fifo_by_hand() -> None:
    """Strict FIFO: the four-GPU gang at the head waits, and the small job behind it waits too."""
    instance = stream(
        gang("a", 0.0, 10.0, 2),
        gang("b", 1.0, 5.0, 4),
        gang("c", 2.0, 1.0, 1),
        gang("d", 2.0, 3.0, 1),
    )
    result = simulate(instance, make_scheduler("fifo"))
    assert result.start_s == {"a": 0.0, "b": 10.0, "c": 15.0, "d": 15.0}
    assert result.completion_s == {"a": 10.0, "b": 15.0, "c": 16.0, "d": 18.0}
    skipping = simulate(instance, make_scheduler("fifo", skip=True))
    assert skipping.start_s == {"a": 0.0, "b": 10.0, "c": 2.0, "d": 2.0}
    times, gpus = result.gpus_in_use
    assert dict(zip(times.tolist(), gpus.tolist(), strict=True)) == {
        0.0: 2, 10.0: 4, 15.0: 2, 16.0: 1, 18.0: 0
    }  # fmt: skip


def test_decisions_change_only_what_they_name() -> None:
    """Everything that a decision leaves out runs on; a pause and a move cost a restart each."""
    policy = ByTime(
        {
            0.0: Decision((on("a"), on("b"))),
            4.0: Decision((on("c", "host-1"),), release=("a",)),
            6.0: Decision((on("a", "host-1"),)),
        }
    )
    instance = stream(
        gang("a", 0.0, 10.0, 1, restart_cost_s=1.0),
        gang("b", 0.0, 20.0, 1),
        gang("c", 4.0, 2.0, 1),
    )
    result = simulate(instance, policy)
    # a: 4 s done, resumes at 6, loses 1 s, has 6 s to go.
    assert result.completion_s == {"a": 13.0, "b": 20.0, "c": 6.0}
    assert (result.restarts, result.migrations) == (1, 1)
    assert policy.times == [0.0, 4.0, 6.0, 13.0]
    assert policy.free == [4000, 2000, 3000, 3000]
    assert policy.seen[1] == {"a": (6.0, 4.0), "b": (16.0, 4.0), "c": (2.0, 0.0)}
    assert policy.seen[2]["a"] == (6.0, 4.0)


def test_what_ran_before_the_start_runs_on() -> None:
    """A running job needs no decision, and its hosts are taken from the first moment."""
    instance = stream(
        gang("a", 0.0, 5.0, 2, restart_cost_s=100.0),
        gang("b", 0.0, 5.0, 4),
        running=(on("a", "host-1", count=2),),
    )
    result = simulate(instance, make_scheduler("fifo"))
    assert result.completion_s == {"a": 5.0, "b": 10.0}
    assert result.restarts == 0
    stopped = simulate(
        instance, ByTime({0.0: Decision(release=("a",)), 5.0: Decision()}), max_time_s=5.0
    )
    assert [run.job for run in stopped.schedule.runs] == []


def test_running_without_hosts_resumes_at_a_cost() -> None:
    """Where nothing says which hosts a job was on, no hosts can be the same ones."""
    job = gang("a", 0.0, 5.0, 1, restart_cost_s=2.0)
    result = simulate(stream(job, running=(Assignment("a", 0),)), make_scheduler("fifo"))
    assert result.completion_s == {"a": 7.0}
    assert result.restarts == 1


def test_malleable_change_is_two_runs() -> None:
    """A change of configuration ends a run and begins another at the new rate."""
    table = (rigid_gang(1, rate=1.0), rigid_gang(2, rate=3.0))
    instance = stream(Job("a", 0.0, 10.0, table), gang("b", 4.0, 9.0, 1))
    policy = ByTime({0.0: Decision((on("a"),)), 4.0: Decision((on("a", "host-1", 1, 2), on("b")))})
    result = simulate(instance, policy)
    assert result.completion_s == {"a": 6.0, "b": 13.0}
    assert [run.end_s for run in result.schedule.runs_of["a"]] == [4.0, 6.0]


def test_stall_is_named() -> None:
    """Jobs wait, nothing runs and nothing is to come: that is the scheduler's fault."""
    with pytest.raises(SimulationError, match=r"by-time stalls at 3 s.*\"a\", \"b\""):
        simulate(stream(gang("a", 0.0, 1.0, 1), gang("b", 3.0, 1.0, 1)), ByTime({}))
    dead = (Configuration((TaskGroup("worker", 1, 1000),), 0.0), rigid_gang(1))
    policy = ByTime({0.0: Decision((on("a"),))})
    with pytest.raises(SimulationError, match="nothing runs to completion"):
        simulate(stream(Job("a", 0.0, 1.0, dead)), policy)
    stopped = simulate(stream(Job("a", 0.0, 1.0, dead)), policy, max_time_s=8.0)
    assert stopped.unfinished == ("a",)
    assert stopped.end_s == 8.0


def test_wake_up_calls() -> None:
    """A policy may ask to be woken, later than now, and not for ever without doing anything."""
    job = gang("a", 0.0, 10.0, 1)
    policy = ByTime({0.0: Decision((on("a"),), wake_s=2.5), 2.5: Decision()})
    assert simulate(stream(job), policy).completion_s == {"a": 10.0}
    assert policy.times == [0.0, 2.5]
    with pytest.raises(SimulationError, match="asks to be woken at 0 s, which is not later"):
        simulate(stream(job), ByTime({0.0: Decision(wake_s=0.0)}))

    class Sleeper(ByTime):
        def decide(self, state: ClusterState) -> Decision:
            return Decision(wake_s=state.now_s + 1.0)

    with pytest.raises(SimulationError, match="woken again and again"):
        simulate(stream(job), Sleeper({}))


def test_nobody_is_woken_while_the_system_is_empty() -> None:
    """A call for a moment at which all have left, and nobody has come, falls away; it never ends
    the simulation, nor keeps it for ever."""
    jobs = (gang("a", 0.0, 1.0, 1), gang("b", 10.0, 1.0, 1))
    policy = ByTime(
        {0.0: Decision((on("a"),), wake_s=5.0), 10.0: Decision((on("b"),), wake_s=99.0)}
    )
    result = simulate(stream(*jobs), policy)
    assert result.completion_s == {"a": 1.0, "b": 11.0}
    assert result.end_s == 11.0
    assert policy.times == [0.0, 10.0]
    assert simulate(stream(*jobs), make_scheduler("las")).completion_s == {"a": 1.0, "b": 11.0}
    late = stream(jobs[0], gang("b", 1e5, 1.0, 1))
    assert simulate(late, make_scheduler("las")).completion_s == {"a": 1.0, "b": 1e5 + 1}


def test_max_time_cuts_runs() -> None:
    """Stopped in the middle of a run, the schedule ends there and is checked as it is."""
    result = simulate(stream(gang("a", 0.0, 10.0, 1)), make_scheduler("fifo"), max_time_s=4.0)
    assert [run.end_s for run in result.schedule.runs] == [4.0]
    assert result.unfinished == ("a",)


def test_completion_late_in_time_is_complete() -> None:
    """Three years in, the sum of start and duration rounds; the checker still finds all work."""
    start = 1e8 + 1 / 3
    jobs = [gang(f"j{k}", start + k * 1e-3, 1e-3 * (k + 1) / 7, 1) for k in range(50)]
    result = simulate(stream(*jobs), make_scheduler("fifo"))
    assert result.unfinished == ()


def test_las_demotes_on_time() -> None:
    """The long job gives way after its threshold of GPU time, and not before.

    Four GPUs, two jobs of four: a reaches 40 GPU s at 10 s, where b, with less, takes its place
    until it has had as much; then a goes first again, as it arrived first.
    """
    instance = stream(gang("a", 0.0, 30.0, 4), gang("b", 2.0, 15.0, 4))
    result = simulate(instance, make_scheduler("las", threshold_gpu_s=40.0))
    runs = [(r.job, r.start_s, r.end_s) for r in result.schedule.runs]
    assert runs == [("a", 0.0, 10.0), ("a", 20.0, 40.0), ("b", 10.0, 20.0), ("b", 40.0, 45.0)]


def test_srtf_by_time_preempts_and_resumes() -> None:
    """A shorter job takes the GPUs at once; the longer one goes on afterwards where it left off."""
    instance = stream(gang("a", 0.0, 10.0, 4), gang("b", 2.0, 3.0, 4), gang("c", 3.0, 30.0, 4))
    result = simulate(instance, make_scheduler("srtf"))
    assert result.completion_s == {"b": 5.0, "a": 13.0, "c": 43.0}


def test_preemptive_policies_leave_running_jobs_on_their_hosts() -> None:
    """A newcomer goes to free hosts, although it is served before the job that runs on others."""
    instance = stream(gang("a", 0.0, 100.0, 2), gang("b", 1.0, 1.0, 2))
    result = simulate(instance, make_scheduler("srtf"))
    assert result.completion_s == {"a": 100.0, "b": 2.0}
    assert (result.restarts, result.migrations) == (0, 0)


def test_drf_shares_among_tenants() -> None:
    """The tenant with the smaller dominant share goes first, whoever arrived first."""
    jobs = [gang(f"red-{k}", 0.0, 10.0, 1, tenant="red") for k in range(6)]
    jobs += [gang(f"blue-{k}", 0.0, 10.0, 1, tenant="blue") for k in range(2)]
    result = simulate(stream(*jobs), make_scheduler("drf"))
    first = {job for job, start in result.start_s.items() if start == 0.0}
    assert first == {"red-0", "red-1", "blue-0", "blue-1"}


def test_optimus_grows_malleable_jobs_and_leaves_gangs_alone() -> None:
    """Gangs start in order; malleable jobs climb to the level whose gain is largest."""
    table = (rigid_gang(1, rate=1.0), rigid_gang(2, rate=1.9), rigid_gang(3, rate=1.8))
    instance = stream(gang("g", 0.0, 10.0, 1), Job("m", 0.0, 19.0, table))
    result = simulate(instance, make_scheduler("optimus"))
    assert result.completion_s == {"g": 10.0, "m": 10.0}


def test_tetris_packs_gangs_by_alignment() -> None:
    """Of two waiting gangs the one that lines up with what is free goes first."""
    instance = stream(gang("small", 0.0, 10.0, 1), gang("large", 0.0, 10.0, 4))
    assert simulate(instance, make_scheduler("tetris")).start_s == {"small": 10.0, "large": 0.0}
    skipping = simulate(instance, make_scheduler("tetris", skip=True))
    assert skipping.start_s == {"small": 10.0, "large": 0.0}


def test_random_ps_serves_gangs_too() -> None:
    """Jobs without parameter servers climb by whole levels when they are drawn."""
    table = (rigid_gang(1, rate=1.0), rigid_gang(2, rate=2.0))
    instance = stream(Job("a", 0.0, 10.0, table), Job("b", 0.0, 10.0, table))
    result = simulate(instance, make_scheduler("random-ps"))
    assert result.completion_s == {"a": 5.0, "b": 5.0}
