"""Bad answers are refused in one sentence that names owner, field, value and cure."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from alloc.documents import format_of
from alloc.errors import InstanceError

RUN = {"job": "eval-3", "configuration": 0}
SOLUTION: dict[str, Any] = {
    "schema_version": 1,
    "kind": "solution",
    "type": "schedule",
    "runs": [{**RUN, "start_s": 0, "end_s": 5}],
}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"type": "shedule"}, 'type is "shedule", which is unknown; did you mean "schedule"?'),
        ({"type": 3}, "type is 3, which is unknown; known: allocation, schedule."),
        ({"type": None}, "type is null, which is unknown"),
        ({"assignments": []}, 'the solution: unknown field "assignments"; known fields: type,'),
        ({"unplaced": {"a": 3}}, 'the solution: unplaced["a"] is 3; give text in quotes.'),
        (
            {"runs": [{**RUN, "start_s": "0", "end_s": 5}]},
            'run of job "eval-3" (runs[0]): start_s is "0"; give a number without quotes.',
        ),
        (
            {"runs": [{**RUN, "start_s": 0, "end_s": 5, "tasks": [{"host": "h", "gpu": [1]}]}]},
            'run of job "eval-3" (runs[0]), tasks[0]: unknown field "gpu"; did you mean "gpus"?',
        ),
    ],
)  # fmt: skip
def test_solutions_are_checked_alike(changes: dict[str, Any], sentence: str) -> None:
    """Solutions come from other people's schedulers."""
    with pytest.raises(InstanceError, match=re.escape(sentence)):
        format_of("solution").parse(json.dumps({**SOLUTION, **changes}))


def test_a_solution_without_a_type_is_told_the_two() -> None:
    """Allocation and schedule have different fields, so the type comes first."""
    bare = {key: value for key, value in SOLUTION.items() if key != "type"}
    with pytest.raises(InstanceError, match='field "type" is missing; add "type": "schedule" or'):
        format_of("solution").parse(json.dumps(bare))


CERTIFICATE = {
    "status": "optimal", "objective": 1, "bound": "-inf", "sense": "min", "objective_name": "x",
    "formulation": "f", "backend": "b", "backend_version": "1", "seed": 0, "workers": 1,
    "seconds": 1, "fingerprint": "0",
}  # fmt: skip
RESULT = {"schema_version": 1, "kind": "result", "certificate": CERTIFICATE, "solution": None}


def test_only_the_certificate_may_be_infinite_and_only_in_words() -> None:
    """JSON has no infinity, and "nothing is proved" must not turn into a number."""
    assert format_of("result").parse(json.dumps(RESULT)).certificate.bound == -float("inf")
    for field, value, sentence in (
        ("bound", float("-inf"), 'bound is -Infinity; give a number, or "inf" or "-inf" in quotes'),
        ("bound", float("nan"), 'bound is NaN; give a number, or "inf" or "-inf" in quotes'),
        ("bound", "infinity", 'bound is "infinity"; give a number'),
        ("seconds", "inf", 'seconds is "inf"; give a number'),
        ("status", "solved", 'status is "solved", which is unknown; known: optimal, feasible'),
    ):
        changed = {**RESULT, "certificate": {**CERTIFICATE, field: value}}
        with pytest.raises(InstanceError, match=re.escape(f"certificate: {sentence}")):
            format_of("result").parse(json.dumps(changed))


@pytest.mark.parametrize(
    ("solution", "sentence"),
    [
        (3, "the result: solution is 3; give an object."),
        ({"runs": []}, 'solution: field "type" is missing'),
        ({"type": "schedule", "run": []}, 'solution: unknown field "run"; did you mean "runs"?'),
    ],
)
def test_the_solution_of_a_result_is_checked(solution: Any, sentence: str) -> None:
    """A result is read back to resume or compare, so what it holds must be whole."""
    with pytest.raises(InstanceError, match=re.escape(sentence)):
        format_of("result").parse(json.dumps({**RESULT, "solution": solution}))
