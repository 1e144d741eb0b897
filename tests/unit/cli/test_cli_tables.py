"""Numbers and tables for people."""

import io
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from alloc.cli.console import show
from alloc.cli.sheets import Sheet
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


WORDS = st.lists(st.text("ab1,.–é", min_size=1, max_size=14), max_size=5).map(" ".join)


@settings(max_examples=40)
@given(data=st.data())
def test_a_table_in_a_pipe_is_the_one_that_rich_draws(data):
    """Also where it must be broken into lines; what the quick way cannot do it leaves to Rich."""
    number = data.draw(st.integers(1, 4))
    flags = st.lists(st.booleans(), min_size=number, max_size=number)
    row = st.lists(WORDS, min_size=number, max_size=number)
    sheet = Sheet(
        data.draw(row.filter(any) | st.just([])),
        data.draw(st.lists(row, min_size=1, max_size=4)),
        data.draw(flags),
        data.draw(flags),
        data.draw(st.sampled_from(["", "a title"])),
        data.draw(st.sampled_from(["", "a caption"])),
    )
    width = data.draw(st.integers(10, 90))
    lines = sheet.lines(width)
    if lines is None:
        return
    stream = io.StringIO()
    console = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
    console.print(sheet)
    assert stream.getvalue() == "".join(f"{line}\n" for line in lines)


def test_a_table_that_fits_is_not_left_to_rich():
    """Or the test above would compare nothing."""
    sheet = Sheet(("name", "text"), [("a", "b c " * 30)], (False, False), (True, False), "t", "c")
    assert len(sheet.lines(60)) == 7 + 2
    assert sheet.lines(12) is None, "words would fall apart"
    assert Sheet(("漢",), [("x",)], (False,), (False,)).lines(60) is None, "two columns wide"


def test_what_is_shown_in_a_pipe_is_the_same_with_and_without_rich(capsys, monkeypatch):
    """Rich draws all of it where one part is not for the quick way."""
    parts = ("a line", table(("n", "text"), [(1.5, "one"), (2, None)], "Title"), "", "the end")
    show(*parts)
    quick = capsys.readouterr().out
    monkeypatch.setattr("alloc.cli.console._plain_width", lambda stream: None)
    show(*parts)
    assert capsys.readouterr().out == quick
    assert "1.5  one" in quick
