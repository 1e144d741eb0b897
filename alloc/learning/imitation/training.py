"""Training of a set policy: from the optimum of a round, from that of all rounds, by reward."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError
from alloc.instances.learning_worlds import TRAINING, TRAINING_SEEDS, VALIDATION_SEEDS, World
from alloc.learning.imitation.evolution import Adam, estimate_gradient, get_weights, set_weights
from alloc.learning.imitation.network import SetPolicy
from alloc.learning.imitation.rollouts import Trial, label_rounds
from alloc.learning.imitation.rounds import (
    Batch,
    LabelledRound,
    imitation_loss,
    load_rounds,
    save_rounds,
)
from alloc.learning.imitation.teachers import HorizonTeacher, RoundTeacher, Teacher
from alloc.learning.pytorch import nn, torch
from alloc.learning.training import (
    Account,
    State,
    Trainer,
    single_thread,
    step_rng,
    weights_of,
)
from alloc.schedulers.learned.job_set import JobSetDecider, JobSetKind
from alloc.schedulers.learned.kinds import feature_spec
from alloc.units import require_positive

Stage = Literal["round", "horizon", "reward"]
STAGES: tuple[Stage, ...] = ("round", "horizon", "reward")
"""Imitation of the exact round; of the horizon's optimum; evolution by the reward."""

VALUE = "stretch"
"""What validation measures: mean JCT over mean least JCT, the mean over validation instances."""

DAGGER = "Ross, Gordon, Bagnell, AISTATS 2011 (DAgger)"

_LIMITS = (
    "Decides in slots only; in continuous time it is refused.",
    "Trained on malleable jobs of workers and PSs on equal hosts, with free restarts and unit "
    "weights; on anything else it works, and nobody has measured how well.",
    "Looks at prices of GPUs, CPUs and memory of the whole cluster, not of one GPU type or tenant.",
)

_EPISODES = 5
"""Simulations in an iteration of DAgger."""
_LABEL_RATE = 0.25
"""Chance that a round met is labelled: neighbouring rounds are much alike."""
_FIRST_GUIDANCE = 0.5
"""Chance that the teacher decides in a labelled round of a stage's first iteration; later 0."""
_UPDATES = 200
"""Gradient updates after each iteration of DAgger."""
_BATCH = 32
"""Rounds of a gradient update: more make it steadier, and slower in proportion."""
_RATES = {"round": 3e-3, "horizon": 3e-3}
# The last stage trades CPU time against noise: a step takes 2 * 8 * 4 simulations.
_PAIRS = 8
_INSTANCES = 4
_SPREAD = 0.05
"""Standard deviation of the changes of weights: smaller ones change no decision, and so no cost."""
_EVOLUTION_RATE = 0.01
"""Most that a step moves a weight, about: a fifth of `_SPREAD`, within which costs were seen."""
_VALIDATE_EVERY = 10
"""Updates of evolution between validations; an iteration of DAgger always ends with one."""


@dataclass(frozen=True)
class Plan:
    """How many steps each stage takes.

    Parameters
    ----------
    rounds, horizons
        Iterations of DAgger on the optimum of the round, and of the horizon.
    rewards
        Updates of evolution.
    """

    rounds: int
    horizons: int
    rewards: int

    @staticmethod
    def of_minutes(minutes: float) -> Plan:
        """Return the plan that takes about so many minutes on one core of 2023.

        It is fixed beforehand and does not look at the clock, so that the same command gives the
        same policy on a slow machine.
        """
        require_positive(minutes, "training", "minutes")
        return Plan(
            max(1, round(0.2 * minutes)), max(1, round(0.6 * minutes)), max(1, round(4 * minutes))
        )

    @property
    def steps(self) -> int:
        """Steps in all."""
        return self.rounds + self.horizons + self.rewards

    def stage(self, step: int) -> tuple[Stage, int, int]:
        """Return the stage of a step, its number within the stage, and the steps of the stage."""
        for stage, count in zip(STAGES, (self.rounds, self.horizons, self.rewards), strict=True):
            if step < count:
                return stage, step, count
            step -= count
        raise IndexError(step)


class SetPolicyTraining(Trainer):
    """The training of a set policy.

    - ``round``: DAgger on the exact optimum of each round (F1, Optimus' drop in remaining time).
    - ``horizon``: DAgger on the optimum over all rounds to come (the linear master of F2).
    - ``reward``: evolution strategies on the simulated mean JCT, that is on minus the number of
      jobs in the system, of the layer that weighs jobs.

    The policy kept is the best of all validations; a stage that makes it no better changes nothing.

    Parameters
    ----------
    folder
        Where labels are kept between runs.
    plan, seed
        Steps of each stage, and the seed of everything.
    worlds, validation
        What to train and validate on, and the validation instances of each world.

    References
    ----------
    Ross, Gordon, Bagnell, "A Reduction of Imitation Learning and Structured Prediction to No-Regret
    Online Learning", AISTATS 2011, algorithm 3.1 (DAgger).
    """

    kind = "set-policy"

    def __init__(
        self,
        folder: str | PathLike[str],
        plan: Plan,
        *,
        seed: int = 0,
        worlds: Mapping[str, World] = TRAINING,
        validation: int = 2,
    ) -> None:
        if not worlds:
            raise InstanceError("training: no worlds; name at least one.")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = SetPolicy()
        super().__init__(network, plan.steps, seed)
        self.network: SetPolicy = network
        self.plan = plan
        self.settings = {
            "seed": seed,
            **asdict(plan),
            "worlds": {name: repr(world) for name, world in worlds.items()},
            "validation": validation,
        }
        self.spec = feature_spec(JobSetKind.name)
        self._folder = Path(folder)
        self._worlds = dict(worlds)
        self._validation = validation
        self._files: list[str] = []
        self._labels: list[LabelledRound] = []
        self._fitter = self._new_fitter("round")
        self._climber = self._new_climber()

    # A step.

    def advance(self) -> str:
        """Take one step: an iteration of DAgger, or an update of evolution."""
        with single_thread():
            stage, k, count = self.plan.stage(self.step)
            if k == 0 and stage != "round":
                self._enter(stage)
            said = self._evolve(k, count) if stage == "reward" else self._imitate(stage, k, count)
        self.step += 1
        return f"{stage} {k + 1}/{count}: {said}; best {VALUE} {self.best_value:.4f}"

    def _enter(self, stage: Stage) -> None:
        """Begin a stage from the best policy so far, with labels of its own."""
        self._files, self._labels = [], []
        if stage == "reward":
            self.network.load_state_dict(self._best)
            self._climber = self._new_climber()
        else:
            self._fitter = self._new_fitter(stage)

    def _imitate(self, stage: Stage, k: int, count: int) -> str:
        teacher: Teacher = RoundTeacher() if stage == "round" else HorizonTeacher()
        number = STAGES.index(stage)
        names = list(self._worlds)
        calls = []
        for episode in range(_EPISODES):
            world = self._worlds[names[(k * _EPISODES + episode) % len(names)]]
            rng = step_rng(self.seed, number, k, episode)
            seed = _seed_of(TRAINING_SEEDS, rng)
            guidance = _FIRST_GUIDANCE if k == 0 else 0.0
            calls.append((self.network, world, seed, teacher, rng, _LABEL_RATE, guidance))
        fresh = [one for labelled in self.rollouts(label_rounds, calls) for one in labelled]
        name = f"labels-{stage}-{k:04d}.npz"
        save_rounds(self._folder / name, fresh)
        self._files.append(name)
        self._labels += fresh
        if stage == "round" and k == 0 and self._labels:
            self.network.normalise(
                torch.from_numpy(np.concatenate([one.jobs for one in self._labels]))
            )
        loss, hits = self._fit(stage, k, count)
        value = self._validate()
        self.curve.add(
            self.step + 1, stage, loss=loss, hits=hits, labels=len(self._labels), **{VALUE: value}
        )
        return f"{len(self._labels)} labels, loss {loss:.3f}, {VALUE} {value:.4f}"

    def _fit(self, stage: Stage, k: int, count: int) -> tuple[float, float]:
        """Fit all labels of the stage; return the mean loss and hits of the second half."""
        if not self._labels:
            return float("nan"), float("nan")
        rng = step_rng(self.seed, STAGES.index(stage), k, _EPISODES)
        losses, hits = [], []
        for update in range(_UPDATES):
            done = (k + update / _UPDATES) / count
            for group in self._fitter.param_groups:
                group["lr"] = _RATES[stage] * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))
            drawn = rng.integers(len(self._labels), size=min(_BATCH, len(self._labels)))
            loss, hit = imitation_loss(self.network, Batch.of([self._labels[i] for i in drawn]))
            self._fitter.zero_grad()
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            self._fitter.step()
            if 2 * update >= _UPDATES:
                losses.append(loss.item())
                hits.append(hit.item())
        return float(np.mean(losses)), float(np.mean(hits))

    def _evolve(self, k: int, count: int) -> str:
        rng = step_rng(self.seed, STAGES.index("reward"), k)
        names = list(self._worlds)
        drawn = rng.permutation(len(names))[: min(_INSTANCES, len(names))]
        trials = [Trial(self._worlds[names[i]], _seed_of(TRAINING_SEEDS, rng)) for i in drawn]
        parameters = list(self.network.worth.parameters())
        weights = get_weights(parameters)

        def costs(candidates: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
            calls = [(self.network, candidate, trials) for candidate in candidates]
            return np.array(self.rollouts(_stretches, calls))

        gradient, seen = estimate_gradient(costs, weights, pairs=_PAIRS, spread=_SPREAD, rng=rng)
        self._climber.rate = _EVOLUTION_RATE * (1.0 - 0.9 * k / count)
        set_weights(parameters, self._climber.step(weights, gradient))
        if (k + 1) % _VALIDATE_EVERY and k + 1 < count:
            return f"{VALUE} in training {seen:.4f}"
        value = self._validate()
        self.curve.add(self.step + 1, "reward", **{VALUE: value})
        return f"{VALUE} {value:.4f}"

    def _validate(self) -> float:
        """Return the mean stretch on the validation instances; keep the policy if it is best."""
        calls = [(trial, self.network) for trial in self._trials]
        value = float(np.mean(self.rollouts(Trial.stretch, calls)))
        self._keep_best(value)
        return value

    @cached_property
    def _trials(self) -> list[Trial]:
        """Return the trials of validation, always the same."""
        seeds = VALIDATION_SEEDS[: self._validation]
        worlds = self._worlds.values()
        return [Trial(world, seed) for world in worlds for seed in seeds]

    # The model card and checkpoints.

    def account(self) -> Account:
        """Return what the model card says of this training."""
        plan = self.plan
        return Account(
            title="Learned from the optimum: attention over the set of jobs, all decided at once",
            information=JobSetDecider.information,
            data=(
                f"Instances of the learning worlds {', '.join(self._worlds)} "
                "(alloc.instances.learning_worlds, TRAINING_SEEDS), speeds from this project's "
                f"fits. {plan.rounds} iterations of DAgger on the exact optimum of the round, "
                f"{plan.horizons} on the linear optimum over all rounds to come, "
                f"{plan.rewards} updates of evolution strategies on the mean JCT; the best of all "
                f"validations on {self._validation} instances of each world "
                "(VALIDATION_SEEDS) was kept."
            ),
            limits=_LIMITS,
            references=(
                DAGGER,
                "Lee et al., Set Transformer, ICML 2019",
                "Salimans et al., Evolution Strategies, 2017",
            ),
            measure=VALUE,
            curve_step="step",
            curve_value="mean JCT over mean least JCT",
        )

    def state(self) -> State:
        """Return all that the next step depends on."""
        return {
            "network": weights_of(self.network),
            "best": self._best,
            "best_value": self.best_value,
            "files": list(self._files),
            "fitter": self._fitter.state_dict(),
            "climber": self._climber.state(),
        }

    def restore(self, state: State) -> None:
        """Take up a state; reads the labels it names."""
        self.network.load_state_dict(state["network"])
        self._best = dict(state["best"])
        self.best_value = float(state["best_value"])
        self._files = list(state["files"])
        self._labels = [one for name in self._files for one in load_rounds(self._folder / name)]
        self._fitter = self._new_fitter("horizon")
        self._fitter.load_state_dict(state["fitter"])
        self._climber.restore(state["climber"])

    def _new_fitter(self, stage: str) -> torch.optim.Adam:
        return torch.optim.Adam(self.network.parameters(), lr=_RATES[stage])

    def _new_climber(self) -> Adam:
        size = sum(parameter.numel() for parameter in self.network.worth.parameters())
        return Adam(size, _EVOLUTION_RATE)


def _seed_of(seeds: Sequence[int], rng: np.random.Generator) -> int:
    return seeds[int(rng.integers(len(seeds)))]


def _stretches(
    network: SetPolicy, candidate: npt.NDArray[np.float64], trials: Sequence[Trial]
) -> list[float]:
    """Return the stretches of a network whose layer that weighs jobs has other weights."""
    set_weights(list(network.worth.parameters()), candidate)
    return [trial.stretch(network) for trial in trials]
