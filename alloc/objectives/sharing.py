"""Objectives of divided GPUs: GPUs used, and GPUs that must be cut anew."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from alloc.objectives.placement import PlacementObjective
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.topology.mig import Layout, is_layout
from alloc.units import MILLI


def gpu_layouts(
    instance: Instance, assignments: Iterable[Assignment]
) -> dict[tuple[str, int], Layout]:
    """Return the MIG instances that tasks hold, by host and position of the GPU.

    Tasks without GPU and start are left out: the checker speaks of them.

    Parameters
    ----------
    instance
        The jobs that the assignments name.
    assignments
        Tasks on hosts; those with MIG profiles name a GPU and a start each.
    """
    found: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for a in assignments:
        profiles = {
            group.role: group.mig_profile
            for group in instance.job(a.job).configurations[a.configuration].tasks
        }
        for task in a.tasks:
            profile = profiles.get(task.role)
            if profile is None:
                continue
            for g, start in zip(task.gpus, task.starts, strict=False):
                found.setdefault((task.host, g), []).append((start, profile))
    return {
        gpu: tuple((profile, start) for start, profile in sorted(instances))
        for gpu, instances in found.items()
    }


def keeps(gpu_type: str, before: Layout, after: Iterable[tuple[str, int]]) -> bool:
    """Return whether instances can be made beside those that a GPU has, so that it runs on.

    Parameters
    ----------
    gpu_type
        A type with MIG.
    before
        What the GPU is cut into now: profile and start of each instance.
    after
        What is wanted on it, in the same form.
    """
    return is_layout(gpu_type, tuple(dict.fromkeys((*before, *after))))


def _whole_gpus(instance: Instance, a: Assignment) -> dict[str, int]:
    """Return the whole GPUs that an assignment takes on each host."""
    amount = {
        group.role: group.gpu_milli // MILLI
        for group in instance.job(a.job).configurations[a.configuration].tasks
    }
    found: dict[str, int] = {}
    for task in a.tasks:
        number = amount.get(task.role, 0) * task.count
        if number:
            found[task.host] = found.get(task.host, 0) + number
    return found


def gpus_in_use(instance: Instance, allocation: Allocation) -> int:
    """Return the GPUs on which a task holds the whole, a share or a MIG slice.

    Parameters
    ----------
    instance
        The jobs that the allocation names.
    allocation
        Who runs on which GPUs in the coming slot.
    """
    whole = sum(sum(_whole_gpus(instance, a).values()) for a in allocation.assignments)
    return len(_named(allocation)) + whole


def _named(allocation: Allocation) -> set[tuple[str, int]]:
    """Return the GPUs that tasks name: shared ones and those cut into slices."""
    return {(task.host, g) for a in allocation.assignments for task in a.tasks for g in task.gpus}


def gpus_cut_anew(instance: Instance, allocation: Allocation) -> int:
    """Return the GPUs whose new use does not fit beside the MIG instances in use on them now.

    Parameters
    ----------
    instance
        The problem, with what runs.
    allocation
        A decision of one round.
    """
    topology = instance.topology
    before = gpu_layouts(instance, instance.running)
    after = gpu_layouts(instance, allocation.assignments)
    named = _named(allocation)
    changed = 0
    idle: dict[str, int] = {}
    for (host, g), layout in before.items():
        gpu_type = topology.gpu_types[topology.host_index[host]]
        if (host, g) in after:
            changed += gpu_type is not None and not keeps(gpu_type, layout, after[host, g])
        elif (host, g) in named:
            changed += 1
        else:
            idle[host] = idle.get(host, 0) + 1
    # Whole GPUs have no position: they take uncut GPUs first.
    whole: dict[str, int] = {}
    for a in allocation.assignments:
        for host, number in _whole_gpus(instance, a).items():
            whole[host] = whole.get(host, 0) + number
    for host in whole.keys() & idle.keys():
        total = topology.host_type(topology.hosts[topology.host_index[host]]).num_gpus
        uncut = total - sum(h == host for h, _ in named) - idle[host]
        changed += min(idle[host], max(0, whole[host] - uncut))
    return changed


def _if_all_run(
    measure: Callable[[Instance, Allocation], int],
) -> Callable[[Instance, Allocation], float]:
    """Return a measure that is infinite while a job does not run."""

    def value(instance: Instance, allocation: Allocation) -> float:
        if len({a.job for a in allocation.assignments}) < len(instance.jobs):
            return math.inf
        return float(measure(instance, allocation))

    return value


SHARING_OBJECTIVES = (
    PlacementObjective(
        "gpus_used",
        "min",
        "GPU",
        "GPUs on which a task holds the whole, a share or a MIG slice; all jobs must run.",
        _if_all_run(gpus_in_use),
    ),
    PlacementObjective(
        "reconfigurations",
        "min",
        "GPU",
        "GPUs with MIG slices in use now whose new use does not fit beside these, so that they "
        "must be drained and cut anew; all jobs must run.",
        _if_all_run(gpus_cut_anew),
    ),
)
"""The objectives of divided GPUs."""
