"""Experience replay: the last samples, drawn evenly or by priority."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

PRIORITY_EPSILON = 0.01
"""Added to an error before it becomes a priority."""
PRIORITY_POWER = 0.9
"""Power of a priority."""
LARGEST_ERROR = 4.0
"""Errors count up to this."""
FIRST_BETA, BETA_STEP = 0.1, 1e-4
"""Exponent of the importance weights at first, and its growth with each batch, up to 1."""


class Batch(NamedTuple):
    """Samples drawn from a replay, a row each.

    Parameters
    ----------
    places
        Where they are kept.
    states, next_states
        Flat observations, and the first ones of the slots after (None if not kept), shape (batch,
        inputs).
    targets
        Stored probabilities, or labels, shape (batch, actions).
    actions, rewards, over
        What was done, what it was worth, and whether no slot came after.
    weights
        Importance weights.
    """

    places: npt.NDArray[np.int64]
    states: Floats
    targets: Floats
    actions: npt.NDArray[np.int64]
    rewards: npt.NDArray[np.float64]
    next_states: Floats | None
    over: npt.NDArray[np.bool_]
    weights: npt.NDArray[np.float64]


class Replay:
    """The last `capacity` samples, in a ring; drawn evenly, without putting back.

    Parameters
    ----------
    capacity, inputs, actions
        Samples kept, and the lengths of an observation and of a distribution.
    with_next
        Whether the first observation of the slot after is kept as well.
    """

    def __init__(self, capacity: int, inputs: int, actions: int, *, with_next: bool) -> None:
        self.capacity = capacity
        self._arrays: dict[str, npt.NDArray[Any]] = {
            "states": np.zeros((capacity, inputs), np.float32),
            "targets": np.zeros((capacity, actions), np.float32),
            "actions": np.zeros(capacity, np.int64),
            "rewards": np.zeros(capacity),
            "next": np.zeros((capacity if with_next else 0, inputs), np.float32),
            "over": np.zeros(capacity, np.bool_),
        }
        self._place = 0
        self.num_stored = 0

    @property
    def full(self) -> bool:
        """Whether it was ever filled: learning begins then."""
        return self.num_stored >= self.capacity

    @property
    def mean_reward(self) -> float:
        """Mean reward of the samples kept."""
        return float(self._arrays["rewards"][: min(self.num_stored, self.capacity)].mean())

    def store(
        self,
        states: Floats,
        targets: Floats,
        actions: npt.NDArray[np.int64],
        reward: float,
        next_state: Floats | None = None,
        over: bool = False,
    ) -> None:
        """Store the samples of a slot, which share their reward.

        Parameters
        ----------
        states
            Flat observations, shape (samples, inputs).
        targets
            Probabilities, or labels, shape (samples, actions).
        actions
            Number of the action taken, shape (samples,).
        reward
            What the slot was worth.
        next_state
            First observation of the next slot, shape (inputs,), where a critic looks ahead.
        over
            Whether no slot came after.
        """
        kept = self._arrays
        for first in range(0, len(states), self.capacity):
            part = slice(first, first + self.capacity)
            count = len(states[part])
            index = (self._place + np.arange(count)) % self.capacity
            self._prioritise(index, reward)
            kept["states"][index], kept["targets"][index] = states[part], targets[part]
            kept["actions"][index] = actions[part]
            kept["rewards"][index], kept["over"][index] = reward, over
            if next_state is not None and len(kept["next"]):
                kept["next"][index] = next_state
            self._place = int((self._place + count) % self.capacity)
            self.num_stored += count

    def draw(self, count: int, rng: np.random.Generator) -> Batch:
        """Draw samples.

        Parameters
        ----------
        count
            Samples, 1 to the capacity; the replay is full.
        rng
            Draws them.
        """
        return self._batch(rng.choice(self.capacity, count, replace=False), np.ones(count))

    def learn(self, index: npt.NDArray[np.int64], errors: npt.NDArray[np.float64]) -> None:
        """Take note of how far off the critic was on samples; means nothing here.

        Parameters
        ----------
        index
            Places of the samples, as `Batch.places` has them, shape (samples,).
        errors
            What came of each less what the critic had said, shape (samples,).
        """

    def state(self) -> dict[str, Any]:
        """Return all that is kept, as tensors and numbers."""
        from alloc.learning.pytorch import torch

        arrays = {name: torch.from_numpy(array.copy()) for name, array in self._arrays.items()}
        return {"arrays": arrays, "place": self._place, "num_stored": self.num_stored}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` returned."""
        for name, array in self._arrays.items():
            array[...] = state["arrays"][name].numpy()
        self._place, self.num_stored = int(state["place"]), int(state["num_stored"])

    def _prioritise(self, index: npt.NDArray[np.int64], reward: float) -> None:
        """Give new samples their priorities; means nothing here."""

    def _batch(self, index: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]) -> Batch:
        kept = {name: array[index] for name, array in self._arrays.items() if len(array)}
        states, targets, actions = kept["states"], kept["targets"], kept["actions"]
        rewards, following = kept["rewards"], kept.get("next")
        return Batch(index, states, targets, actions, rewards, following, kept["over"], weights)


class PrioritisedReplay(Replay):
    """The last samples, drawn by priority, as DL2's released code does.

    A new sample's priority is ``max(1, r - mean of the rewards kept)``; once drawn it becomes
    ``min(error + 0.01, 4) ** 0.9``. One sample is drawn from each of as many equal parts of the sum
    of priorities, and weighed by ``(p / smallest p) ** -beta``.

    References
    ----------
    Schaul et al., "Prioritized Experience Replay", ICLR 2016; rule of new priorities and constants
    as in DL2's released code.
    """

    def __init__(self, capacity: int, inputs: int, actions: int, *, with_next: bool) -> None:
        super().__init__(capacity, inputs, actions, with_next=with_next)
        self._priorities = self._arrays["priorities"] = np.zeros(capacity)
        self._beta = FIRST_BETA

    def draw(self, count: int, rng: np.random.Generator) -> Batch:
        """Draw samples."""
        ladder = np.cumsum(self._priorities)
        total = ladder[-1]
        self._beta = min(1.0, self._beta + BETA_STEP)
        marks = (np.arange(count) + rng.random(count)) * (total / count)
        index = np.minimum(np.searchsorted(ladder, marks), self.capacity - 1)
        weights = (self._priorities[index] / self._priorities.min()) ** -self._beta
        return self._batch(index, weights)

    def learn(self, index: npt.NDArray[np.int64], errors: npt.NDArray[np.float64]) -> None:
        """Set the priorities of samples by how far off the critic was, either way."""
        clipped = np.minimum(np.abs(errors) + PRIORITY_EPSILON, LARGEST_ERROR)
        self._priorities[index] = clipped**PRIORITY_POWER

    def state(self) -> dict[str, Any]:
        """Return all that is kept, as tensors and numbers."""
        return super().state() | {"beta": self._beta}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` returned."""
        super().restore(state)
        self._beta = float(state["beta"])

    def _prioritise(self, index: npt.NDArray[np.int64], reward: float) -> None:
        # The mean is over the rewards kept by then, each sample's own among them: the i-th new one
        # has pushed out the i oldest.
        kept = min(self.num_stored, self.capacity)
        count = np.arange(1, len(index) + 1)
        rewards = self._arrays["rewards"]
        gone = np.cumsum(np.where(self.num_stored + count > self.capacity, rewards[index], 0))
        total = float(rewards[:kept].sum()) - gone + count * reward
        means = total / np.minimum(kept + count, self.capacity)
        self._priorities[index] = np.maximum(1.0, reward - means)
