"""Plans in the simulator: pools hold what the plan sends them, and goals are measured honestly."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.planning.pools import Operation, Pool, Regime, Stream, operations_of, tightest
from alloc.planning.replay import ReplaySettings, _jobs, replay
from alloc.problems.right_sizing import (
    HostOffer,
    JobClass,
    JobOption,
    Order,
    Owned,
    Plan,
    PlanningProblem,
    Rental,
    Scenario,
    ServiceGoal,
    Share,
    Site,
)
from alloc.problems.right_sizing.accounting import hosts_in_service
from alloc.topology import HostType
from alloc.workload.queueing import wait_in_queue

QUICK = ReplaySettings(jobs=200, replications=3)


def problem(**changes: object) -> PlanningProblem:
    small = JobClass("small", (JobOption("a100", 1, 2.0),), goal=ServiceGoal("wait", 1.0, 0.9))
    batch = JobClass("batch", (JobOption("a100", 8, 5.0),), interruptible=True, spot_overhead=0.2)
    eight, four = HostType("eight", 8, "a100"), HostType("four", 4, "a100")
    base = PlanningProblem(
        name="two pools",
        currency="EUR",
        num_quarters=3,
        offers=(
            HostOffer("buy-8", eight, "purchase", 1e5, lead_time_quarters=1, service_quarters=1),
            HostOffer("buy-4", four, "purchase", 6e4),
            HostOffer("hire-4", four, "on_demand", 10.0),
            HostOffer("spot-8", eight, "spot", 6.0),
        ),
        sites=(Site("north"),),
        classes=(small, batch),
        scenarios=(Scenario("1", 1.0, {"small": (4.0, 4.0, 4.0), "batch": (0.1, 0.1, 0.1)}),),
        owned=(Owned("buy-8", "north", 2, 2),),
        failures=1,
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def test_enough_jobs_end_a_replay_before_it_is_sure() -> None:
    """Of two replications at least: the first ones of a replay that goes on."""
    job_class = JobClass("one", (JobOption("a100", 1, 1.0),), goal=ServiceGoal("wait", 0.5, 0.9))
    for gpus in range(12, 17):
        pool = Operation(
            Pool("a100", "hall", False),
            Regime("1", 0, 0),
            {gpus: 1},
            (Stream(job_class, 0, 1.0, 11.5),),
        )
        (whole,) = replay(pool, QUICK)
        (short,) = replay(pool, QUICK, enough_jobs=1)
        assert short.value.count == 2
        assert replay(pool, QUICK, enough_jobs=10**9) == (whole,)
        assert whole.value.count >= QUICK.replications
        assert short.jobs < whole.jobs


PLAN = Plan(
    orders=(Order("buy-8", "north", 0, 3), Order("buy-4", "north", 1, 1)),
    rentals=(
        Rental("1", 0, 0, "hire-4", "north", 1.2),
        Rental("1", 0, 0, "spot-8", "north", 0.6),
        Rental("1", 1, 0, "hire-4", "north", 1e-12),
    ),
    shares=(
        Share("1", 0, 0, "small", 0, "north", False, 4.0),
        Share("1", 1, 0, "small", 0, "north", False, 3.0),
        Share("1", 0, 0, "batch", 0, "north", True, 0.1),
        Share("1", 1, 0, "batch", 0, "north", False, 1e-12),
    ),
)


def test_hosts_serve_after_their_lead_time_until_they_retire() -> None:
    fleet = hosts_in_service(problem(), PLAN)
    assert {place: list(counts) for place, counts in fleet.items()} == {
        ("buy-8", "north"): [2, 5, 0],
        ("buy-4", "north"): [0, 1, 1],
    }


def test_a_plan_taken_apart_has_its_hosts_and_jobs_in_every_pool() -> None:
    """Spares are down, rented hosts rounded up, round-off of the linear program left out."""
    firm, spot = Pool("a100", "north", False), Pool("a100", "north", True)
    operations = operations_of(problem(), PLAN)
    assert [(o.pool, o.regime.quarter, o.hosts) for o in operations] == [
        (firm, 0, {8: 1, 4: 2}),
        (firm, 1, {4: 1, 8: 4}),
        (spot, 0, {8: 1}),
    ]
    (batch,) = operations[2].streams
    assert (batch.gpus, batch.hours) == (8, 6.0)
    assert batch.load == pytest.approx(4.8)
    assert [o.regime.quarter for o in tightest(operations)] == [0, 0]
    assert len(tightest(operations, each=2)) == 3


def test_regimes_are_replayed_in_which_a_goal_can_be_missed() -> None:
    """A pool is at its tightest without the jobs that have a goal; in the regimes with them too."""
    goal = ServiceGoal("wait", 0.5, 0.9)
    full, less = (
        dataclasses.replace(operation({8: 1}, *streams), regime=Regime("1", quarter, 0))
        for quarter, streams in enumerate(
            [[stream(None, gpus=8, rate=0.45)], [stream(goal, rate=2.0), stream(None, rate=0.5)]]
        )
    )
    assert tightest([full]) == (full,)
    assert tightest([full, less]) == (less,)
    assert tightest([full, less], each=2) == (less, full)


@pytest.mark.parametrize("seed", range(5))
def test_every_class_with_a_goal_is_replayed_where_it_is_tightest(seed: int) -> None:
    """However many tighter regimes there are without it: else "holds" would be said of nothing."""
    rng = np.random.default_rng(seed)
    goal = ServiceGoal("wait", 0.5, 0.9)
    regimes = [
        dataclasses.replace(
            operation(
                {8: 4},
                *(
                    stream(goal if gpus < 8 else None, gpus=gpus, rate=float(rng.uniform(0.1, 2.0)))
                    for gpus in (1, 2, 4, 8)
                    if rng.random() < 0.4
                ),
            ),
            regime=Regime("1", quarter, 0),
        )
        for quarter in range(8)
    ]
    regimes = [one for one in regimes if one.streams]
    everything = tightest(regimes, each=len(regimes))
    for each in (1, 2):
        chosen = tightest(regimes, each)
        assert chosen[:each] == everything[:each]
        seen = set[str]()
        for one in everything:
            own = {s.job_class.name for s in one.streams if s.job_class.goal is not None}
            if one in chosen[each:]:
                assert not own <= seen, "no more regimes than are needed"
            seen |= own if one in chosen else set()
            assert own <= seen


def operation(hosts: dict[int, int], *streams: Stream) -> Operation:
    return Operation(Pool("a100", "north", False), Regime("1", 0, 0), hosts, streams)


def stream(goal: ServiceGoal | None, *, gpus: int = 1, hours: float = 2.0, rate: float) -> Stream:
    job_class = JobClass(f"{gpus}-gpu", (JobOption("a100", gpus, hours),), goal=goal)
    return Stream(job_class, 0, hours, rate)


def test_the_replay_measures_what_queueing_theory_says() -> None:
    """One-GPU jobs with exponential-like run times in one pool are a queue with known waits."""
    goal = ServiceGoal("wait", 0.5, 0.9)
    pool = operation({8: 1}, stream(goal, rate=2.8))
    (measured,) = replay(pool, ReplaySettings(jobs=3000, replications=4, variation=1.0, seed=1))
    expected = 1 - wait_in_queue(8, 2.8, 2.0, 1.0).exceeds(0.5)
    assert measured.value.mean == pytest.approx(expected, abs=0.05)
    assert measured.jobs == pytest.approx(measured.value.count * 0.75 * 3000, rel=0.05)


def test_a_pool_is_full_when_its_replay_begins() -> None:
    """Where many long jobs run at once, few arrive meanwhile: an empty pool would fill up only."""
    goal = ServiceGoal("wait", 2.0, 0.9)
    pool = operation({8: 8}, stream(goal, hours=50.0, rate=61.0 / 50.0))
    settings = ReplaySettings(jobs=20, replications=40, variation=1.0)
    (measured,) = replay(pool, settings)
    expected = 1 - wait_in_queue(64, 61.0 / 50.0, 50.0, 1.0).exceeds(2.0)
    assert expected < 0.6
    assert measured.value.mean == pytest.approx(expected, abs=0.12)


@pytest.mark.parametrize("variation", [0.0, 0.8])
def test_jobs_run_from_the_beginning_as_many_and_as_long_as_at_any_moment(variation: float) -> None:
    """On average their number is Little's, and what is left of them that of a renewal process."""
    goal = ServiceGoal("wait", 2.0, 0.9)
    pool = operation(
        {8: 6000}, stream(goal, hours=3.0, rate=8000.0), stream(None, gpus=4, rate=4000.0)
    )
    settings = ReplaySettings(jobs=20, variation=variation)
    arrivals_s, members, work_s = _jobs(pool, settings, np.random.default_rng(0))
    running = arrivals_s == 0
    assert np.all(np.diff(arrivals_s) >= 0)
    for i, hours, rate in ((0, 3.0, 8000.0), (1, 2.0, 4000.0)):
        own = running & (members == i)
        assert own.sum() == pytest.approx(rate * hours, rel=0.05)
        left = np.mean(work_s[own]) / 3600
        assert left == pytest.approx(hours * (1 + variation**2) / 2, rel=0.05)


def test_jobs_make_way_for_others_some_times_in_a_replication() -> None:
    """However few jobs are asked for: else one moment is all that is seen of a large pool."""
    goal = ServiceGoal("wait", 2.0, 0.9)
    pool = operation(
        {8: 60}, stream(goal, hours=2.0, rate=60.0), stream(None, gpus=8, hours=30.0, rate=1.0)
    )
    assert 25 < pool.turn_hours < 30
    (measured,) = replay(pool, ReplaySettings(jobs=20, replications=2))
    each = measured.jobs / measured.value.count
    assert each == pytest.approx(0.75 * 60.0 * 5 * pool.turn_hours, rel=0.1)


def test_many_short_jobs_beside_a_few_long_ones_are_not_drawn_by_the_million() -> None:
    """Five turns of the long ones are 12 million jobs: too many to keep, or to replay in time."""
    goal = ServiceGoal("wait", 2.0, 0.9)
    pool = operation(
        {8: 120},
        stream(goal, hours=0.01, rate=5000.0),
        stream(None, gpus=16, hours=500.0, rate=0.1),
    )
    arrivals_s, _, _ = _jobs(pool, ReplaySettings(jobs=20), np.random.default_rng(0))
    assert np.count_nonzero(arrivals_s) == 200_000


@pytest.mark.parametrize("fraction", [None, 0.9])
def test_replications_go_on_until_the_interval_is_on_one_side(fraction: float | None) -> None:
    """A goal clearly kept or missed takes one batch; one that is near four, and is not sure."""
    counts = set()
    for rate in np.linspace(1.0, 4.5, 29):
        goal = ServiceGoal("wait", 0.5, fraction)
        for measured in replay(operation({8: 1}, stream(goal, rate=float(rate))), QUICK):
            low, high = measured.value.low, measured.value.high
            assert low is not None
            assert high is not None
            counts.add(measured.value.count)
            assert measured.is_sure == (not low < measured.wanted < high)
            assert measured.is_sure or measured.value.count == 4 * QUICK.replications
    assert min(counts) == QUICK.replications
    assert max(counts) == 4 * QUICK.replications


@pytest.mark.parametrize("measure", ["wait", "jct"])
@pytest.mark.parametrize("fraction", [None, 0.9])
def test_goals_hold_with_room_and_fail_without(measure: str, fraction: float | None) -> None:
    goal = ServiceGoal(measure, 2.5, fraction)  # type: ignore[arg-type]
    idle, full = ({8: 10}, {8: 1})
    for hosts, holds in ((idle, True), (full, False)):
        (measured,) = replay(operation(hosts, stream(goal, rate=5.0)), QUICK)
        assert measured.holds is holds
        assert measured.goal == goal.sentence


def test_jobs_of_the_class_without_a_goal_are_not_judged_but_take_room() -> None:
    goal = ServiceGoal("wait", 0.1, 0.9)
    alone = operation({8: 2}, stream(goal, rate=2.0))
    crowded = operation({8: 2}, *alone.streams, stream(None, gpus=8, hours=10.0, rate=0.15))
    assert [m.holds for m in replay(alone, QUICK)] == [True]
    assert [m.holds for m in replay(crowded, QUICK)] == [False]
    assert replay(operation({8: 2}, stream(None, rate=1.0)), QUICK) == ()


def test_a_pool_that_holds_no_gang_serves_nobody() -> None:
    for fraction, value in ((0.9, 0.0), (None, math.inf)):
        goal = ServiceGoal("wait", 1.0, fraction)
        (measured,) = replay(
            operation({4: 1}, stream(goal, gpus=8, rate=0.1), stream(None, rate=0.1)), QUICK
        )
        assert not measured.holds
        assert measured.value.mean == value


def test_a_replay_is_the_same_every_time_and_other_with_another_seed() -> None:
    pool = operation({8: 1}, stream(ServiceGoal("wait", 0.5, 0.9), rate=3.0))
    assert replay(pool, QUICK) == replay(pool, QUICK)
    assert replay(pool, QUICK) != replay(pool, dataclasses.replace(QUICK, seed=1))
    assert replay(pool, QUICK, draw=1) != replay(pool, QUICK)
    assert replay(pool, QUICK, draw=1) == replay(pool, QUICK, draw=1)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"scheduler": "fifoo"}, "fifo"),
        ({"replications": 1}, "replications"),
        ({"jobs": 3}, "jobs"),
        ({"variation": -1.0}, "variation"),
    ],
)
def test_settings_out_of_range_are_refused_before_anything_runs(
    changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InstanceError, match=sentence):
        ReplaySettings(**changes)  # type: ignore[arg-type]
