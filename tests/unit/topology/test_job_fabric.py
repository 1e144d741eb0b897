"""The fabric of a job: levels and bandwidths read from topologies, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.topology import (
    Domain,
    GpuLink,
    Host,
    HostType,
    Topology,
    dgx_h100,
    fat_tree,
    leaf_spine,
    nvl72_cluster,
    pcie_server,
    rail_optimised,
)
from alloc.topology.communication import CommunicationGraph, CommunicationTree
from alloc.topology.job_fabric import all_gpus, communication_graph, job_fabric
from alloc.topology.network import Network
from alloc.topology.topology import flat_cluster


def levels(fabric) -> dict[str, float]:
    assert isinstance(fabric, CommunicationTree)
    return dict(zip(fabric.levels, fabric.bandwidth_gb_per_s.tolist(), strict=True))


def test_a_fabric_that_does_not_block_gives_every_gpu_its_nic():
    found = levels(job_fabric(leaf_spine(dgx_h100(), 2, 2, num_spines=2)))
    assert found == {"spine": 50.0, "leaf": 50.0, "host": 450.0}


def test_oversubscription_shows_at_the_level_where_it_is():
    """The widest single way does not see it: 16 GPUs of a leaf share 200 GB/s out of it."""
    topology = leaf_spine(dgx_h100(), 2, 2, num_spines=2, oversubscription=4)
    assert Network(topology).bandwidth("host-0/gpu0", "host-2/gpu0") == 50.0
    assert levels(job_fabric(topology)) == {"spine": 12.5, "leaf": 50.0, "host": 450.0}


def test_few_gpus_of_a_host_do_not_get_more_than_a_nic_each():
    topology = leaf_spine(dgx_h100(), 2, 2, num_spines=2, oversubscription=4)
    gpus = ("host-0/gpu0", "host-2/gpu0")
    assert levels(job_fabric(topology, gpus)) == {"spine": 50.0}


def test_three_levels_and_rails():
    tree = fat_tree(dgx_h100(), 2, 2, 2, 2, 4, pod_oversubscription=2)
    assert levels(job_fabric(tree)) == {"core": 25.0, "pod": 50.0, "leaf": 50.0, "host": 450.0}
    rails = rail_optimised(dgx_h100(), 2, 2, oversubscription=2)
    assert levels(job_fabric(rails)) == {"spine": 25.0, "scalable-unit": 50.0, "host": 450.0}


def test_an_nvlink_domain_joins_the_gpus_of_its_hosts():
    found = levels(job_fabric(nvl72_cluster(2, trays_per_rack=2)))
    assert found == {"spine": 50.0, "nvlink-domain": 900.0, "host": 900.0}


def test_pcie_under_sockets_makes_islands_in_the_host():
    server = pcie_server(4, "t4", numa_islands=2)
    found = levels(job_fabric(flat_cluster("one", server, 1)))
    assert found == {"host": 20.8, "island": 31.5}
    tree = job_fabric(flat_cluster("one", server, 1))
    assert isinstance(tree, CommunicationTree)
    assert tree.domains[:, 1].tolist() == [0, 0, 2, 2]


def test_gpus_do_not_relay():
    """In a chain of NVLinks the ends meet over PCIe, so the wiring is no tree of islands."""
    links = (
        GpuLink("gpu0", "gpu1", "nvlink", 50),
        GpuLink("gpu1", "gpu2", "nvlink", 25),
        *(GpuLink(f"gpu{g}", "plx0", "pcie", 12) for g in range(3)),
    )
    fabric = job_fabric(flat_cluster("chain", HostType("chain", 3, "v100", links=links), 1))
    assert isinstance(fabric, CommunicationGraph)
    assert fabric.bandwidth_gb_per_s.tolist() == [
        [np.inf, 50, 12],
        [50, np.inf, 25],
        [12, 25, np.inf],
    ]


def test_a_graph_over_hosts_takes_the_ways_of_the_network():
    topology = leaf_spine(dgx_h100(), 2, 1, num_spines=1)
    graph = communication_graph(topology, ("host-0/gpu0", "host-0/gpu1", "host-1/gpu0"))
    assert graph.bandwidth_gb_per_s[0, 1] == 450.0
    assert graph.bandwidth_gb_per_s[0, 2] == graph.bandwidth_gb_per_s[2, 1] == 50.0
    assert graph.latency_s[0, 2] > graph.latency_s[0, 1] > 0


def racks(links: bool = False, host_type: HostType | None = None) -> Topology:
    kind = host_type or dgx_h100()
    domains = (Domain("row", "row"), Domain("r0", "rack", "row"), Domain("r1", "rack", "row"))
    hosts = tuple(Host(f"h{k}", kind.name, f"r{k // 2}") for k in range(4))
    return Topology("racks", (kind,), hosts, ("row", "rack"), domains)


def test_without_stated_links_a_gpu_gets_its_share_of_the_nics():
    """Most files of schedulers state no links; NVLink speed between racks would be absurd."""
    assert levels(job_fabric(racks())) == {"row": 50.0, "rack": 50.0, "host": 450.0}


def test_what_was_measured_goes_first():
    fabric = job_fabric(
        racks(), latency_s={"row": 5e-5}, bandwidth_gb_per_s={"row": 20, "host": 300}
    )
    assert levels(fabric) == {"row": 20.0, "rack": 50.0, "host": 300.0}
    assert isinstance(fabric, CommunicationTree)
    assert fabric.latency_s[0] == 5e-5


def test_an_outer_level_is_never_faster_than_an_inner_one():
    assert levels(job_fabric(racks(), bandwidth_gb_per_s={"rack": 20}))["row"] == 20.0


def test_levels_at_which_nobody_meets_are_left_out():
    fabric = job_fabric(racks(), ("h0/gpu0", "h0/gpu1", "h2/gpu0"))
    assert levels(fabric) == {"row": 50.0, "host": 450.0}
    assert levels(job_fabric(racks(), ("h3/gpu7",))) == {"host": np.inf}


def test_hosts_outside_all_domains_meet_in_the_cluster():
    kind = HostType("x", 2, "v100", links=(GpuLink("gpu0", "gpu1", "nvlink", 100),))
    from alloc.topology import NetworkLink

    topology = Topology(
        "two", (kind,), (Host("a", "x"), Host("b", "x")), links=(NetworkLink("a", "b", 10.0),)
    )
    assert levels(job_fabric(topology)) == {"cluster": 5.0, "host": 100.0}


def test_gpus_are_listed_host_by_host():
    assert all_gpus(racks())[6:10] == ("h0/gpu6", "h0/gpu7", "h1/gpu0", "h1/gpu1")


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        (("h0/gpu8",), 'host "h0" has no GPU "gpu8"; it has 8'),
        (("h0/nic0",), 'has no GPU "nic0"'),
        (("h9/gpu0",), 'GPU "h9/gpu0" is in no host'),
        (("gpu0",), "is in no host"),
        (("h0/gpu0", "h0/gpu0"), "given twice"),
        ((), "no GPUs"),
    ],
)
def test_gpus_that_are_not_there_are_refused(gpus, said):
    with pytest.raises(InstanceError, match=said):
        job_fabric(racks(), gpus)


def test_unknown_levels_and_gpus_without_a_way_are_refused():
    with pytest.raises(InstanceError, match='level "rak"; did you mean "rack"'):
        job_fabric(racks(), latency_s={"rak": 1e-6})
    with pytest.raises(InstanceError, match="must be 0 or more"):
        job_fabric(racks(), bandwidth_gb_per_s={"rack": -1})
    with pytest.raises(InstanceError, match='nothing joins "host-0/gpu0" and "host-1/gpu0"'):
        job_fabric(flat_cluster("islands", dgx_h100(), 2))


def test_a_flow_is_between_hosts():
    network = Network(leaf_spine(dgx_h100(), 2, 2, num_spines=2, oversubscription=4))
    assert network.flow(["host-0", "host-1"], ["host-2", "host-3"]) == 200.0
    assert network.flow(["host-0"], ["host-1"]) == 400.0
    with pytest.raises(InstanceError, match='has no host "host-9"'):
        network.flow(["host-9"], ["host-0"])
