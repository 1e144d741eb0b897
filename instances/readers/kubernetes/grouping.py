"""Grouping: which pods belong together, what runs of them, and what waits.

Pods of one Workload of Kueue, one PodGroup (Volcano, KAI, coscheduling) or one owner (Job, JobSet,
PyTorchJob ...) are a gang. Pods of a ReplicaSet, a StatefulSet or without an owner stand alone.

References
----------
Kueue, Workload API (kueue.x-k8s.io/v1beta1, v1beta2) and "Topology Aware Scheduling"; Volcano,
PodGroup and Job (batch.volcano.sh/v1alpha1); KAI Scheduler, PodGroup (scheduling.run.ai/v2alpha2).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from alloc.instances.readers.kubernetes.gangs import (
    Gang,
    TopologyRequest,
    topology_of_notes,
    topology_of_set,
)
from alloc.instances.readers.kubernetes.objects import (
    Dump,
    elements,
    first_text,
    id_of,
    is_true,
    label_of,
    mapping,
    name_of,
    node_of,
    owners,
    text,
    time_of,
    value,
    whole,
)
from alloc.instances.readers.kubernetes.pods import (
    MAX_PODS_OF_GANG,
    PodRequest,
    node_rule,
    not_read,
    pod_request,
)
from alloc.instances.readers.report import ReportLog
from alloc.instances.readers.table import UnreadableRowError

# Each of their pods is there for itself.
_INDEPENDENT = ("ReplicaSet", "StatefulSet", "ReplicationController", "Node", "DaemonSet")
_FIXED = ("DaemonSet", "Node")
"""Owners whose pods are of their node, and go nowhere else."""
_WORKLOAD, _POD_GROUP_LABEL = "kueue.x-k8s.io/workload", "kueue.x-k8s.io/pod-group-name"
_QUEUE = "kueue.x-k8s.io/queue-name"
_POD_GROUPS = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "pod-group-name",
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
)
_SETS = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "ray.io/cluster",
    "leaderworkerset.sigs.k8s.io/group-key",
    "batch.kubernetes.io/job-name",
)
_ROLES = (
    "kueue.x-k8s.io/podset",
    "volcano.sh/task-spec",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "training.kubeflow.org/replica-type",
    "ray.io/node-type",
)
_SHARE_GROUP = "runai-gpu-group"
_RESERVATIONS = ("kai-resource-reservation", "runai-reservation")
"""Namespaces of KAI's pods that hold a GPU for those who share it."""
_ENDED = ("Succeeded", "Failed")


class Gangs:
    """The gangs of a dump.

    Parameters
    ----------
    dump
        The resources.
    log
        Counts the gangs that are left out or changed.

    Attributes
    ----------
    gangs
        Those that run or wait and ask for accelerators.
    held
        What other pods hold: the node and what each asks for.
    topologies
        What PodGroups of KAI ask for all of their pods, by the id of the gang.
    """

    def __init__(self, dump: Dump, log: ReportLog) -> None:
        self.log = log
        self.dump = dump
        self.held: list[tuple[str, PodRequest]] = []
        self.gangs: list[Gang] = []
        self._workloads: dict[str, dict[str, Any]] = {}
        self._of_owner: dict[str, str] = {}
        self._pod_groups = {id_of(one): one for one in dump.by_kind["PodGroup"]}
        self._parents = self._owners_of_jobs()
        self._index_workloads()
        self._named: set[str] = set()
        self.topologies = self._topologies()
        self._collect()

    def _owners_of_jobs(self) -> dict[str, str]:
        """Return the controller of each Job that has one, such as its JobSet."""
        found = {}
        for job in self.dump.by_kind["Job"]:
            for _, name, controls in owners(job):
                if controls:
                    found[id_of(job)] = f"{_namespace(job)}/{name}"
        return found

    def _index_workloads(self) -> None:
        for one in self.dump.by_kind["Workload"]:
            if not str(one.get("apiVersion", "kueue.x-k8s.io")).startswith("kueue.x-k8s.io"):
                continue
            self._workloads[id_of(one)] = one
            for _, name, _ in owners(one):
                self._of_owner.setdefault(f"{_namespace(one)}/{name}", id_of(one))

    def _collect(self) -> None:
        members: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for pod in self.dump.by_kind["Pod"]:
            try:
                if text(pod, "status", "phase") in _ENDED:
                    self.dump.log.drop("Pod has ended", label_of(pod))
                    continue
                members[self._key(pod)].append(pod)
            except UnreadableRowError as reason:
                self._cannot_read(pod, reason)
        for (kind, id), pods in members.items():
            self._gang(kind, id, pods)
        self._without_pods({id for _, id in members})

    def _cannot_read(self, pod: dict[str, Any], reason: Exception) -> None:
        self.dump.log.skip(str(reason), self.dump.log.rows_read, f"Pod {label_of(pod)}")
        self.dump.unread_on |= node_of(pod)

    def _key(self, pod: dict[str, Any]) -> tuple[str, str]:
        """Return what a pod belongs to: its kind and its id."""
        space = _namespace(pod)
        labels, notes = mapping(pod, "metadata", "labels"), mapping(pod, "metadata", "annotations")
        owner = next(((kind, name) for kind, name, controls in owners(pod) if controls), None)
        own = next((str(labels[key]) for key in _SETS if labels.get(key)), None)
        above = [f"{space}/{name}" for name in (owner[1] if owner else None, own) if name]
        above += [self._parents[id] for id in above if id in self._parents]
        told = first_text(notes, (_WORKLOAD,)) or first_text(labels, (_POD_GROUP_LABEL,))
        if told is not None:
            return "workload", f"{space}/{told}"
        for id in above:
            if id in self._of_owner:
                return "workload", self._of_owner[id]
        told = first_text(notes, _POD_GROUPS) or first_text(labels, _POD_GROUPS)
        if told is not None:
            return "group", f"{space}/{told}"
        if own is not None:
            return "owner", f"{space}/{own}"
        if owner is not None and owner[0] not in _INDEPENDENT:
            return "owner", above[-1]
        return "pod", id_of(pod)

    def _gang(self, kind: str, id: str, pods: list[dict[str, Any]]) -> None:
        """Make the gangs of pods that belong together: what runs of them, and what waits."""
        running = Gang(id, id.partition("/")[0], runs=True)
        try:
            self._describe(running, kind, id)
        except UnreadableRowError as reason:
            for pod in pods:
                self._cannot_read(pod, reason)
            return
        waiting = replace(running, runs=False, parts=[], flavors=dict(running.flavors))
        self._named.add(running.id)
        held: list[tuple[str, PodRequest]] = []
        waits_whole = True
        for pod in pods:
            try:
                self._add_pod(pod, running, waiting, held)
            except UnreadableRowError as reason:
                self._cannot_read(pod, reason)
                waits_whole = waits_whole and bool(node_of(pod))
        if not (running.has_accelerator or waiting.has_accelerator):
            self.held += held
            if waiting.parts:
                self._left_out(waiting, "asks for no GPU")
            return
        if running.parts:
            self.gangs.append(running)
        if not waiting.parts:
            return
        if not waits_whole:
            self._left_out(waiting, "one of its pods cannot be read")
            return
        if running.parts:
            self.log.alter("runs in part; its pods that wait are a job of their own", running.id)
            waiting.id, waiting.least = f"{running.id}.waiting", None
            running.in_part = waiting.in_part = True
        self.gangs.append(waiting)

    def _add_pod(self, pod: dict[str, Any], running: Gang, waiting: Gang,
                 held: list[tuple[str, PodRequest]]) -> None:  # fmt: skip
        spec = mapping(pod, "spec")
        notes, labels = mapping(pod, "metadata", "annotations"), mapping(pod, "metadata", "labels")
        node = text(spec, "nodeName")
        request = pod_request(spec, notes)
        if request == PodRequest():
            self.dump.log.alter("Pod asks for nothing and is taken to need nothing", id_of(pod))
        if _namespace(pod) in _RESERVATIONS:
            self.dump.log.drop("Pod holds a GPU for those that share it", id_of(pod))
            return
        if elements(spec, "resourceClaims"):
            raise UnreadableRowError("asks for devices by a ResourceClaim, which is not read")
        gang = running if node is not None else waiting
        leaves = value(pod, "metadata", "deletionTimestamp") is not None
        if leaves and node is None:
            self.dump.log.drop("Pod is being deleted and never started", id_of(pod))
            return
        if leaves:
            self.dump.log.alter("Pod is being deleted; it holds its node until it is gone",
                                id_of(pod))  # fmt: skip
        if node is None:
            self._require_gates(spec)
        gang.pinned |= leaves or any(owner in _FIXED for owner, _, _ in owners(pod))
        if request.has_accelerator:
            for reason in not_read(spec):
                self.log.alter(reason, gang.id)
        role = next((str(labels[key]) for key in _ROLES if labels.get(key)), "worker")
        part = gang.add(role, 1, request, node_rule(spec), topology_of_notes(notes))
        if node is not None:
            part.places.append((node, first_text(labels, (_SHARE_GROUP,))))
            held.append((node, request))
        gang.priority = whole(spec, "priority") or gang.priority
        gang.queue = gang.queue or first_text(labels, (_QUEUE,))
        gang.created_s = _first(gang.created_s, time_of(pod, "metadata", "creationTimestamp"))
        gang.started_s = _first(gang.started_s, time_of(pod, "status", "startTime"))
        limit = whole(spec, "activeDeadlineSeconds")
        gang.limit_s = gang.limit_s if limit is None else float(limit)

    def _require_gates(self, spec: dict[str, Any]) -> None:
        for gate in elements(spec, "schedulingGates"):
            if not (text(gate, "name") or "").startswith("kueue.x-k8s.io/"):
                raise UnreadableRowError(f"waits for the gate {text(gate, 'name')}, whatever is "
                                         "free")  # fmt: skip

    def _describe(self, gang: Gang, kind: str, id: str) -> None:
        """Say of a gang what its Workload or PodGroup says."""
        workload, group = self._workloads.get(id), self._pod_groups.get(id)
        if kind == "workload" and workload is not None:
            gang.id = _named_by_owner(workload)
            gang.queue = text(workload, "spec", "queueName")
            gang.cluster_queue = text(workload, "status", "admission", "clusterQueue")
            gang.priority = whole(workload, "spec", "priority") or 0
            gang.created_s = time_of(workload, "metadata", "creationTimestamp")
            limit = whole(workload, "spec", "maximumExecutionTimeSeconds")
            gang.limit_s = None if limit is None else float(limit)
            for one in elements(workload, "status", "admission", "podSetAssignments"):
                gang.flavors.update({k: str(v) for k, v in mapping(one, "flavors").items()})
        if kind == "group" and group is not None:
            gang.id = _named_by_owner(group)
            gang.queue = text(group, "spec", "queue")
            gang.least = whole(group, "spec", "minMember")
            gang.created_s = time_of(group, "metadata", "creationTimestamp")
            if mapping(group, "spec", "networkTopology"):
                self.log.alter("has tiers of HyperNodes (networkTopology), which are not read",
                               gang.id)  # fmt: skip

    def _topologies(self) -> dict[str, TopologyRequest]:
        """Return what PodGroups of KAI ask for all of their pods, by the id of the gang."""
        found = {}
        for group in self._pod_groups.values():
            try:
                asked = mapping(group, "spec", "topologyConstraint")
                request = TopologyRequest(
                    text(asked, "requiredTopologyLevel"), text(asked, "preferredTopologyLevel")
                )
            except UnreadableRowError as reason:
                self.dump.log.alter(f"PodGroup: {reason}", label_of(group))
                continue
            if asked:
                found[_named_by_owner(group)] = request
        return found

    def _without_pods(self, with_pods: set[str]) -> None:
        """Add what waits and has no pods yet: Workloads, and Jobs that have none."""
        for id, workload in self._workloads.items():
            if id not in with_pods:
                self._template_gang(workload, self._of_workload)
        for job in self.dump.by_kind["Job"]:
            known = {id_of(job), self._parents.get(id_of(job), "")}
            if known & self._named or known & self._of_owner.keys():
                continue
            volcano = str(job.get("apiVersion", "")).startswith("batch.volcano.sh")
            self._template_gang(job, self._of_volcano_job if volcano else self._of_job)
        for id, group in self._pod_groups.items():
            name = _named_by_owner(group)
            if id not in with_pods and name not in self._named:
                self.dump.log.drop("PodGroup has no pods, and its job is not in the dump", name)

    def _template_gang(self, item: dict[str, Any], read: Any) -> None:
        gang = Gang(_named_by_owner(item) if item["kind"] == "Workload" else id_of(item),
                    _namespace(item))  # fmt: skip
        try:
            reason = read(item, gang)
            if reason is None and not gang.has_accelerator:
                reason = "asks for no GPU"
        except UnreadableRowError as error:
            reason = str(error)
        if reason is not None:
            self._left_out(gang, reason)
            return
        self._named.add(gang.id)
        self.gangs.append(gang)

    def _left_out(self, gang: Gang, reason: str) -> None:
        self.dump.log.drop(f"gang that waits: {reason}", gang.id)

    def _of_workload(self, workload: dict[str, Any], gang: Gang) -> str | None:
        self._describe(gang, "workload", id_of(workload))
        if is_true(workload, "Finished"):
            return "has ended"
        if value(workload, "spec", "active") is False:
            return "is not active, and waits whatever is free"
        if gang.cluster_queue is not None:
            self.log.alter("is admitted, but no pod of it has a node yet; read as waiting", gang.id)
        for pod_set in elements(workload, "spec", "podSets"):
            count, least = whole(pod_set, "count") or 0, whole(pod_set, "minCount")
            template = mapping(pod_set, "template")
            self._add_template(gang, text(pod_set, "name") or "main", count, template,
                               topology_of_set(pod_set))  # fmt: skip
            if least is not None and least < count:
                gang.least = least
        return None

    def _of_job(self, job: dict[str, Any], gang: Gang) -> str | None:
        if any(is_true(job, condition) for condition in ("Complete", "Failed")):
            return "has ended"
        spec = mapping(job, "spec")
        parallel = whole(spec, "parallelism")
        count = 1 if parallel is None else parallel
        completions = whole(spec, "completions")
        if completions is not None:
            count = min(count, completions - (whole(job, "status", "succeeded") or 0))
        gang.queue = first_text(mapping(job, "metadata", "labels"), (_QUEUE,))
        gang.created_s = time_of(job, "metadata", "creationTimestamp")
        limit = whole(spec, "activeDeadlineSeconds")
        gang.limit_s = None if limit is None else float(limit)
        self._add_template(gang, "worker", count, mapping(spec, "template"), None)
        return None

    def _of_volcano_job(self, job: dict[str, Any], gang: Gang) -> str | None:
        phase = text(job, "status", "state", "phase") or "Pending"
        if phase not in ("Pending", "Running", "Restarting"):
            return f"is a job of Volcano that is {phase}"
        gang.queue = text(job, "spec", "queue") or "default"
        gang.created_s = time_of(job, "metadata", "creationTimestamp")
        gang.least = whole(job, "spec", "minAvailable")
        for task in elements(job, "spec", "tasks"):
            count = whole(task, "replicas")
            self._add_template(gang, text(task, "name") or "worker",
                               1 if count is None else count, mapping(task, "template"),
                               None)  # fmt: skip
        return None

    def _add_template(
        self,
        gang: Gang,
        role: str,
        count: int,
        template: dict[str, Any],
        topology: TopologyRequest | None,
    ) -> None:
        if count < 1:
            return
        if count > MAX_PODS_OF_GANG:
            raise UnreadableRowError(f"asks for {count} pods, more than {MAX_PODS_OF_GANG}")
        spec, notes = mapping(template, "spec"), mapping(template, "metadata", "annotations")
        if elements(spec, "resourceClaims"):
            raise UnreadableRowError("asks for devices by a ResourceClaim, which is not read")
        request = pod_request(spec, notes)
        for reason in not_read(spec) if request.has_accelerator else ():
            self.log.alter(reason, gang.id)
        # A pod that asks for an extended resource is made to tolerate the taint of its name.
        tolerated = [name for name, _ in request.named]
        tolerated += [request.gpu_resource] if request.gpu_resource else []
        asked = topology if topology not in (None, TopologyRequest()) else topology_of_notes(notes)
        gang.add(role, count, request, node_rule(spec, tuple(tolerated)), asked)
        gang.priority = whole(spec, "priority") or gang.priority


def _namespace(item: Any) -> str:
    return text(item, "metadata", "namespace") or "default"


def _named_by_owner(item: dict[str, Any]) -> str:
    """Return the id of what a Workload or PodGroup stands for: its only owner, or itself."""
    names = {name for _, name, _ in owners(item)}
    name = names.pop() if len(names) == 1 else name_of(item)
    return f"{_namespace(item)}/{name}"


def _first(one: float | None, other: float | None) -> float | None:
    return min((t for t in (one, other) if t is not None), default=None)
