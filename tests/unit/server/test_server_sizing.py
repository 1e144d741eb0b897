"""Inference, quotas and operation over HTTP: the documents of the command line in and out."""

import json

import jsonschema
import pytest
from inference_problems import a_problem
from quota_problems import a_quota_problem

from alloc.documents import json_schema
from alloc.instances.operation import generate_operation
from alloc.planning.inference import read_inference_report, write_inference_problem
from alloc.planning.operation import parse_operation_report, write_operation
from alloc.planning.quotas import read_quota_report, write_quota_problem
from alloc.problems.quota_planning.problem import QuotaTenant

OPERATION = generate_operation(num_nodes=3, num_jobs=4)
INFERENCE = a_problem(1.0)
QUOTAS = a_quota_problem([QuotaTenant("a"), QuotaTenant("b")], [[4, 2], [1, 6]], 8)


def ask(client, operation, problem, **options):
    """Post a problem as its document, and return the answer."""
    body = {"problem": json.loads(problem), **options}
    return client.post(f"/v1/{operation}", json=body, headers={"Prefer": "wait=60"})


@pytest.mark.parametrize(
    ("operation", "write", "read", "problem", "options"),
    [
        (
            "size-inference",
            write_inference_problem,
            read_inference_report,
            INFERENCE,
            {"requests": 500, "what_if": False},
        ),
        ("plan-quotas", write_quota_problem, read_quota_report, QUOTAS, {"what_if": False}),
        ("operate", write_operation, parse_operation_report, OPERATION, {}),
        ("operate", write_operation, parse_operation_report, OPERATION, {"policy": "edf"}),
    ],
)
def test_sizes_come_with_their_certificate(shared, operation, write, read, problem, options):
    answer = ask(shared, operation, write(problem), **options)
    assert answer.status_code == 200, answer.text
    found = read(answer.text)
    assert found.result.certificate.verified
    assert found.result.solution is not None
    for document in (json.loads(write(problem)), answer.json()):
        jsonschema.validate(document, json_schema(document["kind"]))
    view = shared.get(f"{answer.headers['location']}/view")
    assert view.status_code == 200


@pytest.mark.parametrize(
    ("operation", "problem", "options", "pointer", "words"),
    [
        (
            "size-inference",
            write_inference_problem(INFERENCE),
            {"time_limit_s": 1000.0},
            "/time_limit_s",
            "ask for less",
        ),
        (
            "size-inference",
            write_inference_problem(INFERENCE),
            {"requests": 50},
            "/requests",
            "cannot show a percentile",
        ),
        ("size-inference", '{"kind": "quota_problem"}', {}, "/problem", "an inference problem was"),
        ("plan-quotas", "{}", {}, "/problem", "quota_problem"),
        ("operate", "{}", {}, "/problem", "kind"),
        ("operate", write_operation(OPERATION), {"policy": "edff"}, "/policy", '"edf"'),
        ("plan-quotas", write_quota_problem(QUOTAS), {"rounds": 0}, "/rounds", "greater"),
    ],
)
def test_what_is_wrong_is_said_of_its_field(shared, operation, problem, options, pointer, words):
    answer = ask(shared, operation, problem, **options)
    assert answer.status_code == 422
    found = answer.json()
    assert found["errors"][0]["pointer"] == pointer
    assert words in found["detail"]


def test_the_description_says_which_document_each_takes(shared):
    """The page offers an operation for documents of its kind only."""
    schemas = shared.get("/v1/openapi.json").json()["components"]["schemas"]
    kinds = {
        name: schemas[name]["properties"]["problem"]["properties"]["kind"]["const"]
        for name in ("SizeInferenceRequest", "PlanQuotasRequest", "OperateRequest")
    }
    assert kinds == {
        "SizeInferenceRequest": json.loads(write_inference_problem(INFERENCE))["kind"],
        "PlanQuotasRequest": json.loads(write_quota_problem(QUOTAS))["kind"],
        "OperateRequest": json.loads(write_operation(OPERATION))["kind"],
    }
