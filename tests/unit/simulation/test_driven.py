"""The simulation driven decision by decision: `simulate` is one way to drive it, agents another."""

from __future__ import annotations

import numpy as np
import pytest

from alloc.errors import InstanceError, SimulationError
from alloc.instances import generate_elastic
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import Decision, make_scheduler
from alloc.simulation import Simulation, completion_times_s, metrics_of, simulate
from alloc.topology import HostType, flat_cluster
from alloc.workload import Job, rigid_gang

HOST = HostType("h", 2, "generic", 8000, 0)
ONE = Instance(
    "one",
    flat_cluster("one", HOST, 1),
    (Job("a", 0.0, 15.0, (rigid_gang(1),)), Job("b", 4.0, 10.0, (rigid_gang(2),))),
    slot_s=10.0,
)


def elastic(seed: int, slot_s: float | None = 1200.0) -> Instance:
    made = generate_elastic(
        "e", num_jobs=8, num_hosts=3, max_workers=3, max_ps=3, run_slots=(1, 4), seed=seed
    )
    return made.replace(slot_s=slot_s)


@pytest.mark.parametrize("slot_s", [1200.0, None])
@pytest.mark.parametrize("name", ["drf", "fifo", "random-ps"])
def test_driving_by_hand_is_simulating(name: str, slot_s: float | None) -> None:
    """One engine: whoever drives it, the same decisions have the same consequences."""
    for seed in range(3):
        instance, policy = elastic(seed, slot_s), make_scheduler(name)
        by_itself = simulate(
            instance, policy, rng=seed, knowledge="estimate", work_error=0.3, speed_error=0.1
        )
        driven = Simulation(
            instance,
            decider=name,
            rng=seed,
            knowledge="estimate",
            work_error=0.3,
            speed_error=0.1,
        )
        policy.reset()
        while (state := driven.next_decision()) is not None:
            assert driven.state is state
            driven.apply(policy.decide(state))
        assert driven.over
        result = driven.result()
        assert result.schedule == by_itself.schedule
        assert result.completion_s == by_itself.completion_s
        assert {j: driven.completion_s(j) for j in result.completion_s} == result.completion_s
        assert result.end_s == by_itself.end_s
        assert result.scheduler == name
        assert len(result.decision_s) == len(by_itself.decision_s)
        assert driven.num_complete == len(instance.jobs)
        assert driven.result() is result, "asked again, it is the same"


def test_what_is_in_the_system_is_told_in_truth() -> None:
    """Rewards are made of this: work left in truth, whatever the agent is told."""
    driven = Simulation(ONE, knowledge="none")
    state = driven.next_decision()
    assert state is not None
    assert [(job.id, left) for job, _, left in driven.in_system()] == [("a", 15.0)]
    policy = make_scheduler("fifo")
    driven.apply(policy.decide(state))
    assert driven.end_s == 10.0
    assert driven.work_left() == {"a": 5.0}
    assert driven.next_decision() is not None
    assert driven.work_left() == {"a": 5.0, "b": 10.0}
    assert state.jobs[0].work is state.jobs[0].work_done is None
    driven.apply(policy.decide(state))
    assert driven.completion_s("a") == 15.0
    assert driven.completion_s("b") is None


def test_mean_jct_is_that_of_the_metrics() -> None:
    result = simulate(ONE, make_scheduler("fifo"))
    assert completion_times_s(result).tolist() == [15.0, 26.0]
    assert metrics_of(result).mean_jct_s == 20.5


def test_stopping_leaves_jobs_unfinished_and_a_sound_schedule() -> None:
    driven = Simulation(ONE)
    policy = make_scheduler("fifo")
    state = driven.next_decision()
    assert state is not None
    driven.apply(policy.decide(state))
    assert driven.next_decision() is not None
    driven.stop()
    driven.stop()
    result = driven.result()
    assert result.unfinished == ("a", "b")
    assert result.verified
    assert driven.next_decision() is None


def test_order_of_calls_is_kept() -> None:
    """Each mistake of a driver is named before it does harm."""
    driven = Simulation(ONE, decider="mine")
    with pytest.raises(SimulationError, match=r"mine decides at 0 s without being asked"):
        driven.apply(Decision())
    with pytest.raises(SimulationError, match="before the simulation is over"):
        driven.result()
    driven.next_decision()
    with pytest.raises(SimulationError, match="next decision before this one is applied"):
        driven.next_decision()
    driven.apply(Decision())


def idle(simulation: Simulation, most: int) -> int:
    """Decide nothing, again and again; return how often that was asked."""
    decisions = 0
    while decisions < most and simulation.next_decision() is not None:
        simulation.apply(Decision())
        decisions += 1
    return decisions


@pytest.mark.parametrize("slot_s", [10.0, None])
def test_idle_driver_is_an_error_or_goes_on(slot_s: float | None) -> None:
    """A learning agent may do nothing for long; a scheduler that does has stalled."""
    instance = ONE.replace(slot_s=slot_s)
    with pytest.raises(SimulationError, match="lazy stalls"):
        idle(Simulation(instance, decider="lazy"), 300)
    patient = Simulation(instance, stalls=False)
    assert idle(patient, 300) == (300 if slot_s else 2), "in continuous time nothing is left"
    patient.stop()
    assert patient.result().unfinished == ("a", "b")


def test_seen_work_is_what_the_scheduler_sees() -> None:
    """Estimates of one's own, in place of drawn errors; jobs not named are seen as they are."""
    driven = Simulation(ONE, knowledge="estimate", seen_work={"a": 30.0})
    state = driven.next_decision()
    assert state is not None
    view = state.jobs[0]
    assert (view.work, view.work_left, view.work_done) == (30.0, 30.0, 0.0)
    driven.apply(make_scheduler("fifo").decide(state))
    driven.next_decision()
    assert [(v.id, v.work, v.work_left, v.work_done) for v in state.jobs] == [
        ("a", 30.0, 20.0, 10.0),
        ("b", 10.0, 10.0, 0.0),
    ]
    driven.stop()
    assert driven.result().work_error == 1.0


def test_work_done_goes_on_where_work_left_stops() -> None:
    """A job that outlives its estimate: left stays above 0, done tells the truth."""
    long = ONE.replace(jobs=(Job("a", 0.0, 100.0, (rigid_gang(1),)),))
    driven = Simulation(long, knowledge="estimate", seen_work={"a": 10.0})
    policy = make_scheduler("fifo")
    for _ in range(3):
        state = driven.next_decision()
        assert state is not None
        driven.apply(policy.decide(state))
    driven.next_decision()
    view = driven.state.jobs[0]
    assert (view.work_left, view.work_done) == (0.1, 30.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seen_work": {"a": 1.0}}, 'seen_work is given with knowledge "exact"'),
        ({"seen_work": {"a": 0.0}, "knowledge": "estimate"}, 'job "a": seen_work'),
        ({"seen_work": {"c": 1.0}, "knowledge": "estimate"}, 'no job "c"'),
        (
            {"seen_work": {"a": 1.0}, "knowledge": "estimate", "work_error": 0.1},
            "leave the error at 0",
        ),
        ({"max_time_s": 0.0}, "max_time_s is 0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        Simulation(ONE, **options)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    with pytest.raises(InstanceError, match=message):
        simulate(ONE, make_scheduler("fifo"), rng=rng, **options)  # type: ignore[arg-type]
