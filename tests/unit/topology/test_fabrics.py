"""Whole clusters from a few parameters: sizes, links and refusals, by hand."""

import networkx as nx
import pytest

from alloc.errors import InstanceError
from alloc.topology import (
    HostType,
    bisection_bandwidth,
    bottleneck_bandwidth,
    dgx_a100,
    dgx_h100,
    fat_tree,
    gb200_nvl72,
    leaf_spine,
    nvl72_cluster,
    rail_optimised,
)

PLAIN = HostType("plain", num_gpus=2, gpu_type="generic", cpu_milli=8000)


def widths(topology, a):
    """Neighbours of a node over links, with bandwidths."""
    return {
        other: data["bandwidth_gb_per_s"]
        for other, data in topology.graph[a].items()
        if data["kind"] != "contains"
    }


def test_a_leaf_spine_has_every_leaf_on_every_spine_switch():
    """4 hosts x 8 NICs x 50 GB/s into a leaf, 2:1, over 4 uplinks: 200 GB/s each."""
    cluster = leaf_spine(dgx_h100(), 4, 4, 4, oversubscription=2)
    assert (cluster.num_hosts, cluster.num_gpus) == (16, 128)
    assert cluster.levels == ("spine", "leaf")
    up = {k: v for k, v in widths(cluster, "leaf-2").items() if k.startswith("spine-switch")}
    assert up == {f"spine-switch-{k}": 200 for k in range(4)}
    assert widths(cluster, "host-09/nic3") == {"leaf-2": 50, "host-09/pcieswitch1": 50}
    assert bisection_bandwidth(cluster) == 2 * 4 * 200


def test_a_host_without_nics_has_one_link_of_its_own():
    """100 Gb/s unless the caller says otherwise."""
    assert widths(leaf_spine(PLAIN, 2, 2, 1), "host-3") == {"leaf-1": 12.5}
    assert widths(leaf_spine(PLAIN, 2, 2, 1, port_gb_per_s=25), "host-3") == {"leaf-1": 25}


def test_uplinks_may_be_given_instead_of_their_ratio():
    cluster = leaf_spine(PLAIN, 2, 4, 2, uplink_gb_per_s=10)
    assert widths(cluster, "leaf-0")["spine-switch-1"] == 10
    assert bottleneck_bandwidth(cluster, "host-0", "host-4") == 10


def test_ids_are_padded_so_that_they_sort_like_the_hosts():
    """Models and reports sort by id; host-10 before host-2 would shuffle them."""
    cluster = leaf_spine(PLAIN, 12, 10, 1)
    ids = [host.id for host in cluster.hosts]
    assert (ids[0], ids[-1]) == ("host-000", "host-119")
    assert ids == sorted(ids)
    assert [d.id for d in cluster.domains[1:]] == sorted(d.id for d in cluster.domains[1:])


def test_the_same_parameters_give_the_same_topology():
    assert leaf_spine(PLAIN, 3, 2, 2) == leaf_spine(PLAIN, 3, 2, 2)


def test_a_fat_tree_spreads_core_switches_over_the_spine_switches_of_a_pod():
    """2 hosts x 400 into a leaf, over 2 spine switches 400; 2 leaves x 400 over 2 cores 400."""
    cluster = fat_tree(dgx_h100(), 2, 2, 2, 2, 4)
    assert cluster.levels == ("core", "pod", "leaf")
    assert (cluster.num_hosts, cluster.num_gpus) == (8, 64)
    assert widths(cluster, "spine-switch-1") == {
        "leaf-0": 400, "leaf-1": 400, "core-switch-2": 400, "core-switch-3": 400,
    }  # fmt: skip
    assert bisection_bandwidth(cluster) == 4 * 400


def test_oversubscribing_pods_narrows_the_way_between_them_only():
    cluster = fat_tree(dgx_h100(), 2, 2, 2, 2, 4, pod_oversubscription=16)
    assert bottleneck_bandwidth(cluster, "host-0", "host-2") == 50
    assert bottleneck_bandwidth(cluster, "host-0", "host-4") == 25
    assert bisection_bandwidth(cluster) == 4 * 400 / 16


def test_a_pod_holds_its_leaves_and_they_its_hosts():
    cluster = fat_tree(PLAIN, 2, 3, 2, 1, 1)
    assert [cluster.domains[k].id for k in cluster.domain_of_host["pod"]] == ["pod-0"] * 6 + [
        "pod-1"
    ] * 6
    assert cluster.domains[cluster.domain_of_host["leaf"][7]].id == "leaf-3"


def test_rails_join_gpus_of_the_same_rank_over_one_switch():
    """The point of the design: NIC i of every host of a unit on switch i, 4 x 50 GB/s upward."""
    cluster = rail_optimised(dgx_h100(), 2, 4, num_spines=4)
    assert cluster.levels == ("spine", "scalable-unit")
    assert (cluster.num_hosts, cluster.num_gpus) == (8, 64)
    assert widths(cluster, "unit-1-rail-3") == {
        **{f"spine-switch-{k}": 50 for k in range(4)},
        **{f"host-{h}/nic3": 50 for h in range(4, 8)},
    }
    wires = nx.Graph((a, b) for a, b, kind in cluster.graph.edges(data="kind") if kind == "network")
    assert nx.shortest_path_length(wires, "host-0/nic3", "host-3/nic3") == 2
    assert nx.shortest_path_length(wires, "host-0/nic3", "host-3/nic4") == 4


def test_other_ranks_are_reached_through_nvlink_at_the_rate_of_a_nic():
    cluster = rail_optimised(dgx_a100(), 1, 2, oversubscription=4)
    assert bottleneck_bandwidth(cluster, "host-0/gpu0", "host-1/gpu0") == 25
    assert bottleneck_bandwidth(cluster, "host-0/gpu0", "host-1/gpu5") == 25


def test_an_nvl72_rack_is_one_nvlink_domain_of_72_gpus():
    """18 trays of 4; any two GPUs at 900 GB/s in one direction."""
    rack = gb200_nvl72()
    assert (rack.num_hosts, rack.num_gpus) == (18, 72)
    assert bottleneck_bandwidth(rack, "host-00/gpu0", "host-17/gpu3") == 900
    assert bottleneck_bandwidth(rack, "host-00/gpu0", "host-00/gpu2") == 900


def test_nvl72_racks_talk_over_nics():
    """Between racks a GPU has its NIC of 400 Gb/s; the rack sends 18 x 4 x 50 GB/s."""
    cluster = nvl72_cluster(4, 6)
    assert cluster.levels == ("spine", "nvlink-domain")
    assert cluster.num_gpus == 288
    assert bottleneck_bandwidth(cluster, "host-00/gpu0", "host-71/gpu0") == 50
    assert widths(cluster, "rack-0-leaf")["spine-switch-0"] == 18 * 4 * 50 / 6
    assert bisection_bandwidth(cluster) == pytest.approx(2 * 3600)
    assert bisection_bandwidth(nvl72_cluster(2, oversubscription=3)) == pytest.approx(1200)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: leaf_spine(PLAIN, 0, 1, 1), '"leaf-spine": num_leaves is 0; it must be a whole'),
        (
            lambda: leaf_spine(PLAIN, 2, 1.5, 1),  # type: ignore[arg-type]
            r"hosts_per_leaf is 1\.5; it must be a whole number",
        ),
        (lambda: leaf_spine(PLAIN, 2, True, 1), "hosts_per_leaf is True"),
        (lambda: leaf_spine(PLAIN, 2, 2, 1, oversubscription=0), "oversubscription is 0"),
        (
            lambda: leaf_spine(PLAIN, 2, 2, 1, oversubscription=1, uplink_gb_per_s=1),
            "both given; one follows from the other, so give only one",
        ),
        (lambda: leaf_spine(PLAIN, 2, 2, 1, uplink_gb_per_s=-1), "uplink_gb_per_s is -1"),
        (lambda: leaf_spine(PLAIN, 2, 2, 1, port_gb_per_s=0), "port_gb_per_s is 0"),
        (lambda: fat_tree(PLAIN, 2, 2, 2, 2, 3), "num_cores is 3, which 2 spine switches"),
        (lambda: fat_tree(PLAIN, 2, 2, 2, 1, 1, pod_oversubscription=0), "pod_oversubscription"),
        (lambda: rail_optimised(PLAIN, 1, 2), 'rails is 8, but host type "plain" names 0 NICs'),
        (lambda: rail_optimised(dgx_h100(), 1, 2, rails=4), "rails is 4, .* names 8 NICs"),
        (lambda: nvl72_cluster(0), '"nvl72-cluster": num_racks is 0'),
        (lambda: nvl72_cluster(1, trays_per_rack=19), "trays_per_rack is 19, .* add racks instead"),
    ],
)
def test_impossible_fabrics_are_refused_in_one_sentence(build, message):
    with pytest.raises(InstanceError, match=message):
        build()
