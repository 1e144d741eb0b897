"""Rewards of the environments: what they add up to, and when they come."""

from __future__ import annotations

import numpy as np
import pytest
from small_worlds import BARE, elastic, play

from alloc.errors import SimulationError
from alloc.learning.environments import (
    REWARDS,
    Elapsed,
    ElasticAllocation,
    ElasticEpisodes,
)
from alloc.schedulers.learned.window_features import WindowFeatures
from alloc.simulation import completion_times_s


def test_rewards_add_up_to_what_they_say() -> None:
    """Over an episode: progress to the number of jobs, jobs in system to all completion times."""
    rng = np.random.default_rng(0)
    jobs = [job.replace(weight=1.0 + k % 3) for k, job in enumerate(elastic(4).jobs)]
    # Arrivals in the middle of slots: the wait for the next slot counts.
    jobs = [job.replace(arrival_s=job.arrival_s + 300.0 * (k % 2)) for k, job in enumerate(jobs)]
    instance = elastic(4).replace(jobs=tuple(jobs))
    for name in REWARDS:
        env = ElasticAllocation(instance, reward=name, features=WindowFeatures(window=5))
        total, _ = play(env, rng, seed=3)
        assert env.result is not None
        jct = completion_times_s(env.result)
        weights = np.array([job.weight for job in instance.jobs])
        expected = {
            "progress": len(jobs),
            "completions": len(jobs),
            "jobs-in-system": -jct.sum() / 1200.0,
            "weighted-jct": -(weights @ jct) / 1200.0,
        }[name]
        assert total == pytest.approx(expected), name


def test_reward_of_a_slot_comes_when_it_ends() -> None:
    """By hand: 0 for each grant, and DL2's sum of work done over work for the slot."""
    instance = elastic(0)
    first = instance.jobs[0].replace(arrival_s=0.0)
    env = ElasticAllocation(
        instance.replace(jobs=(first,)), features=BARE, knowledge="estimate", work_error=0.5
    )
    env.reset(seed=1)
    assert env.step(2)[1] == 0.0
    view = env.episode._simulation.state.jobs[0]
    reward = env.step(BARE.end_slot)[1]
    rate = next(c.rate for c in first.configurations if c.demand == (1000, 4000, 0))
    assert view.work != first.work
    assert reward == pytest.approx(min(rate * 1200.0, first.work) / view.work)


def test_reward_may_be_a_function() -> None:
    """Here the time itself: it adds up to the time of the simulation."""
    spans: list[Elapsed] = []

    def seconds(elapsed: Elapsed) -> float:
        spans.append(elapsed)
        return elapsed.end_s - elapsed.start_s

    env = ElasticAllocation(elastic(1), reward=seconds)
    total, _ = play(env, np.random.default_rng(0))
    assert env.result is not None
    assert total == pytest.approx(env.result.end_s - spans[0].start_s)
    done = sum(job.done for span in spans for job in span.jobs)
    assert done == pytest.approx(sum(job.work for job in elastic(1).jobs))


def test_slots_without_choice_pass_by_themselves() -> None:
    """With a cap of one task of each, the first bundle leaves nothing to choose all along."""
    roomy = elastic(2).replace(topology=ElasticEpisodes()(np.random.default_rng(0)).topology)
    features = WindowFeatures(window=4, max_tasks=1)
    env = ElasticAllocation(roomy, features=features, reward="jobs-in-system")
    _, info = env.reset()
    assert not info["action_mask"][:-1].any()
    _, reward, terminated, _, info = env.step(features.end_slot)
    assert terminated
    assert reward == pytest.approx(-len(roomy.jobs) * info["mean_jct_s"] / 1200.0)
    with pytest.raises(SimulationError, match="the episode is over"):
        env.step(0)
