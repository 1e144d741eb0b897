"""What a comparison comes to, in sentences: who is how far off, and why some schedulers tie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from alloc.comparison import Comparison
from alloc.comparison.settings import OPTIMUM
from alloc.comparison.tables import objective_words, show_percent
from alloc.errors import InstanceError

DURATIONS = ("weighted_jct", "mean_jct", "makespan")
"""Objectives that are time taken; tardiness is seconds too, and nothing takes it."""
REFERENCE = "fifo"
"""What is shown against the optimum where it takes part: what clusters run that choose nothing."""


def mean_gaps(comparison: Comparison, fingerprint: str | None = None) -> dict[str, float]:
    """Return the mean gap of each scheduler that can be compared, the smallest first.

    Parameters
    ----------
    comparison
        The comparison.
    fingerprint
        The instance; by default all of them together.
    """
    gaps: dict[str, list[float]] = {}
    for row in comparison.rows:
        if row.gap is None or row.scheduler == OPTIMUM:
            continue
        if fingerprint in (None, row.fingerprint):
            gaps.setdefault(row.scheduler, []).append(row.gap)
    return comparable_means(gaps)


def comparable_means(gaps: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the mean gap by scheduler, the smallest first.

    Schedulers with fewer gaps than others are left out: a mean over other seeds or instances
    cannot be compared.

    Parameters
    ----------
    gaps
        The gaps of each scheduler, one for each instance and seed that it has one for.
    """
    count = max(map(len, gaps.values()), default=0)
    means = {name: math.fsum(v) / count for name, v in gaps.items() if v and len(v) == count}
    return dict(sorted(means.items(), key=lambda item: item[1]))


def contrast(comparison: Comparison) -> str:
    """Return the scheduler to show against the optimum: FIFO, else the one furthest from it."""
    gaps = mean_gaps(comparison)
    if gaps.get(REFERENCE, 0.0) > 0.0:
        return REFERENCE
    return max(gaps, key=lambda name: gaps[name], default=comparison.experiment.schedulers[0])


def verdict(comparison: Comparison, fingerprint: str) -> str | None:
    """Return how far FIFO, or the worst scheduler, and the best one are from what is possible.

    Parameters
    ----------
    comparison
        The comparison.
    fingerprint
        The instance.

    Returns
    -------
    str or None
        One sentence; None where no scheduler has a gap.
    """
    gaps = mean_gaps(comparison, fingerprint)
    if not gaps:
        return None
    certificate = comparison.bound(fingerprint).certificate
    proved = certificate is not None and certificate.status == "optimal"
    # The gap is to the bound, and the optimum may lie above it.
    most = "" if proved else "at most "
    name = comparison.settings.objective
    timed = name in DURATIONS
    kind = "takes {} longer than needed" if timed else "is {} above what is possible"
    if comparison.settings.sense == "max":
        kind = "loses {} of what is possible"
    best = [label for label in gaps if gaps[label] == min(gaps.values())]
    other = REFERENCE if REFERENCE in gaps else max(gaps, key=lambda label: gaps[label])
    where = f"{comparison.instance(fingerprint).name}, {objective_words(name)}"
    shown = other.upper() if other == REFERENCE else other
    first = f"{where}: {shown} {kind.format(most + show_percent(gaps[other]))}"
    if other in best:
        return f"{first}." if len(gaps) == 1 else f"{first}, and no scheduler less."
    word = "scheduler" if len(best) == 1 else "schedulers"
    return f"{first}; best {word}: {listed(best)}, {most}{show_percent(gaps[best[0]])}."


def ties(comparison: Comparison, fingerprint: str) -> list[str]:
    """Return a sentence for each group of schedulers with equal rows, which says why.

    Parameters
    ----------
    comparison
        The comparison.
    fingerprint
        The instance.
    """
    times: dict[object, list[str]] = {}
    places: dict[str, object] = {}
    values: dict[str, list[float]] = {}
    for row in comparison.rows:
        if row.fingerprint == fingerprint and row.objective is not None:
            values.setdefault(row.scheduler, []).append(row.objective)
    worth = list(values.values())
    for name in comparison.experiment.schedulers:
        if worth.count(values.get(name, [])) < 2:
            continue  # Schedules of other worth are other schedules; to read them takes long.
        try:
            schedules = [
                comparison.schedule(fingerprint, name, seed) for seed in comparison.experiment.seeds
            ]
        except InstanceError:
            continue  # It failed; the table says why.
        when = tuple(
            tuple(sorted((r.job, r.configuration, r.start_s, r.end_s) for r in schedule.runs))
            for schedule in schedules
        )
        places[name] = [
            sorted((run.job, run.start_s, str(run.tasks)) for run in schedule.runs)
            for schedule in schedules
        ]
        times.setdefault(when, []).append(name)
    return [_why(names, places) for names in times.values() if len(names) > 1]


def _why(names: Sequence[str], places: dict[str, object]) -> str:
    those = listed(names)
    if all(places[name] == places[names[0]] for name in names):
        return f"{those} tie: here they decide the same."
    return (
        f"{those} tie: here they run the same jobs on as many GPUs at the same times, on other "
        "hosts, which made no difference."
    )


def listed(names: Sequence[str]) -> str:
    """Return names as they stand in a sentence: the last after "and".

    Parameters
    ----------
    names
        One or more.
    """
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
