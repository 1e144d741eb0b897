"""Which pods of a dump of Kubernetes are one job, and which of its jobs wait."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes_dumps import (
    GPU,
    HOSTNAME,
    RACK,
    container,
    gpu_spec,
    kueue_topology,
    node,
    pod,
    pod_group,
    workload,
)
from kubernetes_reading import FOUR, gangs_of, read, reasons, starts, waiting


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        # Owners: a Job is a gang, the pods of a ReplicaSet are each for themselves.
        ([waiting(f"w-{k}", owner=("Job", "w")) for k in range(2)], {"team-a/w": [2]}),
        (
            [waiting(f"w-{k}", owner=("ReplicaSet", "w")) for k in range(2)],
            {"team-a/w-0": [1], "team-a/w-1": [1]},
        ),
        (
            [
                waiting(f"w-{k}", owner=("Job", f"js-{k}"),
                        labels={"jobset.sigs.k8s.io/jobset-name": "js"})
                for k in range(3)
            ],
            {"team-a/js": [3]},
        ),
        # A PodGroup, of Volcano or KAI, and with how few pods it may start.
        (
            [
                pod_group("pg-1", "train", 2),
                *(
                    waiting(f"w-{k}", annotations={"scheduling.k8s.io/group-name": "pg-1"})
                    for k in range(3)
                ),
            ],
            {"team-a/train": [3, 2]},
        ),
        (
            [waiting(f"w-{k}", annotations={"pod-group-name": "pg"}) for k in range(2)],
            {"team-a/pg": [2]},
        ),
        # A leader without a GPU belongs to its gang.
        (
            [
                waiting("w-0", gpu_spec(0), owner=("MPIJob", "w")),
                waiting("w-1", owner=("MPIJob", "w")),
            ],
            {"team-a/w": [2]},
        ),
        # Workloads that are not admitted have no pods.
        ([workload("w", [("main", 3, gpu_spec(), {})])], {"team-a/w": [3]}),
        ([workload("w", [("main", 3, gpu_spec(), {})], version="v1beta2")], {"team-a/w": [3]}),
        # A Job that was not submitted yet, suspended or not; what has ended is gone.
        (
            [
                {"apiVersion": "batch/v1", "kind": "Job",
                 "metadata": {"name": "w", "namespace": "team-a"},
                 "spec": {"parallelism": 4, "completions": 4, "suspend": True,
                          "template": {"spec": gpu_spec()}}},
            ],
            {"team-a/w": [4]},
        ),
        # A job of Volcano with two tasks.
        (
            [
                {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
                 "metadata": {"name": "w", "namespace": "team-a"},
                 "spec": {"minAvailable": 3, "queue": "q", "tasks": [
                     {"name": "head", "replicas": 1, "template": {"spec": gpu_spec(0)}},
                     {"name": "worker", "replicas": 2, "template": {"spec": gpu_spec()}}]}},
            ],
            {"team-a/w": [3]},
        ),
    ],
)  # fmt: skip
def test_which_pods_belong_together(tmp_path, items, expected) -> None:
    instance, _ = read(tmp_path, *FOUR, *items)
    assert gangs_of(instance) == expected


def test_a_workload_and_its_pods_are_one_job(tmp_path) -> None:
    """Whether its pods name it, or only its owner does."""
    for notes in ({}, {"kueue.x-k8s.io/workload": "job-a-1f2e3"}):
        instance, _ = read(
            tmp_path,
            *FOUR,
            workload("a", [("main", 2, gpu_spec(), {})], admitted={GPU: "h100"}, priority=5),
            *(
                pod(f"a-{k}", gpu_spec(), on=f"n{k}", owner=("Job", "a"), annotations=notes)
                for k in range(2)
            ),
            waiting(),
        )
        assert gangs_of(instance) == {"team-a/a": [2], "team-a/w": [1]}
        assert [a.job for a in instance.running] == ["team-a/a"]


def test_a_gang_that_runs_in_part(tmp_path) -> None:
    """What waits is a job of its own, and must join the rest where the gang must be together."""
    rule = {"kueue.x-k8s.io/podset-required-topology": RACK}
    instance, account = read(
        tmp_path,
        kueue_topology(RACK, HOSTNAME),
        *(node(f"n{k}", rack=f"r{k // 2}") for k in range(4)),
        pod("a-0", gpu_spec(), on="n0", owner=("Job", "a"), annotations=rule),
        waiting("a-1", owner=("Job", "a"), annotations=rule),
        pod("b", gpu_spec(), on="n1"),
    )
    assert gangs_of(instance)["team-a/a.waiting"] == [1]
    assert starts(instance) == set()
    assert instance.affinities[0].level == "rack"
    assert "runs in part; its pods that wait are a job of their own" in reasons(account.altered)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"active": False}, "gang that waits: is not active, and waits whatever is free"),
        ({"conditions": [{"type": "Finished", "status": "True"}]}, "gang that waits: has ended"),
    ],
)
def test_workloads_that_do_not_wait(tmp_path, change, reason) -> None:
    _, account = read(
        tmp_path, *FOUR, workload("w", [("main", 1, gpu_spec(), {})], **change), waiting()
    )
    assert reasons(account.also[0].dropped)[reason] == 1


# Where pods may stand


def test_a_gang_whose_leader_runs_before_its_workers(tmp_path) -> None:
    """The part that runs has no GPU, and so no rule about them."""
    head = {"containers": [container({"cpu": "1"})]}
    rule = {"kueue.x-k8s.io/podset-required-topology": RACK}
    instance, _ = read(
        tmp_path, kueue_topology(RACK, HOSTNAME), *FOUR,
        pod("head", head, on="n0", owner=("PyTorchJob", "j")),
        pod("w", gpu_spec(), owner=("PyTorchJob", "j"), annotations=rule),
    )  # fmt: skip
    assert [a.job for a in instance.running] == ["team-a/j"]
    assert starts(instance) == {"team-a/j.waiting"}


def test_workers_that_wait_beside_a_leader_are_tied_to_no_rack_of_those_that_run(tmp_path) -> None:
    """A rule of the pods with GPUs alone cannot reach over both parts, and that is said."""
    head = {"containers": [container({"cpu": "1"})]}
    more: dict[str, Any] = {
        "owner": ("PyTorchJob", "j"),
        "annotations": {"kueue.x-k8s.io/podset-required-topology": RACK},
    }
    _, account = read(
        tmp_path, kueue_topology(RACK, HOSTNAME), *FOUR,
        pod("w-0", gpu_spec(), on="n0", **more), pod("w-1", gpu_spec(), **more),
        pod("head", head, owner=("PyTorchJob", "j")),
    )  # fmt: skip
    assert reasons(account.altered)["its pods that wait need not join those that run"] == 1


def test_a_gang_with_a_pod_that_cannot_be_read_does_not_wait_as_the_rest(tmp_path) -> None:
    claim = gpu_spec(8, resourceClaims=[{"name": "x"}])
    instance, account = read(
        tmp_path, *FOUR, waiting("x"), waiting("a", owner=("Job", "j")),
        waiting("b", claim, owner=("Job", "j")),
    )  # fmt: skip
    assert [job.id for job in instance.jobs] == ["team-a/x"]
    assert reasons(account.also[0].dropped) == {
        "gang that waits: one of its pods cannot be read": 1
    }
