"""Certificates of plans whose bound is a solver's word: checked against the plan's own value."""

from __future__ import annotations

import math
import time
from typing import Any

from alloc.backends import backend
from alloc.certificate import (
    OPTIMALITY_GAP,
    BoundProof,
    Certificate,
    Limit,
    Status,
    beats,
    is_within,
)
from alloc.documents.encoding import fingerprint
from alloc.errors import CertificateError
from alloc.objectives import Sense
from alloc.solving.outcome import Settings
from alloc.units import in_full


def certified(
    problem: Any,
    value: float | None,
    bound: float,
    settings: Settings,
    *,
    objective_name: str,
    formulation: str,
    backend_name: str,
    sense: Sense = "min",
    infeasible: bool = False,
    limit: Limit | None = None,
    rounding: float = 0.0,
    proof: BoundProof = "claimed",
) -> Certificate:
    """Return the certificate of a plan that the judge has checked, or of none.

    Parameters
    ----------
    problem
        What was solved, a dataclass.
    value
        Value of the plan as recomputed, or None without one.
    bound
        What the solver claims.
    settings
        Limits of the solve.
    objective_name, formulation, backend_name
        What was solved, and by what.
    sense
        Whether less or more is better.
    infeasible
        Whether there is proved to be no plan.
    limit
        What stopped the search early, or None.
    rounding
        Difference between value and bound that counts as none.
    proof
        On whose word the bound is.

    Raises
    ------
    CertificateError
        If the plan is better than the bound allows.
    """
    if value is not None:
        if beats(value, bound, sense, rounding):
            raise CertificateError(
                f"{backend_name} claims the bound {bound:g}, but its own plan has {value:g}; the "
                "bound is false."
            )
        bound = max(bound, value) if sense == "max" else min(bound, value)
    status: Status = "infeasible" if infeasible else "no_solution"
    if value is not None:
        bound = value if abs(bound - value) <= rounding else bound
        proved = is_within(value, bound, OPTIMALITY_GAP)
        status = "optimal" if proved else "feasible"
    return Certificate(
        status=status,
        objective=value,
        bound=bound,
        sense=sense,
        objective_name=objective_name,
        formulation=formulation,
        backend=backend_name,
        backend_version=backend(backend_name).version(),
        seed=settings.seed,
        workers=settings.workers,
        seconds=time.perf_counter() - settings.started,
        fingerprint=fingerprint(problem),
        limit=limit,
        verified=value is not None,
        bound_proof=proof if math.isfinite(bound) else "none",
    )


def standing(value: float | None, bound: float, what: str = "cost") -> str:
    """Return how far a search is, for a line of progress."""
    found = "no plan yet" if value is None else f"{what} {in_full(value)}"
    return f"{found}, {f'bound {in_full(bound)}' if math.isfinite(bound) else 'no bound yet'}"
