"""Placement on real fabrics: a busy cluster, what runs stays, and a queue of gangs wants in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from alloc.errors import InstanceError
from alloc.instances.recipes import RecipeFamily
from alloc.instances.recipes.draws import below, pick
from alloc.instances.recipes.elastic import size_of_cluster
from alloc.instances.recipes.mixes import ITP_GPUS, ITP_SOURCE, LLM_GPUS, LLM_SOURCE
from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.topology import (
    HostType,
    Topology,
    dgx_h100,
    fat_tree,
    hgx_h100,
    leaf_spine,
    nvl72_cluster,
    rail_optimised,
)
from alloc.units import MILLI
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

_CPU_MILLI_PER_GPU, _MEMORY_MIB_PER_GPU = 8_000, 65_536
"""What a GPU of a job brings along, ours: less than a GPU's share of every host here, so that GPUs
and domains are what is scarce."""
_TRIES = 50
"""Jobs for which there was no room after which the cluster counts as full."""

HOSTS: Mapping[str, Callable[[], HostType]] = {
    "h100": dgx_h100,
    "h200": lambda: replace(hgx_h100("hgx-h200"), gpu_type="h200-sxm-141gb"),
    "b200": lambda: replace(hgx_h100("hgx-b200"), gpu_type="b200-sxm-180gb"),
    # AMD's eight-GPU platform; only its GPU count and name matter to a placement.
    "mi300x": lambda: HostType("mi300x-platform", 8, "mi300x", 192_000, 2_097_152),
}
"""Host types by the name that recipes use."""


def fabric(name: str, kind: str, host: str, shape: Sequence[int]) -> Topology:
    """Return a cluster.

    Parameters
    ----------
    name
        Name of the topology.
    kind
        ``leaf-spine``, ``rails``, ``fat-tree`` or ``nvl72``.
    host
        One of `HOSTS`; not looked at for ``nvl72``.
    shape
        Leaves and hosts of a leaf; scalable units and hosts of a unit; pods, leaves of a pod and
        hosts of a leaf; racks.

    Raises
    ------
    InstanceError
        If there is no such fabric.
    """
    if kind == "leaf-spine":
        return leaf_spine(HOSTS[host](), shape[0], shape[1], 4, oversubscription=2.0, name=name)
    if kind == "rails":
        return rail_optimised(HOSTS[host](), shape[0], shape[1], name=name)
    if kind == "fat-tree":
        pods, leaves, hosts = shape
        return fat_tree(
            HOSTS[host](), pods, leaves, hosts, 4, 8, pod_oversubscription=2.0, name=name
        )
    if kind == "nvl72":
        return nvl72_cluster(shape[0], name=name)
    raise InstanceError(
        f'topology "{name}": fabric is "{kind}"; give leaf-spine, rails, fat-tree or nvl72.'
    )


def busy_cluster(
    name: str,
    *,
    kind: str,
    shape: Sequence[int],
    host: str = "h100",
    load: float = 0.5,
    queue: float = 0.8,
    required: float = 0.5,
    seed: int = 0,
) -> Instance:
    """Return a cluster on which jobs run, and gangs that wait for its free GPUs.

    Jobs have filled the cluster, each on the fullest host with room, or on the first hosts that are
    empty; then jobs drawn evenly have left, until `load` is reached. What still runs stays
    where it is, and free GPUs are as scattered as that leaves them.

    Parameters
    ----------
    name
        Name of the instance.
    kind, shape, host
        The cluster, see `fabric`.
    load
        Share of the GPUs that running jobs hold.
    queue
        GPUs that are waited for at least, over the GPUs that are free.
    required
        Share of the gangs of several hosts that must stand in one of the smallest domains that can
        hold them; the others would prefer it.
    seed
        Seed of the random numbers.
    """
    topology = fabric(name, kind, host, shape)
    per_host = topology.host_types[0].num_gpus
    rng = np.random.default_rng(seed)
    held = _filled([h.id for h in topology.hosts], per_host, rng)
    used = sum(gpus for gpus, _ in held)
    while used > load * topology.num_gpus:
        used -= held.pop(below(rng, len(held)))[0]
    jobs: list[Job] = []
    running: list[Assignment] = []
    for gpus, hosts in held:
        job = _gang(f"running-{len(jobs):04d}", gpus, per_host, PlacementRules())
        jobs.append(job)
        tasks = tuple(TaskPlacement(chosen, "worker", 1) for chosen in hosts)
        running.append(Assignment(job.id, 0, tasks))
    num_free = topology.num_gpus - used
    wanted, waiting = queue * num_free, 0
    levels = _domain_gpus(topology)
    large = {size: share for size, share in LLM_GPUS.items() if size <= topology.num_gpus}
    while waiting < wanted:
        gpus = pick(rng, large)
        level = next((level for level, most in levels if gpus <= most), None)
        rules = PlacementRules()
        if gpus > per_host and level is not None:
            must = rng.random() < required
            rules = PlacementRules(required=level) if must else PlacementRules(preferred=level)
        jobs.append(_gang(f"waiting-{len(jobs):04d}", gpus, per_host, rules))
        waiting += gpus
    return Instance(
        name,
        topology,
        tuple(jobs),
        running=tuple(running),
        moves=Moves(budget=0),
        description={"generator": "alloc.instances.recipes.placement", "seed": str(seed)},
    )


def _filled(
    hosts: Sequence[str], per_host: int, rng: np.random.Generator
) -> list[tuple[int, list[str]]]:
    """Return the GPUs and the hosts of jobs that have filled a cluster, in order of arrival."""
    free = dict.fromkeys(hosts, per_host)
    room, held, tries = per_host * len(hosts), [], 0
    while room > 0 and tries < _TRIES:
        gpus = pick(rng, ITP_GPUS)
        if gpus <= per_host:
            able = [(left, host) for host, left in free.items() if left >= gpus]
            chosen = [min(able)[1]] if able else []
        else:
            whole = [host for host, left in free.items() if left == per_host]
            chosen = whole[: gpus // per_host] if len(whole) * per_host >= gpus else []
        if not chosen:
            tries += 1
            continue
        for host in chosen:
            free[host] -= gpus // len(chosen)
        held.append((gpus, chosen))
        room -= gpus
    return held


def _domain_gpus(topology: Topology) -> list[tuple[str, int]]:
    """Return the levels, smallest domains first, with the GPUs of their largest domain."""
    parents = {domain.id: domain.parent for domain in topology.domains}
    levels = {domain.id: domain.level for domain in topology.domains}
    held: dict[str, int] = {}
    per_host = {t.name: t.num_gpus for t in topology.host_types}
    for host in topology.hosts:
        domain = host.domain
        while domain is not None:
            held[domain] = held.get(domain, 0) + per_host[host.type]
            domain = parents[domain]
    most = {
        level: max(gpus for domain, gpus in held.items() if levels[domain] == level)
        for level in topology.levels
    }
    return sorted(most.items(), key=lambda pair: pair[1])


def _gang(job_id: str, gpus: int, per_host: int, rules: PlacementRules) -> Job:
    count = max(1, gpus // per_host)
    each = min(gpus, per_host)
    task = TaskGroup(
        "worker", count, each * MILLI, each * _CPU_MILLI_PER_GPU, each * _MEMORY_MIB_PER_GPU
    )
    return Job(
        job_id, 0.0, 3600.0, (Configuration((task,), 1.0),), elasticity="rigid", placement=rules
    )


_SUPERPOD = "units of 32 hosts, eight rails: NVIDIA DGX SuperPOD reference architecture (DGX H100)"
_NVL72 = "racks of 18 trays of 4 GPUs: NVIDIA GB200 NVL72 data sheet"
_LOADS = (
    {"load": 0.3, "required": 1.0},
    {"load": 0.5},
    {"load": 0.7},
    {"load": 0.5, "required": 1.0},
    {"load": 0.7, "required": 1.0},
)


def _family(
    name: str,
    about: str,
    common: Mapping[str, Any],
    first_seed: int,
    *sources: str,
    variants: Sequence[Mapping[str, Any]] = _LOADS,
) -> RecipeFamily:
    return RecipeFamily(
        name,
        about,
        "placement",
        "gpus_placed",
        busy_cluster,
        size_of_cluster,
        [{**variant, "seed": first_seed + k} for k, variant in enumerate(variants)],
        common,
        (f"running jobs: sizes of {ITP_SOURCE}", LLM_SOURCE, *sources),
    )


FAMILIES = (
    _family(
        "placement-tiny",
        "6 H100 hosts under 2 leaves, for brute force",
        {"kind": "leaf-spine", "shape": [2, 3], "load": 0.3},
        100,
        variants=(
            {},
            {"load": 0.5},
            {"required": 1.0},
            {"host": "mi300x"},
            {"queue": 1.5},
            {"kind": "nvl72", "shape": [1]},
        ),
    ),
    _family(
        "placement-leaves",
        "64 MI300X hosts under 8 leaves, uplinks 2:1",
        {"kind": "leaf-spine", "shape": [8, 8], "host": "mi300x"},
        200,
    ),
    _family(
        "placement-rails",
        "128 H100 hosts in 4 rail-optimised units of 32",
        {"kind": "rails", "shape": [4, 32]},
        300,
        _SUPERPOD,
    ),
    _family(
        "placement-nvl72",
        "8 racks of GB200 NVL72, each a domain of 72 GPUs",
        {"kind": "nvl72", "shape": [8]},
        400,
        _NVL72,
    ),
    _family(
        "placement-fat-tree",
        "512 H200 hosts in a three-level fat tree of 8 pods",
        {"kind": "fat-tree", "shape": [8, 8, 8], "host": "h200"},
        500,
    ),
    _family(
        "placement-large",
        "1,024 B200 hosts in a three-level fat tree of 8 pods",
        {"kind": "fat-tree", "shape": [8, 16, 8], "host": "b200"},
        600,
    ),
)
