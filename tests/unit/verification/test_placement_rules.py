"""The checker on rules of placement: each where it just holds and where it just does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import alloc.verification
from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant
from alloc.problems.allocation.solution import Allocation, Assignment, Run, Schedule, TaskPlacement
from alloc.topology import Domain, Host, HostType, Topology
from alloc.verification import initial_violations, verify, verify_placement
from alloc.verification.violation import Violation
from alloc.workload import Configuration, Job, PlacementRules, Slice, Spread, TaskGroup

# Pod p0 with racks r0 (h0, h1) and r1 (h2), rack r2 (h3) of no pod, and h4 in no domain at all.
CLUSTER = Topology(
    "five",
    (HostType("box", 8, "v100", 64_000, 65_536),),
    tuple(Host(f"h{k}", "box", d) for k, d in enumerate(("r0", "r0", "r1", "r2", None))),
    ("pod", "rack"),
    (Domain("p0", "pod"), *(Domain(f"r{k}", "rack", "p0" if k < 2 else None) for k in range(3))),
)
FOUR = Configuration((TaskGroup("w", 4, 1000), TaskGroup("ps", 1, 0, 1000)), 1.0)


def job(job_id: str = "a", rules: PlacementRules | None = None, **fields: Any) -> Job:
    """Return a rigid gang of four one-GPU workers and one task without GPU."""
    fields.setdefault("elasticity", "rigid")
    return Job(job_id, 0.0, 10.0, (FOUR,), placement=rules or PlacementRules(), **fields)


def at(job_id: str = "a", ps: str | None = None, **workers: int) -> Assignment:
    """Place workers on hosts and the other task on the first of them."""
    placed = [TaskPlacement(h, "w", n) for h, n in workers.items()]
    return Assignment(job_id, 0, (*placed, TaskPlacement(ps or next(iter(workers)), "ps", 1)))


def check(*assignments: Assignment, jobs: tuple[Job, ...] = (), **fields: Any) -> list[Violation]:
    """Return what the checker finds in an allocation."""
    return verify(Instance("five", CLUSTER, jobs or (job(),), **fields), Allocation(assignments))


def codes(found: list[Violation]) -> list[str]:
    """Return the codes of violations."""
    return [violation.code for violation in found]


def ruled(rules: PlacementRules, ps: str | None = None, **workers: Any) -> list[Violation]:
    """Check one job with rules."""
    return check(at(ps=ps, **workers), jobs=(job(rules=rules),))


@pytest.mark.parametrize(
    ("level", "where", "ids", "amount"),
    [
        ("rack", {"h0": 2, "h1": 2}, None, 0),
        ("pod", {"h0": 2, "h2": 2}, None, 0),
        ("rack", {"h0": 2, "h2": 2}, ("a", "rack"), 1),
        ("rack", {"h0": 1, "h2": 1, "h3": 2}, ("a", "rack"), 2),
        ("pod", {"h0": 3, "h3": 1}, ("a", "pod"), 1),
        ("rack", {"h4": 4}, ("a", "rack"), 1),
        ("rack", {"h0": 2, "h4": 2}, ("a", "rack"), 1),
        ("host", {"h4": 4}, None, 0),
        ("host", {"h0": 2, "h1": 2}, ("a", "host"), 1),
    ],
)
def test_a_required_level_holds_every_task(
    level: str, where: dict[str, Any], ids: tuple[str, ...] | None, amount: int
) -> None:
    """Hosts outside every domain of the level do not keep it."""
    found = ruled(PlacementRules(required=level), **where)
    assert [(v.code, v.ids, v.amount) for v in found] == (
        [("required_level", ids, amount)] if ids else []
    )


def test_a_required_level_concerns_tasks_without_gpus_and_preferred_ones_none() -> None:
    """A parameter server across the fabric is as bad as a worker; a preference is no rule."""
    found = ruled(PlacementRules(required="rack"), ps="h2", h0=4)
    assert found[0].sentence == ('job "a" must stand in one rack, but stands in "r0" and "r1".')
    assert ruled(PlacementRules(preferred="rack"), h0=2, h3=2) == []


def test_slices_count_whole_multiples_per_domain() -> None:
    """Slices of two per rack: 2 + 2 holds, 3 + 1 breaks two slices by a task each."""
    rules = PlacementRules(slices=(Slice("rack", 2),))
    assert ruled(rules, ps="h3", h0=1, h1=1, h2=2) == []
    (broken,) = ruled(rules, h0=3, h2=1)
    assert (broken.code, broken.ids, broken.amount) == ("slice", ("a", "rack", "w"), 2)
    assert "2 of its w tasks belong to slices of 2 that no single rack holds whole" in str(broken)
    # A host of no rack holds no slice.
    assert codes(ruled(rules, h0=2, h4=2)) == ["slice"]


def test_nested_slices_hold_at_every_level() -> None:
    """Slices of 4 per pod and of 2 per host: the finer may break while the coarser holds."""
    rules = PlacementRules(slices=(Slice("pod", 4), Slice("host", 2)))
    assert ruled(rules, h0=2, h2=2) == []
    assert [v.ids for v in ruled(rules, h0=3, h2=1)] == [("a", "host", "w")]
    assert [v.ids for v in ruled(rules, h0=2, h3=2)] == [("a", "pod", "w")]


def test_a_spread_limits_tasks_with_gpus_per_domain() -> None:
    """The task without a GPU does not count; hosts of no domain are in none."""
    rules = PlacementRules(spread=(Spread("rack", 2), Spread("host", 1)))
    assert ruled(rules, h0=1, h1=1, h2=1, h3=1) == []
    found = ruled(rules, h0=2, h1=1, h2=1)
    assert [(v.code, v.ids, v.amount) for v in found] == [
        ("spread", ("a", "r0"), 1),
        ("spread", ("a", "h0"), 1),
    ]
    assert ruled(PlacementRules(spread=(Spread("rack", 1),)), h4=4) == []


PAIR = (job("a"), job("b"))
TOGETHER: dict[str, Any] = {"jobs": PAIR, "affinities": (Affinity("together", "rack", ("a", "b")),)}
APART: dict[str, Any] = {"jobs": PAIR, "affinities": (Affinity("apart", "rack", ("a", "b")),)}


def test_jobs_that_must_stand_together_do_so_only_if_they_run() -> None:
    """One that waits does not bind the other to a place, but to one domain it is bound."""
    assert check(at("a", h0=4), at("b", h1=4), **TOGETHER) == []
    assert check(at("b", h2=4), **TOGETHER) == []
    (found,) = check(at("a", h0=4), at("b", h2=4), **TOGETHER)
    assert (found.code, found.ids, found.amount) == ("together", ("rack", "a", "b"), 1)
    assert 'must stand together in one rack, but stand in "r0" and "r1"' in str(found)
    assert codes(check(at("a", h0=2, h2=2), **TOGETHER)) == ["together"]
    assert codes(check(at("a", h4=4), **TOGETHER)) == ["together"]


def test_jobs_that_must_stand_apart_share_no_domain() -> None:
    """Also a job spread over racks conflicts in each; outside any domain there is no conflict."""
    assert check(at("a", h0=2, h1=2), at("b", h2=4), **APART) == []
    assert check(at("a", h4=4), at("b", h4=4), **APART) == []
    (found,) = check(at("a", h0=4), at("b", h1=2, h3=2), **APART)
    assert (found.code, found.ids, found.amount) == ("apart", ("r0", "a", "b"), 1)
    assert 'rack "r0" holds tasks of all of them' in str(found)


def test_rules_hold_at_every_moment_of_a_schedule() -> None:
    """Apart means not at the same time: one after the other is no conflict."""

    def run(job_id: str, start: float, end: float, host: str) -> Run:
        return Run(job_id, 0, start, end, at(job_id, **{host: 4}).tasks)  # type: ignore[arg-type]

    instance = Instance("five", CLUSTER, **APART)
    after = Schedule((run("a", 0, 10, "h0"), run("b", 10, 20, "h1")))
    during = Schedule((run("a", 0, 10, "h0"), run("b", 9, 19, "h1")))
    assert verify(instance, after) == []
    assert codes(verify(instance, during)) == ["apart"]
    rules = (job("a", PlacementRules(required="rack")),)
    split = Schedule((Run("a", 0, 0.0, 10.0, at(h0=2, h2=2).tasks),))
    assert codes(verify(Instance("five", CLUSTER, rules), split)) == ["required_level"]


COHORT = (Tenant("red", 4000, "ml", 4000), Tenant("blue", 8000, "ml"), Tenant("own", 4000))


def tenants(*owners: str | None) -> list[Violation]:
    """Check a gang of four GPUs for each owner, each on a host of its own."""
    jobs = tuple(job(f"j{k}", tenant=owner) for k, owner in enumerate(owners))
    placed = [at(j.id, **{f"h{k}": 4}) for k, j in enumerate(jobs)]  # type: ignore[arg-type]
    return check(*placed, jobs=jobs, tenants=COHORT)


def test_a_tenant_borrows_what_its_cohort_leaves_idle() -> None:
    """Red has 4 and may borrow 4; together the cohort holds at most its 12."""
    assert tenants("red", "red", "blue") == []
    (over,) = tenants("red", "red", "red")
    assert (over.code, over.ids, over.amount) == ("quota", ("red",), 4000)
    assert "4 over its quota and the 4 it may borrow" in str(over)
    (cohort,) = tenants("red", "red", "blue", "blue")
    assert (cohort.code, cohort.ids, cohort.amount) == ("cohort", ("ml",), 4000)
    assert 'cohort "ml" holds 16 GPUs at 0 s, 4 over the quotas of its tenants' in str(cohort)


def test_a_tenant_without_a_cohort_neither_lends_nor_borrows() -> None:
    """Its own quota binds, and what it leaves idle helps nobody."""
    assert tenants("own") == []
    assert [v.ids for v in tenants("own", "own")] == [("own",)]
    assert tenants(None, None, None, None) == []


RUNNING = (at("a", h0=2, h1=2), at("b", h2=4))


def moving(*assignments: Assignment, moves: Moves | None = None, **fields: Any) -> list[Violation]:
    """Check what happens to two running jobs."""
    jobs = (job("a", **fields), job("b"), job("c"))
    return check(*assignments, jobs=jobs, running=RUNNING, moves=moves)


def test_without_moves_a_round_starts_afresh() -> None:
    """Running jobs may go anywhere or stop: rounds of training schedulers do that."""
    assert moving(at("c", h0=4)) == []
    assert moving(at("a", h3=4), preemptible=False) == []


def test_without_moves_a_placement_keeps_what_runs() -> None:
    """Each task that leaves its host, and each job that stops, is named; `Moves` lets them go."""
    jobs = (job("a"), job("b"), job("c"))
    instance = Instance("i", CLUSTER, jobs, running=RUNNING)
    stays = Allocation((*RUNNING, at("c", h3=4)))
    leaves, stops = Allocation((at("a", h0=4), RUNNING[1])), Allocation((RUNNING[0],))
    assert verify_placement(instance, stays) == []
    (left,) = verify_placement(instance, leaves)
    assert (left.code, left.amount) == ("move_budget", 2)
    assert [v.code for v in verify_placement(instance, stops)] == ["evicted", "move_budget"]
    assert verify_placement(instance.replace(moves=Moves()), leaves) == []
    assert verify_placement(instance.replace(moves=Moves(evict=True)), stops) == []
    assert alloc.verify(instance, leaves) == []
    assert alloc.verify(instance, leaves, "placement") == [left]


def test_running_jobs_keep_running_unless_they_may_be_evicted() -> None:
    """A job that is not preemptible is never stopped."""
    assert codes(moving(at("a", h0=2, h1=2), moves=Moves())) == ["evicted"]
    assert moving(at("a", h0=2, h1=2), moves=Moves(evict=True)) == []
    (found,) = moving(at("b", h2=4), moves=Moves(evict=True), preemptible=False)
    assert (found.code, found.ids) == ("evicted", ("a",))
    assert "it is not preemptible" in str(found)


def test_a_job_that_is_not_preemptible_stays_on_its_hosts() -> None:
    """Two of its workers leave h1."""
    assert moving(*RUNNING, moves=Moves(), preemptible=False) == []
    (found,) = moving(at("a", h0=4), RUNNING[1], moves=Moves(), preemptible=False)
    assert (found.code, found.ids, found.amount) == ("pinned", ("a",), 2)


def test_a_budget_counts_tasks_that_leave_their_host() -> None:
    """Two workers of a leave h1, and of b all five tasks leave when it is stopped."""
    moved = (at("a", h0=4), RUNNING[1])
    assert moving(*moved, moves=Moves(budget=2)) == []
    (found,) = moving(*moved, moves=Moves(budget=1))
    assert (found.code, found.ids, found.amount) == ("move_budget", (), 1)
    assert "2 tasks of running jobs move, 1 more than the budget of 1" in str(found)
    (stopped,) = moving(moved[0], moves=Moves(budget=4, evict=True))
    assert (stopped.code, stopped.amount) == ("move_budget", 3)


def test_a_job_that_is_not_malleable_keeps_its_configuration_while_it_runs() -> None:
    """A schedule says so, and so must the allocation of a round with running jobs."""
    small = Configuration((TaskGroup("w", 2, 1000),), 1.0)
    for elasticity, expected in (("moldable", ["elasticity"]), ("malleable", [])):
        moldable = Job("a", 0.0, 1.0, (FOUR, small), elasticity=elasticity)  # type: ignore[arg-type]
        smaller = Assignment("a", 1, (TaskPlacement("h0", "w", 2),))
        instance = Instance("i", CLUSTER, (moldable,), running=(RUNNING[0],), moves=Moves())
        assert codes(verify(instance, Allocation((smaller,)))) == expected


def test_what_is_wrong_at_first_is_reported_and_may_be_accepted_but_not_grow() -> None:
    """A split gang that runs: keeping it is accepted on request, making it worse never."""
    split = at("a", h0=2, h2=2)
    instance = Instance(
        "i",
        CLUSTER,
        (job("a", PlacementRules(required="rack")), job("b")),
        running=(split, Assignment("b", 0)),
        moves=Moves(evict=True),
    )
    (found,) = initial_violations(instance)
    assert (found.code, found.ids, found.amount) == ("required_level", ("a", "rack"), 1)
    same = Allocation((split,))
    assert codes(verify(instance, same)) == ["required_level"]
    assert verify(instance, same, accept=[found]) == []
    worse = Allocation((at("a", h0=1, h2=1, h3=2),))
    assert codes(verify(instance, worse, accept=[found])) == ["required_level"]
    assert verify(instance, Allocation((at("a", h0=2, h1=2),)), accept=[found]) == []


def test_every_code_of_these_rules_is_tested_here() -> None:
    """A code that no case above reaches is a rule without a test."""
    folder = Path(alloc.verification.__file__).parent
    source = "".join((folder / f"{name}.py").read_text() for name in ("rules", "moves", "quotas"))
    own = Path(__file__).read_text()
    for code in set(re.findall(r'Violation\(\s*"(\w+)"', source)):
        assert own.count(f'"{code}"') >= 1, code
