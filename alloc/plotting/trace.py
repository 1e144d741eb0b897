"""The trace of a solve, read from what its log reports."""

from __future__ import annotations

import math
import re

from alloc.plotting.convergence import TracePoint
from alloc.problems.allocation.solution import Solution
from alloc.result import Result

_NUMBER = r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_STAMP = re.compile(rf"^\s*{_NUMBER} s\s+(.*)$")
# The malleable method reports in weighted slots. Values of column generation are not read: those of
# the master are no incumbents, and the Lagrangian ones are not yet proved.
_INCUMBENT = re.compile(
    rf"^(?:first schedule|price-guided insertion|integer master|neighbourhood search, round \d+): "
    rf"{_NUMBER}"
)
_BOUND = re.compile(rf"(?:; alone|, bound) {_NUMBER}")
_ROUNDING = 1e-3
"""Relative difference between log and certificate that rounding in the log can explain."""


def trace_of(result: Result[Solution], slot_s: float | None) -> list[TracePoint]:
    """Return the incumbents and bounds that a solve reported, in the objective's own unit.

    Parameters
    ----------
    result
        The result with its log.
    slot_s
        Slot length of its instance, seconds, or None for continuous time.

    Returns
    -------
    list of TracePoint
        In order of time, the certificate last. Empty when the log tells nothing, or nothing that
        agrees with the certificate: a figure must not claim more than the proof.
    """
    certificate = result.certificate
    if slot_s is None or certificate.objective is None or certificate.sense != "min":
        return []
    incumbent, bound = math.inf, -math.inf
    points: list[TracePoint] = []
    for line in result.log:
        stamp = _STAMP.match(line)
        if stamp is None:
            continue
        value, proved = _INCUMBENT.match(stamp.group(2)), _BOUND.search(stamp.group(2))
        if value is None and proved is None:
            continue
        if value is not None:
            incumbent = min(incumbent, slot_s * float(value.group(1)))
        if proved is not None:
            bound = max(bound, slot_s * float(proved.group(1)))
        points.append(TracePoint(float(stamp.group(1)), _known(incumbent), _known(bound)))
    slack = _ROUNDING * abs(certificate.objective)
    if not points or incumbent < certificate.objective - slack or bound > certificate.bound + slack:
        return []
    last = TracePoint(certificate.seconds, certificate.objective, _known(certificate.bound))
    return [*points, last]


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
