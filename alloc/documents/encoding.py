"""Encoding: the central types as plain JSON values, with defaults left out."""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from alloc.certificate import Certificate, Result
from alloc.documents.models import INFINITIES, SCHEMA_VERSION
from alloc.errors import InstanceError
from alloc.instance import Instance
from alloc.solution import Allocation, Solution
from alloc.topology import Topology
from alloc.workload import Configuration, Job

Configurations = tuple[Configuration, ...]
Key = TypeVar("Key")

# Beyond 64 bits a float is written as a float.
_MOST_WHOLE = 2**63
_AS_THEY_ARE = frozenset({str, bool, type(None)})


def canonical_json(instance: Instance) -> bytes:
    """Return the problem of an instance as canonical JSON, the same bytes for the same problem.

    The description is left out; the order of jobs and hosts is part of the problem. Keys are
    sorted, defaults are left out (a field added later leaves fingerprints as they are), and equal
    numbers are written alike, whole floats as integers. Configurations are listed once, in order of
    first use, so that it makes no difference whether jobs share them.
    """
    sets: dict[Configurations, int] = {}
    set_of: dict[int, int] = {}
    for job in instance.jobs:
        key = id(job.configurations)
        if key not in set_of:
            set_of[key] = sets.setdefault(job.configurations, len(sets))
    plain = encode_part(instance, leave_out=("description", "jobs"))
    plain["configuration_sets"] = [encode(found) for found in sets]
    plain["jobs"] = [_encode_job(job, set_of[id(job.configurations)]) for job in instance.jobs]
    return json.dumps(
        plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode("ascii")


def encode_instance(instance: Instance) -> dict[str, Any]:
    """Return an instance document."""
    names, set_of = _named_sets(instance.jobs)
    plain = encode_part(instance, leave_out=("name", "description", "jobs"))
    description = _texts(instance.description, "description")
    return {
        **header("instance"),
        "name": instance.name,
        **({"description": description} if description else {}),
        **plain,
        "configuration_sets": {name: encode(found) for name, found in names.items()},
        "jobs": [_encode_job(job, set_of[id(job.configurations)]) for job in instance.jobs],
    }


def encode_solution(solution: Solution) -> dict[str, Any]:
    """Return a solution document."""
    return {**header("solution"), **_solution(solution)}


def encode_result(result: Result[Solution]) -> dict[str, Any]:
    """Return a result document."""
    plain = encode_part(result, leave_out=("solution", "certificate", "stages"))
    if result.stages:
        plain["stages"] = [encode_certificate(stage) for stage in result.stages]
    solution = None if result.solution is None else _solution(result.solution)
    certificate = encode_certificate(result.certificate)
    return {**header("result"), "certificate": certificate, **plain, "solution": solution}


def encode_certificate(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as a JSON object."""
    # The only numbers that may be infinite; the others are refused by `encode`.
    infinite = {value: word for word, value in INFINITIES.items()}
    plain: dict[str, Any] = {"status": certificate.status}
    for field in ("objective", "bound"):
        value = getattr(certificate, field)
        plain[field] = infinite[value] if value in infinite else encode(value, field)
    return plain | encode_part(certificate, leave_out=tuple(plain))


def encode_topology(topology: Topology) -> dict[str, Any]:
    """Return a topology document."""
    return {**header("topology"), **encode_part(topology)}


def header(kind: str) -> dict[str, Any]:
    """Return what every document starts with."""
    return {"schema_version": SCHEMA_VERSION, "kind": kind}


def _solution(solution: Solution) -> dict[str, Any]:
    plain = encode_part(solution)
    if "unplaced" in plain:
        plain["unplaced"] = _texts(plain["unplaced"], "unplaced")
    return {"type": "allocation" if isinstance(solution, Allocation) else "schedule", **plain}


def _texts(mapping: Mapping[str, Any], field: str) -> dict[str, str]:
    """Refuse what a reader would refuse: a key or value that is not text."""
    for name, text in mapping.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise InstanceError(f"{field}: {name!r} is {text!r}; give text, for example str(...).")
    return dict(mapping)


def _encode_job(job: Job, configuration_set: str | int | None) -> dict[str, Any]:
    """Return a job that names its configuration set, or holds its configurations if None."""
    plain = encode_part(job, leave_out=("configurations",))
    found = encode(job.configurations) if configuration_set is None else configuration_set
    return {**plain, "configurations": found}


def _named_sets(
    jobs: Sequence[Job],
) -> tuple[dict[str, Configurations], dict[int, str | None]]:
    """Name the configuration sets worth a name: those of several jobs, or of several lines.

    Returns
    -------
    names
        The sets by name, in order of first use.
    set_of
        For the id of each job's tuple of configurations its name, or None to write it inline.
    """
    users: dict[Configurations, list[Job]] = {}
    shared: dict[int, Configurations] = {}
    # Hashing a set is slow, so each tuple object is looked up once.
    equal: dict[int, list[Job]] = {}
    for job in jobs:
        key = id(job.configurations)
        if key not in equal:
            equal[key] = users.setdefault(job.configurations, [])
            shared[key] = job.configurations
        equal[key].append(job)
    names: dict[str, Configurations] = {}
    name_of: dict[int, str | None] = {}
    for configurations, its_jobs in users.items():
        name = None
        if len(its_jobs) > 1 or len(configurations) > 1:
            models = {job.model for job in its_jobs}
            name = _free_name(models.pop() if len(models) == 1 else None, names)
            names[name] = configurations
        name_of[id(its_jobs)] = name
    return names, {key: name_of[id(its_jobs)] for key, its_jobs in equal.items()}


def _free_name(model: str | None, taken: Mapping[str, Configurations]) -> str:
    number = 1
    name = model or "set-1"
    while name in taken:
        number += 1
        name = f"{model or 'set'}-{number}"
    return name


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Return names and defaults of a dataclass's fields; MISSING where there is no default."""
    found = []
    for field in dataclasses.fields(kind):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        found.append((field.name, default))
    return tuple(found)


def encode_part(part: Any, leave_out: Sequence[str] = ()) -> dict[str, Any]:
    """Return a dataclass as a JSON object without the fields that have their default."""
    plain = {}
    kind: Any = type(part)
    for name, default in _fields(kind):
        if name in leave_out:
            continue
        value = getattr(part, name)
        if default is dataclasses.MISSING or value != default:
            plain[name] = encode(value, name)
    return plain


def encode(value: Any, field: str = "value") -> Any:
    """Return a value as a plain JSON value.

    Raises
    ------
    InstanceError
        If a number is not finite, or the value has no place in a document.
    """
    # Most values, told apart by their exact types before the slower questions to abstract ones.
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is int:
        return value if -_MOST_WHOLE < value < _MOST_WHOLE else float(value)
    if kind is float:
        return _number(value, field)
    if kind is tuple:
        return [encode(item, field) for item in value]
    if isinstance(value, str | bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value) if abs(int(value)) < _MOST_WHOLE else float(value)
    if isinstance(value, numbers.Real):
        return _number(float(value), field)
    if dataclasses.is_dataclass(value):
        return encode_part(value)
    if isinstance(value, Mapping):
        return {name: encode(item, field) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [encode(item, field) for item in value]
    if hasattr(value, "item"):
        return encode(value.item(), field)  # numpy's own booleans
    raise InstanceError(
        f"{field}: {type(value).__name__} has no place in a document; use the types of alloc."
    )


def _number(value: float, field: str) -> float | int:
    """Return a finite number; whole ones as integers, which also writes -0.0 as 0."""
    if not math.isfinite(value):
        raise InstanceError(f"{field} is {value}; documents hold finite numbers only.")
    if value.is_integer() and abs(value) < _MOST_WHOLE:
        return int(value)
    return value
