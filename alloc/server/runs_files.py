"""Runs about files: ``inspect-files`` and ``read-files``, in a worker process.

Parameters
----------
request
    What is asked.
tell
    Takes lines of progress.
limits
    What the server allows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from alloc.documents import format_of
from alloc.documents.files import read_bytes
from alloc.documents.parsing import parse_json
from alloc.errors import InstanceError, nearest
from alloc.instances.readers.job_columns import KEYS, Column
from alloc.instances.readers.options import Option
from alloc.instances.readers.registry import READERS, read_instance
from alloc.instances.readers.report import ReadReport
from alloc.instances.readers.slurm.nodes import read_slurm_nodes
from alloc.instances.readers.slurm.queue import is_queue
from alloc.instances.readers.table import is_json
from alloc.instances.topologies import read_topology
from alloc.problems.allocation.instance import Instance
from alloc.server.operations import Limits, Tell
from alloc.server.problems import blame
from alloc.server.requests_files import ROLES, InspectFilesRequest, ReadFilesRequest
from alloc.server.uploads import Columns, Upload, columns_of, laid_out
from alloc.topology import Topology

_JOBS = ("kubernetes", "slurm", "table", "swf")
"""Roles of files with jobs, which are the names of their readers."""
_AS_COLUMNS = "map"
"""The option that a request has as its field ``columns``."""
_MAX_SHOWN = 200
"""Columns that are listed: more than any table of jobs has, and few enough for a page."""
_MAX_NAMED = 20
"""Columns that a sentence names."""


def run_inspect_files(request: InspectFilesRequest, tell: Tell, limits: Limits) -> dict[str, Any]:
    """Return what files are, the columns of a job table, and the options of the reader."""
    with laid_out(request.files) as uploads:
        files = [_inspected(upload, request.columns) for upload in uploads]
        kind = _reader_of(uploads)
    return {
        "schema_version": 1,
        "kind": "inspection",
        "files": files,
        "roles": dict(ROLES),
        "keys": dict(KEYS),
        "options": [] if kind is None else [_option_document(one) for one in _options(kind)],
    }


def run_read_files(request: ReadFilesRequest, tell: Tell, limits: Limits) -> str:
    """Return the instance or topology of files, with the account of what is not in it."""
    with laid_out(request.files) as uploads:
        tell(f"reading {', '.join(str(upload.path) for upload in uploads)}")
        kind = _reader_of(uploads)
        with blame("/host_type" if request.host_type else "/files"):
            topology, account = _topology(uploads, request.host_type)
        if kind is None:
            return _written(_reading(topology, account, None), limits.max_body_bytes)
        with blame("/options"):
            options = _given(kind, request.options)
        columns = None
        path = next(upload.path for upload in uploads if upload.role == kind)
        if kind == "table":
            options[_AS_COLUMNS] = request.columns or None
            # Told how its cells are parted, the reader itself says which columns it misses.
            if "delimiter" not in options:
                with blame("/columns"):
                    columns = _require_columns(path, request.columns)
        beside = _beside(uploads, kind)
        with blame("/files"):
            if topology is None and "nodes" in beside and beside["nodes"] is None:
                _require_history(path)
            made, jobs = read_instance(kind, str(path), topology=topology, **options, **beside)
    if account is not None:
        jobs = replace(jobs, also=(*jobs.also, account))
    return _written(_reading(made, jobs, columns), limits.max_body_bytes)


def _reader_of(uploads: Sequence[Upload]) -> str | None:
    """Return the reader of the files' jobs, or None where they are a cluster only."""
    roles = [upload.role for upload in uploads]
    kinds = [kind for kind in _JOBS if kind in roles]
    with blame("/files"):
        if len(kinds) > 1:
            raise InstanceError(
                f"the files hold jobs in {len(kinds)} ways ({', '.join(kinds)}); give those of one."
            )
        for role in ("topology", "slurm-nodes", "slurm-accounts", *kinds):
            if roles.count(role) > 1 and role != "kubernetes":
                raise InstanceError(
                    f"{roles.count(role)} of the files are {ROLES[role]}; give one of them."
                )
        for role in ("slurm-nodes", "slurm-accounts"):
            if role in roles and kinds != ["slurm"]:
                raise InstanceError(
                    f"one of the files is {ROLES[role]}, which goes with squeue --json; add that."
                )
    return kinds[0] if kinds else None


def _beside(uploads: Sequence[Upload], kind: str) -> dict[str, Any]:
    """Return the options of a reader that are files."""
    paths: dict[str, list[str]] = {}
    for upload in uploads:
        paths.setdefault(upload.role, []).append(str(upload.path))
    if kind == "kubernetes":
        return {"more": paths["kubernetes"][1:] or None}
    if kind == "slurm":
        nodes, accounts = (paths.get(f"slurm-{name}", [None])[0] for name in ("nodes", "accounts"))
        return {"nodes": nodes, "accounts": accounts}
    return {}


def _topology(
    uploads: Sequence[Upload], host_type: str | None
) -> tuple[Topology | None, ReadReport | None]:
    """Return the cluster of a topology file; of Slurm's nodes it takes what hosts are."""
    path = next((upload.path for upload in uploads if upload.role == "topology"), None)
    if path is None:
        if host_type is not None:
            raise InstanceError("host_type is of a topology file; add one, or leave it out.")
        return None, None
    hosts: Any = host_type
    nodes = next((upload.path for upload in uploads if upload.role == "slurm-nodes"), None)
    if host_type is None and nodes is not None:
        hosts = {name: node.kind for name, node in read_slurm_nodes(nodes)[0].items()}
    try:
        return read_topology(path, host_type=hosts)
    except InstanceError as error:
        if hosts is None and "host_type" in str(error):
            raise InstanceError(
                f"{path}: does not say what its hosts are; name their machine, such as dgx-h100 "
                "or 4x-t4."
            ) from None
        raise


def _options(kind: str) -> list[Option]:
    """Return the options of a reader that a request may set: none of them names a file."""
    return [
        option
        for option in READERS[kind].options
        if not option.is_path and option.name != _AS_COLUMNS
    ]


def _given(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    known = {option.name: option for option in _options(kind)}
    for name in options:
        if name not in known:
            raise InstanceError(
                f'"{name}" is no option of these files{nearest(name, known) or "."} They have '
                f"{', '.join(known)}."
            )
    return {name: known[name].convert(_text(value)) for name, value in options.items()}


def _text(value: str | float) -> str:
    """Return a value as it is typed: the option says what it is to be."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _require_columns(path: Path, given: Mapping[str, str]) -> Columns:
    """Return the columns of a job table, if it has all that every job needs."""
    columns = columns_of(path, given)
    if columns.missing:
        known = ", ".join(f'"{name[:40]}"' for name in columns.header[:_MAX_NAMED])
        more = "" if len(columns.header) <= _MAX_NAMED else " ..."
        raise InstanceError(
            f"{path}: no column looks like the {' or the '.join(columns.missing)} of jobs; name "
            f"it. Its columns are {known}{more}."
        )
    return columns


def _require_history(path: Path) -> None:
    """Refuse a queue of Slurm that comes without its cluster."""
    document = parse_json(read_bytes(path), str(path)) if is_json(path) else None
    if not isinstance(document, dict) or not isinstance(document.get("jobs"), list):
        return  # The reader says what it is.
    if is_queue(document):
        raise InstanceError(
            f"{path}: a queue does not say what the cluster is; add what scontrol show nodes "
            "--json printed, or a topology file."
        )


def _reading(
    made: Instance | Topology | None, account: ReadReport | None, columns: Columns | None
) -> dict[str, Any]:
    """Return the document of a reading: the instance, or where there are no jobs the topology."""
    if made is None or account is None:
        with blame("/files"):
            raise InstanceError("the files hold neither jobs nor a cluster; add one of them.")
    whole = isinstance(made, Instance)
    return {
        "schema_version": 1,
        "kind": "reading",
        "headline": _headline(made, account),
        "instance": format_of("instance").encode(made) if whole else None,
        "topology": None if whole else format_of("topology").encode(made),
        "columns": None if columns is None else _columns_document(columns),
        "report": account.as_dict(),
    }


def _written(reading: dict[str, Any], max_bytes: int) -> str:
    """Return a reading as JSON, unless it is larger than what the server takes back as a problem.

    Small compressed files can hold millions of rows, and what serves has to load the reading.
    """
    text = json.dumps(reading, ensure_ascii=False, allow_nan=False)
    size = len(text.encode())
    if size > max_bytes:
        with blame("/files"):
            raise InstanceError(
                f"the files make a document of {size:,} bytes, and this server takes problems of "
                f"at most {max_bytes:,}; read fewer jobs (max_jobs, length_s), or raise its limit."
            )
    return text


def _headline(made: Instance | Topology, account: ReadReport) -> str:
    """Return in a sentence what was read, and how much was left out."""
    topology = made.topology if isinstance(made, Instance) else made
    cluster = f"{_count(topology.num_gpus, 'GPU')} on {_count(topology.num_hosts, 'host')}"
    if isinstance(made, Topology):
        return f"A cluster of {cluster}."
    rows = account.rows_read + account.rows_skipped
    left = account.rows_skipped + account.num_dropped
    running = f" ({len(made.running):,} running)" if made.running else ""
    lost = f"{left:,} of {_count(rows, 'row')} left out" if left else "nothing left out"
    return f"{_count(len(made.jobs), 'job')}{running} for {cluster}; {lost}."


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def _inspected(upload: Upload, given: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": str(upload.path), "role": upload.role, "columns": None}
    if upload.role == "table":
        with blame("/columns" if given else "/files"):
            found["columns"] = _columns_document(columns_of(upload.path, given))
    return found


def _columns_document(columns: Columns) -> dict[str, Any]:
    return {
        "header": list(columns.header[:_MAX_SHOWN]),
        "missing": list(columns.missing),
        "chosen": [_column_document(key, one) for key, one in columns.chosen.items()],
    }


def _column_document(key: str, column: Column) -> dict[str, Any]:
    return {"is": key, "column": column.name, "unit": column.unit, "guessed": column.guessed}


def _option_document(option: Option) -> dict[str, Any]:
    return {
        "name": option.name,
        "type": option.type.__name__,
        "help": option.help,
        "choices": list(option.choices),
        "default": option.default,
    }
