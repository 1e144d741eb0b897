"""The environments: Gymnasium's interface to an episode, for DL2's problem and for gangs."""

from __future__ import annotations

from typing import Any, SupportsInt

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, SimulationError
from alloc.learning.environments.episode import Episode, EpisodeRules
from alloc.learning.environments.episodes import (
    ElasticEpisodes,
    Episodes,
    EpisodeSource,
    GangEpisodes,
)
from alloc.learning.environments.rewards import Reward
from alloc.learning.gym import Box, Discrete, Env
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.domain_choice import DomainChoice, DomainFeatures
from alloc.schedulers.learned.window import WindowSlot
from alloc.schedulers.learned.window_features import WindowFeatures
from alloc.schedulers.state import Knowledge
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
        reply = "" if episode.reply is None else episode.reply.value
        info: Info = {"action_mask": slot.mask.view(np.int8).copy(), "reply": reply}
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


class ElasticAllocation(EpisodeEnv):
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
        rules = EpisodeRules(reward, knowledge, work_error, speed_error, max_slots, check)
        super().__init__(Episode(WindowSlot(features), rules), episodes, features.bounds())
        self.render_mode = render_mode
        self.features = features


class GangPlacement(EpisodeEnv):
    """Choose the domain that holds the next gang, in continuous time or in slots.

    The simulator of the package runs the gangs. Those that wait are asked for in order of arrival
    whenever one arrives or completes (in slots: at the start of each slot); a gang goes to the
    hosts of best fit in the domain that is chosen, and stays there to its end. What makes a choice
    good or bad is the room that it leaves for the gangs to come.

    **Observation**: a matrix of `DomainFeatures.shape`, float32, all from 0 to 1; a row for each
    domain, columns as in `alloc.schedulers.learned.domain_choice`.

    **Action**: the domain; `domains` for anywhere; ``domains + 1`` to leave the gang waiting. An
    action that is masked leaves it waiting.

    **Mask**: ``info["action_mask"]`` (int8) and `action_masks` (bool): the domains that hold the
    gang now.

    **Reward**: 0 while more is asked for at the same time; then that of the time up to the next
    choice. Time is counted in slots, or in hours in continuous time.

    **Info** and **end**: as in `ElasticAllocation`; ``num_slots`` counts decisions.

    Parameters
    ----------
    episodes
        Where the instances come from, as in `ElasticAllocation`. Every job has one configuration.
    features
        What the agent is shown.
    reward, knowledge, work_error, max_slots, check
        As in `EpisodeRules`.
    """

    def __init__(
        self,
        episodes: EpisodeSource = GangEpisodes(),  # noqa: B008 (frozen)
        *,
        features: DomainFeatures = DomainFeatures(),  # noqa: B008 (frozen)
        reward: str | Reward = "jobs-in-system",
        knowledge: Knowledge = "exact",
        work_error: float = 0.0,
        max_slots: int = 10_000,
        check: bool = True,
        render_mode: None = None,
    ) -> None:
        rules = EpisodeRules(reward, knowledge, work_error, 0.0, max_slots, check)
        bounds = np.zeros(features.shape, np.float32), np.ones(features.shape, np.float32)
        super().__init__(Episode(DomainChoice(features), rules), episodes, bounds)
        self.render_mode = render_mode
        self.features = features


def begin(
    episode: Episode[Any],
    episodes: Episodes,
    rng: np.random.Generator,
    options: dict[str, Any] | None = None,
) -> None:
    """Begin an episode on the next instance, or on the one in the options.

    Parameters
    ----------
    episode
        What is begun anew.
    episodes
        Draws the instances.
    rng
        Draws the instance and the seed of its simulation.
    options
        Those of `reset`: ``instance`` is the instance to play.
    """
    given = (options or {}).get("instance")
    if given is not None and not isinstance(given, Instance):
        raise InstanceError(
            f'reset: the option "instance" is {type(given).__name__}; give an Instance, for '
            "example alloc.instances.load(...)."
        )
    instance = episodes.next(rng) if given is None else given
    episode.begin(instance, int(rng.integers(2**63)))
