"""Hand-made set policies for tests: networks of kind ``job-set/1`` without any training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.schedulers.learned.job_set_features import JOB_FEATURES

SLOTS = JOB_FEATURES.index("slots_at_best")
LEFT = JOB_FEATURES.index("left_fraction")


class ByHand:
    """Worth by formula: alpha a power of the slots a job has left, or what is left of its work.

    Parameters
    ----------
    power
        Power of the slots left at the best rate.
    beta, gamma
        The same for all jobs.
    progress
        Take alpha = left / work instead: DL2's progress.
    prices
        Price of every resource.
    """

    def __init__(
        self,
        power: float = 0.5,
        beta: float = 1.0,
        gamma: float = 0.0,
        *,
        progress: bool = False,
        prices: float = 0.5,
    ) -> None:
        self.power, self.beta, self.gamma = power, beta, gamma
        self.progress, self.prices = progress, prices
        self.seen: list[dict[str, npt.NDArray[Any]]] = []

    def __call__(self, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return worth and prices."""
        self.seen.append(dict(tensors))
        jobs = tensors["jobs"].astype(float)
        alpha = np.exp(jobs[:, LEFT] if self.progress else self.power * jobs[:, SLOTS])
        worth = np.stack(
            [alpha, np.full(len(jobs), self.beta), np.full(len(jobs), self.gamma)], axis=1
        )
        return {
            "worth": worth.astype(np.float32),
            "prices": np.full(3, self.prices, dtype=np.float32),
        }
