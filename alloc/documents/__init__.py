"""JSON documents: reading and writing instances, solutions, results and topologies.

Every document is a JSON object that starts with ``schema_version`` and ``kind``; `json_schema`
gives the published schema. ``write_*`` returns the text and writes it if a path is given, as a
whole or not at all; ``parse_*`` takes text, ``load_*`` a path. A path that ends in ``.gz`` is
compressed. Whatever is wrong with a document is an `InstanceError` of one sentence that names the
job, the field, the value and the cure.
"""

from __future__ import annotations

from typing import Any

from alloc.documents.files import MAX_BYTES
from alloc.documents.formats import Format, format_of, format_of_type
from alloc.documents.instances import canonical_json
from alloc.documents.models import SCHEMA_VERSION
from alloc.documents.schema import json_schema, write_schemas
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Solution
from alloc.problems.right_sizing import Plan, PlanningProblem
from alloc.result import Result
from alloc.topology import Topology

__all__ = [
    "MAX_BYTES",
    "SCHEMA_VERSION",
    "canonical_json",
    "format_of",
    "format_of_type",
    "json_schema",
    "load_instance",
    "load_plan",
    "load_planning_problem",
    "load_result",
    "load_solution",
    "load_topology",
    "parse_instance",
    "parse_plan",
    "parse_planning_problem",
    "parse_result",
    "parse_solution",
    "parse_topology",
    "write_instance",
    "write_plan",
    "write_planning_problem",
    "write_result",
    "write_schemas",
    "write_solution",
    "write_topology",
]

_INSTANCE: Format[Instance] = format_of("instance")
_SOLUTION: Format[Solution] = format_of("solution")
_RESULT: Format[Result[Any]] = format_of("result")
_TOPOLOGY: Format[Topology] = format_of("topology")
_PROBLEM: Format[PlanningProblem] = format_of("planning")
_PLAN: Format[Plan] = format_of("plan")

# Jobs with the same configurations are written against one set, and share one tuple when read.
write_instance, parse_instance, load_instance = _INSTANCE.write, _INSTANCE.parse, _INSTANCE.load
# Whether a solution or plan is feasible is for the checker to say.
write_solution, parse_solution, load_solution = _SOLUTION.write, _SOLUTION.parse, _SOLUTION.load
write_result, parse_result, load_result = _RESULT.write, _RESULT.parse, _RESULT.load
write_topology, parse_topology, load_topology = _TOPOLOGY.write, _TOPOLOGY.parse, _TOPOLOGY.load
write_planning_problem = _PROBLEM.write
parse_planning_problem, load_planning_problem = _PROBLEM.parse, _PROBLEM.load
write_plan, parse_plan, load_plan = _PLAN.write, _PLAN.parse, _PLAN.load
