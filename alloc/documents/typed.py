"""Documents as types of fields, for pydantic models that hold documents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Discriminator, Tag

from alloc.documents.formats import format_of
from alloc.documents.kinds import KINDS
from alloc.documents.models import Part
from alloc.families import FAMILIES


def any_of(known: Sequence[str]) -> Any:
    """Return what a field has as its type to hold a document of any of these kinds.

    Parameters
    ----------
    known
        The kinds. A document that says none of them is taken for one of the first, whose model
        then says what is wrong.
    """

    def choose(value: Any) -> str:
        said = value.get("kind") if isinstance(value, dict) else None
        return f"<{said if said in known else known[0]}>"

    members = [Annotated[format_of(kind).document_type, Tag(f"<{kind}>")] for kind in known]
    return Annotated[reduce(or_, members), Discriminator(choose)]


# Those of a package whose types are not there have no documents.
PROBLEM_KINDS = tuple(dict.fromkeys(f.kind for f in FAMILIES.values() if f.kind in KINDS))
SOLUTION_KINDS = tuple(
    dict.fromkeys(f.solution_kind for f in FAMILIES.values() if f.solution_kind in KINDS)
)

if TYPE_CHECKING:
    AnyProblem = Part
    AnySolution = Part
    InstanceDocument = Part
    PlanningDocument = Part
    ResultDocument = Part
    TopologyDocument = Part
else:
    AnyProblem, AnySolution = any_of(PROBLEM_KINDS), any_of(SOLUTION_KINDS)
    InstanceDocument = format_of("instance").document_type
    PlanningDocument = format_of("planning").document_type
    ResultDocument = format_of("result").document_type
    TopologyDocument = format_of("topology").document_type
