"""Schedules, placements, explanations and comparisons as they are shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from alloc.comparison.settings import OPTIMUM
from alloc.families import FAMILIES
from alloc.report.verdict import comparable_means, listed
from alloc.server.pages.charts import Series, bars, gantt, show, steps
from alloc.server.pages.parts import (
    Document,
    Figure,
    Scenario,
    Table,
    View,
    certificate_facts,
    gap_of,
    number_of,
    verdict_of,
)

if TYPE_CHECKING:
    from alloc.problems.allocation.instance import Instance

_UNITS = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


def solve_view(result: Document, instance: Instance | None) -> View:
    """Return what a solve shows.

    Parameters
    ----------
    result
        The result document.
    instance
        What was asked; None where it is not at hand.
    """
    certificate = result["certificate"]
    unit = "" if instance is None else _unit_of(certificate, instance)
    verdict, tone = verdict_of(certificate, unit)
    if result.get("conflict"):
        verdict = f"{verdict} {result['conflict']}"
    solution = result.get("solution") or {}
    figures, tables = [], []
    if solution.get("type") == "schedule" and solution["runs"]:
        figures = _schedule_figures(solution["runs"], instance)
    elif solution.get("assignments"):
        tables = [_assignment_table(solution["assignments"])]
    name = "an instance" if instance is None else instance.name
    return View(
        f"Solve: {name}",
        verdict,
        tone,
        certificate_facts(certificate, unit),
        figures,
        tables,
        _log(result),
    )


def place_view(placement: Document, instance: Instance | None) -> View:
    """Return what a placement shows.

    Parameters
    ----------
    placement
        The result document of a placement.
    instance
        What was asked; None where it is not at hand.
    """
    result = placement["result"]
    view = solve_view(result, instance)
    name = "an instance" if instance is None else instance.name
    stages = [
        (
            stage["objective_name"].replace("_", " "),
            show(stage.get("objective")),
            show(number_of(stage.get("bound"))),
            stage["status"].replace("_", " "),
        )
        for stage in result.get("stages", ())
    ]
    tables = list(view.tables)
    if stages:
        tables.insert(
            0, Table("Levels of the goal", ("objective", "found", "bound", "status"), stages)
        )
    lists = list(view.lists)
    if placement["broken"]:
        lists.insert(0, ("Broken before", placement["broken"]))
    return View(f"Place: {name}", view.verdict, view.tone, view.facts, view.figures, tables, lists)


def explain_view(found: Document) -> View:
    """Return what an explanation shows."""
    jobs = found["jobs"]
    stuck = {name: one for name, one in jobs.items() if not one["starts"]}
    verdict = f"{len(jobs) - len(stuck)} of {len(jobs)} waiting jobs can start now."
    rows = [
        (
            name,
            "yes" if one["starts"] else "no",
            one.get("sentence") or "",
            "; ".join(cure["sentence"] for cure in one.get("relaxations") or ()),
        )
        for name, one in jobs.items()
    ]
    table = Table("Waiting jobs", ("job", "starts", "why not", "what would let it"), rows)
    return View("Explain", verdict, "bad" if stuck else "good", tables=[table])


def compare_view(comparison: Document) -> View:
    """Return what a comparison of schedulers shows: their gaps to the certified bound."""
    rows = [row for row in comparison["rows"] if row.get("error") is None]
    # The best schedule found is the optimum only where that is proved.
    proved = all(
        (bound["certificate"] or {}).get("status") == "optimal" for bound in comparison["bounds"]
    )
    word = OPTIMUM if proved and comparison["bounds"] else "best found"
    gaps = _values(rows, "gap")
    rivals = {name: values for name, values in gaps.items() if name != OPTIMUM}
    means = comparable_means(rivals)
    complete = max(map(len, rivals.values()), default=0)
    if gaps.get(OPTIMUM):
        means = {OPTIMUM: _mean(gaps[OPTIMUM]), **means}
    names = [*means, *(name for name in gaps if name not in means)]
    jct, use = _values(rows, "mean_jct_s"), _values(rows, "utilisation")
    failed = [
        f"{r['scheduler']} on {r['instance']}: {r['error']}"
        for r in comparison["rows"]
        if r.get("error")
    ]
    caption = "Gap of each scheduler to the certified bound, mean over instances and seeds."
    table = Table(
        "Schedulers against the bound",
        ("scheduler", "gap, %", "mean completion time, s", "utilisation, %"),
        [
            (
                {OPTIMUM: word}.get(name, name)
                if name in means
                else f"{name} (has a gap in {len(gaps[name])} of {complete} runs: not compared)",
                show(_percent(_mean(gaps[name]))),
                show(_mean(jct[name])),
                show(_percent(_mean(use[name]))),
            )
            for name in names
        ],
    )
    percents = [_percent(value) for value in means.values()]
    labels = [{OPTIMUM: word}.get(name, name) for name in means]
    spoken = "; ".join(f"{n} {show(v)} %" for n, v in zip(labels, percents, strict=True))
    figures = []
    tables = []
    if means:
        svg = bars(f"{caption} {spoken}.", labels, [Series("gap", percents)], "gap, %")
        figures.append(Figure(caption, svg, table))
    else:
        tables.append(table)
    found = {name: value for name, value in means.items() if name != OPTIMUM}
    verdict = "No scheduler could be compared with a bound."
    if found:
        least = min(found.values())
        best = [name for name, value in found.items() if value == least]
        verb = "comes" if len(best) == 1 else "come"
        verdict = (
            f"{listed(best)} {verb} nearest: {show(_percent(least))} % above the proved bound."
        )
    return View(
        "Compare schedulers",
        verdict,
        "bad" if failed else "good" if found else "fair",
        figures=figures,
        tables=tables,
        lists=[("Failed", failed)] if failed else [],
    )


def schedule_scenario(name: str, result: Document, instance: Instance | None) -> Scenario:
    """Return an answer about a cluster to hold against others.

    Parameters
    ----------
    name
        What to call it.
    result
        The result document.
    instance
        What was asked; None where it is not at hand.
    """
    certificate = result["certificate"]
    gap = gap_of(certificate)
    facts = {
        "status": str(certificate["status"]).replace("_", " "),
        "objective": certificate["objective_name"].replace("_", " "),
        "value": show(certificate.get("objective")),
        "bound": show(number_of(certificate.get("bound"))),
        "gap": show(None) if gap is None else f"{100 * gap:.2f} %",
        "time, s": show(certificate["seconds"]),
    }
    runs = (result.get("solution") or {}).get("runs", ())
    if runs:
        facts["end of all, s"] = show(max(run["end_s"] for run in runs))
        facts["GPU hours"] = show(_gpu_seconds(runs, instance) / 3600)
    return Scenario(
        name,
        "schedule",
        facts,
        (
            certificate["objective_name"],
            number_of(certificate.get("objective")),
            number_of(certificate.get("bound")),
        ),
    )


def schedule_figures(scenarios: Sequence[Scenario]) -> list[Figure]:
    """Return the chart of answers beside each other, for each objective."""
    figures = []
    for name in dict.fromkeys(one.objective[0] for one in scenarios):
        those = [one for one in scenarios if one.objective[0] == name]
        words = name.replace("_", " ")
        series = [
            Series("found", [one.objective[1] for one in those]),
            Series("proved bound", [one.objective[2] for one in those]),
        ]
        caption = f"{words.capitalize()}: found, and proved bound."
        table = Table(
            words.capitalize(),
            ("scenario", "found", "proved bound"),
            [(one.name, show(one.objective[1]), show(one.objective[2])) for one in those],
        )
        spoken = "; ".join(f"{one.name} {show(one.objective[1])}" for one in those)
        svg = bars(f"{caption} {spoken}.", [one.name for one in those], series, words)
        figures.append(Figure(caption, svg, table))
    return figures


def _unit_of(certificate: Document, instance: Instance) -> str:
    """Return the unit of what was optimised; of a goal of several levels there is none."""
    family = FAMILIES.get(str(certificate.get("formulation")))
    name = certificate["objective_name"]
    if family is None or name not in family.objectives:
        return ""
    return family.unit(instance, name)


def _schedule_figures(runs: Sequence[Any], instance: Instance | None) -> list[Figure]:
    seconds, unit = _unit(max(run["end_s"] for run in runs))
    by_job: dict[str, list[Any]] = {}
    for run in sorted(runs, key=lambda run: run["start_s"]):
        by_job.setdefault(run["job"], []).append(run)
    rows = [
        (
            job,
            [
                (run["start_s"] / seconds, run["end_s"] / seconds, _run_words(run, instance))
                for run in spans
            ],
        )
        for job, spans in by_job.items()
    ]
    caption = "When each job runs."
    table = Table(
        f"Runs, {unit}",
        ("job", "from", "to", "with"),
        [(job, show(a), show(b), what) for job, spans in rows for a, b, what in spans],
    )
    figures = [
        Figure(
            caption, gantt(f"{caption} {len(rows)} jobs; the table has them.", rows, unit), table
        )
    ]
    if instance is not None:
        figures.append(_use_figure(runs, instance, seconds, unit))
    return figures


def _use_figure(runs: Sequence[Any], instance: Instance, seconds: float, unit: str) -> Figure:
    changes: dict[float, float] = {0.0: 0.0}
    for run in runs:
        gpus = _gpus_of(run, instance)
        changes[run["start_s"]] = changes.get(run["start_s"], 0.0) + gpus
        changes[run["end_s"]] = changes.get(run["end_s"], 0.0) - gpus
    points, used = [], 0.0
    for moment in sorted(changes):
        used += changes[moment]
        points.append((moment / seconds, round(used, 6)))
    total = float(instance.topology.capacity[:, 0].sum()) / 1000
    peak = max(value for _, value in points)
    caption = f"GPUs in use over time; the line shows the {show(total)} that there are."
    table = Table(
        "GPUs in use",
        (f"from, {unit}", "GPUs"),
        [(show(moment), show(value)) for moment, value in points],
    )
    svg = steps(f"{caption} At most {show(peak)} are in use.", points, total, (unit, "GPUs"))
    return Figure(caption, svg, table)


def _gpus_of(run: Any, instance: Instance) -> float:
    configuration = instance.job(run["job"]).configurations[run["configuration"]]
    return float(sum(group.count * group.gpu_milli for group in configuration.tasks) / 1000)


def _gpu_seconds(runs: Sequence[Any], instance: Instance | None) -> float:
    if instance is None:
        return math.nan
    return math.fsum((run["end_s"] - run["start_s"]) * _gpus_of(run, instance) for run in runs)


def _run_words(run: Any, instance: Instance | None) -> str:
    hosts = sorted({task["host"] for task in run.get("tasks", ())})
    where = f" on {', '.join(hosts)}" if hosts else ""
    if instance is None:
        return f"configuration {run['configuration']}{where}"
    return f"{show(_gpus_of(run, instance))} GPUs{where}"


def _assignment_table(assignments: Sequence[Any]) -> Table:
    return Table(
        "Where tasks stand",
        ("job", "configuration", "tasks"),
        [
            (
                one["job"],
                str(one["configuration"]),
                ", ".join(f"{t['count']} {t['role']} on {t['host']}" for t in one.get("tasks", ())),
            )
            for one in assignments
        ],
    )


def _values(rows: Sequence[Document], measure: str) -> dict[str, list[float]]:
    """Return the known values of a measure by scheduler, in order."""
    found: dict[str, list[float]] = {}
    for row in rows:
        value = row.get(measure, row["metrics"].get(measure))
        values = found.setdefault(row["scheduler"], [])
        if value is not None and math.isfinite(value):
            values.append(value)
    return found


def _mean(values: Sequence[float]) -> float:
    """Return the mean; not a number where there is no value."""
    return math.fsum(values) / len(values) if values else math.nan


def _percent(share: float) -> float:
    # A gap of rounding errors is none.
    return 0.0 if abs(share) < 1e-9 else 100 * share


def _unit(longest_s: float) -> tuple[float, str]:
    return next((s, name) for s, name in _UNITS if longest_s >= 2 * s or s == 1.0)


def _log(result: Document) -> list[tuple[str, Sequence[str]]]:
    lines = [line.strip() for line in result.get("log", ())]
    return [("Steps of the method", lines)] if lines else []
