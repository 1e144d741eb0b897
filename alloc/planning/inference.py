"""Inference sizing from end to end: solve, simulate, tighten, and say what more would change."""

from __future__ import annotations

import dataclasses
from functools import partial

from alloc.documents.formats import format_of
from alloc.errors import InstanceError
from alloc.planning.inference_replay import Replayer, tightenings
from alloc.planning.resolves import Changed, as_interrupted, solve_again
from alloc.problems.inference_sizing.plan import InferencePlan
from alloc.problems.inference_sizing.problem import GpuPool, InferenceProblem
from alloc.problems.inference_sizing.report import GoalCheck, InferenceReport
from alloc.problems.inference_sizing.served import ServedModel
from alloc.result import Limits, Result, Sensitivity
from alloc.solving.outcome import Progress, Settings, timed_log
from alloc.solving.progress_line import standing
from alloc.solving.solver import solve_within

PROBLEM_KIND = "inference_problem"
REPORT_KIND = "inference_report"
_MORE_REQUESTS = 0.1
"""Part by which each model gets more requests, to see what that costs: the rest stays as it is."""
_LEAST_REQUESTS = 100
"""Requests of a simulation at least: the 99th percentile is that of one in a hundred."""
_Turn = tuple[Result[InferencePlan], tuple[GoalCheck, ...], int, InferenceProblem]
"""A round: what was solved, what the simulation says of it, its number and its problem."""


def size_inference(
    problem: InferenceProblem,
    limits: Limits = Limits(),
    *,
    replayed_requests: int = 10_000,
    max_iterations: int = 5,
    what_if: bool = True,
    progress: Progress | None = None,
) -> InferenceReport:
    """Find the cheapest replicas that serve every request within its goals, and check them.

    The plan is proved against the closed form (`alloc.problems.inference_sizing.serving`), then
    each group of replicas is simulated at its rate. Where the simulation misses a goal, the closed
    form is trusted with less from then on, and the problem is solved again.

    Parameters
    ----------
    problem
        The problem.
    limits
        Limits for everything together.
    replayed_requests
        Requests to simulate for each group, 100 or more; 0: no simulation.
    max_iterations
        Most rounds of solving and simulating, 1 or more.
    what_if
        Whether to solve again with one more host of each pool and 10 % more requests of each model.
    progress
        Called with a line of text now and then.

    Returns
    -------
    InferenceReport
        A limit or infeasibility is a result, not an exception; so is an interrupt (Ctrl-C), with
        what was found until then and the limit ``interrupt``.

    Raises
    ------
    InstanceError
        If an option is out of range.
    CertificateError
        If a plan or a bound contradicts what the checker recomputes.
    """
    require_requests(replayed_requests)
    if max_iterations < 1:
        raise InstanceError(f"max_iterations is {max_iterations}; give 1 or more.")
    settings = Settings.of(limits)
    log, report = timed_log(settings, progress)
    outcome, checks, rounds, final = _rounds(
        problem, settings, replayed_requests, max_iterations, report
    )
    result = outcome.replace(
        conflict=_conflict(outcome, final), assumptions=assumptions(problem, replayed_requests)
    )
    if what_if and result.solution is not None and result.certificate.limit != "interrupt":
        sensitivities, interrupted = _sensitivities(final, outcome, settings, report)
        result = result.replace(sensitivities=sensitivities)
        result = as_interrupted(result) if interrupted else result
    converged = bool(checks) and all(check.holds for check in checks)
    return InferenceReport(result.replace(log=tuple(log)), checks, rounds, converged)


def require_requests(number: int) -> None:
    """Refuse simulations that are too short to show a percentile.

    Raises
    ------
    InstanceError
        If fewer than 100 requests are to be simulated, and not 0.
    """
    if number and number < _LEAST_REQUESTS:
        raise InstanceError(
            f"a simulation of {number} requests cannot show a percentile; ask for "
            f"{_LEAST_REQUESTS} or more, or for 0 to leave it out."
        )


def _conflict(outcome: Result[InferencePlan], problem: InferenceProblem) -> str | None:
    """Return what is missing; of a tightened problem also who says so."""
    if outcome.conflict is None or not problem.tightened:
        return outcome.conflict
    return (
        f"{outcome.conflict}; the closed form alone has a plan, and the simulation shows that it "
        "misses goals"
    )


def _rounds(
    problem: InferenceProblem,
    settings: Settings,
    requests: int,
    max_iterations: int,
    report: Progress,
) -> _Turn:
    """Solve and simulate until every goal holds; return also the problem as it was tightened.

    Out of time, the last plan stands, though it misses goals in the simulation. At an interrupt the
    last plan stands too, also if it was not simulated to the end.
    """
    last: _Turn | None = None
    number = 0
    try:
        for number in range(1, max_iterations + 1):
            outcome = solve_within(problem, settings, report)
            certificate = outcome.certificate
            interrupted = certificate.limit == "interrupt"
            if certificate.status == "no_solution" and last is not None:
                why = "interrupted" if interrupted else "out of time"
                report(f"round {number}: {why}; the last plan stands")
                return _interrupted(last) if interrupted else last
            last = outcome, (), number, problem
            found = standing(certificate.objective, certificate.bound)
            report(f"round {number}: {certificate.status}, {found}")
            if outcome.solution is None or not requests or interrupted:
                return last
            replayer = Replayer(problem, requests, settings.seed)
            checks = tuple(replayer.checks(outcome.solution))
            last = outcome, checks, number, problem
            missed = sum(not check.holds for check in checks)
            kept = f"{len(checks) - missed} of {len(checks)}"
            report(f"round {number}: simulation keeps {kept} goals")
            if not missed or number == max_iterations or settings.seconds_left() <= 0:
                break
            added = tightenings(replayer, outcome.solution, checks, report)
            problem = problem.replace(tightened=(*problem.tightened, *added))
    except KeyboardInterrupt:
        if last is None:
            raise
        report(f"round {number}: interrupted; the plan stands as it is")
        return _interrupted(last)
    assert last is not None
    return last


def _interrupted(turn: _Turn) -> _Turn:
    return as_interrupted(turn[0]), *turn[1:]


def _sensitivities(
    problem: InferenceProblem, outcome: Result[InferencePlan], settings: Settings, report: Progress
) -> tuple[tuple[Sensitivity, ...], bool]:
    """Solve again with a little more of each thing; return also whether there was an interrupt."""
    more_hosts = [
        Changed("host", pool.name, 1.0, "hosts", partial(_with_one_more, problem, pool))
        for pool in problem.pools
    ]
    more_requests = [
        Changed(
            "rate",
            model.name,
            100 * _MORE_REQUESTS,
            "% more requests",
            partial(_with_busier, problem, model),
        )
        for model in problem.models
    ]
    return solve_again(
        more_hosts + more_requests,
        outcome.certificate,
        lambda changed, within: solve_within(changed, within).certificate,
        settings,
        report,
    )


def _with_one_more(problem: InferenceProblem, pool: GpuPool) -> InferenceProblem:
    return problem.replace(pools=tuple(_grown(other, pool) for other in problem.pools))


def _with_busier(problem: InferenceProblem, model: ServedModel) -> InferenceProblem:
    return problem.replace(models=tuple(_busier(other, model) for other in problem.models))


def _grown(pool: GpuPool, which: GpuPool) -> GpuPool:
    if pool.name != which.name:
        return pool
    hosts = pool.hosts
    more = tuple(n + 1 for n in hosts) if isinstance(hosts, tuple) else hosts + 1
    return dataclasses.replace(pool, hosts=more)


def _busier(model: ServedModel, which: ServedModel) -> ServedModel:
    if model.name != which.name:
        return model
    classes = tuple(
        dataclasses.replace(c, rate_per_s=tuple(r * (1 + _MORE_REQUESTS) for r in c.rate_per_s))
        for c in model.classes
    )
    return dataclasses.replace(model, classes=classes)


def assumptions(problem: InferenceProblem, replayed_requests: int) -> tuple[str, ...]:
    """Return what a plan takes for granted, in sentences.

    Parameters
    ----------
    problem
        The problem that was solved.
    replayed_requests
        Requests of each simulation, or 0 if there was none.
    """
    found = [
        "Requests of a period arrive at a steady rate, and every period is long against a request.",
        "Replicas batch continuously, prompts first; a batch is as slow as the slowest measured up "
        "to its cap.",
        "One queue per group of replicas, first come first served; requests are split over groups "
        "at random.",
        "Input and output tokens are independent within a class.",
        "Starting, stopping and lending replicas between periods takes no time and costs nothing.",
    ]
    if any(model.failures for model in problem.models):
        found.append(
            "After failures the requests are split anew over what is left, and queues that built "
            "up meanwhile are not counted."
        )
    if any(m.failures and m.failure_unit == "host" for m in problem.models):
        found.append(
            "A failing host takes with it as many replicas of a model as can stand on one."
        )
    if any(pool.lender for pool in problem.pools):
        lenders = sorted({pool.lender for pool in problem.pools if pool.lender})
        found.append(
            f"What {' and '.join(lenders)} loses by lending is in the price of the lent GPUs."
        )
    if replayed_requests:
        found.append(
            f"Each group was simulated with {replayed_requests:,} requests; rarer misses are not "
            "seen."
        )
    return tuple(found)


_PROBLEM = format_of(PROBLEM_KIND)
_REPORT = format_of(REPORT_KIND)

read_inference_problem, load_inference_problem = _PROBLEM.parse, _PROBLEM.load
write_inference_problem = _PROBLEM.write
read_inference_report, write_inference_report = _REPORT.parse, _REPORT.write
