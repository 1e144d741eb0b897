"""How data travels: which ways count, and how wide they are."""

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.errors import InstanceError
from alloc.topology import (
    Domain,
    GpuLink,
    Host,
    HostType,
    Network,
    NetworkLink,
    Topology,
    bisection_bandwidth,
    bottleneck_bandwidth,
    dgx_h100,
    flat_cluster,
    leaf_spine,
    pcie_server,
)

PLAIN = HostType("plain", num_gpus=2, gpu_type="generic", cpu_milli=8000)
UNLIMITED = float("inf")


def racks(links=(), kind=PLAIN, num_hosts=4):
    """Hosts host-0, host-1 ... by twos in leaf-0, leaf-1 ... in one pod."""
    leaves = [Domain(f"leaf-{k}", "leaf", "pod") for k in range(num_hosts // 2)]
    hosts = tuple(Host(f"host-{h}", kind.name, f"leaf-{h // 2}") for h in range(num_hosts))
    domains = (Domain("pod", "pod"), *leaves)
    return Topology("racks", (kind,), hosts, ("pod", "leaf"), domains, tuple(links))


def test_containment_without_links_sets_no_limit():
    """A user who states no bandwidth must not get a made-up one."""
    assert bottleneck_bandwidth(racks(), "host-0/gpu0", "host-3/gpu1") == UNLIMITED
    assert bottleneck_bandwidth(racks(), "host-0/gpu0", "host-0/gpu1") == UNLIMITED
    assert bottleneck_bandwidth(racks(), "host-0", "leaf-1") == UNLIMITED


def test_the_narrowest_link_of_the_way_decides():
    links = [NetworkLink("host-0", "leaf-0", 5), NetworkLink("leaf-1", "pod", 3)]
    network = Network(racks(links))
    assert network.bandwidth("host-0", "host-1") == 5
    assert network.bandwidth("host-0/gpu1", "host-2") == 3
    assert network.bandwidth("host-2", "host-3") == UNLIMITED


def test_a_link_may_name_its_ends_in_either_order():
    """Files from elsewhere list switch and host either way round."""
    links = [NetworkLink("leaf-0", "host-0/nic0", 5), NetworkLink("host-1", "leaf-0", 6)]
    assert bottleneck_bandwidth(racks(links), "host-0", "host-1") == 5


def test_a_host_that_is_plugged_in_is_not_reached_around_its_plug():
    """The edge "contains" between host and leaf is in the graph, and must not carry data."""
    topology = racks([NetworkLink("host-0/nic0", "leaf-0", 5)])
    assert topology.graph.edges["host-0", "leaf-0"]["kind"] == "contains"
    assert bottleneck_bandwidth(topology, "host-0", "host-1") == 5
    assert bottleneck_bandwidth(topology, "host-0/gpu0", "host-1") == 5
    assert bottleneck_bandwidth(topology, "host-0/nic0", "leaf-0") == 5


def test_wired_devices_do_not_meet_through_the_host():
    """Else every PCIe server would look as if its GPUs shared unlimited NVLink."""
    network = Network(flat_cluster("one", pcie_server(4, "t4"), 1))
    assert network.bandwidth("host-0/gpu0", "host-0/gpu3") == 20.8
    assert network.bandwidth("host-0", "host-0/gpu3") == UNLIMITED


def test_the_way_out_of_a_host_leads_over_its_wires_to_the_nic():
    """GPU 3 sits on the far island: UPI of 2 GB/s lies between it and the NIC."""
    kind = pcie_server(4, "t4", upi_gb_per_s=2)
    cluster = leaf_spine(kind, 2, 2, 1)
    assert bottleneck_bandwidth(cluster, "host-0/gpu0", "host-3/gpu0") == 12.5
    assert bottleneck_bandwidth(cluster, "host-0/gpu0", "host-3/gpu3") == 2
    assert bottleneck_bandwidth(cluster, "host-0", "host-3") == 12.5


def test_a_wired_gpu_leaves_a_host_whose_network_ends_at_the_host():
    """NVLink between the GPUs, one network link for the host: nothing says how they are joined."""
    kind = HostType("nv", 2, "generic", links=(GpuLink("gpu0", "gpu1", "nvlink", 100),))
    topology = racks([NetworkLink("host-0", "leaf-0", 5)], kind)
    assert bottleneck_bandwidth(topology, "host-0/gpu0", "host-1/gpu0") == 5
    assert bottleneck_bandwidth(topology, "host-0/gpu0", "host-0/gpu1") == 100


def test_hosts_pass_nothing_on():
    """Cables in a row: a scheduler must not think that host-1 routes for its neighbours."""
    cables = (NetworkLink("host-0", "host-1", 7), NetworkLink("host-1/nic0", "host-2/nic0", 9))
    network = Network(flat_cluster("row", PLAIN, 3).replace(links=cables))
    assert network.bandwidth("host-0", "host-1") == 7
    assert network.bandwidth("host-2", "host-1/gpu0") == 9
    assert network.bandwidth("host-0", "host-2") == 0


def test_hosts_without_any_way_have_no_bandwidth():
    assert bottleneck_bandwidth(flat_cluster("two", PLAIN, 2), "host-0", "host-1") == 0


def test_a_domain_linked_to_the_outside_is_left_over_its_links_only():
    """Leaves in one pod, joined by a spine switch: the pod itself is no switch."""
    links = [NetworkLink(f"leaf-{k}", "switch", 4) for k in range(2)]
    network = Network(racks(links))
    assert network.bandwidth("host-0", "host-2") == 4
    assert network.bandwidth("leaf-0", "switch") == 4


@pytest.mark.parametrize(
    ("a", "message"),
    [
        ("host-9", 'topology "racks" has no node "host-9"; did you mean "host-'),
        ("host-0/gpu2", r'has no node "host-0/gpu2"; did you mean "host-0/gpu[01]"'),
        ("leaf_0", 'has no node "leaf_0"; did you mean "leaf-0"'),
    ],
)
def test_an_unknown_node_gets_a_suggestion(a, message):
    with pytest.raises(InstanceError, match=message):
        bottleneck_bandwidth(racks(), a, "host-1")


def test_nodes_that_only_links_name_are_nodes():
    """A switch behind one NIC: known through the link alone."""
    network = Network(racks([NetworkLink("host-0/nic0", "switch", 5)]))
    assert network.bandwidth("switch", "host-0") == 5
    assert network.bandwidth("switch", "switch") == UNLIMITED


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_widest_way_agrees_with_a_maximum_spanning_tree(data):
    """Another algorithm for the same number: the least edge of the tree's path is the widest."""
    num_switches = data.draw(st.integers(1, 5))
    ends = [*(f"switch-{k}" for k in range(num_switches)), "host-0", "host-1"]
    fabric = ends[:num_switches]
    pairs = st.tuples(st.sampled_from(ends), st.sampled_from(fabric)).filter(lambda p: p[0] != p[1])
    links = data.draw(
        st.lists(
            st.builds(lambda p, w: NetworkLink(p[0], p[1], w), pairs, st.integers(1, 9)),
            max_size=12,
        )
    )
    graph = nx.Graph()
    graph.add_nodes_from(ends)
    for link in links:
        old = graph.get_edge_data(link.a, link.b, {"weight": 0})["weight"]
        graph.add_edge(link.a, link.b, weight=max(old, link.bandwidth_gb_per_s))
    expected = 0.0
    if nx.has_path(graph, "host-0", "host-1"):
        tree = nx.maximum_spanning_tree(graph)
        path = nx.shortest_path(tree, "host-0", "host-1")
        expected = min(tree.edges[edge]["weight"] for edge in nx.utils.pairwise(path))
    network = Network(flat_cluster("pair", PLAIN, 2).replace(links=tuple(links)))
    assert network.bandwidth("host-0", "host-1") == expected
    assert network.bandwidth("host-1", "host-0") == expected


def test_the_bisection_of_a_leaf_spine_is_limited_by_ports_or_uplinks():
    """2 leaves x 4 hosts x 12.5: 50 GB/s by the ports; with uplinks of 2 x 5, 10."""
    assert bisection_bandwidth(leaf_spine(PLAIN, 2, 4, 2)) == 50
    assert bisection_bandwidth(leaf_spine(PLAIN, 2, 4, 2, uplink_gb_per_s=500)) == 50
    assert bisection_bandwidth(leaf_spine(PLAIN, 2, 4, 2, uplink_gb_per_s=5)) == 10
    assert bisection_bandwidth(leaf_spine(dgx_h100(), 8, 4, 4)) == 4 * 1600


def test_the_bisection_goes_through_a_leaf_when_leaves_are_odd():
    """One host of the middle leaf in each half, each at 12.5, and one whole leaf: 3 x 12.5."""
    assert bisection_bandwidth(leaf_spine(PLAIN, 3, 2, 1)) == 37.5


def test_a_bisection_without_links_is_unlimited_or_nothing():
    assert bisection_bandwidth(racks()) == UNLIMITED
    assert bisection_bandwidth(flat_cluster("two", PLAIN, 2)) == 0


def test_one_host_has_no_halves():
    with pytest.raises(InstanceError, match="has one host; a bisection needs at least two"):
        bisection_bandwidth(flat_cluster("one", PLAIN, 1))
