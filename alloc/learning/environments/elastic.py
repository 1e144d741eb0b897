"""`ElasticAllocation`: DL2's problem as a Gymnasium environment."""

from __future__ import annotations

from alloc.learning.environments.environment import EpisodeEnv
from alloc.learning.environments.episode import Episode, EpisodeRules
from alloc.learning.environments.episodes import ElasticEpisodes, EpisodeSource
from alloc.learning.environments.rewards import Reward
from alloc.schedulers.learned.window import WindowSlot
from alloc.schedulers.learned.window_features import WindowFeatures
from alloc.schedulers.state import Knowledge


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
