"""Placement under interference: actor and critic with replay, rewarded by a learned model.

A round is an episode: what a placement earns is what it adds to the sum of the normalised speeds of
its host, and returns run to the end of the round, undiscounted. Over all rounds that sum is the
work there is, whatever is done, so it could teach nothing.

References
----------
Bao, Peng, Wu, "Deep learning-based job placement in distributed machine learning clusters"
(Harmony), INFOCOM 2019: actor and critic, experience replay, job-aware exploration, a learned model
of the reward. Our exploration tries the class of the job in the mix of classes where it was tried
least; replayed choices are weighted by clipped ratios of probabilities (Schulman et al., 2017).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from alloc.learning.actor_critic.networks import make_networks
from alloc.learning.actor_critic.placement_reward import RewardModel
from alloc.learning.actor_critic.placement_rules import spread
from alloc.learning.actor_critic.placement_world import (
    CLASSES,
    Asked,
    Place,
    Stream,
    Streams,
    Value,
    run_stream,
    synthetic_table,
)
from alloc.learning.training import Curve, State, step_rng
from alloc.schedulers.learned.feature_spec import FeatureSpec
from alloc.schedulers.learned.kinds import choose as choose_action

VALUE = "mean_jct_over_spread"
"""The validation's measure: mean JCT at true speeds over that of spreading, mean over streams."""

STEP_S = 0.12
"""CPU time of an update, seconds, about."""

VALIDATION_SEED, HELD_OUT_SEED = 50_000, 60_000
"""First seeds of the streams of validation, and of those that no training sees."""


@dataclass(frozen=True)
class PlacementPlan:
    """How long and how to train.

    Parameters
    ----------
    updates
        Updates in all.
    streams
        Streams played for an update.
    replay
        Choices kept for replay, the newest.
    batches, batch
        Gradient steps of an update, and choices of each.
    every
        Updates between validations.
    explore
        Chance of an exploring choice at first, falling to nothing.
    clip, entropy, rate
        Range of ratios, weight of the entropy at first, learning rate.
    samples
        Mixes measured for the reward model; 0 gives true speeds as rewards instead.
    source
        Where streams come from.
    """

    updates: int = 200
    streams: int = 2
    replay: int = 2048
    batches: int = 12
    batch: int = 256
    every: int = 20
    explore: float = 0.2
    clip: float = 0.2
    entropy: float = 0.01
    rate: float = 2e-3
    samples: int = 40
    source: Streams = field(default_factory=Streams)

    @staticmethod
    def of_minutes(minutes: float) -> PlacementPlan:
        """Return a plan of about so many CPU minutes: the clock itself decides nothing."""
        updates = max(1, round(60 * minutes / STEP_S))
        return PlacementPlan(updates=updates, every=max(1, min(20, updates // 4)))


class PlacementTraining:
    """A training, update by update; see `alloc.learning.training.Trainer`.

    Parameters
    ----------
    plan
        How long.
    seed
        Seed of weights, measurements, streams and draws.
    reward
        Worth of a host, by its jobs of each class; by default the learned model.
    """

    kind = "placement-agent"

    def __init__(self, plan: PlacementPlan, seed: int = 0, reward: Value | None = None) -> None:
        torch.set_num_threads(1)
        self.plan, self.seed = plan, seed
        self.step, self.steps, self.curve = 0, plan.updates, Curve()
        self.table = synthetic_table()
        self.spec = FeatureSpec.of("host-choice/1", classes=CLASSES, most=plan.source.most)
        self.actor, self.critic = make_networks(self.spec, seed)
        self._optimiser = torch.optim.Adam(
            [*self.actor.parameters(), *self.critic.parameters()], lr=plan.rate
        )
        self._reward = reward
        self._true_reward = reward is not None
        self._tried = torch.zeros((len(CLASSES), (plan.source.most + 1) ** len(CLASSES)))
        self._replay: dict[str, torch.Tensor] = {}
        self._validation: list[tuple[Stream, float]] = []
        self._best_value = float("inf")
        self._best = copy.deepcopy(self.actor.state_dict())

    @property
    def settings(self) -> Mapping[str, Any]:
        """Plain JSON values that name this training."""
        plan = asdict(self.plan)
        plan["source"]["work"] = list(plan["source"]["work"])
        return {"seed": self.seed, "given_reward": self._true_reward, **plan}

    @property
    def reward(self) -> Value:
        """Worth of a host; the model is fitted when it is first asked for, by the seed alone."""
        if self._reward is None:
            plan = self.plan
            self._reward = RewardModel(self.table, plan.source.most, plan.samples, self.seed)
        return self._reward

    def advance(self) -> str:
        """Take one update; return in words how it went."""
        if self.step == 0:
            self._validate()
        jct = float(np.mean([self._play(k) for k in range(self.plan.streams)]))
        rng = step_rng(self.seed, 2, self.step)
        for _ in range(self.plan.batches):
            self._learn(rng)
        self.step += 1
        if self.step % self.plan.every == 0 or self.step == self.steps:
            self._validate()
        value = self.curve.points[-1].values[VALUE]
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
            "tried": self._tried,
            "replay": self._replay,
        }

    def restore(self, state: State) -> None:
        """Take up a state."""
        self.actor.load_state_dict(state["actor"])
        self.critic.load_state_dict(state["critic"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._best_value, self._best = float(state["best_value"]), state["best"]
        self._tried, self._replay = state["tried"], state["replay"]

    def _play(self, number: int) -> float:
        """Play a stream, remember its choices; return its mean JCT."""
        rng = step_rng(self.seed, 1, self.step, number)
        chances: list[float] = []
        explore = self.plan.explore * (1 - self.step / self.plan.updates)

        def place(asked: Asked) -> int:
            action, chance = self._draw(asked, explore, rng)
            chances.append(chance)
            return action

        run = run_stream(self.plan.source(rng), self.table, place)
        questions = [q for asked, _, _ in run.rounds for q in asked]
        gained = []
        for asked, _, after in run.rounds:
            end = self._worth(after)
            gained += [end - self._worth(question.on_host) for question in asked]
        new = {
            "seen": torch.from_numpy(np.stack([q.seen for q in questions])),
            "mask": torch.from_numpy(np.stack([q.mask for q in questions])),
            "action": torch.tensor([a for _, actions, _ in run.rounds for a in actions]),
            "gained": torch.tensor(gained),
            "chance": torch.tensor(chances),
        }
        for name, rows in new.items():
            kept = self._replay.get(name)
            joined = rows if kept is None else torch.cat([kept, rows])
            self._replay[name] = joined[-self.plan.replay :].clone()
        return float(run.jct.mean())

    def _worth(self, on_host: np.ndarray) -> float:
        return sum(self.reward(tuple(row)) for row in on_host.tolist())

    def _draw(self, asked: Asked, explore: float, rng: np.random.Generator) -> tuple[int, float]:
        """Draw a host; return it and its chance, of which exploring is a part."""
        mask = asked.mask
        with torch.no_grad():
            logits = self.actor(torch.from_numpy(asked.seen[None]))[0].double().numpy()
        weights = np.exp(np.where(mask, logits - logits[mask].max(), -np.inf))
        tried = self._tried[asked.queue[0]]
        # A mix of classes as one number: its counts are the digits.
        base = (asked.most + 1) ** np.arange(asked.on_host.shape[1])
        cells = asked.on_host @ base
        count = np.where(mask[:-1], tried[cells].numpy(), np.inf)
        least = np.append(count == count.min(), False)
        chance = (1 - explore) * weights / weights.sum() + explore * least / least.sum()
        action = int(rng.choice(len(mask), p=chance / chance.sum()))
        if action < len(cells):
            tried[cells[action]] += 1
        return action, float(chance[action])

    def _learn(self, rng: np.random.Generator) -> None:
        """Take a gradient step on choices of the replay."""
        plan, kept = self.plan, self._replay
        rows = torch.from_numpy(rng.integers(len(kept["action"]), size=plan.batch))
        seen, mask, action = kept["seen"][rows], kept["mask"][rows], kept["action"][rows]
        goal = kept["gained"][rows]
        value = self.critic(seen)[:, 0]
        advantage = goal - value.detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        log_p = self.actor(seen).masked_fill(~mask, -1e9).log_softmax(1)
        ratio = log_p.gather(1, action[:, None])[:, 0].exp() / kept["chance"][rows]
        clipped = ratio.clamp(1 - plan.clip, 1 + plan.clip)
        gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
        entropy = -(log_p.exp() * log_p.masked_fill(~mask, 0.0)).sum(1).mean()
        weight = plan.entropy * (1 - self.step / plan.updates)
        loss = -gain - weight * entropy + 0.5 * ((value - goal) ** 2).mean()
        self._optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.actor.parameters(), 0.5)
        nn.utils.clip_grad_norm_(self.critic.parameters(), 0.5)
        self._optimiser.step()

    def _validate(self) -> None:
        """Play the streams of validation with the likeliest choices; keep the best weights."""
        if not self._validation:
            for stream in held_streams(self.plan.source, VALIDATION_SEED, 6):
                expected = float(run_stream(stream, self.table, spread).jct.mean())
                self._validation.append((stream, expected))
        act = likeliest(self.actor)
        ratios = [
            run_stream(stream, self.table, act).jct.mean() / expected
            for stream, expected in self._validation
        ]
        value = float(np.mean(ratios))
        self.curve.add(self.step, "actor-critic", **{VALUE: value})
        if value < self._best_value:
            self._best_value, self._best = value, copy.deepcopy(self.actor.state_dict())


def likeliest(actor: nn.Module) -> Place:
    """Return what takes the likeliest choice of a network."""

    def place(asked: Asked) -> int:
        with torch.no_grad():
            logits = actor(torch.from_numpy(asked.seen[None]))[0].numpy()
        return choose_action(logits, asked.mask, None)

    return place


def held_streams(source: Streams, first_seed: int, count: int) -> list[Stream]:
    """Return streams of seeds from one on."""
    return [source(np.random.default_rng(first_seed + k)) for k in range(count)]
