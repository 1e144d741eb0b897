"""Searches elsewhere beside the one here: what `Limits.workers` does for methods that search.

A search that goes on for turns asks a team, at the beginning of a turn, for as many other searches
as there are workers besides itself. They begin with what the turn begins with, differ by their
seeds, and go where `alloc.parallel.workers` has them: processes of this machine, Dask or Ray. At
the end of the turn the best answer of all is where the next turn begins (cooperative search by
synchronous exchange: Crainic and Toulouse, Parallel meta-heuristics, in Handbook of Metaheuristics,
2010). Turns are counted in work, not in seconds, and answers are taken in the order of their seeds:
the same seed and number of workers give the same answer, unless time ends the search.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from alloc.errors import SolverError, worker_deaths
from alloc.parallel import Workers, workers
from alloc.processes import ctrl_c_waits
from alloc.solving.outcome import Progress, Settings

Out = TypeVar("Out")

_MAX_SEED = 2**31 - 1
"""Largest seed of HiGHS and CP-SAT."""
_RETURN_SHARE = 0.01
"""Of the limit, by which searches elsewhere end earlier, for their answers to come back."""
_GRACE_S = 0.5
"""For so long after the limit answers are waited for, seconds: those that are on their way come."""


class Team:
    """The searches beside one here; a context, at whose end they end.

    Workers start when they are first asked. Where there are none besides this process, or they
    cannot work beside it, as within a worker of a comparison, the search here is alone.

    Parameters
    ----------
    count
        Number of workers, this process included.
    report
        Takes a line of progress.

    Attributes
    ----------
    others
        Number of searches elsewhere: 0 where the search here is alone.
    """

    def __init__(self, count: int, report: Progress) -> None:
        self.others = count - 1
        self._count = count
        self._report = report
        self._stack = ExitStack()
        self._crew: Workers | None = None
        self._known: tuple[Any, ExitStack] | None = None
        self._answers: Generator[tuple[int, float, Any], None, None] | None = None
        self._settings = Settings()
        self._asked = self._answered = 0
        self._cpu_s = self._waited_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._crew is not None and self._answers is not None:
            self._crew.end(self._answers)
        if self._known is not None:
            self._known[1].close()
        self._stack.close()
        if self._answered:
            self._report(
                f"the other workers: {self._answered} turns of a search, {self._cpu_s:.1f} s of "
                f"CPU; waited for {self._waited_s:.1f} s"
            )

    def ask(
        self, function: Callable[..., Out], settings: Settings, known: Any, *given: Any
    ) -> None:
        """Start a search on every other worker.

        Parameters
        ----------
        function
            ``function(known, settings, *given)`` searches and returns what it found. Its settings
            are those of the search here, with one worker and a seed of its own.
        settings
            Limits of the search here, with the clock that is running, and seed.
        known
            What searches begin with in many turns; it is sent once, and again when it is another.
        given
            What is of this turn only.
        """
        if self.others and self._crew is None:
            self._open()
        if not self.others:
            return
        assert self._crew is not None
        assert self._answers is None, "the answers of the turn before are not collected"
        self._send(self._crew, known)
        self._settings = settings
        left = settings.seconds_left()
        seconds = left - min(left, _RETURN_SHARE * settings.time_limit_s)
        calls = []
        for number in range(self.others):
            self._asked += 1
            seed = (settings.seed + self._asked) % (_MAX_SEED + 1)
            own = replace(settings, time_limit_s=seconds, seed=seed, workers=1)
            calls.append((number, function, known, own, time.time() + seconds, given))
        with ctrl_c_waits():
            self._answers = self._crew.start(_search, calls)

    def collect(self) -> list[Any]:
        """Return what the searches of this turn found, by seed; none where none was asked for.

        What does not come by the limit is left out. The death of a worker is survived: the search
        here goes on alone.
        """
        if self._answers is None:
            return []
        assert self._crew is not None
        answers, self._answers = self._answers, None
        found: dict[int, Any] = {}
        began = time.perf_counter()
        try:
            with worker_deaths("search"):
                wait_s = self._settings.seconds_left() + _GRACE_S
                for number, cpu_s, answer in self._crew.in_time(answers, wait_s):
                    found[number] = answer
                    self._answered += 1
                    self._cpu_s += cpu_s
        except SolverError:
            self.others = 0
            self._report("a worker process died; the search goes on in this one alone")
        finally:
            self._waited_s += time.perf_counter() - began
            self._crew.end(answers)
        return [found[number] for number in sorted(found)]

    def _open(self) -> None:
        """Open the workers, or none where they cannot work beside this process."""
        crew = self._stack.enter_context(workers(None, self._count))
        self._crew = crew
        if not crew.starts_at_once:
            self.others = 0
            self._report("no worker can start beside this one; the search is alone")

    def _send(self, crew: Workers, known: Any) -> None:
        """Send what searches begin with, unless it is there."""
        if self._known is not None:
            if self._known[0] is known:
                return
            self._known[1].close()
        stack = ExitStack()
        stack.enter_context(crew.sharing([known]))
        self._known = (known, stack)


def _search(
    number: int,
    function: Callable[..., Out],
    known: Any,
    settings: Settings,
    ends: float,
    given: tuple[Any, ...],
) -> tuple[int, float, Out]:
    """Search in a worker, whose clock is another one: until a moment, or for so many seconds.

    Returns the number of the search, the CPU time that it took, seconds, and what it found.
    """
    seconds = max(min(settings.time_limit_s, ends - time.time()), 0.0)
    here = replace(settings, time_limit_s=seconds, started=time.perf_counter())
    began = time.process_time()
    found = function(known, here, *given)
    return number, time.process_time() - began, found
