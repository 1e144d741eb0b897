"""The learner: DL2's two networks, their optimisers, and one update of either phase."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.learning.dl2.losses import (
    imitation_loss,
    mean_entropy,
    policy_loss,
    stored_policy_gradient,
)
from alloc.learning.dl2.networks import DenseForward, DenseNetwork
from alloc.learning.dl2.replay import Batch
from alloc.learning.dl2.settings import DL2Settings
from alloc.learning.pytorch import functional, torch
from alloc.learning.training import step_generator, weights_of

_POLICY, _VALUE = 1, 2
"""What sets the initial weights of the networks apart."""


class Learner:
    """The networks in training; the seed draws their initial weights.

    `forward` is the policy in numpy, as it is after the last update.
    """

    def __init__(self, settings: DL2Settings, seed: int) -> None:
        self._settings = settings
        self._shape = settings.features.shape
        self.policy = self._network(settings.features.num_actions, seed, _POLICY)
        self.value = self._network(1, seed, _VALUE)
        self.forward = DenseForward(self.policy)
        self.begin(settings.supervised_lr)

    def begin(self, lr: float) -> None:
        """Begin a phase: new optimisers."""
        self._policy_adam = torch.optim.Adam(self.policy.parameters(), lr)
        self._value_adam = torch.optim.Adam(self.value.parameters(), lr)

    def imitate(self, batch: Batch) -> dict[str, float]:
        """Take one supervised update; return what was measured."""
        labels = torch.from_numpy(batch.targets)
        logits = self.policy(self._window(batch.states))
        loss = imitation_loss(logits, labels, self._settings.supervised_loss)
        _descend(self._policy_adam, loss)
        self.forward.load(self.policy)
        return {"supervised_loss": loss.item()}

    def reinforce(
        self, batch: Batch, mean_reward: float
    ) -> tuple[dict[str, float], npt.NDArray[np.float64]]:
        """Take one update of actor and critic; return what was measured, and the errors.

        Without a critic the mean reward is the baseline.

        Parameters
        ----------
        batch
            Samples of a replay.
        mean_reward
            Mean of the rewards kept, the baseline.
        """
        states = self._window(batch.states)
        errors = batch.rewards - mean_reward
        measured = {}
        if self._settings.critic:
            errors, loss = self._criticise(batch, states)
            measured["critic_loss"] = loss
        advantages = torch.from_numpy((errors * batch.weights).astype(np.float32))
        self._act(batch, states, advantages)
        self.forward.load(self.policy)
        measured["entropy_nats"] = mean_entropy(torch.from_numpy(batch.targets))
        measured["batch_reward"] = float(batch.rewards.mean())
        return measured, errors

    def load_policy(self, weights: dict[str, torch.Tensor]) -> None:
        """Give the policy other weights."""
        self.policy.load_state_dict(weights)
        self.forward.load(self.policy)

    def state(self) -> dict[str, Any]:
        """Return all that the next update depends on."""
        return {
            "policy": weights_of(self.policy),
            "value": weights_of(self.value),
            "policy_adam": self._policy_adam.state_dict(),
            "value_adam": self._value_adam.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` returned."""
        self.load_policy(state["policy"])
        self.value.load_state_dict(state["value"])
        self._policy_adam.load_state_dict(state["policy_adam"])
        self._value_adam.load_state_dict(state["value_adam"])

    def _criticise(
        self, batch: Batch, states: torch.Tensor
    ) -> tuple[npt.NDArray[np.float64], float]:
        """Update the critic; return how far off it was, and its loss."""
        targets = batch.rewards
        if batch.next_states is not None:
            with torch.no_grad():
                following = self.value(self._window(batch.next_states))[:, 0].numpy()
            targets = targets + self._settings.discount * np.where(batch.over, 0.0, following)
        values = self.value(states)[:, 0]
        wanted = torch.from_numpy(targets.astype(np.float32))
        loss = functional.mse_loss(values, wanted)
        _descend(self._value_adam, loss)
        return targets - values.detach().numpy().astype(np.float64), loss.item()

    def _act(self, batch: Batch, states: torch.Tensor, advantages: torch.Tensor) -> None:
        """Update the actor."""
        settings = self._settings
        stored = torch.from_numpy(batch.targets)
        actions = torch.from_numpy(batch.actions)
        weight = settings.entropy
        if settings.entropy_per_action:
            weight /= stored.shape[1]
        logits = self.policy(states)
        if settings.stored_gradient:
            gradient = stored_policy_gradient(stored, actions, advantages, weight)
            _descend(self._policy_adam, logits, gradient)
        else:
            loss = policy_loss(logits, stored > 0, actions, advantages, weight)
            _descend(self._policy_adam, loss)

    def _window(self, states: npt.NDArray[np.float32]) -> torch.Tensor:
        return torch.from_numpy(states).reshape(-1, *self._shape)

    def _network(self, outputs: int, seed: int, purpose: int) -> DenseNetwork:
        return DenseNetwork(
            self._shape,
            self._settings.hidden,
            outputs,
            scale_shift=self._settings.scale_shift,
            generator=step_generator(seed, purpose),
        )


def _descend(
    adam: torch.optim.Adam, loss: torch.Tensor, gradient: torch.Tensor | None = None
) -> None:
    adam.zero_grad()
    torch.autograd.backward(loss, gradient)
    adam.step()
