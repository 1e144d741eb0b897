"""Dumps of Kubernetes of realistic shape, and their parts: what kubectl lists, made here."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

GPU = "nvidia.com/gpu"
BLOCK, RACK, HOSTNAME = "example.com/block", "example.com/rack", "kubernetes.io/hostname"
PRODUCTS = {
    "h100": ("NVIDIA-H100-80GB-HBM3", 8, "190", "2000Gi"),
    "a100": ("NVIDIA-A100-SXM4-80GB", 8, "126", "1000Gi"),
    "t4": ("Tesla-T4", 4, "62", "240Gi"),
}
NOON = "2026-05-04T12:00:00Z"

Item = dict[str, Any]


def meta(name: str, namespace: str | None = None, **more: Any) -> Item:
    space = {} if namespace is None else {"namespace": namespace}
    return {
        "name": name,
        **space,
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": NOON,
    } | more


def node(
    name: str,
    kind: str = "h100",
    *,
    rack: str | None = "r0",
    block: str = "b0",
    offers: Item | None = None,
    taints: list[Item] | None = None,
    **spec: Any,
) -> Item:
    product, gpus, cpu, memory = PRODUCTS.get(kind, ("", 0, "62", "240Gi"))
    labels = {HOSTNAME: name, "pool": kind, "kubernetes.io/arch": "amd64"}
    if gpus:
        labels["nvidia.com/gpu.product"] = product
    if rack is not None:
        labels |= {BLOCK: block, RACK: rack}
    gpu = {GPU: str(gpus)} if gpus else {}
    base = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "900Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta(name, labels=labels),
        "spec": {"providerID": f"made:///{name}", **({"taints": taints} if taints else {}), **spec},
        "status": {
            "allocatable": {**base, **gpu, **(offers or {})},
            "capacity": {**base, **gpu},
            "conditions": [{"type": "MemoryPressure", "status": "False"},
                           {"type": "Ready", "status": "True", "lastHeartbeatTime": NOON}],
            "images": [{"names": [f"registry.example/{k}:1", f"registry.example@sha256:{k:064}"],
                        "sizeBytes": 10**9 + k} for k in range(20)],
        },
    }  # fmt: skip


def container(requests: Item | None = None, limits: Item | None = None, **more: Any) -> Item:
    return {"name": "main", "image": "example",
            "resources": {"requests": requests or {}, "limits": limits or {}}, **more}  # fmt: skip


def gpu_spec(gpus: int = 8, cpu: str = "32", memory: str = "200Gi", **spec: Any) -> Item:
    asked = {"cpu": cpu, "memory": memory} | ({GPU: str(gpus)} if gpus else {})
    tolerations = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    return {"containers": [container(asked)], "tolerations": tolerations, **spec}


def pod(name: str, spec: Item, *, on: str | None = None, owner: tuple[str, str] | None = None,
        namespace: str = "team-a", labels: Item | None = None, annotations: Item | None = None,
        phase: str | None = None, deleted: bool = False) -> Item:  # fmt: skip
    owned = [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else []
    more = {"deletionTimestamp": NOON} if deleted else {}
    found = meta(name, namespace, labels=labels or {}, annotations=annotations or {},
                 ownerReferences=owned, **more)  # fmt: skip
    status: Item = {"phase": phase or ("Running" if on else "Pending")}
    if on:
        status["startTime"] = "2026-05-04T11:00:00Z"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": found,
            "spec": {**spec, **({"nodeName": on} if on else {})}, "status": status}  # fmt: skip


def workload(name: str, pod_sets: list[tuple[str, int, Item, Item]], *, queue: str = "main",
             namespace: str = "team-a", version: str = "v1beta1", priority: int = 0,
             admitted: Item | None = None, conditions: list[Item] | None = None,
             **spec: Any) -> Item:  # fmt: skip
    """A Workload of Kueue for a Job; its sets are name, count, spec and topology request."""
    sets = [
        {"name": n, "count": c, "template": {"spec": s}} | ({"topologyRequest": t} if t else {})
        for n, c, s, t in pod_sets
    ]
    status: Item = {"conditions": conditions or []}
    if admitted is not None:
        status["admission"] = {"clusterQueue": "team-a", "podSetAssignments": [
            {"name": pod_sets[0][0], "count": pod_sets[0][1], "flavors": admitted}]}  # fmt: skip
    owned = [{"kind": "Job", "name": name, "controller": True}]
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "Workload",
            "metadata": meta(f"job-{name}-1f2e3", namespace, ownerReferences=owned),
            "spec": {"queueName": queue, "priority": priority, "podSets": sets, **spec},
            "status": status}  # fmt: skip


def cluster_queue(name: str, quota: Item, *, cohort: str | None = None,
                  version: str = "v1beta1", borrowing: int | None = None,
                  reserved: Item | None = None, **spec: Any) -> Item:  # fmt: skip
    """A ClusterQueue with nominal quotas by flavor and resource."""
    more = {} if borrowing is None else {"borrowingLimit": borrowing}
    flavors = [{"name": f, "resources": [
        {"name": r, "nominalQuota": q, **(more if r == GPU else {})} for r, q in own.items()
    ]} for f, own in quota.items()]  # fmt: skip
    covered = list(next(iter(quota.values())))
    field = "cohortName" if version == "v1beta2" else "cohort"
    usage = [{"name": f, "resources": [{"name": r, "total": t} for r, t in own.items()]}
             for f, own in (reserved or {}).items()]  # fmt: skip
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "ClusterQueue",
            "metadata": meta(name),
            "spec": {**({field: cohort} if cohort else {}),
                     "resourceGroups": [{"coveredResources": covered, "flavors": flavors}], **spec},
            "status": {"flavorsReservation": usage} if usage else {}}  # fmt: skip


def local_queue(name: str, cluster_queue: str, namespace: str = "team-a") -> Item:
    return {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue",
            "metadata": meta(name, namespace), "spec": {"clusterQueue": cluster_queue}}  # fmt: skip


def flavor(name: str, **labels: str) -> Item:
    return {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor",
            "metadata": meta(name), "spec": {"nodeLabels": labels}}  # fmt: skip


def kueue_topology(*labels: str) -> Item:
    return {"apiVersion": "kueue.x-k8s.io/v1alpha1", "kind": "Topology",
            "metadata": meta("default"),
            "spec": {"levels": [{"nodeLabel": label} for label in labels]}}  # fmt: skip


def pod_group(name: str, owner: str, least: int, namespace: str = "team-a", **spec: Any) -> Item:
    owned = [{"kind": "Job", "name": owner, "controller": True}]
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": meta(name, namespace, ownerReferences=owned),
            "spec": {"minMember": least, **spec}}  # fmt: skip


def dump(*items: Item) -> Item:
    return {"apiVersion": "v1", "kind": "List", "items": list(items), "metadata": {}}


def save(path: Path, *items: Item) -> Path:
    path.write_text(json.dumps(dump(*items)), encoding="utf-8")
    return path


def large_dump(num_nodes: int, seed: int) -> list[Item]:
    """A cluster with racks of 8 nodes, blocks of 8 racks, MIG, cordoned nodes, gangs and queues.

    Three nodes of four have GPUs in use; each has six pods of DaemonSets.
    """
    random_ = random.Random(seed)
    kinds = ["h100"] * 5 + ["a100"] * 2 + ["mig"] + ["t4"] + ["cpu"]
    items: list[Item] = [kueue_topology(BLOCK, RACK, HOSTNAME)]
    free: dict[str, list[tuple[str, int]]] = {"h100": [], "a100": [], "t4": []}
    for k in range(num_nodes):
        rack = k // 8
        kind = kinds[rack % len(kinds)]
        name = f"{kind}-{k:04}"
        offers = {"nvidia.com/mig-1g.10gb": "28", "nvidia.com/mig-3g.40gb": "4", GPU: "0"}
        base = "a100" if kind == "mig" else kind
        spec = {"unschedulable": True} if random_.random() < 0.02 else {}
        taints = [{"key": GPU, "value": "present", "effect": "NoSchedule"}] if kind != "cpu" else []
        items.append(node(name, base, rack=f"r{rack}", block=f"b{rack // 8}",
                          offers=offers if kind == "mig" else None, taints=taints,
                          **spec))  # fmt: skip
        for d in range(6):
            small = {"containers": [container({"cpu": "100m", "memory": "256Mi"})]}
            items.append(pod(f"agent-{d}-{k}", small, on=name, owner=("DaemonSet", f"agent-{d}"),
                             namespace="kube-system"))  # fmt: skip
        if kind == "mig":
            for m in range(random_.randrange(6)):
                asked = {"cpu": "2", "memory": "8Gi", "nvidia.com/mig-1g.10gb": "1"}
                items.append(pod(f"slice-{k}-{m}", {"containers": [container(asked)],
                                 "tolerations": [{"operator": "Exists"}]}, on=name))  # fmt: skip
        if base in free and kind != "mig":
            free[base].append((name, PRODUCTS[base][1]))
    number = 0
    for kind, nodes in free.items():
        at = 0
        while at < 0.75 * len(nodes):
            size = random_.choice([1, 1, 1, 2, 4, 8])
            stand, at = nodes[at : at + size], at + size
            gpus = stand[0][1] if size > 1 else random_.choice([1, 2, 4])
            number += 1
            space = random_.choice(["team-a", "team-b"])
            owner = f"run-{number}"
            items.append(workload(owner, [("main", len(stand), gpu_spec(gpus), {})],
                                  namespace=space, admitted={GPU: kind}))  # fmt: skip
            items[-1]["status"]["admission"]["clusterQueue"] = space
            items += [
                pod(f"{owner}-{k}", gpu_spec(gpus, nodeSelector={"pool": kind}), on=name,
                    owner=("Job", owner), namespace=space)
                for k, (name, _) in enumerate(stand)
            ]  # fmt: skip
    for k in range(num_nodes // 20):
        size = random_.choice([1, 2, 4, 8, 16])
        space = random_.choice(["team-a", "team-b"])
        asked = random_.choice([{}, {"required": RACK}, {"preferred": RACK}])
        items.append(workload(f"wait-{k}", [("main", size, gpu_spec(8), asked)], namespace=space,
                              version=random_.choice(["v1beta1", "v1beta2"]),
                              priority=random_.choice([0, 100, 1000])))  # fmt: skip
    quota = {kind: {"cpu": 10**6, "memory": "1000Ti", GPU: num_nodes * 4} for kind in free}
    for space in ("team-a", "team-b"):
        items += [cluster_queue(space, quota, cohort="all"), local_queue("main", space, space)]
    items += [flavor(kind, pool=kind) for kind in free]
    return items
