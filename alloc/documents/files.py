"""Files: whole documents in, whole documents out, never half of one."""

from __future__ import annotations

import gzip
import os
import stat
import tempfile
import zlib
from os import PathLike
from pathlib import Path
from typing import IO

from alloc.errors import AllocError, InstanceError, nearest

MAX_BYTES = 512 * 2**20
"""Largest document that is read, bytes after decompression. A million jobs need about 200 MiB."""

MAX_VALUES = 50_000_000
"""Most commas and opening brackets in a document that is read, about the number of its JSON
values. Each is an object of 30 to 100 bytes in memory; a document of `MAX_BYTES` with jobs that
have all their own configurations holds about as many."""

_EMPTY_FROM = 256 * 1024
"""Bytes from which a text is asked whether most of it says nothing. What people write has fewer:
an idle GPU of a packing is ``[]``, and that many are 87,000 of them. A hostile text below takes
20 to 70 ms of one core until the models say what is wrong with it."""

_CHUNK = 2**20
"""Bytes read at once: 1 MiB, small beside a document and large beside a system call."""
_GZIP_MAGIC = b"\x1f\x8b"


def read_bytes(path: str | PathLike[str]) -> bytes:
    """Read a file, decompressed when its name ends in ``.gz``.

    Raises
    ------
    InstanceError
        If there is no such file, it cannot be read, or it is larger than `MAX_BYTES`.
    """
    path = Path(path)
    try:
        # The size is looked at first: nothing of a file that is too large is read.
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InstanceError(f"{path}: is a folder; name a file in it.")
        if status.st_size > MAX_BYTES:
            raise too_large(str(path), status.st_size)
        with path.open("rb") as raw:
            if path.suffix != ".gz":
                return _read_limited(raw, path)
            with gzip.GzipFile(fileobj=raw) as unpacked:
                return _read_limited(unpacked, path)
    except FileNotFoundError:
        raise InstanceError(f"{path}: there is no such file{_neighbour(path)}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InstanceError(
            f"{path}: is not a whole gzip file ({error}); copy it again, or drop .gz from the name "
            "of a plain file."
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        if isinstance(error, InstanceError):
            raise
        raise InstanceError(f"{path}: cannot be read ({reason(error)}).") from None


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write a file as a whole: until the last byte is on disk, the old file stays as it was.

    Compressed when its name ends in ``.gz``, and then the same bytes for the same text.

    Parameters
    ----------
    path
        The file to write.
    text
        Its content, written as UTF-8.

    Raises
    ------
    AllocError
        If it cannot be written; the old file, if there was one, is still there.
    """
    data = text.encode()
    if Path(path).suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    write_bytes(path, data)


def write_bytes(path: str | PathLike[str], data: bytes) -> None:
    """Write a file as a whole: until the last byte is on disk, the old file stays as it was.

    Parameters
    ----------
    path
        The file to write.
    data
        Its content.

    Raises
    ------
    AllocError
        If it cannot be written; the old file, if there was one, is still there.
    """
    try:
        target = Path(path)
        if target.exists() and not target.is_file():
            _write_through(target, data)
        else:
            # A link stays a link: what it points to is replaced.
            _replace(target.resolve(), data)
    except (OSError, ValueError) as error:
        raise AllocError(
            f"{path}: cannot be written ({reason(error)}); nothing was changed, so make room or "
            "choose another place."
        ) from None


def too_large(where: str, size: int) -> InstanceError:
    """Return the error for a document of more than `MAX_BYTES`.

    Parameters
    ----------
    where
        What the message calls the document.
    size
        Its size, bytes.
    """
    return InstanceError(
        f"{where}: has {size / 2**20:.0f} MiB or more, and documents are read up to "
        f"{MAX_BYTES / 2**20:.0f} MiB; split the instance, or let jobs share configuration sets."
    )


def count_values(text: bytes) -> int:
    """Return about how many JSON values a piece of text holds: its commas and opening brackets."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def too_many_values(where: str) -> InstanceError:
    """Return the error for a document of more than `MAX_VALUES`."""
    return InstanceError(
        f"{where}: has more than {MAX_VALUES:,} values; split the instance, or let jobs share "
        "configuration sets."
    )


def is_mostly_empty(text: bytes) -> bool:
    """Return whether most of a text are empty objects and lists, one after another.

    Of what alloc reads, only the idle GPUs of a packing and devices of a pipeline that say nothing
    of themselves stand side by side. Hostile texts have hundreds of thousands of empty objects, and
    each takes as long to read as one that says something.
    """
    if len(text) < _EMPTY_FROM:
        return False
    empties = text.count(b"{},") + text.count(b"[],")
    return 2 * len(b"{},") * empties > len(text)


def mostly_empty(where: str) -> InstanceError:
    """Return the error for a document that `is_mostly_empty`."""
    return InstanceError(
        f"{where}: is mostly empty objects and lists, one after another; fill them in, or leave "
        "them out."
    )


def require_plain(data: bytes, where: str) -> None:
    """Refuse compressed bytes that came without the name that says so.

    Parameters
    ----------
    data
        What was read.
    where
        What the message calls the document.
    """
    if data.startswith(_GZIP_MAGIC):
        raise InstanceError(f"{where} is compressed; let its name end in .gz.")


def _read_limited(stream: IO[bytes] | gzip.GzipFile, path: Path) -> bytes:
    """Read to the end, or refuse: a pipe has no size, and a small gzip file can unpack to a lot."""
    chunks: list[bytes] = []
    size = values = 0
    while chunk := stream.read(_CHUNK):
        size += len(chunk)
        values += count_values(chunk)
        if size > MAX_BYTES:
            raise too_large(str(path), size)
        if values > MAX_VALUES:
            raise too_many_values(str(path))
        chunks.append(chunk)
    return b"".join(chunks)


def _replace(target: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(
        prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent
    )
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(_mode(target))
        temporary.replace(target)
    except BaseException:  # also Ctrl-C: leave no litter
        temporary.unlink(missing_ok=True)
        raise


def _mode(target: Path) -> int:
    """Return the permissions of the file to be replaced, or of a new file."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _write_through(target: Path, data: bytes) -> None:
    """Write to what cannot be replaced: a pipe, a terminal, /dev/stdout."""
    with target.open("wb") as stream:
        stream.write(data)


def _neighbour(path: Path) -> str:
    try:
        return nearest(path.name, [entry.name for entry in path.parent.iterdir()]) or "."
    except OSError:
        return "."


def reason(error: Exception) -> str:
    """Return why the system could not read or write."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
