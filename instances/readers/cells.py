"""Cells of job tables: times, durations and GPU counts as schedulers write them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from alloc.errors import InstanceError, nearest
from alloc.instances.readers.report import ReportLog
from alloc.instances.readers.table import UnreadableRowError
from alloc.units import MILLI

UNITS_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Units of time, seconds."""

BLANK = frozenset(
    ("", "unknown", "none", "null", "(null)", "nan", "nat", "n/a", "na", "-", "<na>", "invalid")
)
"""What stands in a cell without a value, in small letters."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_EPOCH = datetime(1970, 1, 1)
# Year 5000: what is beyond as seconds is in a smaller unit.
_LATEST_S = 1e11
_MOMENT = re.compile(
    r"([0-9]{4})[-/]([0-9]{1,2})[-/]([0-9]{1,2})(?:[T ]+([0-9]{1,2}):([0-9]{2})"
    r"(?::([0-9]{2})(\.[0-9]+)?)?)? ?(Z|UTC|GMT|[+-][0-9]{2}:?(?:[0-9]{2})?)?",
    re.ASCII,
)
# [D-]HH:MM:SS of Slurm; "1 day, 2:03:04" and "0 days 02:03:04" of Python and pandas.
_CLOCK = re.compile(
    r"(?:([0-9]{1,9})(?:-| days?,? +))?([0-9]{1,9}):([0-9]{2}):([0-9]{2}(?:\.[0-9]{1,9})?)",
    re.ASCII,
)
_DAYS_AND_HOURS = re.compile(r"([0-9]{1,9})-([0-9]{1,2})(?::([0-9]{2}))?", re.ASCII)
_SPOKEN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(d|h|min|m|sec|s|ms)(?![a-z])\s*", re.ASCII)
_GPU_ITEM = re.compile(
    r"(?:gres[/:]|nvidia\.com/|amd\.com/)?gpu(?::(?P<type>[A-Za-z][\w.-]*))?"
    r"(?:[:=](?P<count>[0-9]{1,9}))?",
    re.ASCII | re.IGNORECASE,
)
# Names GPUs, in a way that is not read: cut off ("gpu+" in a narrow column of sacct), or unknown.
_GPU_SOMEHOW = re.compile(r"(?:.*[/:])?gpus?(?:[\s:=+]|$)", re.IGNORECASE)
_MIG = re.compile(r"gpu:[^,=]*[0-9]g\.[0-9]+gb", re.ASCII)
_TYPED = re.compile(r"(?P<type>[A-Za-z][\w.-]*):(?P<count>[0-9]{1,9})", re.ASCII)
# In any unit; times a thousand it is still a number.
_MAX_AMOUNT = 1e15
_COUNT = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_MEMORY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([KMGTP]?)i?B?", re.ASCII)
_MEMORY_MIB = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}


def is_blank(text: str) -> bool:
    """Return whether a cell holds no value."""
    return text.lower() in BLANK


def number_of(text: str, column: str) -> float:
    """Return a finite number.

    Parameters
    ----------
    text
        The cell.
    column
        Name of its column, for messages.
    """
    if not _NUMBER.fullmatch(text):
        raise UnreadableRowError(f"{column} is not a number")
    number = float(text)
    if not math.isfinite(number):
        raise UnreadableRowError(f"{column} is not finite")
    return number


def duration_s(text: str, column: str, unit_s: float) -> float:
    """Return a length of time, seconds.

    Parameters
    ----------
    text
        A number in the unit of the column; ``D-HH:MM:SS`` or ``HH:MM:SS``; ``1 day, 2:03:04``; or
        ``1h30m``.
    column
        Its name, for messages.
    unit_s
        Unit of plain numbers, seconds.
    """
    if _NUMBER.fullmatch(text):
        return number_of(text, column) * unit_s
    if found := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = found.groups(default="0")
        if int(minutes) > 59 or float(seconds) >= 60:
            raise UnreadableRowError(f"{column} has more than 59 minutes or seconds")
        if found[1] is not None and int(hours) > 23:
            raise UnreadableRowError(f"{column} has more than 23 hours beside its days")
        return int(days) * 86400 + int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    if found := _DAYS_AND_HOURS.fullmatch(text):
        days, hours, minutes = found.groups(default="0")
        return int(days) * 86400.0 + int(hours) * 3600 + int(minutes) * 60
    if text[:1] == "-":
        raise UnreadableRowError(f"{column} is below 0")
    parts = _SPOKEN.findall(text)
    if parts and not _SPOKEN.sub("", text):
        short = {"m": "min", "sec": "s"}
        return math.fsum(float(n) * UNITS_S[short.get(unit, unit)] for n, unit in parts)
    if re.fullmatch(r"[0-9]+:[0-9]{2}", text):
        raise UnreadableRowError(
            f"{column} has two parts, hours and minutes or minutes and seconds; write HH:MM:SS"
        )
    raise UnreadableRowError(f"{column} is not a duration such as 5400, 01:30:00 or 1-12:00:00")


def find_zone(name: str) -> ZoneInfo:
    """Return a time zone by its name.

    Raises
    ------
    InstanceError
        If there is none.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        from zoneinfo import available_timezones

        raise InstanceError(
            f'timezone is "{name}"{nearest(name, available_timezones()) or "."} Give a name of '
            "the IANA database, for example Europe/Berlin, or UTC."
        ) from None


@dataclass
class Clock:
    """The clock of a file: what its times mean, the same for every cell.

    Parameters
    ----------
    log
        Counts the times that a clock change makes unsure.
    zone
        Zone of times that name none; None: as they stand.
    """

    log: ReportLog
    zone: ZoneInfo | None = None
    kind: str | None = None
    """What the first time was: ``number``, ``local`` or ``zoned``."""

    def seconds(self, text: str, column: str, unit_s: float, label: str) -> float:
        """Return a moment, seconds.

        Parameters
        ----------
        text
            A number in the unit of the column, or a date with time, with or without a zone.
        column, label
            The column's name, and what the row is called in the account.
        unit_s
            Unit of numbers, seconds.
        """
        if _NUMBER.fullmatch(text):
            self._require("number", column)
            number = number_of(text, column) * unit_s
            if abs(number) > _LATEST_S:
                raise UnreadableRowError(
                    f"{column} is after the year 5000 in this unit; set time_unit=ms, us or ns"
                )
            return number
        moment = _moment(text, column)
        if moment.tzinfo is not None:
            self._require("zoned", column)
            return moment.timestamp()
        self._require("local" if self.zone is None else "zoned", column)
        return (
            (moment - _EPOCH).total_seconds()
            if self.zone is None
            else self._local(moment, self.zone, column, label)
        )

    def _local(self, moment: datetime, zone: ZoneInfo, column: str, label: str) -> float:
        """Return a local time of the zone, seconds; of one that came twice the first."""
        first = moment.replace(tzinfo=zone)
        found = first.timestamp()
        if first.utcoffset() != first.replace(fold=1).utcoffset():
            if datetime.fromtimestamp(found, zone).replace(tzinfo=None) != moment:
                raise UnreadableRowError(
                    f"{column} is a time that the clock change in {zone.key} left out"
                )
            self.log.alter(
                f"{column} is a time that {zone.key} had twice (clock change); the first is taken",
                label,
            )
        return found

    def _require(self, kind: str, column: str) -> None:
        """Refuse times of two kinds in one file: they have no common zero."""
        if self.kind is None:
            self.kind = kind
        if kind != self.kind:
            one = {"number": "number", "local": "time without zone", "zoned": "time with a zone"}
            raise UnreadableRowError(f"{column} is a {one[kind]}, not a {one[self.kind]} as others")


def _moment(text: str, column: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        found = _MOMENT.fullmatch(text)
    if found is None:
        raise UnreadableRowError(
            f"{column} is not a time such as 1700000000, 2024-05-31 14:00:00 or "
            "2024-05-31T14:00:00+02:00"
        )
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    zone = {"Z": "+00:00", "UTC": "+00:00", "GMT": "+00:00", None: ""}.get(zone, zone)
    plain = (
        f"{year}-{month:0>2}-{day:0>2}T{hour or '00':0>2}:{minute or '00'}:{second or '00'}"
        f"{(fraction or '')[:7]}{zone}"
    )
    try:
        return datetime.fromisoformat(plain)
    except ValueError:
        raise UnreadableRowError(f"{column} is a date or time that does not exist") from None


@dataclass(frozen=True)
class GpuCell:
    """What a cell of GPUs says.

    Parameters
    ----------
    gpu_milli
        GPUs, thousandths.
    gpu_type
        Their type, or None.
    tasks, cpu_milli, memory_mib
        Nodes, CPU (milli-cores) and memory (MiB) of the same list of resources; None: not said.
    """

    gpu_milli: int
    gpu_type: str | None = None
    tasks: int | None = None
    cpu_milli: int | None = None
    memory_mib: int | None = None


def gpu_cell(text: str, column: str, unit: float = 1.0) -> GpuCell:
    """Read a count of GPUs.

    Parameters
    ----------
    text
        A number; or what Slurm writes: ``gpu:4``, ``gpu:a100:4``, ``gres/gpu:a100=4``, or a list of
        resources such as ``cpu=32,gres/gpu=4,mem=200G,node=1``.
    column
        Its name, for messages.
    unit
        GPUs that the number 1 stands for.
    """
    if _NUMBER.fullmatch(text):
        return GpuCell(round(amount_of(text, column) * unit * MILLI))
    if is_blank(text):
        return GpuCell(0)
    if _MIG.search(text):
        raise UnreadableRowError(f"{column} asks for MIG slices, which job tables are not read for")
    plain: int | None = None
    typed: dict[str, int] = {}
    other: dict[str, str] = {}
    # Indices of devices, in brackets, may hold commas.
    for item in re.sub(r"\([^)]*\)", "", text).split(","):
        item = item.strip()
        found = _GPU_ITEM.fullmatch(item) or _TYPED.fullmatch(item)
        if found is not None and (found["type"] is None or found["type"] not in _NO_TYPES):
            count = int(found["count"] or 1)
            if found["type"] is None:
                plain = (plain or 0) + count
            else:
                typed[found["type"]] = typed.get(found["type"], 0) + count
            continue
        name, equals, amount = item.partition("=")
        if _GPU_SOMEHOW.match(item) or not (equals or re.match(r"[a-z_]+[:/]", item)):
            raise UnreadableRowError(
                f"{column} is not a count of GPUs such as 4, gpu:a100:4 or gres/gpu=4"
            )
        other[name] = amount
    if len(typed) > 1:
        raise UnreadableRowError(f"{column} asks for GPUs of several types")
    # A list that says the number of GPUs and of each type says the same thing twice.
    count = plain if plain is not None else sum(typed.values())
    return GpuCell(
        count * MILLI,
        next(iter(typed), None),
        int(other["node"]) if _COUNT.fullmatch(other.get("node", "")) else None,
        round(amount_of(other["cpu"], column) * MILLI) if other.get("cpu") else None,
        memory_mib(other["mem"], column) if other.get("mem") else None,
    )


# What Slurm's lists hold beside GPUs in the shape name:count.
_NO_TYPES = frozenset(
    ("mps", "shard", "nvme", "license", "gres", "nic", "bandwidth", "craynetwork")
)


def memory_mib(text: str, column: str) -> int:
    """Return an amount of memory, MiB; ``100G``, ``512000M``, and plain numbers in MiB.

    Parameters
    ----------
    text
        The cell.
    column
        Name of its column, for messages.
    """
    found = _MEMORY.fullmatch(text.upper().replace("I", "i"))
    if found is None:
        raise UnreadableRowError(f"{column} is not an amount of memory such as 100G")
    return math.ceil(float(found[1]) * _MEMORY_MIB[found[2]])


def amount_of(text: str, column: str) -> float:
    """Return a number of 0 or more, and no more than any cluster has of anything.

    Parameters
    ----------
    text
        The cell.
    column
        Name of its column, for messages.
    """
    number = number_of(text, column)
    if number < 0:
        raise UnreadableRowError(f"{column} is below 0")
    if number > _MAX_AMOUNT:
        raise UnreadableRowError(f"{column} is above {_MAX_AMOUNT:g}")
    return number
