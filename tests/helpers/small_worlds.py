"""Small worlds for the environments' tests, and an agent that plays at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from alloc.learning.environments import ElasticEpisodes, GangEpisodes
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.window_features import WindowFeatures

SMALL = ElasticEpisodes(num_jobs=8, num_hosts=4, max_workers=4, max_ps=4, run_slots=(0.5, 3.0))
BARE = WindowFeatures(window=8, max_tasks=4, initial_bundle=False)
GANGS = GangEpisodes(num_jobs=15, leaves=3, hosts_per_leaf=2, gpus_per_host=4, max_gpus=8)


def elastic(seed: int) -> Instance:
    return SMALL(np.random.default_rng(seed))


def play(env: Any, rng: np.random.Generator, **reset: Any) -> tuple[float, list[dict[str, Any]]]:
    """Play one episode at random among what is allowed; return its reward and infos."""
    _, info = env.reset(**reset)
    total, infos, over = 0.0, [], False
    while not over:
        action = env.action_space.sample(info["action_mask"])
        seen, reward, terminated, truncated, info = env.step(action)
        assert env.observation_space.contains(seen)
        total += reward
        infos.append(info)
        over = terminated or truncated
    return total, infos
