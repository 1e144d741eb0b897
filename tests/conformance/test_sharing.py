"""F5 held against brute force: the method, both drawings and their backends say the same.

The brute force shares no code with the models: it tries every GPU for every task, and every start
for the MIG instances of a GPU.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alloc.errors import UnsupportedFeatureError
from alloc.formulation import FORMULATIONS
from alloc.instance import Instance, Tenant, misfit
from alloc.solution import Assignment, TaskPlacement
from alloc.solving import solve
from alloc.topology.mig import mig_profiles
from alloc.topology.topology import Host, HostType, Topology
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup

OBJECTIVES = FORMULATIONS["sharing"].objectives
BACKENDS = ("auto", "highs", "pyomo")
GPU_MEMORY = {"a100": 40 * 1024, "t4": 16 * 1024}
KINDS = (
    HostType("two", 2, "a100", 8000, 8192),
    HostType("one", 1, "a100", 4000, 4096),
    HostType("old", 1, "t4", 8000, 8192),
    HostType("none", 0, None, 8000, 8192),
)

tasks = st.one_of(
    st.builds(
        TaskGroup,
        st.just("w"),
        st.integers(1, 2),
        cpu_milli=st.sampled_from((0, 1000, 3000)),
        mig_profile=st.sampled_from(("1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb")),
    ),
    st.builds(
        TaskGroup,
        st.just("w"),
        st.integers(1, 2),
        gpu_milli=st.sampled_from((300, 500, 700, 1000)),
        cpu_milli=st.sampled_from((0, 1000, 3000)),
        gpu_memory_mib=st.sampled_from((0, 9000, 15000)),
    ),
    st.just(TaskGroup("w", 1, gpu_milli=2000)),
)
configurations = st.builds(
    lambda group, cpu, gpu_type: Configuration(
        (group, *([TaskGroup("ps", 1, cpu_milli=cpu)] if cpu else [])), 1.0, gpu_type
    ),
    tasks,
    st.sampled_from((0, 0, 2000)),
    st.sampled_from((None, None, "a100")),
)


@st.composite
def problems(draw: st.DrawFn) -> Instance:
    """One to three small hosts, and up to three jobs of one or two tasks on GPUs."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    if not any(kind.num_gpus for kind in kinds):
        kinds.append(KINDS[0])
    topology = Topology(
        "tiny",
        tuple(dict.fromkeys(kinds)),
        tuple(Host(f"h{k}", kind.name) for k, kind in enumerate(kinds)),
    )
    jobs: list[Job] = []
    for j in range(draw(st.integers(1, 3))):
        ways = tuple(
            c
            for c in draw(st.lists(configurations, min_size=1, max_size=2, unique=True))
            if misfit(topology, c) is None
        )
        if jobs and draw(st.booleans()):
            ways = jobs[0].configurations
        if ways:
            weight = float(draw(st.integers(1, 3)))
            tenant = draw(st.sampled_from((None, "t")))
            jobs.append(Job(f"j{j}", 0.0, 1.0, ways, weight=weight, tenant=tenant))
    if not jobs:
        jobs.append(Job("j", 0.0, 1.0, (Configuration((TaskGroup("w", 1, 500),), 1.0),)))
    quota = draw(st.sampled_from((None, 1000)))
    tenants = () if quota is None else (Tenant("t", quota),)
    running = tuple(_running(draw, topology, jobs)) if draw(st.booleans()) else ()
    return Instance("tiny", topology, tuple(jobs), running=running, tenants=tenants)


def _running(draw: st.DrawFn, topology: Topology, jobs: list[Job]) -> Iterator[Assignment]:
    """Yield jobs of one MIG task each that run at random starts without overlap."""
    taken: set[tuple[int, int]] = set()
    spots = [
        (h, g)
        for h, host in enumerate(topology.hosts)
        if topology.gpu_types[h] == "a100"
        for g in range(topology.host_type(host).num_gpus)
    ]
    media: set[tuple[int, int]] = set()
    for job in jobs:
        group = job.configurations[0].tasks[0]
        if group.count != 1 or group.mig_profile is None or len(job.configurations[0].tasks) > 1:
            continue
        profile = mig_profiles("a100")[group.mig_profile]
        if not spots:
            return
        where = draw(st.sampled_from(spots))
        start = draw(st.sampled_from(profile.starts))
        slices = {(*where, s) for s in profile.slices(start)}
        if slices & taken or (profile.media and where in media):
            continue
        taken |= slices
        if profile.media:
            media.add(where)
        host = topology.hosts[where[0]].id
        yield Assignment(job.id, 0, (TaskPlacement(host, "w", 1, (where[1],), (start,)),))


def arrangements(names: tuple[str, ...]) -> Iterator[tuple[tuple[str, int], ...]]:
    """Yield every way to put instances on one empty A100."""
    profiles = [mig_profiles("a100")[name] for name in names]
    if sum(p.compute_slices for p in profiles) > 7 or sum(p.media for p in profiles) > 1:
        return
    for starts in itertools.product(*(p.starts for p in profiles)):
        slices = [s for p, start in zip(profiles, starts, strict=True) for s in p.slices(start)]
        if len(slices) == len(set(slices)):
            yield tuple(zip(names, starts, strict=True))


@cache
def gpu_cost(
    gpu_type: str, content: tuple[TaskGroup, ...], state: tuple[tuple[str, int], ...]
) -> float:
    """Return 1 if the GPU must be cut anew for its content, 0 if not, inf if it cannot hold it."""
    mig = tuple(sorted(g.mig_profile for g in content if g.mig_profile))
    if not mig:
        alone = len(content) > 1 and any(g.gpu_milli >= 1000 for g in content)
        milli = sum(min(g.gpu_milli, 1000) for g in content)
        memory = sum(g.gpu_memory_mib for g in content)
        if alone or milli > 1000 or memory > GPU_MEMORY[gpu_type]:
            return math.inf
        return float(bool(content and state))
    if len(mig) < len(content) or gpu_type != "a100":
        return math.inf
    costs = [_beside(state, layout) for layout in arrangements(mig)]
    return min(costs, default=math.inf)


def _beside(state: tuple[tuple[str, int], ...], layout: tuple[tuple[str, int], ...]) -> float:
    """Return 0 if new instances can stand beside those of the state, else 1."""
    both = {*state, *layout}
    profiles = [(mig_profiles("a100")[name], start) for name, start in both]
    slices = [s for p, start in profiles for s in p.slices(start)]
    fits = (
        len(slices) == len(set(slices))
        and sum(p.compute_slices for p, _ in profiles) <= 7
        and sum(p.media for p, _ in profiles) <= 1
    )
    return 0.0 if fits else 1.0


def brute_force(instance: Instance, objective: str) -> float | None:
    """Return the best value over all choices, or None if not all jobs can run and they must."""
    topology = instance.topology
    kinds = [topology.host_type(host) for host in topology.hosts]
    state: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for a in instance.running:
        name = instance.job(a.job).configurations[0].tasks[0].mig_profile
        for task in a.tasks:
            key = (topology.host_index[task.host], task.gpus[0])
            state.setdefault(key, []).append((str(name), task.starts[0]))
    held = {key: tuple(sorted(layout)) for key, layout in state.items()}
    quota = {t.name: t.gpu_quota_milli for t in instance.tenants}
    all_run = objective in ("gpus_used", "reconfigurations")
    best: list[float | None] = [None]

    def places(group: TaskGroup, gpu_type: str | None) -> Iterator[tuple[int, tuple[int, ...]]]:
        for h, kind in enumerate(kinds):
            if gpu_type not in (None, kind.gpu_type):
                continue
            number = max(group.gpu_milli // 1000, 1) if group.uses_gpu else 0
            for gpus in itertools.combinations(range(kind.num_gpus), number):
                if group.mig_profile and kind.gpu_type != "a100":
                    continue
                if group.gpu_memory_mib > GPU_MEMORY.get(str(kind.gpu_type), 0):
                    continue
                yield h, gpus

    def leaf(content: dict[tuple[int, int], tuple[TaskGroup, ...]], weight: float) -> None:
        costs = [
            gpu_cost(str(kinds[h].gpu_type), groups, held.get((h, g), ()))
            for (h, g), groups in content.items()
        ]
        if math.inf in costs:
            return
        value = {
            "weight_placed": weight,
            "gpus_placed": weight,
            "gpus_used": float(len(content)),
            "reconfigurations": sum(costs),
        }[objective]
        if best[0] is None or (value < best[0] if all_run else value > best[0]):
            best[0] = value

    def extend(j, tasks, free, content, weight, used) -> None:  # type: ignore[no-untyped-def]
        if tasks:
            (group, gpu_type), rest = tasks[0], tasks[1:]
            for h, gpus in places(group, gpu_type):
                cpu, memory = free[h][0] - group.cpu_milli, free[h][1] - group.memory_mib
                if cpu < 0 or memory < 0:
                    continue
                more = dict(content)
                for g in gpus:
                    more[h, g] = (*more.get((h, g), ()), group)
                    if gpu_cost(str(kinds[h].gpu_type), more[h, g], ()) == math.inf:
                        break
                else:
                    now = [*free[:h], (cpu, memory), *free[h + 1 :]]
                    extend(j, rest, now, more, weight, used)
            return
        if j == len(instance.jobs):
            leaf(content, weight)
            return
        job = instance.jobs[j]
        for c in job.configurations:
            now = dict(used)
            if job.tenant in quota:
                now[job.tenant] = now.get(job.tenant, 0) + c.demand[0]
                if now[job.tenant] > quota[job.tenant]:
                    continue
            every = [(g, c.gpu_type) for g in c.tasks for _ in range(g.count)]
            gain = job.weight if objective == "weight_placed" else c.demand[0] / 1000
            extend(j + 1, every, free, content, weight + gain, now)
        if not all_run:
            extend(j + 1, [], free, content, weight, used)

    extend(0, [], [(k.cpu_milli, k.memory_mib) for k in kinds], {}, 0.0, {})
    return best[0]


def agree(instance: Instance, objective: str, backend: str) -> None:
    expected = brute_force(instance, objective)
    result = solve(instance, "sharing", backend, objective=objective, time_limit_s=30)
    certificate = result.certificate
    if expected is None:
        assert certificate.status == "infeasible"
        assert "jobs to run at once, and at most" in str(result.conflict) or backend != "auto"
        return
    sign = 1.0 if objective in ("weight_placed", "gpus_placed") else -1.0
    assert sign * certificate.bound >= sign * expected - 1e-6
    assert certificate.status == "optimal"
    assert certificate.objective == pytest.approx(expected)
    assert certificate.verified
    assert result.solution is not None
    assert verify(instance, result.solution) == []


few = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("objective", OBJECTIVES)
@few
@given(problems(), st.sampled_from(BACKENDS))
def test_every_backend_finds_the_optimum(objective: str, instance: Instance, backend: str) -> None:
    agree(instance, objective, backend)


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
@many
@given(problems(), st.sampled_from(BACKENDS))
def test_every_backend_finds_the_optimum_often(
    objective: str, instance: Instance, backend: str
) -> None:
    agree(instance, objective, backend)


@few
@given(problems())
def test_without_scarce_cpu_the_method_always_proves(instance: Instance) -> None:
    """When only GPUs bind, what the counts choose can always be dealt out (pages' claim)."""
    jobs = tuple(
        job.replace(
            configurations=tuple(
                replace(c, tasks=tuple(replace(g, cpu_milli=0) for g in c.tasks))
                for c in job.configurations
                if all(g.gpu_milli <= 1000 for g in c.tasks)
            )
            or (Configuration((TaskGroup("w", 1, 500),), 1.0),)
        )
        for job in instance.jobs
    )
    loose = instance.replace(jobs=jobs, running=())
    for objective in OBJECTIVES:
        expected = brute_force(loose, objective)
        result = solve(loose, "sharing", objective=objective)
        if expected is None:
            assert result.certificate.status == "infeasible"
        else:
            assert result.certificate.status == "optimal"
            assert result.certificate.objective == pytest.approx(expected)


def test_tasks_within_one_domain_are_refused() -> None:
    cluster = Topology("c", (KINDS[0],), (Host("h", "two"),))
    job = Job("a", 0.0, 1.0, (Configuration((TaskGroup("w", 1, 500),), 1.0, within="host"),))
    with pytest.raises(UnsupportedFeatureError, match=r'job "a": wants its tasks within one host'):
        solve(Instance("i", cluster, (job,)), "sharing")
