"""Learning worlds: reproducible, calibrated, and apart where they say so."""

from __future__ import annotations

import pytest

from alloc.errors import InstanceError
from alloc.instances.learning_worlds import (
    BASE,
    FAMILIES,
    HELD_OUT_MODELS,
    HELD_OUT_SEEDS,
    TINY,
    TRAINING,
    TRAINING_SEEDS,
    VALIDATION_SEEDS,
    World,
    world,
)


def test_a_seed_names_the_same_instance_for_ever() -> None:
    """A figure in a report must be found again: this fingerprint may never change."""
    assert TINY.make(7).fingerprint == TINY.make(7).fingerprint
    assert TINY.make(7).fingerprint != TINY.make(8).fingerprint
    assert TINY.make(7).fingerprint.startswith("5dc20e390da820df")


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_makes_instances_of_its_size(name: str) -> None:
    """Jobs, hosts and names are those of the recipe."""
    family = FAMILIES[name]
    made = family.make(HELD_OUT_SEEDS[0])
    assert len(made.jobs) == family.num_jobs
    assert made.topology.num_hosts == family.num_hosts
    assert {job.model for job in made.jobs} <= set(family.models)
    assert all(job.work > 0 for job in made.jobs)


def test_seeds_and_types_of_training_are_not_those_of_the_report() -> None:
    """No instance, and no held-out model, can be in both."""
    spans = [set((r.start, r.stop - 1)) for r in (TRAINING_SEEDS, VALIDATION_SEEDS, HELD_OUT_SEEDS)]
    assert max(spans[0]) < min(spans[1])
    assert max(spans[1]) < min(spans[2])
    for family in TRAINING.values():
        assert not set(HELD_OUT_MODELS) & set(family.models)
        assert family.num_jobs <= BASE.num_jobs
        assert family.num_hosts <= BASE.num_hosts
    assert set(FAMILIES["unseen-types"].models) == set(HELD_OUT_MODELS)


def test_four_times_the_jobs_come_on_four_times_the_hosts() -> None:
    """The load stays, so the same arrivals take the same time."""
    large = BASE.times(4)
    assert (large.num_jobs, large.num_hosts) == (4 * BASE.num_jobs, 4 * BASE.num_hosts)
    one, four = BASE.make(3), large.make(3)
    last = [made.jobs[-1].arrival_s for made in (one, four)]
    assert last[1] == pytest.approx(last[0], rel=0.35)


def test_load_is_work_at_its_cheapest_over_capacity() -> None:
    """At load 1 jobs arrive as fast as the cluster could work them off at its thriftiest."""
    made = World("full", "All jobs at even intervals.", num_jobs=400, load=1.0, arrivals="uniform")
    instance = made.make(5)
    hosts = made.num_hosts
    needed_s = 0.0
    for job in instance.jobs:
        needed_s += job.work * min(
            max(way.demand[0] / 2000, way.demand[1] / 8000) / way.rate for way in job.configurations
        )
    span_s = instance.jobs[-1].arrival_s
    assert needed_s / (hosts * span_s) == pytest.approx(1.0, rel=0.15)


def test_cpu_share_and_hunger_do_what_they_say() -> None:
    """Seven in ten jobs without GPUs; hungry tables gain more from PSs."""
    jobs = FAMILIES["cpu-jobs"].make(1).jobs
    on_cpu = sum(job.configurations[0].demand[0] == 0 for job in jobs) / len(jobs)
    assert 0.5 < on_cpu < 0.9
    gains = {}
    for share in (0.0, 1.0):
        table = World("w", "w", hungry_share=share, models=("resnet-50",)).make(0).jobs[0]
        rate = {way.label: way.rate for way in table.configurations}
        gains[share] = rate["2 worker + 8 ps"] / rate["2 worker + 1 ps"]
    assert gains[1.0] > 1.3 * gains[0.0]


def test_wrong_recipes_are_refused() -> None:
    """In one sentence, with the nearest name."""
    with pytest.raises(InstanceError, match=r'unknown learning world "bass".*base'):
        world("bass")
    assert world("tiny") is TINY
    with pytest.raises(InstanceError, match="unknown model"):
        World("w", "w", models=("resnet",))
    with pytest.raises(InstanceError, match="models is empty"):
        World("w", "w", models=())
    with pytest.raises(InstanceError, match="give the least and the most"):
        World("w", "w", compute=(2.0, 1.0))
    with pytest.raises(InstanceError, match="cpu_share is 2"):
        World("w", "w", cpu_share=2.0)
    with pytest.raises(InstanceError, match="load"):
        World("w", "w", load=0.0)
