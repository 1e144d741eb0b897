"""Dumps of Kubernetes read as instances, and what tests ask of those."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubernetes_dumps import gpu_spec, node, pod, save

from alloc.instances.readers import read_instance
from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Allocation
from alloc.solving.placing.place import place

FOUR = [node(f"n{k}") for k in range(4)]


def read(tmp_path: Path, *items: Any, **options: Any) -> tuple[Instance, Any]:
    return read_instance("kubernetes", save(tmp_path / "dump.json", *items), **options)


def reasons(tallies: Any) -> dict[str, int]:
    return {tally.reason: tally.count for tally in tallies}


def starts(instance: Instance) -> set[str]:
    """The waiting jobs that start where nothing moves, proved to be worth the most."""
    found = place(instance.replace(moves=Moves(budget=0)), "weight_placed").result
    assert found.certificate.status == "optimal"
    assert isinstance(found.solution, Allocation)
    return {a.job for a in found.solution.assignments} - {a.job for a in instance.running}


def waiting(name: str = "w", spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return pod(name, gpu_spec() if spec is None else spec, **more)


# What runs


def gangs_of(instance: Instance) -> dict[str, list[int]]:
    return {
        job.id: [sum(group.count for group in way.tasks) for way in job.configurations]
        for job in instance.jobs
    }


def affinity(key: str, *values: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    path = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {path: {"nodeSelectorTerms": terms}}}}
