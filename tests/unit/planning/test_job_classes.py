"""Classes of jobs: as few as wanted, and every job in one of them, with its GPU time kept."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.errors import InstanceError
from alloc.instances.readers.jobs import TracedJob
from alloc.planning.history import WEEK_S, history_of_jobs
from alloc.planning.job_classes import OTHERS, ClassKey, SeenJob, grouping_of

JOBS = st.lists(
    st.builds(
        SeenJob,
        arrival_s=st.floats(0, 1e6),
        gpus=st.integers(1, 1024),
        hours=st.floats(0.01, 200),
        tenant=st.sampled_from([None, "a", "b", "c", "d", "e", "f"]),
        interruptible=st.booleans(),
    ),
    min_size=1,
    max_size=40,
)


@pytest.mark.long
@settings(max_examples=120, deadline=None)
@given(jobs=JOBS, most=st.integers(12, 20), by_tenant=st.booleans())
def test_every_job_has_one_of_few_classes_and_fits_it(jobs, most, by_tenant):
    rule = grouping_of(jobs, by_tenant=by_tenant, max_classes=most)
    found: Counter[ClassKey] = Counter()
    for job in jobs:
        key = rule.key_of(job)
        assert key is not None
        assert key.gpus >= job.gpus
        edges = (0.0, *rule.hour_edges[key.gpus], math.inf)
        assert edges[key.length] < job.hours <= edges[key.length + 1]
        assert key.interruptible == job.interruptible
        assert key.tenant in ({job.tenant, OTHERS} if by_tenant else {""})
        found[key] += 1
    assert len(found) <= most
    # A name is of one class: goals are given by it.
    assert len({rule.name_of(key) for key in found}) == len(found)


@settings(max_examples=60, deadline=None)
@given(jobs=JOBS)
def test_classes_are_merged_only_where_there_are_too_many(jobs):
    fine = grouping_of(jobs)
    count = len({fine.key_of(job) for job in jobs})
    assert grouping_of(jobs, max_classes=max(count, 2)) == fine
    if count > 2:
        coarse = grouping_of(jobs, max_classes=count - 1)
        assert len({coarse.key_of(job) for job in jobs}) < count


def test_what_matters_least_is_merged_first():
    """Many short jobs use little GPU time, and are somebody's promise all the same."""
    jobs = [SeenJob(0.0, 1, 0.5)] * 90 + [SeenJob(0.0, 1, 5.0)] + [SeenJob(0.0, 8, 20.0)] * 9
    rule = grouping_of(jobs, max_classes=2)
    names = Counter(rule.name_of(rule.key_of(job)) for job in jobs)
    assert sorted(names.values()) == [9, 91]


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_a_history_of_few_classes_keeps_the_gpu_time(most):
    jobs = [
        TracedJob(f"{k}", k * WEEK_S / 100, 3600.0 * (1 + k % 60), 1 + k % 9, tenant=f"t{k % 7}")
        for k in range(201)
    ]
    found = history_of_jobs(jobs, speeds={"a100": 1.0}, max_classes=most)
    assert len(found.classes) <= most
    load = sum(
        found.jobs_per_hour[:, j].sum() * 168 * one.options[0].gpu_hours
        for j, one in enumerate(found.classes)
    )
    assert load == pytest.approx(sum(job.gpu_s for job in jobs[:200]) / 3600)


def test_large_tenants_have_classes_of_their_own_and_the_others_share():
    jobs = [
        TracedJob(f"{k}-{t}", k * WEEK_S / 20, 3600.0 * (10 - t), 4, tenant=f"t{t}")
        for k in range(41)
        for t in range(6)
    ]
    found = history_of_jobs(jobs, speeds={"a100": 1.0}, by_tenant=True)
    assert {one.tenant for one in found.classes} == {"t0", "t1", "t2", "t3", OTHERS}
    with pytest.raises(InstanceError, match="make 5 classes, and max_classes is 4"):
        history_of_jobs(jobs, speeds={"a100": 1.0}, by_tenant=True, max_classes=4)
