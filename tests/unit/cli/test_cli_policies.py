"""`alloc policies`: the shelf of learned policies, their cards, and policies in other commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from policy_files import card, write_short_first

from alloc.cli import completion
from alloc.schedulers.learned import kind_names, read_policy
from alloc.schedulers.shelf import shipped_policies

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def own_shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the tests off the shelf of whoever runs them."""
    monkeypatch.setenv("ALLOC_POLICIES", str(tmp_path / "shelf"))
    return tmp_path / "shelf"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "short-first.onnx"
    write_short_first(path)
    return path


def names_of(run: Run) -> list[str]:
    return [entry["name"] for entry in json.loads(run("policies", "list", "--json").stdout)]


def test_a_policy_is_added_listed_shown_and_removed(run: Run, path: Path, own_shelf: Path) -> None:
    """The whole life of a user's policy on the shelf."""
    before = names_of(run)
    assert before == list(shipped_policies())
    done = run("policies", "add", path)
    assert done.exit_code == 0, done.stderr
    assert "added short-first" in done.stderr
    assert names_of(run) == [*before, "short-first"]
    shown = run("policies", "list")
    assert "short-first" in shown.stdout
    assert "The shortest job first" in shown.stdout
    assert str(own_shelf) in shown.stderr
    assert run("policies", "remove", "short-first").exit_code == 0
    assert names_of(run) == before


def test_the_list_says_what_a_policy_needs_and_weighs(run: Run, path: Path) -> None:
    run("policies", "add", path)
    [entry] = [
        e for e in json.loads(run("policies", "list", "--json").stdout) if e["origin"] == "added"
    ]
    assert entry["kind"] == "job-priority/1"
    assert entry["needs"] == "estimate"
    assert entry["bytes"] == path.stat().st_size
    assert entry["error"] is None


def test_a_broken_file_does_not_hide_the_others(run: Run, path: Path, own_shelf: Path) -> None:
    """Somebody's damaged file must not take the list, or the schedulers, away."""
    run("policies", "add", path)
    (own_shelf / "broken.onnx").write_bytes(b"\xff" * 100)
    listed = json.loads(run("policies", "list", "--json").stdout)
    errors = {entry["name"]: entry["error"] for entry in listed}
    assert errors["short-first"] is None
    assert "is not a whole ONNX file" in errors["broken"]
    assert "cannot be used" in run("policies", "list").stdout
    schedulers = run("schedulers", "list")
    assert schedulers.exit_code == 0
    assert "short-first" in schedulers.stdout
    assert "left out broken" in schedulers.stderr
    assert run("policies", "remove", "broken").exit_code == 0


@pytest.mark.parametrize("how", ["name", "path"])
def test_the_card_is_shown_by_name_and_by_path(run: Run, path: Path, how: str) -> None:
    """Everything the issue asks of a card: data, seeds, command, hours, curve, licence."""
    run("policies", "add", path)
    done = run("policies", "show", path if how == "path" else "short-first")
    assert done.exit_code == 0, done.stderr
    for text in (
        "none: its weights were written by hand",
        "1, 2",
        "python make_policy.py --seed 1",
        "0.25 hours, 2026-11-21",
        "mean JCT, slots: lowest 3.25 at update 50, last 4 at 100 (3 points)",
        "MIT",
        "python 3.12",
        "Never saw more than ten jobs.",
        "Smith, Naval Research Logistics Quarterly, 1956.",
        "jobs float32 [jobs, 8]",
        "opset 17",
    ):
        assert text in done.stdout


def test_the_card_as_json_is_the_document(run: Run, path: Path) -> None:
    shown = json.loads(run("policies", "show", path, "--json").stdout)
    policy = read_policy(path)
    assert shown["sha256"] == policy.sha256
    assert shown["card"] == card().model_dump(mode="json")
    assert shown["spec"]["kind"] == "job-priority/1"


def test_the_card_as_markdown_is_a_page(run: Run, path: Path) -> None:
    page = run("policies", "show", path, "--markdown").stdout
    assert page.startswith("# short-first\n\nThe shortest job first\n")
    for line in (
        "| licence | MIT |",
        "    python make_policy.py --seed 1",
        "- Never saw more than ten jobs.",
        "| 50 | 3.25 |",
        "## References",
    ):
        assert line in page.splitlines()
    done = run("policies", "show", path, "--markdown", "--json")
    assert done.exit_code == 2
    assert "exclude each other" in done.stderr


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_validation_curve_is_drawn(run: Run, path: Path, tmp_path: Path, ending: str) -> None:
    figure = tmp_path / f"curve.{ending}"
    done = run("policies", "show", path, "--plot", figure)
    assert done.exit_code == 0, done.stderr
    head = figure.read_bytes()[:200]
    assert head.startswith(b"\x89PNG") if ending == "png" else b"<?xml" in head


def test_a_curve_needs_points_and_a_known_ending(run: Run, path: Path, tmp_path: Path) -> None:
    done = run("policies", "show", path, "--plot", tmp_path / "curve.pdf")
    assert done.exit_code == 2
    assert "end in .svg or .png" in done.stderr
    from policy_files import SPEC, priority_model

    from alloc.schedulers.learned import write_policy

    write_policy(tmp_path / "x.onnx", priority_model(), SPEC, card("x", curve=()))
    done = run("policies", "show", tmp_path / "x.onnx", "--plot", tmp_path / "curve.svg")
    assert done.exit_code == 2
    assert "has no validation curve" in done.stderr
    assert "no curve" in run("policies", "show", tmp_path / "x.onnx").stdout


def test_a_policy_is_exported_byte_for_byte(run: Run, path: Path, tmp_path: Path) -> None:
    """What leaves the shelf is the file that came, for other tools to open."""
    run("policies", "add", path)
    done = run("policies", "export", "short-first", "--output", tmp_path / "copy.onnx")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "copy.onnx").read_bytes() == path.read_bytes()
    done = run("policies", "export", "short-first", "--output", tmp_path / "copy.bin")
    assert done.exit_code == 2
    assert "end in .onnx" in done.stderr
    done = run("policies", "export", "short-first", "--output", tmp_path / "no" / "copy.onnx")
    assert done.exit_code == 2
    assert "there is no folder" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show", "nothing"), 'there is no policy "nothing"'),
        (("show", "no.onnx"), "no.onnx: there is no such file"),
        (("export", "drf", "--output", "x.onnx"), 'there is no policy "drf"'),
        (("add", "no.onnx"), "no.onnx: there is no such file"),
        (("remove", "drf"), 'no policy "drf" was added'),
    ],
)
def test_what_is_not_there_is_said_in_one_line(
    run: Run, arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("policies", *arguments)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr


def test_kinds_are_listed(run: Run) -> None:
    """Whoever brings a network needs to know what it will be shown."""
    shown = run("policies", "kinds").stdout
    listed = json.loads(run("policies", "kinds", "--json").stdout)
    assert [kind["name"] for kind in listed] == list(kind_names())
    assert all(name in shown for name in kind_names())
    [window] = [kind for kind in listed if kind["name"] == "dl2-window/1"]
    assert window["parameters"]["properties"]["window"]["minimum"] == 1


def test_simulate_and_compare_take_a_policy_file(run: Run, path: Path) -> None:
    done = run("simulate", "elastic-tiny/01", "--scheduler", path, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["scheduler"] == "short-first"
    run("policies", "add", path)
    done = run(
        *("compare", "elastic-tiny/01", "--schedulers", "fifo,short-first", "--time-limit", "5"),
        *("--json", "--quiet"),
    )
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["scheduler"] for row in rows] == ["optimum", "fifo", "short-first"]
    done = run("simulate", "elastic-tiny/01", "--scheduler", "short-frist")
    assert done.exit_code == 2
    assert 'did you mean "short-first"?' in done.stderr


def test_names_of_policies_are_completed(run: Run, path: Path) -> None:
    run("policies", "add", path)
    assert completion.complete_policy("short") == ["short-first"]
    assert completion.complete_added_policy("") == ["short-first"]
    assert "short-first" in completion.complete_scheduler("sho")
