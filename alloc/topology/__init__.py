"""The cluster: hosts, domains, links, and builders for real machines and fabrics."""

from alloc.topology.host import Domain as Domain
from alloc.topology.host import GpuLink as GpuLink
from alloc.topology.host import Host as Host
from alloc.topology.host import HostType as HostType
from alloc.topology.host import NetworkLink as NetworkLink
from alloc.topology.topology import Topology as Topology
from alloc.topology.topology import flat_cluster as flat_cluster
