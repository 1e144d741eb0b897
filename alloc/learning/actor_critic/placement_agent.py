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

from dataclasses import asdict, dataclass, field

import numpy as np

from alloc.learning.actor_critic.pair import PairTraining, clipped_gain, entropy
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
from alloc.learning.pytorch import nn, torch
from alloc.learning.training import Account, State, step_rng
from alloc.schedulers.learned.kinds import choose as choose_action
from alloc.schedulers.learned.kinds import feature_spec
from alloc.units import require_count
from alloc.workload.interference import InterferenceTable

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
    updates, every
        Updates in all, and between validations.
    streams
        Streams played for an update, from `source`.
    replay
        Choices kept for replay, the newest.
    batches, batch
        Gradient steps of an update, and choices of each.
    explore
        Chance of an exploring choice at first, falling to nothing.
    clip, entropy, rate
        Range of ratios, weight of the entropy at first, learning rate.
    samples
        Mixes measured for the reward model, 1 or more.
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

    def __post_init__(self) -> None:
        require_count(self.samples, "placement plan", "samples", least=1)

    @staticmethod
    def of_minutes(minutes: float) -> PlacementPlan:
        """Return a plan of about so many CPU minutes: the clock itself decides nothing."""
        updates = max(1, round(60 * minutes / STEP_S))
        return PlacementPlan(updates=updates, every=max(1, min(20, updates // 4)))


class PlacementTraining(PairTraining):
    """A training, update by update.

    Parameters
    ----------
    plan, seed
        How long; seed of weights, measurements, streams and draws.
    reward
        Worth of a host, by its jobs of each class; by default the learned model.
    """

    kind = "placement-agent"
    measure = VALUE

    def __init__(self, plan: PlacementPlan, seed: int = 0, reward: Value | None = None) -> None:
        spec = feature_spec("host-choice/1", classes=CLASSES, most=plan.source.most)
        super().__init__(spec, rate=plan.rate, updates=plan.updates, every=plan.every, seed=seed)
        self.plan = plan
        source = asdict(plan.source) | {"work": list(plan.source.work)}
        given = {"seed": seed, "given_reward": reward is not None}
        self.settings = given | asdict(plan) | {"source": source}
        self.table = synthetic_table()
        self._reward = reward
        self._tried = torch.zeros((len(CLASSES), (plan.source.most + 1) ** len(CLASSES)))
        self._replay: dict[str, torch.Tensor] = {}
        self._validation: list[tuple[Stream, float]] = []

    def account(self) -> Account:
        """Return what the model card says of this training."""
        source, plan = self.plan.source, self.plan
        return Account(
            title="Places jobs on hosts by the classes of the jobs beside them (Harmony)",
            information="classes of the jobs on every host and of those that wait",
            data=(
                f"{plan.updates * plan.streams} streams of {source.rounds} rounds with "
                f"{source.per_round:g} jobs each in the mean on {source.hosts} hosts; speeds from "
                f"an invented table of interference. Rewards: {self._rewards()}"
            ),
            limits=(
                "The interference it learned is synthetic; train it again on measured tables.",
                "The simulator runs jobs at their stated rates, so its worth does not show there.",
                "A job goes on one host as a whole; jobs of other classes are shown without one.",
            ),
            references=(
                "Bao, Peng, Wu, Deep learning-based job placement in distributed machine learning "
                "clusters (Harmony), INFOCOM 2019",
            ),
            measure=VALUE,
            curve_step="update",
            curve_value="mean JCT over that of spreading",
        )

    def _rewards(self) -> str:
        """Say where the rewards came from, and how far the model is off."""
        model = self.reward
        if not isinstance(model, RewardModel):
            return "the true speeds."
        errors, measured = model.errors(), model.measured
        text = f"{len(measured.speeds)} measured mixes, and a network for the others"
        if not errors:
            return f"{text}, of which there are none."
        return (
            f"{text}; on the {len(measured.held_out)} that were not measured its mean absolute "
            f"error of a normalised speed is {errors['speed_error']:.4f}."
        )

    @property
    def reward(self) -> Value:
        """Worth of a host; the model is fitted when it is first asked for, by the seed alone."""
        if self._reward is None:
            plan = self.plan
            self._reward = RewardModel(self.table, plan.source.most, plan.samples, self.seed)
        return self._reward

    def _improve(self) -> float:
        """Play some streams and learn from the replay; return the mean JCT of the streams."""
        jct = float(np.mean([self._play(k) for k in range(self.plan.streams)]))
        rng = step_rng(self.seed, 2, self.step)
        for _ in range(self.plan.batches):
            self._learn(rng)
        return jct

    def state(self) -> State:
        """Return all that the next step depends on."""
        return {**super().state(), "tried": self._tried, "replay": self._replay}

    def restore(self, state: State) -> None:
        """Take up a state."""
        super().restore(state)
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
        log_p = self._log_probabilities(seen, mask)
        ratio = log_p.gather(1, action[:, None])[:, 0].exp() / kept["chance"][rows]
        gain = clipped_gain(ratio, advantage, plan.clip)
        weight = plan.entropy * (1 - self.step / plan.updates)
        error = ((value - goal) ** 2).mean()
        self._descend(-gain - weight * entropy(log_p, mask) + 0.5 * error)

    def _judge(self) -> dict[str, float]:
        """Play the streams of validation with the likeliest choices."""
        if not self._validation:
            streams = held_streams(self.plan.source, VALIDATION_SEED, 6)
            calls = [(stream, self.table, spread) for stream in streams]
            expected = self.rollouts(_mean_jct, calls)
            self._validation = list(zip(streams, expected, strict=True))
        act = likeliest(self.actor)
        jcts = self.rollouts(
            _mean_jct, [(stream, self.table, act) for stream, _ in self._validation]
        )
        return {VALUE: float(np.mean(np.array(jcts) / [e for _, e in self._validation]))}


def _mean_jct(stream: Stream, table: InterferenceTable, place: Place) -> float:
    """Return the mean JCT of a stream that is placed by a rule."""
    return float(run_stream(stream, table, place).jct.mean())


def likeliest(actor: nn.Module) -> Place:
    """Return what takes the likeliest choice of a network."""

    def place(asked: Asked) -> int:
        with torch.no_grad():
            logits = actor(torch.from_numpy(asked.seen[None]))[0].numpy()
        return choose_action(logits, asked.mask, None)

    return place


def held_streams(source: Streams, first_seed: int, count: int) -> list[Stream]:
    """Return streams of seeds from one on.

    Parameters
    ----------
    source
        Draws the streams.
    first_seed
        Seed of the first one; each next one has the next seed.
    count
        Number of streams, 0 or more.
    """
    return [source(np.random.default_rng(first_seed + k)) for k in range(count)]
