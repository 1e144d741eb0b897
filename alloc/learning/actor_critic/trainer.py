"""Actor and critic, trained by clipped policy gradients on whole episodes.

References
----------
Sutton, McAllester, Singh, Mansour, "Policy gradient methods", NIPS 1999 (actor and critic);
Schulman et al., "High-dimensional continuous control using generalized advantage estimation", ICLR
2016; Schulman et al., "Proximal policy optimization algorithms", 2017, arXiv:1707.06347.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from alloc.learning.actor_critic.pair import PairTraining, clipped_gain, entropy
from alloc.learning.actor_critic.rollout import Choose, Played, play, refer
from alloc.learning.actor_critic.task import Task
from alloc.learning.pytorch import nn, torch
from alloc.learning.training import Account, step_rng
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.schedulers.learned.kinds import choose as choose_action

VALUE = "mean_jct_over_reference"
"""The validation's measure: mean JCT over the reference's, mean over instances."""


@dataclass(frozen=True)
class Plan:
    """How long and how to train.

    Parameters
    ----------
    updates, every
        Updates in all, and between validations.
    episodes, epochs
        Episodes of an update, and passes over them.
    gamma
        Discount from one decision to the next; within a decision there is none.
    trace
        Lambda of generalised advantages.
    clip, entropy, rate
        Range of the ratio of probabilities, weight of the entropy, falling to nothing over the
        training, and learning rate of both.
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

    @staticmethod
    def of_minutes(task: Task, minutes: float) -> Plan:
        """Return a plan of about so many CPU minutes: the clock itself decides nothing.

        Parameters
        ----------
        task
            What is trained for; `step_s` is the time of an update.
        minutes
            CPU minutes, above 0; at least one update is made.
        """
        updates = max(1, round(60 * minutes / task.step_s))
        return Plan(updates=updates, every=max(1, min(20, updates // 4)))


class ActorCriticTraining(PairTraining):
    """A training of an agent for a task, update by update.

    The seed draws weights, instances and actions.
    """

    measure = VALUE

    def __init__(self, task: Task, plan: Plan, seed: int = 0) -> None:
        super().__init__(
            task.spec, rate=plan.rate, updates=plan.updates, every=plan.every, seed=seed
        )
        self.task, self.plan = task, plan
        self._validation: tuple[Instance, ...] | None = None
        self._expected: list[float] = []
        make_scheduler(task.reference)  # an unknown one is refused before any work is done
        self.kind = task.name
        self.settings = {"seed": seed, **asdict(plan), **task.settings}

    def account(self) -> Account:
        """Return what the model card says of this training."""
        task, plan = self.task, self.plan
        return Account(
            title=task.title,
            information=task.information,
            data=f"{task.data} {plan.updates} updates of {plan.episodes} episodes each.",
            limits=task.limits,
            references=task.references,
            measure=VALUE,
            curve_step="update",
            curve_value=f"mean JCT over that of {task.reference}",
        )

    def _improve(self) -> float:
        """Play some episodes and learn from them; return their mean JCT."""
        rngs = [step_rng(self.seed, 1, self.step, e) for e in range(self.plan.episodes)]
        played = self.rollouts(_episode, [(self.task, self.actor, rng) for rng in rngs])
        self._update(played)
        return float(np.mean([episode.mean_jct for episode in played]))

    def _judge(self) -> dict[str, float]:
        """Play the validation instances with the likeliest actions."""
        if self._validation is None:
            self._validation = self.task.validation()
            calls = [(self.task, instance) for instance in self._validation]
            self._expected = self.rollouts(_expected, calls)
        jcts = self.rollouts(
            _validated, [(self.task, self.actor, instance) for instance in self._validation]
        )
        value = float(np.mean(np.array(jcts) / np.array(self._expected)))
        return {VALUE: value, "mean_jct": float(np.mean(jcts))}

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
            gain = clipped_gain(ratio, scaled, plan.clip)
            error = ((self.critic(seen)[:, 0] - target) ** 2).mean()
            self._descend(-gain - entropy_weight * entropy(log_p, mask) + 0.5 * error)

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


def _episode(task: Task, actor: nn.Module, rng: np.random.Generator) -> Played:
    """Play a drawn instance with drawn actions; what the reference earns is taken off."""
    instance = task.draw(rng)
    reference = refer(instance, task, make_scheduler(task.reference))
    return play(instance, task, task.steps(), _chooser(actor, rng), reference)


def _expected(task: Task, instance: Instance) -> float:
    """Return the mean JCT of the reference on an instance."""
    return refer(instance, task, make_scheduler(task.reference)).mean_jct


def _validated(task: Task, actor: nn.Module, instance: Instance) -> float:
    """Return the mean JCT of the likeliest actions on an instance."""
    return play(instance, task, task.steps(), _chooser(actor, None)).mean_jct


def _chooser(actor: nn.Module, rng: np.random.Generator | None) -> Choose:
    """Return what draws actions, or without `rng` takes the likeliest."""

    def act(seen: np.ndarray, mask: np.ndarray) -> int:
        with torch.no_grad():
            logits = actor(torch.from_numpy(seen[None]))[0].numpy()
        return choose_action(logits, mask, rng)

    return act
