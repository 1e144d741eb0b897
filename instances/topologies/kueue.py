"""Topologies of Kueue and KAI: a list of node labels, and nodes that have them.

References
----------
Kueue. Topology aware scheduling; Topology API, kueue.x-k8s.io. https://kueue.sigs.k8s.io;
KAI Scheduler. Topology API, kai.scheduler. https://github.com/NVIDIA/KAI-Scheduler
"""

from __future__ import annotations

import re
from dataclasses import replace

from alloc.errors import nearest
from alloc.instances.readers.options import Option
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.topologies.formats import Request, TopologyFormat
from alloc.instances.topologies.hypernodes import NODE_OPTIONS
from alloc.instances.topologies.kubernetes_nodes import read_kubernetes_nodes
from alloc.instances.topologies.markup import Entry
from alloc.instances.topologies.node_labels import HOSTNAME
from alloc.instances.topologies.place import shown
from alloc.instances.topologies.resources import resources
from alloc.instances.topologies.text import TopologyText, read_text
from alloc.topology import Topology

_KIND = re.compile(
    r"""["']?kind["']?\s*:\s*["']?Topology(List)?["']?\s*(,|\}|\#|$)""", re.MULTILINE
)


def read_kueue(text: TopologyText, request: Request) -> tuple[Topology, ReadReport]:
    """Read the levels of a Topology, and build it from the nodes that have its labels.

    Parameters
    ----------
    text
        One Topology, several documents, or the list that ``kubectl get topologies -o yaml`` (or
        ``-o json``) prints.
    request
        What the user wants. The option ``nodes`` is the list of nodes; ``topology`` names the
        Topology where there are several. ``levels`` keeps some of its labels only.

    Raises
    ------
    InstanceError
        If there is no such Topology, or as `read_kubernetes_nodes`.
    """
    log = ReportLog()
    log.files.append(text.file)
    chosen = _chosen(
        list(resources(text, "Topology", log)), text, request.text_option("topology"), log
    )
    labels = kueue_levels(chosen)
    for label in request.levels or ():
        if label not in labels:
            raise chosen.error(
                f"levels names {shown(label)}, which is none of the Topology's labels"
                f"{nearest(label, labels) or '.'} They are {', '.join(labels)}."
            )
    path = str(request.options["nodes"])
    options = {k: v for k, v in request.options.items() if k not in ("nodes", "topology")}
    wanted = tuple(label for label in labels if label in (request.levels or labels))
    topology, report = read_kubernetes_nodes(
        read_text(path), replace(request, levels=wanted, options=options)
    )
    log.also.append(report)
    return topology, log.report()


def kueue_levels(topology: Entry) -> tuple[str, ...]:
    """Return the labels of a Topology, outermost first.

    Raises
    ------
    InstanceError
        If there is none, one is named twice, or the host's own is not the last.
    """
    levels = topology.need("spec").need("levels")
    labels: list[str] = []
    for level in levels.elements():
        label = level.need("nodeLabel")
        if label.text() in labels:
            raise label.error(f"the label {shown(label.text())} is named twice; name it once.")
        if labels and labels[-1] == HOSTNAME:
            raise label.error(
                f"the label {shown(label.text())} comes after {HOSTNAME}, so the levels do not "
                "nest; put it before."
            )
        labels.append(label.text())
    if not labels:
        raise levels.error(f"{levels.label} is empty; name at least one label, outermost first.")
    return tuple(labels)


def _chosen(entries: list[Entry], text: TopologyText, name: str | None, log: ReportLog) -> Entry:
    by_name = {entry.need("metadata").need("name").text(): entry for entry in entries}
    if not by_name:
        raise text.place().error("holds no Topology; one has kind: Topology.")
    if name is None and len(entries) > 1:
        raise text.place().error(
            f"holds {len(entries)} Topologies; choose one with the option topology: "
            f"{', '.join(map(shown, by_name))}."
        )
    if name is not None and name not in by_name:
        raise text.place().error(
            f"holds no Topology {shown(name)}{nearest(name, by_name) or '.'} It holds "
            f"{', '.join(map(shown, by_name))}."
        )
    chosen = entries[0] if name is None else by_name[name]
    for label, entry in by_name.items():
        if entry is not chosen:
            log.drop("Topology that was not asked for", label)
    return chosen


FORMATS = (
    TopologyFormat(
        "kueue",
        "Kueue's or KAI's Topology in YAML or JSON: node labels as levels; needs nodes=.",
        lambda text: _KIND.search(text.head) is not None,
        read_kueue,
        tells_hosts=True,
        options=(
            Option(
                "nodes",
                str,
                "List of nodes, from kubectl get nodes -o json.",
                required=True,
                is_path=True,
            ),
            Option("topology", str, "Name of the Topology, where the file holds several."),
            *NODE_OPTIONS,
        ),
    ),
)
"""The format of Kueue's and KAI's Topologies."""
