"""The cluster: hosts, domains, links, and builders for real machines and fabrics."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from alloc.topology.gpu_types import GPU_TYPES as GPU_TYPES
from alloc.topology.gpu_types import GpuType as GpuType
from alloc.topology.gpu_types import gpu_type as gpu_type
from alloc.topology.host import Domain as Domain
from alloc.topology.host import GpuLink as GpuLink
from alloc.topology.host import Host as Host
from alloc.topology.host import HostType as HostType
from alloc.topology.host import NetworkLink as NetworkLink
from alloc.topology.mig import MIG_PROFILES as MIG_PROFILES
from alloc.topology.mig import MigProfile as MigProfile
from alloc.topology.mig import mig_profiles as mig_profiles
from alloc.topology.network import Network as Network
from alloc.topology.topology import Topology as Topology
from alloc.topology.topology import flat_cluster as flat_cluster

if TYPE_CHECKING:
    from alloc.topology.fabrics import fat_tree as fat_tree
    from alloc.topology.fabrics import gb200_nvl72 as gb200_nvl72
    from alloc.topology.fabrics import leaf_spine as leaf_spine
    from alloc.topology.fabrics import nvl72_cluster as nvl72_cluster
    from alloc.topology.fabrics import rail_optimised as rail_optimised
    from alloc.topology.graphs import from_graph as from_graph
    from alloc.topology.machines import dgx_a100 as dgx_a100
    from alloc.topology.machines import dgx_h100 as dgx_h100
    from alloc.topology.machines import dl2_server as dl2_server
    from alloc.topology.machines import gb200_compute_tray as gb200_compute_tray
    from alloc.topology.machines import hgx_a100 as hgx_a100
    from alloc.topology.machines import hgx_h100 as hgx_h100
    from alloc.topology.machines import pcie_server as pcie_server
    from alloc.topology.queries import bisection_bandwidth as bisection_bandwidth
    from alloc.topology.queries import bottleneck_bandwidth as bottleneck_bandwidth
    from alloc.topology.queries import domains_at as domains_at
    from alloc.topology.queries import hosts_in as hosts_in
    from alloc.topology.queries import meeting_level as meeting_level

# Builders and questions, which no solve needs: they load when somebody asks for one.
_HOMES = {
    name: module
    for module, names in {
        "fabrics": ("fat_tree", "gb200_nvl72", "leaf_spine", "nvl72_cluster", "rail_optimised"),
        "graphs": ("from_graph",),
        "machines": (
            "dgx_a100",
            "dgx_h100",
            "dl2_server",
            "gb200_compute_tray",
            "hgx_a100",
            "hgx_h100",
            "pcie_server",
        ),
        "queries": (
            "bisection_bandwidth",
            "bottleneck_bandwidth",
            "domains_at",
            "hosts_in",
            "meeting_level",
        ),
    }.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
