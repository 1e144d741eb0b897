"""F6: admission against enumeration, at every scale, and what it says in words."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest
from deadline_jobs import HOUR, LINEAR, TABLE, instance, job

from alloc.errors import InstanceError, SimulationError, UnsupportedFeatureError
from alloc.models.admission import admission_data
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import Assignment, Schedule
from alloc.result import Limits
from alloc.schedulers.state import ClusterState, Decision
from alloc.simulation import simulate
from alloc.solving import solve
from alloc.solving.admission.admit import admit, clock, shortage, with_job
from alloc.solving.admission.flow import Network, network_of
from alloc.solving.admission.shares import minimum_share
from alloc.solving.outcome import Settings
from alloc.topology import Host, HostType, Topology
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup
from benchmarks.tiny.admission import outcomes
from benchmarks.tiny.families import FAMILIES as TINY
from benchmarks.tiny.family import disagreement


@pytest.mark.long
def test_a_sample_of_tiny_instances_agrees_with_enumeration() -> None:
    """The sweep of 2,000 is `python -m benchmarks.exhaustive`; every model is in the registry's."""
    tiny = TINY["admission"]
    for seed in range(1000, 1016):
        problem = tiny.problem(seed)
        assert disagreement(tiny.truth(problem), tiny.solve(problem, "auto", 20.0)) is None, seed


@pytest.mark.long
@pytest.mark.parametrize("goal", ["value", "value then gpu_time"])
def test_no_unit_changes_what_is_accepted(goal: str) -> None:
    """Weights, rates and times in other units, and jobs in another order: the same value."""
    rng = Random(5)
    made = [
        job(
            f"j{k}",
            rng.randint(1, 8),
            rng.randint(1, 4),
            table=rng.choice((TABLE, LINEAR)),
            weight=rng.randint(1, 5),
        )
        for k in range(6)
    ]
    plain = solve(instance(*made), "admission", objective=goal)
    for weight, rate in ((1e9, 1.0), (1e-7, 1e6), (1.0, 1e-6)):
        scaled = [
            j.replace(
                weight=j.weight * weight,
                work=j.work * rate,
                configurations=tuple(
                    Configuration(c.tasks, c.rate * rate) for c in j.configurations
                ),
            )
            for j in reversed(made)
        ]
        found = solve(instance(*scaled), "admission", objective=goal)
        for before, after in zip(
            plain.stages or (plain.certificate,), found.stages or (found.certificate,), strict=True
        ):
            unit = weight if before.objective_name == "value" else 1.0
            assert after.status == before.status == "optimal"
            assert after.objective == pytest.approx(before.objective * unit, rel=1e-6)


@pytest.mark.long
def test_more_never_costs_value() -> None:
    """One GPU more, or one job more, never lowers the greatest value; a promise never raises it."""
    rng = Random(11)
    for _ in range(6):
        made = [
            job(
                f"j{k}", rng.randint(1, 6), rng.randint(1, 3), table=TABLE, weight=rng.randint(1, 4)
            )
            for k in range(5)
        ]

        def value(*jobs: Job, gpus: int = 3) -> float | None:
            return solve(instance(*jobs, gpus=gpus), "admission").certificate.objective

        best = value(*made)
        assert best is not None
        assert value(*made, gpus=4) >= best >= value(*made[1:])
        promised = value(made[0].replace(refusable=False), *made[1:])
        assert promised is None or promised <= best


def test_a_size_that_no_host_holds_changes_nothing() -> None:
    """Neither beside a quota nor without one: what cannot run is no way to stay within it."""
    rng = Random(12)
    for quota in (None, 500, 1000, 2000, 3000):
        tables = [TABLE[rng.randint(0, 2) :] for _ in range(4)]
        made = [
            job(f"j{k}", rng.randint(1, 6), rng.randint(1, 3), table=table, tenant="red")
            for k, table in enumerate(tables)
        ]
        no_host = Configuration((TaskGroup("worker", 1, 1000),), 9.0, gpu_type="h100")
        longer = [one.replace(configurations=(no_host, *one.configurations)) for one in made]
        tenants = () if quota is None else (Tenant("red", quota),)
        short, long = (
            solve(instance(*jobs).replace(tenants=tenants), "admission").certificate
            for jobs in (made, longer)
        )
        assert short.status == long.status == "optimal"
        assert short.objective == long.objective


def networks(rng: Random) -> Network:
    slots = rng.randint(1, 5)
    start = np.array([rng.randrange(slots) for _ in range(rng.randint(1, 5))])
    stop = np.array([rng.randint(s + 1, slots) for s in start])
    need = np.array([rng.randint(1, 6) for _ in start])
    most = np.array([rng.randint(1, 3) for _ in start])
    return Network(need, most, start, stop, rng.randint(1, 4), slots)


def test_a_set_is_carried_where_no_cut_forbids_it() -> None:
    """Max-flow min-cut over all sets of slots; and no cut forbids a set that is carried."""
    rng = Random(3)
    for _ in range(150):
        net = networks(rng)
        share = np.array([float(rng.random() < 0.7) for _ in net.need])
        flow, _ = net.flow(share)
        sent = np.asarray(flow.sum(axis=1)).ravel()
        carried = bool((sent >= net.need * share).all())
        cuts = [
            net.cut(np.array(chosen))
            for chosen in itertools.product((False, True), repeat=net.num_slots)
        ]
        assert carried == all(least @ share <= limit for least, limit in cuts)


def test_only_linear_tables_are_a_network() -> None:
    made = (job("a", 2, 2), job("b", 3, 2))
    assert network_of(admission_data(instance(*made))) is not None
    for other in (
        job("c", 2, 2, table=TABLE),
        job("c", 2, 2, table=LINEAR[1:]),
        job("c", 2, 1.5),
        job("c", 2, 2, preemptible=False),
        job("c", 2, 2, restart_cost_s=60.0),
        job("c", 2, 2, elasticity="moldable"),
        job("c", 2, 2, refusable=False, deadline_s=None),
    ):
        assert network_of(admission_data(instance(*made, other))) is None


def test_a_minimum_share_is_the_smallest_size_from_the_deadline_backwards() -> None:
    rate, use = np.array([1.0, 1.9, 3.4]), np.array([[1.0], [2.0], [4.0]])
    free = np.full((4, 1), 4.0)
    usable = np.ones(4)
    assert minimum_share(rate, use, usable, 3.0, free) == [(1, 0), (2, 0), (3, 0)]
    assert minimum_share(rate, use, usable, 5.0, free) == [(1, 1), (2, 1), (3, 1)]
    free[3] = 1.0
    assert minimum_share(rate, use, usable, 5.0, free) == [(0, 1), (1, 1), (2, 1), (3, 0)]
    assert minimum_share(rate, use, usable, 99.0, free) is None
    assert minimum_share(rate, use, np.zeros(0), 1.0, np.zeros((0, 1))) is None


def test_answers_are_in_words() -> None:
    """Four GPUs for three hours: 8 of 12 GPU hours are promised, and 6 more are asked for."""
    promised = instance(job("old", 8, 2, refusable=False), job("free", 1, 9, refusable=False))
    new = job("new", 5, 3, arrival_s=HOUR)
    found = admit(promised, new)
    assert [a.accepted for a in found.answers] == [False]
    assert found.answers[0].sentence == ('job "new" is refused: 1 GPU-hours short before 03:00.')
    assert found.answers[0].short_gpu_h == pytest.approx(1.0)
    assert not found.answers[0].is_bound
    smaller = admit(promised, new.replace(work=4 * HOUR))
    assert smaller.answers[0].accepted
    assert smaller.answers[0].sentence == (
        'job "new" is accepted: at least 4 GPUs from 02:00, complete at 03:00.'
    )
    assert verify(with_job(promised, new.replace(work=4 * HOUR)), smaller.result.solution) == []
    alone = admit(promised, new.replace(work=90 * HOUR))
    assert "at the earliest, alone on the cluster, and must by" in alone.answers[0].sentence
    assert clock(93_600.0) == "1 d 02:00"


def test_a_shortage_is_there_where_enumeration_finds_no_way() -> None:
    """Of tiny instances with every job promised; and so much is enough: it is worked out again."""
    seen = set()
    for seed in range(60):
        tiny, _ = TINY["admission"].problem(seed)
        if any(j.deadline_s is None for j in tiny.jobs):
            continue
        data = admission_data(
            tiny.replace(jobs=tuple(j.replace(refusable=True) for j in tiny.jobs))
        )
        if network_of(data) is None or data.hopeless:
            continue
        kept = tiny.replace(jobs=tuple(j.replace(refusable=False) for j in tiny.jobs))
        found = shortage(kept, Settings())
        assert found is not None
        assert (found[0] > 1e-9) == (not outcomes(kept)), seed
        seen.add(found[0] > 1e-9)
    assert seen == {True, False}


def test_a_shortage_is_at_least_so_much_where_hosts_decide() -> None:
    """Two gangs of three on hosts of four: one GPU is missing by count, a third host in truth."""
    three = (Configuration((TaskGroup("worker", 1, 3000),), 1.0),)
    hosts = Topology("c", (HostType("k", 4, "a100"),), (Host("h", "k"), Host("i", "k")))
    jobs = (job("a", 1, 1, table=three, refusable=False), job("b", 1, 1, table=three))
    asked = Instance("night", hosts, (*jobs, jobs[1].replace(id="c")), slot_s=HOUR)
    answers = {a.job: a for a in admit(asked).answers}
    (refused,) = (a for a in answers.values() if not a.accepted)
    assert refused.sentence.endswith("is refused: at least 1 GPU-hours short before 01:00.")
    assert refused.short_gpu_h == pytest.approx(1.0)
    assert refused.is_bound


def test_no_gpus_are_short_where_a_job_lacks_cpu() -> None:
    """Jobs without GPUs: what is said of the refused one is no number of GPU hours."""
    table = (Configuration((TaskGroup("worker", 1, 0, cpu_milli=3000),), 1.0),)
    hosts = Topology("c", (HostType("k", 0, cpu_milli=4000),), (Host("h", "k"),))
    asked = Instance("night", hosts, tuple(job(k, 1, 1, table=table) for k in "ab"), slot_s=HOUR)
    (refused,) = (a for a in admit(asked).answers if not a.accepted)
    assert "no better plan was found" in refused.sentence
    assert refused.short_gpu_h is None


def test_a_large_cut_that_is_broken_by_one_gpu_slot_is_a_cut() -> None:
    """12,001 of 12,000 GPU slots: two of three jobs, proved."""
    table = tuple(Configuration((TaskGroup("worker", k, 1000),), float(k)) for k in range(1, 121))
    made = [job(f"j{k}", 4000 + (k == 2), 100, table=table) for k in range(3)]
    asked = instance(*made, gpus=120)
    assert network_of(admission_data(asked)) is not None
    found = solve(asked, "admission")
    assert (found.certificate.status, found.certificate.objective) == ("optimal", 2.0)


def test_promises_that_cannot_be_kept_are_a_result() -> None:
    both = (job("a", 4, 1, refusable=False), job("b", 1, 1, refusable=False))
    found = solve(instance(*both), "admission")
    assert found.certificate.status == "infeasible"
    assert found.conflict is not None
    assert "may not be refused" in found.conflict
    late = solve(instance(job("a", 9, 1, refusable=False)), "admission")
    assert late.conflict is not None
    assert "alone on the cluster" in late.conflict


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InstanceError, match="may be refused but has no limit to miss; give it"):
        instance(job("a", 1, 1, deadline_s=None))
    with pytest.raises(InstanceError, match="so it was accepted, and may not be refused"):
        instance(job("a", 1, 1)).replace(running=(Assignment("a", 0),))
    with pytest.raises(InstanceError, match="no job may be refused, so nothing is to be decided"):
        admit(instance(job("a", 1, 1, refusable=False)))
    with pytest.raises(InstanceError, match='has a job "a" already'):
        with_job(instance(job("a", 1, 1)), job("a", 1, 1))
    with pytest.raises(UnsupportedFeatureError, match='job "a": restart_cost_s 7200 is longer'):
        solve(instance(job("a", 1, 1, restart_cost_s=7200.0)), "admission")


@pytest.mark.long
def test_a_linear_queue_is_a_knapsack() -> None:
    """Forty jobs, of which a flow carries some: proved, with the bound worked out in numpy."""
    rng = Random(7)
    made = []
    for k in range(40):
        begin = rng.randrange(20)
        span = rng.randint(1, 8)
        made.append(
            job(
                f"j{k}",
                rng.randint(1, 4 * span),
                begin + span,
                arrival_s=begin * HOUR,
                weight=rng.randint(1, 9),
            )
        )
    found = solve(instance(*made), "admission", objective="value then gpu_time")
    assert found.certificate.status == "optimal"
    assert isinstance(found.solution, Schedule)
    assert 0 < len(found.solution.unplaced) < 40
    again = solve(instance(*made), "admission", "highs", limits=Limits(20.0))
    assert again.certificate.objective == pytest.approx(found.stages[0].objective)


def test_only_what_may_be_refused_is() -> None:
    def refuse(state: ClusterState) -> Decision:
        return Decision(refuse=tuple(view.id for view in state.jobs))

    with pytest.raises(SimulationError, match="only a job that may be refused"):
        simulate(instance(job("a", 1, 1, refusable=False)), refuse)
    with pytest.raises(SimulationError, match="only a job that may be refused"):
        simulate(instance(job("a", 1, 1)), lambda state: Decision(refuse=("a", "a")))
    for slot_s in (HOUR, None):
        done = simulate(instance(job("a", 1, 1)).replace(slot_s=slot_s), refuse)
        assert done.schedule == Schedule((), {"a": "refused by refuse at 0 s."})
