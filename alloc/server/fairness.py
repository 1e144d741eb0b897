"""The queue: whose job is next. Clients get worker time in proportion to their weights.

Start-time fair queueing: every client has a clock that runs with the worker time that it uses,
slower the larger its weight, and the job of the client whose clock is furthest behind goes first.
A job counts with what the client's jobs took lately until it is done, and then with what it took.
A client that was away starts at the time of those that wait: absence saves up no claim, and a
crowd of jobs delays nobody else's by more than the ones that run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

_FIRST_GUESS_S = 0.1
"""Of a client of which no job is done: a guess, which is put right when one is."""
_MEMORY = 0.2
"""Weight of the last job in the mean of what a client's jobs take."""
_LEAST_S = 1e-3
"""What the shortest job counts: free ones would never let another client's job go first."""


@dataclass
class _Line:
    """The jobs of one client that wait, and its clock."""

    weight: float = 1.0
    clock: float = 0.0
    mean_s: float = _FIRST_GUESS_S
    waiting: OrderedDict[str, None] = field(default_factory=OrderedDict)
    running: int = 0


class FairQueue:
    """Jobs that wait, by client."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._charged: dict[str, tuple[str, float]] = {}
        self._now = 0.0
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def waiting_of(self, client: str) -> int:
        """Return the number of jobs of a client that wait."""
        line = self._lines.get(client)
        return 0 if line is None else len(line.waiting)

    def put(self, client: str, job: str, weight: float = 1.0) -> None:
        """Let a job wait behind those of the same client.

        Parameters
        ----------
        client
            Whose job it is.
        job
            Its id.
        weight
            Share of worker time of the client beside those of the others, above 0.
        """
        line = self._lines.setdefault(client, _Line())
        line.weight = weight
        if not line.waiting:
            line.clock = max(line.clock, self._now)
        line.waiting[job] = None
        self._length += 1

    def take(self) -> str | None:
        """Return the job that is next, or None; it counts as running until `finish`."""
        waiting = [client for client, line in self._lines.items() if line.waiting]
        if not waiting:
            return None
        client = min(waiting, key=lambda name: self._lines[name].clock)
        line = self._lines[client]
        job, _ = line.waiting.popitem(last=False)
        self._length -= 1
        self._now = max(self._now, line.clock)
        guess = max(line.mean_s, _LEAST_S)
        self._charged[job] = (client, guess)
        line.clock += guess / line.weight
        line.running += 1
        return job

    def remove(self, client: str, job: str) -> bool:
        """Take a job that waits out of the queue; return whether it was there.

        Parameters
        ----------
        client
            Whose job it is.
        job
            Its id.
        """
        line = self._lines.get(client)
        if line is None or job not in line.waiting:
            return False
        del line.waiting[job]
        self._length -= 1
        return True

    def finish(self, job: str, seconds: float) -> None:
        """Put the clock of its client right once a job is done.

        Parameters
        ----------
        job
            Its id.
        seconds
            Wall time that it took in its worker, seconds.
        """
        if job not in self._charged:
            return
        client, guess = self._charged.pop(job)
        line = self._lines[client]
        took = max(seconds, _LEAST_S)
        line.running -= 1
        line.mean_s += _MEMORY * (took - line.mean_s)
        line.clock += (took - guess) / line.weight
        if not line.waiting and not line.running and line.clock <= self._now:
            del self._lines[client]

    def __iter__(self) -> Iterator[str]:
        for line in self._lines.values():
            yield from line.waiting
