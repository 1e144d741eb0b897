"""The generalisation study: fair pairs, no failure hidden, resumable, one command for it all."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from alloc.comparison import Entry, Store
from alloc.instances.learning_worlds import HELD_OUT_SEEDS, TINY
from alloc.schedulers.state import Knowledge
from benchmarks.__main__ import discover
from benchmarks.studies import generalisation
from benchmarks.studies.contenders import Contender, absent, contenders, learned
from benchmarks.studies.factors import LEVELS, QUICK_LEVELS, Level, by_factor
from benchmarks.studies.findings import Ratio, best_of, findings, gaps, ratio_of, summary
from benchmarks.studies.running import Results, Score, place_of, run_study
from benchmarks.studies.tables import as_json, as_markdown, missing, rows

if TYPE_CHECKING:
    from pathlib import Path

LEVEL = QUICK_LEVELS[0]
OURS = Contender(Entry("set-policy"), "learned")
DRF = Contender(Entry("drf"), "greedy")
FIFO = Contender(Entry("fifo"), "greedy")


@dataclass
class Idle:
    """A learned policy that fails, as one does that was made for something else."""

    name: str = "idle"
    information: str = "nothing"
    needs: Knowledge = "none"

    def reset(self) -> None:
        """Nothing to forget."""

    def decide(self, state: object) -> Any:
        """Fail."""
        raise ValueError("it sees no more than one job")


def made_up(ours: list[float], drf: list[float], fifo: list[float]) -> Results:
    """Return results in which the given mean completion times were found at `LEVEL`."""
    results = Results()
    for contender, values in ((OURS, ours), (DRF, drf), (FIFO, fifo)):
        for seed, value in enumerate(values):
            results.scores[place_of(LEVEL), contender.label, seed] = Score(value, 1.0)
    return results


def test_a_ratio_is_paired_and_says_no_more_than_its_interval() -> None:
    """Instances differ by far more than schedulers do; only their pairs tell schedulers apart."""
    theirs = {0: 1.0, 1: 10.0, 2: 100.0}
    better = ratio_of({k: 0.9 * v for k, v in theirs.items()}, theirs)
    assert better.word == "adds"
    assert better.middle == pytest.approx(0.9)
    assert better.text == "-10.0 % [-10.0, -10.0]"
    assert ratio_of({k: 1.1 * v for k, v in theirs.items()}, theirs).word == "loses"
    assert ratio_of({0: 0.5, 1: 20.0, 2: 100.0}, theirs).word == "undecided"
    assert ratio_of({0: 0.5}, theirs).word == "undecided"
    assert ratio_of({0: math.inf, 1: 9.0, 2: 90.0}, theirs).count == 2
    nothing = ratio_of({}, theirs)
    assert (nothing.word, nothing.text, nothing.count) == ("no numbers", "-", 0)


def test_the_rival_is_the_best_greedy_rule_and_one_that_starves_a_job_is_not_it() -> None:
    """Against a weak rule every policy looks good, so each meets the strongest at its level."""
    results = made_up([1.0, 1.0], [2.0, 2.1], [1.5, 1.6])
    best = best_of(results, LEVEL, [DRF, FIFO], 2)
    assert best is FIFO
    results = made_up([1.0, 1.0], [2.0, 2.1], [1.0, math.inf])
    assert best_of(results, LEVEL, [DRF, FIFO], 2) is DRF
    assert best_of(Results(), LEVEL, [DRF, FIFO], 2) is None


def test_a_loss_is_printed_as_a_loss() -> None:
    """Nothing is hidden: where a rule is better, the line and the count say so."""
    results = made_up([2.0, 4.0, 8.0], [1.0, 2.1, 4.0], [9.0, 9.0, 9.0])
    (finding,) = findings(results, [LEVEL], [OURS, DRF, FIFO], 3)
    assert finding.rival == "drf"
    assert "set-policy LOSES to the best greedy rule (drf)" in str(finding)
    assert summary([finding, finding], "set-policy", "greedy") == (
        "0 better, 0 not told apart, 1 worse, of 1 worlds"
    )


def test_unfinished_jobs_are_counted_and_never_averaged_away() -> None:
    """A policy that starves jobs on one instance must not win by the others in silence."""
    results = made_up([1.0, math.inf, 1.1], [2.0, 2.0, 2.1], [3.0, 3.0, 3.0])
    (finding,) = findings(results, [LEVEL], [OURS, DRF, FIFO], 3)
    assert (finding.failures, finding.ratio.count) == (1, 2)
    assert "1 failed" in str(finding)
    text = as_markdown(results, [LEVEL], [OURS, DRF, FIFO], 3, "made up")
    assert "set-policy: 1 of 3: a job never completed" in text
    assert "| load: 0.6 | drf: **adds** -4" in text
    ours = rows(results, [LEVEL], [OURS, DRF, FIFO], 3)[0]
    assert (ours["instances"], ours["failures"]) == (2, 1)
    json.loads(as_json([ours], [finding], [OURS], "made up"))


def test_gaps_are_to_the_bound_of_the_same_instance() -> None:
    """A gap is about one instance; without its bound there is none."""
    results = made_up([2.0, 3.0], [4.0, 4.0], [4.0, 4.0])
    results.bounds = {(place_of(LEVEL), 0): 1.0, (place_of(LEVEL), 1): None}
    found = gaps(results, LEVEL, [OURS], 2)["set-policy"]
    assert found.mean == pytest.approx(1.0)
    assert found.count == 1


def test_everything_that_the_study_asks_for_is_shipped_and_dl2_draws() -> None:
    """DL2 is judged as its own evaluation judges it; taken at its likeliest it would look worse."""
    found = learned()
    assert absent(found) == ()
    drawn = {contender.label for contender in found if "sample" in contender.label}
    assert drawn == {"dl2(sample=true)", "dl2-rl-only(sample=true)"}


def test_policies_that_are_not_shipped_are_named(tmp_path: Path) -> None:
    """The command works with an empty shelf, and says what is absent."""
    assert learned({}) == ()
    text = "\n".join(absent(()))
    for what in ("set-policy", "DL2 as published", "taught by the optimum"):
        assert what in text
    assert "set-policy" not in "\n".join(absent([OURS]))
    empty = as_markdown(Results(), [LEVEL], [DRF], 1, "made up")
    assert "Not shipped with this alloc, so not in the tables: DL2 as published" in empty
    labels = [contender.label for contender in contenders()]
    assert len(set(labels)) == len(labels)
    assert {"set-rule", "optimus", "drf", "srtf", "srtf-dl2", "tetris", "fifo"} <= set(labels)


def test_levels_cover_the_factors_and_share_the_starting_world() -> None:
    """Each factor has a level to compare with, and no two levels mean two worlds by one name."""
    factors = by_factor(LEVELS)
    for factor in ("load", "cluster size", "job mix", "estimation error", "job types", "arrivals"):
        assert len(factors[factor]) >= 2
        assert sum(place_of(level).startswith("start,") for level in factors[factor]) == 1
    errors = [level.world.work_error for level in factors["estimation error"]]
    assert (min(errors), max(errors)) == (0.0, 0.4)
    worlds = {place_of(level): level.world for level in LEVELS}
    assert all(worlds[place_of(level)] == level.world for level in LEVELS)
    assert len({level.key for level in LEVELS}) == len(LEVELS)
    assert LEVEL.make(1) == LEVEL.world.make(HELD_OUT_SEEDS[1])


def test_a_study_goes_on_from_its_store_and_keeps_failures(tmp_path: Path) -> None:
    """What was done is never done again; what failed is shown, and tried again."""
    levels = [Level("load", "tiny", TINY)]
    idle = Contender(Entry.of(Idle()), "learned")
    lines: list[str] = []
    with Store(tmp_path / "cells.db") as store:
        first = run_study(levels, [DRF], 1, store, say=lines.append)
        again = run_study(levels, [DRF, idle], 1, store, say=lines.append)
        kept = run_study(levels, [DRF, idle, FIFO], 2, store, stored_only=True, say=lines.append)
    assert "1 of 2 simulations are stored, 1 to run" in lines
    assert lines[-1] == "1 of 6 simulations are stored, 0 to run"
    place = place_of(levels[0])
    assert first.scores[place, "drf", 0] == again.scores[place, "drf", 0]
    assert 1 <= first.scores[place, "drf", 0].jct_slots < math.inf
    failed = kept.scores[place, "idle", 0]
    assert "it sees no more than one job" in str(failed.error)
    assert math.isinf(failed.jct_slots)
    assert missing(kept, levels, [DRF, idle, FIFO], 2) == 4


def test_a_certified_level_is_bounded_and_no_schedule_is_below_it() -> None:
    """The bound is proved, so every gap is 0 or more."""
    level = Level("certified", "few jobs", TINY.times(0.25, 1), certified=True)
    with Store() as store:
        results = run_study([level], [DRF, FIFO], 1, store, say=lambda _: None)
    for gap in gaps(results, level, [DRF, FIFO], 1).values():
        assert gap.count == 1
        assert gap.mean >= -1e-6


def test_the_study_is_listed_and_refuses_what_makes_no_sense(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`python -m benchmarks --list` shows it; counts below 1 are refused with what to give."""
    found = discover()
    assert found["studies.generalisation"] is generalisation
    assert not any(name.startswith("studies.") for name in found if "generalisation" not in name)
    for words in (["--seeds", "0"], ["--exact-seeds", "-1"], ["--jobs", "0"]):
        with pytest.raises(SystemExit):
            generalisation.main(words)
        assert f"{words[0]} must be" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        generalisation.main(["--without", "tetri"])
    assert 'no "tetri" takes part; did you mean "tetris"' in capsys.readouterr().err


def test_words_of_a_ratio_without_an_interval() -> None:
    """One instance cannot tell schedulers apart, whatever it shows."""
    one = Ratio(0.5, math.nan, math.nan, 1)
    assert (one.word, one.text) == ("undecided", "-50.0 %")


@pytest.mark.slow
def test_one_command_writes_every_table_and_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole study in small: tables in three formats, figures in two, a verdict a line."""
    words = ["--quick", "--output", str(tmp_path)]
    assert generalisation.main(words) == 0
    out = capsys.readouterr().out
    assert out.count("its decoder without learning (set-rule)") >= len(QUICK_LEVELS)
    text = (tmp_path / "study.md").read_text()
    for heading in (
        "In short",
        "Mean completion times",
        "certified bound",
        "A verdict a line",
        "Failures",
    ):
        assert heading in text
    with (tmp_path / "rows.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(QUICK_LEVELS) * len(contenders())
    document = json.loads((tmp_path / "study.json").read_text())
    assert len(document["rows"]) == len(table)
    figures = {path.name for path in (tmp_path / "figures").iterdir()}
    for stem in ("factor-load", "factor-estimation-error", "verdicts-set-policy-greedy"):
        assert {f"{stem}.png", f"{stem}.svg"} <= figures
    # Again: everything is stored, so nothing runs and the numbers are the same.
    assert generalisation.main([*words, "--stored-only"]) == 0
    assert "80 of 80" not in capsys.readouterr().out
    assert json.loads((tmp_path / "study.json").read_text())["rows"] == document["rows"]
