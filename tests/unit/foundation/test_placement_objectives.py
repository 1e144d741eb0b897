"""Objectives of placements, each with its arithmetic by hand."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from work_counts import lines_of, peak_of

from alloc.errors import InstanceError
from alloc.objectives import OBJECTIVES, PLACEMENT_OBJECTIVES, parse_goal
from alloc.objectives.fragmentation import Shape, mix_of
from alloc.problems.allocation.instance import Affinity, Instance, Moves
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.topology import Domain, GpuLink, Host, HostType, NetworkLink, Topology
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

NVLINKS = tuple(GpuLink(f"gpu{g}", "nvswitch0", "nvswitch", 300.0) for g in range(4))
BOX = HostType("box", 4, "a100", 8000, 8192, NVLINKS)
CPU = HostType("cpu", 0, None, 8000, 8192)
# Racks r0 (h0, h1) and r1 (h2, h3): hosts are joined at 25 GB/s, each rack goes out at 40 GB/s;
# c0 has no GPU and stands in no rack.
CLUSTER = Topology(
    "two racks",
    (BOX, CPU),
    (*(Host(f"h{k}", "box", f"r{k // 2}") for k in range(4)), Host("c0", "cpu")),
    ("rack",),
    (Domain("r0", "rack"), Domain("r1", "rack")),
    (
        *(NetworkLink(f"h{k}", f"r{k // 2}", 25.0) for k in range(4)),
        NetworkLink("r0", "spine", 40.0),
        NetworkLink("r1", "spine", 40.0),
    ),
)


def gang(count: int, gpu: int = 1000, cpu: int = 0, memory: int = 0) -> Configuration:
    """Return a gang of equal workers."""
    return Configuration((TaskGroup("w", count, gpu, cpu, memory),), 1.0)


def job(job_id: str, configuration: Configuration, **fields: Any) -> Job:
    """Return a rigid job."""
    return Job(job_id, 0.0, 1.0, (configuration,), elasticity="rigid", **fields)


def on(job_id: str, gpus: tuple[int, ...] = (), **hosts: int) -> Assignment:
    """Place workers on hosts."""
    return Assignment(job_id, 0, tuple(TaskPlacement(h, "w", n, gpus) for h, n in hosts.items()))


def value(name: str, jobs: tuple[Job, ...], *placed: Assignment, **fields: Any) -> float:
    """Return the value of an objective or goal of one level."""
    topology = fields.pop("topology", CLUSTER)
    (level,) = parse_goal(name).levels
    return level.evaluate(Instance("i", topology, jobs, **fields), Allocation(placed))


FOUR = (job("a", gang(4)),)


def test_gpus_and_weights_count_the_jobs_that_run() -> None:
    """Of two jobs, 4 GPUs of weight 3 run, and 2 of weight 5 wait."""
    jobs = (job("a", gang(4), weight=3.0), job("b", gang(2), weight=5.0))
    assert value("gpus_placed", jobs, on("a", h0=4)) == 4.0
    assert value("weight_placed", jobs, on("a", h0=4)) == 3.0
    assert value("weight_placed", jobs, on("a", h0=4), on("b", h1=2)) == 8.0
    assert value("gpus_placed", (job("s", gang(3, gpu=500)),), on("s", (0, 0, 1), h0=3)) == 1.5


@pytest.mark.parametrize(
    ("preferred", "hosts", "spanned"),
    [
        # Without a preference racks and hosts count, each beyond the first.
        (None, {"h0": 4}, 0),
        (None, {"h0": 2, "h1": 2}, 1),
        (None, {"h0": 2, "h2": 2}, 2),
        (None, {"h0": 1, "h1": 1, "h2": 1, "h3": 1}, 4),
        ("rack", {"h0": 2, "h1": 2}, 0),
        ("rack", {"h0": 1, "h1": 1, "h2": 2}, 1),
        ("host", {"h0": 2, "h1": 2}, 1),
        # c0 is in no rack: there it is one by itself.
        ("rack", {"h0": 3, "c0": 1}, 1),
        ("rack", {"c0": 4}, 0),
    ],
)
def test_domains_beyond_the_first(
    preferred: str | None, hosts: dict[str, Any], spanned: int
) -> None:
    """A preferred level counts alone; without one every level does."""
    jobs = (job("a", gang(4, gpu=0), placement=PlacementRules(preferred=preferred)),)
    assert value("domains_spanned", jobs, on("a", **hosts)) == spanned
    assert value("domains_spanned", jobs) == 0


@pytest.mark.parametrize(
    ("hosts", "bottleneck", "ring", "share", "pairs"),
    [
        # One host: NVLink everywhere.
        ({"h0": 4}, 300, 300, 300, 300),
        # Ring h0 h0 h1 h1: 300, 25, 300, 25. Of 6 pairs 2 are inside. A host's 25 GB/s carry
        # 2 x 2 pairs of its GPUs, of which each GPU has 3: 25 x 3 / 4.
        ({"h0": 2, "h1": 2}, 25, 162.5, 18.75, (2 * 300 + 4 * 25) / 6),
        # Across racks the hosts' ports are still the narrowest.
        ({"h0": 2, "h2": 2}, 25, 162.5, 18.75, (2 * 300 + 4 * 25) / 6),
        # One GPU on each of four hosts: each host's port carries its own GPU's 25; a rack's 40
        # carry 2 x 2 pairs: 40 x 3 / 4 = 30.
        ({"h0": 1, "h1": 1, "h2": 1, "h3": 1}, 25, 25, 25, 25),
        # 3 + 1: three GPUs share the port that carries 3 pairs: 25 x 3 / 3.
        ({"h0": 3, "h1": 1}, 25, (300 + 300 + 25 + 25) / 4, 25, (3 * 300 + 3 * 25) / 6),
    ],
)
def test_bandwidths_of_a_gang_of_four(
    hosts: dict[str, Any], bottleneck: float, ring: float, share: float, pairs: float
) -> None:
    """The four measures, with the links above."""
    placed = on("a", **hosts)
    assert value("bottleneck_bandwidth", FOUR, placed) == bottleneck
    assert value("mean_bandwidth", FOUR, placed) == ring
    assert value("all_to_all_bandwidth", FOUR, placed) == pytest.approx(share)
    assert value("all_to_all_mean_bandwidth", FOUR, placed) == pytest.approx(pairs)


def test_a_narrow_spine_limits_what_crosses_it() -> None:
    """Two GPUs on each of four hosts: a rack's 40 GB/s carry 4 x 4 pairs: 40 x 7 / 16 = 17.5."""
    jobs = (job("a", gang(8)),)
    everywhere = on("a", h0=2, h1=2, h2=2, h3=2)
    # A port carries 2 x 6 pairs: 25 x 7 / 12 = 14.58.
    assert value("all_to_all_bandwidth", jobs, everywhere) == pytest.approx(25 * 7 / 12)
    links = tuple(
        NetworkLink(x.a, x.b, 10.0 if x.b == "spine" else x.bandwidth_gb_per_s)
        for x in CLUSTER.links
    )
    narrow = CLUSTER.replace(links=links)
    share = value("all_to_all_bandwidth", jobs, everywhere, topology=narrow)
    assert share == pytest.approx(10 * 7 / 16)
    assert value("bottleneck_bandwidth", jobs, everywhere, topology=narrow) == 10.0


def test_gangs_add_up_and_single_gpus_do_not_count() -> None:
    """A sum, so that a gang left out never raises it."""
    jobs = (job("a", gang(4)), job("b", gang(2)), job("c", gang(1)))
    both = (on("a", h0=4), on("b", h1=1, h2=1), on("c", h3=1))
    assert value("bottleneck_bandwidth", jobs, *both) == 325.0
    assert value("bottleneck_bandwidth", jobs, both[2]) == 0.0


def test_bandwidth_needs_links() -> None:
    """Without a link everything would be unlimited, which is no measure."""
    bare = Topology("bare", (HostType("k", 4, "a100"),), (Host("h0", "k"),))
    with pytest.raises(InstanceError, match="has no links, so gangs have no bandwidth"):
        value("mean_bandwidth", FOUR, on("a", h0=4), topology=bare)


def test_fragments_are_what_a_task_of_the_mix_cannot_use() -> None:
    """One host with 4 GPUs; the mix is half shares of 500 and half pairs of whole GPUs."""
    one = Topology("one", (HostType("k", 4, "a100", 8000, 8192),), (Host("h0", "k"),))
    jobs = (job("s", gang(2, gpu=500)), job("p", gang(2, gpu=2000)))
    assert mix_of(Instance("i", one, jobs)) == {
        Shape(500, 1, 0, 0, None): 0.5,
        Shape(1000, 2, 0, 0, None): 0.5,
    }
    # Nothing placed: both fit everywhere.
    assert value("fragmentation", jobs, topology=one) == 0.0
    # A share on GPU 0 and one on GPU 1 leave 0.5 + 0.5 + 1 + 1: shares can use all, pairs lose 1.
    two = on("s", (0, 1), h0=2)
    assert value("fragmentation", jobs, two, topology=one) == pytest.approx(0.5 * 1.0)
    # Both on GPU 0: nothing is lost on the three others, though a pair leaves one over.
    assert value("fragmentation", jobs, on("s", (0, 0), h0=2), topology=one) == 0.0
    # Three whole GPUs taken: one is left, no pair fits.
    taken = (*jobs, job("t", gang(3)))
    mixed = value("fragmentation", taken, on("t", h0=3), topology=one)
    assert mixed == pytest.approx(1.0 * 2 / 7)  # 2 of the 7 tasks are pairs


def test_a_host_without_cpu_left_loses_its_gpus() -> None:
    """All CPU of h0 is used by one GPU task: its 3 free GPUs are no use to the mix."""
    jobs = (job("a", gang(1, cpu=8000)), job("b", gang(1, cpu=1000)))
    assert value("fragmentation", jobs, on("a", h0=1)) == pytest.approx(3.0)
    # Tasks without GPUs can use none anywhere: 16 free, half of the mix.
    with_cpu = (job("a", gang(1)), job("c", gang(1, gpu=0, cpu=1000)))
    assert value("fragmentation", with_cpu) == pytest.approx(8.0)


def test_the_largest_gang_is_free_within_one_innermost_domain() -> None:
    """Racks of 8; of r0 5 are taken, of r1 2 are shared."""
    jobs = (job("a", gang(5)), job("s", gang(2, gpu=100)))
    assert value("largest_gang", jobs) == 8.0
    assert value("largest_gang", jobs, on("a", h0=4, h1=1), on("s", (0, 1), h2=2)) == 6.0
    assert value("largest_gang", jobs, on("a", h0=4, h1=1), on("s", (0, 0), h2=2)) == 7.0
    flat = Topology("flat", (BOX,), (Host("h0", "box"), Host("h1", "box")))
    assert value("largest_gang", jobs, on("a", h0=4, h1=1), topology=flat) == 3.0


def test_hosts_used_and_free() -> None:
    """A task without GPU uses a host but no GPU host; whole hosts free hold no task at all."""
    jobs = (job("a", gang(2)), job("c", gang(2, gpu=0, cpu=1000)))
    placed = (on("a", h0=2), on("c", h1=1, c0=1))
    assert value("hosts_used", jobs, *placed) == 3.0
    assert value("gpu_hosts_used", jobs, *placed) == 1.0
    assert value("whole_hosts_free", jobs, *placed) == 2.0
    slices = (job("m", Configuration((TaskGroup("w", 1, mig_profile="1g.5gb"),), 1.0)),)
    cut = Assignment("m", 0, (TaskPlacement("h0", "w", 1, (0,), (0,)),))
    assert value("gpu_hosts_used", slices, cut) == 1.0
    assert value("largest_gang", slices, cut, on("m")) == 8.0


def test_balance_counts_what_is_above_the_mean() -> None:
    """2 of 4 GPUs on one of four GPU hosts: mean 1/8, so 3/8 above; 4 of 8 cores on one of five:
    mean 1/10, so 4/10 above."""
    jobs = (job("a", gang(2, cpu=2000)),)
    assert value("balance", jobs, on("a", h0=2)) == pytest.approx(0.375 + 0.4)


def test_moves_count_tasks_that_leave_and_data_their_memory() -> None:
    """Of three workers on h0 one leaves; a stopped job moves both its tasks."""
    jobs = (job("a", gang(4, memory=1000)), job("b", gang(2, memory=500)))
    running = (on("a", h0=3, h1=1), on("b", h2=2))
    fields = {"running": running, "moves": Moves(evict=True)}
    assert value("moves", jobs, *running, **fields) == 0
    assert value("moves", jobs, on("a", h0=2, h1=2), running[1], **fields) == 1
    assert value("moves", jobs, on("a", h0=2, h1=2), **fields) == 3
    gigabytes = value("moved_gb", jobs, on("a", h0=2, h1=2), **fields)
    assert gigabytes == pytest.approx((1000 + 2 * 500) * 1024**2 / 1e9)


def test_goals_weigh_objectives_in_their_own_sense() -> None:
    """More weight always means more of what the term wants."""
    jobs = (job("a", gang(4)),)
    placed = on("a", h0=2, h1=2)
    assert value("gpus_placed + 0.5 hosts_used", jobs, placed) == 4 - 0.5 * 2
    assert value("hosts_used + 0.5 gpus_placed", jobs, placed) == 2 - 0.5 * 4
    levels = parse_goal("gpus_placed then 2 balance + moves").levels
    assert [level.name for level in levels] == ["gpus_placed", "2 balance + moves"]


@pytest.mark.parametrize("measure", PLACEMENT_OBJECTIVES, ids=lambda m: m.name)
def test_objectives_want_an_allocation(measure: Any) -> None:
    """A schedule has no single placement."""
    from alloc.problems.allocation.solution import Schedule

    instance = Instance("i", CLUSTER, FOUR)
    with pytest.raises(InstanceError, match=f"{measure.name} needs an allocation, not Schedule"):
        measure.evaluate(instance, Schedule(()))
    assert OBJECTIVES[measure.name].sense == measure.sense


def _large(num_racks: int) -> tuple[Instance, Allocation]:
    """Return a cluster of ten hosts a rack, and twenty gangs a rack placed on it."""
    rng = np.random.default_rng(0)
    racks = tuple(Domain(f"r{k}", "rack") for k in range(num_racks))
    kind = HostType("k", 8, "a100", 128_000, 1 << 20, NVLINKS)
    hosts = tuple(Host(f"h{k}", "k", f"r{k // 10}") for k in range(10 * num_racks))
    links = (
        *(NetworkLink(h.id, str(h.domain), 25.0) for h in hosts),
        *(NetworkLink(r.id, "spine", 100.0) for r in racks),
    )
    topology = Topology("big", (kind,), hosts, ("rack",), racks, links)
    jobs, placed = [], []
    for j in range(20 * num_racks):
        first = 10 * int(rng.integers(num_racks))
        jobs.append(job(f"j{j}", gang(4, gpu=1000 * int(rng.integers(0, 2)), cpu=1000, memory=64)))
        tasks = tuple(TaskPlacement(f"h{first + k}", "w", 1) for k in range(4))
        placed.append(Assignment(f"j{j}", 0, tasks))
    before = Allocation((*placed[1:], on("j0", h0=4)))
    return (
        # Some hosts are over-full, which only an instance with moves may say.
        Instance("big", topology, tuple(jobs), running=before.assignments, moves=Moves()),
        Allocation(tuple(placed)),
    )


@pytest.mark.long
def test_objectives_grow_with_the_cluster_and_not_with_its_square() -> None:
    """Local search and the checker evaluate them on clusters of thousands of hosts."""
    worlds = _large(50), _large(200)
    for measure in PLACEMENT_OBJECTIVES:
        for world in worlds:  # what belongs to the topology is kept
            measure.evaluate(*world)
        small, large = (partial(measure.evaluate, *world) for world in worlds)
        # The square would be 16 times: of loops in Python, and of arrays in numpy.
        assert lines_of(large) < 6 * lines_of(small), measure.name
        assert peak_of(large) < 6 * peak_of(small) + 10_000, measure.name


def test_affinities_do_not_enter_objectives() -> None:
    """They are rules of the checker."""
    jobs = (job("a", gang(2)), job("b", gang(2)))
    apart = (Affinity("apart", "rack", ("a", "b")),)
    placed = (on("a", h0=2), on("b", h1=2))
    assert value("hosts_used", jobs, *placed, affinities=apart) == 2.0
