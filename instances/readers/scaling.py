"""Measured scaling tables: how fast a model trains on how many GPUs.

Two published layouts are read. ElasticFlow's tables give iterations per second by global batch
size and number of GPUs. Pollux' tables give the time of a step by placement (GPUs on each host) and
batch size per GPU.

References
----------
D. Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep Learning",
ASPLOS 2023, doi:10.1145/3575693.3575721. A. Qiao et al., "Pollux: Co-adaptive Cluster Scheduling
for Goodput-Optimized Deep Learning", OSDI 2021.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from alloc.errors import InstanceError
from alloc.instances.readers.jobs import MAX_GPUS
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.readers.table import Row, UnreadableRowError, read_header, read_table
from alloc.topology import Topology
from alloc.topology.topology import HOST
from alloc.units import MILLI
from alloc.workload import Configuration, TaskGroup

Unit = Literal["iterations", "samples"]

_BATCH = "global_batch_size"
_PLACEMENTS = ("placement", "local_bsz", "step_time")
_SCALABILITY = ("num_nodes", "num_replicas", "local_bsz", "step_time")
_SLOWEST_STEP_S = 86400.0
"""A day: no training step takes as long, so a longer time is a wrong unit."""
_FASTEST_RATE = 1e9
"""Steps/s: a nanosecond a step, far below what a GPU takes to start one kernel."""
_NO_RATE = "no rate measured (empty, zero or not a number), size left out"


@dataclass(frozen=True)
class ScalingPoint:
    """The speed of a model at one size.

    Parameters
    ----------
    num_gpus
        GPUs, one worker each.
    rate
        Iterations per second, above 0.
    num_hosts
        Hosts on which it was measured, or None when the source does not say.
    """

    num_gpus: int
    rate: float
    num_hosts: int | None = None


class ScalingTable(Protocol):
    """What a model's measurements can be asked, whatever their layout."""

    @property
    def model(self) -> str:
        """Name of the model."""
        ...

    def points(self, batch_size: int) -> tuple[ScalingPoint, ...]:
        """Return the speeds known at a global batch size, possibly none."""
        ...


@dataclass(frozen=True)
class BatchTable:
    """Iterations per second by global batch size and number of GPUs (ElasticFlow).

    Parameters
    ----------
    model
        Name of the model.
    rates
        For each global batch size the points measured, by number of GPUs.
    """

    model: str
    rates: Mapping[int, tuple[ScalingPoint, ...]]

    def points(self, batch_size: int) -> tuple[ScalingPoint, ...]:
        """Return the points measured at exactly that global batch size."""
        return self.rates.get(batch_size, ())


@dataclass(frozen=True)
class StepTimes:
    """Step times on one placement.

    Parameters
    ----------
    num_gpus, num_hosts
        Size of the placement.
    local_batches
        Batch sizes per GPU, rising.
    step_times_s
        Time of one step at each, seconds.
    """

    num_gpus: int
    num_hosts: int
    local_batches: tuple[int, ...]
    step_times_s: tuple[float, ...]


@dataclass(frozen=True)
class PlacementTable:
    """Step times by placement and batch size per GPU (Pollux).

    Parameters
    ----------
    model
        Name of the model.
    placements
        Step times of each placement, by its name in the source.
    """

    model: str
    placements: Mapping[str, StepTimes]

    def points(self, batch_size: int) -> tuple[ScalingPoint, ...]:
        """Return the speed of every placement at a global batch size.

        Each GPU takes ``ceil(batch_size / num_gpus)`` samples: the slowest worker sets the pace.
        Between two measured batch sizes the step time is interpolated linearly; outside the
        measured range (memory ends it on one side) there is no point.
        """
        found: list[ScalingPoint] = []
        for times in self.placements.values():
            local = math.ceil(batch_size / times.num_gpus)
            if times.local_batches[0] <= local <= times.local_batches[-1]:
                step_s = float(np.interp(local, times.local_batches, times.step_times_s))
                found.append(ScalingPoint(times.num_gpus, 1 / step_s, times.num_hosts))
        return tuple(found)


def scaling_configurations(
    table: ScalingTable,
    batch_size: int,
    topology: Topology | None = None,
    *,
    unit: Unit = "iterations",
    gpu_type: str | None = None,
) -> tuple[Configuration, ...]:
    """Return the configurations that a model's measurements allow.

    Parameters
    ----------
    table
        The measurements.
    batch_size
        Global batch size, samples.
    topology
        The cluster. Sizes beyond it are left out, and so are sizes measured inside one host that
        no host here can hold; None keeps all.
    unit
        Work unit of the rates: ``iterations`` or ``samples`` (per second).
    gpu_type
        GPU type on which the rates hold, or None for any.

    Returns
    -------
    tuple of Configuration
        One-GPU workers, by number. Measurements on several GPUs of one host become configurations
        ``within="host"``. Those on several hosts, and those of which the source does not say,
        become one configuration per size that may go anywhere, at the slowest rate measured: it
        is the rate promised wherever the workers end up. Empty when nothing was measured at that
        batch size on a size that the cluster holds.

    Raises
    ------
    InstanceError
        If `unit` is unknown.
    """
    if unit not in ("iterations", "samples"):
        raise InstanceError(f'unit is "{unit}"; give iterations or samples.')
    scale = 1 if unit == "iterations" else batch_size
    rates: dict[tuple[int, str | None], float] = {}
    for point in table.points(batch_size):
        inside = point.num_gpus > 1 and point.num_hosts == 1
        if topology is not None and point.num_gpus > _room(topology, inside, gpu_type):
            continue
        key = (point.num_gpus, HOST if inside else None)
        rates[key] = min(point.rate * scale, rates.get(key, math.inf))
    return tuple(
        Configuration((TaskGroup("worker", size, MILLI),), rate, gpu_type, within)
        for (size, within), rate in sorted(rates.items(), key=lambda kv: (kv[0][0], kv[0][1] or ""))
    )


def _room(topology: Topology, inside: bool, gpu_type: str | None) -> int:
    """Return the GPUs (of a type) of the cluster, or of its largest host."""
    sizes = [
        kind.num_gpus
        for kind in map(topology.host_type, topology.hosts)
        if gpu_type is None or kind.gpu_type == gpu_type
    ]
    return max(sizes, default=0) if inside else sum(sizes)


def read_elasticflow_table(
    path: str | PathLike[str], *, model: str | None = None
) -> tuple[BatchTable, ReadReport]:
    """Read one of ElasticFlow's throughput tables.

    Parameters
    ----------
    path
        Columns ``global_batch_size`` and numbers of GPUs; cells are iterations per second.
    model
        Name of the model; by default the name of the file.

    Returns
    -------
    BatchTable, ReadReport
        Cells that are empty, zero or not a number are left out and counted.

    Raises
    ------
    InstanceError
        If the file cannot be read or has another header.
    """
    log = ReportLog()
    sizes = _size_columns(path)
    rates: dict[int, tuple[ScalingPoint, ...]] = {}

    def parse(row: Row) -> None:
        batch = row.integer(_BATCH, least=1)
        if batch in rates:
            raise UnreadableRowError(f"{_BATCH} appears before")
        points = [(size, _rate(row, str(size))) for size in sizes]
        measured = tuple(ScalingPoint(size, rate) for size, rate in points if rate)
        if not measured:
            raise UnreadableRowError("has no rate above 0")
        for size, rate in points:
            if not rate:
                log.alter(_NO_RATE, f"{_stem(path)} line {row.line}: {size} GPUs")
        rates[batch] = measured

    read_table(path, (_BATCH, *map(str, sizes)), parse, log)
    return BatchTable(model or _stem(path), rates), log.report()


def _size_columns(path: str | PathLike[str]) -> list[int]:
    """Return the numbers of GPUs in the header of an ElasticFlow table, rising."""
    header = read_header(path)
    sizes = [name for name in header if name != _BATCH]
    for name in sizes:
        # The digits as they stand are the column's name again: "08" would not be.
        if not (name.isascii() and name.isdigit() and 1 <= int(name[:9]) <= MAX_GPUS):
            raise InstanceError(
                f'{path}, line 1: column "{name[:40]}" is not a number of GPUs; expected '
                f"{_BATCH},1,2,4,..."
            )
    return sorted({int(name) for name in sizes if str(int(name[:9])) == name})


def _rate(row: Row, column: str) -> float:
    """Return the rate in a cell, 0 when there is none."""
    try:
        rate = row.number(column)
    except UnreadableRowError:
        if row.values[column].lower() in ("", "nan"):
            return 0.0
        raise
    if not 0 <= rate <= _FASTEST_RATE:
        raise UnreadableRowError(f"a rate is not between 0 and {_FASTEST_RATE:g}")
    return rate


def read_pollux_placements(
    path: str | PathLike[str], *, model: str | None = None
) -> tuple[PlacementTable, ReadReport]:
    """Read one of Pollux' ``placements.csv`` or ``scalability.csv``; the header tells which.

    Parameters
    ----------
    path
        Columns ``placement`` (a digit per host: its GPUs), ``local_bsz``, ``step_time`` (s); or
        ``num_nodes``, ``num_replicas``, ``local_bsz``, ``step_time``.
    model
        Name of the model; by default the name of the folder, as published.

    Raises
    ------
    InstanceError
        If the file cannot be read or has another header.
    """
    log = ReportLog()
    is_scalability = "num_nodes" in read_header(path)
    seen: dict[str, tuple[int, int, dict[int, float]]] = {}

    def parse(row: Row) -> None:
        name, num_gpus, num_hosts = (_nodes if is_scalability else _digits)(row)
        local = row.integer("local_bsz", least=1)
        step_s = row.positive("step_time", most=_SLOWEST_STEP_S)
        if 1 / step_s > _FASTEST_RATE:
            raise UnreadableRowError(f"step_time is below {1 / _FASTEST_RATE:g}")
        steps = seen.setdefault(name, (num_gpus, num_hosts, {}))[2]
        if local in steps:
            raise UnreadableRowError("placement and local_bsz appear before")
        steps[local] = step_s

    read_table(path, _SCALABILITY if is_scalability else _PLACEMENTS, parse, log)
    placements = {
        name: StepTimes(
            num_gpus,
            num_hosts,
            tuple(sorted(steps)),
            tuple(steps[local] for local in sorted(steps)),
        )
        for name, (num_gpus, num_hosts, steps) in seen.items()
    }
    return PlacementTable(model or Path(path).resolve().parent.name, placements), log.report()


def _digits(row: Row) -> tuple[str, int, int]:
    placement = row.text("placement")
    if not (placement.isascii() and placement.isdigit()) or "0" in placement:
        raise UnreadableRowError("placement is not one digit from 1 to 9 per host")
    return placement, sum(map(int, placement)), len(placement)


def _nodes(row: Row) -> tuple[str, int, int]:
    num_hosts = row.integer("num_nodes", least=1, most=MAX_GPUS)
    num_gpus = row.integer("num_replicas", least=1, most=MAX_GPUS)
    if num_gpus < num_hosts:
        raise UnreadableRowError("num_replicas is less than num_nodes")
    return f"{num_gpus} on {num_hosts}", num_gpus, num_hosts


def read_scaling_tables(
    folder: str | PathLike[str],
) -> tuple[dict[str, ScalingTable], ReadReport]:
    """Read all scaling tables of a folder.

    Parameters
    ----------
    folder
        Either ElasticFlow's: a file per model, ``<model>.csv``; or Pollux': a folder per model with
        ``placements.csv`` and ``scalability.csv``. Each may end in ``.gz`` as well.

    Returns
    -------
    dict, ReadReport
        Tables by model, and what was read.

    Raises
    ------
    InstanceError
        If there are no tables or one cannot be read.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InstanceError(f"{folder}: is not a folder of scaling tables; give one.")
    tables: dict[str, ScalingTable] = {}
    report = ReadReport((), 0)
    for path in _tables(folder, "*"):
        tables[_stem(path)], one = read_elasticflow_table(path)
        report += _named(one, path, folder)
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        placements: dict[str, StepTimes] = {}
        for name in ("placements", "scalability"):
            for path in _tables(inner, name):
                table, one = read_pollux_placements(path)
                placements |= table.placements
                report += _named(one, path, folder)
        if placements:
            tables[inner.name] = PlacementTable(inner.name, placements)
    if not tables:
        raise InstanceError(
            f"{folder}: holds no scaling tables; expected <model>.csv files or "
            "<model>/placements.csv."
        )
    return tables, report


def _named(report: ReadReport, path: Path, folder: Path) -> ReadReport:
    """Return a report that tells the equal file names of several models apart."""
    return dataclasses.replace(report, files=(path.relative_to(folder).as_posix(),))


def _tables(folder: Path, stem: str) -> Sequence[Path]:
    return sorted([*folder.glob(f"{stem}.csv"), *folder.glob(f"{stem}.csv.gz")])


def _stem(path: str | PathLike[str]) -> str:
    """Return the name of a file without .csv and .gz."""
    return Path(path).name.removesuffix(".gz").removesuffix(".csv")
