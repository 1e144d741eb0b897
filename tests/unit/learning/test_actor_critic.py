"""Actor and critic: learns what pays, resumes to the same weights, and ships what it trained."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import need_torch

pytestmark = need_torch()

import torch  # noqa: E402

from alloc.errors import SolverError  # noqa: E402
from alloc.instances.learning_worlds import TINY  # noqa: E402
from alloc.learning.actor_critic.rollout import Played, play  # noqa: E402
from alloc.learning.actor_critic.selector import selector_task  # noqa: E402
from alloc.learning.actor_critic.task import Task  # noqa: E402
from alloc.learning.actor_critic.trainer import ActorCriticTraining, Plan  # noqa: E402
from alloc.learning.actor_critic.two_level import EPISODES, two_level_task  # noqa: E402
from alloc.learning.export import assert_parity  # noqa: E402
from alloc.learning.publishing import publish  # noqa: E402
from alloc.learning.training import train  # noqa: E402
from alloc.schedulers import make_scheduler  # noqa: E402
from alloc.simulation import completion_times_s, simulate  # noqa: E402

KINDS = [
    "loky",
    pytest.param("dask", marks=pytest.mark.dask),
    pytest.param("ray", marks=pytest.mark.ray),
]
SMALL = replace(EPISODES, num_jobs=8)


def tiny_selector() -> Task:
    return replace(
        selector_task(("drf", "optimus")),
        draw=lambda rng: TINY.make(int(rng.integers(100))),
        validation=lambda: (TINY.make(100), TINY.make(101)),
    )


def tiny_two_level() -> Task:
    return replace(
        two_level_task(),
        draw=SMALL,
        validation=lambda: (SMALL(np.random.default_rng(0)), SMALL(np.random.default_rng(1))),
    )


TASKS = [tiny_selector, tiny_two_level]
PLAN = Plan(updates=4, episodes=2, epochs=2, every=2)


@pytest.mark.parametrize("task", TASKS)
def test_an_interrupted_training_ends_in_the_same_weights(tmp_path: Path, task: Any) -> None:
    """A machine that goes down costs time, not the experiment."""
    whole = ActorCriticTraining(task(), PLAN, seed=3)
    train(whole, tmp_path / "whole")
    first = ActorCriticTraining(task(), PLAN, seed=3)
    train(first, tmp_path / "parts", stop=lambda: first.step == 1)
    second = ActorCriticTraining(task(), PLAN, seed=3)
    train(second, tmp_path / "parts")
    for name, weights in whole.best().state_dict().items():
        assert torch.equal(weights, second.best().state_dict()[name])
    for name, weights in whole.actor.state_dict().items():
        assert torch.equal(weights, second.actor.state_dict()[name])
    assert whole.curve.to_list() == second.curve.to_list()


@pytest.mark.parametrize("task", TASKS)
def test_what_was_trained_runs_as_a_scheduler_and_says_the_same(tmp_path: Path, task: Any) -> None:
    """The file that is shipped must be the network that was validated."""
    training = ActorCriticTraining(task(), PLAN, seed=0)
    hours = train(training, tmp_path)
    path = tmp_path / "agent.onnx"
    policy = publish(training, path, name="agent", command="alloc train", hours=hours)
    rng = np.random.default_rng(0)
    shape = tuple(n if isinstance(n, int) else 5 for n in policy.spec.inputs[0].shape)
    samples = [[rng.random(shape).astype(np.float32)] for _ in range(5)]
    assert assert_parity(training.best(), policy, samples) <= 1e-5

    best = training.best()

    def likeliest(seen: np.ndarray, mask: np.ndarray) -> int:
        with torch.no_grad():
            logits = best(torch.from_numpy(seen[None]))[0].numpy()
        return int(np.where(mask, logits, -np.inf).argmax())

    instance = training.task.validation()[0]
    played = play(instance, training.task, training.task.steps(), likeliest)
    run = simulate(instance, make_scheduler(str(path)))
    unit_s = instance.slot_s or 3600.0
    assert completion_times_s(run).mean() / unit_s == pytest.approx(played.mean_jct)


def test_actions_that_pay_become_likelier() -> None:
    """The sign of the gradient, without any cluster around it."""
    training = ActorCriticTraining(tiny_selector(), Plan(updates=100, entropy=0.0), seed=1)
    seen = np.full(int(training.task.spec.inputs[0].shape[1]), 0.5, np.float32)
    mask = np.ones(2, np.bool_)

    def chance() -> float:
        with torch.no_grad():
            return float(training.actor(torch.from_numpy(seen[None]))[0].softmax(0)[1])

    before = chance()
    for _ in range(20):
        played = Played([seen] * 8, [mask] * 8, [0, 1] * 4, [0.0, 1.0] * 4, [True] * 8)
        training._update([played])
    assert chance() > before


def test_time_is_discounted_between_decisions_only() -> None:
    """Ten actions in one decision take no time: the first is worth what the last is."""
    training = ActorCriticTraining(tiny_selector(), Plan(gamma=0.5, trace=1.0), seed=0)
    played = Played([], [], [0] * 4, [0.0, 1.0, 0.0, 8.0], [False, True, False, True])
    found = training._advantages([played], np.zeros(4))
    assert found == pytest.approx([5.0, 5.0, 8.0, 8.0])


def test_the_reward_of_the_selector_adds_up_to_the_completion_times() -> None:
    """What is maximised, undiscounted, is what is reported."""
    task = tiny_selector()
    instance = TINY.make(7)
    played = play(instance, task, task.steps(), lambda seen, mask: 0)
    assert -sum(played.reward) * task.reward_scale / len(instance.jobs) == pytest.approx(
        played.mean_jct
    )


def test_minutes_become_updates() -> None:
    task = selector_task()
    assert Plan.of_minutes(task, 1.0).updates == round(60 / task.step_s)
    assert Plan.of_minutes(task, 0.001).updates == 1


def same(one: ActorCriticTraining, other: ActorCriticTraining) -> bool:
    ours, theirs = one.actor.state_dict(), other.actor.state_dict()
    return all(torch.equal(weights, theirs[name]) for name, weights in ours.items())


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_rollouts_on_workers_train_the_same_weights(tmp_path: Path, kind: str) -> None:
    """Chance comes from the seed of each episode, whoever plays it."""
    alone = ActorCriticTraining(tiny_selector(), PLAN, seed=3)
    hours = train(alone, tmp_path / "alone")
    together = ActorCriticTraining(tiny_selector(), PLAN, seed=3)
    done: list[int] = []
    spent = train(
        together,
        tmp_path / "together",
        report=lambda step, total, said: done.append(together.crew is not None),
        jobs=2,
        parallel=kind,
    )
    assert all(done)
    assert same(alone, together)
    assert alone.curve.to_list() == together.curve.to_list()
    # What the workers did is part of the hours on the card.
    assert 0 < together.elsewhere_s <= 3600 * spent
    assert hours > 0


def test_threads_change_no_network_that_another_plays_with(tmp_path: Path) -> None:
    """Rollouts may set the weights of what they are given, so threads of one process play none."""
    alone = ActorCriticTraining(tiny_selector(), PLAN, seed=3)
    train(alone, tmp_path / "alone")
    beside = ActorCriticTraining(tiny_selector(), PLAN, seed=3)
    crews: list[object] = []
    train(
        beside,
        tmp_path / "beside",
        report=lambda step, total, said: crews.append(beside.crew),
        jobs=2,
        parallel="threading",
    )
    assert crews == [None] * beside.steps
    assert beside.elsewhere_s == 0.0
    assert same(alone, beside)


def test_what_workers_did_for_an_earlier_call_counts_once(tmp_path: Path) -> None:
    """It is in the checkpoint, from which a later call with the same trainer goes on."""
    training = ActorCriticTraining(tiny_selector(), PLAN, seed=3)
    train(training, tmp_path, stop=lambda: training.step == 1)
    training.elsewhere_s = 3600 * 1e6
    assert train(training, tmp_path, stop=lambda: training.step == 2) < 1e5


def die(instance: Any) -> None:
    os._exit(1)


@pytest.mark.long
def test_a_worker_that_dies_is_a_sentence_and_the_training_goes_on_later(tmp_path: Path) -> None:
    training = ActorCriticTraining(tiny_selector(), PLAN, seed=3)

    def kill(step: int, total: int, said: str) -> None:
        training.rollouts(die, [(None,), (None,)])

    with pytest.raises(SolverError, match="train: a worker process died"):
        train(training, tmp_path, report=kill, jobs=2)
    again = ActorCriticTraining(tiny_selector(), PLAN, seed=3)
    steps: list[int] = []
    train(again, tmp_path, report=lambda step, total, said: steps.append(step))
    assert steps == [2, 3, 4]
