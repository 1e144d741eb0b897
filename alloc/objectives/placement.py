"""Objectives of placements: what an allocation makes of the hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alloc.errors import InstanceError
from alloc.instance import Instance
from alloc.objectives.base import Objective
from alloc.solution import Allocation, Solution
from alloc.units import MILLI


@dataclass(frozen=True)
class PlacementObjective(Objective):
    """An objective of an allocation, computed from where its tasks are."""

    function: Callable[[Instance, Allocation], float]

    def evaluate(self, instance: Instance, solution: Solution) -> float:
        """Return the value of an allocation."""
        if not isinstance(solution, Allocation):
            raise InstanceError(f"{self.name} needs an allocation, not {type(solution).__name__}.")
        return self.function(instance, solution)


def used_capacity(instance: Instance, allocation: Allocation) -> np.ndarray:
    """Return what tasks use on each host, shape (hosts, resources), in the units of `RESOURCES`."""
    used = np.zeros(instance.topology.capacity.shape)
    index = instance.topology.host_index
    for a in allocation.assignments:
        demand = {
            g.role: g.demand for g in instance.job(a.job).configurations[a.configuration].tasks
        }
        for task in a.tasks:
            used[index[task.host]] += task.count * np.array(demand[task.role])
    return used


def moved_tasks(instance: Instance, allocation: Allocation) -> dict[str, int]:
    """Return for each running job how many of its tasks left their host.

    Tasks of a role are alike: it is the sum over hosts and roles of those a host has less of. A
    job that is stopped moves all its tasks.
    """
    now = {a.job: a for a in allocation.assignments}
    moved = {}
    for before in instance.running:
        after = now.get(before.job)
        held: dict[tuple[str, str], int] = {}
        for task in () if after is None else after.tasks:
            held[task.host, task.role] = held.get((task.host, task.role), 0) + task.count
        had: dict[tuple[str, str], int] = {}
        for task in before.tasks:
            had[task.host, task.role] = had.get((task.host, task.role), 0) + task.count
        moved[before.job] = sum(max(0, n - held.get(key, 0)) for key, n in had.items())
    return moved


def _gpus_placed(instance: Instance, allocation: Allocation) -> float:
    return (
        sum(
            instance.job(a.job).configurations[a.configuration].demand[0]
            for a in allocation.assignments
        )
        / MILLI
    )


def _moves(instance: Instance, allocation: Allocation) -> float:
    return float(sum(moved_tasks(instance, allocation).values()))


def _balance(instance: Instance, allocation: Allocation) -> float:
    capacity = instance.topology.capacity
    share = used_capacity(instance, allocation) / np.maximum(capacity, 1)
    # A host without a resource is no part of its mean.
    has = capacity > 0
    mean = np.where(has, share, 0.0).sum(axis=0) / np.maximum(has.sum(axis=0), 1)
    return float(np.where(has, np.maximum(share - mean, 0.0), 0.0).sum())


def _gpu_hosts_used(instance: Instance, allocation: Allocation) -> float:
    return float((used_capacity(instance, allocation)[:, 0] > 0).sum())


PLACEMENT_OBJECTIVES = (
    PlacementObjective(
        "gpus_placed", "max", "GPU", "GPUs held by the jobs that run.", _gpus_placed
    ),
    PlacementObjective(
        "moves", "min", "tasks", "Tasks of running jobs that leave their host.", _moves
    ),
    PlacementObjective(
        "balance",
        "min",
        "hosts",
        "Sum over resources and hosts of the utilisation above that resource's mean utilisation.",
        _balance,
    ),
    PlacementObjective(
        "gpu_hosts_used", "min", "hosts", "Hosts on which a task holds a GPU.", _gpu_hosts_used
    ),
)
"""The objectives of placements."""
