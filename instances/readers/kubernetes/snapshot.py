"""A snapshot of Kubernetes: hosts, what runs, what waits and the quotas, as one instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from os import PathLike
from pathlib import Path

from alloc.errors import InstanceError
from alloc.instances.readers.assembly import assemble
from alloc.instances.readers.jobs import MAX_DURATION_S
from alloc.instances.readers.kubernetes.drafts import Draft, Way
from alloc.instances.readers.kubernetes.gangs import Gang, Part, TopologyRequest
from alloc.instances.readers.kubernetes.grouping import Gangs
from alloc.instances.readers.kubernetes.held import Held
from alloc.instances.readers.kubernetes.hosts import Choice, Hosts
from alloc.instances.readers.kubernetes.objects import Dump
from alloc.instances.readers.kubernetes.pods import LEAST_SHARE, NodeRule, PodRequest
from alloc.instances.readers.kubernetes.quotas import Key, Quotas
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.problems.allocation.instance import Affinity, Instance, misfit
from alloc.problems.allocation.solution import Assignment
from alloc.topology.gpu_fit import gpu_memory_mib
from alloc.units import MILLI
from alloc.workload import NO_RULES, Configuration, Job, PlacementRules, Slice

_NO_LIMIT_S = 365 * 86400.0
"""For a gang without a limit: longer than any schedule that is asked about."""

_ASSUMED = (
    "The dump is a moment: what runs stands on its nodes, and what waits is there from the start.",
    "A gang runs to its limit (activeDeadlineSeconds, maximumExecutionTimeSeconds), or for a year.",
    "Pods without GPUs that run are taken off their nodes and stay there.",
    "Free memory is rounded down to a multiple of memory_step_mib on each node; less than 0.01 "
    "core counts as 0.01 where it is asked for, and as none where it is left.",
    "The weight of a job is the rank of its priority, 1 for the lowest.",
    "Not read: pods per node, ephemeral storage, huge pages, host ports and devices of "
    "ResourceClaims.",
)


def kubernetes_instance(
    path: str | PathLike[str],
    *,
    more: str | Sequence[str | PathLike[str]] | None = None,
    levels: str | None = None,
    labels: str | None = None,
    gpu_type: str | None = None,
    memory_step_mib: int = 1024,
    shares: bool = False,
    preemptible: bool = True,
    restart_cost_s: float = 0.0,
    slot_s: float | None = None,
    name: str | None = None,
) -> tuple[Instance, ReadReport]:
    """Make an instance of what kubectl lists of a cluster.

    Parameters
    ----------
    path
        What ``kubectl get ... -A -o json`` printed of nodes, pods and, where there are, workloads,
        clusterqueues, localqueues, cohorts, resourceflavors, topologies, podgroups, queues, jobs.
        Plain or gzip.
    more
        More such files, a list or a text with commas; also manifests of jobs that are not
        submitted yet.
    levels
        Node labels that are levels of the topology, outermost first, with commas; None: those of
        the Topology in the dump, or of a known set of labels, or none.
    labels
        Name of the set of labels, or ``"none"``.
    gpu_type
        GPU type of nodes without a label for it.
    memory_step_mib
        Free memory of a node is rounded down to a multiple of this, MiB.
    shares
        Whether pods that share GPUs are jobs, which ``alloc solve --formulation sharing`` knows; by
        default the GPUs that they share are taken off their nodes.
    preemptible
        Whether jobs may be paused and moved. What stands on a node that takes no new pods, is being
        deleted or belongs to a DaemonSet stays in any case.
    restart_cost_s
        Seconds lost when a job resumes or moves.
    slot_s
        Length of a slot, seconds; None for continuous time.
    name
        Name of the instance; by default from the file.

    Returns
    -------
    Instance, ReadReport
        The instance; and the account, whose rows are the gangs, with that of the resources besides.

    Raises
    ------
    InstanceError
        If a file is no dump, holds no node, or no job is left.
    """
    dump = Dump(ReportLog())
    others = more.split(",") if isinstance(more, str) else more or ()
    for one in (path, *others):
        dump.read(one)
    log = ReportLog()
    log.files += dump.log.files
    name = name or Path(path).name.removesuffix(".gz").removesuffix(".json")
    grouped = Gangs(dump, log)
    hosts = Hosts(dump, Choice(levels, labels, gpu_type, memory_step_mib), name)
    if not grouped.gangs:
        raise InstanceError(
            f"{', '.join(map(str, (path, *others)))}: holds no pod and no workload that runs or "
            "waits, so there is nothing to ask; add pods,workloads,jobs to what kubectl gets."
        )
    for node in sorted(dump.unread_on & hosts.index.keys()):
        hosts.close(node, "a pod on it cannot be read")
    maker = _Maker(shares, log, grouped, hosts, Quotas(dump), hosts.flavor_rules(dump), preemptible,
                   restart_cost_s)  # fmt: skip
    jobs, running, affinities = maker.make(grouped.gangs)
    log.rows_read = len(grouped.gangs)
    log.notes += _ASSUMED
    log.also.append(dump.log.report())
    instance = assemble(
        name,
        maker.topology,
        jobs,
        log,
        slot_s=slot_s,
        source={
            "source": f"Kubernetes, {', '.join(Path(f).name for f in log.files)} of the user",
            "assumed": " ".join(_ASSUMED),
        },
        options={"levels": levels, "labels": labels, "gpu_type": gpu_type},
    )
    made = instance.replace(running=running, affinities=affinities, tenants=maker.tenants)
    return made, log.report()


@dataclass
class _Maker:
    """Turns gangs into jobs.

    Parameters
    ----------
    shares
        Whether pods that share GPUs are jobs.
    log
        Counts the gangs that are left out or changed.
    grouped, hosts, quotas
        What was read.
    flavors
        Node labels and tolerations of each ResourceFlavor.
    preemptible, restart_cost_s
        What the user says of all jobs.
    """

    shares: bool
    log: ReportLog
    grouped: Gangs
    hosts: Hosts
    quotas: Quotas
    flavors: dict[str, tuple[dict[str, str], tuple[str, ...]]]
    preemptible: bool
    restart_cost_s: float
    _held: Held = field(default_factory=Held)
    _others: Held = field(default_factory=Held)
    _seen: Counter[str] = field(default_factory=Counter)

    def make(
        self, gangs: Sequence[Gang]
    ) -> tuple[list[Job], tuple[Assignment, ...], tuple[Affinity, ...]]:
        """Return the jobs in the order of the queue, what runs, and what must stay together."""
        for node, request in self.grouped.held:
            self._others.take(node, request)
        drafts = []
        for gang in gangs:
            self._seen[gang.id] += 1
            if self._seen[gang.id] > 1:
                gang.id = f"{gang.id}.{self._seen[gang.id]}"
            draft = self._running(gang) if gang.runs else self._waiting(gang)
            if draft is not None:
                drafts.append(draft)
        counted, could = self._quota_use(drafts)
        resources, means = self.quotas.limits(counted, could)
        self.topology = self.hosts.left(self._held.on, self._others.on, resources)
        self.tenants = self.quotas.tenants(self.topology.num_gpus, counted)
        ranks = sorted({draft.gang.priority for draft in drafts})
        weights = {priority: float(k) for k, priority in enumerate(ranks, start=1)}
        times = (t for d in drafts for t in (d.gang.created_s, d.gang.started_s) if t is not None)
        now_s = max(times, default=0.0)
        made: list[tuple[tuple[float, float, float, str], Job]] = []
        running = []
        fits: dict[Configuration, str | None] = {}
        for draft in drafts:
            gang = draft.gang
            ways = tuple(dict.fromkeys(way.configuration(means) for way in draft.ways))
            for way in ways:
                if way not in fits:
                    fits[way] = misfit(self.topology, way)
            if not gang.runs:
                reasons = [reason for way in ways if (reason := fits[way]) is not None]
                ways = tuple(way for way in ways if fits[way] is None)
                if not ways:
                    self.log.drop(f"can never start: {reasons[0]}", gang.id)
                    continue
            else:
                running.append(Assignment(gang.id, 0, draft.places))
            order = (0.0 if gang.runs else 1.0, -gang.priority, gang.created_s or 0.0, gang.id)
            made.append((order, self._job(draft, ways, weights[gang.priority], now_s)))
        jobs = [job for _, job in sorted(made, key=lambda pair: pair[0])]
        known = {job.id for job in jobs}
        return jobs, tuple(running), tuple(self._affinities(drafts, known))

    def _job(
        self, draft: Draft, ways: tuple[Configuration, ...], weight: float, now_s: float
    ) -> Job:
        gang = draft.gang
        if gang.limit_s is None or not 0 < gang.limit_s <= MAX_DURATION_S:
            limit_s = _NO_LIMIT_S
        else:
            limit_s = gang.limit_s
        done = 0.0
        if gang.runs and gang.started_s is not None:
            done = min(max(now_s - gang.started_s, 0.0), MAX_DURATION_S)
        if done >= limit_s:
            limit_s = done + _NO_LIMIT_S
        rate = max(way.rate for way in ways)
        return Job(
            id=gang.id,
            arrival_s=0.0,
            work=limit_s * rate,
            work_done=done * rate,
            configurations=ways,
            weight=weight,
            elasticity="rigid" if len(ways) == 1 else "moldable",
            tenant=self.quotas.tenant_of(gang),
            preemptible=self.preemptible and not gang.pinned,
            restart_cost_s=self.restart_cost_s,
            placement=draft.rules,
        )

    def _quota_use(self, drafts: Sequence[Draft]) -> tuple[Counter[Key], Counter[Key]]:
        """Return what is given out of each quota, and what could be at most."""
        counted: Counter[Key] = Counter()
        could: Counter[Key] = Counter()
        for draft in drafts:
            if draft.gang.runs or draft.gang.cluster_queue is not None:
                counted += draft.ways[0].takes
            most: Counter[Key] = Counter()
            for way in draft.ways:
                most |= way.takes
            could += most
        return counted, could

    def _leave_out(self, gang: Gang, reason: str, label: str = "") -> None:
        self.log.drop(f"{reason}; what it holds is taken off its nodes", gang.id + label)
        for part in gang.parts:
            for node, group in part.places:
                self._others.take(node, part.request, group)
            for key, amount in self.quotas.keys(gang, part.request, gang.flavors):
                self.quotas.left_out[key] += amount * part.count

    def _running(self, gang: Gang) -> Draft | None:
        nodes = [node for part in gang.parts for node, _ in part.places]
        unknown = [node for node in nodes if node not in self.hosts.index]
        if unknown:
            self._leave_out(gang, "runs on nodes that are not in the dump", f" ({unknown[0]})")
            return None
        if not self.shares and any(part.request.shares for part in gang.parts):
            self._leave_out(gang, "shares GPUs")
            return None
        milli = {part.role: self._share_of(part) for part in gang.parts}
        if None in milli.values():
            self._leave_out(gang, "shares GPUs whose memory is not known")
            return None
        shares = {role: share for role, share in milli.items() if share is not None}
        if any(node in self.hosts.closed for node in nodes):
            gang.pinned = True
            self.log.alter("stands on a node that takes no new pods, and stays there", gang.id)
        places = tuple(
            place for part in gang.parts for place in self._held.stand(part, shares[part.role])
        )
        ways = self._ways(gang, dict(gang.flavors), shares)
        for way in ways:
            if way.gpu_type is not None and any(
                self.hosts.gpu_type(self.hosts.index[node]) != way.gpu_type for node in nodes
            ):
                ways = self._ways(gang, dict(gang.flavors), shares, by_type=False)
                break
        for (_, _, _, _, named, _), part in zip(ways[0].groups, gang.parts, strict=True):
            for node, _ in part.places:
                self._held.on[node] += Counter(named)
        rules = self._rules(gang)
        return Draft(gang, ways[:1], NO_RULES if rules is None else rules, places)

    def _share_of(self, part: Part) -> int | None:
        """Return the milli-GPU of each pod, where it shares by memory that of its nodes' GPUs."""
        request = part.request
        if not request.gpu_memory_mib:
            return request.gpu_milli
        types = {self.hosts.gpu_type(self.hosts.index[node]) for node, _ in part.places}
        sizes = {gpu_memory_mib(kind) for kind in types}
        size = sizes.pop() if len(sizes) == 1 else None
        return None if size is None else _milli_of(request.gpu_memory_mib, size)

    def _waiting(self, gang: Gang) -> Draft | None:
        reason = self.quotas.refusal(gang)
        if not self.shares and any(part.request.shares for part in gang.parts):
            reason = reason or "asks for a share of a GPU; shares=true reads those"
        if reason is not None:
            self.log.drop(reason, gang.id)
            return None
        rules = self._rules(gang)
        if rules is None:
            self.log.drop("requires a topology that is no level here; name its label with levels",
                          gang.id)  # fmt: skip
            return None
        main = next(
            (p.request.gpu_resource or p.request.named[0][0] for p in gang.parts
             if p.request.gpu_resource or p.request.named),
            None,
        )  # fmt: skip
        if gang.queue is not None and self.quotas.queue_of(gang) is None:
            self.log.alter("its queue is not in the dump; no quota is applied to it", gang.id)
        ways: list[Way] = []
        for flavor in self.quotas.flavors(gang, main) or (None,):
            if flavor is not None and flavor not in self.flavors:
                self.log.alter("a flavour of its queue is not in the dump; its nodes are not known",
                               f"{gang.id}: {flavor}")  # fmt: skip
            chosen = {} if flavor is None or main is None else {main: flavor}
            for kind in self._kinds_for(gang):
                shares = {p.role: self._share_on(p.request, kind) for p in gang.parts}
                ways += self._ways(gang, chosen, shares, flavor=flavor, kind=kind)
        if not ways:
            self.log.drop("no node that takes pods is one that it may use", gang.id)
            return None
        return Draft(gang, ways, rules)

    def _kinds_for(self, gang: Gang) -> Sequence[str | None]:
        """Return the GPU types to tell apart: only shares by memory differ from type to type."""
        most = max(part.request.gpu_memory_mib for part in gang.parts)
        if not most:
            return (None,)
        kinds = {self.hosts.gpu_type(h) for h in range(len(self.hosts.nodes))}
        return sorted(k for k in kinds if k is not None and (gpu_memory_mib(k) or 0) >= most)

    def _share_on(self, request: PodRequest, kind: str | None) -> int:
        if not request.gpu_memory_mib:
            return request.gpu_milli
        return _milli_of(request.gpu_memory_mib, gpu_memory_mib(kind) or 1)

    def _ways(
        self,
        gang: Gang,
        chosen: dict[str, str],
        shares: dict[str, int],
        *,
        flavor: str | None = None,
        kind: str | None = None,
        by_type: bool = True,
    ) -> list[Way]:
        """Return the ways to run a gang with a flavour: all its pods, or as few as may start."""
        labels, keys = self.flavors.get(flavor or "", ({}, ()))
        limits = []
        for part in gang.parts:
            rule = part.rule
            if flavor is not None and part.request.has_accelerator:
                rule = rule.with_labels(labels)
                more = tuple((key, None, None) for key in keys)
                rule = NodeRule(rule.required, rule.terms, (*rule.tolerations, *more))
            types, marker = self.hosts.restriction(rule, part.request)
            if not gang.runs and types is not None and not types:
                return []
            limits.append((rule, types, marker))
        all_types = [types for _, types, _ in limits]
        one = all_types[0]
        gpu_type = kind
        named_by_type = (
            by_type and one is not None and len(one) == 1 and all(t == one for t in all_types)
        )
        if named_by_type and one is not None:
            only = next(iter(one))
            if kind not in (None, only):
                return []
            gpu_type = only
        groups = []
        for part, (rule, _, marker) in zip(gang.parts, limits, strict=True):
            named = {} if marker is None or named_by_type else {marker: 1}
            if named and marker is not None:
                self.hosts.use(marker, rule, part.request)
            takes = self.quotas.keys(gang, part.request, chosen)
            groups.append((part.role, part.count, part.request, shares[part.role], named, takes))
        least = gang.least
        if gang.runs or least is None or not 0 < least < gang.num_pods:
            return [Way(gpu_type, groups)]
        if len(groups) > 1 or any(part.topology.slice_size for part in gang.parts):
            self.log.alter("may start with fewer of its pods; all of them are read", gang.id)
            return [Way(gpu_type, groups)]
        role, count, request, milli, named, takes = groups[0]
        fewer = [(role, least, request, milli, named, takes)]
        return [Way(gpu_type, groups, count), Way(gpu_type, fewer, least)]

    def _rules(self, gang: Gang) -> PlacementRules | None:
        """Return where the pods of a gang must stand, or None if that is no level here."""
        whole = self.grouped.topologies.get(gang.id.removesuffix(".waiting"))
        with_gpus = [part for part in gang.parts if part.request.has_accelerator]
        asked = {part.topology for part in with_gpus}
        if whole is None and asked <= {TopologyRequest()}:
            return NO_RULES
        one = whole or next(iter(asked))
        together = whole is not None or len(gang.parts) == 1 or (
            one.group is not None and {part.topology.group for part in gang.parts} == {one.group}
        )  # fmt: skip
        # What slices count: the pods with GPUs, or all pods if none has GPUs but slices of them.
        sliced = [part for part in gang.parts if part.request.gpu_milli or part.request.shares]
        sliced = sliced or gang.parts
        if len(asked) > 1 or (not together and (len(with_gpus) > 1 or sliced != with_gpus)):
            self.log.alter("asks for topology by sets of pods, which is not read for several",
                           gang.id)  # fmt: skip
            return NO_RULES
        labels = (one.required, one.preferred, one.slice_label)
        level = {label: self.hosts.levels.get(label) for label in labels if label is not None}
        hard = {label for label in (one.required, one.slice_label) if label is not None}
        if any(level[label] is None for label in hard):
            if gang.runs:
                self.log.alter("requires a topology that is no level here; it is not read", gang.id)
                return NO_RULES
            return None
        if one.preferred is not None and level[one.preferred] is None:
            self.log.alter("prefers a topology that is no level here; it is not read", gang.id)
        required, preferred = (level.get(label or "") for label in (one.required, one.preferred))
        slices = []
        if required is not None and not together:
            # The others may stand elsewhere: slices count the pods with GPUs alone.
            slices.append(Slice(required, with_gpus[0].count))
            if gang.in_part and not gang.runs:
                self.log.alter("its pods that wait need not join those that run", gang.id)
            required = None
        if one.slice_size and one.slice_label is not None:
            inner = level[one.slice_label]
            uneven = one.slice_size < 0 or any(part.count % one.slice_size for part in sliced)
            if uneven or gang.in_part:
                self.log.alter("has slices that do not divide its pods; they are not read", gang.id)
            elif inner is not None and (not slices or self._is_within(inner, slices[0].level)):
                slices.append(Slice(inner, one.slice_size))
        return PlacementRules(required, preferred, tuple(slices))

    def _is_within(self, inner: str, outer: str) -> bool:
        """Return whether the domains of a level lie in those of another."""
        levels = (*self.hosts.topology.levels, "host")
        return levels.index(inner) > levels.index(outer)

    def _affinities(self, drafts: Sequence[Draft], known: set[str]) -> Iterator[Affinity]:
        """Yield that the pods of a gang that wait must join those that run, where they must."""
        for draft in drafts:
            id, level = draft.gang.id, draft.rules.required
            if draft.gang.in_part and level is not None and not draft.gang.runs:
                runs = id.removesuffix(".waiting")
                if {runs, id} <= known:
                    yield Affinity("together", level, (runs, id))


def _milli_of(memory_mib: int, size_mib: int) -> int:
    """Return the share of a GPU that some of its memory is, milli-GPU, at least the smallest."""
    return min(max(ceil(memory_mib * MILLI / size_mib), LEAST_SHARE), MILLI)
