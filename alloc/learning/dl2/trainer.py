"""Training DL2: the supervised phase, then actor and critic, trace by trace."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from alloc.learning.dl2.exploration import exploration
from alloc.learning.dl2.learner import Learner
from alloc.learning.dl2.replay import PrioritisedReplay, Replay
from alloc.learning.dl2.rollout import Collector, Player
from alloc.learning.dl2.settings import WINDOW_LIMITS, DL2Settings
from alloc.learning.dl2.teacher import Teacher
from alloc.learning.training import (
    Account,
    State,
    Trainer,
    single_thread,
    step_rng,
    weights_of,
)
from alloc.schedulers import make_scheduler

SUPERVISED, REINFORCEMENT = "supervised", "reinforcement"
"""Stages of the training."""

JCT = "validation_jct_slots"
"""Name in the curve of the mean completion time on the validation traces, slots."""

TRACES = 4
"""Traces from one checkpoint to the next: some seconds, a hundred times what it takes to write."""

_MAY_IDLE = "Gives no job a first pair: in states it was not trained for it may start nothing."

_TEACH, _PLAY, _VALIDATE = 3, 4, 5
"""What sets the draws of a training apart."""


class DL2Trainer(Trainer):
    """Trains DL2; run it with `alloc.learning.training.train`.

    A step is an update of a network, after each slot; one `advance` plays a few whole traces, after
    which a checkpoint is written. All draws come from generators made anew for each trace from the
    seed, so the result does not depend on how many.

    In the reinforcement phase, if there is one, the best of the phase before is forgotten.
    `best_step` is when the mean JCT in validation was lowest, `best_value`, slots.
    """

    kind = "dl2"

    def __init__(
        self, settings: DL2Settings, seed: int = 0, *, traces_at_a_time: int = TRACES
    ) -> None:
        if settings.supervised_updates:
            make_scheduler(settings.teacher)  # an unknown one is refused before any work is done
        self.learner = Learner(settings, seed)
        super().__init__(self.learner.policy, settings.steps, seed)
        self._at_a_time = traces_at_a_time
        self.dl2 = settings
        self.settings = settings.to_dict() | {"seed": seed}
        self.spec = settings.spec
        self._traces = [0, 0]
        self._validation = settings.world.validation(settings.validation_traces)
        self._player = Player(settings.features, settings.validation_traces)
        explore = exploration(settings.exploration, settings.exploration_share)
        self._collector = Collector(settings.features, settings.reward, explore)
        self._kept = weights_of(self.network)
        self._sums: dict[str, float] = {}
        self._updates = 0
        self._forget_best()
        self._replay = self._new_replay()
        self._told = "begins"
        if self.stage == REINFORCEMENT:
            self._begin_reinforcement()

    @property
    def stage(self) -> str:
        """The stage that the next step belongs to."""
        supervised = self.step < self.dl2.supervised_updates or not self.dl2.updates
        return SUPERVISED if supervised else REINFORCEMENT

    @property
    def over(self) -> bool:
        """Whether the training is over."""
        return self.step >= self.steps

    def advance(self) -> str:
        """Play some traces, with an update after each slot; return in words how it went."""
        with single_thread():
            if not self.curve.points:
                self._validate()
            for _ in range(self._at_a_time):
                if self.over:
                    break
                if self.stage == SUPERVISED:
                    self._imitate_trace()
                else:
                    self._reinforce_trace()
        return self._told

    def state(self) -> State:
        """Return all that the next step depends on."""
        return {
            "learner": self.learner.state(),
            "replay": self._replay.state(),
            "traces": list(self._traces),
            "kept": self._kept,
            "best": self._best,
            "best_step": self.best_step,
            "best_jct_slots": self.best_value,
            "sums": dict(self._sums),
            "updates": self._updates,
            "told": self._told,
        }

    def restore(self, state: State) -> None:
        """Take up a state."""
        if self.stage == REINFORCEMENT:
            self.learner.begin(self.dl2.lr)
            self._replay = self._new_replay()
        self.learner.restore(state["learner"])
        self._replay.restore(state["replay"])
        self._traces = list(state["traces"])
        self._kept = state["kept"]
        self._best, self.best_step = state["best"], int(state["best_step"])
        self.best_value = float(state["best_jct_slots"])
        self._sums = dict(state["sums"])
        self._updates = int(state["updates"])
        self._told = str(state["told"])

    # The supervised phase.

    def _imitate_trace(self) -> None:
        settings = self.dl2
        rng, trace = self._next_trace(_TEACH)
        teacher = Teacher(
            settings.teacher,
            settings.features,
            from_pairs=settings.from_pairs,
            shuffled=settings.shuffled,
        )
        teacher.begin(settings.world.training(self.seed, trace))
        unused = np.zeros(0, np.int64)
        while not teacher.over and self.stage == SUPERVISED and not self.over:
            states, labels = teacher.play_slot(rng)
            self._replay.store(states, labels, np.resize(unused, len(states)), 0.0)
            if self._replay.full:
                batch = self._replay.draw(settings.batch, rng)
                self._note(self.learner.imitate(batch))
                if self.step == settings.supervised_kept:
                    self._kept = weights_of(self.network)
        if self.stage == REINFORCEMENT:
            self._begin_reinforcement()

    def _begin_reinforcement(self) -> None:
        """Go on from the weights kept, with an empty replay and a fresh critic."""
        self.learner.load_policy(self._kept)
        self.learner.begin(self.dl2.lr)
        self._replay = self._new_replay()
        self._forget_best()

    # Actor and critic.

    def _reinforce_trace(self) -> None:
        settings = self.dl2
        rng, trace = self._next_trace(_PLAY)
        collector = self._collector
        collector.begin(settings.world.training(self.seed, trace))
        while not collector.over and not self.over:
            update = self.step - settings.supervised_updates
            samples = collector.play_slot(self.learner.forward, rng, update)
            if not len(samples.actions):
                continue
            self._replay.store(
                samples.states,
                samples.chances,
                samples.actions,
                samples.reward,
                samples.next_state,
                samples.over,
            )
            if self._replay.full:
                batch = self._replay.draw(settings.batch, rng)
                measured, errors = self.learner.reinforce(batch, self._replay.mean_reward)
                self._replay.learn(batch.places, errors)
                self._note(measured)

    # What both share.

    def _new_replay(self) -> Replay:
        settings = self.dl2
        reinforcement = self.stage == REINFORCEMENT
        kind = PrioritisedReplay if reinforcement and settings.prioritised else Replay
        features = settings.features
        return kind(
            settings.replay,
            features.shape[0] * features.shape[1],
            features.num_actions,
            with_next=reinforcement and settings.discount > 0,
        )

    def _next_trace(self, purpose: int) -> tuple[np.random.Generator, int]:
        """Return the generator and the number of the next trace of a stage."""
        played = self._traces[purpose - _TEACH]
        self._traces[purpose - _TEACH] += 1
        return step_rng(self.seed, purpose, played), played % self.dl2.training_traces

    def _note(self, measured: Mapping[str, float]) -> None:
        """Count an update and what was measured in it; validate when it is time."""
        stage = self.stage
        self.step += 1
        self._updates += 1
        for name, value in measured.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        first = 0 if stage == SUPERVISED else self.dl2.supervised_updates
        if (self.step - first) % self.dl2.validate_every == 0 or self.over:
            self._validate(stage)

    def _validate(self, stage: str | None = None) -> None:
        """Add a point to the curve; keep the weights if they are the best."""
        settings = self.dl2
        rng = None if settings.greedy_validation else step_rng(self.seed, _VALIDATE, self.step)
        jct = float(np.mean(self._player.play(self.learner.forward, self._validation, rng)))
        means = {name: total / self._updates for name, total in self._sums.items()}
        self._sums, self._updates = {}, 0
        self.curve.add(self.step, stage or self.stage, **{JCT: jct}, **means)
        if self._keep_best(jct):
            self.best_step = self.step
        self._told = f"{stage or self.stage}: mean JCT {jct:.2f} slots in validation"
        if math.isfinite(self.best_value):
            self._told += f", best {self.best_value:.2f}"

    def _forget_best(self) -> None:
        self._best, self.best_step, self.best_value = weights_of(self.network), self.step, math.inf

    # The model card.

    def account(self) -> Account:
        """Return what the model card says of this training."""
        settings, phases, without = self.dl2, [], ""
        if settings.supervised_updates:
            updates = settings.supervised_updates
            phases.append(f"{updates} supervised updates on decisions of {settings.teacher}")
        else:
            without = " without its supervised phase"
        if settings.updates:
            phases.append(f"{settings.updates} updates of actor and critic")
        else:
            without = " without reinforcement"
        may_idle = () if settings.initial_bundle else (_MAY_IDLE,)
        return Account(
            title=f"DL2 rebuilt{without}: a window of jobs, one worker, PS or bundle at a time",
            information=settings.information,
            data=(
                f"{settings.data} {', '.join(phases)}; the weights with the lowest mean JCT on "
                f"{settings.validation_traces} validation traces (update {self.best_step}) were "
                "kept."
            ),
            limits=(*WINDOW_LIMITS, *may_idle),
            references=(
                "Peng et al., DL2: A Deep Learning-Driven Scheduler for Deep Learning Clusters, "
                "IEEE TPDS 32(8), 2021",
            ),
            measure=JCT,
            curve_step="update",
            curve_value="mean JCT, slots",
            stage=REINFORCEMENT if settings.updates else SUPERVISED,
        )
