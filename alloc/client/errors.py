"""What a server says when it does not do what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from alloc.errors import AllocError, InstanceError, UnsupportedFeatureError


class RemoteError(AllocError):
    """A server did not do what was asked.

    Parameters
    ----------
    message
        What is wrong and the cure, in the server's words.
    kind
        Kind of the problem, the last part of its type URI: ``unauthorized``, ``expired`` ...;
        ``unreachable`` if there was no answer.
    status
        HTTP status, or None without an answer.
    request_id
        Id of the request in the server's log, or None.
    """

    def __init__(
        self,
        message: str,
        kind: str,
        status: int | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.request_id = request_id


def error_of(problem: Mapping[str, Any], status: int) -> AllocError:
    """Return the error that a problem document means: what solving at home would raise.

    Parameters
    ----------
    problem
        The document, of RFC 9457.
    status
        HTTP status of the answer.
    """
    kind = str(problem.get("type", "")).rpartition(":")[2] or "unknown"
    detail = str(problem.get("detail") or f"the server answered with status {status}.")
    if kind == "invalid-instance":
        return InstanceError(detail)
    if kind == "invalid-request":
        fields = [
            f"{field.get('pointer') or field.get('parameter') or 'body'}: {field.get('detail')}"
            for field in problem.get("errors", ())
            # What the sentence says already need not be said again.
            if str(field.get("detail")) not in detail
        ]
        return InstanceError("; ".join([detail.rstrip("."), *fields]) + ".")
    if kind == "unsupported":
        return UnsupportedFeatureError(detail)
    return RemoteError(detail, kind, status, problem.get("request_id"))
