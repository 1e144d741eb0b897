"""Problems: what the server answers when it cannot do what was asked (RFC 9457).

The `type` of a problem is stable, so that programs can tell problems apart; `detail` says in one
sentence what was expected, what came and the cure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from alloc.errors import InstanceError

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:alloc:problem:"

KINDS: Mapping[str, tuple[int, str]] = {
    "malformed-json": (400, "The body is not JSON"),
    "bad-request": (400, "The request is malformed"),
    "invalid-request": (422, "The request does not fit its schema"),
    "invalid-instance": (422, "The instance or an option is wrong"),
    "unsupported": (422, "The chosen method cannot do this"),
    "time-limit": (422, "The job took longer than the server allows"),
    "memory-limit": (422, "The job needed more memory than the server allows"),
    "idempotency-key-reused": (422, "The idempotency key belongs to another request"),
    "unauthorized": (401, "A token is needed"),
    "forbidden-origin": (403, "The request comes from a page of another origin"),
    "not-found": (404, "There is no such thing"),
    "method-not-allowed": (405, "The method is not allowed here"),
    "not-finished": (409, "The job is not finished"),
    "cancelled": (409, "The job was cancelled"),
    "already-finished": (409, "The job is finished already"),
    "expired": (410, "The result has expired"),
    "body-too-large": (413, "The body is too large"),
    "body-too-slow": (408, "The body did not arrive in time"),
    "unsupported-media-type": (415, "The body is not plain JSON"),
    "wrong-host": (421, "The server does not answer to this host name"),
    "too-many-jobs": (429, "The client has too many jobs waiting"),
    "internal": (500, "Something broke that should not"),
    "solver-failed": (500, "A solver broke its contract"),
    "worker-died": (500, "The process that ran the job died"),
    "server-died": (500, "The server died again and again while the job ran"),
    "store-unavailable": (503, "The database does not answer"),
    "queue-full": (503, "The queue is full"),
    "shutting-down": (503, "The server is shutting down"),
    "not-ready": (503, "The server does not take work yet"),
}
"""Kind of problem: its HTTP status and its title."""


@dataclass(frozen=True)
class Problem:
    """A problem document.

    Parameters
    ----------
    kind
        One of `KINDS`; the last part of the `type` URI.
    detail
        What is wrong and the cure, one sentence.
    errors
        ``pointer`` (RFC 6901, from the root of the body) or ``parameter``, and ``detail``, of every
        field that is wrong, where that is known.
    headers
        Headers of the answer, such as ``Retry-After``.
    """

    kind: str
    detail: str
    errors: Sequence[Mapping[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def status(self) -> int:
        """HTTP status."""
        return KINDS[self.kind][0]

    def to_dict(self, instance: str | None = None, request_id: str | None = None) -> dict[str, Any]:
        """Return the document; `instance` is the address that it is about.

        Parameters
        ----------
        instance
            Address that it is about; None: left out.
        request_id
            Id of the request in the server's log; None: left out.
        """
        status, title = KINDS[self.kind]
        document: dict[str, Any] = {
            "type": f"{TYPE_PREFIX}{self.kind}",
            "title": title,
            "status": status,
            "detail": self.detail,
        }
        if instance is not None:
            document["instance"] = instance
        if self.errors:
            document["errors"] = [dict(error) for error in self.errors]
        if request_id is not None:
            document["request_id"] = request_id
        return document

    def to_json(self) -> str:
        """Return the problem as it is stored with a job that failed."""
        return json.dumps(
            {"kind": self.kind, "detail": self.detail, "errors": [dict(e) for e in self.errors]}
        )

    @staticmethod
    def from_json(text: str | bytes) -> Problem:
        """Read a stored problem."""
        plain = json.loads(text)
        return Problem(plain["kind"], plain["detail"], tuple(plain["errors"]))


class ProblemError(Exception):
    """Ends the handling of a request with a problem document."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def refuse(
    kind: str,
    detail: str,
    *,
    errors: Sequence[Mapping[str, str]] = (),
    headers: Mapping[str, str] | None = None,
) -> ProblemError:
    """Return the exception for a problem.

    Parameters
    ----------
    kind
        One of `KINDS`.
    detail
        What is wrong and the cure, one sentence.
    errors
        What is wrong with each field, as of `Problem`.
    headers
        Headers of the answer, such as ``Retry-After``; None: none of its own.
    """
    return ProblemError(Problem(kind, detail, errors, headers or {}))


@contextmanager
def blame(pointer: str, kind: str = "invalid-instance") -> Iterator[None]:
    """Say of what is wrong with a part of a request where the part is.

    Parameters
    ----------
    pointer
        JSON pointer (RFC 6901) of the part, from the root of the body.
    kind
        Kind of the problem.

    Raises
    ------
    ProblemError
        If an `InstanceError` is raised inside.
    """
    try:
        yield
    except InstanceError as error:
        errors = [{"pointer": pointer, "detail": str(error)}]
        raise refuse(kind, str(error), errors=errors) from None
