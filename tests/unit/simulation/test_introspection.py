"""Saturn's introspection: who is planned when, and when a plan is swapped for another."""

from __future__ import annotations

from typing import Any

import pytest

import alloc
from alloc import Configuration, HostType, Instance, Job, TaskGroup
from alloc.errors import InstanceError, SolverError
from alloc.problems.allocation.outages import Outage
from alloc.problems.allocation.solution import Solution, TaskPlacement
from alloc.result import Limits, Result
from alloc.simulation import simulate
from alloc.simulation.introspection import Saturn
from alloc.topology import flat_cluster
from alloc.workload import Elasticity

HOSTS = flat_cluster("two", HostType("box", 4, "gpu"), 2)


def gang(name: str, work: float, *, kind: Elasticity = "malleable", **more: Any) -> Job:
    ways = tuple(
        Configuration((TaskGroup("worker", n, 1000),), rate, within="host")
        for n, rate in ((1, 1.0), (2, 1.75), (4, 3.0))
    )
    return Job(name, 0.0, work, ways, elasticity=kind, preemptible=True).replace(**more)


# Run times are whole in each configuration, so that plans are proved at once.
BATCH = tuple(gang(f"j{n}", 84.0 * work) for n, work in enumerate((5, 6, 8, 10)))


class OneHostFirst:
    """A stand-in solver: so many plans on the first host alone, then good ones."""

    def __init__(self, bad: int, error: bool = False) -> None:
        self.bad, self.error, self.asked = bad, error, 0

    def __call__(
        self,
        instance: Instance,
        formulation: str,
        backend: str,
        /,
        *,
        limits: Limits,
        warm_start: Solution | None,
    ) -> Result[Solution]:
        self.asked += 1
        if self.error:
            raise SolverError("none today")
        good = alloc.solve(instance, formulation, backend, objective="makespan", limits=limits)
        if self.asked > self.bad:
            return good
        now, runs, host = 0.0, [], instance.topology.hosts[0].id
        for job in instance.jobs:
            end = now + job.work_left / job.configurations[-1].rate
            runs.append(alloc.Run(job.id, 2, now, end, (TaskPlacement(host, "worker", 4),)))
            now = end
        return good.replace(solution=alloc.Schedule(tuple(runs)))


@pytest.mark.parametrize("slot_s", [None, 50.0])
def test_a_batch_ends_when_its_plan_says(slot_s: float | None) -> None:
    instance = Instance("batch", HOSTS, BATCH, slot_s=slot_s)
    best = alloc.solve(instance, "moldable", objective="makespan")
    assert best.status == "optimal"
    run = simulate(instance, Saturn(interval_s=1e6, time_limit_s=5.0))
    ends = alloc.objectives.objective("makespan").evaluate(instance, run.schedule)
    assert ends == pytest.approx(best.objective)
    assert run.notes["solves"] == 1
    assert "swaps" not in run.notes


def swaps(threshold_s: float, **more: Any) -> tuple[float, float]:
    """Return how often a bad plan of the batch is swapped, and the makespan."""
    jobs = tuple(job.replace(**more) for job in BATCH)
    instance = Instance("batch", HOSTS, jobs)
    policy = Saturn(
        interval_s=100.0, threshold_s=threshold_s, solve=OneHostFirst(1), time_limit_s=0.3
    )
    run = simulate(instance, policy)
    makespan = alloc.objectives.objective("makespan").evaluate(instance, run.schedule)
    return run.notes.get("swaps", 0.0), makespan


def test_a_plan_is_swapped_where_the_new_one_gains_more_than_the_threshold() -> None:
    few, long = swaps(1e6)
    once, short = swaps(50.0)
    assert (few, once) == (0.0, 1.0)
    assert short < long - 50.0


def test_a_plan_stays_while_a_job_runs_that_may_not_pause() -> None:
    assert swaps(0.0, preemptible=False)[0] == 0.0


def test_a_moldable_job_keeps_its_configuration_in_every_plan() -> None:
    """The checker refuses a second configuration: here it would gain."""
    jobs = tuple(job.replace(elasticity="moldable", restart_cost_s=5.0) for job in BATCH)
    policy = Saturn(interval_s=60.0, threshold_s=0.0, time_limit_s=0.3, solve=OneHostFirst(1))
    run = simulate(Instance("batch", HOSTS, jobs), policy)
    assert run.verified
    assert run.notes["swaps"] >= 1


def test_jobs_that_arrive_wait_for_the_next_introspection() -> None:
    late = gang("late", 84.0, arrival_s=20.0)
    instance = Instance("online", HOSTS, (*BATCH, late))
    run = simulate(instance, Saturn(interval_s=100.0, threshold_s=1e6, time_limit_s=0.3))
    start_s = min(own.start_s for own in run.schedule.runs_of["late"])
    assert start_s >= 100.0
    assert run.notes["swaps"] == 1


def test_without_a_plan_a_rule_decides() -> None:
    instance = Instance("batch", HOSTS, BATCH)
    run = simulate(instance, Saturn(solve=OneHostFirst(0, error=True)))
    rule = simulate(instance, "turn-around")
    assert run.notes["fallbacks"] >= 1
    assert run.schedule == rule.schedule


@pytest.mark.parametrize("slot_s", [None, 20.0])
@pytest.mark.parametrize("end_s", [5000.0, None])
def test_a_plan_on_a_host_that_is_down_is_none_any_more(
    slot_s: float | None, end_s: float | None
) -> None:
    """Its jobs are planned on the hosts that are up; they do not wait for one that is gone."""
    outages = (Outage("host-0", 50.0, end_s),)
    instance = Instance("fails", HOSTS, BATCH, slot_s=slot_s, outages=outages)
    run = simulate(instance, Saturn(interval_s=1e4, time_limit_s=0.1))
    assert run.verified
    assert run.unfinished == ()
    assert run.failures >= 1
    assert run.end_s < 5000.0
    assert run.notes["solves"] >= 2


def test_quotas_hold_where_jobs_run_longer_than_planned() -> None:
    jobs = tuple(job.replace(tenant="red") for job in BATCH)
    tenant = alloc.Tenant("red", 4000)
    instance = Instance("quota", HOSTS, jobs, tenants=(tenant,))
    policy = Saturn(interval_s=100.0, time_limit_s=0.3)
    run = simulate(instance, policy, knowledge="estimate", work_error=0.3, rng=3)
    assert run.verified


@pytest.mark.parametrize("wrong", [{"interval_s": 0.0}, {"threshold_s": -1.0}, {"time_limit_s": 0}])
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InstanceError, match=f"saturn: {next(iter(wrong))}"):
        Saturn(**wrong)
