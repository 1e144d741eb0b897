"""Objectives of placements: what an allocation makes of the hosts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alloc.errors import InstanceError
from alloc.objectives.base import Objective
from alloc.objectives.fragmentation import fragmentation, largest_gang
from alloc.objectives.locality import (
    all_to_all_bottleneck,
    all_to_all_mean,
    domains_spanned,
    ring_bottleneck,
    ring_mean,
)
from alloc.objectives.placed import Placed, moved_tasks, moved_tasks_by_role
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Solution
from alloc.units import GB_PER_MIB, MILLI


@dataclass(frozen=True)
class PlacementObjective(Objective):
    """An objective of an allocation, computed from where its tasks are."""

    function: Callable[[Instance, Allocation], float]

    def evaluate(self, instance: Instance, solution: Solution) -> float:
        """Return the value of an allocation."""
        if not isinstance(solution, Allocation):
            raise InstanceError(f"{self.name} needs an allocation, not {type(solution).__name__}.")
        return self.function(instance, solution)

    def size(self, instance: Instance) -> float:
        """Return 1, or the largest weight where weights are counted."""
        if self.function is _weight_placed:
            return max([job.weight for job in instance.jobs], default=0.0)
        return 1.0


def _gpus_placed(instance: Instance, allocation: Allocation) -> float:
    held = sum(
        instance.job(a.job).configurations[a.configuration].demand[0]
        for a in allocation.assignments
    )
    return held / MILLI


def _weight_placed(instance: Instance, allocation: Allocation) -> float:
    jobs, index = instance.jobs, instance.job_index
    try:
        return math.fsum([jobs[index[a.job]].weight for a in allocation.assignments])
    except KeyError as unknown:
        instance.job(unknown.args[0])  # which says what it is like
        raise


def _moves(instance: Instance, allocation: Allocation) -> float:
    return float(sum(moved_tasks(instance, allocation).values()))


def _moved_gb(instance: Instance, allocation: Allocation) -> float:
    moved = moved_tasks_by_role(instance, allocation)
    total = 0
    for before in instance.running:
        if moved[before.job]:
            configuration = instance.job(before.job).configurations[before.configuration]
            memory = {group.role: group.memory_mib for group in configuration.tasks}
            total += sum(n * memory[role] for role, n in moved[before.job].items())
    return total * GB_PER_MIB


def _balance(instance: Instance, allocation: Allocation) -> float:
    capacity = instance.topology.capacity
    share = Placed.of(instance, allocation).used / np.maximum(capacity, 1)
    # A host without a resource is no part of its mean.
    has = capacity > 0
    mean = np.where(has, share, 0.0).sum(axis=0) / np.maximum(has.sum(axis=0), 1)
    return float(np.where(has, np.maximum(share - mean, 0.0), 0.0).sum())


def _hosts_used(instance: Instance, allocation: Allocation) -> float:
    return float(Placed.of(instance, allocation).hosts_used.sum())


def _gpu_hosts_used(instance: Instance, allocation: Allocation) -> float:
    return float(Placed.of(instance, allocation).gpu_hosts_used.sum())


def _whole_hosts_free(instance: Instance, allocation: Allocation) -> float:
    with_gpus = instance.topology.capacity[:, 0] > 0
    return float((with_gpus & ~Placed.of(instance, allocation).hosts_used).sum())


PLACEMENT_OBJECTIVES = (
    PlacementObjective(
        "gpus_placed", "max", "GPU", "GPUs held by the jobs that run.", _gpus_placed
    ),
    PlacementObjective(
        "weight_placed", "max", "weight", "Sum of the weights of the jobs that run.", _weight_placed
    ),
    PlacementObjective(
        "domains_spanned",
        "min",
        "domains",
        "Domains beyond the first that each job's tasks span, at its preferred level; without one, "
        "at every level and over hosts. A host outside every domain of a level is one by itself.",
        domains_spanned,
    ),
    PlacementObjective(
        "bottleneck_bandwidth",
        "max",
        "GB/s",
        "Sum over gangs of the bandwidth between their worst two GPUs: the slowest hop of a ring.",
        ring_bottleneck,
    ),
    PlacementObjective(
        "mean_bandwidth",
        "max",
        "GB/s",
        "Sum over gangs of the mean bandwidth along a ring that goes domain by domain.",
        ring_mean,
    ),
    PlacementObjective(
        "all_to_all_bandwidth",
        "max",
        "GB/s",
        "Sum over gangs of what each GPU can send when all send to all: the narrowest way out of "
        "a host or domain, shared by what crosses it.",
        all_to_all_bottleneck,
    ),
    PlacementObjective(
        "all_to_all_mean_bandwidth",
        "max",
        "GB/s",
        "Sum over gangs of the mean bandwidth over all pairs of their GPUs.",
        all_to_all_mean,
    ),
    PlacementObjective(
        "fragmentation",
        "min",
        "GPU",
        "Expected free GPU that a task drawn from the instance's own tasks could not use (FGD, "
        "Weng et al., USENIX ATC 2023, section 3; host memory counts too).",
        fragmentation,
    ),
    PlacementObjective(
        "largest_gang",
        "max",
        "GPU",
        "Most whole GPUs that are free within one domain of the innermost level, or in a cluster "
        "without levels.",
        largest_gang,
    ),
    PlacementObjective(
        "whole_hosts_free", "max", "hosts", "GPU hosts on which no task stands.", _whole_hosts_free
    ),
    PlacementObjective(
        "balance",
        "min",
        "hosts",
        "Sum over resources and hosts of the utilisation above that resource's mean utilisation.",
        _balance,
    ),
    PlacementObjective(
        "moves", "min", "tasks", "Tasks of running jobs that leave their host.", _moves
    ),
    PlacementObjective(
        "moved_gb",
        "min",
        "GB",
        "Host memory of the tasks of running jobs that leave their host: the data that moves.",
        _moved_gb,
    ),
    PlacementObjective(
        "gpu_hosts_used", "min", "hosts", "Hosts on which a task holds a GPU.", _gpu_hosts_used
    ),
    PlacementObjective("hosts_used", "min", "hosts", "Hosts on which a task stands.", _hosts_used),
)
"""The objectives of placements."""
