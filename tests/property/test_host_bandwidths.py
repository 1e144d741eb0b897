"""Bandwidths of all pairs at once say what the network says pair by pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.topology import (
    Domain,
    GpuLink,
    Host,
    HostType,
    Network,
    NetworkLink,
    Topology,
    dgx_h100,
    leaf_spine,
)
from alloc.topology.bandwidths import HostBandwidths, bandwidths_of


@st.composite
def fabrics(draw: st.DrawFn) -> Topology:
    """Hosts in racks and pods with links of any kind, cables and plugged GPUs included."""
    wires = tuple(GpuLink(f"gpu{g}", "nvswitch0", "nvswitch", 300.0) for g in range(2))
    kinds = (HostType("wired", 2, "a100", 0, 0, wires), HostType("bare", 2, "a100"))
    racks = tuple(Domain(f"r{n}", "rack", draw(st.sampled_from((None, "p0")))) for n in range(2))
    number = draw(st.integers(2, 5))
    hosts = tuple(
        Host(
            f"h{n}",
            draw(st.sampled_from(("wired", "bare"))),
            draw(st.sampled_from(("r0", "r1", "p0", None))),
        )
        for n in range(number)
    )
    nodes = ["r0", "r1", "p0", "core", "rail"]
    ends = [*(h.id for h in hosts), "h0/gpu0", "h1/nic0"]
    width = st.sampled_from((10.0, 25.0, 50.0, 400.0))
    links = [
        NetworkLink(a, b, draw(width))
        for a, b in draw(
            st.lists(
                st.tuples(st.sampled_from([*ends, *nodes]), st.sampled_from([*ends, *nodes])),
                min_size=1,
                max_size=9,
                unique=True,
            )
        )
        if a != b
    ]
    return Topology("f", kinds, hosts, ("pod", "rack"), (Domain("p0", "pod"), *racks), tuple(links))


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(fabrics())
def test_pairs_are_those_of_the_network(topology: Topology) -> None:
    """A way that no link limits is as wide as the fastest link; the rest is equal."""
    bandwidths, network = HostBandwidths(topology), Network(topology)
    found = bandwidths.between(np.arange(topology.num_hosts))
    for a, host in enumerate(topology.hosts):
        for b, other in enumerate(topology.hosts):
            if a != b:
                width = min(network.bandwidth(host.id, other.id), bandwidths.fastest)
                assert found[a, b] == width, (host.id, other.id)


@settings(max_examples=60, deadline=None)
@given(fabrics())
def test_what_leaves_a_domain_is_the_sum_of_its_links(topology: Topology) -> None:
    """A link that stays inside, or begins at the domain's own switch, is told apart."""
    bandwidths = HostBandwidths(topology)
    inside_of = {"p0": {"p0"}, "r0": {"r0"}, "r1": {"r1"}}
    for domain in topology.domains:
        if domain.parent is not None:
            inside_of[domain.parent].add(domain.id)
    parent = {d.id: d.parent for d in topology.domains}
    for host in topology.hosts:
        at = host.domain
        while at is not None:
            inside_of[at].add(host.id)
            at = parent[at]
    level_of = dict(zip((*topology.levels, "host"), bandwidths.cuts, strict=True))
    for k, domain in enumerate(topology.domains):
        members = inside_of[domain.id]
        leaving = sum(
            link.bandwidth_gb_per_s
            for link in topology.links
            if (link.a.split("/")[0] in members) != (link.b.split("/")[0] in members)
        )
        _, width = level_of[domain.level]
        assert width[k] == pytest.approx(leaving if leaving else np.inf)


def test_a_known_fabric() -> None:
    """Two leaves of two DGX H100: 450 GB/s inside, 50 GB/s per port in between."""
    topology = leaf_spine(dgx_h100(), 2, 2, num_spines=2)
    bandwidths = bandwidths_of(topology)
    assert bandwidths_of(topology) is bandwidths
    assert bandwidths.inside.tolist() == [450.0] * 4
    pair = bandwidths.between(np.arange(4))
    assert pair[0, 1] == Network(topology).bandwidth("host-0", "host-1") == 50.0
    assert bandwidths.in_order(np.array([3, 0, 2, 1])).tolist() == [1, 3, 2, 0]
