"""`GangPlacement`: a domain for the next gang, as a Gymnasium environment."""

from __future__ import annotations

import numpy as np

from alloc.learning.environments.environment import EpisodeEnv
from alloc.learning.environments.episode import Episode, EpisodeRules
from alloc.learning.environments.episodes import EpisodeSource, GangEpisodes
from alloc.learning.environments.rewards import Reward
from alloc.schedulers.learned.domain_choice import DomainChoice, DomainFeatures
from alloc.schedulers.state import Knowledge


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
