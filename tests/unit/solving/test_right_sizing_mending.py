"""A first stage of right-sizing that goes short is mended where it does, and becomes a plan."""

from dataclasses import replace

import numpy as np
import pytest
from planning_worlds import A100, margins, without_cloud, world

from alloc.instances.planning import generate_planning
from alloc.models.right_sizing.data import SizingData
from alloc.problems.right_sizing import HostOffer, PlanningProblem, Site, Tightening
from alloc.problems.right_sizing.plan import Plan
from alloc.result import Limits
from alloc.solving.outcome import Settings
from alloc.solving.right_sizing.decomposition import Decomposition
from alloc.solving.right_sizing.mending import Mending
from alloc.solving.right_sizing.method import right_size
from alloc.verification.right_sizing import verify_plan


def mended(problem: PlanningProblem, start: Plan) -> Plan | None:
    """Return the plan that a start becomes by mending alone."""
    search = Decomposition(SizingData(problem), Settings(), 1e-3)
    relaxation, candidates = search.relaxation, search.candidates
    values = relaxation.completing.from_plan(start)
    candidates.try_mended(values, "start")
    return search._outcome(None).solution


def without(problem: PlanningProblem) -> Plan:
    """Return a plan that knows of no margins."""
    return right_size(problem.replace(tightening=()), limits=Limits(gap=1e-4)).require_solution()


@pytest.mark.parametrize("failures", [0, 1])
def test_a_pool_that_may_not_rent_is_given_the_hosts_of_its_margin(failures: int) -> None:
    """As many as lack, where they cost least; spare hosts of a pool are not among them."""
    room = (Site("north", 600.0, power_kw=3000.0), Site("cloud"))
    problem = without_cloud(sites=room, failures=failures, tightening=margins(train=44.0))
    start = without(problem)
    plan = mended(problem, start)
    assert plan is not None
    assert verify_plan(problem, plan) == []
    more = sum(o.count for o in plan.orders) - sum(o.count for o in start.orders)
    assert 5 <= more <= 6


def test_where_a_site_has_no_room_for_the_hosts_jobs_go_elsewhere() -> None:
    """Where they went before costs less, but nothing is left there to keep a margin of."""
    small = (Site("north", 30.0), Site("cloud"))
    north = tuple(Tightening(name, "a100", "north", margin=800.0) for name in ("train", "batch"))
    problem = world(sites=small, tightening=north)
    start = without(problem)
    assert any(share.site == "north" for share in start.shares)
    plan = mended(problem, start)
    assert plan is not None
    assert verify_plan(problem, plan) == []
    assert not any(share.site == "north" for share in plan.shares)


def test_a_margin_that_spot_hosts_have_no_room_for_is_not_kept() -> None:
    """In the scenario with the fewest of them they are full already."""
    spot = HostOffer("spot", A100, "spot", 1.0, ("cloud",), most_hosts=4)
    classes = tuple(replace(c, interruptible=True) for c in world().classes)
    tightening = tuple(Tightening(c.name, "a100", "cloud", margin=30.0, spot=True) for c in classes)
    problem = world(offers=(*world().offers, spot), classes=classes, tightening=tightening)
    start = without(problem)
    assert any(share.spot for share in start.shares)
    plan = mended(problem, start)
    assert plan is not None
    assert verify_plan(problem, plan) == []


def test_what_cannot_be_mended_is_left() -> None:
    """No host can be had, nor is there another place."""
    full = (Site("north", 6.0), Site("cloud"))
    problem = without_cloud(sites=full, tightening=margins(train=8.0))
    search = Decomposition(SizingData(problem), Settings(), 1e-3)
    relaxation = search.relaxation
    point = relaxation.completing.complete(np.zeros(len(relaxation.setting.cost)))
    assert not search.candidates.try_mended(point, "start")
    assert relaxation.incumbent is None
    mending = Mending(relaxation)
    for _ in range(9):
        found = relaxation.value(point, relaxation.tasks, keep=True)
        changed = mending.mend(point, found)
        if changed is None:
            return
        point = changed
    raise AssertionError("it goes round in circles")


def test_nothing_is_mended_once_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pools go short in however many quarters."""
    room = (Site("north", 600.0, power_kw=3000.0), Site("cloud"))
    problem = without_cloud(sites=room, tightening=margins(train=44.0))
    relaxation = Decomposition(SizingData(problem), Settings(), 1e-3).relaxation
    point = relaxation.completing.from_plan(without(problem))
    found = relaxation.value(point, relaxation.tasks, keep=True)
    assert Mending(relaxation).mend(point, found) is not None
    monkeypatch.setattr(relaxation, "seconds_left", lambda: 0.0)
    assert Mending(relaxation).mend(point, found) is None


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_plans_without_margins_become_plans_with_them(seed: int) -> None:
    """Whatever the sites and classes; and every one of them is a plan by the checker."""
    asked = generate_planning(
        f"mend-{seed}", gpus=60.0, num_classes=4, num_quarters=3, failures=seed % 3, seed=seed
    )
    parts = tuple(
        Tightening(c.name, option.gpu_type, site.name, margin=4.0 + 12.0 * (seed % 2))
        for c in asked.classes
        for option in c.options
        for site in asked.sites
        if c.goal is not None and c.at(site.name)
    )
    problem = asked.replace(tightening=parts)
    plan = mended(problem, without(problem))
    assert plan is not None
    assert verify_plan(problem, plan) == []
