"""What the environments share: Gymnasium's interface to an episode."""

from __future__ import annotations

from typing import Any, SupportsInt

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, SimulationError
from alloc.learning.environments.episode import Episode
from alloc.learning.environments.episodes import Episodes, EpisodeSource
from alloc.learning.gym import Box, Discrete, Env
from alloc.problems.allocation.instance import Instance
from alloc.simulation import SimulationResult

Info = dict[str, Any]


class EpisodeEnv(Env[npt.NDArray[np.float32], np.int64]):
    """An environment that plays episodes on the instances of a source.

    `bounds` are the least and the largest observation.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(
        self,
        episode: Episode[Any],
        episodes: EpisodeSource,
        bounds: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]],
    ) -> None:
        self.episode = episode
        self._episodes = Episodes(episodes)
        self._slot = episode.slot
        self.observation_space = Box(*bounds, dtype=np.float32)
        self.action_space = Discrete(len(episode.slot.mask))

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
        if episode.told:
            raise SimulationError("the episode is over; call reset() before the next step().")
        reward = episode.act(int(action))
        info: Info = {"action_mask": slot.mask.view(np.int8).copy(), "reply": episode.reply_text}
        if episode.over:
            info.update(episode.outcome)
        truncated = episode.truncated
        return slot.observation.copy(), reward, episode.over and not truncated, truncated, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Return which actions are allowed, shape (actions,)."""
        mask: npt.NDArray[np.bool_] = self._slot.mask.copy()
        return mask

    @property
    def result(self) -> SimulationResult | None:
        """What happened in the episode, once it is over."""
        return self.episode.result


def begin(
    episode: Episode[Any],
    episodes: Episodes,
    rng: np.random.Generator,
    options: dict[str, Any] | None = None,
) -> None:
    """Begin an episode on the next instance, or on the one in the options."""
    given = (options or {}).get("instance")
    if given is not None and not isinstance(given, Instance):
        raise InstanceError(
            f'reset: the option "instance" is {type(given).__name__}; give an Instance, for '
            "example alloc.instances.load(...)."
        )
    instance = episodes.next(rng) if given is None else given
    episode.begin(instance, int(rng.integers(2**63)))
