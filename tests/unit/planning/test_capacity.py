"""Required capacity: the formula and the simulator speak of the same queue."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random

import pytest
from pools import FILLER, GANG, QUICK, SHORT, job_class, pool, problem

from alloc.errors import InstanceError
from alloc.planning.capacity import (
    PoolFormula,
    ToMeasure,
    corrected,
    formula_gpus,
    gpus_to_ask,
    holds,
    measured_gpus,
    measured_ratios,
    ratio,
    required_by_formula,
    reserved_gpus,
    usable_gpus,
)
from alloc.planning.pools import Operation, Stream
from alloc.planning.replay import ReplaySettings, replay
from alloc.problems.right_sizing import JobClass, JobOption, ServiceGoal, Tightening
from alloc.problems.right_sizing.headroom import headroom
from alloc.workload.queueing import erlang_b, wait_in_queue


def of_gpus(gpus: int, load: float) -> Operation:
    """Return a pool of 8-GPU hosts and a part of one."""
    whole, rest = divmod(gpus, 8)
    hosts = {8: whole, rest: 1} if rest else {8: whole}
    return dataclasses.replace(pool(1, (SHORT, load)), hosts=hosts)


@pytest.mark.parametrize("guess", [1.0, 24.0, 400.0])
def test_the_fewest_gpus_that_hold_are_found_from_any_guess(guess: float) -> None:
    """A quarter of a host less misses, by the same replay; what there is plays no part."""
    needed = measured_gpus(pool(1, (SHORT, 20.0)), QUICK, guess)
    assert needed % 2 == 0
    assert holds(of_gpus(needed, 20.0), QUICK)
    assert not holds(of_gpus(needed - 2, 20.0), QUICK)
    assert measured_gpus(pool(99, (SHORT, 20.0)), QUICK, guess) == needed


def test_smaller_hosts_of_a_pool_stay() -> None:
    mixed = dataclasses.replace(pool(1, (SHORT, 20.0)), hosts={4: 3, 8: 1})
    needed = measured_gpus(mixed, QUICK, 24.0)
    assert (needed - 12) % 2 == 0
    whole, rest = divmod(needed - 12, 8)
    parts = {4: 1} if rest == 4 else {rest: 1} if rest else {}
    hosts = {4: 3, 8: whole} | {gpus: n + (3 if gpus == 4 else 0) for gpus, n in parts.items()}
    assert holds(dataclasses.replace(mixed, hosts=hosts), QUICK)


def test_a_goal_that_no_number_of_hosts_keeps_is_said() -> None:
    goal = ServiceGoal("jct", 1.0, 0.9)
    slow = JobClass("slow", (JobOption("h100", 1, 0.5), JobOption("a100", 1, 2.0)), goal=goal)
    hopeless = dataclasses.replace(pool(1), streams=(Stream(slow, 1, 2.0, 1.0),))
    with pytest.raises(InstanceError, match="misses the goal of slow with any number of hosts"):
        measured_gpus(hopeless, ReplaySettings(jobs=20, replications=2), 8.0)


def test_capacity_is_measured_as_verdicts_are_given() -> None:
    """By the same test, on draws of their own: neither is more careful than the other."""
    for load in (5.0, 5.5, 6.0, 6.5, 7.0):
        one = pool(1, (SHORT, load))
        assert holds(one, QUICK) == all(m.holds for m in replay(one, QUICK, draw=0))
        assert replay(one, QUICK, draw=0) != replay(one, QUICK, draw=1)


def test_for_single_gpus_the_formula_is_erlangs() -> None:
    """Jobs of one GPU have peakedness 1: what is required is where Erlang's formula just holds."""
    for load in (3.0, 12.0, 60.0):
        streams = pool(1, (SHORT, load)).streams
        gpus = formula_gpus(streams, SHORT)
        assert SHORT.goal is not None
        exceeding = [
            wait_in_queue(servers, load, 1.0, 1.0).exceeds(SHORT.goal.hours)
            for servers in (int(gpus) + 1, int(gpus))
        ]
        assert exceeding[0] <= 0.1 < exceeding[1]


@pytest.mark.parametrize("load", [1e-300, 1e-15, 1e-9, 1e-3])
def test_next_to_no_load_requires_room_for_its_largest_gang(load: float) -> None:
    """A class of which a forecast says nearly nothing: no search finer than round-off."""
    assert formula_gpus(pool(1, (GANG, load)).streams, GANG) == 16.0


@pytest.mark.parametrize("load", [0.01, 0.7, 5.0, 77.3, 900.0])
def test_that_no_gpu_is_free_is_as_likely_as_erlang_says(load: float) -> None:
    formula = PoolFormula(pool(1, (SHORT, load)).streams)
    for servers in (int(load) + 40, int(load) + 1, int(load) + 3, int(load), 2000):
        if servers:
            # Of 2,000 servers for next to no load the chance is below round-off.
            assert formula._finds_less(1.0, servers) == pytest.approx(
                erlang_b(servers, load), rel=1e-9, abs=1e-12
            )


MIXES = [
    # GPUs of a gang, hours, GPUs busy, hours that 90 % may wait.
    ((32, 8.0, 2.0, 8.0), (8, 29.0, 8.0, 24.0), (32, 27.0, 1.2, 16.0)),
    ((16, 0.3, 4.0, 0.2), (2, 38.0, 8.0, 160.0)),
    ((32, 0.5, 4.0, 0.4), (8, 4.4, 11.5, 1.7), (1, 3.0, 8.0, 5.5)),
    ((32, 0.4, 8.0, 0.1), (8, 1.0, 8.0, 0.9), (1, 4.0, 1.0, 2.1)),
    ((16, 4.7, 1.2, 6.3), (4, 2.2, 16.0, 1.4), (32, 0.6, 5.0, 0.7)),
]


@pytest.mark.parametrize("mix", MIXES)
def test_few_gangs_in_a_small_pool_require_what_is_left_while_one_waits(
    mix: tuple[tuple[int, float, float, float], ...],
) -> None:
    """Within a fifth of what is measured, where the mean gang alone is short by a third."""
    loads = [
        (job_class(f"{i}", gang, hours, ServiceGoal("wait", wait, 0.9)), load)
        for i, (gang, hours, load, wait) in enumerate(mix)
    ]
    shared = pool(1, *loads)
    required = required_by_formula(shared)
    measured = measured_gpus(shared, ReplaySettings(jobs=2000, replications=3), required)
    assert 0.8 * measured <= required <= 1.2 * measured
    peakedness = shared.variance / shared.load
    single = [
        (job_class(f"{i}", 1, hours, ServiceGoal("wait", wait, 0.9)), load / peakedness)
        for i, (_, hours, load, wait) in enumerate(mix)
    ]
    assert peakedness * required_by_formula(pool(1, *single)) < 0.8 * measured


def test_gangs_are_servers_of_their_size() -> None:
    """Jobs of 8 GPUs need 8 times what jobs of one GPU at an eighth of the load need."""
    ones, eights = job_class("a", 1, 1.0, SHORT.goal), job_class("a", 8, 1.0, SHORT.goal)
    one = formula_gpus(pool(1, (ones, 5.0)).streams, ones)
    eight = formula_gpus(pool(1, (eights, 40.0)).streams, eights)
    assert eight == pytest.approx(8 * one, rel=2e-3)


def test_more_load_and_stricter_goals_require_more() -> None:
    """The formula has no dips, and never less than the load or the largest gang."""
    goals = [ServiceGoal("wait", hours, 0.9) for hours in (4.0, 1.0, 0.25)]
    for gang in (1, 8, 32):
        before = {goal: 0.0 for goal in goals}
        for load in (0.5, 2.0, 8.0, 33.0, 140.0):
            required = []
            for goal in goals:
                strict = job_class("strict", 1, 1.0, goal)
                other = job_class("other", gang, 4.0)
                streams = pool(1, (strict, load), (other, load)).streams
                required.append(formula_gpus(streams, strict))
                assert required[-1] >= max(2 * load, gang, before[goal])
                before[goal] = required[-1]
            assert all(a <= b * (1 + 2e-3) for a, b in itertools.pairwise(required))


@pytest.mark.parametrize(
    "loads",
    [
        ((SHORT, 20.0),),
        ((SHORT, 12.0), (FILLER, 20.0)),
        ((SHORT, 12.0), (GANG, 40.0)),
        ((SHORT, 22.0), (job_class("long gangs", 32, 9.0), 40.0)),
    ],
)
def test_the_formula_is_near_what_is_measured(loads: tuple[tuple[JobClass, float], ...]) -> None:
    """Within two hosts or a fifth, where class by class half of the capacity would be missing."""
    shared = pool(1, *loads)
    required = max(formula_gpus(shared.streams, c) for c, _ in loads if c.goal is not None)
    measured = measured_gpus(shared, ReplaySettings(jobs=4000, replications=3), required)
    assert abs(measured - required) <= max(16.0, 0.2 * measured)


def test_what_is_reserved_is_the_headroom_and_its_factor_but_no_margin() -> None:
    mixed = pool(4, (SHORT, 12.0), (FILLER, 8.0))
    asked = problem(
        Tightening("short", "a100", "hall", factor=2.0, margin=7.0),
        Tightening("filler", "h100", "hall", factor=3.0),
    )
    expected = 2 * 12.0 * (headroom(asked, SHORT, 0, 1000.0) or 0.0)
    expected += 8.0 * (headroom(asked, FILLER, 0, 1000.0) or 0.0)
    assert reserved_gpus(asked, mixed) == pytest.approx(expected)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_pool_requires_what_its_tightest_regime_does_however_few_are_measured(seed: int) -> None:
    """Those that hold with what others need are not measured one by one, and nothing changes."""
    rng = random.Random(seed)
    regimes = [
        ToMeasure(
            pool(4, (SHORT, rng.uniform(1, 12)), (GANG, rng.uniform(2, 16)), quarter=quarter),
            draw,
            0.0,
            math.inf,
        )
        for quarter in range(2)
        for draw in range(2)
    ]
    (found,) = measured_ratios([(rng.uniform(0.3, 2.0), regimes)], QUICK)
    each = [ratio(one, measured_gpus(one, QUICK, 20.0, draw)) for one, draw, *_ in regimes]
    assert found == pytest.approx(max(each))
    # Between what is known beforehand.
    most = min(each) / 2
    capped = [one._replace(most=most) for one in regimes]
    assert measured_ratios([(1.0, capped)], QUICK) == [pytest.approx(most)]
    least = [one._replace(least=2 * max(each)) for one in regimes]
    assert measured_ratios([(1.0, least)], QUICK) == [pytest.approx(2 * max(each))]


@pytest.mark.parametrize("gangs", [(1,), (32,), (8, 32), (6, 4), (3,), (16, 48)])
@pytest.mark.parametrize("host_gpus", [1, 4, 8, 12])
def test_the_fewest_hosts_are_asked_for_whose_gpus_gangs_can_fill(
    gangs: tuple[int, ...], host_gpus: int
) -> None:
    """By trying one number of hosts after another, and all sums of gangs."""
    classes = [job_class(f"{gpus}-gpu", gpus, 1.0, SHORT.goal) for gpus in gangs]
    streams = pool(1, *((c, 1.0) for c in classes)).streams
    sums = {0}
    for gpus in gangs:
        for many in range(600 // gpus + 1):
            sums |= {gpus * many + other for other in sums if other < 200}
    # What is left over of small pools may be no sum of gangs: 2 of gangs of 4 and 6, say.
    for required in (50.0, 64.0, 64.5, 70.3, 95.9, 96.0):
        hosts = next(n for n in range(600) if usable_gpus(streams, n * host_gpus) >= required)
        usable = max(filled for filled in sums if filled <= hosts * host_gpus)
        assert usable_gpus(streams, hosts * host_gpus) == usable
        asked = gpus_to_ask(streams, required, host_gpus)
        assert asked >= required
        assert math.ceil(asked / host_gpus) == hosts


def test_what_is_left_of_a_gang_is_no_use_and_not_measured_as_if_it_were() -> None:
    """A pool of three gangs and a half keeps what one of three keeps, and lacks half a gang."""
    long = job_class("long", 32, 2.0, ServiceGoal("wait", 3.0, 0.9))
    twelve, fifteen, sixteen = (pool(hosts, (long, 75.0)) for hosts in (12, 15, 16))
    assert replay(twelve, QUICK) == replay(fifteen, QUICK)
    assert ratio(twelve, 96) == ratio(fifteen, 120) < ratio(sixteen, 128)
    (found,) = measured_ratios([(1.0, [ToMeasure(fifteen, 0, 0.0, math.inf)])], QUICK)
    needed = measured_gpus(fifteen, QUICK, 100.0)
    assert needed % 32 == 0
    assert ratio(fifteen, needed - 32) < found < ratio(fifteen, needed)
    required = corrected(fifteen.streams, formula_gpus(fifteen.streams, long), found)
    assert gpus_to_ask(fifteen.streams, required, 8) == needed - 4
