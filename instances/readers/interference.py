"""Co-location speeds measured for Gavel: pairs of training jobs that share a GPU.

References
----------
D. Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
OSDI 2020; data: github.com/stanford-futuredata/gavel (MIT), ``scheduler/*_throughputs.json``, here
as two tables in long form.
"""

from __future__ import annotations

from os import PathLike

import numpy as np

from alloc.errors import InstanceError
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.readers.table import Row, UnreadableRowError, read_table
from alloc.workload.interference import InterferenceTable

SOURCE = "Gavel (Narayanan et al., OSDI 2020), github.com/stanford-futuredata/gavel, MIT"
_ALONE = ("file", "worker_type", "job_type", "scale_factor", "steps_per_second")
_PAIRS = (
    "file",
    "worker_type",
    "job_type_a",
    "scale_factor_a",
    "job_type_b",
    "scale_factor_b",
    "steps_per_second_a",
    "steps_per_second_b",
)
_MAX_STEPS_PER_S = 1e6
"""A microsecond a step: no GPU is as fast, so a larger number is in another unit."""


def read_gavel_interference(
    alone: str | PathLike[str],
    pairs: str | PathLike[str],
    *,
    worker_type: str = "v100",
    file: str = "simulation_throughputs",
) -> tuple[InterferenceTable, ReadReport]:
    """Read how fast jobs of one GPU run alone and in pairs.

    Parameters
    ----------
    alone
        Columns ``file``, ``worker_type``, ``job_type``, ``scale_factor`` (GPUs),
        ``steps_per_second``. Plain or gzip.
    pairs
        Columns ``file``, ``worker_type``, ``job_type_a``, ``scale_factor_a``, ``job_type_b``,
        ``scale_factor_b``, ``steps_per_second_a``, ``steps_per_second_b``; zeros mean that the two
        cannot share.
    worker_type
        GPU type as the files name it: ``k80``, ``p100`` or ``v100``.
    file
        Which measurement: ``simulation_throughputs`` or ``physical_cluster_throughputs``.

    Returns
    -------
    InterferenceTable, ReadReport
        The kinds with a speed alone, and what was read. A pair that the file does not have cannot
        share.

    Raises
    ------
    InstanceError
        If a file cannot be read, has another header, or has no job of that measurement.
    """
    log = ReportLog()
    speeds: dict[str, float] = {}
    seen: set[str] = set()

    def is_wanted(row: Row, *scales: str) -> bool:
        seen.add(row.values["worker_type"])
        return (
            row.values["file"] == file
            and row.values["worker_type"] == worker_type
            and all(row.integer(scale) == 1 for scale in scales)
        )

    def parse_alone(row: Row) -> None:
        if is_wanted(row, "scale_factor"):
            speed = _speed(row, "steps_per_second")
            if speed > 0:
                speeds[row.text("job_type")] = speed

    read_table(alone, _ALONE, parse_alone, log)
    if not speeds:
        raise InstanceError(
            f'{alone}: has no speed of one-GPU jobs on "{worker_type}" in "{file}"'
            f"; it has {', '.join(sorted(seen)) or 'nothing'}."
        )
    kinds = tuple(speeds)
    index = {kind: k for k, kind in enumerate(kinds)}
    beside = np.zeros((len(kinds), len(kinds)))

    def parse_pair(row: Row) -> None:
        if not is_wanted(row, "scale_factor_a", "scale_factor_b"):
            return
        a, b = index.get(row.text("job_type_a")), index.get(row.text("job_type_b"))
        if a is None or b is None:
            return
        beside[a, b] = _speed(row, "steps_per_second_a") / speeds[kinds[a]]
        beside[b, a] = _speed(row, "steps_per_second_b") / speeds[kinds[b]]

    read_table(pairs, _PAIRS, parse_pair, log)
    return (
        InterferenceTable(worker_type, kinds, np.array(list(speeds.values())), beside, SOURCE),
        log.report(),
    )


def _speed(row: Row, column: str) -> float:
    speed = row.number(column)
    if not 0 <= speed <= _MAX_STEPS_PER_S:
        raise UnreadableRowError(f"{column} is not between 0 and {_MAX_STEPS_PER_S:g}")
    return speed
