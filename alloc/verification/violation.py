"""Violations: what the checker finds wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Violation:
    """One rule broken by a solution.

    Parameters
    ----------
    code
        Name of the rule, for programs: ``host_capacity``, ``before_arrival`` ...
    ids
        The jobs, hosts or tenants concerned.
    amount
        By how much, in `unit`.
    unit
        Unit of the amount.
    sentence
        The same for people.
    """

    code: str
    ids: tuple[str, ...]
    amount: float
    unit: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence
