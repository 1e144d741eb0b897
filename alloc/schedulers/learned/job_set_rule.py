"""The set policy without learning: worth by one formula, the same decoder.

What a learned set policy must beat to have learned anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError
from alloc.schedulers.learned.job_set import JOBS, PRICES, WORTH, JobSetDecider
from alloc.schedulers.learned.job_set_choice import TERMS
from alloc.schedulers.learned.job_set_features import JOB_FEATURES
from alloc.units import RESOURCES

PRICE = 0.5
"""Price of each resource per job that the choice starts from."""
_SLOTS = JOB_FEATURES.index("slots_at_best")


class SetRule(JobSetDecider):
    """Score progress by the time that is left, then choose under prices as a set policy does.

    A job's progress in a slot is worth ``s ** power`` slots for all of its remaining work, with s
    the slots that this takes at its best rate, and completing early within the slot is worth what
    it saves. With power 0 the fraction of the remaining work counts alike for all jobs, with power
    1 the time saved: short jobs come first, the more so the smaller the power.

    Parameters
    ----------
    power
        0 to 1. The default was chosen on the validation instances of `alloc.instances.
        learning_worlds`, as a learned policy is.
    early
        Slots that a slot saved by early completion is worth, 0 or more.

    References
    ----------
    Shortest remaining time first for jobs that speed up: Berg, Vesilo, Harchol-Balter, "heSRPT:
    Parallel scheduling to minimize mean slowdown", Performance Evaluation 144, 2020, has the
    optimal shares for one common speed-up function. The formula is this project's own.
    """

    def __init__(self, power: float = 0.7, early: float = 0.5) -> None:
        if not 0 <= power <= 1:
            raise InstanceError(f"set-rule: power is {power:g}; it must be 0 to 1.")
        if not 0 <= early < np.inf:
            raise InstanceError(f"set-rule: early is {early:g}; it must be 0 or more.")
        super().__init__(self._weigh, "set-rule")
        self._power = power
        self._early = early

    def _weigh(self, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        jobs = tensors[JOBS]
        return {WORTH: self.worth(jobs[:, _SLOTS]), PRICES: np.full(len(RESOURCES), PRICE)}

    def worth(self, slots_at_best: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return alpha, beta and gamma of jobs by their feature ``slots_at_best``, shape (J, 3)."""
        worth = np.zeros((len(slots_at_best), TERMS))
        worth[:, 0] = np.exp(self._power * slots_at_best)
        worth[:, 1] = self._early
        return worth
