"""The OpenAPI contract under requests that nobody would write by hand."""

import pytest
from server_harness import Running

from alloc.server import Settings
from benchmarks.contract_fuzz import fuzz

QUICK = (
    "POST /v1/explain",
    "GET /v1/jobs",
    "GET /v1/jobs/{job_id}",
    "GET /v1/jobs/{job_id}/result",
    "GET /v1/jobs/{job_id}/events",
    "POST /v1/jobs/{job_id}/cancel",
    "GET /v1/instances/{family}/{number}",
)


@pytest.fixture
def address(tmp_path):
    """Return the address of a server with nothing but alloc's own operations."""
    settings = Settings(database=str(tmp_path / "server.sqlite"), workers=1, drain_s=0.2)
    with Running(settings) as running:
        yield f"http://127.0.0.1:{running.port}"


def check(report, least):
    assert report.failures == {}
    assert report.server_errors == 0
    assert report.requests >= least
    statuses = {status for _, status in report.answers}
    assert {200, 202, 404, 422} <= statuses


@pytest.mark.long
def test_some_requests_made_from_the_description(address):
    """A few for each address; every answer is one that the description announces."""
    check(fuzz(address, 5, only=QUICK), 40)


@pytest.mark.slow
def test_many_requests_made_from_the_description(address):
    """All operations."""
    report = fuzz(address, 40, seed=1)
    check(report, 500)
    fuzzed = {operation for operation, _ in report.answers}
    assert {f"POST /v1/{name}" for name in ("solve", "place", "explain", "compare")} <= fuzzed
