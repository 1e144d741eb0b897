"""Classes settle where most of them are, and pools keep room for all that may come together."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from pools import FILLER, QUICK, SHORT, pool, problem

from alloc.planning.replay import replay
from alloc.planning.room import holds, reserved
from alloc.planning.settling import is_crowded, mixes, places, settled
from alloc.planning.tightening import Learned, with_margins
from alloc.problems.right_sizing import (
    Scenario,
)


def key(name: str, gpu_type: str = "a100") -> tuple[str, str, str, bool]:
    return name, gpu_type, "hall", False


def test_a_class_stays_where_most_of_it_is_in_some_quarter() -> None:
    most, little = pool(8, (SHORT, 19.0), (FILLER, 8.0)), pool(1, (SHORT, 1.0), gpu_type="h100")
    assert places([most, little]) == {key("short"), key("filler")}
    later = pool(1, (SHORT, 1.0), gpu_type="h100", quarter=1)
    assert places([most, little, later]) == {key("short"), key("filler"), key("short", "h100")}


def test_a_mix_has_all_that_ever_comes_at_a_large_and_a_small_load() -> None:
    alone, both = pool(4, (SHORT, 4.0)), pool(4, (SHORT, 8.0), (FILLER, 16.0))
    only_filler = pool(4, (FILLER, 30.0))
    small, large = mixes([both, only_filler, alone])
    for mix, load in ((small, 4.0), (large, 24.0)):
        loads = {stream.job_class.name: stream.load for stream in mix.streams}
        assert sum(loads.values()) == pytest.approx(load)
        # 6 GPUs of short jobs on average where they come, 16 of fillers where goals are.
        assert loads["filler"] / loads["short"] == pytest.approx(16 / 6)
    assert len(mixes([both, both])) == 1
    assert mixes([only_filler]) == []


def test_only_where_there_are_hundreds_of_places_do_classes_settle() -> None:
    asked = problem()
    assert not is_crowded(asked)
    many = tuple(dataclasses.replace(SHORT, name=f"short-{i}") for i in range(260))
    arrivals = {job_class.name: (1.0,) for job_class in many}
    assert is_crowded(asked.replace(classes=many, scenarios=(Scenario("1", 1.0, arrivals),)))


def found(*, last: bool = False, learned: Learned | None = None) -> dict[Any, float]:
    """Return the margins after a pool of short jobs and fillers has missed its goal."""
    missed = pool(3, (SHORT, 6.0), (FILLER, 16.0))
    little = pool(1, (SHORT, 0.2), gpu_type="h100")
    replayed = [(missed, replay(missed, QUICK, draw=1))]
    assert not replayed[0][1][0].holds
    known = Learned() if learned is None else learned
    return dict(settled(problem(), [missed, little], replayed, QUICK, known, last=last))


def test_classes_settle_and_their_pools_keep_room_for_the_mix() -> None:
    learned = Learned()
    margins = found(learned=learned)
    assert learned.settled == {key("short"), key("filler")}
    everywhere = {key(c.name, gpu) for c in problem().classes for gpu in ("a100", "h100")}
    assert {k for k, margin in margins.items() if math.isinf(margin)} == (
        everywhere - learned.settled
    )
    # Only goals ask for room: the pool may be full of fillers when no short job comes.
    assert {k for k, margin in margins.items() if math.isfinite(margin)} == {key("short")}
    for mix in mixes([pool(3, (SHORT, 6.0), (FILLER, 16.0))]):
        needed = sum(reserved(problem(), mix).values()) + margins[key("short")]
        assert holds(dataclasses.replace(mix, hosts={8: math.ceil(needed / 8 - 1e-9)}), QUICK)
    # Mixes are not what was replayed: they prove nothing.
    assert margins.keys() <= learned.guessed


def test_a_goal_missed_again_asks_for_more_than_measured_and_most_at_last() -> None:
    """Classes stay where they settled, though they were sent elsewhere since."""
    there = {key("short"), key("filler"), key("gang")}
    first = found()[key("short")]
    again, last = (
        found(learned=Learned(settled=set(there)), last=last)[key("short")]
        for last in (False, True)
    )
    assert again > first
    assert last == pytest.approx(again * 1.5 / 1.25)
    learned = Learned(settled=there)
    assert key("gang") not in {k for k, m in found(learned=learned).items() if math.isinf(m)}


def test_margins_never_fall_once_classes_have_settled() -> None:
    learned = Learned(settled={key("short"), key("filler")})
    missed = pool(3, (SHORT, 6.0), (FILLER, 16.0))
    asked = with_margins(problem(), {key("short"): 500.0})
    replayed = [(missed, replay(missed, QUICK, draw=1))]
    margins = settled(asked, [missed], replayed, QUICK, learned)
    assert margins[key("short")] == pytest.approx(500.0)


def test_pools_are_measured_alike_in_several_processes() -> None:
    pools = [pool(3, (SHORT, 6.0), (FILLER, 16.0), gpu_type=gpu) for gpu in ("a100", "h100")]
    replayed = [(o, replay(o, QUICK, draw=1)) for o in pools]
    one, two = (
        settled(problem(), pools, replayed, dataclasses.replace(QUICK, workers=n), Learned())
        for n in (1, 2)
    )
    assert one == two
    assert {k for k, margin in one.items() if math.isfinite(margin)} == {
        key("short"),
        key("short", "h100"),
    }
