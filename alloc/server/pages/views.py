"""Views: from a finished job, its request and its result, to what is shown of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from alloc.errors import InstanceError
from alloc.problems.allocation.instance import Instance
from alloc.server.pages import answers, clusters, files, plans, sizing
from alloc.server.pages.charts import show
from alloc.server.pages.parts import Document, Scenario, View
from alloc.server.pages.plan_figures import plan_figures
from alloc.server.records import Job


def view_of(job: Job, request: Document | None, result: Document) -> View:
    """Return what a finished job shows.

    Parameters
    ----------
    job
        The job.
    request
        The body that it was asked for with, or None if it is no longer kept.
    result
        Its result, of any version.
    """
    result = _today(result)
    makers: Mapping[str, Callable[[], View]] = {
        "solve": lambda: _solve_view(result, request),
        "place": lambda: clusters.place_view(result, _instance(request)),
        "explain": lambda: clusters.explain_view(result),
        "compare": lambda: clusters.compare_view(result),
        "plan": lambda: plans.plan_view(result),
        "what-if": lambda: plans.what_if_view(result),
        "pareto": lambda: plans.front_view(result, _currency(request)),
        "size-inference": lambda: sizing.inference_view(result, request),
        "plan-quotas": lambda: sizing.quota_view(result, request),
        "operate": lambda: sizing.operation_view(result, request),
        "inspect-files": lambda: files.inspection_view(result),
        "read-files": lambda: files.reading_view(result),
    }
    return makers.get(job.operation, lambda: _plain_view(job, result))()


def scenarios_of(job: Job, request: Document | None, result: Document) -> list[Scenario]:
    """Return what a finished job has to hold against others; nothing for some operations.

    Parameters
    ----------
    job
        The finished job.
    request
        What was asked; None where it is no longer stored.
    result
        Its result document.
    """
    result = _today(result)
    name = job.label or f"{job.operation} {job.id[-6:]}"
    if job.operation == "plan":
        return [plans.plan_scenario(name, result)]
    if job.operation == "what-if":
        changes = "; ".join(result["changes"]) or "changed"
        return [
            plans.plan_scenario(f"{name}: base", result["base"]),
            plans.plan_scenario(f"{name}: {changes}", result["changed"]),
        ]
    if job.operation == "solve":
        return [clusters.schedule_scenario(name, result, _instance(request))]
    if job.operation == "place":
        return [clusters.schedule_scenario(name, result["result"], _instance(request))]
    return []


def comparison_view(scenarios: Sequence[Scenario]) -> View:
    """Return scenarios side by side: plans against plans, schedules against schedules."""
    kinds = [[one for one in scenarios if one.kind == kind] for kind in ("plan", "schedule")]
    figures = [*plan_figures(kinds[0]), *clusters.schedule_figures(kinds[1])]
    tables = [plans.scenario_table(those) for those in kinds if those]
    verdict = f"{len(scenarios)} scenarios side by side."
    costs = [one for one in kinds[0] if math.isfinite(one.objective[1])]
    currencies = {one.facts.get("currency", "") for one in costs}
    if len(costs) > 1 and len(currencies) == 1:
        least = min(one.objective[1] for one in costs)
        near = [one.name for one in costs if math.isclose(one.objective[1], least, rel_tol=1e-6)]
        verdict += (
            f" Cheapest: {' and '.join(near)}, {show(least)} {currencies.pop()}".rstrip() + "."
        )
    return View("Scenarios side by side", verdict, "fair", figures=figures, tables=tables)


def _today(result: Document) -> Document:
    """Return a result in the version of today: it may be that of a job of long ago."""
    from alloc.documents.upgrades import upgraded
    from alloc.planning.documents import upgraded_answer

    found: Document = upgraded_answer(upgraded(result, ""))
    return found


def _solve_view(result: Document, request: Document | None) -> View:
    """Return what a solve of any family shows; instances have charts of their own."""
    problem = _asked(request)
    of_instances = ("allocation", "schedule")
    if isinstance(problem, Instance) or (
        problem is None and (result.get("solution") or {}).get("type") in of_instances
    ):
        return clusters.solve_view(result, problem)
    return answers.answer_view(result, problem)


def _instance(request: Document | None) -> Instance | None:
    """Return the instance that a request is about, if that is still known."""
    problem = _asked(request)
    return problem if isinstance(problem, Instance) else None


def _asked(request: Document | None) -> Any:
    """Return the problem that a request is about, if that is still known."""
    given = None if request is None else request.get("instance")
    if given is None:
        return None
    from alloc.documents.reading import decode
    from alloc.instances import load, manifest
    from alloc.instances.stored_planning import load_stored_planning, stored_planning_ids

    try:
        if not isinstance(given, str):
            return decode(given)
        if given in stored_planning_ids():
            return load_stored_planning(given)
        return load(given) if given in {entry.id for entry in manifest()} else None
    except InstanceError:
        # Made by an older alloc whose documents this one does not read: shown without it.
        return None


def _currency(request: Document | None) -> str:
    given = None if request is None else request.get("problem")
    if isinstance(given, str):
        from alloc.instances.stored_planning import EXAMPLES, load_stored_planning

        return load_stored_planning(given).currency if given in EXAMPLES else ""
    return "" if given is None else str(given.get("currency", ""))


def _plain_view(job: Job, result: Any) -> View:
    """Return the simple values of a result that nobody has drawn yet."""
    simple = [
        (word.replace("_", " "), json.dumps(value) if not isinstance(value, str) else value)
        for word, value in result.items()
        if not isinstance(value, (dict, list))
    ]
    return View(job.operation, "Done; the JSON has all of it.", "fair", simple)
