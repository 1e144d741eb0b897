"""Schedulers and rules: honoured, or refused before the first decision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from alloc.errors import SimulationError, UnsupportedFeatureError
from alloc.packing import HostPool
from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers import make_scheduler, scheduler_names
from alloc.schedulers.builtin import schedulers_with
from alloc.schedulers.honouring import REQUIRED_LEVELS, rules_asked
from alloc.schedulers.learned import read_policy
from alloc.schedulers.shelf import policy_path, shipped_policies
from alloc.schedulers.state import ClusterState, Decision
from alloc.simulation import simulate
from alloc.topology import Domain, Host, HostType, Topology
from alloc.verification import verify
from alloc.workload import Configuration, Job, PlacementRules, Slice, Spread, TaskGroup, rigid_gang

RACKS = Topology(
    "racks",
    (HostType("box", 2, "a100-sxm-40gb", 8000, 8192),),
    tuple(Host(f"h{k}", "box", ("r0", "r0", "r1", "r1", "p0")[k]) for k in range(5)),
    ("pod", "rack"),
    (Domain("p0", "pod"), Domain("r0", "rack", "p0"), Domain("r1", "rack", "p0")),
)


def instance(*rules: PlacementRules, gpus: int = 4, **fields: Any) -> Instance:
    """Return rigid gangs with rules."""
    jobs = tuple(
        Job(f"j{n}", 0.0, 10.0, (rigid_gang(gpus),), elasticity="rigid", placement=rule)
        for n, rule in enumerate(rules)
    )
    return Instance("i", RACKS, fields.pop("jobs", jobs), **fields)


def test_what_is_asked_of_a_scheduler() -> None:
    """A preference asks for nothing, a required level for less than slices or a spread."""
    assert rules_asked(instance(PlacementRules(preferred="rack"))) == {}
    required = instance(PlacementRules(), PlacementRules(required="rack"))
    assert rules_asked(required) == {REQUIRED_LEVELS: 'job "j1"'}
    sliced = instance(PlacementRules(required="rack"), PlacementRules(slices=(Slice("rack", 2),)))
    assert rules_asked(sliced) == {"placement rules": 'job "j1"'}
    assert rules_asked(instance(PlacementRules(), moves=Moves())) == {}


@pytest.mark.parametrize(
    ("name", "asking", "sentence"),
    [
        (
            "fifo",
            instance(PlacementRules(spread=(Spread("rack", 2),))),
            'scheduler fifo does not look at placement rules, which job "j0" asks for; take one '
            "that does: .*kueue-best-fit",
        ),
        (
            "exact-progress",
            instance(PlacementRules(required="rack"), slot_s=5.0),
            'does not look at required levels, which job "j0" asks for; take one that does: fifo',
        ),
        (
            "kueue-best-fit",
            instance(
                PlacementRules(),
                PlacementRules(),
                affinities=(Affinity("apart", "rack", ("j0", "j1")),),
            ),
            "scheduler kueue-best-fit does not look at affinities, which jobs j0, j1 asks for; "
            "leave it out of the instance",
        ),
        (
            "first-fit",
            Instance(
                "mig",
                RACKS,
                (
                    Job(
                        "m",
                        0.0,
                        1.0,
                        (Configuration((TaskGroup("w", 1, mig_profile="1g.5gb"),), 1.0),),
                        elasticity="rigid",
                    ),
                ),
            ),
            'scheduler first-fit does not look at MIG slices, which job "m" asks for; take one',
        ),
    ],
)
def test_a_scheduler_that_ignores_a_rule_is_refused_early(
    name: str, asking: Instance, sentence: str
) -> None:
    """Before the first decision, with the names of those that could do it."""
    with pytest.raises(UnsupportedFeatureError, match=sentence):
        simulate(asking, make_scheduler(name))


def decides_in_rounds(name: str) -> bool:
    """Return whether a policy is of a kind that knows slots only."""
    if name not in shipped_policies():
        return name == "set-rule"
    return read_policy(policy_path(name)).spec.kind not in (
        "job-priority/1",
        "pick-backfill/1",
        "stage-graph/1",
    )


@pytest.mark.parametrize("name", schedulers_with(REQUIRED_LEVELS))
@pytest.mark.parametrize("slot_s", [None, 5.0])
def test_every_policy_that_says_so_keeps_gangs_in_one_rack(name: str, slot_s: float | None) -> None:
    """Three gangs of four GPUs on two racks of four: two at a time, none on the fifth host."""
    jobs = instance(*[PlacementRules(required="rack")] * 3, slot_s=slot_s)
    if slot_s is None and decides_in_rounds(name):
        with pytest.raises(UnsupportedFeatureError, match="no slots"):
            simulate(jobs, make_scheduler(name))
        return
    found = simulate(jobs, make_scheduler(name))
    assert verify(jobs, found.schedule) == []
    assert len(found.schedule.runs) >= 3
    rack = {host.id: host.domain for host in RACKS.hosts}
    for run in found.schedule.runs:
        assert len({rack[task.host] for task in run.tasks}) == 1


@pytest.mark.parametrize("name", schedulers_with("placement rules"))
def test_every_policy_that_says_so_keeps_slices(name: str) -> None:
    """Six GPUs as slices of two per host."""
    jobs = instance(*[PlacementRules(slices=(Slice("host", 2),))] * 2, gpus=6)
    found = simulate(jobs, make_scheduler(name))
    assert verify(jobs, found.schedule) == []
    assert all(task.count % 2 == 0 for run in found.schedule.runs for task in run.tasks)


@pytest.mark.parametrize("name", schedulers_with("MIG slices"))
def test_every_policy_that_says_so_runs_slices(name: str) -> None:
    """Seven small slices on one GPU are seven jobs at once on ten GPUs at most."""
    way = (Configuration((TaskGroup("w", 1, mig_profile="1g.5gb"),), 1.0),)
    jobs = tuple(Job(f"m{n}", 0.0, 10.0, way, elasticity="rigid") for n in range(8))
    for slot_s in (5.0,) if decides_in_rounds(name) else (None, 5.0):
        asking = Instance("mig", RACKS, jobs, slot_s=slot_s)
        assert verify(asking, simulate(asking, make_scheduler(name)).schedule) == []


def test_names_of_those_that_honour_a_rule() -> None:
    """They are offered in refusals."""
    assert {"fifo", "first-fit", "kueue-balanced"} <= set(schedulers_with(REQUIRED_LEVELS))
    assert "first-fit" in schedulers_with("placement rules")
    assert "fifo" not in schedulers_with("placement rules")
    assert set(schedulers_with("placement rules")) <= set(scheduler_names())


def test_a_pool_keeps_a_required_level_beside_that_of_the_configuration() -> None:
    """Of two levels the inner one is tried domain by domain, and must lie in the outer one."""
    pool = HostPool(RACKS)
    gang = rigid_gang(4)
    placed = pool.place(gang, required="rack")
    assert placed is not None
    assert {task.host for task in placed} == {"h0", "h1"}
    pool.reset()
    within = Configuration(gang.tasks, 1.0, within="pod")
    assert pool.place(within, required="rack") is not None
    assert pool.place(rigid_gang(6), required="rack") is None
    assert pool.place(rigid_gang(6), required="pod") is not None
    pool.reset()
    # h4 lies in the pod but in no rack.
    for _ in range(4):
        assert pool.place(rigid_gang(2), required="rack") is not None
    assert pool.place(rigid_gang(2), required="rack") is None
    assert pool.place(rigid_gang(2), required="pod") is not None


class Borrower:
    """Starts every job at once on hosts of its own."""

    name = "borrower"
    needs = "none"
    information = "nothing"

    def reset(self) -> None:
        """Forget nothing."""

    def decide(self, state: ClusterState) -> Decision:
        """Put job n on host n."""
        return Decision(
            tuple(
                Assignment(view.id, 0, (TaskPlacement(f"h{view.position}", "worker", 2),))
                for view in state.waiting
            )
        )


def test_the_simulator_lets_tenants_borrow_and_stops_them_at_the_end_of_it() -> None:
    """The referee of decisions and the checker of schedules say the same."""

    def run(borrowing: int, lender: int) -> object:
        jobs = tuple(
            Job(f"j{n}", 0.0, 10.0, (rigid_gang(2),), elasticity="rigid", tenant=owner)
            for n, owner in enumerate(("red", "red", "blue"))
        )
        tenants = (
            Tenant("red", 2000, "ml", borrowing),
            Tenant("blue", lender, "ml"),
        )
        asking = Instance("i", RACKS, jobs, tenants=tenants)
        return simulate(asking, Borrower(), rng=np.random.default_rng(0))  # type: ignore[arg-type]

    assert run(2000, 4000) is not None
    with pytest.raises(SimulationError, match=r'tenant "red" holds 4 GPUs .* over its quota'):
        run(0, 4000)
    with pytest.raises(SimulationError, match='cohort "ml" holds 6 GPUs'):
        run(2000, 2000)
