"""The queue around placement rules: order, quotas, running jobs, rules of placement."""

from __future__ import annotations

import pytest

from alloc.instances import generate_elastic
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.schedulers import make_scheduler
from alloc.schedulers.placement import BestFit, ExactPlan, Fgd, FirstFit
from alloc.schedulers.placement.sequence import place_in_order
from alloc.simulation import simulate
from alloc.topology import Domain, Host, HostType, Topology, flat_cluster
from alloc.verification import verify
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup, rigid_gang

NAMES = (
    *("first-fit", "best-fit", "random-fit", "fgd", "hived", "kai"),
    *("kueue-best-fit", "kueue-balanced"),
)
FOUR = HostType("four", 4, "V100", 32_000, 0)


def gang(name: str, gpus: int, arrival_s: float = 0.0, **fields: object) -> Job:
    """Return a rigid gang that runs for ten seconds."""
    return Job(
        name,
        arrival_s,
        10.0,
        (rigid_gang(gpus),),
        elasticity="rigid",
        preemptible=False,
        **fields,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_runs_elastic_jobs_in_slots(name: str) -> None:
    """Jobs with hundreds of configurations, rounds from an empty cluster: nobody is lost, and the
    simulator holds each decision against the checker's rules."""
    instance = generate_elastic("slots", num_jobs=8, num_hosts=3, seed=2)
    result = simulate(instance, make_scheduler(name), rng=1)
    assert all(result.completion_s[job.id] is not None for job in instance.jobs)


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_honours_required_levels_in_the_simulator(name: str) -> None:
    """Two racks of two 4-GPU hosts: jobs of 6 GPUs in one rack run two at a time, so three of them
    take two rounds; spread over racks they would not pass the checker."""
    domains = (Domain("r0", "rack"), Domain("r1", "rack"))
    hosts = tuple(Host(f"h{k}", "four", f"r{k // 2}") for k in range(4))
    topology = Topology("racks", (FOUR,), hosts, ("rack",), domains)
    rules = PlacementRules(required="rack")
    jobs = tuple(gang(f"j{k}", 6, placement=rules) for k in range(3))
    result = simulate(Instance("racks", topology, jobs), make_scheduler(name), rng=1)
    assert sorted(result.completion_s.values()) == [10.0, 10.0, 20.0]


def test_the_head_of_the_queue_blocks_unless_told_to_skip() -> None:
    """Of 4 GPUs 2 are taken; the next job wants 4, the one behind it 2."""
    jobs = (gang("a", 2), gang("b", 4), gang("c", 2))
    instance = Instance("queue", flat_cluster("one", FOUR, 1), jobs)
    waits = simulate(instance, FirstFit())
    skips = simulate(instance, FirstFit(skip=True))
    assert [waits.start_s[j] for j in "abc"] == [0.0, 10.0, 20.0]
    assert [skips.start_s[j] for j in "abc"] == [0.0, 10.0, 0.0]


def test_a_quota_holds_back_only_its_tenant() -> None:
    """t may hold 2 GPUs: its second job is passed over, the job behind it starts."""
    jobs = (gang("a", 2, tenant="t"), gang("b", 2, tenant="t"), gang("c", 2))
    instance = Instance("quota", flat_cluster("one", FOUR, 1), jobs, tenants=(Tenant("t", 2000),))
    result = simulate(instance, BestFit())
    assert [result.start_s[j] for j in "abc"] == [0.0, 10.0, 0.0]


def test_a_sequence_turns_away_what_does_not_fit_and_passes_the_judge() -> None:
    """One host of 4 GPUs: 3, then 2 (turned away), then 1. Arrived 75, 125 and 150 %, allocated 75,
    75 and 100 %."""
    jobs = tuple(gang(f"j{k}", n) for k, n in enumerate((3, 2, 1)))
    instance = Instance("sequence", flat_cluster("one", FOUR, 1), jobs)
    result = place_in_order(instance, FirstFit())
    assert isinstance(result.allocation, Allocation)
    assert verify(instance, result.allocation) == []
    assert result.allocation.unplaced == {"j1": "first-fit found no room for it when it arrived."}
    assert [result.ratio_at(p) for p in (75, 125, 150)] == [75.0, 75.0, 100.0]
    assert result.ratio_at(80) != result.ratio_at(80)  # nothing arrived there: NaN
    assert result.decision_s > 0


def share(name: str, gpu: int) -> Job:
    """Return a job of one task."""
    ways = (Configuration((TaskGroup("pod", 1, gpu),), 1.0),)
    return Job(name, 0.0, 1.0, ways, elasticity="rigid")


def test_a_plan_keeps_room_where_fgd_does_not() -> None:
    """Two GPUs; first come two tasks of 400, then one of 600 and one of 600. Shared evenly all fit:
    400 + 600 twice. Best-fit puts 400 + 400 on one GPU and must turn the last one away; the plan,
    which expects the four jobs, does not."""
    host = HostType("two", 2, "V100", 8000, 0)
    jobs = tuple(share(f"j{k}", n) for k, n in enumerate((400, 400, 600, 600)))
    instance = Instance("plan", flat_cluster("one", host, 1), jobs)
    greedy = place_in_order(instance, BestFit())
    planned = place_in_order(instance, ExactPlan(jobs, plan_s=5.0))
    assert greedy.allocated[-1] == 1400
    assert planned.allocated[-1] == 2000
    assert verify(instance, planned.allocation) == []


def test_a_plan_gives_up_cheap_slots_for_what_comes_instead() -> None:
    """One GPU, expected is a task of 500; what comes is one of 900, worth more than the slot; then
    the expected one, which now finds no room."""
    host = HostType("one", 1, "V100", 8000, 0)
    jobs = (share("big", 900), share("small", 500))
    instance = Instance("swap", flat_cluster("one", host, 1), jobs)
    result = place_in_order(instance, ExactPlan(jobs[1:], plan_s=5.0))
    assert [a.job for a in result.allocation.assignments] == ["big"]


def test_fgd_learns_the_mix_on_the_way() -> None:
    """All tasks are of 600 and 400: after the first two, FGD fills GPUs to the brim."""
    host = HostType("many", 8, "V100", 64_000, 0)
    sizes = [600, 400] * 8
    instance = Instance(
        "mix", flat_cluster("one", host, 1), tuple(share(f"j{k}", n) for k, n in enumerate(sizes))
    )
    assert place_in_order(instance, Fgd()).allocated[-1] == 8000


def test_what_ran_before_the_start_goes_on_even_without_hosts() -> None:
    """In slots a running job must be assigned again; one whose hosts nobody wrote down gets some,
    and the job behind it what is left."""
    running = (Assignment("a", 0),)
    jobs = (gang("a", 3), gang("b", 2), gang("c", 1))
    instance = Instance("running", flat_cluster("one", FOUR, 1), jobs, slot_s=10.0, running=running)
    result = simulate(instance, FirstFit(skip=True))
    assert [result.start_s[j] for j in "abc"] == [0.0, 10.0, 0.0]
