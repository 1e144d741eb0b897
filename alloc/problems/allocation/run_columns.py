"""Runs as columns: what is asked of each run of a long schedule is asked of all at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, Run, RunTable, TaskPlacement
from alloc.workload import Configuration

Numbers = npt.NDArray[np.int64]
Times = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

UNKNOWN = -1
"""Stands for a job, configuration, host or role that the instance does not have."""

MAX_TASKS = 1_000_000
"""Tasks that are counted at most: more on one host are wrong by the gang rule anyway, and their
demand must not overflow 64 bits."""


class RunsOfOneRound(Sequence[Run]):
    """Assignments as runs of the same time, made when somebody looks at one.

    Parameters
    ----------
    assignments
        Who runs where.
    start_s, end_s
        The time, seconds.
    """

    def __init__(self, assignments: Sequence[Assignment], start_s: float, end_s: float) -> None:
        self.assignments, self._span = assignments, (start_s, end_s)

    @cached_property
    def _runs(self) -> list[Run]:
        start_s, end_s = self._span
        return [Run(a.job, a.configuration, start_s, end_s, a.tasks) for a in self.assignments]

    def __len__(self) -> int:
        return len(self.assignments)

    def __getitem__(self, at: Any) -> Any:
        return self._runs[at]

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)


class RunColumns:
    """The runs of a schedule as arrays of numbers.

    Parameters
    ----------
    instance
        The problem, unfolded.
    runs
        Runs, also wrong ones: of jobs, configurations, hosts and roles that are not known. Or
        assignments.
    span
        Start and end of all, seconds, where they are assignments.

    Attributes
    ----------
    job
        Position of the job of each run, shape (runs,).
    kinds
        The configurations that the runs are in.
    kind
        Position in `kinds`, shape (runs,).
    start_s, end_s
        Seconds, shape (runs,).
    """

    def __init__(
        self,
        instance: Instance,
        runs: Sequence[Run | Assignment],
        span: tuple[float, float] | None = None,
    ) -> None:
        self._instance = instance
        self.kinds: list[Configuration] = []
        # What `alloc.progress` works out of runs that are the only ones of their jobs.
        self.single_ends: tuple[Numbers, Times] | None = None
        # The placed tasks, or those that differ; and, of these, which of them is where.
        self._tasks: Sequence[TaskPlacement]
        self._place: Numbers | None = None
        if isinstance(runs, RunTable) and (
            runs.ids is instance.job_columns.ids or runs.ids == instance.job_columns.ids
        ):
            self._read_table(runs)
        else:
            self._read(runs, span)
        # Filled up to the most task groups of a kind.
        self._width = max([len(kind.tasks) for kind in self.kinds], default=1)

    def _read(self, runs: Sequence[Run | Assignment], span: tuple[float, float] | None) -> None:
        """Read runs one by one."""
        index = self._instance.job_index
        tables = [job.configurations for job in self._instance.jobs]
        jobs = [index.get(run.job, UNKNOWN) for run in runs]
        known: dict[tuple[int, int], int] = {}
        kinds = []
        for run, j in zip(runs, jobs, strict=True):
            if j == UNKNOWN:
                kinds.append(UNKNOWN)
                continue
            table, c = tables[j], run.configuration
            kind = known.get((id(table), c))
            if kind is None:
                kind = UNKNOWN
                if 0 <= c < len(table):
                    kind = len(self.kinds)
                    self.kinds.append(table[c])
                known[id(table), c] = kind
            kinds.append(kind)
        self.job: Numbers = np.array(jobs, dtype=np.int64)
        self.kind: Numbers = np.array(kinds, dtype=np.int64)
        self.start_s, self.end_s = _times_of(runs, span)
        self._num_tasks: Numbers = np.array([len(run.tasks) for run in runs], dtype=np.int64)
        self._tasks = [task for run in runs for task in run.tasks]

    def _read_table(self, runs: RunTable) -> None:
        """Read runs that are columns already, of jobs of the instance."""
        columns = self._instance.job_columns
        self.job, self.start_s, self.end_s = runs.job, runs.start_s, runs.end_s
        sizes = np.array([len(table) for table in columns.tables])
        before = np.cumsum(sizes) - sizes
        table, c = columns.table[runs.job], runs.configuration
        # All configurations one after another, of which those count that some run is in.
        kind = np.where((c >= 0) & (c < sizes[table]), before[table] + c, UNKNOWN)
        used = np.zeros(int(sizes.sum()) + 1, dtype=bool)
        used[kind] = True
        used[UNKNOWN] = False
        for k in np.flatnonzero(used).tolist():
            t = int(np.searchsorted(before, k, side="right")) - 1
            self.kinds.append(columns.tables[t][k - int(before[t])])
        self.kind = np.where(used[kind], np.cumsum(used)[kind] - 1, UNKNOWN)
        self._num_tasks, self._tasks, self._place = runs.num_places, runs.places, runs.place

    def _of_tasks(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what is known of each of `_tasks` for each placed task."""
        return values if self._place is None else values[self._place]

    @cached_property
    def task_run(self) -> Numbers:
        """Position of the run of each placed task, shape (tasks,)."""
        owners: Numbers = np.repeat(np.arange(len(self.job)), self._num_tasks)
        return owners

    @cached_property
    def task_host(self) -> Numbers:
        """Position of the host of each placed task, shape (tasks,)."""
        index = self._instance.topology.host_index
        hosts = [index.get(task.host, UNKNOWN) for task in self._tasks]
        found: Numbers = self._of_tasks(np.array(hosts, dtype=np.int64))
        return found

    @cached_property
    def task_group(self) -> Numbers:
        """Position of the group of each placed task in its configuration, shape (tasks,)."""
        roles: dict[str, int] = {}
        for kind in self.kinds:
            for group in kind.tasks:
                roles.setdefault(group.role, len(roles))
        # The last row and column are of configurations and roles that are not known.
        groups = np.full((len(self.kinds) + 1, len(roles) + 1), UNKNOWN)
        for k, kind in enumerate(self.kinds):
            for g, group in enumerate(kind.tasks):
                groups[k, roles[group.role]] = g
        own = np.array([roles.get(task.role, UNKNOWN) for task in self._tasks], dtype=np.int64)
        found: Numbers = groups[self.kind[self.task_run], self._of_tasks(own)]
        return found

    @cached_property
    def task_count(self) -> Numbers:
        """Number of equal tasks, rounded up, from 0 to `MAX_TASKS`, shape (tasks,)."""
        counted: Numbers = self._of_tasks(self._counts[0])
        return counted

    @cached_property
    def _counts(self) -> tuple[Numbers, Flags]:
        """What `task_count` says of each of `_tasks`, and whether it is that very number."""
        counts = [task.count for task in self._tasks]
        found = np.array(counts)
        exact = np.ones(len(counts), dtype=bool)
        if found.dtype != np.int64:  # too large for it, or no whole numbers
            found = np.array([_counted(count) for count in counts], dtype=np.int64)
            exact[:] = [n == count for n, count in zip(found.tolist(), counts, strict=True)]
        return np.clip(found, 0, MAX_TASKS), exact

    @cached_property
    def demand(self) -> Numbers:
        """What each placed task asks for, shape (tasks, resources); 0 where it is not known."""
        names = self._instance.topology.resource_names
        each = np.zeros((len(self.kinds) + 1, self._width, len(names)), dtype=np.int64)
        for k, kind in enumerate(self.kinds):
            for g, group in enumerate(kind.tasks):
                each[k, g] = group.demand
        asked: Numbers = each[self.kind[self.task_run], self.task_group]
        asked *= self.task_count[:, None]
        asked[~self.task_is_known] = 0
        return asked

    @cached_property
    def task_is_known(self) -> Flags:
        """Whether host, configuration and role of each placed task are known, shape (tasks,)."""
        known: Flags = (self.task_host != UNKNOWN) & (self.task_group != UNKNOWN)
        return known

    @cached_property
    def well_placed(self) -> Flags:
        """Runs of which nothing is wrong by themselves, whatever their times; shape (runs,).

        False for what is wrong, and for what is not looked at here: placement rules, levels and
        shares of GPUs.
        """
        topology = self._instance.topology
        plain = [kind.within is None and not _shares(kind) for kind in self.kinds]
        free = np.append(self._instance.job_columns.has_no_rules, False)[self.job]
        well: Flags = np.array([*plain, False], dtype=bool)[self.kind] & free
        wanted = np.zeros((len(self.kinds) + 1, self._width), dtype=np.int64)
        for k, kind in enumerate(self.kinds):
            wanted[k, : len(kind.tasks)] = [group.count for group in kind.tasks]
        count = self.task_count
        wrong = ~self.task_is_known | (count < 1) | (count >= MAX_TASKS)
        exact = self._counts[1]
        if not exact.all():  # a part of a task is none
            wrong |= ~self._of_tasks(exact)
        types = {name: t for t, name in enumerate({*topology.gpu_types})}
        if any(kind.gpu_type is not None for kind in self.kinds):
            has = np.array([types[name] for name in topology.gpu_types])
            needs = [_type_of(kind, types) for kind in self.kinds]
            need = np.array([*needs, UNKNOWN])[self.kind[self.task_run]]
            wrong |= (need != UNKNOWN) & (need != has[self.task_host])
        well[self.task_run[wrong]] = False
        place = self.task_run * self._width + self.task_group
        size = len(self.job) * self._width
        # Sums of a few million at most are exact as floats.
        placed = np.bincount(place[~wrong], weights=count[~wrong], minlength=size)
        well &= (placed.reshape(-1, self._width) == wanted[self.kind]).all(axis=1)
        return well


def _times_of(
    runs: Sequence[Run | Assignment], span: tuple[float, float] | None
) -> tuple[Times, Times]:
    """Return when each run starts and ends, seconds, shape (runs,) each."""
    if span is not None:
        return np.full(len(runs), span[0]), np.full(len(runs), span[1])
    timed = cast("Sequence[Run]", runs)
    starts = np.array([run.start_s for run in timed], dtype=float)
    return starts, np.array([run.end_s for run in timed], dtype=float)


def _counted(count: object) -> int:
    """Return a number of tasks from 0 to `MAX_TASKS`, rounded up; 0 for what is no number."""
    if not isinstance(count, int | float | np.integer | np.floating) or not count > 0:
        return 0
    return MAX_TASKS if count >= MAX_TASKS else math.ceil(count)


def _shares(kind: Configuration) -> bool:
    return any(group.shares_gpu for group in kind.tasks)


def _type_of(kind: Configuration, types: dict[str | None, int]) -> int:
    """Return the number of the GPU type that a configuration needs; no host's if none has it."""
    return UNKNOWN if kind.gpu_type is None else types.get(kind.gpu_type, len(types))
