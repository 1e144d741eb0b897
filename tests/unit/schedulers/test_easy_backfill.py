"""EASY backfilling: who may overtake, and whom nobody may delay."""

from __future__ import annotations

import numpy as np
import pytest

from alloc import HostType, Instance, Job, simulate
from alloc.schedulers import make_scheduler
from alloc.schedulers.learned.pick_backfill import PickBackfill
from alloc.schedulers.learned.stepwise import StepwiseDecider
from alloc.schedulers.state import Knowledge
from alloc.topology import flat_cluster
from alloc.workload import rigid_gang

FOUR = flat_cluster("four GPUs", HostType("box", 4, "gpu"), 1)


def gang(name: str, arrival_s: float, gpus: int, length_s: float, **more: object) -> Job:
    job = Job(name, arrival_s, length_s, (rigid_gang(gpus),), elasticity="rigid")
    return job.replace(**more)


def starts(*jobs: Job, policy: str = "easy-backfill") -> dict[str, float | None]:
    return dict(simulate(Instance("queue", FOUR, jobs), make_scheduler(policy)).start_s)


def test_a_job_that_ends_before_the_reservation_overtakes() -> None:
    """The textbook case: three GPUs busy to 100 s, the whole cluster wanted next, one GPU idle."""
    begun = starts(
        gang("runs", 0, 3, 100),
        gang("wide", 1, 4, 50),
        gang("thin", 2, 1, 98),
        gang("long", 3, 1, 99),
    )
    assert begun == {"runs": 0, "wide": 100, "thin": 2, "long": 150}


def test_a_long_job_overtakes_on_what_the_reserved_job_leaves() -> None:
    """One GPU stays free even when the reserved job runs, so whoever takes it delays nobody."""
    begun = starts(gang("runs", 0, 3, 100), gang("wide", 1, 3, 50), gang("long", 2, 1, 1000))
    assert begun == {"runs": 0, "wide": 100, "long": 2}


def test_two_long_jobs_may_not_share_what_only_one_may_take() -> None:
    """The room left at the reservation is counted once."""
    begun = starts(
        *(gang("runs", 0, 2, 100), gang("wide", 1, 3, 50)),
        *(gang("long-1", 2, 1, 1000), gang("long-2", 3, 1, 1000)),
    )
    assert begun["long-1"] == 2
    assert begun["wide"] == 100
    assert begun["long-2"] == 150


def test_nobody_overtakes_under_fifo() -> None:
    """What backfilling is worth is measured against this."""
    begun = starts(
        gang("runs", 0, 3, 100), gang("wide", 1, 4, 50), gang("thin", 2, 1, 98), policy="fifo"
    )
    assert begun["thin"] == 150


def drawn(seed: int) -> Instance:
    rng = np.random.default_rng(seed)
    jobs = [
        gang(
            f"job-{j}",
            float(rng.integers(0, 300)),
            int(rng.integers(1, 5)),
            float(rng.integers(1, 200)),
        )
        for j in range(12)
    ]
    return Instance("drawn", FOUR, tuple(sorted(jobs, key=lambda job: job.arrival_s)))


@pytest.mark.parametrize("seed", range(8))
def test_the_head_of_the_queue_starts_no_later_than_without_backfilling_at_that_moment(
    seed: int,
) -> None:
    """With exact run times the reservation holds: it never moves to a later time."""
    instance = drawn(seed)
    policy = make_scheduler("easy-backfill")
    promised: dict[str, float] = {}
    from alloc.schedulers.backfilling import Backfilling
    from alloc.simulation import Simulation

    simulation = Simulation(instance)
    while (state := simulation.next_decision()) is not None:
        filling = Backfilling(state)
        for view in state.waiting:
            if not filling.start(view) and filling.reservation is None:
                reserved = filling.reserve(view)
                before = promised.setdefault(view.id, reserved.start_s)
                assert reserved.start_s <= before + 1e-6
        simulation.apply(filling.decision())
    begun = simulation.result().start_s
    assert all(begun[job] <= at + 1e-6 for job, at in promised.items())
    assert begun == simulate(instance, policy).start_s


@pytest.mark.parametrize("seed", range(8))
def test_two_levels_that_always_take_the_first_are_easy_backfilling(seed: int) -> None:
    """The learned kind and the rule share one machine: their schedules may not differ."""
    instance = drawn(seed)

    class First:
        needs: Knowledge = "estimate"
        name, information = "first", "order of arrival"
        steps = StepwiseDecider(lambda seen, mask, rng: int(mask.argmax()), PickBackfill(16))
        decide, reset = steps.decide, steps.reset

    assert simulate(instance, First()).schedule == (
        simulate(instance, make_scheduler("easy-backfill")).schedule
    )


def test_in_slots_what_runs_goes_on() -> None:
    """Slots start from an empty cluster, and backfilling is no reason to move or pause anybody."""
    jobs = (gang("runs", 0, 3, 100), gang("wide", 5, 4, 50), gang("thin", 15, 1, 70))
    found = simulate(Instance("slots", FOUR, jobs, slot_s=10.0), make_scheduler("easy-backfill"))
    assert dict(found.start_s) == {"runs": 0, "wide": 100, "thin": 20}
    assert found.restarts == found.migrations == 0


def test_an_elastic_job_runs_in_the_fastest_way_that_the_cluster_holds() -> None:
    ways = (rigid_gang(1, rate=1.0), rigid_gang(4, rate=3.0), rigid_gang(8, rate=5.0))
    job = Job("elastic", 0.0, 300.0, ways)
    assert simulate(Instance("one", FOUR, (job,)), make_scheduler("easy-backfill")).end_s == 100
