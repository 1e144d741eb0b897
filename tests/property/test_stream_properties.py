"""Streams: the loop over plain gangs against the clock of events, host classes against hosts."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alloc.errors import SimulationError
from alloc.packing import HostPool
from alloc.packing.host_classes import HostClasses
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.job_columns import JobTimes
from alloc.problems.allocation.outages import Outage
from alloc.problems.allocation.run_columns import RunColumns
from alloc.problems.allocation.solution import Assignment, RunTable, Schedule
from alloc.schedulers import make_scheduler
from alloc.schedulers.edf import Edf
from alloc.schedulers.fifo import Fifo
from alloc.schedulers.srtf import Srtf
from alloc.schedulers.state import Scheduler
from alloc.simulation import Simulation, SimulationResult, simulate
from alloc.simulation.engine import StreamRecord
from alloc.simulation.stream import stream_of
from alloc.simulation.waiting import ByRank
from alloc.topology import Host, HostType, Topology, flat_cluster
from alloc.verification import verify
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup, rigid_gang
from alloc.workload.stages import Stage

relaxed = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32).map(random.Random)


class Watched(Fifo):
    """The same rule; a class of its own goes the way of all other schedulers."""


class WatchedSrtf(Srtf):
    """The same."""


class WatchedEdf(Edf):
    """The same."""


def cluster(rng: random.Random) -> Topology:
    """Return some hosts of up to three types, in any order."""
    kinds = [
        HostType(
            f"kind-{k}",
            rng.randint(1, 4),
            rng.choice(("v100", "a100")),
            rng.choice((8, 12)) * 1000,
            rng.choice((0, 4096, 6000)),
        )
        for k in range(rng.randint(1, 3))
    ]
    hosts = tuple(Host(f"host-{h}", rng.choice(kinds).name) for h in range(rng.randint(1, 9)))
    return Topology("cluster", tuple(kinds), hosts, (), ())


def gang(rng: random.Random, topology: Topology) -> Configuration:
    """Return a gang of whole GPUs whose single tasks fit on some host."""
    host = topology.host_type(rng.choice(topology.hosts))
    groups = [
        TaskGroup(
            role,
            rng.randint(1, 5),
            1000 * rng.randint(0, min(host.num_gpus, 2)),
            rng.choice((0, 1000, 1500, 3000)),
            rng.choice((0, 0, host.memory_mib // 2, host.memory_mib // 3)),
        )
        for role in ("worker", "reader")[: rng.choice((1, 1, 2))]
    ]
    kind = rng.choice((None, None, host.gpu_type))
    return Configuration(tuple(groups), rng.choice((0.5, 1.0, 1 / 3, 7.0)), kind)


def stream(rng: random.Random) -> Instance:
    """Return jobs that start and end, many of one kind, at times that often coincide."""
    topology = cluster(rng)
    pool = HostPool(topology)
    tables: list[tuple[Configuration, ...]] = []
    while len(tables) < rng.randint(1, 4):
        table = tuple(gang(rng, topology) for _ in range(rng.choice((1, 1, 3))))
        able = [pool.place(c) is not None for c in table]
        pool.reset()
        if all(able):
            tables.append(table)
    jobs = []
    for j in range(rng.randint(1, 30)):
        table = rng.choice(tables)
        work = rng.choice((1.0, 5.0, 10.0, 0.1, 1e6 / 3))
        jobs.append(
            Job(
                f"job-{j}",
                rng.choice((0.0, 5.0, 10.0, 10.0, 17.3)),
                work,
                table,
                elasticity="rigid" if len(table) == 1 else "moldable",
                preemptible=rng.random() < 0.5,
                restart_cost_s=rng.choice((0.0, 0.7)),
                work_done=rng.choice((0.0, 0.0, work / 3)),
                deadline_s=rng.choice((None, 20.0)),
            )
        )
    return Instance("stream", topology, tuple(jobs))


def told(result: SimulationResult) -> dict[str, object]:
    """Return all that a simulation says but the time that its decisions took."""
    said = {f.name: getattr(result, f.name) for f in dataclasses.fields(result)}
    return {**said, "decision_s": len(result.decision_s)}


@relaxed
@given(rng=seeds, skip=st.booleans(), max_time_s=st.sampled_from((None, None, 5.0, 12.0, 23.0)))
def test_the_loop_of_streams_says_what_the_clock_of_events_says(
    rng: random.Random, skip: bool, max_time_s: float | None
) -> None:
    """Hosts, times, counts, and the reasons of what did not complete, to the last digit."""
    instance = stream(rng)
    policy = Fifo(skip=skip)
    assert stream_of(Simulation(instance)._engine, policy) is not None
    calls: list[list[tuple[int, int]]] = [[], []]

    def progress(k: int) -> Callable[[int, int], None]:
        return lambda complete, of: calls[k].append((complete, of))

    one = simulate(instance, policy, max_time_s=max_time_s, progress=progress(0))
    other = simulate(instance, Watched(skip=skip), max_time_s=max_time_s, progress=progress(1))
    assert told(one) == told(other)
    if max_time_s is None:
        assert calls[0] == calls[1]


RANKED: list[tuple[Callable[[], Scheduler], Callable[[], Scheduler]]] = [
    (Srtf, WatchedSrtf),
    (lambda: Srtf(by="fraction"), lambda: WatchedSrtf(by="fraction")),
    (Edf, WatchedEdf),
]


@pytest.mark.long
@settings(relaxed, max_examples=120)
@given(
    rng=seeds,
    rule=st.sampled_from(RANKED),
    max_time_s=st.sampled_from((None, None, 5.0, 23.0)),
    knowledge=st.sampled_from(("exact", "estimate")),
)
def test_the_loop_serves_by_rank_as_the_clock_of_events_does(
    rng: random.Random, rule: Any, max_time_s: float | None, knowledge: Any
) -> None:
    """Shortest jobs and earliest deadlines first, some of them lost while they wait."""
    made = stream(rng)
    deadlines = (None, 18.0, 20.0, 30.0, 1e6)
    instance = made.replace(
        jobs=tuple(
            job.replace(preemptible=False, deadline_s=rng.choice(deadlines)) for job in made.jobs
        )
    )
    quick, slow = rule[0](), rule[1]()
    assert stream_of(Simulation(instance, knowledge=knowledge)._engine, quick) is not None
    assert stream_of(Simulation(instance, knowledge=knowledge)._engine, slow) is None
    limits = {"max_time_s": max_time_s, "knowledge": knowledge}
    assert told(simulate(instance, quick, **limits)) == told(simulate(instance, slow, **limits))


def test_ranks_are_known_only_where_nobody_is_paused_and_work_is_seen_as_it_is() -> None:
    """All else goes by the clock of events."""
    jobs = tuple(
        Job(f"job-{j}", 0.0, 10.0, (rigid_gang(1),), preemptible=False, elasticity="rigid")
        for j in range(2)
    )
    plain = Instance("two", flat_cluster("c", HostType("h", 4, "v100", 8000, 0), 1), jobs)

    def is_stream(instance: Instance, policy: Scheduler, **options: Any) -> bool:
        return stream_of(Simulation(instance, **options)._engine, policy) is not None

    def with_first(**changes: Any) -> Instance:
        return plain.replace(jobs=(jobs[0].replace(**changes), jobs[1]))

    assert is_stream(plain, Srtf(), knowledge="estimate")
    assert is_stream(plain, Edf(), knowledge="exact")
    assert not is_stream(plain, Srtf(skip=False), knowledge="exact")
    assert not is_stream(plain, Srtf(), knowledge="none")
    assert not is_stream(plain, Srtf(), knowledge="estimate", work_error=0.5)
    assert not is_stream(plain, Srtf(), knowledge="estimate", seen_work={"job-1": 3.0})
    assert not is_stream(with_first(preemptible=True), Srtf(), knowledge="exact")
    refusable = with_first(refusable=True, deadline_s=5.0)
    assert not is_stream(refusable, Edf(), knowledge="exact")
    assert is_stream(refusable, Srtf(), knowledge="exact")


@relaxed
@given(rng=seeds)
def test_classes_of_hosts_place_as_hosts_do(rng: random.Random) -> None:
    """Gang after gang on the same hosts, with some given back, however many classes there are."""
    topology = cluster(rng)
    pool, classes = HostPool(topology), HostClasses(topology)
    classes._max_classes = rng.choice((3, 1000))  # what is dropped is looked at anew
    wanted = [gang(rng, topology) for _ in range(rng.randint(1, 6))]
    gangs = [classes.gang(configuration) for configuration in wanted]
    standing: list[Any] = []
    for _ in range(rng.randint(1, 60)):
        if standing and rng.random() < 0.4:
            k, tasks, placed = standing.pop(rng.randrange(len(standing)))
            pool.release(wanted[k], tasks)
            classes.release(gangs[k], placed)
        else:
            k = rng.randrange(len(wanted))
            tasks, placed = pool.place(wanted[k]), classes.place(gangs[k])
            assert (tasks is None) == (placed is None)
            if tasks is not None:
                found = [(topology.hosts[s.host].id, s.ask.role, s.count) for s in placed]
                assert found == [(task.host, task.role, task.count) for task in tasks]
                standing.append((k, tasks, placed))
        free = [classes.free(h) for h in range(topology.num_hosts)]
        assert free == [tuple(row) for row in pool.free.tolist()]
        assert classes.free_gpu == int(pool.free[:, 0].sum())


def test_ctrl_c_keeps_what_happened() -> None:
    """Runs until then are kept, ended where it came, and pass the checker."""
    instance = stream(random.Random(7))
    total = simulate(instance, Fifo())

    def interrupt(complete: int, of: int) -> None:
        if complete == of // 2:
            raise KeyboardInterrupt

    kept = simulate(instance, Fifo(), progress=interrupt, keep_interrupted=True)
    assert kept.notes == {"interrupted": 1.0}
    assert kept.verified
    assert 0 < len(kept.unfinished) < len(instance.jobs)
    for job, end_s in kept.completion_s.items():
        assert end_s in (None, total.completion_s[job])
    assert max(run.end_s for run in kept.schedule.runs) <= kept.end_s < total.end_s
    with pytest.raises(KeyboardInterrupt):
        simulate(instance, Fifo(), progress=interrupt)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("looks", [1, 2, 3, 6])
def test_ctrl_c_in_the_middle_of_a_decision_keeps_the_others(
    looks: int, skip: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is decided, and when it has been but nobody knows yet how long that took."""
    instance, clock, left = stream(random.Random(7)), time.perf_counter, looks
    total = simulate(instance, Fifo(skip=skip))

    def interrupted() -> float:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        return clock()

    monkeypatch.setattr(time, "perf_counter", interrupted)
    kept = simulate(instance, Fifo(skip=skip), keep_interrupted=True)
    assert kept.notes == {"interrupted": 1.0}
    assert kept.verified
    assert kept.end_s < total.end_s
    assert len(kept.decision_s) <= len(total.decision_s)
    for job, end_s in kept.completion_s.items():
        assert end_s in (None, total.completion_s[job])


@pytest.mark.parametrize("entered", [False, True])
def test_ctrl_c_while_runs_are_entered_loses_none_of_them(
    entered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the runs are entered, or after, when the counts are there already."""
    instance = stream(random.Random(7))
    total = simulate(instance, Fifo())
    made = StreamRecord if entered else RunTable
    calls = 0

    def interrupted(*columns: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyboardInterrupt
        return made(*columns, **named)

    monkeypatch.setattr(f"alloc.simulation.stream.{made.__name__}", interrupted)
    simulation = Simulation(instance, decider="fifo")
    with pytest.raises(KeyboardInterrupt):
        simulation.run(Fifo())
    simulation.stop(interrupted=True)
    assert told(simulation.result()) == {**told(total), "notes": {"interrupted": 1.0}}
    assert calls == 2


@relaxed
@given(rng=seeds, max_time_s=st.sampled_from((None, 5.0, 12.0)), data=st.data())
def test_runs_in_columns_are_runs(
    rng: random.Random, max_time_s: float | None, data: st.DataObject
) -> None:
    """The checker's columns, copies, other processes and other instances see the same runs."""
    instance = stream(rng)
    schedule = simulate(instance, Fifo(), max_time_s=max_time_s, check=False).schedule
    sent, other = pickle.loads(pickle.dumps(schedule)), schedule.lazy_runs
    assert "runs" in vars(sent)
    assert isinstance(other, RunTable)
    fast = RunColumns(instance, other)
    slow = RunColumns(instance, sent.runs)
    assert schedule == sent == copy.copy(schedule) == dataclasses.replace(schedule)
    assert len(other) == len(sent.runs)
    assert [fast.kinds[k] for k in fast.kind] == [slow.kinds[k] for k in slow.kind]
    for name in (
        "job",
        "start_s",
        "end_s",
        "task_run",
        "task_host",
        "task_group",
        "task_count",
        "demand",
        "well_placed",
    ):
        assert np.array_equal(getattr(fast, name), getattr(slow, name)), name
    assert verify(instance, schedule) == verify(instance, sent)
    # Of the same jobs in another order, it reads the runs themselves.
    turned = dataclasses.replace(instance, jobs=instance.jobs[::-1])
    assert verify(turned, schedule) == verify(turned, sent)
    if other:
        k = data.draw(st.integers(0, len(other) - 1))
        early_s = np.where(np.arange(len(other)) == k, -7.0, other.start_s)
        wrong = dataclasses.replace(other, start_s=early_s)
        codes = {v.code for v in verify(instance, Schedule.of_table(wrong, {}))}
        assert "before_arrival" in codes
    with pytest.raises(AttributeError, match="nothing"):
        getattr(schedule, "nothing")  # noqa: B009


@relaxed
@given(rng=seeds, max_time_s=st.sampled_from((None, 5.0, 12.0)))
def test_times_in_a_column_are_a_mapping(rng: random.Random, max_time_s: float | None) -> None:
    """As mappings they are what they are said to be, also in another process."""
    instance = stream(rng)
    found = simulate(instance, Fifo(), max_time_s=max_time_s)
    plain = simulate(instance, Watched(), max_time_s=max_time_s)
    for own, same in (
        (found.start_s, dict(plain.start_s)),
        (found.completion_s, dict(plain.completion_s)),
    ):
        assert isinstance(own, JobTimes)
        assert list(own.items()) == list(same.items())
        assert own == same == own == copy.copy(own) == pickle.loads(pickle.dumps(own))
        assert len(own) == len(instance.jobs)
        assert own.num_missing == list(same.values()).count(None)
        assert repr(own) == repr(same)
        last = instance.jobs[-1].id
        later = {**same, last: (same[last] or 0.0) + 1.0}
        assert own != later
        assert own != JobTimes(own.ids, np.array([t or np.nan for t in later.values()]))
        assert "nobody" not in own


def test_the_check_finds_a_time_that_is_not_that_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job that ends a little later than its run says is a bug of the simulator."""
    instance = stream(random.Random(7))

    def late(ids: Any, column_s: Any) -> JobTimes:
        return JobTimes(ids, np.nextafter(column_s, np.inf))

    monkeypatch.setattr("alloc.simulation.stream.JobTimes", late)
    with pytest.raises(SimulationError, match="the simulator completes it at"):
        simulate(instance, Fifo())


@relaxed
@given(rng=seeds, by_hand=st.integers(0, 4), ends=st.booleans())
def test_what_began_by_hand_goes_on_with_the_clock(
    rng: random.Random, by_hand: int, ends: bool
) -> None:
    """Some decisions are taken one by one before a scheduler runs the rest; none after the end."""
    instance, policy = stream(rng), Fifo()
    total = simulate(instance, policy)
    simulation = Simulation(instance, decider="fifo")
    policy.reset()
    for _ in range(by_hand):
        if (state := simulation.next_decision()) is not None:
            simulation.apply(policy.decide(state))
    if ends and not simulation.over:
        simulation.stop()
        complete = simulation.num_complete
        simulation.run(policy)
        assert simulation.num_complete == complete
    else:
        simulation.run(policy)
        assert told(simulation.result()) == told(total)


HOST = flat_cluster("two", HostType("h", 2, "v100", 8000, 0), 2)
DISKS = flat_cluster("two", HostType("h", 2, "v100", 8000, 0, resources={"disk": 2}), 2)
STORED = Configuration((TaskGroup("worker", 1, 1000, resources={"disk": 1}),), 1.0)
PLAIN = Job("a", 0.0, 5.0, (rigid_gang(1),), elasticity="rigid")
WITHIN = dataclasses.replace(rigid_gang(1), within="host")
STAGE = Stage("s", 5.0, (rigid_gang(1),))
SHARE = Configuration((TaskGroup("worker", 1, 500),), 1.0)
SERVED = Configuration((TaskGroup("worker", 1, 1000), TaskGroup("ps", 1, 0, 1000)), 1.0)


@pytest.mark.parametrize(
    "instance",
    [
        Instance("slots", HOST, (PLAIN,), slot_s=5.0),
        Instance("tenants", HOST, (PLAIN,), tenants=(Tenant("t", 1000),)),
        Instance("outages", HOST, (PLAIN,), outages=(Outage(HOST.hosts[0].id, 1.0, 2.0),)),
        Instance("running", HOST, (PLAIN,), running=(Assignment("a", 0),)),
        Instance("shares", HOST, (PLAIN.replace(configurations=(SHARE,)),)),
        Instance("tasks", HOST, (PLAIN.replace(configurations=(SERVED,), elasticity="malleable"),)),
        Instance("resources", DISKS, (PLAIN.replace(configurations=(STORED,)),)),
        Instance("within", HOST, (PLAIN.replace(configurations=(WITHIN,)),)),
        Instance("rules", HOST, (PLAIN.replace(placement=PlacementRules(required="host")),)),
        Instance("stages", HOST, (Job("s", 0.0, 0.0, (), stages=(STAGE,)),)),
    ],
    ids=lambda instance: instance.name,
)
def test_what_the_loop_does_not_know_is_left_to_the_clocks(instance: Instance) -> None:
    """It says so before anything happens, and the simulation goes its usual way."""
    assert stream_of(Simulation(instance)._engine, Fifo()) is None
    assert simulate(instance, Fifo()).unfinished == ()


def test_other_rules_are_asked_themselves() -> None:
    """Schedulers of other classes, watched ones, and those of DL2 decide event by event."""
    plain = Instance("plain", HOST, (PLAIN,))
    watched = Fifo()
    watched.watch = lambda job, role: None
    for policy in (make_scheduler("srtf"), Watched(), watched, Fifo(rules="dl2")):
        assert stream_of(Simulation(plain)._engine, policy) is None
    assert stream_of(Simulation(plain)._engine, Fifo()) is not None


def test_columns_of_jobs_are_not_sent_to_other_processes() -> None:
    """What a copy is sent is as long after a simulation as before; it reads its columns again."""
    instance = stream(random.Random(3))
    before = len(pickle.dumps(instance))
    result = simulate(instance, Fifo())
    assert "job_columns" in vars(instance)
    sent = pickle.loads(pickle.dumps(instance))
    assert "job_columns" not in vars(sent)
    assert len(pickle.dumps(sent)) <= before + 200  # flags that were worked out
    assert sent == instance
    assert told(simulate(sent, Fifo())) == told(result)


def test_each_kind_of_waiting_jobs_is_looked_at_once_a_decision() -> None:
    """As many kinds as jobs, none of which fits, cost a look each, not one for every other."""

    class Counted(set[int]):
        looks = 0

        def __contains__(self, kind: object) -> bool:
            self.looks += 1
            return super().__contains__(kind)

    num_kinds = 50
    waiting = ByRank([float(-j) for j in range(num_kinds)])
    for j in range(num_kinds):
        waiting.add(j, j)
    misfits = Counted()
    waiting.open(misfits, 0.0)
    served = []
    while (j := waiting.first()) >= 0:
        served.append(j)
        waiting.pass_over()
    assert served == list(range(num_kinds))[::-1]
    assert misfits.looks == num_kinds
    waiting.open({num_kinds - 1}, 0.0)
    assert waiting.first() == num_kinds - 2
    waiting.take()
    assert waiting.first() == num_kinds - 3
