"""What a reader made of a file: rows read, rows that could not be read, jobs left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

# Enough to find the trouble in the file, few enough to read.
_EXAMPLES_KEPT = 5
_EXAMPLE_LENGTH = 120


@dataclass(frozen=True)
class Tally:
    """Rows or jobs that share one fate for one reason.

    Parameters
    ----------
    reason
        Why, in a few words.
    count
        How many, 1 or more.
    examples
        The first few: line numbers with the text of the line, or job ids.
    """

    reason: str
    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        more = ", ..." if self.count > len(self.examples) else ""
        return f"{self.count} x {self.reason} ({', '.join(self.examples)}{more})"


@dataclass(frozen=True)
class ReadReport:
    """The account a reader gives; nothing that was in the file is missing from it.

    Parameters
    ----------
    files
        The files read.
    rows_read
        Data rows that could be read. Blank lines are not rows.
    skipped
        Rows that could not be read, by reason.
    dropped
        Rows that could be read but are not in the result, by reason: outside the window, larger
        than the cluster ...
    altered
        Rows in the result with a change, by reason.
    also
        Accounts of other tables that the result needed: machines, scaling tables ... Their rows are
        not counted here.
    notes
        How the files were read, in sentences: which column is what, and what was assumed.
    """

    files: tuple[str, ...]
    rows_read: int
    skipped: tuple[Tally, ...] = ()
    dropped: tuple[Tally, ...] = ()
    altered: tuple[Tally, ...] = ()
    also: tuple[ReadReport, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rows_skipped(self) -> int:
        """Number of rows that could not be read."""
        return sum(tally.count for tally in self.skipped)

    @property
    def num_dropped(self) -> int:
        """Number of rows read but left out of the result."""
        return sum(tally.count for tally in self.dropped)

    def __add__(self, other: ReadReport) -> ReadReport:
        """Return the account of both readings together."""
        return ReadReport(
            self.files + other.files,
            self.rows_read + other.rows_read,
            _merged(self.skipped + other.skipped),
            _merged(self.dropped + other.dropped),
            _merged(self.altered + other.altered),
            self.also + other.also,
            tuple(dict.fromkeys(self.notes + other.notes)),
        )

    def __str__(self) -> str:
        """Return the account in lines for people."""
        lines = [
            f"{', '.join(self.files)}: {self.rows_read} rows read, {self.rows_skipped} unreadable, "
            f"{self.num_dropped} left out"
        ]
        for title, tallies in (
            ("unreadable", self.skipped),
            ("left out", self.dropped),
            ("changed", self.altered),
        ):
            lines += [f"  {title}: {tally}" for tally in tallies]
        lines += [f"  {note}" for note in self.notes]
        lines += map(str, self.also)
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the account as plain data for JSON, with the sums."""
        return {
            **asdict(self),
            "rows_skipped": self.rows_skipped,
            "num_dropped": self.num_dropped,
            "also": [report.as_dict() for report in self.also],
        }


class ReportLog:
    """Collects a `ReadReport` while a reader works.

    Attributes
    ----------
    files
        Files read so far.
    rows_read
        Rows read so far.
    also
        Accounts of other tables.
    notes
        How the files were read.
    """

    def __init__(self) -> None:
        self.files: list[str] = []
        self.rows_read = 0
        self.also: list[ReadReport] = []
        self.notes: list[str] = []
        self._skipped: dict[str, tuple[int, list[str]]] = {}
        self._dropped: dict[str, tuple[int, list[str]]] = {}
        self._altered: dict[str, tuple[int, list[str]]] = {}

    def skip(self, reason: str, line: int, text: str) -> None:
        """Count a row that cannot be read.

        Parameters
        ----------
        reason
            Why; rows with the same reason are counted together.
        line
            Number of the line in the file, from 1.
        text
            What stands there; the first few are shown.
        """
        _count(self._skipped, reason, f"line {line}: {text}")

    def drop(self, reason: str, label: str) -> None:
        """Count a row that was read and is left out.

        Parameters
        ----------
        reason
            Why; rows with the same reason are counted together.
        label
            Which row; the first few are shown.
        """
        _count(self._dropped, reason, label)

    def alter(self, reason: str, label: str) -> None:
        """Count a row that is in the result with a change.

        Parameters
        ----------
        reason
            What was changed; rows with the same reason are counted together.
        label
            Which row; the first few are shown.
        """
        _count(self._altered, reason, label)

    def report(self) -> ReadReport:
        """Return the account so far."""
        return ReadReport(
            tuple(self.files),
            self.rows_read,
            _tallies(self._skipped),
            _tallies(self._dropped),
            _tallies(self._altered),
            tuple(self.also),
            tuple(self.notes),
        )


def _count(counts: dict[str, tuple[int, list[str]]], reason: str, example: str) -> None:
    count, examples = counts.get(reason, (0, []))
    if len(examples) < _EXAMPLES_KEPT:
        if len(example) > _EXAMPLE_LENGTH:
            example = f"{example[:_EXAMPLE_LENGTH]}..."
        examples.append(example)
    counts[reason] = (count + 1, examples)


def _tallies(counts: dict[str, tuple[int, list[str]]]) -> tuple[Tally, ...]:
    return tuple(Tally(reason, n, tuple(examples)) for reason, (n, examples) in counts.items())


def _merged(tallies: Iterable[Tally]) -> tuple[Tally, ...]:
    together: dict[str, Tally] = {}
    for tally in tallies:
        seen = together.get(tally.reason, Tally(tally.reason, 0, ()))
        examples = (seen.examples + tally.examples)[:_EXAMPLES_KEPT]
        together[tally.reason] = Tally(tally.reason, seen.count + tally.count, examples)
    return tuple(together.values())
