"""Jobs of one GPU each that may share it, and slow each other down as was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from alloc.errors import InstanceError
from alloc.problems.allocation.instance import Instance
from alloc.topology import Host, HostType, Topology
from alloc.units import MILLI, require_count
from alloc.workload import Configuration, InterferenceTable, Job, TaskGroup

_HOURS = (0.5, 6.0)
"""Shortest and longest job alone on its fastest GPU type, hours, even in the logarithm."""
_SLOT_S = 360.0
"""Length of a round: six minutes, as in Gavel (Narayanan et al., OSDI 2020)."""


def generate_shared_gpus(
    name: str,
    tables: Sequence[InterferenceTable],
    num_gpus: Mapping[str, int],
    *,
    num_jobs: int = 40,
    seed: int = 0,
) -> Instance:
    """Return jobs of measured models, all there at the start, and GPUs that two of them may share.

    Parameters
    ----------
    name
        Name of the instance.
    tables
        Measured speeds, a table for each GPU type.
    num_gpus
        GPUs of each type, in hosts of up to four, 1 or more each.
    num_jobs
        Jobs, 1 or more.
    seed
        Random seed.

    Raises
    ------
    InstanceError
        If a number makes no sense, or no model is in all tables.
    """
    require_count(num_jobs, name, "num_jobs", least=1)
    types = [table.gpu_type for table in tables]
    for gpu_type in types:
        require_count(num_gpus.get(gpu_type, 0), name, f"num_gpus[{gpu_type}]", least=1)
    models = [m for m in tables[0].kinds if all(m in table.index for table in tables)]
    if not models:
        raise InstanceError(f"{name}: no model is in all {len(tables)} tables; give fewer tables.")
    rng = np.random.default_rng(seed)
    kinds: list[HostType] = []
    hosts: list[Host] = []
    for gpu_type in types:
        for size in range(1, min(4, num_gpus[gpu_type]) + 1):
            kinds.append(HostType(f"{gpu_type}-{size}", size, gpu_type))
        left = num_gpus[gpu_type]
        while left:
            size = min(4, left)
            hosts.append(Host(f"host-{len(hosts)}", f"{gpu_type}-{size}"))
            left -= size
    used = {host.type for host in hosts}
    ways = {
        model: tuple(
            Configuration(
                (TaskGroup("worker", 1, milli),),
                float(table.alone[table.position(model)]),
                table.gpu_type,
            )
            for table in tables
            for milli in (MILLI, MILLI // 2)
        )
        for model in models
    }
    jobs = []
    for j in range(num_jobs):
        model = models[int(rng.integers(len(models)))]
        hours = math.exp(rng.uniform(math.log(_HOURS[0]), math.log(_HOURS[1])))
        fastest = max(way.rate for way in ways[model])
        jobs.append(Job(f"job-{j}", 0.0, hours * 3600 * fastest, ways[model], model=model))
    topology = Topology(name, tuple(k for k in kinds if k.name in used), tuple(hosts))
    return Instance(
        name,
        topology,
        tuple(jobs),
        slot_s=_SLOT_S,
        interference=tuple(tables),
        description={"generator": "generate_shared_gpus", "seed": str(seed)},
    )
