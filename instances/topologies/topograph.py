"""Topograph's graph: instances with their switches, closest first, in JSON.

References
----------
NVIDIA. Topograph, "Graph engine" and "Node labels". https://docs.nvidia.com/topograph
"""

from __future__ import annotations

import re

from alloc.instances.readers.options import Option
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.topologies.accelerators import PART_LEVEL, groups_of, insert_groups
from alloc.instances.topologies.formats import Request, TopologyFormat
from alloc.instances.topologies.markup import Entry
from alloc.instances.topologies.node_labels import NVLINK_LEVEL
from alloc.instances.topologies.place import Place, shown
from alloc.instances.topologies.text import TopologyText
from alloc.instances.topologies.topograph_writers import write_topograph_graph
from alloc.instances.topologies.tree import TreeBuilder
from alloc.topology import Topology

DOMAIN_LABELS = (
    "accelerator.topograph.run/domain",
    "accelerator.topology.test/domain",
    "network.topology.nvidia.com/accelerator",
    "nvlink",
)
"""Labels of the accelerator domain: of nodes, in models, before release 1.0, as an attribute."""

PART_LABELS = ("accelerator.topograph.run/sub-domain", "accelerator.topology.test/sub-domain")
"""Labels of a part of an accelerator domain."""

ACCELERATOR_OPTIONS = (
    Option(
        "accelerators",
        str,
        "What accelerator (NVLink) domains become: a level where they nest, or nothing.",
        "nest",
        choices=("nest", "ignore"),
    ),
    Option(
        "accelerator_label",
        str,
        f"Label of the accelerator domain; by default {DOMAIN_LABELS[0]} or its older names.",
    ),
)
"""Options of both formats of Topograph."""

_GRAPH = re.compile(r'\A\s*\{\s*"instances"\s*:')


class Accelerators:
    """Collects the accelerator domains of hosts, and makes levels of them.

    Parameters
    ----------
    request
        What the user wants.
    log
        Counts the labels that are not read.
    """

    def __init__(self, request: Request, log: ReportLog) -> None:
        own = request.text_option("accelerator_label")
        self._labels = (own,) if own else DOMAIN_LABELS
        self._ignored = request.text_option("accelerators") == "ignore"
        self._domains: dict[str, tuple[str, Place]] = {}
        self._parts: dict[str, tuple[str, Place]] = {}
        self._unread: set[str] = set()
        self._log = log

    def labels(self, hosts: tuple[str, ...], labels: Entry | None) -> None:
        """Take the labels that hosts share.

        Parameters
        ----------
        hosts
            Names of the hosts.
        labels
            A mapping of texts; None where there is none.

        Raises
        ------
        InstanceError
            If they are no mapping of texts, or a host has another domain already.
        """
        for key, value in labels.items() if labels is not None else ():
            if key in self._labels:
                self.domain(hosts, value)
            elif key in PART_LABELS:
                _set(self._parts, hosts, value, "part of an accelerator domain")
            elif key not in self._unread:
                self._unread.add(key)
                self._log.alter("label is not read", shown(key)[1:-1])

    def domain(self, hosts: tuple[str, ...], value: Entry | None) -> None:
        """Take the accelerator domain of hosts; nothing where there is none.

        Parameters
        ----------
        hosts
            Names of the hosts.
        value
            Name of the domain.
        """
        if value is not None:
            _set(self._domains, hosts, value, "accelerator domain")

    def insert(self, topology: Topology) -> Topology:
        """Return the topology with the levels of the domains and of their parts.

        Raises
        ------
        InstanceError
            If they do not nest.
        """
        if self._ignored:
            for group in groups_of(self._domains):
                self._log.drop("accelerator domain", group.id)
            return topology
        topology = insert_groups(topology, NVLINK_LEVEL, groups_of(self._domains))
        return insert_groups(topology, PART_LEVEL, groups_of(self._parts))


def _set(
    values: dict[str, tuple[str, Place]], hosts: tuple[str, ...], value: Entry, what: str
) -> None:
    name = value.text()
    if not name.isprintable():
        raise value.error(f"{what} {shown(name)} has a control character in its name; take it out.")
    for host in hosts:
        before = values.setdefault(host, (name, value.where))
        if before[0] != name:
            raise value.error(
                f"host {shown(host)} is in {what} {shown(name)} and also in {shown(before[0])}"
                f"{before[1].on_line}; name one."
            )


def read_topograph_graph(text: TopologyText, request: Request) -> tuple[Topology, ReadReport]:
    """Read what Topograph's graph engine wrote.

    Parameters
    ----------
    text
        The file.
    request
        What the user wants; for its options see `ACCELERATOR_OPTIONS`.

    Raises
    ------
    InstanceError
        If it is no such file, or the switches make no tree.
    """
    log = ReportLog()
    log.files.append(text.file)
    tree = TreeBuilder(text.file, domain_word="switch", host_word="instance")
    accelerators = Accelerators(request, log)
    for entry in text.json.need("instances").elements():
        log.rows_read += 1
        name = entry.need("id").text()
        layers = entry.get("network_layers")
        below = name
        for layer in layers.elements() if layers is not None else ():
            if not tree.has_domain(layer.text()):
                tree.domain(layer.text(), layer.where)
            tree.put(below, layer.text(), layer.where, again=below != name)
            below = layer.text()
        tree.host(name, entry.where)
        accelerators.labels((name,), entry.get("labels"))
        accelerators.labels((name,), entry.get("attributes"))
    topology = tree.build(
        request.name,
        host_types=request.host_types,
        levels=request.levels,
        one_piece=not request.allow_pieces,
    )
    return accelerators.insert(topology), log.report()


def _is_graph(text: TopologyText) -> bool:
    keys = ('"instances"', '"network_layers"')
    return _GRAPH.match(text.head) is not None or (
        text.head.lstrip().startswith("{") and all(key in text.head for key in keys)
    )


FORMATS = (
    TopologyFormat(
        "topograph-graph",
        "Topograph graph in JSON: instances, with their switches closest first.",
        _is_graph,
        read_topograph_graph,
        write_topograph_graph,
        options=ACCELERATOR_OPTIONS,
    ),
)
"""The format of Topograph's graph engine."""
