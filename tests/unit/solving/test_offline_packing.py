"""Offline packing: bounds worked out by hand, allocations against brute force, proofs in numpy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from alloc.errors import CertificateError, UnsupportedFeatureError
from alloc.models.offline_packing.data import PackingData
from alloc.models.offline_packing.gpu_patterns import (
    Prices,
    best_gpu,
    first_patterns,
    pattern_entries,
    proved_bound,
    relaxation,
)
from alloc.models.offline_packing.host_patterns import pricing
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.result import Limits
from alloc.solving.outcome import Settings
from alloc.solving.sharing import offline_packing
from alloc.solving.sharing.host_contents import contents_of, pack_shares
from alloc.solving.sharing.offline_packing import bound_gpus, pack_offline
from alloc.topology import HostType, Topology, flat_cluster
from alloc.verification import verify
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

TWO = HostType("two", 2, "V100", 8_000, 0)


def pods(*sizes: tuple[int, int]) -> tuple[Job, ...]:
    """Return jobs of one task with (milli-GPU, milli-cores)."""
    return tuple(
        Job(
            f"j{k}",
            0.0,
            1.0,
            (Configuration((TaskGroup("pod", 1, gpu, cpu),), 1.0),),
            elasticity="rigid",
        )
        for k, (gpu, cpu) in enumerate(sizes)
    )


def of(num_hosts: int, *sizes: tuple[int, int], kind: HostType = TWO) -> Instance:
    """Return an instance on equal hosts."""
    return Instance("packing", flat_cluster("hosts", kind, num_hosts), pods(*sizes))


def test_shares_above_a_half_need_a_gpu_each() -> None:
    """Three tasks of 810 on two GPUs: shares added up, 2.43 > 2 GPUs would be the bound, 2.0; two
    of them fit, 1.62, and the bound over GPU patterns says so exactly."""
    result = pack_offline(of(1, *[(810, 0)] * 3), limits=Limits(5))
    certificate = result.certificate
    assert certificate.objective == pytest.approx(1.62)
    assert certificate.bound == pytest.approx(1.62)
    assert certificate.status == "optimal"
    assert certificate.verified
    assert certificate.bound_proof == "recomputed"


def test_gpus_are_filled_by_the_pattern_that_first_fit_misses() -> None:
    """600 + 400 twice fills two GPUs; by size, 600, 600, 400, 400 does as well, but 500 + 500 with
    700 + 300 needs the pairs: 2 GPUs of 2, proved."""
    result = pack_offline(of(1, (500, 0), (700, 0), (500, 0), (300, 0)), limits=Limits(5))
    assert result.certificate.objective == pytest.approx(2.0)
    assert result.certificate.status == "optimal"


def test_cpu_counts_in_the_bound() -> None:
    """Each task wants a GPU and 6 of a host's 8 cores. Pooled over two hosts 16 cores carry 2.67
    tasks; the most per host, 1, makes the bound 2."""
    result = pack_offline(of(2, *[(1000, 6000)] * 4), limits=Limits(5))
    assert result.certificate.objective == pytest.approx(2.0)
    assert result.certificate.bound == pytest.approx(2.0)


def brute_force(instance: Instance) -> float:
    """Return the most GPUs held, trying every GPU (or none) for every job."""
    topology = instance.topology
    places = [None] + [(h, g) for h in range(topology.num_hosts) for g in range(2)]
    best = 0.0
    for chosen in product(places, repeat=len(instance.jobs)):
        gpu = np.zeros((topology.num_hosts, 2))
        cpu = np.zeros(topology.num_hosts)
        for job, place in zip(instance.jobs, chosen, strict=True):
            if place is not None:
                group = job.configurations[0].tasks[0]
                gpu[place] += group.gpu_milli
                cpu[place[0]] += group.cpu_milli
        if (gpu <= 1000).all() and (cpu <= 8000).all():
            best = max(best, float(gpu.sum()) / 1000)
    return best


@pytest.mark.parametrize("seed", range(6))
def test_brute_force_lies_between_answer_and_bound(seed: int) -> None:
    """On tiny instances: answer <= optimum <= bound, and the answer is the optimum."""
    rng = np.random.default_rng(seed)
    sizes = [
        (int(g), int(c))
        for g, c in zip(
            rng.choice((300, 350, 550, 700, 1000), 6), rng.choice((0, 2000, 4000), 6), strict=True
        )
    ]
    instance = of(2, *sizes)
    best = brute_force(instance)
    certificate = pack_offline(instance, limits=Limits(5)).certificate
    assert certificate.objective == pytest.approx(best)
    assert certificate.bound >= best - 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_any_prices_prove_a_bound(seed: int) -> None:
    """Weak duality holds wherever prices come from: random ones never go below an allocation."""
    rng = np.random.default_rng(seed)
    sizes = [(int(g), 1000) for g in rng.choice((200, 450, 550, 800, 1000, 2000), 9)]
    instance = of(2, *sizes)
    data = PackingData.of(instance)
    held = pack_offline(instance, limits=Limits(5)).certificate.objective
    assert held is not None
    for scale in (0.0, 0.3, 1.0, 3.0):
        prices = Prices(
            scale * rng.random(1) / 4000,
            np.zeros(1),
            scale * rng.random(1),
            scale * rng.random((1, len(data.shares))),
        )
        assert proved_bound(data, prices) >= held - 1e-9


def test_the_best_gpu_is_a_knapsack() -> None:
    """Shares 300 (worth 2), 400 (3) and 500 (4): 400 + 300 + 300 and 500 + 400 are worth 7, two
    of 500 are worth 8."""
    data = PackingData.of(of(1, (300, 0), (400, 0), (500, 0)))
    worth, pattern = best_gpu(data, np.array([2.0, 3.0, 4.0]))
    assert (worth, pattern) == (8.0, (0, 0, 2))


def test_gpu_types_and_jobs_without_gpus() -> None:
    """A job allowed on T4 only cannot use the V100; one without GPUs is placed, and counts for
    nothing."""
    t4 = HostType("t4", 1, "T4", 8_000, 0)
    a, b = flat_cluster("a", TWO, 1), flat_cluster("b", t4, 1)
    hosts = (*a.hosts, b.hosts[0].__class__("t4-host", "t4"))
    topology = Topology("mixed", (TWO, t4), hosts)
    group = TaskGroup("pod", 1, 1000)
    typed = Job("typed", 0.0, 1.0, (Configuration((group,), 1.0, "T4"),), elasticity="rigid")
    bare, more = pods((0, 1000), (1000, 0))
    jobs = (typed, typed.replace(id="typed-2"), bare, more)
    result = pack_offline(Instance("mixed", topology, jobs), limits=Limits(5))
    assert isinstance(result.solution, Allocation)
    assert result.certificate.objective == result.certificate.bound == 2.0
    assert "j0" in {a.job for a in result.solution.assignments}


def test_a_start_is_never_lost() -> None:
    """Given an allocation, the answer holds at least as many GPUs, even without time."""
    instance = of(1, (600, 0), (400, 0), (1000, 0))
    start = Allocation(
        (
            Assignment("j0", 0, (TaskPlacement("host-0", "pod", 1, (0,)),)),
            Assignment("j1", 0, (TaskPlacement("host-0", "pod", 1, (0,)),)),
            Assignment("j2", 0, (TaskPlacement("host-0", "pod", 1),)),
        )
    )
    result = pack_offline(instance, starts=(start,), limits=Limits(1e-9))
    assert result.certificate.objective == pytest.approx(2.0)
    assert contents_of(PackingData.of(instance), start) == [(0, ((0, 1), (1, 1), (2, 1)))]


def test_the_relaxation_has_the_rows_of_its_page() -> None:
    """C1 copies, C2 CPU, C3 memory, C4 GPUs, C5 places: three kinds, one class, two shares."""
    data = PackingData.of(of(3, (300, 100), (700, 100), (1000, 100), (1000, 100)))
    model = relaxation(data)
    entries = [pattern_entries(data, model, 0, pattern) for pattern in first_patterns(data)]
    assert {name: rows.stop - rows.start for name, rows in model.rows.items()} == {
        "C1": 3,
        "C2": 1,
        "C3": 1,
        "C4": 1,
        "C5": 2,
    }
    assert model.matrix.shape == (8, 3)
    assert entries == [([5, 6], [1.0, -3.0]), ([5, 7], [1.0, -1.0])]
    assert data.copies.tolist() == [1, 1, 2]
    knapsack, kinds = pricing(data, 0, np.array([0.3, 0.0, 1.0]), first_patterns(data))
    assert kinds.tolist() == [0, 2]
    assert knapsack.integer.all()


def test_shares_are_packed_exactly() -> None:
    """First-fit decreasing puts 440 on 550's GPU and cannot place the rest; there is a way: 550 +
    340 + 110, 440 + 330 + 230."""
    shares = [550, 440, 340, 330, 230, 110]
    gpus = pack_shares(shares, 2)
    assert gpus is not None
    assert [sum(s for s, g in zip(shares, gpus, strict=True) if g == k) for k in (0, 1)] == [
        1000,
        1000,
    ]
    assert pack_shares([600, 600], 1) is None
    assert pack_shares([], 0) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tenants": (Tenant("t", 1000),)}, "knows no quotas, affinities or moves"),
        (
            {"jobs": (pods((500, 0))[0].replace(placement=PlacementRules(required="host")),)},
            "placement rules, which offline packing does not know",
        ),
        (
            {"jobs": (Job("gang", 0, 1, (Configuration((TaskGroup("w", 2, 1000),), 1.0),)),)},
            'job "gang": runs 2 w; offline packing takes jobs of a single task',
        ),
    ],
)
def test_what_it_does_not_know_is_refused(change: dict[str, Any], words: str) -> None:
    """A bound for another problem than the user's would be a lie."""
    instance = of(1, (500, 0)).__class__(
        **{"name": "x", "topology": flat_cluster("h", TWO, 1), "jobs": pods((500, 0)), **change}
    )
    with pytest.raises(UnsupportedFeatureError, match=words):
        pack_offline(instance)


def test_a_false_bound_is_loud(monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocation above the bound means that one of them is wrong."""
    monkeypatch.setattr(
        offline_packing,
        "bound_gpus",
        lambda data, settings: offline_packing.Relaxed(0.5, ()),
    )
    instance = of(1, (1000, 0))
    start = Allocation((Assignment("j0", 0, (TaskPlacement("host-0", "pod", 1),)),))
    with pytest.raises(CertificateError, match=r"bound 0\.5 .* is beaten .* which has 1"):
        pack_offline(instance, starts=(start,), limits=Limits(0.1))


def test_bound_and_answer_on_a_mixed_cluster() -> None:
    """200 tasks of the sizes of openb on 20 hosts: bound and answer within 1 %."""
    rng = np.random.default_rng(0)
    gpu = rng.choice((230, 320, 470, 650, 810, 1000), 200, p=(0.05, 0.1, 0.2, 0.05, 0.2, 0.4))
    kind = HostType("kind", 8, "V100", 96_000, 0)
    instance = of(20, *[(int(g), 8000 if g == 1000 else 4000) for g in gpu], kind=kind)
    relaxed = bound_gpus(PackingData.of(instance))
    result = pack_offline(instance, limits=Limits(10))
    assert result.certificate.bound == pytest.approx(relaxed.bound)
    assert verify(instance, result.require_solution()) == []
    value = objective("gpus_placed").evaluate(instance, result.require_solution())
    assert value == pytest.approx(result.certificate.objective)
    assert result.certificate.gap is not None
    assert result.certificate.gap <= 0.01
    assert "GPU patterns" in result.log[0]
    assert relaxed.patterns
    assert result.certificate.formulation == "sharing"


@pytest.mark.long
@pytest.mark.parametrize("seconds", [1e-9, 0.01, 0.1])
def test_a_bound_cut_off_by_time_is_still_a_bound(seconds: float) -> None:
    """The limit holds for the bound too; what it then says is weaker, never false."""
    rng = np.random.default_rng(0)
    sizes = [(int(g), int(c)) for g, c in rng.integers((100, 500), (1000, 3000), (60, 2))]
    instance = of(12, *sizes)
    data = PackingData.of(instance)
    cut_off = bound_gpus(data, Settings(seconds))
    full = bound_gpus(data)
    assert cut_off.bound >= full.bound - 1e-9
    assert cut_off.rounds <= full.rounds
    result = pack_offline(instance, limits=Limits(seconds))
    assert result.certificate.bound >= full.bound - 1e-9
    assert result.certificate.verified
