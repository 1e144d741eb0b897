"""Right-sizing: what would be enough where a forecast cannot be served."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from planning_worlds import METHODS, without_cloud, world

from alloc.backends import highs
from alloc.errors import SolverError
from alloc.problems.right_sizing import (
    Site,
)
from alloc.result import Limits
from alloc.solving.right_sizing import elastic
from alloc.solving.right_sizing.method import right_size


@pytest.mark.parametrize("method", METHODS)
def test_a_forecast_that_cannot_be_served_says_which_goal_and_by_how_much(method):
    result = right_size(without_cloud(), method=method)
    assert result.certificate.status == "infeasible"
    assert result.solution is None
    assert 'job class "train" (95 % of jobs start within 4 h)' in result.conflict
    assert "cheapest repair" in result.conflict
    kinds = {repair.kind for repair in result.repairs}
    assert {"demand", "rack_units"} <= kinds
    with pytest.raises(Exception, match="there is no solution: no plan serves the forecast"):
        result.require_solution()


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        (world(budget=2e6), "budget"),
        (world(quarter_budgets=(4e6, 1e5)), "budget"),
        (without_cloud(sites=(Site("north", rack_units=300.0, power_kw=100.0), Site("cloud"))),
         "power_kw"),
        (without_cloud(sites=(Site("north", ports=0.0, rack_units=100.0), Site("cloud"))),
         "rack_units"),
        (without_cloud(sites=(Site("north", carbon_kg_per_kwh=(0.3,)), Site("cloud")),
                       carbon_caps_kg=(1e5, 1e3)), "carbon"),
    ],
)  # fmt: skip
def test_repair_by_the_amount_named_is_enough_and_less_is_not(problem, kind):
    """The repair is a promise: with it there is a plan, with 2 % less than it there is none."""
    result = right_size(problem)
    assert result.certificate.status == "infeasible"
    mine = [repair for repair in result.repairs if repair.kind == kind]
    assert mine
    for factor, status in ((1.001, "optimal"), (0.9, "infeasible")):
        amounts = {(r.name, r.quarter): factor * r.amount for r in mine}
        again = right_size(_relieved(problem, kind, amounts), limits=Limits(gap=1e-6))
        assert again.certificate.status == status


@pytest.mark.parametrize("at", ["whole", "every"])
def test_a_failure_of_the_solver_while_repairs_are_looked_for_loses_no_proof(monkeypatch, at):
    """HiGHS ended some elastic programs of numbers far apart with an error of its own."""
    native = highs.solve

    def failing(model, options):
        if at == "every" or model.integer.any():
            raise SolverError('HiGHS stopped with status "Solve error".')
        return native(model, options)

    monkeypatch.setattr(elastic, "highs", SimpleNamespace(solve=failing))
    result = right_size(world(budget=2e6))
    assert result.certificate.status == "infeasible"
    if at == "every":
        assert not [repair for repair in result.repairs if repair.kind == "budget"]
        assert "no plan serves the forecast" in result.conflict
        return
    (repair,) = (repair for repair in result.repairs if repair.kind == "budget")
    amounts = {(repair.name, repair.quarter): repair.amount}
    again = right_size(_relieved(world(budget=2e6), "budget", amounts))
    assert again.certificate.status == "optimal"


def test_the_amount_of_a_repair_is_said_in_full_and_is_enough():
    """Rounded to the nearest in four digits, the sentence named a budget that was too small."""
    result = right_size(world(budget=2e6))
    (sentence,) = (r.sentence for r in result.repairs if r.kind == "budget")
    amount = re.search(r"needs ([\d,]+) more", sentence)
    assert amount, sentence
    more = float(amount[1].replace(",", ""))
    again = right_size(world(budget=2e6 + more), limits=Limits(gap=1e-6))
    assert again.certificate.status == "optimal"


def test_repairs_that_are_needed_together_are_one_way_out():
    sites = (Site("north", rack_units=5.0, ports=0.0, power_kw=1.0), Site("cloud"))
    result = right_size(without_cloud(sites=sites))
    kinds: dict[int, set[str]] = {}
    for repair in result.repairs:
        kinds.setdefault(repair.option, set()).add(repair.kind)
    assert {"rack_units", "power_kw"} <= next(k for k in kinds.values() if "rack_units" in k)
    assert {"demand"} in kinds.values()
    assert len(result.repair_options) == len(kinds)
    assert any("rack units" in way and "; and " in way for way in result.repair_options)


def _relieved(problem, kind, amounts):
    if kind == "budget":
        if problem.budget is not None:
            return problem.replace(budget=problem.budget + sum(amounts.values()))
        return problem.replace(
            quarter_budgets=tuple(
                b + amounts.get(("", t), 0.0) for t, b in enumerate(problem.quarter_budgets)
            )
        )
    if kind == "carbon":
        return problem.replace(
            carbon_caps_kg=tuple(
                b + amounts.get(("", t), 0.0) for t, b in enumerate(problem.carbon_caps_kg)
            )
        )
    more = {name: amount for (name, _), amount in amounts.items()}
    return problem.replace(
        sites=tuple(
            replace(s, **{kind: getattr(s, kind) + more[s.name]}) if s.name in more else s
            for s in problem.sites
        )
    )


def test_a_goal_can_be_the_repair():
    """Where room is all that is missing for the goal, the goal is named as what can be given up."""
    result = right_size(without_cloud(sites=(Site("north", rack_units=162.0), Site("cloud"))))
    assert result.certificate.status == "infeasible"
    goal = next(repair for repair in result.repairs if repair.kind == "goal")
    assert goal.sentence.startswith('the goal of job class "train" is given up (95 % of jobs')
