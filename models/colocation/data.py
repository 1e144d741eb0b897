"""Classes and bundles of a co-location problem, all listed: for problems small enough for that."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

from alloc.clock import check_time
from alloc.problems.colocation import ColocationProblem, Packing

Bundle = tuple[int, ...]
"""Classes of the jobs on one GPU, in ascending order."""


@dataclass(frozen=True)
class Bundles:
    """Every bundle of a problem.

    Parameters
    ----------
    problem
        The problem.
    members
        For each class, the positions of its jobs.
    bundles
        The bundles whose jobs may share a GPU.
    worth
        Of each bundle, shape (bundles,).
    """

    problem: ColocationProblem
    members: tuple[tuple[int, ...], ...]
    bundles: tuple[Bundle, ...]
    worth: npt.NDArray[np.float64]

    @classmethod
    def of(cls, problem: ColocationProblem) -> Bundles:
        """List the bundles of a problem."""
        classes: dict[tuple[str, float], list[int]] = {}
        for j, key in enumerate(zip(problem.kinds, problem.weights, strict=True)):
            classes.setdefault(key, []).append(j)
        members = tuple(tuple(jobs) for jobs in classes.values())
        bundles, worth = [], []
        for size in range(1, min(problem.max_per_gpu, len(problem.kinds)) + 1):
            for bundle in combinations_with_replacement(range(len(members)), size):
                check_time()
                number = Counter(bundle)
                if any(n > len(members[t]) for t, n in number.items()):
                    continue
                value = problem.worth([members[t][0] for t in bundle])
                if value > 0:
                    bundles.append(bundle)
                    worth.append(value)
        return cls(problem, members, tuple(bundles), np.array(worth))

    def limit(self, b: int) -> int:
        """Return on how many GPUs a bundle can run."""
        jobs = min(len(self.members[t]) // n for t, n in Counter(self.bundles[b]).items())
        return min(jobs, self.problem.num_gpus)

    def packing(self, values: npt.NDArray[np.float64]) -> Packing:
        """Name the jobs on every GPU.

        Parameters
        ----------
        values
            GPUs that run each bundle, integers up to rounding, shape (bundles,).
        """
        waiting = [list(reversed(jobs)) for jobs in self.members]
        gpus = [
            tuple(waiting[t].pop() for t in bundle)
            for bundle, number in zip(self.bundles, values, strict=True)
            for _ in range(round(float(number)))
        ]
        return Packing(tuple(gpus), tuple(sorted(j for jobs in waiting for j in jobs)))
