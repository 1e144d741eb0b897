"""Placement under interference: the agent, its learned rewards, and the optimum it is held to."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import need_torch

pytestmark = need_torch()

import torch  # noqa: E402

from alloc.errors import InstanceError, SimulationError  # noqa: E402
from alloc.learning.actor_critic.placement_agent import (  # noqa: E402
    PlacementPlan,
    PlacementTraining,
    likeliest,
)
from alloc.learning.actor_critic.placement_reward import (  # noqa: E402
    RewardModel,
    mixes,
    true_speeds,
)
from alloc.learning.actor_critic.placement_rules import (  # noqa: E402
    best_fit,
    best_round,
    exact_rounds,
    first_fit,
    greedy,
    spread,
)
from alloc.learning.actor_critic.placement_world import (  # noqa: E402
    CLASSES,
    Asked,
    Stream,
    Streams,
    place_round,
    run_stream,
    synthetic_table,
    value_of,
)
from alloc.learning.export import assert_parity  # noqa: E402
from alloc.learning.publishing import publish  # noqa: E402
from alloc.learning.training import train  # noqa: E402
from alloc.problems.colocation import ColocationProblem  # noqa: E402
from alloc.solving import solve  # noqa: E402

TABLE = synthetic_table()
VALUE = value_of(TABLE)
SMALL = Streams(hosts=3, most=3, rounds=3, per_round=3.0)
PLAN = PlacementPlan(updates=4, streams=1, batches=2, batch=32, every=2, samples=15, source=SMALL)


def test_a_training_leaves_pytorch_its_threads() -> None:
    """It takes one thread for itself, and left the whole program with one."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        training = PlacementTraining(PLAN, seed=0)
        training.advance()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_reward_model_needs_measurements() -> None:
    """Without any it would have been fitted to jobs that are alone, and taught nothing."""
    with pytest.raises(InstanceError, match="samples is 0; it must be 1 or more"):
        PlacementPlan(samples=0)


def test_a_round_is_solved_exactly() -> None:
    """The row of the optimum must be one: held to all placements, one by one."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        on_host = rng.integers(0, 2, (3, len(CLASSES)))
        on_host[rng.integers(3)] = 0
        queue = tuple(rng.integers(0, len(CLASSES), 4).tolist())
        best = -1.0
        for went in product(range(4), repeat=4):
            after = on_host.copy()
            for job, host in zip(queue, went, strict=True):
                if host < 3:
                    after[host, job] += 1
            if ((after.sum(axis=1) <= 4) | (after == on_host).all(axis=1)).all():
                best = max(best, sum(VALUE(tuple(row)) for row in after.tolist()))
        assert best_round(Asked(on_host, queue, 4), VALUE)[0] == pytest.approx(best)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_on_an_empty_cluster_the_optimum_is_that_of_the_certified_packing(seed: int) -> None:
    """Two exact methods that share no line must agree."""
    queue = tuple(np.random.default_rng(seed).integers(0, len(CLASSES), 9).tolist())
    empty = np.zeros((3, len(CLASSES)), np.int64)
    packing = solve(ColocationProblem([CLASSES[job] for job in queue], TABLE, 3, max_per_gpu=4))
    assert packing.status == "optimal"
    found = best_round(Asked(empty, queue, 4), VALUE)[0]
    assert found == pytest.approx(packing.objective, rel=1e-6)
    place_round(empty, queue, 4, exact_rounds(VALUE))
    assert sum(VALUE(tuple(row)) for row in empty.tolist()) == pytest.approx(found)


def test_jobs_leave_when_their_work_is_done_at_the_speeds_of_the_table() -> None:
    """Two vision jobs of one round's work, beside each other on the only host."""
    stream = Stream(1, 4, (((0, 1.0), (0, 1.0)),))
    speed = TABLE.beside[0, 0]
    run = run_stream(stream, TABLE, first_fit)
    assert speed < 1
    assert run.jct == pytest.approx([1 + (1 - speed) / speed] * 2)
    assert sum(len(asked) for asked, _, _ in run.rounds) == 2


@pytest.mark.parametrize("place", [first_fit, best_fit, spread, greedy(VALUE), exact_rounds(VALUE)])
def test_every_job_completes_under_every_rule(place: Any) -> None:
    """A rule that lets a job wait for ever would look good in the mean of the others."""
    stream = SMALL(np.random.default_rng(3))
    assert len(run_stream(stream, TABLE, place).jct) == sum(map(len, stream.arrivals))


def test_rules_say_what_their_names_say() -> None:
    on_host = np.zeros((3, len(CLASSES)), np.int64)
    on_host[0, 0], on_host[1, 1] = 1, 2
    asked = Asked(on_host, (4,), 3)
    assert (first_fit(asked), best_fit(asked), spread(asked)) == (0, 1, 2)
    assert greedy(VALUE)(asked) == 2


def test_a_full_host_is_refused_and_an_idle_cluster_may_not_wait() -> None:
    empty = np.zeros((2, len(CLASSES)), np.int64)
    assert Asked(empty, (0,), 1).mask.tolist() == [True, True, False]
    with pytest.raises(SimulationError, match="host 2, which is not allowed"):
        place_round(empty, (0,), 1, lambda asked: 2)


def test_the_reward_model_knows_what_it_never_saw() -> None:
    """Unseen mixes are what it is for; answering the mean of all is what it has to beat."""
    model = RewardModel(TABLE, 4, 40, seed=0)
    assert len(model.measured.held_out) == len(mixes(len(CLASSES), 4)) - 40
    errors = model.errors()
    assert errors["speed_error"] < 0.5 * errors["speed_error_of_the_mean"]
    measured, unseen = next(iter(model.measured.speeds)), model.measured.held_out[0]
    assert model(measured) == pytest.approx(np.dot(measured, model.measured.speeds[measured]))
    assert model(unseen) == pytest.approx(np.dot(unseen, model.predict(unseen)))
    assert model((1, 0, 0, 0, 0)) == 1.0
    assert true_speeds(TABLE, (2, 0, 0, 0, 0))[0] == pytest.approx(TABLE.beside[0, 0])


@pytest.mark.long
def test_an_interrupted_placement_training_ends_in_the_same_weights(tmp_path: Path) -> None:
    """Replay and what was tried belong to the state as much as the weights."""
    whole = PlacementTraining(PLAN, seed=3)
    train(whole, tmp_path / "whole")
    first = PlacementTraining(PLAN, seed=3)
    train(first, tmp_path / "parts", stop=lambda: first.step == 1)
    second = PlacementTraining(PLAN, seed=3)
    train(second, tmp_path / "parts")
    for name, weights in whole.actor.state_dict().items():
        assert torch.equal(weights, second.actor.state_dict()[name])
    assert whole.curve.to_list() == second.curve.to_list()


def test_exploration_tries_what_was_tried_least() -> None:
    """With exploration alone, the mixes in which a class was put stay balanced."""
    training = PlacementTraining(PLAN, seed=0)
    on_host = np.zeros((3, len(CLASSES)), np.int64)
    on_host[0, 1], on_host[1, 2] = 1, 1
    rng = np.random.default_rng(0)
    drawn = [training._draw(Asked(on_host, (0,), 3), 1.0, rng)[0] for _ in range(9)]
    assert [drawn.count(h) for h in range(4)] == [3, 3, 3, 0]


def test_placements_that_pay_become_likelier() -> None:
    """The sign of the gradient: one of two hosts pays, with nothing else to learn."""
    training = PlacementTraining(PLAN, seed=1)
    on_host = np.zeros((2, len(CLASSES)), np.int64)
    on_host[0, 0] = 1
    asked = Asked(on_host, (0,), 3)
    training._replay = {
        "seen": torch.from_numpy(np.stack([asked.seen] * 2)),
        "mask": torch.from_numpy(np.stack([asked.mask] * 2)),
        "action": torch.tensor([0, 1]),
        "gained": torch.tensor([0.0, 1.0]),
        "chance": torch.tensor([1 / 3, 1 / 3]),
    }

    def chance() -> float:
        with torch.no_grad():
            return float(training.actor(torch.from_numpy(asked.seen[None]))[0].softmax(0)[1])

    before, rng = chance(), np.random.default_rng(0)
    for _ in range(10):
        training._learn(rng)
    assert chance() > before
    assert likeliest(training.actor)(asked) == 1


def test_nothing_trained_is_nothing_to_publish(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="nothing has been trained"):
        publish(PlacementTraining(PLAN), tmp_path / "a.onnx", name="a", command="c", hours=0.0)


def test_the_placement_policy_says_what_pytorch_says(tmp_path: Path) -> None:
    """Any number of hosts, for the rows are open; the card says how far the rewards are off."""
    training = PlacementTraining(PLAN, seed=0)
    hours = train(training, tmp_path)
    policy = publish(training, tmp_path / "p.onnx", name="p", command="c", hours=hours)
    rng = np.random.default_rng(0)
    columns = int(policy.spec.inputs[0].shape[-1])
    samples = [[rng.random((2, rows, columns)).astype(np.float32)] for rows in (2, 5, 30)]
    assert assert_parity(training.best(), policy, samples) <= 1e-5
    assert "error of a normalised speed" in policy.card.data


def test_true_speeds_can_be_the_reward(tmp_path: Path) -> None:
    """What the reward model costs is measured against an agent that does without it."""
    training = PlacementTraining(PLAN, seed=0, reward=VALUE)
    train(training, tmp_path)
    policy = publish(training, tmp_path / "p.onnx", name="p", command="c", hours=0.1)
    assert "true speeds" in policy.card.data
    assert training.settings["given_reward"] is True
