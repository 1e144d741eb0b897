"""The reward model of placement: normalised speeds of co-locations that nobody has measured.

References
----------
Bao, Peng, Wu, "Deep learning-based job placement in distributed machine learning clusters"
(Harmony), INFOCOM 2019: an auxiliary network, fitted to measured samples, gives the reward of
placements that no sample covers. Sampling, features and network are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

from alloc.learning.actor_critic.pair import FlatNetwork
from alloc.learning.pytorch import Tensor, torch
from alloc.learning.training import single_thread, step_rng
from alloc.workload.interference import InterferenceTable

Mix = tuple[int, ...]
"""Jobs of each class on a host."""

_MEASURED, _WEIGHTS = 10, 11
_NOISE = 0.03
"""Standard deviation of the logarithm of a measured speed: an assumption; runs differ a little."""
_EPOCHS = 600
"""Steps over all samples: of mixes never measured the speeds are off by 1.6 % on average with 600,
by 2.9 % with 150, and by 2.0 % with 2,400, which learn the noise."""


def mixes(classes: int, most: int) -> tuple[Mix, ...]:
    """Return all mixes of two jobs and more.

    Parameters
    ----------
    classes
        Number of classes of jobs.
    most
        Most jobs of a host; below 2 there is no mix.
    """
    return tuple(
        tuple(np.bincount(bundle, minlength=classes).tolist())
        for size in range(2, most + 1)
        for bundle in combinations_with_replacement(range(classes), size)
    )


@dataclass(frozen=True)
class Measured:
    """The speeds of mixes that were measured, as `true_speeds` has them, and the mixes held out."""

    speeds: dict[Mix, tuple[float, ...]]
    held_out: tuple[Mix, ...]


def true_speeds(table: InterferenceTable, mix: Mix) -> tuple[float, ...]:
    """Return the normalised speed of a job of each class in a mix; 0 for those not in it.

    Parameters
    ----------
    table
        Speeds of the classes beside each other.
    mix
        Jobs of each class, in the order of the table.
    """
    kinds = [kind for kind, n in zip(table.kinds, mix, strict=True) for _ in range(n)]
    found = dict(zip(kinds, table.speeds(kinds) or [0.0] * len(kinds), strict=True))
    return tuple(found.get(kind, 0.0) for kind in table.kinds)


def measure(table: InterferenceTable, most: int, samples: int, seed: int) -> Measured:
    """Measure some mixes of a table, each once and with noise of 3 %.

    Parameters
    ----------
    table
        The truth.
    most
        Most jobs of a host.
    samples
        Mixes to measure; beyond those that there are, all.
    seed
        Draws the mixes and the noise.
    """
    rng = step_rng(seed, _MEASURED)
    known = mixes(len(table.kinds), most)
    order = rng.permutation(len(known)).tolist()
    speeds = {}
    for k in order[:samples]:
        truth = np.array(true_speeds(table, known[k]))
        noisy = truth * np.exp(rng.normal(0.0, _NOISE, len(truth)))
        speeds[known[k]] = tuple(noisy.tolist())
    return Measured(speeds, tuple(known[k] for k in order[samples:]))


class RewardModel:
    """Sums of normalised speeds of hosts: measured where they are, else by a network.

    Parameters
    ----------
    table
        Where the measurements come from.
    most, samples
        Most jobs of a host, and mixes that are measured.
    seed
        Seed of measurements and weights.
    """

    def __init__(self, table: InterferenceTable, most: int, samples: int, seed: int) -> None:
        self.classes, self.most = len(table.kinds), most
        self.measured = measure(table, most, samples, seed)
        with torch.random.fork_rng():
            torch.manual_seed(int(step_rng(seed, _WEIGHTS).integers(2**31)))
            # The speed of a job by its class and what is beside it, before the sigmoid.
            self.network = FlatNetwork(2 * self.classes, 1, width=32)
        self._table = table
        self._known: dict[Mix, float] = {}
        with single_thread():
            self._fit()

    def __call__(self, mix: Mix) -> float:
        """Return the sum of the normalised speeds of a host."""
        if mix not in self._known:
            self._known[mix] = self._sum(mix)
        return self._known[mix]

    def _sum(self, mix: Mix) -> float:
        if sum(mix) <= 1:  # alone: that is what speeds are normalised by
            return float(sum(mix))
        speeds = self.measured.speeds.get(mix) or self.predict(mix)
        return float(np.dot(mix, speeds))

    def predict(self, mix: Mix) -> tuple[float, ...]:
        """Return what the network says of the speed of each class in a mix; 0 for others."""
        present = [c for c in range(self.classes) if mix[c]]
        with torch.no_grad():
            said = self._speeds(torch.from_numpy(self._rows([(mix, c) for c in present]))).tolist()
        speeds = [0.0] * self.classes
        for c, speed in zip(present, said, strict=True):
            speeds[c] = speed
        return tuple(speeds)

    def _speeds(self, seen: Tensor) -> Tensor:
        return torch.sigmoid(self.network(seen))[:, 0]

    def errors(self) -> dict[str, float]:
        """Return how far the network is off on mixes that were not measured.

        Mean absolute error of the speed of a job, that of answering the mean of all measured
        speeds instead, and the mean relative error of the sum of a host.
        """
        mean = float(np.mean([s for speeds in self.measured.speeds.values() for s in speeds if s]))
        off, blind, sums = [], [], []
        for mix in self.measured.held_out:
            truth, said = true_speeds(self._table, mix), self.predict(mix)
            present = [c for c in range(self.classes) if mix[c]]
            off += [abs(truth[c] - said[c]) for c in present]
            blind += [abs(truth[c] - mean) for c in present]
            total = float(np.dot(mix, truth))
            sums.append(abs(float(np.dot(mix, said)) - total) / total)
        if not off:
            return {}
        return {
            "speed_error": float(np.mean(off)),
            "speed_error_of_the_mean": float(np.mean(blind)),
            "host_error": float(np.mean(sums)),
        }

    def _rows(self, asked: Sequence[tuple[Mix, int]]) -> npt.NDArray[np.float32]:
        """Return class and what is beside it, a row each."""
        rows = np.zeros((len(asked), 2 * self.classes), np.float32)
        for row, (mix, c) in zip(rows, asked, strict=True):
            row[c] = 1.0
            row[self.classes :] = np.array(mix) / self.most
            row[self.classes + c] -= 1.0 / self.most
        return rows

    def _fit(self) -> None:
        """Fit the network to what was measured, and to full speed alone."""
        alone = [tuple(np.eye(self.classes, dtype=int)[c].tolist()) for c in range(self.classes)]
        asked = [(mix, c) for c, mix in enumerate(alone)]
        goal = [1.0] * len(asked)
        for mix, speeds in self.measured.speeds.items():
            for c in np.flatnonzero(mix).tolist():
                asked.append((mix, c))
                goal.append(min(speeds[c], 1.0))
        seen, wanted = torch.from_numpy(self._rows(asked)), torch.tensor(goal)
        optimiser = torch.optim.Adam(self.network.parameters(), lr=1e-2, weight_decay=1e-5)
        for _ in range(_EPOCHS):
            loss = ((self._speeds(seen) - wanted) ** 2).mean()
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
