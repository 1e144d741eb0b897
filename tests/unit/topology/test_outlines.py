"""Outlines: what a topology is in numbers, and its tree with like parts together."""

from alloc.topology import (
    Domain,
    Host,
    HostType,
    NetworkLink,
    Topology,
    dgx_h100,
    flat_cluster,
    leaf_spine,
    pcie_server,
    rail_optimised,
)
from alloc.topology.outlines import LevelOutline, LinkOutline, branches, inner_links, outline

BOX = HostType("box", 2, "t4", 8000, 1024)
BARE = HostType("bare", cpu_milli=8000)


def uneven() -> Topology:
    """Two racks of two boxes, one of a box and a bare host, and a host in no rack."""
    racks = [("a", 0), ("b", 0), ("c", 0)]
    hosts = [("a0", "box", "a"), ("a1", "box", "a"), ("b0", "box", "b"), ("b1", "box", "b"),
             ("c0", "box", "c"), ("c1", "bare", "c"), ("lone", "bare", "hall")]  # fmt: skip
    return Topology(
        "uneven",
        (BOX, BARE, HostType("unused", 1, "k80")),
        tuple(Host(*host) for host in hosts),
        ("hall", "rack"),
        (Domain("hall", "hall"), *(Domain(name, "rack", "hall") for name, _ in racks)),
        (
            NetworkLink("a0", "a", 10.0),
            NetworkLink("b0", "b", 25.0),
            NetworkLink("a", "core", 40.0),
        ),
    )


def test_numbers_of_a_cluster():
    """Types that no host is of do not count."""
    numbers = outline(uneven())
    assert (numbers.hosts, numbers.gpus) == (7, 10)
    assert numbers.gpus_by_type == {"t4": 10}
    assert numbers.hosts_by_type == {"box": 5, "bare": 2}
    assert numbers.levels == (
        LevelOutline("hall", 1, 7, 7, 0),
        LevelOutline("rack", 3, 2, 2, 1),
    )
    assert numbers.links == (
        LinkOutline(("switch", "rack"), 1, 40.0, 40.0),
        LinkOutline(("rack", "host"), 2, 10.0, 25.0),
    )


def test_devices_of_hosts_are_ends_of_their_hosts():
    """Rails are plugged into the NICs, one by one."""
    numbers = outline(rail_optimised(dgx_h100(), 2, 2))
    assert [link.between for link in numbers.links][-1][1] == "host"


def test_like_racks_are_together_and_others_apart():
    (hall,) = branches(uneven())
    assert (hall.level, hall.hosts, hall.gpus, hall.count) == ("hall", 7, 10, 1)
    assert [(part.ids, part.hosts, part.gpus) for part in hall.below] == [
        (("a", "b"), 2, 4),
        (("c",), 2, 2),
        (("lone",), 1, 0),
    ]
    assert [(part.ids, part.host_type.name) for part in hall.below[1].below] == [
        (("c0",), "box"),
        (("c1",), "bare"),
    ]


def test_unfolded_every_part_is_by_itself():
    (hall,) = branches(uneven(), fold=False)
    assert [part.ids for part in hall.below] == [("a",), ("b",), ("c",), ("lone",)]
    assert [part.ids for part in hall.below[1].below] == [("b0",), ("b1",)]


def test_a_flat_cluster_is_its_hosts():
    (hosts,) = branches(flat_cluster("flat", BOX, 500))
    assert (hosts.level, hosts.count, hosts.gpus) == ("host", 500, 2)


def test_ten_thousand_hosts_are_a_few_lines():
    """That is what folding is for."""
    (spine,) = branches(leaf_spine(dgx_h100(), 313, 32, 8))
    assert [part.count for part in spine.below] == [313]
    assert [part.count for part in spine.below[0].below] == [32]
    assert spine.gpus == 313 * 32 * 8


def test_links_inside_a_host_by_kind():
    assert inner_links(pcie_server(4, "t4")) == {"pcie": (31.5, 12.5), "upi": (20.8,)}
