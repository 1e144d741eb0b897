"""JSON documents: reading and writing instances, solutions, results and topologies.

Every document is a JSON object that starts with ``schema_version`` and ``kind``; `json_schema`
gives the published schema. ``write_*`` returns the text and writes it if a path is given, as a
whole or not at all; ``parse_*`` takes text, ``load_*`` a path. A path that ends in ``.gz`` is
compressed. Whatever is wrong with a document is an `InstanceError` of one sentence that names the
job, the field, the value and the cure.
"""

from __future__ import annotations

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
from alloc.documents.files import MAX_BYTES
from alloc.documents.formats import format_of
from alloc.documents.models import SCHEMA_VERSION, Kind
from alloc.documents.planning import (
    decode_plan,
    decode_plan_result,
    decode_planning_problem,
    encode_plan,
    encode_plan_result,
    encode_planning_problem,
)
from alloc.documents.schema import json_schema, write_schemas

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

_INSTANCE = format_of("instance", encode_instance, decode_instance)
_SOLUTION = format_of("solution", encode_solution, decode_solution)
_RESULT = format_of("result", encode_result, decode_result)
_TOPOLOGY = format_of("topology", encode_topology, decode_topology)
_PROBLEM = format_of("planning", encode_planning_problem, decode_planning_problem)
_PLAN = format_of("plan", encode_plan, decode_plan)
_PLAN_RESULT = format_of("plan_result", encode_plan_result, decode_plan_result)

# Jobs with the same configurations are written against one set, and share one tuple when read.
write_instance, parse_instance, load_instance = _INSTANCE.write, _INSTANCE.parse, _INSTANCE.load
# Whether a solution or plan is feasible is for the judge to say.
write_solution, parse_solution, load_solution = _SOLUTION.write, _SOLUTION.parse, _SOLUTION.load
write_result, parse_result, load_result = _RESULT.write, _RESULT.parse, _RESULT.load
write_topology, parse_topology, load_topology = _TOPOLOGY.write, _TOPOLOGY.parse, _TOPOLOGY.load
write_planning_problem = _PROBLEM.write
parse_planning_problem, load_planning_problem = _PROBLEM.parse, _PROBLEM.load
write_plan, parse_plan, load_plan = _PLAN.write, _PLAN.parse, _PLAN.load
write_plan_result = _PLAN_RESULT.write
parse_plan_result, load_plan_result = _PLAN_RESULT.parse, _PLAN_RESULT.load
