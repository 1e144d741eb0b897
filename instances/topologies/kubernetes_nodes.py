"""Kubernetes nodes: what ``kubectl get nodes -o json`` (or ``-o yaml``) lists.

Labels say where a node stands and what its GPUs are; ``status.allocatable`` says what it offers to
pods. Nodes that take no new pods (cordoned, not ready, tainted) are left out and counted.

References
----------
Kubernetes API, "Node"; NVIDIA GPU feature discovery, list of labels; Kueue, "Topology-aware
scheduling", for the meaning of a list of labels as levels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from alloc.errors import InstanceError, nearest
from alloc.instances.readers.options import Option
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.topologies.formats import Request, TopologyFormat
from alloc.instances.topologies.kubernetes_node import (
    GPU_RESOURCES,
    KubernetesNode,
    kubernetes_node,
    node_entries,
    reason_against,
)
from alloc.instances.topologies.node_domains import Labelled, add_domains, insert_nested
from alloc.instances.topologies.node_labels import (
    CLIQUE,
    LABEL_SETS,
    NO_LABELS,
    NVLINK_LEVEL,
    LabelSet,
    choose_labels,
    own_levels,
)
from alloc.instances.topologies.place import Place, shown
from alloc.instances.topologies.products import is_mig_slice, type_of_product
from alloc.instances.topologies.quantities import quantity
from alloc.instances.topologies.text import TopologyText
from alloc.instances.topologies.tree import TreeBuilder
from alloc.topology import GpuLink, HostType, Topology
from alloc.units import MILLI

_FIRST_GPU = next(iter(GPU_RESOURCES))
_COUNT, _MEMORY, _REPLICAS = (
    "nvidia.com/gpu.count",
    "nvidia.com/gpu.memory",
    "nvidia.com/gpu.replicas",
)
# Who says what the GPUs are, the most exact first.
_PRODUCT = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
)
_MIG_SLICE = re.compile(r"nvidia\.com/mig-.*")
_KIND = re.compile(r"""["']?kind["']?\s*:\s*["']?Node(List)?["']?\s*(,|\}|$)""", re.MULTILINE)
_MIB = 2**20
"""Bytes in a MiB."""
# What jobs with GPUs tolerate without being told: the plugin's own taint.
_TOLERATED = ",".join(GPU_RESOURCES)
_MAX_GPUS = 1000
"""No server has as many; shares under the name of whole GPUs can make it seem so."""
_IN_BYTES = ("ephemeral-storage", "hugepages-")
"""Resources whose quantities are bytes, as those of memory are; all others are counted."""
_NONE = "none"
"""What the option says so that no other resources are read."""


def is_kubernetes_nodes(text: TopologyText) -> bool:
    """Return whether a text looks like a list of Kubernetes nodes in JSON or YAML."""
    return _KIND.search(text.head) is not None


def read_kubernetes_nodes(text: TopologyText, request: Request) -> tuple[Topology, ReadReport]:
    """Read nodes as a topology.

    Parameters
    ----------
    text
        What ``kubectl get nodes -o json`` or ``-o yaml`` printed.
    request
        ``levels`` are labels, outermost first, as in a Topology of Kueue; without them the option
        ``labels`` names a set of known labels. A machine given as host type lends its wiring to
        the nodes that have as many GPUs. Options: see `FORMATS`.

    Returns
    -------
    Topology, ReadReport
        Hosts in the order of the file with what is allocatable on them, memory rounded down so that
        like nodes are of one type; and the nodes that are left out, by reason.

    Raises
    ------
    InstanceError
        If the text is not a list of nodes, a label or level is unknown, levels do not nest, or a
        node does not say how many GPUs it has or of which type.
    """
    log = ReportLog()
    log.files.append(text.file)
    nodes = list(_kept(text, request, log))
    if not nodes:
        reasons = ", ".join(f"{tally.count} x {tally.reason}" for tally in log.report().dropped)
        raise text.place().error(
            f"of {log.rows_read} nodes none takes pods ({reasons or 'the list is empty'}); take "
            "the list again, or keep them all with all_nodes=true."
        )
    return nodes_topology(nodes, request, text.place(), log), log.report()


def nodes_topology(
    nodes: Sequence[KubernetesNode], request: Request, file: Place, log: ReportLog
) -> Topology:
    """Return nodes as the hosts of a topology; see `read_kubernetes_nodes`.

    Parameters
    ----------
    nodes
        The nodes, at least one.
    request
        What the user wants.
    file
        For messages.
    log
        Counts what is changed.

    Raises
    ------
    InstanceError
        If a label or level is unknown, levels do not nest, or a node does not say how many GPUs it
        has or of which type.
    """
    builder = TreeBuilder(file.file, host_word="node")
    types = _HostTypes(request, log)
    types.require_offered(nodes, file)
    kinds: dict[HostType, HostType] = {}
    for node in nodes:
        kind = types.of(node)
        builder.host(node.name, node.entry.where, host_type=kinds.setdefault(kind, kind))
    hosts, levels, local_names = _placed(nodes, request, file, log)
    ordered = add_domains(builder, hosts, levels, local_names)
    return builder.build(
        request.name, host_types=request.host_types, levels=ordered or None, one_piece=False
    )


def _kept(text: TopologyText, request: Request, log: ReportLog) -> Iterator[KubernetesNode]:
    """Yield the nodes that take pods; count the others."""
    keep_all = bool(request.options.get("all_nodes", False))
    tolerated = {key.strip() for key in (request.text_option("tolerate") or _TOLERATED).split(",")}
    for entry in node_entries(text):
        log.rows_read += 1
        metadata = entry.need("metadata")
        name = metadata.need("name").text()
        reason = None if keep_all else reason_against(entry, tolerated)
        if reason is not None:
            log.drop(reason, name)
            continue
        yield kubernetes_node(entry)


def _placed(
    nodes: Sequence[KubernetesNode], request: Request, file: Place, log: ReportLog
) -> tuple[list[Labelled], tuple[str, ...], bool]:
    """Return the nodes with the values of their levels, the levels, and whether names are local."""
    known = list(dict.fromkeys(label for node in nodes for label in node.labels))
    choice = request.text_option("labels")
    if request.levels is not None:
        if choice is not None:
            raise file.error(f"labels is {shown(choice)} and levels are given; give one of them.")
        chosen = None
        pairs = own_levels(request.levels, known, file)
    else:
        chosen = choose_labels(choice, known, file)
        pairs = chosen.levels(known) if chosen is not None else ()
    hosts = [
        Labelled(n.name, n.entry.where, tuple(n.labels.get(label, "") for label, _ in pairs))
        for n in nodes
    ]
    for host in hosts:
        missing = [level for (_, level), value in zip(pairs, host.values, strict=True) if not value]
        if missing:
            log.alter(f"has no label of level {', '.join(missing)}", host.id)
    levels = tuple(level for _, level in pairs)
    if chosen is None:
        return hosts, levels, True
    if request.options.get("nvlink", True):
        hosts, levels = _with_nvlink(chosen, nodes, hosts, levels)
    return hosts, levels, chosen.local_names


def _with_nvlink(
    chosen: LabelSet,
    nodes: Sequence[KubernetesNode],
    hosts: list[Labelled],
    levels: tuple[str, ...],
) -> tuple[list[Labelled], tuple[str, ...]]:
    """Add the level of NVLink domains, by the set's own labels or else by NVIDIA's."""
    own = [label for label in chosen.nvlink if any(label in node.labels for node in nodes)]
    labels = own or [CLIQUE]
    for k, label in enumerate(labels):
        values = {node.name: node.labels[label] for node in nodes if label in node.labels}
        if values:
            level = NVLINK_LEVEL if k == 0 else f"{NVLINK_LEVEL}-part"
            hosts, levels = insert_nested(hosts, levels, values, level)
    return hosts, levels


@dataclass(frozen=True)
class _HostTypes:
    """Makes the host types of nodes."""

    request: Request
    log: ReportLog

    def of(self, node: KubernetesNode) -> HostType:
        """Return what a node offers."""
        num_gpus = self._num_gpus(node)
        gpu = self._gpu_type(node) if num_gpus else None
        if gpu is not None and is_mig_slice(gpu):
            self.log.alter(
                "offers slices of MIG as GPUs (strategy single); they are a GPU type of their own",
                f"{node.name}: {num_gpus} x {gpu}",
            )
        cpu = int(self._offer(node, "cpu") * MILLI)
        memory = self._memory_mib(node)
        machine = self.request.host_types.find(node.name)
        links: tuple[GpuLink, ...] = ()
        if machine is not None and num_gpus:
            if machine.num_gpus == num_gpus:
                links = machine.links
            else:
                self.log.alter(
                    f"has not the {machine.num_gpus} GPUs of {machine.name}: without its wiring",
                    f"{node.name} has {num_gpus}",
                )
        named = self._named(node)
        name = f"{num_gpus}x{gpu}" if num_gpus else "cpu"
        name += f"-{cpu}m-{memory}mib" + "".join(f"-{n}:{amount}" for n, amount in named.items())
        try:
            return HostType(name, num_gpus, gpu, cpu, memory, links, named)
        except InstanceError as error:
            raise node.entry.error(f"node {shown(node.name)}: {error}") from None

    def require_offered(self, nodes: Sequence[KubernetesNode], file: Place) -> None:
        """Refuse names of resources that no node offers."""
        for name in self._wanted or ():
            if not any(name in node.offers for node in nodes):
                known = sorted({offer for node in nodes for offer in node.offers})
                raise file.error(
                    f"resources names {shown(name)}, which no node offers"
                    f"{nearest(name, known, '; they offer ' + ', '.join(known) + '.')}"
                )

    @property
    def _wanted(self) -> tuple[str, ...] | None:
        """The resources to read beside GPUs, CPU and memory; None for all extended ones."""
        text = self.request.text_option("resources")
        if text is None:
            return None
        return () if text == _NONE else tuple(name.strip() for name in text.split(","))

    def _named(self, node: KubernetesNode) -> dict[str, int]:
        """Return what a node offers by other names; bytes in MiB, rounded down as memory is."""
        found = {}
        for name in sorted(node.offers):
            extended = "/" in name and name not in GPU_RESOURCES
            wanted = extended if self._wanted is None else name in self._wanted
            if not wanted or node.offers[name].value is None:
                continue
            amount = quantity(node.offers[name])
            if name.startswith(_IN_BYTES):
                found[f"{name.replace('-', '_')}_mib"] = self._whole_mib(node, amount)
            elif int(amount):
                found[name] = int(amount)
        return found

    def _offer(self, node: KubernetesNode, resource: str) -> Fraction:
        entry = node.offers.get(resource)
        return Fraction(0) if entry is None or entry.value is None else quantity(entry)

    def _memory_mib(self, node: KubernetesNode) -> int:
        return self._whole_mib(node, self._offer(node, "memory"))

    def _whole_mib(self, node: KubernetesNode, amount: Fraction) -> int:
        """Return bytes in MiB, rounded down to a multiple of the option's."""
        step = self.request.options.get("memory_step_mib", 1024)
        assert isinstance(step, int)
        if step < 1:
            raise node.entry.error(f"memory_step_mib is {step}; it must be 1 or more.")
        return math.floor(amount / _MIB / step) * step

    def _num_gpus(self, node: KubernetesNode) -> int:
        offered = node.offered_gpus
        count = node.num_gpus_offered
        if sum(map(bool, offered.values())) > 1:
            self.log.alter(f"offers GPUs of several makers; those of {node.gpu_resource}, the most,"
                           " are read", node.name)  # fmt: skip
        if any(_MIG_SLICE.fullmatch(r) and self._offer(node, r) for r in node.offers):
            self.log.alter(
                "offers MIG slices; each profile is a resource of its name, beside whole GPUs",
                node.name,
            )
        elif not offered:
            count = self._unoffered(node)
        replicas = node.labels.get(_REPLICAS, "1")
        if count and replicas not in ("0", "1") and _COUNT in node.labels:
            self.log.alter("shares its GPUs in time; its whole GPUs are read", node.name)
            count = self._labelled_count(node)
        if count > _MAX_GPUS:
            raise node.entry.error(
                f"node {shown(node.name)} offers {count} GPUs; a node has at most {_MAX_GPUS}."
            )
        return count

    def _labelled_count(self, node: KubernetesNode) -> int:
        text = node.labels[_COUNT]
        if not re.fullmatch(r"[0-9]{1,4}", text, re.ASCII):
            raise node.entry.error(
                f"label {_COUNT} of node {shown(node.name)} is {shown(text)}; give the "
                "number of its GPUs."
            )
        return int(text)

    def _unoffered(self, node: KubernetesNode) -> int:
        """Return the GPUs of a node that offers none by name: none, or as many as it is told."""
        if not any(label in node.labels for label in (*_PRODUCT, _COUNT)):
            return 0
        given = self.request.options.get("gpus_per_node")
        if isinstance(given, int):
            return given
        if _COUNT in node.labels:
            self.log.alter(f"offers no {_FIRST_GPU}; counted by label {_COUNT}", node.name)
            return self._labelled_count(node)
        raise node.entry.error(
            f"node {shown(node.name)} has a GPU by its labels, but neither {_FIRST_GPU} in "
            f"status.allocatable nor the label {_COUNT} says how many; start the device plugin "
            "there, or pass gpus_per_node."
        )

    def _gpu_type(self, node: KubernetesNode) -> str:
        given = self.request.text_option("gpu_type")
        product = next((node.labels[label] for label in _PRODUCT if label in node.labels), given)
        if product is None:
            own = [t for r, t in GPU_RESOURCES.items() if t and self._offer(node, r)]
            product = own[0] if own else None
        if product is None:
            machine = self.request.host_types.find(node.name)
            if machine is not None and machine.gpu_type is not None:
                return machine.gpu_type
            raise node.entry.error(
                f"node {shown(node.name)} offers GPUs, and no label such as {_PRODUCT[0]} says of "
                "which type; run GPU feature discovery there, or pass gpu_type."
            )
        memory = node.labels.get(_MEMORY, "")
        known_memory = int(memory) if re.fullmatch(r"[0-9]{1,9}", memory, re.ASCII) else None
        return type_of_product(product, known_memory)


_OPTIONS = (
    Option(
        "labels",
        str,
        "Set of labels that says where nodes stand; by default the one that they have.",
        choices=(*LABEL_SETS, NO_LABELS),
    ),
    Option("nvlink", bool, "Whether NVLink domains across nodes are a level.", True),
    Option("tolerate", str, "Keys of taints that do not matter, with commas.", _TOLERATED),
    Option("all_nodes", bool, "Also nodes that take no new pods.", False),
    Option("gpu_type", str, "GPU type of nodes without a label for it."),
    Option("gpus_per_node", int, "GPUs of nodes that have some and do not say how many."),
    Option("memory_step_mib", int, "Round memory down to a multiple of this, MiB.", 1024),
    Option(
        "resources",
        str,
        "Other resources to read, with commas, or none; by default the extended ones (a/b).",
    ),
)

FORMATS = (
    TopologyFormat(
        "kubernetes-nodes",
        "Nodes of Kubernetes with their labels, from kubectl get nodes -o json or yaml.",
        is_kubernetes_nodes,
        read_kubernetes_nodes,
        tells_hosts=True,
        options=_OPTIONS,
    ),
)
"""The node list of Kubernetes."""
