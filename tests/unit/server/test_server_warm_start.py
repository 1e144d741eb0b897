"""A warm start over HTTP is one of the instance that is solved."""

from alloc.documents import format_of
from alloc.instances import load
from alloc.result import Limits
from alloc.solving import solve

WAIT = {"Prefer": "wait=60"}


def test_a_warm_start_of_another_instance_is_refused_and_its_own_is_taken(shared):
    """The part of the request that is wrong is named, before anything is solved."""
    instance = load("elastic-tiny/01")
    answer = solve(instance, limits=Limits(seconds=5))
    own = format_of("solution").encode(answer.require_solution())
    body = {"formulation": "malleable", "time_limit_s": 5, "warm_start": own}
    refused = shared.post("/v1/solve", json={**body, "instance": "elastic-tiny/02"}, headers=WAIT)
    assert refused.status_code == 422, refused.text
    assert "/warm_start" in refused.text
    assert "warm start: it is not a solution of" in refused.text
    taken = shared.post("/v1/solve", json={**body, "instance": "elastic-tiny/01"}, headers=WAIT)
    assert taken.status_code == 200, taken.text
    assert taken.json()["certificate"]["objective"] <= answer.certificate.objective * (1 + 1e-9)
