"""Hypothesis strategies for the central types: ``from strategies import instances`` in any test.

Each strategy takes only valid values of its type. The numbers are tame by default (short decimals,
small counts), so that solvers, brute force and people agree on them; ``wild=True`` takes any valid
number and any text, for readers, writers and fingerprints. Shrinking leads to one job on one host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args

from hypothesis import strategies as st

from alloc.certificate import BoundProof, Certificate, Limit, Status
from alloc.packing import HostPool
from alloc.problems.allocation.instance import Instance, Tenant, misfit
from alloc.problems.allocation.outages import Outage
from alloc.problems.allocation.solution import (
    Allocation,
    Assignment,
    Run,
    Schedule,
    Solution,
    TaskPlacement,
)
from alloc.result import Result
from alloc.topology.host import Domain, GpuLink, Host, HostType, NetworkLink
from alloc.topology.topology import HOST, Topology
from alloc.units import MILLI
from alloc.workload import Configuration, Elasticity, Job, TaskGroup

GPU_TYPES = ("v100", "a100", "h100")
LEVELS = ("pod", "leaf")
MODELS = ("resnet-50", "vgg-16", "bert")
_CENTURY_S = 3_000_000_000.0
_MAX_MILLI = 10**9
_MAX_MIB = 64 * 1024 * 1024


def names(wild: bool = False) -> st.SearchStrategy[str]:
    """Non-empty names; wild ones hold quotes, control characters and any script."""
    return st.text(min_size=1, max_size=8) if wild else st.sampled_from(("a", "b", "c", "d"))


def times(most: float = 1000.0, wild: bool = False) -> st.SearchStrategy[float]:
    """Times of 0 or more, seconds; tame ones are multiples of 5."""
    if wild:
        return st.floats(0.0, _CENTURY_S, allow_subnormal=False)
    return st.integers(0, int(most // 5)).map(lambda k: 5.0 * k)


def positives(most: float = 1000.0, wild: bool = False) -> st.SearchStrategy[float]:
    """Numbers above 0; tame ones have at most one decimal."""
    if wild:
        return st.floats(1e-9, 1e15)
    return st.integers(1, int(most * 10)).map(lambda k: k / 10)


def rates(wild: bool = False) -> st.SearchStrategy[float]:
    """Rates of 0 or more: zero now and then, with no order among configurations."""
    return (
        st.one_of(positives(20.0, wild), st.just(0.0))
        if wild
        else st.integers(0, 40).map(lambda k: k / 4)
    )


@st.composite
def host_types(
    draw: st.DrawFn, name: str, *, num_gpus: int | None = None, wild: bool = False
) -> Any:
    """Kinds of servers with some CPU and memory, with GPUs (or `num_gpus` of them) or without."""
    gpus = draw(st.integers(0, 4)) if num_gpus is None else num_gpus
    gpu_type = draw(st.sampled_from(GPU_TYPES)) if gpus else None
    cpu = draw(st.integers(4, 32)) * MILLI
    memory = draw(st.integers(4, 64)) * 1024
    if wild:
        cpu = draw(st.integers(100, _MAX_MILLI))
        memory = draw(st.integers(64, _MAX_MIB))
    links: tuple[GpuLink, ...] = ()
    if gpus > 1 and draw(st.booleans()):
        bandwidth = draw(positives(900.0, wild))
        links = tuple(GpuLink(f"gpu{g}", "nvswitch0", "nvswitch", bandwidth) for g in range(gpus))
    return HostType(name, gpus, gpu_type, cpu, memory, links)


@st.composite
def topologies(
    draw: st.DrawFn, *, max_hosts: int = 4, domains: bool = True, wild: bool = False
) -> Any:
    """Clusters of 1 to `max_hosts` hosts of one to three types; the first host has a GPU.

    With `domains`, hosts may stand in leaves, and leaves in pods, with links upward.
    """
    kinds = [draw(host_types("kind-0", num_gpus=draw(st.integers(1, 4)), wild=wild))]
    kinds += [draw(host_types(f"kind-{k}", wild=wild)) for k in range(1, draw(st.integers(1, 3)))]
    num_hosts = draw(st.integers(1, max_hosts))
    levels: tuple[str, ...] = ()
    nodes: list[Domain] = []
    if domains and draw(st.booleans()):
        levels = draw(st.sampled_from((LEVELS, LEVELS[1:])))
        pods = [Domain(f"pod-{p}", "pod") for p in range(draw(st.integers(0, 2)))]
        nodes += pods if "pod" in levels else []
        parents = [None, *(node.id for node in nodes)]
        for leaf in range(draw(st.integers(0, 3))):
            nodes.append(Domain(f"leaf-{leaf}", "leaf", draw(st.sampled_from(parents))))
    stands = st.sampled_from([None, *(node.id for node in nodes)])
    hosts = tuple(
        Host(f"host-{h}", draw(st.sampled_from(kinds)).name if h else "kind-0", draw(stands))
        for h in range(num_hosts)
    )
    links: tuple[NetworkLink, ...] = ()
    if bool(nodes) and draw(st.booleans()):
        links = tuple(
            NetworkLink(host.id, host.domain, draw(positives(400.0, wild)))
            for host in hosts
            if host.domain is not None
        )
    name = draw(names(wild)) if wild else "cluster"
    return Topology(name, tuple(kinds), hosts, levels, tuple(nodes), links)


@st.composite
def task_groups(
    draw: st.DrawFn,
    topology: Topology,
    role: str = "worker",
    *,
    max_count: int = 3,
    shares: bool = True,
) -> Any:
    """Task groups whose single task fits on some host of the topology."""
    host = topology.host_type(draw(st.sampled_from(topology.hosts)))
    gpu = draw(st.integers(0, min(host.num_gpus, 2))) * MILLI
    if shares and host.num_gpus and draw(st.booleans()):
        gpu = draw(st.sampled_from((250, 300, 500)))
    parts = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    cpu = draw(st.sampled_from((0, host.cpu_milli // parts[0])))
    memory = draw(st.sampled_from((0, host.memory_mib // parts[1])))
    return TaskGroup(role, draw(st.integers(1, max_count)), gpu, cpu, memory)


@st.composite
def configurations(
    draw: st.DrawFn,
    topology: Topology,
    *,
    max_count: int = 3,
    shares: bool = True,
    constraints: bool = True,
    wild: bool = False,
) -> Any:
    """Configurations of workers, perhaps with parameter servers, that fit the empty topology.

    With `constraints`, some ask for a GPU type or for one domain of a level.
    """
    groups = [draw(task_groups(topology, "worker", max_count=max_count, shares=shares))]
    if draw(st.booleans()):
        groups.append(draw(task_groups(topology, "ps", max_count=max_count, shares=False)))
    gpu_type = within = None
    if constraints:
        gpu_type = draw(st.sampled_from((None, *{t for t in topology.gpu_types if t})))
        within = draw(st.sampled_from((None, *topology.levels, HOST)))
    rate = draw(rates(wild))
    found = Configuration(tuple(groups), rate, gpu_type, within)
    if HostPool(topology).place(found) is None:
        # The first host has a GPU: one GPU and nothing else always fits there.
        found = Configuration((TaskGroup("worker", 1, MILLI),), rate)
    assert misfit(topology, found) is None
    return found


@st.composite  # type: ignore[arg-type]
def configuration_sets(
    draw: st.DrawFn, topology: Topology, *, max_configurations: int = 4, **options: Any
) -> Any:
    """Tuples of configurations; rates of any shape (zeros, dips, peaks), at least one above 0."""
    options.setdefault("wild", False)
    found = draw(
        st.lists(configurations(topology, **options), min_size=1, max_size=max_configurations)
    )
    if not any(configuration.rate > 0 for configuration in found):
        last = found[-1]
        rate = draw(positives(20.0, options["wild"]))
        found[-1] = Configuration(last.tasks, rate, last.gpu_type, last.within)
    return tuple(found)


@st.composite
def jobs(
    draw: st.DrawFn,
    sets: Sequence[tuple[Configuration, ...]],
    job_id: str = "job-0",
    *,
    elasticities: Sequence[Elasticity] = get_args(Elasticity),
    deadlines: bool = True,
    restarts: bool = True,
    preemption: bool = True,
    tenants: Sequence[str] = (),
    max_arrival_s: float = 100.0,
    max_work: float = 200.0,
    wild: bool = False,
) -> Any:
    """Jobs that run in one of the given configuration sets (shared, not copied).

    Deadlines, due dates, restart costs, pauses forbidden and tenants appear now and then unless
    they are switched off. Deadlines may be impossible to meet.
    """
    chosen = draw(st.sampled_from(list(sets)))
    elasticity = draw(st.sampled_from(list(elasticities)))
    if elasticity == "rigid" and len(chosen) > 1:
        chosen = (max(chosen, key=lambda configuration: configuration.rate),)
    arrival = draw(times(max_arrival_s, wild))
    work = draw(positives(max_work, wild))
    deadline = due = None
    if deadlines and draw(st.booleans()):
        deadline = arrival + draw(positives(500.0))
        deadline = deadline if deadline > arrival else math.nextafter(arrival, math.inf)
    if deadlines and draw(st.booleans()):
        due = draw(times(500.0, wild))
    return Job(
        job_id,
        arrival,
        work,
        chosen,
        weight=draw(st.one_of(st.just(1.0), positives(5.0, wild))),
        deadline_s=deadline,
        due_date_s=due,
        tenant=draw(st.sampled_from((None, *tenants))),
        elasticity=elasticity,
        preemptible=not preemption or draw(st.booleans()),
        restart_cost_s=draw(times(30.0, wild)) if restarts and draw(st.booleans()) else 0.0,
        work_done=work * draw(st.sampled_from((0.0, 0.25, 0.5))) if restarts else 0.0,
        model=draw(st.sampled_from((None, *MODELS))),
    )


@st.composite
def instances(
    draw: st.DrawFn,
    *,
    max_jobs: int = 4,
    max_hosts: int = 4,
    max_configurations: int = 4,
    max_count: int = 3,
    slotted: bool | None = None,
    elasticities: Sequence[Elasticity] = get_args(Elasticity),
    shares: bool = True,
    constraints: bool = True,
    domains: bool = True,
    deadlines: bool = True,
    restarts: bool = True,
    preemption: bool = True,
    quotas: bool = True,
    running: bool = True,
    horizon: bool = False,
    max_arrival_s: float = 100.0,
    max_work: float = 200.0,
    wild: bool = False,
) -> Any:
    """Instances in which every job fits the empty cluster; by default with every feature.

    Parameters
    ----------
    max_jobs, max_hosts, max_configurations, max_count
        Largest numbers of jobs, hosts, configurations of a set and tasks of a role.
    slotted
        True: with slots; False: continuous time; None: either.
    elasticities
        Kinds of jobs to take.
    shares
        Whether tasks may take a part of a GPU.
    constraints, domains
        Whether configurations may ask for a GPU type or level, and whether there are levels.
    deadlines, restarts, preemption, quotas, running, horizon
        Whether deadlines and due dates, restart costs and work already done, jobs that must not
        pause, tenants with quotas, running placements, and a horizon may appear.
    max_arrival_s, max_work
        Largest arrival, seconds, and work, work units, of tame jobs.
    wild
        Any valid number and text instead of tame ones.
    """
    topology = draw(topologies(max_hosts=max_hosts, domains=domains, wild=wild))
    options = {"max_count": max_count, "shares": shares, "constraints": constraints, "wild": wild}
    one_set = configuration_sets(topology, max_configurations=max_configurations, **options)
    sets = draw(st.lists(one_set, min_size=1, max_size=2))
    tenants: tuple[Tenant, ...] = ()
    if quotas and draw(st.booleans()):
        quota = st.integers(0, topology.num_gpus).map(lambda gpus: gpus * MILLI)
        tenants = tuple(Tenant(name, draw(quota)) for name in ("red", "blue"))
    num_jobs = draw(st.integers(1, max_jobs))
    ids = [f"job-{j}" for j in range(num_jobs)]
    if wild:
        ids = draw(st.lists(names(True), min_size=num_jobs, max_size=num_jobs, unique=True))
    drawn = tuple(
        draw(
            jobs(
                sets,
                job_id,
                elasticities=elasticities,
                deadlines=deadlines,
                restarts=restarts,
                preemption=preemption,
                tenants=[tenant.name for tenant in tenants],
                max_arrival_s=max_arrival_s,
                max_work=max_work,
                wild=wild,
            )
        )
        for job_id in ids
    )
    has_slots = draw(st.booleans()) if slotted is None else slotted
    instance = Instance(
        draw(names(True)) if wild else "drawn",
        topology,
        drawn,
        slot_s=draw(st.sampled_from((5.0, 10.0, 20.0))) if has_slots else None,
        horizon_s=draw(st.sampled_from((None, 1000.0, 5000.0))) if horizon else None,
        tenants=tenants,
        description=draw(st.dictionaries(names(wild), names(wild), max_size=2)),
    )
    if running and draw(st.booleans()):
        placed = _placed(draw, instance, instance.jobs)
        held = {assignment.job for assignment in placed}
        arrived = (j.replace(arrival_s=0.0) if j.id in held else j for j in instance.jobs)
        instance = instance.replace(jobs=tuple(arrived), running=placed)
    return instance


def _placed(draw: st.DrawFn, instance: Instance, chosen: Sequence[Job]) -> tuple[Assignment, ...]:
    """Place some of the jobs on the empty cluster, each in a configuration that still has room."""
    pool = HostPool(instance.topology)
    found: list[Assignment] = []
    for job in chosen:
        c = draw(st.integers(-1, len(job.configurations) - 1))
        tasks = None if c < 0 else pool.place(job.configurations[c])
        if tasks is not None:
            found.append(Assignment(job.id, c, tasks))
    return tuple(found)


def runnable(drawn: Instance) -> Instance:
    """Make what runs at the start arrive at 0, at a rate above 0: else it cannot go on."""
    running = tuple(
        a for a in drawn.running if drawn.job(a.job).configurations[a.configuration].rate > 0
    )
    ran = {assignment.job for assignment in running}
    jobs = tuple(
        job.replace(arrival_s=0.0, deadline_s=None) if job.id in ran else job for job in drawn.jobs
    )
    return drawn.replace(jobs=jobs, running=running)


@st.composite
def outages(draw: st.DrawFn, instance: Instance, *, for_ever: bool = True) -> tuple[Outage, ...]:
    """Draw outages of some hosts; those of one host do not overlap.

    Times are few, so that outages begin and end together with slots, arrivals and each other.
    """
    moments = [0.0, 7.5, 10.0, 20.0, 33.3, 40.0, 75.0, 100.0, 300.0, 1000.0]
    drawn: list[Outage] = []
    for host in instance.topology.hosts:
        edges = sorted(draw(st.sets(st.sampled_from(moments), max_size=6)))
        if len(edges) % 2 and not for_ever:
            edges.pop()
        for k in range(0, len(edges), 2):
            drawn.append(Outage(host.id, edges[k], None if k + 1 == len(edges) else edges[k + 1]))
    return tuple(draw(st.permutations(drawn)))


@st.composite
def allocations(draw: st.DrawFn, instance: Instance, *, wild: bool = False) -> Any:
    """Allocations of the empty cluster that fit on its hosts (quotas aside)."""
    assignments = _placed(draw, instance, instance.jobs)
    placed = {assignment.job for assignment in assignments}
    reason = names(True) if wild else st.just("no room")
    return Allocation(
        assignments, {job.id: draw(reason) for job in instance.jobs if job.id not in placed}
    )


@st.composite
def task_placements(draw: st.DrawFn, instance: Instance) -> Any:
    """Tasks on a host, with or without GPU positions and slices, whatever the job needs."""
    count = draw(st.integers(1, 3))
    gpus = draw(st.sampled_from(((), tuple(range(count)))))
    starts = draw(st.sampled_from(((), tuple(range(count))))) if gpus else ()
    host = draw(st.sampled_from(instance.topology.hosts)).id
    return TaskPlacement(host, draw(st.sampled_from(("worker", "ps"))), count, gpus, starts)


@st.composite
def schedules(draw: st.DrawFn, instance: Instance, *, wild: bool = False) -> Any:
    """Well-formed schedules of the instance's jobs that need not be feasible."""
    runs: list[Run] = []
    for job in instance.jobs:
        clock = job.arrival_s
        for _ in range(draw(st.integers(0, 3))):
            start = clock + draw(times(20.0, wild))
            clock = start + draw(positives(50.0, wild))
            c = draw(st.integers(0, len(job.configurations) - 1))
            tasks = draw(st.lists(task_placements(instance), max_size=2).map(tuple))
            runs.append(Run(job.id, c, start, clock, tasks))
    ran = {run.job for run in runs}
    reason = names(True) if wild else st.just("no room")
    return Schedule(
        tuple(runs), {job.id: draw(reason) for job in instance.jobs if job.id not in ran}
    )


def solutions(instance: Instance, *, wild: bool = False) -> st.SearchStrategy[Solution]:
    """Allocations and schedules of an instance."""
    return st.one_of(allocations(instance, wild=wild), schedules(instance, wild=wild))


@st.composite
def certificates(draw: st.DrawFn, *, wild: bool = False) -> Any:
    """Certificates with any status, limit and bound, infinite bounds included."""
    finite = st.floats(-1e15, 1e15) if wild else positives(1000.0)
    infinite = st.sampled_from((math.inf, -math.inf))
    text = names(wild)
    return Certificate(
        status=draw(st.sampled_from(get_args(Status))),
        objective=draw(st.one_of(st.none(), finite)),
        bound=draw(st.one_of(finite, infinite)),
        sense=draw(st.sampled_from(("min", "max"))),
        objective_name=draw(text),
        formulation=draw(text),
        backend=draw(text),
        backend_version=draw(text),
        seed=draw(st.integers(0, 2**31 - 1)),
        workers=draw(st.integers(1, 64)),
        seconds=draw(positives(1000.0, wild)),
        fingerprint=draw(st.text("0123456789abcdef", min_size=64, max_size=64)),
        limit=draw(st.sampled_from((None, *get_args(Limit)))),
        verified=draw(st.booleans()),
        bound_proof=draw(st.sampled_from(get_args(BoundProof))),
    )


@st.composite
def results(draw: st.DrawFn, instance: Instance, *, wild: bool = False) -> Any:
    """Results with or without a solution of the instance."""
    return Result(
        draw(st.one_of(st.none(), solutions(instance, wild=wild))),
        draw(certificates(wild=wild)),
        tuple(draw(st.lists(names(wild), max_size=3))),
        draw(st.one_of(st.none(), names(wild))),
        tuple(draw(st.lists(certificates(wild=wild), max_size=2))),
    )
