"""Formats that describe the inside of one server: they make a host type, or a cluster of such."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from os import PathLike

from alloc.errors import InstanceError
from alloc.instances.readers.options import Option
from alloc.instances.readers.report import ReadReport
from alloc.instances.topologies.formats import Request, TopologyFormat
from alloc.instances.topologies.hwloc import is_hwloc, read_hwloc
from alloc.instances.topologies.nvidia_smi import read_nvidia_smi
from alloc.instances.topologies.smi_matrix import is_nvidia_smi
from alloc.instances.topologies.text import TopologyText, read_text
from alloc.topology import HostType, Topology, flat_cluster
from alloc.units import require_count

_ReadHost = Callable[..., tuple[HostType, ReadReport]]

_OPTIONS = (
    Option("gpu_type", str, "Type of the GPUs, for example h100; by default as the file says."),
    Option("pcie_gb_per_s", float, "A PCIe slot in one direction, GB/s."),
    Option("nic_gb_per_s", float, "The port of a NIC in one direction, GB/s.", 12.5),
    Option("upi_gb_per_s", float, "Between two NUMA islands in one direction, GB/s.", 20.8),
    Option("nics", str, 'NICs to keep, with commas between their names, or "none".'),
    Option("cpu_cores", float, "Cores for jobs; by default as the file says."),
    Option("host_memory_gib", float, "Memory for jobs, GiB; by default as the file says."),
    Option("num_hosts", int, "How many such servers the cluster has.", 1),
)


def read_host_type(
    path: str | PathLike[str], format: str | None = None, **options: object
) -> tuple[HostType, ReadReport]:
    """Read the inside of one server from what ``nvidia-smi topo -m`` or ``lstopo`` wrote.

    Parameters
    ----------
    path
        The file, plain or gzip.
    format
        ``"nvidia-smi"`` or ``"hwloc"``; None tells it from the content.
    options
        Those of `alloc.instances.topologies.nvidia_smi.read_nvidia_smi` and
        `alloc.instances.topologies.hwloc.read_hwloc`.

    Returns
    -------
    HostType, ReadReport
        The host type, for `read_topology` or a fabric; and what was read.

    Raises
    ------
    InstanceError
        If the file is of neither format, or cannot be read.
    """
    text = read_text(path)
    kinds: dict[str, tuple[Callable[[TopologyText], bool], _ReadHost]] = {
        "nvidia-smi": (is_nvidia_smi, read_nvidia_smi),
        "hwloc": (is_hwloc, read_hwloc),
    }
    if format is not None and format not in kinds:
        raise InstanceError(f'format is "{format}"; give "nvidia-smi" or "hwloc".')
    for kind, (matches, read) in kinds.items():
        if format == kind or (format is None and matches(text)):
            return read(text, **options)
    raise text.place().error(
        "describes no server: it is neither what `nvidia-smi topo -m` prints nor XML of lstopo."
    )


def _read(read: _ReadHost) -> Callable[[TopologyText, Request], tuple[Topology, ReadReport]]:
    """Return the reader of a cluster of servers as one reader of a host type describes them."""

    def read_cluster(text: TopologyText, request: Request) -> tuple[Topology, ReadReport]:
        if request.host_types.given:
            raise text.place().error(
                "tells itself what its host is; leave host_type out, or give this file as one."
            )
        if request.levels is not None:
            raise text.place().error("describes one server, which has no levels; leave them out.")
        options = dict(request.options)
        num_hosts = options.pop("num_hosts", 1)
        assert isinstance(num_hosts, int)
        require_count(num_hosts, text.file, "num_hosts", least=1)
        kind, report = read(text, **options)
        return flat_cluster(request.name, kind, num_hosts), report

    return read_cluster


FORMATS = (
    TopologyFormat(
        "nvidia-smi",
        "The matrix of nvidia-smi topo -m: GPUs and NICs of one server.",
        is_nvidia_smi,
        _read(read_nvidia_smi),
        tells_hosts=True,
        options=(
            Option("nvlink_gb_per_s", float, "One NVLink in one direction, GB/s."),
            *(
                dataclasses.replace(option, help="Memory for jobs, GiB.", default=0.0)
                if option.name == "host_memory_gib"
                else option
                for option in _OPTIONS
            ),
        ),
    ),
    TopologyFormat(
        "hwloc",
        "XML that lstopo of hwloc 2 or 3 wrote: NUMA nodes, PCIe and NVLinks of one server.",
        is_hwloc,
        _read(read_hwloc),
        file_names=("*.xml",),
        tells_hosts=True,
        options=_OPTIONS,
    ),
)
"""What `nvidia-smi` and hwloc write."""
