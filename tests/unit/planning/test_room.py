"""Room is measured where goals are missed, charged to who needs it, and given back."""

from __future__ import annotations

import dataclasses
import math

import pytest
from pools import FILLER, GANG, QUICK, SHORT, pool, problem

from alloc.errors import InstanceError
from alloc.planning.pools import Stream
from alloc.planning.replay import ReplaySettings, replay
from alloc.planning.room import (
    gpus_needed,
    holds,
    load_carried,
    margin_needed,
    reserved,
    room_needed,
    rooms_needed,
)
from alloc.planning.tightening import (
    Learned,
    halfway,
    loosened,
    margins_kept,
    relaxed,
    tightened,
    with_margins,
)
from alloc.problems.right_sizing import (
    JobClass,
    JobOption,
    ServiceGoal,
    Tightening,
)
from alloc.problems.right_sizing.headroom import KEPT_OUT, margins


def test_the_fewest_gpus_that_hold_are_found() -> None:
    """One host fewer misses, by the same replay."""
    few = pool(1, (SHORT, 20.0))
    needed = gpus_needed(few, QUICK)
    assert needed % 8 == 0
    assert holds(pool(needed // 8, (SHORT, 20.0)), QUICK)
    assert not holds(pool(needed // 8 - 1, (SHORT, 20.0)), QUICK)
    assert gpus_needed(pool(needed // 8, (SHORT, 20.0)), QUICK) == needed


def test_a_goal_that_no_number_of_hosts_keeps_is_said() -> None:
    goal = ServiceGoal("jct", 1.0, 0.9)
    slow = JobClass("slow", (JobOption("h100", 1, 0.5), JobOption("a100", 1, 2.0)), goal=goal)
    hopeless = dataclasses.replace(pool(1), streams=(Stream(slow, 1, 2.0, 1.0),))
    with pytest.raises(InstanceError, match="misses the goal of slow with any number of hosts"):
        gpus_needed(hopeless, ReplaySettings(jobs=20, replications=2))


def test_rooms_are_sized_on_the_safe_side() -> None:
    """A mean on the right side of the goal is luck half of the time; the interval is to be."""
    for load in (5.0, 5.5, 6.0, 6.5, 7.0):
        (measured,) = replay(pool(1, (SHORT, load)), QUICK)
        assert measured.value.low is not None
        assert holds(pool(1, (SHORT, load)), QUICK) == (measured.value.low >= 0.9)


def test_the_room_is_what_the_load_takes_up_of_the_pool_it_needs() -> None:
    missing = pool(2, (SHORT, 15.0))
    room = room_needed(missing, QUICK)
    assert 16 <= room <= gpus_needed(missing, QUICK)
    carried = load_carried(pool(4, (SHORT, 15.0)), QUICK, 3.0)
    assert 1 < carried < 3
    assert holds(pool(4, (SHORT, 15.0 * carried)), QUICK)
    assert load_carried(pool(4, (SHORT, 1.0)), QUICK, 2.0) == 2.0


def test_a_gang_larger_than_the_pool_is_charged_alone() -> None:
    """Nothing runs in the pool, and nobody else could cure it."""
    small = pool(1, (SHORT, 2.0), (GANG, 1.0))
    (room,) = rooms_needed(small, reserved(problem(), small), QUICK, {})
    assert room.charged == ("gang",)
    assert room.gpus >= 16


@pytest.mark.long
def test_room_is_charged_to_the_kind_of_jobs_that_holds_up_the_others() -> None:
    """Short jobs wait behind gangs of the whole pool; as much load of their own would not hurt."""
    mixed = pool(4, (SHORT, 12.0), (GANG, 8.0))
    loads = reserved(problem(), mixed)
    (room,) = rooms_needed(mixed, loads, QUICK, {})
    assert room.charged == ("gang",)
    assert room.gpus > 32
    # If they were sent here before, the others must move, or the gangs go from pool to pool.
    (room,) = rooms_needed(mixed, loads, QUICK, {"gang": 1})
    assert room.charged == ("short",)


def test_a_pool_that_is_merely_too_full_charges_those_who_miss() -> None:
    """Whoever leaves, others would fill the room: it is to be kept for those with the goal."""
    full = pool(4, (SHORT, 31.0), (dataclasses.replace(SHORT, name="other"), 31.0))
    (room,) = rooms_needed(full, {"short": 31.0, "other": 31.0}, QUICK, {})
    assert room.charged == ("other", "short")


HERE, THERE = ("short", "a100", "hall", False), ("short", "h100", "hall", False)


def test_tightening_cuts_the_plan_off_and_is_taken_for_pools_not_seen_yet() -> None:
    full, idle = pool(1, (SHORT, 7.9)), pool(4, (FILLER, 8.0), gpu_type="h100")
    learned = Learned()
    replayed = [(o, replay(o, QUICK, draw=1)) for o in (full, idle)]
    found = tightened(problem(), replayed, QUICK, learned)
    assert set(found) == {HERE, THERE}
    assert found[HERE] == found[THERE]
    assert sum(reserved(problem(), full).values()) + found[HERE] > full.gpus
    assert learned.charges == {"short": 1}
    assert learned.guessed == {THERE}
    assert margins(with_margins(problem(), found)) == found


def test_a_pool_that_was_seen_to_hold_is_not_charged_for_another() -> None:
    full, fine = pool(1, (SHORT, 7.9)), pool(4, (SHORT, 1.0), gpu_type="h100")
    learned = Learned()
    replayed = [(o, replay(o, QUICK, draw=1)) for o in (full, fine)]
    assert set(tightened(problem(), replayed, QUICK, learned)) == {HERE}
    assert not learned.guessed


def test_of_too_many_guesses_are_left_those_where_jobs_were_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Elsewhere the class is kept out; before the last round also where it was not replayed."""
    monkeypatch.setattr("alloc.planning.tightening._MOST_GUESSES", 0)
    full = pool(1, (SHORT, 7.9))
    replayed = [(full, replay(full, QUICK, draw=1))]
    out = tightened(problem(), replayed, QUICK, Learned())
    assert out[THERE] == math.inf
    assert math.isfinite(out[HERE])
    (kept_out,) = (p for p in with_margins(problem(), out).tightening if p.key == THERE)
    assert kept_out.factor == KEPT_OUT
    assert margins_kept(with_margins(problem(), out)) == out
    sent = tightened(problem(), replayed, QUICK, Learned(sent={THERE}))
    assert sent[THERE] == sent[HERE]
    learned = Learned(sent={THERE})
    last = tightened(problem(), replayed, QUICK, learned, last=True)
    assert last[THERE] == math.inf
    assert last[HERE] > out[HERE]
    # What is larger than measured is no ground to call a problem impossible.
    assert learned.guessed == {HERE, THERE}


def test_a_gang_asks_for_a_pool_of_its_size_wherever_it_goes() -> None:
    """With half as many GPUs of another type, for half as much."""
    other = dataclasses.replace(GANG, options=(GANG.options[0], JobOption("h100", 8, 4.0)))
    asked = problem().replace(classes=(SHORT, FILLER, other))
    small = pool(1, (other, 1.0))
    found = tightened(asked, [(small, replay(small, QUICK))], QUICK, Learned())
    key = ("gang", "a100", "hall", False)
    assert found[key] + reserved(asked, small)["gang"] == pytest.approx(16)
    assert found["gang", "h100", "hall", False] == pytest.approx(found[key] / 2)


def test_room_that_is_not_needed_is_given_back_but_not_what_was_asked() -> None:
    asked = problem(Tightening("filler", "a100", "hall", margin=2.0))
    tight = with_margins(
        asked,
        {
            ("filler", "a100", "hall", False): 5.0,
            THERE: 40.0,
            ("gang", "a100", "hall", False): 30.0,
        },
    )
    nobody, roomy = pool(3, (FILLER, 14.0)), pool(10, (SHORT, 10.0), gpu_type="h100")
    learned = Learned(guessed={THERE})
    found = relaxed(tight, asked, (nobody, roomy), QUICK, learned)
    # No goal in the pool: no margin beyond what was asked for.
    assert found["filler", "a100", "hall", False] == pytest.approx(2.0)
    # The pool holds with less, as measured.
    assert 0 <= found[THERE] < 40
    assert not learned.guessed
    # Who was sent away may come back at half the price.
    assert found["gang", "a100", "hall", False] == pytest.approx(15.0)


def test_a_pool_that_does_not_surely_hold_gives_nothing_back() -> None:
    """By luck of the draw its goals held in the round; the sizes are found by other draws."""
    narrow = pool(1, (SHORT, 4.0), (FILLER, 3.0))
    left = narrow.gpus - sum(reserved(problem(), narrow).values())
    tight = problem(Tightening("short", "a100", "hall", margin=left))
    assert not holds(narrow, QUICK)
    assert relaxed(tight, problem(), (narrow,), QUICK, Learned()) == margins(tight)


@pytest.mark.parametrize("gang", [1, 16])
def test_a_margin_is_found_in_steps_of_half_a_gang(gang: int) -> None:
    """With it the goals hold, and with a step less they do not."""
    full = pool(1, (SHORT, 7.5), *([(GANG, 0.05)] if gang > 1 else []))
    carried, step = sum(reserved(problem(), full).values()), max(gang // 2, 8)
    margin = margin_needed(full, carried, QUICK)
    hosts = round((carried + margin) / 8)
    assert carried + margin == pytest.approx(8 * hosts)
    assert holds(dataclasses.replace(full, hosts={8: hosts}), QUICK)
    assert not holds(dataclasses.replace(full, hosts={8: hosts - step // 8}), QUICK)
    # Where the least is enough, it is the answer.
    assert margin_needed(full, carried, QUICK, margin + 1) == margin + 1


def test_where_settled_classes_find_no_plan_they_may_go_where_they_were() -> None:
    gang = ("gang", "a100", "hall", False)
    tight = with_margins(problem(), {HERE: 4.0, THERE: math.inf, gang: math.inf})
    learned = Learned(sent={HERE, THERE}, settled={HERE})
    assert loosened(tight, learned) == {HERE: pytest.approx(2.0), gang: math.inf}
    assert learned.settled == {HERE, THERE}


def test_halfway_lies_between() -> None:
    more = with_margins(problem(), {HERE: 4.0, THERE: 9.0})
    less = with_margins(problem(), {HERE: 4.0, ("gang", "a100", "hall", False): 1.0})
    assert halfway(more, less) == {HERE: pytest.approx(4.0), THERE: pytest.approx(4.5)}
