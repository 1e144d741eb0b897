"""Environments side by side play what they play one by one."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from small_worlds import BARE, SMALL, elastic

import alloc.learning  # noqa: F401 (registers the environments)
from alloc.errors import InstanceError
from alloc.learning.environments import (
    ElasticAllocation,
    ElasticVector,
)
from alloc.schedulers.learned.window_features import WindowFeatures


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_side_by_side_is_one_by_one(mode: str) -> None:
    """Three environments in one array play what three alone play after the seeds s, s+1, s+2."""
    options: dict[str, Any] = {"features": WindowFeatures(window=4, max_tasks=4), "max_slots": 6}
    together = ElasticVector(3, SMALL, autoreset_mode=mode, **options)
    alone = [ElasticAllocation(SMALL, **options) for _ in range(3)]
    seen, infos = together.reset(seed=11)
    over = [False] * 3
    for i, env in enumerate(alone):
        one, info = env.reset(seed=11 + i)
        assert (seen[i] == one).all()
    rng, finished = np.random.default_rng(0), 0
    for _ in range(300):
        masks = together.action_masks()
        assert (infos["action_mask"] == masks).all()
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        seen, rewards, terminated, truncated, infos = together.step(actions)
        for i, env in enumerate(alone):
            if over[i]:
                one, info = env.reset()
                over[i] = False
                expected: tuple[Any, ...] = (0.0, False, False)
            else:
                one, *rest, info = env.step(actions[i])
                expected = tuple(rest)
                over[i] = expected[1] or expected[2]
            assert (rewards[i], terminated[i], truncated[i]) == expected
            if over[i]:
                finished += 1
                final = infos["final_info"] if mode == "SameStep" else infos
                assert final["mean_jct_s"][i] == info["mean_jct_s"]
                if mode == "SameStep":
                    assert (infos["final_obs"][i] == one).all()
                    one, _ = env.reset()
                    over[i] = False
            assert (seen[i] == one).all()
    assert finished > 10


def test_vector_is_made_by_name_and_shares_a_list() -> None:
    """Environment i plays every n-th instance from the i-th on."""
    given = [elastic(seed) for seed in range(4)]
    envs = gymnasium.make_vec(
        "alloc/ElasticAllocation-v0",
        num_envs=2,
        vectorization_mode="vector_entry_point",
        episodes=given,
        max_slots=1,
        features=BARE,
        autoreset_mode="SameStep",
        copy=False,
    )
    vector: Any = envs.unwrapped
    assert isinstance(vector, ElasticVector)
    envs.reset(seed=0)

    def playing() -> list[str]:
        return [episode._simulation.instance.fingerprint for episode in vector.episodes]

    prints = [instance.fingerprint for instance in given]
    assert playing() == prints[:2]
    seen, *_ = envs.step(np.full(2, BARE.end_slot))
    assert playing() == prints[2:]
    assert envs.step(np.full(2, BARE.end_slot))[0] is seen, "not copied, as asked"


def test_vector_resets_what_it_is_told_to() -> None:
    envs = ElasticVector(2, SMALL, features=BARE, max_slots=1, autoreset_mode="Disabled")
    envs.reset(seed=0)
    envs.step(np.array([BARE.end_slot, 0]))
    with pytest.raises(InstanceError, match="environment 0 is over and autoreset is disabled"):
        envs.step(np.array([0, 0]))
    before = envs.episodes[1]._simulation
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert envs.episodes[1]._simulation is before
    envs.step(np.array([0, 0]))
