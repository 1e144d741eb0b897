"""Instances: what can run on the empty cluster, and what an instance says of itself."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.errors import InstanceError
from alloc.problems.allocation.instance import Instance, Moves, misfit
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers import make_scheduler
from alloc.simulation import simulate
from alloc.topology import (
    Domain,
    GpuLink,
    Host,
    HostType,
    NetworkLink,
    Topology,
    flat_cluster,
)
from alloc.verification import initial_violations
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang

CLUSTER = flat_cluster("pair", HostType("box", 4, "v100", 8000, 1024), 2)


def fits(*groups: TaskGroup, gpu_type: str | None = None, within: str | None = None) -> str | None:
    """Return why groups do not fit on the empty pair of hosts."""
    return misfit(CLUSTER, Configuration(groups, 1.0, gpu_type, within))


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        (TaskGroup("worker", 8, 1000), None),
        (TaskGroup("worker", 9, 1000), "9 worker needs 9 GPU of 8 GPU"),
        (TaskGroup("worker", 2, 4000), None),
        (TaskGroup("worker", 1, 5000), "1 worker tasks of 5 GPU"),
        # 8 GPUs in all, but three on a host leave one that is no use.
        (TaskGroup("worker", 2, 3000), None),
        (TaskGroup("worker", 4, 2000, 3000), None),
        (TaskGroup("worker", 3, 2000, 5000), "3 worker tasks of 2 GPU, 5 CPU, .* holds 2"),
        (TaskGroup("ps", 16, 0, 1000), None),
        (TaskGroup("ps", 17, 0, 1000), "17 ps needs 17 CPU of 16 CPU"),
        (TaskGroup("ps", 3, 0, 5000), "3 ps tasks of 0 GPU, 5 CPU, 0 MiB each, .* holds 2"),
        (TaskGroup("ps", 2, 0, 0, 1024), None),
        (TaskGroup("ps", 3, 0, 0, 1024), "3 ps needs 3072 MiB of 2048 MiB"),
        (TaskGroup("ps", 1, 0, 0, 1025), "1 ps tasks of 0 GPU, 0 CPU, 1025 MiB each"),
        (TaskGroup("watcher", 1000), None),
    ],
)
def test_a_group_against_the_empty_cluster(group: TaskGroup, reason: str | None) -> None:
    """A job that can never run is an error of the input, said before any solver starts."""
    found = fits(group)
    assert (found is None) == (reason is None)
    if reason is not None and found is not None:
        assert re.search(reason, found)


def test_gpu_type_and_level() -> None:
    """Both may be misspelled, and both may ask for what the cluster lacks."""
    assert fits(TaskGroup("worker", 1, 1000), gpu_type="v100", within="host") is None
    assert "no GPU of type" in str(fits(TaskGroup("worker", 1, 1000), gpu_type="V100"))
    assert 'did you mean "host"?' in str(fits(TaskGroup("worker", 1, 1000), within="hosts"))


def test_only_hosts_of_the_type_count() -> None:
    """Eight GPUs, but four of each type."""
    kinds = (HostType("new", 4, "h100"), HostType("old", 4, "v100"))
    cluster = Topology("mixed", kinds, (Host("n", "new"), Host("o", "old")))
    group = (TaskGroup("worker", 5, 1000),)
    assert misfit(cluster, Configuration(group, 1.0)) is None
    assert "5 GPU of 4 GPU" in str(misfit(cluster, Configuration(group, 1.0, "h100")))


def test_one_configuration_that_fits_is_enough() -> None:
    """Tables list more workers than some cluster has; only a useful one must fit."""
    large, small = rigid_gang(100), rigid_gang(1)
    assert Instance("i", CLUSTER, (Job("a", 0.0, 1.0, (large, small)),)).jobs
    still = Configuration(small.tasks, 0.0)
    with pytest.raises(InstanceError, match=r'job "a": fits the empty cluster in none of its conf'):
        Instance("i", CLUSTER, (Job("a", 0.0, 1.0, (large, still)),))


def test_jobs_are_found_by_id() -> None:
    """Ids in solutions and logs lead back to jobs."""
    instance = Instance("i", CLUSTER, (Job("a-1", 0.0, 1.0, (rigid_gang(1),)),))
    assert instance.job("a-1") is instance.jobs[0]
    assert instance.job_index == {"a-1": 0}
    with pytest.raises(InstanceError, match=r'instance "i" has no job "a-2"; did you mean "a-1"\?'):
        instance.job("a-2")
    with pytest.raises(InstanceError, match='has no job "zzz"; give the id of one of its jobs'):
        instance.job("zzz")


def test_domains_are_arrays_in_the_order_of_hosts() -> None:
    """Models index by host and domain; -1 says that a host lies in none."""
    kinds = (HostType("box", 2, "v100"),)
    hosts = (Host("x", "box", "l1"), Host("y", "box", "p0"), Host("z", "box"))
    domains = (Domain("p0", "pod"), Domain("l0", "leaf", "p0"), Domain("l1", "leaf", "p0"))
    topology = Topology("t", kinds, hosts, ("pod", "leaf"), domains)
    table = topology.domain_of_host
    assert table["pod"].tolist() == [0, 0, -1]
    assert table["leaf"].tolist() == [2, -1, -1]
    assert table["host"].tolist() == [0, 1, 2]
    assert topology.capacity.tolist() == [[2000, 0, 0]] * 3
    assert topology.num_gpus == 6
    with pytest.raises(ValueError, match="read-only"):
        topology.capacity[0, 0] = 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"levels": ("leaf", "leaf")}, 'level "leaf" appears twice'),
        ({"levels": ("host",)}, 'level "host" is implied; leave it out of levels'),
        ({"domains": (Domain("a", "rack"),)}, 'is on level "rack", which is not in levels; add it'),
        ({"domains": (Domain("host-0", "leaf"),)}, 'host or domain "host-0" appears twice'),
        ({"domains": (Domain("a", "leaf", "p"),)}, 'has parent "p", which is not defined; define'),
        (
            {"domains": (Domain("a", "leaf"), Domain("b", "pod", "a"))},
            r'domain "b" \(pod\) lies in "a" \(leaf\), which is not an outer level; list levels',
        ),
        ({"host_types": ()}, 'host "host-0" is of type "box", which is not defined; define it in'),
        ({"host_types": CLUSTER.host_types * 2}, 'host type "box" appears twice'),
    ],
)
def test_topologies_that_contradict_themselves(changes: dict[str, object], sentence: str) -> None:
    """A loop of domains would hang every walk up the tree."""
    with pytest.raises(InstanceError, match=sentence):
        CLUSTER.replace(**{"levels": ("pod", "leaf"), **changes})


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: GpuLink("g", "g", "nvlink", 1.0), 'link: "g" is linked to itself; name two dev'),
        (lambda: GpuLink("g", "h", "nvlink", 0.0), "link g-h: bandwidth_gb_per_s is 0; it must be"),
        (lambda: NetworkLink("a", "a", 1.0), 'link: "a" is linked to itself; name two nodes'),
        (lambda: NetworkLink("a", "b", -1.0), "link a-b: bandwidth_gb_per_s is -1; it must be"),
        (lambda: HostType(""), "a host type has an empty name; name it"),
        (lambda: HostType("x", 1), 'host type "x": has 1 GPUs of no type; set gpu_type'),
        (lambda: HostType("x", cpu_milli=4), "write 4000 for 4 core"),
    ],
)
def test_parts_of_topologies_that_cannot_be(build: Callable[[], object], sentence: str) -> None:
    """Builders of real machines are built from these, so they must not pass on a slip."""
    with pytest.raises(InstanceError, match=sentence):
        build()


@st.composite
def running_jobs(
    draw: st.DrawFn,
) -> tuple[tuple[Job, ...], tuple[Assignment, ...], bool]:
    """Up to four jobs that run anywhere, and whether they fit.

    That is counted by hand: whole GPUs and CPU by host, shares by GPU.
    """
    jobs, running = [], []
    gpus = {host.id: [0] * 4 for host in CLUSTER.hosts}
    whole = dict.fromkeys(gpus, 0)
    cpu = dict.fromkeys(gpus, 0)
    for j in range(draw(st.integers(1, 4))):
        group = TaskGroup("w", 1, draw(st.sampled_from((0, 500, 1000, 3000))), 3000)
        jobs.append(Job(f"j{j}", 0.0, 1.0, (Configuration((group,), 1.0),)))
        host = draw(st.sampled_from(CLUSTER.hosts)).id
        at = (draw(st.integers(0, 3)),) if group.shares_gpu else ()
        running.append(Assignment(f"j{j}", 0, (TaskPlacement(host, "w", 1, at),)))
        cpu[host] += group.cpu_milli
        if at:
            gpus[host][at[0]] += group.gpu_milli
        else:
            whole[host] += group.gpu_milli // 1000
    fits = all(
        cpu[h] <= 8000 and max(gpus[h]) <= 1000 and whole[h] + sum(map(bool, gpus[h])) <= 4
        for h in gpus
    )
    return tuple(jobs), tuple(running), fits


@settings(max_examples=150, deadline=None)
@given(running_jobs())
def test_running_that_overfills_a_host_is_refused(
    drawn: tuple[tuple[Job, ...], tuple[Assignment, ...], bool],
) -> None:
    """A simulation used to blame its scheduler for it: "host h0 is over its gpu_milli"."""
    jobs, running, fits = drawn
    if fits:
        assert not initial_violations(Instance("fits", CLUSTER, jobs, running=running))
        return
    with pytest.raises(InstanceError, match="where the other running jobs leave no room"):
        Instance("over", CLUSTER, jobs, running=running)
    over = Instance("over", CLUSTER, jobs, slot_s=1.0, running=running, moves=Moves())
    with pytest.raises(InstanceError, match="a simulation needs hosts that hold"):
        simulate(over, make_scheduler("fifo"))
