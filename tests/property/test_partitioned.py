"""Solves in parts: answers of the whole, never better than its optimum, never above its bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement_oracle import MOVES, Oracle, random_instance
from strategies import instances

import alloc
from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.models.round import round_data
from alloc.objectives.goals import parse_level
from alloc.parallel import workers
from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.partitioned import round_in_parts
from alloc.solving.parts import cut
from alloc.solving.round.method import dual_prices, price_bound
from alloc.topology import Domain, Host, HostType, Topology
from alloc.units import MILLI
from alloc.verification import initial_violations
from alloc.workload import Job, rigid_gang

GOALS = ("gpus_placed", "balance + 0.05 moves", "hosts_used + 0.01 moved_gb", "weight_placed")
LIMITS = alloc.Limits(seconds=20)


def cut_in(instance: Instance) -> bool:
    """Return whether an instance can be cut."""
    try:
        cut(instance, 2, 0)
    except UnsupportedFeatureError:
        return False
    return True


@pytest.mark.parametrize("seed", range(12))
def test_placements_in_parts_lie_between_the_optimum_and_the_bound_of_the_whole(seed):
    rng = np.random.default_rng(seed)
    instance = random_instance(rng, MOVES)
    while not cut_in(instance):
        instance = random_instance(rng, MOVES)
    for goal in rng.choice(GOALS, 2, replace=False):
        level = parse_level(str(goal))
        best = Oracle(instance).best(level)
        result = alloc.solve(
            instance, "placement", "partitioned", objective=str(goal), limits=LIMITS
        )
        if result.solution is None:
            continue
        assert best is not None
        assert not alloc.verify(instance, result.solution)
        sign = 1 if level.sense == "min" else -1
        near = 1e-9 * (1 + abs(best))
        assert sign * result.objective >= sign * best - near
        assert sign * result.bound <= sign * best + near


@pytest.mark.long
@settings(max_examples=20)
@given(instances(max_jobs=5, shares=False), st.integers(0, 5))
def test_rounds_in_parts_are_rounds_and_their_bound_is_that_of_the_whole(instance, seed):
    instance = instance.replace(slot_s=instance.slot_s or 60.0)
    if not cut_in(instance):
        return
    limits = LIMITS.replace(seed=seed)
    parts = alloc.solve(instance, "round", "partitioned", limits=limits)
    whole = alloc.solve(instance, "round", limits=limits)
    assert not alloc.verify(instance, parts.require_solution())
    near = 1e-9 * (1 + abs(whole.objective))
    assert parts.objective <= whole.bound + near
    assert whole.objective <= parts.bound + near


def cluster(num_racks: int, hosts_in_rack: int) -> Topology:
    kind = HostType("node", 4, "a", 64_000, 1 << 20)
    racks = tuple(Domain(f"r{r}", "rack") for r in range(num_racks))
    hosts = tuple(
        Host(f"h{r}-{h}", "node", f"r{r}") for r in range(num_racks) for h in range(hosts_in_rack)
    )
    return Topology("racks", (kind,), hosts, ("rack",), racks)


@settings(max_examples=30)
@given(st.data())
def test_what_belongs_together_is_in_one_part_and_shares_add_up_to_the_whole(data):
    topology = cluster(data.draw(st.integers(3, 6)), data.draw(st.integers(1, 3)))
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=6, max_size=12))
    owner = st.sampled_from((None, "x", "y"))
    jobs = tuple(
        Job(f"j{j}", 0.0, 100.0, (rigid_gang(size),), tenant=data.draw(owner), elasticity="rigid")
        for j, size in enumerate(sizes)
    )
    hosts = data.draw(st.permutations([host.id for host in topology.hosts]))
    running = tuple(
        Assignment(
            job.id, 0, (TaskPlacement(host, "worker", job.configurations[0].tasks[0].count),)
        )
        for job, size, host in zip(jobs[:3], sizes[:3], hosts[:3], strict=True)
    )
    quota = topology.num_gpus * MILLI
    instance = Instance(
        "racks",
        topology,
        jobs,
        tenants=(Tenant("x", quota // 2 + 1, "c", 1500), Tenant("y", quota // 3, "c", 500)),
        running=running,
        affinities=(Affinity("apart", "host", (jobs[-1].id, jobs[-2].id)),),
        moves=Moves(budget=data.draw(st.integers(0, 7))),
    )
    try:
        pieces = cut(instance, data.draw(st.integers(2, 3)), data.draw(st.integers(0, 3)))
    except UnsupportedFeatureError:
        return  # the jobs that are joined tie all racks together
    parts = [pieces.instance(instance, p) for p in range(pieces.num_parts)]
    made = [part for part in parts if part is not None]
    assert sorted(job.id for part in made for job in part.jobs) == sorted(
        jobs[j].id for j in np.flatnonzero(pieces.part_of_job >= 0)
    )
    assert sum(len(part.running) for part in made) == len(running)
    assert sum(part.moves.budget for part in made) <= instance.moves.budget
    for t, tenant in enumerate(instance.tenants):
        assert sum(part.tenants[t].gpu_quota_milli for part in made) <= tenant.gpu_quota_milli
        assert sum(part.tenants[t].borrowing_milli for part in made) <= tenant.borrowing_milli
    racks = topology.domain_of_host["rack"]
    for rack in np.unique(racks):
        assert len(np.unique(pieces.part_of_host[racks == rack])) == 1
    assert len({pieces.part_of_job[-1], pieces.part_of_job[-2]}) == 1


@settings(max_examples=40)
@given(st.data())
def test_what_runs_may_run_in_its_part_too_also_on_what_is_borrowed(data):
    """Its part has the quota that it takes, its own or that of a lender whose jobs wait elsewhere.

    With quotas that do not come out even, and more than one part that borrows.
    """
    topology = cluster(data.draw(st.integers(2, 4)), 1)
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=topology.num_hosts, max_size=8))
    jobs = [
        Job(f"j{j}", 0.0, 100.0, (rigid_gang(size),), tenant=owner, elasticity="rigid")
        for j, size in enumerate(sizes)
        if (owner := data.draw(st.sampled_from(("x", "y")))) is not None
    ]
    number = data.draw(st.integers(1, topology.num_hosts))
    running = tuple(
        Assignment(job.id, 0, (TaskPlacement(host.id, "worker", size),))
        for job, size, host in zip(jobs[:number], sizes, topology.hosts, strict=False)
    )
    held = {name: 0 for name in "xy"}
    for job, size in zip(jobs[:number], sizes, strict=False):
        held[job.tenant] += size * MILLI
    own = data.draw(st.integers(0, held["x"] // 500)) * 500
    lender = min(held["x"] - own + held["y"], topology.num_gpus * MILLI)
    instance = Instance(
        "cohort",
        topology,
        tuple(jobs),
        tenants=(Tenant("x", own, "c", held["x"] - own), Tenant("y", lender, "c")),
        running=running,
        moves=Moves(),
    )
    assert not initial_violations(instance)
    pieces = cut(instance, data.draw(st.integers(2, 4)), data.draw(st.integers(0, 3)))
    parts = [pieces.instance(instance, p) for p in range(pieces.num_parts)]
    for part in parts:
        assert part is None or not initial_violations(part)
    for t, tenant in enumerate(instance.tenants):
        made = [part.tenants[t] for part in parts if part is not None]
        assert sum(one.gpu_quota_milli for one in made) <= tenant.gpu_quota_milli
        assert sum(one.borrowing_milli for one in made) <= tenant.borrowing_milli


def test_shares_of_a_quota_are_amounts_that_a_tenant_may_have():
    """A quarter of 15 milli-GPU is less than anybody may be given."""
    jobs = tuple(
        Job(f"j{j}", 0.0, 100.0, (rigid_gang(1),), tenant="x", elasticity="rigid") for j in range(9)
    )
    instance = Instance(
        "crumbs", cluster(4, 1), jobs, slot_s=60.0, tenants=(Tenant("x", 4005, "c", 15),)
    )
    pieces = cut(instance, 4, 0)
    assert all(pieces.instance(instance, part) is not None for part in range(4))
    result = alloc.solve(instance, "placement", "partitioned", limits=LIMITS)
    assert result.objective == 4


def test_a_job_tied_to_one_that_runs_where_it_does_not_fit_is_left_out_of_the_parts():
    """No part may hold it: that was an error about a cluster that nobody has."""
    kinds = (
        HostType("small", 1, "a", 64_000, 1 << 20),
        HostType("large", 4, "b", 64_000, 1 << 20),
    )
    topology = Topology(
        "two racks",
        kinds,
        (Host("s", "small", "r0"), Host("l", "large", "r1")),
        ("rack",),
        (Domain("r0", "rack"), Domain("r1", "rack")),
    )
    jobs = tuple(
        Job(name, 0.0, 100.0, (rigid_gang(size),), elasticity="rigid")
        for name, size in (("runs", 1), ("asks", 4), ("third", 1))
    )
    instance = Instance(
        "tied",
        topology,
        jobs,
        running=(Assignment("runs", 0, (TaskPlacement("s", "worker", 1),)),),
        affinities=(Affinity("apart", "host", ("asks", "runs", "third")),),
        moves=Moves(0),
    )
    pieces = cut(instance, 2, 0)
    assert pieces.part_of_job[1] == -1
    own = pieces.instance(instance, int(pieces.part_of_job[0]))
    assert own.affinities == (Affinity("apart", "host", ("runs", "third")),)
    result = alloc.solve(instance, "placement", "partitioned", limits=LIMITS)
    assert not alloc.verify(instance, result.require_solution())
    assert result.objective == 5  # "asks" is offered what is left anywhere


def test_what_cannot_be_cut_is_refused_in_a_sentence():
    job = Job("j", 0.0, 100.0, (rigid_gang(1),), elasticity="rigid")
    single = Instance("one", cluster(1, 1), (job,), slot_s=60.0)
    with pytest.raises(UnsupportedFeatureError, match="cannot be cut in two"):
        alloc.solve(single, "placement", "partitioned")
    licensed = Instance("two", cluster(2, 1).replace(resources={"licence": 3}), (job,))
    with pytest.raises(UnsupportedFeatureError, match='cannot share "licence"'):
        alloc.solve(licensed, "placement", "partitioned")
    several = Instance("three", cluster(2, 1), (job,))
    with pytest.raises(UnsupportedFeatureError, match="parts cannot hold an earlier level"):
        alloc.solve(
            several, "placement", "partitioned", objective="gpus_placed then gpu_hosts_used"
        )


def test_parts_are_solved_by_two_workers_as_by_one():
    jobs = tuple(
        Job(f"j{j}", 0.0, 100.0, (rigid_gang(1 + j % 4),), elasticity="rigid") for j in range(30)
    )
    instance = Instance("racks", cluster(6, 2), jobs)
    with workers("threading", 2):
        together = alloc.solve(
            instance, "placement", "partitioned", limits=LIMITS.replace(workers=2)
        )
    alone = alloc.solve(instance, "placement", "partitioned", limits=LIMITS)
    assert together.solution == alone.solution
    assert alone.objective >= 0.9 * instance.topology.num_gpus


def test_ctrl_c_while_a_round_is_bounded_keeps_what_the_parts_found(monkeypatch):
    def interrupted(data, settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("alloc.solving.partitioned.dual_prices", interrupted)
    jobs = tuple(Job(f"j{j}", 0.0, 100.0, (rigid_gang(1),), elasticity="rigid") for j in range(4))
    instance = Instance("racks", cluster(4, 2), jobs, slot_s=60.0)
    result = alloc.solve(instance, "round", "partitioned", limits=LIMITS)
    assert result.solution is not None
    assert result.solution.assignments
    assert result.status != "optimal"


def shared_quota():
    """Return three jobs of one tenant that may run two; parts have 1.33 and 0.67 GPUs for them."""
    jobs = tuple(
        Job(f"j{j}", 0.0, 100.0, (rigid_gang(1),), tenant="x", elasticity="rigid") for j in range(3)
    )
    tenants = (Tenant("x", 2 * MILLI),)
    return Instance("racks", cluster(2, 1), jobs, slot_s=60.0, tenants=tenants)


def test_jobs_of_a_round_that_found_no_room_in_their_part_have_what_is_left_anywhere():
    result = alloc.solve(shared_quota(), "round", "partitioned", limits=LIMITS)
    assert len(result.solution.assignments) == 2
    assert result.status == "optimal"


def test_a_round_in_parts_goes_on_from_its_warm_start(monkeypatch):
    """Without a part solved, the one job of the start stays where it stands, and one more runs."""

    def nothing(instance, objective, settings, warm_start, report):
        return Outcome(None, math.inf, "none", "nobody", "0", limit="time")

    monkeypatch.setattr("alloc.solving.partitioned.solve_round", nothing)
    instance = shared_quota()
    start = Allocation((Assignment("j2", 0, (TaskPlacement("h1-0", "worker", 1),)),))
    outcome = round_in_parts(instance, "progress", Settings(20.0), start, lambda line: None)
    assert isinstance(outcome.solution, Allocation)
    assert set(start.assignments) < set(outcome.solution.assignments)
    assert len(outcome.solution.assignments) == 2
    assert not alloc.verify(instance, outcome.solution)


@pytest.mark.parametrize("backend", ["auto", "partitioned", "highs", "cpsat"])
def test_a_round_does_not_start_from_a_job_that_has_not_arrived(backend):
    """What it is worth would beat a bound of the jobs that have: a false bound by appearance."""
    instance = shared_quota()
    jobs = (*instance.jobs[:2], instance.jobs[2].replace(arrival_s=60.0))
    instance = instance.replace(jobs=jobs)
    start = Allocation((Assignment("j2", 0, (TaskPlacement("h1-0", "worker", 1),)),))
    with pytest.raises(InstanceError, match="runs in the first slot but arrives at 60 s"):
        alloc.solve(instance, "round", backend, warm_start=start, limits=LIMITS)


def test_prices_of_a_round_end_with_the_time_and_still_bound_it():
    instance = shared_quota()
    data = round_data(instance, "progress")
    best = alloc.solve(instance, "round").objective
    for seconds in (0.0, math.inf):
        assert price_bound(data, dual_prices(data, Settings(seconds))) >= best * (1 - 1e-9)


@pytest.mark.parametrize("family", ["placement", "round"])
def test_ctrl_c_in_a_part_that_is_solved_here_ends_the_others_too(family, monkeypatch):
    """A part keeps what it has found when it is interrupted; nobody presses twice."""
    solved = []

    def interrupted(instance, objective, settings, warm_start, report):
        solved.append(instance)
        job, host = instance.jobs[0], instance.topology.hosts[0].id
        own = Assignment(job.id, 0, (TaskPlacement(host, "worker", 1),))
        return Outcome(Allocation((own,)), math.inf, "none", "somebody", "0", limit="interrupt")

    monkeypatch.setattr(f"alloc.solving.partitioned.solve_{family}", interrupted)
    result = alloc.solve(shared_quota(), family, "partitioned", limits=LIMITS)
    assert len(solved) == 1
    assert result.certificate.limit == "interrupt"
    assert len(result.solution.assignments) >= 1
