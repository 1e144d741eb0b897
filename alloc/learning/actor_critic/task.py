"""What an agent is trained for.

References
----------
Mao et al., "Variance reduction for reinforcement learning in input-driven environments", ICLR 2019:
the arrivals of an episode, not the actions, make most of the difference between returns; a baseline
that saw the same arrivals takes it off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from alloc.learning.environments.rewards import Reward
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.feature_spec import FeatureSpec
from alloc.schedulers.learned.stepwise import Stepwise


@dataclass(frozen=True)
class Task:
    """What an agent is trained for.

    Parameters
    ----------
    name
        Kind of training, in checkpoints and commands.
    title, information, data, limits, references
        For the model card.
    spec
        What its network is shown and answers: one input with a batch axis, and logits.
    steps
        Makes the decision in steps.
    draw, validation
        Draws an instance to train on, and makes those that checkpoints are chosen on.
    reward
        What the agent is told; `unit_s` is what it counts time in where there are no slots.
    reward_scale
        What rewards are divided by, so that returns are of the order of 1.
    reference
        Scheduler that plays every instance too: what it earns in the same time is taken off the
        rewards, and validation is relative to it.
    settings
        Plain values that name the task in checkpoints.
    step_s
        CPU time of an update, seconds, about: minutes become updates by it.
    """

    name: str
    title: str
    information: str
    spec: FeatureSpec
    steps: Callable[[], Stepwise]
    draw: Callable[[np.random.Generator], Instance]
    validation: Callable[[], tuple[Instance, ...]]
    reward: Reward
    reward_scale: float
    reference: str
    data: str
    limits: tuple[str, ...]
    references: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    unit_s: float = 3600.0
    step_s: float = 1.0
