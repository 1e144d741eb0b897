"""F5 held against brute force: the method, both models and their backends say the same.

The brute force (`sharing_oracle`) shares no code with the models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sharing_oracle import brute_force

from alloc.errors import UnsupportedFeatureError
from alloc.families import FAMILIES
from alloc.packing.pool import HostPool
from alloc.problems.allocation.instance import Instance, Tenant, misfit
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.result import Limits
from alloc.solving import solve
from alloc.topology import Host, HostType, Topology
from alloc.topology.mig import mig_profiles
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup

OBJECTIVES = FAMILIES["sharing"].objectives
BACKENDS = ("auto", "highs", "pyomo")
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
        if bool(jobs) and draw(st.booleans()):
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
    """Yield jobs of one MIG task each that run together at random starts."""
    pool = HostPool(topology)
    spots = [
        (host.id, g)
        for h, host in enumerate(topology.hosts)
        if topology.gpu_types[h] == "a100"
        for g in range(topology.host_type(host).num_gpus)
    ]
    for job in jobs:
        configuration = job.configurations[0]
        group = configuration.tasks[0]
        if group.count != 1 or group.mig_profile is None or len(configuration.tasks) > 1:
            continue
        if not spots:
            return
        host, gpu = draw(st.sampled_from(spots))
        start = draw(st.sampled_from(mig_profiles("a100")[group.mig_profile].starts))
        tasks = (TaskPlacement(host, "w", 1, (gpu,), (start,)),)
        if pool.fits(configuration, tasks):
            pool.take(configuration, tasks)
            yield Assignment(job.id, 0, tasks)


def agree(instance: Instance, objective: str, backend: str) -> None:
    expected = brute_force(instance, objective)
    result = solve(instance, "sharing", backend, objective=objective, limits=Limits(seconds=30))
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


@pytest.mark.long
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
