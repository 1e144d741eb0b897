"""Tables: what a reader sees, in a terminal and in Markdown."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from typing import Any

import pytest
from rich.console import Console

from alloc import solving
from alloc.certificate import Certificate
from alloc.comparison import Bound, Comparison, Interval, Settings, compare
from alloc.comparison.tables import (
    USES,
    certificate_sentence,
    gap_tables,
    proof_sentence,
    show_interval,
    show_number,
    terms,
    to_markdown,
    to_rich,
)
from alloc.errors import UnsupportedFeatureError
from alloc.instances import load
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance
from alloc.report import write_report
from alloc.result import Result


@pytest.fixture
def comparison(queue: Instance, other: Instance, broken) -> Comparison:
    return compare([queue, other], ["fifo", "drf", broken], seeds=(0, 1), time_limit_s=20)


def shown(table, width: int) -> str:
    file = io.StringIO()
    Console(width=width, file=file).print(to_rich(table, width))
    return file.getvalue()


def cells(markdown: str) -> list[list[str]]:
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_markdown_has_the_gap_and_what_each_was_given(comparison: Comparison):
    """The numbers of the queue by hand: optimum 50 s, FIFO 70 s, 40 % more, mean JCT 35 s."""
    text = to_markdown(gap_tables(comparison)[0])
    head, _, optimum, fifo, *_ = cells(text)
    column = dict(zip(head, fifo, strict=True))
    assert column["scheduler"] == "fifo"
    assert column["gap to bound (%)"] == "40.0"
    assert column["mean JCT (s)"] == "35.0"
    assert column["makespan (s)"] == "40.0"
    assert "arrival" in column["uses"]
    assert float(column["decision (ms)"]) > 0
    assert optimum[:3] == ["optimum", "0", "25.0"]


def test_failures_are_in_the_table_and_under_it(comparison: Comparison):
    text = to_markdown(gap_tables(comparison)[0])
    assert "| broken (2 of 2 failed) | – |" in text
    assert "Failed: broken on queue-01 (2 times): SimulationError: scheduler broken fails" in text
    assert "KeyError: 'no such key' (conftest.py, line" in text


def test_terms_and_proof_are_under_the_table(comparison: Comparison):
    text = to_markdown(gap_tables(comparison)[0])
    assert "told the exact work of each job that has arrived, with exact speeds" in text
    assert "No schedule of queue-01 has a weighted JCT below 50 s" in text


def test_family_table(comparison: Comparison):
    (table,) = gap_tables(comparison, "family")
    assert table.title.endswith("queue, all instances")
    fifo = cells(to_markdown(table))[3]
    assert fifo[:2] == ["fifo", "20.0 ± 254"]
    assert any("over instances" in remark for remark in table.remarks)


def test_how_often_each_proof_was_had_is_counted(comparison: Comparison):
    """Under a family's table for its instances; under the last table of single ones for all."""
    counts = comparison.bound_proofs()
    assert list(counts) == ["recomputed", "confirmed", "claimed", "none"]
    assert sum(counts.values()) == len(comparison.bounds)
    for fingerprint, bound in comparison.bounds.items():
        kind = "none" if bound.certificate is None else bound.certificate.bound_proof
        assert comparison.bound_proofs([fingerprint])[kind] == 1
    words = proof_sentence(counts)
    assert words in gap_tables(comparison, "family")[0].remarks
    assert words in gap_tables(comparison)[-1].remarks
    assert not any(words in table.remarks for table in gap_tables(comparison)[:-1])
    assert json.loads(comparison.to_json())["bound_proofs"] == counts


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"recomputed": 9, "confirmed": 0, "claimed": 3}, "Of 12 bounds: 9 recomputed, 3 claimed."),
        ({"recomputed": 0, "none": 1}, "Of 1 bound: 1 not proved."),
        ({"recomputed": 0}, "Of 0 bounds: none solved yet."),
    ],
)
def test_proofs_are_counted_in_one_sentence(counts: Any, words: str):
    assert proof_sentence(counts) == words


def test_odd_names_break_no_table(queue: Instance, policy):
    """A bar ends a Markdown cell, brackets are markup to rich: both are only names here."""
    policy.name = "a|b [red]c[/red]"
    table = gap_tables(compare([queue.replace(name="[bold]q")], [policy], time_limit_s=20))[0]
    assert r"| a\|b [red]c[/red] | 40.0 |" in to_markdown(table)
    assert "a|b [red]c[/red]" in shown(table, 240)
    assert "[bold]q" in shown(table, 240)


@pytest.mark.parametrize("width", [80, 120, 180, 240])
def test_terminal_tables_fit_and_cut_no_number(comparison: Comparison, width: int):
    """A number that loses a digit at the margin is another number."""
    text = shown(gap_tables(comparison)[0], width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert "40.0" in text
    table = gap_tables(comparison)[0]
    headers = [str(column.header) for column in to_rich(table, width).columns]
    assert ("p99 JCT (s)" in headers) == (width >= 180)
    left_out = {column.header for column in table.columns} - {*headers, USES}
    said = " ".join(text.split()).partition("Not shown at this width: ")[2]
    assert all(header in said for header in left_out)
    assert ("Not shown" in text) == bool(left_out)
    assert "order of arrival" in " ".join(text.split())


def test_wide_terminals_have_every_column(comparison: Comparison):
    table = gap_tables(comparison)[0]
    assert len(to_rich(table, 240).columns) == len(table.columns)
    assert len(to_rich(table).columns) <= len(table.columns)


def test_unfinished_comparisons_say_so(comparison: Comparison):
    partial = Comparison(
        comparison.experiment,
        comparison.instances,
        comparison.bounds,
        dict(list(comparison.outcomes.items())[:3]),
    )
    assert "Unfinished: 9 cells are still to be run." in to_markdown(gap_tables(partial)[0])


def test_rows_without_a_bound_yet_are_shown(comparison: Comparison):
    """After Ctrl-C before the solves: tables of instances and families, without gaps."""
    first, second = comparison.experiment.fingerprints
    for bounds in ({}, {first: comparison.bounds[first]}):
        partial = Comparison(
            comparison.experiment, comparison.instances, bounds, comparison.outcomes
        )
        text = to_markdown(gap_tables(partial)[1])
        assert "| fifo | – | 30.0 |" in text
        assert "Nothing was tried yet to prove how good a schedule of queue-02" in text
        (family,) = gap_tables(partial, "family")
        assert any(row[0] == "fifo" for row in family.rows)
        open_ = f"of {2 - len(bounds)} of the 2 instances: they are in no gap."
        assert open_ in to_markdown(family)
        assert "optimum" not in [row[0] for row in family.rows]  # one instance is not the family
        assert partial.unbounded[-1] == comparison.instances[second].name


def test_who_ran_the_best_schedule_and_who_left_decisions_is_said(comparison: Comparison):
    """A best schedule that is a row's is named, and fallbacks are counted under the table."""
    outcomes = {
        key: dataclasses.replace(outcome, notes={"solves": 10.0, "fallbacks": 3.0})
        for key, outcome in comparison.outcomes.items()
        if outcome.error is None
    }
    weak = {
        fingerprint: dataclasses.replace(
            bound,
            result=Result(
                None,
                bound.certificate.replace(
                    status="no_solution", objective=None, bound=40.0, limit="time"
                ),
            ),
        )
        for fingerprint, bound in comparison.bounds.items()
    }
    changed = Comparison(comparison.experiment, comparison.instances, weak, outcomes)
    text = to_markdown(gap_tables(changed)[0])
    assert "it is that of fifo, seed 0; the solve met its time limit" in text
    assert "fifo left 6 of 20 decisions to its rule." in text


def test_unproved_schedules_are_not_called_optimum(
    queue: Instance, monkeypatch: pytest.MonkeyPatch
):
    """The word optimum is a claim."""
    true_solve = solving.solve

    def stopped(*args, **kwargs) -> Result:
        result = true_solve(*args, **kwargs)
        worse = result.certificate.replace(status="feasible", bound=40.0, limit="time")
        return Result(result.solution, worse)

    monkeypatch.setattr(solving, "solve", stopped)
    comparison = compare([queue], ["fifo"], time_limit_s=20)
    text = to_markdown(gap_tables(comparison)[0])
    assert "| best found | 25.0 |" in text
    assert "The best schedule found has 50 s, at most 25.0 % above the optimum" in text
    assert "met its time limit" in text


def test_without_a_bound_the_reason_is_given(queue: Instance, monkeypatch: pytest.MonkeyPatch):
    def refuse(*args, **kwargs):
        raise UnsupportedFeatureError("no gangs")

    monkeypatch.setattr(solving, "solve", refuse)
    text = to_markdown(gap_tables(compare([queue], ["fifo"], time_limit_s=20))[0])
    assert "Nothing is proved about queue-01: no gangs" in text
    assert "| fifo | – | 35.0 |" in text


def test_late_jobs_explain_the_missing_gap(queue: Instance):
    strict = queue.replace(jobs=(queue.jobs[0], queue.jobs[1].replace(deadline_s=20.0)))
    text = to_markdown(gap_tables(compare([strict], ["fifo"], time_limit_s=20))[0])
    assert "late jobs" in text
    assert "No gap is shown where jobs miss a hard deadline" in text


def certificate(**changes) -> Certificate:
    plain = Certificate(
        "optimal", 50.0, 50.0, "min", "weighted_jct", "malleable", "highs", "1.13", 0, 1, 2.0, "f"
    )
    return plain.replace(verified=True, **changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"bound_proof": "recomputed"}, "proved again here by weak duality, without the solver"),
        (
            {"bound_proof": "claimed"},
            "by highs (1.13) and not re-verified. The schedule found attains",
        ),
        ({"bound": -math.inf, "limit": "memory"}, "No bound is proved for toy: the solve met its"),
        ({"status": "infeasible", "objective": None}, "highs (1.13) proved that toy has no feasib"),
        (
            {"status": "no_solution", "objective": None},
            "No schedule was found: the solve ended aft",
        ),
    ],
)
def test_what_is_proved_in_plain_words(changes: dict, sentence: str):
    """Each state of a proof reads differently; none claims more than it has."""
    bound = Bound("toy", "f", Result(None, certificate(**changes)))
    assert sentence in certificate_sentence(bound)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (Settings("none"), "told nothing of the jobs' work, with exact speeds"),
        (Settings("estimate", 0.3, 0.1), "up to 30% off, with speeds up to 10% off"),
    ],
)
def test_terms_name_the_errors(settings: Settings, sentence: str):
    assert sentence in terms(settings)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-1e-9, "0"),
        (0.0123, "0.0123"),
        (3.14159, "3.14"),
        (31.4159, "31.4"),
        (31415.9, "31,416"),
        (1.5e9, "1.5e+09"),
    ],
)
def test_numbers_to_a_sensible_length(value: float, text: str):
    assert show_number(value) == text


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(math.nan, None, None, 0), "–"),
        (Interval(math.inf, None, None, 3), "∞"),
        (Interval(5.0, None, None, 1), "5.00"),
        (Interval(5.0, 5.0, 5.0, 3), "5.00"),
        (Interval(5.0, 4.0, 6.5, 9), "5.00 ± 1.5"),
    ],
)
def test_intervals_in_a_cell(interval: Interval, text: str):
    assert show_interval(interval) == text


@pytest.mark.long
@pytest.mark.parametrize(
    ("goal", "weights"),
    [
        ("weighted_jct + 10 makespan", {"weighted_jct": 1.0, "makespan": 10.0}),
        ("0.5 makespan", {"makespan": 0.5}),
        ("2 mean_jct + max_slowdown", {"mean_jct": 2.0, "max_slowdown": 1.0}),
    ],
)
def test_rows_and_bound_are_of_a_weighted_sum(goal, weights, tmp_path):
    """Each row is the sum of its terms, measured one by one, and none is below the bound."""
    instance = load("elastic-tiny/01")
    found = compare([instance], ["fifo", "srtf"], objective=goal)
    bound = found.bounds[instance.fingerprint]
    assert bound.certificate.status == "optimal"
    for row in found.rows:
        schedule = found.schedule(instance.name, row.scheduler)
        terms = [w * objective(name).evaluate(instance, schedule) for name, w in weights.items()]
        assert row.objective == pytest.approx(sum(terms))
        assert row.objective >= bound.value * (1 - 1e-6)
        assert row.gap == pytest.approx(row.objective / bound.value - 1.0, abs=1e-9)
    page = tmp_path / "report.html"
    write_report(found, page)
    assert goal in page.read_text(encoding="utf-8")
