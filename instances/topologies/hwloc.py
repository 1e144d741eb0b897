"""hwloc XML, versions 2 and 3: the server that ``lstopo host.xml`` wrote down.

GPUs, NICs and NVSwitches are PCI devices under bridges; a bridge under which several of them meet
becomes a PCIe switch or host bridge. The operating system's devices in a GPU tell what it is: its
model, and its number in the order of NVML. The distance matrix "NVLinkBandwidth" (of AMD's GPUs:
"XGMIBandwidth") gives the bandwidth of every two devices that are linked directly, MB/s in one
direction. All NVSwitch chips that belong together act as one crossbar, so they are one device.

hwloc reads the speed of a PCIe link as it is at that moment, and idle GPUs slow theirs down: take
the file under load, or give ``pcie_gb_per_s``.

References
----------
Portable Hardware Locality (hwloc), documentation of version 2.12: "I/O devices", "Object
attributes" and "Distances"; the document type hwloc2.dtd.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from alloc.errors import nearest
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.topologies import products
from alloc.instances.topologies.place import shown
from alloc.instances.topologies.text import TopologyText
from alloc.instances.topologies.wiring import (
    ONE_UPI_LINK_GB_PER_S,
    Part,
    components,
    make_host_type,
    pcie_links,
    require_symmetric,
    switched_links,
)
from alloc.instances.topologies.xml_tree import Element, parse_xml
from alloc.topology.fabrics import DEFAULT_PORT_GB_PER_S
from alloc.topology.host import GpuLink, HostType
from alloc.units import require_non_negative, require_positive

_VERSIONS = ("2", "3")
_MIB = 2**20
"""Bytes in a MiB: nodes of memory say theirs in bytes."""
_MB_PER_GB = 1000.0
"""hwloc gives bandwidth in MB/s."""
# Kinds of operating system devices: numbers in version 2, bits in version 3.
_NETWORK = {"2": (2, 3), "3": (16, 32)}
_GPU_KINDS = {"2": (1, 5), "3": (4, 8)}
_RDMA = {"2": (3,), "3": (32,)}
# PCI classes of VGA and 3D controllers and of processing accelerators, and vendors of which such a
# device is a GPU for computing and not the console of a server.
_GPU_CLASSES = ("0300", "0302", "0380", "1200")
_GPU_VENDORS = ("10de", "1002")
_PCI_TYPE = re.compile(r"(?P<kind>[0-9a-f]{4}) \[(?P<vendor>[0-9a-f]{4}):[0-9a-f]{4}\].*", re.I)
_NUMBERED = re.compile(r"(nvml|rsmi|cuda|hip|ze)(\d{1,4})")
_BACKENDS = ("nvml", "rsmi", "cuda", "hip", "ze")
_MATRICES = {"NVLinkBandwidth": "nvlink", "XGMIBandwidth": "xgmi"}
_EXPORT_AGAIN = "export it again with `lstopo host.xml`"


def read_hwloc(
    text: TopologyText,
    *,
    gpu_type: str | None = None,
    pcie_gb_per_s: float | None = None,
    nic_gb_per_s: float = DEFAULT_PORT_GB_PER_S,
    upi_gb_per_s: float = ONE_UPI_LINK_GB_PER_S,
    nics: str | None = None,
    cpu_cores: float | None = None,
    host_memory_gib: float | None = None,
    name: str | None = None,
) -> tuple[HostType, ReadReport]:
    """Read the topology of one server as a host type.

    Parameters
    ----------
    text
        What ``lstopo host.xml`` wrote.
    gpu_type
        Type of the GPUs: a product name or a name in `alloc.topology.GPU_TYPES`. None takes the
        model in the file, else ``"generic"``.
    pcie_gb_per_s
        Bandwidth of every PCIe link in one direction, GB/s. None takes the speeds in the file and,
        where it has none, 16 lanes of the generation of the GPU type.
    nic_gb_per_s, upi_gb_per_s
        Rate of a NIC's port, and bandwidth between two NUMA islands in one direction, GB/s.
    nics
        NICs to keep, by name, with commas: ``"mlx5_0,mlx5_3"``. None keeps those with RDMA or,
        where there is none, all; ``"none"`` keeps none.
    cpu_cores
        Cores for jobs. None counts the cores in the file or, if it has none, the hardware threads.
    host_memory_gib
        Memory for jobs, GiB. None adds up the NUMA nodes in the file.
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
        If the file is not an hwloc XML of version 2 or 3, or a matrix in it is not one of
        bandwidths.
    """
    for field, value in (
        ("pcie_gb_per_s", pcie_gb_per_s), ("nic_gb_per_s", nic_gb_per_s),
        ("upi_gb_per_s", upi_gb_per_s),
    ):  # fmt: skip
        if value is not None:
            require_positive(value, text.file, field)
    log = ReportLog()
    log.files.append(text.file)
    machine = _Machine(parse_xml(text.text.encode(), text.file), nics)
    log.rows_read = machine.num_objects
    gpu = products.type_of_product(gpu_type or machine.product() or "generic")
    slot = products.pcie_gb_per_s(gpu) if pcie_gb_per_s is None else pcie_gb_per_s
    fast = list(_fast_links(machine, log))
    if not fast and len(machine.gpus) > 1 and products.num_nvlinks(gpu):
        log.alter(
            "no matrix of NVLinks (hwloc has it from its NVML backend), so none is drawn", gpu
        )
    if not machine.gpus:
        log.alter("no GPU in the file (lstopo may have been told to leave out I/O)", "machine")
    islands = machine.islands(pcie_gb_per_s, nic_gb_per_s)
    links = [*fast, *pcie_links(islands, upi_gb_per_s, slot)]
    cores = (machine.num_cores or machine.num_threads) if cpu_cores is None else cpu_cores
    memory = machine.memory_gib if host_memory_gib is None else host_memory_gib
    require_non_negative(memory, text.file, "host_memory_gib")
    return make_host_type(name, gpu, len(machine.gpus), links, cores, memory), log.report()


@dataclass(frozen=True)
class _Device:
    """A GPU or NIC: its PCI device, and the devices of the operating system in it."""

    element: Element
    inside: tuple[Element, ...]


class _Machine:
    """The machine in the file, with its GPUs, NICs and NVSwitches found.

    Attributes
    ----------
    gpus, nics
        PCI devices in the order in which alloc numbers them.
    """

    def __init__(self, root: Element, nics: str | None) -> None:
        if root.tag != "topology":
            raise root.where.error(
                f"begins with <{shown(root.tag)[1:-1]}>, and hwloc's XML with <topology>; "
                f"{_EXPORT_AGAIN}."
            )
        self.version = root.get("version").partition(".")[0]
        if self.version not in _VERSIONS:
            raise root.where.error(
                f"is hwloc XML of version {shown(root.get('version') or '1')}; versions 2 and 3 "
                "are read, so convert it with `lstopo -i old.xml new.xml` of hwloc 2 or later."
            )
        self.root = root
        machines = [e for e in root.all("object") if e.get("type") == "Machine"]
        if not machines:
            raise root.where.error(f'has no object of type "Machine"; {_EXPORT_AGAIN}.')
        self.machine = machines[0]
        self.num_objects = 0
        self.num_cores = 0
        self.num_threads = 0
        self.memory_gib = 0.0
        self.by_index: dict[tuple[str, str], Element] = {}
        self.owner: dict[int, Element] = {}
        self.gpus: list[_Device] = []
        self._nics: list[_Device] = []
        for element in _objects(self.machine):
            self._look_at(element)
        self.island_of = {id(e): island for e, island in _with_islands(self.machine)}
        self.gpus.sort(key=self._number_of_gpu)
        self.nics = self._kept(nics)
        self.name_of = {id(d.element): f"gpu{k}" for k, d in enumerate(self.gpus)}
        self.name_of |= {id(d.element): f"nic{k}" for k, d in enumerate(self.nics)}

    def _look_at(self, element: Element) -> None:
        self.num_objects += 1
        kind = element.get("type")
        self.by_index[kind, element.get("gp_index")] = element
        if kind == "Core":
            self.num_cores += 1
        elif kind == "PU":
            self.num_threads += 1
        elif _is_host_memory(element):
            self.memory_gib += _number(element, "local_memory") / _MIB / 1024
        elif kind == "PCIDev":
            inside = tuple(e for e in _objects(element) if e.get("type") == "OSDev")
            self.owner |= {id(e): element for e in inside}
            if self._is_gpu(element, inside):
                self.gpus.append(_Device(element, inside))
            elif any(self._is(e, _NETWORK) for e in inside):
                self._nics.append(_Device(element, inside))

    def _is(self, element: Element, kinds: Mapping[str, tuple[int, ...]]) -> bool:
        """Return whether a device of the operating system is of one of some kinds."""
        number = int(_number(element, "osdev_type"))
        if self.version == "2":
            return number in kinds["2"]
        return any(number & bit for bit in kinds["3"])

    def _is_gpu(self, element: Element, inside: Sequence[Element]) -> bool:
        if any(self._is(e, _GPU_KINDS) and _NUMBERED.fullmatch(e.get("name")) for e in inside):
            return True
        found = _PCI_TYPE.fullmatch(element.get("pci_type"))
        return (
            found is not None
            and found["kind"] in _GPU_CLASSES
            and found["vendor"].lower() in _GPU_VENDORS
        )

    def _number_of_gpu(self, device: _Device) -> tuple[int, str]:
        """Sort GPUs by the number that NVML (or another backend) gives them, then by bus."""
        for backend in _BACKENDS:
            for element in device.inside:
                found = _NUMBERED.fullmatch(element.get("name"))
                if found and found[1] == backend:
                    return int(found[2]), device.element.get("pci_busid")
        return 0, device.element.get("pci_busid")

    def _kept(self, wanted: str | None) -> list[_Device]:
        if wanted == "none":
            return []
        if wanted is None:
            rdma = [d for d in self._nics if any(self._is(e, _RDMA) for e in d.inside)]
            return rdma or self._nics
        known = {e.get("name"): device for device in self._nics for e in device.inside}
        names = [word.strip() for word in wanted.split(",")]
        for name in names:
            if name not in known:
                raise self.root.where.error(
                    f"has no NIC {shown(name)}{nearest(name, known) or ';'} its NICs are "
                    f"{', '.join(known) or 'none'}."
                )
        chosen = [id(known[name]) for name in names]
        return [device for device in self._nics if id(device) in chosen]

    def product(self) -> str | None:
        """Return the model of the GPUs."""
        models = {
            info.get("value"): device.element
            for device in self.gpus
            for element in device.inside
            for info in element.all("info")
            if info.get("name") == "GPUModel" and info.get("value")
        }
        if len({products.type_of_product(model) for model in models}) > 1:
            raise self.root.where.error(
                f"has GPUs of models {', '.join(sorted(models))}; a host has GPUs of one type, so "
                "pass gpu_type= to treat them as one."
            )
        return next(iter(models), None)

    def islands(self, pcie: float | None, nic: float) -> list[Part]:
        """Return the PCIe tree under each NUMA island."""
        islands: dict[str, Part] = {}
        for parent in _objects(self.machine):
            island = self.island_of.get(id(parent))
            for element in parent.all("object"):
                if island is not None and element.get("type") in ("Bridge", "PCIDev"):
                    part = islands.setdefault(island, Part("island", island))
                    part.below.append(self._part(element, pcie, nic))
        return [islands[name] for name in sorted(islands)]

    def _part(self, element: Element, pcie: float | None, nic: float) -> Part:
        speed = _number(element, "pci_link_speed") or float("inf")
        width = speed if pcie is None else pcie
        if element.get("type") == "PCIDev":
            name = self.name_of.get(id(element))
            if name is None:
                return Part("switch")  # of no interest: an empty piece is not drawn
            return Part("device", name, min(width, nic) if name.startswith("nic") else width)
        host_bridge = element.get("bridge_type").startswith("0")
        below = [
            self._part(e, pcie, nic)
            for e in element.all("object")
            if e.get("type") in ("Bridge", "PCIDev")
        ]
        if host_bridge:
            return Part("bridge", below=below)
        return Part("switch", up_gb_per_s=width, below=below)


def _objects(element: Element) -> Iterator[Element]:
    """Yield an object and the objects in it, in the order of the file."""
    stack = [element]
    while stack:
        element = stack.pop()
        yield element
        stack.extend(reversed(list(element.all("object"))))


def _with_islands(machine: Element) -> Iterator[tuple[Element, str]]:
    """Yield the objects above bridges, each with the NUMA island that it lies in."""
    stack = [(machine, "machine0")]
    while stack:
        element, island = stack.pop()
        nodes = [e for e in element.all("object") if e.get("type") in ("NUMANode", "MemCache")]
        nodes = [n for e in nodes for n in _objects(e) if _is_host_memory(n)]
        if nodes:
            island = f"numa{int(_number(nodes[0], 'os_index'))}"
        yield element, island
        stack.extend(
            (e, island)
            for e in reversed(element.below)
            if e.tag == "object" and e.get("type") not in ("Bridge", "PCIDev", "NUMANode")
        )


def _is_host_memory(element: Element) -> bool:
    """Return whether an object is a NUMA node, and not the memory of a GPU that looks like one."""
    return element.get("type") == "NUMANode" and element.get("subtype") != "GPUMemory"


def _number(element: Element, name: str) -> float:
    """Return a number in an attribute, 0 where there is none."""
    text = element.get(name)
    if not text:
        return 0.0
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e18:
        raise element.where.error(
            f"{name} is {shown(text)}; expected a number of 0 or more, so {_EXPORT_AGAIN}."
        )
    return value


def _fast_links(machine: _Machine, log: ReportLog) -> Iterator[GpuLink]:
    """Yield the NVLinks that a matrix gives, or AMD's links."""
    for element in machine.root.below:
        if element.tag.startswith("distances") and element.get("name") in _MATRICES:
            yield from _links_of(element, machine, log)


def _links_of(matrix: Element, machine: _Machine, log: ReportLog) -> Iterator[GpuLink]:
    kind = _MATRICES[matrix.get("name")]
    ends = [_end(word, matrix, machine, log) for word in _words(matrix, "indexes")]
    widths = _widths(matrix, len(ends))
    pairs: dict[tuple[str, str], float] = {}
    for i, j in combinations(range(len(ends)), 2):
        require_symmetric(
            widths[i][j], widths[j][i], f"object {i}", f"object {j}", str(matrix.where),
            _EXPORT_AGAIN,
        )  # fmt: skip
        a, b = ends[i], ends[j]
        if a and b and a != b and widths[i][j]:
            pairs[a, b] = pairs.get((a, b), 0.0) + widths[i][j]
    switches = [end for end in dict.fromkeys(ends) if end and end.startswith("switch")]
    gpus = [end for end in dict.fromkeys(ends) if end and end.startswith("gpu")]
    wired = [pair for pair in pairs if all(e.startswith(("gpu", "switch")) for e in pair)]
    num = 0
    for group in components([*gpus, *switches], wired):
        if not any(end.startswith("switch") for end in group):
            continue
        totals = [(g, sum(_to_switch(pairs, g))) for g in group if g.startswith("gpu")]
        yield from switched_links(num, [(g, total) for g, total in totals if total])
        num += 1
    for (a, b), width in pairs.items():
        if not a.startswith("switch") and not b.startswith("switch"):
            yield GpuLink(a, b, kind, width)


def _to_switch(pairs: dict[tuple[str, str], float], gpu: str) -> Iterator[float]:
    for pair, width in pairs.items():
        if gpu in pair and any(end.startswith("switch") for end in pair):
            yield width


def _words(matrix: Element, tag: str) -> list[str]:
    """Return the words of all elements of a name; a long list is broken into several."""
    return [word for element in matrix.all(tag) for word in element.text.split()]


def _end(word: str, matrix: Element, machine: _Machine, log: ReportLog) -> str | None:
    """Return what a matrix means by an index: a GPU, a switch, an island, or nothing of interest.

    A matrix of several types writes ``OSDev:802``, one of a single type names it once.
    """
    kind, _, index = word.rpartition(":")
    element = machine.by_index.get((kind or matrix.get("type"), index))
    if element is None:
        raise matrix.where.error(
            f"matrix {shown(matrix.get('name'))} names {shown(word)}, and there is no such object; "
            f"{_EXPORT_AGAIN}."
        )
    owner = machine.owner.get(id(element), element)
    if id(owner) in machine.name_of:
        return machine.name_of[id(owner)]
    if owner.get("subtype") == "NVSwitch":
        return f"switch-{index}"
    if id(element) in machine.island_of:
        return machine.island_of[id(element)]
    log.alter("device in a matrix of links is no GPU or switch; its links are left out", word)
    return None


def _widths(matrix: Element, size: int) -> list[list[float]]:
    """Return the matrix, GB/s."""
    words = _words(matrix, "u64values")
    name = shown(matrix.get("name"))
    if len(words) != size * size:
        raise matrix.where.error(
            f"matrix {name} has {len(words)} values for {size} objects, and needs {size * size}; "
            f"{_EXPORT_AGAIN}."
        )
    bad = next((word for word in words if not re.fullmatch(r"\d{1,15}", word, re.ASCII)), None)
    if bad is not None:
        raise matrix.where.error(
            f"matrix {name} has the value {shown(bad)}; bandwidths are whole MB/s, so "
            f"{_EXPORT_AGAIN}."
        )
    values = [int(word) / _MB_PER_GB for word in words]
    return [values[row * size : (row + 1) * size] for row in range(size)]


def is_hwloc(text: TopologyText) -> bool:
    """Return whether a text begins like hwloc's XML."""
    return re.search(r"<topology[\s>]", text.head[:4000]) is not None
