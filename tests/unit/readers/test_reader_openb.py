"""openb: GPU shares, GPU type constraints, snapshots and smaller clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alloc.errors import InstanceError
from alloc.instances.readers import openb_instance, read_openb_nodes, read_openb_pods
from alloc.instances.readers.openb import every_kth_host
from alloc.packing import HostPool
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.verification import verify

DATA = Path(__file__).parents[2] / "data" / "traces"
NODES = DATA / "openb-nodes.csv"
PODS = DATA / "openb-pods.csv"
UNTIMED = DATA / "openb-pods-untimed.csv"


def test_nodes_become_hosts_of_as_few_types_as_there_are() -> None:
    """Equal nodes share a host type; nodes that cannot be are counted."""
    topology, report = read_openb_nodes(NODES)
    assert [(h.id, h.type) for h in topology.hosts] == [
        ("n0", "cpu-32000m-131072mib"),
        ("n1", "2xT4-64000m-262144mib"),
        ("n2", "8xG2-96000m-393216mib"),
        ("n3", "8xG2-96000m-393216mib"),
    ]
    assert topology.num_gpus == 18
    assert topology.host_type(topology.hosts[0]).gpu_type is None
    assert report.rows_skipped == 4
    assert [t.reason for t in report.skipped][:3] == [
        "sn appears before",
        "model is empty",
        "cpu_milli is not between 0 and 10000000",
    ]
    assert "cpu_milli is 5, less than 1 %" in report.skipped[3].reason


def test_pods_are_read_or_counted() -> None:
    """Shares, whole GPUs, repeated types, pods never placed; and six rows that are wrong."""
    pods, report = read_openb_pods(PODS)
    by_name = {pod.name: pod for pod in pods}
    assert {name: pod.gpu_milli for name, pod in by_name.items()} == {
        "p0": 1000,
        "p1": 500,
        "p2": 0,
        "p3": 8000,
        "p4": 1000,
        "p5": 1000,
        "p6": 16000,
    }
    assert by_name["p1"].gpu_types == ("G2", "T4")
    assert (by_name["p1"].created_s, by_name["p1"].duration_s) == (160.0, 830.0)
    assert by_name["p4"].duration_s is None
    assert {t.reason.split(":")[0]: t.count for t in report.skipped} == {
        "num_gpu and gpu_milli do not agree on whether it uses GPUs": 1,
        "asks for a share of several GPUs": 1,
        "deletion_time is not after scheduled_time": 1,
        "memory_mib is not between 0 and 67108864": 1,
        "name appears before": 1,
        'task group "pod"': 1,
        "scheduled_time is before creation_time": 1,
    }


def test_a_replay_keeps_arrivals_durations_shares_and_types() -> None:
    """Times start with the first pod; a pod allowed on two types has a configuration for each."""
    instance, report = openb_instance(NODES, PODS)
    assert [(j.id, j.arrival_s, j.work, j.elasticity) for j in instance.jobs] == [
        ("p0", 0.0, 600.0, "rigid"),
        ("p1", 60.0, 830.0, "moldable"),
        ("p2", 100.0, 90.0, "rigid"),
        ("p3", 160.0, 600.0, "rigid"),
    ]
    share = instance.job("p1")
    assert [(c.gpu_type, c.demand) for c in share.configurations] == [
        ("G2", (500, 2000, 4096)),
        ("T4", (500, 2000, 4096)),
    ]
    assert instance.job("p2").configurations[0].demand == (0, 8000, 16384)
    assert {t.reason: t.examples for t in report.dropped} == {
        "never placed, so without duration (or a list without times)": ("p4",),
        # p5 may use a type that no node has; p6 wants more GPUs than a node has.
        "fits no host of the cluster": ("p5", "p6"),
    }
    assert report.rows_read == len(instance.jobs) + report.num_dropped


def test_a_snapshot_asks_for_everything_at_once_and_can_be_packed() -> None:
    """The checker accepts the shares and the types where the packing rule put them."""
    instance, _ = openb_instance(NODES, PODS, snapshot=True, slot_s=60.0, gpu_pods_only=True)
    assert [job.id for job in instance.jobs] == ["p0", "p1", "p3", "p4"]
    assert {(job.arrival_s, job.work) for job in instance.jobs} == {(0.0, 60.0)}
    pool = HostPool(instance.topology)
    assignments = []
    for job in instance.jobs:
        tasks = pool.place(job.configurations[0])
        assert tasks is not None
        assignments.append(Assignment(job.id, 0, tasks))
    assert verify(instance, Allocation(tuple(assignments))) == []


def test_lists_without_times_make_snapshots_only() -> None:
    """The multi-GPU variants were published without times."""
    instance, _ = openb_instance(NODES, UNTIMED, snapshot=True)
    assert [job.id for job in instance.jobs] == ["p0", "p1", "p2"]
    assert instance.jobs[0].work == 1.0
    assert instance.name == "openb-pods-untimed-snapshot"
    with pytest.raises(InstanceError, match="no job that can be read"):
        openb_instance(NODES, UNTIMED)


def test_a_smaller_cluster_keeps_the_mix() -> None:
    """Every second of four nodes: one without GPUs and one of 8."""
    topology, _ = read_openb_nodes(NODES)
    smaller = every_kth_host(topology, 2)
    assert [host.id for host in smaller.hosts] == ["n0", "n2"]
    assert {kind.name for kind in smaller.host_types} == {host.type for host in smaller.hosts}
    instance, report = openb_instance(NODES, PODS, num_hosts=2)
    assert instance.topology.num_gpus == 8
    # Without T4 nodes, the pod that may use either type is left with one.
    assert instance.job("p1").elasticity == "rigid"
    assert report.also[0].rows_read == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_hosts": 5}, "has 4 hosts, so num_hosts cannot be 5"),
        ({"num_hosts": 0}, "num_hosts cannot be 0"),
        ({"snapshot": True, "start_s": 1.0}, "a snapshot has no clock"),
        ({"start_s": 1e6}, "submissions run from 100 s to 310 s"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    """Each in a sentence with the value and the cure."""
    with pytest.raises(InstanceError, match=message):
        openb_instance(NODES, PODS, **options)


def test_an_empty_node_list_is_refused(tmp_path: Path) -> None:
    """A cluster needs a host."""
    path = tmp_path / "nodes.csv"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\n")
    with pytest.raises(InstanceError, match="lists no node that can be read"):
        read_openb_nodes(path)


def test_a_list_with_some_of_the_times_is_refused(tmp_path: Path) -> None:
    """Found by the fuzz test: without a deletion the duration cannot be known."""
    path = tmp_path / "pods.csv"
    path.write_text(PODS.read_text().replace("deletion_time", "deleted", 1))
    with pytest.raises(InstanceError, match='"deletion_time" is not in "name,cpu_milli'):
        read_openb_pods(path)
