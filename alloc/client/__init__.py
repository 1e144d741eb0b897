"""A typed client of the server; it needs the ``client`` extra.

`Client` takes and returns the library's own types; `RemoteJob` is a job that lives at the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alloc.client.errors import RemoteError as RemoteError
from alloc.errors import missing_extra

if TYPE_CHECKING:
    from alloc.client.client import Client as Client
    from alloc.client.job import JobStatus as JobStatus
    from alloc.client.job import RemoteJob as RemoteJob

__all__ = ["Client", "JobStatus", "RemoteError", "RemoteJob"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from alloc.client import client, job
    except ModuleNotFoundError as error:
        raise missing_extra(f"the client needs {error.name}", "client", error) from None
    return getattr(client if name == "Client" else job, name)
