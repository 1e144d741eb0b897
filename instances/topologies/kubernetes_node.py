"""One node of Kubernetes: its labels, what it offers to pods, and why it takes no new ones.

References
----------
Kubernetes API, "Node".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from alloc.instances.topologies.markup import Entry
from alloc.instances.topologies.place import shown
from alloc.instances.topologies.quantities import quantity
from alloc.instances.topologies.text import TopologyText

GPU_RESOURCES = {
    "nvidia.com/gpu": None,
    "amd.com/gpu": None,
    "gpu.intel.com/i915": "intel-gpu",
    "gpu.intel.com/xe": "intel-gpu",
    "habana.ai/gaudi": "gaudi",
}
"""Resources that are whole GPUs, with the GPU type where no label of the node says it."""
_REPELS = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class KubernetesNode:
    """A node, as far as it has been looked at.

    Parameters
    ----------
    name
        Its name.
    entry
        The whole of it.
    labels
        Its labels that have a value.
    offers
        What is allocatable on it, by resource.
    """

    name: str
    entry: Entry
    labels: dict[str, str]
    offers: dict[str, Entry]

    @property
    def offered_gpus(self) -> dict[str, int]:
        """GPUs that it offers to pods by name, as the scheduler counts them; the most first."""
        entries = ((name, self.offers.get(name)) for name in GPU_RESOURCES)
        counts = {n: int(quantity(e)) for n, e in entries if e is not None and e.value is not None}
        return dict(sorted(counts.items(), key=lambda pair: -pair[1]))

    @property
    def gpu_resource(self) -> str | None:
        """The resource that its GPUs are asked for by; None: it offers none."""
        return next((name for name, count in self.offered_gpus.items() if count), None)

    @property
    def num_gpus_offered(self) -> int:
        """GPUs of `gpu_resource`: those of another maker beside them are other devices."""
        return next(iter(self.offered_gpus.values()), 0)


def kubernetes_node(entry: Entry) -> KubernetesNode:
    """Return a node that has been looked at.

    Parameters
    ----------
    entry
        A resource of kind Node.

    Raises
    ------
    InstanceError
        If it has no name or does not say what is allocatable on it.
    """
    metadata = entry.need("metadata")
    name = metadata.need("name").text()
    found = metadata.get("labels")
    labels = {
        key: str(value.value)
        for key, value in (found.items() if found is not None else ())
        if isinstance(value.value, str | int) and value.value != ""
    }
    status = entry.get("status")
    offers = status.get("allocatable") if status is not None else None
    if offers is None:
        raise entry.error(
            f"node {shown(name)} has no status.allocatable; take the list with `kubectl get "
            "nodes -o json`, which has it."
        )
    return KubernetesNode(name, entry, labels, dict(offers.items()))


def node_entries(text: TopologyText) -> Iterator[Entry]:
    """Yield the nodes of a list, of a single node, or of several YAML documents."""
    documents = (text.json,) if text.text.lstrip().startswith(("{", "[")) else text.yaml
    for document in documents:
        kind = document.get("kind")
        if kind is not None and kind.value == "Node":
            yield document
            continue
        for item in document.need("items").elements():
            kind = item.get("kind")
            if kind is None or kind.value == "Node":
                yield item


def reason_against(node: Entry, tolerated: set[str] | None) -> str | None:
    """Return why a node takes no new pods, or None if it does.

    Parameters
    ----------
    node
        A resource of kind Node.
    tolerated
        Keys of taints that do not matter; None: none does, as pods are asked for theirs.
    """
    spec = node.get("spec")
    if spec is not None:
        cordoned = spec.get("unschedulable")
        if cordoned is not None and cordoned.flag():
            return "cordoned (spec.unschedulable)"
        taints = spec.get("taints") if tolerated is not None else None
        for taint in taints.elements() if taints is not None else ():
            key, effect = taint.need("key").text(), taint.need("effect").text()
            if effect in _REPELS and key not in (tolerated or ()):
                return f"tainted {key}:{effect}"
    status = node.get("status")
    conditions = status.get("conditions") if status is not None else None
    for condition in conditions.elements() if conditions is not None else ():
        if condition.need("type").text() == "Ready" and condition.need("status").value not in (
            "True", "true", True,
        ):  # fmt: skip
            return "not ready"
    return None
