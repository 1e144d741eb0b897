"""Right-sizing: brute force, the Pyomo model, the arrays and the decomposition say the same."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from planning_strategies import problems, some, with_demand, with_money
from sizing_oracle import brute_force

from alloc.backends import SolverOptions, pyomo_highs
from alloc.errors import InstanceError
from alloc.formulation import PyomoModel
from alloc.models.right_sizing.pyomo_model import pyomo_model
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
from alloc.solving.right_sizing.method import right_size
from alloc.topology import HostType
from alloc.verification.claims import check_claims
from alloc.verification.right_sizing import objective, verify_plan

GAP = 1e-6
CHECKS = (HealthCheck.too_slow, HealthCheck.filter_too_much)


def by_pyomo(problem: PlanningProblem) -> float | None:
    model = PyomoModel(pyomo_model(problem), (), "min")
    raw = pyomo_highs.solve(model, SolverOptions(60.0, gap=GAP / 10))
    return raw.objective if raw.status != "infeasible" else None


def drawn(problem):
    """Half of what is drawn contradicts itself (a class that no offer serves): leave that out."""
    try:
        return problem()
    except InstanceError:
        assume(False)


@pytest.mark.long
@settings(max_examples=60, deadline=None, suppress_health_check=CHECKS)
@given(st.data())
def test_all_models_and_methods_agree(data):
    problem = drawn(lambda: data.draw(problems()))
    expected = by_pyomo(problem)
    for method in ("extensive", "decomposition"):
        result = right_size(problem, method=method, limits=Limits(seconds=30, gap=GAP))
        certificate = result.certificate
        if expected is None:
            assert certificate.status == "infeasible"
            assert result.conflict
            continue
        assert certificate.objective == pytest.approx(expected, rel=1e-5, abs=1e-4)
        assert certificate.bound <= expected + 1e-5 * max(1.0, abs(expected))
        assert certificate.gap <= 2 * GAP or certificate.objective == pytest.approx(0, abs=1e-6)
        assert verify_plan(problem, result.solution) == []
        assert check_claims(problem, result, objective) == []


# Brute force --------------------------------------------------------------------------------------


@st.composite
def simple_problems(draw) -> PlanningProblem:
    """One class, equal prices at all hours: work goes where it is cheapest, in order of price."""
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
        hourly_profile=draw(some((1.0,), (0.5,) * 8 + (1.25,) * 16, (0.0,) * 12 + (2.0,) * 12)),
    )
    num_bands = len(set(job_class.hourly_profile))

    def kept(gpu_type: str, site: str, gpus: float, spot: bool = False) -> Tightening:
        parts = draw(some((), (1.0, 0.5), (0.25, 1.0), (0.0, 1.0), (1.0, 0.0)))
        bands = parts if gpus and num_bands == 2 else ()
        return Tightening("work", gpu_type, site, margin=gpus, spot=spot, bands=bands)

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
            kept("a", "east", draw(some(0.0, 0.5, 1.5))),
            kept("b", "cloud", draw(some(0.0, 1.0))),
            kept("a", "cloud", draw(some(0.0, 0.5)), spot=True),
        ),
    )


@pytest.mark.long
@pytest.mark.parametrize("demand", [1e-9, 1e-6, 1e-3])
@settings(max_examples=6, deadline=None, suppress_health_check=CHECKS)
@given(simple_problems(), some(1e-9, 1.0, 1e12))
def test_the_optimum_is_that_of_brute_force_however_little_there_is(demand, problem, money):
    """A host serves a billion times what is asked for, or all of it is rented."""
    little = with_money(with_demand(problem, demand), money)
    expected = brute_force(little, money)
    for method in ("extensive", "decomposition"):
        result = right_size(little, method=method, limits=Limits(seconds=30, gap=GAP))
        assert verify_plan(little, result.solution) == []
        assert result.certificate.objective == pytest.approx(expected, rel=1e-5, abs=0.0)
        assert result.certificate.bound <= expected * (1 + 1e-6)


@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=CHECKS)
@given(simple_problems())
def test_the_optimum_is_that_of_brute_force(problem):
    expected = brute_force(problem)
    for method in ("extensive", "decomposition"):
        result = right_size(problem, method=method, limits=Limits(seconds=30, gap=GAP))
        assert result.certificate.objective == pytest.approx(expected, rel=1e-5, abs=1e-6)
        assert result.certificate.bound <= expected * (1 + 1e-6) + 1e-6
