"""What is told at a glance to break no rule breaks none when it is looked at closely."""

from __future__ import annotations

import numpy as np
import pytest

import alloc
from alloc.problems.allocation.instance import Instance
from alloc.verification.placement import check_assignment, plain_assignments


def cluster(rng: np.random.Generator) -> Instance:
    """Return jobs of all sorts on three hosts of two types."""
    types = (alloc.HostType("a", 4, "x"), alloc.HostType("b", 4, "y"))
    hosts = tuple(alloc.Host(f"h{n}", types[n % 2].name, "r0") for n in range(3))
    topology = alloc.Topology("c", types, hosts, ("rack",), (alloc.Domain("r0", "rack"),))

    def way() -> alloc.Configuration:
        groups = [alloc.TaskGroup("w", int(rng.integers(1, 4)), int(rng.choice((500, 1000, 2000))))]
        if rng.random() < 0.4:
            groups.append(alloc.TaskGroup("p", 1, 1000))
        of_type = (None, None, "x")[int(rng.integers(3))]
        return alloc.Configuration(tuple(groups), 1.0, gpu_type=of_type)

    rules = (alloc.PlacementRules(), alloc.PlacementRules(required="rack"))
    jobs = tuple(
        alloc.Job(f"j{n}", 0.0, 1.0, tuple(way() for _ in range(2)), placement=rules[n % 2])
        for n in range(4)
    )
    plain = (alloc.Configuration((alloc.TaskGroup("w", 2, 1000),), 1.0),)
    return Instance("mixed", topology, (*jobs, alloc.Job("plain", 0.0, 1.0, plain)))


def drawn(rng: np.random.Generator, instance: Instance) -> alloc.Assignment:
    """Return an assignment that is right, or wrong in any way."""
    job = ("unknown", *(job.id for job in instance.jobs))[int(rng.integers(6))]
    tasks = tuple(
        alloc.TaskPlacement(
            ("h0", "h1", "h2", "h9")[int(rng.choice(4, p=(0.3, 0.3, 0.3, 0.1)))],
            ("w", "p", "q")[int(rng.choice(3, p=(0.7, 0.2, 0.1)))],
            int(rng.integers(0, 3)),
        )
        for _ in range(int(rng.integers(0, 4)))
    )
    return alloc.Assignment(job, int(rng.integers(-1, 3)), tasks)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_plain_breaks_no_rule(seed: int) -> None:
    """Of assignments drawn at random, right and wrong."""
    rng = np.random.default_rng(seed)
    instance = cluster(rng)
    is_plain = plain_assignments(instance)
    for _ in range(300):
        a = drawn(rng, instance)
        if is_plain(a):
            assert not list(check_assignment(instance, a.job, a.configuration, a.tasks))


def test_a_gang_without_rules_is_plain_wherever_it_stands_whole() -> None:
    """On one host or two; not in part, nor on a host that there is not."""
    is_plain = plain_assignments(cluster(np.random.default_rng(0)))

    def at(*tasks: tuple[str, int]) -> bool:
        placed = tuple(alloc.TaskPlacement(host, "w", n) for host, n in tasks)
        return is_plain(alloc.Assignment("plain", 0, placed))

    assert at(("h0", 2))
    assert at(("h0", 1), ("h2", 1))
    assert not at(("h0", 1))
    assert not at(("h0", 1), ("h9", 1))
    assert not at(("h0", 3), ("h1", -1))
    assert not at()
