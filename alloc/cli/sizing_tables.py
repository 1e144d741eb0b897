"""What operation, inference sizing and quotas show in a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from alloc.cli.tables import certificate_table, number, percent, shortened, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from alloc.problems.inference_sizing.result import InferenceResult, Resolve
    from alloc.problems.operation.result import OperationResult
    from alloc.problems.quota_planning.result import QuotaResult


def operation_tables(found: "OperationResult", currency: str) -> "list[RenderableType]":
    """Return what a decision says: certificate, costs, nodes that are on."""
    rows = [
        (node.node, node.type, ", ".join(f"{job} ({gpus})" for job, gpus in node.jobs))
        for node in found.plan.nodes
    ]
    costs = found.costs
    money = [
        ("nodes", costs.operating),
        ("tardiness", costs.tardiness),
        ("feared of jobs that wait", costs.postponement),
    ]
    shown: list[RenderableType] = [
        certificate_table(found.certificate, currency),
        table(("part", "money"), money, f"Cost, {currency}"),
        shortened(("node", "type", "jobs (GPUs)"), rows, title="Nodes that are on"),
    ]
    if found.plan.postponed:
        shown.append(f"Postponed: {', '.join(found.plan.postponed)}")
    return shown


def inference_tables(found: "InferenceResult", currency: str) -> "list[RenderableType]":
    """Return what a sizing says: certificate, replicas, goals by both fidelities, what-ifs."""
    shown: list[RenderableType] = [certificate_table(found.certificate, currency)]
    if found.plan is not None:
        rows = [
            (
                group.period,
                group.model,
                f"{group.gpu_type} x {group.tensor_parallel} x {group.pipeline_parallel}",
                group.replicas,
                group.batch_cap,
                f"{group.rate_per_s:.4g}",
            )
            for group in found.plan.groups
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
        shown.append(shortened(headings, goals, title=f"Goals, round {found.rounds}"))
    shown += _resolved(found.resolves, f"cost, {currency}")
    return shown + _assumed(found.assumptions)


def quota_tables(found: "QuotaResult") -> "list[RenderableType]":
    """Return what quotas say: certificate, quotas, what tenants get, what-ifs."""
    goal = found.certificate.objective_name.replace("_", " ")
    unit = "GPU h" if found.certificate.objective_name == "expected_shortfall" else ""
    shown: list[RenderableType] = [certificate_table(found.certificate, unit)]
    if found.plan is not None:
        rows = [(q.tenant, q.gpu_type, q.gpu_milli / 1000) for q in found.plan.quotas]
        shown.append(shortened(("tenant", "GPU type", "GPUs"), rows, title="Quotas"))
        outlooks = [
            (o.tenant, o.sample, percent(o.service), percent(o.coverage), o.shortfall_gpu_h)
            for o in found.outlooks
        ]
        columns = ("tenant", "sample", "served", "fully served", "short, GPU h")
        shown.append(shortened(columns, outlooks, title="What tenants get"))
    shown += _resolved(found.resolves, goal)
    return shown + _assumed(found.assumptions)


def _resolved(resolves: "Sequence[Resolve]", what: str) -> "list[RenderableType]":
    """Return what a little more of each thing would change, by solving again."""
    if not resolves:
        return []
    one = {"host": "one more host", "gpu": "one more GPU"}
    rows = [
        (
            one.get(change.kind, f"{change.amount:g} {change.unit}"),
            change.name,
            "no plan" if change.cost_change is None else number(change.cost_change),
            change.exact,
        )
        for change in resolves
    ]
    columns = ("what if", "which", f"adds to the {what}", "proved")
    return [table(columns, rows, "A little more, solved again")]


def _assumed(assumptions: Sequence[str]) -> "list[RenderableType]":
    return ["Assumptions:", *(f"  - {sentence}" for sentence in assumptions)]
