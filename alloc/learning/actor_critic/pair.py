"""An actor and a critic under training: what does not depend on where they act."""

from __future__ import annotations

from abc import abstractmethod
from typing import cast

from alloc.learning.pytorch import Tensor, nn, torch
from alloc.learning.training import State, Trainer, single_thread
from alloc.schedulers.learned.feature_spec import FeatureSpec

WIDTH = 64
"""Units of each layer, as in the experiments of PPO (Schulman et al., 2017, section 6.1)."""
LARGEST_GRADIENT = 0.5
"""Norm that the gradients of actor and critic are cut off at, each by itself."""


class FlatNetwork(nn.Module):
    """Outputs of a vector of features, shape (batch, features) to (batch, outputs)."""

    def __init__(self, features: int, outputs: int, width: int = WIDTH) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(features, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.answer = nn.Linear(width, outputs)

    def forward(self, seen: Tensor) -> Tensor:
        """Return the outputs."""
        return cast(Tensor, self.answer(self.body(seen)))


class RowNetwork(nn.Module):
    """A score for each row that knows the mean of all, (batch, rows, features) to (batch, rows).

    Rows are treated alike, so their order does not matter.
    """

    def __init__(self, features: int, width: int = WIDTH) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(features, width), nn.Tanh())
        self.own = nn.Linear(width, width)
        self.common = nn.Linear(width, width)
        self.answer = nn.Linear(width, 1)

    def forward(self, seen: Tensor) -> Tensor:
        """Return the scores."""
        rows = self.embed(seen)
        mixed = torch.tanh(self.own(rows) + self.common(rows.mean(1, keepdim=True)))
        return cast(Tensor, self.answer(mixed)[:, :, 0])


class RowValue(nn.Module):
    """One value of all rows, (batch, rows, features) to (batch, 1)."""

    def __init__(self, features: int, width: int = WIDTH) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(features, width), nn.Tanh())
        self.answer = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, seen: Tensor) -> Tensor:
        """Return the values."""
        return cast(Tensor, self.answer(self.embed(seen).mean(1)))


def _make_networks(spec: FeatureSpec, seed: int) -> tuple[nn.Module, nn.Module]:
    """Return actor and critic for a spec; equal seeds give equal weights."""
    shape, actions = spec.inputs[0].shape, spec.outputs[0].shape[-1]
    features = int(shape[-1])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        actor: FlatNetwork | RowNetwork
        critic: nn.Module
        if len(shape) == 2:
            actor, critic = FlatNetwork(features, int(actions)), FlatNetwork(features, 1)
        else:
            actor, critic = RowNetwork(features), RowValue(features)
        # All actions nearly alike at first, so that all are tried.
        with torch.no_grad():
            actor.answer.weight.mul_(0.01)
            actor.answer.bias.zero_()
        return actor, critic


class PairTraining(Trainer):
    """A training of actor and critic, update by update.

    Parameters
    ----------
    spec
        What the networks are shown and answer.
    rate
        Learning rate of both.
    updates, every
        Updates in all, and between validations.
    seed
        Seed of weights, and of what a subclass draws.
    """

    measure: str
    """Name of the validation's measure in the curve; lower is better."""

    def __init__(
        self, spec: FeatureSpec, *, rate: float, updates: int, every: int, seed: int
    ) -> None:
        self.spec = spec
        self.actor, self.critic = _make_networks(spec, seed)
        super().__init__(self.actor, updates, seed)
        self._optimiser = torch.optim.Adam(
            [*self.actor.parameters(), *self.critic.parameters()], lr=rate
        )
        self._every = every

    @abstractmethod
    def _improve(self) -> float:
        """Play and learn, one update; return the mean JCT of what was played."""

    @abstractmethod
    def _judge(self) -> dict[str, float]:
        """Return what validation measures, `measure` among it."""

    def advance(self) -> str:
        """Take one update; return in words how it went."""
        with single_thread():
            if self.step == 0:
                self._validate()
            jct = self._improve()
            self.step += 1
            if self.step % self._every == 0 or self.step == self.steps:
                self._validate()
        value = self.curve.points[-1].values[self.measure]
        return f"mean JCT {jct:.3g}; validation {value:.3f}, best {self.best_value:.3f}"

    def _validate(self) -> None:
        measured = self._judge()
        self.curve.add(self.step, "actor-critic", **measured)
        self._keep_best(measured[self.measure])

    def state(self) -> State:
        """Return all that the next step depends on."""
        return {
            "actor": self.actor.state_dict(),
            "critic": self.critic.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "best_value": self.best_value,
            "best": self._best,
        }

    def restore(self, state: State) -> None:
        """Take up a state."""
        self.actor.load_state_dict(state["actor"])
        self.critic.load_state_dict(state["critic"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.best_value, self._best = float(state["best_value"]), state["best"]

    def _log_probabilities(self, seen: Tensor, mask: Tensor) -> Tensor:
        """Return the log-probabilities of all actions, shape (choices, actions)."""
        logits: Tensor = self.actor(seen).masked_fill(~mask, -1e9)
        return logits.log_softmax(1)

    def _descend(self, loss: Tensor) -> None:
        """Move actor and critic down a loss."""
        self._optimiser.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.actor.parameters(), LARGEST_GRADIENT)
        nn.utils.clip_grad_norm_(self.critic.parameters(), LARGEST_GRADIENT)
        self._optimiser.step()


def clipped_gain(ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Return the clipped gain of choices by their ratios of probabilities (PPO, equation 7).

    Parameters
    ----------
    ratio
        Probability of each choice now over that when it was drawn, above 0, shape (samples,).
    advantage
        How much better than expected each turned out, shape (samples,).
    clip
        How far from 1 a ratio counts, above 0 and below 1.
    """
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()


def entropy(log_p: Tensor, mask: Tensor) -> Tensor:
    """Return the mean entropy of choices among allowed actions, nats.

    Parameters
    ----------
    log_p
        Logarithm of the probability of each action, shape (samples, actions).
    mask
        Whether an action is allowed, of the same shape.
    """
    return -(log_p.exp() * log_p.masked_fill(~mask, 0.0)).sum(1).mean()
