"""Policies for deadlines, each against cases that are computed by hand."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.job_view import JobView
from alloc.schedulers import elasticflow, make_scheduler
from alloc.schedulers.elasticflow import ElasticFlow, Holding, Plan, Planned, Share, filled
from alloc.schedulers.primal_dual import cheapest_share, prices
from alloc.simulation import SimulationResult, simulate
from alloc.topology import HostType, flat_cluster
from alloc.verification import verify
from alloc.workload import Configuration, Elasticity, Job, TaskGroup

HOUR = 3600.0


def sizes(*gpus: int, rate: float | None = None) -> tuple[Configuration, ...]:
    """Return configurations that are as fast as they have GPUs, or all of one rate."""
    return tuple(
        Configuration((TaskGroup("worker", n, 1000),), float(n) if rate is None else rate)
        for n in gpus
    )


def job(name: str, hours: float, deadline_h: float | None, *gpus: int, **fields) -> Job:
    """Return a job that takes so many hours at its first size; it may be refused if it is dated."""
    ways = sizes(*gpus)
    given = {
        "arrival_s": 0.0,
        "refusable": deadline_h is not None,
        "deadline_s": None if deadline_h is None else deadline_h * HOUR,
        **fields,
    }
    return Job(name, work=hours * HOUR * ways[0].rate, configurations=ways, **given)


def run(scheduler, *jobs: Job, gpus: int = 4) -> SimulationResult:
    cluster = flat_cluster("one host", HostType("host", gpus, "a100", 8000, 1024), 1)
    instance = Instance("evening", cluster, jobs, slot_s=HOUR)
    done = simulate(instance, scheduler)
    if not done.late:
        assert verify(instance, done.schedule) == []
    return done


def starts(done: SimulationResult) -> dict[str, float | None]:
    """Return the first start of each job, hours."""
    return {name: None if s is None else s / HOUR for name, s in done.start_s.items()}


def hours_of(done: SimulationResult, name: str) -> list[int]:
    """Return the slots in which a job runs."""
    runs = done.schedule.runs_of[name]
    return [t for r in runs for t in range(round(r.start_s / HOUR), round(r.end_s / HOUR))]


def test_chronus_accepts_what_is_worth_most_together() -> None:
    """Two jobs on two GPUs each are worth 4, the one that needs all four 3."""
    done = run(
        "chronus",
        job("large", 2, 2, 4, weight=3.0),
        job("left", 2, 2, 2, weight=2.0),
        job("right", 2, 2, 2, weight=2.0),
        job("effort", 1, None, 4),
    )
    assert starts(done) == {"large": None, "left": 0.0, "right": 0.0, "effort": 2.0}
    assert done.schedule.unplaced["large"].startswith("refused by chronus")


def test_chronus_holds_a_lease_to_its_end_and_decides_at_the_next() -> None:
    """Who asks within a lease waits for its end; best effort takes what it leaves at once."""
    done = run(
        make_scheduler("chronus", lease_s=2 * HOUR),
        job("holder", 4, 8, 2),
        job("asks", 1, 8, 2, arrival_s=HOUR),
        job("effort", 2, None, 2, arrival_s=HOUR),
    )
    assert starts(done) == {"holder": 0.0, "asks": 2.0, "effort": 1.0}
    # The lease in which "asks" begins is its own; "effort" goes on when that is done.
    assert hours_of(done, "effort") == [1, 3]


def test_chronus_keeps_one_size_for_all_leases() -> None:
    """Half the work on one GPU and half on four would do; of single sizes only four is in time."""
    done = run("chronus", job("one", 8, 2, 1, 4), job("base", 2, 2, 3, refusable=False))
    assert done.schedule.unplaced["one"].startswith("refused by chronus")
    done = run("chronus", job("one", 8, 2, 1, 4))
    assert done.completion_s["one"] == 2 * HOUR


def test_chronus_begins_early_and_gives_idle_leases_away() -> None:
    done = run("chronus", job("late", 2, 9, 4), job("effort", 1, None, 4))
    assert starts(done) == {"late": 0.0, "effort": 2.0}


def test_the_length_of_a_lease_is_more_than_nothing() -> None:
    with pytest.raises(InstanceError, match="lease_s is 0"):
        make_scheduler("chronus", lease_s=0.0)


def test_prices_are_the_integral_of_the_rule() -> None:
    """With one worth, an empty cluster costs 1 - 1/e of it, and the last GPU nearly all."""
    gpus = np.array([1.0, 10.0])
    cost = prices(np.array([0.0, 9.0, 10.0]), gpus, 10.0, 2.0, 2.0)
    assert cost[0, 1] == pytest.approx(20.0 * (1 - 1 / math.e))
    assert cost[1, 0] == pytest.approx(20.0 * (1 - math.exp(-0.1)))
    assert np.isinf([cost[1, 1], cost[2, 0]]).all()
    points = np.linspace(0.0, 1.0, 100_001)
    density = 3 / math.e * (7 * math.e / 3) ** points
    whole = np.trapezoid(density, points) * 10.0
    assert prices(np.zeros(1), gpus, 10.0, 3.0, 7.0)[0, 1] == pytest.approx(whole)


def test_primal_dual_keeps_room_for_what_is_worth_more() -> None:
    """Ten GPUs, one slot. After one job of 100, the first of weight 1 pays 0.86, the next 1.51."""
    rich = [job(f"rich-{k}", 1, 1, 1, weight=100.0) for k in range(9)]
    poor = [job(f"poor-{k}", 1, 1, 1, weight=1.0) for k in range(10)]
    done = run("primal-dual", rich[0], *poor, *rich[1:], gpus=10)
    accepted = {name for name, start in starts(done).items() if start is not None}
    assert accepted == {"poor-0", *(each.id for each in rich)}


def test_primal_dual_takes_the_cheapest_slots() -> None:
    """The first slot is half promised, so that a job which has time until 2 h takes the second."""
    done = run(
        "primal-dual",
        job("first", 1, 1, 2, preemptible=True),
        job("second", 1, 2, 2),
        job("third", 1, 2, 4),
    )
    assert hours_of(done, "first") == [0]
    # Marginal return then gives the free half of the first slot to who has a promise.
    assert hours_of(done, "second") == [0]
    assert done.schedule.unplaced["third"].startswith("refused by primal-dual")


def planned(rng: Random, elasticity: Elasticity) -> tuple[Planned, np.ndarray]:
    """Return a job of up to three sizes and four slots, and what each slot costs at each size."""
    number, slots = rng.randint(1, 3), rng.randint(1, 4)
    ways = tuple(
        Configuration((TaskGroup("worker", k + 1, 1000),), float(rng.randint(1, 6)))
        for k in range(number)
    )
    work = float(rng.randint(1, 12))
    last = rng.choice((1.0, 0.5))
    view = JobView(
        "j", 0.0, ways, 1.0, work, work, elasticity=elasticity, deadline_s=slots - 1 + last
    )
    cost = np.array([[rng.uniform(0.1, 3.0) for _ in ways] for _ in range(slots)])
    cost[np.array([[rng.random() < 0.2 for _ in ways] for _ in range(slots)])] = math.inf
    return Planned(view, 1.0, 0.0, range(len(view.configurations))), cost


def cost_of(share: list[tuple[int, int]], cost: np.ndarray) -> float:
    return math.fsum(float(cost[t, k]) for t, k in share)


@pytest.mark.parametrize("elasticity", ["malleable", "moldable"])
def test_cheap_shares_against_every_choice(elasticity: Elasticity) -> None:
    """A share is found where there is one, and costs at most the optimum and one slot more."""
    found = 0
    for seed in range(400):
        job_, cost = planned(Random(seed), elasticity)
        choices = itertools.product(range(-1, len(job_.rate)), repeat=len(job_.usable))
        shares = [[(t, k) for t, k in enumerate(choice) if k >= 0] for choice in choices]
        if elasticity == "moldable":
            shares = [share for share in shares if len({k for _, k in share}) == 1]
        possible = [
            cost_of(share, cost)
            for share in shares
            if math.isfinite(cost_of(share, cost)) and job_.is_enough(share)
        ]
        share = cheapest_share(job_, cost)
        assert (share is None) == (not possible), seed
        if share is None:
            continue
        found += 1
        assert job_.is_enough(share)
        dearest = float(cost[np.isfinite(cost)].max())
        assert min(possible) - 1e-9 <= cost_of(share, cost) <= min(possible) + dearest, seed
    assert found > 100


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (job("near", 2, 4, 1), job("far", 2, None, 1)),
        (job("short", 1, None, 1), job("long", 5, None, 1)),
        (job("heavy", 2, None, 1, weight=9.0), job("light", 2, None, 1, weight=1.0)),
    ],
    ids=["deadline", "remaining time", "weight"],
)
def test_mlfs_goes_by_deadline_remaining_time_and_weight(first: Job, second: Job) -> None:
    done = run("mlfs", second, first, gpus=1)
    assert starts(done)[first.id] == 0.0
    assert (starts(done)[second.id] or 0.0) > 0.0


def test_mlfs_serves_a_new_model_before_one_that_is_nearly_done() -> None:
    """Equal but for progress: half of 4 h is done, and 2 h of a new job of 2 h are all of it."""
    done = run("mlfs", job("old", 4, None, 1), job("new", 2, None, 1, arrival_s=2 * HOUR), gpus=1)
    # Waiting and progress: (2 h waited of 4, half left) against (none waited, all left).
    old = 0.5 * 0.5 + 0.5 * (1 + 0.5) / 3
    new = 0.5 * 1.0 + 0.5 * (1 + 0.0) / 3
    assert new > old
    assert 2 in hours_of(done, "new")


def test_mlfs_gives_up_what_can_not_be_in_time() -> None:
    done = run("mlfs", job("never", 3, 2, 1), job("other", 1, None, 1), gpus=1)
    assert done.schedule.unplaced["never"].startswith("refused by mlfs")


def test_mlfs_gives_what_is_in_time_before_more() -> None:
    """Each needs two GPUs until 2 h; who came first would be faster on all four."""
    done = run("mlfs", job("one", 4, 2, 1, 2, 4), job("two", 4, 2, 1, 2, 4))
    assert done.completion_s == {"one": 2 * HOUR, "two": 2 * HOUR}
    assert {r.configuration for r in done.schedule.runs} == {1}


def asking(rng: Random, number: int, hours: int, *, power: float = 1.0) -> list[Planned]:
    """Return jobs that ask at one time, with deadlines up to half so many slots away."""
    jobs = []
    for position in range(number):
        work = float(rng.randint(1, 12))
        ways = sizes(1, 2, 4)
        if power < 1.0:
            ways = tuple(replace(way, rate=way.rate ** rng.uniform(power, 1.5)) for way in ways)
        view = JobView(
            f"j{position}",
            0.0,
            ways,
            1.0,
            work,
            work,
            deadline_s=rng.randint(1, hours) / 2,
            position=position,
            elasticity=rng.choice(("malleable", "moldable")),
        )
        jobs.append(Planned(view, 1.0, 0.0, range(len(ways))))
    return jobs


def test_elasticflow_fills_what_comes_after_as_it_would_fill_all() -> None:
    """With the new job, or not at all: jobs with earlier deadlines see nothing of it."""
    let_in = 0
    for seed in range(60):
        policy, admitted = ElasticFlow(), list[Planned]()
        held = Holding({}, set())
        for asks in asking(Random(seed), 8, 8):
            whole = filled([*admitted, asks], 4.0)
            more = policy._with(asks, admitted, held, 4.0)
            found = None if more is None else more.plan
            assert found == (whole if len(whole) == len(admitted) + 1 else None), seed
            if more is not None:
                let_in += 1
                admitted.append(asks)
                held = more
    assert 60 < let_in < 480


def test_shares_that_are_found_again_are_those_that_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of many jobs that ask at once, with tables that need not be concave."""
    looked = Counter[bool]()
    share, again = Planned.share, elasticflow._is_found_again

    def let_in(seed: int, keeps: bool) -> Plan:
        def counted(job: Planned, free: np.ndarray) -> Share | None:
            looked[keeps] += 1
            return share(job, free)

        monkeypatch.setattr(Planned, "share", counted)
        monkeypatch.setattr(elasticflow, "_is_found_again", again if keeps else lambda *_: False)
        jobs = asking(Random(seed), 30, 80, power=0.3)
        plan = filled(jobs[::6], 6.0)
        admitted = [job for job in jobs[::6] if job.view.id in plan]
        rest = [job for job in jobs if job not in jobs[::6]]
        return ElasticFlow()._let_in(rest, admitted, Holding(plan, set(plan)), 6.0)

    for seed in range(40):
        assert let_in(seed, True) == let_in(seed, False), seed
    assert 2 * looked[True] < looked[False]


@pytest.mark.parametrize("name", ["elasticflow", "exact-admission", "chronus", "primal-dual"])
@pytest.mark.parametrize("elasticity", ["malleable", "moldable"])
def test_sizes_that_can_not_run_change_nothing(name: str, elasticity: Elasticity) -> None:
    """Neither those that no host holds nor those beyond the quota are promised or waited for."""
    fields = {"tenant": "red", "elasticity": elasticity}
    jobs = [
        job("a", 3, None, 1, 2, **fields),
        job("b", 4, 3, 1, 2, **fields),
        job("c", 2, 4, 2, **fields),
    ]
    never = (
        Configuration((TaskGroup("worker", 1, 1000),), 9.0, gpu_type="h100"),
        Configuration((TaskGroup("worker", 3, 1000),), 9.0),
    )
    longer = [one.replace(configurations=(*one.configurations, *never)) for one in jobs]
    alone = job("d", 1, 2, 1, **fields).replace(configurations=never)
    cluster = flat_cluster("one host", HostType("host", 4, "a100", 8000, 1024), 1)
    instance = Instance(
        "evening", cluster, tuple(jobs), slot_s=HOUR, tenants=(Tenant("red", 2000),)
    )
    plain = simulate(instance, name)
    same = simulate(instance.replace(jobs=tuple(longer)), name)
    assert same.completion_s == plain.completion_s
    beside = simulate(instance.replace(jobs=(*longer, alone)), name)
    assert beside.completion_s == {**plain.completion_s, "d": None}


@pytest.mark.parametrize("name", ["elasticflow", "exact-admission", "primal-dual", "chronus"])
def test_what_is_admitted_is_in_time_where_the_work_is_known(name: str) -> None:
    """On hosts that hold every mix of sizes; jobs run ahead of shares, and tables have steps.

    With these seeds, shares that are filled anew in each slot leave somebody without one.
    """
    admitted = 0
    for seed in (137, 159, 177):
        rng = Random(seed)
        made = []
        for k in range(14):
            rate, ways = rng.uniform(0.5, 2.0), []
            for gpus in (1, 2, 4, 8):
                ways.append(Configuration((TaskGroup("worker", gpus, 1000),), rate))
                rate *= rng.choice((0.9, 1.1, 1.2, 1.5, 2.0, 2.6, 3.0))
            begin, span = rng.uniform(0.0, 8.0) * HOUR, rng.uniform(1.0, 8.0) * HOUR
            made.append(
                Job(
                    f"j{k}",
                    begin,
                    rng.uniform(0.1, 0.8) * max(way.rate for way in ways) * span,
                    tuple(ways),
                    weight=rng.randint(1, 9),
                    deadline_s=begin + span,
                    refusable=True,
                    elasticity=rng.choice(("malleable", "malleable", "moldable")),
                )
            )
        cluster = flat_cluster("two hosts", HostType("host", 4, "a100", 8000, 1024), 2)
        asked = Instance(f"queue {seed}", cluster, tuple(made), slot_s=HOUR)
        done = simulate(asked, name)
        assert "broken_promises" not in done.notes, seed
        assert verify(asked, done.schedule) == []
        refused = {k for k, why in done.schedule.unplaced.items() if "refused by" in why}
        assert set(done.unfinished) == refused
        admitted += len(made) - len(refused)
    assert admitted > 9
