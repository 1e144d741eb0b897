"""Quotas: what the queues of Kueue, Volcano and KAI allow.

A quota of GPUs that is one number for a queue is that of a tenant, which may borrow in its cohort.
Every other quota (of one flavour among several, of CPU, memory or slices) is a resource of the
cluster: ``quota:team-a:h100:cpu`` has as many pieces as the queue may hold, and each pod of the
queue takes its part. A quota that all that the queue could run stays within is no limit, and is
left out.

References
----------
Kueue, ClusterQueue, LocalQueue, Cohort (kueue.x-k8s.io/v1beta1, v1beta2); Volcano, Queue
(scheduling.volcano.sh/v1beta1); KAI Scheduler, Queue (scheduling.run.ai/v2).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any

from alloc.instances.readers.kubernetes.gangs import Gang
from alloc.instances.readers.kubernetes.objects import (
    Dump,
    elements,
    first_text,
    id_of,
    label_of,
    mapping,
    name_of,
    text,
    value,
)
from alloc.instances.readers.kubernetes.pods import PodRequest
from alloc.instances.readers.table import UnreadableRowError
from alloc.instances.topologies.kubernetes_node import GPU_RESOURCES
from alloc.instances.topologies.quantities import amount_in
from alloc.problems.allocation.instance import Tenant
from alloc.resources import MAX_AMOUNT
from alloc.units import MILLI

_ANY_GPU = "gpu"
"""What KAI calls GPUs of any maker."""
_HELD = ("Hold", "HoldAndDrain")

Key = tuple[str, str, str]
"""Queue, flavour and resource of a quota; the flavour is empty where there are none."""


@dataclass
class Quota:
    """How much of a resource a queue may hold.

    Parameters
    ----------
    nominal
        What is its own: GPUs, milli-cores, MiB or pieces.
    borrowing
        What it may hold beyond that, if its cohort has it idle; None: all that there is.
    reserved
        What the queue says that it has given out; None: it says nothing.
    """

    nominal: int
    borrowing: int | None = 0
    reserved: int | None = None


def _quota_amount(request: PodRequest, resource: str) -> int:
    """Return what a pod takes of a quota: GPUs, milli-cores, MiB or pieces."""
    if resource == "cpu":
        return request.cpu_milli
    if resource == "memory":
        return request.memory_mib
    if resource == "pods":
        return 1
    if resource in (_ANY_GPU, request.gpu_resource):
        # Shares by annotation are no GPUs to those who count resources, but to KAI, which rounds.
        return -(-request.gpu_milli // MILLI)
    return dict(request.named).get(resource, 0)


def _limit(resource: str, quantity: object) -> int:
    found = amount_in(str(quantity))
    if found is None:
        raise UnreadableRowError(f'quota of {resource} is "{quantity}", which is no quantity')
    unit = {"cpu": Fraction(MILLI), "memory": Fraction(1, 2**20)}.get(resource, Fraction(1))
    return floor(found * unit)


class Quotas:
    """The quotas of a dump.

    Parameters
    ----------
    dump
        The resources.

    Attributes
    ----------
    quotas
        By queue, flavour and resource.
    cohorts
        Cohort of each queue that has one: the outermost.
    stopped
        Queues that admit nothing.
    left_out
        What gangs that run and are not in the instance hold of each quota.
    """

    def __init__(self, dump: Dump) -> None:
        self.log = dump.log
        self.quotas: dict[Key, Quota] = {}
        self.cohorts: dict[str, str] = {}
        self.stopped: set[str] = set()
        self.left_out: Counter[Key] = Counter()
        self._told: set[tuple[str, ...]] = set()
        self._groups: dict[str, list[tuple[list[str], list[str]]]] = defaultdict(list)
        self._local: dict[str, str] = {}
        self._parents: dict[str, str] = {}
        for kind, read in (
            ("Cohort", self._cohort),
            ("ClusterQueue", self._cluster_queue),
            ("LocalQueue", self._local_queue),
            ("Queue", self._queue),
        ):
            for item in dump.by_kind[kind]:
                try:
                    read(item)
                except UnreadableRowError as reason:
                    dump.log.drop(f"{kind}: {reason}", label_of(item))
        for queue, cohort in self.cohorts.items():
            self.cohorts[queue] = self._outermost(cohort)

    def _outermost(self, cohort: str) -> str:
        seen = {cohort}
        while (above := self._parents.get(cohort)) is not None and above not in seen:
            self.log.alter("Cohort lies in another; limits between the two are not read", cohort)
            seen.add(above)
            cohort = above
        return cohort

    def _cohort(self, item: dict[str, Any]) -> None:
        name = name_of(item)
        above = first_text(mapping(item, "spec"), ("parentName", "parent"))
        if above is not None:
            self._parents[name] = above
        self._groups_of(item, f"cohort:{name}")
        self.cohorts[f"cohort:{name}"] = name

    def _cluster_queue(self, item: dict[str, Any]) -> None:
        name = name_of(item)
        cohort = first_text(mapping(item, "spec"), ("cohortName", "cohort"))
        if cohort is not None:
            self.cohorts[name] = cohort
        if text(item, "spec", "stopPolicy") in _HELD:
            self.stopped.add(name)
        self._groups_of(item, name)
        for flavor in elements(item, "status", "flavorsReservation"):
            for one in elements(flavor, "resources"):
                resource = text(one, "name") or ""
                known = self.quotas.get((name, text(flavor, "name") or "", resource))
                if known is not None and value(one, "total") is not None:
                    known.reserved = _limit(resource, value(one, "total"))

    def _groups_of(self, item: dict[str, Any], name: str) -> None:
        self._groups[name] = []
        for group in elements(item, "spec", "resourceGroups"):
            flavors = elements(group, "flavors")
            names = [text(flavor, "name") or "" for flavor in flavors]
            covered = [str(one) for one in elements(group, "coveredResources")]
            self._groups[name].append((covered, names))
            for flavor, own in zip(flavors, names, strict=True):
                for one in elements(flavor, "resources"):
                    resource = text(one, "name") or ""
                    quota = Quota(_limit(resource, value(one, "nominalQuota") or 0))
                    if name in self.cohorts:
                        most = value(one, "borrowingLimit")
                        quota.borrowing = None if most is None else _limit(resource, most)
                    if value(one, "lendingLimit") is not None:
                        self.log.alter("ClusterQueue has a lendingLimit, which is not read: the "
                                       "others may borrow all that it leaves idle",
                                       name)  # fmt: skip
                    self.quotas[name, own, resource] = quota

    def _local_queue(self, item: dict[str, Any]) -> None:
        cluster_queue = text(item, "spec", "clusterQueue")
        if cluster_queue is not None:
            self._local[id_of(item)] = cluster_queue
        if text(item, "spec", "stopPolicy") in _HELD:
            self.stopped.add(id_of(item))

    def _queue(self, item: dict[str, Any]) -> None:
        """Read a queue of Volcano or KAI: its hard limits."""
        name = name_of(item)
        if text(item, "status", "state") in ("Closed", "Closing"):
            self.stopped.add(name)
        for resource, quantity in mapping(item, "spec", "capability").items():
            self.quotas[name, "", resource] = Quota(_limit(resource, quantity))
        most = value(item, "spec", "resources", "gpu", "limit")
        known = isinstance(most, int | float) and not isinstance(most, bool)
        if known and 0 <= most <= MAX_AMOUNT:
            self.quotas[name, "", _ANY_GPU] = Quota(floor(most))
        if any(mapping(item, "spec").get(k) for k in ("deserved", "guarantee", "resources")):
            self.log.alter("Queue has shares that can be taken back (deserved, guarantee, quota); "
                           "only its limits are read", name)  # fmt: skip
        if first_text(mapping(item, "spec"), ("parent", "parentQueue")) not in (None, "root"):
            self.log.alter("Queue lies in another, whose limits are not applied to it", name)

    def queue_of(self, gang: Gang) -> str | None:
        """Return the queue with the quota that a gang uses, or None if there is none."""
        if gang.cluster_queue is not None:
            return gang.cluster_queue
        if gang.queue is None:
            return None
        named = {queue for queue, _, _ in self.quotas} | self.stopped
        return self._local.get(f"{gang.namespace}/{gang.queue}") or (
            gang.queue if gang.queue in named else None
        )

    def tenant_of(self, gang: Gang) -> str:
        """Return whose job a gang is: its queue, or a name that no queue with a quota has."""
        queue = self.queue_of(gang)
        if queue is not None:
            return queue
        name = gang.queue or gang.namespace
        return f"namespace {name}" if any(name == key[0] for key in self.quotas) else name

    def refusal(self, gang: Gang) -> str | None:
        """Return why the queue of a gang will not admit it whatever is free, or None."""
        queue = self.queue_of(gang)
        if {queue, f"{gang.namespace}/{gang.queue}"} & self.stopped:
            return "its queue is stopped, and it waits whatever is free"
        if queue is None or queue not in self._groups:
            return None
        covered = {one for resources, _ in self._groups[queue] for one in resources}
        for part in gang.parts:
            resource = part.request.gpu_resource
            if resource is not None and resource not in covered:
                return f"asks for {resource}, which its queue does not cover"
        return None

    def flavors(self, gang: Gang, resource: str | None) -> tuple[str, ...]:
        """Return the flavours that a gang may be given of a resource: one where it has it.

        Parameters
        ----------
        gang
            The gang.
        resource
            Name of the resource; None gives no flavour.
        """
        if resource is None:
            return ()
        if resource in gang.flavors:
            return (gang.flavors[resource],)
        for covered, names in self._groups.get(self.queue_of(gang) or "", ()):
            if resource in covered:
                return tuple(names)
        return ()

    def keys(
        self, gang: Gang, request: PodRequest, chosen: Mapping[str, str]
    ) -> list[tuple[Key, int]]:
        """Return the quotas that a pod of a gang uses, and what it takes of each.

        Parameters
        ----------
        gang, request
            The gang, and what the pod asks for.
        chosen
            The flavour of resources with GPUs.
        """
        queue = self.queue_of(gang)
        found = []
        for resource in dict.fromkeys(key[2] for key in self.quotas if key[0] == queue):
            amount = _quota_amount(request, resource)
            flavor = self.flavor_beside(gang, resource, chosen)
            if not amount or queue is None:
                continue
            if flavor is None and (gang.id, resource) not in self._told:
                self._told.add((gang.id, resource))
                self.log.alter("quota of a resource whose flavour is not chosen yet; it is not "
                               "applied", f"{gang.id}: {resource}")  # fmt: skip
            elif flavor is not None and (queue, flavor, resource) in self.quotas:
                found.append(((queue, flavor, resource), amount))
        return found

    def flavor_beside(self, gang: Gang, resource: str, chosen: Mapping[str, str]) -> str | None:
        """Return the flavour of a resource beside others that are chosen; None: it is not known.

        Parameters
        ----------
        gang
            The gang.
        resource
            The resource.
        chosen
            The flavour of resources with GPUs.
        """
        if resource in gang.flavors or resource in chosen:
            return gang.flavors.get(resource) or chosen[resource]
        for covered, names in self._groups.get(self.queue_of(gang) or "", ()):
            if resource in covered:
                beside = [chosen[one] for one in covered if one in chosen]
                return beside[0] if beside else (names[0] if len(names) == 1 else None)
        return ""

    def is_plain(self, queue: str, counted: Counter[Key]) -> bool:
        """Return whether the GPUs of a queue and its cohort are one number for each queue.

        Not where others hold more of a quota than all of it: they borrowed it from the cohort, and
        a tenant has no word for that.

        Parameters
        ----------
        queue
            The queue.
        counted
            What the gangs that are in the instance hold of each quota.
        """
        cohort = self.cohorts.get(queue)
        kin = {q for q, c in self.cohorts.items() if c == cohort} if cohort else {queue}
        pairs = [key for key in self.quotas if key[0] in kin and _is_gpu(key[2])]
        return (
            len({key[0] for key in pairs}) == len(pairs)
            and len({key[1:] for key in pairs}) <= 1
            and all(self.elsewhere(key, counted) <= self.quotas[key].nominal for key in pairs)
        )

    def tenants(self, cluster_gpus: int, counted: Counter[Key]) -> tuple[Tenant, ...]:
        """Return the queues whose quota of GPUs is one number.

        Parameters
        ----------
        cluster_gpus
            GPUs of the cluster: more than that limits nothing.
        counted
            What the gangs that are in the instance hold of each quota.
        """
        found = []
        for key, quota in self.quotas.items():
            if not _is_gpu(key[2]) or not self.is_plain(key[0], counted):
                continue
            own = quota.nominal - self.elsewhere(key, counted)
            borrowing = cluster_gpus if quota.borrowing is None else quota.borrowing
            found.append(
                Tenant(
                    key[0],
                    min(own, cluster_gpus) * MILLI,
                    self.cohorts.get(key[0]),
                    min(borrowing, cluster_gpus) * MILLI if key[0] in self.cohorts else 0,
                )
            )
        return tuple(found)

    def elsewhere(self, key: Key, counted: Counter[Key]) -> int:
        """Return what of a quota is given out to what is not in the instance.

        Parameters
        ----------
        key
            Queue, flavour and resource.
        counted
            What gangs of the instance hold of each quota.
        """
        reserved = self.quotas[key].reserved
        less = self.left_out[key] if reserved is None else max(reserved - counted[key], 0)
        if less and key not in self._told:
            self._told.add(key)
            self.log.alter("ClusterQueue has given out quota to workloads that are not in the "
                           "instance; it is taken off", f"{key[0]}: {less} {key[2]}")  # fmt: skip
        return less

    def limits(
        self, counted: Counter[Key], could: Counter[Key]
    ) -> tuple[dict[str, int], dict[Key, tuple[str, ...]]]:
        """Return the quotas that are resources of the cluster, and which of them a quota means.

        Parameters
        ----------
        counted
            What the gangs that run hold of each quota.
        could
            What all gangs together could hold of it.
        """
        resources: dict[str, int] = {}
        means: dict[Key, tuple[str, ...]] = {}
        together: dict[tuple[str, str, str], list[Key]] = defaultdict(list)

        def offer(label: str, keys: list[Key], most: int) -> None:
            # What runs keeps what it holds, though the quota may be less by now.
            amount = max(most, sum(counted[key] for key in keys), 0)
            if amount > MAX_AMOUNT:
                self.log.alter("quota is more than an instance can say; it is not applied", label)
                return
            name = _word(f"quota:{label}")
            resources[name] = amount
            for key in keys:
                means[key] = (*means.get(key, ()), name)

        for key, quota in self.quotas.items():
            if _is_gpu(key[2]) and self.is_plain(key[0], counted):
                continue  # that of a tenant
            cohort = self.cohorts.get(key[0])
            if cohort is not None:
                together[cohort, key[1], key[2]].append(key)
            if quota.borrowing is None:
                continue
            most = quota.nominal + quota.borrowing - self.elsewhere(key, counted)
            if could[key] > most:
                offer(":".join(filter(None, key)), [key], most)
        for (cohort, flavor, resource), kin in together.items():
            most = sum(self.quotas[key].nominal - self.elsewhere(key, counted) for key in kin)
            if sum(could[key] for key in kin) > most:
                # No queue has a name with a colon.
                parts = filter(None, (f"cohort:{cohort}", flavor, resource))
                offer(":".join(parts), kin, most)
        return resources, means


def _is_gpu(resource: str) -> bool:
    return resource in GPU_RESOURCES or resource == _ANY_GPU


def _word(name: str) -> str:
    return "_".join(name.split())
