"""The checker of plans: every limit that is broken is found, with its amount; sound plans pass."""

from dataclasses import replace

import pytest
from planning_strategies import with_money

from alloc.certificate import Certificate
from alloc.errors import InstanceError
from alloc.problems.right_sizing import (
    HostOffer,
    JobClass,
    JobOption,
    Order,
    Owned,
    Plan,
    PlanningProblem,
    Rental,
    Scenario,
    ServiceGoal,
    Share,
    Site,
    Tightening,
    Unserved,
)
from alloc.problems.right_sizing.accounting import account, usable_gpus
from alloc.result import Result
from alloc.topology import HostType
from alloc.verification.claims import check_claims
from alloc.verification.right_sizing import objective, verify_plan

A = HostType("four", 4, "a")


def problem(**changes) -> PlanningProblem:
    """One class of 4 GPU-hours a job, 2 jobs an hour, pools loaded to at most 100 %."""
    found = PlanningProblem(
        "judged",
        "EUR",
        1,
        offers=(
            HostOffer("buy", A, "purchase", 100.0, ("room",), 3, residual_fraction=0.5,
                      service_quarters=4, maintenance_per_quarter=2.0, idle_kw=0.5, busy_kw=1.5,
                      rack_units=2.0, ports=1.0),
            HostOffer("rent", A, "on_demand", 3.0, ("room", "cloud"), 2),
            HostOffer("spot", A, "spot", 1.0, ("cloud",), 2),
        ),
        sites=(
            Site("room", 6.0, 3.0, 9.0, 2.0, (0.25,), (0.5,)),
            Site("cloud"),
        ),
        classes=(
            JobClass("work", (JobOption("a", 2, 2.0), JobOption("a", 1, 9.0)),
                     ServiceGoal("jct", 1000.0, None), ("room",), loss_per_job=0.5),
            JobClass("other", (JobOption("a", 1, 1.0),), interruptible=True, spot_overhead=0.25,
                     deferrable=True, critical=True),
        ),
        scenarios=(Scenario("s", 1.0, {"work": (2.0,), "other": (0.0,)}, (0.5,)),),
        quarter_hours=10.0,
        utilisation=1.0,
        discount_rate=0.1,
    )  # fmt: skip
    return replace(found, **changes)


SHARE = Share("s", 0, 0, "work", 0, "room", False, 2.0)
SOUND = Plan((Order("buy", "room", 0, 3),), (), (), (SHARE,))


def codes(found) -> list[str]:
    return [violation.code for violation in found]


def test_a_sound_plan_passes_and_costs_what_it_costs():
    """8 GPUs busy of 12; 4 kW-hours idle and busy by hand."""
    assert verify_plan(problem(), SOUND) == []
    totals = account(problem(carbon_price_per_kg=0.1), SOUND)
    costs = totals.costs
    assert costs.purchase == 300.0
    assert costs.maintenance == 6.0
    # 3 idle hosts draw 1.5 kW, 8 GPUs 0.25 kW each beyond: 3.5 kW, doubled by the PUE, 10 h.
    assert costs.energy == pytest.approx(3.5 * 2 * 10 * 0.25)
    assert totals.carbon_kg[0, 0] == pytest.approx(3.5 * 2 * 10 * 0.5)
    assert costs.carbon == pytest.approx(3.5)
    # Three of four quarters are left, half the price is worth something, a quarter from now.
    assert costs.residual == pytest.approx(-300 * 0.5 * 0.75 / 1.1)
    assert totals.spent[0] == pytest.approx(300 + 6 + 17.5 + 3.5)


def test_margins_count_where_jobs_are_sent_and_of_several_the_largest():
    """8 GPUs busy of 12: nearly 4 are left, on firm hosts of this pool."""
    fits = (
        Tightening("work", "a", "room", margin=3.9),
        Tightening("work", "a", "room", margin=1.0),
        Tightening("work", "a", "cloud", margin=99.0),
        Tightening("work", "a", "room", margin=99.0, spot=True),
        Tightening("other", "a", "room", margin=99.0),
        # A pair of which one class is not sent there, from either side.
        Tightening("work", "a", "room", margin=99.0, beside="other"),
        Tightening("other", "a", "room", margin=99.0, beside="work"),
    )
    assert verify_plan(problem(tightening=fits), SOUND) == []
    room = account(problem(tightening=fits), SOUND).room
    assert room == {(("s", 0, 0), "a", "room", False): pytest.approx(11.9, rel=1e-3)}


def test_the_margin_of_a_pair_counts_where_both_are_sent():
    """Of the other class next to nothing comes, in the same quarter; no job waits for its room."""
    both = replace(SOUND, shares=(SHARE, replace(SHARE, job_class="other", jobs_per_hour=1e-4)))
    alone = account(problem(), both).room
    for one, other in (("work", "other"), ("other", "work")):
        pair = (Tightening(one, "a", "room", margin=2.5, beside=other),)
        room = account(problem(tightening=pair), both).room
        assert {key: gpus - alone[key] for key, gpus in room.items()} == {
            (("s", 0, 0), "a", "room", False): pytest.approx(2.5)
        }


def test_rented_hosts_are_busy_before_owned_ones():
    rental = Rental("s", 0, 0, "rent", "room", 1.0)
    with_rent = account(problem(), replace(SOUND, rentals=(rental,)))
    alone = account(problem(), SOUND)
    assert alone.costs.energy - with_rent.costs.energy == pytest.approx(4 * 0.25 * 2 * 10 * 0.25)
    assert with_rent.costs.on_demand == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("plan", "changes", "code"),
    [
        (replace(SOUND, orders=(Order("bye", "room", 0, 3),)), {}, "unknown"),
        (replace(SOUND, orders=(Order("buy", "rom", 0, 3),)), {}, "unknown"),
        (replace(SOUND, orders=(Order("buy", "room", 1, 3),)), {}, "unknown"),
        (replace(SOUND, shares=(replace(SHARE, scenario="x"),)), {}, "unknown"),
        (replace(SOUND, shares=(replace(SHARE, band=1),)), {}, "unknown"),
        (replace(SOUND, shares=(replace(SHARE, option=2),)), {}, "unknown"),
        (replace(SOUND, shares=(replace(SHARE, job_class="x"),)), {}, "unknown"),
        (replace(SOUND, waived=("x",)), {}, "unknown"),
        (replace(SOUND, orders=(Order("buy", "room", 0, 4),)), {}, "most_hosts"),
        (replace(SOUND, orders=(*SOUND.orders, Order("buy", "room", 0, -1))), {}, "count"),
        (replace(SOUND, orders=(*SOUND.orders, Order("buy", "cloud", 0, 1))), {}, "not_offered"),
        (replace(SOUND, orders=(*SOUND.orders, Order("rent", "room", 0, 1))), {}, "not_offered"),
        (SOUND, {"sites": (Site("room", rack_units=5.0), Site("cloud"))}, "rack_units"),
        (SOUND, {"sites": (Site("room", ports=2.0), Site("cloud"))}, "ports"),
        (SOUND, {"sites": (Site("room", power_kw=4.0), Site("cloud"))}, "power_kw"),
        (replace(SOUND, rentals=(Rental("s", 0, 0, "rent", "room", 2.1),)), {}, "most_hosts"),
        (replace(SOUND, rentals=(Rental("s", 0, 0, "spot", "cloud", 1.1),)), {}, "most_hosts"),
        (replace(SOUND, rentals=(Rental("s", 0, 0, "spot", "room", 1.0),)), {}, "not_offered"),
        (replace(SOUND, rentals=(Rental("s", 0, 0, "rent", "room", -1.0),)), {}, "count"),
        (replace(SOUND, shares=(replace(SHARE, jobs_per_hour=1.9),)), {}, "demand"),
        (replace(SOUND, shares=(replace(SHARE, jobs_per_hour=float("nan")),)), {}, "rate"),
        (replace(SOUND, orders=(Order("buy", "room", 0, 1),)), {}, "room"),
        (SOUND, {"failures": 2}, "room"),
        (SOUND, {"tightening": (Tightening("work", "a", "room", margin=4.1),)}, "room"),
        (SOUND, {"tightening": (Tightening("work", "a", "room", factor=1.6),)}, "room"),
        (SOUND, {"utilisation": 0.5}, "room"),
        (replace(SOUND, shares=(SHARE, replace(SHARE, site="cloud", jobs_per_hour=0.0))), {},
         "residency"),
        (replace(SOUND, shares=(SHARE, replace(SHARE, spot=True, jobs_per_hour=0.0))), {},
         "interruptible"),
        (SOUND, {"carbon_caps_kg": (34.0,)}, "carbon"),
        (SOUND, {"budget": 320.0}, "budget"),
        (SOUND, {"quarter_budgets": (320.0,)}, "budget"),
        (replace(SOUND, waived=("s",)), {}, "epsilon"),
        (replace(SOUND, unserved=(Unserved("s", 0, 0, "work", 0.5),)), {}, "not_waived"),
        (replace(SOUND, waived=("s",), unserved=(Unserved("s", 0, None, "other", 0.5),)),
         {}, "critical"),
        (replace(SOUND, unserved=(Unserved("s", 0, 0, "other", 0.0),)), {}, "band"),
    ],
)  # fmt: skip
def test_a_broken_limit_is_found(plan, changes, code):
    assert code in codes(verify_plan(problem(**changes), plan))


def test_an_option_slower_than_the_goal_is_found():
    job_class = replace(problem().classes[0], goal=ServiceGoal("jct", 5.0, None))
    strict = problem(classes=(job_class, problem().classes[1]))
    plan = replace(SOUND, shares=(replace(SHARE, option=1),))
    assert "goal" in codes(verify_plan(strict, plan))


def test_deferrable_work_is_served_on_the_mean():
    """Work of a deferrable class in one band of two counts with that band's share of the hours."""
    day = tuple(0.1 + 0.2 * (hour < 6) for hour in range(24))
    other = (Scenario("s", 1.0, {"work": (0.0,), "other": (1.0,)}),)
    two = problem(sites=(Site("room", energy_price_per_kwh=day), Site("cloud")), scenarios=other)
    order = (Order("buy", "room", 0, 2),)
    cheap = Share("s", 0, 1, "other", 0, "room", False, 4 / 3)
    assert verify_plan(two, Plan(order, shares=(cheap,))) == []
    short = replace(cheap, jobs_per_hour=1.3)
    assert codes(verify_plan(two, Plan(order, shares=(short,)))) == ["demand"]


def test_spare_hosts_are_as_large_as_the_largest_counted():
    """Leaving one large host out of account can pay: then the spare may be a small one."""
    big = HostOffer("big", HostType("sixteen", 16, "a"), "purchase", 1.0)
    mixed = problem(offers=(*problem().offers, big), failures=1)
    one = account(mixed, Plan((Order("buy", "room", 0, 3), Order("big", "room", 0, 1))))
    assert one.usable["a", "room"].tolist() == [12.0]
    usable = usable_gpus(mixed, {("buy", "room"): one.hosts["buy", "room"]})
    assert usable["a", "room"].tolist() == [8.0]
    single = account(mixed, Plan((Order("buy", "room", 0, 1),)))
    assert single.usable["a", "room"].tolist() == [0.0]


def test_owned_hosts_serve_until_they_retire():
    owned = problem(
        num_quarters=2,
        scenarios=(Scenario("s", 1.0, {"work": (2.0, 0.0), "other": (0.0, 0.0)}),),
        owned=(Owned("buy", "room", 3, 1),),
    )
    assert verify_plan(owned, Plan((), shares=(SHARE,))) == []
    assert account(owned, Plan(())).costs.maintenance == pytest.approx(6.0)


def certified(cost: float, bound: float, fingerprint: str) -> Certificate:
    return Certificate(
        "feasible", cost, bound, "min", "cost", "right_sizing", "t", "t", 0, 1, 0.0, fingerprint
    )


def test_claims_are_recomputed():
    judged = problem()
    costs = account(judged, SOUND).costs
    mark = judged.fingerprint
    result = Result(SOUND, certified(costs.total, 0.0, mark))
    assert check_claims(judged, result, objective) == []
    wrong = replace(result, certificate=certified(costs.total + 1, 0.0, mark))
    assert codes(check_claims(judged, wrong, objective)) == ["objective"]
    lie = replace(result, certificate=certified(costs.total, costs.total + 1, mark))
    assert codes(check_claims(judged, lie, objective)) == ["bound"]
    with pytest.raises(InstanceError, match="the result is for the instance with fingerprint"):
        check_claims(problem(budget=1e6), result, objective)


def test_what_is_missing_of_a_billionth_of_the_demand_is_found() -> None:
    """No room, and no spot hosts, for jobs that need a billionth of a GPU."""
    spot = HostOffer("spot", A, "spot", 8.0, ("cloud",), 2)
    batch = JobClass("batch", (JobOption("a", 1, 2.0),), interruptible=True)
    scenario = Scenario("only", 1.0, {"batch": (1e-9,)}, (0.0,))
    little = PlanningProblem(
        "little", "EUR", 1, (spot,), (Site("cloud"),), (batch,), (scenario,), bands=1
    )
    jobs = Share("only", 0, 0, "batch", 0, "cloud", True, 1e-9)
    nowhere = verify_plan(little, Plan((), (), (), (jobs,), ()))
    assert [violation.code for violation in nowhere] == ["room"]
    rental = Rental("only", 0, 0, "spot", "cloud", 1e-8)
    rented = verify_plan(little, Plan((), (), (rental,), (jobs,), ()))
    assert [violation.code for violation in rented] == ["most_hosts"]


@pytest.mark.parametrize("factor", [1e-9, 1e-4, 1.0, 1e5, 1e12])
def test_budgets_and_caps_are_checked_in_proportion(factor: float) -> None:
    """A thousandth over is found in any currency and of little carbon; a billionth is rounding."""
    base = with_money(problem(), factor)
    grid = tuple(
        replace(s, carbon_kg_per_kwh=tuple(min(factor, 1.0) * c for c in s.carbon_kg_per_kwh))
        for s in base.sites
    )
    base, plan = replace(base, sites=grid), SOUND
    totals = account(base, plan)
    spent, mass = float(totals.spent.sum()), float(totals.carbon_kg.max())
    assert min(spent, mass) > 0
    for part, expected in ((1 - 1e-3, ["budget", "carbon"]), (1 - 1e-9, [])):
        limited = replace(base, budget=part * spent, carbon_caps_kg=(part * mass,))
        assert sorted(codes(verify_plan(limited, plan))) == expected
    nothing = replace(base, budget=0.0, carbon_caps_kg=(0.0,))
    assert sorted(codes(verify_plan(nothing, plan))) == ["budget", "carbon"]
