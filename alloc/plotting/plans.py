"""Plans: hosts and cost over the quarters, goals in both fidelities, and Pareto fronts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from alloc.errors import InstanceError
from alloc.planning.documents import encode_account
from alloc.planning.fronts import Front
from alloc.planning.replay import Measured
from alloc.planning.report import PlanReport
from alloc.plotting.axes import add_legend, axes_to_draw_on, set_title
from alloc.plotting.palette import INK, MUTED, OKABE_ITO
from alloc.problems.right_sizing.accounting import account
from alloc.problems.right_sizing.plan import Plan
from alloc.problems.right_sizing.plan_tables import gpus_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HATCHES = ("", "///", "...", "xxx", "\\\\\\")
"""Tell bars apart when colours repeat, and in print."""


def plot_hosts(report: PlanReport, *, title: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the GPUs in service or rented in each quarter, stacked by offer.

    Of hosts rented by the hour it is the mean over scenarios and hours.

    Parameters
    ----------
    report
        A report with a plan.
    title
        Title, or None.
    ax
        Axes to draw on; fresh ones by default.

    Raises
    ------
    InstanceError
        If there is no plan to draw.
    """
    account = encode_account(report)
    if account is None:
        raise InstanceError("there is no plan to draw; the report says why.")
    ax = axes_to_draw_on(ax, 7.0, 3.6)
    _stack(ax, {name: np.asarray(counts) for name, counts in gpus_of(account)})
    ax.set_ylabel("GPUs")
    set_title(ax, title)
    return ax


def plot_costs(report: PlanReport, *, title: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the expected money of each quarter, not discounted, with its range over the scenarios.

    Parameters
    ----------
    report, title, ax
        As in `plot_hosts`.

    Raises
    ------
    InstanceError
        If there is no plan to draw.
    """
    ax = axes_to_draw_on(ax, 7.0, 3.2)
    books = account(report.certified_problem, _plan(report))
    quarters = np.arange(len(books.spent))
    low, high = books.scenario_spent.min(axis=0), books.scenario_spent.max(axis=0)
    ax.bar(quarters, books.spent, width=0.62, color=OKABE_ITO["blue"], zorder=2, label="expected")
    ax.vlines(quarters, low, high, color=INK, linewidth=1.4, zorder=3, label="over the scenarios")
    _quarters(ax, len(quarters))
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.set_ylabel(f"money, {report.problem.currency}")
    add_legend(ax)
    set_title(ax, title)
    return ax


def plot_goals(report: PlanReport, *, title: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw how well goals are kept in the replay, worst pool of each class, iteration by iteration.

    A goal on a mean is drawn as hours promised over hours measured, so that 1 and more is kept.

    Parameters
    ----------
    report, title, ax
        As in `plot_hosts`.

    Raises
    ------
    InstanceError
        If the plan was not replayed.
    """
    if report.replayed is None:
        raise InstanceError("goals: the plan was not replayed; plan it with a replay.")
    rounds = [turn for turn in report.replayed.iterations if turn.measured]
    classes = sorted({m.job_class for turn in rounds for m in turn.measured})
    ax = axes_to_draw_on(ax, 7.0, 1.4 + 0.5 * len(classes))
    colours = tuple(OKABE_ITO.values())
    for number, turn in enumerate(rounds):
        worst = [
            min(
                (_kept(m) for m in turn.measured if m.job_class == name),
                default=math.nan,
            )
            for name in classes
        ]
        ax.plot(
            worst,
            np.arange(len(classes)) + 0.12 * number,
            linestyle="none",
            marker="os^Dv"[number % 5],
            color=colours[number % len(colours)],
            label=f"iteration {number + 1}",
            zorder=3,
        )
    ax.axvline(1.0, color=INK, linewidth=1.0, zorder=2)
    ax.set_yticks(range(len(classes)), classes)
    ax.set_ylim(len(classes) - 0.4, -0.5)
    ax.set_xlabel("kept in the replay over promised")
    add_legend(ax)
    set_title(ax, title)
    return ax


def plot_front(
    front: Front, currency: str, *, title: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a Pareto front: cost found and proved bound of each point.

    Parameters
    ----------
    front
        The front.
    currency
        Unit of the cost.
    title, ax
        As in `plot_hosts`.

    Raises
    ------
    InstanceError
        If no point has a plan.
    """
    points = [point for point in front.points if point.result.solution is not None]
    if not points:
        raise InstanceError("front: no point has a plan; there is nothing to draw.")
    ax = axes_to_draw_on(ax, 7.0, 3.8)
    values = [point.value for point in points]
    costs = [point.cost for point in points]
    bounds = [point.result.certificate.bound for point in points]
    ax.vlines(values, bounds, costs, color=MUTED, linewidth=3.0, zorder=2, label="not decided")
    ax.plot(values, costs, color=OKABE_ITO["blue"], marker="o", zorder=3, label="found")
    ax.set_xlabel(front.unit)
    ax.set_ylabel(f"cost, {currency}")
    add_legend(ax)
    set_title(ax, title)
    return ax


def _plan(report: PlanReport) -> Plan:
    if report.result.solution is None:
        raise InstanceError("there is no plan to draw; the report says why.")
    return report.result.solution


def _kept(measured: Measured) -> float:
    """Return a goal's measured value over what was promised, so that 1 and more is kept."""
    if not measured.in_hours:
        return measured.value.mean / measured.wanted
    return measured.wanted / measured.value.mean if measured.value.mean > 0 else math.inf


def _stack(ax: Axes, layers: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]) -> None:
    quarters = next((len(layer) for layer in layers.values()), 1)
    bottom = np.zeros(quarters)
    colours: Sequence[str] = tuple(OKABE_ITO.values())
    for i, (name, layer) in enumerate(layers.items()):
        ax.bar(
            np.arange(quarters),
            layer,
            bottom=bottom,
            width=0.62,
            color=colours[i % len(colours)],
            hatch=_HATCHES[i // len(colours) % len(_HATCHES)],
            edgecolor="white",
            linewidth=0.4,
            label=name,
            zorder=2,
        )
        bottom = bottom + layer
    _quarters(ax, quarters)
    if layers:
        add_legend(ax)


def _quarters(ax: Axes, count: int) -> None:
    ax.set_xticks(range(count))
    ax.set_xlabel("quarter (0 is the first)")
    ax.grid(False, axis="x")
