"""The verdict: a sentence that says no more than what is proved."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from report_pages import make_instance

from alloc.comparison import Comparison, compare
from alloc.comparison.tables import show_percent
from alloc.instances import load
from alloc.report.sections import MAX_LINES, told_apart
from alloc.report.verdict import mean_gaps, ties, verdict


def test_an_unproved_comparison_says_at_most(comparison: Comparison):
    """The gap is to the bound: of a bound that nobody attains it says no more than that."""
    fingerprint, bound = next(iter(comparison.bounds.items()))
    assert bound.certificate is not None
    assert bound.result is not None
    loosened = replace(bound.result, certificate=bound.certificate.replace(status="feasible"))
    open_ = replace(bound, result=loosened)
    loose = replace(comparison, bounds={**comparison.bounds, fingerprint: open_})
    assert "FIFO takes at most" in (verdict(loose, fingerprint) or "")


def test_a_scheduler_that_failed_with_a_seed_is_in_no_mean(comparison: Comparison):
    """Its mean would be over other seeds: neither it is the best, nor FIFO the worst, by that."""
    fingerprint = next(iter(comparison.bounds))
    outcomes = dict(comparison.outcomes)
    for key, found, label, seed in comparison.experiment.cells:
        if (found, label, seed) == (fingerprint, "fifo", 1):
            outcomes[key] = replace(outcomes[key], objective=math.inf, schedule=None)
    partial = replace(comparison, outcomes=outcomes)
    assert list(mean_gaps(partial, fingerprint)) == ["drf"]
    said = verdict(partial, fingerprint)
    assert said is not None
    assert "FIFO" not in said
    assert "fifo" not in said


def test_all_that_are_best_are_named():
    names = ["fifo", "first-fit", "best-fit"]
    found = compare([load("elastic-tiny/02")], names, time_limit_s=20)
    (fingerprint,) = found.bounds
    gaps = mean_gaps(found, fingerprint)
    assert gaps["first-fit"] == gaps["best-fit"] < gaps["fifo"]
    said = verdict(found, fingerprint) or ""
    assert said.endswith(
        f"best schedulers: first-fit and best-fit, {show_percent(gaps['first-fit'])}."
    )


@pytest.mark.parametrize(
    ("objective", "words"),
    [("makespan", "longer than needed"), ("tardiness", "above what is possible")],
)
def test_only_time_taken_is_longer_than_needed(objective, words):
    """Tardiness is seconds beyond a due date: nobody takes it."""
    instance = make_instance("small-01")
    jobs = tuple(replace(job, due_date_s=job.arrival_s + 1.0) for job in instance.jobs)
    late = replace(instance, jobs=jobs)
    found = compare([late], ["fifo", "drf"], objective=objective, time_limit_s=20)
    (fingerprint,) = found.bounds
    assert words in (verdict(found, fingerprint) or "")


def test_schedulers_that_tie_are_named_with_the_reason():
    """First fit and best fit decide the same where there is one host; on two, only hosts differ."""
    names = ["fifo", "first-fit", "best-fit"]
    one = compare([make_instance("small-01")], names, time_limit_s=20)
    (fingerprint,) = one.bounds
    (sentence,) = ties(one, fingerprint)
    assert sentence.endswith("tie: here they decide the same.")
    assert "first-fit and best-fit" in sentence
    rows = {row.scheduler: row.objective for row in one.rows}
    assert rows["first-fit"] == rows["best-fit"]


def test_a_plot_has_at_most_eight_curves_and_equal_ones_are_one():
    gaps = {f"s{k}": 1.0 + k for k in range(12)}
    jcts = {"optimum": [0.0], **{name: [gap] for name, gap in gaps.items()}, "twin": [3.0]}  # as s2
    groups = told_apart(jcts, gaps, "s7")
    assert len(groups) == MAX_LINES
    assert [names[0] for names in groups] == sorted(
        (names[0] for names in groups), key=list(jcts).index
    )
    assert ["optimum"] in groups
    assert ["s7"] in groups
    assert ["s11"] in groups
    few = told_apart({"optimum": [1.0], "a": [2.0], "b": [2.0]}, {"a": 1.0, "b": 1.0}, "a")
    assert few == [["optimum"], ["a", "b"]]
