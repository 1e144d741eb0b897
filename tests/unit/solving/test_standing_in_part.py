"""Running jobs that stand with some of their tasks only: whatever pins them, they run whole."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from placement_brute_force import optimum

from alloc.models.placement.data import PlacementData
from alloc.objectives import parse_level
from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.solving.placement.bounds import placement_bound
from alloc.solving.solver import solve
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, Job, TaskGroup

GOALS = ("gpus_placed", "weight_placed", "gpu_hosts_used + 0.05 moves", "balance", "moves")


def partly_standing(rng: np.random.Generator) -> Instance:
    """Three hosts, three jobs of one to three tasks, of which none, some or all run."""
    hosts = tuple(Host(f"h{h}", "box") for h in range(3))
    jobs, running = [], []
    free = np.full(3, 2)
    for j in range(3):
        tasks = int(rng.integers(1, 4))
        way = (Configuration((TaskGroup("w", tasks, 1000, 1000, 1),), 1.0),)
        weight, stays = float(rng.integers(1, 4)), bool(rng.random() < 0.3)
        jobs.append(Job(f"j{j}", 0.0, 1.0, way, weight=weight, preemptible=not stays))
        on = []
        for _ in range(int(rng.integers(0, tasks + 1))):
            h = int(rng.integers(3))
            if free[h]:
                free[h] -= 1
                on.append(h)
        if on:
            standing = tuple(TaskPlacement(f"h{h}", "w", on.count(h)) for h in sorted(set(on)))
            running.append(Assignment(f"j{j}", 0, standing))
    moves = (Moves(budget=0), Moves(budget=1), Moves(evict=True))[int(rng.integers(3))]
    topology = Topology("t", (HostType("box", 2, "a", 8000, 8),), hosts)
    return Instance("in part", topology, tuple(jobs), running=tuple(running), moves=moves)


@pytest.mark.parametrize("seed", range(20))
def test_bounds_and_optima_know_what_is_still_to_come(seed: int) -> None:
    """No bound of patterns is passed by an allocation, and the optimum is found."""
    instance = partly_standing(np.random.default_rng(seed))
    for goal in itertools.islice(itertools.cycle(GOALS), seed, seed + 2):
        level, best = parse_level(goal), optimum(instance, goal)
        found = solve(instance, "placement", objective=goal).certificate
        assert found.status == ("infeasible" if best is None else "optimal")
        if best is not None:
            assert found.objective == pytest.approx(best[0])
            sign = 1.0 if level.sense == "min" else -1.0
            bound, _ = placement_bound(PlacementData.of(instance), level, 10.0, lambda _: None)
            assert sign * bound <= sign * best[0] + 1e-9
