"""Right-sizing, metamorphic: what must happen to the cost when the problem is changed."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from planning_strategies import offers, problems, with_money

from alloc.errors import InstanceError
from alloc.problems.right_sizing import HostOffer, PlanningProblem, Site
from alloc.problems.right_sizing.headroom import reference_gpus
from alloc.result import Limits
from alloc.solving.right_sizing.method import right_size
from alloc.topology import HostType
from alloc.verification.claims import check_claims
from alloc.verification.right_sizing import objective, verify_plan

GAP = 1e-7
CHECKS = (HealthCheck.too_slow, HealthCheck.filter_too_much)
few = settings(max_examples=25, deadline=None, suppress_health_check=CHECKS)


def draw_problem(data) -> PlanningProblem:
    try:
        return data.draw(problems())
    except InstanceError:
        assume(False)
        raise


def cost(problem: PlanningProblem) -> float:
    """Return the optimum, infinite if there is no plan."""
    certificate = right_size(
        problem, limits=Limits(seconds=30, gap=GAP), method="extensive"
    ).certificate
    return float("inf") if certificate.objective is None else certificate.objective


def near(value: float):
    return pytest.approx(value, rel=1e-5, abs=1e-3)


@pytest.mark.long
@few
@given(st.data())
def test_the_order_of_parts_makes_no_difference(data):
    problem = draw_problem(data)
    turned = replace(
        problem,
        offers=problem.offers[::-1],
        sites=problem.sites[::-1],
        classes=problem.classes[::-1],
        scenarios=problem.scenarios[::-1],
        owned=problem.owned[::-1],
    )
    assert cost(turned) == near(cost(problem))


@pytest.mark.long
@few
@given(st.data(), st.sampled_from((1e-3, 1e3)))
def test_another_unit_of_money_changes_money_only(data, unit):
    problem = draw_problem(data)
    assert cost(with_money(problem, unit)) / unit == near(cost(problem))


@pytest.mark.long
@few
@given(st.data())
def test_one_more_offer_never_costs_more(data):
    problem = draw_problem(data)
    more = replace(problem, offers=(*problem.offers, data.draw(offers("another"))))
    before = cost(problem)
    assert cost(more) <= before * (1 + 1e-5) + 1e-3


@pytest.mark.long
@few
@given(st.data())
def test_wider_limits_never_cost_more(data):
    problem = draw_problem(data)
    wider = replace(
        problem,
        budget=None if problem.budget is None else 2 * problem.budget,
        quarter_budgets=tuple(2 * b for b in problem.quarter_budgets),
        carbon_caps_kg=tuple(2 * b for b in problem.carbon_caps_kg),
        sites=tuple(
            replace(
                s,
                rack_units=None if s.rack_units is None else 2 * s.rack_units,
                power_kw=None,
            )
            for s in problem.sites
        ),
        failures=0,
    )
    assert cost(wider) <= cost(problem) * (1 + 1e-5) + 1e-3


@pytest.mark.long
@few
@given(st.data())
def test_less_work_never_costs_more(data):
    """In pools taken to be as large as before, since smaller ones would need more headroom."""
    problem = draw_problem(data)
    assume(reference_gpus(problem) > 0)
    fixed = replace(problem, pool_gpus=reference_gpus(problem))
    less = replace(
        fixed,
        scenarios=tuple(
            replace(
                s,
                arrivals={c: tuple(0.5 * a for a in series) for c, series in s.arrivals.items()},
            )
            for s in fixed.scenarios
        ),
    )
    # With waived scenarios, less work also means less that a loss is paid for: still not dearer.
    assert cost(less) <= cost(fixed) * (1 + 1e-5) + 1e-3


@pytest.mark.long
@few
@given(st.data())
def test_a_future_told_twice_with_half_the_chance_is_the_same_future(data):
    """With a chance constraint one half can be waived by itself: then it may be cheaper."""
    problem = draw_problem(data)
    first, *others = problem.scenarios
    half = replace(first, probability=first.probability / 2)
    twice = replace(problem, scenarios=(half, replace(half, name="again"), *others))
    before, after = cost(problem), cost(twice)
    assert after == near(before) if not problem.epsilon else after <= before * (1 + 1e-5) + 1e-3


@pytest.mark.long
@few
@given(st.data())
def test_more_spares_cost_no_less_and_more_chances_no_more(data):
    problem = draw_problem(data)
    before = cost(problem)
    assert cost(replace(problem, failures=problem.failures + 1)) >= before * (1 - 1e-5) - 1e-3
    wider = min(problem.epsilon + 0.5, 0.99)
    assert cost(replace(problem, epsilon=wider)) <= before * (1 + 1e-5) + 1e-3


@pytest.mark.long
@few
@given(st.data())
def test_what_nobody_uses_makes_no_difference(data):
    """A GPU type that no class runs on, a class without jobs, a site where nothing can stand."""
    drawn = draw_problem(data)
    problem = replace(drawn, pool_gpus=reference_gpus(drawn) or 1.0)
    names = tuple(site.name for site in problem.sites)
    idle = replace(problem.classes[0], name="idle")
    none = (0.0,) * problem.num_quarters
    wider = replace(
        problem,
        sites=(*problem.sites, Site("nowhere")),
        offers=(
            *(replace(offer, sites=offer.sites or names) for offer in problem.offers),
            HostOffer("odd", HostType("odd", 8, "odd"), "purchase", 1.0),
        ),
        classes=(*problem.classes, idle),
        scenarios=tuple(
            replace(s, arrivals={**s.arrivals, "idle": none}) for s in problem.scenarios
        ),
    )
    assert cost(wider) == near(cost(problem))


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=CHECKS)
@given(st.data())
def test_no_bound_is_ever_on_the_wrong_side(data):
    """Bounds of a search that is cut short, against the optimum of the other method."""
    problem = draw_problem(data)
    optimum = cost(problem)
    for gap in (0.2, 1e-3):
        result = right_size(problem, method="decomposition", limits=Limits(seconds=20, gap=gap))
        assert result.certificate.bound <= optimum * (1 + 1e-6) + 1e-4
        if result.solution is not None:
            assert result.certificate.objective >= optimum * (1 - 1e-6) - 1e-4
            assert verify_plan(problem, result.solution) == []
            assert check_claims(problem, result, objective) == []
