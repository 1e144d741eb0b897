"""Values of many blocks: solved in this process, or by workers while this one goes on.

Every dual solution is a cut for all blocks, so a master can do without those of the last few blocks
of a step: they are solved elsewhere while it is solved here, and their cuts come a step later
(asynchronous cuts [1]_, of the last blocks only, so that no master knows less than the step before
it).

References
----------
.. [1] J. Linderoth, S. Wright, "Decomposition algorithms for stochastic programming on a
   computational grid", Computational Optimization and Applications 24, 2003.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.errors import worker_deaths
from alloc.formulation import ArrayModel, RawResult
from alloc.models.right_sizing.data import Array
from alloc.parallel import Workers
from alloc.processes import ctrl_c_waits
from alloc.solving.processes import background_workers
from alloc.solving.right_sizing.blocks import BlockData, BlockSolver, BlockValue, Task

_PIECES = 8
"""Calls for each worker: few enough to cost little, and enough that none waits long for another."""
_solvers: dict[str, tuple[int, BlockSolver]] = {}
"""In a worker process, the solver it has warm, by the token of its problem, and the state of it."""

Answer = tuple[int, float, list[BlockValue]]
"""Number of a piece, CPU time that it took, seconds, and the values of its blocks."""


def _get_ready(token: str, state: int, data: BlockData) -> BlockSolver:
    """Return the solver of a problem, which this process makes once, in a state of the problem."""
    if token not in _solvers:
        _solvers.clear()
        _solvers[token] = state, BlockSolver(data)
    known, solver = _solvers[token]
    if known != state:
        solver.change(data)
        _solvers[token] = state, solver
    return solver


def _start_with(token: str, state: int, data: BlockData) -> Answer:
    """Get ready for a problem; nothing is solved yet."""
    _get_ready(token, state, data)
    return 0, 0.0, []


def _solve_some(
    number: int,
    token: str,
    state: int,
    data: BlockData,
    tasks: Sequence[Task],
    linked: Array,
    waived: Array,
    keep: bool,
    seconds: float,
) -> Answer:
    began, ends = time.process_time(), time.perf_counter() + seconds
    solver = _get_ready(token, state, data)
    found = [
        solver.solve((w, t), linked[t], float(waived[w]), ends - time.perf_counter())
        for w, t in tasks
    ]
    if not keep:
        found = [replace(f, values=np.zeros(0)) for f in found]
    return number, time.process_time() - began, found


class BlockValues:
    """Values blocks, in this process or by workers (`alloc.parallel`).

    Parameters
    ----------
    data
        The blocks.
    workers
        Processes.
    report
        Takes a line of progress, at the end.
    """

    def __init__(
        self, data: BlockData, workers: int = 1, report: Callable[[str], None] | None = None
    ) -> None:
        self.data, self.workers, self._report = data, workers, report
        self._local: BlockSolver | None = None
        self._token, self._state = uuid.uuid4().hex, 0
        self._stack, self._sent = ExitStack(), ExitStack()
        self._crew: Workers | None = None
        self._running: Generator[Answer, None, None] | None = None
        self._is_starting = False
        self._late: list[BlockValue] = []
        self._turn = self._calls = 0
        self._cpu_s = self._beside_s = self._waited_s = 0.0

    def __enter__(self) -> Self:
        if self.workers > 1:
            crew = self._stack.enter_context(background_workers(self.workers))
            # Where nothing can go on beside this process, as in a worker, it is alone.
            self._crew = crew if crew.starts_at_once else None
        if self._crew is not None:
            self._send()
            # They start while the first program is solved here.
            ready = [(self._token, self._state, self.data)] * self.workers
            with ctrl_c_waits():
                self._running = self._crew.start(_start_with, ready)
            self._is_starting = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._crew is not None and self._running is not None:
            self._crew.end(self._running)
            self._running = None
        self._sent.close()
        self._stack.close()
        if self._crew is not None and self._report is not None:
            self._report(
                f"the other workers: {self._calls} turns with blocks, {self._cpu_s:.1f} s of CPU, "
                f"{self._beside_s:.1f} of it beside this process; waited for {self._waited_s:.1f} s"
            )
        self._crew = None

    def _send(self) -> None:
        """Send the blocks to the workers, in place of those before."""
        assert self._crew is not None
        if not self._is_starting:
            # Who starts has still to read them.
            self._sent.close()
        self._sent.enter_context(self._crew.sharing([self.data]))

    def change(self, data: BlockData) -> None:
        """Solve blocks of more rows or other costs from now on; late ones are collected before."""
        self.data = data
        self._state += 1
        if self._local is not None:
            self._local.change(data)
        if self._crew is not None:
            self._send()

    def solve_programs(
        self, programs: Sequence[tuple[ArrayModel, SolverOptions]]
    ) -> list[RawResult]:
        """Solve integer programs, at the same time if there are several processes."""
        if self._crew is None or len(programs) == 1 or not self._are_up():
            return [highs.solve(model, options) for model, options in programs]
        with worker_deaths("right-sizing"):
            return self._crew.in_order(highs.solve, programs)

    def solve(
        self,
        tasks: Iterable[Task],
        linked: Array,
        waived: Array,
        keep: bool = False,
        seconds: float = math.inf,
        may_be_late: float = 0.0,
    ) -> dict[Task, BlockValue]:
        """Solve some blocks.

        Parameters
        ----------
        tasks
            Scenarios and quarters; similar ones are solved one after the other.
        linked
            Usable GPUs and hosts in service, shape (quarters, linked).
        waived
            Which scenarios are waived, shape (scenarios,).
        keep
            Whether the values of the columns are wanted.
        seconds
            Wall time for all of them, seconds.
        may_be_late
            Part of them that may be left to the workers, for `take_late`.

        Raises
        ------
        OutOfTime
            If the time was too short.
        """
        order = sorted(tasks, key=lambda task: (task[1], float(self.data.right[task].sum())))
        until = time.perf_counter() + seconds
        found: dict[Task, BlockValue] = {}
        while len(found) < len(order) and (self._crew is None or not self._are_up()):
            if self._local is None:
                self._local = BlockSolver(self.data)
            w, t = order[len(found)]
            left = until - time.perf_counter()
            found[w, t] = self._local.solve((w, t), linked[t], float(waived[w]), left)
        order = order[len(found) :]
        if self._crew is None or not order:
            return found
        self._collect()
        seconds = until - time.perf_counter()
        late = int(may_be_late * len(order))
        parts = min(_PIECES * self.workers, max(len(order), 1))
        ends = [round(i * len(order) / parts) for i in range(parts + 1)]
        # Each worker has quarters that follow each other, whose solutions are alike.
        apart = math.ceil(parts / self.workers)
        places = [i for first in range(apart) for i in range(first, parts, apart)]
        if late:
            # Others are late each time.
            self._turn += parts // 2
            places = [places[(self._turn + i) % parts] for i in range(parts)]
        pieces = [order[ends[i] : ends[i + 1]] for i in places]
        calls = [
            (number, self._token, self._state, self.data, piece, linked, waived, keep, seconds)
            for number, piece in enumerate(pieces)
        ]
        missing = len(order) - late
        with worker_deaths("right-sizing"), ctrl_c_waits():
            self._running = self._crew.start(_solve_some, calls)
        while missing > 0:
            answer = self._next_answer()
            assert answer is not None, "a piece is missing"
            number, _, values = answer
            found.update(zip(pieces[number], values, strict=True))
            missing -= len(values)
        return found

    def _are_up(self) -> bool:
        """Return whether the workers have started; until then this process goes on alone."""
        if self._is_starting:
            assert self._crew is not None
            self._is_starting = not self._crew.are_up
        return not self._is_starting

    def take_late(self) -> list[BlockValue]:
        """Return the values of blocks that were left to the workers before, once each."""
        if self._is_starting:
            return []
        self._collect()
        late, self._late = self._late, []
        return late

    def _collect(self) -> None:
        """Wait for what still runs, so that the next calls can begin."""
        while (answer := self._next_answer()) is not None:
            _, cpu_s, values = answer
            self._late += values
            # It was solved while this process did something else.
            self._beside_s += cpu_s

    def _next_answer(self) -> Answer | None:
        """Return the next answer of what runs, None if there is none any more."""
        if self._running is None:
            return None
        began = time.perf_counter()
        with worker_deaths("right-sizing"):
            answer = next(self._running, None)
        self._waited_s += time.perf_counter() - began
        if answer is None:
            self._running = None
            return None
        self._calls += 1
        self._cpu_s += answer[1]
        return answer
