"""Hosts: the nodes of a dump, which of them a pod may use, and what is left of each.

A rule that an instance has no word for becomes a *resource of its name*: the nodes that the rule
admits offer it, as many pieces as pods may stand on them, and each pod with the rule asks for one.
So it stands on these nodes and no others, and what is said of it is exact.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError
from alloc.instances.readers.kubernetes.objects import (
    Dump,
    elements,
    label_of,
    mapping,
    name_of,
    text,
)
from alloc.instances.readers.kubernetes.pods import LEAST_SHARE, NodeRule, PodRequest
from alloc.instances.readers.table import UnreadableRowError
from alloc.instances.topologies.entries import Entry, Lines
from alloc.instances.topologies.formats import Request
from alloc.instances.topologies.host_types import HostTypeChoice
from alloc.instances.topologies.kubernetes_node import (
    KubernetesNode,
    kubernetes_node,
    reason_against,
)
from alloc.instances.topologies.kubernetes_nodes import nodes_topology
from alloc.instances.topologies.kueue import kueue_levels
from alloc.instances.topologies.node_labels import (
    HOSTNAME,
    LABEL_SETS,
    NO_LABELS,
    choose_labels,
    own_levels,
)
from alloc.instances.topologies.place import Place
from alloc.instances.topologies.quantities import quantity
from alloc.topology import Host, HostType, Topology

_REPELS = ("NoSchedule", "NoExecute")
_MAX_PODS = 110
"""Pods that a node takes where it does not say: the default of the kubelet."""
_MAX_NAME = 60
"""Longest part of a rule in the name of its resource; the number behind it tells rules apart."""
_CANNOT_BE_NAMED = re.compile(r"[^\x21-\x7e]")


@dataclass(frozen=True)
class Choice:
    """What the user says of the nodes.

    Parameters
    ----------
    levels
        Labels that are levels, outermost first, with commas; None: those of the dump's Topology, or
        of the set that the nodes have.
    labels
        Name of the set of labels, or ``"none"``; None: told.
    gpu_type
        GPU type of nodes without a label for it.
    memory_step_mib
        Free memory is rounded down to a multiple of this, MiB.
    """

    levels: str | None = None
    labels: str | None = None
    gpu_type: str | None = None
    memory_step_mib: int = 1024


class Hosts:
    """The nodes of a dump.

    Parameters
    ----------
    dump
        The resources.
    choice
        What the user says of them.
    name
        Name of the topology.

    Attributes
    ----------
    topology
        All nodes as they are when nothing runs.
    levels
        Level of each label that is one, and of the label of the node itself.

    Raises
    ------
    InstanceError
        If there is no node, or their labels or GPUs cannot be read.
    """

    def __init__(self, dump: Dump, choice: Choice, name: str) -> None:
        self._log = dump.log
        self._step = choice.memory_step_mib
        file = ", ".join(dump.log.files)
        place = Place(file)
        if self._step < 1:
            raise InstanceError(f"memory_step_mib is {self._step}; give 1 or more.")
        self.nodes: list[KubernetesNode] = []
        self.closed: set[str] = set()
        self._taints: list[tuple[tuple[str, str, str], ...]] = []
        lines = Lines(dict)
        for item in dump.by_kind["Node"]:
            entry = Entry(item, (), file, lines)
            try:
                node, reason = kubernetes_node(entry), reason_against(entry, None)
                taints = _taints(item)
            except (InstanceError, UnreadableRowError):
                dump.log.drop("Node cannot be read; nothing stands there or goes there",
                              label_of(item))  # fmt: skip
                continue
            self.nodes.append(node)
            self._taints.append(taints)
            if reason is not None:
                self.close(node.name, reason)
        if not self.nodes:
            raise InstanceError(
                f"{file}: holds no node, and so no cluster; add what kubectl get nodes -o json "
                "prints."
            )
        self.index = {node.name: h for h, node in enumerate(self.nodes)}
        pairs, labels = self._pairs(dump, choice, place)
        self.levels = {HOSTNAME: "host", **dict(pairs)}
        options: dict[str, object] = {"labels": labels} if labels is not None else {}
        if choice.gpu_type is not None:
            options["gpu_type"] = choice.gpu_type
        request = Request(
            HostTypeChoice(None, file),
            None if labels is not None else tuple(label for label, _ in pairs),
            name,
            options=options,
        )
        self.topology = nodes_topology(self.nodes, request, place, dump.log)
        self._kinds = [self._kind(h) for h in range(len(self.nodes))]
        self._admitted: dict[tuple[NodeRule, str | None], npt.NDArray[np.bool_]] = {}
        self._restrictions: dict[
            tuple[NodeRule, PodRequest], tuple[frozenset[str] | None, str | None]
        ] = {}
        self._names: dict[bytes, str] = {}
        self._marked: dict[str, npt.NDArray[np.bool_]] = {}

    def close(self, name: str, reason: str) -> None:
        """Let a node take no more: what runs there stays, and nothing else comes.

        Parameters
        ----------
        name
            Name of the node.
        reason
            Why, for the report.
        """
        if name not in self.closed:
            self.closed.add(name)
            self._log.alter(f"Node takes no new pods: {reason}", name)

    def _pairs(
        self, dump: Dump, choice: Choice, place: Place
    ) -> tuple[tuple[tuple[str, str], ...], str | None]:
        """Return the labels that are levels with the levels, and the set of labels if it is one."""
        known = list(dict.fromkeys(label for node in self.nodes for label in node.labels))
        if choice.levels is not None:
            if choice.labels is not None:
                raise place.error(f"labels is {choice.labels} and levels are given; give one.")
            return own_levels([one.strip() for one in choice.levels.split(",")], known, place), None
        topologies = dump.by_kind["Topology"] if choice.labels is None else []
        if len(topologies) > 1:
            names = ", ".join(map(label_of, topologies))
            raise place.error(f"holds the Topologies {names}; name the labels with levels.")
        if topologies:
            entry = Entry(topologies[0], (), place.file, Lines(dict))
            return own_levels(kueue_levels(entry), known, place), None
        if choice.labels == NO_LABELS or (
            choice.labels is None and not any(s.levels(known) for s in LABEL_SETS.values())
        ):
            dump.log.notes.append(
                "The cluster is flat: no label is read that says where nodes stand; name the "
                "labels with levels if there are some."
            )
            return (), NO_LABELS
        chosen = choose_labels(choice.labels, known, place)
        assert chosen is not None  # as no labels were asked for above
        return chosen.levels(known), chosen.name

    def _kind(self, h: int) -> HostType:
        """Return what a node offers as the scheduler counts it: GPUs shared in time are many."""
        node, base = self.nodes[h], self.topology.host_type(self.topology.hosts[h])
        count = node.num_gpus_offered
        if count == base.num_gpus:
            return base
        gpu = f"{base.gpu_type or 'generic'}-shared" if count else None
        if count:
            self._log.alter("Node shares its GPUs in time; each turn is a GPU of a type of its own",
                            f"{node.name}: {count} x {gpu}")  # fmt: skip
        return replace(base, num_gpus=count, gpu_type=gpu, links=())

    def gpu_type(self, h: int) -> str | None:
        """Return the GPU type of a node."""
        return self._kinds[h].gpu_type

    def admitted(self, rule: NodeRule, gpu_resource: str | None) -> npt.NDArray[np.bool_]:
        """Return the nodes that a pod may use, shape (hosts,), whatever stands there.

        Parameters
        ----------
        rule
            The pod's rule.
        gpu_resource
            The resource of its whole GPUs, which the nodes must offer; or None.
        """
        key = (rule, gpu_resource)
        if key not in self._admitted:
            self._admitted[key] = np.array(
                [
                    rule.admits(node.name, node.labels, taints)
                    and gpu_resource in (None, node.gpu_resource)
                    for node, taints in zip(self.nodes, self._taints, strict=True)
                ]
            )
        return self._admitted[key]

    def restriction(
        self, rule: NodeRule, request: PodRequest
    ) -> tuple[frozenset[str] | None, str | None]:
        """Return how an instance says which nodes a pod may use.

        Parameters
        ----------
        rule, request
            Of the pod.

        Returns
        -------
        frozenset of str or None, str or None
            The GPU types that say it, None where they do not; and the resource that says it, None
            where nothing need be said.
        """
        if (rule, request) not in self._restrictions:
            self._restrictions[rule, request] = self._restriction(rule, request)
        return self._restrictions[rule, request]

    def _restriction(
        self, rule: NodeRule, request: PodRequest
    ) -> tuple[frozenset[str] | None, str | None]:
        admitted = self.admitted(rule, request.gpu_resource)
        could = np.array(
            [
                node.name not in self.closed
                and (not request.gpu_milli or kind.num_gpus > 0)
                and all(kind.resources.get(name, 0) for name, _ in request.named)
                for node, kind in zip(self.nodes, self._kinds, strict=True)
            ]
        )
        if bool(admitted[could].all()):
            return None, None
        types = frozenset(str(self.gpu_type(int(h))) for h in np.flatnonzero(could & admitted))
        said = np.array([kind.gpu_type in types for kind in self._kinds])
        by_type = types if request.gpu_milli and not (could & (said != admitted)).any() else None
        return by_type, self._name_of(rule, admitted)

    def _name_of(self, rule: NodeRule, admitted: npt.NDArray[np.bool_]) -> str:
        key = admitted.tobytes()
        if key not in self._names:
            word = _CANNOT_BE_NAMED.sub("?", rule.label)[:_MAX_NAME] or "tolerated-taints"
            taken = set(self._names.values())
            name, k = f"node:{word}", 2
            while name in taken:
                name, k = f"node:{word}~{k}", k + 1
            self._names[key] = name
        return self._names[key]

    def use(self, name: str, rule: NodeRule, request: PodRequest) -> None:
        """Let the nodes that a rule admits offer the resource of its name.

        Parameters
        ----------
        name
            Name of the resource.
        rule
            Which nodes a pod may use.
        request
            What the pod asks for.
        """
        self._marked[name] = self.admitted(rule, request.gpu_resource)

    def left(
        self,
        jobs: Mapping[str, Counter[str]],
        others: Mapping[str, Counter[str]],
        resources: Mapping[str, int],
    ) -> Topology:
        """Return the cluster as the jobs of the instance find it.

        Parameters
        ----------
        jobs
            What the jobs of the instance hold on each node, by resource.
        others
            What everything else holds there; it is taken off.
        resources
            What the cluster as a whole offers.
        """
        kinds: dict[HostType, HostType] = {}
        names: Counter[str] = Counter()
        hosts = []
        for h, host in enumerate(self.topology.hosts):
            kind = self._left(h, jobs.get(host.id, Counter()), others.get(host.id, Counter()))
            if kind not in kinds:
                names[kind.name] += 1
                number = names[kind.name]
                kinds[kind] = kind if number == 1 else replace(kind, name=f"{kind.name}.{number}")
            hosts.append(Host(host.id, kinds[kind].name, host.domain))
        return self.topology.replace(
            host_types=tuple(kinds.values()), hosts=tuple(hosts), resources=dict(resources)
        )

    def _left(self, h: int, own: Counter[str], others: Counter[str]) -> HostType:
        node, kind = self.nodes[h], self._kinds[h]
        is_open = node.name not in self.closed
        exact = node.offers.get("memory")
        memory = int(quantity(exact) // 2**20) if exact is not None else 0
        offered = Counter(
            {"gpu": kind.num_gpus, "cpu": kind.cpu_milli, "memory": memory, **kind.resources}
        )
        pods = node.offers.get("pods")
        slots = int(quantity(pods)) if pods is not None else _MAX_PODS
        offered.update({name: slots for name, which in self._marked.items() if which[h]})
        over = [r for r in own if own[r] + others[r] > offered[r] and r not in self._marked]
        if over and is_open:
            self._log.alter("Node holds more than is allocatable on it; it is read as full",
                            f"{node.name}: {', '.join(sorted(over))}")  # fmt: skip
        free = {r: max(offered[r] - others[r], 0) if is_open else 0 for r in {*offered, *own}}
        free["memory"] -= free["memory"] % self._step
        if free["cpu"] < LEAST_SHARE:
            free["cpu"] = 0
        # What stands there has room, whatever is rounded or does not add up.
        amounts = {r: max(free[r], own[r]) for r in sorted(free)}
        count, cpu, memory = (amounts.pop(r) for r in ("gpu", "cpu", "memory"))
        name = f"{count}x{kind.gpu_type}-{cpu}m-{memory}mib" if count else f"cpu-{cpu}m-{memory}mib"
        named = {r: amount for r, amount in amounts.items() if amount}
        return HostType(name, count, kind.gpu_type if count else None, cpu, memory,
                        kind.links if count == kind.num_gpus else (), named)  # fmt: skip

    def flavor_rules(self, dump: Dump) -> dict[str, tuple[dict[str, str], tuple[str, ...]]]:
        """Return the node labels of each ResourceFlavor, and the keys of taints it lets tolerate.

        Parameters
        ----------
        dump
            The resources.
        """
        found = {}
        for item in dump.by_kind["ResourceFlavor"]:
            try:
                labels = {k: str(v) for k, v in mapping(item, "spec", "nodeLabels").items()}
                keys = (text(one, "key") for one in elements(item, "spec", "tolerations"))
                found[name_of(item)] = labels, tuple(key for key in keys if key)
            except UnreadableRowError as reason:
                dump.log.drop(f"ResourceFlavor: {reason}", label_of(item))
        return found


def _taints(node: dict[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """Return key, value and effect of the taints of a node that keep pods away."""
    return tuple(
        (text(one, "key") or "", text(one, "value") or "", text(one, "effect") or "")
        for one in elements(node, "spec", "taints")
        if text(one, "effect") in _REPELS
    )
