"""Solutions: who runs in which configuration, where and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from alloc.tabular import Tabular


@dataclass(frozen=True)
class TaskPlacement:
    """Tasks of one role of a job on one host.

    Parameters
    ----------
    host
        Host id.
    role
        Role of the tasks in the job's configuration.
    count
        Number of tasks, 1 or more.
    gpus
        For tasks that share a GPU (below 1,000 milli-GPU) or hold a MIG slice, the position on the
        host of each task's GPU, length `count`. Empty for tasks that take whole GPUs or none: on a
        host, whole GPUs are interchangeable here.
    starts
        For tasks with a MIG slice, the memory slice of the GPU at which each task's begins, counted
        from 0, length `count`. Empty for all others.
    """

    host: str
    role: str
    count: int
    gpus: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Assignment:
    """A job in one of its configurations on hosts.

    Parameters
    ----------
    job
        Job id.
    configuration
        Position in the job's configurations, counted from 0.
    tasks
        Where its tasks are; empty when the solution says nothing about hosts.
    """

    job: str
    configuration: int
    tasks: tuple[TaskPlacement, ...] = ()


@dataclass(frozen=True)
class Run:
    """A stretch of time in which a job keeps a configuration and hosts, and holds its resources.

    Parameters
    ----------
    job
        Job id.
    configuration
        Position in the job's configurations, counted from 0.
    tasks
        Where its tasks are.
    start_s, end_s
        The stretch, seconds since the start of the instance. In an instance with slots both are
        multiples of the slot. The job may complete before `end_s`; the resources are held anyway.
    """

    job: str
    configuration: int
    start_s: float
    end_s: float
    tasks: tuple[TaskPlacement, ...] = ()


def same_place(a: Sequence[TaskPlacement], b: Sequence[TaskPlacement]) -> bool:
    """Return whether two placements put the same tasks on the same hosts.

    Parameters
    ----------
    a, b
        The placements.
    """
    # Most that are the same are in the same order, which is cheaper to see.
    return a is b or a == b or set(a) == set(b)


@dataclass(frozen=True)
class Allocation(Tabular):
    """The decision of one round: which jobs run, how and where.

    Parameters
    ----------
    assignments
        At most one per job.
    unplaced
        For jobs that do not run, the reason.
    """

    assignments: tuple[Assignment, ...]
    unplaced: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def configuration_of(self) -> Mapping[str, int]:
        """Configuration of each job that runs."""
        return {a.job: a.configuration for a in self.assignments}


@dataclass(frozen=True)
class Schedule(Tabular):
    """A plan over time: the runs of every job.

    Parameters
    ----------
    runs
        The runs, in any order. Runs of one job do not overlap.
    unplaced
        For jobs that never run, the reason.
    """

    runs: tuple[Run, ...]
    unplaced: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def runs_of(self) -> Mapping[str, tuple[Run, ...]]:
        """Runs of each job in order of time."""
        grouped: dict[str, list[Run]] = {}
        for run in self.runs:
            grouped.setdefault(run.job, []).append(run)
        return {job: tuple(sorted(runs, key=lambda r: r.start_s)) for job, runs in grouped.items()}


Solution = Allocation | Schedule
