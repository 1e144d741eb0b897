"""Inflated arrivals: FGD's arrival sequence, on a trace of our own making."""

from __future__ import annotations

from collections import Counter

import pytest

from alloc.errors import InstanceError
from alloc.instances.inflation import inflated_arrivals
from alloc.instances.readers.openb import Pod
from alloc.topology import HostType, flat_cluster

CLUSTER = flat_cluster("small", HostType("h", 4, "T4", 64_000, 100_000), 5)
PODS = [
    Pod("whole", 4000, 100, 1000),
    Pod("share", 2000, 100, 500),
    Pod("cpu", 8000, 100, 0),
    Pod("typed", 2000, 100, 1000, ("A100", "T4")),
]


def test_every_pod_comes_once_and_then_pods_are_drawn() -> None:
    """20 GPUs, ratio 1.3: all four pods first, then draws up to 26 GPUs and not one more."""
    instance = inflated_arrivals(CLUSTER, PODS, seed=1)
    names = [job.id.split("-", 1)[1] for job in instance.jobs]
    assert sorted(names[:4]) == sorted(pod.name for pod in PODS)
    demand = sum(job.configurations[0].demand[0] for job in instance.jobs)
    assert 25_000 <= demand <= 26_000
    assert set(Counter(names)) == {pod.name for pod in PODS}
    assert {host.id for host in instance.topology.hosts} == {host.id for host in CLUSTER.hosts}


def test_a_seed_decides_order_and_draws() -> None:
    """The same seed gives the same instance, another seed another one."""
    one, same, other = (inflated_arrivals(CLUSTER, PODS, seed=s) for s in (1, 1, 2))
    assert one.fingerprint == same.fingerprint
    assert one.fingerprint != other.fingerprint
    kept = inflated_arrivals(CLUSTER, PODS, seed=1, shuffle_hosts=False)
    assert kept.topology.hosts == CLUSTER.hosts


def test_a_trace_that_asks_for_more_is_cut() -> None:
    """Forty whole pods on 20 GPUs at ratio 1: twenty remain."""
    pods = [Pod(f"p{k}", 0, 0, 1000) for k in range(40)]
    instance = inflated_arrivals(CLUSTER, pods, ratio=1.0)
    assert len(instance.jobs) == 20


def test_pods_run_on_the_types_that_they_name() -> None:
    """Of A100 and T4 the cluster has the T4s; a pod that names A100 only cannot run at all."""
    instance = inflated_arrivals(CLUSTER, PODS, seed=1)
    typed = next(job for job in instance.jobs if job.id.endswith("typed"))
    assert [c.gpu_type for c in typed.configurations] == ["T4"]
    with pytest.raises(InstanceError, match='pod "p" runs on A100 only, but the cluster has T4'):
        inflated_arrivals(CLUSTER, [Pod("p", 0, 0, 1000, ("A100",))])


def test_a_trace_without_gpus_cannot_be_inflated() -> None:
    """The loop that draws until the demand is reached would never end."""
    with pytest.raises(InstanceError, match="no pod asks for a GPU"):
        inflated_arrivals(CLUSTER, [PODS[2]])
