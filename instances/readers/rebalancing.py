"""Rebalancing sets: running gangs on racks of hosts, some with gangs that wait.

The files are JSON (plain or gzip): ``hosts`` with ``rack``, ``gpu``, ``cpu``, ``mem`` (GiB),
``jobs`` with the ids of their ``pods``, ``pods`` with their demand and their ``initial`` host, and
in admission sets ``pending_jobs`` and ``pending_pods``. All pods of a job stand in one rack.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from alloc.errors import InstanceError
from alloc.problems.allocation.instance import Instance, Moves, misfit
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.topology import Domain, Host, HostType, Topology
from alloc.units import MILLI
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

RACK = "rack"
_MIB_PER_GIB = 1024
"""The sets give memory in GiB."""
_GPU = "generic"
# AttributeError: valid JSON of another shape, a list or a text.
_BROKEN = (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


def read_rebalancing(path: str | PathLike[str]) -> Instance:
    """Read a rebalancing set as an instance of placement.

    Parameters
    ----------
    path
        The file, gzip when its name ends in ``.gz``.

    Returns
    -------
    Instance
        One level, ``"rack"``. What runs is in `Instance.running`; in an admission set (with jobs
        that wait) it is pinned, otherwise its tasks may move.

    Raises
    ------
    InstanceError
        If the file cannot be read or is no such set.
    """
    file = Path(path)
    try:
        text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        raw = json.loads(text)
        return _instance(raw, file.name.split(".")[0])
    except _BROKEN as error:
        if isinstance(error, InstanceError):
            raise
        raise InstanceError(
            f"{path}: is not a rebalancing set ({type(error).__name__}: {error}); give a JSON file "
            "with hosts, jobs and pods."
        ) from error


def _instance(raw: Mapping[str, Any], name: str) -> Instance:
    waiting = raw.get("pending_jobs", [])
    pods = {p["id"]: p for p in (*raw["pods"], *raw.get("pending_pods", []))}
    made = [_job(job, [pods[p] for p in job["pods"]], not waiting) for job in raw["jobs"]]
    pending = [_job(job, [pods[p] for p in job["pods"]], True)[0] for job in waiting]
    topology = _topology(raw["hosts"], name)
    # Some wait for more than a host has; an instance takes only jobs that could ever run.
    hopeless = {job.id for job in pending if misfit(topology, job.configurations[0])}
    return Instance(
        name,
        topology,
        (*(job for job, _ in made), *(job for job in pending if job.id not in hopeless)),
        running=tuple(assignment for _, assignment in made if assignment.tasks),
        moves=Moves(budget=0 if waiting else None),
        description={"source": f"rebalancing set {raw.get('name', name)}"} | _left_out(hopeless),
    )


def _left_out(hopeless: Collection[str]) -> dict[str, str]:
    if not hopeless:
        return {}
    number = (
        "1 waiting job that fits"
        if len(hopeless) == 1
        else f"{len(hopeless)} waiting jobs that fit"
    )
    return {"left_out": f"{number} no host: {', '.join(sorted(hopeless))}"}


def _topology(hosts: Iterable[Mapping[str, Any]], name: str) -> Topology:
    types: dict[tuple[int, int, int], HostType] = {}
    racks: dict[str, None] = {}
    made = []
    for host in hosts:
        size = (host["gpu"], host["cpu"], host["mem"])
        if size not in types:
            types[size] = HostType(
                f"{size[0]}gpu-{size[1]}cpu-{size[2]}gib",
                size[0],
                _GPU if size[0] else None,
                size[1] * MILLI,
                size[2] * _MIB_PER_GIB,
            )
        racks[host["rack"]] = None
        made.append(Host(host["id"], types[size].name, host["rack"]))
    domains = tuple(Domain(rack, RACK) for rack in racks)
    return Topology(name, tuple(types.values()), tuple(made), (RACK,), domains)


def _job(
    job: Mapping[str, Any], pods: list[Mapping[str, Any]], preemptible: bool
) -> tuple[Job, Assignment]:
    """Return a job and where it runs; pods of equal demand are one task group."""
    groups: dict[tuple[int, int, int], list[Mapping[str, Any]]] = {}
    for pod in pods:
        groups.setdefault((pod["gpu"], pod["cpu"], pod["mem"]), []).append(pod)
    roles = ["pod"] if len(groups) == 1 else [f"pod-{k}" for k in range(len(groups))]
    tasks = tuple(
        TaskGroup(role, len(alike), gpu * MILLI, cpu * MILLI, mem * _MIB_PER_GIB)
        for role, ((gpu, cpu, mem), alike) in zip(roles, groups.items(), strict=True)
    )
    placed: dict[tuple[str, str], int] = {}
    for role, alike in zip(roles, groups.values(), strict=True):
        for pod in alike:
            if pod["initial"] is not None:
                placed[pod["initial"], role] = placed.get((pod["initial"], role), 0) + 1
    rules = PlacementRules(required=RACK) if len(pods) > 1 else PlacementRules()
    made = Job(
        job["id"],
        0.0,
        1.0,
        (Configuration(tasks, 1.0),),
        elasticity="rigid",
        preemptible=preemptible,
        placement=rules,
    )
    placements = tuple(TaskPlacement(h, role, n) for (h, role), n in placed.items())
    return made, Assignment(job["id"], 0, placements)
