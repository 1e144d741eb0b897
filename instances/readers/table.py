"""Tables in separated text, plain or gzip, whose bad rows are counted, not lost."""

from __future__ import annotations

import csv
import gzip
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import count
from os import PathLike
from pathlib import Path
from typing import IO, TypeVar, cast

from alloc.errors import InstanceError, nearest
from alloc.instances.readers.report import ReportLog

T = TypeVar("T")

# The widest row of a public trace is under 1 KiB, and the longest job table has 3.4 million rows
# (Helios). Whatever is beyond is no such table, or was made to fill the memory.
_LONGEST_LINE = 64 * 1024
_MAX_LINES = 5_000_000
# Unix time in milliseconds is within, in microseconds beyond; differences stay exact.
_LATEST_S = 1e13
_CHUNK = 2**20
_HEAD = 4096
"""Bytes by which text is told from what is none."""
_GZIP_MAGIC = b"\x1f\x8b"

DELIMITERS = (",", "\t", "|", ";")
"""Characters that tables have between fields; the first counts where none is there."""
_TEXT_OF = {
    ",": "comma-separated",
    "\t": "tab-separated",
    "|": "bar-separated",
    ";": "semicolon-separated",
}


class UnreadableRowError(ValueError):
    """A row cannot be read; the message is the reason, the same for every row of its kind."""


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Parameters
    ----------
    line
        Line number in the file, from 1.
    values
        Text of each field by column name, without surrounding blanks.
    """

    line: int
    values: dict[str, str]

    def text(self, column: str) -> str:
        """Return a field that must not be empty."""
        value = self.values[column]
        if not value:
            raise UnreadableRowError(f"{column} is empty")
        return value

    def number(self, column: str) -> float:
        """Return a finite number."""
        value = self.text(column)
        # Python would read 1_000 and digits of any script.
        if "_" in value or not value.isascii():
            raise UnreadableRowError(f"{column} is not a number")
        try:
            number = float(value)
        except ValueError:
            raise UnreadableRowError(f"{column} is not a number") from None
        if not math.isfinite(number):
            raise UnreadableRowError(f"{column} is not finite")
        return number

    def time_s(self, column: str) -> float:
        """Return a moment on the clock of the trace, seconds."""
        number = self.number(column)
        if abs(number) > _LATEST_S:
            raise UnreadableRowError(f"{column} is beyond {_LATEST_S:g} s")
        return number

    def integer(self, column: str, *, least: int = 0, most: int = 2**53) -> int:
        """Return a whole number between `least` and `most`; ``4.0`` is one.

        Parameters
        ----------
        column
            Name of the column.
        least, most
            The range; 2^53 is the last whole number that a float holds exactly.
        """
        number = self.number(column)
        if not number.is_integer():
            raise UnreadableRowError(f"{column} is not a whole number")
        if not least <= number <= most:
            raise UnreadableRowError(f"{column} is not between {least} and {most}")
        return int(number)

    def positive(self, column: str, *, most: float) -> float:
        """Return a number above 0 and at most `most`.

        Parameters
        ----------
        column
            Name of the column.
        most
            The largest that is believed, in the unit of the column.
        """
        number = self.number(column)
        if number <= 0:
            raise UnreadableRowError(f"{column} is not above 0")
        if number > most:
            raise UnreadableRowError(f"{column} is above {most:g}")
        return number


def read_table(
    path: str | PathLike[str],
    columns: Sequence[str],
    parse: Callable[[Row], T],
    log: ReportLog,
    *,
    delimiter: str = ",",
) -> list[T]:
    """Read a table row by row.

    Parameters
    ----------
    path
        The file, plain or gzip (told by its content, not its name). UTF-8 with or without a byte
        order mark, any line ends, blank lines ignored.
    columns
        Columns that the header must name, in any order. Other columns are handed on.
    parse
        Makes a record of a row, or raises `UnreadableRowError`.
    log
        Counts the rows.
    delimiter
        The character between fields.

    Returns
    -------
    list
        The records of the rows that could be read, in the order of the file.

    Raises
    ------
    InstanceError
        If the file cannot be opened, ends too early, or has another header.
    """
    path = Path(path)
    log.files.append(path.name)
    records: list[T] = []
    with _naming(path):
        _require_few_lines(path)
        lines = _lines(path)
        header = _header(path, lines, columns, delimiter)
        for line, text in lines:
            try:
                records.append(parse(_row(line, text, header, delimiter)))
            except (UnreadableRowError, InstanceError) as reason:
                log.skip(str(reason), line, text)
    log.rows_read += len(records)
    return records


def read_header(path: str | PathLike[str], *, delimiter: str = ",") -> tuple[str, ...]:
    """Return the column names of a table.

    Parameters
    ----------
    path
        The file, as for `read_table`.
    delimiter
        The character between names.

    Raises
    ------
    InstanceError
        If the file cannot be read or is empty.
    """
    path = Path(path)
    with _naming(path):
        return _header(path, _lines(path), (), delimiter)


def table_lines(path: str | PathLike[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file that are not blank, with their numbers.

    Raises
    ------
    InstanceError
        If the file cannot be read or has too many or too long lines.
    """
    path = Path(path)
    with _naming(path):
        _require_few_lines(path)
        yield from _lines(path)


def is_json(path: str | PathLike[str]) -> bool:
    """Return whether a file begins as JSON does.

    Raises
    ------
    InstanceError
        If it cannot be read.
    """
    path = Path(path)
    with _naming(path), open_bytes(path) as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def find_delimiter(path: str | PathLike[str]) -> str:
    """Return the character between the column names of a table; a comma where there is one name.

    Raises
    ------
    InstanceError
        If the file cannot be read or is empty.
    """
    path = Path(path)
    with _naming(path):
        _require_text(path)
        _, text = next(_lines(path), (0, ""))
    bare = re.sub(r'"[^"]*"', "", text)
    return max(DELIMITERS, key=bare.count)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a file into a sentence that names it."""
    try:
        yield
    except FileNotFoundError:
        raise InstanceError(f"{path}: there is no such file; check the path.") from None
    except EOFError:
        raise InstanceError(
            f"{path}: the gzip file ends too early; fetch or compress it again."
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InstanceError(
            f"{path}: is damaged as a gzip file ({error}); fetch or compress it again."
        ) from None
    except OSError as error:
        raise InstanceError(
            f"{path}: cannot be read ({error.strerror or error}); give a readable file."
        ) from None
    except ValueError as error:
        if isinstance(error, InstanceError):
            raise
        # A path with a zero byte.
        raise InstanceError(f"{path!r}: is not a path ({error}); check it.") from None


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, unpacked where its content is gzip."""
    with path.open("rb") as file:
        packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    return cast(IO[bytes], gzip.open(path)) if packed else path.open("rb")


_OTHER_TEXT = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks of UTF-16, which spreadsheets write as "Unicode text"."""


def _require_text(path: Path) -> None:
    """Refuse what is no table in UTF-8 at its first bytes, and not column by column."""
    with open_bytes(path) as file:
        head = file.read(_HEAD)
    if head.startswith(_OTHER_TEXT):
        raise InstanceError(f"{path}: is text in UTF-16; save it as CSV in UTF-8.")
    if b"\0" in head:
        raise InstanceError(f"{path}: is no text; give the table as CSV in UTF-8, or as Parquet.")


def _open(path: Path) -> IO[str]:
    # Bytes that are not UTF-8 spoil their own row only: see _row.
    return TextIOWrapper(open_bytes(path), encoding="utf-8-sig", errors="replace", newline=None)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers."""
    with _open(path) as file:
        for number in count(1):
            line = file.readline(_LONGEST_LINE)
            if not line:
                return
            if len(line) == _LONGEST_LINE:
                raise InstanceError(
                    f"{path}, line {number}: is longer than {_LONGEST_LINE} characters; "
                    "give a table with one row per line."
                )
            if line.strip():
                yield number, line.rstrip("\n")


def _require_few_lines(path: Path) -> None:
    """Refuse a table of too many lines at once, not after the minute that reading them takes."""
    lines = 0
    with open_bytes(path) as file:
        while lines <= _MAX_LINES and (chunk := file.read(_CHUNK)):
            # Lines end with a line feed, a carriage return, or both.
            lines += max(chunk.count(b"\n"), chunk.count(b"\r"))
    if lines > _MAX_LINES:
        raise InstanceError(f"{path}: has more than {_MAX_LINES} lines; cut it into parts.")


def _header(
    path: Path, lines: Iterator[tuple[int, str]], columns: Sequence[str], delimiter: str
) -> tuple[str, ...]:
    expected = ",".join(columns) or "column names"
    try:
        line, text = next(lines)
    except StopIteration:
        raise InstanceError(f"{path}: is empty; its first line must name {expected}.") from None
    try:
        header = tuple(_fields(text, delimiter))
    except UnreadableRowError as reason:
        raise InstanceError(f"{path}, line {line}: {reason}; it must name {expected}.") from None
    for column in columns:
        if column not in header:
            shown = text if len(text) <= 200 else f"{text[:200]}..."
            raise InstanceError(
                f'{path}, line {line}: expected the columns {expected}, but "{column}" is not in '
                f'"{shown}"{nearest(column, header) or "."} '
                "Give the file in that layout."
            )
    twice = {name for name, times in Counter(header).items() if times > 1}
    if twice:
        raise InstanceError(
            f'{path}, line {line}: names the column "{min(twice)}" twice; name every column once.'
        )
    return header


def _fields(text: str, delimiter: str) -> list[str]:
    if '"' not in text:  # what the csv module would do, and three times as fast
        return [field.strip() for field in text.split(delimiter)]
    # One line at a time: to the csv module an open quote would swallow the rest of the file.
    try:
        reader = csv.reader([text], strict=True, delimiter=delimiter)
        return [field.strip() for field in next(reader)]
    except (csv.Error, StopIteration):
        raise UnreadableRowError(f"is not {_TEXT_OF[delimiter]} text") from None


def _row(line: int, text: str, header: Sequence[str], delimiter: str) -> Row:
    if "\ufffd" in text:
        raise UnreadableRowError("is not UTF-8 text")
    fields = _fields(text, delimiter)
    if len(fields) != len(header):
        raise UnreadableRowError(f"has {len(fields)} fields instead of {len(header)}")
    return Row(line, dict(zip(header, fields, strict=True)))
