"""A lock that goes with the process that holds it, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from alloc.server.tables import DatabaseError, display_name


class FileLock:
    """A lock on a file beside the database.

    Raises
    ------
    DatabaseError
        If another process holds it.
    """

    def __init__(self, path: Path, database: str) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise DatabaseError(
                f"{display_name(database)} is in use by another server; stop that one, give this "
                "one a --database of its own, or let both use PostgreSQL."
            ) from None

    def release(self) -> None:
        """Let the lock go."""
        os.close(self._handle)
