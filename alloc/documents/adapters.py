"""Adapters: what reads each kind of document."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from alloc.documents.models import (
    InstanceDocument,
    Kind,
    ResultDocument,
    SolutionDocument,
    TopologyDocument,
)
from alloc.documents.operation_models import (
    OperationDocument,
    OperationPlanDocument,
    OperationResultDocument,
)
from alloc.documents.planning_models import PlanDocument, PlanningDocument, PlanResultDocument

ADAPTERS: dict[Kind, TypeAdapter[Any]] = {
    "instance": TypeAdapter(InstanceDocument),
    "solution": TypeAdapter(SolutionDocument),
    "result": TypeAdapter(ResultDocument),
    "topology": TypeAdapter(TopologyDocument),
    "planning": TypeAdapter(PlanningDocument),
    "plan": TypeAdapter(PlanDocument),
    "plan_result": TypeAdapter(PlanResultDocument),
    "operation": TypeAdapter(OperationDocument),
    "operation_plan": TypeAdapter(OperationPlanDocument),
    "operation_result": TypeAdapter(OperationResultDocument),
}
"""What reads each kind of document, and makes its schema."""
