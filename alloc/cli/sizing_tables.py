"""What operation, inference sizing and quotas show in a terminal."""

from typing import TYPE_CHECKING, Any

from alloc.cli.tables import assumed, certificate_table, drawn, percent, shortened, table
from alloc.report.answers import sensitivity_table, tables_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from alloc.problems.inference_sizing.report import InferenceReport
    from alloc.problems.operation.report import OperationReport
    from alloc.problems.quota_planning.report import QuotaReport
    from alloc.result import Result


def operation_tables(found: "OperationReport", currency: str) -> "list[RenderableType]":
    """Return what a decision says: certificate, costs, nodes that are on.

    Parameters
    ----------
    found
        The decision.
    currency
        Name of the currency.
    """
    plan = found.result.require_solution()
    costs = found.costs
    money = [
        ("nodes", costs.operating),
        ("tardiness", costs.tardiness),
        ("feared of jobs that wait", costs.postponement),
    ]
    return [
        certificate_table(found.result.certificate, currency),
        table(("part", "money"), money, f"Cost, {currency}"),
        *map(drawn, tables_of(plan, None)),
    ]


def inference_tables(found: "InferenceReport", currency: str) -> "list[RenderableType]":
    """Return what a sizing says: certificate, replicas, goals by both fidelities, what-ifs.

    Parameters
    ----------
    found
        The sizing.
    currency
        Name of the currency.
    """
    shown: list[RenderableType] = [certificate_table(found.result.certificate, currency)]
    if found.result.solution is not None:
        shown += map(drawn, tables_of(found.result.solution, None))
    if found.checks:
        goals = [
            (
                check.period,
                check.model,
                check.option,
                check.request_class,
                f"{check.measure} {check.goal_s:g} s",
                percent(check.allowed),
                percent(check.predicted),
                percent(check.simulated) if check.requests else None,
            )
            # The nearest to a miss first: of many goals the table shows no more than people read.
            for check in sorted(found.checks, key=lambda check: check.allowed - check.simulated)
        ]
        headings = (
            "period",
            "model",
            "on",
            "requests",
            "goal",
            "late, at most",
            "formula",
            "simulated",
        )
        shown.append(shortened(headings, goals, title=f"Goals, round {found.iterations}"))
    shown += _resolved(found.result, f"cost, {currency}")
    return shown + assumed(found.result.assumptions)


def quota_tables(found: "QuotaReport") -> "list[RenderableType]":
    """Return what quotas say: certificate, quotas, what tenants get, what-ifs."""
    goal = found.result.certificate.objective_name.replace("_", " ")
    unit = "GPU h" if found.result.certificate.objective_name == "expected_shortfall" else ""
    shown: list[RenderableType] = [certificate_table(found.result.certificate, unit)]
    if found.result.solution is not None:
        shown += map(drawn, tables_of(found.result.solution, None))
        outlooks = [
            (o.tenant, o.sample, percent(o.service), percent(o.coverage), o.shortfall_gpu_h)
            for o in found.outlooks
        ]
        columns = ("tenant", "sample", "served", "fully served", "short, GPU h")
        shown.append(shortened(columns, outlooks, title="What tenants get"))
    shown += _resolved(found.result, goal)
    return shown + assumed(found.result.assumptions)


def _resolved(result: "Result[Any]", what: str) -> "list[RenderableType]":
    return [drawn(sensitivity_table(result, what))] if result.sensitivities else []
