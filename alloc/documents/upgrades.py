"""Upgrades: documents of older versions as those of today.

Version 1 had five kinds of results: ``result`` of instances, and ``plan_result``,
``operation_result``, ``inference_result`` and ``quota_result``, each with its own words for repairs
and sensitivities. Version 2 has one ``result`` for all families, and reports that hold one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Plain = dict[str, Any]
_MORE_JOBS = "1 % of its jobs"


def upgraded(raw: Any, kind: str) -> Any:
    """Return a document in the version of today; one that is no older document as it is.

    Parameters
    ----------
    raw
        The document, plain JSON values; what is malformed in it is left for the checks to find.
    kind
        The kind that is wanted. Of a report of version 1, a ``result`` is what it holds.
    """
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if type(version) is not int or version != 1:  # true is 1 too
        return raw
    upgrade = _UPGRADES.get(raw["kind"]) if isinstance(raw.get("kind"), str) else None
    if upgrade is None:
        return raw
    new, body = upgrade({k: v for k, v in raw.items() if k not in ("schema_version", "kind")})
    if kind == "result" and new != "result":
        new, body = "result", body["result"]
    return {"schema_version": 2, "kind": new, **body}


def _renamed(body: Mapping[str, Any], names: Mapping[str, str]) -> Plain:
    return {names.get(name, name): value for name, value in body.items()}


def _each(values: Any, change: Callable[[Plain], Plain]) -> Any:
    if not isinstance(values, list):
        return values
    return [change(dict(value)) if isinstance(value, dict) else value for value in values]


def _typed(solution: Any, tag: str) -> Any:
    return {"type": tag, **solution} if isinstance(solution, dict) else solution


def _instance_result(body: Plain) -> tuple[str, Plain]:
    return "result", body


def _plan_result(body: Plain) -> tuple[str, Plain]:
    body.pop("costs", None)  # what the plan itself comes to
    found = _renamed(body, {"plan": "solution", "marginals": "sensitivities", "reliefs": "repairs"})
    if "solution" in found:
        found["solution"] = _typed(found["solution"], "plan")
    if "sensitivities" in found:
        found["sensitivities"] = _each(found["sensitivities"], _marginal_value)
    if "repairs" in found:
        found["repairs"] = _each(found["repairs"], _relief)
    return "result", found


def _marginal_value(value: Plain) -> Plain:
    """Version 1 said what one more unit saves, and of demand that the unit is a per cent."""
    saving, lower, upper = (value.pop(name, None) for name in ("saving", "lower", "upper"))
    if value.get("unit") == _MORE_JOBS:
        value["unit"] = _MORE_JOBS.removeprefix("1 ")
    exact = saving is None or lower == saving == upper
    return {
        **_renamed(value, {"quarter": "period"}),
        "amount": 1,
        "value": _negated(saving),
        "lower": _negated(upper),
        "upper": _negated(lower),
        "is_exact": exact,
    }


def _negated(value: Any) -> Any:
    return -value if isinstance(value, int | float) else value


def _relief(value: Plain) -> Plain:
    return {"least": True, **_renamed(value, {"way": "option"})}


def _operation_result(body: Plain) -> tuple[str, Plain]:
    costs = {"costs": body.pop("costs")} if "costs" in body else {}
    found = _renamed(body, {"plan": "solution"})
    found["solution"] = _typed(found.get("solution"), "operation_plan")
    return "operation_report", {"result": found, **costs}


def _report(kind: str, tag: str, own: tuple[str, ...]) -> Callable[[Plain], tuple[str, Plain]]:
    """Return the upgrade of a result that held what a feedback loop adds, in the fields `own`."""

    def upgrade(body: Plain) -> tuple[str, Plain]:
        added = _renamed(
            {name: body.pop(name) for name in own if name in body}, {"rounds": "iterations"}
        )
        found = _renamed(
            body, {"plan": "solution", "resolves": "sensitivities", "relaxations": "repairs"}
        )
        found["solution"] = _typed(found.get("solution"), tag)
        if "sensitivities" in found:
            found["sensitivities"] = _each(found["sensitivities"], _resolve)
        if isinstance(found.get("repairs"), list):
            found["repairs"] = [
                _relaxation(value, number) for number, value in enumerate(found["repairs"])
            ]
        return kind, {"result": found, **added}

    return upgrade


def _resolve(value: Plain) -> Plain:
    found = _renamed(value, {"cost_change": "value", "exact": "is_exact"})
    if found.get("is_exact") is True and found.get("value") is not None:
        found |= {"lower": found["value"], "upper": found["value"]}
    return found


def _relaxation(value: Any, number: int) -> Any:
    """Each relaxation of version 1 was enough by itself."""
    if not isinstance(value, dict):
        return value
    found = {name: part for name, part in value.items() if name != "relative"} | {"option": number}
    before, after = found.get("before"), found.get("after")
    if isinstance(before, int | float) and isinstance(after, int | float):
        found["amount"] = abs(after - before)
    return found


_UPGRADES: Mapping[str, Callable[[Plain], tuple[str, Plain]]] = {
    "result": _instance_result,
    "plan_result": _plan_result,
    "operation_result": _operation_result,
    "inference_result": _report(
        "inference_report", "inference_plan", ("checks", "rounds", "converged")
    ),
    "quota_result": _report("quota_report", "quota_plan", ("outlooks", "rounds", "converged")),
}
"""By kind, what makes of the body of a document of version 1 the kind and body of version 2."""
