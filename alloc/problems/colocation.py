"""Co-location: which jobs share a GPU, by how they slow each other down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from alloc.errors import InstanceError
from alloc.problems import Problem
from alloc.tabular import Tabular
from alloc.units import require_count
from alloc.workload.interference import InterferenceTable


@dataclass(frozen=True, eq=False)
class ColocationProblem(Problem):
    """Jobs that may share GPUs of one type.

    Parameters
    ----------
    kinds
        Kind of each job, in the table.
    table
        The measured speeds.
    num_gpus
        GPUs of the type measured, 0 or more.
    max_per_gpu
        Most jobs on one GPU, 1 or more.
    weights
        Worth of each job at full speed, above 0; empty: 1 each.
    name
        For people.

    Raises
    ------
    InstanceError
        If the table lacks a kind, or a number makes no sense.
    """

    kinds: Sequence[str]
    table: InterferenceTable
    num_gpus: int
    max_per_gpu: int = 2
    weights: Sequence[float] = ()
    name: str = "co-location"

    def __post_init__(self) -> None:
        require_count(self.num_gpus, self.name, "num_gpus")
        require_count(self.max_per_gpu, self.name, "max_per_gpu", least=1)
        worth = [float(w) for w in self.weights] or [1.0] * len(self.kinds)
        if len(worth) != len(self.kinds):
            raise InstanceError(
                f"{self.name}: {len(worth)} weights for {len(self.kinds)} jobs; give one a job."
            )
        if not all(w > 0 and math.isfinite(w) for w in worth):
            raise InstanceError(
                f"{self.name}: a weight is not above 0; leave jobs without worth out."
            )
        for kind in self.kinds:
            self.table.position(kind)
        object.__setattr__(self, "kinds", tuple(self.kinds))
        object.__setattr__(self, "weights", tuple(worth))

    def worth(self, bundle: Sequence[int]) -> float:
        """Return the weighted sum of the speeds of jobs on one GPU, 0 if two cannot share it."""
        speeds = self.table.speeds([self.kinds[j] for j in bundle]) or (0.0,) * len(bundle)
        return math.fsum(self.weights[j] * s for j, s in zip(bundle, speeds, strict=True))


@dataclass(frozen=True)
class Packing(Tabular):
    """Jobs on GPUs.

    Parameters
    ----------
    gpus
        For each GPU in use, the positions of its jobs.
    left_out
        Positions of the jobs that do not run.
    """

    gpus: tuple[tuple[int, ...], ...]
    left_out: tuple[int, ...]

    def value(self, problem: ColocationProblem) -> float:
        """Return the weighted sum of the speeds, each as a fraction of the speed alone."""
        return math.fsum(problem.worth(bundle) for bundle in self.gpus)
