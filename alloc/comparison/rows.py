"""Rows of the table, and the gap that they are about."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from alloc.comparison.bounds import BOUND_TOLERANCE, Bound, is_better
from alloc.comparison.cells import Outcome
from alloc.errors import CertificateError
from alloc.objectives import Sense


@dataclass(frozen=True)
class Row:
    """One scheduler on one instance with one seed, or the solved schedule of an instance.

    Parameters
    ----------
    instance, fingerprint, family
        What was scheduled.
    scheduler
        Label of the scheduler; ``optimum`` for the solved schedule, proved optimal or not.
    seed
        Seed of the simulation, or None for the solved schedule.
    knowledge, information
        What every scheduler is told, and what of it this one uses.
    objective
        Value of the objective, infinite when a job never completes.
    bound
        The certified bound of the instance, or None.
    gap
        ``objective / bound - 1``, of a value ``1 - objective / bound``; None without a bound, with
        jobs that never complete, or with jobs that miss a hard limit which the bound assumes is
        kept.
    metrics
        Measures by name.
    notes
        Counters of simulator and scheduler.
    seconds
        Wall time of the simulation or solve, seconds.
    error
        Why there is nothing to show, in one sentence, or None.
    """

    instance: str
    fingerprint: str
    family: str
    scheduler: str
    seed: int | None
    knowledge: str
    information: str
    objective: float
    bound: float | None
    gap: float | None
    metrics: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain JSON values; what is not finite becomes None."""
        document = {name: plain(value) for name, value in vars(self).items()}
        for name in ("metrics", "notes"):
            document[name] = {key: plain(value) for key, value in document[name].items()}
        return document


def gap_to(
    bound: float | None,
    objective: float,
    late: float = 0.0,
    rounding: float = 0.0,
    sense: Sense = "min",
) -> float | None:
    """Return how far an objective is from the bound, or None when the two cannot be compared.

    That is ``objective / bound - 1`` of a cost, and ``1 - objective / bound`` of a value: the part
    of what is possible that is lost. Nor can they be compared where the bound is 0 and the
    objective is not: no ratio says how far it is. What rounding puts beyond the bound has a gap of
    0.

    Parameters
    ----------
    bound
        What is proved, or None.
    objective
        Value of a schedule.
    late
        Number of promised jobs that miss their deadline: the bound is for schedules without any.
    rounding
        Difference that counts as none, in the objective's unit
        (`alloc.objectives.Objective.rounding`): a tardiness of 0 has no relative one.
    sense
        Whether less or more of the objective is better.
    """
    if bound is None or late or not math.isfinite(objective):
        return None
    if abs(objective - bound) <= rounding or objective == bound:
        return 0.0
    if bound == 0.0:
        return None
    gap = objective / bound - 1.0 if sense == "min" else 1.0 - objective / bound
    return 0.0 if -BOUND_TOLERANCE <= gap < 0 else gap


def promised_late(outcome: Outcome) -> float:
    """Return how many jobs that may not be refused miss a hard limit in a simulation."""
    # Older stores count late jobs of either kind together.
    return outcome.metrics.get("num_promised_late", outcome.metrics.get("num_late", 0.0))


def is_schedule(outcome: Outcome) -> bool:
    """Return whether a simulation left a schedule of all promised jobs that keeps every rule.

    Jobs that may be refused and are late can be left out of it (`alloc.objectives.without_late`).
    """
    return (
        outcome.error is None
        and outcome.schedule is not None
        and math.isfinite(outcome.objective)
        and not promised_late(outcome)
    )


def check_bound(bound: Bound, label: str, outcome: Outcome, rounding: float = 0.0) -> None:
    """Refuse a bound that a simulated schedule beats by more than rounding.

    Parameters
    ----------
    bound
        The bound of the instance.
    label
        What the scheduler is called in the message.
    outcome
        Its outcome on this instance.
    rounding
        As in `gap_to`, 0 or more.

    Raises
    ------
    CertificateError
        If the schedule's objective is better than the bound beyond rounding.
    """
    if outcome.error is not None:
        return
    late = promised_late(outcome)
    gap = gap_to(bound.value, outcome.objective, late, rounding, bound.sense)
    certificate = bound.certificate
    if certificate is not None and certificate.status == "infeasible" and is_schedule(outcome):
        raise CertificateError(
            f"{label} keeps every rule of {bound.instance}, of which {certificate.backend} "
            f"({certificate.backend_version}) claims that no schedule does; the claim is false, so "
            "report it with the instance."
        )
    if gap is not None and gap < 0:
        by = (
            ""
            if certificate is None
            else f" by {certificate.backend} ({certificate.backend_version})"
        )
        raise CertificateError(
            f"{label} has objective {outcome.objective!r}, "
            f"{'below' if bound.sense == 'min' else 'above'} the bound {bound.value!r} proved"
            f"{by} for {bound.instance}; the bound is false, so report it with the instance and "
            "trust no gap to it."
        )


def best_outcomes(
    cells: Iterable[tuple[str, str, str, int]],
    outcomes: Mapping[str, Outcome],
    sense: Sense = "min",
) -> dict[str, tuple[str, int, Outcome]]:
    """Return the best simulated schedule of each instance: scheduler, seed and outcome.

    Parameters
    ----------
    cells
        For each cell its key, the fingerprint of the instance, the scheduler and the seed.
    outcomes
        What came of each cell, by key.
    sense
        Whether less or more of the objective is better.
    """
    best: dict[str, tuple[str, int, Outcome]] = {}
    for key, fingerprint, label, seed in cells:
        outcome = outcomes.get(key)
        if outcome is None or not is_schedule(outcome):
            continue
        known = best.get(fingerprint)
        if known is None or is_better(outcome.objective, known[2].objective, sense):
            best[fingerprint] = (label, seed, outcome)
    return best


def plain(value: Any) -> Any:
    """Return a value with infinities and NaN as None: JSON knows neither."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
