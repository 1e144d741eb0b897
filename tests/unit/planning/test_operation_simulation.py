"""Operation over time: what is charged, on numbers that fit on a napkin, and what must hold."""

from dataclasses import replace

import pytest

from alloc.errors import SimulationError
from alloc.instances.operation import generate_operation_stream
from alloc.planning import operation_simulation
from alloc.planning.operation_simulation import saving, simulate_operation
from alloc.problems.operation.job_stream import OperationStream, StreamJob
from alloc.problems.operation.problem import EarlyStop, NodePool, NodeType, OperationJob
from alloc.result import Limits
from alloc.solving.operation.policies import POLICIES

# 2 an hour for a node, and 1 kW at 0.5 a kWh: 2.5 in all.
NODE = NodeType("t", 1, (2.0,), (1000.0,))


def stream(*jobs, count=1, **changes):
    given = {"energy_price_per_kwh": 0.5, "replan_s": 600.0, "postponement_factor": 10.0, **changes}
    return OperationStream("napkin", (NODE,), (NodePool("n", count, ("t",)),), jobs, **given)


def job(name, hours, due_h, arrival_h=0.0, **changes):
    found = OperationJob(
        name, {"t": (hours * 3600,)}, due_h * 3600, 4.0, arrival_s=arrival_h * 3600
    )
    return replace(found, **changes)


def test_nodes_are_paid_while_they_are_on_and_jobs_when_they_are_late():
    """Two hours of work one after the other; the second is due half an hour before its end."""
    run = simulate_operation(stream(StreamJob(job("a", 1, 1)), StreamJob(job("b", 1, 1.5))), "edf")
    assert run.node_cost == pytest.approx(2 * 2.5)
    assert run.energy_kwh == pytest.approx(2.0)
    assert run.node_hours == pytest.approx(2.0)
    assert run.tardiness_cost == pytest.approx(4.0 * 0.5)
    assert run.total_cost == pytest.approx(7.0)
    assert [record.completion_s for record in run.jobs] == pytest.approx([3600.0, 7200.0])
    assert run.late_jobs == 1


def test_nothing_is_paid_before_the_first_arrival():
    run = simulate_operation(stream(StreamJob(job("a", 1, 8, arrival_h=5))), "exact")
    assert run.node_hours == pytest.approx(1.0)
    # A job that is not pressed may wait, not for ever.
    assert 6 * 3600 <= run.end_s <= 8 * 3600


def test_an_early_stop_ends_a_job_and_its_cost():
    chance = (EarlyStop(0.25, 0.5),)
    stopping = StreamJob(job("a", 4, 5, stops=chance), 0.25)
    whole = StreamJob(job("a", 4, 5, stops=chance))
    assert simulate_operation(stream(stopping), "edf").node_hours == pytest.approx(1.0)
    assert simulate_operation(stream(whole), "edf").node_hours == pytest.approx(4.0)


def test_chances_are_seen_from_where_a_job_has_come_to(monkeypatch):
    """Half done and not stopped at a quarter: of the chances 0.5 and 0.25 the second is left. It
    lies half-way through the rest, and is half of what may still happen."""
    seen = []
    edf = POLICIES["edf"]

    def spy(problem, settings):
        seen.append(problem)
        return edf.decide(problem, settings)

    monkeypatch.setitem(POLICIES, "edf", replace(edf, decide=spy))
    chances = (EarlyStop(0.25, 0.5), EarlyStop(0.75, 0.25))
    long = StreamJob(job("a", 4, 9, stops=chances))
    simulate_operation(stream(long, StreamJob(job("b", 1, 9, arrival_h=2)), count=2), "edf")
    later = next(p for p in seen if p.now_s == 2 * 3600)
    (left,) = later.jobs[later.job_index["a"]].stops
    assert (left.fraction, left.probability) == pytest.approx((0.5, 0.5))
    assert later.jobs[later.job_index["a"]].duration_s["t"] == pytest.approx((2 * 3600,))


def test_a_restart_is_paid_each_time_a_job_resumes():
    """An urgent arrival takes the only node from a long job, which then loses 360 s."""
    long = StreamJob(job("long", 2, 9, restart_s=360.0))
    urgent = StreamJob(job("urgent", 1, 2, arrival_h=1))
    run = simulate_operation(stream(long, urgent), "edf")
    records = {record.job: record for record in run.jobs}
    assert records["urgent"].completion_s == pytest.approx(2 * 3600)
    assert records["long"].completion_s == pytest.approx(3 * 3600 + 360)
    assert records["long"].restarts == 1
    assert run.node_hours == pytest.approx(3.1)


def test_a_restart_that_is_interrupted_by_a_decision_is_paid_once():
    """Another job arrives during the restart: the long one goes on and owes only the rest of it."""
    long = StreamJob(job("long", 2, 9, restart_s=360.0))
    urgent = StreamJob(job("urgent", 1, 2, arrival_h=1))
    third = StreamJob(job("third", 1, 20, arrival_h=2.05))
    run = simulate_operation(stream(long, urgent, third), "edf")
    records = {record.job: record for record in run.jobs}
    assert records["long"].completion_s == pytest.approx(3 * 3600 + 360)
    assert records["third"].completion_s == pytest.approx(4 * 3600 + 360)


def test_a_chance_that_has_passed_is_not_feared_again():
    """A decision after the stop that did not come sees no further chance, and no nonsense."""
    certain = StreamJob(job("a", 4, 9, stops=(EarlyStop(0.25, 1.0),)))
    nudge = StreamJob(job("b", 1, 3, arrival_h=2))
    run = simulate_operation(stream(certain, nudge, count=2), "exact-expected")
    assert {record.job for record in run.jobs} == {"a", "b"}


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_ends_every_job(policy):
    world = generate_operation_stream(num_nodes=2, num_jobs=6, kind="own", stops=True, seed=2)
    run = simulate_operation(world, policy, Limits(seconds=0.5))
    assert {record.job for record in run.jobs} == {s.job.id for s in world.jobs}
    for record, item in zip(run.jobs, world.jobs, strict=True):
        fastest = min(t for times in item.job.duration_s.values() for t in times)
        least = item.job.arrival_s + item.ends_after * fastest
        assert record.completion_s >= least - 1e-3
    assert run.unproved == 0


def test_the_same_seed_tells_the_same_story():
    world = generate_operation_stream(num_nodes=3, num_jobs=8, seed=5)
    first, second = (simulate_operation(world, "exact") for _ in range(2))
    assert first.jobs == second.jobs
    assert first.total_cost == second.total_cost


def test_progress_is_reported():
    lines: list[str] = []
    simulate_operation(stream(StreamJob(job("a", 1, 2))), "edf", progress=lines.append)
    assert lines == ["edf: 0.0 h, 1 jobs run, 0 wait, 0 of 1 ended"]


def test_a_policy_that_lets_jobs_wait_for_ever_is_stopped(monkeypatch):
    """Without a cost of tardiness it pays never to run a job; say so instead of going on."""
    monkeypatch.setattr(operation_simulation, "_MAX_IDLE", 50)
    idle = StreamJob(job("a", 1, 2, tardiness_cost_per_h=0.0))
    with pytest.raises(SimulationError, match="give every job a tardiness cost"):
        simulate_operation(stream(idle), "exact")


def test_savings_are_parts_of_the_baseline():
    assert saving(3.0, 100.0) == pytest.approx(0.97)
    assert saving(120.0, 100.0) == pytest.approx(-0.2)
    assert saving(1.0, 0.0) == 0.0
