"""What a pod asks for and which nodes it may use, against the rules of Kubernetes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kubernetes_dumps import GPU, container, gpu_spec

from alloc.instances.readers.kubernetes.pods import (
    effective_request,
    node_rule,
    not_read,
    pod_request,
)
from alloc.instances.readers.table import UnreadableRowError


def init(cpu: str, *, sidecar: bool = False) -> dict[str, Any]:
    return container({"cpu": cpu}) | ({"restartPolicy": "Always"} if sidecar else {})


@pytest.mark.parametrize(
    ("inits", "milli"),
    [
        ([], 2000),
        ([init("1")], 2000),
        ([init("5"), init("4")], 5000),
        ([init("1", sidecar=True)], 3000),
        # The sidecar runs beside the init container after it, and not beside the one before.
        ([init("1", sidecar=True), init("4")], 5000),
        ([init("4"), init("1", sidecar=True)], 4000),
        ([init("1", sidecar=True), init("1", sidecar=True), init("1")], 4000),
    ],
)
def test_init_containers_and_sidecars(inits, milli) -> None:
    spec = {"containers": [container({"cpu": "1500m"}), container({"cpu": "0.5"})]}
    assert effective_request({**spec, "initContainers": inits})["cpu"] == milli


def test_the_request_is_the_most_that_ever_runs_together() -> None:
    """Held against a replay of the pod's life: each start of a container, and who runs then."""
    rng = random.Random(4)
    for _ in range(200):
        inits = [(rng.randrange(1, 9), rng.random() < 0.4) for _ in range(rng.randrange(5))]
        mains = [rng.randrange(1, 9) for _ in range(rng.randrange(1, 4))]
        sidecars, most = 0, 0
        for cpu, stays in inits:
            most = max(most, sidecars + cpu)
            sidecars += cpu if stays else 0
        most = max(most, sidecars + sum(mains))
        spec = {
            "containers": [container({"cpu": str(cpu)}) for cpu in mains],
            "initContainers": [init(str(cpu), sidecar=stays) for cpu, stays in inits],
        }
        assert effective_request(spec)["cpu"] == 1000 * most


def test_limits_overhead_and_the_request_of_the_pod_as_a_whole() -> None:
    spec: dict[str, Any] = {"containers": [container({"cpu": "1"}, {"cpu": "9", GPU: "2"})]}
    assert effective_request(spec) == {"cpu": 1000, GPU: 2}
    spec["overhead"] = {"cpu": "250m"}
    assert effective_request(spec)["cpu"] == 1250
    spec["resources"] = {"requests": {"cpu": "3"}}
    assert effective_request(spec)["cpu"] == 3250


@pytest.mark.parametrize(
    ("quantity", "mib"),
    [("64Gi", 65536), ("1e3", 1), ("1", 1), ("1500m", 1), ("129M", 124), ("2Ti", 2**21)],
)
def test_quantities_of_memory_round_up(quantity, mib) -> None:
    assert pod_request({"containers": [container({"memory": quantity})]}, {}).memory_mib == mib


@pytest.mark.parametrize(
    ("annotations", "milli", "memory"),
    [
        ({"gpu-fraction": "0.5"}, 500, 0),
        ({"gpu-memory": "2000"}, 0, 2000),
        ({"alibabacloud.com/gpu-milli": "460", "alibabacloud.com/gpu-count": "1"}, 460, 0),
    ],
)
def test_shares_by_annotation(annotations, milli, memory) -> None:
    asked = pod_request({"containers": [container({"cpu": "1"})]}, annotations)
    assert (asked.gpu_milli, asked.gpu_memory_mib, asked.shares) == (milli, memory, True)


@pytest.mark.parametrize(
    ("asked", "annotations", "message"),
    [
        ({GPU: "1500m"}, {}, "no whole number"),
        ({"cpu": "a lot"}, {}, "no quantity"),
        ({"memory": "-1"}, {}, "no quantity"),
        ({GPU: "1", "amd.com/gpu": "1"}, {}, "GPUs of two kinds"),
        ({GPU: "9999999999"}, {}, "more than there can be"),
        ({}, {"gpu-fraction": "2"}, "from 0.01 to 1"),
        ({}, {"gpu-fraction": "half"}, "from 0.01 to 1"),
        ({}, {"gpu-memory": "0"}, "a number of MiB"),
    ],
)
def test_what_cannot_be_asked_for(asked, annotations, message) -> None:
    with pytest.raises(UnreadableRowError, match=message):
        pod_request({"containers": [container(asked)]}, annotations)


LABELS = {"pool": "a", "size": "8"}


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        ({"key": "pool", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "pool", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "zone", "operator": "Exists"}, False),
        ({"key": "zone", "operator": "DoesNotExist"}, True),
        ({"key": "size", "operator": "Gt", "values": ["7"]}, True),
        ({"key": "size", "operator": "Lt", "values": ["8"]}, False),
        ({"key": "zone", "operator": "Gt", "values": ["1"]}, False),
        ({"key": "pool", "operator": "Lt", "values": ["8"]}, False),
    ],
)
def test_operators_of_node_affinity(requirement, holds) -> None:
    terms = [{"matchExpressions": [requirement]}]
    path = "requiredDuringSchedulingIgnoredDuringExecution"
    spec = {"affinity": {"nodeAffinity": {path: {"nodeSelectorTerms": terms}}}}
    assert node_rule(spec).admits("n1", LABELS, ()) == holds
    # One of the terms will do; what names the node will do; a term without anything holds nowhere.
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    terms.append({"matchFields": fields})
    assert node_rule(spec).admits("n1", LABELS, ())
    terms[1] = {}
    assert node_rule(spec).admits("n1", LABELS, ()) == holds


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "value": "x"}, True),
        ({"key": "team", "value": "y"}, False),
        ({"key": "team", "operator": "Equal", "value": "x", "effect": "NoSchedule"}, True),
        ({"key": "team", "value": "x", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations(toleration, tolerates) -> None:
    rule = node_rule({"tolerations": [toleration]})
    assert rule.admits("n", {}, (("team", "x", "NoSchedule"),)) == tolerates


def test_rules_that_are_not_read_are_named() -> None:
    hard = "requiredDuringSchedulingIgnoredDuringExecution"
    spec = gpu_spec(
        affinity={
            "podAntiAffinity": {hard: [{}]},
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]},
        },
        topologySpreadConstraints=[{"whenUnsatisfiable": "DoNotSchedule"}],
        volumes=[{"persistentVolumeClaim": {"claimName": "data"}}],
    )
    assert len(list(not_read(spec))) == 4
    assert list(not_read(gpu_spec())) == []
