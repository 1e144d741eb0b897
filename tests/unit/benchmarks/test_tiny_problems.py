"""The sweep and the watchdog: what they find, what they keep, and that tiny problems agree."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from misbehaving import misbehave

from benchmarks import exhaustive, watchdog
from benchmarks.tiny.families import FAMILIES, chosen
from benchmarks.tiny.family import Answer, Truth, disagreement
from benchmarks.tiny.record import Record
from benchmarks.tiny.running import Crash, run_checks

PLAIN = [family.name for family in chosen("plain")]


@pytest.mark.parametrize("name", PLAIN)
def test_every_way_of_a_family_finds_the_optimum(name: str) -> None:
    """A few of the instances of the sweep, with each method and backend."""
    family = FAMILIES[name]
    for seed in range(4):
        problem = family.problem(1_000_000 + seed)
        truth = family.truth(problem)
        for way in family.ways:
            answer = family.solve(problem, way, 20.0)
            assert disagreement(truth, answer, way in family.open_ways) is None, (seed, way)


@pytest.mark.parametrize("name", PLAIN)
def test_a_seed_makes_one_problem(name: str) -> None:
    """A report names a seed; it must say which instance that was."""
    family = FAMILIES[name]
    for large in (False, True):
        assert repr(family.problem(7, large=large)) == repr(family.problem(7, large=large))


@pytest.mark.parametrize(
    ("status", "value", "bound", "false"),
    [
        ("optimal", 10.0, 10.0, False),
        ("feasible", 12.0, 9.0, False),
        ("no_solution", None, 3.0, False),
        ("optimal", 10.1, 10.1, True),
        ("optimal", 10.1, 9.9, True),
        ("feasible", 9.9, 9.0, True),
        ("feasible", 12.0, 10.1, True),
        ("feasible", 12.0, float("nan"), True),
        ("infeasible", None, float("inf"), True),
    ],
)
def test_false_claims_are_told_from_true_ones(
    status: str, value: float | None, bound: float, false: bool
) -> None:
    """Against an optimum of 10, minimising; the same mirrored, and a billionth of it."""
    for factor in (1.0, 1e-9, 1e12):
        for sign, sense in ((1.0, "min"), (-1.0, "max")):
            found = None if value is None else sign * factor * value
            answer = Answer((status,), (found,), (sign * factor * bound,))
            truth = Truth((sign * factor * 10.0,), (sense,))
            limited = replace(answer, limited=True)
            assert (disagreement(truth, limited) is not None) == false
            assert (disagreement(truth, answer, may_stay_open=True) is not None) == false
            unproved = status in ("feasible", "no_solution")
            assert (disagreement(truth, answer) is not None) == (false or unproved)


def test_where_nothing_is_feasible_only_infeasible_is_true() -> None:
    """Nothing found is true as well, where a limit came first."""
    proved = Answer(("infeasible",), (None,), (float("inf"),))
    assert disagreement(Truth(None), proved) is None
    stopped = Answer(("no_solution",), (None,), (0.0,), limited=True)
    assert disagreement(Truth(None), stopped) is None
    for status, value in (("optimal", 1.0), ("feasible", 1.0), ("no_solution", None)):
        assert disagreement(Truth(None), Answer((status,), (value,), (0.0,))) is not None


def test_an_optimum_of_0_is_closed_by_a_bound_that_counts_as_0() -> None:
    """It has no relative gap; what is farther from it stays open."""
    truth = Truth((0.0,), size=5.0)
    assert disagreement(truth, Answer(("feasible",), (0.0,), (-5e-9,))) is None
    assert disagreement(truth, Answer(("feasible",), (0.0,), (-5e-4,))) is not None


def test_an_answer_that_the_checker_refuses_is_false() -> None:
    answer = Answer(("optimal",), (1.0,), (1.0,), violations=["a rule is broken"])
    assert disagreement(Truth((1.0,)), answer) == "the checker refuses it: a rule is broken"


@pytest.mark.long
def test_hangs_and_crashes_are_found_with_their_seed_and_the_rest_goes_on() -> None:
    """One worker loops for ever, one dies; the kernel and the parent end them."""
    chunks = iter([("f", (0, 1, 2, 3)), ("g", (4,))])
    found = {
        seed: outcome
        for _, seed, outcome in run_checks(misbehave, chunks, 2, 1.0, time.monotonic() + 600)
    }
    assert found[0] == 0
    assert found[3] == 30
    assert found[4] == 40
    assert isinstance(found[1], Crash)
    assert "hangs" in found[1].reason
    assert isinstance(found[2], Crash)
    assert "died" in found[2].reason


def test_a_sweep_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    """Seeds done are left out, seeds that disagreed are tried again."""
    path = tmp_path / "record.json"
    record = Record(path)
    for seed in (0, 1, 2, 5):
        record.add("round", seed, Counter(optimal=1), 0.1, "")
    record.add("round", 3, Counter(), 0.1, "highs: false")
    record.write()
    again = Record(path)
    assert list(again.todo("round", range(7))) == [3, 4, 6]
    assert again.disagreements["round"] == {3: "highs: false"}
    again.add("round", 3, Counter(optimal=1), 0.1, "")
    again.write()
    assert Record(path).disagreements["round"] == {}
    assert '"seeds": "0:4,5:6"' in path.read_text()


def test_the_table_has_every_kind_of_proof() -> None:
    """Of what is proved in three ways, all three are counted."""
    record = Record(None)
    for seed, proof in enumerate(("recomputed", "recomputed", "confirmed", "claimed")):
        record.add("round", seed, Counter({"optimal": 1, f"bound {proof}": 1}), 0.1, "")
    header, row, _ = exhaustive.table(record).splitlines()
    assert header.split()[-5:] == ["recomputed", "confirmed", "claimed", "worst", "s"]
    assert row.split()[-4:] == ["2", "1", "1", "0.10"]


@pytest.mark.long
def test_the_command_line_sweeps_and_keeps_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "record.json"
    options = ["--families", "colocation", "--record", str(record)]
    assert exhaustive.main([*options, "--seeds", "0:6"]) == 0
    assert "6 instances checked" in capsys.readouterr().out
    assert exhaustive.main([*options, "--seeds", "0:8"]) == 0
    assert "2 instances checked" in capsys.readouterr().out
    with pytest.raises(ValueError, match='unknown family "rounds"; known: all, plain'):
        chosen("rounds")


@pytest.mark.long
def test_the_watchdog_measures_every_instance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--families", "colocation", "--record", str(tmp_path / "record.json")]
    assert watchdog.main([*options, "--seeds", "0:3"]) == 0
    assert "0 of 3 instances late, lost or wrong" in capsys.readouterr().out
    assert watchdog.main([*options, "--seeds", "0:6"]) == 0
    assert "0 of 6 instances late, lost or wrong" in capsys.readouterr().out


def test_a_late_solve_is_told_with_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """By CPU time: a clock of our own says that a solve took three seconds."""
    readings = iter((10.0, 13.0))
    watchdog.check("colocation", 0)  # its solver is loaded, which is no part of a limit
    monkeypatch.setattr("benchmarks.watchdog.time.process_time", lambda: next(readings))
    counts, beyond_s, false = watchdog.check("colocation", 0)
    assert beyond_s == pytest.approx(2.9)
    assert sum(counts.values()) == 1
    assert false.endswith("limit 0.1 s, took 3.00 s of CPU")
