"""Amounts of one resource that are millions of times apart: a unit too much is too much."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from alloc.problems.allocation.instance import Instance, Moves
from alloc.result import Limits
from alloc.solving.solver import solve
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, Job, TaskGroup


def waiting(amounts: list[int], room: int, owner: str = "host") -> Instance:
    """Jobs of a GPU and some tokens each, beside a host that has so many, or a cluster that has."""
    own, shared = ({"tokens": room} if owner == who else {} for who in ("host", "cluster"))
    kind = HostType("box", 16, "a", 64_000, 1024, resources=own)
    jobs = tuple(
        Job(f"j{n}", 0.0, 1.0, (Configuration((group,), 1.0),), elasticity="rigid")
        for n, group in enumerate(
            TaskGroup("w", 1, 1000, 1000, 1, resources={"tokens": amount}) for amount in amounts
        )
    )
    topology = Topology("t", (kind,), (Host("h0", "box"),), resources=shared)
    return Instance("far apart", topology, jobs, moves=Moves())


def max_jobs(amounts: list[int], room: int) -> int:
    """Return how many of the jobs the host holds at most."""
    sizes = range(len(amounts), -1, -1)
    return next(
        size
        for size in sizes
        if any(sum(some) <= room for some in itertools.combinations(amounts, size))
    )


@pytest.mark.long
@pytest.mark.parametrize("owner", ["host", "cluster"])
@pytest.mark.parametrize("backend", ["auto", "highs", "cpsat"])
@pytest.mark.parametrize("size", [10**6, 10**7, 2**26 + 1, 10**8])
def test_one_unit_too_much_is_refused(size: int, backend: str, owner: str) -> None:
    """Large and small together are one above the limit; the large one alone fills it."""
    for amounts, room in (([size, 1], size), ([size, size + 1, 1], 2 * size + 1)):
        found = solve(
            waiting(amounts, room, owner),
            "placement",
            backend,
            objective="gpus_placed",
            limits=Limits(seconds=10.0),
        )
        assert found.certificate.status == "optimal"
        assert found.certificate.objective == len(amounts) - 1


@pytest.mark.parametrize("seed", range(6))
def test_digits_add_up(seed: int) -> None:
    """Whatever is carried from low digits to high ones: as many jobs as there is room for."""
    rng = np.random.default_rng(seed)
    amounts = [int(10 ** rng.uniform(0, 9)) for _ in range(5)]
    amounts += [int(rng.integers(1, 5000)) for _ in range(3)]
    chosen = rng.permutation(amounts)[:4].sum()
    room = max(int(chosen) - int(rng.integers(0, 2)), *amounts)
    for backend in ("highs", "cpsat"):
        found = solve(
            waiting(amounts, room),
            "placement",
            backend,
            objective="gpus_placed",
            limits=Limits(seconds=10.0),
        )
        assert found.certificate.objective == max_jobs(amounts, room)
