"""Jobs as columns: what is asked of each job of a long stream is read once, and kept as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import get_args

import numpy as np
import numpy.typing as npt

from alloc.workload import NO_RULES, Configuration, Job
from alloc.workload.job import Elasticity

_CHUNK = 8192
"""Jobs that are read at a time, field by field: a few MB, which stay in a processor's cache."""

_FIELDS = ("arrival_s", "work", "work_done", "restart_cost_s", "deadline_s")
_TABLE, _RULES = attrgetter("configurations"), attrgetter("placement")
_ELASTICITY = attrgetter("elasticity")
ELASTICITIES: tuple[Elasticity, ...] = get_args(Elasticity)
"""What a job may be, in some order."""


class JobColumns:
    """Fields of the jobs of an instance as arrays, in the order of the instance.

    Parameters
    ----------
    jobs
        The jobs.

    Attributes
    ----------
    ids
        Their ids.
    arrival_s, work, work_done, restart_cost_s
        As in `Job`, shape (jobs,).
    deadline_s
        Seconds, infinite without, shape (jobs,).
    work_left
        Work units, shape (jobs,).
    tables
        The tuples of configurations that jobs have; jobs that share one have the same.
    table
        Position in `tables`, shape (jobs,).
    elasticity
        Position in `ELASTICITIES`, shape (jobs,).
    has_no_rules
        Whether a job has the placement rules of one that names none, shape (jobs,).
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        fields = {name: np.empty(len(jobs)) for name in _FIELDS}
        self.has_no_rules: npt.NDArray[np.bool_] = np.empty(len(jobs), dtype=bool)
        self.table: npt.NDArray[np.int64] = np.empty(len(jobs), dtype=np.int64)
        self.elasticity: npt.NDArray[np.int8] = np.empty(len(jobs), dtype=np.int8)
        self.tables: list[tuple[Configuration, ...]] = []
        self.ids = list(map(attrgetter("id"), jobs))
        known: dict[int, int] = {}
        number = {name: k for k, name in enumerate(ELASTICITIES)}
        for first in range(0, len(jobs), _CHUNK):
            some, own = jobs[first : first + _CHUNK], slice(first, first + _CHUNK)
            for name, column in fields.items():
                column[own] = np.fromiter(map(attrgetter(name), some), float, len(some))
            self.has_no_rules[own] = [rules is NO_RULES for rules in map(_RULES, some)]
            self.elasticity[own] = list(map(number.__getitem__, map(_ELASTICITY, some)))
            tables = list(map(_TABLE, some))
            for table in tables:
                if id(table) not in known:
                    known[id(table)] = len(self.tables)
                    self.tables.append(table)
            self.table[own] = list(map(known.__getitem__, map(id, tables)))
        self.arrival_s: npt.NDArray[np.float64] = fields["arrival_s"]
        self.work: npt.NDArray[np.float64] = fields["work"]
        self.work_done: npt.NDArray[np.float64] = fields["work_done"]
        self.restart_cost_s: npt.NDArray[np.float64] = fields["restart_cost_s"]
        limit_s = fields["deadline_s"]
        limit_s[np.isnan(limit_s)] = np.inf  # None became no number
        self.deadline_s: npt.NDArray[np.float64] = limit_s
        self.work_left: npt.NDArray[np.float64] = self.work - self.work_done


class JobTimes(Mapping[str, float | None]):
    """A time of every job, by its id: a mapping that is a column until somebody asks for a job.

    Parameters
    ----------
    ids
        Ids of the jobs.
    column_s
        Seconds, NaN where there is none, shape (jobs,).
    """

    def __init__(self, ids: Sequence[str], column_s: npt.NDArray[np.float64]) -> None:
        self.ids, self.column_s = ids, column_s

    @property
    def num_missing(self) -> int:
        """Number of jobs without one."""
        return int(np.count_nonzero(np.isnan(self.column_s)))

    @cached_property
    def _by_id(self) -> dict[str, float | None]:
        times: list[float | None] = self.column_s.tolist()
        for j in np.flatnonzero(np.isnan(self.column_s)).tolist():
            times[j] = None
        return dict(zip(self.ids, times, strict=True))

    def __getitem__(self, job: str) -> float | None:
        return self._by_id[job]

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, JobTimes):
            if other.ids is self.ids:
                return np.array_equal(self.column_s, other.column_s, equal_nan=True)
            return self._by_id == other._by_id
        return self._by_id == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._by_id)
