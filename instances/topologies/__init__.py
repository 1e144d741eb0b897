"""Topology files: what schedulers and tools write about a cluster, as a topology and back.

Every reader returns the topology together with a `ReadReport` of what in the file is not in it.
"""

from alloc.instances.topologies.formats import TopologyFormat as TopologyFormat
from alloc.instances.topologies.host_types import MACHINES as MACHINES
from alloc.instances.topologies.host_types import HostTypes as HostTypes
from alloc.instances.topologies.host_types import machine as machine
from alloc.instances.topologies.one_host import read_host_type as read_host_type
from alloc.instances.topologies.registry import TOPOLOGY_FORMATS as TOPOLOGY_FORMATS
from alloc.instances.topologies.registry import detect_format as detect_format
from alloc.instances.topologies.registry import read_topology as read_topology
from alloc.instances.topologies.registry import topology_format as topology_format
from alloc.instances.topologies.registry import topology_text as topology_text
from alloc.instances.topologies.registry import write_topology as write_topology
