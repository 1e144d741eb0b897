"""Messages: what is wrong with the structure of a document, in one sentence with the cure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alloc.documents import models, operation_models, planning_models
from alloc.documents.models import BY_NAME, INLINE, Kind, Part
from alloc.documents.parsing import describe
from alloc.errors import InstanceError, nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Location = tuple[str | int, ...]


@dataclass(frozen=True)
class _Place:
    """What the items of a list are: their noun, the field with their name, their model."""

    noun: str
    name: str
    model: type[Part]


_ITEMS = {
    "jobs": _Place("job", "id", models.JobPart),
    "hosts": _Place("host", "id", models.HostPart),
    "host_types": _Place("host type", "name", models.HostTypePart),
    "domains": _Place("domain", "id", models.DomainPart),
    "tenants": _Place("tenant", "name", models.TenantPart),
    "running": _Place("running job", "job", models.AssignmentPart),
    "assignments": _Place("assignment of job", "job", models.AssignmentPart),
    "runs": _Place("run of job", "job", models.RunPart),
    "offers": _Place("offer", "name", planning_models.HostOfferPart),
    "sites": _Place("site", "name", planning_models.SitePart),
    "classes": _Place("job class", "name", planning_models.JobClassPart),
    "scenarios": _Place("scenario", "name", planning_models.ScenarioPart),
    "owned": _Place("owned hosts of offer", "offer", planning_models.OwnedPart),
    "orders": _Place("order of offer", "offer", planning_models.OrderPart),
}
# Items of items: the number says more than the name, or the name needs the number.
_NUMBERED: dict[str, type[Part]] = {
    "configurations": models.ConfigurationPart,
    "links": models.NetworkLinkPart,
    "tasks": models.TaskGroupPart,
    "affinities": models.AffinityPart,
    "slices": models.SlicePart,
    "spread": models.SpreadPart,
    "stages": models.CertificatePart,
    "options": planning_models.JobOptionPart,
    "tightening": planning_models.TighteningPart,
    "rentals": planning_models.RentalPart,
    "shares": planning_models.SharePart,
    "unserved": planning_models.UnservedPart,
    "marginals": planning_models.MarginalValuePart,
    "reliefs": planning_models.ReliefPart,
}
# Objects in objects.
_PARTS: dict[str, type[Part]] = {
    "placement": models.PlacementRulesPart,
    "moves": models.MovesPart,
    "host": models.HostTypePart,
    "goal": planning_models.ServiceGoalPart,
    "costs": planning_models.CostBreakdownPart,
    "plan": planning_models.PlanPart,
}
# Documents of operation have jobs and plans of their own.
_OPERATION_ITEMS = {
    "types": _Place("node type", "name", operation_models.NodeTypePart),
    "pools": _Place("node pool", "name", operation_models.NodePoolPart),
    "jobs": _Place("job", "id", operation_models.OperationJobPart),
    "running": _Place("running job", "job", operation_models.RunningJobPart),
    "nodes": _Place("node", "node", operation_models.NodePlanPart),
}
_OPERATION_NUMBERED: dict[str, type[Part]] = {"stops": operation_models.EarlyStopPart}
_OPERATION_PARTS: dict[str, type[Part]] = {
    "costs": operation_models.OperationCostsPart,
    "plan": operation_models.OperationPlanPart,
}
_ROOTS: dict[Kind, type[Part]] = {
    "instance": models.InstanceDocument,
    "result": models.ResultDocument,
    "topology": models.TopologyDocument,
    "planning": planning_models.PlanningDocument,
    "plan": planning_models.PlanDocument,
    "plan_result": planning_models.PlanResultDocument,
    "operation": operation_models.OperationDocument,
    "operation_plan": operation_models.OperationPlanDocument,
    "operation_result": operation_models.OperationResultDocument,
}
_SOLUTIONS: dict[Any, type[Part]] = {
    "allocation": models.AllocationPart,
    "schedule": models.SchedulePart,
}
_SOLUTION_DOCUMENTS: dict[Any, type[Part]] = {
    "allocation": models.AllocationDocument,
    "schedule": models.ScheduleDocument,
}
_WANTED = {
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "string_type": "text in quotes",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


@dataclass(frozen=True)
class _Spot:
    """Where an error is: the owner in words, its model, and the field in it."""

    owner: str
    model: type[Part] | None
    field: str


def structure_error(
    details: Sequence[ErrorDetails], raw: Mapping[str, Any], kind: Kind
) -> InstanceError:
    """Return the first error of a document as an `InstanceError`, and how many more are known."""
    spots = [_locate(_without_tags(detail["loc"], kind), raw, kind) for detail in details]
    sentences = _sentences(details, spots)
    others = len(sentences) - 1
    return InstanceError(sentences[0] + (f" (and {others} more)" if others else ""))


def _sentences(details: Sequence[ErrorDetails], spots: Sequence[_Spot]) -> list[str]:
    """Say each error once: a misspelled field is unknown, and the right one is not missing too."""
    missing = {
        (spot.owner, spot.field)
        for detail, spot in zip(details, spots, strict=True)
        if detail["type"] == "missing"
    }
    explained: set[tuple[str, str]] = set()
    found: dict[int, str] = {}
    for k, (detail, spot) in enumerate(zip(details, spots, strict=True)):
        if detail["type"] == "extra_forbidden":
            known = [] if spot.model is None else list(spot.model.model_fields)
            lacking = [name for name in known if (spot.owner, name) in missing]
            # The field that is missing is the likeliest one to be misspelled.
            guess = nearest(spot.field, lacking) or nearest(spot.field, known)
            explained |= {(spot.owner, name) for name in lacking if f'"{name}"' in guess}
            cure = guess or f"; known fields: {', '.join(known)}."
            found[k] = f"{spot.owner}: unknown field {describe(spot.field)}{cure}"
    for k, (detail, spot) in enumerate(zip(details, spots, strict=True)):
        if k in found or (detail["type"] == "missing" and (spot.owner, spot.field) in explained):
            continue
        found[k] = _sentence(detail, spot)
    # Unknown fields come first within an owner: they often explain the rest.
    first_of = {spot.owner: k for k, spot in reversed(list(enumerate(spots)))}
    order = sorted(
        found, key=lambda k: (first_of[spots[k].owner], details[k]["type"] != "extra_forbidden", k)
    )
    return [found[k] for k in order]


def _sentence(detail: ErrorDetails, spot: _Spot) -> str:
    kind, value = detail["type"], detail.get("input")
    field = f"{spot.owner}: {spot.field}" if spot.field else spot.owner
    if kind == "missing":
        return f'{spot.owner}: field "{spot.field}" is missing; add it{_meaning(spot)}.'
    if kind == "finite_number":
        if value != value:
            return f"{field} is NaN; give a finite number, or leave the field out."
        return f"{field} is infinite or too large; give a finite number, at most 1.8e308."
    if kind == "quoted_infinity":
        return f'{field} is {describe(value)}; give a number, or "inf" or "-inf" in quotes.'
    if kind == "literal_error":
        known = [word.strip("'") for word in _expected(detail)]
        guess = nearest(value, known) if isinstance(value, str) else ""
        return f"{field} is {describe(value)}, which is unknown{guess or ';'} known: " + (
            f"{', '.join(known)}."
        )
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return _union_sentence(detail, field)
    if kind in ("greater_than_equal", "less_than_equal"):
        return f"{field} is {describe(value)}, which does not fit 64 bits; give a smaller number."
    if kind == "float_type" and type(value) is int:
        return f"{field} is {describe(value)}, which is too large; numbers end at 1.8e308."
    wanted = _WANTED.get(kind)
    if wanted is None:
        return f"{field} is {describe(value)}: {detail['msg'][0].lower()}{detail['msg'][1:]}."
    cure = f"give {wanted}"
    if isinstance(value, str) and kind in ("float_type", "int_type", "bool_type"):
        cure += " without quotes"
    return f"{field} is {describe(value)}; {cure}."


def _expected(detail: ErrorDetails) -> list[str]:
    expected = str(detail.get("ctx", {}).get("expected", ""))
    return expected.replace(" or ", ", ").split(", ")


def _union_sentence(detail: ErrorDetails, field: str) -> str:
    """Say what is wrong where a document may hold one of several things."""
    value = detail.get("input")
    if str(detail.get("ctx", {}).get("discriminator")).strip("'") == "type":
        types = list(_SOLUTIONS)
        if not isinstance(value, dict) or "type" not in value:
            return f'{field}: field "type" is missing; add "type": "schedule" or "allocation".'
        guess = nearest(str(value["type"]), types)
        return (
            f"{field}: type is {describe(value['type'])}, which is unknown{guess or ';'} known: "
            f"{', '.join(types)}."
        )
    return (
        f"{field} is {describe(value)}; give the name of one of configuration_sets, or a list of "
        "configurations."
    )


def _meaning(spot: _Spot) -> str:
    """Return what a missing field is for, from its description."""
    field = None if spot.model is None else spot.model.model_fields.get(spot.field)
    text = "" if field is None or field.description is None else field.description.rstrip(".")
    return f" ({text[0].lower()}{text[1:]})" if text else ""


def _without_tags(location: Location, kind: Kind) -> Location:
    """Drop what pydantic puts in locations besides fields and positions: the tags of unions."""
    found: list[str | int] = []
    for k, step in enumerate(location):
        before = location[k - 1] if k else None
        if step in (BY_NAME, INLINE) and before == "configurations":
            continue
        if step in _SOLUTIONS and (before == "solution" if k else kind == "solution"):
            continue
        found.append(step)
    return tuple(found)


def _locate(location: Location, raw: Mapping[str, Any], kind: Kind) -> _Spot:
    """Walk from the root to the innermost object with a name; what is left is the field."""
    owner = _root_name(raw, kind)
    model = _ROOTS.get(kind) or _of_type(_SOLUTION_DOCUMENTS, raw)
    value: Any = raw
    rest: list[str | int] = list(location)
    own = kind.startswith("operation")
    items = _OPERATION_ITEMS if own else _ITEMS
    numbered = _OPERATION_NUMBERED if own else _NUMBERED
    parts = _OPERATION_PARTS if own else _PARTS
    while rest:
        step = rest[0]
        following = rest[1] if len(rest) > 1 else None
        inner = _get(value, step)
        if isinstance(following, int) and (step in items or step in numbered):
            value = _get(inner, following)
            owner, model = _item(owner, str(step), following, value, items, numbered)
            rest = rest[2:]
        elif step == "configuration_sets" and len(rest) > 2 and isinstance(rest[2], int):
            value = _get(_get(inner, rest[1]), rest[2])
            owner, model = set_owner(raw, str(rest[1]), rest[2]), models.ConfigurationPart
            rest = rest[3:]
        elif step in ("topology", "certificate", "solution") and isinstance(inner, dict):
            value = inner
            owner, model = _room(str(step), inner)
            rest = rest[1:]
        elif step in parts and len(rest) > 1:
            value = inner
            owner, model = f"{owner}, {step}", parts[str(step)]
            rest = rest[1:]
        else:
            break
    return _Spot(owner, model, "".join(_step(k, step) for k, step in enumerate(rest)))


def _of_type(known: Mapping[Any, type[Part]], raw: Mapping[str, Any]) -> type[Part] | None:
    found = raw.get("type")
    return known.get(found) if isinstance(found, str) else None


def _step(k: int, step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return step if k == 0 else f"[{describe(step)}]"


def _get(value: Any, step: str | int | None) -> Any:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def _item(
    owner: str,
    step: str,
    position: int,
    value: Any,
    items: Mapping[str, _Place],
    numbered: Mapping[str, type[Part]],
) -> tuple[str, type[Part]]:
    """Return the words and the model for an item of a list."""
    if step in items:
        place = items[step]
        name = _get(value, place.name)
        if not isinstance(name, str):
            return f"{step}[{position}]", place.model
        number = f" ({step}[{position}])" if place.name == "job" else ""
        return f"{place.noun} {describe(name)}{number}", place.model
    if step == "tasks":
        role = _get(value, "role")
        if isinstance(_get(value, "host"), str) or owner.startswith(("run", "assign")):
            return f"{owner}, tasks[{position}]", models.TaskPlacementPart
        label = f"task group {describe(role)}" if isinstance(role, str) else f"tasks[{position}]"
        return f"{owner}, {label}", models.TaskGroupPart
    if step == "links" and owner.startswith("host type"):
        return f"{owner}, links[{position}]", models.GpuLinkPart
    return f"{owner}, {step}[{position}]", numbered[step]


def _room(step: str, inner: Mapping[str, Any]) -> tuple[str, type[Part] | None]:
    if step == "solution":
        return "solution", _of_type(_SOLUTIONS, inner)
    name = inner.get("name")
    label = f"topology {describe(name)}" if isinstance(name, str) else step
    if step == "topology":
        return label, models.TopologyPart
    return "certificate", models.CertificatePart


def _root_name(raw: Mapping[str, Any], kind: Kind) -> str:
    name = raw.get("name")
    return f"{kind} {describe(name)}" if isinstance(name, str) else f"the {kind}"


def set_owner(raw: Mapping[str, Any], name: str, position: int) -> str:
    """Return the words for a configuration of a set, with the first job that uses the set."""
    words = f"configuration set {describe(name)}, configurations[{position}]"
    jobs = raw.get("jobs")
    users = (
        job["id"]
        for job in (jobs if isinstance(jobs, list) else ())
        if isinstance(job, dict)
        and job.get("configurations") == name
        and isinstance(job.get("id"), str)
    )
    user = next(users, None)
    return words if user is None else f"job {describe(user)}, {words}"
