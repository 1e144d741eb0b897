"""The method of F5: generated patterns, dealing out to hosts, reconfigurations, real pods."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import need_data

from alloc.instances.readers import openb_instance
from alloc.models.sharing import patterns, sharing_data
from alloc.models.sharing.patterns import Size, maximal, mig_patterns, share_patterns
from alloc.objectives import objective
from alloc.objectives.sharing import gpus_cut_anew
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.result import Limits
from alloc.solving import solve
from alloc.solving.sharing import improvement
from alloc.solving.sharing.pattern_generation import best_share_pattern
from alloc.topology import HostType, flat_cluster
from alloc.verification import verify
from alloc.workload import Configuration, Job, TaskGroup

SHARES = st.lists(
    st.builds(Size, st.sampled_from((100, 250, 300, 450, 700)), st.sampled_from((0, 5000, 17000))),
    min_size=1,
    max_size=4,
    unique=True,
)


def one(name, *, weight=1.0, count=1, tenant=None, **task) -> Job:
    group = TaskGroup("w", count, **task)
    return Job(name, 0.0, 1.0, (Configuration((group,), 1.0),), weight=weight, tenant=tenant)


def every_pattern(sizes: list[Size]) -> list[tuple[int, ...]]:
    ranges = [range(1000 // size.gpu_milli + 1) for size in sizes]
    return [
        counts
        for counts in itertools.product(*ranges)
        if sum(n * size.gpu_milli for n, size in zip(counts, sizes, strict=True)) <= 1000
        and sum(n * size.memory_mib for n, size in zip(counts, sizes, strict=True)) <= 40960
    ]


@settings(max_examples=60, deadline=None)
@given(SHARES, st.data())
def test_the_best_pattern_of_shares_is_that_of_trying_all(
    sizes: list[Size], data: st.DataObject
) -> None:
    """The two-dimensional knapsack prices patterns exactly: a wrong one is a false bound."""
    prices = np.array([data.draw(st.integers(0, 9)) for _ in sizes], dtype=float)
    counts, worth = best_share_pattern("a100", sizes, prices)
    every = every_pattern(sizes)
    assert worth == max(float(prices @ np.array(c)) for c in every)
    assert counts in every
    assert float(prices @ np.array(counts)) == worth


@settings(max_examples=60, deadline=None)
@given(SHARES)
def test_listed_patterns_are_the_maximal_ones(sizes: list[Size]) -> None:
    """With plenty of tasks, the patterns listed are all vectors that no other exceeds."""
    listed = share_patterns("a100", sizes, [1000] * len(sizes))
    assert listed is not None
    assert set(maximal(listed)) == {c for c in maximal(every_pattern(sizes)) if any(c)}


def test_a_coarse_table_still_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the knapsack's table is too large it is coarsened, and the worth is then a bound."""
    from alloc.solving.sharing import pattern_generation

    sizes = [Size(100, 13_001), Size(300, 20_017)]
    prices = np.array([2.0, 3.5])
    exact = max(
        float(prices @ np.array(c)) for c in itertools.product(range(4), range(3))
        if c[0] * 13_001 + c[1] * 20_017 <= 40960 and c[0] * 100 + c[1] * 300 <= 1000
    )  # fmt: skip
    monkeypatch.setattr(pattern_generation, "_MAX_CELLS", 50)
    counts, worth = best_share_pattern("a100", sizes, prices)
    assert worth >= exact
    assert counts[0] * 13_001 + counts[1] * 20_017 <= 40960


@pytest.mark.parametrize("goal", ["weight_placed", "gpus_placed", "gpus_used"])
def test_generated_patterns_prove_as_much_as_listed_ones(
    goal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same instance with and without its patterns listed: bounds agree, answers are close."""
    rng = np.random.default_rng(3)
    milli = rng.choice([130, 220, 270, 310, 380, 460, 510], 60).tolist()
    jobs = tuple(
        one(f"j{k}", gpu_milli=m, gpu_memory_mib=int(rng.choice([0, 8000])), cpu_milli=100)
        for k, m in enumerate(milli)
    )
    gpus = 12 if goal != "gpus_used" else 30
    cluster = flat_cluster("c", HostType("box", 2, "a100", 64000, 1024), gpus // 2)
    instance = Instance("shares", cluster, jobs)
    listed = solve(instance, "sharing", objective=goal)
    monkeypatch.setattr(patterns, "MAX_PATTERNS", 3)
    generated = solve(instance, "sharing", objective=goal)
    assert any("more to generate" in line for line in generated.log)
    assert listed.certificate.status == "optimal"
    assert generated.certificate.bound == pytest.approx(listed.certificate.bound, rel=0.01)
    assert generated.certificate.gap is not None
    assert generated.certificate.gap < 0.05
    assert generated.certificate.bound_proof == "recomputed"


def test_more_jobs_than_any_pattern_holds_are_proved_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While patterns are generated, infeasibility is a bound above the number of GPUs."""
    monkeypatch.setattr(patterns, "MAX_PATTERNS", 0)
    cluster = flat_cluster("c", HostType("box", 2, "a100", 64000, 1024), 1)
    jobs = tuple(one(f"j{k}", gpu_milli=600) for k in range(3))
    result = solve(Instance("many", cluster, jobs), "sharing", objective="gpus_used")
    assert result.certificate.status == "infeasible"
    assert "wants all 3 jobs to run at once, and at most 2 of them can" in str(result.conflict)


def test_scarce_cpu_is_seen_host_by_host() -> None:
    """Counts over equal hosts would run four jobs; one host cannot hold two and a half."""
    cluster = flat_cluster("c", HostType("box", 4, "a100", 10_000, 1024), 2)
    jobs = tuple(one(f"j{k}", gpu_milli=500, cpu_milli=4000) for k in range(5))
    result = solve(Instance("cpu", cluster, jobs), "sharing")
    assert result.certificate.status == "optimal"
    assert result.certificate.objective == 4
    assert "finds no room" in next(iter(result.require_solution().unplaced.values()))


@pytest.mark.long
def test_hosts_are_refilled_until_nothing_is_gained(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the exact model of single hosts switched off, refilling a few hosts finds as much."""
    from alloc.solving.sharing import method as sharing

    monkeypatch.setattr(sharing, "_EXACT_COLUMNS", 0)
    rng = np.random.default_rng(0)
    cluster = flat_cluster("c", HostType("box", 4, "a100", 30_000, 65536), 6)
    jobs = tuple(
        one(
            f"j{k}",
            gpu_milli=int(rng.choice([200, 300, 500, 700])),
            cpu_milli=int(rng.choice([1000, 3000, 7000])),
            weight=float(rng.integers(1, 5)),
            tenant="t" if k % 2 else None,
        )
        for k in range(80)
    )
    instance = Instance("refilled", cluster, jobs, tenants=(Tenant("t", 9000),))
    result = solve(instance, "sharing", limits=Limits(seconds=5))
    assert result.certificate.gap is not None
    assert result.certificate.gap < 0.02
    assert verify(instance, result.require_solution()) == []


def test_a_warm_start_is_never_lost() -> None:
    """However short the time, the answer is no worse than the allocation it started from."""
    rng = np.random.default_rng(1)
    cluster = flat_cluster("c", HostType("box", 4, "a100", 20_000, 65536), 5)
    jobs = tuple(
        one(f"j{k}", gpu_milli=int(rng.choice([210, 330, 470])), cpu_milli=2000) for k in range(90)
    )
    instance = Instance("warm", cluster, jobs)
    first = solve(instance, "sharing", limits=Limits(seconds=5))
    again = solve(instance, "sharing", limits=Limits(seconds=0.02), warm_start=first.solution)
    assert first.certificate.objective is not None
    assert again.certificate.objective is not None
    assert again.certificate.objective >= first.certificate.objective
    assert again.certificate.bound >= first.certificate.objective


@pytest.mark.parametrize("goal", ["weight_placed", "gpus_used", "reconfigurations"])
def test_a_limit_gives_an_answer_or_says_that_there_is_none(goal: str) -> None:
    """With no time at all the bound still holds, and what is returned passes the checker."""
    cluster = flat_cluster("c", HostType("box", 8, "h100", 200_000, 65536), 40)
    rng = np.random.default_rng(5)
    names = ("1g.10gb", "2g.20gb", "3g.40gb")
    jobs = tuple(
        one(f"j{k}", mig_profile=str(rng.choice(names)), weight=float(rng.uniform(1, 2)))
        for k in range(400)
    )
    instance = Instance("short", cluster, jobs)
    result = solve(instance, "sharing", objective=goal, limits=Limits(seconds=0.001))
    assert result.certificate.status in ("optimal", "feasible", "no_solution")
    if result.solution is not None:
        assert verify(instance, result.solution) == []


def test_weights_of_their_own_are_proved_by_reduced_costs() -> None:
    """Beyond 500 options only the close cases are searched; the bound covers the others."""
    cluster = flat_cluster("c", HostType("box", 8, "a100", 200_000, 65536), 10)
    rng = np.random.default_rng(2)
    names = ("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb")
    jobs = tuple(
        one(f"j{k}", mig_profile=str(rng.choice(names)), weight=float(rng.uniform(1, 9)))
        for k in range(700)
    )
    instance = Instance("own", cluster, jobs)
    result = solve(instance, "sharing")
    exact = solve(instance, "sharing", "highs", limits=Limits(seconds=30))
    assert result.certificate.status == "optimal"
    assert any("proved for these jobs" in line for line in result.log)
    assert result.certificate.objective == pytest.approx(exact.certificate.objective, rel=1e-6)


def test_running_slices_stay_where_they_are() -> None:
    """Adding requests beside running slices cuts no GPU anew and moves no task."""
    cluster = flat_cluster("c", HostType("box", 2, "h100", 64000, 65536), 2)
    old = one("old", count=2, mig_profile="2g.20gb")
    there = Assignment("old", 0, (TaskPlacement("host-1", "w", 2, (0, 1), (4, 2)),))
    new = tuple(one(f"n{k}", mig_profile="3g.40gb") for k in range(6))
    instance = Instance("beside", cluster, (old, *new), running=(there,))
    for goal in ("weight_placed", "gpus_used", "reconfigurations"):
        result = solve(instance, "sharing", objective=goal)
        solution = result.solution
        assert isinstance(solution, Allocation)
        assert result.certificate.status == "optimal"
        assert gpus_cut_anew(instance, solution) == 0
        assert solution.assignments[0].tasks == there.tasks


def test_a_gpu_is_cut_anew_only_for_what_fits_nowhere_else() -> None:
    """One running slice in the middle of the only GPU: a whole-GPU slice needs it drained."""
    cluster = flat_cluster("c", HostType("box", 1, "a100", 64000, 65536), 2)
    old = one("old", mig_profile="1g.5gb")
    large = tuple(one(f"large{k}", mig_profile="3g.20gb") for k in range(4))
    there = Assignment("old", 0, (TaskPlacement("host-0", "w", 1, (0,), (2,)),))
    beside = Instance("i", cluster, (old, *large[:3]), running=(there,))
    assert solve(beside, "sharing", objective="reconfigurations").certificate.objective == 0
    cut = Instance("i", cluster, (old.replace(weight=0.5), *large), running=(there,))
    result = solve(cut, "sharing")
    assert result.certificate.objective == 4
    assert gpus_cut_anew(cut, result.require_solution()) == 1


def test_the_patterns_of_a_gpu_in_use_split_into_free_and_costly() -> None:
    """A slice at 0 rules out 4g for free, but leaves 3g at 4."""
    sizes = [Size(0, 0, "3g.20gb"), Size(0, 0, "4g.20gb")]
    found = mig_patterns("a100", sizes, (("1g.5gb", 0),))
    free = {p.counts for p in found if not p.reconfigures}
    costly = {p.counts for p in found if p.reconfigures}
    assert free == {(1, 0)}
    assert costly == {(2, 0), (1, 1)}


def test_values_of_the_objectives_by_hand() -> None:
    cluster = flat_cluster("c", HostType("box", 4, "a100", 64000, 65536), 1)
    jobs = (
        one("mig", mig_profile="1g.5gb", weight=2.0),
        one("share", gpu_milli=500, weight=3.0),
        one("whole", gpu_milli=2000),
    )
    instance = Instance("values", cluster, jobs)
    placed = Allocation(
        (
            Assignment("mig", 0, (TaskPlacement("host-0", "w", 1, (0,), (0,)),)),
            Assignment("share", 0, (TaskPlacement("host-0", "w", 1, (1,)),)),
            Assignment("whole", 0, (TaskPlacement("host-0", "w", 1),)),
        )
    )
    assert objective("weight_placed").evaluate(instance, placed) == 6
    assert objective("gpus_used").evaluate(instance, placed) == 4
    assert objective("reconfigurations").evaluate(instance, placed) == 0
    some = Allocation(placed.assignments[:1])
    assert objective("gpus_used").evaluate(instance, some) == float("inf")
    before = Assignment("mig", 0, (TaskPlacement("host-0", "w", 1, (2,), (0,)),))
    moved = instance.replace(running=(before,))
    # GPU 2 was cut; one of the two whole GPUs must be it.
    assert objective("reconfigurations").evaluate(moved, placed) == 1


@pytest.mark.parametrize("backend", ["auto", "highs", "pyomo"])
@pytest.mark.parametrize("num_gpus", [0, 1])
def test_jobs_without_gpus_alone(backend: str, num_gpus: int) -> None:
    """A part of a cluster may hold no task with a GPU: there is then no pattern at all."""
    kind = HostType("box", num_gpus, "a100" if num_gpus else None, 4000, 1024)
    jobs = tuple(one(f"j{k}", cpu_milli=3000) for k in range(3))
    instance = Instance("cpu", flat_cluster("c", kind, 2), jobs)
    result = solve(instance, "sharing", backend)
    assert result.certificate.objective == 2
    assert result.certificate.status == "optimal"


@pytest.mark.long
def test_equal_things_are_counted() -> None:
    """Ten thousand equal requests are one class: the size of the program does not grow."""
    cluster = flat_cluster("c", HostType("box", 8, "h100", 10**6, 10**6), 100)
    jobs = tuple(one(f"j{k}", mig_profile="1g.10gb") for k in range(10_000))
    data = sharing_data(Instance("many", cluster, jobs), aggregate=True)
    assert (len(data.classes), len(data.host_classes), len(data.groups)) == (1, 1, 1)
    assert data.is_exact


@pytest.mark.long
def test_real_pods_on_a_part_of_a_real_cluster() -> None:
    """openb: 600 pods, most of them shares, on 200 of the GPU nodes with the fewest GPUs proved."""
    folder = need_data("traces", "alibaba-gpu-v2023-openb")
    instance, _ = openb_instance(
        folder / "openb_node_list_gpu_node.csv.gz",
        folder / "openb_pod_list_default.csv.gz",
        snapshot=True,
        num_hosts=200,
        max_jobs=600,
    )
    result = solve(instance, "sharing", objective="gpus_used", limits=Limits(seconds=30))
    assert result.certificate.gap is not None
    assert result.certificate.gap < 0.01
    assert result.certificate.bound_proof == "recomputed"


@pytest.mark.parametrize("goal", ["weight_placed", "gpus_placed", "gpus_used"])
def test_a_false_refusal_of_the_integer_program_is_no_proof(
    goal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing at all, or the warm start, keeps every rule: "infeasible" is a solver's mistake."""
    from alloc.solving.sharing import method as sharing

    cluster = flat_cluster("c", HostType("h", 2, "v100", 8000, 8192), 2)
    gangs = (TaskGroup("t", 1, 500, 2000), TaskGroup("t", 1, 1000, 5000))
    jobs = tuple(
        Job(f"j{i}", 0.0, 1.0, (Configuration((gangs[i % 2],), 1.0),), weight=1.0 + i)
        for i in range(5)
    )
    instance = Instance("small", cluster, jobs[:4] if goal == "gpus_used" else jobs)
    true = solve(instance, "sharing", objective=goal)
    assert true.certificate.status == "optimal"
    worst = float("inf") if true.certificate.sense == "min" else -float("inf")
    monkeypatch.setattr(sharing, "_integers", lambda *a, **b: (None, worst, None, "claimed"))
    start = true.solution if goal == "gpus_used" else None
    found = solve(instance, "sharing", objective=goal, warm_start=start)
    assert found.solution is not None
    assert verify(instance, found.solution) == []
    sign = 1.0 if found.certificate.sense == "min" else -1.0
    assert sign * found.certificate.bound <= sign * true.certificate.objective * (1 + 1e-9)


def short_of_cpu() -> Instance:
    """Return an instance that counts only relax: CPU of single hosts runs out beside idle GPUs."""
    rng = np.random.default_rng(0)
    jobs = tuple(
        one(
            f"j{j}",
            weight=float(rng.integers(1, 10)),
            gpu_milli=int(rng.choice((250, 300, 500, 1000))),
            cpu_milli=int(rng.integers(1500, 9000)),
        )
        for j in range(90)
    )
    hosts = flat_cluster("c", HostType("h", 4, "a100", 16_000, 64_000), 12)
    return Instance("cpu", hosts, jobs)


@pytest.mark.long
def test_ctrl_c_while_hosts_are_refilled_keeps_what_was_found_and_proved(monkeypatch):
    """At once, and after the first refill that gained: also what that gained."""
    instance, original = short_of_cpu(), improvement._refill
    limits = Limits(seconds=10)
    gains: list[float] = []
    # The program of single hosts would take the time of the refills.
    monkeypatch.setattr("alloc.solving.sharing.method._EXACT_COLUMNS", 0)

    def interrupted(*given):
        raise KeyboardInterrupt

    def refill(*given):
        changed = original(*given)
        value = 0.0 if changed is None else objective("weight_placed").evaluate(instance, changed)
        if value > first.objective:
            gains.append(value)
            monkeypatch.setattr(improvement, "_refill", interrupted)
        return changed

    monkeypatch.setattr(improvement, "_refill", interrupted)
    first = solve(instance, "sharing", limits=limits)
    assert first.certificate.limit == "interrupt"
    assert first.certificate.bound_proof == "recomputed"
    monkeypatch.setattr(improvement, "_refill", refill)
    second = solve(instance, "sharing", warm_start=first.solution, limits=limits)
    assert second.certificate.limit == "interrupt"
    assert [second.objective] == gains
    assert second.objective <= first.bound


@pytest.mark.long
def test_ctrl_c_before_anything_is_found_keeps_the_warm_start(monkeypatch):
    def interrupted(*given, **options):
        raise KeyboardInterrupt

    instance = short_of_cpu()
    start = solve(instance, "sharing", limits=Limits(seconds=2)).require_solution()
    monkeypatch.setattr("alloc.solving.sharing.method.relax", interrupted)
    result = solve(instance, "sharing", warm_start=start)
    assert result.solution.assignments == start.assignments
    assert result.certificate.limit == "interrupt"
    assert solve(instance, "sharing").status == "no_solution"
