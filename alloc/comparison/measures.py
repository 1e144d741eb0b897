"""What a comparison measures of a schedule, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.instance import Instance
from alloc.progress import completions
from alloc.solution import Schedule


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
    """

    name: str
    header: str
    scale: float = 1.0
    importance: int = 1
    only_if_any: bool = False


MEASURES: Mapping[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("mean_jct_s", "mean JCT (s)", importance=0),
        Measure("median_jct_s", "median JCT (s)"),
        Measure("p95_jct_s", "p95 JCT (s)", importance=0),
        Measure("p99_jct_s", "p99 JCT (s)", importance=2),
        Measure("makespan_s", "makespan (s)", importance=0),
        Measure("utilisation", "GPU use (%)", 100.0),
        Measure("unfinished", "unfinished jobs", importance=0, only_if_any=True),
        Measure("late", "late jobs", importance=0, only_if_any=True),
        Measure("decision_median_s", "decision (ms)", 1000.0, importance=0),
        Measure("decision_p99_s", "decision p99 (ms)", 1000.0, importance=2),
    )
}
"""The columns of every table, in order."""


def measure(instance: Instance, schedule: Schedule) -> dict[str, float]:
    """Return the measures of a schedule by name."""
    ends = completions(instance, schedule)
    jcts = np.array(
        [math.inf if (end := ends[j.id]) is None else end - j.arrival_s for j in instance.jobs]
    )
    # Not interpolated: next to a job that never completes that would be infinite, or no number.
    p50, p95, p99 = np.quantile(jcts, [0.5, 0.95, 0.99], method="inverted_cdf")
    return {
        "mean_jct_s": float(jcts.mean()),
        "median_jct_s": float(p50),
        "p95_jct_s": float(p95),
        "p99_jct_s": float(p99),
        "makespan_s": max(math.inf if end is None else end for end in ends.values()),
        "unfinished": float(np.isinf(jcts).sum()),
    }


def decision_times(decision_s: npt.NDArray[np.float64]) -> dict[str, float]:
    """Return the measures of decision times, seconds."""
    if not decision_s.size:
        return {}
    p50, p99 = np.quantile(decision_s, [0.5, 0.99])
    return {"decision_median_s": float(p50), "decision_p99_s": float(p99)}
