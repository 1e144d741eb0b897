"""What operation, inference sizing and quotas show in a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from alloc.cli.tables import certificate_table, number, percent, shortened, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from alloc.problems.inference_sizing.report import InferenceReport
    from alloc.problems.operation.report import OperationReport
    from alloc.problems.quota_planning.report import QuotaReport
    from alloc.result import Sensitivity


def operation_tables(found: "OperationReport", currency: str) -> "list[RenderableType]":
    """Return what a decision says: certificate, costs, nodes that are on."""
    plan = found.result.require_solution()
    rows = [
        (node.node, node.type, ", ".join(f"{job} ({gpus})" for job, gpus in node.jobs))
        for node in plan.nodes
    ]
    costs = found.costs
    money = [
        ("nodes", costs.operating),
        ("tardiness", costs.tardiness),
        ("feared of jobs that wait", costs.postponement),
    ]
    shown: list[RenderableType] = [
        certificate_table(found.result.certificate, currency),
        table(("part", "money"), money, f"Cost, {currency}"),
        shortened(("node", "type", "jobs (GPUs)"), rows, title="Nodes that are on"),
    ]
    if plan.postponed:
        shown.append(f"Postponed: {', '.join(plan.postponed)}")
    return shown


def inference_tables(found: "InferenceReport", currency: str) -> "list[RenderableType]":
    """Return what a sizing says: certificate, replicas, goals by both fidelities, what-ifs."""
    shown: list[RenderableType] = [certificate_table(found.result.certificate, currency)]
    if found.result.solution is not None:
        rows = [
            (
                group.period,
                group.model,
                f"{group.gpu_type} x {group.tensor_parallel} x {group.pipeline_parallel}",
                group.replicas,
                group.batch_cap,
                f"{group.rate_per_s:.4g}",
            )
            for group in found.result.solution.groups
        ]
        columns = ("period", "model", "GPUs x TP x PP", "replicas", "batch", "requests/s")
        shown.append(shortened(columns, rows, title="Replicas"))
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
    shown += _resolved(found.result.sensitivities, f"cost, {currency}")
    return shown + _assumed(found.result.assumptions)


def quota_tables(found: "QuotaReport") -> "list[RenderableType]":
    """Return what quotas say: certificate, quotas, what tenants get, what-ifs."""
    goal = found.result.certificate.objective_name.replace("_", " ")
    unit = "GPU h" if found.result.certificate.objective_name == "expected_shortfall" else ""
    shown: list[RenderableType] = [certificate_table(found.result.certificate, unit)]
    if found.result.solution is not None:
        rows = [(q.tenant, q.gpu_type, q.gpu_milli / 1000) for q in found.result.solution.quotas]
        shown.append(shortened(("tenant", "GPU type", "GPUs"), rows, title="Quotas"))
        outlooks = [
            (o.tenant, o.sample, percent(o.service), percent(o.coverage), o.shortfall_gpu_h)
            for o in found.outlooks
        ]
        columns = ("tenant", "sample", "served", "fully served", "short, GPU h")
        shown.append(shortened(columns, outlooks, title="What tenants get"))
    shown += _resolved(found.result.sensitivities, goal)
    return shown + _assumed(found.result.assumptions)


def _resolved(sensitivities: "Sequence[Sensitivity]", what: str) -> "list[RenderableType]":
    """Return what a little more of each thing would change, by solving again."""
    if not sensitivities:
        return []
    one = {"host": "one more host", "gpu": "one more GPU"}
    rows = [
        (
            one.get(change.kind, f"{change.amount:g} {change.unit}"),
            change.name,
            "no plan" if change.value is None else number(change.value),
            change.is_exact,
        )
        for change in sensitivities
    ]
    columns = ("what if", "which", f"adds to the {what}", "proved")
    return [table(columns, rows, "A little more, solved again")]


def _assumed(assumptions: Sequence[str]) -> "list[RenderableType]":
    return ["Assumptions:", *(f"  - {sentence}" for sentence in assumptions)]
