"""Logs: one JSON object a line on standard error.

What a request says is never logged: no headers, bodies, queries or results; so no token can be.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, MutableMapping
from functools import cache
from typing import Any, TextIO

import structlog

_SECRET = ("authorization", "token", "password", "secret", "idempotency", "cookie")
_HIDDEN = "[hidden]"


def hide_secrets(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Hide the values of fields whose names sound secret: the last line of defence."""
    for name in event:
        if _sounds_secret(name):
            event[name] = _HIDDEN
    return event


def _line(event: Any, default: Callable[[Any], Any]) -> str:
    """Return an event as JSON; `json.dumps` would make an encoder for every line."""
    return _encoder(default).encode(event)


@cache
def _encoder(default: Callable[[Any], Any]) -> json.JSONEncoder:
    return json.JSONEncoder(default=default)


@cache
def _sounds_secret(name: str) -> bool:
    return any(word in name.lower() for word in _SECRET)


def configure_logs(level: str, stream: TextIO | None = None) -> None:
    """Write the logs of alloc's server and of uvicorn as JSON.

    Parameters
    ----------
    level
        Least level that is written: ``debug``, ``info``, ``warning`` or ``error``.
    stream
        Where to; None: standard error.
    """
    out = stream or sys.stderr
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        hide_secrets,
    ]
    structlog.configure(
        processors=[
            *shared,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_line),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processor=structlog.processors.JSONRenderer(),
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
        )
    )
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler] if name == "uvicorn" else []
        logger.propagate = name != "uvicorn"
        logger.setLevel(level.upper())
    # Requests have lines of our own, which leave out what may be secret.
    logging.getLogger("uvicorn.access").disabled = True
