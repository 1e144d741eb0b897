"""Templates: a planning problem from a history and a price sheet, with what there is to decide.

What was measured stands in the template with how often it was seen, what nobody measured (goals,
growth, limits) is marked as a decision, with the value taken until somebody decides.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from alloc.documents.formats import format_of
from alloc.errors import InstanceError
from alloc.planning.forecasts import bootstrap_weeks
from alloc.planning.history import WEEK_S, History, history_of_instance, seen_jobs
from alloc.planning.prices import PriceSheet
from alloc.planning.promises import Wanted, with_goals
from alloc.planning.reduction import reduce_scenarios
from alloc.problems.allocation.instance import Instance
from alloc.problems.right_sizing import PlanningProblem
from alloc.problems.right_sizing.demand import JobClass
from alloc.problems.right_sizing.series import HOURS_OF_WEEK
from alloc.units import MILLI, format_number, require_count
from alloc.workload import Configuration, TaskGroup

GENERIC = "generic"
"""GPU type of a history that names none."""
MEASURE_FROM = "measure from second"
"""Word of an instance's description: jobs before only fill the hosts."""
UNFORESEEN = "not in the history"
"""Class of later jobs that are like none of the history: they take GPUs, and have no goal."""
FILL_WEEKS = 2
"""Weeks of the history that fill the hosts before the weeks that are held out."""
_DRAWN = 50
"""Scenarios drawn, of which a few that stand for them are kept."""
_LEAST_JOBS = 30
"""Jobs of a history at least: the rate of 30 arrivals is known to about 18 %."""
_LEAST_WEEKS = 4
"""Weeks below which a template warns: one odd week in three moves everything."""
_TREND_WEEKS = 8
"""Weeks from which on the halves of a history are compared."""
_QUARTER_HOURS = 2190.0
"""A quarter of a year of 8,760 hours, as `PlanningProblem.quarter_hours`."""
_DIGITS = 5
"""Significant digits of a number in a template: nobody measured more, and people read them."""


@dataclass(frozen=True)
class Template:
    """A planning problem to be filled in.

    Parameters
    ----------
    problem
        The problem, which can be planned as it is.
    history
        What its demand was measured from.
    defaults
        Names of the classes that got the default goal.
    notes
        What was assumed, in sentences.
    later
        The jobs of the weeks that were held out, each with its class as its ``model``; None if
        none were.
    """

    problem: PlanningProblem
    history: History
    defaults: tuple[str, ...]
    notes: tuple[str, ...]
    later: Instance | None = None


def make_template(
    name: str,
    jobs: Instance,
    sheet: PriceSheet,
    *,
    speeds: Mapping[str, float] | None = None,
    goals: Sequence[Wanted] = (),
    num_quarters: int = 4,
    growth: float = 0.0,
    num_scenarios: int = 5,
    max_classes: int | None = 12,
    by_tenant: bool = False,
    hold_out: int = 0,
    seed: int = 0,
) -> Template:
    """Return a planning problem of a history's jobs and a price sheet's hosts.

    Nothing is owned, and nothing is limited: both are the user's to say.

    Parameters
    ----------
    name
        Name of the problem.
    jobs
        The history.
    sheet
        What can be had.
    speeds
        Speed of GPU types in relation to those of the history; these count before the sheet's. A
        type that the history's jobs ran on has 1.
    goals
        Goals of classes by name or pattern; the others get a default (see
        `alloc.planning.promises.with_goals`).
    num_quarters
        Quarters to plan.
    growth
        Growth from quarter to quarter, as a fraction.
    num_scenarios
        Scenarios kept, which stand for fifty that are drawn from the weeks.
    max_classes
        Most classes of jobs; None: as many as there are.
    by_tenant
        Whether large tenants have classes of their own.
    hold_out
        Last weeks that the problem is not made from, to check a plan on.
    seed
        Seed of the draws.

    Raises
    ------
    InstanceError
        If the history is too short or its jobs too long, no GPU type of the sheet is known in
        relation to the history's, or an option makes no sense.
    """
    require_count(hold_out, "template", "hold_out")
    notes: list[str] = []
    known = _speeds(jobs, sheet, speeds or {}, notes)
    early, cut_s = _before(jobs, hold_out)
    if len(early.jobs) < _LEAST_JOBS:
        raise InstanceError(
            f"history: has {len(early.jobs)} jobs to forecast from, which say next to nothing of "
            f"how many will come; give {_LEAST_JOBS} or more, over several weeks."
        )
    history = history_of_instance(early, speeds=known, by_tenant=by_tenant, max_classes=max_classes)
    _require_short(history, known, num_quarters)
    if history.num_weeks < _LEAST_WEEKS:
        notes.append(
            f"The history has {history.num_weeks} whole weeks: what other weeks are like it "
            "cannot say."
        )
    classes, defaults = with_goals(history.classes, goals)
    drawn = bootstrap_weeks(history, num_quarters, num_scenarios=_DRAWN, growth=growth, seed=seed)
    kept = reduce_scenarios(drawn, num_scenarios) if num_scenarios < _DRAWN else drawn
    problem = PlanningProblem(
        name,
        sheet.currency,
        num_quarters,
        sheet.offers,
        sheet.sites,
        tuple(_rounded_class(one) for one in classes),
        tuple(
            replace(
                scenario,
                arrivals={key: tuple(map(_rounded, of)) for key, of in scenario.arrivals.items()},
            )
            for scenario in kept
        ),
        description={"demand": f"{history.num_weeks} weeks of {jobs.name}", "offers": "the user's"},
    )
    later = None if cut_s is None else _later(jobs, history, known, cut_s)
    return Template(problem, history, defaults, tuple(notes), later)


def _speeds(
    jobs: Instance, sheet: PriceSheet, given: Mapping[str, float], notes: list[str]
) -> dict[str, float]:
    """Return the speed of every GPU type offered, or refuse: no answer is worth a guess of it."""
    types = sheet.gpu_types
    for name in given:
        if name not in types:
            raise InstanceError(
                f'speed: the price sheet offers no GPU of type "{name}"; it offers '
                f"{', '.join(types)}."
            )
    ran = {name for name in jobs.topology.gpu_types if name is not None}
    found, unknown = {}, []
    for name in types:
        if name in given:
            found[name] = given[name]
        elif name in sheet.speeds:
            found[name] = sheet.speeds[name]
        elif ran == {name}:
            found[name] = 1.0
        else:
            unknown.append(name)
    if not unknown:
        return found
    if ran <= {GENERIC} and len(types) == 1:
        notes.append(
            f"The history does not say on which GPUs its jobs ran: {types[0]} is taken to be as "
            f"fast. --speed {types[0]}=2 says that it is twice as fast."
        )
        return {types[0]: 1.0}
    of = f"those of the history ({', '.join(sorted(ran - {GENERIC})) or 'which it does not name'})"
    raise InstanceError(
        f"price sheet: nothing says how fast {', '.join(unknown)} is in relation to {of}; add a "
        f"column speed, or --speed {unknown[0]}=NUMBER, 1 for as fast."
    )


def _before(jobs: Instance, hold_out: int) -> tuple[Instance, float | None]:
    """Return the jobs before the weeks held out, and when those begin."""
    if not hold_out:
        return jobs, None
    arrivals = [job.arrival_s for job in jobs.jobs]
    span_s = max(arrivals) - min(arrivals)
    # Nobody arrives at the very end of a week: less than a day is no sign that it is not whole.
    num_weeks = round(span_s / WEEK_S) if span_s % WEEK_S > WEEK_S - 86400 else span_s // WEEK_S
    if hold_out >= num_weeks:
        raise InstanceError(
            f"history: has {int(num_weeks)} whole weeks, and {hold_out} of them are to be held "
            f"out; hold out at most {max(int(num_weeks) - 1, 0)}."
        )
    cut_s = min(arrivals) + (num_weeks - hold_out) * WEEK_S
    early = tuple(job for job in jobs.jobs if job.arrival_s < cut_s)
    return jobs.replace(jobs=early, running=()), cut_s


def _require_short(history: History, speeds: Mapping[str, float], num_quarters: int) -> None:
    """Refuse jobs that the plan ends before."""
    horizon_h = num_quarters * _QUARTER_HOURS
    slowest = min(speeds.values())
    for one in history.classes:
        hours = max(option.hours for option in one.options)
        if hours > horizon_h:
            raise InstanceError(
                f'history: jobs of class "{one.name}" run {hours:.0f} h on average on the slowest '
                f"GPUs offered (speed {slowest:g}), longer than the {horizon_h:.0f} h that are "
                f"planned; plan {math.ceil(hours / _QUARTER_HOURS)} quarters or more, or check the "
                "unit of the run times."
            )


def _later(jobs: Instance, history: History, speeds: Mapping[str, float], cut_s: float) -> Instance:
    """Return the jobs of the weeks held out, and of the weeks before that fill the hosts."""
    assert history.grouping is not None
    begin_s = max(cut_s - FILL_WEEKS * WEEK_S, 0.0)
    names = {one.name for one in history.classes}
    # Whether jobs may be interrupted tells classes apart only if it did so in the weeks before.
    mixed = any(one.interruptible for one in history.classes)
    found = []
    for job, one in seen_jobs(jobs):
        seen = replace(one, interruptible=mixed and job.preemptible)
        key = history.grouping.key_of(seen)
        name = UNFORESEEN if key is None else history.grouping.name_of(key)
        if job.arrival_s < begin_s or seen.hours <= 0:
            continue
        group = TaskGroup("worker", seen.gpus, MILLI)
        ways = tuple(Configuration((group,), speed, gpu_type) for gpu_type, speed in speeds.items())
        found.append(
            job.replace(
                arrival_s=job.arrival_s - begin_s,
                work=seen.hours * 3600,
                work_done=0.0,
                configurations=ways,
                elasticity="rigid" if len(ways) == 1 else "moldable",
                deadline_s=None,
                due_date_s=None,
                refusable=False,
                model=name if name in names else UNFORESEEN,
            )
        )
    if not any(job.arrival_s + begin_s >= cut_s for job in found):
        raise InstanceError(
            "history: no job with whole GPUs that ran came in the weeks held out, so a plan cannot "
            "be checked on them; hold out more."
        )
    return Instance(
        f"{jobs.name}, weeks held out",
        _room_for(max((seen.gpus for _, seen in seen_jobs(jobs)), default=1), speeds),
        tuple(found),
        description={
            MEASURE_FROM: f"{cut_s - begin_s:.0f}",
            "cluster": "made up: that of the plan takes its place",
        },
    )


def _room_for(gpus: int, speeds: Mapping[str, float]) -> Any:
    """Return a cluster with room for the largest job on each GPU type."""
    from alloc.topology import Host, HostType, Topology

    kinds = tuple(HostType(f"{name}-host", gpus, name) for name in speeds)
    return Topology("room", kinds, tuple(Host(kind.name, kind.name) for kind in kinds))


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _rounded_class(one: JobClass) -> JobClass:
    options = tuple(replace(option, hours=_rounded(option.hours)) for option in one.options)
    return replace(one, options=options)


def template_text(template: Template) -> str:
    """Return a template as YAML, with comments that say what to decide and what was measured."""
    problem, history = template.problem, template.history
    plain = format_of("planning").encode(problem)
    lines = [
        f"# {_printable(problem.name)}: a planning problem, to be edited. "
        "`alloc plan FILE --replay` plans it.",
        "# DECIDE marks what nobody could measure. All else was measured from the history, or read",
        "# from the price sheet.",
        *(f"# {_printable(note)}" for note in template.notes),
        *(f"{key}: {_flow(plain[key])}" for key in ("schema_version", "kind", "name", "currency")),
        "",
        "# DECIDE how far to plan. Another number of quarters needs other arrivals, at the end of",
        "# this file: write the template again with --quarters and --growth.",
        f"num_quarters: {problem.num_quarters}",
        "",
        "# DECIDE the most money over all quarters; null: no limit.",
        "budget: null",
        "# DECIDE by how much later money counts less, per quarter; 0.02 is usual.",
        "discount_rate: 0.0",
        "# DECIDE how many hosts of each pool may be down at a time.",
        "failures: 0",
        "",
        "# DECIDE which hosts you own: how many, of which purchase or reserved offer below, at",
        "# which site, and in how many quarters they go. Without a line nothing is owned.",
        "owned: []",
        *(f"#  - {_flow(example)}" for example in _owned(problem)),
        "",
        "# DECIDE what jobs are promised. A goal is about the wait (until the start) or the jct",
        "# (until the completion): at most so many hours for that fraction of the jobs; a fraction",
        "# of null means on average, a goal of null no promise.",
        "# DECIDE which classes may run on spot hosts (interruptible), or at other hours",
        "# (deferrable): the history does not say.",
        "classes:",
    ]
    for k, one in enumerate(plain["classes"]):
        lines += _class_lines(one, problem.classes[k], history, k, template.defaults)
    lines += ["", "# From the price sheet: prices per host, per quarter (reserved), per hour."]
    lines += ["offers:", *(f"  - {_flow(one)}" for one in plain["offers"])]
    lines += [
        "",
        "# DECIDE the limits of each site (rack_units, power_kw) and what energy costs there:",
        "# without them space is no limit, and energy costs nothing.",
        "sites:",
        *(f"  - {_flow(one)}" for one in plain["sites"]),
        "",
        *_demand_lines(history),
        "scenarios:",
        *(f"  - {_flow(one)}" for one in plain["scenarios"]),
        "",
        f"description: {_flow(plain['description'])}",
    ]
    return "\n".join(lines) + "\n"


def _owned(problem: PlanningProblem) -> list[dict[str, Any]]:
    """Return an example of hosts that are owned."""
    firm = next((offer for offer in problem.offers if not offer.is_hourly), None)
    if firm is None:
        return []
    site = (*firm.sites, problem.sites[0].name)[0]
    return [{"offer": firm.name, "site": site, "count": 4, "quarters_left": 8}]


def _class_lines(
    plain: dict[str, Any], one: JobClass, history: History, k: int, defaults: Sequence[str]
) -> list[str]:
    weekly = history.jobs_per_hour[:, k] * HOURS_OF_WEEK
    used = history.jobs_per_hour.sum(axis=0) * [c.options[0].gpu_hours for c in history.classes]
    share = used[k] / used.sum()
    goal = plain.get("goal")
    why = " (DECIDE; until then its mean run time)" if one.name in defaults else ""
    shown = {key: value for key, value in plain.items() if key not in ("name", "goal", "options")}
    shown = {"interruptible": one.interruptible, "deferrable": one.deferrable, **shown}
    options = [_flow(option) for option in plain["options"]]
    return [
        f"  # {format_number(weekly.sum())} jobs, {weekly.min():.0f} to {weekly.max():.0f} a week, "
        f"{100 * share:.2g} % of the GPU time.",
        f"  - name: {_flow(one.name)}",
        f"    goal: {_flow(goal)}" + (f"  # {one.goal.sentence}{why}" if one.goal else ""),
        f"    options: [{', '.join(options)}]",
        *(f"    {key}: {_flow(value)}" for key, value in shown.items()),
    ]


def _demand_lines(history: History) -> list[str]:
    """Return what was measured of the load, as comments."""
    hours = np.array([one.options[0].gpu_hours for one in history.classes])
    load = history.jobs_per_hour @ hours
    gpu_type = _printable(history.classes[0].options[0].gpu_type)
    said = [
        f"# Arrivals of each class, jobs per hour by quarter, from {history.num_weeks} weeks.",
        f"# They keep {load.mean():.0f} GPUs ({gpu_type}) busy on average, {load.min():.0f} to "
        f"{load.max():.0f} in a week.",
    ]
    if history.num_weeks >= _TREND_WEEKS:
        half = history.num_weeks // 2
        change = load[-half:].mean() / load[:half].mean() - 1
        said.append(
            f"# The last {half} weeks used {100 * change:+.0f} % GPU time compared with the first; "
            "growth is yours to DECIDE with --growth."
        )
    left = [f"{count} {why}" for why, count in history.left_out.items()]
    return [*said, *([f"# Not in it: {'; '.join(left)}."] if left else [])]


def _flow(value: Any) -> str:
    """Return a value on one line; JSON is YAML too, once signs that YAML folds are escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return "".join(c if c.isprintable() or ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in text)


def _printable(text: str) -> str:
    """Return text that ends no comment: names come from files of any kind."""
    return "".join(c if c.isprintable() else " " for c in text)
