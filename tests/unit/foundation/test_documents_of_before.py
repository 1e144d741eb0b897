"""Documents that older versions wrote are read as those of today."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alloc.documents import format_of
from alloc.errors import InstanceError
from alloc.planning.documents import upgraded_answer

FOLDER = Path(__file__).parents[2] / "data" / "documents"
"""Written by the code of version 1, each by solving a small problem."""
REPORTS = {
    "operation_result": "operation_report",
    "inference_result": "inference_report",
    "quota_result": "quota_report",
}
RENAMED = {"plan": "solution", "marginals": "sensitivities", "resolves": "sensitivities"} | {
    "reliefs": "repairs",
    "relaxations": "repairs",
}


def old(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / f"{name}-v1.json").read_text())
    return document


RESULTS = sorted(
    path.name.removesuffix("-v1.json") for path in FOLDER.iterdir() if "result" in path.name
)


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_of_version_1_is_read_with_all_that_it_says(name: str) -> None:
    document = old(name)
    result = format_of("result").parse(json.dumps(document))
    plain = format_of("result").encode(result)
    assert plain["schema_version"] == 2
    assert plain["certificate"] == document["certificate"]
    for before, now in {**RENAMED, "solution": "solution"}.items():
        if before in document and isinstance(document[before], list):
            assert len(plain[now]) == len(document[before])
        elif document.get(before) is not None:
            assert plain[now].items() >= document[before].items()
    for same in ("conflict", "stages", "assumptions", "log"):
        assert plain.get(same) == document.get(same)
    assert format_of("result").parse(json.dumps(plain)) == result


@pytest.mark.parametrize("name", [name for name in RESULTS if name.split("-")[0] in REPORTS])
def test_what_a_feedback_loop_added_is_read_into_its_report(name: str) -> None:
    document = old(name)
    kind = REPORTS[document["kind"]]
    report = format_of(kind).parse(json.dumps(document))
    assert report.result == format_of("result").parse(json.dumps(document))
    plain = format_of(kind).encode(report)
    for field in ("checks", "outlooks", "costs", "converged"):
        assert plain.get(field) == document.get(field)
    assert format_of(kind).parse(json.dumps(plain)) == report


def test_savings_of_version_1_are_changes_of_the_cost_now() -> None:
    """What one more saves lowers the cost, and the proved range turns round with it."""
    document = old("plan_result")
    values = format_of("result").parse(json.dumps(document)).sensitivities
    for before, now in zip(document["marginals"], values, strict=True):
        assert now.value == -before["saving"]
        assert (now.lower, now.upper) == (-before["upper"], -before["lower"])
        assert now.is_exact == (before["lower"] == before["saving"] == before["upper"])
    assert any(value.value < 0 for value in values)


def test_repairs_of_version_1_keep_what_is_needed_together() -> None:
    """Reliefs of one way were needed together; of relaxations each was enough by itself."""
    ways = format_of("result").parse(json.dumps(old("plan_result-infeasible")))
    assert len(ways.repairs) == 2
    assert len(ways.repair_options) == 1
    assert all(repair.least for repair in ways.repairs)
    for name in ("inference_result-infeasible", "quota_result-infeasible"):
        relaxed = old(name)["relaxations"]
        found = format_of("result").parse(json.dumps(old(name)))
        assert list(found.repair_options) == [one["sentence"] for one in relaxed]
        for before, now in zip(relaxed, found.repairs, strict=True):
            assert (now.before, now.after) == (before["before"], before["after"])
            assert now.amount == pytest.approx(abs(before["after"] - before["before"]))


@pytest.mark.parametrize("name", ["plan-report", "what-if", "pareto-front"])
def test_answers_of_planning_of_version_1_hold_results_that_can_be_read(name: str) -> None:
    document = old(name)
    now = upgraded_answer(document)
    assert now["version"] == 2
    assert upgraded_answer(now) == now
    plans = {"plan-report": [now], "pareto-front": now.get("points")}.get(name)
    for plan in plans or [now["base"], now["changed"]]:
        assert format_of("result").decode(plan["result"]).solution is not None
    if name == "plan-report":
        assert now["costs"] == document["result"]["costs"]


@pytest.mark.parametrize("kind", ["result", "plan_result", *REPORTS])
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"plan": 3, "marginals": 3, "reliefs": [3], "relaxations": [3], "resolves": {}},
        {"marginals": [{"saving": "x"}], "relaxations": [{"before": "x"}], "costs": 1},
        {"rounds": None, "checks": "x", "outlooks": [None], "certificate": []},
    ],
)
def test_a_malformed_document_of_version_1_is_refused(kind: str, body: dict[str, Any]) -> None:
    text = json.dumps({"schema_version": 1, "kind": kind, **body})
    for wanted in ("result", *REPORTS.values()):
        with pytest.raises(InstanceError):
            format_of(wanted).parse(text)


@pytest.mark.parametrize("kind", sorted(REPORTS.values()))
def test_a_report_refuses_the_answer_of_another_family(kind: str) -> None:
    """What a result may hold anywhere, a report holds of its own family only."""
    name = next(old_name for old_name, now in REPORTS.items() if now == kind)
    other = "quota_result" if kind != "quota_report" else "operation_result"
    report = format_of(kind).encode(format_of(kind).parse(json.dumps(old(name))))
    stranger = format_of("result").encode(format_of("result").parse(json.dumps(old(other))))
    report["result"]["solution"] = stranger["solution"]
    with pytest.raises(InstanceError, match="give a result whose solution is"):
        format_of(kind).parse(json.dumps(report))
