"""Laws of simulation that hold for every policy on every instance."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from policy_files import random_policy
from strategies import instances, runnable

from alloc.errors import SimulationError, UnsupportedFeatureError
from alloc.objectives import OBJECTIVES
from alloc.problems.allocation.instance import Instance
from alloc.progress import follow
from alloc.schedulers import SCHEDULERS, make_scheduler
from alloc.schedulers.shelf import shipped_policies
from alloc.simulation import metrics_of, simulate
from alloc.topology import Host, HostType, flat_cluster
from alloc.verification import verify
from alloc.workload import Job, rigid_gang

RULES = ("fifo", "srtf", "srtf-dl2", "las", "drf", "tetris", "optimus", "random-ps")
LEARNED = tuple(shipped_policies())
SOLVERS = tuple(name for name in SCHEDULERS if name not in (*RULES, *LEARNED))
PAUSING = ("elasticflow", "exact-admission", "primal-dual", "chronus")
"""Policies that refuse instances with a job that must not be paused."""
LATENESS = {"deadline", "horizon"}

relaxed = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
few = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


worlds = instances(quotas=False).map(runnable)


def check(instance: Instance, name: str, seed: int = 0) -> None:
    """Run a policy and hold everything against the checker and the work."""
    result = simulate(instance, make_scheduler(name), rng=seed)
    assert result.unfinished == ()
    assert not [v for v in verify(instance, result.schedule) if v.code not in LATENESS]
    running = {assignment.job: assignment for assignment in instance.running}
    restarts = 0
    for job in instance.jobs:
        runs = result.schedule.runs_of[job.id]
        progress = follow(job, runs, running.get(job.id))
        assert progress.work_left == 0.0, "all work is done"
        assert progress.completion_s == result.completion_s[job.id]
        assert min(run.start_s for run in runs) == result.start_s[job.id] >= job.arrival_s
        restarts += progress.restarts
    assert restarts == result.restarts
    found = metrics_of(result)
    assert found.mean_jct_s == OBJECTIVES["mean_jct"].evaluate(instance, result.schedule)
    assert found.makespan_s == OBJECTIVES["makespan"].evaluate(instance, result.schedule)
    assert found.utilisation <= 1 + 1e-9


@pytest.mark.long
@pytest.mark.parametrize("name", RULES)
@relaxed
@given(instance=worlds, slot_s=st.sampled_from((None, 7.5, 25.0)))
def test_rules_complete_all_work_and_keep_every_rule(
    name: str, instance: Instance, slot_s: float | None
) -> None:
    """Checker clean, work conserved, no starvation: for gangs, tables, shares, types, levels."""
    check(instance.replace(slot_s=slot_s), name)


@pytest.mark.parametrize("name", SOLVERS)
@few
@given(instance=worlds)
def test_solving_policies_complete_all_work_and_keep_every_rule(
    name: str, instance: Instance
) -> None:
    """The same for the policies that solve a model in every slot."""
    if name in PAUSING:
        jobs = tuple(job.replace(preemptible=True) for job in instance.jobs)
        instance = instance.replace(jobs=jobs)
    check(instance.replace(slot_s=20.0), name)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Return the shipped policies, and one with random weights of each kind."""
    folder = tmp_path_factory.mktemp("policies")
    kinds: dict[str, dict[str, int]] = {
        "job-priority/1": {},
        "job-set/1": {},
        "dl2-window/1": {"window": 3},
    }
    made = [
        random_policy(kind, folder / f"{kind.partition('/')[0]}.onnx", **parameters)
        for kind, parameters in kinds.items()
    ]
    return (*LEARNED, *(str(policy.path) for policy in made))


@pytest.mark.long
@few
@given(instance=worlds, slot_s=st.sampled_from((None, 20.0)), seed=st.integers(0, 9))
def test_learned_policies_keep_every_rule_or_say_what_they_are_not_made_for(
    learned: tuple[str, ...], instance: Instance, slot_s: float | None, seed: int
) -> None:
    """Whatever a network answers, its kind makes a decision that the checker accepts."""
    for name in learned:
        try:
            check(instance.replace(slot_s=slot_s), name, seed)
        except UnsupportedFeatureError:
            assert "job-priority" not in name, "this kind is for any instance"
        except SimulationError as error:
            # It may leave a job waiting for ever; it may not break a rule.
            if "stalls" not in str(error):
                raise


@pytest.mark.parametrize("name", RULES)
@few
@given(instance=instances().map(runnable), slot_s=st.sampled_from((None, 20.0)))
def test_quotas_are_kept(name: str, instance: Instance, slot_s: float | None) -> None:
    """With quotas a job may have to wait for ever; that is said, and no quota is ever broken."""
    try:
        simulate(instance.replace(slot_s=slot_s, running=()), make_scheduler(name))
    except SimulationError as error:
        if "stalls" not in str(error):
            raise


@pytest.mark.parametrize("name", RULES)
@few
@given(instance=worlds, seed=st.integers(0, 9))
def test_same_seed_same_result(name: str, instance: Instance, seed: int) -> None:
    """An experiment can be repeated: errors and draws come from the one generator."""
    first, second = (
        simulate(
            instance,
            make_scheduler(name),
            knowledge="estimate",
            work_error=0.3,
            speed_error=0.2,
            rng=seed,
        )
        for _ in range(2)
    )
    assert first.schedule == second.schedule
    assert first.completion_s == second.completion_s


@pytest.mark.long
@relaxed
@given(instance=worlds, name=st.sampled_from(RULES), slot_s=st.sampled_from((None, 20.0)))
def test_another_host_does_no_harm_to_the_run(
    instance: Instance, name: str, slot_s: float | None
) -> None:
    """More GPUs may worsen a heuristic's times (anomalies), but never break or starve anything."""
    topology = instance.topology
    kind = HostType("added", 4, "v100", 32_000, 65_536)
    larger = topology.replace(
        host_types=(*topology.host_types, kind), hosts=(*topology.hosts, Host("added", "added"))
    )
    check(instance.replace(topology=larger, slot_s=slot_s), name)


@relaxed
@given(
    sizes=st.lists(st.integers(1, 8), min_size=2, max_size=12),
    works=st.lists(st.integers(1, 50), min_size=12, max_size=12),
    gaps=st.lists(st.integers(0, 20), min_size=12, max_size=12),
)
def test_strict_fifo_starts_in_order_and_never_idles_the_head(
    sizes: list[int], works: list[int], gaps: list[int]
) -> None:
    """Nobody overtakes; and the head starts as soon as enough GPUs are free."""
    arrival, jobs = 0.0, []
    for k, size in enumerate(sizes):
        arrival += gaps[k]
        jobs.append(Job(f"j{k}", arrival, works[k], (rigid_gang(size),), elasticity="rigid"))
    # Single-GPU hosts: a gang fits whenever its number of GPUs is free.
    topology = flat_cluster("ones", HostType("one", 1, "generic", 0, 0), 8)
    result = simulate(Instance("fifo", topology, tuple(jobs)), make_scheduler("fifo"))
    starts = [result.start_s[job.id] for job in jobs]
    ends = [result.completion_s[job.id] for job in jobs]
    assert all(a is not None and b is not None and a <= b for a, b in pairwise(starts))
    for k, (job, start) in enumerate(zip(jobs, starts, strict=True)):
        assert start is not None
        earliest = max([job.arrival_s, *(s for s in starts[:k] if s is not None)])
        if start > earliest:
            before = [
                size
                for size, s, e in zip(sizes, starts, ends, strict=True)
                if s is not None and e is not None and s < start <= e
            ]
            assert sum(before) + sizes[k] > 8, "the head waited although there was room"
