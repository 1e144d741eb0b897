"""Planning documents: problems, plans and their results, read and written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from alloc.capacity import (
    CostBreakdown,
    HostOffer,
    JobClass,
    JobOption,
    MarginalValue,
    Order,
    Owned,
    Plan,
    PlanningProblem,
    PlanResult,
    Relief,
    Rental,
    Scenario,
    ServiceGoal,
    Share,
    Site,
    Tightening,
    Unserved,
)
from alloc.certificate import Certificate
from alloc.documents import planning_models as models
from alloc.documents.decoding import check_structure, decode_host_type, given_fields
from alloc.documents.encoding import encode_certificate, encode_part, header
from alloc.documents.models import Part
from alloc.errors import InstanceError

T = TypeVar("T")


def canonical_planning_json(problem: PlanningProblem) -> bytes:
    """Return a problem as canonical JSON, the same bytes for the same problem.

    Keys are sorted, defaults and the description are left out.
    """
    plain = encode_part(problem, leave_out=("description",))
    return json.dumps(
        plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode("ascii")


def encode_planning_problem(problem: PlanningProblem) -> dict[str, Any]:
    """Return a planning document."""
    return {**header("planning"), **encode_part(problem)}


def encode_plan(plan: Plan) -> dict[str, Any]:
    """Return a plan document."""
    return {**header("plan"), **encode_part(plan)}


def encode_plan_result(result: PlanResult) -> dict[str, Any]:
    """Return the document of a plan's result."""
    plain = encode_part(result, leave_out=("plan", "certificate"))
    plan = None if result.plan is None else encode_part(result.plan)
    certificate = encode_certificate(result.certificate)
    return {**header("plan_result"), "certificate": certificate, **plain, "plan": plan}


def decode_planning_problem(raw: Mapping[str, Any]) -> PlanningProblem:
    """Return the problem of a document."""
    return decode_planning_part(check_structure(raw, "planning"))


def decode_planning_part(document: models.PlanningDocument) -> PlanningProblem:
    """Return the problem of a checked model."""
    return PlanningProblem(
        **{
            **_given(document),
            "offers": tuple(_offer(part) for part in document.offers),
            "sites": tuple(Site(**_given(part)) for part in document.sites),
            "classes": tuple(_job_class(part) for part in document.classes),
            "scenarios": tuple(_scenario(part) for part in document.scenarios),
            "owned": _all(Owned, document.owned),
            "tightening": _all(Tightening, document.tightening),
        }
    )


def decode_plan(raw: Mapping[str, Any]) -> Plan:
    """Return the plan of a document."""
    document: models.PlanDocument = check_structure(raw, "plan")
    return _plan(document)


def decode_plan_result(raw: Mapping[str, Any]) -> PlanResult:
    """Return the result of a document."""
    document: models.PlanResultDocument = check_structure(raw, "plan_result")
    return PlanResult(
        plan=None if document.plan is None else _plan(document.plan),
        certificate=Certificate(**_given(document.certificate)),
        costs=None if document.costs is None else CostBreakdown(**_given(document.costs)),
        assumptions=tuple(document.assumptions),
        marginals=_all(MarginalValue, document.marginals),
        conflict=document.conflict,
        reliefs=_all(Relief, document.reliefs),
        log=tuple(document.log),
    )


def _given(part: Part) -> dict[str, Any]:
    """Return the fields that the document gives, lists as the tuples of the types."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given_fields(part).items()
    }


def _all(kind: type[T], parts: Sequence[Part]) -> tuple[T, ...]:
    return tuple(kind(**_given(part)) for part in parts)


def _offer(part: models.HostOfferPart) -> HostOffer:
    return HostOffer(**{**_given(part), "host": decode_host_type(part.host)})


def _job_class(part: models.JobClassPart) -> JobClass:
    given = _given(part)
    try:
        given["options"] = _all(JobOption, part.options)
        if part.goal is not None:
            given["goal"] = ServiceGoal(**_given(part.goal))
    except InstanceError as error:
        raise InstanceError(f'job class "{part.name}", {error}') from None
    return JobClass(**given)


def _scenario(part: models.ScenarioPart) -> Scenario:
    arrivals = {name: tuple(series) for name, series in part.arrivals.items()}
    return Scenario(**{**_given(part), "arrivals": arrivals})


def _plan(part: models.PlanPart) -> Plan:
    return Plan(
        orders=_all(Order, part.orders),
        waived=tuple(part.waived),
        rentals=_all(Rental, part.rentals),
        shares=_all(Share, part.shares),
        unserved=_all(Unserved, part.unserved),
    )
