"""Rules of placement: what their types refuse, and what an instance says it asks for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.families import FAMILIES
from alloc.problems.allocation.instance import FEATURES, Affinity, Instance, Moves, Tenant
from alloc.problems.allocation.outages import Outage
from alloc.topology import Domain, Host, HostType, Topology
from alloc.workload import (
    Configuration,
    InterferenceTable,
    Job,
    PlacementRules,
    Slice,
    Spread,
    Stage,
    TaskGroup,
    rigid_gang,
)

RACKS = Topology(
    "racks",
    (HostType("box", 4, "a100", 8000, 1024),),
    tuple(Host(f"h{k}", "box", f"r{k // 2}") for k in range(4)),
    ("pod", "rack"),
    (Domain("r0", "rack"), Domain("r1", "rack")),
)


def job(job_id: str = "a", gpus: int = 4, **fields: object) -> Job:
    """Return a rigid gang."""
    return Job(job_id, 0.0, 1.0, (rigid_gang(gpus),), **fields)  # type: ignore[arg-type]


def instance(*jobs: Job, **fields: object) -> Instance:
    """Return jobs on two racks of two hosts."""
    return Instance("i", RACKS, jobs or (job("a"), job("b")), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Slice("rack", 0), "slice in rack: size is 0; it must be 1 or more"),
        (lambda: Spread("rack", 0), "spread over rack: most is 0; it must be 1 or more"),
        (
            lambda: PlacementRules(slices=(Slice("rack", 6), Slice("host", 4))),
            "4 tasks per host do not divide the 6 per rack",
        ),
        (
            lambda: PlacementRules(spread=(Spread("rack", 2), Spread("rack", 3))),
            "a level appears twice .rack, rack.; keep its smaller limit",
        ),
        (
            lambda: job(gpus=6, placement=PlacementRules(slices=(Slice("rack", 4),))),
            'job "a": 6 worker tasks are no multiple of the slice of 4 per rack',
        ),
        (
            lambda: instance(job(placement=PlacementRules(required="rak"))),
            'job "a": level "rak" is not in the topology; did you mean "rack"',
        ),
        (
            lambda: instance(
                job(placement=PlacementRules(slices=(Slice("host", 2), Slice("rack", 2))))
            ),
            "slices per host, rack do not nest; list them from the outer level to the inner",
        ),
        (lambda: Affinity("near", "rack", ("a", "b")), 'kind is "near"; it is "together" or'),  # type: ignore[arg-type]
        (lambda: Affinity("apart", "rack", ("a",)), "names the jobs a; name two or more"),
        (lambda: Affinity("apart", "rack", ("a", "a")), "names the jobs a, a; name two or more"),
        (
            lambda: instance(affinities=(Affinity("apart", "zone", ("a", "b")),)),
            'affinity "apart": level "zone" is not in the topology',
        ),
        (
            lambda: instance(affinities=(Affinity("apart", "rack", ("a", "c")),)),
            'affinity "apart": job "c" is not in jobs',
        ),
        (lambda: Moves(budget=-1), "moves: budget is -1; it must be 0 or more"),
        (
            lambda: Tenant("red", 1000, borrowing_milli=1000),
            'tenant "red": may borrow 1000 milli-GPU but from nobody; name the cohort',
        ),
        (
            lambda: instance(tenants=(Tenant("red", 17_000),)),
            'tenant "red": gpu_quota_milli 17000 is above the 16000 of the whole cluster',
        ),
        (
            lambda: TaskGroup("w", 1, 1000, mig_profile="1g.5gb"),
            'asks for the MIG slice "1g.5gb" and for 1000 milli-GPU',
        ),
        (
            lambda: TaskGroup("w", 1, gpu_memory_mib=1024),
            "asks for 1024 MiB of GPU memory but for no GPU",
        ),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(make: Callable[[], object], sentence: str) -> None:
    """Each in one sentence that says what was expected and what to do."""
    with pytest.raises(InstanceError, match=sentence):
        make()


def test_slices_count_the_tasks_that_hold_gpus() -> None:
    """The CPU-only master of a gang does not spoil its slices."""
    gang = Configuration((TaskGroup("worker", 4, 1000), TaskGroup("master", 1, 0, 1000)), 1.0)
    assert [group.role for group in gang.ruled_groups] == ["worker"]
    rules = PlacementRules(slices=(Slice("rack", 2),))
    assert Job("a", 0.0, 1.0, (gang,), placement=rules).placement is rules
    cpu_only = Configuration((TaskGroup("reader", 3, 0, 1000),), 1.0)
    assert cpu_only.ruled_groups == cpu_only.tasks
    with pytest.raises(InstanceError, match="3 reader tasks are no multiple of the slice of 2"):
        Job("b", 0.0, 1.0, (cpu_only,), placement=rules)


def test_rules_name_their_levels() -> None:
    """The instance checks them all."""
    rules = PlacementRules("pod", "rack", (Slice("rack", 2),), (Spread("host", 1),))
    assert rules.levels == ("pod", "rack", "rack", "host")


FEATURED = {
    "placement rules": instance(job("b"), job("a", placement=PlacementRules(required="rack"))),
    "MIG slices": instance(
        Job("a", 0.0, 1.0, (Configuration((TaskGroup("w", 1, mig_profile="1g.5gb"),), 1.0),))
    ),
    "GPU memory": instance(
        Job("a", 0.0, 1.0, (Configuration((TaskGroup("w", 1, 500, gpu_memory_mib=9),), 1.0),))
    ),
    "affinities": instance(affinities=(Affinity("apart", "rack", ("a", "b")),)),
    "moves": instance(moves=Moves()),
    "refusal": instance(job("a", refusable=True, deadline_s=9.0)),
    "stages": instance(Job("a", 0.0, stages=(Stage("x", 1.0, (rigid_gang(1),)),))),
    "outages": instance(outages=(Outage("h0", 0.0),)),
    "moving GPUs": instance(job("a", elasticity="moldable", preemptible=False), move_s=1.0),
    "borrowing": instance(tenants=(Tenant("red", 1000, "pool"),)),
    "interference": instance(
        slot_s=1.0, interference=(InterferenceTable("a100", ("x",), np.ones(1), np.ones((1, 1))),)
    ),
}


def test_an_instance_says_what_it_asks_for() -> None:
    """Who asks is part of the refusal, so the first one is named."""
    assert set(FEATURED) == set(FEATURES)
    assert instance().features == {}
    asked = {feature: found.features for feature, found in FEATURED.items()}
    assert all(list(found) == [feature] for feature, found in asked.items())
    assert asked["placement rules"]["placement rules"] == 'job "a"'
    assert asked["affinities"]["affinities"] == "jobs a, b"
    assert asked["borrowing"]["borrowing"] == 'tenant "red"'


@pytest.mark.parametrize("feature", FEATURES)
def test_a_formulation_refuses_what_it_does_not_model(feature: str) -> None:
    """A rule silently ignored would make a certificate false."""
    with pytest.raises(UnsupportedFeatureError, match=f"does not model {feature}"):
        FAMILIES["malleable"].require_features(FEATURED[feature])
