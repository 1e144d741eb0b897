"""Settings of the server: options of ``alloc serve``, or variables ``ALLOC_...``."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from alloc.errors import InstanceError
from alloc.units import require_positive

PREFIX = "ALLOC_"
_LEVELS = ("debug", "info", "warning", "error")
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def default_database() -> str:
    """Return where jobs are kept when nobody says: a file in the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return str(Path(state) / "alloc" / "server.sqlite")


@dataclass(frozen=True)
class Settings:
    """How the server runs.

    Parameters
    ----------
    host, port
        Where it listens. Other addresses than loopback need tokens.
    database
        Path of an SQLite file, or URL (``postgresql+psycopg://...``), of jobs and results.
    workers
        Processes that solve, each one job at a time, 1 or more.
    memory_limit_mib
        Memory of one of them, MiB; a job that needs more fails.
    job_limit_s
        Most wall time of a job, seconds; a job that takes more fails.
    grace_s
        Wall time beyond what a request asks for until its worker is killed, seconds.
    max_body_bytes
        Largest body of a request.
    head_timeout_s
        Longest time for the head of a request, from its first byte or the start of the connection
        to the end of the headers, seconds.
    body_timeout_s, body_total_s
        Longest pause between two pieces of a body, and longest time for all of it, seconds.
    max_queue, max_queue_per_client
        Most jobs that wait, in all and of one client.
    max_wait_s
        Longest wait that ``Prefer: wait`` may ask for, seconds.
    max_attempts
        How often a job is started when the server dies while it runs.
    result_ttl_s
        How long a result is kept after the job finished, seconds.
    tombstone_ttl_s
        How long after that the server still knows that there was one, seconds.
    lease_s
        After how long without a sign of life another server takes over the jobs, seconds.
    drain_s
        How long running jobs may go on when the server is told to stop, seconds.
    require_tokens
        Whether requests need a token; None: only when the server is open to other machines.
    allowed_hosts
        Names by which it may be addressed besides loopback and `host`, without port.
    log_level
        ``debug``, ``info``, ``warning`` or ``error``.
    preload
        Whether solvers are loaded before the first job comes: a second or two at the start, and
        no job waits for them.
    operations
        Modules of your own whose ``OPERATIONS`` the server also offers.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    database: str = field(default_factory=default_database)
    workers: int = field(default_factory=lambda: os.cpu_count() or 1)
    memory_limit_mib: int = 4096
    job_limit_s: float = 3600.0
    grace_s: float = 30.0
    max_body_bytes: int = 32 * 2**20
    head_timeout_s: float = 30.0
    body_timeout_s: float = 30.0
    # The largest body at 1 Mbit/s, which is less than any link to a cluster.
    body_total_s: float = 300.0
    max_queue: int = 10_000
    max_queue_per_client: int = 2_000
    max_wait_s: float = 60.0
    max_attempts: int = 5
    result_ttl_s: float = 86_400.0
    tombstone_ttl_s: float = 7 * 86_400.0
    lease_s: float = 15.0
    drain_s: float = 10.0
    require_tokens: bool | None = None
    allowed_hosts: tuple[str, ...] = ()
    log_level: str = "info"
    preload: bool = True
    operations: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            require_positive(getattr(self, name), "server", name)
        if self.grace_s < 0 or self.drain_s < 0:
            raise InstanceError("server: grace_s and drain_s are seconds; give 0 or more.")
        if not 0 <= self.port <= 65_535:
            raise InstanceError(f"server: port is {self.port}; give a number from 0 to 65535.")
        if self.log_level not in _LEVELS:
            raise InstanceError(
                f'server: log_level "{self.log_level}" is unknown; known: {", ".join(_LEVELS)}.'
            )

    # Asked for with every request.
    @cached_property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @cached_property
    def needs_tokens(self) -> bool:
        """Whether requests need a token."""
        if self.require_tokens is not None:
            return self.require_tokens
        return not self.is_loopback or bool(self.allowed_hosts)

    def replace(self, **changes: Any) -> Settings:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None, **given: Any) -> Settings:
        """Return settings from ``ALLOC_...`` variables; what is given goes first.

        Parameters
        ----------
        environment
            Variables by name, such as ``ALLOC_PORT``; None: those of this process.
        **given
            Fields of the settings, such as ``port``; None: as the variable says.

        Raises
        ------
        InstanceError
            If a value cannot be read or is out of range.
        """
        found = os.environ if environment is None else environment
        values: dict[str, Any] = {}
        for known in dataclasses.fields(Settings):
            text = found.get(PREFIX + known.name.upper())
            if text is not None and text.strip():
                values[known.name] = _read(known.name, str(known.type), text.strip())
        values.update({name: value for name, value in given.items() if value is not None})
        return Settings(**values)


_POSITIVE = (
    "workers",
    "memory_limit_mib",
    "job_limit_s",
    "max_body_bytes",
    "head_timeout_s",
    "body_timeout_s",
    "body_total_s",
    "max_queue",
    "max_queue_per_client",
    "max_wait_s",
    "max_attempts",
    "result_ttl_s",
    "tombstone_ttl_s",
    "lease_s",
)


def is_loopback(host: str) -> bool:
    """Return whether a name or address is this machine's own."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _read(name: str, kind: str, text: str) -> Any:
    try:
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(text)
        if kind.startswith("tuple"):
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if kind.startswith("bool"):
            if text.lower() in _YES + _NO:
                return text.lower() in _YES
            raise ValueError
    except ValueError:
        wanted = {"int": "a whole number", "float": "a number"}.get(kind, "true or false")
        raise InstanceError(f'{PREFIX}{name.upper()} is "{text}"; give {wanted}.') from None
    return text
