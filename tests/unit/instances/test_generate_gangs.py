"""Rigid gangs from a mix of sizes and a table of durations."""

from collections import Counter

import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.instances import generate_gangs
from alloc.instances.generators import GENERATORS, PHILLY_GPUS, PHILLY_RUN_S
from alloc.simulation import simulate


def make(**changes):
    return generate_gangs("gangs", **{"num_jobs": 200, "num_hosts": 4, **changes})


def test_same_seed_same_instance():
    assert make(seed=3).fingerprint == make(seed=3).fingerprint
    assert make(seed=3).fingerprint != make(seed=4).fingerprint
    assert GENERATORS["generate_gangs"] is generate_gangs


def test_jobs_are_rigid_gangs_in_continuous_time():
    instance = make(num_jobs=30, weights="classes", preemptible=False)
    assert instance.slot_s is None
    for job in instance.jobs:
        assert (job.elasticity, len(job.configurations), job.preemptible) == ("rigid", 1, False)
        assert job.configurations[0].demand[0] <= instance.topology.num_gpus * 1000
    assert len({job.weight for job in instance.jobs}) > 1


def test_the_sizes_follow_the_shares():
    """4,000 draws: each share within 0.04, six deviations at most."""
    instance = make(num_jobs=4000, gpus={2: 1, 8: 2, 32: 1})
    sizes = Counter(job.configurations[0].demand[0] // 1000 for job in instance.jobs)
    assert set(sizes) == {2, 8, 32}
    for size, share in {2: 0.25, 8: 0.5, 32: 0.25}.items():
        assert sizes[size] / 4000 == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize("share", [5e-324, 1e308])
def test_shares_may_be_as_small_or_large_as_numbers_are(share):
    instance = make(gpus={2: share, 8: share}, num_jobs=400)
    sizes = Counter(job.configurations[0].demand[0] // 1000 for job in instance.jobs)
    assert sizes[2] + sizes[8] == 400
    assert min(sizes.values()) > 140


def test_the_durations_have_the_quantiles_of_the_table():
    work = [job.work for job in make(num_jobs=4000).jobs]
    below = [np.mean([w <= seconds for w in work]) for _, seconds in PHILLY_RUN_S[1:]]
    assert below == pytest.approx([fraction for fraction, _ in PHILLY_RUN_S[1:]], abs=0.04)
    assert min(work) == PHILLY_RUN_S[0][1]
    assert max(work) == PHILLY_RUN_S[-1][1]


def test_its_source_is_claimed_only_of_its_own_numbers():
    assert "Philly" in make().description["source"]
    assert "source" not in make(gpus={8: 1}).description
    assert set(PHILLY_GPUS) <= {2**k for k in range(6)}


def test_arrivals_come_from_a_process_too():
    instance = make(num_jobs=4, arrivals=lambda rng: [3, 0, 1], arrival_slot_s=10.0)
    assert [job.arrival_s for job in instance.jobs] == [0, 0, 0, 20]


def test_schedulers_run_it():
    instance = make(num_jobs=20, gpus={1: 1, 8: 1}, run_s=[(0, 60), (1, 600)])
    assert simulate(instance, "easy-backfill").verified


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_hosts": 1}, "a gang has 16 GPUs, and the cluster has 8"),
        ({"gpus": {0: 1}}, "a gang has 0 GPUs"),
        ({"gpus": {1.5: 1}}, "a gang has 1.5 GPUs"),
        ({"gpus": {1: 0}}, "share of gangs of 1 GPUs"),
        ({"gpus": {1: "a"}}, "share of gangs of 1 GPUs is 'a'"),
        ({"gpus": {}}, r"gpus is \{\}; give each size"),
        ({"gpus": 3}, "gpus is 3; give each size"),
        ({"run_s": 5}, "pairs of a fraction"),
        ({"run_s": [(0, "x"), (1, 5)]}, "pairs of a fraction"),
        ({"run_s": [(0, 1), (1,)]}, "pairs of a fraction"),
        ({"run_s": []}, "pairs of a fraction"),
        ({"run_s": [(0.5, 60)]}, "at least two"),
        ({"run_s": [(0.5, 60), (0.4, 70)]}, "rising fractions"),
        ({"run_s": [(0.5, 60), (0.6, 50)]}, "rising seconds"),
        ({"run_s": [(0, 60), (1.5, 70)]}, "rising fractions from 0 to 1"),
        ({"run_s": [(0, 60), (1, float("inf"))]}, "rising seconds"),
        ({"arrivals": "poison"}, 'did you mean "poisson"'),
        ({"arrivals": 3}, 'unknown arrival pattern "3"'),
        ({"num_jobs": 0}, "num_jobs"),
    ],
)
def test_a_parameter_out_of_range_is_refused(changes, sentence):
    with pytest.raises(InstanceError, match=sentence):
        make(**changes)
