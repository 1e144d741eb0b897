"""Places in files, for errors that name file and line."""

from __future__ import annotations

from collections.abc import Callable

from alloc.errors import InstanceError

# Longer names are cut in messages: a hostile file must not fill the screen.
_LONGEST_SHOWN = 80


class Place:
    """Where something stands: a file and, where that is known, a line.

    Parameters
    ----------
    file
        The file, as the user named it.
    line
        Line number from 1; or a function that finds it, called only when a message needs it; None
        where the file has no lines to speak of.
    """

    __slots__ = ("_line", "file")

    def __init__(self, file: str, line: int | Callable[[], int | None] | None = None) -> None:
        self.file = file
        self._line = line

    @property
    def line(self) -> int | None:
        """Line number from 1, or None."""
        return self._line() if callable(self._line) else self._line

    @property
    def on_line(self) -> str:
        """``" (line 7)"``, or nothing: for a second place in the same message."""
        line = self.line
        return "" if line is None else f" (line {line})"

    def __str__(self) -> str:
        line = self.line
        return self.file if line is None else f"{self.file}, line {line}"

    def error(self, sentence: str) -> InstanceError:
        """Return the error that says a sentence about this place."""
        return InstanceError(f"{self}: {sentence}")


def shown(name: str) -> str:
    """Return a name in quotes as messages show it: cut when long, control characters escaped.

    Examples
    --------
    >>> shown("rack-1")
    '"rack-1"'
    """
    cut = name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}..."
    return '"' + "".join(c if c.isprintable() else repr(c)[1:-1] for c in cut) + '"'
