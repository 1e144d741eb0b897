"""Job tables of one's own: CSV, TSV, Parquet or a DataFrame, with a map of its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from alloc.errors import InstanceError, nearest
from alloc.instances.readers.cells import (
    Clock,
    GpuCell,
    amount_of,
    duration_s,
    find_zone,
    gpu_cell,
    is_blank,
    memory_mib,
    number_of,
)
from alloc.instances.readers.frames import columns_of, is_parquet, read_columns, read_parquet
from alloc.instances.readers.job_columns import (
    Column,
    Units,
    choose_columns,
    describe,
    parse_map,
)
from alloc.instances.readers.jobs import MAX_DURATION_S, MAX_GPUS, Tasks, TracedJob
from alloc.instances.readers.own_jobs import Common, own_instance
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.readers.table import (
    DELIMITERS,
    Row,
    UnreadableRowError,
    find_delimiter,
    read_header,
    read_table,
)
from alloc.problems.allocation.instance import Instance
from alloc.units import MILLI
from alloc.workload import TaskGroup

_NAMED_DELIMITERS = {"comma": ",", "tab": "\t", "bar": "|", "semicolon": ";"}
# Times are often whole seconds, so that what is derived from them differs by one.
_ROUNDING_S = 1.5
# 1042.batch, 1042_7.extern, 1042+1.0: after its job, else it is a number such as 1042.0.
_STEP = re.compile(r"([0-9]+(?:_[0-9]+)?(?:\+[0-9]+)?)\.(?:batch|extern|interactive|[0-9]+)")
_STILL_RUNNING = ("RUNNING", "R")


def table_instance(
    table: Any,
    *,
    map: str | Mapping[str, str] | None = None,
    timezone: str | None = None,
    time_unit: str | None = None,
    duration_unit: str | None = None,
    gpu_unit: str | None = None,
    states: str | None = None,
    delimiter: str | None = None,
    start: str | None = None,
    **common: Unpack[Common],
) -> tuple[Instance, ReadReport]:
    """Make an instance of a job table of any layout.

    The cluster starts empty: what was submitted before the window and still ran is not there.

    Parameters
    ----------
    table
        Path of a file (CSV, TSV or other separated text, plain or gzip; Parquet), or a DataFrame
        of pandas or polars, a table of pyarrow, a mapping from names to columns, or a list of
        mappings.
    map
        Which column is what: ``"id=JobID,arrival=Submit"`` or a mapping, with the keys of
        `alloc.instances.readers.job_columns.KEYS`. What it does not name is told by the columns'
        names, and the report says how.
    timezone
        Zone of times that name none, for example ``"Europe/Berlin"``; None takes them as they
        stand.
    time_unit, duration_unit
        Unit of times and of durations that are plain numbers: s, ms, us, ns, min, h or d; None: as
        the column's name ends (``runtime_ms``), else seconds.
    gpu_unit
        Unit of GPU counts: gpus, percent or milli; None: gpus, but percent of ``plan_gpu``.
    states
        Keep only jobs that ended in these states, with commas; None: all that ran.
    delimiter
        comma, tab, bar or semicolon, or the character; None: told by the first line.
    start
        Start of the window, as the table writes times; None: the first submission.
    common
        What all readers of one's own jobs can be told: see
        `alloc.instances.readers.own_jobs.Common`.

    Returns
    -------
    Instance, ReadReport
        The instance, and every row that is not in it with the reason.

    Raises
    ------
    InstanceError
        If the table cannot be read, a column is missing, an option makes no sense, or no job is
        left.
    BackendUnavailableError
        If the table is a Parquet file and pyarrow is not installed.
    """
    log = ReportLog()
    units = Units(time_unit, duration_unit, gpu_unit)
    clock = Clock(log, None if timezone is None else find_zone(timezone))
    rows = JobRows(clock, log, state_names(states))
    name = Path(table).name if isinstance(table, str | PathLike) else "table"
    jobs, said = table_jobs(table, rows, parse_map(map), units, delimiter)
    return own_instance(
        jobs,
        log,
        common,
        name=stem(name),
        source={"source": f"job table {name}, a file of the user", "columns": said},
        start_s=None if start is None else start_of(start, rows),
    )


def table_jobs(
    table: Any,
    rows: JobRows,
    given: Mapping[str, str],
    units: Units,
    delimiter: str | None = None,
) -> tuple[list[TracedJob], str]:
    """Return the jobs of a table, and which column is what.

    Parameters
    ----------
    table, delimiter
        As for `table_instance`.
    rows
        Makes jobs of rows, and counts the others.
    given
        Columns that the user named, by key.
    units
        Units that the user gave.
    """
    log, clock = rows.log, rows.clock
    is_file = isinstance(table, str | PathLike)
    name = Path(table).name if is_file else "table"
    if is_file and not is_parquet(table):
        sign = find_delimiter(table) if delimiter is None else _delimiter(delimiter)
        names = read_header(table, delimiter=sign)
        rows.columns = choose_columns(names, given, units, name)
        jobs = read_table(table, (), rows.job, log, delimiter=sign)
    else:
        data = read_parquet(table) if is_file else columns_of(table, name)
        log.files.append(name)
        names = tuple(data)
        rows.columns = choose_columns(names, given, units, name)
        jobs = read_columns(data, rows.job, log)
    said = describe(rows.columns)
    log.notes.append(f"Columns {said}.{_unused(rows.columns, names)}")
    if "gpus_per_task" in rows.columns and "tasks" not in rows.columns:
        log.notes.append(
            f"No column says how many tasks a job has: {rows.columns['gpus_per_task'].name} is "
            "read as the GPUs of its only one. --map tasks=COLUMN names the column."
        )
    if clock.kind == "local":
        log.notes.append(
            "Its times name no zone and are taken as they stand: where clocks change, an hour is "
            "missing or there twice. timezone says the zone."
        )
    return [job for job in jobs if job is not None], said


def stem(name: str) -> str:
    """Return the name of a file without its endings, for the name of an instance."""
    plain = name.removesuffix(".gz")
    return plain.rpartition(".")[0] or plain


def _unused(columns: Mapping[str, Column], names: Sequence[str]) -> str:
    used = {column.name for column in columns.values()}
    unused = [name for name in names if name and name not in used]
    return f" Not used: {', '.join(unused)}." if unused else ""


def _delimiter(text: str) -> str:
    sign = _NAMED_DELIMITERS.get(text, text)
    if sign not in DELIMITERS:
        raise InstanceError(
            f'delimiter is "{text}"{nearest(text, _NAMED_DELIMITERS) or "."} Give one of '
            f"{', '.join(_NAMED_DELIMITERS)}."
        )
    return sign


def state_names(states: str | None) -> frozenset[str] | None:
    """Return the states to keep in capitals, or None for all."""
    if states is None:
        return None
    names = frozenset(name.strip().upper() for name in states.split(",") if name.strip())
    if not names:
        raise InstanceError("states is empty; name states, for example COMPLETED,TIMEOUT.")
    return names


def start_of(text: str, rows: JobRows) -> float:
    """Return the start of a window, written as the table writes arrivals, seconds.

    Parameters
    ----------
    text
        A time, or a number in the unit of the column of arrivals.
    rows
        The table, with its clock.
    """
    try:
        return rows.clock.seconds(text, "start", rows.columns["arrival"].unit, "start")
    except UnreadableRowError as reason:
        raise InstanceError(f'start is "{text}": {reason}.') from None


@dataclass
class JobRows:
    """Makes jobs of rows.

    Parameters
    ----------
    clock
        What times mean.
    log
        Counts jobs that are left out or changed.
    states
        States to keep, or None for all.
    columns
        Which column is what.
    """

    clock: Clock
    log: ReportLog
    states: frozenset[str] | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _ids: set[str] = field(default_factory=set)
    _shapes: dict[tuple[str, ...], tuple[Tasks | None, int, bool]] = field(default_factory=dict)

    @cached_property
    def _shape_columns(self) -> tuple[str, ...]:
        keys = ("gpus", "gpus_per_task", "tasks", "gpu_type", "cpus", "memory")
        return tuple(self.columns[key].name for key in keys if key in self.columns)

    def job(self, row: Row) -> TracedJob | None:
        """Return the job of a row, or None where it is none to be scheduled, and count it."""
        id = self._id(row)
        if (step := _STEP.fullmatch(id)) and step[1] in self._ids:
            self.log.drop("a step of a job of Slurm, not a job", id)
            return None
        self._ids.add(id)
        if id in self._seen:
            raise UnreadableRowError(f"{self.columns['id'].name} appears before")
        state = self._state(row)
        if self.states is not None and state not in self.states:
            self._drop(f"state {state or 'unknown'} is not wanted", id)
            return None
        tasks, num_gpus = self._tasks(row, id)
        if not num_gpus:
            self._drop("asks for no GPU", id)
            return None
        submit_s = self._time(row, "arrival", id)
        if submit_s is None:
            raise UnreadableRowError(f"{self.columns['arrival'].name} is empty")
        duration = self._duration(row, id, submit_s)
        if duration is None:
            self._drop("has no run time: it has not run, or not ended", id)
            return None
        if duration == 0:
            self._drop("ran for no time", id)
            return None
        if duration > MAX_DURATION_S:
            raise UnreadableRowError("runs for more than a century; set duration_unit")
        if state in _STILL_RUNNING:
            self.log.alter("still ran when the table was taken; its run time so far", id)
        deadline_s = self._time(row, "deadline", id)
        if deadline_s is not None and deadline_s <= submit_s:
            raise UnreadableRowError(f"{self.columns['deadline'].name} is not after submission")
        self._seen.add(id)
        return TracedJob(
            id=id,
            submit_s=submit_s,
            duration_s=duration,
            num_gpus=num_gpus,
            tenant=self._text(row, "tenant"),
            model=self._text(row, "model"),
            deadline_s=deadline_s,
            tasks=tasks,
            weight=self._weight(row),
        )

    def _id(self, row: Row) -> str:
        # Any text but none is a name, "none" too.
        found = row.values[self.columns["id"].name] if "id" in self.columns else ""
        return found or f"line-{row.line}"

    def _drop(self, reason: str, id: str) -> None:
        self._seen.add(id)
        self.log.drop(reason, id)

    def _text(self, row: Row, key: str) -> str | None:
        """Return a cell with a value, or None."""
        if key not in self.columns:
            return None
        text = row.values[self.columns[key].name]
        return None if not text or is_blank(text) else text

    def _state(self, row: Row) -> str | None:
        # "CANCELLED by 1000"
        text = self._text(row, "state")
        return None if text is None else text.split()[0].upper()

    def _weight(self, row: Row) -> float:
        text = self._text(row, "weight")
        if text is None:
            return 1.0
        name = self.columns["weight"].name
        weight = number_of(text, name)
        if weight <= 0:
            raise UnreadableRowError(f"{name} is not above 0")
        return weight

    def _time(self, row: Row, key: str, id: str) -> float | None:
        text = self._text(row, key)
        if text is None:
            return None
        column = self.columns[key]
        return self.clock.seconds(text, column.name, column.unit, id)

    def _duration(self, row: Row, id: str, submit_s: float) -> float | None:
        """Return the run time without waiting, or None where nothing says it."""
        start_s, end_s = self._time(row, "start", id), self._time(row, "end", id)
        span = None if start_s is None or end_s is None else end_s - start_s
        if span is not None and span < 0:
            raise UnreadableRowError("ends before it starts")
        if start_s is not None and start_s < submit_s:
            self.log.alter("starts before its submission, which stays its arrival", id)
        text = self._text(row, "duration")
        if text is None:
            return span
        column = self.columns["duration"]
        said = duration_s(text, column.name, column.unit)
        if said < 0:
            raise UnreadableRowError(f"{column.name} is below 0")
        if span is None or end_s is None or abs(said - span) <= _ROUNDING_S:
            return said
        if abs(said - (end_s - submit_s)) <= _ROUNDING_S:
            self.log.alter(f"{column.name} includes waiting; end less start is taken", id)
            return span
        self.log.alter(f"{column.name} is not end less start, and is taken", id)
        return said

    def _tasks(self, row: Row, id: str) -> tuple[Tasks | None, int]:
        """Return what runs on the hosts, and the GPUs that it holds, whole ones."""
        # Jobs ask for the same few things over and over.
        cells = tuple(row.values[name] for name in self._shape_columns)
        if cells not in self._shapes:
            self._shapes[cells] = self._shape(row)
        tasks, whole, divides = self._shapes[cells]
        if not divides:
            self.log.alter("its GPUs do not divide among its tasks, which are not used", id)
        return tasks, whole

    def _shape(self, row: Row) -> tuple[Tasks | None, int, bool]:
        """Return the tasks, their GPUs, and whether the GPUs divide among the tasks named."""
        per_task = "gpus_per_task" in self.columns
        column = self.columns["gpus_per_task" if per_task else "gpus"]
        cell = gpu_cell(row.values[column.name], column.name, column.unit)
        if not cell.gpu_milli:
            return None, 0, True
        count = self._count(row)
        if count is None:
            count = 1 if per_task else cell.tasks
        total = cell.gpu_milli * (count or 1) if per_task else cell.gpu_milli
        if total > MAX_GPUS * MILLI:
            raise UnreadableRowError(f"{column.name} is above {MAX_GPUS} GPUs; set gpu_unit")
        divides = count is None or _divides(count, total)
        whole = -(-total // MILLI)
        if count is None or not divides:
            if total % MILLI and total > MILLI:
                raise UnreadableRowError(f"{column.name} is a share of several GPUs")
            count = 1 if total < MILLI else whole
        types = (self._text(row, "gpu_type") or cell.gpu_type or "").split("|")
        gpu_types = tuple(sorted({name.strip() for name in types} - {""}))
        cpu, memory = self._cpu_and_memory(row, cell)
        tasks = Tasks(count, total // count, -(-cpu // count), -(-memory // count), gpu_types)
        # What no task can ask for spoils its row.
        TaskGroup("worker", count, tasks.gpu_milli, tasks.cpu_milli, tasks.memory_mib)
        return tasks, whole, divides

    def _count(self, row: Row) -> int | None:
        text = self._text(row, "tasks")
        if text is None:
            return None
        name = self.columns["tasks"].name
        count = number_of(text, name)
        if not count.is_integer() or not 1 <= count <= MAX_GPUS:
            raise UnreadableRowError(f"{name} is not a whole number of 1 or more")
        return int(count)

    def _cpu_and_memory(self, row: Row, cell: GpuCell) -> tuple[int, int]:
        cpu, memory = cell.cpu_milli or 0, cell.memory_mib or 0
        if (text := self._text(row, "cpus")) is not None:
            cpu = round(amount_of(text, self.columns["cpus"].name) * MILLI)
        if (text := self._text(row, "memory")) is not None:
            memory = memory_mib(text, self.columns["memory"].name)
        return cpu, memory


def _divides(count: int, total: int) -> bool:
    """Return whether so many equal tasks can hold so many thousandths of a GPU."""
    each, rest = divmod(total, count)
    return not rest and each > 0 and (each % MILLI == 0 or each < MILLI)
