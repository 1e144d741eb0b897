"""An episode of the window problem."""

from __future__ import annotations

from alloc.errors import InstanceError
from alloc.learning.environments.episode import Episode
from alloc.learning.environments.episode import EpisodeRules as EpisodeRules
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.stepwise import Mask, Observation
from alloc.schedulers.learned.window import WindowSlot
from alloc.schedulers.learned.window_features import WindowFeatures


class ElasticEpisode(Episode[WindowSlot]):
    """Drives the simulator through a window, one action at a time.

    Parameters
    ----------
    features
        What the agent is shown.
    rules
        Reward, knowledge and limits.
    observation, mask
        Where to write what is shown, see `WindowSlot`.
    """

    def __init__(
        self,
        features: WindowFeatures,
        rules: EpisodeRules,
        *,
        observation: Observation | None = None,
        mask: Mask | None = None,
    ) -> None:
        super().__init__(WindowSlot(features, observation=observation, mask=mask), rules)

    def begin(self, instance: Instance, seed: int) -> None:
        """Begin an episode.

        Raises
        ------
        InstanceError
            If the instance has no slots.
        UnsupportedFeatureError
            If a job is not one of workers and PSs.
        """
        if instance.slot_s is None:
            raise InstanceError(
                f'instance "{instance.name}" has no slots, but a window is filled slot by slot; '
                "give it a slot_s."
            )
        super().begin(instance, seed)
