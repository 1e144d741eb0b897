"""Charts of inference sizing, quotas and operation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alloc.problems.quota_planning.problem import QuotaProblem
from alloc.server.pages.canvas import COLOURS
from alloc.server.pages.charts import Series, bars, dots, gantt, show
from alloc.server.pages.parts import Document, Figure, Table, spoken
from alloc.units import MILLI


def gpu_figure(groups: Sequence[Document], periods: Sequence[str]) -> Figure:
    """Return the GPUs in use in each period, by model and type, or by type where these are many.

    Parameters
    ----------
    groups
        Groups of replicas, as JSON.
    periods
        Names of all periods, in order.
    """

    def names(with_model: bool) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for group in groups:
            name = f"{group['model']} on {group['gpu_type']}" if with_model else group["gpu_type"]
            row = found.setdefault(name, [0.0] * len(periods))
            gpus = group["replicas"] * group["tensor_parallel"] * group["pipeline_parallel"]
            row[periods.index(group["period"])] += gpus
        return found

    used = names(True)
    if len(used) > COLOURS:
        used = names(False)
    series = [Series(name, values) for name, values in used.items()]
    caption = "GPUs that serve in each period."
    table = Table(
        "GPUs that serve",
        ("period", *used),
        [(period, *(show(one.values[k]) for one in series)) for k, period in enumerate(periods)],
    )
    drawn = bars(spoken(caption, table), periods, series, "GPUs", stacked=True)
    return Figure(caption, drawn, table)


def goal_figure(checks: Sequence[Document]) -> Figure:
    """Return how well each goal is kept, in the period in which the simulation keeps it worst."""
    worst: dict[str, Document] = {}
    for check in checks:
        name = f"{check['model']}, {check['request_class']}, {check['measure']}"
        if name not in worst or _kept(check, "simulated") < _kept(worst[name], "simulated"):
            worst[name] = check
    rows = []
    for name, check in worst.items():
        ends = sorted((_kept(check, "simulated"), _kept(check, "predicted")))
        rows.append((name, _kept(check, "simulated"), ends[0], ends[1]))
    caption = (
        "How well latency goals are kept in the simulation, worst period of each; 1 is kept. "
        "Lines lead to what the formula says."
    )
    table = Table(
        "Requests later than their goal, %",
        ("goal", "period", "allowed", "formula", "simulated", "kept"),
        [
            (
                f"{name} within {check['goal_s']:g} s",
                check["period"],
                *(show(100 * check[key]) for key in ("allowed", "predicted", "simulated")),
                "yes" if check["simulated"] <= check["allowed"] else "no",
            )
            for name, check in worst.items()
        ],
    )
    return Figure(caption, dots(spoken(caption, table), rows, 1.0, "kept over promised"), table)


def _kept(check: Document, by: str) -> float:
    """Return the share of the requests in time over the share that was promised."""
    return float((1 - check[by]) / (1 - check["allowed"]))


def quota_figures(quotas: Sequence[Document], problem: QuotaProblem | None) -> list[Figure]:
    """Return the quotas of each GPU type, beside the demand if that is known.

    Parameters
    ----------
    quotas
        Quota of each tenant and GPU type, as JSON.
    problem
        What was asked; None where it is not at hand.
    """
    found = []
    for gpu_type in dict.fromkeys(quota["gpu_type"] for quota in quotas):
        held = {q["tenant"]: q["gpu_milli"] / MILLI for q in quotas if q["gpu_type"] == gpu_type}
        series = [Series("quota", list(held.values()))]
        columns, cells = ["tenant", "quota"], [[show(value)] for value in held.values()]
        caption = f"GPUs of {gpu_type} that each tenant is guaranteed"
        if problem is not None:
            mean, least, most = _demand(problem, gpu_type, list(held))
            series.append(Series("demand", mean, least, most))
            columns += ["mean demand", "least", "most"]
            for row, *values in zip(cells, mean, least, most, strict=True):
                row += [show(value) for value in values]
            caption += ", beside its demand with the range over the futures"
        table = Table(
            f"Quotas of {gpu_type}, GPUs",
            columns,
            [(tenant, *row) for tenant, row in zip(held, cells, strict=True)],
        )
        caption += "."
        drawn = bars(spoken(caption, table), list(held), series, "GPUs")
        found.append(Figure(caption, drawn, table))
    return found


def _demand(
    problem: QuotaProblem, gpu_type: str, tenants: Sequence[str]
) -> tuple[list[float], list[float], list[float]]:
    """Return the mean, the least and the most demand of each tenant, GPUs."""
    names = [tenant.name for tenant in problem.tenants]
    columns = [names.index(tenant) for tenant in tenants]
    demand = problem.demand_milli[:, :, columns, problem.types.index(gpu_type)] / MILLI
    weights = problem.weights_h / problem.weights_h.sum()
    mean = np.einsum("sp,spi->i", weights, demand)
    return mean.tolist(), demand.min(axis=(0, 1)).tolist(), demand.max(axis=(0, 1)).tolist()


def outlook_figure(outlooks: Sequence[Document], goal: str) -> Figure:
    """Return what every tenant gets, as planned, by the rule of sharing, and held out.

    Parameters
    ----------
    outlooks
        What each tenant gets in each sample of demand, as JSON.
    goal
        Name of the goal.
    """
    by_time = goal.startswith(("fair_coverage", "least_quota"))
    key = "coverage" if by_time else "service"
    tenants = list(dict.fromkeys(one["tenant"] for one in outlooks))
    samples = list(dict.fromkeys(one["sample"] for one in outlooks))
    share = {(one["tenant"], one["sample"]): 100 * one[key] for one in outlooks}
    series = [Series(sample, [share[tenant, sample] for tenant in tenants]) for sample in samples]
    what = "Time in which each tenant gets all it asks for" if by_time else "Demand that is served"
    caption = f"{what}, %: as planned, and as a scheduler that lends equal amounts would share."
    columns = ["tenant", "sample", "served, %", "fully served, % of the time", "short, GPU h"]
    table = Table(
        "What tenants get",
        columns,
        [
            (
                one["tenant"],
                one["sample"],
                show(100 * one["service"]),
                show(100 * one["coverage"]),
                show(one["shortfall_gpu_h"]),
            )
            for one in outlooks
        ],
    )
    return Figure(caption, bars(spoken(caption, table), tenants, series, "%"), table)


def node_figure(nodes: Sequence[Document]) -> Figure:
    """Return the GPUs of each node that is on, by job."""
    rows = []
    for node in nodes:
        spans, start = [], 0.0
        for job, gpus in node["jobs"].items():
            spans.append((start, start + gpus, f"{job}, {gpus} GPUs"))
            start += gpus
        rows.append((f"{node['node']} ({node['type']})", spans))
    caption = f"What runs on each of the {len(nodes)} nodes that are on, by GPUs."
    table = Table(
        "Nodes that are on",
        ("node", "type", "jobs (GPUs)"),
        [
            (
                node["node"],
                node["type"],
                ", ".join(f"{job} ({gpus})" for job, gpus in node["jobs"].items()),
            )
            for node in nodes
        ],
    )
    return Figure(caption, gantt(spoken(caption, table), rows, "GPUs in use"), table)


def cost_figure(costs: Document, currency: str) -> Figure:
    """Return what a decision costs, by part.

    Parameters
    ----------
    costs
        The parts of the cost, as JSON.
    currency
        Name of the currency; empty where it is not known.
    """
    parts = {
        "nodes": costs["operating"],
        "tardiness": costs["tardiness"],
        "feared of jobs that wait": costs["postponement"],
    }
    caption = "What the decision costs, by part."
    table = Table(
        f"Cost, {currency}".rstrip(", "),
        ("part", "money"),
        [(part, show(value)) for part, value in parts.items()],
    )
    series = [Series("cost", list(parts.values()))]
    return Figure(caption, bars(spoken(caption, table), list(parts), series, currency), table)
