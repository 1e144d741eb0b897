"""Pictures of topologies: what is drawn is what is there, small or large."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import matplotlib as mpl
import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.plotting import draw_topology, new_figure, plot_host_type, plot_topology, svg_text
from alloc.topology import (
    Domain,
    Host,
    HostType,
    Topology,
    dgx_h100,
    flat_cluster,
    gb200_compute_tray,
    leaf_spine,
    pcie_server,
)


@pytest.fixture(autouse=True)
def _no_window():
    mpl.use("agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def boxes(ax, gid: str) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of the boxes of a kind."""
    found = [child for child in ax.get_children() if child.get_gid() == gid]
    if not found:
        return []
    extents = [path.get_extents() for path in found[0].get_paths()]
    return [(box.x0, box.y0, box.x1, box.y1) for box in extents]


def texts(ax) -> set[str]:
    return {text.get_text() for text in ax.texts}


def legend(ax) -> set[str]:
    return {text.get_text() for text in ax.get_legend().get_texts()}


def inside(inner, outer) -> bool:
    slack = 1e-9
    return (
        outer[0] <= inner[0] + slack
        and outer[1] <= inner[1] + slack
        and inner[2] <= outer[2] + slack
        and inner[3] <= outer[3] + slack
    )


def overlap(a, b) -> bool:
    return min(a[2], b[2]) - max(a[0], b[0]) > 1e-9 and min(a[3], b[3]) - max(a[1], b[1]) > 1e-9


@pytest.mark.parametrize("num_hosts", [1, 2, 7, 30])
def test_hosts_stand_in_their_domains_and_not_on_each_other(num_hosts):
    """Every host in one leaf, every leaf in the spine; nothing overlaps its neighbours."""
    ax = plot_topology(leaf_spine(dgx_h100(), 3, num_hosts, 1), ax=new_figure(8, 5).subplots())
    hosts, (spine, *leaves) = boxes(ax, "hosts"), boxes(ax, "domains")
    assert (len(hosts), len(leaves)) == (3 * num_hosts, 3)
    assert all(inside(leaf, spine) for leaf in leaves)
    for leaf in leaves:
        assert sum(inside(host, leaf) for host in hosts) == num_hosts
    for group in (hosts, leaves):
        assert not any(overlap(a, b) for k, a in enumerate(group) for b in group[:k])


def test_a_small_cluster_shows_names_and_gpus():
    ax = plot_topology(leaf_spine(dgx_h100(), 2, 2, 1), ax=new_figure(8, 5).subplots())
    assert texts(ax) == {"spine", "leaf-0", "leaf-1", "host-0", "host-1", "host-2", "host-3"}
    gpus, hosts = boxes(ax, "gpus"), boxes(ax, "hosts")
    assert len(gpus) == 32
    assert all(sum(inside(gpu, host) for gpu in gpus) == 8 for host in hosts)
    assert legend(ax) == {"h100-sxm-80gb: 32 GPUs"}


@pytest.mark.long
def test_names_that_nobody_could_read_are_left_out():
    """In a large cluster cells are small; the outer domains keep their names."""
    ax = plot_topology(leaf_spine(dgx_h100(), 100, 32, 1), ax=new_figure(8, 5).subplots())
    assert texts(ax) == {"spine"}
    assert boxes(ax, "gpus") == []
    assert len(boxes(ax, "hosts")) == 3200
    assert all(float(text.get_fontsize()) >= 4.5 for text in ax.texts)


def test_very_many_hosts_are_drawn_in_blocks(monkeypatch):
    """One block for each type of host in a domain, as large as its hosts."""
    monkeypatch.setattr("alloc.plotting.topology._MAX_CELLS", 50)
    ax = plot_topology(leaf_spine(dgx_h100(), 4, 25, 1), ax=new_figure(8, 5).subplots())
    hosts = boxes(ax, "hosts")
    assert len(hosts) == 4
    assert (hosts[0][2] - hosts[0][0]) ** 2 == pytest.approx(25)
    assert "25 hosts" in texts(ax)


def test_colours_tell_the_types_of_gpus_apart():
    """Fourteen types and hosts without GPUs, each with a colour of its own in the legend."""
    kinds = [HostType(f"k{k}", 1, f"type-{k:02d}") for k in range(12)] + [HostType("cpu")]
    hosts = tuple(Host(f"h{k}", kind.name) for k, kind in enumerate(kinds))
    topology = Topology("mixed", tuple(kinds), hosts)
    ax = plot_topology(topology, ax=new_figure(8, 5).subplots())
    patches = ax.get_legend().get_patches()
    assert len({tuple(patch.get_facecolor()) for patch in patches}) == len(patches) == 13
    assert "no GPU: 1 host" in legend(ax)


def test_an_empty_domain_is_drawn():
    """A rack that has no hosts yet."""
    topology = Topology(
        "t", (HostType("cpu"),), (Host("h", "cpu", "a"),), ("rack",),
        (Domain("a", "rack"), Domain("b", "rack")),
    )  # fmt: skip
    ax = plot_topology(topology, ax=new_figure(6, 4).subplots())
    assert len(boxes(ax, "domains")) == 2
    assert {"a", "b", "h"} == texts(ax)


def test_names_are_text_and_not_formulae():
    """A dollar in a name is a dollar."""
    topology = Topology("t", (HostType("cpu"),), (Host("$\\bad{$", "cpu"),))
    assert "$\\bad{$" in texts(plot_topology(topology, ax=new_figure(6, 4).subplots()))
    draw_topology(topology)


def test_the_devices_of_a_server_and_their_links():
    ax = plot_host_type(dgx_h100(), ax=new_figure(10, 5).subplots())
    devices = {end for link in dgx_h100().links for end in (link.a, link.b)}
    assert texts(ax) == devices
    assert len(ax.patches) == len(dgx_h100().links)
    assert legend(ax) == {"nvswitch: 450 GB/s", "pcie: 63, 50 GB/s", "upi: 128 GB/s"}


@pytest.mark.parametrize(
    "kind",
    [
        dgx_h100(),
        gb200_compute_tray(),
        pcie_server(8, "t4", numa_islands=4),
        pcie_server(1, "t4", numa_islands=1),
    ],
    ids=lambda kind: kind.name,
)
def test_no_two_devices_stand_in_one_place(kind):
    ax = plot_host_type(kind, ax=new_figure(10, 5).subplots())
    places = np.array([text.get_position() for text in ax.texts])
    apart = np.abs(places[:, None, :] - places[None, :, :]).max(axis=2)
    assert apart[~np.eye(len(places), dtype=bool)].min() >= 0.5
    low, high = ax.get_ylim()
    assert all(low < y < high for _, y in places)


def test_gpus_without_links_are_drawn_beside_the_others():
    """A GPU that no link names is there all the same."""
    kind = HostType("odd", 3, "t4", links=dgx_h100().links[:1])
    assert {"gpu0", "gpu1", "gpu2", "nvswitch0"} <= texts(
        plot_host_type(kind, ax=new_figure(6, 4).subplots())
    )


def test_a_server_without_links_is_no_picture():
    with pytest.raises(InstanceError, match="names no links, so there is nothing to draw; read it"):
        plot_host_type(HostType("plain", 2, "t4"))


def test_one_server_is_drawn_from_the_inside_and_a_cluster_from_above():
    inner = draw_topology(flat_cluster("one", dgx_h100(), 1)).axes[0]
    assert "nvswitch0" in texts(inner)
    assert inner.get_title(loc="left") == "one: 1 host, 8 GPUs"
    above = draw_topology(leaf_spine(dgx_h100(), 2, 2, 1)).axes[0]
    assert above.get_title(loc="left") == "leaf-spine: 4 hosts, 32 GPUs (spine > leaf > host)"


def test_the_svg_is_text_and_the_same_each_time():
    """It can be searched for a host, and committed without noise."""
    topology = leaf_spine(dgx_h100(), 2, 2, 1)
    text = svg_text(draw_topology(topology))
    ElementTree.fromstring(text)
    assert "leaf-1" in text
    assert svg_text(draw_topology(topology)) == text
