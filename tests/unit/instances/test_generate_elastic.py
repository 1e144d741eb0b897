"""The generator of elastic instances keeps what its parameters promise."""

import pytest

from alloc.errors import InstanceError
from alloc.instances import generate_elastic

SMALL = {"num_jobs": 40, "num_hosts": 6, "max_workers": 4, "max_ps": 4}


def make(**changes):
    return generate_elastic("made", **{**SMALL, **changes})


def test_the_seed_is_all_the_randomness():
    """Same seed, same fingerprint; another seed, another instance."""
    assert make(seed=4, table="rough").fingerprint == make(seed=4, table="rough").fingerprint
    assert make(seed=4).fingerprint != make(seed=5).fingerprint


def test_jobs_of_a_type_share_one_tuple():
    """Files stay small and models recognise equal jobs only then."""
    instance = make()
    tuples: dict[str | None, set[int]] = {job.model: set() for job in instance.jobs}
    for job in instance.jobs:
        tuples[job.model].add(id(job.configurations))
    assert len(tuples) > 4
    assert all(len(found) == 1 for found in tuples.values())


def test_jobs_arrive_at_the_start_of_slots():
    """A job between two slots would wait for no reason of the problem's."""
    instance = make(slot_s=300.0, arrivals="uniform", arrivals_per_slot=2)
    assert [job.arrival_s for job in instance.jobs[:6]] == [0, 0, 300, 300, 600, 600]


def test_run_times_lie_in_their_range():
    """`run_slots` is about the best speed, also in a table with dips and gaps."""
    for table in ("fit", "rough"):
        instance = make(run_slots=(2, 5), table=table)
        slots = [job.min_run_s / 1200 for job in instance.jobs]
        assert 1.99 < min(slots) < 2.6
        assert 4 < max(slots) < 5.01


def test_default_run_times_resemble_dl2s_trace():
    """DL2 reports 147 minutes on average and more than half above an hour."""
    instance = make(num_jobs=2000)
    minutes = sorted(job.min_run_s / 60 for job in instance.jobs)
    assert 100 < sum(minutes) / len(minutes) < 160
    assert minutes[len(minutes) // 2] > 60


def test_dl2s_lengths_are_epochs_times_their_size():
    """resnet-50 at 1,000 epochs: 300 epochs of 115 samples, times 0.90 to 1.09 in hundredths."""
    instance = make(max_epochs=1000, models=["resnet-50"])
    shares = [job.work / (300 * 115) for job in instance.jobs]
    assert min(shares) >= 0.90
    assert max(shares) <= 1.09
    assert all(share * 100 == pytest.approx(round(share * 100)) for share in shares)
    assert len(set(shares)) > 5


def test_two_gpus_and_four_cores_double_the_demand():
    """The knobs that fill the cluster must reach the tasks."""
    instance = make(gpus_per_worker=2, task_cpu_milli=4000, models=["wlm"])
    smallest = instance.jobs[0].configurations[0]
    assert smallest.label == "1 worker + 1 ps"
    assert smallest.demand == (2000, 8000, 0)


def test_compute_scale_slows_one_worker_most():
    """Heavier models gain more from more workers: otherwise the load would not rise."""
    light = make(models=["resnet-50"]).jobs[0].configurations
    heavy = make(models=["resnet-50"], compute_scale=10.0).jobs[0].configurations
    assert heavy[0].rate < light[0].rate
    assert max(c.rate for c in heavy) / heavy[0].rate > max(c.rate for c in light) / light[0].rate


def test_weights_and_restarts_are_options():
    """Unit weights and free restarts by default, as in DL2."""
    plain, special = make(), make(weights="classes", restart_cost_s=30.0, elasticity="moldable")
    assert {job.weight for job in plain.jobs} == {1.0}
    assert {job.weight for job in special.jobs} == {1.0, 2.0, 4.0}
    assert {(job.elasticity, job.restart_cost_s) for job in plain.jobs} == {("malleable", 0.0)}
    assert {(job.elasticity, job.restart_cost_s) for job in special.jobs} == {("moldable", 30.0)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_jobs": 0}, r"num_jobs is 0; it must be more than 0"),
        ({"slot_s": -1.0}, r"slot_s is -1; it must be more than 0"),
        ({"compute_scale": float("inf")}, r"compute_scale is inf; give a finite number"),
        ({"models": []}, r"models is empty; name at least one of resnet-50"),
        ({"models": ["resnet-5"]}, r'unknown model "resnet-5"; did you mean "resnet-50"\?'),
        ({"weights": "class"}, r'unknown weights "class"; did you mean "classes"\?'),
        ({"run_slots": (3, 2)}, r"run_slots is \(3, 2\); give the least and the most slots"),
        ({"run_slots": (1,)}, r"run_slots is \(1,\); give the least and the most slots"),
        ({"max_epochs": 0}, r"max_epochs is 0; it must be more than 0"),
        ({"elasticity": "rigid"}, r"use malleable or moldable"),
        ({"num_hosts": 1, "task_cpu_milli": 5000}, r"fits the empty cluster in none"),
    ],
)
def test_bad_parameters_are_refused_with_the_cure(changes, message):
    """One sentence that names the parameter, its value and what to do."""
    with pytest.raises(InstanceError, match=message):
        make(**changes)
