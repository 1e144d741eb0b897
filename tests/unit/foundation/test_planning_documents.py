"""Planning documents: what is written is read again, and mistakes are named with their place."""

import json

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from planning_strategies import problems

from alloc.certificate import Certificate
from alloc.documents.reading import load
from alloc.errors import InstanceError
from alloc.instances.planning import generate_planning
from alloc.problems.right_sizing import (
    Order,
    Plan,
    PlanningProblem,
    Rental,
    Share,
    Tightening,
    Unserved,
)
from alloc.result import Repair, Result, Sensitivity


def generated() -> PlanningProblem:
    return generate_planning("written", num_classes=3, num_scenarios=2, seed=1)


@settings(max_examples=40, deadline=None, suppress_health_check=(HealthCheck.filter_too_much,))
@given(st.data())
def test_a_problem_survives_its_document(data):
    try:
        problem = data.draw(problems())
    except InstanceError:
        assume(False)
    again = PlanningProblem.from_json(problem.to_json())
    assert again == problem
    assert again.fingerprint == problem.fingerprint


def test_files_are_read_again(tmp_path):
    problem = generated().replace(tightening=(Tightening("vision-1", "a100", "room-1", 1.5),))
    problem.to_json(tmp_path / "problem.json")
    assert PlanningProblem.load(tmp_path / "problem.json") == problem
    assert load(tmp_path / "problem.json") == problem


def test_a_description_is_not_part_of_the_problem():
    problem = generated()
    assert problem.replace(description={"by": "me"}).fingerprint == problem.fingerprint
    assert problem.replace(bands=5).fingerprint != problem.fingerprint


def test_a_plan_and_its_result_survive_their_documents(tmp_path):
    plan = Plan(
        (Order("buy", "room", 0, 3),),
        ("bad luck",),
        (Rental("s", 0, 0, "rent", "room", 0.5),),
        (Share("s", 0, 0, "work", 0, "room", False, 2.0),),
        (Unserved("bad luck", 0, None, "work", 1.0), Unserved("bad luck", 0, 1, "work", 1.0)),
    )
    assert Plan.from_json(plan.to_json(tmp_path / "plan.json")) == plan
    assert load(tmp_path / "plan.json") == plan
    certificate = Certificate(
        "feasible", 2.0, -float("inf"), "min", "cost", "right_sizing", "b", "1", 0, 1, 1.0, "f"
    )
    result = Result(
        plan,
        certificate,
        sensitivities=(Sensitivity("budget", "", 1.0, "EUR", -0.1, lower=-0.2),),
        assumptions=("All is well.",),
        log=("1 s",),
    )
    assert Result.from_json(result.to_json(tmp_path / "result.json")) == result
    assert load(tmp_path / "result.json") == result
    hopeless = Result(
        None,
        certificate.replace(status="infeasible", objective=None),
        conflict="no plan serves the forecast.",
        repairs=(Repair("demand", "work", 1.0, "jobs/h", "too much", "s", 0, least=True),),
    )
    assert Result.from_json(hopeless.to_json()) == hopeless


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("currrency",), "EUR", 'unknown field "currrency"; did you mean "currency"'),
        (("offers", 0, "pricee"), 1, r'offer "buy a100": unknown field "pricee"; did you mean'),
        (("offers", 0, "host", "gpus"), 8, r'offer "buy a100", host: unknown field "gpus"'),
        (("offers", 0, "terms"), "spott", r'terms is "spott", which is unknown; did you mean'),
        (("offers", 0, "price"), "12", r'price is "12"; give a number without quotes'),
        (("sites", 0, "pue"), 0.5, r'site "room-1": pue is 0.5'),
        (("classes", 0, "options", 0, "hours"), 0, r'job class "vision-1", option on "a100"'),
        (("classes", 0, "options", 0, "hour"), 1, r'"vision-1", options\[0\]: unknown field'),
        (("classes", 1, "goal"), {"measur": "jct"}, r"goal: unknown field"),
        (("scenarios", 0, "arrivals", "vision-1", 1), None, r'arrivals\["vision-1"\]\[1\] is null'),
        (("scenarios", 0, "probability"), 0.1, "sum to 0.6"),
        (("kind",), "instance", "this is an instance, and a planning problem was"),
    ],
)
def test_a_mistake_in_a_document_is_named(path, value, sentence):
    raw = json.loads(generated().to_json())
    inner = raw
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(InstanceError, match=sentence):
        PlanningProblem.from_json(json.dumps(raw))
