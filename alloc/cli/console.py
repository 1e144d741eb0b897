"""The console: results to standard output, progress to standard error."""

import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alloc.cli.door import say
from alloc.cli.sheets import Sheet, is_simple
from alloc.errors import AllocError, InstanceError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PATIENCE_S = 2.0
"""Longest silence that people take for work in progress, seconds."""

_WIDTH_OF_A_FILE = 140
"""Columns of a table in a pipe or file, which have no width of their own."""

_LIKE_A_TERMINAL = (
    *("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "JUPYTER_COLUMNS"),
    "DATABRICKS_RUNTIME_VERSION",
)
"""Variables by which Rich takes a pipe for more than a file, or another width."""

Report = Callable[[str], None]


def _console(stream: Any) -> "Console":
    from rich.console import Console

    console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH_OF_A_FILE
    return console


def show(*parts: "RenderableType") -> None:
    """Print tables and lines for people to standard output."""
    width = _plain_width(sys.stdout)
    plain = None if width is None else [_plain_lines(part, width) for part in parts]
    if plain is None or None in plain:
        console = _console(sys.stdout)
        for part in parts:
            console.print(part)
        return
    text = "".join(f"{line}\n" for lines in plain for line in lines or ())
    sys.stdout.write(text)


def _plain_width(stream: Any) -> int | None:
    """Return the width of a pipe or file, None for a terminal or what is to be like one."""
    if stream.isatty() or any(name in os.environ for name in _LIKE_A_TERMINAL):
        return None
    said = os.environ.get("COLUMNS")
    if said is None:
        return _WIDTH_OF_A_FILE
    return int(said) if said.isdigit() else None


def _plain_lines(part: Any, width: int) -> list[str] | None:
    """Return the lines of what is shown, None if Rich has to wrap it or to draw it."""
    if isinstance(part, Sheet):
        return part.lines(width)
    return [part] if isinstance(part, str) and len(part) <= width and is_simple(part) else None


def stdout_width() -> int:
    """Return the columns of standard output."""
    return _console(sys.stdout).width


def print_text(text: str) -> None:
    """Print plain text to standard output as it is, all of it."""
    sys.stdout.flush()
    data = (text if text.endswith("\n") else f"{text}\n").encode(sys.stdout.encoding, "replace")
    # With PYTHONUNBUFFERED standard output is a raw file, which on a full disk writes a part and
    # says so only in its return value.
    left = memoryview(data)
    while left:
        left = left[sys.stdout.buffer.write(left) :]


def print_json(document: Any) -> None:
    """Print the one JSON document of a command to standard output."""
    print_text(json.dumps(document, indent=2, allow_nan=False))


@contextmanager
def progress(title: str, quiet: bool = False) -> Iterator[Report]:
    """Show on standard error what is going on; the caller reports a line now and then.

    On a terminal this is a live line with a clock; elsewhere lines, once the work has taken longer
    than `PATIENCE_S` and then no more often than that.

    Parameters
    ----------
    title
        What is going on.
    quiet
        Whether to show nothing.
    """
    if quiet:
        yield lambda line: None
        return
    console = None if _plain_width(sys.stderr) else _console(sys.stderr)
    if console is None or not console.is_terminal:
        yield _plain_report(title)
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as live:
        task = live.add_task(title)
        yield lambda line: live.update(task, description=f"{title}  {line.strip()}")


def _plain_report(title: str) -> Report:
    last = time.monotonic()

    def report(line: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PATIENCE_S:
            last = now
            say(f"{title}: {line.strip()}")

    return report


@contextmanager
def log_to(path: Path | None) -> Iterator[None]:
    """Write what alloc logs to a file while it works."""
    if path is None:
        yield
        return
    require_writable(path)
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("alloc")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()


def require_writable(path: Path | None) -> None:
    """Refuse a place that cannot be written before the work starts, not after.

    Raises
    ------
    InstanceError
        If the folder does not exist or is not one, or the path is a folder.
    """
    if path is None:
        return
    if path.is_dir():
        raise InstanceError(f"{path}: is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise InstanceError(
            f"{path}: cannot be written: there is no folder {path.parent}; make it first."
        )


def make_folder(path: Path) -> None:
    """Make the folder that a report goes to, before the work starts.

    Raises
    ------
    InstanceError
        If it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InstanceError(
            f"{path}: cannot be the folder of a report ({error.strerror}); name another one."
        ) from None


def save(write: Callable[[Path], Any], path: Path) -> None:
    """Write what took long to compute; if there is no room for it, put it somewhere else.

    Parameters
    ----------
    write
        Writes the file of the path that it is given.
    path
        Where the user wants it.

    Raises
    ------
    AllocError
        If it cannot be written where it was wanted; the message names the place where it is.
    """
    try:
        write(path)
    except AllocError as error:
        folder = Path(tempfile.mkdtemp(prefix="alloc-"))
        try:
            write(folder / path.name)
        except AllocError:
            raise error from None
        raise AllocError(f"{error} The answer is in {folder / path.name} instead.") from None
