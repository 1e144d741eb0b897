"""Clusters with host patterns to price and to bound."""

from __future__ import annotations

import numpy as np

from alloc.models.placement.data import PlacementData
from alloc.objectives.goals import parse_goal
from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.solving.placement.bounds import (
    placement_bound,
)
from alloc.solving.placement.patterns import Patterns
from alloc.solving.placement.relaxation import Weights, relax
from alloc.topology import Domain, Host, HostType, Topology
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

BALANCE = "balance + 0.05 moves"


def patterns_of(instance: Instance, goal: str = BALANCE) -> Patterns:
    """Return the patterns of an instance."""
    level = parse_goal(goal).levels[0]
    return relax(PlacementData.of(instance), Weights.read(level, instance)).patterns


def bound_of(instance: Instance, goal: str = BALANCE, seconds: float = 10.0) -> float:
    """Return the bound of the first level of a goal."""
    level = parse_goal(goal).levels[0]
    return placement_bound(PlacementData.of(instance), level, seconds, lambda _: None)[0]


def crowded(num_hosts: int = 6, seed: int = 0, name: str = "h") -> Instance:
    """Return hosts of 8 GPUs in racks of two with jobs that are unevenly spread on them."""
    rng = np.random.default_rng(seed)
    hosts, jobs, running = [], [], []
    for h in range(num_hosts):
        hosts.append(Host(f"{name}{h}", "box", f"{name}-r{h // 2}"))
        free = np.array([8, 32, 64]) - np.array([2, 2, 2]) * (h == num_hosts - 1)
        for k in range(8):
            gpus = int(rng.choice([0, 1, 1, 2, 4]))
            need = np.array([gpus, 1 + 3 * gpus, 2 + 4 * gpus])
            if (need > free).any() or rng.random() < h / (1.5 * num_hosts):
                continue
            free -= need
            job = f"{name}{h}-{k}"
            group = TaskGroup("w", 1, 1000 * gpus, 1000 * int(need[1]), int(need[2]))
            jobs.append(Job(job, 0.0, 1.0, (Configuration((group,), 1.0),)))
            running.append(Assignment(job, 0, (TaskPlacement(f"{name}{h}", "w", 1),)))
    gang = TaskGroup("w", 2, 1000, 1000, 1)
    jobs.append(
        Job(
            f"{name}-gang",
            0.0,
            1.0,
            (Configuration((gang,), 1.0),),
            placement=PlacementRules(required="rack"),
        )
    )
    last = hosts[-1].id
    running.append(Assignment(f"{name}-gang", 0, (TaskPlacement(last, "w", 2),)))
    racks = tuple(Domain(r, "rack") for r in dict.fromkeys(h.domain for h in hosts) if r)
    topology = Topology("t", (HostType("box", 8, "a", 32000, 64),), tuple(hosts), ("rack",), racks)
    return Instance("crowded", topology, tuple(jobs), running=tuple(running), moves=Moves())
