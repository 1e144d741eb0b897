"""`ElasticVector`: many elastic environments side by side, with their observations in one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError
from alloc.learning.environments.environment import begin
from alloc.learning.environments.episode import Episode, EpisodeRules
from alloc.learning.environments.episodes import ElasticEpisodes, Episodes, EpisodeSource
from alloc.learning.environments.rewards import Reward
from alloc.learning.gym import AutoresetMode, Box, Discrete, VectorEnv, batch_space
from alloc.schedulers.learned.window import WindowSlot
from alloc.schedulers.learned.window_features import WindowFeatures
from alloc.schedulers.state import Knowledge

Observations = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Info = dict[str, Any]


class ElasticVector(VectorEnv[Observations, npt.NDArray[np.int64], npt.NDArray[Any]]):
    """`ElasticAllocation`, `num_envs` times in one process.

    Windows are kept up to date in place, each in its own part of one array, so that a step copies
    nothing but what it returns. ``infos["action_mask"]`` has shape (environments, actions); the
    last info of an episode is as in `ElasticAllocation`, one array for each entry; there is no
    ``reply``.

    Parameters
    ----------
    num_envs
        Environments, 1 or more.
    episodes
        As in `ElasticAllocation`. Of several instances environment i takes every `num_envs`-th,
        beginning with the i-th.
    features, reward, knowledge, work_error, speed_error, max_slots, check
        As in `ElasticAllocation`.
    autoreset_mode
        When an episode that is over begins anew: ``NEXT_STEP``, ``SAME_STEP`` or ``DISABLED``.
    copy
        Whether observations and masks are returned as copies; otherwise they are good until the
        next step.
    """

    def __init__(
        self,
        num_envs: int = 1,
        episodes: EpisodeSource = ElasticEpisodes(),  # noqa: B008 (frozen)
        *,
        features: WindowFeatures = WindowFeatures(),  # noqa: B008 (frozen)
        reward: str | Reward = "progress",
        knowledge: Knowledge = "exact",
        work_error: float = 0.0,
        speed_error: float = 0.0,
        max_slots: int = 1000,
        check: bool = True,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
    ) -> None:
        if num_envs < 1:
            raise InstanceError(f"elastic vector: num_envs is {num_envs}; it must be 1 or more.")
        self.num_envs = num_envs
        self.features = features
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = Box(*features.bounds(), dtype=np.float32)
        self.single_action_space = Discrete(features.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._copy = copy
        self._observations = np.zeros((num_envs, *features.shape), np.float32)
        self._masks = np.zeros((num_envs, features.num_actions), np.bool_)
        rules = EpisodeRules(reward, knowledge, work_error, speed_error, max_slots, check)
        self.episodes = [
            Episode(WindowSlot(features, observation=seen, mask=mask), rules)
            for seen, mask in zip(self._observations, self._masks, strict=True)
        ]
        self._sources = [Episodes(episodes, i, num_envs) for i in range(num_envs)]
        self._rngs = [np.random.default_rng() for _ in range(num_envs)]

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, Info]:
        """Begin an episode in every environment, or in those of ``options["reset_mask"]``.

        Parameters
        ----------
        seed
            One seed for each environment, or s for s, s + 1, ...: where episodes are drawn,
            environment i then plays what `ElasticAllocation` plays after ``reset(seed=s + i)``.
        options
            As in `ElasticAllocation`.
        """
        seeds: Sequence[int | None]
        if seed is None or isinstance(seed, int | np.integer):
            seeds = [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = seed
        if len(seeds) != self.num_envs:
            raise InstanceError(
                f"elastic vector: {len(seeds)} seeds for {self.num_envs} environments; give one "
                "for each."
            )
        chosen = (options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_))
        for i in np.flatnonzero(chosen).tolist():
            its_seed = seeds[i]
            if its_seed is not None:
                self._rngs[i] = _generator(its_seed)
                self._sources[i].restart()
            begin(self.episodes[i], self._sources[i], self._rngs[i], options)
        return self._seen(), self._info()

    def step(
        self, actions: npt.NDArray[np.int64]
    ) -> tuple[Observations, Floats, Bools, Bools, Info]:
        """Carry out one action in each environment."""
        rewards = np.zeros(self.num_envs)
        terminated = np.zeros(self.num_envs, np.bool_)
        truncated = np.zeros(self.num_envs, np.bool_)
        ended: list[int] = []
        for i, action in enumerate(actions.tolist()):
            episode = self.episodes[i]
            if episode.told:
                # NEXT_STEP: this step begins the next episode, and its action goes unused.
                self._require_autoreset(i)
                begin(episode, self._sources[i], self._rngs[i])
                continue
            rewards[i] = episode.act(action)
            if episode.over:
                truncated[i] = episode.truncated
                terminated[i] = not episode.truncated
                ended.append(i)
        infos: Info = {}
        if ended:
            self._finish(ended, infos)
        infos.update(self._info())
        return self._seen(), rewards, terminated, truncated, infos

    def action_masks(self) -> Bools:
        """Return which actions are allowed, shape (environments, actions)."""
        return self._masks.copy()

    def _finish(self, ended: Sequence[int], infos: Info) -> None:
        """Tell what became of episodes, and begin anew where that is the mode."""
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        for i in ended:
            info: Info = dict(self.episodes[i].outcome)
            if same_step:
                info = {"final_obs": self._observations[i].copy(), "final_info": info}
            infos.update(self._add_info(infos, info, i))
            if same_step:
                begin(self.episodes[i], self._sources[i], self._rngs[i])

    def _require_autoreset(self, i: int) -> None:
        if self.autoreset_mode is AutoresetMode.DISABLED:
            raise InstanceError(
                f"elastic vector: the episode of environment {i} is over and autoreset is "
                'disabled; reset it with options={"reset_mask": ...}.'
            )

    def _seen(self) -> Observations:
        return self._observations.copy() if self._copy else self._observations

    def _info(self) -> Info:
        masks = self._masks.view(np.int8)
        return {
            "action_mask": masks.copy() if self._copy else masks,
            "_action_mask": np.ones(self.num_envs, np.bool_),
        }


def _generator(seed: int) -> np.random.Generator:
    """Return the generator that a Gymnasium environment has after ``reset(seed=seed)``."""
    from gymnasium.utils.seeding import np_random

    return np_random(seed)[0]
