"""Solutions: who runs in which configuration, where and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

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


def assignment_of_one(
    job: str,
    configuration: int,
    host: str,
    role: str,
    gpus: tuple[int, ...],
    starts: tuple[int, ...],
) -> Assignment:
    """Return the assignment of a job of one task, for allocations of tens of thousands of them.

    It is what the classes make, in half the time: a frozen dataclass sets each field by a call.

    Parameters
    ----------
    job, configuration
        As in `Assignment`.
    host, role, gpus, starts
        As in `TaskPlacement`.
    """
    placed, made = object.__new__(TaskPlacement), object.__new__(Assignment)
    fields = placed.__dict__
    fields["host"], fields["role"], fields["count"] = host, role, 1
    fields["gpus"], fields["starts"] = gpus, starts
    fields = made.__dict__
    fields["job"], fields["configuration"], fields["tasks"] = job, configuration, (placed,)
    return made


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


@dataclass(frozen=True, eq=False)
class RunTable(Sequence[Run]):
    """Runs as columns, for schedules of so many that an object for each costs more than they do.

    Parameters
    ----------
    ids
        Ids of the jobs of the instance unfolded, in its order.
    job
        Position of the job of each run in `ids`, shape (runs,).
    configuration
        Position in the job's configurations, counted from 0, shape (runs,).
    start_s, end_s
        Seconds, shape (runs,).
    places
        What some run has somewhere: tasks of one role on one host, each once.
    place
        Positions in `places`, run after run, shape (tasks,).
    num_places
        How many of them each run has, shape (runs,).
    """

    ids: Sequence[str]
    job: npt.NDArray[np.int64]
    configuration: npt.NDArray[np.int64]
    start_s: npt.NDArray[np.float64]
    end_s: npt.NDArray[np.float64]
    places: Sequence[TaskPlacement]
    place: npt.NDArray[np.int64]
    num_places: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.job)

    @overload
    def __getitem__(self, k: int) -> Run: ...

    @overload
    def __getitem__(self, k: slice) -> tuple[Run, ...]: ...

    def __getitem__(self, k: int | slice) -> Run | tuple[Run, ...]:
        return self._all[k]

    def __iter__(self) -> Iterator[Run]:
        return iter(self._all)

    @cached_property
    def _all(self) -> tuple[Run, ...]:
        alone = [(task,) for task in self.places]  # shared by all runs there
        place, last = self.place.tolist(), np.cumsum(self.num_places).tolist()
        columns = (self.job, self.configuration, self.start_s, self.end_s, self.num_places)
        return tuple(
            Run(
                self.ids[j],
                c,
                start_s,
                end_s,
                alone[place[k - 1]]
                if many == 1
                else tuple([self.places[p] for p in place[k - many : k]]),
            )
            for j, c, start_s, end_s, many, k in zip(
                *[column.tolist() for column in columns], last, strict=True
            )
        )


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

    @classmethod
    def of_table(cls, table: RunTable, unplaced: Mapping[str, str]) -> Schedule:
        """Return the schedule of some runs in columns, which become objects when asked for.

        Parameters
        ----------
        table
            The runs.
        unplaced
            As in the class.
        """
        made = object.__new__(cls)
        object.__setattr__(made, "unplaced", unplaced)
        object.__setattr__(made, "_table", table)
        return made

    @property
    def lazy_runs(self) -> Sequence[Run]:
        """The runs, which are no objects yet where they came in columns."""
        table: RunTable | None = self.__dict__.get("_table")
        return self.runs if table is None else table

    if not TYPE_CHECKING:  # as a checker of types knows it, every name would be an attribute

        def __getattr__(self, name: str) -> Any:
            """Return what is not made yet: the runs of a table."""
            table = self.__dict__.get("_table")
            if name != "runs" or table is None:
                raise AttributeError(f"{type(self).__name__} has no attribute {name}", name=name)
            runs = table[:]
            object.__setattr__(self, "runs", runs)
            return runs

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to another process: the runs themselves."""
        return {"runs": self.runs, "unplaced": self.unplaced}

    @cached_property
    def runs_of(self) -> Mapping[str, tuple[Run, ...]]:
        """Runs of each job in order of time."""
        grouped: dict[str, list[Run]] = {}
        for run in self.runs:
            grouped.setdefault(run.job, []).append(run)
        return {job: tuple(sorted(runs, key=lambda r: r.start_s)) for job, runs in grouped.items()}


Solution = Allocation | Schedule
