"""A dump of Kubernetes as an instance: what stands, what is free, who may go where."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kubernetes_dumps import (
    BLOCK,
    GPU,
    HOSTNAME,
    RACK,
    cluster_queue,
    container,
    dump,
    flavor,
    gpu_spec,
    kueue_topology,
    large_dump,
    local_queue,
    node,
    pod,
    pod_group,
    save,
    workload,
)

from alloc.errors import InstanceError
from alloc.instances.readers import read_instance
from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Allocation
from alloc.solving.placing.place import place
from alloc.solving.solver import solve


def read(tmp_path: Path, *items: Any, **options: Any) -> tuple[Instance, Any]:
    return read_instance("kubernetes", save(tmp_path / "dump.json", *items), **options)


def reasons(tallies: Any) -> dict[str, int]:
    return {tally.reason: tally.count for tally in tallies}


def starts(instance: Instance) -> set[str]:
    """The waiting jobs that start where nothing moves, proved to be worth the most."""
    found = place(instance.replace(moves=Moves(budget=0)), "weight_placed").result
    assert found.certificate.status == "optimal"
    assert isinstance(found.solution, Allocation)
    return {a.job for a in found.solution.assignments} - {a.job for a in instance.running}


def waiting(name: str = "w", spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return pod(name, gpu_spec() if spec is None else spec, **more)


# What runs


def test_a_moment_of_a_cluster(tmp_path) -> None:
    instance, account = read(
        tmp_path,
        *(node(f"n{k}", rack=f"r{k // 2}") for k in range(4)),
        kueue_topology(BLOCK, RACK, HOSTNAME),
        pod("a-0", gpu_spec(), on="n0", owner=("Job", "a")),
        pod("a-1", gpu_spec(), on="n1", owner=("Job", "a")),
        pod("agent", gpu_spec(0, "10", "64Gi"), on="n2", owner=("DaemonSet", "agent")),
        pod("b", gpu_spec(2, priority=7), on="n2"),
        workload("c", [("main", 2, gpu_spec(), {"required": RACK})]),
        pod("old", gpu_spec(), on="n3", phase="Succeeded"),
        pod("web", gpu_spec(0), owner=("ReplicaSet", "web")),
    )
    assert [job.id for job in instance.jobs] == ["team-a/b", "team-a/a", "team-a/c"]
    stands = {a.job: [(t.host, t.count) for t in a.tasks] for a in instance.running}
    assert stands == {"team-a/a": [("n0", 1), ("n1", 1)], "team-a/b": [("n2", 1)]}
    assert instance.topology.levels == ("block", "rack")
    assert instance.job("team-a/c").placement.required == "rack"
    assert instance.job("team-a/b").weight > instance.job("team-a/c").weight
    capacity = dict(zip((h.id for h in instance.topology.hosts), instance.topology.capacity,
                        strict=True))  # fmt: skip
    assert capacity["n2"].tolist() == [8000, 180_000, 1936 * 1024]
    assert starts(instance) == set()
    assert reasons(account.also[0].dropped) == {
        "Pod has ended": 1,
        "gang that waits: asks for no GPU": 1,
    }
    assert account.rows_read == len(instance.jobs) + account.num_dropped


def test_only_what_is_free_is_free(tmp_path) -> None:
    """On every node: what jobs hold and what is left is what is allocatable, less all others."""
    items = large_dump(60, seed=3)
    instance, _ = read(tmp_path, *items)
    held: dict[str, int] = {}
    for one in instance.running:
        way = instance.job(one.job).configurations[one.configuration]
        of_role = {g.role: g for g in way.tasks}
        for task in one.tasks:
            held[task.host] = held.get(task.host, 0) + task.count * of_role[task.role].gpu_milli
    asked: dict[str, int] = {}
    for item in items:
        if item["kind"] == "Pod" and item["spec"].get("nodeName"):
            gpus = item["spec"]["containers"][0]["resources"]["requests"].get(GPU, "0")
            at = item["spec"]["nodeName"]
            asked[at] = asked.get(at, 0) + 1000 * int(gpus)
    assert held == {name: milli for name, milli in asked.items() if milli or name in held}
    for host, row in zip(instance.topology.hosts, instance.topology.capacity, strict=True):
        there = next(i for i in items if i["kind"] == "Node" and i["metadata"]["name"] == host.id)
        if there["spec"].get("unschedulable"):
            assert row[0] == held.get(host.id, 0)
        else:
            assert row[0] == 1000 * int(there["status"]["allocatable"].get(GPU, "0"))


def test_a_node_that_takes_no_pods_keeps_what_stands_there(tmp_path) -> None:
    bad = node("n1")
    bad["status"]["conditions"][1]["status"] = "Unknown"
    instance, account = read(
        tmp_path,
        node("n0", unschedulable=True),
        bad,
        pod("a", gpu_spec(4), on="n0"),
        pod("b", gpu_spec(4), on="n1"),
        node("n2"),
        waiting("w", gpu_spec(4)),
        waiting("x", gpu_spec(5)),
    )
    assert starts(instance) in ({"team-a/w"}, {"team-a/x"})
    assert not instance.job("team-a/a").preemptible
    assert reasons(account.altered) == {
        "stands on a node that takes no new pods, and stays there": 2
    }
    changed = reasons(account.also[0].altered)
    assert changed["Node takes no new pods: cordoned (spec.unschedulable)"] == 1
    assert changed["Node takes no new pods: not ready"] == 1


def test_a_pod_that_is_being_deleted_holds_its_node(tmp_path) -> None:
    instance, account = read(
        tmp_path,
        node("n0"),
        pod("a", gpu_spec(), on="n0", deleted=True),
        waiting("gone", deleted=True),
        waiting("w"),
    )
    assert starts(instance) == set()
    assert not instance.job("team-a/a").preemptible
    assert reasons(account.also[0].dropped) == {"Pod is being deleted and never started": 1}


def test_a_gang_that_cannot_be_an_instance_still_holds_its_nodes(tmp_path) -> None:
    """Half of it on a node that is not in the dump: what stands on the other is not free."""
    instance, account = read(
        tmp_path,
        node("n0"),
        pod("a-0", gpu_spec(6), on="n0", owner=("Job", "a")),
        pod("a-1", gpu_spec(6), on="elsewhere", owner=("Job", "a")),
        waiting("w", gpu_spec(2)),
        waiting("x", gpu_spec(3)),
    )
    assert starts(instance) == {"team-a/w"}
    assert reasons(account.dropped)[
        "runs on nodes that are not in the dump; what it holds is taken off its nodes"
    ] == 1  # fmt: skip


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [container({GPU: "1.5"})]},
        {"containers": "none"},
        {"containers": [container({GPU: "1"})], "resourceClaims": [{"name": "gpu"}]},
    ],
)
def test_where_a_pod_cannot_be_read_nothing_is_free(tmp_path, spec) -> None:
    instance, account = read(
        tmp_path, node("n0"), node("n1"), pod("odd", spec, on="n0"), waiting("w"), waiting("x")
    )
    assert len(starts(instance)) == 1
    assert account.also[0].rows_skipped == 1


# Gangs


def gangs_of(instance: Instance) -> dict[str, list[int]]:
    return {
        job.id: [sum(group.count for group in way.tasks) for way in job.configurations]
        for job in instance.jobs
    }


FOUR = [node(f"n{k}") for k in range(4)]


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


def affinity(key: str, *values: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    path = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {path: {"nodeSelectorTerms": terms}}}}


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


def test_one_pod_starts_exactly_where_the_scheduler_would_let_it(tmp_path) -> None:
    """Random clusters against the filters of the scheduler, written down plainly."""
    for seed in range(25):
        rng = random.Random(seed)
        kinds = [rng.choice(["h100", "a100", "t4", "cpu"]) for _ in range(4)]
        if set(kinds) == {"cpu"}:
            kinds[0] = "t4"
        taint = {"key": "team", "value": "x", "effect": rng.choice(["NoSchedule", "NoExecute"])}
        nodes = [
            node(f"n{k}", kind, taints=[taint] if rng.random() < 0.3 else None)
            | {"spec": {"taints": [taint] if rng.random() < 0.3 else [],
                        "unschedulable": rng.random() < 0.15}}
            for k, kind in enumerate(kinds)
        ]  # fmt: skip
        extra = {"example.com/rdma": "2"}
        for item in nodes:
            item["status"]["allocatable"] |= extra if rng.random() < 0.5 else {}
        pods, free = [], {}
        for k, item in enumerate(nodes):
            gpus = int(item["status"]["allocatable"].get(GPU, "0"))
            used = rng.randrange(gpus + 1)
            cpu = rng.randrange(60)
            free[k] = (gpus - used, int(item["status"]["allocatable"]["cpu"]) - cpu)
            if used or cpu:
                spec = gpu_spec(used, str(cpu), "1Gi")
                pods.append(pod(f"p{k}", spec, on=f"n{k}"))
        asked, cores = rng.choice([1, 2, 4, 8]), rng.choice([1, 30, 60, 100])
        spec = gpu_spec(asked, str(cores), "1Gi")
        pool = rng.choice([None, "h100", "a100", "t4"])
        wants_rdma, tolerates = rng.random() < 0.3, rng.random() < 0.5
        spec |= {"nodeSelector": {"pool": pool}} if pool else affinity("pool", "a100", "h100", "t4")
        if wants_rdma:
            spec["containers"][0]["resources"]["requests"]["example.com/rdma"] = "1"
        if tolerates:
            spec["tolerations"].append({"key": "team", "operator": "Exists"})
        fitting = [
            k
            for k, item in enumerate(nodes)
            if not item["spec"]["unschedulable"]
            and (tolerates or not item["spec"]["taints"])
            and pool in (None, kinds[k])
            and (not wants_rdma or "example.com/rdma" in item["status"]["allocatable"])
            and free[k][0] >= asked
            and free[k][1] >= cores
        ]
        filler = pod("filler", gpu_spec(0), on="n0", owner=("DaemonSet", "filler"))
        other = [node("n4", "h100"), pod("keep", gpu_spec(8), on="n4", namespace="kept")]
        other[0]["spec"]["unschedulable"] = True
        instance, account = read(tmp_path, *nodes, *pods, *other, waiting("w", spec), filler)
        dropped = {e for t in account.dropped for e in t.examples}
        can = "team-a/w" not in dropped and "team-a/w" in starts(instance)
        # The filler holds 32 cores and 200 GiB of n0.
        expected = [k for k in fitting if k or free[0][1] - 32 >= cores]
        assert can == bool(expected), seed


def test_gpus_of_another_maker_beside_them_are_not_free_gpus(tmp_path) -> None:
    """A server with eight H100 in use and a chip for its screen has no GPU left."""
    instance, account = read(
        tmp_path, node("n0", offers={"gpu.intel.com/i915": "1"}), pod("a", gpu_spec(8), on="n0"),
        waiting("w", gpu_spec(1)),
    )  # fmt: skip
    assert instance.topology.num_gpus == 8
    assert starts(instance) == set()
    assert any("several makers" in reason for reason in reasons(account.also[0].altered))


def test_less_than_a_hundredth_of_a_core(tmp_path) -> None:
    """Neither what a pod asks for nor what is left of a node need be more."""
    for taken, asked, expected in (("189995m", "0", {"w", "x"}), ("189000m", "5m", {"w", "x"}),
                                   ("189000m", "1001m", {"x"})):  # fmt: skip
        agent = {"containers": [container({"cpu": taken})]}
        instance, _ = read(
            tmp_path, node("n0"), pod("agent", agent, on="n0"),
            waiting("w", gpu_spec(1, asked)), waiting("x", gpu_spec(1, "0")),
        )  # fmt: skip
        assert starts(instance) == {f"team-a/{name}" for name in expected}, (taken, asked)


def test_a_selector_that_no_gpu_type_says(tmp_path) -> None:
    """Two nodes of one type, of which the pod may use one."""
    own = [node("n0"), node("n1")]
    own[1]["metadata"]["labels"]["disk"] = "fast nvme"
    spec = gpu_spec(4, nodeSelector={"disk": "fast nvme"})
    pods = [waiting(f"w{k}", spec) for k in range(3)]
    instance, _ = read(tmp_path, *own, *pods)
    assert len(starts(instance)) == 2
    assert "node:disk=fast?nvme" in instance.resource_names
    instance, account = read(tmp_path, own[0], *pods, waiting("x"))
    assert reasons(account.dropped) == {"no node that takes pods is one that it may use": 3}


def test_mig_slices_are_asked_for_by_name(tmp_path) -> None:
    offers = {GPU: "0", "nvidia.com/mig-1g.10gb": "3"}
    asked = {"containers": [container({"nvidia.com/mig-1g.10gb": "1"})]}
    instance, _ = read(
        tmp_path,
        node("n0", "a100", offers=offers),
        pod("a", asked, on="n0"),
        *(waiting(f"w{k}", asked) for k in range(3)),
    )
    jobs = instance.jobs
    assert [j.configurations[0].tasks[0].resources for j in jobs] == [
        {"nvidia.com/mig-1g.10gb": 1}
    ] * 4
    assert len(starts(instance)) == 2


def test_shares_of_one_gpu_stay_together(tmp_path) -> None:
    """The label of KAI says which GPU; its pod that reserves the GPU is not counted twice."""
    share = {"containers": [container({"cpu": "1"})]}
    notes = {"gpu-fraction": "0.4"}
    running = [
        pod(f"a{k}", share, on="n0", annotations=notes, labels={"runai-gpu-group": f"g{k // 2}"})
        for k in range(3)
    ]
    reservation = pod("gpu-reservation", gpu_spec(1), on="n0", namespace="runai-reservation")
    items = [
        node("n0", "t4"), *running, reservation,
        waiting("big", share, annotations={"gpu-fraction": "0.6"}),
        waiting("two", gpu_spec(2)), waiting("three", gpu_spec(3)),
    ]  # fmt: skip
    instance, account = read(tmp_path, *items, shares=True)
    gpus = {a.job: a.tasks[0].gpus for a in instance.running}
    assert gpus["team-a/a0"] == gpus["team-a/a1"] != gpus["team-a/a2"]
    found = solve(instance, "sharing", objective="weight_placed").solution.assignments
    assert {a.job for a in found} - gpus.keys() == {"team-a/big", "team-a/two"}
    assert reasons(account.also[0].dropped) == {"Pod holds a GPU for those that share it": 1}
    # By default the two GPUs that are shared are gone, and the questions of placement are answered.
    instance, account = read(tmp_path, *items)
    assert [job.id for job in instance.jobs] == ["team-a/two"]
    assert instance.topology.num_gpus == 2
    assert starts(instance) == {"team-a/two"}
    assert account.num_dropped == 5


def test_a_share_by_memory_depends_on_the_gpu(tmp_path) -> None:
    share = {"containers": [container({"cpu": "1"})]}
    memory = {"gpu-memory": "40960"}
    instance, _ = read(
        tmp_path,
        node("n0", "h100"), node("n1", "t4"),
        waiting("w", share, annotations=memory), shares=True,
    )  # fmt: skip
    ways = instance.jobs[0].configurations
    assert [(w.gpu_type, w.tasks[0].gpu_milli) for w in ways] == [("h100-sxm-80gb", 500)]


def test_gpus_of_other_makers(tmp_path) -> None:
    """A pod that asks for one maker's GPUs finds no other's."""
    amd = node("n1", "cpu", offers={"amd.com/gpu": "8"})
    amd["metadata"]["labels"]["amd.com/gpu.product-name"] = "MI300X"
    gaudi = node("n2", "cpu", offers={"habana.ai/gaudi": "8"})
    asks = {name: {"containers": [container({name: "8"})]} for name in (GPU, "amd.com/gpu")}
    instance, _ = read(
        tmp_path, node("n0"), amd, gaudi,
        pod("a", gpu_spec(1), on="n0"), waiting("n", asks[GPU]),
        waiting("m", asks["amd.com/gpu"]), waiting("m2", asks["amd.com/gpu"]),
        waiting("g", {"containers": [container({"habana.ai/gaudi": "8"})]}),
    )  # fmt: skip
    assert len(starts(instance)) == 2
    assert {t for t in instance.topology.gpu_types if t} == {"h100-sxm-80gb", "mi300x", "gaudi"}


# Topology


@pytest.mark.parametrize(
    ("asked", "rules"),
    [
        ({"required": RACK}, ("rack", None, ())),
        ({"preferred": BLOCK}, (None, "block", ())),
        ({"required": HOSTNAME}, ("host", None, ())),
        (
            {"required": BLOCK, "podSetSliceRequiredTopology": RACK, "podSetSliceSize": 2},
            ("block", None, (("rack", 2),)),
        ),
    ],
)
def test_topology_requests_of_kueue(tmp_path, asked, rules) -> None:
    instance, _ = read(
        tmp_path,
        kueue_topology(BLOCK, RACK, HOSTNAME),
        *(node(f"n{k}", rack=f"r{k // 2}", block=f"b{k // 4}") for k in range(8)),
        workload("w", [("main", 4, gpu_spec(2, "4", "8Gi"), asked)], version="v1beta2"),
    )
    found = instance.jobs[0].placement
    cuts = tuple((cut.level, cut.size) for cut in found.slices)
    assert (found.required, found.preferred, cuts) == rules


def test_a_leader_may_stand_beside_the_rack_of_its_workers(tmp_path) -> None:
    """Its own set asks for nothing, so only the workers must be together."""
    sets = [("head", 1, gpu_spec(0, "180", "8Gi"), {}), ("main", 2, gpu_spec(), {"required": RACK})]
    instance, _ = read(
        tmp_path,
        kueue_topology(RACK, HOSTNAME),
        *(node(f"n{k}", rack=f"r{k // 2}") for k in range(3)),
        workload("w", sets),
    )
    assert starts(instance) == {"team-a/w"}


MIG = "nvidia.com/mig-1g.10gb"
SLICED = {"required": RACK, "podSetSliceRequiredTopology": HOSTNAME, "podSetSliceSize": 2}


@pytest.mark.parametrize(
    ("sets", "rule"),
    [
        # Slices of a job whose pods have no whole GPUs count its leader too.
        ([("head", 1, 0, {}), ("main", 4, MIG, {"required": RACK})], "asks for topology by sets"),
        ([("a", 2, 8, {"required": RACK}), ("b", 1, MIG, {"required": RACK})],
         "asks for topology by sets"),
        ([("a", 2, 1, SLICED | {"podSetGroupName": "g"}),
          ("b", 1, 2, SLICED | {"podSetGroupName": "g"})], "has slices that do not divide"),
        ([("a", 4, 1, SLICED | {"podSetSliceSize": -2})], "has slices that do not divide"),
        # One block holds the one rack anyway.
        ([("head", 1, 0, {}), ("a", 4, 1, SLICED | {"podSetSliceRequiredTopology": BLOCK})], None),
    ],
)  # fmt: skip
def test_odd_rules_of_sets_are_said_and_refuse_nothing(tmp_path, sets, rule) -> None:
    pods = [
        (name, count, {"containers": [container({MIG: "1"})]} if asked is MIG
         else gpu_spec(asked, "1", "1Gi"), topology)
        for name, count, asked, topology in sets
    ]  # fmt: skip
    nodes = [node(f"n{k}", rack=f"r{k // 2}", offers={MIG: "4"}) for k in range(4)]
    instance, account = read(
        tmp_path, kueue_topology(BLOCK, RACK, HOSTNAME), *nodes, workload("w", pods)
    )
    assert starts(instance) == {"team-a/w"}
    assert any(reason.startswith(rule or "its queue") for reason in reasons(account.altered))


def test_a_required_topology_that_is_no_level_is_said(tmp_path) -> None:
    _, account = read(
        tmp_path, *FOUR, waiting(), workload("w", [("main", 2, gpu_spec(), {"required": RACK})])
    )
    assert reasons(account.dropped) == {
        "requires a topology that is no level here; name its label with levels": 1
    }
    instance, _ = read(
        tmp_path, *FOUR, workload("w", [("main", 2, gpu_spec(), {"required": RACK})]),
        levels=f"{BLOCK},{RACK}",
    )  # fmt: skip
    assert instance.jobs[0].placement.required == "rack"


# Quotas


def queued(name: str, gpus: int, **more: Any) -> dict[str, Any]:
    return workload(name, [("main", 1, gpu_spec(gpus, "1", "1Gi"), {})], **more)


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_queue_borrows_from_its_cohort_as_far_as_it_may(tmp_path, version) -> None:
    for borrowing, expected in ((None, 16), (4, 12), (0, 8)):
        instance, _ = read(
            tmp_path,
            *FOUR,
            flavor("h100", pool="h100"),
            cluster_queue("team-a", {"h100": {GPU: 8}}, cohort="c", borrowing=borrowing,
                          version=version),
            cluster_queue("team-b", {"h100": {GPU: 8}}, cohort="c", version=version),
            local_queue("main", "team-a"),
            *(queued(f"w{k}", 4, version=version) for k in range(8)),
        )  # fmt: skip
        placed = starts(instance)
        assert 4 * len(placed) == expected, borrowing
        assert {t.name: t.gpu_quota_milli for t in instance.tenants} == {
            "team-a": 8000,
            "team-b": 8000,
        }


def test_quotas_by_flavor_and_of_cpu(tmp_path) -> None:
    """8 H100 and 16 T4, and cores for 5 pods: each limit holds, whatever is free."""
    t4s = [node(f"t{k}", "t4") for k in range(4)]
    items = [
        *FOUR, *t4s, flavor("h100", pool="h100"), flavor("t4", pool="t4"), local_queue("main", "q"),
        *(queued(f"w{k}", 4) for k in range(8)),
    ]  # fmt: skip
    quota = {"h100": {GPU: 8, "cpu": 100}, "t4": {GPU: 16, "cpu": 100}}
    instance, _ = read(tmp_path, *items, cluster_queue("q", quota))
    found = place(instance.replace(moves=None), "gpus_placed").result.solution
    assert isinstance(found, Allocation)
    kinds = [
        instance.job(a.job).configurations[a.configuration].gpu_type for a in found.assignments
    ]
    assert sorted(kinds) == ["h100-sxm-80gb"] * 2 + ["t4"] * 4
    quota["t4"]["cpu"] = 3
    instance, _ = read(tmp_path, *items, cluster_queue("q", quota))
    assert len(starts(instance)) == 5


def test_quota_that_others_hold_is_taken_off(tmp_path) -> None:
    """By what the queue says that it has given out."""
    instance, account = read(
        tmp_path, *FOUR, flavor("h100", pool="h100"), local_queue("main", "q"),
        cluster_queue("q", {"h100": {GPU: 16}}, reserved={"h100": {GPU: 10}}),
        *(queued(f"w{k}", 2) for k in range(5)),
    )  # fmt: skip
    assert len(starts(instance)) == 3
    assert any("given out quota" in reason for reason in reasons(account.also[0].altered))


def test_what_others_borrowed_is_taken_off_the_cohort(tmp_path) -> None:
    """Others hold 12 of the 16 GPUs through a queue that owns 8: the other queue has 4 left."""
    instance, account = read(
        tmp_path, *FOUR, flavor("h100", pool="h100"), local_queue("main", "b"),
        cluster_queue("a", {"h100": {GPU: 8}}, cohort="c", reserved={"h100": {GPU: 12}}),
        cluster_queue("b", {"h100": {GPU: 8}}, cohort="c"),
        *(queued(f"w{k}", 2) for k in range(5)),
    )  # fmt: skip
    assert len(starts(instance)) == 2
    told = reasons(account.also[0].altered)
    assert [n for reason, n in told.items() if "given out quota" in reason] == [1]


def within(
    picks: Any, jobs: Any, members: list[str], nominal: Any, given: Any, limit: Any
) -> bool:  # fmt: skip
    """Whether jobs with these flavours keep the limits of their queues and of the cohort."""
    use: Counter[Any] = Counter()
    for pick, (queue, gpus, cpu) in zip(picks, jobs, strict=True):
        use += Counter({(queue, pick, GPU): gpus, (queue, pick, "cpu"): cpu} if pick else {})
    together = [{(q, *key[1:]) for q in members} for key in use if key[0] in members]
    return all(use[key] + given[key] <= limit[key] for key in use) and all(
        sum(use[key] + given[key] - nominal[key] for key in kin) <= 0 for kin in together
    )


def test_as_much_starts_as_the_quotas_allow(tmp_path) -> None:
    """Against every choice of jobs and flavours: limits of queues and cohorts, what is given out.

    There are nodes for all of them, so that nothing but quotas limits.
    """
    kinds = ("h100", "t4")
    nodes = [node(f"{kind}-{k}", kind) for kind in kinds for k in range(5)]
    nodes += [flavor(kind, pool=kind) for kind in kinds]
    for seed in range(20):
        rng = random.Random(seed)
        queues, flavors = ["a", "b", "c"][: rng.randint(1, 3)], kinds[: rng.randint(1, 2)]
        nominal: dict[Any, int] = {}
        given: dict[Any, int] = {}
        limit: dict[Any, float] = {}
        members, items = [], []
        for queue in queues:
            cohort, borrowing = rng.choice(["c", None]), rng.choice([None, 0, 2, 4])
            quota = {f: {GPU: rng.choice([0, 2, 4, 8]), "cpu": rng.choice([1, 3, 9])}
                     for f in flavors}  # fmt: skip
            reserved = {f: {GPU: rng.choice([0, 0, 2, 6])} for f in flavors}
            items.append(cluster_queue(queue, quota, cohort=cohort, reserved=reserved,
                                       borrowing=borrowing if cohort else None))  # fmt: skip
            items.append(local_queue("main", queue, queue))
            members += [queue] if cohort else []
            for key in itertools.product([queue], flavors, [GPU, "cpu"]):
                nominal[key] = quota[key[1]][key[2]]
                given[key] = reserved[key[1]].get(key[2], 0)
                more = 0 if cohort is None else borrowing if key[2] == GPU else None
                limit[key] = float("inf") if more is None else nominal[key] + more
        jobs = [(rng.choice(queues), rng.choice([1, 2, 4]), rng.choice([1, 2])) for _ in range(4)]
        for k, (queue, gpus, cpu) in enumerate(jobs):
            asked = gpu_spec(gpus, str(cpu), "1Gi")
            items.append(workload(f"w{k}", [("main", 1, asked, {})], namespace=queue))

        best = max(
            sum(gpus for pick, (_, gpus, _) in zip(picks, jobs, strict=True) if pick)
            for picks in itertools.product([None, *flavors], repeat=len(jobs))
            if within(picks, jobs, members, nominal, given, limit)
        )
        instance, _ = read(tmp_path, *nodes, *items, waiting("free", gpu_spec(1), namespace="z"))
        solution = place(instance.replace(moves=Moves(budget=0)), "gpus_placed").result.solution
        assert isinstance(solution, Allocation)
        placed = [instance.job(one.job).configurations[0] for one in solution.assignments]
        assert sum(way.tasks[0].gpu_milli for way in placed) == 1000 * (best + 1), seed


def test_a_queue_and_a_cohort_of_like_names_have_quotas_of_their_own(tmp_path) -> None:
    quota = {"h100": {GPU: 99, "cpu": 3}, "t4": {GPU: 99, "cpu": 3}}
    instance, _ = read(
        tmp_path, *FOUR, flavor("h100", pool="h100"), flavor("t4", pool="t4"),
        local_queue("main", "cohort-x"), local_queue("main", "q", "team-b"),
        cluster_queue("cohort-x", quota), cluster_queue("q", quota, cohort="x"),
        *(queued(f"w{k}", 1, namespace=space) for k in range(5) for space in ("team-a", "team-b")),
    )  # fmt: skip
    assert len(starts(instance)) == 6


def test_a_quota_beyond_what_can_be_said_limits_nothing(tmp_path) -> None:
    quota = {"h100": {GPU: 99, "memory": "1000Ti"}, "t4": {GPU: 99, "memory": "1000Ti"}}
    large = workload("large", [("main", 20_000, gpu_spec(1, "1", "60Gi"), {})])
    instance, account = read(
        tmp_path, *FOUR, flavor("h100", pool="h100"), local_queue("main", "q"),
        cluster_queue("q", quota), large, queued("w", 1),
    )  # fmt: skip
    assert starts(instance) == {"team-a/w"}
    told = reasons(account.also[0].altered)
    assert told["quota is more than an instance can say; it is not applied"] == 2


def test_a_queue_that_is_stopped_or_does_not_cover_gpus(tmp_path) -> None:
    cases: list[tuple[Any, Any, str]] = [
        ({"stopPolicy": "Hold"}, {GPU: 8}, "its queue is stopped, and it waits whatever is free"),
        ({}, {"cpu": 8}, f"asks for {GPU}, which its queue does not cover"),
    ]
    for spec, quota, reason in cases:
        _, account = read(
            tmp_path, *FOUR, cluster_queue("q", {"f": quota}, **spec), local_queue("main", "q"),
            queued("w", 8), waiting("x"),
        )  # fmt: skip
        assert reasons(account.dropped) == {reason: 1}


def test_a_pod_that_goes_through_no_queue_has_no_quota(tmp_path) -> None:
    """Not even that of a queue which is called like its namespace."""
    quota = cluster_queue("team-a", {"h100": {GPU: 4}})
    instance, account = read(
        tmp_path, *FOUR, flavor("h100", pool="h100"), quota, local_queue("main", "team-a"),
        waiting("free"), queued("a", 4), queued("b", 4), queued("c", 4, queue="elsewhere"),
    )  # fmt: skip
    assert starts(instance) in ({"team-a/free", "team-a/c", f"team-a/{k}"} for k in "ab")
    assert reasons(account.altered) == {
        "its queue is not in the dump; no quota is applied to it": 1
    }


def test_a_flavor_that_is_not_in_the_dump_is_said(tmp_path) -> None:
    _, account = read(
        tmp_path, *FOUR, cluster_queue("q", {"h100": {GPU: 8}}), local_queue("main", "q"),
        queued("a", 4),
    )  # fmt: skip
    assert [t.examples for t in account.altered] == [("team-a/a: h100",)]


def test_limits_of_volcanos_queues(tmp_path) -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
             "metadata": {"name": "q"}, "spec": {"capability": {GPU: "8", "cpu": "4"}}}  # fmt: skip
    jobs = [
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": f"w{k}"},
         "spec": {"queue": "q", "tasks": [
             {"replicas": 1, "template": {"spec": gpu_spec(1, "1", "1Gi")}}]}}
        for k in range(6)
    ]  # fmt: skip
    instance, _ = read(tmp_path, *FOUR, queue, *jobs)
    assert len(starts(instance)) == 4


# Files


def test_files_together_and_lists_of_a_kind(tmp_path) -> None:
    """One list, or a file for each kind, or a single resource: the same."""
    nodes = [node(f"n{k}") for k in range(2)]
    one, _ = read(tmp_path, *nodes, waiting(), name="same")
    bare = [{k: v for k, v in item.items() if k not in ("kind", "apiVersion")} for item in nodes]
    (tmp_path / "nodes.json").write_text(json.dumps({"kind": "NodeList", "items": bare}))
    (tmp_path / "pod.json").write_text(json.dumps(waiting()))
    two, _ = read_instance(
        "kubernetes", tmp_path / "nodes.json", more=str(tmp_path / "pod.json"), name="same"
    )
    assert one.fingerprint == two.fingerprint


def test_doubled_and_unknown_resources_are_counted(tmp_path) -> None:
    _, account = read(
        tmp_path, node("n0"), waiting(), waiting(), {"kind": "ConfigMap", "metadata": {}}, "pod",
        {"kind": "Pod", "metadata": {}}, pod("idle", {"containers": [{}]}, on="n0"),
    )  # fmt: skip
    assert reasons(account.also[0].dropped) == {
        "Pod appears before": 1,
        "ConfigMap is not read": 1,
        "is no resource": 1,
        "Pod: has no metadata.name": 1,
    }
    assert reasons(account.also[0].altered)[
        "Pod asks for nothing and is taken to need nothing"
    ] == 1  # fmt: skip


TEXT = json.dumps(dump(node("n0"), waiting()), indent=1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TEXT[: len(TEXT) // 2], "in the middle: it was cut short; take it again with kubectl get"),
        (TEXT[:-2], "in the middle: it was cut short"),
        ("", "is not JSON"),
        ("apiVersion: v1\nkind: List\n", "is not JSON .* take it again with kubectl get"),
        ("[]", "is no list of Kubernetes: it has no kind"),
        ('{"kind": "PodList"}', "no list|without|no node"),
        ('{"kind": "PodList", "metadata": {}}', 'is a PodList without "items"'),
        (json.dumps(dump(waiting())), "holds no node, and so no cluster; add what kubectl"),
        (json.dumps(dump(node("n0"))), "no job is left for it"),
        (json.dumps(dump(node("n0"), waiting()))[:-1] + "," + '"x": 1e999999}', "read|number|"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, content, message) -> None:
    path = tmp_path / "dump.json"
    path.write_text(content, encoding="utf-8")
    if message.endswith("|"):
        read_instance("kubernetes", path)
        return
    with pytest.raises(InstanceError, match=message) as raised:
        read_instance("kubernetes", path)
    assert "\n" not in str(raised.value)


JUNK: tuple[Any, ...] = (None, True, -1, 10**40, 1.5, "", "x", "\x00", [], {}, [[]], {"a": 1})


def swapped(item: Any, rng: random.Random) -> Any:
    """The same with a random value in a random place."""
    copied = json.loads(json.dumps(item))
    at = copied
    while True:
        key = rng.choice(list(at) if isinstance(at, dict) else list(range(len(at))))
        inner = at[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.15:
            at[key] = rng.choice(JUNK)
            return copied
        at = inner


def test_whatever_a_resource_holds_the_dump_is_read_or_refused(tmp_path) -> None:
    """No dump ends in a traceback, and what runs on a readable node never looks free."""
    good = [
        node("n0"), node("n1"), pod("a", gpu_spec(), on="n0", owner=("Job", "a")),
        workload("w", [("main", 1, gpu_spec(), {"required": RACK})], admitted={GPU: "h100"}),
        cluster_queue("q", {"h100": {GPU: 8}}, cohort="c", reserved={"h100": {GPU: 1}}),
        flavor("h100", pool="h100"), local_queue("main", "q"), kueue_topology(RACK),
        pod_group("pg", "x", 1), waiting("x", annotations={"scheduling.k8s.io/group-name": "pg"}),
    ]  # fmt: skip
    for seed in range(300):
        rng = random.Random(seed)
        items = list(good)
        at = rng.randrange(len(items))
        items[at] = swapped(items[at], rng)
        with suppress(InstanceError):
            instance = None
            instance, _ = read(tmp_path, *items)
        if instance is None:
            continue
        if at not in (0, 2):
            row = instance.topology.capacity[instance.topology.host_index["n0"], 0]
            assert row == 8000
            assert {a.job for a in instance.running} == {"team-a/a"}
