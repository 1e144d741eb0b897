"""Inference sizing, quotas and operation as they are shown.

Parameters
----------
report
    The result document of the operation.
request
    What was asked; None where it is no longer stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from alloc.documents.formats import format_of
from alloc.errors import InstanceError
from alloc.problems.inference_sizing.problem import InferenceProblem
from alloc.problems.operation.problem import OperationProblem
from alloc.problems.quota_planning.problem import QuotaProblem
from alloc.server.pages.charts import show
from alloc.server.pages.parts import (
    Document,
    Figure,
    Table,
    Tone,
    View,
    certificate_facts,
    verdict_of,
)
from alloc.server.pages.sizing_figures import (
    cost_figure,
    goal_figure,
    gpu_figure,
    node_figure,
    outlook_figure,
    quota_figures,
)

P = TypeVar("P")


def inference_view(report: Document, request: Document | None) -> View:
    """Return what a sizing shows: GPUs by period, goals in the simulation, replicas."""
    result, problem = report["result"], _problem(request, format_of("inference_problem").decode)
    currency = "" if problem is None else problem.currency
    verdict, tone = _verdict(result, currency)
    checks = report.get("checks", ())
    missed = [check for check in checks if check["simulated"] > check["allowed"]]
    if missed:
        verdict += f" In the simulation {len(missed)} of {len(checks)} goals are missed."
        tone = "bad"
    elif checks:
        verdict += " In the simulation every goal is kept."
    groups = (result.get("solution") or {}).get("groups", ())
    figures, tables = list[Figure](), list[Table]()
    if groups:
        periods = [group["period"] for group in groups]
        if problem is not None:
            periods = [period.name for period in problem.periods]
        figures.append(gpu_figure(groups, list(dict.fromkeys(periods))))
        tables.append(_replicas(groups))
    if checks:
        figures.append(goal_figure(checks))
    return View(
        _title("Inference", problem),
        verdict,
        tone,
        certificate_facts(result["certificate"], currency),
        figures,
        tables + _sensitivities(result, f"cost, {currency}".rstrip(", ")),
        _lists(result),
    )


def quota_view(report: Document, request: Document | None) -> View:
    """Return what quotas show: each beside its demand, and what tenants get."""
    result, problem = report["result"], _problem(request, format_of("quota_problem").decode)
    goal = result["certificate"]["objective_name"]
    unit = "GPU h" if goal == "expected_shortfall" else ""
    verdict, tone = _verdict(result, unit)
    figures = list[Figure]()
    if result.get("solution") is not None:
        figures = quota_figures(result["solution"]["quotas"], problem)
        figures.append(outlook_figure(report["outlooks"], goal))
    return View(
        _title("Quotas", problem),
        verdict,
        tone,
        certificate_facts(result["certificate"], unit),
        figures,
        _levels(result) + _sensitivities(result, goal.split(" of ")[0].replace("_", " ")),
        _lists(result),
    )


def operation_view(report: Document, request: Document | None) -> View:
    """Return what a decision shows: what runs on each node, and what it costs."""
    result, problem = report["result"], _problem(request, format_of("operation").decode)
    currency = "" if problem is None else problem.currency
    verdict, tone = _verdict(result, currency)
    nodes = result["solution"].get("nodes", ())
    waiting = result["solution"].get("postponed", ())
    verdict += f" {len(nodes)} nodes are on, {len(waiting)} jobs wait."
    figures = [node_figure(nodes)] if nodes else []
    return View(
        _title("Operation", problem),
        verdict,
        tone,
        certificate_facts(result["certificate"], currency),
        [*figures, cost_figure(report["costs"], currency)],
        [],
        [("Jobs that wait", waiting)] if waiting else [],
    )


def _problem(request: Document | None, read: Callable[[Document], P]) -> P | None:
    """Return the problem that was asked about, if it is still known and can still be read."""
    if request is None:
        return None
    try:
        return read(request["problem"])
    except InstanceError:
        # Made by another alloc, whose documents this one does not read: shown without it.
        return None


def _title(what: str, problem: InferenceProblem | QuotaProblem | OperationProblem | None) -> str:
    return what if problem is None else f"{what}: {problem.name}"


def _verdict(result: Document, unit: str) -> tuple[str, Tone]:
    sentence, tone = verdict_of(result["certificate"], unit)
    conflict = result.get("conflict")
    if conflict:
        return f"{sentence} {conflict[:1].upper()}{conflict[1:]}.", "bad"
    return sentence, tone


def _replicas(groups: Sequence[Document]) -> Table:
    return Table(
        "Replicas",
        ("period", "model", "GPUs of a replica", "replicas", "batch", "requests/s"),
        [
            (
                group["period"],
                group["model"],
                f"{_gpus(group)} {group['gpu_type']} (TP {group['tensor_parallel']}, "
                f"PP {group['pipeline_parallel']})",
                str(group["replicas"]),
                str(group["batch_cap"]),
                show(group["rate_per_s"]),
            )
            for group in groups
        ],
    )


def _gpus(group: Document) -> int:
    return int(group["tensor_parallel"] * group["pipeline_parallel"])


def _levels(result: Document) -> list[Table]:
    """Return the levels of a fair goal, worst tenants first."""
    stages = result.get("stages", ())
    if not stages:
        return []
    rows = [
        (
            str(number),
            str(stage["status"]).replace("_", " "),
            show(stage.get("objective")),
            show(None if isinstance(stage.get("bound"), str) else stage.get("bound")),
        )
        for number, stage in enumerate(stages, start=1)
    ]
    columns = ("worst tenants", "status", "sum of their shares", "at most")
    return [Table("Levels: the sum over the worst tenants", columns, rows)]


def _sensitivities(result: Document, what: str) -> list[Table]:
    """Return what a little more of each thing would change, by solving again."""
    sensitivities = result.get("sensitivities", ())
    if not sensitivities:
        return []
    one = {"host": "one more host", "gpu": "one more GPU"}
    rows = [
        (
            f"{one.get(change['kind'], '{} {}'.format(show(change['amount']), change['unit']))}: "
            f"{change['name']}",
            "no plan" if change.get("value") is None else show(change["value"]),
            "yes" if change.get("is_exact") else "no",
        )
        for change in sensitivities
    ]
    return [
        Table("A little more, solved again", ("what if", f"adds to the {what}", "proved"), rows)
    ]


def _lists(result: Document) -> list[tuple[str, Sequence[str]]]:
    lists: list[tuple[str, Sequence[str]]] = []
    if result.get("repairs"):
        sentences = [one["sentence"] for one in result["repairs"]]
        lists.append(("What would make it possible, each enough by itself", sentences))
    if result.get("assumptions"):
        lists.append(("Assumptions", result["assumptions"]))
    return lists
