"""Plans over HTTP are those of Python, and what cannot be planned is said in its words."""

import json
import socket
from typing import Any

import pytest

import alloc
from alloc.documents import format_of
from alloc.instances.stored_planning import load_stored_planning
from alloc.planning.fronts import GOAL_FACTORS
from alloc.planning.report import plan
from alloc.server.operations import Limits, operations
from alloc.server.worker import run_job

WAIT = {"Prefer": "wait=60"}


def ask(client, operation, **body):
    """Post a request that waits for its result, and return the response."""
    return client.post(f"/v1/{operation}", json=body, headers=WAIT)


def test_a_plan_of_a_stored_problem_is_that_of_python(shared):
    response = ask(shared, "plan", problem="planning-tiny", gap=1e-6)
    assert response.status_code == 200, response.text
    document = response.json()
    assert document["holds"]
    assert document["replay"] is None
    found = format_of("result").decode(document["result"])
    expected = plan(load_stored_planning("planning-tiny"), limits=alloc.Limits(gap=1e-6))
    assert found.certificate.objective == pytest.approx(expected.result.certificate.objective)
    assert found.certificate.verified


def test_a_document_of_ones_own_is_planned_and_replayed(shared):
    problem = json.loads(load_stored_planning("planning-tiny").to_json())
    response = ask(shared, "plan", problem=problem, replay={"jobs": 50, "rounds": 1})
    assert response.status_code == 200, response.text
    (turn,) = response.json()["replay"]["rounds"]
    assert turn["measured"]


def test_what_ifs_take_text_and_objects(shared):
    changes = ["demand=+20%", {"change": "budget", "amount": None}]
    response = ask(shared, "what-if", problem="planning-tiny", changes=changes)
    assert response.status_code == 200, response.text
    document = response.json()
    assert document["changes"] == ["+20 % all jobs", "no budget"]
    assert document["cost"]["at_least"] > 0


def test_fronts_are_drawn(shared):
    response = ask(shared, "pareto", problem="planning-tiny", axis="energy", points=2)
    assert response.status_code == 200, response.text
    assert [point["result"]["solution"] is not None for point in response.json()["points"]]


def test_a_forecast_that_no_plan_serves_is_a_result_with_its_cure(shared):
    """Infeasible is an answer, not an error: it says what is missing and the cheapest repair."""
    problem = json.loads(load_stored_planning("planning-tiny").replace(budget=1.0).to_json())
    response = ask(shared, "plan", problem=problem)
    assert response.status_code == 200, response.text
    document = response.json()
    assert not document["holds"]
    assert document["result"]["certificate"]["status"] == "infeasible"
    assert document["result"]["conflict"]
    assert document["result"]["repairs"]


@pytest.mark.parametrize(
    ("operation", "body", "sentence"),
    [
        ("plan", {"problem": "planning-tinny"}, 'did you mean "planning-tiny"'),
        ("plan", {"problem": "planning-tiny", "replay": {"scheduler": "fifoo"}}, '"fifo"'),
        ("plan", {"problem": "planning-tiny", "replay": {"scheduler": "/etc/x.onnx"}}, "unknown"),
        ("what-if", {"problem": "planning-tiny", "changes": ["demnd=1"]}, 'did you mean "demand"'),
        ("what-if", {"problem": "planning-tiny"}, "nothing is changed"),
        (
            "what-if",
            {"problem": "planning-tiny", "changes": ["demand=x2"], "other_scheduler": "srtf"},
            "needs a replay",
        ),
        ("plan", {"problem": {"schema_version": 1, "kind": "planning", "nam": "x"}}, "nam"),
        ("plan", {"problem": "planning-tiny", "time_limit_s": 100.0, "replay": {}}, "ask for less"),
    ],
)
def test_what_makes_no_sense_is_a_problem_with_a_cure(shared, operation, body, sentence):
    response = ask(shared, operation, **body)
    assert response.status_code == 422, response.text
    assert sentence in response.text.replace('\\"', '"')


def test_negative_prices_gaps_and_mixed_currencies_are_refused(shared):
    plain = json.loads(load_stored_planning("planning-tiny").to_json())

    def refused(change):
        document = json.loads(json.dumps(plain))
        change(document)
        response = ask(shared, "plan", problem=document)
        assert response.status_code == 422, response.text
        return response.text.replace('\\"', '"')

    assert "price" in refused(lambda d: d["offers"][0].update(price=-1.0))
    assert "no exchange rates" in refused(lambda d: d["offers"][0].update(currency="USD"))
    name = plain["classes"][0]["name"]
    gap = refused(lambda d: d["scenarios"][0]["arrivals"].update({name: [1.0, None]}))
    assert "arrivals" in gap
    short = refused(lambda d: d["scenarios"][0]["arrivals"].update({name: [1.0]}))
    assert "quarter" in short


def frames_before_the_answer(operation, body):
    """Run a job as a worker does; return what it says of its time before its last frame."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        tag, answer = run_job(operation, json.dumps(body).encode(), Limits(120.0, 1), theirs)
        assert tag == "result", answer
        theirs.shutdown(socket.SHUT_WR)
        return ours.makefile("rb").read()


def test_a_replay_is_not_stopped_by_the_time_of_the_solves():
    """Simulations take minutes where solves take seconds: a plan that was replayed with the jobs
    that were asked for was stopped with the advice to ask for less time."""
    plan_ = operations()["plan"]
    body = {"problem": "planning-tiny", "time_limit_s": 37.125}
    assert b"37.125" in frames_before_the_answer(plan_, body)
    replay = {"jobs": 50, "rounds": 1}
    assert b"37.125" not in frames_before_the_answer(plan_, {**body, "replay": replay})


@pytest.mark.parametrize(
    ("options", "solves"),
    [
        ({}, len(GOAL_FACTORS)),
        ({"points": 20}, len(GOAL_FACTORS)),
        ({"factors": [1.0, 2.0]}, 2),
        ({"axis": "energy", "points": 3}, 3),
        ({"axis": "energy", "points": 9, "factors": [1.0]}, 9),
    ],
)
def test_a_front_has_the_time_of_its_solves(options, solves):
    """Too little, and a front is stopped that keeps its limits; too much, and it is refused."""
    request: Any = operations()["pareto"].request
    asked = request(problem="planning-tiny", time_limit_s=2.0, **options)
    assert asked.seconds == 2.0 * solves
