"""Right-sizing: brute force, the whiteboard, the arrays and the decomposition say the same."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from planning_strategies import problems, some

from alloc.backends import SolverOptions, pyomo_highs
from alloc.capacity import (
    HostOffer,
    JobClass,
    JobOption,
    PlanningProblem,
    Scenario,
    ServiceGoal,
    Site,
    Tightening,
)
from alloc.capacity.headroom import headroom, reference_gpus
from alloc.errors import InstanceError
from alloc.formulation import PyomoModel
from alloc.models.right_sizing import pyomo_model
from alloc.solving.capacity.right_sizing import right_size
from alloc.topology import HostType
from alloc.verification.plan import check_plan_claims, verify_plan

GAP = 1e-6
CHECKS = (HealthCheck.too_slow, HealthCheck.filter_too_much)


def whiteboard(problem: PlanningProblem) -> float | None:
    model = PyomoModel(pyomo_model(problem), (), "min")
    raw = pyomo_highs.solve(model, SolverOptions(60.0, gap=GAP / 10))
    return raw.objective if raw.status != "infeasible" else None


def drawn(problem):
    """Half of what is drawn contradicts itself (a class that no offer serves): leave that out."""
    try:
        return problem()
    except InstanceError:
        assume(False)


@settings(max_examples=60, deadline=None, suppress_health_check=CHECKS)
@given(st.data())
def test_all_drawings_and_methods_agree(data):
    problem = drawn(lambda: data.draw(problems()))
    expected = whiteboard(problem)
    for method in ("extensive", "decomposition"):
        result = right_size(problem, method=method, gap=GAP, time_limit_s=30)
        certificate = result.certificate
        if expected is None:
            assert certificate.status == "infeasible"
            assert result.conflict
            continue
        assert certificate.objective == pytest.approx(expected, rel=1e-5, abs=1e-4)
        assert certificate.bound <= expected + 1e-5 * max(1.0, abs(expected))
        assert certificate.gap <= 2 * GAP or certificate.objective == pytest.approx(0, abs=1e-6)
        assert verify_plan(problem, result.plan) == []
        assert check_plan_claims(problem, result) == []


# Brute force --------------------------------------------------------------------------------------


@st.composite
def simple_problems(draw) -> PlanningProblem:
    """One class and no band: then work goes where it is cheapest, in order of price."""
    size = draw(some(1, 2))
    quarters = draw(st.integers(1, 2))
    own = HostType("own", size, "a")
    buy = HostOffer(
        "buy",
        own,
        "purchase",
        float(draw(st.integers(2, 12))),
        ("east",),
        draw(some(2, 3)),
        lead_time_quarters=draw(some(0, 1)),
        service_quarters=draw(some(1, 5)),
        residual_fraction=draw(some(0.0, 0.6)),
        maintenance_per_quarter=0.25,
        idle_kw=0.1,
        busy_kw=0.4,
        rack_units=1.0,
    )
    rent = HostOffer("rent", HostType("rented", 2, "b"), "on_demand", 0.1, ("cloud",))
    spot = HostOffer("spot", HostType("rented", 1, "a"), "spot", 0.01, ("cloud",), 2)
    job_class = JobClass(
        "work",
        (JobOption("a", 1, 2.0), JobOption("b", 1, 1.0)),
        draw(some(None, ServiceGoal("wait", 2.0))),
        interruptible=draw(st.booleans()),
        spot_overhead=0.5,
        loss_per_job=draw(some(0.0, 0.2)),
    )
    names = ("low", "high")
    scenarios = tuple(
        Scenario(name, 0.5, {"work": tuple(draw(some(0.25, 1.0, 2.0)) for _ in range(quarters))})
        for name in names
    )
    return PlanningProblem(
        "simple",
        "EUR",
        quarters,
        (buy, rent, spot),
        (Site("east", rack_units=3.0, pue=1.2, energy_price_per_kwh=(0.2,)), Site("cloud")),
        (job_class,),
        scenarios,
        quarter_hours=100.0,
        discount_rate=0.05,
        failures=draw(some(0, 1)),
        epsilon=draw(some(0.0, 0.5)),
        tightening=(
            Tightening("work", "a", "east", margin=draw(some(0.0, 0.5, 1.5))),
            Tightening("work", "b", "cloud", margin=draw(some(0.0, 1.0))),
            Tightening("work", "a", "cloud", margin=draw(some(0.0, 0.5)), spot=True),
        ),
    )


def brute_force(problem: PlanningProblem) -> float:
    """Try all orders, all scenarios to waive, and in each quarter all places to send jobs to."""
    buy = problem.offers[0]
    best = math.inf
    counts = range(buy.most_hosts + 1)
    waivable = [set()] if problem.epsilon < 0.5 else [set(), {"low"}, {"high"}]
    for orders in itertools.product(counts, repeat=problem.num_quarters):
        hosts = [
            sum(
                n
                for q, n in enumerate(orders)
                if q + buy.lead_time_quarters
                <= t
                < q + buy.lead_time_quarters + buy.service_quarters
            )
            for t in range(problem.num_quarters)
        ]
        if max(hosts) > problem.sites[0].rack_units:
            continue
        if any(
            n and q + buy.lead_time_quarters >= problem.num_quarters for q, n in enumerate(orders)
        ):
            continue
        fixed = 0.0
        for t, n in enumerate(hosts):
            idle = n * 0.1 * 1.2 * 0.2 * problem.quarter_hours
            money = orders[t] * buy.price + n * 0.25 + idle
            fixed += problem.discount(t) * money
            end = t + buy.lead_time_quarters + buy.service_quarters
            share = min(max(end - problem.num_quarters, 0) / buy.service_quarters, 1.0)
            worth = orders[t] * buy.price * buy.residual_fraction * share
            fixed -= problem.discount(problem.num_quarters) * worth
        for waived in waivable:
            running = sum(
                problem.discount(t)
                * min(
                    sum(
                        0.5 * serve(problem, s, t, n, s.name in waived, sent)
                        for s in problem.scenarios
                    )
                    for sent in itertools.product((False, True), repeat=3)
                )
                for t, n in enumerate(hosts)
            )
            best = min(best, fixed + running)
    return best


def serve(
    problem: PlanningProblem, scenario, quarter: int, hosts: int, waived: bool, sent
) -> float:
    """Return the money for a quarter: sources in order of their price per job.

    `sent` says whether jobs are sent to own hosts, to rented ones, to spot hosts: each keeps its
    margin in a quarter in which they are.
    """
    job_class, gpus = problem.classes[0], reference_gpus(problem)
    hours = problem.quarter_hours
    left = scenario.arrivals["work"][quarter]

    def room(option, spot=False):
        return headroom(problem, job_class, option, gpus, spot)

    usable = max(hosts - problem.failures, 0) * problem.offers[0].gpus
    busy_kwh = 0.3 / problem.offers[0].gpus * 1.2 * 0.2
    own, rented, spot = (part.margin for part in problem.tightening)
    sources, total = [], 0.0
    if sent[0]:
        if usable < own:
            return math.inf
        sources.append((2.0 * busy_kwh, (usable - own) / room(0) / 2.0))
    if sent[1]:
        total += rented / 2 * 0.1 * hours
        sources.append((room(1) / 2 * 0.1, math.inf))
    if sent[2] and job_class.interruptible:
        total += spot * 0.01 * hours
        sources.append((3.0 * room(0, True) * 0.01, (2.0 - spot) / room(0, True) / 3.0))
    if waived:
        sources.append((job_class.loss_per_job, math.inf))
    for price, most in sorted(sources):
        rate = min(left, most)
        total += rate * price * hours
        left -= rate
    return total if left <= 1e-12 else math.inf


@settings(max_examples=40, deadline=None, suppress_health_check=CHECKS)
@given(simple_problems())
def test_the_optimum_is_that_of_brute_force(problem):
    expected = brute_force(problem)
    for method in ("extensive", "decomposition"):
        result = right_size(problem, method=method, gap=GAP, time_limit_s=30)
        assert result.certificate.objective == pytest.approx(expected, rel=1e-5, abs=1e-6)
        assert result.certificate.bound <= expected * (1 + 1e-6) + 1e-6
