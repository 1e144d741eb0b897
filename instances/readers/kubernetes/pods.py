"""Pods: what one asks for, and which nodes it may use.

References
----------
Kubernetes, "Resource Management for Pods and Containers", "Sidecar Containers" and "Assigning Pods
to Nodes". KAI Scheduler, "GPU Sharing". Alibaba, open-gpu-share: annotation of shares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any

from alloc.instances.readers.kubernetes.objects import elements, first_text, mapping, text, value
from alloc.instances.readers.table import UnreadableRowError
from alloc.instances.topologies.kubernetes_node import GPU_RESOURCES
from alloc.instances.topologies.quantities import amount_in
from alloc.resources import MAX_AMOUNT
from alloc.units import MILLI

_MIB = 2**20
"""Bytes in a MiB."""
_PER_UNIT = {"cpu": MILLI}
# A slice, a share or a device of another maker: asked for by name, as whole pieces.
_ACCELERATOR = re.compile(
    r"nvidia\.com/(mig-.*|.*gpu.*)|.*/(v?gpu|neuron|tpu|npu|ascend).*", re.IGNORECASE
)
_FRACTION, _GPU_MEMORY = ("gpu-fraction",), ("gpu-memory",)
_GPU_MILLI, _GPU_COUNT = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-count"
LEAST_SHARE = 10
"""Least share of a GPU or a core, in thousandths, that `alloc.workload.TaskGroup` knows."""
_MAX_MEMORY_MIB = 64 * 2**20
"""64 TiB: no server has more, and no instance says more."""
MAX_PODS_OF_GANG = 100_000
"""Most pods of a gang: more than any cluster of Kubernetes runs in one job."""


@dataclass(frozen=True)
class PodRequest:
    """What a pod asks for.

    Parameters
    ----------
    gpu_resource
        The resource that its whole GPUs have, for example ``"nvidia.com/gpu"``, or None.
    gpu_milli
        GPU, milli-GPU: whole GPUs, or a share of one.
    gpu_memory_mib
        GPU memory of a share that says no fraction, MiB; 0: none.
    cpu_milli, memory_mib
        CPU, milli-cores, and memory, MiB.
    named
        Other extended resources with their amounts, sorted.
    """

    gpu_resource: str | None = None
    gpu_milli: int = 0
    gpu_memory_mib: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    named: tuple[tuple[str, int], ...] = ()

    @property
    def has_accelerator(self) -> bool:
        """Whether it asks for a GPU, a part of one, or a device of another maker."""
        named = any(_ACCELERATOR.fullmatch(name) for name, _ in self.named)
        return bool(self.gpu_milli or self.gpu_memory_mib) or named

    @property
    def shares(self) -> bool:
        """Whether it asks for a part of a GPU, which others may share."""
        return 0 < self.gpu_milli < MILLI or self.gpu_memory_mib > 0

    @property
    def label(self) -> str:
        """What it asks for in a few words: ``8 GPU, 32 CPU, 65536 MiB``."""
        gpu = [f"{self.gpu_milli / MILLI:g} GPU"] if self.gpu_milli else []
        memory = [f"{self.gpu_memory_mib} MiB of a GPU"] if self.gpu_memory_mib else []
        named = [f"{amount} {name}" for name, amount in self.named]
        host = [f"{self.cpu_milli / MILLI:g} CPU", f"{self.memory_mib} MiB"]
        return ", ".join([*gpu, *memory, *named, *host])


@lru_cache(maxsize=4096)
def _amount(resource: str, quantity: str) -> int:
    """Return a quantity in milli-cores, bytes or pieces; parts of them count as whole."""
    found = amount_in(quantity)
    if found is None:
        raise UnreadableRowError(f'asks for {resource} "{quantity}", which is no quantity')
    if "/" in resource and found.denominator != 1:
        raise UnreadableRowError(f'asks for {resource} "{quantity}", which is no whole number')
    return ceil(found * _PER_UNIT.get(resource, 1))


def _asked(resources: Mapping[str, Any]) -> dict[str, int]:
    """Return what a container asks for; a limit without a request is one."""
    both = {**mapping(resources, "limits"), **mapping(resources, "requests")}
    return {name: _amount(name, str(amount)) for name, amount in both.items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)


def effective_request(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return what the scheduler counts for a pod: milli-cores, bytes, pieces.

    Containers run together, and sidecars (init containers that restart always) with them and with
    the init containers after them, which run one by one: the larger of the sum and of each init
    container with the sidecars before it. What the pod as a whole says counts before its
    containers' CPU and memory; its overhead comes on top.

    Parameters
    ----------
    spec
        The ``spec`` of a pod or of a template.

    Raises
    ------
    UnreadableRowError
        If a quantity cannot be read.
    """
    total: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in elements(spec, "containers"):
        _add(total, _asked(mapping(container, "resources")))
    for container in elements(spec, "initContainers"):
        asked = _asked(mapping(container, "resources"))
        if value(container, "restartPolicy") == "Always":
            _add(sidecars, asked)
            asked = {}
        together = dict(sidecars)
        _add(together, asked)
        _raise_to(peak, together)
    _add(total, sidecars)
    _raise_to(total, peak)
    total.update(_asked(mapping(spec, "resources")))
    _add(total, {n: _amount(n, str(amount)) for n, amount in mapping(spec, "overhead").items()})
    return total


def pod_request(spec: Mapping[str, Any], annotations: Mapping[str, Any]) -> PodRequest:
    """Return what a pod asks for, by its containers and by the annotations of shares.

    Parameters
    ----------
    spec, annotations
        Of a pod or of a template.

    Raises
    ------
    UnreadableRowError
        If an amount cannot be read, or two makers' GPUs are asked for.
    """
    total = effective_request(spec)
    gpus = {name: total[name] for name in GPU_RESOURCES if total.get(name)}
    if len(gpus) > 1:
        raise UnreadableRowError(f"asks for GPUs of two kinds: {' and '.join(gpus)}")
    resource, count = next(iter(gpus.items()), (None, 0))
    milli, memory = _share(dict(annotations))
    if milli or memory:
        count = 0
    named = tuple(
        sorted((n, a) for n, a in total.items() if "/" in n and n not in GPU_RESOURCES and a)
    )
    cpu, memory_mib = total.get("cpu", 0), -(-total.get("memory", 0) // _MIB)
    asked = (("milli-GPU", count * MILLI + milli), ("milli-cores", cpu), ("MiB", memory_mib))
    for name, amount in (*named, *asked):
        if amount > (_MAX_MEMORY_MIB if name == "MiB" else MAX_AMOUNT):
            raise UnreadableRowError(f"asks for {amount:,} {name}, more than there can be")
    return PodRequest(
        resource,
        count * MILLI + milli,
        memory,
        cpu,
        memory_mib,
        named,
    )


def _share(annotations: dict[str, Any]) -> tuple[int, int]:
    """Return the share of a GPU that annotations ask for, milli-GPU, or its GPU memory, MiB."""
    fraction, memory = first_text(annotations, _FRACTION), first_text(annotations, _GPU_MEMORY)
    if fraction is not None:
        found = amount_in(fraction)
        if found is None or not LEAST_SHARE <= found * MILLI <= MILLI:
            raise UnreadableRowError(f'gpu-fraction is "{fraction}"; it is from 0.01 to 1')
        return ceil(found * MILLI), 0
    if memory is not None:
        found = amount_in(memory)
        if found is None or not 1 <= found <= 10**7:
            raise UnreadableRowError(f'gpu-memory is "{memory}"; it is a number of MiB')
        return 0, ceil(found)
    milli, count = (amount_in(str(annotations.get(key, "0"))) for key in (_GPU_MILLI, _GPU_COUNT))
    if not milli or (count or 1) > 1:
        return 0, 0
    if not LEAST_SHARE <= milli <= MILLI:
        raise UnreadableRowError(f"{_GPU_MILLI} is {milli}; it is from {LEAST_SHARE} to {MILLI}")
    return ceil(milli), 0


@dataclass(frozen=True)
class Requirement:
    """What a node's label, or its name, must be.

    Parameters
    ----------
    key
        The label; ``metadata.name`` the name of the node where `of_field`.
    operator
        In, NotIn, Exists, DoesNotExist, Gt or Lt.
    values
        What it is held against.
    of_field
        Whether it is about a field and not a label.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()
    of_field: bool = False

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node of that name with these labels will do.

        Parameters
        ----------
        name
            Name of the node.
        labels
            Its labels.
        """
        found = name if self.of_field else labels.get(self.key)
        match self.operator:
            case "In":
                return found in self.values
            case "NotIn":
                return found not in self.values
            case "Exists":
                return found is not None
            case "DoesNotExist":
                return found is None
        if found is None or not re.fullmatch(r"-?[0-9]{1,18}", found):
            return False
        bound = int(self.values[0])
        return int(found) > bound if self.operator == "Gt" else int(found) < bound

    def __str__(self) -> str:
        if self.operator == "In" and len(self.values) == 1:
            return f"{self.key}={self.values[0]}"
        sign = {"Exists": "", "DoesNotExist": "!"}.get(self.operator)
        if sign is not None:
            return f"{sign}{self.key}"
        return f"{self.key}:{self.operator}:{'|'.join(self.values)}"


@dataclass(frozen=True)
class NodeRule:
    """Which nodes a pod may use.

    Parameters
    ----------
    required
        What must all hold (``nodeSelector``).
    terms
        Of which one must hold as a whole (required node affinity); empty: no such rule.
    tolerations
        Key (None: any), value (None: any) and effect (None: any) of the taints that it tolerates.
    """

    required: tuple[Requirement, ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[tuple[str | None, str | None, str | None], ...] = ()

    def admits(
        self, name: str, labels: Mapping[str, str], taints: tuple[tuple[str, str, str], ...]
    ) -> bool:
        """Return whether a node will do.

        Parameters
        ----------
        name, labels
            Of the node.
        taints
            Key, value and effect of its taints that keep pods away.
        """
        return (
            all(one.holds(name, labels) for one in self.required)
            and (
                not self.terms
                # A term without a requirement holds nowhere.
                or any(term and all(one.holds(name, labels) for one in term) for term in self.terms)
            )
            and all(self._tolerates(*taint) for taint in taints)
        )

    def _tolerates(self, key: str, taint_value: str, effect: str) -> bool:
        return any(
            k in (None, key) and v in (None, taint_value) and e in (None, effect)
            for k, v, e in self.tolerations
        )

    def with_labels(self, labels: Mapping[str, str]) -> NodeRule:
        """Return the rule with labels that the node must have besides."""
        more = (Requirement(key, "In", (str(labels[key]),)) for key in sorted(labels))
        required = tuple(dict.fromkeys((*self.required, *more)))
        return NodeRule(required, self.terms, self.tolerations)

    @property
    def label(self) -> str:
        """What it asks of a node, as one word."""
        terms = "|".join("+".join(map(str, term)) for term in self.terms)
        return "+".join([*map(str, self.required), *([terms] if terms else [])])


def node_rule(spec: Mapping[str, Any], tolerated: Iterator[str] | tuple[str, ...] = ()) -> NodeRule:
    """Return which nodes a pod may use.

    Parameters
    ----------
    spec
        Of a pod or of a template.
    tolerated
        Keys of taints that it will be made to tolerate before it is scheduled.

    Raises
    ------
    UnreadableRowError
        If a rule cannot be read.
    """
    selector = mapping(spec, "nodeSelector")
    required = tuple(Requirement(key, "In", (str(selector[key]),)) for key in sorted(selector))
    path = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = tuple(
        (
            *_requirements(term, "matchExpressions"),
            *_requirements(term, "matchFields", of_field=True),
        )
        for term in elements(mapping(spec, *path), "nodeSelectorTerms")
    )
    tolerations = [_toleration(one) for one in elements(spec, "tolerations")]
    tolerations += [(key, None, None) for key in tolerated]
    return NodeRule(required, terms, tuple(dict.fromkeys(tolerations)))


def _requirements(term: Any, key: str, *, of_field: bool = False) -> Iterator[Requirement]:
    for one in elements(term, key):
        operator, label = text(one, "operator"), text(one, "key")
        values = tuple(str(v) for v in elements(one, "values"))
        known = operator in ("In", "NotIn", "Exists", "DoesNotExist")
        if operator in ("Gt", "Lt"):
            known = len(values) == 1 and re.fullmatch(r"-?[0-9]{1,18}", values[0]) is not None
        if label is None or not known:
            raise UnreadableRowError(f"its node affinity has an operator {operator} of {label}")
        yield Requirement(label, str(operator), values, of_field)


def _toleration(one: Any) -> tuple[str | None, str | None, str | None]:
    of_value = text(one, "operator") != "Exists"
    return text(one, "key"), (text(one, "value") or "") if of_value else None, text(one, "effect")


def not_read(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rules of a pod that are not in an instance, in a few words.

    Parameters
    ----------
    spec
        Of a pod or of a template.
    """
    affinity = mapping(spec, "affinity")
    hard, soft = (f"{k}DuringSchedulingIgnoredDuringExecution" for k in ("required", "preferred"))
    for kind, words in (("podAffinity", "near"), ("podAntiAffinity", "away from")):
        if elements(affinity, kind, hard):
            yield f"must stand {words} other pods ({kind}), which is not read"
    if any(elements(affinity, kind, soft) for kind in affinity):
        yield "prefers some nodes or neighbours (affinity), which is not read"
    if any(
        value(one, "whenUnsatisfiable") == "DoNotSchedule"
        for one in elements(spec, "topologySpreadConstraints")
    ):
        yield "must be spread (topologySpreadConstraints), which is not read"
    if any(value(one, "persistentVolumeClaim") for one in elements(spec, "volumes")):
        yield "has a volume, which may tie it to a zone or node; that is not read"
