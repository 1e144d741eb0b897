"""Instances: jobs of one kind share their configurations, written once and named by each job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from alloc.documents.canonical import Known, text_of_record, texts_of, texts_of_records
from alloc.documents.encoding import encode, encode_part
from alloc.problems.allocation.instance import Instance
from alloc.workload import Configuration, Job

Configurations = tuple[Configuration, ...]


def canonical_json(instance: Instance) -> bytes:
    """Return the problem of an instance as canonical JSON, the same bytes for the same problem.

    The description is left out; the order of jobs and hosts is part of the problem. Keys are
    sorted, defaults are left out (a field added later leaves fingerprints as they are), and equal
    numbers are written alike, whole floats as integers. Configurations are listed once, in order of
    first use, so that it makes no difference whether jobs share them.
    """
    known: Known = {}
    sets: dict[str, str] = {}  # Equal configurations have one text, which is quicker to look up.
    tables = texts_of([job.configurations for job in instance.jobs], known)
    at = [sets.setdefault(text, str(len(sets))) for text in tables]
    jobs = texts_of_records(instance.jobs, known, {"configurations": at})
    more = {"configuration_sets": f"[{','.join(sets)}]", "jobs": f"[{','.join(jobs)}]"}
    return text_of_record(instance, known, ("description", "jobs"), more).encode("ascii")


def encode_instance(instance: Instance) -> dict[str, Any]:
    """Return the fields of an instance document."""
    names, set_of = _named_sets(instance.jobs)
    return {
        **encode_part(instance, leave_out=("jobs",)),
        "configuration_sets": {name: encode(found) for name, found in names.items()},
        "jobs": [_encode_job(job, set_of.get(id(job.configurations))) for job in instance.jobs],
    }


def _encode_job(job: Job, configuration_set: str | None) -> dict[str, Any]:
    """Return a job that names its configuration set, or holds its configurations if None."""
    if configuration_set is None:
        return encode_part(job)
    plain = encode_part(job, leave_out=("configurations",))
    return {**plain, "configurations": configuration_set}


def _named_sets(
    jobs: Sequence[Job],
) -> tuple[dict[str, Configurations], dict[int, str | None]]:
    """Name the configuration sets worth a name: those of several jobs, or of several lines.

    Returns
    -------
    names
        The sets by name, in order of first use.
    set_of
        For the id of each job's tuple of configurations its name, or None to write it inline; a job
        with stages has none.
    """
    users: dict[Configurations, list[Job]] = {}
    shared: dict[int, Configurations] = {}
    # Hashing a set is slow, so each tuple object is looked up once.
    equal: dict[int, list[Job]] = {}
    for job in jobs:
        key = id(job.configurations)
        if job.stages:
            continue
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
