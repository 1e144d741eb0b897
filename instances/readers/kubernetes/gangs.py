"""Gangs: pods that run together or wait together, and what they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from alloc.instances.readers.kubernetes.objects import first_text, mapping, text, whole
from alloc.instances.readers.kubernetes.pods import LEAST_SHARE, NodeRule, PodRequest
from alloc.instances.readers.table import UnreadableRowError

_TOPOLOGY = "kueue.x-k8s.io/podset-"


@dataclass(frozen=True)
class TopologyRequest:
    """Where the pods of a set shall stand to each other, by node labels.

    Parameters
    ----------
    required, preferred
        Label whose one value must, or should, hold all of them; or None.
    slice_label, slice_size
        Label whose one value must hold each so many of them; None and 0 where not asked for.
    group
        Name that sets have which must stand together, or None.
    """

    required: str | None = None
    preferred: str | None = None
    slice_label: str | None = None
    slice_size: int = 0
    group: str | None = None


@dataclass
class Part:
    """Pods of a gang that are alike.

    Parameters
    ----------
    role
        What they are called.
    count
        How many they are.
    request, rule, topology
        What each asks for, which nodes it may use, and how they shall stand to each other.
    places
        For those that have a node: the node, and the name of the GPU that they share or None.
    """

    role: str
    count: int
    request: PodRequest
    rule: NodeRule
    topology: TopologyRequest
    places: list[tuple[str, str | None]] = field(default_factory=list)


@dataclass
class Gang:
    """Pods that run together or wait together.

    Parameters
    ----------
    id
        Namespace and name, for example ``"team-a/train"``.
    namespace
        Its namespace.
    parts
        Its pods, those alike together.
    runs
        Whether its pods have nodes.
    queue
        Name of the queue it goes through: a LocalQueue of its namespace, or a queue of Volcano or
        KAI; None where it says none.
    cluster_queue, flavors
        The ClusterQueue that admitted it, and the flavour of each resource it was given there.
    priority
        Its priority, by which queues are ordered; 0 by default.
    created_s, started_s
        When it was made and when it began to run, Unix seconds; None where nothing says so.
    limit_s
        Seconds after which it is ended, or None.
    least
        Least pods with which it may start; None: all.
    pinned
        Whether it stays on its nodes whatever it is worth elsewhere.
    in_part
        Whether it is the part that runs, or the part that waits, of a gang that does both.
    """

    id: str
    namespace: str
    parts: list[Part] = field(default_factory=list)
    runs: bool = False
    queue: str | None = None
    cluster_queue: str | None = None
    flavors: dict[str, str] = field(default_factory=dict)
    priority: int = 0
    created_s: float | None = None
    started_s: float | None = None
    limit_s: float | None = None
    least: int | None = None
    pinned: bool = False
    in_part: bool = False

    @property
    def num_pods(self) -> int:
        """Number of its pods."""
        return sum(part.count for part in self.parts)

    @property
    def has_accelerator(self) -> bool:
        """Whether one of its pods asks for one."""
        return any(part.request.has_accelerator for part in self.parts)

    def add(self, role: str, count: int, request: PodRequest, rule: NodeRule,
            topology: TopologyRequest) -> Part:  # fmt: skip
        """Add pods, to those alike if there are; less than the least share of a core is that.

        Parameters
        ----------
        role
            Role of the pods; it gets a number where other pods have it.
        count
            Number of pods, 1 or more.
        request
            What each asks for.
        rule
            Which nodes it may use.
        topology
            Which domains the pods must or should share.
        """
        if 0 < request.cpu_milli < LEAST_SHARE:
            request = replace(request, cpu_milli=LEAST_SHARE)
        for part in self.parts:
            if (part.request, part.rule, part.topology) == (request, rule, topology):
                part.count += count
                return part
        taken = {part.role for part in self.parts}
        name, k = role, 2
        while name in taken:
            name, k = f"{role}-{k}", k + 1
        self.parts.append(Part(name, count, request, rule, topology))
        return self.parts[-1]


def topology_of_notes(notes: Mapping[str, Any]) -> TopologyRequest:
    """Return what annotations of a pod or template ask for: Kueue's, or KAI's."""
    found = {key: first_text(dict(notes), (f"{_TOPOLOGY}{key}",)) for key in (
        "required-topology", "preferred-topology", "slice-required-topology", "slice-size",
        "group-name",
    )}  # fmt: skip
    kai = {key: first_text(dict(notes), (f"kai.scheduler/topology-{key}-placement",))
           for key in ("required", "preferred")}  # fmt: skip
    size = found["slice-size"] or "0"
    if not size.isascii() or not size.isdigit() or len(size) > 6:
        raise UnreadableRowError(f'{_TOPOLOGY}slice-size is "{size}", no whole number')
    return TopologyRequest(
        found["required-topology"] or kai["required"],
        found["preferred-topology"] or kai["preferred"],
        found["slice-required-topology"],
        int(size),
        found["group-name"],
    )


def topology_of_set(pod_set: Any) -> TopologyRequest:
    """Return what a set of pods of a Workload asks for in its own field."""
    asked = mapping(pod_set, "topologyRequest")
    return TopologyRequest(
        text(asked, "required"),
        text(asked, "preferred"),
        text(asked, "podSetSliceRequiredTopology"),
        whole(asked, "podSetSliceSize") or 0,
        text(asked, "podSetGroupName"),
    )
