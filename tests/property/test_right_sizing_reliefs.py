"""Reliefs of right-sizing: every way out is enough, and with less of it there is no plan."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from planning_strategies import problems, some

from alloc.errors import InstanceError
from alloc.problems.right_sizing import PlanningProblem
from alloc.problems.right_sizing.repairs import apply_repairs
from alloc.result import Limits, Repair
from alloc.solving.right_sizing.method import right_size

METHODS = ("extensive", "decomposition")


@st.composite
def tight_problems(draw) -> PlanningProblem:
    """Problems that often have no plan: few hosts to rent, scarce space, money and carbon."""
    problem = draw(problems())
    offers = tuple(
        replace(offer, most_hosts=draw(some(0, 1, 2))) if offer.is_hourly else offer
        for offer in problem.offers
    )
    east = replace(
        problem.sites[0],
        rack_units=draw(some(None, 0.0, 3.0, 4.5)),
        ports=draw(some(None, 1.0)),
        power_kw=draw(some(None, 0.7)),
    )
    return problem.replace(
        offers=offers,
        sites=(east, *problem.sites[1:]),
        budget=draw(some(None, None, 3.0, 60.0)),
        quarter_budgets=draw(some((), (), (5.0,) * problem.num_quarters)),
        carbon_caps_kg=draw(some((), (), (1.0,) * problem.num_quarters)),
    )


def ways(reliefs: tuple[Repair, ...]) -> list[list[Repair]]:
    numbers = dict.fromkeys(relief.option for relief in reliefs)
    return [[relief for relief in reliefs if relief.option == way] for way in numbers]


def status(problem: PlanningProblem, method: Any = "auto") -> str:
    return right_size(problem, method=method, limits=Limits(seconds=20, gap=0.5)).certificate.status


@pytest.mark.long
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
)
@given(st.data())
def test_every_way_out_is_enough_and_less_of_it_is_not(data):
    try:
        problem = data.draw(tight_problems())
        result = right_size(problem, limits=Limits(seconds=20, gap=0.5))
    except InstanceError:
        # Drawn so that no offer can serve a class.
        assume(False)
        raise
    assume(result.certificate.status == "infeasible")
    assert '""' not in result.conflict
    assert "of  on" not in result.conflict
    for way in ways(result.repairs):
        assert all(relief.sentence in "; and ".join(result.repair_options) for relief in way)
        for method in METHODS:
            assert status(apply_repairs(problem, way), method) in ("optimal", "feasible"), way
        for left_out in way if way[0].least else ():
            others = [relief for relief in way if relief is not left_out]
            if left_out.kind != "goal":
                others.append(replace(left_out, amount=0.98 * left_out.amount))
            if len(way) == 1 or left_out.kind == "goal":
                assert status(apply_repairs(problem, others)) == "infeasible", left_out
