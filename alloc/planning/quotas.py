"""Quota planning from end to end: solve, replay by a plain rule, check on scenarios held out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from alloc.certificate import Certificate
from alloc.documents.formats import format_of
from alloc.errors import InstanceError
from alloc.planning.resolves import Changed, as_interrupted, solve_again
from alloc.problems.quota_planning.measures import coverage, service, share_out
from alloc.problems.quota_planning.problem import (
    DemandScenario,
    QuotaPlan,
    QuotaProblem,
    TenantDemand,
)
from alloc.problems.quota_planning.report import QuotaReport, TenantOutlook
from alloc.result import Limits, Result, Sensitivity
from alloc.solving.outcome import Progress, Settings, timed_log
from alloc.solving.solver import solve_within
from alloc.units import MILLI

Array = npt.NDArray[np.float64]

PROBLEM_KIND = "quota_problem"
REPORT_KIND = "quota_report"
_MORE_DEMAND = 0.1
"""Part by which each tenant asks for more, to see what that costs: the rest of the plan stays."""
_SMALLEST = 1e-4
"""Share of the time below which no smaller promise is tried."""


def plan_quotas(
    problem: QuotaProblem,
    limits: Limits = Limits(),
    *,
    held_out: tuple[DemandScenario, ...] = (),
    max_iterations: int = 5,
    what_if: bool = True,
    progress: Progress | None = None,
) -> QuotaReport:
    """Find quotas, and check them by a rule of sharing and on scenarios held out.

    For ``least_quota`` with scenarios held out, a promise that does not hold on them is tightened:
    the problem is solved again with a smaller `QuotaTenant.exceeding` for the tenants concerned,
    until it holds, the rounds are over, or no quotas are left.

    Parameters
    ----------
    problem
        The problem.
    limits
        Limits for everything together.
    held_out
        Scenarios that the plan does not see; their probabilities sum to 1.
    max_iterations
        Most rounds of solving and checking, 1 or more.
    what_if
        Whether to solve again with one more GPU of each type and 10 % more demand of each tenant.
    progress
        Called with a line of text now and then.

    Returns
    -------
    QuotaReport
        A limit or infeasibility is a result, not an exception; so is an interrupt (Ctrl-C), with
        what was found until then and the limit ``interrupt``.

    Raises
    ------
    InstanceError
        If an option is out of range.
    CertificateError
        If a plan or a bound contradicts what the checker recomputes.
    """
    if max_iterations < 1:
        raise InstanceError(f"max_iterations is {max_iterations}; give 1 or more.")
    settings = Settings.of(limits)
    log, report = timed_log(settings, progress)
    # Reads and checks the scenarios before anything is solved.
    other = problem.replace(scenarios=held_out) if held_out else None
    outcome, outlooks, rounds, converged = _rounds(problem, other, settings, max_iterations, report)
    result = outcome.replace(
        certificate=_first(outcome), assumptions=assumptions(problem, held_out=bool(held_out))
    )
    if what_if and outcome.solution is not None and outcome.certificate.limit != "interrupt":
        sensitivities, interrupted = _sensitivities(problem, outcome, rounds, settings, report)
        result = result.replace(sensitivities=sensitivities)
        result = as_interrupted(result) if interrupted else result
    return QuotaReport(result.replace(log=tuple(log)), outlooks, rounds, converged)


def _rounds(
    problem: QuotaProblem,
    other: QuotaProblem | None,
    settings: Settings,
    max_iterations: int,
    report: Progress,
) -> tuple[Result[QuotaPlan], tuple[TenantOutlook, ...], int, bool]:
    promised = {tenant.name: tenant.exceeding for tenant in problem.tenants}
    best: tuple[Result[QuotaPlan], tuple[TenantOutlook, ...], int] | None = None
    try:
        for number in range(1, max_iterations + 1):
            outcome = solve_within(problem, settings, report)
            interrupted = outcome.certificate.limit == "interrupt"
            if outcome.solution is None:
                if best is None:
                    return outcome, (), number, False
                why = _why_none(outcome.certificate)
                report(f"round {number}: {why}; the last plan stands")
                return as_interrupted(best[0]) if interrupted else best[0], *best[1:], False
            outlooks = outlooks_of(problem, outcome.solution, other)
            best = (outcome, outlooks, number)
            if other is None or problem.goal != "least_quota":
                return *best, False
            missed = missed_promises(outlooks, promised)
            kept = f"{len(promised) - len(missed)} of {len(promised)}"
            report(f"round {number}: out of sample the promise holds for {kept} tenants")
            if not missed:
                return *best, True
            if number == max_iterations or settings.seconds_left() <= 0 or interrupted:
                break
            tighter = _tightened(problem, outlooks, promised, missed)
            if tighter == problem:
                break
            problem = tighter
    except KeyboardInterrupt:
        if best is None:
            raise
        return as_interrupted(best[0]), *best[1:], False
    assert best is not None
    return *best, False


def missed_promises(
    outlooks: tuple[TenantOutlook, ...], promised: Mapping[str, float]
) -> dict[str, float]:
    """Return the tenants whose promise fails out of sample, and the share of the time it does.

    Parameters
    ----------
    outlooks
        What tenants get.
    promised
        The largest share of the time, by tenant, in which a tenant may get less than it asks for.
    """
    return {
        o.tenant: 1 - o.coverage
        for o in outlooks
        if o.sample == "held out" and 1 - o.coverage > promised[o.tenant] + 1e-9
    }


def _tightened(
    problem: QuotaProblem,
    outlooks: tuple[TenantOutlook, ...],
    promised: Mapping[str, float],
    missed: Mapping[str, float],
) -> QuotaProblem:
    """Return the problem with smaller promises to the tenants concerned."""
    planned = {o.tenant: 1 - o.coverage for o in outlooks if o.sample == "planned"}
    tenants = tuple(
        dataclasses.replace(
            tenant,
            exceeding=_tighter(
                tenant.exceeding, promised[tenant.name], missed[tenant.name], planned[tenant.name]
            ),
        )
        if tenant.name in missed
        else tenant
        for tenant in problem.tenants
    )
    return problem.replace(tenants=tenants)


def _tighter(now: float, promised: float, missed: float, planned: float) -> float:
    """Return a smaller share: by how much it misses its promise, and less than was planned.

    The plan exceeds in whole scenarios; a share between two changes nothing.
    """
    smaller = min(now * promised / missed, planned - _SMALLEST)
    return smaller if smaller > _SMALLEST else 0.0


def outlooks_of(
    problem: QuotaProblem, plan: QuotaPlan, other: QuotaProblem | None = None
) -> tuple[TenantOutlook, ...]:
    """Return what every tenant gets: as planned, by equal borrowing, and on other scenarios.

    Parameters
    ----------
    problem
        The problem that was planned.
    plan
        Its quotas, and what they serve in each scenario.
    other
        The same tenants and types with scenarios held out, if there are any.
    """
    quota = plan.quota_milli(problem)
    samples = [
        ("planned", problem, plan.served_milli(problem)),
        ("replayed", problem, share_out(problem, quota, problem.demand_milli)),
    ]
    if other is not None:
        samples.append(("held out", other, share_out(other, quota, other.demand_milli)))
    found = []
    for sample, where, served in samples:
        shares, covers = service(where, served), coverage(where, served)
        missing = np.einsum("sp,spig->i", where.weights_h, where.demand_milli - served) / MILLI
        for i, tenant in enumerate(where.tenants):
            found.append(
                TenantOutlook(
                    tenant.name,
                    sample,
                    float(shares[i]),
                    float(covers[i]),
                    max(float(missing[i]), 0.0),
                )
            )
    return tuple(found)


def _first(outcome: Result[QuotaPlan]) -> Certificate:
    """Return the certificate of the first level, which counts most: that of the worst tenant."""
    if not outcome.stages:
        return outcome.certificate
    limit = outcome.certificate.limit
    first = outcome.stages[0]
    return first.replace(limit=limit if limit == "interrupt" else first.limit)


def _why_none(certificate: Certificate) -> str:
    """Return why a round with a tighter promise found no quotas."""
    if certificate.limit == "interrupt":
        return "interrupted"
    if certificate.status == "infeasible":
        return "no quotas keep the tighter promise"
    return "no quotas were found in time"


def _sensitivities(
    problem: QuotaProblem,
    outcome: Result[QuotaPlan],
    rounds: int,
    settings: Settings,
    report: Progress,
) -> tuple[tuple[Sensitivity, ...], bool]:
    """Solve again with a little more of each thing; the base too if promises were tightened.

    Return also whether there was an interrupt.
    """

    def solved(changed: QuotaProblem, within: Settings) -> Certificate:
        return _first(solve_within(changed, within))

    more_gpus = [
        Changed("gpu", gpu_type, 1.0, "GPUs", partial(_with_one_more, problem, gpu_type))
        for gpu_type in problem.types
    ]
    more_demand = [
        Changed(
            "demand",
            tenant.name,
            100 * _MORE_DEMAND,
            "% more demand",
            partial(_with_busier, problem, tenant.name),
        )
        for tenant in problem.tenants
    ]
    changes = more_gpus + more_demand
    before = _first(outcome)
    if rounds > 1:
        left = settings.seconds_left() / (len(changes) + 1)
        try:
            before = solved(problem, Settings(left, settings.seed, settings.workers))
        except KeyboardInterrupt:
            report("interrupted: the what-ifs are left out")
            return (), True
    return solve_again(changes, before, solved, settings, report)


def _with_one_more(problem: QuotaProblem, gpu_type: str) -> QuotaProblem:
    return problem.replace(
        capacity=tuple(
            dataclasses.replace(c, gpu_milli=c.gpu_milli + MILLI) if c.gpu_type == gpu_type else c
            for c in problem.capacity
        )
    )


def _with_busier(problem: QuotaProblem, tenant: str) -> QuotaProblem:
    return problem.replace(scenarios=tuple(_busier(s, tenant) for s in problem.scenarios))


def _busier(scenario: DemandScenario, tenant: str) -> DemandScenario:
    demands = tuple(
        dataclasses.replace(d, gpu_milli=tuple(round(a * (1 + _MORE_DEMAND)) for a in d.gpu_milli))
        if d.tenant == tenant
        else d
        for d in scenario.demands
    )
    return dataclasses.replace(scenario, demands=demands)


def resample_days(
    series_milli: Array,
    tenants: tuple[str, ...],
    gpu_type: str,
    number: int,
    rng: np.random.Generator,
) -> tuple[DemandScenario, ...]:
    """Draw scenarios of demand from days that were, all tenants together (block bootstrap).

    Parameters
    ----------
    series_milli
        Demand that was seen, milli-GPU, shape (days, periods of a day, tenants).
    tenants
        Their names.
    gpu_type
        The GPU type asked for.
    number
        Scenarios to draw, 1 or more; days may come up more than once.
    rng
        Source of randomness.

    Raises
    ------
    InstanceError
        If the series has gaps (NaN) or another shape.
    """
    if series_milli.ndim != 3 or series_milli.shape[2] != len(tenants) or not len(series_milli):
        raise InstanceError(
            f"demand series: has shape {series_milli.shape}; give (days, periods of a day, "
            f"{len(tenants)} tenants), one day or more."
        )
    if not np.isfinite(series_milli).all():
        day, period, tenant = np.argwhere(~np.isfinite(series_milli))[0].tolist()
        raise InstanceError(
            f'demand series: day {day}, period {period} of tenant "{tenants[tenant]}" is missing; '
            "fill the gap or leave the day out."
        )
    if number < 1:
        raise InstanceError(f"number is {number}; draw 1 scenario or more.")
    days = (rng.random(number) * len(series_milli)).astype(int)
    return tuple(
        DemandScenario(
            f"draw {k}: day {day}",
            1 / number,
            tuple(
                TenantDemand(
                    name, gpu_type, tuple(round(float(a)) for a in series_milli[day, :, i])
                )
                for i, name in enumerate(tenants)
            ),
        )
        for k, day in enumerate(days.tolist())
    )


def assumptions(problem: QuotaProblem, *, held_out: bool) -> tuple[str, ...]:
    """Return what a plan takes for granted, in sentences.

    Parameters
    ----------
    problem
        The problem that was planned.
    held_out
        Whether the plan was checked on other scenarios.
    """
    found = [
        "Demand does not react to quotas: what is not had in a period is lost, not postponed.",
        "A quota is a number of GPUs; where they stand and whether jobs fit them is not looked at.",
        "A tenant reclaims what it is guaranteed at once; borrowers give it back at no cost.",
    ]
    if any(tenant.cohort for tenant in problem.tenants):
        found.append(
            "As planned, cohorts lend in the way that serves the goal best; as replayed, in equal "
            "amounts to all that ask for more."
        )
    if not held_out:
        found.append("The scenarios are taken to be all that can happen; none was held out.")
    return tuple(found)


_PROBLEM = format_of(PROBLEM_KIND)
_REPORT = format_of(REPORT_KIND)

read_quota_problem, load_quota_problem = _PROBLEM.parse, _PROBLEM.load
write_quota_problem = _PROBLEM.write
read_quota_report, write_quota_report = _REPORT.parse, _REPORT.write
