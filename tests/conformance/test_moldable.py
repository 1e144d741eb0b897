"""Moldable gangs: what is special to F3; the registry's tests hold it to enumeration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from moldable_gangs import boxes, drawn, gang, speed

import alloc
from alloc import Configuration, Instance, Job, TaskGroup
from alloc.backends import SolverOptions, cpsat
from alloc.comparison import compare
from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.families import FAMILIES
from alloc.formulation import ArrayModel
from alloc.instances.recipes.gangs import moldable as generated
from alloc.models.moldable.cpsat_model import Builder
from alloc.models.moldable.data import moldable_data
from alloc.models.moldable.serial import Plan, by_ways
from alloc.objectives import ScheduleObjective
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers.state import ClusterState, Decision, Knowledge
from alloc.solving.moldable.filling import Filling
from alloc.solving.outcome import Settings
from alloc.verification.moldable import verify_moldable
from alloc.workload import rigid_gang
from benchmarks.tiny.family import disagreement
from benchmarks.tiny.moldable import MOLDABLE, best_ends

WAYS = ("auto", "cpsat", "pyomo")
"""In continuous time; the arrays are of slots."""


def value_of(name: str, jobs: Sequence[Job], ends: Sequence[float]) -> float:
    measure = alloc.objectives.objective(name)
    assert isinstance(measure, ScheduleObjective)
    return measure.of_completions(jobs, ends)


@pytest.mark.parametrize("seed", range(100, 104))
def test_every_way_agrees_with_enumeration_on_more_seeds(seed: int) -> None:
    problem = MOLDABLE.problem(seed)
    truth = MOLDABLE.truth(problem)
    for way in ("auto", "cpsat"):
        assert disagreement(truth, MOLDABLE.solve(problem, way, 20.0)) is None, way


def test_hosts_count_where_totals_would_do() -> None:
    """Three gangs of three GPUs fit twelve GPUs at once, but each host of four takes one."""
    jobs = tuple(gang(f"j{n}", (speed(3, 1.0),), 10.0) for n in range(4))
    for way in WAYS:
        result = alloc.solve(Instance("threes", boxes(3), jobs), "moldable", way)
        assert (result.status, result.objective) == ("optimal", 20.0)


def test_dual_feasible_functions_prove_it_in_numpy() -> None:
    """The GPUs alone say 15 s; that no two such gangs share a host says 20 s."""
    jobs = tuple(gang(f"j{n}", (speed(3, 1.0),), 10.0) for n in range(4))
    result = alloc.solve(Instance("threes", boxes(2), jobs), "moldable")
    assert (result.objective, result.certificate.bound_proof) == (20.0, "recomputed")


def test_a_gang_runs_once() -> None:
    """Two runs may be a schedule, and are no answer to this question."""
    instance = Instance("one", boxes(2), (gang("a", (speed(2, 1.0),), 10.0),))
    run = alloc.solve(instance, "moldable").require_solution().runs[0]
    halves = alloc.Schedule(
        (
            alloc.Run("a", 0, 0.0, 5.0, run.tasks),
            alloc.Run("a", 0, 5.0, 10.0, run.tasks),
        )
    )
    assert alloc.verify(instance, halves) == []
    assert [v.code for v in verify_moldable(instance, halves)] == ["runs"]
    with pytest.raises(InstanceError, match="runs once"):
        alloc.solve(instance, "moldable", warm_start=halves)


def test_jobs_that_may_pause_are_named_in_the_assumptions() -> None:
    instance = drawn(1, 2)
    free = instance.replace(jobs=tuple(j.replace(preemptible=True) for j in instance.jobs))
    assert "run through" in alloc.solve(free, "moldable").assumptions[0]
    assert alloc.solve(instance, "moldable").assumptions == ()


@pytest.mark.long
@pytest.mark.parametrize("factor", [2.0**-9, 1e6])
def test_no_unit_of_time_changes_what_is_said(factor: float) -> None:
    instance = drawn(3, 4)
    scaled = instance.replace(
        jobs=tuple(job.replace(work=job.work * factor) for job in instance.jobs)
    )
    for objective in ("makespan", "weighted_jct"):
        small, large = (
            alloc.solve(each, "moldable", objective=objective) for each in (instance, scaled)
        )
        assert small.status == large.status == "optimal"
        assert small.objective is not None
        assert large.objective == pytest.approx(small.objective * factor, rel=1e-6)


def test_run_times_that_differ_by_a_billion_prove_nothing_false() -> None:
    """The unit is that of the long job, so the bound may lose the short ones, and is no more."""
    jobs = (
        gang("long", (rigid_gang(3),), 1e9),
        *(gang(f"short-{n}", (rigid_gang(2),), 1.0 + n / 7, weight=1e6) for n in range(3)),
    )
    instance = Instance("far", boxes(1), jobs)
    for objective in ("makespan", "weighted_jct"):
        best = min(value_of(objective, jobs, ends) for ends in best_ends(instance))
        for way in ("auto", "cpsat"):
            result = alloc.solve(instance, "moldable", way, objective=objective)
            assert result.objective == pytest.approx(best, rel=1e-6)
            assert result.bound <= best * (1 + 1e-9)


def test_weights_that_differ_by_a_billion_prove_nothing_false() -> None:
    jobs = tuple(
        gang(f"j{n}", (rigid_gang(2),), 10.0 + n, weight=10.0 ** (3 * n)) for n in range(4)
    )
    instance = Instance("weights", boxes(1, 2), jobs)
    best = min(value_of("weighted_jct", jobs, ends) for ends in best_ends(instance))
    for way in WAYS:
        result = alloc.solve(instance, "moldable", way, objective="weighted_jct")
        assert result.objective == pytest.approx(best, rel=1e-6)
        assert result.bound <= best * (1 + 1e-9)


@pytest.mark.parametrize("whole_s", [0.0, 7.0])
def test_a_due_date_close_to_a_whole_second_is_no_whole_second(whole_s: float) -> None:
    """Found by enumeration: what was late by less than a billionth of a second counted double."""
    ways = (speed(2, 1.0),)
    jobs = tuple(
        gang(f"j{n}", ways, 3e-11, arrival_s=whole_s, due_date_s=whole_s + 1.5e-11)
        for n in range(2)
    )
    instance = Instance("short", boxes(1, 2), jobs)
    best = min(value_of("tardiness", jobs, ends) for ends in best_ends(instance))
    result = alloc.solve(instance, "moldable", objective="tardiness")
    assert result.status == "optimal"
    assert result.objective == pytest.approx(best, rel=1e-3)


def test_an_answer_is_never_worse_than_its_start() -> None:
    instance = drawn(5, 8)
    data = moldable_data(instance, "weighted_jct")
    start = by_ways(data, range(8), [0] * 8).schedule(data)
    before = alloc.objectives.objective("weighted_jct").evaluate(instance, start)
    limits = alloc.Limits(seconds=0.05)
    result = alloc.solve(
        instance, "moldable", objective="weighted_jct", limits=limits, warm_start=start
    )
    assert result.objective is not None
    assert result.objective <= before


def test_levels_keep_what_was_reached() -> None:
    instance = drawn(7, 4, 1)
    ends = best_ends(instance)
    least = min(max(own) for own in ends)
    kept = (own for own in ends if max(own) <= least * (1 + 1e-9))
    best = min(value_of("weighted_jct", instance.jobs, own) for own in kept)
    result = alloc.solve(instance, "moldable", objective="makespan then weighted_jct")
    assert [c.objective for c in result.stages] == pytest.approx([least, best], rel=1e-6)


def test_deadlines_that_cannot_all_be_kept_are_infeasible() -> None:
    jobs = tuple(gang(f"j{n}", (speed(4, 1.0),), 10.0, deadline_s=15.0) for n in range(2))
    for way in WAYS:
        result = alloc.solve(Instance("late", boxes(1), jobs), "moldable", way)
        assert result.status == "infeasible", way
    alone = Instance("late", boxes(1), (jobs[0].replace(deadline_s=9.0),))
    assert "at the earliest" in str(alloc.solve(alone, "moldable").conflict)


def test_what_is_not_modelled_is_refused_with_the_cure() -> None:
    share = Configuration((TaskGroup("worker", 1, 500),), 1.0)
    instance = Instance("shares", boxes(1), (gang("a", (share,), 1.0),))
    with pytest.raises(UnsupportedFeatureError, match=r"share a GPU.*malleable"):
        alloc.solve(instance, "moldable")
    runs = drawn(1, 2).replace(running=(alloc.Assignment("j0", 0),))
    with pytest.raises(UnsupportedFeatureError, match="idle cluster"):
        alloc.solve(runs, "moldable")


def test_a_gang_with_countless_placements_is_refused_by_models_and_solved_by_the_method() -> None:
    """Sixteen tasks on twelve hosts: the pooled rows prove what the listed placements reach."""
    jobs = tuple(gang(f"j{n}", (rigid_gang(16),), 10.0 + n) for n in range(5))
    instance = Instance("spread", boxes(12), jobs)
    with pytest.raises(UnsupportedFeatureError, match='within="host"'):
        alloc.solve(instance, "moldable", "cpsat")
    result = alloc.solve(instance, "moldable", limits=alloc.Limits(seconds=1.0))
    assert result.objective == 23.0
    assert result.bound <= 23.0


@pytest.mark.long
def test_a_comparison_takes_its_bound_from_gangs_that_run_once() -> None:
    instance = drawn(4, 5, hosts=1)
    table = compare(
        [instance], ["fifo", "lpt", "turn-around"], objective="makespan", time_limit_s=1
    )
    bound = next(iter(table.bounds.values()))
    assert bound.certificate is not None
    assert bound.certificate.formulation == "moldable"
    free = instance.replace(jobs=tuple(j.replace(preemptible=True) for j in instance.jobs))
    table = compare([free], ["fifo"], objective="makespan", time_limit_s=1)
    assert next(iter(table.bounds.values())).certificate.formulation == "malleable"
    table = compare([free], ["fifo"], objective="makespan", formulation="moldable", time_limit_s=1)
    assert "may pause" in str(next(iter(table.bounds.values())).error)


class Moving:
    """Starts gangs as listed, and moves one at time 2 without a pause."""

    name = "moving"
    draws = False
    needs: Knowledge = "exact"
    information = "a list"
    features = ()

    def reset(self) -> None:
        """Nothing is kept."""

    def decide(self, state: ClusterState) -> Decision:
        """Return what runs from now on."""
        place = {0: "c0 e0 g0:1", 1: "c0 e0 d1 f1", 2: "c1 d1 g2:0"}[round(state.now_s)]
        hosts, chosen = state.topology.hosts, []
        for own in place.split():
            name, host = own.split(":") if ":" in own else (own[:1], own[1:])
            view = next(v for v in state.jobs if v.id == name)
            count = view.configurations[0].tasks[0].count
            chosen.append(
                Assignment(name, 0, (TaskPlacement(hosts[int(host)].id, "worker", count),))
            )
        return Decision(assign=tuple(chosen))


@pytest.mark.long
@pytest.mark.parametrize("formulation", ["malleable", "moldable"])
def test_no_bound_of_a_comparison_is_beaten_by_a_job_that_moves(formulation: str) -> None:
    """What may not pause may still move at once; gangs that keep their hosts need 4 s, not 3."""
    sizes = {"g0": (2, 1), "c": (1, 3), "e": (1, 2), "d": (1, 2), "f": (1, 1), "g2": (2, 1)}
    jobs = tuple(gang(j, (speed(n, 1.0),), float(work)) for j, (n, work) in sizes.items())
    instance = Instance("moves", boxes(2, 2), jobs)
    assert alloc.solve(instance, "moldable").objective == 4.0
    table = compare(
        [instance], [Moving()], objective="makespan", formulation=formulation, time_limit_s=1
    )
    row = next(row for row in table.rows if row.scheduler == "moving")
    assert row.error is None
    assert row.objective == pytest.approx(3.0)
    bound = next(iter(table.bounds.values()))
    if formulation == "moldable":
        assert "move to another host" in str(bound.error)
    else:
        assert bound.value == pytest.approx(3.0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("goal", ["weighted_jct", "makespan"])
def test_a_deadline_missed_by_rounding_alone_is_kept(way: str, goal: str) -> None:
    jobs = (
        gang("a", (speed(4, 1.0),), 300.0, deadline_s=300.0 * (1 - 9e-13)),
        gang("b", (speed(4, 1.0),), 300.0),
    )
    result = alloc.solve(Instance("rounding", boxes(1), jobs), "moldable", way, objective=goal)
    value = 900.0 if goal == "weighted_jct" else 600.0
    assert result.status == "optimal"
    assert result.objective == pytest.approx(value)


@pytest.mark.parametrize("slot_s", [None, 4.0])
@pytest.mark.parametrize("seed", range(3))
def test_hosts_are_filled_for_the_optimum_and_for_nothing_less(
    seed: int, slot_s: float | None
) -> None:
    """The least makespan by enumeration is a guess that all keep; a shorter one leaves some."""
    instance = drawn(seed, 4, 1).replace(slot_s=slot_s)
    best = min(max(ends) for ends in best_ends(instance))
    filling = Filling(moldable_data(instance, "makespan"), Settings(30.0, seed, 1, gap=0.0))
    plan = filling.run(best * (1 + 1e-9), 3)
    assert plan is not None
    assert plan.completion.max() == pytest.approx(best)
    assert filling.run(best * (1 - 1e-3), 3) is None
    assert filling.left >= 1


@pytest.mark.long
def test_an_interrupt_loses_no_schedule_that_filled_hosts_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance = generated("12 on 2", num_jobs=12, num_hosts=2, seed=21)
    reached: list[float] = []
    run = Filling.run

    def once(self: Filling, guess: float, patience: int) -> Plan | None:
        if reached:
            raise KeyboardInterrupt
        plan = run(self, 3800.0, 10 * patience)
        assert plan is not None
        reached.append(float(plan.completion.max()))
        return plan

    monkeypatch.setattr(Filling, "run", once)
    # On a busy machine, a second of wall time is too short for a packing that fits.
    monkeypatch.setattr("alloc.solving.moldable.filling._STEP_S", 30.0)
    # Of hosts that are units alone, this one would be listed and proved before.
    monkeypatch.setattr("alloc.solving.moldable.method.host_classes", lambda data: None)
    result = alloc.solve(instance, "moldable", limits=alloc.Limits(seconds=600.0))
    assert result.certificate.limit == "interrupt"
    assert result.objective is not None
    assert result.objective <= reached[0] <= 3800.0


def test_what_is_worth_most_runs_where_not_all_can() -> None:
    """Three jobs of two GPUs for 10 s on four GPUs by 10 s: the two that are worth more."""
    jobs = tuple(gang(f"j{n}", (speed(2, 1.0),), 10.0, deadline_s=10.0) for n in range(3))
    data = moldable_data(Instance("some", boxes(1), jobs), "makespan")
    builder = Builder(data, free=range(3), worth={0: 5, 1: 3, 2: 4})
    raw = cpsat.solve(builder.filling(), SolverOptions(5.0, 0, 1, 0.0))
    assert raw.objective == 9
    assert raw.values is not None
    plan = builder.plan_of_values(raw.values)
    assert np.isfinite(plan.start).tolist() == [True, False, True]
    assert np.isnan(builder.hint(plan)[1])


def test_a_tenant_that_is_called_like_a_host_keeps_its_quota_to_itself() -> None:
    tenants = (alloc.Tenant("host-0", 4000),)
    jobs = (gang("a", (speed(2, 1.0),), 10.0, tenant="host-0"),)
    data = moldable_data(Instance("named", boxes(1), jobs, tenants=tenants), "makespan")
    own, shared = data.rows_of_hosts
    assert [data.rows[row] for row in shared] == ["quota of host-0"]
    assert sorted(own["host-0"] | shared) == [0, 1]


def test_arrays_take_the_schedule_of_a_list_and_give_it_back() -> None:
    instance = drawn(3, 5).replace(slot_s=10.0)
    data = moldable_data(instance, "weighted_jct")
    plan = by_ways(data, range(5), [-1, 0, 1, 2, -1])
    built = FAMILIES["moldable"].build("arrays", instance, "weighted_jct")
    assert isinstance(built.model, ArrayModel)
    assert built.start is not None
    values = built.start(plan.schedule(data))
    assert values is not None
    model = built.model
    rows = model.matrix @ values
    assert (rows <= model.row_upper + 1e-9).all()
    assert (rows >= model.row_lower - 1e-9).all()
    value = float(model.cost @ values) + model.offset
    assert value == pytest.approx(data.target.value(plan.completion))
    again = built.extract(values)
    assert data.target.value(plan.completion) >= alloc.objectives.objective(
        "weighted_jct"
    ).evaluate(instance, again) * (1 - 1e-9)


def test_cpsat_in_slots_is_held_against_the_arrays() -> None:
    instance = drawn(3, 3).replace(slot_s=20.0)
    proof = alloc.solve(instance, "moldable", "cpsat").certificate.bound_proof
    assert proof in ("recomputed", "confirmed")


@pytest.mark.long
def test_arrays_are_refused_in_continuous_time_and_where_memory_ends() -> None:
    with pytest.raises(UnsupportedFeatureError, match="set slot_s"):
        alloc.solve(drawn(1, 2), "moldable", "highs")
    fine = drawn(1, 6).replace(slot_s=1e-3)
    with pytest.raises(UnsupportedFeatureError, match="longer slot_s"):
        alloc.solve(fine, "moldable", "highs")
    assert alloc.solve(fine, "moldable", "cpsat", limits=alloc.Limits(seconds=1.0)).solution


def test_saturn_refuses_what_its_program_does_not_know() -> None:
    wide = gang("wide", (rigid_gang(2),), 10.0)
    with pytest.raises(UnsupportedFeatureError, match="GPUs of one host"):
        alloc.solve(Instance("wide", boxes(2), (wide,)), "saturn-spase", "pyomo")
    with pytest.raises(UnsupportedFeatureError, match="has slots"):
        alloc.solve(drawn(1, 2).replace(slot_s=1.0), "saturn-spase", "pyomo")


def test_the_family_is_found_by_name() -> None:
    assert FAMILIES["moldable"].code == "F3"
