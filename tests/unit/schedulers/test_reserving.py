"""Reservations for every job: who may overtake, and in which configuration a gang waits or runs."""

from __future__ import annotations

import numpy as np
import pytest

import alloc
from alloc import Configuration, HostType, Instance, Job, TaskGroup, simulate
from alloc.errors import UnsupportedFeatureError
from alloc.problems.allocation.instance import Affinity
from alloc.schedulers import make_scheduler
from alloc.schedulers.reserving import allotment, reserved_in_order
from alloc.simulation import Simulation
from alloc.simulation.reserved import reserved_starts
from alloc.topology import flat_cluster
from alloc.verification.moldable import verify_moldable
from alloc.workload import Elasticity, rigid_gang

FOUR = flat_cluster("four GPUs", HostType("box", 4, "gpu"), 1)
ALL = ("conservative-backfill", "turn-around", "lpt")


def gang(name: str, arrival_s: float, gpus: int, length_s: float) -> Job:
    way = (rigid_gang(gpus),)
    return Job(name, arrival_s, length_s, way, elasticity="rigid", preemptible=False)


def starts(policy: str, *jobs: Job) -> dict[str, float | None]:
    return dict(simulate(Instance("queue", FOUR, jobs), make_scheduler(policy)).start_s)


QUEUE = (
    *(gang("runs", 0, 3, 100), gang("wide", 1, 4, 50)),
    *(gang("next", 2, 3, 100), gang("thin", 3, 1, 97), gang("late", 4, 1, 120)),
)


def test_nobody_is_delayed_who_came_before() -> None:
    """EASY starts "late" beside "next" once "wide" is over; so does this, and nobody waits more."""
    conservative = starts("conservative-backfill", *QUEUE)
    assert conservative == {"runs": 0, "wide": 100, "next": 150, "thin": 3, "late": 150}


def test_the_second_in_the_queue_keeps_its_start_too() -> None:
    """EASY protects the first reservation only: a long job may take what the second waits for."""
    queue = (
        *(gang("runs", 0, 2, 100), gang("other", 0, 1, 40)),
        *(gang("wide", 1, 3, 50), gang("second", 2, 2, 30), gang("long", 3, 1, 300)),
    )
    easy, kept = starts("easy-backfill", *queue), starts("conservative-backfill", *queue)
    assert easy["long"] == 3
    assert kept["second"] is not None
    assert kept["second"] <= easy["second"]


def drawn(seed: int, slot_s: float | None = None) -> Instance:
    rng = np.random.default_rng(seed)
    hosts = flat_cluster("two", HostType("box", 4, "gpu"), 2)
    jobs = []
    for j in range(14):
        sizes = sorted({int(rng.integers(1, 5)) for _ in range(3)})
        ways = tuple(
            Configuration((TaskGroup("worker", n, 1000),), n**0.8, None, "host") for n in sizes
        )
        kind: Elasticity = "rigid" if len(ways) == 1 else "moldable"
        work, at = float(rng.integers(5, 200)), float(rng.integers(0, 200))
        jobs.append(Job(f"job-{j}", at, work, ways, elasticity=kind, preemptible=False))
    return Instance(
        f"drawn-{seed}", hosts, tuple(sorted(jobs, key=lambda j: j.arrival_s)), slot_s=slot_s
    )


@pytest.mark.parametrize("slot_s", [None, 10.0])
@pytest.mark.parametrize("policy", ALL)
def test_every_job_runs_once_and_to_its_end(policy: str, slot_s: float | None) -> None:
    for seed in range(3):
        instance = drawn(seed, slot_s)
        result = simulate(instance, policy)
        assert verify_moldable(instance, result.schedule) == []
        assert not result.schedule.unplaced


def test_with_exact_run_times_a_reservation_is_never_missed() -> None:
    """What is promised at one decision is kept at all later ones, or bettered."""
    for seed in range(4):
        simulation = Simulation(drawn(seed))
        policy = make_scheduler("conservative-backfill")
        promised: dict[str, float] = {}
        while (state := simulation.next_decision()) is not None:
            reserved = reserved_in_order(state)[1]
            assert set(reserved) == {view.id for view in state.waiting}
            for name, own in reserved.items():
                assert own.start_s <= promised.get(name, np.inf) + 1e-9
                promised[name] = own.start_s
            simulation.apply(policy.decide(state))


def test_a_blocked_gang_is_told_when_it_starts_and_starts_then() -> None:
    """What runs ends at 100 s; "wide" was there before "next", whose start waits for it."""
    running = alloc.Assignment("runs", 0, (alloc.TaskPlacement("host-0", "worker", 3),))
    waiting = (gang("wide", 0, 4, 50), gang("next", 0, 3, 100))
    instance = Instance("now", FOUR, (gang("runs", 0, 3, 100), *waiting), running=(running,))
    reserved = reserved_starts(instance)
    assert {name: own.start_s for name, own in reserved.items()} == {"wide": 100, "next": 150}
    assert reserved["wide"].sentence.startswith("a start is reserved at 100 s on host-0, if")
    run = simulate(instance, make_scheduler("conservative-backfill"))
    assert {name: run.start_s[name] for name in reserved} == {"wide": 100, "next": 150}


def test_no_start_is_reserved_under_rules_that_the_scheduler_does_not_know() -> None:
    apart = Affinity("apart", "host", ("runs", "wide"))
    jobs = (gang("runs", 0, 3, 100), gang("wide", 0, 4, 50))
    with pytest.raises(UnsupportedFeatureError, match="affinities"):
        reserved_starts(Instance("now", FOUR, jobs, affinities=(apart,)))


def test_turn_around_waits_for_the_large_configuration_where_that_ends_earlier() -> None:
    ways = (
        Configuration((TaskGroup("worker", 1, 1000),), 1.0),
        Configuration((TaskGroup("worker", 4, 1000),), 4.0),
    )
    job = Job("choice", 1.0, 100.0, ways, elasticity="moldable", preemptible=False)
    assert starts("turn-around", gang("short", 0, 3, 10), job)["choice"] == 10
    assert starts("turn-around", gang("long", 0, 3, 90), job)["choice"] == 1


def test_longest_first_balances_runs_and_load() -> None:
    """One job alone takes all; many take what costs least GPU time."""
    ways = (
        Configuration((TaskGroup("worker", 1, 1000),), 1.0),
        Configuration((TaskGroup("worker", 4, 1000),), 2.0),
    )
    jobs = [Job(f"j{n}", 0.0, 10.0 + n, ways, elasticity="moldable") for n in range(8)]
    simulation = Simulation(Instance("one", FOUR, tuple(jobs)))
    state = simulation.next_decision()
    assert state is not None
    views = list(state.waiting)
    assert set(allotment(views, FOUR.totals).values()) == {0}
    assert allotment(views[:1], FOUR.totals) == {"j0": 1}
    begun = starts("lpt", *(j.replace(preemptible=False) for j in jobs))
    assert all(begun[f"j{n}"] == 0 for n in (4, 5, 6, 7))
