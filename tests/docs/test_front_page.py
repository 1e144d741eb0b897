"""The front page: short, with a picture and samples that the code makes again."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "examples"


def test_the_front_page_is_short_and_shows_no_tables_of_figures():
    """What it is for, a picture, two commands, three questions: figures are in the benchmarks."""
    assert len(README.splitlines()) <= 120
    assert not re.search(r"^\|", README, re.MULTILINE)
    assert "docs/images/gaps.svg" in README
    assert "docs/benchmarks.md" in README


def test_measured_blocks_are_in_the_benchmarks_each_once():
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for name in ("itp-week", "philly-vc", "performance"):
        for end in ("begin", "end"):
            assert text.count(f"<!-- measured: {name} ({end}) -->") == 1
    assert "<!-- measured" not in README


@pytest.mark.long
def test_the_picture_shows_what_the_schedulers_do():
    """Names and percentages in it are those of today's schedulers, in the order of the bars."""
    images = runpy.run_path(str(ROOT / "docs" / "images.py"))
    drawn = re.findall(r">([^<]*)</text>", images["PICTURE"].read_text(encoding="utf-8"))
    made = re.findall(r">([^<]*)</text>", images["picture"]())
    labels = {"optimum", *images["DEMO_SCHEDULERS"]}
    assert [word for word in made if word in labels or "%" in word] == [
        word for word in drawn if word in labels or "%" in word
    ]
    assert labels < set(drawn)


def test_the_samples_are_what_their_script_makes(tmp_path):
    """To the byte: a sample that was edited by hand, or a format that moved on, is seen."""
    runpy.run_path(str(EXAMPLES / "make.py"))["main"](tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {name: (EXAMPLES / name).read_bytes() for name in made}
    assert {"queue.json", "topology.conf", "jobs.csv", "decision.json"} < made.keys()


def test_the_front_page_names_every_sample():
    """A sample that no page shows is one that nobody finds."""
    pages = README + "".join(
        page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md"))
    )
    names = {path.name for path in EXAMPLES.iterdir() if path.suffix not in (".py", ".pyc")}
    assert {name for name in names if f"examples/{name}" not in pages} == set()
