"""Large admissions against enumeration: plans, their columns, bounds, and parts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from alloc.backends.linear_program import LinearProgram
from alloc.models.admission import admission_data
from alloc.models.admission.arrays import array_model
from alloc.models.admission.plans import PlanProblem
from alloc.problems.allocation.instance import Instance
from alloc.result import Limits
from alloc.solving import solve
from alloc.solving.admission import method
from alloc.solving.admission.diving import Dive
from alloc.solving.admission.insertion import Insertion
from alloc.solving.admission.parts import Parts, columns_apply, parts_of
from alloc.solving.admission.plan_columns import PlanColumns
from alloc.solving.outcome import Settings
from alloc.topology import Host, HostType, Topology
from alloc.units import MILLI
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup
from benchmarks.admission import queue_of_tables
from benchmarks.tiny.admission import outcomes

HOUR = 3600.0


def plan_problem(rng: Random, apart: bool) -> tuple[PlanProblem, np.ndarray]:
    """Return what a job asks, tables of any shape, and prices, some of them 0."""
    slots, sizes = rng.randint(1, 5), rng.randint(1, 3)
    usable = np.ones(slots)
    usable[-1] = rng.choice((1.0, 0.3))
    rate = np.array([rng.uniform(0.2, 3.0) for _ in range(sizes)])
    most = float((rate.max() * usable).sum())
    price = np.array([[rng.choice((0.0, rng.uniform(0, 2))) for _ in rate] for _ in usable])
    return PlanProblem(rate, usable, most * rng.uniform(0.05, 0.99), apart), price


def cheapest_of_all(problem: PlanProblem, price: np.ndarray) -> float:
    """Return the least price of all plans that do the work, infinite where none does."""
    slots, best = len(problem.usable), math.inf
    for choice in itertools.product(range(-1, len(problem.rate)), repeat=slots):
        plan = [(t, c) for t, c in enumerate(choice) if c >= 0]
        if problem.apart and len({c for _, c in plan}) > 1:
            continue
        if problem.is_done_by(plan):
            best = min(best, sum(float(price[t, c]) for t, c in plan))
    return best


@pytest.mark.parametrize("apart", [False, True])
def test_no_plan_costs_less_than_the_program_says_and_its_plan_does_the_work(apart: bool) -> None:
    """On any number of steps a bound; on many, the price of the cheapest plan."""
    for seed in range(40):
        problem, price = plan_problem(Random(seed), apart)
        truth = cheapest_of_all(problem, price)
        for steps in (3, 20, 5000):
            found = problem.cheapest(price, steps)
            assert found.least <= truth + 1e-9
            assert found.least == problem.cheapest(price, steps, plan=False).least
            if found.plan is not None:
                assert problem.is_done_by(found.plan)
                assert sum(price[t, c] for t, c in found.plan) >= truth - 1e-9
        if math.isfinite(truth):
            assert found.least == pytest.approx(truth, abs=1e-9), seed
            assert found.plan is not None


@pytest.mark.parametrize("apart", [False, True])
def test_plans_below_a_limit_and_beside_slots_that_are_taken(apart: bool) -> None:
    """What is left out costs the limit or more; a price without end is never paid."""
    asked = 0
    for seed in range(40):
        rng = Random(seed)
        problem, price = plan_problem(rng, apart)
        price[np.array([[rng.random() < 0.25 for _ in row] for row in price])] = math.inf
        truth = cheapest_of_all(problem, price)
        for below in (0.7, 1.0001, 1.5):
            limit = below * truth if truth > 0 and math.isfinite(truth) else below
            for steps in (0, 20, 5000):
                found = problem.cheapest(price, steps, below=limit)
                assert found.least <= truth + 1e-9
                if found.plan is not None:
                    asked += 1
                    assert problem.is_done_by(found.plan)
                    assert truth - 1e-9 <= sum(price[t, c] for t, c in found.plan) < math.inf
            # On the most steps the answer is the truth, as far as it was asked for.
            assert found.least == pytest.approx(min(truth, limit), abs=1e-9), seed
            assert found.plan is not None or truth >= limit
    assert asked > 100


def queue(rng: Random, *, promised: bool) -> Instance:
    """Return a few jobs on four GPUs in one or two stretches of time."""
    jobs = []
    for j in range(5):
        begin = rng.choice((0, 1, 5))
        rates = {size: rng.uniform(0.6, 1.1) * size for size in (1, 2, 4)}
        span = rng.randint(1, 3)
        table = tuple(
            Configuration((TaskGroup("worker", k, MILLI),), rate) for k, rate in rates.items()
        )
        jobs.append(
            Job(
                f"j{j}",
                begin * HOUR,
                rng.uniform(0.2, 0.8) * max(rates.values()) * span * HOUR,
                table,
                weight=float(rng.randint(1, 4)),
                deadline_s=(begin + span - rng.choice((0.0, 0.3))) * HOUR,
                elasticity=rng.choice(("malleable", "malleable", "moldable")),
                refusable=j > 0 or not promised,
            )
        )
    topology = Topology("c", (HostType("k", 4, "a100"),), (Host("h", "k"),))
    return Instance("queue", topology, tuple(jobs), slot_s=HOUR)


@pytest.mark.long
@pytest.mark.parametrize("promised", [False, True])
def test_parts_enclose_what_enumeration_finds(promised: bool) -> None:
    """The value is the truth, and the bound, all in all, closer than that of the program."""
    bounds, relaxed = [], []
    for seed in range(12):
        made = queue(Random(seed), promised=promised)
        found = outcomes(made)
        if not found:
            continue
        truth = max(value for value, *_ in found)
        data = admission_data(made, "value")
        assert columns_apply(data)
        search = Parts(data, [], Settings(2.0), math.floor, lambda _: None)
        assert not search.run()
        held = search.held
        schedule = data.schedule(held, sorted({j for j, _, _ in held}))
        assert schedule is not None
        assert verify(made, schedule) == []
        value = sum(job.weight for job in made.jobs if job.id in schedule.runs_of)
        bound = math.fsum(part.bound for part in search.parts)
        assert value == truth <= bound + 1e-6, seed
        bounds.append(bound)
        relaxed.append(LinearProgram(array_model(data)[0]).optimum("the relaxation").value)
    assert len(bounds) >= 6
    assert truth < sum(bounds) < 0.99 * sum(relaxed)


@pytest.mark.long
def test_large_queues_take_this_way_and_end_where_the_program_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the threshold at nothing, the answers are those of the integer program."""
    made = [queue_of_tables(seed, 7, 8, shape=s) for seed in (1, 2) for s in ("steps", "rigid")]
    plain = [solve(each, "admission").certificate for each in made]
    monkeypatch.setattr(method, "_MANY", 0)
    for each, before in zip(made, plain, strict=True):
        result = solve(each, "admission", limits=Limits(seconds=200))
        assert any("that share slots" in line for line in result.log) or before.bound == sum(
            job.weight for job in each.jobs
        )
        assert result.certificate.status == before.status == "optimal"
        assert result.certificate.objective == before.objective


def test_parts_share_no_slot() -> None:
    """Jobs whose windows only touch are in different parts, and each job is in one."""
    made = queue_of_tables(3, 30, 60)
    data = admission_data(made, "value")
    found = parts_of(data)
    jobs = [j for j in range(30) if data.slots(j)]
    assert sorted(j for part in found for j in part) == jobs
    taken: set[int] = set()
    for part in found:
        own = {t for j in part for t in data.slots(j)}
        assert not own & taken
        taken |= own


@pytest.mark.parametrize("step", [Dive, Insertion])
def test_ctrl_c_in_a_part_keeps_what_the_others_have(
    step: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is at least that of the shares, with a bound, and the certificate says why."""
    made = queue_of_tables(4, 12, 12)
    monkeypatch.setattr(method, "_MANY", 0)

    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    # A dive that finds the optimum leaves nothing to let in.
    monkeypatch.setattr(Dive, "run", lambda *_: None)
    monkeypatch.setattr(step, "run", pressed)
    found = solve(made, "admission", limits=Limits(seconds=20)).certificate
    assert found.limit == "interrupt"
    assert found.objective is not None
    assert 0 < found.objective <= found.bound < sum(job.weight for job in made.jobs)


def test_a_round_that_is_broken_off_leaves_the_answer_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Jobs that have given up their plans in it hold them still."""
    made = queue_of_tables(5, 14, 12)
    data = admission_data(made, "value")
    part = max((PlanColumns(data, own, print) for own in parts_of(data)), key=lambda p: len(p.jobs))
    part.generate(Settings(5.0), math.floor)
    search = Insertion(part, {}, 0)
    search.run(Settings(0.0), math.inf)
    before = search.answer
    assert before

    def pressed(*_: object) -> list[int]:
        raise KeyboardInterrupt

    asked = search._let_in

    def pressed_after_the_first(asking: list[int], first: int | None = None) -> list[int]:
        return asked(asking) if first is None else pressed()

    monkeypatch.setattr(search, "_let_in", pressed_after_the_first)
    with pytest.raises(KeyboardInterrupt):
        search.run(Settings(5.0), math.inf)
    assert len(search.plans) < len(before)
    assert search.answer == before


def test_a_dive_keeps_plans_that_stand_beside_each_other() -> None:
    """Its answer breaks no rule, and no job that is left has a plan in what is free."""
    made = queue_of_tables(5, 14, 12)
    data = admission_data(made, "value")
    part = max((PlanColumns(data, own, print) for own in parts_of(data)), key=lambda p: len(p.jobs))
    part.generate(Settings(60.0), math.floor)
    late = Dive(part)
    late.run(Settings(0.0))
    assert late.plans == {}
    dive = Dive(part)
    dive.run(Settings(60.0))
    held = part.held(dive.plans)
    schedule = data.schedule(held, sorted(dive.plans))
    assert schedule is not None
    assert verify(made, schedule) == []
    assert 0 < part.value(dive.plans) <= part.bound + 1e-6
    left = [i for i, j in enumerate(part.jobs) if j not in dive.plans]
    assert left
    for i in left:
        free = dive.free[dive.start[i] : dive.stop[i]]
        fits = (dive.use[i][None] <= free[:, None] + 1e-6).all(axis=2)
        assert part.problems[i].cheapest(np.where(fits, 1.0, math.inf), 100).plan is None


def test_ctrl_c_in_a_dive_keeps_the_plans_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the first choice, where no other answer is worth as much."""
    made = queue_of_tables(5, 14, 12)
    data = admission_data(made, "value")
    closed: list[int] = []

    def pressed(_: Dive, kept: list[int]) -> None:
        closed.extend(kept)
        raise KeyboardInterrupt

    monkeypatch.setattr(Dive, "_close", pressed)
    search = Parts(data, [], Settings(60.0), math.floor, lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert closed
    assert len({j for j, _, _ in search.held}) == len(closed)


def test_refused_jobs_of_little_worth_beside_large_ones_are_still_tried() -> None:
    """The chance of a job whose plan costs a thousand times its worth rounded to nothing."""
    made = queue(Random(2), promised=False)
    jobs = tuple(job.replace(weight=1.0 if j else 1e5) for j, job in enumerate(made.jobs))
    data = admission_data(made.replace(jobs=jobs), "value")
    for has_plans in (True, False):
        for own in parts_of(data):
            part = PlanColumns(data, own, lambda _: None)
            part.prices = np.full_like(part.prices, 1e4)
            search = Insertion(part, {}, 0)
            if not has_plans:
                search.gain[:] = -math.inf
            search.run(Settings(60.0), math.inf)
            assert search.answer


@pytest.mark.parametrize("late", ["_by_columns", "_improve"])
def test_no_program_is_built_when_the_time_is_up(
    late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large queue that took longer than all before, and its answer is not proved."""
    made = queue_of_tables(4, 12, 12)
    steps: list[str] = []

    def ends(step: str) -> Callable[..., None]:
        return lambda self, *_: steps.append(step)

    monkeypatch.setattr(method, "_MANY", 0)
    for step in ("_by_columns", "_improve", "_by_program"):
        monkeypatch.setattr(method._Search, step, ends(step))
    monkeypatch.setattr(Settings, "time_is_up", lambda self: late in steps)
    found = solve(made, "admission", limits=Limits(seconds=60)).certificate
    assert steps[-1] == late
    assert found.limit == "time"
    assert found.objective is not None
