"""The checker knows every rule of divided GPUs: one solution for each way to break one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment, Run, Schedule, TaskPlacement
from alloc.topology import HostType, flat_cluster
from alloc.verification import mig, verify
from alloc.verification.mig import _is_clear
from alloc.workload import Configuration, Job, TaskGroup


def job(name: str, **task: object) -> Job:
    count = task.pop("count", 1)
    group = TaskGroup("w", count, **task)  # type: ignore[arg-type]
    return Job(name, 0.0, 1.0, (Configuration((group,), 1.0),))


CLUSTER = flat_cluster("c", HostType("box", 2, "a100", 64000, 65536), 1)
INSTANCE = Instance(
    "mig",
    CLUSTER,
    (
        job("one", mig_profile="1g.5gb"),
        job("media", mig_profile="1g.5gb+me"),
        job("second media", mig_profile="1g.5gb+me"),
        job("three", mig_profile="3g.20gb"),
        job("four", mig_profile="4g.20gb"),
        job("half", gpu_milli=500, gpu_memory_mib=30000),
        job("quarter", gpu_milli=250, gpu_memory_mib=20000),
        job("whole", gpu_milli=1000),
    ),
)


Placed = tuple[str, tuple[int, ...], tuple[int, ...]]


def codes(*placed: Placed) -> set[str]:
    allocation = Allocation(
        tuple(
            Assignment(name, 0, (TaskPlacement("host-0", "w", 1, gpus, starts),))
            for name, gpus, starts in placed
        )
    )
    return {v.code for v in verify(INSTANCE, allocation)}


@pytest.mark.parametrize(
    ("placed", "expected"),
    [
        ([("four", (0,), (0,)), ("three", (0,), (4,)), ("whole", (), ())], set()),
        ([("media", (0,), (0,)), ("one", (0,), (1,)), ("half", (1,), ())], set()),
        ([("three", (), ())], {"mig_start"}),
        ([("three", (0,), ())], {"mig_start"}),
        ([("three", (0,), (1,))], {"mig_start"}),
        ([("three", (2,), (0,))], {"gpu_position"}),
        ([("whole", (), (0,))], {"mig_start"}),
        ([("four", (0,), (0,)), ("one", (0,), (3,))], {"mig_overlap"}),
        ([("media", (0,), (0,)), ("second media", (0,), (1,))], {"mig_media"}),
        ([("one", (0,), (0,)), ("half", (0,), ())], {"gpu_use"}),
        ([("half", (0,), ()), ("quarter", (0,), ())], {"gpu_memory"}),
        (
            [("one", (0,), (0,)), ("half", (1,), ()), ("whole", (), ())],
            {"gpu_capacity"},
        ),
        ([("one", (0,), (0,)), ("three", (1,), (0,)), ("whole", (), ())], {"gpu_capacity"}),
    ],
)
def test_rule(
    placed: list[tuple[str, tuple[int, ...], tuple[int, ...]]], expected: set[str]
) -> None:
    assert codes(*placed) == expected


def test_a_profile_that_the_gpu_type_lacks() -> None:
    """A job may run on several types; the host it is put on must have its profile."""
    hosts = flat_cluster("c", HostType("box", 1, "a100", 1000, 1024), 1)
    other = HostType("other", 1, "h200", 1000, 1024)
    both = hosts.replace(
        host_types=(*hosts.host_types, other),
        hosts=(*hosts.hosts, hosts.hosts[0].__class__("h200", "other")),
    )
    instance = Instance("two types", both, (job("a", mig_profile="1g.5gb"),))
    wrong = Allocation((Assignment("a", 0, (TaskPlacement("h200", "w", 1, (0,), (0,)),)),))
    assert [v.code for v in verify(instance, wrong)] == ["mig_profile"]


def test_instances_may_follow_each_other_in_time() -> None:
    """In a schedule only what runs at the same moment overlaps."""
    instance = Instance(
        "plan", CLUSTER, (job("a", mig_profile="3g.20gb"), job("b", mig_profile="4g.20gb"))
    )
    there = (TaskPlacement("host-0", "w", 1, (0,), (0,)),)

    def plan(start_s: float) -> list[str]:
        runs = (Run("a", 0, 0.0, 1.0, there), Run("b", 0, start_s, start_s + 1.0, there))
        return [v.code for v in verify(instance, Schedule(runs))]

    assert plan(1.0) == []
    assert plan(0.5) == ["mig_overlap"]


def test_the_quick_look_passes_over_exactly_what_breaks_no_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choices = [
        (name, (gpu,), (start,))
        for name in ("one", "media", "second media", "three", "four")
        for gpu, start in ((0, 0), (0, 1), (0, 4), (1, 4), (2, 0))
    ]
    clear: list[bool] = []

    def seen(instance: Instance, runs: Sequence[Run]) -> bool:
        clear.append(_is_clear(instance, runs))
        return False

    monkeypatch.setattr(mig, "_is_clear", seen)
    right = 0
    for placed in combinations(choices, 3):
        if len({name for name, _, _ in placed}) == len(placed):
            found = codes(*placed)
            assert clear[-1] == (not found), (placed, found)
            right += not found
    assert 0 < right < len(clear)
