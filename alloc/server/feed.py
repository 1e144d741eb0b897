"""The feed: what happens to a job, for those who watch it."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from alloc.server.records import Job

_KEPT = 500
"""Events that are kept for watchers who come late or come back."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a job.

    Parameters
    ----------
    id
        A whole number; later events have larger ones, also after a restart of the server.
    content
        The job after a change of its state, or a line of progress.
    last
        Whether nothing follows it.
    """

    id: int
    content: Job | str
    last: bool = False

    @property
    def kind(self) -> str:
        """``status`` or ``progress``."""
        return "progress" if isinstance(self.content, str) else "status"

    @property
    def data(self) -> str:
        """JSON text: the job document, or ``{"line": ...}``."""
        # Written only when somebody watches, which for small jobs nobody does.
        if isinstance(self.content, str):
            return json.dumps({"line": self.content})
        return json.dumps(self.content.to_dict())


def last_event_id(text: str | None) -> int:
    """Return the id in a ``Last-Event-ID`` header; -1, before all, without a usable one."""
    return int(text) if text is not None and text.isdecimal() and len(text) <= 18 else -1


def event_id(seconds: float) -> int:
    """Return the id of an event at a time, seconds since 1970."""
    return int(1000 * seconds)


def past_events(packed: bytes | None, after: int) -> list[tuple[int, str, str]]:
    """Return id, kind and data of the stored events of a job after the id `after`.

    Parameters
    ----------
    packed
        The events as `EventStream.to_json` wrote them; None: none were kept.
    after
        Id of the last event that is known, -1 for none.
    """
    found = [] if packed is None else json.loads(packed)
    return [(number, kind, data) for number, kind, data in found if number > after]


class EventStream:
    """The events of one job that has not ended, and those who wait for more."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._latest = 0
        self._waiting: set[asyncio.Event] = set()
        self.progress: str | None = None
        self.watched = False
        """Whether anybody has seen an event of it."""
        self._closed = False

    def status(self, job: Job, *, last: bool = False) -> None:
        """Report a change of state: the job after it.

        Parameters
        ----------
        job
            The job.
        last
            Whether nothing follows.
        """
        self._add(job, last)

    def tell(self, line: str) -> None:
        """Report progress."""
        self.progress = line
        self._add(line, last=False)

    def close(self) -> None:
        """End the feed without a last event: what follows is told elsewhere."""
        self._closed = True
        self.wake()

    def wake(self) -> None:
        """Let all watchers look again, for instance because the server stops."""
        for event in self._waiting:
            event.set()

    async def watch(self, after: int, stop: asyncio.Event) -> AsyncIterator[Event]:
        """Yield the events after the id `after`, until the last, the end of the feed or `stop`.

        Parameters
        ----------
        after
            Id of the last event that is known, -1 for none.
        stop
            Set when the server is about to end.
        """
        self.watched = True
        seen = after
        news = asyncio.Event()
        self._waiting.add(news)
        try:
            while not stop.is_set():
                news.clear()
                for event in [event for event in self._events if event.id > seen]:
                    seen = event.id
                    yield event
                    if event.last:
                        return
                if self._closed:
                    return
                await news.wait()
        finally:
            self._waiting.discard(news)

    def to_json(self) -> bytes:
        """Return its events so far, as `past_events` reads them."""
        return json.dumps([[event.id, event.kind, event.data] for event in self._events]).encode()

    def _add(self, content: Job | str, last: bool) -> None:
        # By the clock, so that ids go on where they were when the server has been restarted.
        self._latest = max(self._latest + 1, event_id(time.time()))
        self._events.append(Event(self._latest, content, last))
        self.wake()
