"""Training of a Decima agent by reward: clipped policy gradients with a baseline of the same jobs.

References
----------
Mao, Schwarzkopf, Venkatakrishnan, Meng, Alizadeh, "Learning scheduling algorithms for data
processing clusters", SIGCOMM 2019, section 5.3: reward and baseline. Mao et al., "Variance
reduction for reinforcement learning in input-driven environments", ICLR 2019. Schulman et al.,
"Proximal policy optimization algorithms", 2017, arXiv:1707.06347, equation 7: here in place of
Decima's plain policy gradient, so that an episode teaches more than once. Departures beside: whole
episodes from the start on, where Decima cuts the first ones short, since ours end after some dozen
jobs; no average of the reward is taken off, for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from alloc.instances.learning_worlds import TRAINING_SEEDS, VALIDATION_SEEDS
from alloc.instances.projects import generate_staged
from alloc.learning.actor_critic.pair import LARGEST_GRADIENT, clipped_gain, entropy
from alloc.learning.decima.network import GraphNetwork
from alloc.learning.decima.rollout import Choose, Played, batch_of, play
from alloc.learning.pytorch import Tensor, nn, torch
from alloc.learning.training import Account, State, Trainer, single_thread, step_rng, weights_of
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.kinds import choose as choose_way
from alloc.schedulers.learned.kinds import feature_spec
from alloc.schedulers.learned.stage_graph import (
    StageGraphDecider,
    StageGraphKind,
    StageGraphParameters,
)
from alloc.schedulers.learned.stage_graph_features import Tensors
from alloc.simulation import simulate

VALUE = "weighted_jct_over_reference"
"""The validation's measure: weighted JCT over that of `REFERENCE`, mean over instances."""
REFERENCE = "shortest-job"
"""Decima's baseline SJF-CP, which is the best of its rules without a parameter."""
_STEP_S = 0.9
"""CPU time of an update, seconds, about, on one core of 2023: minutes become updates by it."""
_BATCH = 256
"""Steps in one batch: what is filled up in a batch costs time, so they are sorted by size."""


@dataclass(frozen=True)
class Plan:
    """How long and how to train.

    Parameters
    ----------
    updates, every
        Updates in all, and between validations.
    instances, episodes
        Instances of an update, and episodes on each of them.
    epochs
        Passes over the episodes of an update.
    clip, entropy, rate
        Range of the ratio of probabilities; weight of the entropy and learning rate, both falling
        over the training, the first to nothing, the second to a tenth.
    may_wait
        Whether the agent may wait with room left, which is one more thing to learn.
    validation
        Instances that checkpoints are chosen on.
    """

    updates: int = 200
    every: int = 10
    instances: int = 3
    episodes: int = 8
    epochs: int = 3
    clip: float = 0.2
    entropy: float = 0.02
    rate: float = 3e-3
    may_wait: bool = False
    validation: int = 16

    @staticmethod
    def of_minutes(minutes: float) -> Plan:
        """Return a plan of about so many CPU minutes: the clock itself decides nothing."""
        updates = max(1, round(60 * minutes / _STEP_S))
        return Plan(updates=updates, every=max(1, min(10, updates // 4)))


def draw_jobs(rng: np.random.Generator, seed: int) -> Instance:
    """Return an instance to train or validate on.

    Parameters
    ----------
    rng
        Draws the size: 4 to 14 jobs of up to 2 to 6 stages on 2 to 6 hosts of 2 GPUs, a mean gap of
        20 to 90 s.
    seed
        Seed of the jobs.
    """
    return generate_staged(
        num_jobs=int(rng.integers(4, 15)),
        stages=(int(rng.integers(1, 3)), int(rng.integers(2, 7))),
        num_hosts=int(rng.integers(2, 7)),
        mean_gap_s=float(rng.uniform(20.0, 90.0)),
        seed=seed,
    )


class DecimaTraining(Trainer):
    """The training of a Decima agent, update by update.

    In each update it plays several episodes on the same jobs. A step is as good as the weight of
    the jobs in the system, integrated from there to the end, is below the mean over the episodes.

    Parameters
    ----------
    plan
        How long and how.
    seed
        Draws weights, instances and actions.
    """

    kind = "decima"

    def __init__(self, plan: Plan, seed: int = 0) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = GraphNetwork()
        super().__init__(network, plan.updates, seed)
        self.plan = plan
        self.settings = {"seed": seed, **asdict(plan)}
        self._parameters = StageGraphParameters(may_wait=plan.may_wait)
        self.spec = feature_spec(StageGraphKind.name, may_wait=plan.may_wait)
        self._optimiser = torch.optim.Adam(network.parameters(), lr=plan.rate)
        self._validation: list[Instance] = []
        self._expected: npt.NDArray[np.float64] = np.zeros(0)

    def advance(self) -> str:
        """Take one update; return in words how it went."""
        with single_thread():
            if self.step == 0:
                self._validate()
            value = self._improve()
            self.step += 1
            if self.step % self.plan.every == 0 or self.step == self.steps:
                self._validate()
        last = self.curve.points[-1].values[VALUE]
        return f"weighted JCT {value:.4g} s; validation {last:.3f}, best {self.best_value:.3f}"

    def _improve(self) -> float:
        """Play some episodes and learn from them; return their mean value, seconds."""
        plan, rng = self.plan, step_rng(self.seed, 1, self.step)
        drawn = [
            draw_jobs(rng, TRAINING_SEEDS[int(rng.integers(len(TRAINING_SEEDS)))])
            for _ in range(plan.instances)
        ]
        asked = [instance for instance in drawn for _ in range(plan.episodes)]
        played = play(asked, self._chooser(rng), self._parameters)
        groups = [played[k : k + plan.episodes] for k in range(0, len(played), plan.episodes)]
        advantage = np.concatenate([advantages(group) for group in groups])
        self._update(played, advantage, rng)
        return float(np.mean([episode.value for episode in played]))

    def _chooser(self, rng: np.random.Generator | None) -> Choose:
        """Return what draws ways, or without `rng` takes the likeliest."""

        def choose(shown: Sequence[Tensors]) -> list[int]:
            inputs, there = batch_of(shown)
            with torch.no_grad():
                scores = self.network(*inputs).numpy()
            return [
                choose_way(score, mask, rng)
                for score, mask in zip(scores, there.numpy(), strict=True)
            ]

        return choose

    def _update(
        self,
        played: Sequence[Played],
        advantage: npt.NDArray[np.float64],
        rng: np.random.Generator,
    ) -> None:
        """Move the network by some passes over the steps of episodes."""
        plan = self.plan
        shown = [one for episode in played for one in episode.shown]
        taken = np.array([way for episode in played for way in episode.taken])
        order = sorted(range(len(shown)), key=lambda k: len(shown[k]["stages"]))
        batches = []
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            inputs, there = batch_of([shown[k] for k in rows])
            chosen = torch.from_numpy(taken[rows])[:, None]
            with torch.no_grad():
                before = self._log_probabilities(inputs, there).gather(1, chosen)[:, 0]
            good = torch.from_numpy(advantage[rows]).float()
            batches.append((inputs, there, chosen, before, good))
        done = self.step / plan.updates
        for group in self._optimiser.param_groups:
            group["lr"] = plan.rate * (1.0 - 0.9 * done)
        for _ in range(plan.epochs):
            for k in rng.permutation(len(batches)):
                inputs, there, chosen, before, good = batches[k]
                log_p = self._log_probabilities(inputs, there)
                ratio = (log_p.gather(1, chosen)[:, 0] - before).exp()
                loss = -clipped_gain(ratio, good, plan.clip)
                loss = loss - plan.entropy * (1 - done) * entropy(log_p, there)
                self._optimiser.zero_grad()
                torch.autograd.backward(loss)
                nn.utils.clip_grad_norm_(self.network.parameters(), LARGEST_GRADIENT)
                self._optimiser.step()

    def _log_probabilities(self, inputs: Sequence[Tensor], there: Tensor) -> Tensor:
        scores: Tensor = self.network(*inputs).masked_fill(~there, -1e9)
        return scores.log_softmax(1)

    def _validate(self) -> None:
        if not self._validation:
            self._validation = validation_instances(self.plan.validation)
            calls = [(instance,) for instance in self._validation]
            self._expected = np.array(self.rollouts(reference_value, calls))
        played = play(self._validation, self._chooser(None), self._parameters)
        value = float(np.mean(np.array([p.value for p in played]) / self._expected))
        self.curve.add(self.step, "reward", **{VALUE: value})
        self._keep_best(value)

    def account(self) -> Account:
        """Return what the model card says of this training."""
        plan = self.plan
        return Account(
            title="Starts stage after stage, each on so many GPUs: a network over graphs (Decima)",
            information=StageGraphDecider.information,
            data=(
                "4 to 14 jobs of 1 to 6 stages on 4 to 12 GPUs (alloc.instances.projects."
                f"generate_staged, TRAINING_SEEDS). {plan.updates} updates of {plan.episodes} "
                f"episodes on each of {plan.instances} instances; reward: minus the weight of the "
                "jobs in the system over time. Of all validations on "
                f"{plan.validation} instances (VALIDATION_SEEDS) the best was kept."
            ),
            limits=(
                "Trained on stages that choose their GPUs at their start and keep them; it pauses "
                "those that may be paused without asking what that costs.",
                "Trained on one type of GPU and up to 14 jobs of the generator's own shape.",
            ),
            references=(
                "Mao et al., Decima, SIGCOMM 2019, doi:10.1145/3341302.3342080",
                "Mao et al., Variance reduction in input-driven environments, ICLR 2019",
                "Schulman et al., Proximal policy optimization, 2017, arXiv:1707.06347",
            ),
            measure=VALUE,
            curve_step="update",
            curve_value=f"weighted JCT over that of {REFERENCE}",
        )

    def state(self) -> State:
        """Return all that the next step depends on."""
        return {
            "network": weights_of(self.network),
            "optimiser": self._optimiser.state_dict(),
            "best_value": self.best_value,
            "best": self._best,
        }

    def restore(self, state: State) -> None:
        """Take up a state."""
        self.network.load_state_dict(state["network"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.best_value, self._best = float(state["best_value"]), state["best"]


def advantages(group: Sequence[Played]) -> npt.NDArray[np.float64]:
    """Return how much better each step of episodes on the same jobs went than the others.

    The cost from the time of the step on, below its mean over the episodes at that time, in units
    of its spread over all steps.

    Parameters
    ----------
    group
        Episodes on one instance.
    """
    found = []
    for episode in group:
        times = np.array(episode.time_s)
        costs = np.array([other.cost_from(times) for other in group])
        found.append(costs.mean(axis=0) - episode.cost_from(times))
    together = np.concatenate(found)
    return np.asarray(together / (together.std() + 1e-9))


def validation_instances(count: int, seeds: Sequence[int] = VALIDATION_SEEDS) -> list[Instance]:
    """Return so many instances, drawn as those of the training are.

    Parameters
    ----------
    count
        How many.
    seeds
        Where their seeds are from.
    """
    return [draw_jobs(np.random.default_rng(seeds[k]), seeds[k]) for k in range(count)]


def reference_value(instance: Instance) -> float:
    """Return the weighted JCT of `REFERENCE`, seconds."""
    schedule = simulate(instance, REFERENCE, check=False).schedule
    return objective("weighted_jct").evaluate(instance, schedule)
