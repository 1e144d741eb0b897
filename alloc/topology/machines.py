"""Machines: host types of real servers, with the links between their devices.

Bandwidths are in GB/s in one direction. The link of a NIC carries the rate of its network port
where that is less than its PCIe slot; a fabric reads the port rate from it.
"""

from __future__ import annotations

from itertools import combinations

from alloc.errors import InstanceError
from alloc.topology.gpu_types import GpuType, gpu_type
from alloc.topology.host import GpuLink, HostType
from alloc.units import MILLI, require_non_negative, require_positive

PCIE_3_X16_GB_PER_S = 15.75
"""PCIe 3.0 with 16 lanes, one direction: 8 GT/s, 128b/130b."""

PCIE_4_X16_GB_PER_S = 31.5
"""PCIe 4.0 with 16 lanes, one direction: 16 GT/s, 128b/130b."""

PCIE_5_X16_GB_PER_S = 63.0
"""PCIe 5.0 with 16 lanes, one direction: 32 GT/s, 128b/130b."""

GIB_MIB = 1024
"""MiB in a GiB."""

# Two bytes a transfer in each direction. AMD's EPYC 7002 in two sockets: three or four Infinity
# Fabric links of 16 GT/s, of which the lesser; Xeon 8480C: four UPI links of 16 GT/s.
_INFINITY_FABRIC_GB_PER_S = 3 * 32.0
_UPI_GB_PER_S = 4 * 32.0
# One UPI link of 10.4 GT/s, as in Xeon servers of the years 2017 to 2021.
_ONE_UPI_LINK_GB_PER_S = 20.8
# NVLink-C2C is 450 GB/s a direction between a Grace CPU and its two GPUs together.
_C2C_PER_GPU_GB_PER_S = 225.0

GB200_NVLINK_GB_PER_S = 900.0
"""NVLink of one GPU of a GB200, one direction."""

TRAYS_PER_NVL72 = 18
"""Compute trays in a GB200 NVL72 rack, each of four GPUs."""


def dgx_a100(memory_gib: int = 40) -> HostType:
    """Return NVIDIA's DGX A100: 8 GPUs on NVSwitch, 8 NICs of 200 Gb/s, 128 cores.

    Parameters
    ----------
    memory_gib
        Memory of a GPU, 40 or 80 GiB. The host has 1 TiB of memory with the first, 2 TiB with the
        second.

    References
    ----------
    NVIDIA DGX A100 data sheet; NVIDIA DGX A100 System User Guide, system topology.
    """
    return _a100("dgx-a100", memory_gib, 128, None)


def hgx_a100(memory_gib: int = 40, cpu_cores: int = 128, host_memory_gib: int = 1024) -> HostType:
    """Return a server around NVIDIA's HGX A100 board with 8 GPUs, wired as a DGX A100.

    Parameters
    ----------
    memory_gib
        Memory of a GPU, 40 or 80 GiB.
    cpu_cores, host_memory_gib
        Cores and memory of the server, GiB; its maker decides them.

    References
    ----------
    NVIDIA HGX A100 data sheet.
    """
    return _a100("hgx-a100", memory_gib, cpu_cores, host_memory_gib)


def dgx_h100() -> HostType:
    """Return NVIDIA's DGX H100: 8 GPUs on NVSwitch, 8 NICs of 400 Gb/s, 112 cores, 2 TiB.

    References
    ----------
    NVIDIA DGX H100 data sheet; NVIDIA DGX H100/H200 System User Guide, system topology.
    """
    return hgx_h100("dgx-h100")


def hgx_h100(name: str = "hgx-h100", cpu_cores: int = 112, host_memory_gib: int = 2048) -> HostType:
    """Return a server around NVIDIA's HGX H100 board with 8 GPUs, wired as a DGX H100.

    Parameters
    ----------
    name
        Name of the host type.
    cpu_cores, host_memory_gib
        Cores and memory of the server, GiB; its maker decides them.

    References
    ----------
    NVIDIA HGX H100 data sheet.
    """
    links = _eight_gpu_links(450.0, PCIE_5_X16_GB_PER_S, 50.0, _UPI_GB_PER_S)
    return _host_type(name, 8, "h100-sxm-80gb", cpu_cores, host_memory_gib, links)


def gb200_compute_tray() -> HostType:
    """Return a compute tray of a GB200 NVL72: 4 GPUs, 2 Grace CPUs, 4 NICs of 400 Gb/s.

    Its NVLinks leave the host, so they are links of the fabric and not of the host type:
    `alloc.topology.gb200_nvl72` adds them. The two superchips of a tray meet only there.

    References
    ----------
    NVIDIA GB200 NVL72 data sheet (CPU cores, CPU memory of 480 GB each, NVLink-C2C).
    """
    links = []
    for g in range(4):
        links.append(GpuLink(f"gpu{g}", f"cpu{g // 2}", "c2c", _C2C_PER_GPU_GB_PER_S))
    for g in range(4):
        links.append(GpuLink(f"nic{g}", f"cpu{g // 2}", "pcie", 50.0))
    return _host_type("gb200-compute-tray", 4, "gb200-186gb", 144, 960, tuple(links))


def pcie_server(
    num_gpus: int,
    gpu: str | GpuType,
    *,
    numa_islands: int = 2,
    cpu_cores: int = 64,
    host_memory_gib: int = 512,
    num_nics: int = 1,
    nic_gb_per_s: float = 12.5,
    pcie_gb_per_s: float = PCIE_4_X16_GB_PER_S,
    upi_gb_per_s: float = _ONE_UPI_LINK_GB_PER_S,
    name: str | None = None,
) -> HostType:
    """Return a server whose GPUs sit on PCIe under NUMA islands that are joined by UPI.

    Parameters
    ----------
    num_gpus
        GPUs, 1 or more, dealt to the islands in equal runs (``gpu0, gpu1, ...``).
    gpu
        Their type, or its name in `alloc.topology.GPU_TYPES`.
    numa_islands
        NUMA islands, from 1 to `num_gpus`; every two are joined.
    cpu_cores, host_memory_gib
        Cores and memory of the server, GiB.
    num_nics, nic_gb_per_s
        Network ports, dealt to the islands in turn, and the rate of each, GB/s.
    pcie_gb_per_s, upi_gb_per_s
        Bandwidth of a GPU's slot, and between two islands, GB/s in one direction. The defaults are
        PCIe 4.0 with 16 lanes and one UPI link of 10.4 GT/s.
    name
        Name of the host type; None for one made of the number and the type.

    Raises
    ------
    InstanceError
        If a number is out of range or the GPU type is unknown.

    Examples
    --------
    >>> pcie_server(4, "t4").name
    '4x-t4'
    """
    kind = gpu_type(gpu) if isinstance(gpu, str) else gpu
    where = f'host type "{name or f"{num_gpus}x-{kind.name}"}"'
    require_positive(num_gpus, where, "num_gpus")
    require_non_negative(num_nics, where, "num_nics")
    if not 1 <= numa_islands <= num_gpus:
        raise InstanceError(
            f"{where}: numa_islands is {numa_islands} with {num_gpus} GPUs; "
            "it must be from 1 to the number of GPUs, so that no island is without one."
        )
    links = [
        GpuLink(f"gpu{g}", f"numa{g * numa_islands // num_gpus}", "pcie", pcie_gb_per_s)
        for g in range(num_gpus)
    ]
    links += [
        GpuLink(f"nic{n}", f"numa{n % numa_islands}", "pcie", min(nic_gb_per_s, pcie_gb_per_s))
        for n in range(num_nics)
    ]
    links += [
        GpuLink(f"numa{a}", f"numa{b}", "upi", upi_gb_per_s)
        for a, b in combinations(range(numa_islands), 2)
    ]
    label = name or f"{num_gpus}x-{kind.name}"
    return _host_type(label, num_gpus, kind.name, cpu_cores, host_memory_gib, tuple(links))


def dl2_server() -> HostType:
    """Return the server of DL2's simulations: 8 CPU slots, here cores, and 2 GPUs; no links.

    References
    ----------
    Peng et al. DL2: A Deep Learning-driven Scheduler for Deep Learning Clusters. IEEE TPDS 32(8),
    2021. doi:10.1109/TPDS.2021.3052895.
    """
    return HostType("dl2-server", num_gpus=2, gpu_type="gtx-1080-ti", cpu_milli=8 * MILLI)


def nics_of(host_type: HostType) -> dict[str, float]:
    """Return the NICs of a host type (devices named ``nic0``, ``nic1`` ...) and their rates, GB/s.

    Examples
    --------
    >>> nics_of(dgx_h100())["nic7"]
    50.0
    """
    rates: dict[str, float] = {}
    for link in host_type.links:
        for end in (link.a, link.b):
            if end.startswith("nic") and end[3:].isdigit():
                rates[end] = max(rates.get(end, 0.0), link.bandwidth_gb_per_s)
    return dict(sorted(rates.items(), key=lambda item: int(item[0][3:])))


def _a100(name: str, memory_gib: int, cpu_cores: int, host_memory_gib: int | None) -> HostType:
    if memory_gib not in (40, 80):
        raise InstanceError(
            f'host type "{name}": memory_gib is {memory_gib}; an A100 has 40 or 80 GiB.'
        )
    if host_memory_gib is None:
        host_memory_gib = 1024 if memory_gib == 40 else 2048
    links = _eight_gpu_links(300.0, PCIE_4_X16_GB_PER_S, 25.0, _INFINITY_FABRIC_GB_PER_S)
    label = f"{name}-{memory_gib}gb"
    return _host_type(label, 8, f"a100-sxm-{memory_gib}gb", cpu_cores, host_memory_gib, links)


def _eight_gpu_links(
    nvlink: float, pcie: float, nic: float, between_sockets: float
) -> tuple[GpuLink, ...]:
    """Wire 8 GPUs: NVSwitch, and by twos with their NICs on PCIe switches under two sockets.

    The NVSwitch chips of a board act as one crossbar, so they are one device.
    """
    links = [GpuLink(f"gpu{g}", "nvswitch0", "nvswitch", nvlink) for g in range(8)]
    links += [GpuLink(f"gpu{g}", f"pcieswitch{g // 2}", "pcie", pcie) for g in range(8)]
    links += [GpuLink(f"nic{g}", f"pcieswitch{g // 2}", "pcie", min(nic, pcie)) for g in range(8)]
    links += [GpuLink(f"pcieswitch{s}", f"numa{s // 2}", "pcie", pcie) for s in range(4)]
    links.append(GpuLink("numa0", "numa1", "upi", between_sockets))
    return tuple(links)


def _host_type(
    name: str,
    num_gpus: int,
    gpu: str,
    cpu_cores: int,
    host_memory_gib: int,
    links: tuple[GpuLink, ...],
) -> HostType:
    return HostType(name, num_gpus, gpu, cpu_cores * MILLI, host_memory_gib * GIB_MIB, links)
