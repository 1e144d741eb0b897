"""Steps a second of the training environments on one core, checker and metrics included.

Run it with ``python -m benchmarks.environment_steps``. The target is 20,000 steps a second with
windows of 20 jobs. Actions are drawn evenly from the allowed ones, so slots are filled about as far
as an untrained agent fills them; drawing counts, a network would come on top.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.learning.environments import ElasticAllocation, ElasticEpisodes, ElasticVector
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

GOAL = 20_000.0
"""Steps a second."""

NUM_STEPS = 60_000
NUM_ENVS = 8
ROUNDS = 3
"""The best of so many runs counts: other processes only ever slow a run down."""

CROWDED = ElasticEpisodes(num_jobs=60, num_hosts=48, arrivals_per_slot=4.0, run_slots=(2.0, 20.0))
"""Windows of 20 jobs that are mostly full."""


@dataclass(frozen=True)
class Pace:
    """How fast an environment ran.

    Parameters
    ----------
    steps_per_s
        Steps a second of CPU time.
    steps_per_slot
        Steps for each slot of the simulator.
    jobs_in_view
        Jobs in the window, on average over steps.
    """

    steps_per_s: float
    steps_per_slot: float
    jobs_in_view: float


def run_single(num_steps: int, *, check: bool = True, seed: int = 0) -> Pace:
    """Step `ElasticAllocation` with random actions."""
    env = ElasticAllocation(CROWDED, check=check)
    draws = np.random.default_rng(seed).random(num_steps).tolist()
    env.reset(seed=seed)
    slots = jobs = 0
    began = time.process_time()
    for draw in draws:
        jobs += len(env.episode.slot.columns)
        allowed = env.action_masks().nonzero()[0]
        _, _, terminated, truncated, info = env.step(allowed[int(draw * len(allowed))])
        if terminated or truncated:
            slots += info["num_slots"]
            env.reset()
    seconds = time.process_time() - began
    slots += env.episode.num_slots
    return Pace(num_steps / seconds, num_steps / max(slots, 1), jobs / num_steps)


def run_vector(num_steps: int, *, num_envs: int = NUM_ENVS, seed: int = 0) -> Pace:
    """Step `ElasticVector` with random actions; `num_steps` counts those of all environments."""
    envs = ElasticVector(num_envs, CROWDED, autoreset_mode="SameStep", copy=False)
    rounds = num_steps // num_envs
    draws = np.random.default_rng(seed).random((rounds, *(envs.action_space.shape or ()), 1))
    envs.reset(seed=seed)
    mask: npt.NDArray[Any] = np.empty((num_envs, envs.features.num_actions))
    jobs = 0
    began = time.process_time()
    for draw in draws:
        jobs += sum(len(episode.slot.columns) for episode in envs.episodes)
        # The first action up to which the drawn part of the allowed ones lies.
        np.cumsum(envs.action_masks(), axis=1, out=mask)
        actions = (mask > draw * mask[:, -1:]).argmax(axis=1)
        envs.step(actions)
    seconds = time.process_time() - began
    steps = rounds * num_envs
    return Pace(steps / seconds, float("nan"), jobs / steps)


def best(run: Callable[[], Pace], rounds: int = ROUNDS) -> Pace:
    """Return the fastest of some runs."""
    return max((run() for _ in range(rounds)), key=lambda pace: pace.steps_per_s)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the paces; return 1 if the goal is missed."""
    del argv  # nothing to choose
    print(f"{CROWDED.num_jobs} jobs an episode on {CROWDED.num_hosts} hosts, window 20\n")
    paces = {
        "one environment": best(lambda: run_single(NUM_STEPS)),
        "one, without the checker's last look": best(lambda: run_single(NUM_STEPS, check=False)),
        f"{NUM_ENVS} in one array": best(lambda: run_vector(NUM_STEPS)),
    }
    print(f"{'':36s} {'steps/s':>9s} {'steps/slot':>11s} {'jobs in view':>13s}")
    for name, pace in paces.items():
        print(
            f"{name:36s} {pace.steps_per_s:9.0f} {pace.steps_per_slot:11.1f} "
            f"{pace.jobs_in_view:13.1f}"
        )
    print()
    slowest = min(pace.steps_per_s for pace in paces.values())
    return conclude(
        [
            Verdict(
                f"at least {GOAL:,.0f} environment steps/s on one core with windows of 20 jobs",
                f"{slowest:,.0f} steps/s in the slowest row",
                slowest >= GOAL,
            )
        ]
    )


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
