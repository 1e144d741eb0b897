"""`certify`: every answer is checked here, and its certificate written; the one place for both."""

from __future__ import annotations

import math
import time
from typing import TypeVar

from alloc.certificate import (
    CONTRADICTION,
    OPTIMALITY_GAP,
    BoundProof,
    Certificate,
    Identified,
    Limit,
    Status,
    beats,
    is_within,
)
from alloc.collector import collector_paused
from alloc.errors import CertificateError
from alloc.families import Family
from alloc.objectives import Measure, Sense
from alloc.result import Result
from alloc.solving.outcome import Outcome, Settings

S = TypeVar("S")


@collector_paused()
def certify(
    family: Family,
    problem: Identified,
    objective_name: str,
    outcome: Outcome[S],
    settings: Settings,
) -> Result[S]:
    """Let the checker look at an outcome, and write its certificate.

    The value is recomputed from the problem. A bound that this value beats by more than rounding
    (`alloc.certificate.beats`) is false; within rounding the solution itself shows how far the
    bound can hold.

    Parameters
    ----------
    family
        The family of the problem.
    problem
        What was asked.
    objective_name
        What was optimised.
    outcome
        What the method says.
    settings
        Limits of the solve.

    Raises
    ------
    CertificateError
        If the solution breaks a rule, or is better than a bound allows.
    """
    if outcome.solution is not None:
        violations = family.check(problem, outcome.solution)
        if violations:
            more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
            raise CertificateError(
                f"{outcome.backend} returned a solution that breaks a rule: {violations[0]}{more}"
            )

    def certificate(
        measure: Measure, bound: float, proof: BoundProof, limit: Limit | None
    ) -> Certificate:
        value = None
        if outcome.solution is not None:
            value = measure.evaluate(problem, outcome.solution)
            rounding = measure.rounding(problem, outcome.solution)
            bound = checked_bound(
                value,
                bound,
                measure.sense,
                rounding,
                f"{outcome.backend} for {measure.name}",
                measure.tolerance,
            )
        status = _status(value, bound, outcome)
        if status == "optimal" and limit != "interrupt":
            limit = None  # it came with the proof
        return Certificate(
            status=status,
            objective=value,
            bound=bound,
            sense=measure.sense,
            objective_name=measure.name,
            formulation=family.name,
            backend=outcome.backend,
            backend_version=outcome.backend_version,
            seed=settings.seed,
            workers=settings.workers,
            seconds=time.perf_counter() - settings.started,
            fingerprint="",
            limit=limit,
            verified=value is not None,
            bound_proof=proof if math.isfinite(bound) else "none",
        ).about(problem)

    stages = tuple(
        certificate(family.measure_of(s.objective), s.bound, s.bound_proof, s.limit)
        for s in outcome.stages
    )
    if stages:
        shown = next((s for s in stages if s.status != "optimal"), stages[-1])
        shown = shown.replace(limit=outcome.limit)
    else:
        measure = family.measure_of(objective_name)
        shown = certificate(measure, outcome.bound, outcome.bound_proof, outcome.limit)
    return Result(
        outcome.solution,
        shown,
        conflict=outcome.conflict,
        stages=stages,
        repairs=outcome.repairs,
        sensitivities=outcome.sensitivities,
        assumptions=outcome.assumptions,
    )


def checked_bound(
    value: float,
    bound: float,
    sense: Sense,
    rounding: float,
    who: str,
    tolerance: float = CONTRADICTION,
) -> float:
    """Return a bound that a value does not beat; refuse one that it beats by more than rounding.

    Parameters
    ----------
    value
        Value of a solution, recomputed.
    bound
        What is claimed to bound every solution's value.
    sense
        Whether less or more is better.
    rounding
        By how much rounding may move the value, in the objective's unit.
    who
        Who claims the bound, and for what.
    tolerance
        Relative difference that proves no bound false.

    Raises
    ------
    CertificateError
        If the bound is false.
    """
    if beats(value, bound, sense, rounding, tolerance):
        raise CertificateError(
            f"the bound {bound:g} of {who} is beaten by its own solution, which has {value:g}; "
            "the bound is false."
        )
    bound = max(bound, value) if sense == "max" else min(bound, value)
    return value if abs(bound - value) <= rounding else bound


def _status(value: float | None, bound: float, outcome: Outcome[S]) -> Status:
    if outcome.infeasible:
        return "infeasible"
    if value is None:
        return "no_solution"
    return "optimal" if is_within(value, bound, OPTIMALITY_GAP) else "feasible"
