"""Metrics, with figures worked out by hand."""

from __future__ import annotations

import math

import pytest

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Run, Schedule, TaskPlacement
from alloc.schedulers import make_scheduler
from alloc.simulation import finish_time_fairness, metrics_of, simulate, utilisation
from alloc.topology import Host, HostType, Topology, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang

HOSTS = flat_cluster("two", HostType("h", 2, "generic", 8000, 0), 2)


def test_metrics_of_two_gangs_by_hand() -> None:
    """a runs 0-10 on 4 GPUs, b arrives at 2, waits, and runs 10-15 on 2 GPUs."""
    instance = Instance(
        "two",
        HOSTS,
        (
            Job("a", 0.0, 10.0, (rigid_gang(4),), elasticity="rigid", deadline_s=9.0),
            Job("b", 2.0, 5.0, (rigid_gang(2),), elasticity="rigid"),
        ),
    )
    found = metrics_of(simulate(instance, make_scheduler("fifo")))
    assert (found.mean_jct_s, found.median_jct_s) == (11.5, 10.0)
    assert (found.p95_jct_s, found.p99_jct_s) == (13.0, 13.0)
    assert found.makespan_s == 15.0
    assert found.utilisation == pytest.approx((10 * 4 + 5 * 2) / (15 * 4))
    # a shares its stay 2-10 with b: N = 1.8, and 4 of 4/1.8 GPUs run 5/9 of the time, so alone it
    # takes 18 s. b: N = 1.615.., its 2 GPUs fit in 4/N, so alone it takes 5 s and got 13.
    rho = finish_time_fairness(instance, {"a": 10.0, "b": 15.0})
    assert rho == {"a": pytest.approx(10 / 18), "b": pytest.approx(13 / 5)}
    assert found.max_fairness == pytest.approx(2.6)
    assert found.mean_fairness == pytest.approx((10 / 18 + 2.6) / 2)
    assert (found.num_jobs, found.num_unfinished, found.num_late) == (2, 0, 1)
    assert 0 < found.mean_decision_s <= found.p99_decision_s


def test_unfinished_job_makes_means_infinite() -> None:
    """A policy must not look better for having dropped the long jobs."""
    jobs = (Job("a", 0.0, 100.0, (rigid_gang(4),)), Job("b", 0.0, 1.0, (rigid_gang(1),)))
    result = simulate(Instance("cut", HOSTS, jobs), make_scheduler("fifo"), max_time_s=5.0)
    found = metrics_of(result)
    assert found.num_unfinished == 2
    assert found.mean_jct_s == found.makespan_s == found.mean_fairness == math.inf
    assert found.utilisation == 1.0


def test_what_may_be_refused_and_does_not_complete_has_no_completion_time() -> None:
    """b is refused, as it cannot end by 5 s; it neither waits nor shares. c must run, and does."""
    gang = (rigid_gang(4),)
    jobs = (
        Job("a", 0.0, 10.0, gang),
        Job("b", 0.0, 50.0, gang, deadline_s=5.0, refusable=True),
        Job("c", 2.0, 5.0, gang),
    )
    instance = Instance("refusing", HOSTS, jobs)
    result = simulate(instance, make_scheduler("edf"))
    assert result.unfinished == ("b",)
    found = metrics_of(result)
    without = metrics_of(simulate(instance.replace(jobs=(jobs[0], jobs[2])), make_scheduler("edf")))
    for name in ("mean_jct_s", "p99_jct_s", "makespan_s", "utilisation", "mean_fairness"):
        assert math.isfinite(getattr(found, name))
        assert getattr(found, name) == getattr(without, name)
    assert (found.num_jobs, found.num_unfinished, found.deadlines_met) == (3, 1, 0.0)
    nobody = instance.replace(jobs=jobs[1:2], slot_s=1.0)
    alone = metrics_of(simulate(nobody, make_scheduler("elasticflow")))
    assert math.isnan(alone.mean_jct_s)
    assert math.isnan(alone.makespan_s)


def test_fairness_counts_only_gpus_of_the_type_asked_for() -> None:
    """A share of a cluster of two GPU types holds only its part of each type."""
    kinds = (HostType("a", 2, "a100", 8000, 0), HostType("v", 6, "v100", 8000, 0))
    topology = Topology("mixed", kinds, (Host("a", "a"), Host("v", "v")))
    table = (Configuration((TaskGroup("worker", 2, 1000),), 1.0, gpu_type="a100"),)
    jobs = tuple(Job(f"j{k}", 0.0, 10.0, table) for k in range(2))
    rho = finish_time_fairness(Instance("typed", topology, jobs), {"j0": 10.0, "j1": 20.0})
    # N is 2 for j0 and 1.5 for j1; a share of the two A100 pays for 1/N of the time.
    assert rho == {"j0": pytest.approx(0.5), "j1": pytest.approx(2.0 / 1.5)}


def test_no_gpu_is_no_utilisation() -> None:
    """A cluster without GPUs, or a schedule without runs, has none to report, not zero."""
    cpu_only = flat_cluster("cpu", HostType("c", 0, None, 8000, 0), 1)
    job = Job("a", 0.0, 1.0, (Configuration((TaskGroup("worker", 1, 0, 1000),), 1.0),))
    instance = Instance("cpu", cpu_only, (job,))
    assert math.isnan(metrics_of(simulate(instance, make_scheduler("fifo"))).utilisation)
    assert math.isnan(utilisation(Instance("none", HOSTS, (job,)), Schedule(())))
    run = Run("a", 0, 0.0, 4.0, (TaskPlacement("host-0", "worker", 2),))
    gang = Instance("gang", HOSTS, (Job("a", 0.0, 4.0, (rigid_gang(2),)),))
    assert utilisation(gang, Schedule((run,))) == 0.5
    assert utilisation(gang, Schedule((run,)), until_s=2.0) == 0.5
