"""Documents as types of fields, for pydantic models that hold documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alloc.documents.kinds import document_type
from alloc.documents.models import Part

if TYPE_CHECKING:
    AnySolution = Part
    InstanceDocument = Part
    PlanningDocument = Part
    ResultDocument = Part
    TopologyDocument = Part
else:
    AnySolution = document_type("solution")
    InstanceDocument = document_type("instance")
    PlanningDocument = document_type("planning")
    ResultDocument = document_type("result")
    TopologyDocument = document_type("topology")
