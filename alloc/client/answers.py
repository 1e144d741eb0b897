"""Answers of a server as the library's own types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from alloc.documents import format_of
from alloc.planning.documents import upgraded_answer
from alloc.problems.allocation.instance import Instance
from alloc.problems.right_sizing.plan import Plan
from alloc.result import Result
from alloc.topology import Topology

Document = Mapping[str, Any]


@dataclass(frozen=True)
class RemotePlacement:
    """A placement.

    Parameters
    ----------
    result
        The placement with its certificate.
    broken
        Rules that running jobs broke from the start.
    repaired
        Whether the placement makes them right.
    """

    result: Result[Any]
    broken: tuple[str, ...]
    repaired: bool


@dataclass(frozen=True)
class RemotePlan:
    """A plan.

    Parameters
    ----------
    holds
        Whether there is a plan and nothing contradicts it.
    result
        The plan with its certificate.
    replay
        What the replay measured, iteration by iteration, as a document; None without one.
    """

    holds: bool
    result: Result[Plan]
    replay: Document | None


@dataclass(frozen=True)
class RemoteWhatIf:
    """A what-if beside its base.

    Parameters
    ----------
    changes
        What was changed, in words.
    at_least, at_most
        Ends of the range in which the difference in cost is proved to lie; None where nothing is
        proved, as if one of the two has no plan.
    base, changed
        The plans.
    document
        All of it.
    """

    changes: tuple[str, ...]
    at_least: float | None
    at_most: float | None
    base: RemotePlan
    changed: RemotePlan
    document: Document


@dataclass(frozen=True)
class RemoteReading:
    """What a server read of files.

    Parameters
    ----------
    problem
        The instance, or of files without jobs the topology.
    headline
        What was read and how much was left out, in a sentence.
    report
        The account of every row that is not in it, as a document.
    columns
        Which column of a job table is what, as a document; None of other files.
    """

    problem: Instance | Topology
    headline: str
    report: Document
    columns: Document | None


def reading_of(content: bytes) -> RemoteReading:
    """Return the reading of a document."""
    plain = json.loads(content)
    kind = "topology" if plain["instance"] is None else "instance"
    made = format_of(kind).decode(plain[kind])
    return RemoteReading(made, plain["headline"], plain["report"], plain["columns"])


def placement_of(content: bytes) -> RemotePlacement:
    """Return the placement of a document."""
    plain = json.loads(content)
    return RemotePlacement(
        Result.from_json(json.dumps(plain["result"])), tuple(plain["broken"]), plain["repaired"]
    )


def document_of(content: bytes) -> Document:
    """Return a document as it is."""
    plain: Document = json.loads(content)
    return plain


def explanations_of(content: bytes) -> Document:
    """Return the explanation of each job by its id."""
    jobs: Document = json.loads(content)["jobs"]
    return jobs


def plan_of(content: bytes) -> RemotePlan:
    """Return the plan of a document."""
    return _plan(upgraded_answer(json.loads(content)))


def what_if_of(content: bytes) -> RemoteWhatIf:
    """Return the what-if of a document."""
    plain = upgraded_answer(json.loads(content))
    cost = plain["cost"]
    return RemoteWhatIf(
        changes=tuple(plain["changes"]),
        at_least=None if cost is None else cost["at_least"],
        at_most=None if cost is None else cost["at_most"],
        base=_plan(plain["base"]),
        changed=_plan(plain["changed"]),
        document=plain,
    )


def _plan(plain: Document) -> RemotePlan:
    return RemotePlan(plain["holds"], format_of("result").decode(plain["result"]), plain["replay"])
