"""Emptying hosts by every backend: fewest moves, whatever part of a gang stands there."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.solving.placing.defragmentation import consolidate, drain
from alloc.topology import Host, HostType, Topology
from alloc.verification import verify
from alloc.verification.migration import verify_migration
from alloc.workload import Configuration, Job, TaskGroup

GPUS = 2


def cluster(*where: tuple[int, ...]) -> Instance:
    """Hosts of two GPUs, and for each job how many tasks of a GPU stand on each."""
    hosts = tuple(Host(f"h{h}", "box") for h in range(len(where[0])))
    jobs, running = [], []
    for n, counts in enumerate(where):
        group = TaskGroup("w", sum(counts), 1000, 1000, 1)
        jobs.append(Job(f"j{n}", 0.0, 1.0, (Configuration((group,), 1.0),)))
        tasks = tuple(TaskPlacement(f"h{h}", "w", k) for h, k in enumerate(counts) if k)
        running.append(Assignment(f"j{n}", 0, tasks))
    topology = Topology("t", (HostType("box", GPUS, "a", 8000, 8),), hosts)
    return Instance("i", topology, tuple(jobs), running=tuple(running), moves=Moves())


def fewest_moves(where: list[tuple[int, ...]], empty: int) -> float:
    """Return the fewest tasks that move so that a host is empty, over all placements."""
    hosts = [h for h in range(len(where[0])) if h != empty]
    ways = [list(combinations_with_replacement(hosts, sum(counts))) for counts in where]
    best = math.inf
    for chosen in product(*ways):
        after = [[way.count(h) for h in range(len(where[0]))] for way in chosen]
        if max(map(sum, zip(*after, strict=True))) <= GPUS:
            gone = np.maximum(np.array(where) - np.array(after), 0).sum()
            best = min(best, float(gone))
    return best


@pytest.mark.parametrize("backend", ["auto", "highs"])
@pytest.mark.parametrize("seed", range(12))
def test_draining_takes_the_fewest_moves_of_all_placements(seed: int, backend: str) -> None:
    """Gangs of which a part stands on the host, hosts that hold too much from the start."""
    rng = np.random.default_rng(seed)
    where = [tuple(rng.multinomial(rng.integers(1, 4), np.ones(3) / 3).tolist()) for _ in range(3)]
    instance, best = cluster(*where), fewest_moves(where, 0)
    found = drain(instance, ["h0"], backend=backend)
    certificate = found.result.certificate
    assert certificate.status == ("infeasible" if best == math.inf else "optimal")
    if best < math.inf:
        assert certificate.objective == pytest.approx(best)
        assert isinstance(found.result.solution, Allocation)
        assert not verify(instance, found.result.solution)
        assert (found.migration is None) == (found.blocked is not None)
    if found.migration is not None:
        assert not verify_migration(instance, found.migration)
        assert found.num_moved >= best


def test_a_host_that_holds_too_much_from_the_start_leaves_no_order_of_moves() -> None:
    """There is a placement, but a task that moves holds its old host until it has the new one."""
    for found in (drain(cluster((0, 0, 3), (1, 0, 0)), ["h0"]), consolidate(cluster((3, 0, 0)))):
        assert found.result.certificate.status == "optimal"
        assert found.migration is None
        assert found.blocked is not None
        assert "3000 used of 2000. No step is within capacity" in found.blocked


def test_running_jobs_that_hold_more_than_there_is_are_said() -> None:
    """The sentence is about the places, not about the part of a gang that stood on them."""
    found = drain(cluster((2, 2, 0), (0, 0, 2)), ["h0"])
    assert found.result.certificate.status == "infeasible"
    assert found.result.conflict is not None
    assert found.result.conflict.startswith("h0: what runs has no place without them")
