"""Records: a job as it is stored and as it is shown."""

from __future__ import annotations

import dataclasses
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from alloc.server.problems import Problem

State = Literal["queued", "running", "done", "failed", "cancelled", "expired"]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled", "expired")


def new_job_id() -> str:
    """Return an id that nobody guesses, and that sorts by time of creation."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def rfc3339(seconds: float | None) -> str | None:
    """Return a time (seconds since 1970) as RFC 3339 in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Job:
    """A job: a request that was accepted, and what became of it.

    Parameters
    ----------
    id
        Unique; sorts by time of creation.
    client
        Whose it is.
    operation
        Name of the operation.
    created, started, finished, expires
        Times, seconds since 1970; `expires` is when the result goes.
    state
        ``queued``, ``running``, ``done``, ``failed``, ``cancelled`` or ``expired``.
    attempt
        How often it was started; more than 1 if the server died while it ran.
    label
        The client's own name for it.
    problem
        Why it failed, as `Problem.to_json` writes it.
    idempotency_key, body_hash
        The key that the client gave, and the SHA-256 of the request.
    """

    id: str
    client: str
    operation: str
    created: float
    state: State = "queued"
    started: float | None = None
    finished: float | None = None
    expires: float | None = None
    attempt: int = 0
    label: str | None = None
    problem: str | None = None
    idempotency_key: str | None = None
    body_hash: str | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more will become of it."""
        return self.state in ENDED

    def replace(self, **changes: Any) -> Job:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self, progress: str | None = None) -> dict[str, Any]:
        """Return the job document."""
        here = f"/v1/jobs/{self.id}"
        problem = None if self.problem is None else Problem.from_json(self.problem)
        return {
            "schema_version": 1,
            "kind": "job",
            "id": self.id,
            "operation": self.operation,
            "state": self.state,
            "label": self.label,
            "client": self.client,
            "attempt": self.attempt,
            "created_at": rfc3339(self.created),
            "started_at": rfc3339(self.started),
            "finished_at": rfc3339(self.finished),
            "expires_at": rfc3339(self.expires),
            "progress": progress,
            "problem": None if problem is None else problem.to_dict(here),
            "links": {
                "self": here,
                "request": f"{here}/request",
                "result": f"{here}/result",
                "events": f"{here}/events",
                "cancel": f"{here}/cancel",
            },
        }
