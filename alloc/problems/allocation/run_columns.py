"""Runs as columns: what is asked of each run of a long schedule is asked of all at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, Run
from alloc.workload import NO_RULES, Configuration

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
        self._assignments, self._span = assignments, (start_s, end_s)

    @cached_property
    def _runs(self) -> list[Run]:
        start_s, end_s = self._span
        return [Run(a.job, a.configuration, start_s, end_s, a.tasks) for a in self._assignments]

    def __len__(self) -> int:
        return len(self._assignments)

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
        self._runs = runs
        index, tables = instance.job_index, [job.configurations for job in instance.jobs]
        jobs = [index.get(run.job, UNKNOWN) for run in runs]
        self.kinds: list[Configuration] = []
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
        # What `alloc.progress` works out of runs that are the only ones of their jobs.
        self.single_ends: tuple[Numbers, Times] | None = None
        # Filled up to the most task groups of a kind.
        self._width = max([len(kind.tasks) for kind in self.kinds], default=1)

    @cached_property
    def task_run(self) -> Numbers:
        """Position of the run of each placed task, shape (tasks,)."""
        sizes = [len(run.tasks) for run in self._runs]
        owners: Numbers = np.repeat(np.arange(len(sizes)), sizes)
        return owners

    @cached_property
    def task_host(self) -> Numbers:
        """Position of the host of each placed task, shape (tasks,)."""
        index = self._instance.topology.host_index
        hosts = [index.get(task.host, UNKNOWN) for run in self._runs for task in run.tasks]
        return np.array(hosts, dtype=np.int64)

    @cached_property
    def task_group(self) -> Numbers:
        """Position of the group of each placed task in its configuration, shape (tasks,)."""
        groups = {
            (k, group.role): g
            for k, kind in enumerate(self.kinds)
            for g, group in enumerate(kind.tasks)
        }
        roles = [task.role for run in self._runs for task in run.tasks]
        names = {role for _, role in groups}
        if self._width == 1 and len(names) == 1 and not (self.kind == UNKNOWN).any():
            (name,) = names  # as in most streams: no need to look at each kind
            return np.array([0 if role == name else UNKNOWN for role in roles], dtype=np.int64)
        keys = zip(self.kind[self.task_run].tolist(), roles, strict=True)
        return np.array([groups.get(key, UNKNOWN) for key in keys], dtype=np.int64)

    @cached_property
    def task_count(self) -> Numbers:
        """Number of equal tasks, rounded up, from 0 to `MAX_TASKS`, shape (tasks,)."""
        counts = [task.count for run in self._runs for task in run.tasks]
        found = np.array(counts)
        if found.dtype != np.int64:  # too large for it, or no whole numbers
            found = np.array([_counted(count) for count in counts], dtype=np.int64)
        counted: Numbers = np.clip(found, 0, MAX_TASKS)
        return counted

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
        jobs, topology = self._instance.jobs, self._instance.topology
        plain = [kind.within is None and not _shares(kind) for kind in self.kinds]
        free = [j != UNKNOWN and jobs[j].placement is NO_RULES for j in self.job.tolist()]
        well: Flags = np.array([*plain, False], dtype=bool)[self.kind] & np.array(free, dtype=bool)
        wanted = np.zeros((len(self.kinds) + 1, self._width), dtype=np.int64)
        for k, kind in enumerate(self.kinds):
            wanted[k, : len(kind.tasks)] = [group.count for group in kind.tasks]
        count = self.task_count
        wrong = ~self.task_is_known | (count < 1) | (count >= MAX_TASKS)
        types = {name: t for t, name in enumerate({*topology.gpu_types})}
        if any(kind.gpu_type is not None for kind in self.kinds):
            has = np.array([types[name] for name in topology.gpu_types])
            needs = [_type_of(kind, types) for kind in self.kinds]
            need = np.array([*needs, UNKNOWN])[self.kind[self.task_run]]
            wrong |= (need != UNKNOWN) & (need != has[self.task_host])
        well[self.task_run[wrong]] = False
        place = self.task_run * self._width + self.task_group
        size = len(self._runs) * self._width
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
