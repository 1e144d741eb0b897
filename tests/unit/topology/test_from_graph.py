"""From networkx graphs to topologies and back."""

import dataclasses

import networkx as nx
import pytest
from hypothesis import given, settings
from strategies import topologies

from alloc.errors import InstanceError
from alloc.topology import (
    Domain,
    Host,
    HostType,
    NetworkLink,
    Topology,
    dgx_a100,
    dgx_h100,
    fat_tree,
    flat_cluster,
    from_graph,
    gb200_compute_tray,
    gb200_nvl72,
    leaf_spine,
    nvl72_cluster,
    pcie_server,
    rail_optimised,
)

PLAIN = HostType("plain", num_gpus=2, gpu_type="generic", cpu_milli=8000, memory_mib=4096)
CLUSTERS = [
    leaf_spine(dgx_h100(), 3, 2, 2),
    leaf_spine(PLAIN, 2, 2, 1),
    fat_tree(pcie_server(4, "t4"), 2, 2, 2, 2, 4),
    rail_optimised(dgx_a100(), 2, 2),
    nvl72_cluster(2, 2, trays_per_rack=2),
    gb200_nvl72(),
    flat_cluster("flat", PLAIN, 3),
    flat_cluster("named", dataclasses.replace(PLAIN, resources={"nvme_gib": 4}), 3).replace(
        resources={"licence": 2}
    ),
]


def links_of(topology):
    """Links whatever their order and direction."""
    return {(frozenset((x.a, x.b)), x.bandwidth_gb_per_s) for x in topology.links}


def wires_of(topology):
    """Host types with links whatever their order and direction."""
    return {
        (
            kind.name,
            kind.capacity,
            kind.resources,
            kind.gpu_type,
            frozenset((frozenset((x.a, x.b)), x.kind, x.bandwidth_gb_per_s) for x in kind.links),
        )
        for kind in topology.host_types
    }


@pytest.mark.parametrize("topology", CLUSTERS, ids=lambda topology: topology.name)
def test_a_topology_comes_back_from_its_graph(topology):
    """A user may take the graph, work on it with networkx, and go on in alloc."""
    back = from_graph(topology.graph)
    assert (back.name, back.levels) == (topology.name, topology.levels)
    assert (back.hosts, back.domains) == (topology.hosts, topology.domains)
    assert links_of(back) == links_of(topology)
    assert wires_of(back) == wires_of(topology)
    assert back.resources == topology.resources
    assert nx.utils.graphs_equal(back.graph, topology.graph)


@settings(max_examples=60, deadline=None)
@given(topologies())
def test_a_random_topology_in_one_piece_comes_back_from_its_graph(topology):
    """Mixed types, hosts beside leaves in a pod, links or none."""
    if not nx.is_connected(topology.graph) and topology.domains:
        with pytest.raises(InstanceError, match="is not connected, nothing joins"):
            from_graph(topology.graph)
        return
    back = from_graph(topology.graph)
    assert nx.utils.graphs_equal(back.graph, topology.graph)
    assert back.hosts == topology.hosts
    assert back.capacity.tolist() == topology.capacity.tolist()


def small():
    """Two hosts of one GPU, each linked to its own leaf, in one pod; without attribute levels."""
    graph = nx.Graph(name="mine")
    graph.add_node("pod-0", level="pod")
    for k in range(2):
        graph.add_node(f"leaf-{k}", level="leaf")
        graph.add_edge("pod-0", f"leaf-{k}", kind="contains")
        graph.add_node(f"h{k}", level="host", type="box", cpu_milli=4000, memory_mib=1024)
        graph.add_edge(f"h{k}", f"leaf-{k}", bandwidth_gb_per_s=25.0)
        graph.add_node(f"h{k}/gpu0", level="gpu", type="t4")
        graph.add_edge(f"h{k}", f"h{k}/gpu0", kind="contains")
    return graph


def read(graph):
    return from_graph(graph, levels=("pod", "leaf"))


def test_a_graph_made_by_hand_is_read():
    """Hosts lie in the leaf they are linked to; the kind of a link may be left out."""
    assert read(small()) == Topology(
        "mine",
        (HostType("box", 1, "t4", 4000, 1024),),
        (Host("h0", "box", "leaf-0"), Host("h1", "box", "leaf-1")),
        ("pod", "leaf"),
        (
            Domain("pod-0", "pod"),
            Domain("leaf-0", "leaf", "pod-0"),
            Domain("leaf-1", "leaf", "pod-0"),
        ),
        (NetworkLink("leaf-0", "h0", 25.0), NetworkLink("leaf-1", "h1", 25.0)),
    )


def test_the_name_may_be_given():
    assert from_graph(small(), levels=("pod", "leaf"), name="yours").name == "yours"


def test_a_host_linked_to_its_pod_besides_lies_in_its_leaf():
    graph = small()
    graph.add_edge("h0", "pod-0", bandwidth_gb_per_s=1.0)
    assert read(graph).hosts[0].domain == "leaf-0"


def test_containment_goes_before_links():
    """A host with a spare link to the other leaf lies where it is contained."""
    graph = small()
    graph.add_edge("h0", "leaf-1", kind="contains")
    assert read(graph).hosts[0].domain == "leaf-1"


def test_a_link_between_devices_of_one_host_stays_a_link_of_the_fabric():
    """Kind "network" says so, for example a loop through a switch panel."""
    graph = small()
    graph.add_node("h0/nic0", level="device")
    graph.add_edge("h0", "h0/nic0", kind="contains")
    graph.add_edge("h0/gpu0", "h0/nic0", kind="network", bandwidth_gb_per_s=3.0)
    assert NetworkLink("h0/gpu0", "h0/nic0", 3.0) in read(graph).links


def test_a_lone_tray_is_read_though_its_superchips_meet_only_outside():
    assert from_graph(flat_cluster("tray", gb200_compute_tray(), 1).graph).num_gpus == 4


def edit(change):
    graph = small()
    change(graph)
    return graph


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda g: g.add_edge("h0", "leaf-1", bandwidth_gb_per_s=25.0),
            'graph "mine": host "h0" lies in two domains of level "leaf", "leaf-0" and "leaf-1"',
        ),
        (
            lambda g: g.add_edge("leaf-0", "leaf-1", kind="contains"),
            '"leaf-0" and "leaf-1" contain each other, both on level "leaf"; levels do not nest',
        ),
        (
            lambda g: (g.remove_edge("h0", "leaf-0"), g.add_edges_from(
                [("h0", "leaf-0"), ("h0", "pod-0")], kind="contains")),
            "containment has a cycle, .*; a domain lies in one parent, so remove one",
        ),
        (
            lambda g: g.remove_edge("pod-0", "leaf-1"),
            'is not connected, nothing joins "pod-0" and "leaf-1"; add the domain or link',
        ),
        (
            lambda g: g.add_node("leaf-0", level="leave"),
            'node "leaf-0" is on level "leave", which is not in levels; did you mean "leaf"',
        ),
        (lambda g: g.add_node("x"), 'node "x" is on level "None"'),
        (lambda g: g.add_node(7, level="host"), "node 7 is not named by a string; relabel it"),
        (
            lambda g: g["h0"]["leaf-0"].pop("bandwidth_gb_per_s"),
            'edge "leaf-0" - "h0" has no bandwidth_gb_per_s; give it in GB/s',
        ),
        (
            lambda g: g["h0"]["leaf-0"].update(bandwidth_gb_per_s=-1.0),
            "bandwidth_gb_per_s is -1; it must be more than 0",
        ),
        (
            lambda g: nx.relabel_nodes(g, {"h0/gpu0": "h0/gpu1"}, copy=False),
            'the GPUs of host "h0" are h0/gpu1; number them h0/gpu0',
        ),
        (
            lambda g: nx.relabel_nodes(g, {"h0/gpu0": "card"}, copy=False),
            'GPU "card" is not named after a host; name it like "host-3/gpu0"',
        ),
        (
            lambda g: g.add_edge("h1", "h0/gpu0", kind="contains"),
            'gpu "h0/gpu0" is contained in "h1"; only devices of a host are contained',
        ),
        (lambda g: g.nodes["h1"].pop("type"), 'host "h1" has no type; give it the node attribute'),
        (
            lambda g: g.nodes["h1"].update(cpu_milli=8000),
            'host "h1" is of type "box" but differs from the first host of that type',
        ),
        (
            lambda g: (g.add_node("h0/gpu1", level="gpu", type="a10"),
                       g.add_edge("h0", "h0/gpu1", kind="contains")),
            'host "h0" has GPUs of types a10, t4; a host has GPUs of one type',
        ),
    ],
)  # fmt: skip
def test_a_graph_that_is_no_cluster_is_refused_in_one_sentence(change, message):
    with pytest.raises(InstanceError, match=message):
        read(edit(change))


def test_a_graph_must_say_its_levels():
    with pytest.raises(InstanceError, match="says no levels; pass levels=, outermost first"):
        from_graph(small())


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiGraph])
def test_directed_and_parallel_edges_are_refused(kind):
    """Half of a directed graph would be lost without a word."""
    with pytest.raises(InstanceError, match=r"give a plain networkx\.Graph"):
        from_graph(kind(small()), levels=("pod", "leaf"))


def test_a_graph_without_hosts_is_refused():
    graph = nx.Graph(levels=["pod"])
    graph.add_node("pod-0", level="pod")
    with pytest.raises(InstanceError, match="has no hosts; a cluster needs at least one"):
        from_graph(graph)
