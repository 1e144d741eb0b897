"""Transport: requests that are sent again when it is safe, and problems that become errors."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
from httpx_sse import ServerSentEvent, connect_sse

from alloc.client.errors import RemoteError, error_of

RETRIED = frozenset({429, 502, 503, 504})
"""Answers after which the same request may succeed later."""
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
_LONGEST_PAUSE_S = 30.0
"""Whatever a server asks for: somebody waits for the answer."""
_SILENCE_S = 45.0
"""Longest silence of a stream, seconds: servers say every 15 s that they are there."""


class Transport:
    """Sends requests to one server.

    Parameters
    ----------
    url
        Address of the server, for example ``"http://127.0.0.1:8642"``.
    token
        Token of the client, or None where none is needed. It is sent in a header and never logged
        or shown.
    timeout_s
        Longest wait for an answer, seconds.
    patience_s
        How long a request that cannot be answered now is sent again, seconds.
    """

    def __init__(self, url: str, token: str | None, timeout_s: float, patience_s: float) -> None:
        headers = {"Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self.url = url
        self.patience_s = patience_s
        self._timeout_s = timeout_s
        # No environment: a proxy or .netrc of this machine must not see the token.
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout_s, trust_env=False)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        until: float | None = None,
    ) -> httpx.Response:
        """Send a request that may be sent again, and return the answer.

        Everything the client asks may be: reading changes nothing, cancelling twice is not an
        error, and what is submitted carries an idempotency key.

        Parameters
        ----------
        method, path
            The request, such as ``"GET"`` and ``"/v1/jobs"``.
        content
            Its body; None: none.
        headers, params
            Headers, and parameters of the query, beside those of every request.
        until
            When to send it again no more, seconds on the clock of `time.monotonic`; None: when the
            client's patience is over, which ends it in any case.

        Raises
        ------
        RemoteError
            If there is no answer, or it is a problem that has no error of its own.
        InstanceError, UnsupportedFeatureError
            If the server refuses the instance or an option.
        """
        end = min(time.monotonic() + self.patience_s, math.inf if until is None else until)
        for attempt in range(1_000_000):
            try:
                response = self._http.request(
                    method, path, content=content, headers=headers, params=params
                )
            except httpx.TransportError as error:
                if not self._pause(attempt, end, None):
                    raise self._unreachable(error) from None
                continue
            if response.status_code in RETRIED and self._pause(attempt, end, response):
                continue
            return self._checked(response)
        raise AssertionError("unreachable")  # pragma: no cover

    @contextmanager
    def watch(self, path: str, last_event_id: str | None) -> Iterator[Iterator[ServerSentEvent]]:
        """Open a stream of events; after the last one it is empty.

        Parameters
        ----------
        path
            Where the events of a job are.
        last_event_id
            The last event that was read, to go on behind it; None: from the first.

        Raises
        ------
        RemoteError
            If the answer is a problem, or no stream of events.
        """
        headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        patience = httpx.Timeout(self._timeout_s, read=max(self._timeout_s, _SILENCE_S))
        with connect_sse(self._http, "GET", path, headers=headers, timeout=patience) as source:
            if source.response.status_code == 204:
                yield iter(())
                return
            if source.response.is_error:
                source.response.read()
                self._checked(source.response)
            if "text/event-stream" not in source.response.headers.get("content-type", ""):
                raise self._stranger(source.response.status_code)
            yield source.iter_sse()

    def pause_to_reconnect(self, attempt: int, end: float) -> bool:
        """Wait before a stream is opened again; False if patience is over.

        Parameters
        ----------
        attempt
            How often it was tried in vain, 0 or more; waits grow with it.
        end
            When patience is over, seconds on the clock of `time.monotonic`.
        """
        return self._pause(attempt, end, None)

    def _pause(self, attempt: int, end: float, response: httpx.Response | None) -> bool:
        pause = _PAUSES_S[min(attempt, len(_PAUSES_S) - 1)]
        asked = None if response is None else response.headers.get("retry-after")
        if asked is not None and asked.isdecimal():
            pause = min(max(pause, float(asked)), _LONGEST_PAUSE_S)
        if time.monotonic() + pause > end:
            return False
        time.sleep(pause)
        return True

    def _checked(self, response: httpx.Response) -> httpx.Response:
        if not response.is_error:
            return response
        try:
            problem = response.json()
        except ValueError:
            problem = {}
        if not isinstance(problem, Mapping) or "detail" not in problem:
            raise self._stranger(response.status_code)
        raise error_of(problem, response.status_code)

    def _stranger(self, status: int) -> RemoteError:
        return RemoteError(
            f"{self.url} answered with status {status} and not as a server of alloc does; is it "
            "one?",
            "unknown",
            status,
        )

    def _unreachable(self, error: httpx.TransportError) -> RemoteError:
        return RemoteError(
            f"{self.url} does not answer ({type(error).__name__}); is the server running there? "
            "`alloc serve` starts one.",
            "unreachable",
        )
