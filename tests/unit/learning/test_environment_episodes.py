"""Episodes of the environments: where they come from, where they end, what cannot be played."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from small_worlds import BARE, elastic

from alloc.errors import InstanceError, SimulationError, UnsupportedFeatureError
from alloc.learning.environments import (
    ElasticAllocation,
    ElasticVector,
    GangEpisodes,
    GangPlacement,
)
from alloc.schedulers.learned.domain_choice import DomainFeatures


def test_instances_are_taken_in_turn_and_a_seed_starts_over() -> None:
    given = [elastic(seed) for seed in range(3)]
    env = ElasticAllocation(given)

    def played(**reset: Any) -> str:
        env.reset(**reset)
        return env.episode._simulation.instance.fingerprint

    prints = [instance.fingerprint for instance in given]
    assert [played() for _ in range(4)] == [*prints, prints[0]]
    assert played(seed=1) == prints[0]
    assert played(options={"instance": given[2]}) == prints[2]
    assert played() == prints[1]


@pytest.mark.parametrize("source", [(), [1, 2], lambda rng: "an instance"])
def test_sources_of_something_else_are_refused(source: Any) -> None:
    with pytest.raises(InstanceError, match="episodes: the source"):
        ElasticAllocation(source).reset()


@pytest.mark.parametrize("make", [ElasticAllocation, lambda source: ElasticVector(2, source)])
def test_an_instance_that_is_none_is_not_replaced_by_the_next(make: Any) -> None:
    """The name of an instance as option played another one, without a word."""
    with pytest.raises(InstanceError, match=r'option "instance" is str; give an Instance'):
        make(elastic(0)).reset(options={"instance": "elastic-small/04"})


@pytest.mark.parametrize(
    ("field", "value"), [("max_gpus", 12), ("max_gpus", 0), ("load", 0.0), ("num_jobs", 0)]
)
def test_gangs_that_cannot_be_drawn_are_refused(field: str, value: Any) -> None:
    """Of at most 12 GPUs none had more than 8, and no load was a division by zero."""
    with pytest.raises(InstanceError, match=f"gang episodes: {field} is {value:g}"):
        GangEpisodes(**{field: value})


def test_idle_agent_is_cut_off() -> None:
    """Truncated after `max_slots`; the metrics then are infinite, the schedule still sound."""
    env = ElasticAllocation(elastic(0), features=BARE, max_slots=7)
    env.reset()
    for slot in range(7):
        _, _, terminated, truncated, info = env.step(BARE.end_slot)
        assert truncated is (slot == 6)
        assert not terminated
    assert (info["num_slots"], info["num_unfinished"]) == (7, 8)
    assert math.isinf(info["mean_jct_s"])
    with pytest.raises(SimulationError, match=r"the episode is over; call reset\(\)"):
        env.step(0)


@pytest.mark.parametrize("reply", ["masked", "misfit", "ended", "granted"])
def test_reply_says_what_came_of_the_action(reply: str) -> None:
    env = ElasticAllocation(elastic(0), features=BARE)
    env.reset()
    if reply == "misfit":
        for _ in range(3):
            env.step(0)
        # Eight GPUs in all, four workers of a job at most: fill the rest, then one more misses.
        for _ in range(40):
            *_, info = env.step(int(np.flatnonzero(env.action_masks())[0]))
            if info["reply"] == "misfit":
                break
    else:
        action = {"masked": BARE.end_slot - 1, "ended": BARE.end_slot, "granted": 2}[reply]
        *_, info = env.step(action)
    assert info["reply"] == reply


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ElasticAllocation(reward="progres"), InstanceError, 'did you mean "progress"'),
        (lambda: ElasticAllocation(max_slots=0), InstanceError, "max_slots"),
        (
            lambda: ElasticAllocation(elastic(0).replace(slot_s=None)).reset(),
            InstanceError,
            "has no slots, but a window is filled slot by slot",
        ),
        (
            lambda: ElasticAllocation(GangEpisodes(slot_s=60.0)).reset(),
            UnsupportedFeatureError,
            "is not a malleable job",
        ),
        (
            lambda: GangPlacement(elastic(0)).reset(),
            InstanceError,
            'level "leaf", which topology .* lacks',
        ),
        (
            lambda: GangPlacement(elastic(0), features=DomainFeatures("host", 4)).reset(),
            UnsupportedFeatureError,
            "16 configurations to choose from",
        ),
        (
            lambda: GangPlacement(features=DomainFeatures(domains=2)).reset(),
            InstanceError,
            "sees 2 domains, but .* has 8",
        ),
        (lambda: DomainFeatures(domains=0), InstanceError, "domains"),
        (lambda: ElasticVector(0), InstanceError, "num_envs is 0"),
        (lambda: ElasticVector(2).reset(seed=[1]), InstanceError, "1 seeds for 2 environments"),
    ],
)
def test_what_cannot_be_played_is_refused(make: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        make()
