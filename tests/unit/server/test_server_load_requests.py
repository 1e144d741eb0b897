"""The requests of the server's benchmark: each another one, and each a small round."""

import json
from itertools import pairwise

import pytest

import alloc
from benchmarks.server import small_requests


def test_no_two_requests_of_a_load_are_the_same():
    """Nor those of the warm-up: no answer to one may serve another."""
    load = [json.loads(body) for body in small_requests(40, 1) + small_requests(40, 0)]
    instances = sorted(json.dumps(request["instance"], sort_keys=True) for request in load)
    assert all(one != other for one, other in pairwise(instances))


@pytest.mark.parametrize("number", range(8))
def test_each_is_a_round_that_is_solved(number):
    request = json.loads(small_requests(8, 3)[number])
    instance = alloc.Instance.from_json(json.dumps(request["instance"]))
    assert alloc.solve(instance, request["formulation"]).certificate.status == "optimal"
