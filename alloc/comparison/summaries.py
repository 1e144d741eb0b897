"""Summaries: rows over seeds, and instances over a family."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from alloc.comparison.intervals import Interval, Method, mean_interval
from alloc.comparison.rows import Row


@dataclass(frozen=True)
class Summary:
    """One scheduler on one instance (over seeds) or on one family (over instances).

    Parameters
    ----------
    group
        Name of the instance or family.
    scheduler
        Label of the scheduler, or ``optimum``.
    knowledge, information
        What it was given, and what of it it uses.
    gap
        Gap to the certified bound with its interval; count 0 when there is no bound.
    objective
        Value of the objective with its interval.
    metrics
        Every measure with its interval, by name.
    runs, failures
        Cells in the summary, and how many of them failed.
    over
        What the sample of the intervals is: ``seeds`` or ``instances``.
    """

    group: str
    scheduler: str
    knowledge: str
    information: str
    gap: Interval
    objective: Interval
    metrics: Mapping[str, Interval]
    runs: int
    failures: int
    over: str


def summarise_instances(rows: Iterable[Row], method: Method = "t") -> tuple[Summary, ...]:
    """Return a summary for each instance and scheduler, in order of first appearance.

    Parameters
    ----------
    rows
        The rows of a comparison.
    method
        How intervals are computed: ``t`` or ``bootstrap``.
    """
    return tuple(
        _summary(group[0].instance, "seeds", group, [[row] for row in group], method)
        for group in _grouped(rows, lambda row: (row.fingerprint, row.scheduler))
    )


def summarise_families(rows: Iterable[Row], method: Method = "t") -> tuple[Summary, ...]:
    """Return a summary for each family and scheduler.

    The sample is one value an instance, the mean over its seeds: seeds of one instance are not
    independent views of a family, and pooling them would make intervals too narrow.

    Parameters
    ----------
    rows
        The rows of a comparison.
    method
        How intervals are computed: ``t`` or ``bootstrap``.
    """
    return tuple(
        _summary(
            group[0].family,
            "instances",
            group,
            _grouped(group, lambda row: row.fingerprint),
            method,
        )
        for group in _grouped(rows, lambda row: (row.family, row.scheduler))
    )


def _grouped(rows: Iterable[Row], key: Callable[[Row], object]) -> list[list[Row]]:
    groups: dict[object, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


def _summary(
    name: str, over: str, rows: Sequence[Row], units: Sequence[Sequence[Row]], method: Method
) -> Summary:
    """Summarise rows whose independent units are the given lists."""
    good = [row for row in rows if row.error is None]
    kept = [[row for row in unit if row.error is None] for unit in units]
    kept = [unit for unit in kept if unit]
    names = list(dict.fromkeys(metric for row in good for metric in row.metrics))
    head = good[0] if good else rows[0]

    def over_units(pick: Callable[[Row], float | None]) -> Interval:
        means = []
        for unit in kept:
            values = [value for row in unit if (value := pick(row)) is not None]
            if values:
                means.append(math.fsum(values) / len(values))
        return mean_interval(means, method)

    def metric(name: str) -> Callable[[Row], float | None]:
        return lambda row: row.metrics.get(name)

    return Summary(
        name,
        head.scheduler,
        head.knowledge,
        head.information,
        over_units(lambda row: row.gap),
        over_units(lambda row: row.objective),
        {name: over_units(metric(name)) for name in names},
        len(rows),
        len(rows) - len(good),
        over,
    )
