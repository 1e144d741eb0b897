"""Documents as types of fields, for pydantic models that hold documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alloc.documents.formats import format_of
from alloc.documents.models import Part

if TYPE_CHECKING:
    AnySolution = Part
    InstanceDocument = Part
    PlanningDocument = Part
    ResultDocument = Part
    TopologyDocument = Part
else:
    AnySolution = format_of("solution").document_type
    InstanceDocument = format_of("instance").document_type
    PlanningDocument = format_of("planning").document_type
    ResultDocument = format_of("result").document_type
    TopologyDocument = format_of("topology").document_type
