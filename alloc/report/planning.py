"""Writing the report of a plan: one HTML page that needs nothing else."""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alloc.certificate import Certificate
from alloc.documents.files import write_text
from alloc.planning.documents import encode_account, encode_report
from alloc.planning.headline import headline
from alloc.planning.report import PlanReport
from alloc.plotting.plans import plot_costs, plot_goals, plot_hosts
from alloc.problems.right_sizing.accounting import account as accounting
from alloc.problems.right_sizing.plan_tables import gpus_of, money, plan_tables
from alloc.report.explorer import to_script
from alloc.report.pages import page, page_table, script
from alloc.report.sections import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def write_plan_report(report: PlanReport, path: str | PathLike[str]) -> Path:
    """Write a plan with its proof, its replay and its assumptions as one HTML file.

    Parameters
    ----------
    report
        What to report; an infeasible problem is reported with what is missing.
    path
        The HTML file. It is replaced as a whole or not at all.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    AllocError
        If it cannot be written.
    """
    target = Path(path)
    write_text(target, plan_page(report))
    return target


def plan_page(report: PlanReport) -> str:
    """Return the page of `write_plan_report` as text."""
    result = report.result
    code, policy = script()
    return page(
        "plan.html.j2",
        title=f"Plan: {report.problem.name}",
        outcome=_outcome(report),
        holds=report.holds,
        facts=_facts(result.certificate, report.problem.currency),
        repairs=result.repair_options,
        drawings=plan_drawings(report),
        data=to_script(plan_charts(report)),
        code=code,
        policy=policy,
        tables=[page_table(table) for table in plan_tables(encode_report(report))],
        assumptions=result.assumptions,
        fingerprint=result.certificate.fingerprint,
    )


def plan_drawings(report: PlanReport) -> list[Drawing]:
    """Return the figures of a plan, each with its words."""
    if report.result.solution is None:
        return []
    drawings = []
    for name, caption, ax in (
        (
            "hosts",
            "GPUs in each quarter, by offer; rented ones are means over the hours.",
            plot_hosts(report),
        ),
        (
            "costs",
            "Expected money of each quarter, not discounted, and its range over the scenarios.",
            plot_costs(report),
        ),
    ):
        drawings.append(
            Drawing(name, caption, f"{caption} The tables give the numbers.", _figure(ax), True)
        )
    if report.replayed is not None and any(turn.measured for turn in report.replayed.iterations):
        caption = "How well each class's goal is kept in the simulator, worst pool; 1 is kept."
        figure = _figure(plot_goals(report))
        drawings.append(Drawing("goals", caption, f"{caption} {report.replayed.sentence}", figure))
    return drawings


def plan_charts(report: PlanReport) -> list[dict[str, Any]]:
    """Return what the interactive charts of a plan draw, as plain values: GPUs, and money.

    Each has ``title``, ``unit`` and ``layers`` with ``name``, ``values`` by quarter, and ``range``
    over the scenarios where there is one.
    """
    account = encode_account(report)
    plan = report.result.solution
    if account is None or plan is None:
        return []
    books = accounting(report.certified_problem, plan)
    ranges = zip(books.scenario_spent.min(axis=0), books.scenario_spent.max(axis=0), strict=True)
    spent = {
        "name": "expected",
        "values": [float(money) for money in books.spent],
        "range": [[float(low), float(high)] for low, high in ranges],
    }
    hosts = [{"name": name, "values": [*map(float, gpus)]} for name, gpus in gpus_of(account)]
    charts = [
        {"title": "GPUs in each quarter, by offer", "unit": "GPUs", "layers": hosts},
        {
            "title": "Expected money of each quarter",
            "unit": report.problem.currency,
            "layers": [spent],
        },
    ]
    return [chart for chart in charts if chart["layers"]]


def _figure(ax: Axes) -> Figure:
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def _outcome(report: PlanReport) -> str:
    said = headline(report)
    if report.replayed is not None:
        return f"{said or ''} {report.replayed.sentence}".lstrip()
    if report.result.conflict is not None:
        return report.result.conflict
    if said is None:
        return f"No plan was found: {report.result.certificate.status.replace('_', ' ')}."
    return said


def _facts(certificate: Certificate, currency: str) -> list[tuple[str, str]]:
    rows = [("status", certificate.status.replace("_", " "))]
    if certificate.objective is not None:
        rows.append(("cost", f"{money(certificate.objective)} {currency}"))
        if math.isfinite(certificate.bound):
            # Rounded down: a bound that is rounded up is not proved.
            bound = money(math.floor(certificate.bound))
            rows.append(("no plan costs less than", f"{bound} {currency}"))
        if certificate.gap is not None and math.isfinite(certificate.gap):
            rows.append(("gap", f"{100 * certificate.gap:.2f} %"))
    rows += [
        (
            "checked independently of the solver",
            "yes" if certificate.verified else "there is no plan",
        ),
        ("time", f"{certificate.seconds:.1f} s"),
    ]
    return rows
