"""`ElasticAllocation`: DL2's problem as a Gymnasium environment."""

from __future__ import annotations

from typing import Any, SupportsInt

import gymnasium
import numpy as np
import numpy.typing as npt

from alloc.errors import SimulationError
from alloc.instance import Instance
from alloc.learning.environments.elastic_episode import ElasticEpisode, EpisodeRules
from alloc.learning.environments.episodes import ElasticEpisodes, Episodes, EpisodeSource
from alloc.learning.environments.rewards import Reward
from alloc.schedulers.learned.window_features import WindowFeatures
from alloc.schedulers.state import Knowledge
from alloc.simulation import SimulationResult

Info = dict[str, Any]


class ElasticAllocation(gymnasium.Env[npt.NDArray[np.float32], np.int64]):
    """Give workers and parameter servers to the jobs of a window, slot by slot.

    The simulator of the package runs the slots, so an agent meets exactly the world that the
    schedulers meet. Each slot starts from an empty cluster. An action gives one job a worker, a PS
    or both, on the least loaded host, or ends the slot; then the slot runs.

    **Observation**: a matrix of `WindowFeatures.shape`, float32; the rows are in
    `WindowFeatures.rows` with their units, the columns are jobs in order of arrival.

    **Action**: ``3 i``, ``3 i + 1``, ``3 i + 2`` for a worker, a PS, both for the job in column i;
    ``3 window`` ends the slot. An action that does not fit on the least loaded host, or is masked,
    ends the slot.

    **Mask**: ``info["action_mask"]``, int8 as `gymnasium.spaces.Discrete.sample` takes it, and
    `action_masks`, bool as Stable-Baselines3 takes it.

    **Reward**: 0 within a slot; the step that ends a slot gets the reward of the slot. Slots in
    which there is nothing to choose pass by themselves, and their rewards are added.

    **Info**: ``reply`` says what came of the action (`alloc.schedulers.learned.window.Reply`). The
    last info of an episode has ``mean_jct_s`` and ``makespan_s`` (infinite with jobs unfinished),
    ``num_unfinished`` and ``num_slots``; `result` has everything.

    **End**: terminated when all jobs are complete; truncated after `max_slots` slots.

    Parameters
    ----------
    episodes
        Where the instances come from: one, several that are taken in turn (a seed begins with the
        first again), or a function of a random generator.
    features
        What the agent is shown.
    reward, knowledge, work_error, speed_error, max_slots, check
        As in `EpisodeRules`.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(
        self,
        episodes: EpisodeSource = ElasticEpisodes(),  # noqa: B008 (frozen)
        *,
        features: WindowFeatures = WindowFeatures(),  # noqa: B008 (frozen)
        reward: str | Reward = "progress",
        knowledge: Knowledge = "exact",
        work_error: float = 0.0,
        speed_error: float = 0.0,
        max_slots: int = 1000,
        check: bool = True,
        render_mode: None = None,
    ) -> None:
        self.render_mode = render_mode
        self.features = features
        rules = EpisodeRules(reward, knowledge, work_error, speed_error, max_slots, check)
        self.episode = ElasticEpisode(features, rules)
        self._episodes = Episodes(episodes)
        self._slot = self.episode.slot
        self.observation_space = observation_space(features)
        self.action_space = gymnasium.spaces.Discrete(features.num_actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], Info]:
        """Begin an episode.

        Parameters
        ----------
        seed
            Seed of the environment's random generator.
        options
            ``{"instance": Instance}`` plays that instance instead of the next one.
        """
        super().reset(seed=seed)
        if seed is not None:
            self._episodes.restart()
        begin(self.episode, self._episodes, self.np_random, options)
        return self._slot.observation.copy(), {"action_mask": self._slot.mask.view(np.int8).copy()}

    def step(self, action: SupportsInt) -> tuple[npt.NDArray[np.float32], float, bool, bool, Info]:
        """Carry out an action."""
        episode, slot = self.episode, self._slot
        if episode.over:
            raise SimulationError("the episode is over; call reset() before the next step().")
        reward = episode.act(int(action))
        info: Info = {"action_mask": slot.mask.view(np.int8).copy(), "reply": episode.reply_text}
        if not episode.over:
            return slot.observation.copy(), reward, False, False, info
        info.update(episode.outcome)
        truncated = episode.truncated
        return slot.observation.copy(), reward, not truncated, truncated, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Return which actions are allowed, shape (actions,)."""
        return self._slot.mask.copy()

    @property
    def result(self) -> SimulationResult | None:
        """What happened in the episode, once it is over."""
        return self.episode.result


def observation_space(features: WindowFeatures) -> gymnasium.Space[npt.NDArray[np.float32]]:
    """Return the space of a window's observations."""
    low, high = features.bounds()
    return gymnasium.spaces.Box(low, high, dtype=np.float32)


def begin(
    episode: ElasticEpisode,
    episodes: Episodes,
    rng: np.random.Generator,
    options: dict[str, Any] | None = None,
) -> None:
    """Begin an episode on the next instance, or on the one in the options."""
    given = (options or {}).get("instance")
    instance = given if isinstance(given, Instance) else episodes.next(rng)
    episode.begin(instance, int(rng.integers(2**63)))
