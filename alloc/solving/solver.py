"""`solve`: one door to every family, method and backend; it only dispatches."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from alloc.backends import BACKENDS, SolverOptions
from alloc.backends import backend as named_backend
from alloc.backends.second_proof import with_proof
from alloc.certificate import Certificate
from alloc.clock import time_limit
from alloc.errors import CertificateError, OutOfTime, SolverError, UnsupportedFeatureError
from alloc.families import AUTO, SCHEDULE, Family, family_of, load
from alloc.formulation import ArrayModel, BuiltModel, CpSatModel, ProvedInfeasible, RawResult
from alloc.objectives import parse_goal
from alloc.processes import limit_memory, memory_watch
from alloc.result import Limits, Result
from alloc.solving.certify import certify
from alloc.solving.outcome import Outcome, Settings, timed_log
from alloc.solving.refinement import Question, solve_refined
from alloc.verification import initial_violations
from alloc.verification.starts import require_start

_log = logging.getLogger(__name__)

_MAX_REPORTED = 5
"""Rules that the running jobs break, in the log: the first ones say what is wrong."""
_LIMITS = ("deadline", "horizon", "preempted")


def solve(
    problem: Any,
    family: str | None = None,
    backend: str = AUTO,
    *,
    objective: str | None = None,
    limits: Limits = Limits(),
    warm_start: Any = None,
    progress: Callable[[str], None] | None = None,
    isolated: bool = False,
) -> Result[Any]:
    """Solve a problem of any family, with a proof of how good the answer is.

    Parameters
    ----------
    problem
        What is asked: an `alloc.Instance`, a planning problem ...
    family
        Name of the family, see `alloc.families.FAMILIES`; None for the family of the problem's
        type, of an instance ``"malleable"`` (F2). Others of instances are ``"round"`` (F1),
        ``"placement"`` (F4) and ``"sharing"`` (F5).
    backend
        ``"auto"`` for the family's own exact method, the name of another method of its own, or a
        general solver on a model: ``"highs"`` (sparse arrays), ``"pyomo"`` (the Pyomo model),
        ``"cpsat"``.
    objective
        Name of the objective, or None for the family's default. Families that take goals (F2 and
        F4: `alloc.families.Family.goals`) take weighted sums of their objectives, and levels of
        them, such as ``"makespan then mean_jct"`` or ``"gpus_placed then balance + 0.05 moves"``:
        levels are solved one after the other, with a certificate each (`Result.stages`).
    limits
        Time, gap, seed, threads and memory.
    warm_start
        A solution of this problem to start from, alone or in a result; one of a kind that the
        family does not return is left aside.
    progress
        Called with a line of text now and then.
    isolated
        Solve in a process of its own, so that a solver that crashes or is ended for its memory is
        a `SolverError` here and not the end of this session. It takes about a second more, before
        the time of `limits` begins; what this session has registered is not known there. A second
        Ctrl-C gives the solve up. With a limit of memory it is always so.

    Returns
    -------
    Result
        A limit or infeasibility is a result, not an exception. An interrupt (Ctrl-C) ends the
        search and returns what was found.

    Raises
    ------
    InstanceError
        If a name is unknown, or `warm_start` answers another problem.
    UnsupportedFeatureError
        If the method cannot model the problem.
    BackendUnavailableError
        If the solver cannot be loaded.
    CertificateError
        If the answer or its bound contradicts what the checker recomputes.
    SolverError
        If the solver broke its contract, or, with `isolated`, its process died or had no memory
        left.
    """
    if isolated or limits.memory_mib is not None:
        return _solve_isolated(
            problem,
            family,
            backend,
            objective=objective,
            limits=limits,
            warm_start=warm_start,
            progress=progress,
        )
    settings = Settings.of(limits)

    def tell(line: str) -> None:
        _log.info(line)
        if progress is not None:
            progress(line)

    log, report = timed_log(settings, tell)
    result = solve_within(
        problem, settings, report, family, backend, objective=objective, warm_start=warm_start
    )
    return result.replace(log=tuple(log))


def solve_within(
    problem: Any,
    settings: Settings,
    report: Callable[[str], None] = lambda line: None,
    family: str | None = None,
    backend: str = AUTO,
    *,
    objective: str | None = None,
    warm_start: Any = None,
) -> Result[Any]:
    """Solve a problem as a step of something larger, within its limits.

    Parameters
    ----------
    problem, family, backend, objective, warm_start
        As in `solve`.
    settings
        Limits, with the clock that is already running.
    report
        Takes a line of progress.
    """
    chosen = family_of(problem, family)
    wanted = chosen.require_objective(problem, objective)
    chosen.require_features(problem)
    start = warm_start
    if warm_start is not None and not (chosen.takes_hints and not isinstance(warm_start, Result)):
        start = require_start(problem, warm_start, chosen.check)
    # Only what moves running jobs must say where they stand.
    initial = initial_violations(problem) if "moves" in chosen.features else []
    for violation in initial[:_MAX_REPORTED]:
        report(f"before anything moves: {violation}")
    if len(initial) > _MAX_REPORTED:
        report(f"before anything moves: {len(initial) - _MAX_REPORTED} more rules are broken")
    levels = [level.name for level in parse_goal(wanted).levels] if chosen.goals else [wanted]

    def attempt(level: str, given: Settings, known: Any) -> Outcome[Any]:
        """Solve one level; the first returns nothing worse than the start."""
        found = _attempt(problem, chosen, backend, level, given, known, report)
        if start is None or chosen.takes_hints or given.held:
            return found
        return _at_least(start, problem, chosen, level, found)

    if len(levels) == 1:
        outcome = attempt(wanted, settings, start)
        if outcome.infeasible and outcome.conflict and initial:
            known = f"{outcome.conflict}. Already now: {initial[0]}"
            outcome = replace(outcome, conflict=known)
        return certify(chosen, problem, wanted, outcome, settings)
    from alloc.solving.lexicographic import solve_levels  # most goals have one level

    return solve_levels(
        problem,
        levels,
        settings,
        start,
        lambda level, given, known: certify(
            chosen, problem, level, attempt(level, given, known), given
        ),
        report,
    )


def _solve_isolated(
    *arguments: Any, limits: Limits, progress: Callable[[str], None] | None, **options: Any
) -> Result[Any]:
    """Solve in a process of its own; what it logs is logged here."""
    from alloc.solving.isolation import run_isolated

    def report(line: str) -> None:
        _log.info(line)
        if progress is not None:
            progress(line)

    mib = limits.memory_mib
    result: Result[Any] = run_isolated(
        _solve_complete if mib is None else _solve_within_memory,
        *arguments,
        limits=limits,
        progress=report,
        on_death="" if mib is None else f"Its memory was limited to {mib} MiB.",
        **options,
    )
    return result


def _solve_complete(*arguments: Any, **options: Any) -> Result[Any]:
    """Solve, and work out what is deferred, while limits and Ctrl-C still count."""
    return solve(*arguments, **options).complete()


def _solve_within_memory(*arguments: Any, limits: Limits, **options: Any) -> Result[Any]:
    """Solve in this process, which is there for nothing else, within a limit of its memory."""
    mib = limits.memory_mib
    assert mib is not None
    limit_memory(mib)
    try:
        with memory_watch(mib) as watch:
            result = _solve_complete(*arguments, limits=limits.replace(memory_mib=None), **options)
    except MemoryError:
        raise SolverError(
            f"the search asked at once for more than was left of {mib} MiB of memory; raise "
            "memory_mib of its limits, choose another backend or a smaller instance."
        ) from None
    if not watch.ran_short:
        return result

    def named(certificate: Certificate) -> Certificate:
        ended = certificate.limit == "interrupt"
        return certificate.replace(limit="memory") if ended else certificate

    return result.replace(
        certificate=named(result.certificate), stages=tuple(map(named, result.stages))
    )


def _attempt(
    problem: Any,
    chosen: Family,
    backend: str,
    wanted: str,
    settings: Settings,
    warm_start: Any,
    report: Callable[[str], None],
) -> Outcome[Any]:
    """Run the method or the backend; an interrupt or a proof of infeasibility is an outcome."""
    nothing = -math.inf if chosen.measure_of(wanted).sense == "min" else math.inf
    outcome: Outcome[Any]
    try:
        outcome = _outcome(problem, chosen, backend, wanted, settings, warm_start, report)
    except ProvedInfeasible as proof:
        outcome = Outcome(
            None, -nothing, "none", backend, "alloc", infeasible=True, conflict=str(proof)
        )
    except OutOfTime:
        # While the model was built.
        outcome = Outcome(None, nothing, "none", backend, "alloc", limit="time")
    except KeyboardInterrupt:
        # Methods that hold an incumbent return it themselves.
        outcome = Outcome(None, nothing, "none", backend, "alloc", limit="interrupt")
    if outcome.solution is not None and _loses_limits(chosen, problem, outcome.solution):
        report("the plan finds no hosts in time for its limits; the incumbent is dropped")
        outcome = replace(outcome, solution=None)
    return outcome


def _at_least(
    start: Any, problem: Any, chosen: Family, wanted: str, outcome: Outcome[Any]
) -> Outcome[Any]:
    """Return an outcome that is no worse than the start, which the checker has accepted.

    Raises
    ------
    CertificateError
        If the method claims that there is no solution.
    """
    if not isinstance(start, load(chosen.solution)):
        return outcome  # of a kind that the family does not return
    if outcome.infeasible:
        raise CertificateError(
            f"{outcome.backend} claims that there is no solution, and the warm start is one."
        )
    measure = chosen.measure_of(wanted)
    if outcome.solution is not None:
        value, found = measure.evaluate(problem, start), measure.evaluate(problem, outcome.solution)
        if not (value > found if measure.sense == "max" else value < found):
            return outcome
    return replace(outcome, solution=start)


def _loses_limits(chosen: Family, problem: Any, solution: Any) -> bool:
    """Return whether placing made a schedule miss its limits: capacity rows do not see hosts."""
    if chosen.solution != SCHEDULE:
        return False
    violations = chosen.check(problem, solution)
    return bool(violations) and all(v.code in _LIMITS for v in violations)


def _outcome(
    problem: Any,
    chosen: Family,
    backend: str,
    wanted: str,
    settings: Settings,
    warm_start: Any,
    report: Callable[[str], None],
) -> Outcome[Any]:
    """Run a method of the family's own, or a general solver on a model."""
    if backend in chosen.methods:
        method = load(chosen.methods[backend])
        outcome: Outcome[Any] = method(problem, wanted, settings, warm_start, report)
        return outcome
    if backend == AUTO:
        # Without a method of its own a family is solved by the first backend that takes its models.
        backends = (name for name in BACKENDS if named_backend(name).MODEL_KIND in chosen.models)
        if (backend := next(backends, AUTO)) == AUTO:
            raise UnsupportedFeatureError(
                f'family "{chosen.name}" has no model and no method "auto"; name one of its '
                f"methods: {', '.join(chosen.methods)}."
            )
    return _solve_model(problem, chosen, backend, wanted, settings, warm_start, report)


def _solve_model(
    problem: Any,
    chosen: Family,
    backend_name: str,
    wanted: str,
    settings: Settings,
    warm_start: Any,
    report: Callable[[str], None],
) -> Outcome[Any]:
    """Solve a model with a general solver."""
    solver = named_backend(backend_name)
    with time_limit(settings.seconds_left()):
        built = chosen.build(solver.MODEL_KIND, problem, wanted, settings.held)
    report(f"built the {solver.MODEL_KIND} model")
    start = None
    if warm_start is not None and built.start is not None:
        start = built.start(warm_start)

    def run(tried: BuiltModel) -> RawResult:
        options = SolverOptions(
            settings.seconds_left(),
            settings.seed,
            settings.workers,
            settings.gap / 2,
            start if tried is built else None,
            stoppable=True,
        )
        raw = solver.solve(tried.model, options)
        if isinstance(tried.model, ArrayModel):
            left = settings.seconds_left()
            raw = with_proof(tried.model, raw, replace(options, time_limit_s=left))
        report(f"{solver.version()}: {raw.native_status}, bound {raw.bound:g}")
        return raw

    question = Question(problem, chosen, wanted)
    raw, solution = solve_refined(question, built, run, settings, report)
    infeasible = raw.status == "infeasible"
    outcome = Outcome(
        solution=None if infeasible else solution,
        bound=raw.bound,
        bound_proof=raw.bound_proof if math.isfinite(raw.bound) else "none",
        backend=backend_name,
        backend_version=solver.version(),
        limit=raw.limit,
        infeasible=infeasible,
        conflict=chosen.conflict if infeasible else None,
    )
    if isinstance(built.model, CpSatModel) and raw.status == "optimal":
        from alloc.solving.cross_check import cross_checked  # CP-SAT takes longer to load than this

        outcome = cross_checked(problem, chosen, wanted, settings, outcome)
        report(f"the array model: bound {outcome.bound:g}, {outcome.bound_proof}")
    return outcome
