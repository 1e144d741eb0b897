"""Capacity buffers: what a pool requires beyond what the model sets aside, and because of whom."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Sequence

import pytest
from pools import FILLER, GANG, QUICK, SHORT, pool, problem

from alloc.planning import capacity
from alloc.planning.buffers import Knowledge, fit, learn, raise_buffers
from alloc.planning.capacity import (
    corrected,
    formula_gpus,
    holds,
    measured_gpus,
    ratio,
    reserved_gpus,
)
from alloc.planning.pools import Operation, Regime, tightest_by_band
from alloc.planning.replay import replay
from alloc.planning.tightenings import keys_of, priced, tightened, with_shared_pools
from alloc.problems.right_sizing import (
    JobClass,
    JobOption,
    PlanningProblem,
    Scenario,
    ServiceGoal,
    Tightening,
)
from alloc.problems.right_sizing.bands import bands_of
from alloc.problems.right_sizing.demand import MarginKey
from alloc.problems.right_sizing.headroom import KEPT_OUT, headroom, margins, tightening_factors


def key(*names: str, gpu_type: str = "a100") -> MarginKey:
    return MarginKey(frozenset(names), gpu_type, "hall", False)


def learned(*operations: Operation, asked: PlanningProblem | None = None) -> Knowledge:
    """Return what replays of some pools teach."""
    knowledge = Knowledge()
    replayed = [(o, replay(o, QUICK, draw=1)) for o in operations]
    learn(knowledge, asked or problem(), (), operations, replayed, QUICK)
    return knowledge


def replace_hosts(operation: Operation, hosts: int) -> Operation:
    return dataclasses.replace(operation, hosts={8: hosts})


def kept(knowledge: Knowledge, operation: Operation) -> float:
    """Return the largest buffer that the classes in a pool make the model keep."""
    names = {stream.job_class.name for stream in operation.streams}
    pool_of = operation.pool.gpu_type, operation.pool.site, operation.pool.spot
    found = (
        gpus
        for (k, quarter), gpus in knowledge.buffers.items()
        if k.job_classes <= names and (*k[1:], quarter) == (*pool_of, operation.regime.quarter)
    )
    return max(found, default=0.0)


@pytest.mark.parametrize(
    "missed",
    [
        pool(1, (SHORT, 7.9)),
        pool(4, (SHORT, 12.0), (GANG, 16.0)),
        pool(3, (SHORT, 6.0), (FILLER, 16.0)),
    ],
)
def test_a_pool_that_missed_is_given_what_it_requires(missed: Operation) -> None:
    """Whatever its mix: what the model sets aside and the buffer make the hosts that hold."""
    knowledge = learned(missed)
    given = reserved_gpus(problem(), missed) + kept(knowledge, missed)
    needed = max(measured_gpus(missed, QUICK, given, draw) for draw in (0, 1))
    assert given > missed.gpus
    assert needed - 1e-6 <= given <= max(needed, missed.gpus + 8) + 1e-6
    assert knowledge.measured == {missed.pool}
    # The formula and the correction together are what was measured.
    assert given == pytest.approx(knowledge.required(missed), rel=1e-6)


def test_a_pool_that_surely_holds_asks_for_no_more_than_it_has() -> None:
    """However careful the formula is: here it knows nothing of constant run times."""
    for hosts in range(2, 9):
        roomy = pool(hosts, (SHORT, 12.0))
        if not all(m.value.low >= 0.9 for m in replay(roomy, QUICK, draw=1) if m.value.low):
            continue
        knowledge = learned(roomy)
        assert not knowledge.measured
        given = reserved_gpus(problem(), roomy) + kept(knowledge, roomy)
        assert given <= max(roomy.gpus, reserved_gpus(problem(), roomy)) + 1e-9


def test_a_pool_where_no_job_with_a_goal_came_says_nothing() -> None:
    """Nothing measured is no proof that less would do."""
    rare = pool(9, (SHORT, 1e-2), (FILLER, 8.0))
    knowledge = Knowledge()
    learn(knowledge, problem(), (), [rare], [(rare, ())], QUICK)
    assert not knowledge.corrections


def test_moves_are_priced_by_options_that_are_fast_enough() -> None:
    """The cheapest option may be one that the goal rules out, and with it the pool."""
    fast, slow = JobOption("h100", 8, 1.0), JobOption("h100", 1, 4.0)
    late = JobClass("late", (JobOption("a100", 1, 1.0), slow, fast), ServiceGoal("jct", 2.0, 0.9))
    asked = problem().replace(
        classes=(late, FILLER, GANG),
        scenarios=(Scenario("1", 1.0, {"late": (1.0,), "filler": (1.0,), "gang": (0.1,)}),),
    )

    def price(*options: JobOption) -> float | None:
        own = dataclasses.replace(late, options=(late.options[0], *options))
        changed = asked.replace(classes=(own, FILLER, GANG))
        factors = tightening_factors(priced(changed, Knowledge(), ()))
        return factors.get(("late", "h100", "hall", False))

    assert price(slow) is None
    assert price(fast, slow) == price(fast)
    assert (price(fast) or 0.0) > 1.0


def test_a_pool_that_holds_with_a_buffer_gives_back_what_it_does_not_need() -> None:
    """What it requires is measured from above too, whoever the buffer was asked for."""
    roomy = pool(9, (SHORT, 12.0))
    knowledge = Knowledge()
    replayed = [(roomy, replay(roomy, QUICK, draw=1))]
    learn(knowledge, problem(), {key("gang")}, [roomy], replayed, QUICK)
    assert not knowledge.measured
    learn(knowledge, problem(), {key("short")}, [roomy], replayed, QUICK)
    assert knowledge.measured == {roomy.pool}
    given = reserved_gpus(problem(), roomy) + kept(knowledge, roomy)
    needed = measured_gpus(roomy, QUICK, 24.0)
    assert given <= max(needed, reserved_gpus(problem(), roomy)) < roomy.gpus


def test_without_the_gangs_the_pool_is_as_small_as_they_never_had_been_there() -> None:
    """The buffer of a pair goes with it; what is left is that of the others."""
    mixed = pool(4, (SHORT, 12.0), (GANG, 24.0))
    knowledge = learned(mixed)
    together, alone = (
        knowledge.buffers[key("short", "gang"), 0],
        knowledge.buffers[key("short"), 0],
    )
    assert together > alone + 8
    correction = knowledge.correction(mixed.pool)
    only = pool(4, (SHORT, 12.0))
    expected = corrected(only.streams, formula_gpus(only.streams, SHORT), correction)
    expected -= reserved_gpus(problem(), only)
    assert alone == pytest.approx(max(expected, 0.0))
    # Nobody is asked for a buffer because of classes without goals alone.
    assert (key("filler"), 0) not in learned(pool(4, (SHORT, 1.0), (FILLER, 8.0))).buffers


def test_pools_never_measured_are_corrected_by_the_median() -> None:
    knowledge = Knowledge()
    here, there = pool(1, (SHORT, 1.0)).pool, pool(1, (SHORT, 1.0), gpu_type="h100").pool
    assert knowledge.correction(here) == 1.0
    knowledge.corrections = {
        dataclasses.replace(here, site=f"site {i}"): gpus for i, gpus in enumerate((0.3, 0.8, 1.9))
    }
    knowledge.corrections[here] = 1.7
    assert knowledge.correction(here) == 1.7
    assert knowledge.correction(there) == statistics.median((0.3, 0.8, 1.9, 1.7))


@pytest.mark.parametrize("load", [0.5, 8.0, 32.0])
def test_load_pays_for_what_the_pool_requires(load: float) -> None:
    """All classes of a pool by the same factor: with it the model sets aside what is required."""
    one = pool(9, (SHORT, load), (FILLER, 2.0), (GANG, load))
    knowledge = Knowledge({one.pool: 1.3})
    asked = priced(problem(), knowledge, [one])
    assert reserved_gpus(asked, one) == pytest.approx(knowledge.required(one))
    factors = tightening_factors(asked)
    assert len({factors[name, "a100", "hall", False] for name in ("short", "filler", "gang")}) == 1
    # The first jobs of a pool are the dearest, so what is left of a class by itself leaves.
    more = pool(9, (SHORT, 2 * load), (FILLER, 4.0), (GANG, 2 * load))
    less = tightening_factors(priced(problem(), knowledge, [more]))
    assert less["short", "a100", "hall", False] < factors["short", "a100", "hall", False]


def test_a_class_that_was_not_sent_to_a_pool_pays_as_if_all_its_jobs_came() -> None:
    """With those who are there already, so that nobody moves in for free by ignorance."""
    here = pool(9, (FILLER, 8.0))
    factors = tightening_factors(priced(problem(), Knowledge(), [here]))
    alone = tightening_factors(priced(problem(), Knowledge(), []))
    for gpu_type in ("a100", "h100"):
        assert factors["short", gpu_type, "hall", False] > 1.0
    assert ("filler", "a100", "hall", False) not in factors, "nobody there has a goal"
    assert factors["short", "h100", "hall", False] == alone["short", "h100", "hall", False]


def test_a_pool_of_next_to_no_load_is_no_choice() -> None:
    """A gang that hardly comes would need hosts that are idle all the time."""
    asked = priced(problem(), Knowledge(), [pool(9, (SHORT, 1e-4), (GANG, 1e-3))])
    assert tightening_factors(asked)["short", "a100", "hall", False] == KEPT_OUT


def test_in_the_trust_region_classes_stay_and_one_of_no_known_pool_may_go_anywhere() -> None:
    """However small the problem: a class with nowhere to stay would leave no plan at all."""
    stay = {("short", "a100", "hall", False)}
    asked = tightened(problem(), learned(pool(1, (SHORT, 7.9))), stay)
    out = {part.key for part in asked.tightening if part.factor >= KEPT_OUT}
    assert out == {("short", "h100", "hall", False)}


def test_corrections_only_rise_until_the_goals_hold() -> None:
    """What a pool lacked is not forgotten for a plan that sends another mix there; then it is."""
    here, knowledge = pool(1, (SHORT, 1.0)).pool, Knowledge()
    for gpus, expected in ((0.9, 0.9), (0.4, 0.9), (1.3, 1.3)):
        knowledge.correct(here, gpus)
        assert knowledge.correction(here) == expected
    roomy = pool(9, (SHORT, 12.0))
    learn(knowledge, problem(), (), [roomy], [(roomy, replay(roomy, QUICK, draw=1))], QUICK)
    assert knowledge.held
    knowledge.correct(here, 0.4)
    assert knowledge.correction(here) == 0.4


def test_what_missed_by_unlucky_draws_is_given_what_holds_by_them() -> None:
    """Draws for sizing may be kinder than those of the verdict; both are evidence."""
    one = pool(3, (SHORT, 12.0), (GANG, 8.0))
    by_others = measured_gpus(one, QUICK, one.gpus)
    for draw in (1, 5):
        assert measured_gpus(one, QUICK, one.gpus, draw) > by_others
        knowledge = Knowledge()
        found = replay(one, QUICK, draw=draw)
        assert not all(m.holds for m in found)
        learn(knowledge, problem(), (), [one], [(one, found)], QUICK, draw)
        given = reserved_gpus(problem(), one) + kept(knowledge, one)
        parts = {8: int(given + 1e-6) // 8, 1: int(given + 1e-6) % 8}
        assert holds(dataclasses.replace(one, hosts=parts), QUICK, draw)


@pytest.mark.parametrize("gang", [1, 8])
def test_a_correction_is_for_what_is_beyond_the_load_and_holds_at_other_loads(gang: int) -> None:
    """Half of what the formula adds in a pool of 100 GPUs is not minus 10 GPUs in one of 20."""
    sized = dataclasses.replace(SHORT, options=(dataclasses.replace(SHORT.options[0], gpus=gang),))
    for load in (4.0, 40.0, 400.0):
        streams = pool(1, (sized, load)).streams
        formula = formula_gpus(streams, sized)
        assert corrected(streams, formula, 1.0) == pytest.approx(formula)
        half = corrected(streams, formula, 0.5)
        assert half == pytest.approx(max((load + formula) / 2, gang))
        assert corrected(streams, formula, 0.0) == max(load, gang)


@pytest.mark.parametrize("gang", [1, 3, 8])
@pytest.mark.parametrize(
    ("wait_hours", "fraction"), [(0.0, 0.95), (0.5, 0.95), (0.5, None), (1e6, 0.95), (1e6, None)]
)
def test_what_was_measured_is_what_is_required_however_loose_the_goal(
    gang: int, wait_hours: float, fraction: float | None
) -> None:
    """The ratio divides by what the formula adds to the load, be it a thousandth of a GPU."""
    option = dataclasses.replace(SHORT.options[0], gpus=gang)
    goal = ServiceGoal("wait", wait_hours, fraction)
    sized = dataclasses.replace(SHORT, options=(option,), goal=goal)
    for load in (1e-3, 1.0, 7.9, 300.0):
        one, knowledge = pool(1, (sized, load)), Knowledge()
        for gpus in (8, 24, 320):
            knowledge.corrections[one.pool] = ratio(one, gpus)
            required = max(gpus // gang * gang, load, gang)
            assert knowledge.required(one) == pytest.approx(required, rel=1e-9)


def two_quarters(*tightening: Tightening) -> PlanningProblem:
    arrivals = {name: (1.0, 1.0) for name in ("short", "filler", "gang")}
    scenarios = (Scenario("1", 1.0, arrivals),)
    return problem(*tightening).replace(num_quarters=2, scenarios=scenarios)


def test_a_quarter_with_less_load_keeps_a_smaller_buffer() -> None:
    """What a full pool requires in one quarter is not asked for in all the others."""
    full = pool(3, (SHORT, 6.0), (FILLER, 16.0))
    slack = pool(3, (SHORT, 2.0), (FILLER, 2.0), quarter=1)
    knowledge = learned(full, slack, asked=two_quarters())
    assert knowledge.measured == {full.pool}
    early, late = (kept(knowledge, operation) for operation in (full, slack))
    assert early > late
    both = key("short", "filler")
    by_quarter = tuple(knowledge.buffers[both, t] for t in range(2))
    for stay in (None, {("short", "a100", "hall", False)}):
        assert margins(tightened(two_quarters(), knowledge, stay))[both] == by_quarter


@pytest.mark.parametrize("seed", range(3))
def test_a_plan_whose_goals_hold_is_one_of_those_with_the_buffers_learned(seed: int) -> None:
    """So the next plan in its pools costs no more: buffers only give back."""
    loads = 4.0 + 3.0 * seed
    for hosts in range(3, 9):
        operations = [
            pool(hosts, (SHORT, loads), (GANG, 8.0)),
            pool(hosts, (SHORT, loads / 2), (GANG, 8.0), quarter=1),
        ]
        settings = dataclasses.replace(QUICK, seed=seed)
        replayed = [(o, replay(o, settings, draw=1)) for o in operations]
        if not all(m.holds for _, measured in replayed for m in measured):
            continue
        knowledge = Knowledge()
        learn(knowledge, two_quarters(), {key("short")}, operations, replayed, settings)
        for operation in operations:
            given = reserved_gpus(two_quarters(), operation)
            assert given + kept(knowledge, operation) <= max(operation.gpus, given) + 1e-6
        return
    raise AssertionError("no number of hosts kept the goals")


def test_a_miss_after_a_plan_that_held_asks_for_what_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That one had less in a regime that was not replayed proves nothing of the others."""
    held, missed = (pool(hosts, (SHORT, 12.0), (GANG, 8.0)) for hosts in (9, 3))
    rare = pool(3, (SHORT, 12.0), (GANG, 8.0), quarter=1)
    knowledge = Knowledge()
    replayed = [(held, replay(held, QUICK, draw=1))]
    learn(knowledge, two_quarters(), {key("short")}, [held, rare], replayed, QUICK)
    assert knowledge.held
    monkeypatch.setattr(capacity, "measured_gpus", lambda *given: 40)
    replayed = [(missed, replay(missed, QUICK, draw=1))]
    learn(knowledge, two_quarters(), {key("short")}, [missed], replayed, QUICK)
    assert knowledge.required(missed) == pytest.approx(40)


def test_what_was_asked_stays_and_measured_only_leaves_the_rest_out() -> None:
    own = Tightening("filler", "h100", "hall", margin=4.0)
    knowledge = learned(pool(1, (SHORT, 7.9)), pool(9, (SHORT, 9.0), gpu_type="h100"))
    assert {p.gpu_type for p in knowledge.measured} == {"a100"}
    asked = tightened(problem(own), knowledge, None)
    assert own in asked.tightening
    added = [part for part in asked.tightening if part != own]
    assert added
    assert {part.gpu_type for part in added} == {"a100"}


def test_buffers_rise_until_a_plan_has_what_its_pools_require() -> None:
    """A plan that keeps what is asked raises nothing; one of which a pool is short does."""
    knowledge = learned(pool(1, (SHORT, 7.9)))
    correction = knowledge.correction(pool(1, (SHORT, 7.9)).pool)
    short = pool(3, (SHORT, 12.0), (GANG, 12.0))
    before = dict(knowledge.buffers)
    assert raise_buffers(knowledge, problem(), [short])
    assert all(knowledge.buffers[k] >= gpus for k, gpus in before.items())
    required = corrected(short.streams, formula_gpus(short.streams, SHORT), correction)
    assert reserved_gpus(problem(), short) + kept(knowledge, short) == pytest.approx(required)
    again = dict(knowledge.buffers)
    assert not raise_buffers(knowledge, problem(), [short])
    assert not raise_buffers(knowledge, problem(), [replace_hosts(short, 99)])
    assert knowledge.buffers == again


def _day_and_night() -> tuple[PlanningProblem, Operation, Operation]:
    """Return a problem with two bands of hours, and a pool: roomy by day, short by night."""
    uneven = dataclasses.replace(SHORT, hourly_profile=(0.1,) * 8 + (1.45,) * 16)
    asked = problem().replace(classes=(uneven, FILLER, GANG))
    bands = bands_of(asked)
    assert bands.count == 2
    of_day, of_night = bands.of_hour[12], bands.of_hour[0]
    day = dataclasses.replace(pool(20, (SHORT, 30.0)), regime=Regime("1", 0, int(of_day)))
    night = dataclasses.replace(pool(1, (SHORT, 6.5)), regime=Regime("1", 0, int(of_night)))
    return asked, day, night


def _parts_of_short(asked: PlanningProblem, knowledge: Knowledge, *every: Operation) -> list[float]:
    """Return what the pool keeps in each band while jobs of the class are sent there, GPUs."""
    found = tightened(asked, knowledge, keys_of(every)).tightening
    found = tuple(one for one in found if one.margin > 0)
    return [max((one.margin * one.bands[b] for one in found), default=0.0) for b in range(2)]


def test_a_buffer_that_is_required_by_night_is_kept_by_night() -> None:
    """By day the pool has enough, and would pay for what it never uses."""
    asked, day, night = _day_and_night()
    knowledge = Knowledge()
    assert raise_buffers(knowledge, asked, [day, night])
    kept_by = _parts_of_short(asked, knowledge, day, night)
    required = knowledge.required(night) - reserved_gpus(asked, night)
    assert kept_by[night.regime.band] == pytest.approx(required)
    assert kept_by[day.regime.band] == 0.0
    assert not raise_buffers(knowledge, asked, [day, night])
    # More by day: what is kept by night stays as it is.
    busy = replace_hosts(day, 4)
    assert raise_buffers(knowledge, asked, [busy, night])
    kept_by = _parts_of_short(asked, knowledge, busy, night)
    more = knowledge.required(busy) - reserved_gpus(asked, busy)
    assert kept_by == pytest.approx(
        [more if band == busy.regime.band else required for band in range(2)]
    )


@pytest.mark.parametrize("own", [0, 160])
def test_hosts_that_are_there_by_day_are_there_by_night(own: int) -> None:
    """Of what is rented by the hour, fewer: there the night asks for a part of the buffer."""
    asked, day, night = _day_and_night()
    there = dataclasses.replace(night, own_gpus=own)
    knowledge = Knowledge()
    fit(knowledge, asked, [day, there])
    kept_by = _parts_of_short(asked, knowledge, day, there)
    by_night, by_day = (knowledge.required(one) - reserved_gpus(asked, one) for one in (night, day))
    # No more than by day, until a plan is seen to be short by night.
    assert kept_by[night.regime.band] == pytest.approx(0.0 if own else min(by_night, by_day))
    assert kept_by[day.regime.band] == pytest.approx(by_day)


def test_the_tightest_of_each_band_is_looked_at() -> None:
    _, day, night = _day_and_night()
    calm = dataclasses.replace(day, regime=dataclasses.replace(day.regime, scenario="2"))
    calm = replace_hosts(calm, 30)
    idle = dataclasses.replace(night, streams=pool(1, (FILLER, 4.0)).streams)
    assert tightest_by_band([calm, day, night]) == (day, night)
    assert tightest_by_band([calm, idle]) == (calm,)


def test_shared_pools_need_no_headroom_but_a_size_that_is_given_is_kept() -> None:
    unknown = problem().replace(pool_gpus=None)
    assert with_shared_pools(problem()) == problem()
    shared = with_shared_pools(unknown)
    for job_class, option in itertools.product(shared.classes, (0, 1)):
        room = headroom(shared, job_class, option, shared.pool_gpus or 0.0)
        assert room == pytest.approx(1 / shared.utilisation)


@pytest.mark.long
def test_pools_are_measured_alike_in_several_processes() -> None:
    missed: Sequence[Operation] = [
        pool(3, (SHORT, 6.0), (FILLER, 16.0), gpu_type=gpu) for gpu in ("a100", "h100")
    ]
    found = []
    for workers in (1, 2):
        knowledge = Knowledge()
        settings = dataclasses.replace(QUICK, workers=workers)
        learn(
            knowledge,
            problem(),
            (),
            missed,
            [(o, replay(o, QUICK, draw=1)) for o in missed],
            settings,
        )
        found.append(knowledge)
    assert found[0] == found[1]
    assert len(found[0].measured) == 2
    assert all(holds(replace_hosts(o, 9), QUICK) for o in missed)
