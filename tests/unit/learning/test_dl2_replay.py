"""Experience replay: what is kept, drawn and weighed, held to a plain reading of the rules."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from alloc.learning.dl2.replay import PrioritisedReplay, Replay


def fill(replay: Replay, slots: int, seed: int = 0) -> list[float]:
    """Store slots of one to seven samples; return the reward of each sample in order."""
    rng = np.random.default_rng(seed)
    rewards: list[float] = []
    for _ in range(slots):
        count = int(rng.integers(1, 8))
        reward = float(rng.normal(3, 2))
        number = np.arange(len(rewards), len(rewards) + count, dtype=np.float32)
        replay.store(
            np.repeat(number[:, None], 2, axis=1),
            np.ones((count, 3), np.float32),
            number.astype(np.int64),
            reward,
        )
        rewards += [reward] * count
    return rewards


@pytest.mark.parametrize("kind", [Replay, PrioritisedReplay])
def test_the_last_samples_are_kept_with_what_belongs_to_them(kind: type[Replay]) -> None:
    """State, action and reward of a sample stay together when the ring comes round."""
    replay = kind(20, 2, 3, with_next=False)
    rewards = fill(replay, 30)
    assert replay.full
    assert replay.mean_reward == pytest.approx(float(np.mean(rewards[-20:])))
    batch = replay.draw(20, np.random.default_rng(1))
    assert set(batch.actions.tolist()) <= set(range(len(rewards) - 20, len(rewards)))
    for state, action, reward in zip(batch.states, batch.actions, batch.rewards, strict=True):
        assert state.tolist() == [action, action]
        assert reward == rewards[action]
    assert batch.next_states is None


def test_even_draws_take_no_sample_twice() -> None:
    """As many as are kept: each exactly once, all of weight 1."""
    replay = Replay(20, 2, 3, with_next=False)
    fill(replay, 30)
    batch = replay.draw(20, np.random.default_rng(1))
    assert len(set(batch.actions.tolist())) == 20
    assert (batch.weights == 1).all()


def test_learning_begins_when_it_is_full() -> None:
    """Not one sample earlier: the code waits for all 8,192."""
    replay = Replay(3, 1, 1, with_next=False)
    one = np.zeros((1, 1), np.float32)
    for _ in range(2):
        replay.store(one, one, np.zeros(1, np.int64), 0.0)
        assert not replay.full
    replay.store(one, one, np.zeros(1, np.int64), 0.0)
    assert replay.full


def test_a_slot_larger_than_the_replay_leaves_its_last_samples() -> None:
    """The ablation without replay keeps 256 samples; a slot may have more."""
    replay = PrioritisedReplay(4, 1, 1, with_next=False)
    many = np.arange(11, dtype=np.float32)[:, None]
    replay.store(many, many, np.arange(11), 2.0)
    batch = replay.draw(4, np.random.default_rng(0))
    assert set(batch.actions.tolist()) == {7, 8, 9, 10}


def test_new_priorities_follow_the_rule_sample_by_sample() -> None:
    """max(1, r - mean of the rewards kept, its own among them), as each sample comes in."""
    replay = PrioritisedReplay(20, 2, 3, with_next=False)
    rewards = fill(replay, 40, seed=5)
    kept: deque[float] = deque(maxlen=20)
    wanted = np.zeros(20)
    for number, reward in enumerate(rewards):
        kept.append(reward)
        wanted[number % 20] = max(1.0, reward - sum(kept) / len(kept))
    np.testing.assert_allclose(replay._priorities, wanted, atol=1e-9)
    assert wanted.max() > 1  # or the rule was not tested


def test_priorities_after_use_and_weights_by_hand() -> None:
    """Errors 0 and 100 become 0.01 ** 0.9 and 4 ** 0.9; the weight of the likely one falls."""
    replay = PrioritisedReplay(2, 1, 1, with_next=False)
    one = np.zeros((2, 1), np.float32)
    replay.store(one, one, np.array([0, 1]), 1.0)
    replay.learn(np.array([0, 1]), np.array([0.0, -100.0]))
    np.testing.assert_allclose(replay._priorities, [0.01**0.9, 4**0.9])
    batch = replay.draw(2, np.random.default_rng(0))
    # Both equal parts of the sum lie in the second sample, all but a sliver of the first.
    assert batch.actions.tolist() == [1, 1]
    beta = 0.1 + 1e-4
    np.testing.assert_allclose(batch.weights, (400.0**0.9) ** -beta)


def test_draws_follow_the_priorities() -> None:
    """One from each of the equal parts: a sample with half of the sum is half of the batch."""
    replay = PrioritisedReplay(4, 1, 1, with_next=False)
    one = np.zeros((4, 1), np.float32)
    replay.store(one, one, np.arange(4), 1.0)
    replay._priorities[:] = [3.0, 1.0, 1.0, 1.0]
    batch = replay.draw(600, np.random.default_rng(0))
    counts = np.bincount(batch.actions)
    assert counts.tolist() == pytest.approx([300, 100, 100, 100], abs=1)


@pytest.mark.torch
@pytest.mark.parametrize("kind", [Replay, PrioritisedReplay])
def test_a_restored_replay_goes_on_the_same(kind: type[Replay]) -> None:
    """All it depends on is in its state: or a resumed training would go elsewhere."""
    first = kind(20, 2, 3, with_next=True)
    fill(first, 30)
    first.draw(5, np.random.default_rng(0))
    first.learn(np.arange(5), np.arange(5.0))
    second = kind(20, 2, 3, with_next=True)
    second.restore(first.state())
    for replay in (first, second):
        fill(replay, 3, seed=9)
    one, other = (replay.draw(9, np.random.default_rng(2)) for replay in (first, second))
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs)
