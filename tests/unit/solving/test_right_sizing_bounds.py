"""Right-sizing: what tolerances of a solver decide is no bound; each method against the other."""

from __future__ import annotations

import math

import pytest
from planning_strategies import with_money

from alloc.problems.right_sizing import (
    HostOffer,
    JobClass,
    JobOption,
    PlanningProblem,
    Scenario,
    Site,
    Tightening,
)
from alloc.result import Limits
from alloc.solving.right_sizing.method import Method, right_size
from alloc.topology import HostType
from alloc.verification.right_sizing import verify_plan

ROUNDING = 1e-6
"""Relative; a plan may go short by as much."""
ONE, FOUR = HostType("one", 1, "b"), HostType("four", 4, "b")
RENT = HostOffer("rent", HostType("host-a", 1, "a"), "on_demand", 0.3)


def dear_beside_cheap(dearer: float) -> PlanningProblem:
    """Return a plan of a trillion jobs an hour in which one offer costs far more than the other."""
    return PlanningProblem(
        "dear hosts",
        "EUR",
        1,
        (
            HostOffer("cheap", FOUR, "purchase", 8.0, ("cloud",), service_quarters=2),
            HostOffer(
                "dear",
                ONE,
                "purchase",
                28.0,
                ("cloud",),
                service_quarters=8,
                maintenance_per_quarter=dearer,
            ),
            RENT,
        ),
        (Site("cloud"),),
        (JobClass("work", (JobOption("a", 1, 3.0), JobOption("b", 4, 2.0))),),
        tuple(Scenario(name, 0.5, {"work": (3e12,)}) for name in ("one", "other")),
        quarter_hours=168.0,
        epsilon=0.5,
    )


def a_margin_of_millions() -> PlanningProblem:
    """Return a plan whose cuts count a margin of two million GPUs beside a billionth of a cost."""
    day_and_night = (1.0,) * 12 + (3.0,) * 12
    return PlanningProblem(
        "margins",
        "EUR",
        2,
        (
            HostOffer(
                "buy",
                FOUR,
                "purchase",
                104.0,
                ("east",),
                service_quarters=2,
                maintenance_per_quarter=0.3,
                busy_kw=0.5,
            ),
            RENT,
        ),
        (Site("east", pue=1.5, energy_price_per_kwh=(0.1,)), Site("cloud")),
        (
            JobClass("flat", (JobOption("a", 2, 3.0),)),
            JobClass(
                "daily",
                (JobOption("b", 4, 2.0), JobOption("a", 4, 0.5)),
                sites=("east",),
                hourly_profile=day_and_night,
            ),
        ),
        (Scenario("only", 1.0, {"flat": (3e6, 3e6), "daily": (5e5, 3e6)}),),
        quarter_hours=168.0,
        failures=1,
        bands=2,
        tightening=(Tightening("daily", "a", "east", margin=2e6, bands=(1.0, 1.0)),),
    )


@pytest.mark.parametrize("money", [1e-9, 1e-6, 1.0, 1e12])
@pytest.mark.parametrize(
    "problem",
    [
        *(dear_beside_cheap(dearer) for dearer in (7.0, 7e4, 7e6, 7e8, 7e10)),
        a_margin_of_millions(),
    ],
)
def test_no_bound_is_above_what_the_other_method_finds(
    problem: PlanningProblem, money: float
) -> None:
    asked = with_money(problem, money)
    limits = Limits(seconds=4, gap=1e-7)
    both = [right_size(asked, limits=limits, method=m) for m in ("extensive", "decomposition")]
    for result in both:
        assert verify_plan(asked, result.solution) == []
    best = min(result.certificate.objective for result in both)
    assert both[0].certificate.status == "optimal"
    for result in both:
        assert result.certificate.bound <= best * (1 + ROUNDING)
        if result.certificate.status == "optimal":
            assert result.certificate.objective <= best * (1 + ROUNDING)


@pytest.mark.parametrize("method", ["extensive", "decomposition"])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e12])
@pytest.mark.parametrize("jobs", [0.5, 3.0, 7.0])
def test_a_budget_of_just_what_is_needed_is_enough(
    jobs: float, unit: float, method: Method
) -> None:
    """HiGHS without presolve refused the quarterly program of such a budget."""
    host = HostType("host", 1, "a")
    hosts = math.ceil(jobs * 3.0 * 2 / 0.95)
    problem = PlanningProblem(
        "just enough",
        "EUR",
        2,
        (
            HostOffer("reserved", host, "reserved", unit, service_quarters=1, ports=1.0),
            HostOffer("rent", host, "on_demand", 0.3 * unit, most_hosts=0),
        ),
        (Site("east", ports=1.0), Site("cloud")),
        (
            JobClass(
                "work",
                (JobOption("a", 2, 3.0), JobOption("b", 1, 0.5)),
                hourly_profile=(1.0,) * 12 + (3.0,) * 12,
                loss_per_job=0.5 * unit,
            ),
        ),
        (Scenario("none", 0.5, {"work": (0.0, 0.0)}), Scenario("some", 0.5, {"work": (0.0, jobs)})),
        quarter_hours=168.0,
        budget=hosts * unit,
        bands=1,
        utilisation=0.95,
    )
    found = right_size(problem, method=method, limits=Limits(seconds=20, gap=0.5))
    assert verify_plan(problem, found.require_solution()) == []
    assert found.certificate.objective == pytest.approx(hosts * unit, rel=1e-6)
