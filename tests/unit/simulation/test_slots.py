"""The clock of slots, on cases small enough for paper."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from alloc.errors import InstanceError, SimulationError, UnsupportedFeatureError
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers import ClusterState, Decision, Knowledge, make_scheduler
from alloc.simulation import simulate
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang

HOSTS = flat_cluster("two", HostType("h", 2, "generic", 8000, 0), 2)
ONE_GPU = (rigid_gang(1),)
ONE_OR_TWO = (rigid_gang(1), rigid_gang(2, rate=1.5))


class Scripted:
    """A policy that does what it is told, by the number of the decision."""

    name = "scripted"
    needs: Knowledge = "none"
    information = "a script"

    def __init__(self, *decisions: Decision, then: Decision | None = None) -> None:
        self._decisions = decisions
        self._then = Decision() if then is None else then
        self._taken = 0
        self.seen: list[list[tuple[str, float | None, float]]] = []

    def reset(self) -> None:
        self._taken = 0

    def decide(self, state: ClusterState) -> Decision:
        self.seen.append([(v.id, v.work_left, v.attained_gpu_s) for v in state.jobs])
        self._taken += 1
        if self._taken <= len(self._decisions):
            return self._decisions[self._taken - 1]
        return self._then


def on(job: str, host: str = "host-0", configuration: int = 0, count: int = 1) -> Assignment:
    return Assignment(job, configuration, (TaskPlacement(host, "worker", count),))


def slots(*jobs: Job, **changes: object) -> Instance:
    return Instance("slots", HOSTS, jobs, slot_s=10.0).replace(**changes)


def test_job_completes_within_its_slot_and_holds_its_hosts_to_the_end() -> None:
    """DL2 counts the used fraction of the last slot, but nobody else gets the rest of it."""
    instance = slots(Job("a", 0.0, 14.0, ONE_GPU))
    result = simulate(instance, make_scheduler("fifo"))
    assert result.completion_s == {"a": 14.0}
    assert [(r.start_s, r.end_s) for r in result.schedule.runs] == [(0.0, 20.0)]
    assert result.restarts == 0
    assert result.end_s == 20.0


def test_job_joins_at_the_first_slot_at_or_after_its_arrival() -> None:
    """What arrives in a slot cannot be known at its start; what arrives at the start is in."""
    instance = slots(Job("a", 10.0, 5.0, ONE_GPU), Job("b", 10.1, 5.0, ONE_GPU))
    result = simulate(instance, make_scheduler("fifo"))
    assert result.start_s == {"a": 10.0, "b": 20.0}
    assert result.completion_s == {"a": 15.0, "b": 25.0}
    assert len(result.decision_s) == 2, "empty slots need no decision"


def test_arrival_that_is_a_slot_up_to_rounding_joins_that_slot() -> None:
    """0.1 + 0.2 is above 0.3: generated arrivals must not lose a slot to the last digit."""
    instance = slots(Job("a", 0.1 + 0.2, 0.1, ONE_GPU), slot_s=0.1)
    assert simulate(instance, make_scheduler("fifo")).start_s["a"] == pytest.approx(0.3, abs=1e-12)


def test_pause_and_change_cost_a_restart_each() -> None:
    """Run, pause, resume (3 s lost), two GPUs (3 s lost), another host (3 s lost), go on."""
    job = Job("a", 0.0, 1000.0, ONE_OR_TWO, restart_cost_s=3.0)
    policy = Scripted(
        Decision((on("a"),)),
        Decision(),
        Decision((on("a"),)),
        Decision((on("a", configuration=1, count=2),)),
        Decision((on("a", "host-1", 1, 2),)),
        Decision((on("a", "host-1", 1, 2),)),
        Decision(),
    )
    result = simulate(slots(job), policy, max_time_s=70.0)
    left = [seen[0][1] for seen in policy.seen]
    assert left == [1000, 990, 990, 983, 983 - 10.5, 983 - 21, 983 - 36]
    assert (result.restarts, result.migrations) == (3, 1)
    attained = [seen[0][2] for seen in policy.seen]
    assert attained == [0, 10, 10, 20, 40, 60, 80]


def test_running_job_goes_on_without_restart() -> None:
    """What ran before the start continues for free on its hosts and pays elsewhere."""
    job = Job("a", 0.0, 12.0, ONE_GPU, restart_cost_s=3.0)
    instance = slots(job, running=(on("a", "host-1"),))
    stays = simulate(instance, Scripted(then=Decision((on("a", "host-1"),))))
    moves = simulate(instance, Scripted(then=Decision((on("a", "host-0"),))))
    assert stays.completion_s["a"] == 12.0
    assert moves.completion_s["a"] == 15.0
    assert (moves.restarts, moves.migrations) == (1, 1)


def test_equal_slots_are_one_run() -> None:
    """Merged runs keep schedules small and let the checker see that nothing restarted."""
    instance = slots(Job("a", 0.0, 55.0, ONE_GPU))
    result = simulate(instance, Scripted(then=Decision((on("a"),))))
    assert [(r.start_s, r.end_s) for r in result.schedule.runs] == [(0.0, 60.0)]


def test_stalled_scheduler_is_named() -> None:
    """A policy that never starts the job must not run for ever."""
    with pytest.raises(SimulationError, match=r'scheduler scripted stalls at .* job "a"'):
        simulate(slots(Job("a", 0.0, 5.0, ONE_GPU)), Scripted())


def test_thrashing_scheduler_is_a_livelock() -> None:
    """Changing hosts in every slot, at a restart cost of a slot, does no work for ever."""

    class Thrasher(Scripted):
        def decide(self, state: ClusterState) -> Decision:
            return Decision((on("a", f"host-{int(state.now_s / 10) % 2}"),))

    job = Job("a", 0.0, 500.0, ONE_GPU, restart_cost_s=10.0)
    with pytest.raises(SimulationError, match="no work was done"):
        simulate(slots(job), Thrasher())


def test_max_time_leaves_jobs_unfinished() -> None:
    """The user's own stop is an outcome: the schedule names the job as unplaced and is checked."""
    instance = slots(Job("a", 0.0, 500.0, ONE_GPU), Job("b", 0.0, 5.0, ONE_GPU))
    result = simulate(instance, make_scheduler("fifo"), max_time_s=25.0)
    assert result.unfinished == ("a",)
    assert "a" in result.schedule.unplaced
    assert result.end_s == 30.0
    assert result.verified


def test_deadline_and_horizon_misses_are_outcomes() -> None:
    """FIFO knows of no deadline; being late is to be reported, not an error of the simulation."""
    instance = slots(
        Job("a", 0.0, 15.0, ONE_GPU, deadline_s=12.0), Job("b", 0.0, 5.0, ONE_GPU), horizon_s=14.0
    )
    assert simulate(instance, make_scheduler("fifo")).late == ("a",)


BAD: dict[str, tuple[Callable[[], Decision], str]] = {
    "unknown job": (lambda: Decision((on("nobody"),)), 'job "nobody".*not in the instance'),
    "not arrived": (lambda: Decision((on("late"),)), 'job "late".*has not arrived'),
    "twice": (lambda: Decision((on("a"), on("a", "host-1"))), "assigned twice"),
    "no such configuration": (lambda: Decision((on("a", configuration=7),)), "configuration 7"),
    "no such host": (lambda: Decision((on("a", "host-9"),)), '"host-9", which is not in'),
    "broken gang": (lambda: Decision((on("a", count=2),)), "placed instead of 1"),
    "full host": (
        lambda: Decision((on("a"), on("b", configuration=1, count=2))),
        'host "host-0" is over its gpu_milli by 1000',
    ),
    "over quota": (
        lambda: Decision((on("c"), on("d", "host-1"))),
        'tenant "red" holds 2 GPUs',
    ),
    "released and assigned": (lambda: Decision((on("a"),), ("a",)), "does not run|both assigned"),
}


@pytest.mark.parametrize("case", BAD)
def test_broken_rule_is_refused_by_name(case: str) -> None:
    """A wrong decision stops at once and says scheduler, job, time and rule."""
    from alloc.problems.allocation.instance import Tenant

    decision, match = BAD[case]
    jobs = (
        Job("a", 0.0, 50.0, ONE_OR_TWO),
        Job("b", 0.0, 50.0, ONE_OR_TWO),
        Job("c", 0.0, 50.0, ONE_GPU, tenant="red"),
        Job("d", 0.0, 50.0, ONE_GPU, tenant="red"),
        Job("late", 5.0, 50.0, ONE_GPU),
    )
    instance = slots(*jobs, tenants=(Tenant("red", 1000),))
    for slot_s in (10.0, None):
        with pytest.raises(SimulationError, match=match) as caught:
            simulate(instance.replace(slot_s=slot_s), Scripted(decision()))
        assert "scheduler scripted" in str(caught.value)
        assert "at 0 s" in str(caught.value)


def test_bound_jobs_are_held_to_their_configuration() -> None:
    """A moldable job chooses once; a job that is not preemptible is not paused."""
    moldable = Job("a", 0.0, 50.0, ONE_OR_TWO, elasticity="moldable")
    change = Scripted(Decision((on("a"),)), Decision((on("a", configuration=1, count=2),)))
    with pytest.raises(SimulationError, match="is moldable and began in configuration 0"):
        simulate(slots(moldable), change)
    steady = Job("a", 0.0, 50.0, ONE_GPU, preemptible=False)
    with pytest.raises(SimulationError, match=r"at 10 s.*is not preemptible but is paused"):
        simulate(slots(steady), Scripted(Decision((on("a"),)), Decision()))
    running = slots(steady, running=(on("a"),))
    with pytest.raises(SimulationError, match=r"at 0 s.*is not preemptible but is paused"):
        simulate(running, Scripted(Decision()))


def test_shared_gpu_over_its_milli_is_refused() -> None:
    """Shares of one GPU add up in the ledger as in the checker."""
    half = (Configuration((TaskGroup("worker", 1, 600),), 1.0),)
    jobs = (Job("a", 0.0, 50.0, half), Job("b", 0.0, 50.0, half))

    def share(job: str, gpu: int) -> Assignment:
        return Assignment(job, 0, (TaskPlacement("host-0", "worker", 1, (gpu,)),))

    apart = Decision((share("a", 0), share("b", 1)))
    assert simulate(slots(*jobs), Scripted(then=apart)).unfinished == ()
    with pytest.raises(SimulationError, match='GPU 0 of host "host-0" is shared to 1200'):
        simulate(slots(*jobs), Scripted(Decision((share("a", 0), share("b", 0)))))


def test_knowledge_decides_what_is_seen() -> None:
    """The same experiment gives every policy the same forecast, and the truth stays the truth."""
    instance = slots(Job("a", 0.0, 100.0, ONE_GPU), Job("b", 0.0, 100.0, ONE_GPU))
    run = Decision((on("a"), on("b", "host-1")))
    blind, told, guessing, again = (Scripted(then=run) for _ in range(4))
    simulate(instance, blind, knowledge="none")
    simulate(instance, told)
    simulate(instance, guessing, knowledge="estimate", work_error=0.5, rng=3)
    result = simulate(instance, again, knowledge="estimate", work_error=0.5, rng=3)
    assert {left for seen in blind.seen for _, left, _ in seen} == {None}
    assert told.seen[0] == [("a", 100.0, 0.0), ("b", 100.0, 0.0)]
    first = [left for _, left, _ in guessing.seen[0]]
    assert first[0] != first[1]
    assert all(50 <= left <= 150 for left in first if left is not None)
    assert guessing.seen == again.seen
    assert result.completion_s == {"a": 100.0, "b": 100.0}


def test_job_that_outlives_its_estimate_is_seen_as_almost_done() -> None:
    """Remaining work must stay above 0: policies divide by it, sub-instances need it."""
    instance = slots(*(Job(f"j{k}", 0.0, 100.0, ONE_GPU) for k in range(4)))
    run = Decision(tuple(on(f"j{k}", f"host-{k // 2}") for k in range(4)))
    policy = Scripted(then=run)
    simulate(instance, policy, knowledge="estimate", work_error=0.9, rng=1)
    seen = [left for looks in policy.seen for _, left, _ in looks if left is not None]
    assert min(seen) > 0
    assert min(seen) < 2.0


def test_speed_error_moves_what_is_seen_and_not_what_happens() -> None:
    """Rates are drawn anew at each decision, within the error, and the truth does not move."""
    rates: list[float] = []

    class Looker(Scripted):
        def decide(self, state: ClusterState) -> Decision:
            rates.append(state.jobs[0].configurations[0].rate)
            return Decision((on("a"),))

    instance = slots(Job("a", 0.0, 60.0, ONE_GPU))
    result = simulate(instance, Looker(), knowledge="estimate", speed_error=0.2, rng=5)
    assert result.completion_s["a"] == 60.0
    assert len(set(rates)) == 6
    assert all(0.8 <= rate <= 1.2 for rate in rates)
    assert instance.jobs[0].configurations[0].rate == 1.0


def test_options_out_of_range_are_refused() -> None:
    """Contradictions in an experiment are found before it runs."""
    instance = slots(Job("a", 0.0, 5.0, ONE_GPU))
    fifo = make_scheduler("fifo")
    with pytest.raises(InstanceError, match=r'work_error is 0.2 but knowledge is "exact"'):
        simulate(instance, fifo, work_error=0.2)
    with pytest.raises(InstanceError, match=r"speed_error is 1.5; it must be 0 or more"):
        simulate(instance, fifo, knowledge="estimate", speed_error=1.5)
    with pytest.raises(InstanceError, match='"exat" is unknown; did you mean "exact"'):
        simulate(instance, fifo, knowledge="exat")  # type: ignore[arg-type]
    with pytest.raises(InstanceError, match="max_time_s is 0; it must be more than 0"):
        simulate(instance, fifo, max_time_s=0.0)
    with pytest.raises(UnsupportedFeatureError, match='srtf needs knowledge "estimate"'):
        simulate(instance, make_scheduler("srtf"), knowledge="none")
    late = slots(Job("a", 5.0, 5.0, ONE_GPU), running=(on("a"),))
    with pytest.raises(InstanceError, match='job "a": is in running but arrives at 5 s'):
        simulate(late, fifo)


def test_progress_notes_and_decision_times_are_reported() -> None:
    """Counters of a policy add up, and a progress bar can follow the completions."""
    calls: list[tuple[int, int]] = []
    instance = slots(Job("a", 0.0, 25.0, ONE_GPU), Job("b", 0.0, 5.0, ONE_GPU))
    noted = Decision((on("a"), on("b", "host-1")), notes={"fallbacks": 1})
    rest = Decision((on("a"),), notes={"fallbacks": 2})
    result = simulate(
        instance,
        Scripted(noted, then=rest),
        progress=lambda done, total: calls.append((done, total)),
        rng=np.random.default_rng(0),
    )
    assert result.notes == {"fallbacks": 5}
    assert calls == [(1, 2), (2, 2)]
    assert result.decision_s.shape == (3,)
    times, gpus = result.gpus_in_use
    assert times.tolist() == [0, 10, 30]
    assert gpus.tolist() == [2, 1, 0]
