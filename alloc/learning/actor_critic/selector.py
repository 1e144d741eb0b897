"""The policy selector: which of several policies takes the next decision.

References
----------
Baheri et al., "MARS: Malleable Actor-Critic Reinforcement Learning Scheduler", 2020,
arXiv:2005.01584.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from alloc.instances.learning_worlds import (
    FAMILIES,
    HELD_OUT_SEEDS,
    TRAINING_SEEDS,
    VALIDATION_SEEDS,
    World,
)
from alloc.learning.actor_critic.task import Task
from alloc.learning.environments.rewards import jobs_in_system
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.kinds import feature_spec
from alloc.schedulers.learned.policy_choice import PolicyChoice

POLICIES = ("drf", "optimus", "srtf-dl2", "tetris", "random-ps")
"""The policies to choose from: none of them solves anything."""

WORLDS: tuple[World, ...] = tuple(
    replace(FAMILIES[name], num_jobs=20, num_hosts=4, max_tasks=6)
    for name in ("light", "base", "heavy", "bursty", "ps-hungry", "dips")
)
"""The worlds it is trained on, small: a policy that is best in one is not in another."""


def selector_task(policies: Sequence[str] = POLICIES) -> Task:
    """Return the task of a selector."""
    chosen = tuple(policies)
    return Task(
        name="selector",
        title="Chooses at each decision which of several policies decides (MARS)",
        information="counts, ages, remaining times and shares of the queue as a whole",
        spec=feature_spec("policy-choice/1", policies=chosen),
        steps=lambda: PolicyChoice(chosen),
        draw=_draw,
        validation=lambda: instances(VALIDATION_SEEDS[0], 2),
        reward=jobs_in_system,
        reward_scale=20.0,
        reference="drf",
        data=(
            "Learning worlds of 20 jobs on 4 hosts ("
            + ", ".join(world.name for world in WORLDS)
            + "), speeds from this project's fits; reward: minus the jobs in the system."
        ),
        limits=(
            "Is never better than the best of its policies at each single decision.",
            "Trained on 20 jobs and 4 hosts; nobody has measured it far from there.",
        ),
        references=("Baheri et al., MARS, 2020, arXiv:2005.01584",),
        settings={"policies": list(chosen), "worlds": [world.name for world in WORLDS]},
        step_s=1.2,
    )


def _draw(rng: np.random.Generator) -> Instance:
    world = WORLDS[int(rng.integers(len(WORLDS)))]
    return world.make(int(rng.choice(TRAINING_SEEDS)))


def instances(first_seed: int = HELD_OUT_SEEDS[0], per_world: int = 2) -> tuple[Instance, ...]:
    """Return instances of every world, from a seed on.

    Parameters
    ----------
    first_seed
        Seed of the first of a world; each next one has the next seed.
    per_world
        Instances of each world, 0 or more.
    """
    return tuple(world.make(first_seed + k) for world in WORLDS for k in range(per_world))
