"""Fuzzing of the server's OpenAPI contract: requests made from the description, right and wrong.

Every answer must be one that the description announces, and none may be a server error.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import httpx

_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "allow_header_conformance",
)
_OPEN = ("queued", "running")
_PATIENCE_S = 60.0


@dataclass
class FuzzReport:
    """What fuzzing found.

    Parameters
    ----------
    answers
        Number of answers by operation and status.
    failures
        The first failure of each operation that has one, in words.
    jobs
        Ids of jobs that were accepted, which later requests ask about.
    broken_jobs
        Those that ended with an error of the server's, with its problem.
    """

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)
    jobs: list[str] = field(default_factory=list)
    broken_jobs: dict[str, str] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        """Number of requests answered."""
        return sum(self.answers.values())

    @property
    def server_errors(self) -> int:
        """Answers with a status of 500 or more, 503 (come again) left aside, and broken jobs."""
        answers = (n for (_, status), n in self.answers.items() if status >= 500 and status != 503)
        return sum(answers) + len(self.broken_jobs)


def fuzz(
    address: str, examples: int, seed: int = 0, only: Collection[str] | None = None
) -> FuzzReport:
    """Send requests made from the description of a server.

    Parameters
    ----------
    address
        Where the server is, for example ``http://127.0.0.1:8000``.
    examples
        Requests that fit the description, and as many that do not, for every operation.
    seed
        Of what is drawn.
    only
        The operations to fuzz, for example ``POST /v1/solve``; by default all.
    """
    from schemathesis import GenerationMode, openapi
    from schemathesis.core.result import Ok

    report = FuzzReport()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schema = openapi.from_url(f"{address}/v1/openapi.json")
        for found in schema.get_all_operations():
            if not isinstance(found, Ok):
                raise SystemExit(f"an operation of the contract cannot be read: {found.err()}")
            operation = found.ok()
            if only is not None and operation.label not in only:
                continue
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                _fuzz_operation(operation, mode, examples, seed, report)
    _look_at_jobs(address, report)
    return report


def _look_at_jobs(address: str, report: FuzzReport) -> None:
    """Find the jobs that broke the server rather than being refused; those that run may end."""
    end = time.monotonic() + _PATIENCE_S
    with httpx.Client(base_url=address, timeout=60) as client:
        for job_id in report.jobs:
            while (job := client.get(f"/v1/jobs/{job_id}").json())["state"] in _OPEN:
                if time.monotonic() > end:
                    break
                time.sleep(0.1)
            problem = job["problem"]
            if problem is not None and problem["status"] >= 500:
                report.broken_jobs[job_id] = f"{job['operation']}: {problem['detail']}"


def _fuzz_operation(
    operation: Any, mode: Any, examples: int, seed: int, report: FuzzReport
) -> None:
    import hypothesis
    import schemathesis.checks as known
    from hypothesis.errors import Unsatisfiable
    from schemathesis.core.failures import FailureGroup

    known.load_all_checks()
    checks = [check for check in known.CHECKS.get_all() if check.__name__ in _CHECKS]

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        number = report.requests
        if number % 2 and report.jobs and "job_id" in (case.path_parameters or {}):
            # Nobody guesses the id of a job, so half of the requests are told one.
            case.path_parameters["job_id"] = report.jobs[number % len(report.jobs)]
        response = case.call(timeout=60)
        report.answers[operation.label, response.status_code] += 1
        if response.status_code == 202:
            report.jobs.append(response.json()["id"])
        try:
            case.validate_response(response, checks=checks)
        except (FailureGroup, AssertionError) as failure:
            report.failures.setdefault(operation.label, _in_words(failure))

    try:
        send()
    except Unsatisfiable:
        # Nothing can be wrong about an operation that takes nothing.
        return


def _in_words(failure: BaseException) -> str:
    inner = getattr(failure, "exceptions", None)
    return str(inner[0] if inner else failure)[:1500]
