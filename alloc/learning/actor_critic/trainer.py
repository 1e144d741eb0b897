"""Actor and critic, trained by clipped policy gradients on whole episodes.

References
----------
Sutton, McAllester, Singh, Mansour, "Policy gradient methods", NIPS 1999 (actor and critic);
Schulman et al., "High-dimensional continuous control using generalized advantage estimation", ICLR
2016; Schulman et al., "Proximal policy optimization algorithms", 2017, arXiv:1707.06347.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from alloc.instance import Instance
from alloc.learning.actor_critic.networks import make_networks
from alloc.learning.actor_critic.rollout import Choose, Played, play, refer
from alloc.learning.actor_critic.task import Task
from alloc.learning.training import Curve, State, step_rng
from alloc.schedulers import make_scheduler
from alloc.schedulers.learned.kinds import choose as choose_action

VALUE = "mean_jct_over_reference"
"""The validation's measure: mean JCT over the reference's, mean over instances."""


@dataclass(frozen=True)
class Plan:
    """How long and how to train.

    Parameters
    ----------
    updates
        Updates in all.
    episodes
        Episodes of an update.
    epochs
        Passes over them.
    every
        Updates between validations.
    gamma
        Discount from one decision to the next; within a decision there is none.
    trace
        Lambda of generalised advantages.
    clip
        Range of the ratio of probabilities.
    entropy
        Weight of the entropy, falling to nothing over the training.
    rate
        Learning rate of both.
    """

    updates: int = 200
    episodes: int = 8
    epochs: int = 4
    every: int = 20
    gamma: float = 0.99
    trace: float = 0.95
    clip: float = 0.2
    entropy: float = 0.02
    rate: float = 1e-3


class ActorCriticTraining:
    """A training of an agent, update by update; see `alloc.learning.training.Trainer`.

    Parameters
    ----------
    task
        What for.
    plan
        How long.
    seed
        Seed of weights, instances and draws.
    """

    def __init__(self, task: Task, plan: Plan, seed: int = 0) -> None:
        torch.set_num_threads(1)
        self.task, self.plan, self.seed = task, plan, seed
        self.step, self.steps, self.curve = 0, plan.updates, Curve()
        self.actor, self.critic = make_networks(task.spec, seed)
        self._optimiser = torch.optim.Adam(
            [*self.actor.parameters(), *self.critic.parameters()], lr=plan.rate
        )
        self._stepwise = task.steps()
        self._validation: tuple[Instance, ...] | None = None
        self._expected: list[float] = []
        self._reference = make_scheduler(task.reference)
        self._best_value = float("inf")
        self._best = copy.deepcopy(self.actor.state_dict())

    @property
    def kind(self) -> str:
        """What is trained."""
        return self.task.name

    @property
    def settings(self) -> Mapping[str, Any]:
        """Plain JSON values that name this training."""
        return {"seed": self.seed, **asdict(self.plan), **self.task.settings}

    def advance(self) -> str:
        """Take one update; return in words how it went."""
        if self.step == 0:
            self._validate()
        played = [self._episode(e) for e in range(self.plan.episodes)]
        self._update(played)
        self.step += 1
        if self.step % self.plan.every == 0 or self.step == self.steps:
            self._validate()
        value = self.curve.points[-1].values[VALUE]
        jct = np.mean([episode.mean_jct for episode in played])
        return f"mean JCT {jct:.3g}; validation {value:.3f}, best {self._best_value:.3f}"

    def best(self) -> nn.Module:
        """Return the actor that did best in validation."""
        actor = copy.deepcopy(self.actor)
        actor.load_state_dict(self._best)
        return actor

    def state(self) -> State:
        """Return all that the next step depends on."""
        return {
            "actor": self.actor.state_dict(),
            "critic": self.critic.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "best_value": self._best_value,
            "best": self._best,
        }

    def restore(self, state: State) -> None:
        """Take up a state."""
        self.actor.load_state_dict(state["actor"])
        self.critic.load_state_dict(state["critic"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._best_value = float(state["best_value"])
        self._best = state["best"]

    def _episode(self, episode: int) -> Played:
        rng = step_rng(self.seed, 1, self.step, episode)
        instance = self.task.draw(rng)
        reference = refer(instance, self.task, self._reference)
        return play(instance, self.task, self._stepwise, self._chooser(rng), reference)

    def _chooser(self, rng: np.random.Generator | None) -> Choose:
        """Return what draws actions, or without `rng` takes the likeliest."""

        def act(seen: np.ndarray, mask: np.ndarray) -> int:
            with torch.no_grad():
                logits = self.actor(torch.from_numpy(seen[None]))[0].numpy()
            return choose_action(logits, mask, rng)

        return act

    def _validate(self) -> None:
        """Play the validation instances with the likeliest actions; keep the best weights."""
        if self._validation is None:
            self._validation = self.task.validation()
            self._expected = [
                refer(i, self.task, self._reference).mean_jct for i in self._validation
            ]
        act = self._chooser(None)
        jcts = [play(i, self.task, self._stepwise, act).mean_jct for i in self._validation]
        value = float(np.mean(np.array(jcts) / np.array(self._expected)))
        self.curve.add(
            self.step, "actor-critic", **{VALUE: value, "mean_jct": float(np.mean(jcts))}
        )
        if value < self._best_value:
            self._best_value = value
            self._best = copy.deepcopy(self.actor.state_dict())

    def _update(self, played: Sequence[Played]) -> None:
        """Move actor and critic by some passes over the episodes."""
        plan = self.plan
        seen = torch.from_numpy(np.stack([s for p in played for s in p.seen]))
        mask = torch.from_numpy(np.stack([m for p in played for m in p.mask]))
        action = torch.tensor([a for p in played for a in p.action])
        with torch.no_grad():
            value = self.critic(seen)[:, 0].double().numpy()
            before = self._log_probabilities(seen, mask).gather(1, action[:, None])[:, 0]
        advantage = self._advantages(played, value)
        target = torch.from_numpy(advantage + value).float()
        scaled = torch.from_numpy((advantage - advantage.mean()) / (advantage.std() + 1e-8)).float()
        entropy_weight = plan.entropy * (1 - self.step / plan.updates)
        for _ in range(plan.epochs):
            log_p = self._log_probabilities(seen, mask)
            ratio = (log_p.gather(1, action[:, None])[:, 0] - before).exp()
            gain = torch.minimum(
                ratio * scaled, ratio.clamp(1 - plan.clip, 1 + plan.clip) * scaled
            ).mean()
            entropy = -(log_p.exp() * log_p.masked_fill(~mask, 0.0)).sum(1).mean()
            error = ((self.critic(seen)[:, 0] - target) ** 2).mean()
            loss = -gain - entropy_weight * entropy + 0.5 * error
            self._optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.actor.parameters(), 0.5)
            nn.utils.clip_grad_norm_(self.critic.parameters(), 0.5)
            self._optimiser.step()

    def _log_probabilities(self, seen: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = self.actor(seen).masked_fill(~mask, -1e9)
        return logits.log_softmax(1)

    def _advantages(self, played: Sequence[Played], value: np.ndarray) -> np.ndarray:
        """Return generalised advantages; time, and so the discount, passes between decisions."""
        plan, found, end = self.plan, np.zeros(len(value)), 0
        for episode in played:
            start, end = end, end + len(episode.action)
            after, carried = 0.0, 0.0
            for k in range(end - start - 1, -1, -1):
                passes = episode.closes[k]
                gamma, trace = (plan.gamma, plan.trace) if passes else (1.0, 1.0)
                delta = episode.reward[k] + gamma * after - value[start + k]
                carried = delta + gamma * trace * carried
                found[start + k], after = carried, value[start + k]
        return found
