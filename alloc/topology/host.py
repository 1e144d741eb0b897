"""Hosts: kinds of servers, and the servers of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from alloc.errors import InstanceError
from alloc.resources import amounts_of
from alloc.units import MILLI, require_count, require_memory, require_positive, require_share


@dataclass(frozen=True)
class GpuLink:
    """A link between two devices inside a host.

    Parameters
    ----------
    a
        Device within the host: gpu0, nvswitch0, numa0, nic0 ...
    b
        The other device.
    kind
        ``nvlink``, ``nvswitch``, ``pcie``, ``upi`` ...
    bandwidth_gb_per_s
        Bandwidth in one direction, GB/s, more than 0.
    """

    a: str
    b: str
    kind: str
    bandwidth_gb_per_s: float

    def __post_init__(self) -> None:
        if self.a == self.b:
            raise InstanceError(f'link: "{self.a}" is linked to itself; name two devices.')
        require_positive(self.bandwidth_gb_per_s, f"link {self.a}-{self.b}", "bandwidth_gb_per_s")


@dataclass(frozen=True)
class HostType:
    """A kind of server: what one host offers and how its devices are wired.

    Parameters
    ----------
    name
        Unique name, for example ``"dgx-h100"``.
    num_gpus
        Whole GPUs per host, 0 or more.
    gpu_type
        Name of the GPU type; ``None`` for hosts without GPUs.
    cpu_milli
        CPU for jobs, milli-cores (1000 = one core), 0 or more.
    memory_mib
        Host memory for jobs, MiB, 0 or more.
    links
        Links between the devices of the host. A device that is not a GPU (switch, NUMA island,
        NIC) exists by being named in a link.
    resources
        Other resources that one host offers, whole amounts by name, for example
        ``{"nvme_gib": 3500}``; see `alloc.resources`.
    """

    name: str
    num_gpus: int = 0
    gpu_type: str | None = None
    cpu_milli: int = 0
    memory_mib: int = 0
    links: tuple[GpuLink, ...] = ()
    resources: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f'host type "{self.name}"'
        if not self.name:
            raise InstanceError("a host type has an empty name; name it.")
        require_count(self.num_gpus, where, "num_gpus")
        require_share(self.cpu_milli, where, "cpu_milli")
        require_memory(self.memory_mib, where, "memory_mib")
        if self.gpu_type is None and self.num_gpus:
            raise InstanceError(
                f"{where}: has {self.num_gpus} GPUs of no type; set gpu_type, "
                'for example "generic".'
            )
        object.__setattr__(self, "resources", amounts_of(self.resources, where))

    @cached_property
    def capacity(self) -> tuple[int, ...]:
        """GPU, CPU and memory of one host, in the order of `alloc.units.RESOURCES`."""
        return (self.num_gpus * MILLI, self.cpu_milli, self.memory_mib)


@dataclass(frozen=True)
class Host:
    """A server: its id, its type and the innermost domain it stands in.

    Parameters
    ----------
    id
        Unique among hosts and domains.
    type
        Name of one of host_types.
    domain
        Id of the innermost `Domain` (rack, NVLink domain ...), or None in a flat cluster.
    """

    id: str
    type: str
    domain: str | None = None


@dataclass(frozen=True)
class Domain:
    """A network or failure domain: a site, pod, rack, NVLink domain ...

    Parameters
    ----------
    id
        Unique name within the topology, also against hosts.
    level
        One of the topology's levels above ``"host"``.
    parent
        Id of the domain it lies in; ``None`` at the top.
    """

    id: str
    level: str
    parent: str | None = None


@dataclass(frozen=True)
class NetworkLink:
    """A link of the fabric between two nodes of the topology.

    Parameters
    ----------
    a, b
        Ids of hosts, domains, or devices (``"host3/gpu0"``, ``"host3/nic1"``).
    bandwidth_gb_per_s
        Bandwidth in one direction, GB/s, more than 0.
    """

    a: str
    b: str
    bandwidth_gb_per_s: float

    def __post_init__(self) -> None:
        where = f"link {self.a}-{self.b}"
        if self.a == self.b:
            raise InstanceError(f'link: "{self.a}" is linked to itself; name two nodes.')
        require_positive(self.bandwidth_gb_per_s, where, "bandwidth_gb_per_s")
