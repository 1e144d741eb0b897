"""Brute force for tiny placements: every way to put tasks on hosts, checked one by one.

It uses nothing but the checker and the objectives: no model, no bound, no solver.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from alloc.objectives import parse_goal
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.verification import verify_placement
from alloc.workload import Job

MOST = 200_000
"""Allocations that a test may look at."""


def splits(count: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to split tasks over hosts."""
    if parts == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in splits(count - first, parts - 1):
            yield (first, *rest)


def options(instance: Instance, job: Job) -> list[Assignment | None]:
    """Return every placement of a job in itself feasible for the checker, and None for waiting."""
    hosts = [host.id for host in instance.topology.hosts]
    alone = instance.replace(running=(), moves=None, affinities=(), tenants=())
    found: list[Assignment | None] = [None]
    for c, configuration in enumerate(job.configurations):
        per_group = [
            [
                tuple(
                    TaskPlacement(h, group.role, n) for h, n in zip(hosts, split, strict=True) if n
                )
                for split in splits(group.count, len(hosts))
            ]
            for group in configuration.tasks
        ]
        for choice in itertools.product(*per_group):
            assignment = Assignment(job.id, c, tuple(itertools.chain(*choice)))
            if not verify_placement(alone, Allocation((assignment,))):
                found.append(assignment)
    return found


def feasible(instance: Instance) -> Iterator[Allocation]:
    """Yield every allocation that the checker accepts."""
    choices = [options(instance, job) for job in instance.jobs]
    assert math.prod(map(len, choices)) <= MOST, "too large for brute force"
    for choice in itertools.product(*choices):
        allocation = Allocation(tuple(a for a in choice if a is not None))
        if not verify_placement(instance, allocation):
            yield allocation


def size(instance: Instance) -> int:
    """Return how many allocations brute force looks at."""
    return math.prod(len(options(instance, job)) for job in instance.jobs)


def optimum(
    instance: Instance, goal: str, allocations: Sequence[Allocation] | None = None
) -> tuple[float, ...] | None:
    """Return the best values of a goal's levels, or None if nothing is feasible.

    `allocations` are the feasible ones, if they are known already.
    """
    levels = parse_goal(goal).levels
    signs = np.array([1.0 if level.sense == "max" else -1.0 for level in levels])
    measured = [
        [level.evaluate(instance, allocation) for level in levels]
        for allocation in (feasible(instance) if allocations is None else allocations)
    ]
    if not measured:
        return None
    values = signs * measured
    # Values that differ by rounding alone are equal, so that the next level decides; what rounding
    # is, the largest value of the level says: a weight of 2.5e-9 is no 3e-9.
    units = np.abs(values).max(axis=0)
    units[units == 0.0] = 1.0
    best = max(range(len(values)), key=lambda n: tuple(np.round(values[n] / units, 9)))
    return tuple((signs * values[best]).tolist())
