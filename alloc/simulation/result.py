"""What a simulation leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.schedulers.state import Knowledge
from alloc.tabular import Tabular
from alloc.units import MILLI


@dataclass(frozen=True)
class SimulationResult(Tabular):
    """What happened when a scheduler ran an instance.

    Parameters
    ----------
    instance
        The problem.
    scheduler
        Name of the policy.
    knowledge, work_error, speed_error
        What the policy was told of work, and the largest relative errors in it.
    schedule
        Who ran where and when; jobs that did not complete are in its `unplaced`.
    completion_s
        Completion of every job, seconds, None for jobs that did not complete.
    start_s
        First start of every job, seconds, None for jobs that never ran.
    decision_s
        Wall time of each decision, seconds, shape (decisions,).
    end_s
        Time at which the simulation ended, seconds.
    restarts
        Number of resumptions that cost a restart: after a pause, or with another configuration or
        other hosts.
    migrations
        How many of them were on other hosts than before.
    failures
        Number of runs that failed with a host.
    lost_gpu_s
        GPU time whose work was lost by them, GPU seconds.
    late
        Jobs that completed after their hard deadline or the instance's horizon. Policies that know
        of no deadlines may be late, so this is an outcome and not an error.
    notes
        Counters of the policy, summed over its decisions.
    verified
        Whether the checker checked the whole schedule in the end.
    """

    instance: Instance
    scheduler: str
    knowledge: Knowledge
    work_error: float
    speed_error: float
    schedule: Schedule
    completion_s: Mapping[str, float | None]
    start_s: Mapping[str, float | None]
    decision_s: npt.NDArray[np.float64]
    end_s: float
    restarts: int
    migrations: int
    failures: int
    lost_gpu_s: float
    late: tuple[str, ...]
    notes: Mapping[str, float]
    verified: bool

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Jobs that did not complete, in the order of the instance."""
        return tuple(job for job, end in self.completion_s.items() if end is None)

    @cached_property
    def gpus_in_use(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """GPUs held over time, as `gpus_over_time` returns them."""
        return gpus_over_time(self.instance, self.schedule)


def gpus_over_time(
    instance: Instance, schedule: Schedule
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the GPUs that a schedule holds over time.

    Parameters
    ----------
    instance
        The problem.
    schedule
        A plan over time.

    Returns
    -------
    tuple of array
        Times of change, seconds, rising, and the GPUs held from each of them to the next, both of
        shape (changes,). Resources of a slot are held to its end.
    """
    runs = schedule.runs
    gpus = np.array(
        [
            instance.unfolded.job(run.job).configurations[run.configuration].demand[0]
            for run in runs
        ],
        dtype=np.int64,
    )
    times = np.array([run.start_s for run in runs] + [run.end_s for run in runs])
    # In whole milli-GPU, so that the level returns to exactly zero.
    moments, position = np.unique(times, return_inverse=True)
    change = np.zeros(len(moments), dtype=np.int64)
    np.add.at(change, position.reshape(-1), np.concatenate([gpus, -gpus]))
    return moments, np.cumsum(change) / MILLI
