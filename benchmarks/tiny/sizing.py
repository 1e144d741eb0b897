"""F7: every order of hosts, every scenario to waive and every place to send jobs to."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from sizing_oracle import brute_force

from alloc.families import verify
from alloc.problems.right_sizing import (
    HostOffer,
    JobClass,
    JobOption,
    PlanningProblem,
    Scenario,
    ServiceGoal,
    Site,
    Tightening,
)
from alloc.result import Limits
from alloc.solving import solve as solve_problem
from alloc.topology import HostType
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result

_GAP = 1e-6


def make(rng: Random, scaled: bool, large: bool) -> PlanningProblem:
    """Return one class without bands: then work goes where it is cheapest, in order of price."""
    money = rng.choice(SCALES) if scaled else 1.0
    quarters = rng.randint(3, 6) if large else rng.randint(1, 2)
    buy = HostOffer(
        "buy",
        HostType("own", rng.choice((1, 2)), "a"),
        "purchase",
        money * rng.randint(2, 12),
        ("east",),
        rng.choice((2, 3)),
        lead_time_quarters=rng.choice((0, 1)),
        service_quarters=rng.choice((1, 5)),
        residual_fraction=rng.choice((0.0, 0.6)),
        maintenance_per_quarter=money * 0.25,
        idle_kw=0.1,
        busy_kw=0.4,
        rack_units=1.0,
    )
    rent = HostOffer("rent", HostType("rented", 2, "b"), "on_demand", money * 0.1, ("cloud",))
    spot = HostOffer("spot", HostType("rented", 1, "a"), "spot", money * 0.01, ("cloud",), 2)
    job_class = JobClass(
        "work",
        (JobOption("a", 1, 2.0), JobOption("b", 1, 1.0)),
        rng.choice((None, ServiceGoal("wait", 2.0))),
        interruptible=rng.random() < 0.5,
        spot_overhead=0.5,
        loss_per_job=money * rng.choice((0.0, 0.2)),
    )
    scenarios = tuple(
        Scenario(name, 0.5, {"work": tuple(rng.choice((0.25, 1.0, 2.0)) for _ in range(quarters))})
        for name in ("low", "high")
    )
    return PlanningProblem(
        "simple",
        "EUR",
        quarters,
        (buy, rent, spot),
        (
            Site("east", rack_units=3.0, pue=1.2, energy_price_per_kwh=(money * 0.2,)),
            Site("cloud"),
        ),
        (job_class,),
        scenarios,
        quarter_hours=100.0,
        discount_rate=0.05,
        failures=rng.choice((0, 1)),
        epsilon=rng.choice((0.0, 0.5)),
        tightening=tuple(
            # In every quarter, or in one only.
            replace(part, quarter=rng.choice((None, 0, quarters - 1)))
            for part in (
                Tightening("work", "a", "east", margin=rng.choice((0.0, 0.5, 1.5))),
                Tightening("work", "b", "cloud", margin=rng.choice((0.0, 1.0))),
                Tightening("work", "a", "cloud", margin=rng.choice((0.0, 0.5)), spot=True),
            )
        ),
    )


def truth(problem: PlanningProblem) -> Truth:
    """Try every order; the oracle knows prices in their own unit only, so they are taken out."""
    money = problem.offers[1].price / 0.1
    return Truth((brute_force(problem, money),), size=money)


def solve(problem: PlanningProblem, way: str, seconds: float) -> Answer:
    """Plan by the methods of its own, or by a general solver on the extensive form."""
    result = solve_problem(problem, backend=way, limits=Limits(seconds=seconds, gap=_GAP))
    return of_result(result, [] if result.solution is None else verify(problem, result.solution))


WAYS = ("auto", "extensive", "decomposition", "highs", "pyomo")
SIZING = Family("sizing", make, WAYS, truth, solve)
