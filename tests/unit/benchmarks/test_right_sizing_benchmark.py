"""The benchmark of right-sizing judges what it is given, and runs on the tiny problems."""

from dataclasses import replace

from alloc.instances import entry
from benchmarks.right_sizing import Answer, judge_large, judge_pair, judge_record, main

ANSWER = Answer("planning-tiny/01", "extensive", "optimal", 100.0, 99.5, 0.005, 30.0, 29.0, 3)


def test_the_target_is_held_by_gap_and_time():
    assert judge_large(ANSWER, 1).holds
    assert not judge_large(replace(ANSWER, gap=0.011), 1).holds
    assert not judge_large(replace(ANSWER, seconds=61.0), 1).holds
    assert not judge_large(replace(ANSWER, gap=None, cost=None), 1).holds


def test_methods_that_disagree_are_noticed():
    assert judge_pair(ANSWER, ANSWER).holds
    assert not judge_pair(ANSWER, replace(ANSWER, cost=101.0)).holds
    assert not judge_pair(ANSWER, replace(ANSWER, cost=None)).holds
    hopeless = replace(ANSWER, cost=None, status="infeasible")
    assert not judge_pair(hopeless, hopeless).holds


def test_contradictions_to_the_record_are_noticed():
    shipped = entry("planning-tiny/01")
    lower = shipped.lower.model_copy(update={"value": 99.0})
    upper = shipped.upper.model_copy(update={"value": 100.0})
    known = shipped.model_copy(update={"lower": lower, "upper": upper})
    assert judge_record(known, ANSWER).holds
    assert not judge_record(known, replace(ANSWER, cost=98.0)).holds
    assert not judge_record(known, replace(ANSWER, bound=100.1)).holds
    assert judge_record(known.model_copy(update={"lower": None}), ANSWER) is None


def test_the_tiny_problems_run(capsys):
    assert main(["--family", "planning-tiny/01", "--workers", "1", "--json", "--verbose"]) == 0
    printed = capsys.readouterr().out
    assert "both methods agree to 2e-04: holds" in printed
    assert "relaxation: cost" in printed
