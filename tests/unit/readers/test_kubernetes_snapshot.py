"""A dump of Kubernetes as an instance: what stands, what is free, what cannot be read."""

from __future__ import annotations

import json
import random
from contextlib import suppress
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
    workload,
)
from kubernetes_reading import read, reasons, starts, waiting

from alloc.errors import InstanceError
from alloc.instances.readers import read_instance


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
        (json.dumps(dump(node("n0"))), "holds no pod and no workload .* add pods"),
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


@pytest.mark.long
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
