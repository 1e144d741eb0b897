"""A target of the project, what was measured, and whether it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from alloc.result import Result


@dataclass(frozen=True)
class Verdict:
    """One line of a benchmark's answer.

    Parameters
    ----------
    target
        What is promised, in words with a number.
    measured
        What was measured, in words with a number.
    holds
        Whether the promise is kept.
    """

    target: str
    measured: str
    holds: bool

    def __str__(self) -> str:
        """Return the line to print."""
        return f"target: {self.target}: {'holds' if self.holds else 'MISSED'} ({self.measured})"


def value_and_gap(result: Result[Any]) -> tuple[float, float]:
    """Return value and gap of a result that has a solution, as those of a benchmark must."""
    certificate = result.certificate
    if certificate.objective is None or certificate.gap is None:
        raise SystemExit(f"no solution: {result.conflict or certificate.status}")
    return certificate.objective, certificate.gap


def conclude(verdicts: Sequence[Verdict]) -> int:
    """Print the verdicts; return the exit code, 0 if all hold and 1 if one does not."""
    for verdict in verdicts:
        print(verdict, flush=True)
    return 0 if all(verdict.holds for verdict in verdicts) else 1
