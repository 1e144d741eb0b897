"""What holds for every topology, built by the fabrics or drawn at random."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import topologies

from alloc.topology import (
    Topology,
    dgx_h100,
    domains_at,
    fat_tree,
    gb200_compute_tray,
    hosts_in,
    leaf_spine,
    meeting_level,
    nvl72_cluster,
    pcie_server,
    rail_optimised,
)

few = st.integers(1, 3)
host_types = st.sampled_from(
    (dgx_h100(), gb200_compute_tray(), pcie_server(2, "t4"), pcie_server(3, "a10", num_nics=0))
)


@st.composite
def fabrics(draw):
    """Fabrics of every kind with a few hosts."""
    kind = draw(st.sampled_from(("leaf-spine", "fat-tree", "rails", "nvl72")))
    if kind == "leaf-spine":
        return leaf_spine(draw(host_types), draw(few), draw(few), draw(few))
    if kind == "fat-tree":
        spines = draw(few)
        cores = spines * draw(few)
        return fat_tree(draw(host_types), draw(few), draw(few), draw(few), spines, cores)
    if kind == "rails":
        return rail_optimised(dgx_h100(), draw(few), draw(few), num_spines=draw(few))
    return nvl72_cluster(draw(few), draw(few), trays_per_rack=draw(few))


any_topology = st.one_of(fabrics(), topologies(max_hosts=5))


def path_of(topology: Topology, h: int) -> dict[str, str]:
    """Domains of a host by level, found by walking from parent to parent."""
    by_id = {domain.id: domain for domain in topology.domains}
    path = {}
    here = topology.hosts[h].domain
    while here is not None:
        path[by_id[here].level] = here
        here = by_id[here].parent
    return path


@settings(max_examples=60, deadline=None)
@given(any_topology)
def test_arrays_agree_with_the_walk_from_parent_to_parent(topology):
    """Nesting: models count hosts of a domain by these arrays."""
    for h in range(topology.num_hosts):
        path = path_of(topology, h)
        for level in topology.levels:
            k = topology.domain_of_host[level][h]
            assert (topology.domains[k].id if k >= 0 else None) == path.get(level)


@settings(max_examples=60, deadline=None)
@given(any_topology)
def test_domains_of_a_level_share_no_host_and_inner_ones_lie_in_outer_ones(topology):
    for level in topology.levels:
        members = [set(hosts_in(topology, d.id).tolist()) for d in domains_at(topology, level)]
        assert sum(map(len, members)) == len(set().union(*members))
    for domain in topology.domains:
        if domain.parent is not None:
            inner = set(hosts_in(topology, domain.id).tolist())
            assert inner <= set(hosts_in(topology, domain.parent).tolist())


@settings(max_examples=60, deadline=None)
@given(any_topology)
def test_gpus_are_counted_alike_by_types_capacity_and_graph(topology):
    nodes = [n for n, level in topology.graph.nodes(data="level") if level == "gpu"]
    assert topology.num_gpus == topology.capacity[:, 0].sum() // 1000 == len(nodes)


@settings(max_examples=60, deadline=None)
@given(fabrics())
def test_every_fabric_is_in_one_piece_and_any_two_hosts_meet(topology):
    """Else a gang over the whole cluster would have no way to talk."""
    assert nx.is_connected(topology.graph)
    first, last = topology.hosts[0].id, topology.hosts[-1].id
    assert meeting_level(topology, first, last) is not None


@settings(max_examples=40, deadline=None)
@given(fabrics())
def test_every_link_of_a_fabric_ends_at_something_that_exists(topology):
    """A misspelled end would become a switch that nothing else knows."""
    switches = {end for link in topology.links for end in (link.a, link.b) if "/" not in end}
    known = {node.id for node in (*topology.domains, *topology.hosts)}
    assert all("switch" in s or "-rail-" in s or s.endswith("-leaf") for s in switches - known)
    for link in topology.links:
        for end in (link.a, link.b):
            host, _, device = end.rpartition("/")
            if host:
                kind = topology.host_type(topology.hosts[topology.host_index[host]])
                named = {e for wire in kind.links for e in (wire.a, wire.b)}
                assert device in named


@settings(max_examples=30, deadline=None)
@given(any_topology)
def test_arrays_cannot_be_written(topology):
    """They are cached and shared: one writer would corrupt every model."""
    for array in (topology.capacity, *topology.domain_of_host.values()):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@settings(max_examples=60, deadline=None)
@given(any_topology, st.randoms(use_true_random=False))
def test_a_new_order_of_hosts_permutes_the_arrays(topology, random):
    """Nothing may depend on the order but the order itself."""
    order = list(range(topology.num_hosts))
    random.shuffle(order)
    shuffled = topology.replace(hosts=tuple(topology.hosts[h] for h in order))
    np.testing.assert_array_equal(shuffled.capacity, topology.capacity[order])
    for level in topology.levels:
        np.testing.assert_array_equal(
            shuffled.domain_of_host[level], topology.domain_of_host[level][order]
        )
    assert nx.utils.graphs_equal(shuffled.graph, topology.graph)
