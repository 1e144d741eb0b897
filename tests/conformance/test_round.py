"""F1 held against brute force: every backend, the dynamic program and the prices say the same.

The brute force below shares no code with the models: it tries every choice of configurations, and
every way to put its tasks on the hosts.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from round_dynamic_program import solve_one_resource
from strategies import instances

from alloc.errors import UnsupportedFeatureError
from alloc.families import FAMILIES
from alloc.models.round import round_data
from alloc.objectives import round_utility
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.solving import solve
from alloc.solving.round import method
from alloc.solving.round.method import optimise_round, price_bound
from alloc.topology.host import Host, HostType
from alloc.topology.topology import Topology
from alloc.units import MILLI, RESOURCES
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang
from benchmarks.tiny.cluster import packs

UTILITIES = FAMILIES["round"].objectives
BACKENDS = ("auto", "highs", "pyomo", "cpsat")
CLOSE = 2e-6
"""Twice the gap at which an answer is called optimal."""

few = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
some = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))

tiny_rounds = instances(
    slotted=True,
    max_arrival_s=0.0,
    max_jobs=4,
    max_configurations=3,
    deadlines=False,
    running=False,
)


def _limits(instance: Instance) -> dict[tuple[str, str], float]:
    """Capacity of the cluster, of each GPU type and of each tenant, by name."""
    limits: dict[tuple[str, str], float] = defaultdict(float)
    for host in instance.topology.hosts:
        kind = instance.topology.host_type(host)
        have = (kind.num_gpus * MILLI, kind.cpu_milli, kind.memory_mib)
        for resource, amount in zip(RESOURCES, have, strict=True):
            limits["all", resource] += amount
            limits[f"type {kind.gpu_type}", resource] += amount
    for tenant in instance.tenants:
        limits["tenant", tenant.name] = tenant.gpu_quota_milli
    return limits


def brute_force(instance: Instance, utility: str) -> float:
    """Try every choice of configurations within the quotas whose gangs stand on the hosts."""
    measure = round_utility(utility)
    limits = _limits(instance)
    quotas = {tenant.name for tenant in instance.tenants}
    options = []
    for job in instance.jobs:
        own: list[tuple[float, dict[tuple[str, str], int], Configuration | None]]
        own = [(0.0, {}, None)]
        for c in job.configurations:
            if c.rate == 0:
                continue
            value = float(measure.of_rates(job, np.array([c.rate]), instance.slot_s)[0])
            need = {("all", r): amount for r, amount in zip(RESOURCES, c.demand, strict=True)}
            if c.gpu_type is not None:
                need |= {(f"type {c.gpu_type}", r): need["all", r] for r in RESOURCES}
            if job.tenant in quotas:
                need["tenant", job.tenant] = c.demand[0]
            own.append((value, need, c))
        options.append(own)
    best = 0.0
    for choice in itertools.product(*options):
        value = sum(v for v, _, _ in choice)
        if value <= best:
            continue
        total: dict[tuple[str, str], float] = defaultdict(float)
        for _, need, _ in choice:
            for key, amount in need.items():
                total[key] += amount
        gangs = [c for _, _, c in choice if c is not None]
        within = all(amount <= limits[key] for key, amount in total.items())
        if within and packs(instance.topology, gangs):
            best = value
    return best


def close(value: float) -> object:
    return pytest.approx(value, rel=CLOSE, abs=1e-7)


def check_backends(instance: Instance, utility: str, backends: tuple[str, ...]) -> None:
    """Hold backends to the brute force: value and bound are the optimum, the answer is clean."""
    optimum = brute_force(instance, utility)
    for backend in backends:
        result = solve(instance, "round", backend, objective=utility)
        certificate = result.certificate
        assert certificate.bound == close(optimum), backend
        assert certificate.bound >= optimum * (1 - 1e-9), backend
        assert certificate.objective <= optimum * (1 + 1e-9) + 1e-9, backend
        assert certificate.verified
        assert verify(instance, result.require_solution()) == []
        placed = {a.job for a in result.solution.assignments}
        assert placed.isdisjoint(result.solution.unplaced)
        assert placed | result.solution.unplaced.keys() == instance.job_index.keys()
        assert certificate.status == "optimal", backend
        assert certificate.objective == close(optimum), backend


@st.composite
def packable(draw: st.DrawFn, *, max_jobs: int = 5, quotas: bool = True) -> Instance:
    """Rounds of one-GPU tasks that need nothing else: any choice within capacity packs."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    kinds = tuple(HostType(f"k{n}", n, "v100", 0, 0) for n in sorted(set(sizes)))
    hosts = tuple(Host(f"h{i}", f"k{n}") for i, n in enumerate(sizes))
    topology = Topology("packable", kinds, hosts)
    rate = st.integers(1, 40).map(lambda k: k / 4)
    tables = [
        tuple(
            rigid_gang(n, rate=draw(rate))
            for n in draw(st.lists(st.integers(1, sum(sizes)), min_size=1, max_size=4, unique=True))
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    tenants: tuple[Tenant, ...] = ()
    if quotas and draw(st.booleans()):
        tenants = (Tenant("red", MILLI * draw(st.integers(0, sum(sizes)))),)
    jobs = tuple(
        Job(
            f"job-{j}",
            0.0,
            draw(st.sampled_from((20.0, 70.0, 300.0))),
            draw(st.sampled_from(tables)),
            weight=draw(st.sampled_from((1.0, 1.0, 0.7, 3.0))),
            tenant=draw(st.sampled_from((None, "red"))) if tenants else None,
        )
        for j in range(draw(st.integers(1, max_jobs)))
    )
    return Instance("packable", topology, jobs, slot_s=10.0, tenants=tenants)


@pytest.mark.long
@few
@given(packable(max_jobs=6), st.sampled_from(UTILITIES), st.data())
def test_weights_a_billion_times_apart_leave_no_bound_below_the_optimum(
    instance: Instance, utility: str, data: st.DataObject
) -> None:
    """Within the rounding of double precision: numpy proves such a bound, no solver's tolerance."""
    exponents = st.integers(-9, 9)
    weights = [10.0 ** data.draw(exponents) for _ in instance.jobs]
    jobs = zip(instance.jobs, weights, strict=True)
    weighted = tuple(dataclasses.replace(job, weight=weight) for job, weight in jobs)
    instance = dataclasses.replace(instance, jobs=weighted)
    optimum = brute_force(instance, utility)
    for backend in ("auto", "highs", "cpsat"):
        certificate = solve(instance, "round", backend, objective=utility).certificate
        assert certificate.bound_proof == "recomputed", backend
        assert optimum * (1 - 1e-12) <= certificate.bound <= optimum * (1 + CLOSE), backend


@pytest.mark.long
@few
@given(tiny_rounds, st.sampled_from(UTILITIES))
def test_every_backend_proves_the_optimum_of_any_round(instance: Instance, utility: str) -> None:
    """Whatever features a round has, no backend may claim less than brute force finds."""
    check_backends(instance, utility, BACKENDS)


@pytest.mark.long
@some
@given(packable(), st.sampled_from(UTILITIES))
def test_auto_and_highs_reach_the_optimum_where_packing_is_exact(
    instance: Instance, utility: str
) -> None:
    """One-GPU tasks always pack, so the answer itself, not only the bound, must be optimal."""
    check_backends(instance, utility, ("auto", "highs"))
    result = solve(instance, "round", objective=utility)
    assert result.certificate.status == "optimal"


@pytest.mark.slow
@many
@given(st.one_of(packable(), tiny_rounds), st.sampled_from(UTILITIES))
def test_auto_proves_the_optimum_of_many_rounds(instance: Instance, utility: str) -> None:
    """The core method cuts columns off; a thousand rounds look for one cut too many."""
    check_backends(instance, utility, ("auto",))


@pytest.mark.slow
@settings(parent=many, max_examples=400)
@given(st.one_of(packable(), tiny_rounds), st.sampled_from(UTILITIES))
def test_all_backends_prove_the_optimum_of_many_rounds(instance: Instance, utility: str) -> None:
    """The same with the general solvers."""
    check_backends(instance, utility, BACKENDS)


def test_a_full_core_may_leave_out_a_job_that_prices_want() -> None:
    """Two jobs of 5 GPUs beat the densest one of 6; the core once held the dense one fixed."""
    topology = Topology("ten", (HostType("k", 10, "v100", 0, 0),), (Host("h", "k"),))
    jobs = tuple(
        Job(f"job-{g}-{n}", 0.0, 1000.0, (rigid_gang(g, rate=rate),))
        for n, (g, rate) in enumerate(((6, 7.0), (5, 5.0), (5, 5.0)))
    )
    instance = Instance("core", topology, jobs, slot_s=10.0)
    for backend in BACKENDS:
        certificate = solve(instance, "round", backend, objective="goodput").certificate
        assert certificate.objective == close(10.0), backend
        assert certificate.status == "optimal"


@pytest.mark.long
@some
@given(packable(max_jobs=5), st.sampled_from(UTILITIES))
def test_the_dynamic_program_agrees_where_one_row_is_scarce(
    instance: Instance, utility: str
) -> None:
    """An exact method of another kind for one resource, in exact integer units of capacity."""
    data = round_data(instance, utility)
    try:
        value, x = solve_one_resource(data)
    except UnsupportedFeatureError:
        assert instance.tenants, "without quotas only the GPUs can be scarce"
        return
    assert value == close(brute_force(instance, utility))
    assert (x @ data.use <= data.rows.capacity).all()
    assert value == close(optimise_round(data).value)


@pytest.mark.long
@some
@given(packable(max_jobs=6), st.sampled_from(UTILITIES))
def test_a_round_that_is_proved_has_the_value_of_one_that_is_not(
    instance: Instance, utility: str
) -> None:
    """What is proved takes no solver's branch and bound, nor any where there is room for all."""
    data = round_data(instance, utility)
    searched, looked_at = optimise_round(data), optimise_round(data, prove=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method, "best_of_all", lambda data: None)
        proved = optimise_round(data, prove=True)
    for answer in (looked_at, proved):
        assert answer.value == close(searched.value)
        assert answer.bound == close(searched.value)
        assert (answer.x @ data.use <= data.rows.capacity).all()


@pytest.mark.parametrize("looks_at_all", [True, False])
@pytest.mark.parametrize(("gpus", "value"), [(4, 4.0), (3, 3.0)])
def test_where_there_is_room_for_all_nothing_is_searched(
    gpus: int, value: float, looks_at_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two jobs run best on two GPUs each; with three, one of them makes do with one.

    HiGHS gets columns only where there is no room for all and not every choice is looked at.
    """
    if not looks_at_all:
        monkeypatch.setattr(method, "best_of_all", lambda data: None)
    topology = Topology("few", (HostType("k", gpus, "v100", 0, 0),), (Host("h", "k"),))
    ways = (rigid_gang(1, rate=1.0), rigid_gang(2, rate=2.0))
    jobs = tuple(Job(f"job-{n}", 0.0, 1000.0 + n, ways) for n in range(2))
    data = round_data(Instance("few", topology, jobs, slot_s=1.0), "goodput")
    answer = optimise_round(data, prove=True)
    assert answer.value == answer.bound == close(value)
    assert answer.proof == "recomputed"
    assert (answer.core > 0) == (gpus < 4 and not looks_at_all)
    assert (answer.price_bound > value + 0.5) == (gpus < 4)


def test_the_dynamic_program_refuses_two_scarce_rows_by_name() -> None:
    """It would be wrong with two; the sentence names them and the cure."""
    topology = Topology("two", (HostType("k", 2, "v100", 2000, 0),), (Host("h", "k"),))
    gang = rigid_gang(2, cpu_milli_per_gpu=1000)
    jobs = tuple(Job(f"job-{j}", 0.0, 10.0, (gang,)) for j in range(2))
    instance = Instance("two", topology, jobs, slot_s=10.0)
    with pytest.raises(UnsupportedFeatureError, match=r"here are 2 \(gpu_milli, cpu_milli\)"):
        solve_one_resource(round_data(instance, "progress"))


@pytest.mark.long
@some
@given(tiny_rounds, st.sampled_from(UTILITIES), st.data())
def test_any_prices_prove_a_bound(instance: Instance, utility: str, data: st.DataObject) -> None:
    """Weak duality: the bound must hold at any prices, or the certificate's proof is worthless."""
    rounds = round_data(instance, utility)
    optimum = brute_force(instance, utility)
    price = st.one_of(st.just(0.0), st.floats(1e-6, 10.0), st.floats(1e-3, 1e3))
    for _ in range(5):
        drawn = np.array([data.draw(price) for _ in rounds.rows.names])
        # In units of capacity, so that prices matter.
        prices = drawn / np.maximum(rounds.rows.capacity, 1.0)
        assert price_bound(rounds, prices) >= optimum * (1 - 1e-9)
    answer = optimise_round(rounds)
    assert price_bound(rounds, answer.prices) == pytest.approx(answer.price_bound)
    assert answer.price_bound >= answer.bound * (1 - 1e-9) >= optimum * (1 - 2e-9)


def _optimum(instance: Instance, utility: str) -> float:
    certificate = solve(instance, "round", objective=utility).certificate
    assert certificate.status == "optimal"
    return certificate.objective


@pytest.mark.long
@some
@given(packable(), st.sampled_from(UTILITIES), st.randoms(use_true_random=False))
def test_the_order_of_jobs_does_not_matter(instance: Instance, utility: str, random) -> None:
    """Classes are made in order of appearance; the optimum must not know."""
    jobs = list(instance.jobs)
    random.shuffle(jobs)
    other = instance.replace(jobs=tuple(jobs))
    assert _optimum(other, utility) == close(_optimum(instance, utility))


@pytest.mark.long
@some
@given(packable(), st.sampled_from(UTILITIES))
def test_another_host_never_worsens(instance: Instance, utility: str) -> None:
    """More capacity leaves every choice open."""
    topology = instance.topology
    hosts = (*topology.hosts, Host("extra", topology.hosts[0].type))
    larger = instance.replace(topology=Topology("larger", topology.host_types, hosts))
    assert _optimum(larger, utility) >= _optimum(instance, utility) * (1 - CLOSE)


@pytest.mark.long
@some
@given(packable(), st.sampled_from(UTILITIES), st.sampled_from((0.001, 0.5, 3.0, 1e4)))
def test_weights_scale_the_optimum(instance: Instance, utility: str, factor: float) -> None:
    """Utilities are linear in weights, and no tolerance may depend on their unit."""
    jobs = tuple(job.replace(weight=factor * job.weight) for job in instance.jobs)
    scaled = _optimum(instance.replace(jobs=jobs), utility)
    assert scaled == pytest.approx(factor * _optimum(instance, utility), rel=2 * CLOSE)


@pytest.mark.long
@some
@given(packable(quotas=False), st.sampled_from(UTILITIES))
def test_doubling_demands_and_capacity_together_changes_nothing(
    instance: Instance, utility: str
) -> None:
    """Only the ratio of demand to capacity counts."""
    kinds = tuple(
        HostType(k.name, 2 * k.num_gpus, "v100", 0, 0) for k in instance.topology.host_types
    )
    doubled = {
        id(job.configurations): tuple(
            Configuration((TaskGroup("worker", 2 * c.num_tasks("worker"), MILLI),), c.rate)
            for c in job.configurations
        )
        for job in instance.jobs
    }
    jobs = tuple(
        job.replace(configurations=doubled[id(job.configurations)]) for job in instance.jobs
    )
    twice = instance.replace(topology=Topology("twice", kinds, instance.topology.hosts), jobs=jobs)
    assert _optimum(twice, utility) == close(_optimum(instance, utility))


@pytest.mark.long
@some
@given(tiny_rounds, st.sampled_from(UTILITIES))
def test_merging_equal_jobs_changes_nothing(instance: Instance, utility: str) -> None:
    """Jobs that share a tuple become one class; with copies of the tuple each is its own."""
    copies = tuple(
        job.replace(configurations=tuple(list(job.configurations))) for job in instance.jobs
    )
    apart = round_data(instance.replace(jobs=copies), utility)
    merged = round_data(instance, utility)
    assert apart.num_classes == len(instance.jobs) >= merged.num_classes
    assert merged.count.sum() == apart.count.sum() == len(instance.jobs)
    assert optimise_round(apart).value == close(optimise_round(merged).value)


@pytest.mark.long
@some
@given(tiny_rounds, st.sampled_from(UTILITIES))
def test_columns_are_a_pareto_front(instance: Instance, utility: str) -> None:
    """Left out is only what some kept column beats; brute force above takes them all."""
    data = round_data(instance, utility)
    for k, members in enumerate(data.members):
        kept = set(data.configuration[data.first[k] : data.first[k + 1]].tolist())
        job = data.jobs[members[0]]
        owner = job.tenant if job.tenant in {t.name for t in instance.tenants} else None
        use = data.rows.use(job.configurations, owner)
        for c, configuration in enumerate(job.configurations):
            fits = (use[c] <= data.rows.capacity).all()
            if c in kept or configuration.rate == 0 or not fits:
                continue
            assert any(
                (use[d] <= use[c]).all() and job.configurations[d].rate >= configuration.rate
                for d in kept
            )


@pytest.mark.long
@some
@given(packable(), st.sampled_from(UTILITIES))
def test_a_solution_goes_back_into_the_model(instance: Instance, utility: str) -> None:
    """Warm starts depend on it: values of an allocation are worth what the checker says."""
    result = solve(instance, "round", objective=utility)
    data = round_data(instance, utility)
    x = data.values(result.require_solution())
    assert math.isclose(float(data.utility @ x), result.certificate.objective, rel_tol=1e-9)
    again = solve(
        instance, "round", "highs", objective=utility, warm_start=result.solution
    ).certificate
    assert again.objective >= result.certificate.objective * (1 - CLOSE)
