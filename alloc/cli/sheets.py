"""Sheets: tables as plain lines where they fit, which takes a tenth of the time that Rich takes.

In a pipe or file a table is text, the same as Rich writes it. A terminal, a table that is far too
wide, and letters that take two columns or none are left to Rich, which also takes long to load.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

_LAST_LATIN = "\u02ff"
"""Up to here every letter that can be printed takes one column."""
_SYMBOLS = frozenset("–—…∞→≤≥×Δ")
"""Others that do and that tables hold."""
_NARROWEST = 8
"""Letters of a line below which words fall apart: Rich knows better then."""
_WORD = re.compile(r"\s*\S+\s*")


@dataclass
class Sheet:
    """A table of text.

    Parameters
    ----------
    columns
        Headings; none of a list of names and values.
    rows
        Cells, as many in each row as there are columns.
    right
        Whether each column is set to the right.
    whole
        Whether the cells of each column must not be broken into lines.
    title
        Heading of the table; empty: none.
    caption
        What stands below it; empty: nothing.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[bool]
    whole: Sequence[bool]
    title: str = ""
    caption: str = ""

    def lines(self, width: int) -> list[str] | None:
        """Return the lines of a terminal of some columns, None if only Rich knows them.

        Parameters
        ----------
        width
            Columns that there are.
        """
        cells = [self.columns, *self.rows] if self.columns else self.rows
        if not all(is_simple(text) for row in cells for text in row):
            return None
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        # With headings two spaces between columns, one at both ends; else one around each cell.
        around = 2 * len(widths)
        if not all([widths, *widths]) or not self._narrowed(widths, width - around):
            return None
        if not self.columns and not self._holds_words(widths):
            return None  # there Rich cuts them
        room = sum(widths) + around
        said = [text for text in (self.title, self.caption) if text]
        if any(len(text) > room or not is_simple(text) for text in said):
            return None
        drawn = [line for row in self.rows for line in self._lines(row, widths)]
        if self.columns:
            rule = f" {'─' * (room - 2)} "
            drawn = [
                " " * room,
                *self._lines(self.columns, widths, at_bottom=True),
                rule,
                *drawn,
                " " * room,
            ]
        title = [self.title.ljust(room)] if self.title else []
        caption = [self.caption.ljust(room)] if self.caption else []
        return [*title, *drawn, *caption]

    def _narrowed(self, widths: list[int], room: int) -> bool:
        """Narrow the widest columns that may be broken until all fit; return whether they do."""
        # As wide as the space after them makes them, which the last one does not have.
        beside = [int(bool(self.columns) and k + 1 < len(widths)) for k in range(len(widths))]
        may = [k for k, whole in enumerate(self.whole) if not whole]
        while (excess := sum(widths) - room) > 0:
            wide = [width + space for width, space in zip(widths, beside, strict=True)]
            most = max((wide[k] for k in may), default=0)
            step = most - max((wide[k] for k in may if wide[k] < most), default=0)
            widest = [k for k in may if wide[k] == most]
            for left, k in zip(range(len(widest), 0, -1), widest, strict=True):
                less = min(step, round(excess / left))
                widths[k] -= less
                excess -= less
            if not widest or min(widths[k] for k in widest) < _NARROWEST:
                return False
        return True

    def _holds_words(self, widths: Sequence[int]) -> bool:
        return all(
            len(text) <= width or max(map(len, text.split())) <= width
            for row in self.rows
            for text, width in zip(row, widths, strict=True)
        )

    def _lines(
        self, row: Sequence[str], widths: Sequence[int], *, at_bottom: bool = False
    ) -> list[str]:
        cells = [
            [text] if len(text) <= width else broken(text, width)
            for text, width in zip(row, widths, strict=True)
        ]
        most = max(map(len, cells))
        for lines in cells:
            empty = [""] * (most - len(lines))
            lines[:] = [*empty, *lines] if at_bottom else [*lines, *empty]
        return [self._line(line, widths) for line in zip(*cells, strict=True)]

    def _line(self, row: Sequence[str], widths: Sequence[int]) -> str:
        set_ = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, self.right, strict=True)
        ]
        return f" {'  '.join(set_)} "

    def __rich__(self) -> "Table":
        """Return the table for a terminal."""
        from rich import box
        from rich.table import Table

        given: dict[str, Any] = {"title": self.title or None, "title_justify": "left"}
        given |= {"caption": self.caption or None, "caption_justify": "left"}
        if self.columns:
            made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), **given)
        else:
            made = Table(box=None, show_header=False, **given)
        for name, right, whole in zip(
            self.columns or ("",) * len(self.right), self.right, self.whole, strict=True
        ):
            # A number that is cut off is another number.
            made.add_column(
                name,
                justify="right" if right else "left",
                no_wrap=whole,
                overflow="fold" if self.columns else "ellipsis",
            )
        for row in self.rows:
            made.add_row(*row)
        return made


def is_simple(text: str) -> bool:
    """Return whether every letter of a line can be printed and takes one column."""
    if text.isascii():
        return text.isprintable()
    return text.isprintable() and all(c <= _LAST_LATIN or c in _SYMBOLS for c in text)


def broken(text: str, width: int) -> list[str]:
    """Return a text as lines: between words, and within those that are longer than a line.

    Parameters
    ----------
    text
        One line.
    width
        Most letters of a line, 1 or more.
    """
    lines, at = [""], 0
    for word in _WORD.findall(text):
        length = len(word.rstrip())
        if at + length > width and at:
            lines.append("")
            at = 0
        while length > width:
            lines[-1], word, length = word[:width], word[width:], length - width
            lines.append("")
        lines[-1] += word
        at = len(lines[-1])
    return [line.rstrip() for line in lines]
