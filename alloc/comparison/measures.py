"""What a comparison measures of a schedule, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from alloc.comparison.settings import OPTIMUM
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.problems.allocation.stages import ends_of_jobs, starts_of_jobs
from alloc.progress import progress_of

if TYPE_CHECKING:
    from alloc.simulation import SimulationResult


@dataclass(frozen=True)
class Measure:
    """A measure and its column.

    Parameters
    ----------
    name
        Name, with the unit.
    header
        Column header, with the unit of display.
    scale
        Factor from the unit of the name to that of the header.
    importance
        0: in every table; 1 and 2: left out when a terminal is narrow, 2 first.
    only_if_any
        Whether the column is left out when every value is 0.
    show_interval
        Whether tables show its interval. Not of wall times: they vary with the machine's other
        work more than with the seed.
    """

    name: str
    header: str
    scale: float = 1.0
    importance: int = 1
    only_if_any: bool = False
    show_interval: bool = True


MEASURES: Mapping[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("num_unfinished", "unfinished jobs", importance=0, only_if_any=True),
        Measure("num_late", "late jobs", importance=0, only_if_any=True),
        Measure("deadlines_met", "deadlines met (%)", 100.0, importance=0),
        Measure("value", "value in time", importance=0),
        Measure("deadline_gpu_h", "GPU h of deadline jobs"),
        Measure("mean_jct_s", "mean JCT (s)", importance=0),
        Measure("median_jct_s", "median JCT (s)"),
        Measure("p95_jct_s", "p95 JCT (s)", importance=0),
        Measure("p99_jct_s", "p99 JCT (s)", importance=2),
        Measure("makespan_s", "makespan (s)", importance=0),
        Measure("failures", "failed runs", only_if_any=True),
        Measure("lost_gpu_h", "GPU h lost", importance=0, only_if_any=True),
        Measure("utilisation", "GPU use (%)", 100.0),
        Measure("mean_fairness", "mean fairness ρ"),
        Measure("max_fairness", "worst fairness ρ", importance=2),
        Measure("median_decision_s", "decision (ms)", 1000.0, importance=0, show_interval=False),
        Measure("p99_decision_s", "p99 decision (ms)", 1000.0, importance=2, show_interval=False),
    )
}
"""The columns of every table, in order."""


def measure(result: SimulationResult) -> dict[str, float]:
    """Return the measures of a simulation by name; those that it does not have are left out."""
    from alloc.simulation import metrics_of

    found = {name: float(value) for name, value in asdict(metrics_of(result)).items()}
    if result.decision_s.size:
        # The first decision also loads and compiles; the median is what a user will see.
        found["median_decision_s"] = float(np.median(result.decision_s))
    return {name: value for name, value in found.items() if not math.isnan(value)}


def measure_schedule(instance: Instance, schedule: Schedule) -> dict[str, float]:
    """Return the measures of a solved schedule, defined as for a simulation.

    Parameters
    ----------
    instance
        The instance.
    schedule
        A schedule of it that the checker finds sound.
    """
    from alloc.simulation import SimulationResult

    achieved = progress_of(instance, schedule)
    ends = ends_of_jobs(instance, {part: found.completion_s for part, found in achieved.items()})
    runs_of = schedule.runs_of
    solved = SimulationResult(
        instance=instance,
        scheduler=OPTIMUM,
        knowledge="exact",
        work_error=0.0,
        speed_error=0.0,
        schedule=schedule,
        completion_s=ends,
        start_s=starts_of_jobs(instance, {job: runs[0].start_s for job, runs in runs_of.items()}),
        # Nothing was decided over time, and nothing is late: the checker saw to the limits.
        decision_s=np.zeros(0),
        end_s=max((end for end in ends.values() if end is not None), default=0.0),
        restarts=0,
        migrations=0,
        failures=sum(found.failures for found in achieved.values()),
        lost_gpu_s=math.fsum(found.lost_gpu_s for found in achieved.values()),
        late=(),
        notes={},
        verified=True,
    )
    # The counters of restarts are the simulator's own; a table must not show a zero for them.
    return {k: v for k, v in measure(solved).items() if k not in ("restarts", "migrations")}
