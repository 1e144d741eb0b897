"""Rollouts: a policy network drives the simulator, to gather samples or to be judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.learning.dl2.exploration import Exploration
from alloc.learning.environments.episode import Episode, EpisodeRules
from alloc.objectives import require_slot
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.window import Reply, WindowSlot
from alloc.schedulers.learned.window_features import WindowFeatures

Floats = npt.NDArray[np.float32]
Forward = Callable[[Floats], Floats]
"""Logits of flat observations, shape (inputs,) or (batch, inputs)."""

DRAW_GRID = 100_000
"""Draws are made on a grid of this many points, as in the released code."""


@dataclass(frozen=True)
class SlotSamples:
    """What a slot left behind, a row for each sample.

    Parameters
    ----------
    states, chances
        Flat observations, and the probabilities that the policy gave to the actions, 0 where
        masked.
    actions, reward
        The actions taken, and what the slot was worth.
    next_state
        The first observation of the slot after, flat; 0 at the end.
    over
        Whether the trace is over.
    """

    states: Floats
    chances: Floats
    actions: npt.NDArray[np.int64]
    reward: float
    next_state: Floats
    over: bool


class Collector:
    """Plays traces slot by slot with exploration, and hands out the samples of each slot.

    Every decision of a slot shares the slot's reward, one of `alloc.learning.environments.REWARDS`.
    The decision that did not fit, and with which the slot therefore ended, leaves no sample. Both
    as in the released code.
    """

    def __init__(self, features: WindowFeatures, reward: str, exploration: Exploration) -> None:
        self._exploration = exploration
        self._episode = Episode(WindowSlot(features), EpisodeRules(reward=reward, check=False))
        self._end = features.end_slot

    @property
    def over(self) -> bool:
        """Whether the trace is over."""
        return self._episode.over

    @property
    def mean_jct_slots(self) -> float:
        """Mean completion time of the jobs of the trace that is over, slots."""
        return _mean_jct_slots(self._episode)

    def begin(self, instance: Instance) -> None:
        """Begin a trace."""
        self._exploration.begin_trace()
        self._episode.begin(instance, 0)

    def play_slot(self, forward: Forward, rng: np.random.Generator, update: int) -> SlotSamples:
        """Play one slot of a policy, after so many updates of reinforcement learning.

        Parameters
        ----------
        forward
            The policy: logits of an observation.
        rng
            Draws the actions and the coins of exploration.
        update
            Updates made so far, 0 or more.
        """
        episode, explore = self._episode, self._exploration
        slot = episode.slot
        explore.begin_slot(rng, update)
        began, reward = episode.num_slots, 0.0
        states, kept, actions = [], [], []
        while episode.num_slots == began:
            state = slot.observation.ravel().copy()
            chances = distribution(forward(state), slot.mask)
            if chances is None:
                reward = episode.act(self._end)
                break
            action = explore.choose(draw(chances, rng), slot.columns, chances, rng)
            reward = episode.act(action)
            if episode.reply is Reply.GRANTED or episode.reply is Reply.ENDED:
                states.append(state)
                kept.append(chances)
                actions.append(action)
        return SlotSamples(
            np.array(states, np.float32),
            np.array(kept, np.float32),
            np.array(actions, np.int64),
            reward,
            slot.observation.ravel().copy(),
            episode.over,
        )


def distribution(logits: Floats, mask: npt.NDArray[np.bool_]) -> Floats | None:
    """Return the softmax over the allowed actions, or None if all of them vanish.

    As in the released code the softmax is taken over all actions, and then masked and renormalised:
    where a masked action has all the probability, none is left.

    Parameters
    ----------
    logits
        Unnormalised log-probability of each action, shape (actions,).
    mask
        Whether an action is allowed, shape (actions,).
    """
    chances = np.exp(logits - logits.max()) * mask
    total = float(chances.sum())
    return chances / total if total > 0.0 else None


def draw(chances: Floats, rng: np.random.Generator) -> int:
    """Return an action drawn from probabilities, by inversion on a grid.

    Parameters
    ----------
    chances
        Probability of each action, shape (actions,).
    rng
        Draws one number.
    """
    mark = int(1 + rng.random() * (DRAW_GRID - 1)) / DRAW_GRID
    ladder = chances.cumsum(dtype=np.float64)
    action = int(ladder.searchsorted(mark * ladder[-1], side="right"))
    return action if action < len(chances) else int(np.flatnonzero(chances)[-1])


class Player:
    """Plays traces side by side without exploration, to judge a policy.

    The network is asked for all traces at once. What is worked out for a speed table is kept from
    one call to the next.

    Parameters
    ----------
    features
        What the network is shown.
    count
        Most traces at a time.
    check
        Whether the checker checks every schedule.
    """

    def __init__(self, features: WindowFeatures, count: int, *, check: bool = False) -> None:
        self._seen = np.zeros((count, *features.shape), np.float32)
        self._masks = np.zeros((count, features.num_actions), np.bool_)
        rules = EpisodeRules(check=check)
        self._episodes = [
            Episode(WindowSlot(features, observation=seen, mask=mask), rules)
            for seen, mask in zip(self._seen, self._masks, strict=True)
        ]

    def play(
        self,
        forward: Forward,
        instances: Sequence[Instance],
        rng: np.random.Generator | None,
    ) -> list[float]:
        """Return the mean completion time of a policy on each of some traces, slots.

        Parameters
        ----------
        forward
            The policy: logits of a batch of observations.
        instances
            The traces, at most as many as the player was made for.
        rng
            Draws the actions; None takes the likeliest.
        """
        count = len(instances)
        episodes = self._episodes[:count]
        masks = self._masks[:count]
        flat = self._seen[:count].reshape(count, -1)
        for episode, instance in zip(episodes, instances, strict=True):
            episode.begin(instance, 0)
        playing = [k for k in range(count) if not episodes[k].over]
        while playing:
            everyone = len(playing) == count
            allowed = masks if everyone else masks[playing]
            logits = np.where(allowed, forward(flat if everyone else flat[playing]), -np.inf)
            if rng is None:
                actions = logits.argmax(axis=1)
            else:
                actions = _draw_each(logits, rng.random(count)[playing])
            ended = False
            for k, action in zip(playing, actions.tolist(), strict=True):
                episodes[k].act(action)
                ended |= episodes[k].over
            if ended:
                playing = [k for k in playing if not episodes[k].over]
        return [_mean_jct_slots(episode) for episode in episodes]


def _draw_each(logits: Floats, uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return an action for each row of logits, drawn by its uniform number; overwrites them."""
    logits -= logits.max(axis=1, keepdims=True)
    ladder = np.exp(logits).cumsum(axis=1, dtype=np.float64)
    # The last action, the end of the slot, is always allowed, so there is one beyond every mark.
    actions: npt.NDArray[np.int64] = (ladder > uniform[:, None] * ladder[:, -1:]).argmax(axis=1)
    return actions


def _mean_jct_slots(episode: Episode[WindowSlot]) -> float:
    """Return the mean completion time, slots; jobs cut off count up to the end."""
    result = episode.result
    assert result is not None
    ends = (result.end_s if end is None else end for end in result.completion_s.values())
    times = [end - job.arrival_s for end, job in zip(ends, result.instance.jobs, strict=True)]
    return float(np.mean(times)) / require_slot(result.instance)
