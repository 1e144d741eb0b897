"""Host types of real servers, against numbers from their data sheets."""

import pytest

from alloc.errors import InstanceError
from alloc.instances.dl2 import SERVER
from alloc.topology import (
    GPU_TYPES,
    GpuType,
    Network,
    dgx_a100,
    dgx_h100,
    dl2_server,
    flat_cluster,
    gb200_compute_tray,
    hgx_a100,
    hgx_h100,
    pcie_server,
)
from alloc.topology.machines import PCIE_3_X16_GB_PER_S, nics_of

MACHINES = [
    dgx_a100(),
    dgx_a100(80),
    hgx_a100(),
    hgx_a100(80),
    dgx_h100(),
    hgx_h100(),
    gb200_compute_tray(),
    pcie_server(4, "t4"),
    pcie_server(8, "rtx-2080-ti"),
    dl2_server(),
]


def inside(kind, a, b):
    """Bandwidth between two devices of a lone host."""
    return Network(flat_cluster("one", kind, 1)).bandwidth(f"host-0/{a}", f"host-0/{b}")


@pytest.mark.parametrize("kind", MACHINES, ids=lambda kind: kind.name)
def test_every_machine_has_gpus_of_a_known_type_and_links_no_gpu_it_has_not(kind):
    """A link to gpu8 of an 8-GPU host would quietly add a device that nobody can allocate."""
    assert kind.gpu_type in GPU_TYPES
    named = {end for link in kind.links for end in (link.a, link.b) if end.startswith("gpu")}
    assert named <= {f"gpu{g}" for g in range(kind.num_gpus)}


def test_machines_have_different_names():
    """A topology of two of them needs it."""
    assert len({kind.name for kind in MACHINES}) == len(MACHINES)


def test_dgx_h100_offers_what_its_data_sheet_says():
    """8 GPUs, 2 x 56 cores, 2 TiB."""
    assert dgx_h100().capacity == (8000, 112_000, 2 * 1024 * 1024)
    assert dgx_h100().gpu_type == "h100-sxm-80gb"


def test_dgx_a100_doubles_its_memory_with_that_of_the_gpus():
    """8 GPUs, 2 x 64 cores; 1 TiB with 40 GiB a GPU and 2 TiB with 80 GiB."""
    assert dgx_a100().capacity == (8000, 128_000, 1024 * 1024)
    assert dgx_a100(80).capacity == (8000, 128_000, 2 * 1024 * 1024)
    assert (dgx_a100().gpu_type, dgx_a100(80).gpu_type) == ("a100-sxm-40gb", "a100-sxm-80gb")


@pytest.mark.parametrize(
    ("kind", "nvlink", "nic"),
    [(dgx_a100(), 300, 25), (hgx_a100(80), 300, 25), (dgx_h100(), 450, 50)],
)
def test_eight_gpus_meet_on_nvswitch_and_reach_their_nics_over_pcie(kind, nvlink, nic):
    """NVLink of one direction is half of the 600 and 900 GB/s printed; NICs 200 and 400 Gb/s."""
    assert inside(kind, "gpu0", "gpu7") == nvlink
    assert inside(kind, "gpu5", "gpu5") == float("inf")
    assert inside(kind, "gpu3", "nic3") == nic
    assert nics_of(kind) == {f"nic{n}": nic for n in range(8)}
    assert nvlink == GPU_TYPES[kind.gpu_type].nvlink_per_direction_gb_per_s


def test_gpus_share_a_pcie_switch_with_their_nics_by_twos_under_two_sockets():
    """Which NIC is near which GPU decides the rail that a GPU uses."""
    wires = {(link.a, link.b) for link in dgx_h100().links}
    assert {("gpu5", "pcieswitch2"), ("nic5", "pcieswitch2"), ("pcieswitch2", "numa1")} <= wires
    assert ("numa0", "numa1") in wires


def test_hgx_takes_cores_and_memory_from_the_maker_of_the_server():
    assert hgx_h100("ours", cpu_cores=96, host_memory_gib=1024).capacity[1:] == (96_000, 1024**2)
    assert hgx_a100(40, cpu_cores=64, host_memory_gib=512).capacity[1:] == (64_000, 512 * 1024)


def test_a_gb200_tray_holds_four_gpus_whose_superchips_meet_only_outside():
    """NVLink leaves the tray: without its rack GPUs 0 and 2 have no way to each other."""
    tray = gb200_compute_tray()
    assert tray.capacity == (4000, 144_000, 960 * 1024)
    assert inside(tray, "gpu0", "gpu1") == 225
    assert inside(tray, "gpu0", "gpu2") == 0


def test_a_pcie_server_is_slower_across_its_islands():
    """PCIe 4.0 within an island, one UPI link of 20.8 GB/s between the two."""
    server = pcie_server(4, "A10")
    assert (server.name, server.gpu_type) == ("4x-a10", "a10")
    assert inside(server, "gpu0", "gpu1") == 31.5
    assert inside(server, "gpu1", "gpu2") == 20.8
    assert inside(server, "gpu0", "nic0") == 12.5


def test_gpus_that_do_not_divide_evenly_still_fill_every_island():
    server = pcie_server(5, "t4", numa_islands=3, num_nics=0)
    islands = [next(x.b for x in server.links if x.a == f"gpu{g}") for g in range(5)]
    assert islands == ["numa0", "numa0", "numa1", "numa1", "numa2"]
    assert sum(link.kind == "upi" for link in server.links) == 3


def test_a_nic_is_never_faster_than_its_slot():
    server = pcie_server(
        1, "t4", numa_islands=1, nic_gb_per_s=50, pcie_gb_per_s=PCIE_3_X16_GB_PER_S
    )
    assert nics_of(server) == {"nic0": 15.75}


def test_a_pcie_server_takes_a_gpu_type_of_ones_own():
    """Other vendors' GPUs are not in the table, and need not be."""
    server = pcie_server(2, GpuType("mi300x", "AMD", 192 * 1024), name="ours")
    assert (server.name, server.gpu_type) == ("ours", "mi300x")


def test_the_dl2_server_holds_four_tasks_of_two_cores_and_two_gpu_workers():
    """What makes the aggregate model of DL2's world exact."""
    assert dl2_server().capacity == (2000, 8000, 0)


def test_the_generator_of_dl2s_world_uses_this_server():
    """Two descriptions of one server must not drift apart."""
    assert dl2_server() == SERVER


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: dgx_a100(48), r'"dgx-a100": memory_gib is 48; an A100 has 40 or 80 GiB'),
        (lambda: pcie_server(0, "t4"), '"0x-t4": num_gpus is 0; it must be more than 0'),
        (lambda: pcie_server(2, "t4", numa_islands=3), "numa_islands is 3 with 2 GPUs"),
        (lambda: pcie_server(2, "t4", numa_islands=0), "from 1 to the number of GPUs"),
        (lambda: pcie_server(2, "t4", num_nics=-1), "num_nics is -1; it must be 0 or more"),
        (lambda: pcie_server(2, "t5"), 'GPU type "t5" is not in the table'),
        (lambda: pcie_server(2, "t4", upi_gb_per_s=0), "bandwidth_gb_per_s is 0"),
    ],
)
def test_impossible_machines_are_refused(build, message):
    with pytest.raises(InstanceError, match=message):
        build()
