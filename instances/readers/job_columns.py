"""Columns of job tables: which one is what, as the user says or as their names tell.

The names known are those of Slurm, Kubernetes and the published traces of Philly, Helios, Acme, ITP
and Alibaba.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alloc.errors import InstanceError, nearest
from alloc.instances.readers.cells import UNITS_S

KEYS: Mapping[str, str] = {
    "id": "name of the job, unique; by default the line number",
    "arrival": "submission",
    "start": "start of the run",
    "end": "end of the run",
    "duration": "run time without waiting; by default end less start",
    "gpus": "GPUs of the whole job: a number, or Slurm's list of resources",
    "tasks": "equal tasks of the job, each on one host: nodes, pods, workers",
    "gpus_per_task": "GPUs of one task, instead of gpus",
    "gpu_type": "GPU type, several with | between them",
    "cpus": "CPU cores of the whole job",
    "memory": "host memory of the whole job, such as 200G; plain numbers are MiB",
    "tenant": "tenant, account, queue or virtual cluster",
    "model": "what is trained",
    "state": "how the job ended",
    "deadline": "when it should be done",
    "weight": "importance, above 0",
}
"""What a column can be, and what it means."""

_TIMES = ("arrival", "start", "end", "deadline")

_NODES = ("nnodes", "numnodes", "nodenum", "nodecount", "allocnodes", "nodes")
_WORKERS = ("workernum", "numworkers", "instnum", "replicas", "workers")
_TASKS = ("tasks", "numtasks", "ntasks")
# What multiplies GPUs of each node is no number of workers, nor the other way round.
_COUNTED = {
    **{"gpuspertask": _TASKS, "gpusperworker": _WORKERS},
    **dict.fromkeys(("gpuspernode", "trespernode", "gres", "reqgres"), _NODES),
}

# By key the names to look for, as _plain writes them, the best first.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("jobid", "jobidraw", "id", "uid", "instid", "jobname", "name"),
    "arrival": (
        *("submit", "submittime", "submissiontime", "submittedtime", "submittedat", "submitted"),
        *("arrival", "arrivaltime", "creationtime", "creationtimestamp", "createdat", "created"),
        *("gmtcreated", "queuedat", "timestamp"),
    ),
    "start": (
        *("start", "starttime", "started", "startedat", "scheduledtime", "gmtpodrunning"),
        "begin",
    ),
    "end": (
        *("end", "endtime", "ended", "endedat", "completiontime", "completedat", "deletiontime"),
        *("finish", "finishtime", "finished", "finishedat", "gmtpodfinished"),
    ),
    "duration": ("elapsedraw", "elapsed", "duration", "runtime", "runningtime", "executiontime"),
    "gpus": (
        *("gpus", "numgpus", "numgpu", "gpunum", "ngpus", "gpucount", "gpu"),
        *("alloctres", "tres", "allocgres", "reqtres"),
    ),
    "gpus_per_task": (
        *("gpuspertask", "gpusperworker", "gpuspernode", "trespernode", "gpurequest", "plangpu"),
        # What Slurm's --gres asks for is of each node.
        *("gres", "reqgres"),
    ),
    # Beside GPUs of the whole job, ntasks may be processes that share them.
    "tasks": (*_NODES, *_WORKERS, "tasks"),
    "gpu_type": ("gputype", "gpumodel", "gpuspec", "accelerator", "acceleratortype"),
    "cpus": ("ncpus", "alloccpus", "reqcpus", "cpunum", "numcpus", "cpus"),
    "memory": (),
    "tenant": (
        *("tenant", "account", "vc", "virtualcluster", "clusterqueue", "localqueue", "queuename"),
        *("namespace", "project", "organization", "group", "cluster"),
    ),
    "model": ("model", "modelname"),
    "state": ("state", "jobstate", "status", "phase"),
    "deadline": ("deadline", "duedate"),
    "weight": ("weight",),
}

# Alibaba's tables count in hundredths.
_IN_PERCENT = ("plangpu",)
_WORDS = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "ms": ("ms", "msec", "milliseconds"),
    "us": ("us", "microseconds"),
    "ns": ("ns", "nanoseconds"),
    "min": ("min", "mins", "minutes"),
    "h": ("h", "hr", "hrs", "hours"),
    "d": ("d", "days"),
}
_UNIT_OF = {word: unit for unit, words in _WORDS.items() for word in words}
_UNIT = re.compile(rf"[\s_.(\[-]+({'|'.join(_UNIT_OF)})[)\]]?$", re.IGNORECASE)

GPU_UNITS = {"gpus": 1.0, "percent": 0.01, "milli": 0.001}
"""Units of GPU counts, GPUs."""


@dataclass(frozen=True)
class Column:
    """A column of a job table.

    Parameters
    ----------
    name
        Its name in the file.
    unit
        Seconds, or GPUs, that the number 1 in it stands for.
    guessed
        Whether its name told, and not the user.
    """

    name: str
    unit: float = 1.0
    guessed: bool = True


@dataclass(frozen=True)
class Units:
    """Units that the user gives; None: by the column's name, else seconds and whole GPUs.

    Parameters
    ----------
    time, duration
        Names in `alloc.instances.readers.cells.UNITS_S`.
    gpu
        A name in `GPU_UNITS`.
    """

    time: str | None = None
    duration: str | None = None
    gpu: str | None = None

    def __post_init__(self) -> None:
        for name, value, known in (
            ("time_unit", self.time, UNITS_S),
            ("duration_unit", self.duration, UNITS_S),
            ("gpu_unit", self.gpu, GPU_UNITS),
        ):
            if value is not None and value not in known:
                raise InstanceError(
                    f'{name} is "{value}"{nearest(value, known) or "."} Give one of '
                    f"{', '.join(known)}."
                )

    def of(self, key: str, column: str) -> float:
        """Return the unit of a column that is used for a key.

        Parameters
        ----------
        key
            What the column is used for, such as ``duration``.
        column
            Its name in the table.
        """
        if key in ("gpus", "gpus_per_task"):
            if self.gpu is not None:
                return GPU_UNITS[self.gpu]
            return GPU_UNITS["percent" if _plain(column) in _IN_PERCENT else "gpus"]
        if key != "duration" and key not in _TIMES:
            return 1.0
        given = self.duration if key == "duration" else self.time
        return UNITS_S[given or _unit_in(column) or "s"]


def parse_map(given: str | Mapping[str, str] | None) -> dict[str, str]:
    """Return the column of each key that the user named.

    Parameters
    ----------
    given
        ``"id=JobID,arrival=Submit"``, or a mapping; None: nothing.

    Raises
    ------
    InstanceError
        If a key is unknown, comes twice or has no column.
    """
    if given is None:
        return {}
    if isinstance(given, str):
        pairs = [pair.partition("=")[::2] for pair in given.split(",") if pair.strip()]
    else:
        pairs = [(str(key), str(column)) for key, column in given.items()]
    found: dict[str, str] = {}
    for key, column in ((key.strip(), column.strip()) for key, column in pairs):
        if key not in KEYS:
            raise InstanceError(
                f'map: "{key}" is nothing that a column can be{nearest(key, KEYS) or "."} '
                f"Known are {', '.join(KEYS)}."
            )
        if not column:
            raise InstanceError(f'map: "{key}" has no column; write {key}=COLUMN.')
        if key in found:
            raise InstanceError(f'map: "{key}" is named twice; name one column for it.')
        found[key] = column
    return found


def choose_columns(
    header: Sequence[str], given: Mapping[str, str], units: Units, file: str
) -> dict[str, Column]:
    """Return the column of each key, as the user said or by its name.

    A column that the user named for one key is not guessed for another.

    Parameters
    ----------
    header
        Names of the columns.
    given
        What `parse_map` returned.
    units
        Units that the user gave.
    file
        The file, for messages.

    Raises
    ------
    InstanceError
        If a named column is not there, or none is found for what every job needs.
    """
    for key, name in given.items():
        if name not in header:
            raise InstanceError(
                f'{file}: has no column "{name}" for {key}{nearest(name, header) or "."} '
                f"Its columns are {_listed(header)}."
            )
    chosen = {key: Column(name, units.of(key, name), False) for key, name in given.items()}
    unnamed = [name for name in reversed(header) if name not in given.values()]
    free = {_plain(name): name for name in unnamed}
    without_unit = {_plain(_UNIT.sub("", name.strip())): name for name in unnamed}
    for key, names in _NAMES.items():
        if key in chosen or _is_said_otherwise(key, chosen):
            continue
        if key == "tasks" and "gpus_per_task" in chosen:
            names = _COUNTED.get(_plain(chosen["gpus_per_task"].name), names)
        # gpu_hours is no count of GPUs.
        by_name = without_unit if key == "duration" or key in _TIMES else free
        found = next((by_name[known] for known in names if known in by_name), None)
        if found is not None:
            chosen[key] = Column(found, units.of(key, found))
    _require(chosen, header, file)
    return chosen


def _is_said_otherwise(key: str, chosen: Mapping[str, Column]) -> bool:
    """Return whether another column says what a key would."""
    return (key == "gpus" and "gpus_per_task" in chosen) or (
        key == "gpus_per_task" and "gpus" in chosen
    )


def _require(chosen: Mapping[str, Column], header: Sequence[str], file: str) -> None:
    """Refuse a table without what every job needs."""
    wanted = (
        ("arrival", ("arrival",), "arrival=COLUMN, the submission"),
        ("duration", ("duration",), "duration=COLUMN, or start=COLUMN,end=COLUMN"),
        ("gpus", ("gpus", "gpus_per_task"), "gpus=COLUMN, or gpus_per_task=COLUMN,tasks=COLUMN"),
    )
    for what, keys, cure in wanted:
        if any(key in chosen for key in keys):
            continue
        if what == "duration" and {"start", "end"} <= chosen.keys():
            continue
        raise InstanceError(
            f"{file}: no column looks like the {what}; say which it is with map {cure}. Its "
            f"columns are {_listed(header)}."
        )


def describe(columns: Mapping[str, Column]) -> str:
    """Return which column is what in a sentence, and what of it is a guess."""

    def said(key: str) -> str:
        column = columns[key]
        units = GPU_UNITS if key in ("gpus", "gpus_per_task") else UNITS_S
        unit = next(name for name, value in units.items() if value == column.unit)
        return f"{key}={column.name}" + ("" if column.unit == 1.0 else f" ({unit})")

    named = [said(key) for key in KEYS if key in columns and not columns[key].guessed]
    guessed = [said(key) for key in KEYS if key in columns and columns[key].guessed]
    parts = [("as told", named), ("by their names", guessed)]
    return "; ".join(f"{how}: {', '.join(pairs)}" for how, pairs in parts if pairs)


def _plain(name: str) -> str:
    """Return a column name without case and signs."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _unit_in(name: str) -> str | None:
    """Return the unit that a column name ends in, or None."""
    found = _UNIT.search(name.strip())
    return None if found is None else _UNIT_OF[found[1].lower()]


def _listed(header: Sequence[str]) -> str:
    shown = ", ".join(f'"{name[:40]}"' for name in header[:40])
    return shown if len(header) <= 40 else f"{shown} and {len(header) - 40} more"
