"""Gangs on tiny clusters: decisions, words, cures, placements and moves against enumeration."""

from __future__ import annotations

from collections import Counter

import pytest

from alloc.problems.allocation.instance import Instance, Moves, Tenant
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.solving.gang import Explanation, Relaxation
from alloc.solving.placing.explain import explain
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, Job, TaskGroup
from benchmarks import gang_conformance
from benchmarks.gang_conformance import faults
from benchmarks.gang_worlds import random_world

BLOCK = 15


@pytest.mark.long
@pytest.mark.parametrize("block", range(10))
def test_nothing_said_about_a_random_world_is_false(block: int) -> None:
    """Every decision, sentence, cure, placement and move of 150 worlds; more in the benchmark."""
    asked: Counter[str] = Counter()
    found = []
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        found += [f"seed {seed}: {fault}" for fault in faults(random_world(seed), asked)]
    assert found == []
    assert min(asked[kind] for kind in ("decisions", "cures", "conflicts", "defrag", "place")) > 5


def short_of_two_things() -> Instance:
    """Two hosts of 4 GPUs whose memory is taken, and a job whose quota is too small as well."""
    kind = HostType("server", 4, "H100", 8000, 1000)
    topology = Topology("two", (kind,), (Host("a", "server"), Host("b", "server")))

    def job(name: str, group: TaskGroup, tenant: str | None = None) -> Job:
        ways = (Configuration((group,), 1.0),)
        return Job(name, 0.0, 60.0, ways, tenant=tenant, elasticity="rigid")

    return Instance(
        "short",
        topology,
        (
            job("m0", TaskGroup("w", 1, 0, 0, 900)),
            job("m1", TaskGroup("w", 1, 0, 0, 900)),
            job("train", TaskGroup("w", 1, 4000, 0, 500), "t"),
        ),
        tenants=(Tenant("t", 2000),),
        running=tuple(
            Assignment(f"m{k}", 0, (TaskPlacement(host, "w", 1),)) for k, host in enumerate("ab")
        ),
        moves=Moves(0),
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "2 GPUs more quota let it start",
        "with 100 MiB of memory a task it would start",
        "2 GPUs more quota and 101 MiB of memory a task let it start, but only together",
    ],
)
def test_a_false_cure_is_found_out(sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a cure says is applied to the world, and enumeration does not let the job start."""
    world = short_of_two_things()
    assert list(faults(world, Counter())) == []
    cure = Relaxation("quota", 1.0, sentence)
    lie = Explanation("train", ("quota",), f"needs; has; {sentence}.", (cure,))
    monkeypatch.setattr(gang_conformance, "explain", lambda *_, **__: lie)
    assert any(f"false cure: {sentence}" in fault for fault in faults(world, Counter()))


def test_two_things_short_have_one_cure_of_two_parts() -> None:
    """More quota alone would leave it without memory, and the other way round: both, together."""
    explanation = explain(short_of_two_things(), "train", moves=False)
    assert explanation is not None
    assert explanation.sentence == (
        'job "train" needs 4 GPUs; its tenant "t" has 2 GPUs of quota left, and the cluster has 8 '
        "free, 8 of them on hosts without memory for it; 2 GPUs more quota and 100 MiB of memory a "
        "task let it start, but only together."
    )
    assert [r.requirement for r in explanation.relaxations] == ["quota and memory"]
