"""Quotas in a dump of Kubernetes: what its queues may still start."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from kubernetes_dumps import (
    GPU,
    cluster_queue,
    flavor,
    gpu_spec,
    local_queue,
    node,
    workload,
)
from kubernetes_reading import FOUR, read, reasons, starts, waiting

from alloc.problems.allocation.instance import Moves
from alloc.problems.allocation.solution import Allocation
from alloc.solving.placing.place import place


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


@pytest.mark.long
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


@pytest.mark.long
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
