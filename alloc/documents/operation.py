"""Documents of operation: decisions, plans and their results, encoded and decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from alloc.capacity.operation import (
    EarlyStop,
    NodePlan,
    NodePool,
    NodeType,
    OperationJob,
    OperationPlan,
    OperationProblem,
    RunningJob,
)
from alloc.capacity.operation_result import OperationCosts, OperationResult
from alloc.certificate import Certificate
from alloc.documents import operation_models as models
from alloc.documents.decoding import check_structure, given_fields
from alloc.documents.encoding import encode_certificate, encode_part, header
from alloc.documents.models import Part
from alloc.errors import InstanceError


def encode_operation(problem: OperationProblem) -> dict[str, Any]:
    """Return the document of a decision."""
    return {**header("operation"), **encode_part(problem)}


def encode_operation_plan(plan: OperationPlan) -> dict[str, Any]:
    """Return the document of a plan."""
    return {**header("operation_plan"), **_plan_part(plan)}


def encode_operation_result(result: OperationResult) -> dict[str, Any]:
    """Return the document of a result."""
    return {
        **header("operation_result"),
        "certificate": encode_certificate(result.certificate),
        "costs": encode_part(result.costs),
        "plan": _plan_part(result.plan),
        **({"log": list(result.log)} if result.log else {}),
    }


def _plan_part(plan: OperationPlan) -> dict[str, Any]:
    nodes = [{"node": node.node, "type": node.type, "jobs": dict(node.jobs)} for node in plan.nodes]
    return {"nodes": nodes, "postponed": list(plan.postponed)}


def decode_operation(raw: Mapping[str, Any]) -> OperationProblem:
    """Return the decision of a document."""
    document: models.OperationDocument = check_structure(raw, "operation")
    return OperationProblem(
        **{
            **given_fields(document),
            "types": tuple(NodeType(**_given(part)) for part in document.types),
            "pools": tuple(NodePool(**_given(part)) for part in document.pools),
            "jobs": tuple(_job(part) for part in document.jobs),
            "running": tuple(RunningJob(**_given(part)) for part in document.running),
        }
    )


def decode_operation_plan(raw: Mapping[str, Any]) -> OperationPlan:
    """Return the plan of a document."""
    return _plan(check_structure(raw, "operation_plan"))


def decode_operation_result(raw: Mapping[str, Any]) -> OperationResult:
    """Return the result of a document."""
    document: models.OperationResultDocument = check_structure(raw, "operation_result")
    return OperationResult(
        _plan(document.plan),
        OperationCosts(**given_fields(document.costs)),
        Certificate(**given_fields(document.certificate)),
        tuple(document.log),
    )


def _given(part: Part) -> dict[str, Any]:
    """Return the fields that the document gives, lists as the tuples of the types."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given_fields(part).items()
    }


def _job(part: models.OperationJobPart) -> OperationJob:
    durations = {name: tuple(times) for name, times in part.duration_s.items()}
    try:
        stops = tuple(EarlyStop(**_given(stop)) for stop in part.stops)
    except InstanceError as error:
        raise InstanceError(f'job "{part.id}": {error}') from None
    return OperationJob(**{**_given(part), "duration_s": durations, "stops": stops})


def _plan(part: models.OperationPlanPart) -> OperationPlan:
    nodes = tuple(NodePlan(node.node, node.type, tuple(node.jobs.items())) for node in part.nodes)
    return OperationPlan(nodes, tuple(part.postponed))
