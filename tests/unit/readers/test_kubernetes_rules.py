"""Where the pods of a dump of Kubernetes may go: nodes, GPUs, shares, racks."""

from __future__ import annotations

import random

import pytest
from kubernetes_dumps import (
    BLOCK,
    GPU,
    HOSTNAME,
    RACK,
    container,
    gpu_spec,
    kueue_topology,
    node,
    pod,
    workload,
)
from kubernetes_reading import FOUR, affinity, read, reasons, starts, waiting

from alloc.solving.solver import solve


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
