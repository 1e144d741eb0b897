"""The server by registry: a problem of any family is solved, checked and shown."""

import json
import re
from xml.etree import ElementTree

import pytest
from problems_of_families import answered
from server_harness import wait_for

import alloc
from alloc.client import Client
from alloc.families import FAMILIES
from alloc.server.bodies import read_request
from alloc.server.problems import ProblemError
from alloc.server.requests import SolveRequest


@pytest.fixture(scope="module")
def client(shared):
    with Client(str(shared.base_url), patience_s=60.0) as made:
        yield made


@pytest.mark.parametrize("name", FAMILIES)
def test_a_problem_is_solved_as_here_and_its_page_shows_it(name, shared, client):
    """In and out go the library's own types; the page names the problem, its unit and the rest."""
    [(problem, here)] = answered(name)
    job = client.submit_solve(problem, formulation=name, time_limit_s=20.0, gap=1e-6)
    result = job.result()
    assert result.objective == pytest.approx(here.objective, rel=1e-6, abs=1e-9)
    assert result.certificate.fingerprint == problem.fingerprint
    assert alloc.verify(problem, result.solution) == []
    again = client.solve(problem, formulation=name, warm_start=result.solution, time_limit_s=20.0)
    assert again.objective == pytest.approx(here.objective, rel=1e-6, abs=1e-9)
    shown = shared.get(f"/v1/jobs/{job.id}/view")
    assert shown.status_code == 200, shown.text
    words = re.sub(r"\s+", " ", " ".join(ElementTree.fromstring(shown.text).itertext()))
    assert f"Solve: {problem.name}" in words
    assert result.certificate.objective_name.replace("_", " ") in words
    if problem.kind != "instance":  # those have charts and words of their own
        assert FAMILIES[name].unit(problem, result.certificate.objective_name) in words


def test_the_families_are_listed_with_the_kinds_of_their_documents(shared):
    items = shared.get("/v1/families").json()["items"]
    assert [item["name"] for item in items] == list(FAMILIES)
    for item in items:
        family = FAMILIES[item["name"]]
        assert item["kind"] == family.kind
        assert item["objectives"] == list(family.objectives)
        assert item["methods"] == list(family.methods)


@pytest.mark.parametrize("kind", ["topology", "permutation", "result", "plan"])
def test_a_document_of_another_kind_is_not_completed_but_refused(kind):
    """Whoever sends a topology to be solved is not asked for what is missing in it."""
    with pytest.raises(ProblemError) as refused:
        read_request(json.dumps({"instance": {"kind": kind}}).encode(), SolveRequest)
    said = f"this is a {kind}; give one of: instance, planning, operation"
    assert refused.value.problem.detail.startswith(said)


def test_a_malformed_problem_of_any_family_is_refused_at_the_door(shared):
    """By the sentence that the library has for it, and the place in the body."""
    [(problem, _)] = answered("checkpointing")
    document = json.loads(problem.to_json())
    wrong = {**document, "mtbf_s": "a day"}
    refused = shared.post("/v1/solve", json={"instance": wrong})
    assert refused.status_code == 422
    body = refused.json()
    assert 'mtbf_s is "a day"; give a number without quotes' in body["detail"]
    assert body["errors"][0]["pointer"] == "/instance/mtbf_s"
    unknown = shared.post("/v1/solve", json={"instance": {**document, "kind": "checkpoints"}})
    assert unknown.status_code == 422
    assert 'kind "checkpoints"; did you mean "checkpoint_plan"' in unknown.json()["detail"]


def test_what_the_family_cannot_take_is_said_by_the_job(shared, client):
    """Another family's name, and a start that answers something else."""
    [(problem, _)] = answered("checkpointing")
    document = json.loads(problem.to_json())
    packing = {"schema_version": 1, "kind": "packing", "gpus": [[0]], "left_out": []}
    for more, place in (
        ({"formulation": "round"}, "formulation"),
        ({"warm_start": packing}, "warm"),
    ):
        response = shared.post("/v1/solve", json={"instance": document, **more})
        assert response.status_code == 202, response.text
        job = wait_for(shared, response.json()["id"])
        assert job["state"] == "failed"
        assert place in job["problem"]["errors"][0]["pointer"]


def test_a_stored_planning_problem_is_solved_by_its_id(client):
    result = client.solve("planning-tiny", time_limit_s=20.0, gap=0.05)
    assert result.solution is not None
    assert result.certificate.formulation == "right_sizing"
