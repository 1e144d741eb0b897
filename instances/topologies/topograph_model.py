"""Topograph's model files: switches and blocks of nodes, in YAML.

Three generations are read: lists with ``capacity_blocks``; maps of ``switches``, ``nodes`` and
``capacity_blocks``; and, since release 1.0, a map of ``switches`` with a list of ``blocks``.

References
----------
NVIDIA. Topograph, "Modeling and API simulation". https://docs.nvidia.com/topograph
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.topologies.formats import Request, TopologyFormat
from alloc.instances.topologies.hostlist import expand_hostlist
from alloc.instances.topologies.markup import Entry
from alloc.instances.topologies.place import Place, shown
from alloc.instances.topologies.text import TopologyText
from alloc.instances.topologies.topograph import ACCELERATOR_OPTIONS, Accelerators
from alloc.instances.topologies.topograph_writers import write_topograph_model
from alloc.instances.topologies.tree import TreeBuilder
from alloc.topology import Topology

_STARTS = re.compile(r"^(switches|blocks|capacity_blocks)[ \t]*:", re.MULTILINE)


def read_topograph_model(text: TopologyText, request: Request) -> tuple[Topology, ReadReport]:
    """Read a model file of Topograph.

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
    if len(text.yaml) != 1:
        raise text.place().error(
            f"holds {len(text.yaml)} YAML documents; a model of Topograph is one."
        )
    model = _Model(text, request)
    model.read(text.yaml[0])
    topology = model.tree.build(
        request.name,
        host_types=request.host_types,
        levels=request.levels,
        one_piece=not request.allow_pieces,
    )
    topology = model.accelerators.insert(topology)
    return topology, model.log.report()


class _Model:
    """One reading of a model."""

    def __init__(self, text: TopologyText, request: Request) -> None:
        self.log = ReportLog()
        self.log.files.append(text.file)
        self.tree = TreeBuilder(text.file, domain_word="switch", host_word="node")
        self.accelerators = Accelerators(request, self.log)
        # In which capacity block and switch; the sections may come in any order.
        self.switch_of_block: dict[str, tuple[str, Place]] = {}
        self.known: set[str] = set()

    def read(self, model: Entry) -> None:
        nodes = model.get("nodes")
        for name, node in _named(nodes):
            self.add(name, node.where)
            attributes = node.get("attributes") if node.value is not None else None
            if attributes is not None:
                self.accelerators.domain((name,), attributes.get("nvlink"))
        switches = _named(model.get("switches"))
        generated = all(model.get(key) is None for key in ("nodes", "blocks", "capacity_blocks"))
        for name, switch in switches:
            self.tree.domain(name, switch.where)
        for name, switch in switches:
            if switch.value is not None:
                self.switch(name, switch, generated)
        blocks = model.get("blocks")
        for block in blocks.elements() if blocks is not None else ():
            self.block(block)
        for name, block in _named(model.get("capacity_blocks")):
            if block.value is not None:
                self.capacity_block(name, block, is_complete=nodes is not None)
        for name, (switch_name, where) in self.switch_of_block.items():
            raise where.error(
                f"switch {shown(switch_name)} has capacity block {shown(name)}, which is not "
                "defined; add it under capacity_blocks."
            )
        self.log.rows_read = len(self.known)

    def add(self, node: str, where: Place) -> None:
        self.tree.host(node, where)
        self.known.add(node)

    def switch(self, name: str, switch: Entry, generated: bool) -> None:
        for expression in _texts(switch, "switches"):
            for child in expand_hostlist(expression.text(), expression.where):
                self.tree.put(child, name, expression.where)
                # A switch with nothing but nodes need not be listed.
                if not self.tree.has_domain(child):
                    self.tree.domain(child, expression.where)
        for expression in _texts(switch, "nodes"):
            for node in expand_hostlist(expression.text(), expression.where):
                self.tree.put(node, name, expression.where)
                if generated:
                    self.add(node, expression.where)
        for block in _texts(switch, "capacity_blocks"):
            before = self.switch_of_block.setdefault(block.text(), (name, block.where))
            if before[0] != name:
                raise block.error(
                    f"capacity block {shown(block.text())} hangs on switch {shown(name)} and also "
                    f"on {shown(before[0])}{before[1].on_line}; take it out of one."
                )
        self.unread(switch, "labels", "metadata")

    def block(self, block: Entry) -> None:
        """Read a block of nodes on a switch, as since release 1.0."""
        switch = block.get("switch")
        nodes: list[str] = []
        for expression in _texts(block, "nodes"):
            for node in expand_hostlist(expression.text(), expression.where):
                if switch is not None:
                    self.tree.put(node, switch.text(), expression.where)
                self.add(node, expression.where)
                nodes.append(node)
        self.accelerators.labels(tuple(nodes), block.get("labels"))
        self.accelerators.labels(tuple(nodes), block.get("annotations"))

    def capacity_block(self, name: str, block: Entry, *, is_complete: bool) -> None:
        """Read a capacity block of the generations before; its nodes may be listed elsewhere."""
        switch = self.switch_of_block.pop(name, None)
        nodes: list[str] = []
        for expression in _texts(block, "nodes"):
            for node in expand_hostlist(expression.text(), expression.where):
                if switch is not None:
                    self.tree.put(node, switch[0], expression.where)
                if is_complete and node not in self.known:
                    raise expression.error(
                        f"capacity block {shown(name)} holds node {shown(node)}, which is not "
                        "under nodes; add it there, or leave the section nodes out."
                    )
                if not is_complete:
                    self.add(node, expression.where)
                nodes.append(node)
        attributes = block.get("attributes")
        if attributes is not None:
            self.accelerators.domain(tuple(nodes), attributes.get("nvlink"))
        self.accelerators.domain(tuple(nodes), block.get("nvlink"))

    def unread(self, entry: Entry, *keys: str) -> None:
        """Count labels of switches: what they say of nodes is not read."""
        for key in keys:
            found = entry.get(key)
            for label, _ in found.items() if found is not None else ():
                self.log.alter("label of a switch is not read", label)


def _named(section: Entry | None) -> list[tuple[str, Entry]]:
    """Return the things of a section, which is a map by name or a list of things with a name."""
    if section is None:
        return []
    if isinstance(section.value, list):
        return [(entry.need("name").text(), entry) for entry in section.elements()]
    return list(section.items())


def _texts(entry: Entry, key: str) -> Iterator[Entry]:
    found = entry.get(key)
    return found.elements() if found is not None else iter(())


FORMATS = (
    TopologyFormat(
        "topograph-model",
        "Topograph model in YAML: switches, and blocks of nodes on them.",
        lambda text: _STARTS.search(text.head) is not None,
        read_topograph_model,
        write_topograph_model,
        options=ACCELERATOR_OPTIONS,
    ),
)
"""The format of Topograph's models."""
