"""JSON documents: reading and writing instances, solutions, results and topologies.

Every document is a JSON object that starts with ``schema_version`` and ``kind``; `json_schema`
gives the published schema. ``write_*`` returns the text and writes it if a path is given, as a
whole or not at all; ``parse_*`` takes text, ``load_*`` a path. A path that ends in ``.gz`` is
compressed. Whatever is wrong with a document is an `InstanceError` of one sentence that names the
job, the field, the value and the cure.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any, TypeVar

from alloc.capacity import Plan, PlanningProblem, PlanResult
from alloc.certificate import Result
from alloc.documents.decoding import (
    decode_instance,
    decode_result,
    decode_solution,
    decode_topology,
)
from alloc.documents.encoding import (
    canonical_json,
    encode_instance,
    encode_result,
    encode_solution,
    encode_topology,
)
from alloc.documents.files import MAX_BYTES, read_bytes, write_text
from alloc.documents.layout import layout
from alloc.documents.models import SCHEMA_VERSION, Kind
from alloc.documents.parsing import parse_document
from alloc.documents.planning import (
    decode_plan,
    decode_plan_result,
    decode_planning_problem,
    encode_plan,
    encode_plan_result,
    encode_planning_problem,
)
from alloc.documents.schema import json_schema, write_schemas
from alloc.errors import InstanceError
from alloc.instance import Instance
from alloc.solution import Solution
from alloc.topology import Topology

__all__ = [
    "MAX_BYTES",
    "SCHEMA_VERSION",
    "Kind",
    "canonical_json",
    "json_schema",
    "load_instance",
    "load_plan",
    "load_plan_result",
    "load_planning_problem",
    "load_result",
    "load_solution",
    "load_topology",
    "parse_instance",
    "parse_plan",
    "parse_plan_result",
    "parse_planning_problem",
    "parse_result",
    "parse_solution",
    "parse_topology",
    "write_instance",
    "write_plan",
    "write_plan_result",
    "write_planning_problem",
    "write_result",
    "write_schemas",
    "write_solution",
    "write_topology",
]

Path = str | PathLike[str]
T = TypeVar("T")


def write_instance(instance: Instance, path: Path | None = None) -> str:
    """Return an instance as a JSON document, and write it if a path is given.

    Jobs with the same configurations are written against one named set.

    Raises
    ------
    InstanceError
        If a name or number in it has no place in a document.
    AllocError
        If the file cannot be written; what was there before is still there.
    """
    return _written(encode_instance(instance), path)


def parse_instance(text: str | bytes) -> Instance:
    """Read an instance from the text of a JSON document.

    Jobs that name the same configuration set share one tuple.

    Raises
    ------
    InstanceError
        If the document is malformed or the instance contradicts itself.
    """
    return decode_instance(parse_document(text, "instance"))


def load_instance(path: Path) -> Instance:
    """Read an instance from a JSON file; see `parse_instance`."""
    return _loaded(path, parse_instance)


def write_solution(solution: Solution, path: Path | None = None) -> str:
    """Return a solution as a JSON document, and write it if a path is given.

    Raises
    ------
    InstanceError
        If a name or number in it has no place in a document.
    AllocError
        If the file cannot be written; what was there before is still there.
    """
    return _written(encode_solution(solution), path)


def parse_solution(text: str | bytes) -> Solution:
    """Read a solution from the text of a JSON document; the judge says whether it is feasible.

    Raises
    ------
    InstanceError
        If the document is malformed.
    """
    return decode_solution(parse_document(text, "solution"))


def load_solution(path: Path) -> Solution:
    """Read a solution from a JSON file; see `parse_solution`."""
    return _loaded(path, parse_solution)


def write_result(result: Result, path: Path | None = None) -> str:
    """Return a result as a JSON document, and write it if a path is given.

    Raises
    ------
    InstanceError
        If a name or number in it has no place in a document.
    AllocError
        If the file cannot be written; what was there before is still there.
    """
    return _written(encode_result(result), path)


def parse_result(text: str | bytes) -> Result:
    """Read a result from the text of a JSON document.

    Raises
    ------
    InstanceError
        If the document is malformed.
    """
    return decode_result(parse_document(text, "result"))


def load_result(path: Path) -> Result:
    """Read a result from a JSON file; see `parse_result`."""
    return _loaded(path, parse_result)


def write_topology(topology: Topology, path: Path | None = None) -> str:
    """Return a topology as a JSON document, and write it if a path is given.

    Raises
    ------
    InstanceError
        If a name or number in it has no place in a document.
    AllocError
        If the file cannot be written; what was there before is still there.
    """
    return _written(encode_topology(topology), path)


def parse_topology(text: str | bytes) -> Topology:
    """Read a topology from the text of a JSON document.

    Raises
    ------
    InstanceError
        If the document is malformed or the topology contradicts itself.
    """
    return decode_topology(parse_document(text, "topology"))


def load_topology(path: Path) -> Topology:
    """Read a topology from a JSON file; see `parse_topology`."""
    return _loaded(path, parse_topology)


def write_planning_problem(problem: PlanningProblem, path: Path | None = None) -> str:
    """Return a planning problem as a JSON document, and write it if a path is given.

    Raises
    ------
    InstanceError
        If a name or number in it has no place in a document.
    AllocError
        If the file cannot be written; what was there before is still there.
    """
    return _written(encode_planning_problem(problem), path)


def parse_planning_problem(text: str | bytes) -> PlanningProblem:
    """Read a planning problem from the text of a JSON document.

    Raises
    ------
    InstanceError
        If the document is malformed or the problem contradicts itself.
    """
    return decode_planning_problem(parse_document(text, "planning"))


def load_planning_problem(path: Path) -> PlanningProblem:
    """Read a planning problem from a JSON file; see `parse_planning_problem`."""
    return _loaded(path, parse_planning_problem)


def write_plan(plan: Plan, path: Path | None = None) -> str:
    """Return a plan as a JSON document, and write it if a path is given."""
    return _written(encode_plan(plan), path)


def parse_plan(text: str | bytes) -> Plan:
    """Read a plan from the text of a JSON document; the judge says whether it is feasible.

    Raises
    ------
    InstanceError
        If the document is malformed.
    """
    return decode_plan(parse_document(text, "plan"))


def load_plan(path: Path) -> Plan:
    """Read a plan from a JSON file; see `parse_plan`."""
    return _loaded(path, parse_plan)


def write_plan_result(result: PlanResult, path: Path | None = None) -> str:
    """Return the result of planning as a JSON document, and write it if a path is given."""
    return _written(encode_plan_result(result), path)


def parse_plan_result(text: str | bytes) -> PlanResult:
    """Read the result of planning from the text of a JSON document.

    Raises
    ------
    InstanceError
        If the document is malformed.
    """
    return decode_plan_result(parse_document(text, "plan_result"))


def load_plan_result(path: Path) -> PlanResult:
    """Read the result of planning from a JSON file; see `parse_plan_result`."""
    return _loaded(path, parse_plan_result)


def _written(document: dict[str, Any], path: Path | None) -> str:
    text = layout(document)
    if path is not None:
        write_text(path, text)
    return text


def _loaded(path: Path, parse: Callable[[bytes], T]) -> T:
    """Read a file; what is wrong in it is said with its name."""
    data = read_bytes(path)
    try:
        return parse(data)
    except InstanceError as error:
        raise InstanceError(f"{path}: {error}") from None
