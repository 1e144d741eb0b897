"""The Decima agent: what it is told, that it learns and resumes, and the tree that it becomes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from needs import need_torch

pytestmark = need_torch()

import torch  # noqa: E402

from alloc.instances.projects import generate_staged  # noqa: E402
from alloc.learning.decima.distilling import Growing, distil, grow_tree, scores_of  # noqa: E402
from alloc.learning.decima.network import ROUNDS, GraphNetwork  # noqa: E402
from alloc.learning.decima.rollout import Choose, Played, batch_of, play  # noqa: E402
from alloc.learning.decima.trainer import (  # noqa: E402
    DecimaTraining,
    Plan,
    advantages,
    draw_jobs,
)
from alloc.learning.export import assert_parity  # noqa: E402
from alloc.learning.publishing import publish  # noqa: E402
from alloc.learning.training import train  # noqa: E402
from alloc.objectives import objective  # noqa: E402
from alloc.schedulers import make_scheduler  # noqa: E402
from alloc.schedulers.learned.stage_graph import StageGraphParameters  # noqa: E402
from alloc.schedulers.learned.stage_tree import COLUMNS, Leaf, Split, StageTree  # noqa: E402
from alloc.simulation import simulate  # noqa: E402

SMALL = Plan(updates=3, every=2, instances=1, episodes=3, epochs=1, validation=2)
NO_WAIT = StageGraphParameters(may_wait=False)


def network(seed: int = 0) -> GraphNetwork:
    torch.manual_seed(seed)
    made = GraphNetwork().eval()
    with torch.no_grad():
        cast(torch.nn.Linear, made.answer[2]).weight.mul_(30.0)  # far from all alike
    return made


def likeliest(net: torch.nn.Module) -> Choose:
    return lambda shown: [int(score.argmax()) for score in scores_of(net, shown)]


@pytest.fixture(scope="module")
def episode() -> Played:
    [played] = play([generate_staged(num_jobs=5, seed=7)], likeliest(network()), NO_WAIT)
    return played


def test_questions_in_a_batch_are_answered_as_alone(episode: Played) -> None:
    """Of different sizes, so that rows are filled up; none of them may be heard."""
    net = network(1)
    inputs, there = batch_of(episode.shown)
    assert not there.all()
    with torch.no_grad():
        together = net(*inputs)
        for k, one in enumerate(episode.shown):
            alone = net(*(torch.from_numpy(array) for array in one.values()))
            assert torch.allclose(together[k, : len(alone)], alone, atol=1e-5)


def test_a_stage_hears_of_those_behind_it_and_of_no_others_before_jobs_are_summed() -> None:
    """A change far behind in the chain reaches the first stage, and never the other way round."""
    net, count = network(2), ROUNDS
    follows = torch.diag(torch.ones(count - 1), 1)

    def vectors(stages: torch.Tensor) -> torch.Tensor:
        own = net.embed(stages)
        seen = own
        for _ in range(ROUNDS):
            seen = own + net.hear(follows @ net.say(seen))
        return seen

    stages = torch.randn(count, 7)
    last, first = stages.clone(), stages.clone()
    last[-1] += 1.0
    first[0] += 1.0
    with torch.no_grad():
        plain = vectors(stages)
        assert ((vectors(last) - plain).abs().sum(1) > 1e-7).all()
        changed = (vectors(first) - plain).abs().sum(1) > 1e-7
    assert changed.tolist() == [True] + [False] * (count - 1)


def test_the_cost_from_the_start_is_the_weighted_completion_time(episode: Played) -> None:
    """Decima's reward, not discounted: what is minimised is what is reported."""
    whole = episode.cost_from(np.zeros(1))[0]
    assert whole == pytest.approx(episode.value)
    # By small steps: the weight of the jobs in the system over time.
    times = np.linspace(0.0, episode.completion_s.max(), 200_001)
    inside = (episode.arrival_s <= times[:, None]) & (times[:, None] < episode.completion_s)
    area = float((inside @ episode.weight).sum() * (times[1] - times[0]))
    assert area == pytest.approx(whole, rel=1e-3)
    later = episode.cost_from(np.array([100.0]))[0]
    since = float((inside[times >= 100.0] @ episode.weight).sum() * (times[1] - times[0]))
    assert later == pytest.approx(since, rel=1e-3)


def test_the_better_of_two_episodes_has_the_better_steps() -> None:
    arrival, weight = np.zeros(2), np.ones(2)
    good = Played(weight, arrival, np.array([1.0, 3.0]), [], [0, 0], [0.0, 1.0])
    bad = Played(weight, arrival, np.array([3.0, 4.0]), [], [0, 0], [0.0, 1.0])
    found = advantages([good, bad])
    assert (found[:2] > 0).all()
    assert found[:2] == pytest.approx(-found[2:])


def test_ways_that_pay_become_likelier() -> None:
    """The sign of the gradient, without any training around it."""
    training = DecimaTraining(replace(SMALL, entropy=0.0, updates=100), seed=1)
    [played] = play([generate_staged(num_jobs=3, seed=7)], likeliest(training.network), NO_WAIT)
    k = next(k for k, one in enumerate(played.shown) if len(one["ways"]) > 2)
    shown = [played.shown[k]] * 8

    def chance() -> float:
        # Of the two alone: a third way that is like the better one becomes likelier with it.
        [score] = scores_of(training.network, shown[:1])
        return float(1 / (1 + np.exp(score[0] - score[1])))

    before = chance()
    both = Played(
        played.weight, played.arrival_s, played.completion_s, shown, [0, 1] * 4, [0.0] * 8
    )
    for _ in range(10):
        training._update([both], np.array([-1.0, 1.0] * 4), np.random.default_rng(0))
    assert chance() > before


def test_an_interrupted_training_ends_in_the_same_weights(tmp_path: Path) -> None:
    whole = DecimaTraining(SMALL, seed=3)
    train(whole, tmp_path / "whole")
    first = DecimaTraining(SMALL, seed=3)
    train(first, tmp_path / "parts", stop=lambda: first.step == 1)
    second = DecimaTraining(SMALL, seed=3)
    train(second, tmp_path / "parts")
    for name, weights in whole.network.state_dict().items():
        assert torch.equal(weights, second.network.state_dict()[name])
    assert whole.curve.to_list() == second.curve.to_list()


def test_what_was_trained_runs_as_a_scheduler_and_says_the_same(
    tmp_path: Path, episode: Played
) -> None:
    training = DecimaTraining(replace(SMALL, updates=1), seed=0)
    hours = train(training, tmp_path)
    path = tmp_path / "agent.onnx"
    policy = publish(training, path, name="agent", command="alloc train decima", hours=hours)
    samples = [list(one.values()) for one in episode.shown]
    assert assert_parity(training.best(), policy, samples) <= 1e-5
    instance = draw_jobs(np.random.default_rng(5), 5)
    [played] = play([instance], likeliest(training.best()), NO_WAIT)
    run = simulate(instance, make_scheduler(str(path)))
    assert objective("weighted_jct").evaluate(instance, run.schedule) == pytest.approx(played.value)


def test_a_tree_finds_the_rule_that_made_its_targets() -> None:
    """A rule of three leaves, with noise: the columns and thresholds come back."""
    rng = np.random.default_rng(0)
    rows = rng.random((2000, len(COLUMNS)))
    a, b = COLUMNS.index("slower"), COLUMNS.index("jobs before")
    target = np.where(rows[:, a] <= 0.4, 0.0, np.where(rows[:, b] <= 0.7, -1.0, -3.0))
    root = grow_tree(rows, target + 0.01 * rng.normal(size=2000), 3)
    assert isinstance(root, Split)
    assert isinstance(root.above, Split)
    assert isinstance(root.below, Leaf)
    assert (root.column, root.above.column) == ("slower", "jobs before")
    assert root.at == pytest.approx(0.4, abs=0.01)
    assert root.above.at == pytest.approx(0.7, abs=0.01)
    assert root.below.score == pytest.approx(0.0, abs=0.01)
    assert StageTree(root).score(rows) == pytest.approx(target, abs=0.02)


def test_nothing_to_ask_is_one_leaf() -> None:
    assert grow_tree(np.zeros((100, len(COLUMNS))), np.arange(100.0), 8) == Leaf(49.5)


def test_a_tree_of_an_agent_is_grown_again_in_the_same_way() -> None:
    growing = Growing(leaves=6, rounds=2, instances=2)
    trees = [distil(network(4), may_wait=False, growing=growing, seed=1) for _ in range(2)]
    assert trees[0] == trees[1]
    assert 2 <= trees[0].num_leaves <= 6
    assert not trees[0].may_wait
