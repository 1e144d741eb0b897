"""Which GPUs a task can use at all: MIG profiles and GPU memory against the types of a cluster."""

from __future__ import annotations

from functools import cache

from alloc.errors import InstanceError
from alloc.topology.gpu_types import gpu_type as named_gpu_type
from alloc.topology.mig import mig_profiles, no_such_profile
from alloc.topology.topology import Topology
from alloc.units import MILLI
from alloc.workload import Configuration, TaskGroup


@cache
def gpu_memory_mib(gpu_type: str | None) -> int | None:
    """Return the memory of one GPU of a type, MiB, or None where it is not known."""
    if gpu_type is None:
        return None
    try:
        return named_gpu_type(gpu_type).memory_mib
    except InstanceError:
        return None  # a type of the user's own


def type_admits(gpu_type: str | None, group: TaskGroup) -> bool:
    """Return whether GPUs of a type have the MIG profile and the memory that a task asks for.

    Parameters
    ----------
    gpu_type
        Type of the GPUs; None: the hosts have none, or name no type.
    group
        Tasks with a MIG profile, a need of GPU memory, or neither.
    """
    if group.mig_profile is not None:
        return group.mig_profile in mig_profiles(gpu_type)
    return group.gpu_memory_mib <= (gpu_memory_mib(gpu_type) or 0) or not group.gpu_memory_mib


def tasks_on_gpu(
    gpu_type: str | None, group: TaskGroup, milli: int = MILLI, memory_used_mib: int = 0
) -> int:
    """Return how many tasks that share GPUs, or hold whole ones, fit on what is left of a GPU.

    Parameters
    ----------
    gpu_type
        Type of the GPU.
    group
        The tasks; one that holds several GPUs counts 1 where its memory fits.
    milli
        What is free of the GPU, milli-GPU.
    memory_used_mib
        GPU memory that others have asked for, MiB.
    """
    by_milli = max(milli // min(group.gpu_milli, MILLI), 0)
    if not group.gpu_memory_mib:
        return by_milli
    free = (gpu_memory_mib(gpu_type) or 0) - memory_used_mib
    return max(min(by_milli, free // group.gpu_memory_mib), 0)


def gpu_misfit(topology: Topology, configuration: Configuration) -> str | None:
    """Say why no GPU of a cluster suits a configuration, or return None if some may.

    Looks at MIG profiles and GPU memory only.

    Parameters
    ----------
    topology
        The cluster.
    configuration
        Task groups of a gang.
    """
    if not any(group.mig_profile or group.gpu_memory_mib for group in configuration.tasks):
        return None  # the rule: thousands of jobs on thousands of hosts are looked at
    gpus: dict[str | None, int] = {}
    for kind in (topology.host_type(host) for host in topology.hosts):
        if configuration.gpu_type in (None, kind.gpu_type):
            gpus[kind.gpu_type] = gpus.get(kind.gpu_type, 0) + kind.num_gpus
    for group in configuration.tasks:
        if group.mig_profile is None and not group.gpu_memory_mib:
            continue
        able = {t: n for t, n in gpus.items() if type_admits(t, group)}
        if not able:
            return _reason(group, gpus)
        if group.mig_profile is not None:
            most = sum(n * mig_profiles(t)[group.mig_profile].most for t, n in able.items())
            if most < group.count:
                return (
                    f'{group.count} {group.role} tasks need a "{group.mig_profile}" slice each, '
                    f"and all GPUs together hold {most}"
                )
    return None


def _reason(group: TaskGroup, gpus: dict[str | None, int]) -> str:
    if group.mig_profile is not None:
        return no_such_profile(gpus, group.mig_profile).removesuffix(".")
    types = sorted(t for t in gpus if t is not None)
    known = [f"{t} has {gpu_memory_mib(t) or 'none that is known'}" for t in types]
    return (
        f"a {group.role} task needs {group.gpu_memory_mib} MiB of GPU memory, but of the GPU types "
        f"{'; '.join(known) or 'there is none'}"
    )
