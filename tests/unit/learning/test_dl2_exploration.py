"""DL2's exploration: every rule of the released code on the smallest case that shows it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from alloc.learning.dl2.exploration import (
    EpsilonGreedy,
    Exploration,
    PoorStates,
    Rules,
    exploration,
)


@dataclass
class Job:
    """What exploration sees of a job."""

    workers: int
    servers: int


def even(jobs: int) -> np.ndarray:
    return np.full(3 * jobs + 1, 1.0 / (3 * jobs + 1), np.float32)


def outcomes(
    explore: Exploration,
    jobs: list[Job],
    chances: np.ndarray,
    drawn: int,
    times: int = 2000,
) -> Counter[int]:
    """Return how often each action was taken in so many slots."""
    rng = np.random.default_rng(0)
    found: Counter[int] = Counter()
    for _ in range(times):
        explore.begin_trace()
        explore.begin_slot(rng, 0)
        found[explore.choose(drawn, jobs, chances, rng)] += 1
    return found


END = 6
"""The end of the slot with two jobs in view."""


def test_a_job_without_ps_gets_one_and_one_without_worker_a_worker() -> None:
    """The first job that lacks something wins, whatever was drawn."""
    assert outcomes(Rules(), [Job(2, 0), Job(0, 2)], even(2), END) == {1: 2000}
    assert outcomes(Rules(), [Job(0, 2), Job(2, 0)], even(2), END) == {0: 2000}


def test_a_job_without_both_gets_a_ps_by_the_code_s_mistake() -> None:
    """The rule for the PS comes last and wins; with no PS allowed it is worker or bundle."""
    assert outcomes(Rules(), [Job(0, 0), Job(1, 1)], even(2), END) == {1: 2000}
    chances = even(2)
    chances[1] = 0.0
    assert outcomes(Rules(), [Job(0, 0), Job(1, 1)], chances, END) == {0: 2000}
    # It is the probability of the worker that keeps it from being forced.
    chances = even(2)
    chances[0] = 0.0
    found = outcomes(Rules(), [Job(0, 0), Job(1, 1)], chances, END)
    assert set(found) == {2, END}
    assert 900 < found[2] < 1100


def test_many_ps_for_a_worker_bring_a_worker_or_a_bundle() -> None:
    """k is 3 to 7: with 8 PSs always too many, on the toss of a coin; then evenly drawn."""
    found = outcomes(Rules(), [Job(1, 8)], even(1), 3)
    assert set(found) == {0, 2, 3}
    assert 430 < found[0] < 570
    assert 430 < found[2] < 570
    # With 4 only for k = 3: one slot in five.
    found = outcomes(Rules(), [Job(1, 4)], even(1), 3)
    assert 130 < found[0] + found[2] < 270
    # With 3 never.
    assert outcomes(Rules(), [Job(1, 3)], even(1), 3) == {3: 2000}


def test_half_as_many_workers_as_ps_bring_a_ps() -> None:
    """On the toss of a coin, a PS in 99 of 100 cases and a bundle in the other."""
    found = outcomes(Rules(), [Job(1, 2)], even(1), 3, times=20_000)
    assert set(found) == {1, 2, 3}
    assert 9_600 < found[1] < 10_200
    assert 60 < found[2] < 150


def test_the_poorest_job_is_raised_when_it_is_too_poor() -> None:
    """Sums 2 and 12: six times, more than any of 3, 4 and 5; a bundle or a worker, evenly."""
    # With 3 PSs a worker the other rules have nothing to say.
    found = outcomes(Rules(), [Job(3, 9), Job(1, 3)], even(2), END)
    assert set(found) == {END}  # 12 // 4 = 3, not more than 3
    found = outcomes(Rules(), [Job(6, 18), Job(1, 3)], even(2), END)
    assert set(found) == {3, 5}
    assert 900 < found[3] < 1100
    # 19 // 4 = 4, rounded down: only more than 3, one draw in three.
    found = outcomes(Rules(), [Job(5, 14), Job(1, 3)], even(2), END)
    assert 560 < found[3] + found[5] < 770


def test_an_action_that_has_become_rare_is_forced() -> None:
    """Below one in a thousand, though not never taken: the first job in view that can take it."""
    rules, rng = Rules(), np.random.default_rng(0)
    jobs = [Job(1, 3), Job(1, 3)]
    chances = even(2)
    rules.begin_slot(rng, 0)
    for drawn, times in ((1, 1500), (0, 1500), (2, 1)):
        for _ in range(times):
            rules.choose(drawn, [Job(1, 3)], chances, rng)
    assert rules.choose(END, jobs, chances, rng) == 2
    chances[2] = 0.0
    rules.begin_trace()
    for drawn, times in ((1, 1500), (0, 1500), (2, 1)):
        for _ in range(times):
            rules.choose(drawn, [Job(1, 3)], chances, rng)
    assert rules.choose(END, jobs, chances, rng) == 5


def test_nothing_is_forced_that_is_masked() -> None:
    """With every step of a job masked its rules pass, and the draw stands."""
    chances = np.zeros(4, np.float32)
    chances[3] = 1.0
    for job in (Job(1, 8), Job(1, 1), Job(1, 0), Job(0, 0)):
        assert outcomes(Rules(), [job], chances, 3, times=200) == {3: 200}


def test_the_paper_corrects_poor_states_four_times_in_ten() -> None:
    """Workers without PS, PSs without worker, or more than ten to one; and nothing else."""
    for job, action in ((Job(1, 0), 1), (Job(0, 1), 0), (Job(11, 1), 1), (Job(1, 11), 0)):
        found = outcomes(PoorStates(0.4), [job], even(1), 3)
        assert set(found) == {action, 3}
        assert 720 < found[action] < 880
    for job in (Job(0, 0), Job(10, 1), Job(1, 10)):
        assert outcomes(PoorStates(0.4), [job], even(1), 3) == {3: 2000}


def test_epsilon_falls_as_training_goes_on() -> None:
    """At first every action is drawn evenly, after thousands of updates hardly any."""
    greedy, rng = EpsilonGreedy(), np.random.default_rng(0)
    chances = even(1)
    chances[1] = 0.0
    greedy.begin_slot(rng, 0)
    found = Counter(greedy.choose(3, [Job(1, 1)], chances, rng) for _ in range(3000))
    assert set(found) == {0, 2, 3}
    assert 900 < found[0] < 1100
    greedy.begin_slot(rng, 5000)
    late = Counter(greedy.choose(3, [Job(1, 1)], chances, rng) for _ in range(3000))
    assert late[3] > 2990


def test_without_exploration_the_draw_stands() -> None:
    """The ablation: names lead to the right rule."""
    assert outcomes(exploration("none", 0.4), [Job(0, 0)], even(1), 3) == {3: 2000}
    kinds = [type(exploration(n, 0.4)) for n in ("rules", "poor-states", "epsilon-greedy")]
    assert kinds == [Rules, PoorStates, EpsilonGreedy]
