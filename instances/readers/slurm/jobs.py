"""Slurm's accounting: ``sacct --parsable2`` and ``sacct --json``; its queue: ``squeue --json``.

References
----------
SchedMD. sacct(1), squeue(1). https://slurm.schedmd.com/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from alloc.documents.files import read_bytes
from alloc.documents.parsing import parse_json
from alloc.errors import InstanceError
from alloc.instances.readers.cells import Clock, find_zone
from alloc.instances.readers.job_columns import Column, Units
from alloc.instances.readers.job_table import (
    JobRows,
    start_of,
    state_names,
    stem,
    table_jobs,
)
from alloc.instances.readers.jobs import TracedJob
from alloc.instances.readers.own_jobs import Common, own_instance
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.readers.slurm.queue import is_queue, number_in, queue_instance
from alloc.instances.readers.table import Row, UnreadableRowError, find_delimiter, is_json
from alloc.problems.allocation.instance import Instance

_JSON_COLUMNS = {
    "id": Column("job_id"),
    "tenant": Column("account"),
    "state": Column("state"),
    "arrival": Column("submission"),
    "start": Column("start"),
    "end": Column("end"),
    "duration": Column("elapsed"),
    "gpus": Column("tres"),
}


def slurm_instance(
    path: str | PathLike[str],
    *,
    timezone: str | None = None,
    states: str | None = None,
    start: str | None = None,
    nodes: str | PathLike[str] | None = None,
    accounts: str | PathLike[str] | None = None,
    **common: Unpack[Common],
) -> tuple[Instance, ReadReport]:
    """Make an instance of Slurm's accounting or of its queue.

    Accounting is a history: jobs arrive when they were submitted, at an empty cluster. A queue is a
    moment: what runs is on its hosts, what waits is there from the start, and the cluster must be
    given.

    Parameters
    ----------
    path
        What ``sacct --parsable2`` (with the columns JobID, Submit, Start, End, Elapsed, AllocTRES
        and, if wanted, State, Account, NNodes), ``sacct --json`` or ``squeue --json`` printed.
        Plain or gzip.
    timezone
        Zone of the times of ``--parsable2``, which name none; JSON has none to say.
    states
        Keep only jobs that ended in these states, with commas; None: all that ran. Not of a queue.
    start
        Start of the window, as the file writes times. Not of a queue.
    nodes
        Of a queue: what ``scontrol show nodes --json`` printed, with states, CPU, memory and
        partitions; it may stand for the topology.
    accounts
        Of a queue: what ``sacctmgr show associations format=account,user,grptres --parsable2``
        printed; limits on GPUs become quotas.
    common
        What all readers of one's own jobs can be told: see
        `alloc.instances.readers.own_jobs.Common`.

    Raises
    ------
    InstanceError
        If the file is none of the three, an option makes no sense, or no job is left.
    """
    log = ReportLog()
    name = Path(path).name
    clock = Clock(log, None if timezone is None else find_zone(timezone))
    rows = JobRows(clock, log, state_names(states))
    if not is_json(path):
        if find_delimiter(path) != "|":
            raise InstanceError(
                f"{name}: is neither JSON nor text with bars; take it with sacct --parsable2, "
                "sacct --json or squeue --json."
            )
        jobs, said = table_jobs(path, rows, {}, Units(), "bar")
    else:
        if timezone is not None:
            raise InstanceError(f"{name}: JSON of Slurm has times in UTC; leave timezone out.")
        document = _document(path)
        if not document["jobs"] and (nodes is not None or accounts is not None):
            raise InstanceError(
                f'{name}: its list "jobs" is empty, and with no job there is nothing to ask; take '
                "it when jobs run or wait."
            )
        if is_queue(document):
            if states is not None or start is not None:
                raise InstanceError(f"{name}: is a queue, a moment; leave states and start out.")
            return queue_instance(document, log, common, name, nodes=nodes, accounts=accounts)
        rows.columns = _JSON_COLUMNS
        jobs, said = _accounted(document, rows, name), "those of sacct --json"
    if nodes is not None or accounts is not None:
        raise InstanceError(f"{name}: is a history; leave nodes and accounts, of a moment, out.")
    return own_instance(
        jobs,
        log,
        common,
        name=stem(name),
        source={"source": f"Slurm accounting {name}, a file of the user", "columns": said},
        start_s=None if start is None else start_of(start, rows),
    )


def _document(path: str | PathLike[str]) -> Mapping[str, Any]:
    document = parse_json(read_bytes(path), str(path))
    if not isinstance(document, dict) or not isinstance(document.get("jobs"), list):
        raise InstanceError(
            f'{path}: has no list "jobs"; take it with sacct --json or squeue --json.'
        )
    return document


def _accounted(document: Mapping[str, Any], rows: JobRows, name: str) -> list[TracedJob]:
    """Return the jobs of ``sacct --json``."""
    rows.log.files.append(name)
    found: list[TracedJob] = []
    read = 0
    for position, job in enumerate(document["jobs"], start=1):
        try:
            cells = {name: text.strip() for name, text in _cells(job)}
            made = rows.job(Row(position, cells))
        except (UnreadableRowError, InstanceError) as reason:
            id = job.get("job_id") if isinstance(job, dict) else job
            rows.log.skip(str(reason), position, f"job {id}")
            continue
        read += 1
        if made is not None:
            found.append(made)
    rows.log.rows_read += read
    return found


def _cells(job: Any) -> Iterator[tuple[str, str]]:
    """Yield what a job of ``sacct --json`` says, as the cells of a table."""
    if not isinstance(job, dict):
        raise UnreadableRowError("is no object")
    time, tres = job.get("time"), job.get("tres")
    if not isinstance(time, dict) or not isinstance(tres, dict):
        raise UnreadableRowError("has no time or tres; take it with sacct --json")
    state = job.get("state")
    current = state.get("current") if isinstance(state, dict) else state
    yield "job_id", str(job.get("job_id", ""))
    yield "account", str(job.get("account") or "")
    yield "state", str(current[0] if isinstance(current, list) and current else current or "")
    for key in ("submission", "start", "end"):
        # Zero is the time of what has not happened.
        yield key, str(number_in(time.get(key)) or "")
    elapsed = number_in(time.get("elapsed"))
    yield "elapsed", "" if elapsed is None or not number_in(time.get("start")) else str(elapsed)
    yield "tres", _tres_text(tres.get("allocated") or tres.get("requested") or [])


def _tres_text(items: Any) -> str:
    """Return a list of trackable resources as Slurm's text has it."""
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise UnreadableRowError("tres is no list of resources")
    parts = []
    for item in items:
        kind, name, count = item.get("type"), item.get("name"), item.get("count")
        unit = "M" if kind == "mem" else ""
        parts.append(f"{kind}/{name}={count}" if name else f"{kind}={count}{unit}")
    return ",".join(parts)
