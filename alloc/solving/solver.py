"""`solve`: one door to every method and backend."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from alloc.backends import BACKENDS, SolverOptions
from alloc.backends import backend as named_backend
from alloc.backends.second_proof import with_proof
from alloc.certificate import OPTIMALITY_GAP, Certificate, Result, Status, beats
from alloc.errors import CertificateError, InstanceError, UnsupportedFeatureError
from alloc.formulation import (
    ArrayModel,
    CpSatModel,
    Formulation,
    ProvedInfeasible,
    require_formulation,
)
from alloc.instance import Instance
from alloc.objectives import Sense, parse_goal
from alloc.objectives import objective as named_objective
from alloc.solution import Solution
from alloc.solving.cross_check import cross_checked
from alloc.solving.lexicographic import solve_levels
from alloc.solving.outcome import Outcome, Settings
from alloc.verification import initial_violations, verify
from alloc.verification.starts import require_start

_log = logging.getLogger(__name__)

AUTO = "auto"
_MOST_REPORTED = 5
"""Rules that the running jobs break, in the log: the first ones say what is wrong."""
_LIMITS = ("deadline", "horizon", "preempted")


def solve(
    instance: Instance,
    formulation: str = "malleable",
    backend: str = AUTO,
    *,
    objective: str | None = None,
    time_limit_s: float = 60.0,
    seed: int = 0,
    workers: int = 1,
    warm_start: Solution | Result | None = None,
    progress: Callable[[str], None] | None = None,
    isolated: bool = False,
) -> Result:
    """Solve an instance, with a proof of how good the answer is.

    Parameters
    ----------
    instance
        The problem.
    formulation
        ``"round"`` (F1), ``"malleable"`` (F2), ``"placement"`` (F4) ...; see
        `alloc.formulation.FORMULATIONS`.
    backend
        ``"auto"`` for the family's specialised exact method, or a general solver on a drawing:
        ``"highs"`` (sparse arrays), ``"pyomo"`` (the Pyomo model), ``"cpsat"``.
    objective
        Name of the objective, or None for the formulation's default. A formulation of placement
        takes a goal, such as ``"gpus_placed then balance + 0.05 moves"``: its levels are solved
        one after the other, with a certificate each (`Result.stages`).
    time_limit_s
        Wall time, seconds, more than 0.
    seed
        Random seed.
    workers
        Threads of the solver.
    warm_start
        A solution of this instance to start from, alone or in a result; one of a kind that the
        formulation does not return is left aside.
    progress
        Called with a line of text now and then.
    isolated
        Solve in a process of its own, so that a solver that crashes or is ended for its memory is
        a `SolverError` here and not the end of this session. It takes about a second more, before
        `time_limit_s` begins; what this session has registered is not known there. A second
        Ctrl-C gives the solve up.

    Returns
    -------
    Result
        A limit or infeasibility is a result, not an exception. An interrupt (Ctrl-C) ends the
        search and returns what was found.

    Raises
    ------
    InstanceError
        If a name is unknown or an option out of range, or `warm_start` answers another instance.
    UnsupportedFeatureError
        If the method cannot model the instance.
    BackendUnavailableError
        If the solver cannot be loaded.
    CertificateError
        If the answer or its bound contradicts what the judge recomputes.
    SolverError
        If the solver broke its contract, or, with `isolated`, its process died.
    """
    if isolated:
        return _solve_isolated(
            instance,
            formulation,
            backend,
            objective=objective,
            time_limit_s=time_limit_s,
            seed=seed,
            workers=workers,
            warm_start=warm_start,
            progress=progress,
        )
    if not (time_limit_s > 0 and math.isfinite(time_limit_s)):
        raise InstanceError(f"time_limit_s is {time_limit_s}; give a number of seconds above 0.")
    chosen = require_formulation(formulation)
    wanted = chosen.require_objective(objective)
    chosen.require_features(instance)
    start = None if warm_start is None else require_start(instance, warm_start)
    settings = Settings(time_limit_s, seed, workers)
    lines: list[str] = []

    def report(line: str) -> None:
        stamped = f"{time.perf_counter() - settings.started:8.2f} s  {line}"
        lines.append(stamped)
        _log.info(stamped)
        if progress is not None:
            progress(stamped)

    initial = initial_violations(instance) if chosen.goals else []
    for violation in initial[:_MOST_REPORTED]:
        report(f"before anything moves: {violation}")
    if len(initial) > _MOST_REPORTED:
        report(f"before anything moves: {len(initial) - _MOST_REPORTED} more rules are broken")
    levels = [level.name for level in parse_goal(wanted).levels] if chosen.goals else [wanted]
    if len(levels) == 1:
        outcome = _attempt(instance, chosen, backend, wanted, settings, start, report)
        if outcome.infeasible and outcome.conflict and initial:
            known = f"{outcome.conflict}. Already now: {initial[0]}"
            outcome = replace(outcome, conflict=known)
        return certify(instance, chosen.name, wanted, outcome, settings, tuple(lines))
    stages = solve_levels(
        instance,
        levels,
        settings,
        start,
        lambda level, given, found: certify(
            instance,
            chosen.name,
            level,
            _attempt(instance, chosen, backend, level, given, found, report),
            given,
            (),
        ),
        report,
    )
    return stages.replace(log=tuple(lines))


def _solve_isolated(
    *arguments: Any, progress: Callable[[str], None] | None, **options: Any
) -> Result:
    """Solve in a process of its own; what it logs is logged here."""
    from alloc.solving.isolation import run_isolated

    def report(line: str) -> None:
        _log.info(line)
        if progress is not None:
            progress(line)

    result: Result = run_isolated(solve, *arguments, progress=report, **options)
    return result


def _attempt(
    instance: Instance,
    chosen: Formulation,
    backend: str,
    wanted: str,
    settings: Settings,
    warm_start: Solution | None,
    report: Callable[[str], None],
) -> Outcome:
    """Run the method or the backend; an interrupt or a proof of infeasibility is an outcome."""
    try:
        outcome = _outcome(instance, chosen, backend, wanted, settings, warm_start, report)
    except ProvedInfeasible as proof:
        outcome = Outcome(
            None, -_worst(wanted), "none", backend, "alloc", infeasible=True, conflict=str(proof)
        )
    except KeyboardInterrupt:
        # Methods that hold an incumbent return it themselves.
        outcome = Outcome(None, _worst(wanted), "none", backend, "alloc", limit="interrupt")
    if outcome.solution is not None and _loses_limits(instance, outcome.solution):
        report("the plan finds no hosts in time for its limits; the incumbent is dropped")
        outcome = replace(outcome, solution=None)
    return outcome


def _worst(objective_name: str) -> float:
    """Return the bound that claims nothing."""
    return math.inf if named_objective(objective_name).sense == "max" else -math.inf


def _loses_limits(instance: Instance, solution: Solution) -> bool:
    """Return whether placing made a schedule miss its limits: capacity rows do not see hosts."""
    violations = verify(instance, solution)
    return bool(violations) and all(v.code in _LIMITS for v in violations)


def _outcome(
    instance: Instance,
    chosen: Formulation,
    backend: str,
    wanted: str,
    settings: Settings,
    warm_start: Solution | None,
    report: Callable[[str], None],
) -> Outcome:
    """Run the method or the backend."""
    if backend == AUTO:
        if chosen.method is None:
            raise UnsupportedFeatureError(
                f'formulation "{chosen.name}" has no method of its own; name a backend: '
                f"{', '.join(BACKENDS)}."
            )
        module, function = chosen.method.split(":")
        method = getattr(import_module(module), function)
        outcome: Outcome = method(instance, wanted, settings, warm_start, report)
        return outcome
    return _solve_drawing(instance, chosen, backend, wanted, settings, warm_start, report)


def _solve_drawing(
    instance: Instance,
    chosen: Formulation,
    backend_name: str,
    wanted: str,
    settings: Settings,
    warm_start: Solution | None,
    report: Callable[[str], None],
) -> Outcome:
    """Solve a drawing with a general solver."""
    solver = named_backend(backend_name)
    drawing = chosen.draw(solver.DRAWING, instance, wanted, settings.held)
    report(f"built the {solver.DRAWING} drawing")
    start = None
    if warm_start is not None and drawing.start is not None:
        start = drawing.start(warm_start)
    options = SolverOptions(
        settings.seconds_left(),
        settings.seed,
        settings.workers,
        OPTIMALITY_GAP / 2,
        start,
        stoppable=True,
    )
    raw = solver.solve(drawing.model, options)
    if isinstance(drawing.model, ArrayModel):
        left = settings.seconds_left()
        raw = with_proof(drawing.model, raw, replace(options, time_limit_s=left))
    report(f"{solver.version()}: {raw.native_status}, bound {raw.bound:g}")
    infeasible = raw.status == "infeasible"
    outcome = Outcome(
        solution=None if raw.values is None else drawing.extract(raw.values),
        bound=raw.bound,
        bound_proof=raw.bound_proof if math.isfinite(raw.bound) else "none",
        backend=backend_name,
        backend_version=solver.version(),
        limit=raw.limit,
        infeasible=infeasible,
        conflict=chosen.conflict if infeasible else None,
    )
    if isinstance(drawing.model, CpSatModel) and raw.status == "optimal":
        outcome = cross_checked(instance, chosen, wanted, settings, outcome)
        report(f"the array model: bound {outcome.bound:g}, {outcome.bound_proof}")
    return outcome


def certify(
    instance: Instance,
    formulation_name: str,
    objective_name: str,
    outcome: Outcome,
    settings: Settings,
    log: tuple[str, ...],
) -> Result:
    """Let the judge check an outcome and write its certificate.

    Raises
    ------
    CertificateError
        If the solution breaks a rule, or is better than the bound allows.
    """
    measure = named_objective(objective_name)
    value = None
    if outcome.solution is not None:
        violations = verify(instance, outcome.solution)
        if violations:
            more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
            raise CertificateError(
                f"{outcome.backend} returned a solution that breaks a rule: {violations[0]}{more}"
            )
        value = measure.evaluate(instance, outcome.solution)
    bound = outcome.bound
    if value is not None:
        rounding = measure.rounding(instance)
        if beats(value, bound, measure.sense, rounding):
            raise CertificateError(
                f"{outcome.backend} claims the bound {bound:g} for {objective_name}, but its own "
                f"solution has {value:g}; the bound is false."
            )
        # Within rounding the solution itself shows how far the bound can hold.
        bound = max(bound, value) if measure.sense == "max" else min(bound, value)
        bound = value if abs(bound - value) <= rounding else bound
    certificate = Certificate(
        status="feasible",
        objective=value,
        bound=bound,
        sense=measure.sense,
        objective_name=objective_name,
        formulation=formulation_name,
        backend=outcome.backend,
        backend_version=outcome.backend_version,
        seed=settings.seed,
        workers=settings.workers,
        seconds=time.perf_counter() - settings.started,
        fingerprint=instance.fingerprint,
        limit=outcome.limit,
        verified=value is not None,
        bound_proof=outcome.bound_proof if math.isfinite(bound) else "none",
    )
    status = _status(certificate, outcome, measure.sense)
    return Result(outcome.solution, certificate.replace(status=status), log, outcome.conflict)


def _status(certificate: Certificate, outcome: Outcome, sense: Sense) -> Status:
    if outcome.infeasible:
        return "infeasible"
    if certificate.gap is None:
        return "no_solution"
    return "optimal" if certificate.gap <= OPTIMALITY_GAP else "feasible"
