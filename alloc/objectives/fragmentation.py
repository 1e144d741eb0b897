"""Objectives of what is left free: fragments, and the largest gang that still fits.

Parameters
----------
instance
    The cluster, and the jobs whose tasks may come next.
allocation
    Who runs on which hosts in the coming slot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.objectives.placed import Counts, Placed
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation
from alloc.units import MILLI


@dataclass(frozen=True)
class Shape:
    """What a task asks of one host, as far as free GPUs can serve it.

    Parameters
    ----------
    gpu_milli
        Share of each GPU, milli-GPU, 0 to 1,000.
    num_gpus
        GPUs; 0 for tasks without.
    cpu_milli, memory_mib
        Host resources.
    gpu_type
        GPU type, or None for any.
    """

    gpu_milli: int
    num_gpus: int
    cpu_milli: int
    memory_mib: int
    gpu_type: str | None


def mix_of(instance: Instance) -> dict[Shape, float]:
    """Return how frequent each task shape is among the jobs of an instance; sums to 1.

    Every task counts once; the configurations of a job share its tasks evenly. Tasks with MIG
    slices are left out: what fits them is not a share of a GPU.
    """
    weights: dict[int, tuple[int, tuple[tuple[Shape, float], ...]]] = {}
    found: dict[Shape, float] = {}
    for job in instance.jobs:
        key = id(job.configurations)
        if key not in weights:
            part = 1.0 / len(job.configurations)
            own = tuple(
                (
                    Shape(
                        min(group.gpu_milli, MILLI),
                        -(-group.gpu_milli // MILLI),
                        group.cpu_milli,
                        group.memory_mib,
                        configuration.gpu_type if group.gpu_milli else None,
                    ),
                    part * group.count,
                )
                for configuration in job.configurations
                for group in configuration.tasks
                if group.mig_profile is None
            )
            weights[key] = (0, own)
        number, own = weights[key]
        weights[key] = (number + 1, own)
    for number, own in weights.values():
        for shape, weight in own:
            found[shape] = found.get(shape, 0.0) + number * weight
    total = sum(found.values())
    return {shape: weight / total for shape, weight in found.items()}


def fragments(
    mix: dict[Shape, float],
    gpu_types: npt.NDArray[np.str_],
    free: Counts,
    free_gpus: Counts,
) -> npt.NDArray[np.float64]:
    """Return the expected free GPU of each host that a task of the mix could not use, milli-GPU.

    Parameters
    ----------
    mix
        Shapes and their frequencies.
    gpu_types
        GPU type of each host, shape (hosts,).
    free
        Free CPU (milli-cores) and memory (MiB), shape (hosts, 2).
    free_gpus
        Free share of each GPU, milli-GPU, shape (hosts, GPUs).
    """
    total = free_gpus.sum(axis=1).astype(float)
    lost = np.zeros(len(total))
    # Shapes differ mostly in host resources: what depends on GPUs alone is worked out once.
    usable: dict[tuple[int, int], tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]] = {}
    of_type = {s.gpu_type: gpu_types == s.gpu_type for s in mix if s.gpu_type is not None}
    for shape, frequency in mix.items():
        if not shape.num_gpus:
            lost += frequency * total
            continue
        key = (shape.gpu_milli, shape.num_gpus)
        if key not in usable:
            roomy = free_gpus >= shape.gpu_milli
            enough = roomy.sum(axis=1) >= shape.num_gpus
            usable[key] = (enough, np.where(roomy, free_gpus, 0).sum(axis=1).astype(float))
        enough, room = usable[key]
        able = enough & (free[:, 0] >= shape.cpu_milli) & (free[:, 1] >= shape.memory_mib)
        if shape.gpu_type is not None:
            able &= of_type[shape.gpu_type]
        lost += frequency * (total - np.where(able, room, 0.0))
    return lost


def fragmentation(instance: Instance, allocation: Allocation) -> float:
    """Return FGD's expected unusable GPUs of the cluster, in GPUs."""
    placed = Placed.of(instance, allocation)
    free = instance.topology.capacity[:, 1:] - placed.used[:, 1:]
    types = np.array([str(t) for t in instance.topology.gpu_types])
    return float(fragments(mix_of(instance), types, free, placed.free_gpus).sum()) / MILLI


def gang_domains(instance: Instance) -> Counts:
    """Return a number for the place that holds each host's gangs, shape (hosts,).

    The place is the host's domain at the innermost level; hosts outside any are places by
    themselves. In a cluster without levels all hosts are one place.
    """
    topology = instance.topology
    if not topology.levels:
        return np.zeros(topology.num_hosts, dtype=np.int64)
    domain = topology.domain_of_host[topology.levels[-1]]
    own = len(topology.domains) + np.arange(topology.num_hosts)
    return np.unique(np.where(domain < 0, own, domain), return_inverse=True)[1].astype(np.int64)


def largest_gang(instance: Instance, allocation: Allocation) -> float:
    """Return the most whole GPUs that are free within one domain of the innermost level."""
    whole = (Placed.of(instance, allocation).free_gpus == MILLI).sum(axis=1)
    return float(np.bincount(gang_domains(instance), weights=whole).max())
