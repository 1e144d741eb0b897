"""Claims: a result's certificate against what the instance and the solution say."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from alloc.certificate import CONTRADICTION, Certificate, beats
from alloc.errors import InstanceError
from alloc.objectives import Measure, objective
from alloc.result import Result
from alloc.verification.violation import Violation

CLAIM_TOLERANCE = CONTRADICTION
"""Relative difference that rounding explains, of values as of bounds."""


def check_claims(
    problem: Any, result: Result[Any], measure_of: Callable[[str], Measure] = objective
) -> list[Violation]:
    """Recompute the objective that a result claims, and hold its bound against it.

    Parameters
    ----------
    problem
        The problem, of any family.
    result
        An answer to it. One without a solution claims nothing that can be recomputed.
    measure_of
        Returns an objective of the family by name.

    Returns
    -------
    list of Violation
        ``objective`` if the value is another, ``bound`` if the solution is better than the bound
        allows; empty otherwise.

    Raises
    ------
    InstanceError
        If the result is for another problem.
    """
    certificate = result.certificate
    require_same_instance(problem, certificate)
    if result.solution is None:
        return []
    # The certificate is that of a stage, unless the document was changed.
    claims = dict.fromkeys((*result.stages, certificate))
    solution = result.solution
    return [
        violation
        for claim in claims
        for violation in _check_claim(problem, solution, claim, measure_of(claim.objective_name))
    ]


def require_same_instance(instance: Any, certificate: Certificate) -> None:
    """Refuse a certificate of another instance.

    Parameters
    ----------
    instance
        A problem of any family.
    certificate
        What is claimed about an answer.

    Raises
    ------
    InstanceError
        If the fingerprints differ.
    """
    if certificate.fingerprint != instance.fingerprint:
        raise InstanceError(
            f"the result is for the instance with fingerprint {certificate.fingerprint[:12]}, and "
            f'"{instance.name}" has {instance.fingerprint[:12]}; use it with the instance that was '
            "solved."
        )


def _check_claim(
    problem: Any, solution: Any, certificate: Certificate, measure: Measure
) -> Iterator[Violation]:
    value = measure.evaluate(problem, solution)
    claimed = certificate.objective
    rounding = measure.rounding(problem, solution)
    unit = str(getattr(measure, "unit", ""))
    if claimed is None or not math.isclose(
        claimed, value, rel_tol=CLAIM_TOLERANCE, abs_tol=rounding
    ):
        yield Violation(
            "objective",
            (),
            math.inf if claimed is None else abs(claimed - value),
            unit,
            f"the certificate says {measure.name} {claimed}, but the solution has {value:g}.",
        )
    excess = value - certificate.bound if measure.sense == "max" else certificate.bound - value
    if beats(value, certificate.bound, measure.sense, rounding, measure.tolerance):
        yield Violation(
            "bound",
            (),
            excess,
            unit,
            f"the certificate's bound on {measure.name} is {certificate.bound:g}, but the "
            f"solution has {value:g}; the bound is false.",
        )
