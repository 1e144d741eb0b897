"""Rewards as they are audited: what a slot is worth, and how slots to come are discounted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from alloc.errors import InstanceError, nearest
from alloc.formulation import Array
from alloc.learning.environments.rewards import REWARDS, Reward
from alloc.objectives import RoundUtility
from alloc.workload import Job

_TIE = 1e-5
"""Worth of progress in a slot in which the reward is indifferent: else its maximiser may idle."""


@dataclass(frozen=True)
class AuditedReward:
    """A reward and its discount.

    Parameters
    ----------
    name
        Name for people.
    base
        Name of the reward of a slot, one of `alloc.learning.environments.REWARDS`.
    gamma
        Discount of a slot, 0 to 1: the return is the sum over slots t of ``gamma ** t`` times the
        reward of the slot, t counted from the start of the instance. 0: each slot by itself, on
        what is in the system then.
    """

    name: str
    base: str
    gamma: float

    @property
    def function(self) -> Reward:
        """The reward of a slot."""
        return REWARDS[self.base]

    @property
    def per_slot(self) -> bool:
        """Whether nothing beyond the slot counts."""
        return self.gamma == 0

    @property
    def constant(self) -> bool:
        """Whether every schedule that completes all jobs has the same return."""
        return self.gamma == 1 and self.base in ("progress", "completions")

    @property
    def aligned(self) -> bool:
        """Whether the return is minus the (weighted) sum of completion times."""
        return self.gamma == 1 and not self.constant

    @property
    def weighted(self) -> bool:
        """Whether jobs count by their weight."""
        return self.base == "weighted-jct"

    @property
    def text(self) -> str:
        """The reward in words."""
        if self.per_slot:
            return f"{self.base} of each slot by itself"
        if self.gamma == 1:
            return f"undiscounted {self.base}"
        return f"{self.base} discounted by {self.gamma:g} a slot"

    def discount(self, slot: float) -> float:
        """Return the factor of a slot; of every slot 1 when each stands for itself."""
        return 1.0 if self.per_slot else self.gamma**slot

    @property
    def utility(self) -> RoundUtility:
        """The reward of a slot as a utility of F1, ties to progress."""
        worth = _WORTH[self.base]

        def with_ties(rates: Array, job: Job, slot_s: float) -> Array:
            value = worth(rates, job, slot_s)
            return value if self.base == "progress" else value + _TIE * _done(rates, job, slot_s)

        return RoundUtility(self.base, "max", "reward", "Reward of a slot.", with_ties)


def _done(rates: Array, job: Job, slot_s: float) -> Array:
    return np.minimum(rates * slot_s, job.work_left) / job.work


def _completed(rates: Array, job: Job, slot_s: float) -> Array:
    return (rates * slot_s >= job.work_left * (1 - 1e-9)).astype(float)


def _saved(rates: Array, job: Job, slot_s: float) -> Array:
    """Return the part of the slot that the job is no longer in the system."""
    with np.errstate(divide="ignore"):
        return np.maximum(1 - job.work_left / (rates * slot_s), 0.0)


_WORTH: Mapping[str, Callable[[Array, Job, float], Array]] = {
    "progress": _done,
    "completions": _completed,
    "jobs-in-system": _saved,
    "weighted-jct": lambda rates, job, slot_s: job.weight * _saved(rates, job, slot_s),
}

AUDITED: Mapping[str, AuditedReward] = {
    reward.name: reward
    for reward in (
        AuditedReward("progress", "progress", 0.0),
        AuditedReward("discounted-progress", "progress", 0.99),
        AuditedReward("completions", "completions", 0.99),
        AuditedReward("jobs-in-system", "jobs-in-system", 1.0),
        AuditedReward("weighted-jct", "weighted-jct", 1.0),
    )
}
"""The rewards that can be audited, with the discount that each has unless another is given.

``progress`` is each slot by itself: DL2 as released credits every action of a slot with the reward
of that slot and looks no further.
"""


def audited_reward(name: str, gamma: float | None = None) -> AuditedReward:
    """Return a reward by name, with another discount if one is given.

    Parameters
    ----------
    name
        One of `AUDITED`.
    gamma
        Discount of a slot, 0 to 1; None: that of the reward.

    Raises
    ------
    InstanceError
        If there is none of that name, or the discount is not from 0 to 1.
    """
    if name not in AUDITED:
        raise InstanceError(
            f'reward "{name}" cannot be audited{nearest(name, AUDITED, ";")} known: '
            f"{', '.join(AUDITED)}."
        )
    reward = AUDITED[name]
    if gamma is None:
        return reward
    if not (math.isfinite(gamma) and 0 <= gamma <= 1):
        raise InstanceError(
            f"gamma is {gamma:g}; a discount is from 0 (each slot by itself) to 1 (none)."
        )
    return AuditedReward(name, reward.base, float(gamma))
