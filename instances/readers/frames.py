"""Tables in memory and in Parquet files, row by row like tables of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from alloc.errors import InstanceError, missing_extra
from alloc.instances.readers.report import ReportLog
from alloc.instances.readers.table import Row, UnreadableRowError

T = TypeVar("T")

_PARQUET_MAGIC = b"PAR1"


def is_parquet(path: str | PathLike[str]) -> bool:
    """Return whether a file is in Parquet format, told by its first bytes."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
    except (OSError, ValueError):  # said by whoever reads it; ValueError: a zero byte in the path
        return False


def read_parquet(path: str | PathLike[str]) -> dict[str, list[Any]]:
    """Return the columns of a Parquet file.

    Raises
    ------
    BackendUnavailableError
        If pyarrow is not installed.
    InstanceError
        If the file is damaged.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise missing_extra("reading Parquet needs pyarrow", "parquet", error) from None
    try:
        # Several columns of one name would be merged in silence.
        table = pyarrow.parquet.ParquetFile(path).read()
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InstanceError(
            f"{path}: cannot be read as Parquet ({reason}); write it again."
        ) from None
    return columns_of(table, str(path))


def columns_of(frame: Any, what: str) -> dict[str, list[Any]]:
    """Return the columns of a table in memory as lists.

    Parameters
    ----------
    frame
        A DataFrame of pandas or polars, a table of pyarrow, a mapping from names to columns, or a
        sequence of mappings, one a row.
    what
        What it is called in messages.

    Raises
    ------
    InstanceError
        If it is none of these, or names a column twice.
    """
    if hasattr(frame, "column_names") and hasattr(frame, "columns"):  # pyarrow
        names = [str(name) for name in frame.column_names]
        columns = [column.to_pylist() for column in frame.columns]
    elif isinstance(frame, Mapping) and not any(map(_is_scalar, frame.values())):
        names = [str(name) for name in frame]
        columns = [list(column) for column in frame.values()]
    elif hasattr(frame, "columns") and hasattr(frame, "__getitem__"):  # pandas, polars
        names = [str(name) for name in frame.columns]
        _require_once(names, what)
        columns = [frame[name].to_list() for name in frame.columns]
    elif isinstance(frame, Sequence) and all(isinstance(row, Mapping) for row in frame):
        names = [str(name) for name in dict.fromkeys(key for row in frame for key in row)]
        columns = [[row.get(name) for row in frame] for name in names]
    else:
        raise InstanceError(
            f"{what}: is a {type(frame).__name__}; give a path, a DataFrame, a mapping from names "
            "to columns, or a list of mappings."
        )
    _require_once(names, what)
    if len({len(column) for column in columns}) > 1:
        raise InstanceError(f"{what}: its columns differ in length; give each row every column.")
    return dict(zip(names, columns, strict=True))


def _is_scalar(column: Any) -> bool:
    return isinstance(column, str) or not hasattr(column, "__iter__")


def _require_once(names: Sequence[str], what: str) -> None:
    twice = {name for name, times in Counter(names).items() if times > 1}
    if twice:
        raise InstanceError(
            f'{what}: names the column "{min(twice)}" twice; name every column once.'
        )


def read_columns(
    columns: Mapping[str, list[Any]], parse: Callable[[Row], T], log: ReportLog
) -> list[T]:
    """Read columns row by row, each cell as the text that it has in a file.

    Parameters
    ----------
    columns
        The columns by name, equally long.
    parse
        Makes a record of a row, or raises `UnreadableRowError`.
    log
        Counts the rows; the first is line 1.
    """
    names = tuple(columns)
    records: list[T] = []
    for line, values in enumerate(zip(*columns.values(), strict=True), start=1):
        texts = [_text(value) for value in values]
        try:
            records.append(parse(Row(line, dict(zip(names, texts, strict=True)))))
        except (UnreadableRowError, InstanceError) as reason:
            log.skip(str(reason), line, ", ".join(texts))
    log.rows_read += len(records)
    return records


def _text(value: Any) -> str:
    """Return the text of a value; of nothing, not-a-number and not-a-time the empty one."""
    if value is None or (not isinstance(value, str) and _is_nothing(value)):
        return ""
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.6f}s"
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value).strip()


def _is_nothing(value: Any) -> bool:
    """Return whether a value is not-a-number or not-a-time, which differ from themselves, or NA."""
    try:
        return bool(value != value)
    except TypeError:  # what pandas' NA answers every question with
        return True
    except ValueError:  # an array
        return False
