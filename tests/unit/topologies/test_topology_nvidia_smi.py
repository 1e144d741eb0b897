"""`nvidia-smi topo -m`: the tree behind the matrix, NVLinks, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from alloc.errors import InstanceError
from alloc.instances.topologies.one_host import read_host_type
from alloc.instances.topologies.products import (
    num_nvlinks,
    nvlink_gb_per_s,
    pcie_gb_per_s,
    type_of_product,
)
from alloc.topology import bottleneck_bandwidth, dgx_h100, flat_cluster
from alloc.topology.gpu_types import GPU_TYPES

DATA = Path(__file__).parents[2] / "data" / "topologies"
HGX = DATA / "nvidia-smi-hgx-h100.txt"
PCIE = DATA / "nvidia-smi-pcie.txt"
RING = DATA / "nvidia-smi-ring-v100.txt"


def wires(kind) -> dict[frozenset[str], tuple[str, float]]:
    """The links by their two ends."""
    return {frozenset((x.a, x.b)): (x.kind, x.bandwidth_gb_per_s) for x in kind.links}


def between(kind, a: str, b: str) -> float:
    """The bandwidth between two devices of a host."""
    return bottleneck_bandwidth(flat_cluster("one", kind, 1), f"host-0/{a}", f"host-0/{b}")


def edited(tmp_path: Path, source: Path, *changes: tuple[str, str]) -> Path:
    """A copy of a file with some text replaced, each once."""
    text = source.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = tmp_path / "host.txt"
    path.write_text(text)
    return path


def test_an_hgx_board_is_drawn_as_the_machine_in_the_library():
    """Every GPU on the NVSwitch with all its links, each with its NIC on a PCIe switch."""
    kind, report = read_host_type(HGX, nic_gb_per_s=50.0, upi_gb_per_s=128.0)
    assert (kind.name, kind.num_gpus, kind.gpu_type) == ("8x-h100-sxm-80gb", 8, "h100-sxm-80gb")
    assert report.rows_read == 16
    assert kind.cpu_milli == 224_000
    for a, b in [("gpu0", "gpu7"), ("gpu0", "nic0"), ("gpu0", "nic3"), ("gpu0", "nic7")]:
        assert between(kind, a, b) == between(dgx_h100(), a, b)


def test_the_classes_are_the_levels_of_a_tree():
    """PIX under PXB under PHB under NODE, and SYS between the islands."""
    kind, _ = read_host_type(PCIE, gpu_type="l40s", host_memory_gib=256)
    assert kind.memory_mib == 256 * 1024
    assert wires(kind) == {
        frozenset(("gpu0", "pcieswitch1")): ("pcie", 31.5),
        frozenset(("gpu1", "pcieswitch1")): ("pcie", 31.5),
        frozenset(("gpu2", "pcieswitch0")): ("pcie", 31.5),
        frozenset(("pcieswitch1", "pcieswitch0")): ("pcie", 31.5),
        frozenset(("pcieswitch0", "hostbridge0")): ("pcie", 31.5),
        frozenset(("nic0", "hostbridge0")): ("pcie", 12.5),
        # A host bridge carries all that is under it: it is not a slot.
        frozenset(("hostbridge0", "numa0")): ("pcie", 44.0),
        frozenset(("nic1", "numa0")): ("pcie", 12.5),
        frozenset(("gpu3", "numa1")): ("pcie", 31.5),
        frozenset(("numa0", "numa1")): ("upi", 20.8),
    }


def test_bonded_links_go_from_gpu_to_gpu_where_a_gpu_has_enough_of_them():
    """A V100 has 6 links of 25 GB/s; old drivers name the NIC, say SOC, and know no NUMA column."""
    kind, _ = read_host_type(RING, gpu_type="Tesla V100-SXM2-32GB")
    links = wires(kind)
    assert links[frozenset(("gpu0", "gpu1"))] == ("nvlink", 50.0)
    assert links[frozenset(("gpu0", "gpu2"))] == ("nvlink", 25.0)
    assert frozenset(("gpu1", "gpu3")) not in links
    assert between(kind, "gpu1", "gpu3") == 50.0
    assert kind.cpu_milli == 40_000


def test_the_same_bonds_of_a_gpu_with_fewer_links_lead_to_a_switch(tmp_path):
    """More NVLinks to its peers than a GPU has: they are the same links, through a switch."""
    columns = "\tGPU0\tGPU1\tGPU2\tCPU Affinity\n"
    rows = "GPU0\t X \tNV12\tNV12\t0-7\nGPU1\tNV12\t X \tNV12\t0-7\nGPU2\tNV12\tNV12\t X \t0-7\n"
    path = tmp_path / "three.txt"
    path.write_text(columns + rows)
    kind, _ = read_host_type(path, gpu_type="a100-sxm-40gb")
    assert wires(kind)[frozenset(("gpu1", "nvswitch0"))] == ("nvswitch", 300.0)
    # Without a known type the bandwidth of a link must be given, and no GPU has 24 links.
    kind, _ = read_host_type(path, nvlink_gb_per_s=10.0)
    assert wires(kind)[frozenset(("gpu1", "nvswitch0"))] == ("nvswitch", 120.0)
    assert kind.gpu_type == "generic"


def test_a_matrix_without_tabs_is_read(tmp_path):
    """Chat windows and wikis turn tabs into spaces."""
    path = tmp_path / "pasted.txt"
    path.write_text(PCIE.read_text().replace("CPU Affinity", "CPU  Affinity").expandtabs(8))
    spaced, _ = read_host_type(path, gpu_type="l40s")
    plain, _ = read_host_type(PCIE, gpu_type="l40s")
    assert spaced.links == plain.links
    assert spaced.cpu_milli == plain.cpu_milli


def test_nics_are_chosen_by_number_or_name(tmp_path):
    """A server with virtual functions shows dozens of NICs that carry no traffic of jobs."""
    for chosen in ("1", "NIC1", "nic1", "mlx5_bond_0"):
        kind, _ = read_host_type(PCIE, gpu_type="l40s", nics=chosen)
        assert [x.a for x in kind.links if x.a.startswith("nic")] == ["nic1"]
    kind, _ = read_host_type(PCIE, gpu_type="l40s", nics="none")
    assert not [x.a for x in kind.links if x.a.startswith("nic")]
    # The tree still knows that GPU2 and the others meet on a switch.
    assert between(kind, "gpu0", "gpu2") == 31.5
    with pytest.raises(InstanceError, match=r'no NIC "mlx5_9"; did you mean .* mlx5_0, mlx5_bond'):
        read_host_type(PCIE, gpu_type="l40s", nics="mlx5_9")


def test_cells_that_do_not_nest_are_counted(tmp_path):
    """GPU0 and GPU1 on one bridge cannot be further from each other than both are to GPU2."""
    path = edited(tmp_path, PCIE, ("GPU0\t X \tPIX", "GPU0\t X \tPHB"), ("GPU1\tPIX", "GPU1\tPHB"))
    kind, report = read_host_type(path, gpu_type="l40s")
    (note,) = report.altered
    assert note.reason.startswith("cell says farther than other cells together do")
    assert note.examples == ("gpu0-gpu1 PHB",)
    assert between(kind, "gpu0", "gpu1") == 31.5


def test_devices_that_nothing_keeps_apart_share_an_island(tmp_path):
    """Two GPUs on NVLink, no NIC and no NUMA column: one island, not two."""
    path = tmp_path / "two.txt"
    path.write_text("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t\nGPU1\tNV4\t X \tN/A\n")
    kind, _ = read_host_type(path, gpu_type="a100-sxm-40gb")
    assert wires(kind) == {
        frozenset(("gpu0", "gpu1")): ("nvlink", 100.0),
        frozenset(("gpu0", "numa0")): ("pcie", 31.5),
        frozenset(("gpu1", "numa0")): ("pcie", 31.5),
    }
    assert kind.cpu_milli == 0


@pytest.mark.parametrize(
    ("source", "changes", "options", "message"),
    [
        (PCIE, [("\tGPU0\tGPU1", "\tFoo0\tGPU1")], {"format": "nvidia-smi"},
         "has no line that begins with GPU0 and names the columns, so it is not a matrix"),
        (PCIE, [("GPU3\tSYS\tSYS\tSYS", "GPU3\tPHB\tSYS\tSYS")], {},
         "line 5: from GPU0 to GPU3 the matrix says SYS, from GPU3 to GPU0 it says PHB; a link is "
         "the same in both directions, so take it again with `nvidia-smi topo -m > host.txt`"),
        (PCIE, [("GPU0\t X \tPIX", "GPU0\t X \tPIXX")], {},
         'line 2: cell GPU0-GPU1 is "PIXX"; did you mean "PIX"'),
        (PCIE, [("GPU0\t X ", "GPU0\tSYS")], {}, "line 2: cell GPU0-GPU0 is SYS; a device is X"),
        (PCIE, [("GPU1\tPIX", "GPU1\t X ")], {}, "line 3: cell GPU1-GPU0 is X; a device is X to"),
        (PCIE, [("NIC0\tPHB", "NIC0\tNV4")], {}, "line 6: cell NIC0-GPU0 is NV4, but only GPUs"),
        (PCIE, [("GPU1\tPIX\t X \tPXB\tSYS\tPHB\tNODE\t0-15\t0\t\tN/A\n", "")], {},
         'line 3: expected the row of GPU1, got "GPU2"; rows stand in the order of the columns'),
        (PCIE, [("NIC1\tNODE\tNODE\tNODE\tSYS\tNODE\t X \t\t\t\t\n", "")], {},
         "line 7: the row of NIC1 is missing, the matrix ends after 5 of 6 rows"),
        (PCIE, [("GPU3\tSYS\tSYS", "GPU3\tSYSSYS")], {},
         'line 5: cell GPU3-GPU0 is "SYSSYS"'),
        (RING, [("GPU1\tNV2\t X \tNV2\tSOC\tPIX\t0-19", "GPU1\tNV2\t X ")], {},
         "line 3: the row of GPU1 has 2 cells for 5 columns; .* tabs and all"),
        (PCIE, [("\tNIC0\tNIC1\tCPU", "\tNIC0\tNIC0\tCPU")], {},
         "line 1: column NIC0 appears twice"),
        (PCIE, [("Legend:", "\tGPU0\tGPU1\n")], {}, "line 9: a second matrix begins; a file desc"),
        (HGX, [("GPU 3: NVIDIA H100 80GB HBM3", "GPU 3: NVIDIA A100-SXM4-40GB")], {},
         "has GPUs of types NVIDIA A100-SXM4-40GB, NVIDIA H100 80GB HBM3; a host has GPUs of one"),
        (RING, [], {},
         'shows NV2, and what one NVLink of GPU type "generic" carries is not known; pass gpu'),
        (RING, [], {"gpu_type": "t4"}, 'one NVLink of GPU type "t4" carries is not known'),
        (PCIE, [], {"pcie_gb_per_s": 0.0}, "pcie_gb_per_s is 0; it must be more than 0"),
        (PCIE, [], {"host_memory_gib": -1.0}, "host_memory_gib is -1; it must be 0 or more"),
        (PCIE, [], {"cpu_cores": -1.0}, "cpu_milli is -1000; it must be 0 or more"),
        (RING, [], {"nvlink_gb_per_s": -2.0}, "nvlink_gb_per_s is -2; it must be more than 0"),
    ],
)  # fmt: skip
def test_what_is_no_matrix_is_refused_in_one_sentence(tmp_path, source, changes, options, message):
    with pytest.raises(InstanceError, match=message):
        read_host_type(edited(tmp_path, source, *changes), **options)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "topology.conf"
    path.write_text("SwitchName=s0 Nodes=n[0-3]\n")
    with pytest.raises(InstanceError, match="describes no server: it is neither what `nvidia-smi"):
        read_host_type(path)
    with pytest.raises(InstanceError, match='format is "slurm"; give "nvidia-smi" or "hwloc"'):
        read_host_type(path, format="slurm")


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("NVIDIA-H100-80GB-HBM3-SHARED", "h100-sxm-80gb"),
        ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("NVIDIA-A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "a100-sxm-40gb-mig-1g.5gb"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED", "a100-sxm-40gb-mig-1g.5gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("Tesla V100-SXM3-32GB-H", "v100-sxm-32gb"),
        ("Tesla-V100-SXM2-16GB", "v100-sxm-16gb"),
        ("Tesla-T4", "t4"),
        ("NVIDIA GeForce RTX 2080 Ti", "rtx-2080-ti"),
        ("NVIDIA-H200", "h200-sxm-141gb"),
        ("NVIDIA-GB200", "gb200-186gb"),
        ("h100", "h100-sxm-80gb"),
        ("NVIDIA-A10G", "a10g"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("AMD_Instinct_MI300X", "instinct-mi300x"),
    ],
)
def test_product_names_are_told(product, name):
    """A version that is not in the table keeps its own name: an H100 NVL is no H100 SXM."""
    assert type_of_product(product) == name


def test_a_product_without_a_name_is_refused():
    with pytest.raises(InstanceError, match='"NVIDIA-" names no GPU; give a product name'):
        type_of_product("NVIDIA-")


@pytest.mark.parametrize("name", [n for n, t in GPU_TYPES.items() if t.nvlink_gb_per_s])
def test_the_links_of_a_gpu_add_up_to_its_data_sheet(name):
    """A whole number of links of the generation's rate."""
    total = GPU_TYPES[name].nvlink_per_direction_gb_per_s
    assert num_nvlinks(name) * nvlink_gb_per_s(name) == pytest.approx(total)


def test_rates_of_types_without_nvlink_or_table_entry():
    assert (num_nvlinks("t4"), nvlink_gb_per_s("t4"), num_nvlinks("mystery")) == (None, None, None)
    rates = [pcie_gb_per_s(name) for name in ("v100-sxm-16gb", "rtx-2080-ti", "a10", "h200-x")]
    assert rates == [15.75, 15.75, 31.5, 63.0]
