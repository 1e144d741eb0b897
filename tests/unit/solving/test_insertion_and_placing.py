"""Schedules built job by job, and put on hosts slot by slot."""

from __future__ import annotations

import numpy as np
import pytest

from alloc.backends import SolverOptions
from alloc.models.malleable import slot_data
from alloc.models.malleable.placing import place_plan, plan_of
from alloc.models.malleable.profiles import IDLE, Profile
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, Run, Schedule, TaskPlacement
from alloc.solving.malleable.insertion import Builder, serial_horizon, total_cost
from alloc.solving.malleable.master import make_column, solve_integer_master
from alloc.solving.malleable.search import Search
from alloc.solving.outcome import Settings
from alloc.topology.host import Host, HostType
from alloc.topology.topology import Topology
from alloc.verification import verify
from alloc.workload import Configuration, Elasticity, Job, TaskGroup, rigid_gang


def cluster(*sizes: int) -> Topology:
    kinds = tuple(HostType(f"k{n}", n, "v100", 0, 0) for n in sorted(set(sizes)))
    return Topology("hosts", kinds, tuple(Host(f"h{i}", f"k{n}") for i, n in enumerate(sizes)))


def instance_of(topology: Topology, *jobs: Job, **options) -> Instance:
    return Instance("plan", topology, jobs, slot_s=10.0, **options)


def gang(name: str, size: int, work: float, **options) -> Job:
    return Job(name, 0.0, work, (rigid_gang(size),), **options)


def within_host(name: str, size: int, work: float) -> Job:
    tasks = (TaskGroup("worker", size, 1000),)
    return Job(name, 0.0, work, (Configuration(tasks, 1.0, within="host"),))


def running_world(seed: int) -> Instance:
    """Jobs that run on one host and may not pause, and others that would like their places."""
    rng = np.random.default_rng(seed)
    kinds: tuple[Elasticity, ...] = ("moldable", "malleable")
    jobs: list[Job] = []
    running: list[Assignment] = []
    left, used = 6, 0
    while left:
        now = int(rng.integers(1, left + 1))
        sizes = sorted({now, *rng.integers(1, 7, 2).tolist()})
        table = tuple(rigid_gang(n, rate=float(n) ** 0.9) for n in sizes)
        kind = kinds[rng.integers(2)]
        name = f"runs-{len(jobs)}"
        work = float(rng.uniform(5.0, 200.0))
        jobs.append(Job(name, 0.0, work, table, elasticity=kind, preemptible=False))
        task = TaskPlacement("h0", "worker", now, tuple(range(used, used + now)))
        running.append(Assignment(name, sizes.index(now), (task,)))
        left, used = left - now, used + now
    for k in range(3):
        table = (rigid_gang(int(rng.integers(1, 7))),)
        jobs.append(Job(f"waits-{k}", 0.0, 20.0, table, weight=100.0, preemptible=bool(k)))
    return instance_of(cluster(6), *jobs, running=tuple(running))


@pytest.mark.parametrize("objective", ["mean_jct", "weighted_jct", "makespan"])
@pytest.mark.parametrize("seed", range(12))
def test_what_runs_and_may_not_pause_keeps_its_place_in_the_first_schedule(seed, objective):
    """A job took more than it holds, in the place of another that must go on: no schedule at all.

    HiGHS was asked for one then, which a short limit left without an answer.
    """
    instance = running_world(seed)
    data = slot_data(instance, objective, ())
    lines: list[str] = []
    search = Search(data, objective, Settings(time_limit_s=300), None, lines.append)
    search.plan = search._first_plan()
    assert search.plan is not None
    assert verify(instance, search.schedule()) == []


class TestInsertion:
    def test_a_job_takes_the_first_slots_that_are_free(self):
        data = slot_data(instance_of(cluster(2), gang("a", 2, 20.0), gang("b", 1, 15.0)))
        builder = Builder(data, 8)
        plan = builder.insert_all([0, 1], builder.empty(), np.zeros((8, len(data.rows.names))))
        assert plan is not None
        assert plan[0].profile == Profile(0, (0, 0), 2.0)
        assert plan[1].profile == Profile(2, (0, 0), 3.5)
        assert total_cost(plan) == pytest.approx(5.5)

    def test_prices_move_a_job_to_cheaper_slots(self):
        """The value of capacity to later jobs: waiting costs 1 a slot, the first slot 3."""
        data = slot_data(instance_of(cluster(1), gang("a", 1, 10.0)))
        builder = Builder(data, 4)
        prices = np.zeros((4, len(data.rows.names)))
        prices[0] = 3.0 / 1000
        column = builder.insert(0, builder.empty(), prices)
        assert column is not None
        assert column.profile.start == 1

    def test_no_room_is_none(self):
        data = slot_data(instance_of(cluster(1), gang("a", 1, 20.0), gang("b", 1, 20.0)))
        builder = Builder(data, 3)
        free = np.zeros((3, len(data.rows.names)))
        assert builder.insert_all([0, 1], builder.empty(), free) is None

    def test_the_serial_horizon_holds_every_order(self):
        jobs = [gang(f"job-{k}", 1, 7.0 * (k + 1)) for k in range(4)]
        data = slot_data(instance_of(cluster(1), *jobs))
        num_slots = serial_horizon(data)
        builder = Builder(data, num_slots)
        free = np.zeros((num_slots, len(data.rows.names)))
        for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
            assert builder.insert_all(order, builder.empty(), free) is not None

    def test_giving_back_undoes_taking(self):
        data = slot_data(instance_of(cluster(3), gang("a", 2, 30.0)))
        builder = Builder(data, 5)
        room = builder.empty()
        column = make_column(data, 0, Profile(1, (0, IDLE, 0, 0), 5.0))
        builder.take(room, column)
        assert room[:, 0].tolist() == [3000, 1000, 3000, 1000, 1000]
        builder.give_back(room, column)
        assert (room == builder.empty()).all()

    def test_the_integer_master_takes_the_best_fitting_choice(self):
        """Two jobs on one GPU: the heavy one first, although both would like slot 0."""
        jobs = (gang("a", 1, 10.0), gang("b", 1, 10.0, weight=3.0))
        data = slot_data(instance_of(cluster(1), *jobs))
        columns = [
            make_column(data, j, Profile(t, (0,), t + 1.0)) for j in range(2) for t in range(2)
        ]
        chosen, raw = solve_integer_master(
            data, columns, Builder(data, 2).empty(), [0, 1], SolverOptions()
        )
        assert raw.status == "optimal"
        assert raw.bound == pytest.approx(3 + 2)
        assert {(c.job, c.profile.start) for c in chosen} == {(1, 0), (0, 1)}

    def test_the_integer_master_says_when_there_is_no_choice(self):
        data = slot_data(instance_of(cluster(1), gang("a", 1, 10.0), gang("b", 1, 10.0)))
        columns = [make_column(data, j, Profile(0, (0,), 1.0)) for j in range(2)]
        chosen, raw = solve_integer_master(
            data, columns, Builder(data, 1).empty(), [0, 1], SolverOptions()
        )
        assert chosen is None
        assert raw.status == "infeasible"


class TestPlacing:
    def test_a_job_that_goes_on_keeps_its_hosts(self):
        """Moves cost; others that come and go must not push it around."""
        instance = instance_of(cluster(1, 1, 1), gang("a", 1, 50.0), gang("b", 2, 20.0))
        data = slot_data(instance)
        plan = {0: Profile(0, (0,) * 5, 5.0), 1: Profile(1, (0, 0), 3.0)}
        schedule = place_plan(data, plan)
        assert verify(instance, schedule) == []
        assert len(schedule.runs_of["a"]) == 1
        assert (schedule.runs_of["a"][0].start_s, schedule.runs_of["a"][0].end_s) == (0.0, 50.0)

    def test_a_job_that_ran_before_the_start_keeps_its_host(self):
        where = (TaskPlacement("h2", "worker", 1),)
        job = gang("a", 1, 20.0, restart_cost_s=5.0)
        instance = instance_of(cluster(1, 1, 1), job, running=(Assignment("a", 0, where),))
        schedule = place_plan(slot_data(instance), {0: Profile(0, (0, 0), 2.0)})
        assert schedule.runs == (Run("a", 0, 0.0, 20.0, where),)

    def test_a_gang_without_a_host_makes_up_for_its_slot(self):
        """Two gangs of 2 in one host each, on hosts of 3 and 1: the sum fits, the hosts do not."""
        instance = instance_of(cluster(3, 1), within_host("a", 2, 20.0), within_host("b", 2, 20.0))
        plan = {0: Profile(0, (0, 0), 2.0), 1: Profile(0, (0, 0), 2.0)}
        schedule = place_plan(slot_data(instance), plan)
        assert verify(instance, schedule) == []
        ends = sorted(max(run.end_s for run in runs) for runs in schedule.runs_of.values())
        assert ends == [20.0, 40.0]

    def test_plans_come_back_from_their_schedules(self):
        """Warm starts depend on it."""
        instance = instance_of(cluster(2), gang("a", 1, 25.0), gang("b", 2, 10.0))
        data = slot_data(instance)
        plan = {0: Profile(0, (0, IDLE, 0, 0), 3.5), 1: Profile(1, (0,), 2.0)}
        assert plan_of(data, place_plan(data, plan)) == plan

    def test_schedules_off_the_grid_or_unfinished_have_no_plan(self):
        instance = instance_of(cluster(2), gang("a", 1, 20.0))
        data = slot_data(instance)
        assert plan_of(data, Schedule((Run("a", 0, 3.0, 23.0),))) is None
        assert plan_of(data, Schedule((Run("a", 0, 0.0, 10.0),))) is None
        assert plan_of(data, Schedule(())) is None
