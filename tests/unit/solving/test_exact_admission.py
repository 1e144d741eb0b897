"""Exact admission: gangs whole, domains within domains, alternatives, and honest refusals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from alloc.backends import highs
from alloc.models.placement.data import PlacementData
from alloc.objectives.goals import parse_goal
from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant
from alloc.problems.allocation.solution import Allocation, Assignment, TaskPlacement
from alloc.solving.placement import admission, admission_rows, knapsacks
from alloc.solving.placement.admission import Admission, solve_admission
from alloc.solving.placement.waiting import admission_obstacle, gather
from alloc.topology import Domain, Host, HostType, Topology
from alloc.verification import verify
from alloc.workload import Configuration, Job, PlacementRules, Slice, TaskGroup

if TYPE_CHECKING:
    import pytest

    from alloc.backends import SolverOptions
    from alloc.formulation import RawResult
    from alloc.objectives.goals import WeightedSum

GPUS = parse_goal("gpus_placed").levels[0]
WEIGHT = parse_goal("weight_placed").levels[0]


def cluster(racks: dict[str, list[str]], pods: dict[str, str] | None = None) -> Topology:
    """Return hosts of 4 GPUs in racks, racks in pods if given."""
    outer = () if pods is None else tuple(Domain(p, "pod") for p in dict.fromkeys(pods.values()))
    inner = tuple(Domain(r, "rack", None if pods is None else pods[r]) for r in racks)
    hosts = tuple(Host(h, "box", r) for r, own in racks.items() for h in own)
    levels = ("rack",) if pods is None else ("pod", "rack")
    return Topology("t", (HostType("box", 4, "a", 8000, 64),), hosts, levels, (*outer, *inner))


def gang(name: str, tasks: int, gpus: int, level: str | None = None, **more: Any) -> Job:
    """Return a job of some tasks of some GPUs each."""
    group = TaskGroup("w", tasks, 1000 * gpus, 1000 * gpus, 1)
    rules = PlacementRules(required=level)
    way = (Configuration((group,), 1.0),)
    return Job(name, 0.0, 1.0, way, placement=rules, **more)


def solve(instance: Instance, level: WeightedSum = GPUS, seconds: float = 20.0) -> Admission:
    """Solve, and let the checker look at the result."""
    found = solve_admission(PlacementData.of(instance), level, seconds, lambda _: None)
    if found.allocation is not None:
        assert not verify(instance, found.allocation)
    return found


def placed(found: Admission) -> set[str]:
    """Return the jobs that run."""
    assert found.allocation is not None
    return {a.job for a in found.allocation.assignments}


def test_a_gang_does_not_spread_over_racks() -> None:
    """Six GPUs are free in each of two racks: 8 + 4 in one rack each do not fit, 6 + 6 do."""
    topology = cluster({"r0": ["a", "b"], "r1": ["c", "d"]})
    blocker = gang("running", 2, 2)
    at = Assignment("running", 0, (TaskPlacement("a", "w", 1), TaskPlacement("c", "w", 1)))
    jobs = (
        blocker,
        gang("wide", 8, 1, "rack"),
        gang("half", 6, 1, "rack"),
        gang("other", 3, 2, "rack"),
    )
    instance = Instance("racks", topology, jobs, running=(at,), moves=Moves(budget=0))
    found = solve(instance)
    assert placed(found) == {"running", "half", "other"}
    assert found.value == found.bound == 16.0


def test_inner_and_outer_domains_share_the_room() -> None:
    """Two racks of 8 GPUs in one pod: a pod gang of 10 leaves one rack only 6 of its 8."""
    topology = cluster(
        {"r0": ["a", "b"], "r1": ["c", "d"], "r2": ["e"]}, {"r0": "p0", "r1": "p0", "r2": "p1"}
    )
    jobs = (
        gang("pod-gang", 10, 1, "pod"),
        gang("rack-gang", 8, 1, "rack"),
        gang("smaller", 6, 1, "rack"),
        gang("anywhere", 5, 1),
    )
    found = solve(Instance("pods", topology, jobs))
    assert found.value == found.bound == 19.0
    assert placed(found) == {"rack-gang", "smaller", "anywhere"}
    bigger = solve(Instance("pods", topology, jobs[:3]))
    assert placed(bigger) == {"pod-gang", "smaller"}


def test_weights_decide_when_weights_are_asked_for() -> None:
    """One GPU job of weight 5 beats a whole host of weight 1."""
    topology = cluster({"r0": ["a"]})
    jobs = (gang("large", 1, 4), gang("dear", 1, 1, weight=5.0))
    instance = Instance("weights", topology, jobs)
    assert placed(solve(instance)) == {"large"}
    assert placed(solve(instance, WEIGHT)) == {"dear"}
    both = parse_goal("weight_placed + 2 gpus_placed").levels[0]
    assert placed(solve(instance, both)) == {"large"}


def test_the_best_configuration_of_a_job_is_taken_once() -> None:
    """A moldable job of 4 or 3 GPUs beside a single: 3 + 1 fill the host, and not 4 + 3."""
    topology = cluster({"r0": ["a"]})
    ways = tuple(
        Configuration((TaskGroup("w", n, 1000, 1000, 1),), float(n), within="host") for n in (4, 3)
    )
    moldable = Job("moldable", 0.0, 1.0, ways, weight=2.0)
    instance = Instance("moldable", topology, (moldable, gang("single", 1, 1)))
    found = solve(instance, WEIGHT)
    assert found.value == found.bound == 3.0
    assert isinstance(found.allocation, Allocation)
    assert found.allocation.configuration_of == {"moldable": 1, "single": 0}


def test_jobs_alike_on_hosts_alike_are_one_kind_in_one_bay() -> None:
    """Symmetry is what kills branch and bound; a thousand equal jobs are one number here."""
    topology = cluster({"r0": [f"h{h}" for h in range(50)]})
    jobs = tuple(gang(f"j{k}", 1, 3) for k in range(60)) + tuple(
        gang(f"k{k}", 2, 1, "rack") for k in range(40)
    )
    data = PlacementData.of(Instance("alike", topology, jobs))
    waiting = gather(data, GPUS)
    assert (len(waiting.bays), len(waiting.kinds)) == (1, 2)
    found = solve(data.instance)
    assert found.value == found.bound == 200.0
    assert found.proof == "recomputed"


def test_counts_prove_what_patterns_leave_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three jobs of 3 tasks, one rack each, and room for 4 tasks in each of two racks.

    Fractions of the third gang fit, so the patterns allow more; only counting decides.
    """
    topology = cluster({"r0": ["a", "b"], "r1": ["c", "d"]})
    jobs = tuple(gang(f"j{k}", 3, 2, "rack") for k in range(3))
    instance = Instance("counts", topology, jobs)
    found = solve(instance)
    assert (found.value, found.bound, found.proof) == (12.0, 12.0, "claimed")
    monkeypatch.setattr(admission_rows, "_MAX_COUNTS", 0)
    without = solve(instance)
    assert without.value == 12.0
    assert without.bound > 12.0
    assert without.proof == "recomputed"


def test_counts_alone_find_the_optimum_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the patterns met fit together badly, the answer is read from the counts."""
    monkeypatch.setattr(admission._Search, "_choose", lambda self, seconds: None)
    topology = cluster({"r0": ["a", "b"], "r1": ["c", "d"]})
    jobs = (gang("g", 6, 1, "rack"), gang("h", 2, 3, "rack"), gang("s", 1, 2), gang("t", 1, 1))
    found = solve(Instance("counts", topology, jobs))
    assert found.value == found.bound == 15.0
    assert placed(found) == {"g", "h", "s", "t"}


def test_nothing_waits_or_nothing_fits() -> None:
    """The empty answer is optimal too."""
    topology = cluster({"r0": ["a"]})
    full = Assignment("full", 0, (TaskPlacement("a", "w", 4),))
    jobs = (gang("full", 4, 1), gang("late", 1, 1))
    for own in (jobs, jobs[:1]):
        instance = Instance("full", topology, own, running=(full,), moves=Moves(budget=0))
        found = solve(instance)
        assert placed(found) == {"full"}
        assert found.value == found.bound == 4.0


def test_what_is_no_pure_admission_gets_a_bound_and_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rules that the program does not know must not be passed over in silence."""
    topology = cluster({"r0": ["a"]})
    base = Instance("base", topology, (gang("one", 1, 1), gang("two", 2, 1, tenant="t")))
    at = (Assignment("one", 0, (TaskPlacement("a", "w", 1),)),)
    sliced = Job(
        "sliced",
        0.0,
        1.0,
        (Configuration((TaskGroup("w", 2, 1000),), 1.0),),
        placement=PlacementRules(slices=(Slice("host", 2),)),
    )
    cases = {
        "goal has the term moves": (base, "gpus_placed + moves"),
        'job "one" runs and may move': (base.replace(running=at, moves=Moves()), "gpus_placed"),
        "there are affinities": (
            base.replace(affinities=(Affinity("apart", "host", ("one", "two")),)),
            "gpus_placed",
        ),
        'job "two" has a tenant': (base.replace(tenants=(Tenant("t", 1000),)), "gpus_placed"),
        'job "sliced" has slices': (base.replace(jobs=(sliced,)), "gpus_placed"),
    }
    for reason, (instance, goal) in cases.items():
        level = parse_goal(goal).levels[0]
        assert reason in str(admission_obstacle(PlacementData.of(instance), level))
        lines: list[str] = []
        found = solve_admission(PlacementData.of(instance), level, 5.0, lines.append)
        assert found.allocation is None
        assert found.value == -math.inf
        assert math.isfinite(found.bound)
        assert reason in lines[0]
    assert admission_obstacle(PlacementData.of(base), GPUS) is None
    monkeypatch.setattr(knapsacks, "_MAX_FILLED", 0)
    assert solve(base).allocation is None


def test_choices_end_by_nodes_and_not_by_a_share_of_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is done next depends on the instance: seconds only end it, with all that are left."""
    asked: list[tuple[int | None, float]] = []
    solve_by_highs = highs.solve

    def spy(model: Any, options: SolverOptions) -> RawResult:
        if options.nodes is not None:
            asked.append((options.nodes, options.time_limit_s))
        return solve_by_highs(model, options)

    monkeypatch.setattr(highs, "solve", spy)
    topology = cluster({"r0": ["a", "b"], "r1": ["c", "d"]})
    jobs = tuple(gang(f"j{k}", 2 + k % 3, 1 + k % 2, "rack") for k in range(7))
    instance = Instance("queue", topology, jobs, moves=Moves(budget=0))
    seen = []
    for seconds in (50.0, 500.0):
        asked.clear()
        found = solve(instance, seconds=seconds)
        assert all(left > 0.8 * seconds for _, left in asked)
        seen.append(([nodes for nodes, _ in asked], found.value, found.bound))
    assert seen[0] == seen[1]
    assert seen[0][0]


def test_no_bay_is_looked_at_once_the_time_is_up() -> None:
    """A round over many bays takes seconds: without one, nothing is claimed."""
    instance = Instance("late", cluster({"r0": ["h0", "h1"]}), (gang("a", 3, 2), gang("b", 2, 3)))
    found = solve(instance, seconds=0.0)
    assert (found.allocation, found.bound, found.proof) == (None, math.inf, "none")
    assert solve(instance).bound == 6.0
