"""Laws of hosts that fail, for every policy on every instance."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import instances, outages, runnable

from alloc.errors import UnsupportedFeatureError
from alloc.problems.allocation.instance import Instance
from alloc.progress import progress_of
from alloc.schedulers import make_scheduler, scheduler_names
from alloc.schedulers.placement.policy import PlacementPolicy
from alloc.schedulers.placement.repacking import Repacking
from alloc.simulation import SimulationResult, metrics_of, simulate
from alloc.verification import verify

RULES = ("fifo", "srtf", "las", "drf", "easy-backfill")
LATENESS = {"deadline", "horizon"}
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def worlds(draw: st.DrawFn, *, for_ever: bool = False, shares: bool = True) -> Instance:
    """Draw jobs that save their state, or do not, on hosts that fail."""
    instance = runnable(draw(instances(quotas=False, shares=shares)))
    saves = draw(st.sampled_from((None, 0.0, 3.0, 25.0)))
    jobs = tuple(job.replace(checkpoint_s=saves) for job in instance.jobs)
    return instance.replace(jobs=jobs, outages=draw(outages(instance, for_ever=for_ever)))


def check(instance: Instance, name: str) -> SimulationResult:
    """Run a policy, and hold what happened against the checker and the rules of progress."""
    result = simulate(instance, name)
    broken = [v for v in verify(instance, result.schedule) if v.code not in LATENESS]
    assert all(v.code == "incomplete" and v.ids[0] in result.unfinished for v in broken)
    found = progress_of(instance, result.schedule)
    assert {job: p.completion_s for job, p in found.items()} == dict(result.completion_s)
    assert sum(p.failures for p in found.values()) == result.failures
    assert math.fsum(p.lost_gpu_s for p in found.values()) == pytest.approx(result.lost_gpu_s)
    assert not metrics_of(result).utilisation > 1 + 1e-9
    return result


@pytest.mark.parametrize("name", scheduler_names())
@few
@given(data=st.data(), slot_s=st.sampled_from((None, 7.5, 20.0)))
def test_every_scheduler_survives_hosts_that_fail(
    name: str, data: st.DataObject, slot_s: float | None
) -> None:
    """No run on a host that is down, no lost work counted, and all jobs done in the end.

    Policies that place by a rule may miss a place for gangs with shares of GPUs, even on the empty
    cluster (`place_exactly`).
    """
    places = isinstance(make_scheduler(name), PlacementPolicy | Repacking)
    instance = data.draw(worlds(shares=not places))
    try:
        result = check(instance.replace(slot_s=slot_s), name)
    except UnsupportedFeatureError:
        return  # it says what it is not made for
    assert result.unfinished == ()


@pytest.mark.parametrize("name", RULES)
@few
@given(instance=worlds(for_ever=True), slot_s=st.sampled_from((None, 20.0)))
def test_hosts_that_never_come_back_leave_jobs_unfinished_and_blame_nobody(
    name: str, instance: Instance, slot_s: float | None
) -> None:
    """A job that fits on no host that is left is an outcome, not an error of the scheduler."""
    result = check(instance.replace(slot_s=slot_s), name)
    for_good = any(outage.end_s is None for outage in instance.outages)
    assert result.unfinished == () or for_good
