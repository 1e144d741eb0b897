"""Slurm's ``topology.yaml``: several named topologies in one file.

References
----------
SchedMD. topology.yaml(5); Slurm topology guide. https://slurm.schedmd.com/topology.html
"""

from __future__ import annotations

import re

from alloc.errors import nearest
from alloc.instances.readers.options import Option
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.topologies.formats import Request, TopologyFormat
from alloc.instances.topologies.markup import Entry
from alloc.instances.topologies.place import Place, shown
from alloc.instances.topologies.slurm import Switch, block_topology, ring_topology, tree_topology
from alloc.instances.topologies.text import TopologyText
from alloc.topology import Topology

_KINDS = ("tree", "block", "ring", "flat", "torus3d")
_STARTS = re.compile(r"^-\s+[\"']?topology[\"']?\s*:", re.MULTILINE)


def read_slurm_yaml(text: TopologyText, request: Request) -> tuple[Topology, ReadReport]:
    """Read one topology of a ``topology.yaml``.

    Parameters
    ----------
    text
        The file.
    request
        What the user wants; the option ``topology`` names one of them. Without it the first with
        ``cluster_default: true`` is read, or the only one.

    Raises
    ------
    InstanceError
        If there is no such topology, or it contradicts itself.
    """
    log = ReportLog()
    log.files.append(text.file)
    entries = [entry for document in text.yaml for entry in document.elements()]
    chosen = _chosen(entries, text, request.text_option("topology"))
    for entry in entries:
        if entry is not chosen:
            log.drop("topology that was not asked for", entry.need("topology").text())
    log.rows_read = len(entries)
    said = [kind for kind in _KINDS if _says(chosen, kind)]
    name = chosen.need("topology").text()
    if len(said) != 1:
        raise chosen.error(
            f"topology {shown(name)} says {' and '.join(said) or 'no kind'}; give it exactly one "
            f"of {', '.join(_KINDS[:4])}."
        )
    body = chosen.need(said[0])
    if said[0] == "tree":
        switches = [_switch(entry, "switch") for entry in body.need("switches").elements()]
        topology = tree_topology(switches, text.file, request)
    elif said[0] == "block":
        blocks = [_switch(entry, "block") for entry in body.need("blocks").elements()]
        topology = block_topology(blocks, _sizes(body), text.file, request, log)
    elif said[0] == "ring":
        rings = [_switch(entry, "ring") for entry in body.need("rings").elements()]
        topology = ring_topology(rings, text.file, request)
    elif said[0] == "flat":
        raise chosen.error(
            f"topology {shown(name)} is flat and names no nodes; choose another with the option "
            "topology, or build one with alloc.topology.flat_cluster."
        )
    else:
        raise chosen.error(
            f"topology {shown(name)} is a torus, whose places are not nested domains; choose "
            "another with the option topology."
        )
    return topology, log.report()


def _says(entry: Entry, kind: str) -> bool:
    """Return whether a topology is of a kind; ``flat: false`` says that it is not."""
    body = entry.get(kind)
    return body is not None and (kind != "flat" or body.flag())


def _chosen(entries: list[Entry], text: TopologyText, name: str | None) -> Entry:
    by_name: dict[str, Entry] = {}
    for entry in entries:
        label = entry.need("topology")
        if label.text() in by_name:
            raise label.error(
                f"topology {shown(label.text())} is named twice, first on line "
                f"{by_name[label.text()].where.line}; give each a name of its own."
            )
        by_name[label.text()] = entry
    if not by_name:
        raise text.place().error("holds no topology; begin one with - topology: NAME.")
    if name is not None:
        if name not in by_name:
            raise text.place().error(
                f"holds no topology {shown(name)}{nearest(name, by_name) or '.'} It holds "
                f"{', '.join(map(shown, by_name))}."
            )
        return by_name[name]
    for entry in entries:
        default = entry.get("cluster_default")
        if default is not None and default.flag():
            return entry
    if len(entries) == 1:
        return entries[0]
    raise text.place().error(
        f"holds {len(entries)} topologies and none says cluster_default: true; choose one with the "
        f"option topology: {', '.join(map(shown, by_name))}."
    )


def _switch(entry: Entry, word: str) -> Switch:
    def expression(key: str) -> tuple[str, Place] | None:
        value = entry.get(key)
        return None if value is None else (value.text(), value.where)

    return Switch(entry.need(word).text(), entry.where, expression("nodes"), expression("children"))


def _sizes(body: Entry) -> list[tuple[int, Place]]:
    sizes = body.get("block_sizes")
    if sizes is None:
        return []
    return [(entry.count(least=1), entry.where) for entry in sizes.elements()]


FORMATS = (
    TopologyFormat(
        "slurm-yaml",
        "Slurm topology.yaml: tree, block or ring; several topologies in a file.",
        lambda text: _STARTS.search(text.head) is not None,
        read_slurm_yaml,
        None,
        ("topology.yaml", "topology.yml"),
        options=(
            Option(
                "topology",
                str,
                "Name of the topology to read; by default the one with cluster_default: true.",
            ),
        ),
    ),
)
"""The format of ``topology.yaml``."""
