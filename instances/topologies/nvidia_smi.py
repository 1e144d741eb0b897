"""``nvidia-smi topo -m``: how the GPUs and NICs of one server are joined.

The matrix names, for every two devices, the worst part of the way between them. PCIe is a tree, so
the classes PIX, PXB, PHB, NODE and SYS are its levels, and the tree is put together from them. Two
GPUs on NVLink show their NVLinks in place of their PCIe class; then their NICs and the column "NUMA
Affinity" tell where they stand, and where nothing does they share the island.

The matrix names no GPU type. `nvidia-smi -L` does, and its lines may stand in the same file::

    (nvidia-smi -L; nvidia-smi topo -m) > host.txt

References
----------
NVIDIA System Management Interface, manual page, section "topo"; NVIDIA NVML API reference,
nvmlGpuTopologyLevel_t.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from alloc.errors import nearest
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.topologies import products
from alloc.instances.topologies.place import shown
from alloc.instances.topologies.smi_matrix import CLASSES, NODE, PHB, SYS, Matrix
from alloc.instances.topologies.text import TopologyText
from alloc.instances.topologies.wiring import (
    ONE_UPI_LINK_GB_PER_S,
    Part,
    components,
    make_host_type,
    pcie_links,
    switched_links,
)
from alloc.topology.fabrics import DEFAULT_PORT_GB_PER_S
from alloc.topology.host import GpuLink, HostType
from alloc.units import require_non_negative, require_positive

# More NVLinks than any one GPU has had so far: then they lead to a switch.
_MAX_NVLINKS = 18


def read_nvidia_smi(
    text: TopologyText,
    *,
    gpu_type: str | None = None,
    nvlink_gb_per_s: float | None = None,
    pcie_gb_per_s: float | None = None,
    nic_gb_per_s: float = DEFAULT_PORT_GB_PER_S,
    upi_gb_per_s: float = ONE_UPI_LINK_GB_PER_S,
    nics: str | None = None,
    cpu_cores: float | None = None,
    host_memory_gib: float = 0.0,
    name: str | None = None,
) -> tuple[HostType, ReadReport]:
    """Read the matrix of one server as a host type.

    Parameters
    ----------
    text
        What ``nvidia-smi topo -m`` printed, with its tabs, escape codes and legend or without.
    gpu_type
        Type of the GPUs: a product name or a name in `alloc.topology.GPU_TYPES`. None takes it from
        lines of ``nvidia-smi -L`` in the file, else ``"generic"``.
    nvlink_gb_per_s
        One NVLink in one direction, GB/s; ``NV18`` is 18 of them. None takes it from the GPU type.
    pcie_gb_per_s
        Bandwidth of a PCIe slot in one direction, GB/s. None takes 16 lanes of the generation of
        the GPU type, PCIe 4.0 if that is unknown.
    nic_gb_per_s, upi_gb_per_s
        Rate of a NIC's port, and bandwidth between two NUMA islands in one direction, GB/s.
    nics
        NICs to keep, by number or by their name in the NIC legend, with commas: ``"0,3"`` or
        ``"mlx5_0,mlx5_3"``. None keeps all, ``"none"`` keeps none; virtual functions are NICs, too.
    cpu_cores
        Cores for jobs. None counts the CPUs that the GPUs have affinity with.
    host_memory_gib
        Memory for jobs, GiB; the matrix does not say.
    name
        Name of the host type; None for one made of the number and the type of the GPUs.

    Returns
    -------
    HostType, ReadReport
        The host type, with devices ``gpu0``, ``nic0``, ``nvswitch0``, ``pcieswitch0``,
        ``hostbridge0`` and ``numa0``; and what was read.

    Raises
    ------
    InstanceError
        If there is no matrix in the file, a row or cell cannot be read, the matrix is not
        symmetric, or it shows NVLinks whose bandwidth is not known.
    """
    log = ReportLog()
    matrix = Matrix(text)
    log.files.append(text.file)
    log.rows_read = len(matrix.devices)
    gpu = products.type_of_product(gpu_type or matrix.product() or "generic")
    pcie = products.pcie_gb_per_s(gpu) if pcie_gb_per_s is None else pcie_gb_per_s
    for field_name, value in (
        ("pcie_gb_per_s", pcie), ("nic_gb_per_s", nic_gb_per_s), ("upi_gb_per_s", upi_gb_per_s),
    ):  # fmt: skip
        require_positive(value, text.file, field_name)
    require_non_negative(host_memory_gib, text.file, "host_memory_gib")
    if nvlink_gb_per_s is not None:
        require_positive(nvlink_gb_per_s, text.file, "nvlink_gb_per_s")
    kept = matrix.gpus + _kept(matrix, nics)
    rates = {d: min(nic_gb_per_s, pcie) if d in matrix.nics else pcie for d in kept}
    links = [
        *_nvlinks(matrix, gpu, nvlink_gb_per_s),
        *pcie_links(_islands(matrix, kept, rates, pcie, log), upi_gb_per_s, pcie),
    ]
    cores = len(matrix.cpus) if cpu_cores is None else cpu_cores
    kind = make_host_type(name, gpu, len(matrix.gpus), links, cores, host_memory_gib)
    return kind, log.report()


def _kept(matrix: Matrix, nics: str | None) -> list[str]:
    """Return the NICs that the user wants."""
    if nics is None:
        return matrix.nics
    if nics == "none":
        return []
    known = {name: device for device, name in matrix.nic_names.items()}
    known |= {column: device for column, device in matrix.device_of.items()}
    known |= {name: nic for nic in matrix.nics for name in (nic, nic.removeprefix("nic"))}
    kept = []
    for wanted in (word.strip() for word in nics.split(",")):
        if wanted not in known or known[wanted] not in matrix.nics:
            names = ", ".join([matrix.nic_names.get(nic, nic) for nic in matrix.nics]) or "none"
            raise matrix.where().error(
                f"has no NIC {shown(wanted)}{nearest(wanted, known) or ';'} its NICs are {names}."
            )
        kept.append(known[wanted])
    return [nic for nic in matrix.nics if nic in kept]


def _nvlinks(matrix: Matrix, gpu: str, one: float | None) -> Iterator[GpuLink]:
    """Yield the NVLinks: to a switch where there are more than a GPU has, else from GPU to GPU."""
    bonds = {
        (a, b): count for a, b in combinations(matrix.gpus, 2) if (count := matrix.bonded(a, b))
    }
    if not bonds:
        return
    if one is None:
        one = products.nvlink_gb_per_s(gpu)
    if one is None:
        raise matrix.where().error(
            f"shows NV{max(bonds.values())}, and what one NVLink of GPU type "
            f'"{gpu}" carries is not known; pass gpu_type=, for example "h100", or '
            "nvlink_gb_per_s=."
        )
    most = products.num_nvlinks(gpu) or _MAX_NVLINKS
    switches = 0
    for group in components(matrix.gpus, bonds):
        peers = {a: [c for pair, c in bonds.items() if a in pair] for a in group}
        if any(sum(counts) > most for counts in peers.values()):
            yield from switched_links(switches, [(a, max(peers[a]) * one) for a in group])
            switches += 1
            continue
        for (a, b), count in bonds.items():
            if a in group:
                yield GpuLink(a, b, "nvlink", count * one)


def _islands(
    matrix: Matrix, kept: Sequence[str], rates: dict[str, float], pcie: float, log: ReportLog
) -> list[Part]:
    """Return the PCIe tree of each NUMA island.

    Also devices that are not kept tell what hangs together.
    """
    numa = {device: matrix.rows[device].numa for device in matrix.devices}
    ranks = {pair: matrix.rank(*pair) for pair in combinations(matrix.devices, 2)}
    joined = [pair for pair, rank in ranks.items() if rank is not None and rank <= NODE]
    joined += [
        (a, b)
        for (a, b), rank in ranks.items()
        if rank is None and numa[a] is not None and numa[a] == numa[b]
    ]
    groups = _merge_unknown(components(matrix.devices, joined), ranks, numa)
    _log_contradictions(matrix, ranks, log)
    islands = []
    for k, group in enumerate(groups):
        tree = _Tree(matrix, set(kept), rates, pcie)
        islands.append(Part("island", f"numa{k}", below=tree.parts(group, PHB)))
    return _numbered(islands, groups, numa)


def _log_contradictions(
    matrix: Matrix, ranks: dict[tuple[str, str], int | None], log: ReportLog
) -> None:
    """Count the cells that say farther than other cells together do."""
    for rank in range(SYS):
        near = [pair for pair, r in ranks.items() if r is not None and r <= rank]
        group_of = {d: k for k, g in enumerate(components(matrix.devices, near)) for d in g}
        for (a, b), r in ranks.items():
            if r == rank + 1 and group_of[a] == group_of[b]:
                log.alter(
                    "cell says farther than other cells together do; read as the nearer",
                    f"{a}-{b} {CLASSES[r]}",
                )


def _merge_unknown(
    groups: list[list[str]],
    ranks: dict[tuple[str, str], int | None],
    numa: dict[str, int | None],
) -> list[list[str]]:
    """Join islands that no cell and no NUMA node keeps apart."""
    merged: list[list[str]] = []
    for group in groups:
        for other in merged:
            nodes = {numa[d] for d in (*group, *other)} - {None}
            apart = any(
                ranks.get((a, b), ranks.get((b, a))) is not None for a in group for b in other
            )
            if not apart and len(nodes) <= 1:
                other.extend(group)
                break
        else:
            merged.append(list(group))
    return merged


def _numbered(
    islands: list[Part], groups: list[list[str]], numa: dict[str, int | None]
) -> list[Part]:
    """Name the islands by their NUMA nodes where every one has a node of its own."""
    nodes = [{numa[d] for d in group} - {None} for group in groups]
    numbers = [next(iter(found)) for found in nodes if len(found) == 1]
    if len(numbers) == len(islands) == len(set(numbers)):
        for island, number in zip(islands, numbers, strict=True):
            island.name = f"numa{number}"
    return islands


@dataclass
class _Tree:
    """The PCIe tree inside one island."""

    matrix: Matrix
    kept: set[str]
    rates: dict[str, float]
    pcie: float

    def parts(self, devices: Sequence[str], rank: int) -> list[Part]:
        """Return the pieces that meet at a class: bridges under an island, then switches."""
        if rank < 0:
            return [
                Part("device", device, self.rates[device])
                for device in devices
                if device in self.kept
            ]
        near = [
            (a, b)
            for a, b in combinations(devices, 2)
            if (r := self.matrix.rank(a, b)) is not None and r <= rank
        ]
        groups = components(devices, near)
        if rank == PHB:
            return [Part("bridge", below=self.parts(group, rank - 1)) for group in groups]
        return [
            Part("switch", up_gb_per_s=self.pcie, below=self.parts(group, rank - 1))
            for group in groups
        ]
