"""F2 beside heSRPT, which is optimal for jobs of one speed-up law on shares of servers."""

from __future__ import annotations

import math

import pytest

from alloc.problems.allocation.instance import Instance
from alloc.result import Limits
from alloc.solving import solve
from alloc.topology.host import Host, HostType
from alloc.topology.topology import Topology
from alloc.workload import Job, rigid_gang


def hesrpt(sizes: list[float], servers: float, power: float) -> float:
    """Return the optimal total flow time of heSRPT for speed k**power.

    Berg, Vesilo, Harchol-Balter: "heSRPT: Parallel scheduling to minimize mean slowdown",
    Performance Evaluation 144 (2020), theorem 1, here for flow time: with m jobs left, the i-th
    largest gets the share (i/m)^(1/(1-p)) - ((i-1)/m)^(1/(1-p)).
    """
    left = sorted(sizes, reverse=True)
    total = 0.0
    while left:
        m = len(left)
        power_of = 1 / (1 - power)
        shares = [((i + 1) / m) ** power_of - (i / m) ** power_of for i in range(m)]
        speed = [(servers * share) ** power for share in shares]
        step = min(size / s for size, s in zip(left, speed, strict=True))
        total += m * step
        left = [size - s * step for size, s in zip(left, speed, strict=True)]
        left = [size for size in left if size > 1e-9]
    return total


@pytest.mark.parametrize(("sizes", "power"), [((300, 200, 90), 0.5), ((120, 120, 120), 0.7)])
def test_no_schedule_beats_hesrpt_where_it_is_optimal(sizes: tuple[int, ...], power: float) -> None:
    """Continuous shares in continuous time bound small slots, which come close."""
    gpus = 8
    topology = Topology("flow", (HostType("k", gpus, "v100", 0, 0),), (Host("h", "k"),))
    table = tuple(rigid_gang(k, rate=k**power) for k in range(1, gpus + 1))
    jobs = tuple(Job(f"job-{n}", 0.0, float(size), table) for n, size in enumerate(sizes))
    instance = Instance("flow", topology, jobs, slot_s=40.0)
    ideal = hesrpt([float(size) for size in sizes], gpus, power)
    # Proved after less than a second of CPU time; the limit is for a search gone wrong.
    certificate = solve(instance, "malleable", limits=Limits(seconds=300.0)).certificate
    assert certificate.status == "optimal"
    assert ideal * (1 - 1e-9) <= certificate.objective <= 1.1 * ideal


def test_hesrpt_of_one_and_of_two_equal_jobs_by_hand() -> None:
    """The bound itself: one job takes all; two equal jobs with p = 1/2 finish one after another."""
    assert hesrpt([100.0], 4, 0.5) == pytest.approx(50.0)
    # Shares 1/4 and 3/4 of 4 servers: speeds 1 and sqrt 3.
    first = 100 / math.sqrt(3)
    assert hesrpt([100.0, 100.0], 4, 0.5) == pytest.approx(2 * first + (100 - first) / 2)
