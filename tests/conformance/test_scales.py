"""Every formulation and planning family in other units: nothing moves but the unit.

The registry drives it: a formulation that is registered is tested here, by every backend that has a
model of it and by its own method. The benchmark of scales has the problems, and a range of seeds.
"""

from __future__ import annotations

from collections import Counter

import pytest

from alloc.families import instance_families
from alloc.problems.allocation.instance import Instance
from alloc.solving import solve
from alloc.topology import Host, HostType, Topology
from alloc.workload import Job, rigid_gang
from benchmarks.scales import (
    OVER_TIME,
    asked_of,
    disagreements,
    of_formulation,
    one_host_round,
    rigid,
    tiny_instance,
    weighted,
)
from benchmarks.scales_planning import (
    Case,
    Claim,
    colocation,
    inference,
    operation,
    quotas,
    ranks,
    right_sizing,
)

FEW = (1e-9, 1e-4, 1e5, 1e12)
PLACED = ("gpus_placed", "weight_placed", "balance", "gpus_used", "whole_hosts_free")
"""Of the objectives of placement, one of each kind: all of them are in the benchmark."""
ELSEWHERE = ("stages", "saturn-spase")
"""No instance here is a problem of theirs: `test_every_family` asks in units of their own."""
ASKED = [
    (name, objective)
    for name, chosen in instance_families().items()
    for objective in chosen.objectives
    if name not in ELSEWHERE and (name not in ("placement", "sharing") or objective in PLACED)
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "objective"), ASKED)
def test_a_formulation_says_the_same_in_every_unit(name: str, objective: str) -> None:
    """Weights, work, times and memory; also in another order, and with an idle host."""
    over_time = name in OVER_TIME
    instance = asked_of(name, 1 if over_time else 3)
    factors = (1e-9, 1e12) if over_time else FEW
    proofs: Counter[str] = Counter()
    cases = of_formulation(name, objective, instance, factors)
    assert list(disagreements(cases, proofs)) == []
    assert sum(proofs.values()) >= 8


@pytest.mark.parametrize("seed", range(25))
def test_rounds_of_jobs_of_days_are_right(seed: int) -> None:
    """With rates a fraction of the job a second, 8 % of such rounds were false optima."""
    cases = of_formulation("round", "goodput", one_host_round(seed), ())
    assert list(disagreements(cases, Counter())) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", [right_sizing, operation, inference, quotas, ranks, colocation])
def test_a_family_of_planning_says_the_same_in_every_currency(family, seed: int) -> None:
    proofs: Counter[str] = Counter()
    assert list(disagreements(family(seed, FEW), proofs)) == []
    assert sum(proofs.values()) >= 5
    assert not any(kind.startswith("refused") for kind in proofs)


def test_the_comparison_sees_a_disagreement() -> None:
    """A check that cannot fail proves nothing."""

    def case(value: float, bound: float, unit: float = 1.0, status="optimal") -> Case:
        claim = Claim("way", status, value, bound, "max", "claimed")
        return Case("case", lambda: [claim], unit)

    assert not list(disagreements(iter([case(2.0, 2.0), case(4e-9, 4e-9, 2e-9)]), Counter()))
    assert list(disagreements(iter([case(2.0, 1.9)]), Counter()))
    assert list(disagreements(iter([case(2.0, 2.0), case(4.1e-9, 4.1e-9, 2e-9)]), Counter()))
    assert list(disagreements(iter([case(2.0, 2.0), case(2.0, 3.0, status="feasible")]), Counter()))


@pytest.mark.parametrize("factor", [1e-9, 1e-5, 1.0, 1e9])
@pytest.mark.parametrize("way", ["auto", "highs", "pyomo", "cpsat"])
def test_what_a_goal_has_reached_is_kept_in_every_unit(way: str, factor: float) -> None:
    """A tolerance of 1e-7 lets go of a level whose values are 1e-9."""
    instance = rigid(tiny_instance(3))
    goal = "weight_placed then hosts_used"
    first = solve(weighted(instance, 1.0), "placement", "highs", objective=goal)
    found = solve(weighted(instance, factor), "placement", way, objective=goal)
    assert [stage.status for stage in found.stages] == ["optimal", "optimal"]
    values = [stage.objective for stage in found.stages]
    expected = [first.stages[0].objective * factor, first.stages[1].objective]
    assert values == pytest.approx(expected, rel=1e-6, abs=0.0)


def test_a_job_of_a_billionth_of_a_slot_is_no_overflow_in_cp_sat() -> None:
    """Its row (C9) has the job's speed in it, in slots: six digits of it were beyond 64 bits."""
    job = Job("short", 0.0, 9e-13, (rigid_gang(1, rate=5e-10), rigid_gang(1, rate=1.5e-7)))
    topology = Topology("one", (HostType("k", 1, "gpu"),), (Host("h", "k"),))
    instance = Instance("short", topology, (job,), slot_s=3600.0, horizon_s=25200.0)
    for backend in ("auto", "cpsat"):
        result = solve(instance, "malleable", backend)
        assert result.status != "infeasible"
        assert result.certificate.bound <= 6e-6 * (1 + 1e-6)
