"""Decoding: from checked document models to the central types, whose own checks then speak."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import ValidationError

from alloc.certificate import Certificate, Result
from alloc.documents import models
from alloc.documents.adapters import ADAPTERS
from alloc.documents.first_errors import first_errors, validated
from alloc.documents.messages import set_owner, structure_error
from alloc.documents.models import Kind, Part
from alloc.errors import InstanceError, nearest
from alloc.instance import Affinity, Instance, Moves, Tenant
from alloc.solution import Allocation, Assignment, Run, Schedule, Solution, TaskPlacement
from alloc.topology import Domain, GpuLink, Host, HostType, NetworkLink, Topology
from alloc.workload import Configuration, Job, PlacementRules, Slice, Spread, TaskGroup

# Fields of documents that are no fields of the types.
_HEAD = ("schema_version", "kind", "configuration_sets")


def check_structure(raw: Mapping[str, Any], kind: Kind) -> Any:
    """Return the document model of plain JSON values.

    Raises
    ------
    InstanceError
        If a field is unknown, missing or of the wrong type; one sentence, with the owner.
    """
    validate = ADAPTERS[kind].validate_python
    try:
        return validated(raw, validate)
    except ValidationError as error:
        details, raw = first_errors(error, raw, validate)
    # Outside: an error raised in there would hold on to the first, which may be large.
    raise structure_error(details, raw, kind)


def decode_instance(raw: Mapping[str, Any]) -> Instance:
    """Return the instance of a document; jobs of one set share one tuple of configurations."""
    return decode_instance_part(check_structure(raw, "instance"), raw)


def decode_instance_part(
    document: models.InstanceDocument, raw: Mapping[str, Any] | None = None
) -> Instance:
    """Return the instance of a checked model; `raw` is what it was made of, for messages."""

    def owner(name: str, position: int) -> str:
        plain = document.model_dump(exclude_unset=True) if raw is None else raw
        return set_owner(plain, name, position)

    sets = {
        name: _configurations(parts, partial(owner, name))
        for name, parts in document.configuration_sets.items()
    }
    return Instance(
        **{
            **given_fields(document),
            "topology": decode_topology_part(document.topology),
            "jobs": tuple(_job(part, sets) for part in document.jobs),
            "tenants": tuple(Tenant(**given_fields(part)) for part in document.tenants),
            "running": tuple(_assignment(part) for part in document.running),
            "affinities": tuple(
                Affinity(part.kind, part.level, tuple(part.jobs)) for part in document.affinities
            ),
            "moves": None if document.moves is None else Moves(**given_fields(document.moves)),
        }
    )


def decode_topology(raw: Mapping[str, Any]) -> Topology:
    """Return the topology of a document."""
    return decode_topology_part(check_structure(raw, "topology"))


def decode_solution(raw: Mapping[str, Any]) -> Solution:
    """Return the solution of a document."""
    return decode_solution_part(check_structure(raw, "solution"))


def decode_result(raw: Mapping[str, Any]) -> Result[Solution]:
    """Return the result of a document."""
    document: models.ResultDocument = check_structure(raw, "result")
    return Result(
        None if document.solution is None else decode_solution_part(document.solution),
        Certificate(**given_fields(document.certificate)),
        tuple(document.log),
        document.conflict,
        tuple(Certificate(**given_fields(stage)) for stage in document.stages),
    )


def given_fields(part: Part) -> dict[str, Any]:
    """Return the fields that the document gives; the others keep the dataclass's defaults."""
    head = _HEAD if isinstance(part, models.Document) else ()
    return {name: getattr(part, name) for name in part.model_fields_set if name not in head}


def decode_topology_part(part: models.TopologyPart) -> Topology:
    """Return the topology of a checked model."""
    return Topology(
        **{
            **given_fields(part),
            "host_types": tuple(decode_host_type(inner) for inner in part.host_types),
            "hosts": tuple(Host(inner.id, inner.type, inner.domain) for inner in part.hosts),
            "levels": tuple(part.levels),
            "domains": tuple(Domain(d.id, d.level, d.parent) for d in part.domains),
            "links": tuple(NetworkLink(**given_fields(inner)) for inner in part.links),
        }
    )


def decode_host_type(part: models.HostTypePart) -> HostType:
    """Return the host type of a checked model."""
    try:
        links = tuple(GpuLink(**given_fields(link)) for link in part.links)
    except InstanceError as error:
        raise InstanceError(f'host type "{part.name}", {error}') from None
    return HostType(**{**given_fields(part), "links": links})


def _job(part: models.JobPart, sets: Mapping[str, tuple[Configuration, ...]]) -> Job:
    if isinstance(part.configurations, str):
        if part.configurations not in sets:
            raise InstanceError(
                f'job "{part.id}": configurations names the set "{part.configurations}", which is '
                f"not in configuration_sets{_cure(part.configurations, sets)}"
            )
        configurations = sets[part.configurations]
    else:
        configurations = _configurations(
            part.configurations, lambda k: f'job "{part.id}", configurations[{k}]'
        )
    given = {**given_fields(part), "configurations": configurations}
    if "placement" in given:
        given["placement"] = _rules(part)
    return Job(**given)


def _rules(part: models.JobPart) -> PlacementRules:
    rules = part.placement
    try:
        return PlacementRules(
            **{
                **given_fields(rules),
                "slices": tuple(Slice(**given_fields(inner)) for inner in rules.slices),
                "spread": tuple(Spread(**given_fields(inner)) for inner in rules.spread),
            }
        )
    except InstanceError as error:
        raise InstanceError(f'job "{part.id}": {error}') from None


def _cure(name: str, sets: Mapping[str, object]) -> str:
    return nearest(name, sets) or "; define it there, or list the configurations in the job."


def _configurations(
    parts: Sequence[models.ConfigurationPart], owner: Callable[[int], str]
) -> tuple[Configuration, ...]:
    """Return configurations; what their own checks refuse is reported with its owner."""
    found = []
    for k, part in enumerate(parts):
        try:
            tasks = tuple(TaskGroup(**given_fields(group)) for group in part.tasks)
            found.append(Configuration(**{**given_fields(part), "tasks": tasks}))
        except InstanceError as error:
            raise InstanceError(f"{owner(k)}: {error}") from None
    return tuple(found)


def _tasks(parts: Sequence[models.TaskPlacementPart]) -> tuple[TaskPlacement, ...]:
    return tuple(
        TaskPlacement(part.host, part.role, part.count, tuple(part.gpus), tuple(part.starts))
        for part in parts
    )


def _assignment(part: models.AssignmentPart) -> Assignment:
    return Assignment(part.job, part.configuration, _tasks(part.tasks))


def decode_solution_part(part: models.AllocationPart | models.SchedulePart) -> Solution:
    """Return the solution of a checked model."""
    if isinstance(part, models.AllocationPart):
        return Allocation(tuple(map(_assignment, part.assignments)), part.unplaced)
    runs = tuple(
        Run(run.job, run.configuration, run.start_s, run.end_s, _tasks(run.tasks))
        for run in part.runs
    )
    return Schedule(runs, part.unplaced)
