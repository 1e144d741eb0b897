"""Numbers and tables for people."""

import math

import pytest
from rich.console import Console

from alloc.cli.tables import MAX_ROWS, number, percent, shortened, table


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (3, "3"),
        (2695.54, "2,695.54"),
        (1234567.8912, "1,234,567.891"),
        (0.000123456, "0.000123"),
        (-2.5, "-2.5"),
        (-0.0, "0"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
        (math.nan, "–"),
    ],
)
def test_numbers_are_written_as_people_write_them(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "∞"),
        (0.0, "0 %"),
        (1e-16, "0 %"),
        # A gap that is there must not read as none.
        (1e-6, "< 0.01 %"),
        (0.1667, "16.67 %"),
    ],
)
def test_a_small_gap_never_reads_as_none(share, shown):
    assert percent(share) == shown


def test_a_narrow_terminal_cuts_off_no_number():
    # A number that has lost its end is another number.
    console = Console(width=30)
    with console.capture() as capture:
        console.print(table(("a long heading", "text"), [(1234567.125, "some words " * 5)]))
    assert "1,234,567.125" in capture.get()
    assert "…" not in capture.get()


def test_flags_and_gaps_read_as_words():
    console = Console(width=40)
    with console.capture() as capture:
        console.print(table(("flag", "nothing"), [(True, None), (False, None)]))
    assert "yes" in capture.get()
    assert "no" in capture.get()
    assert "–" in capture.get()


def test_a_table_of_hundreds_of_rows_says_how_many_are_left_out():
    """Replicas of a day of hours would push the verdict off the screen."""
    rows = [(f"p{k}", k) for k in range(MAX_ROWS + 70)]
    console = Console(width=80)
    with console.capture() as shown:
        console.print(shortened(("period", "replicas"), rows, title="Replicas"))
    text = shown.get()
    assert "Replicas" in text
    assert f"p{MAX_ROWS - 1} " in text
    assert f"p{MAX_ROWS} " not in text
    assert "and 70 more rows; --output writes them all" in " ".join(text.split())
