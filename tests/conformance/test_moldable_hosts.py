"""Moldable gangs host by host: bounds of sequences, all sets of a host, and their best choice."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import alloc
from alloc import Configuration, HostType, Instance, Job, TaskGroup
from alloc.formulation import ProvedInfeasible
from alloc.instances.recipes.gangs import moldable as generated
from alloc.models.moldable.data import MoldableData, moldable_data
from alloc.models.moldable.host_classes import host_classes, modes_of
from alloc.models.moldable.sequences import TimePrices, UnitSequences
from alloc.models.moldable.serial import Plan, by_ways
from alloc.solving.moldable.covers import Covers
from alloc.solving.moldable.exact import Exact
from alloc.solving.moldable.exchanges import Exchanges
from alloc.solving.moldable.host_sets import HostSets, Wanted
from alloc.solving.moldable.lists import value_of
from alloc.solving.moldable.packing import Packing
from alloc.solving.moldable.sequence_master import SequenceMaster
from alloc.solving.outcome import Settings
from alloc.topology import Host, flat_cluster
from benchmarks.tiny.moldable import MOLDABLE, _value, best_ends

OBJECTIVES = ("makespan", "max_slowdown", "weighted_jct", "tardiness")


def speed(gpus: int, rate: float) -> Configuration:
    return Configuration((TaskGroup("worker", gpus, 1000),), rate, within="host")


def rigid(name: str, seconds: float, gpus: int = 1) -> Job:
    return Job(name, 0.0, seconds, (speed(gpus, 1.0),), elasticity="rigid", preemptible=False)


def cluster(hosts: int, gpus: int) -> alloc.Topology:
    return flat_cluster("boxes", HostType("box", gpus, "gpu"), hosts)


def some_list(data: MoldableData, rng: np.random.Generator) -> Plan | None:
    """Return the schedule of a random list that keeps what must be kept, or None."""
    for _ in range(20):
        ways = [int(rng.integers(-1, len(own))) for own in data.ways]
        plan = by_ways(data, rng.permutation(data.num_jobs).tolist(), ways)
        if math.isfinite(value_of(data, plan)):
            return plan
    return None


def proved_by_sequences(data: MoldableData, high: float, *, of_hosts: bool) -> float:
    modes = modes_of(data, host_classes(data) if of_hosts else None)
    peak = data.target.level.peaks[0]
    low = float(peak.at(data.earliest_end).max())
    return SequenceMaster(modes, Settings(60.0)).least_peak(peak, low, max(low, high))


def test_run_times_that_do_not_add_up_are_known() -> None:
    """Of 0.4 of the time there is, two fit one after the other: the area says 28 / 3 seconds."""
    jobs = tuple(rigid(f"j{n}", 4.0) for n in range(7))
    data = moldable_data(Instance("fours", cluster(1, 3), jobs), "makespan")
    for of_hosts in (False, True):
        assert proved_by_sequences(data, 20.0, of_hosts=of_hosts) == pytest.approx(12.0, rel=1e-4)


def test_releases_are_kept_by_sequences() -> None:
    """One GPU: 5 s from the start, and two of 4 s from second 3 on, one of which must wait."""
    jobs = (
        rigid("a", 5.0),
        rigid("b", 4.0).replace(arrival_s=3.0),
        rigid("c", 4.0).replace(arrival_s=6.0),
    )
    data = moldable_data(Instance("late", cluster(1, 1), jobs), "makespan")
    assert proved_by_sequences(data, 30.0, of_hosts=True) == pytest.approx(13.0, rel=1e-4)


@pytest.mark.parametrize("seed", range(30))
def test_no_bound_of_sequences_is_above_enumeration(seed: int) -> None:
    instance, _ = MOLDABLE.problem(seed)
    every = best_ends(instance)
    for objective in OBJECTIVES[:2] if every else ():
        try:
            data = moldable_data(instance, objective)
        except ProvedInfeasible:
            continue
        best = min(_value(instance, objective, ends) for ends in every)
        for of_hosts in (False, True):
            bound = proved_by_sequences(data, 3 * best, of_hosts=of_hosts)
            assert bound <= best * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_listed_agrees_with_enumeration(seed: int) -> None:
    """From the schedule of a random list: the optimum is found, and it is proved."""
    instance, _ = MOLDABLE.problem(seed)
    every, rng = best_ends(instance), np.random.default_rng(seed)
    for objective in OBJECTIVES if every else ():
        if objective == "tardiness" and all(j.due_date_s is None for j in instance.jobs):
            continue
        data = moldable_data(instance, objective)
        classes, plan = host_classes(data), some_list(data, rng)
        if classes is None or plan is None or value_of(data, plan) <= 0:
            continue
        value, level = value_of(data, plan), data.target.level
        best = min(_value(instance, objective, ends) for ends in every)
        exact = Exact(data, classes, Settings(60.0), lambda line: None)
        if level.is_peak:
            low = float(level.peaks[0].at(data.earliest_end).max())
            bound, found = exact.of_peak(level.peaks[0], value, low)
        else:
            last = max(float(plan.completion.max()), float(data.release.max())) * 1.25
            bound, found = exact.of_costs(value, exact.prices(value, last))
        reached = value if found is None else min(value, value_of(data, found))
        assert reached == pytest.approx(best, rel=1e-6)
        assert best * (1 - 1e-6) <= bound <= best * (1 + 1e-9)


def two_hosts(rng: np.random.Generator, gpus: tuple[int, int]) -> Instance:
    """Return four gangs, some of which arrive later, for two hosts."""
    kinds = tuple(HostType(f"box-{n}", n, "gpu") for n in sorted(set(gpus)))
    hosts = tuple(Host(f"host-{h}", f"box-{n}") for h, n in enumerate(gpus))
    jobs = []
    for j in range(4):
        ways = (speed(1, 1.0), speed(2, float(rng.uniform(1.2, 1.9))))
        job = Job(f"j{j}", 0.0, float(rng.integers(20, 99)), ways, elasticity="moldable")
        jobs.append(job.replace(preemptible=False, arrival_s=float(rng.choice([0, 0, 15]))))
    return Instance("two", alloc.Topology("two", kinds, hosts), tuple(jobs))


@pytest.mark.parametrize("gpus", [(2, 2), (2, 3)])
@pytest.mark.parametrize("seed", range(8))
def test_what_two_hosts_run_agrees_with_enumeration(seed: int, gpus: tuple[int, int]) -> None:
    """Sets within half of the excess, and what they leave to the other host, are all there is."""
    rng = np.random.default_rng(seed)
    instance = two_hosts(rng, gpus)
    every = best_ends(instance)
    for objective in ("makespan", "max_slowdown"):
        data = moldable_data(instance, objective)
        classes, plan = host_classes(data), some_list(data, rng)
        assert classes is not None
        assert plan is not None
        assert sum(len(own.hosts) for own in classes) == 2
        best = min(_value(instance, objective, ends) for ends in every)
        peak, value = data.target.level.peaks[0], value_of(data, plan)
        low = float(peak.at(data.earliest_end).max())
        exact = Exact(data, classes, Settings(60.0), lambda line: None)
        bound, found = exact.of_peak(peak, value, low)
        reached = value if found is None else value_of(data, found)
        assert min(reached, value) == pytest.approx(best, rel=1e-6)
        assert best * (1 - 1e-6) <= bound <= best * (1 + 1e-9)
        if found is not None:
            assert alloc.verify(instance, found.schedule(data)) == []


def test_a_part_of_a_set_that_is_asked_for_has_its_room() -> None:
    wanted = Wanted(np.array([0b011, 0b110]), np.array([1.0, 2.0]))
    room = wanted.room(np.array([0b001, 0b010, 0b100, 0b101, 0b111, 0]))
    assert room.tolist() == [1.0, 2.0, 2.0, -math.inf, -math.inf, 2.0]


def test_jobs_that_take_no_whole_cell_of_time_prove_nothing_false() -> None:
    """Found by enumeration: what such a job is worth was taken from the time there is."""
    jobs = (rigid("long", 1e6), *(rigid(f"short-{n}", 1e-3) for n in range(3)))
    data = moldable_data(Instance("far", cluster(1, 1), jobs), "max_slowdown")
    best = min(_value(data.instance, "max_slowdown", e) for e in best_ends(data.instance))
    assert proved_by_sequences(data, 1e9, of_hosts=True) <= best * (1 + 1e-9)


def test_a_way_that_takes_far_too_long_for_any_deadline_is_in_no_sequence() -> None:
    """Its cells of time were more than an integer holds, and numpy warned of the cast."""
    ways = (speed(1, 1e-21), speed(2, 1.0))
    jobs = tuple(
        Job(f"j{n}", 0.0, 1e-9 * (n + 1), ways, elasticity="moldable", preemptible=False)
        for n in range(4)
    )
    data = moldable_data(Instance("far", cluster(1, 2), jobs), "makespan")
    assert proved_by_sequences(data, 1e-7, of_hosts=True) == pytest.approx(1e-8, rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("slot_s", [None, 60.0])
def test_prices_of_time_do_not_depend_on_when_the_first_job_arrives(slot_s: float | None) -> None:
    """The grid began at 0, and of a million seconds hardly a moment was where jobs run."""
    instance = generated("late", num_jobs=12, num_hosts=2, seed=21).replace(slot_s=slot_s)
    bounds = []
    for begin_s in (0.0, 6e6):
        late = tuple(job.replace(arrival_s=job.arrival_s + begin_s) for job in instance.jobs)
        data = moldable_data(instance.replace(jobs=late), "weighted_jct")
        classes, plan = host_classes(data), by_ways(data, range(12), [-1] * 12)
        assert classes is not None
        exact = Exact(data, classes, Settings(60.0), lambda line: None)
        end_s = begin_s + 1.25 * (float(plan.completion.max()) - begin_s)
        prices = exact.prices(value_of(data, plan), end_s)
        bounds.append(math.fsum(prices.least) - prices.offered(modes_of(data, classes).total))
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-2)


def test_worths_of_any_kind_prove_no_deadline_missed_that_is_kept() -> None:
    rng = np.random.default_rng(0)
    for seed in range(6):
        instance = generated("some", num_jobs=7, num_hosts=2, seed=seed, span_s=900)
        data = moldable_data(instance, "makespan")
        plan = by_ways(data, range(7), [-1] * 7)
        modes = modes_of(data, host_classes(data))
        sequences = UnitSequences(modes, np.full(7, plan.completion.max()))
        for _ in range(10):
            prices = sequences.prices(rng.exponential(1.0, modes.amount.shape))
            assert prices.least.sum() <= prices.offered(modes.total) * (1 + 1e-9)


def test_hosts_are_in_classes_only_where_units_of_one_host_run_short() -> None:
    jobs = tuple(rigid(f"j{n}", 10.0, 2) for n in range(4))
    instance = Instance("plain", cluster(2, 4), jobs)
    found = host_classes(moldable_data(instance, "makespan"))
    assert found is not None
    # Of GPUs, all are taken in twos.
    assert [(own.hosts, own.units, own.amount.tolist()) for own in found] == [((0, 1), 2, [1] * 4)]
    owned = instance.replace(
        tenants=(alloc.Tenant("red", 2000),), jobs=tuple(j.replace(tenant="red") for j in jobs)
    )
    assert host_classes(moldable_data(owned, "makespan")) is None
    wide = Configuration((TaskGroup("worker", 6, 1000),), 1.0)
    over = instance.replace(jobs=(*jobs, jobs[0].replace(id="wide", configurations=(wide,))))
    assert host_classes(moldable_data(over, "makespan")) is None


@pytest.mark.parametrize("is_peak", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_the_best_choice_of_sets_agrees_with_all_choices(seed: int, is_peak: bool) -> None:
    """Excess as in the dynamic program: costs less the least of the jobs, and the time of all."""
    rng = np.random.default_rng(seed)
    number, hosts = 5, ([2], [3], [1, 1], [2, 1])[seed % 4]
    least, sets, empty = rng.integers(1, 9, number), [], []
    for _ in hosts:
        jobs = np.sort(rng.permutation(np.arange(1, 2**number))[:20])
        cost = rng.integers(1, 30, len(jobs)).astype(float)
        above = -((jobs[:, None] >> np.arange(number)) & 1) @ least + (0.0 if is_peak else cost)
        empty.append(max(-float(above.min()), 0.0))
        sets.append(HostSets(jobs, cost, above + empty[-1], lambda k: []))
    limit = 0.6 * sum(n * own for n, own in zip(hosts, empty, strict=True)) + 5.0
    slots = [c for c, n in enumerate(hosts) for _ in range(n)]
    best = math.inf
    for choice in itertools.product(*(range(-1, len(sets[c].jobs)) for c in slots)):
        taken = [(sets[c], k) for c, k in zip(slots, choice, strict=True) if k >= 0]
        idle = [empty[c] for c, k in zip(slots, choice, strict=True) if k < 0]
        jobs_of = [int(own.jobs[k]) for own, k in taken]
        if sum(jobs_of) != 2**number - 1 or np.bitwise_or.reduce(jobs_of) != 2**number - 1:
            continue
        if sum(idle) + sum(float(own.excess[k]) for own, k in taken) <= limit:
            costs = [float(own.cost[k]) for own, k in taken]
            best = min(best, max(costs) if is_peak else sum(costs))
    found = Covers(sets, hosts, empty, number, is_peak).best(limit, lambda: False, 10.0)
    assert (found.value, found.least) == (best, limit)


@pytest.mark.long
def test_twelve_gangs_on_two_hosts_are_proved_in_numpy() -> None:
    instance = generated("12 on 2", num_jobs=12, num_hosts=2, seed=21)
    for objective, least in (("makespan", 3786.0), ("weighted_jct", 47374.0)):
        limits = alloc.Limits(seconds=60.0)
        result = alloc.solve(instance, "moldable", objective=objective, limits=limits)
        assert (result.status, result.objective) == ("optimal", least)
        assert result.certificate.bound_proof == "recomputed"


@pytest.mark.long
def test_an_exchange_of_hosts_is_a_schedule_and_never_worse() -> None:
    for objective in ("makespan", "weighted_jct"):
        instance = generated("12 on 3", num_jobs=12, num_hosts=3, seed=4, gpu_types=2, span_s=900)
        data = moldable_data(instance, objective)
        classes = host_classes(data)
        assert classes is not None
        plan = by_ways(data, range(12), [-1] * 12)
        value, taken = value_of(data, plan), list[Plan]()
        exact = Exact(data, classes, Settings(30.0), lambda line: None)
        prices = None
        if objective != "makespan":
            prices = exact.prices(value, 1.25 * float(plan.completion.max()))
        around = Exchanges(data, classes, plan, prices, Settings(30.0), taken.append)
        around.run(lambda reached: False)
        assert taken
        assert value_of(data, taken[-1]) < value
        for own in taken:
            assert alloc.verify(instance, own.schedule(data)) == []


@pytest.mark.long
def test_an_interrupt_loses_no_schedule_of_packed_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = generated("24 on 4", num_jobs=24, num_hosts=4, seed=22)
    packed: list[float] = []
    plan = Packing.plan

    def once(self: Packing, guess: float, prices: TimePrices | None) -> Plan | None:
        if packed:
            raise KeyboardInterrupt
        found = plan(self, guess, prices)
        assert found is not None
        packed.append(float(found.completion.max()))
        return found

    monkeypatch.setattr(Packing, "plan", once)
    result = alloc.solve(instance, "moldable", limits=alloc.Limits(seconds=30.0))
    assert result.certificate.limit == "interrupt"
    assert result.objective is not None
    assert result.objective <= packed[0]


def test_hosts_that_are_packed_again_exchange_and_an_interrupt_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a first packing and without listing, all packings are those that come again."""
    instance = generated("24 on 4", num_jobs=24, num_hosts=4, seed=22)
    packed: list[float] = []
    plan = Packing.plan

    def at_most_five(self: Packing, guess: float, prices: TimePrices | None) -> Plan | None:
        if len(packed) == 5:
            raise KeyboardInterrupt
        found = plan(self, guess, prices)
        assert found is not None
        packed.append(float(found.completion.max()))
        return found

    monkeypatch.setattr(Packing, "plan", at_most_five)
    monkeypatch.setattr(Exchanges, "run", lambda self, is_good: None)
    for name, value in (("_FAILURES", 0), ("MAX_JOBS", 0), ("_PATIENCE", 20)):
        monkeypatch.setattr(f"alloc.solving.moldable.method.{name}", value)
    result = alloc.solve(instance, "moldable", limits=alloc.Limits(seconds=600.0))
    assert result.certificate.limit == "interrupt"
    assert len(packed) == 5
    assert result.objective is not None
    assert result.objective <= min(packed)
