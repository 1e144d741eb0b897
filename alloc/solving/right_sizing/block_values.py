"""Values of many blocks: solved in this process and, at the same time, in others beside it.

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
import pickle
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.blas_threads import no_blas_threads
from alloc.errors import OutOfTime, WorkerDiedError, worker_deaths
from alloc.formulation import ArrayModel, RawResult
from alloc.models.right_sizing.data import Array
from alloc.processes import ctrl_c_waits
from alloc.solving.right_sizing.blocks import BlockData, BlockSolver, BlockValue, Task

if TYPE_CHECKING:
    from joblib.externals.loky import ProcessPoolExecutor

_PIECES = 32
"""Calls for each worker: few enough to cost little, and enough that none waits long for another."""
_AHEAD = 2
"""Calls for each other process at a time, one of which waits until the other is done: a call that
is sent is no longer solved here."""
_GRACE_S = 0.5
"""Seconds for which answers of other processes are waited for when this one has its own, their
limits being the same: those that are on their way come."""
_warm: tuple[Path, BlockSolver] | None = None
"""In a worker process, the solver that it has warm, and the file with its blocks."""

Out = TypeVar("Out")

Answer = tuple[float, list[BlockValue]]
"""CPU time of a call, seconds, and the values of its blocks."""


def _solver_of(file: Path) -> BlockSolver:
    """Return the solver of the blocks in a file; those of one problem share a folder."""
    global _warm
    if _warm is None or _warm[0] != file:
        data = pickle.loads(file.read_bytes())
        if _warm is not None and _warm[0].parent == file.parent:
            solver = _warm[1]
            solver.change(data)
        else:
            solver = BlockSolver(data)
        _warm = file, solver
    return _warm[1]


def _get_ready(file: Path) -> None:
    """Get ready for a problem; nothing is solved yet."""
    _solver_of(file)


def _solve_some(
    file: Path, tasks: Sequence[Task], linked: Array, waived: Array, keep: bool, seconds: float
) -> Answer:
    began, ends = time.process_time(), time.perf_counter() + seconds
    solver = _solver_of(file)
    found = [
        solver.solve((w, t), linked[t], float(waived[w]), ends - time.perf_counter())
        for w, t in tasks
    ]
    if not keep:
        found = [replace(f, values=np.zeros(0)) for f in found]
    return time.process_time() - began, found


class BlockValues:
    """Values blocks, in this process and in others beside it.

    Parameters
    ----------
    data
        The blocks.
    workers
        Processes, this one included.
    report
        Takes a line of progress, at the end and when a process dies.
    """

    def __init__(
        self, data: BlockData, workers: int = 1, report: Callable[[str], None] | None = None
    ) -> None:
        self.data, self.workers, self._report = data, workers, report
        self._local: BlockSolver | None = None
        self._stack = ExitStack()
        self._others: ProcessPoolExecutor | None = None
        self._file = Path()
        """Where other processes read the blocks; without a name where there are none."""
        self._starting: list[Future[None]] = []
        self._sent: dict[Future[Answer], list[Task]] = {}
        """Calls whose answers are not taken yet."""
        self._until = math.inf
        """When the time for the last blocks is up."""
        self._late: list[BlockValue] = []
        self._calls = self._state = 0
        self._cpu_s = self._waited_s = 0.0

    @property
    def count(self) -> int:
        """Processes that work: this one, and the others where there are any."""
        return 1 if self._others is None else self.workers

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(no_blas_threads())
            if self.workers > 1:
                self._start(stack)
            self._stack = stack.pop_all()
        return self

    def _start(self, stack: ExitStack) -> None:
        """Start the other processes, which get ready while the first program is solved here."""
        # joblib takes 0.1 s to load.
        from alloc.solving.processes import processes_beside

        others = stack.enter_context(processes_beside(self.workers - 1))
        if others is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="alloc-blocks-"))
            self._file = Path(folder) / "0.pickle"
            self._write()
            with ctrl_c_waits():
                self._starting = [
                    others.submit(_get_ready, self._file) for _ in range(self.workers - 1)
                ]
            self._others = others

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
        if self._file.name and self._report is not None:
            self._report(
                f"the other workers: {self._calls} turns with blocks, {self._cpu_s:.1f} s of CPU; "
                f"waited for {self._waited_s:.1f} s"
            )
        self._others = None
        self._sent.clear()

    def _write(self) -> None:
        """Write the blocks to where the other processes read them."""
        self._file.write_bytes(pickle.dumps(self.data))

    def change(self, data: BlockData) -> None:
        """Solve blocks of more rows or other costs from now on; late ones are collected before."""
        self.data = data
        if self._local is not None:
            self._local.change(data)
        if self._others is not None:
            self._state += 1
            # Who starts has still to read what was there before.
            self._file = self._file.with_name(f"{self._state}.pickle")
            self._write()

    def solve_programs(
        self, programs: Sequence[tuple[ArrayModel, SolverOptions]]
    ) -> list[RawResult]:
        """Solve integer programs at the same time.

        Returns
        -------
        list of RawResult
            That of the first, which Ctrl-C ends, and those of others that come in time from other
            processes: of all, of some, or of none.
        """
        model, options = programs[0]
        options = replace(options, stoppable=True)
        if len(programs) == 1 or not self._are_up():
            return [highs.solve(model, options)]
        self._take_back()
        elsewhere: list[Future[RawResult]] = []
        with self._survived():
            elsewhere += [self._submit(highs.solve, *program) for program in programs[1:]]
        found = [highs.solve(model, options)]
        with self._survived():
            wait(elsewhere, _GRACE_S)
            found += [future.result() for future in elsewhere if future.done()]
        return found

    @contextmanager
    def _survived(self) -> Iterator[None]:
        """Go on alone when another process dies."""
        try:
            with worker_deaths("right-sizing"):
                yield
        except WorkerDiedError:
            self._others = None
            self._starting.clear()
            self._sent.clear()
            if self._report is not None:
                self._report("a worker process died; the search goes on in this one alone")

    def _submit(self, function: Callable[..., Out], *given: object) -> Future[Out]:
        """Send a call to another process; one that has been idle for long is started again."""
        assert self._others is not None
        with ctrl_c_waits():
            future: Future[Out] = self._others.submit(function, *given)
        return future

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
            Part of them that may be left to other processes, for `take_late`.

        Raises
        ------
        OutOfTime
            If the time was too short.
        """
        left = deque(sorted(tasks, key=lambda task: (task[1], float(self.data.right[task].sum()))))
        until = self._until = time.perf_counter() + seconds
        found: dict[Task, BlockValue] = {}

        def solve_here(task: Task) -> None:
            if self._local is None:
                self._local = BlockSolver(self.data)
            seconds = until - time.perf_counter()
            found[task] = self._local.solve(task, linked[task[1]], float(waived[task[0]]), seconds)

        while left and not self._are_up():
            solve_here(left.popleft())
        if self._others is None or not left:
            return found
        self._take_back()
        wanted = len(found) + len(left) - int(may_be_late * len(left))
        size = math.ceil(len(left) / (_PIECES * self.workers))
        pieces = deque(list(islice(left, i, i + size)) for i in range(0, len(left), size))
        own: set[Future[Answer]] = set()

        def send(piece: list[Task]) -> None:
            seconds = until - time.perf_counter()
            given = (self._file, piece, linked, waived, keep, seconds)
            future = self._submit(_solve_some, *given)
            self._sent[future] = piece
            own.add(future)

        with self._survived():
            while len(found) < wanted:
                found.update(self._answers_of(own))
                # The first to others, the last here: each has quarters whose solutions are alike.
                while pieces and len(self._sent) < _AHEAD * (self.workers - 1):
                    send(pieces.popleft())
                if pieces:
                    for task in pieces.pop():
                        solve_here(task)
                elif len(found) < wanted:
                    self._wait(until)
            for piece in pieces:
                send(piece)
        for task in left:
            if self._others is None and task not in found:
                solve_here(task)
        return found

    def _are_up(self) -> bool:
        """Return whether other processes have started; until then this one goes on alone."""
        with self._survived():
            while self._starting and self._starting[0].done():
                self._starting.pop(0).result()
        return self._others is not None and not self._starting

    def take_late(self, wait_for_all: bool = False) -> list[BlockValue]:
        """Return the values of blocks that were left to other processes before, once each.

        Parameters
        ----------
        wait_for_all
            Whether those that are being solved are waited for; what has not begun is given up.

        Raises
        ------
        OutOfTime
            If they do not come in the time that they have.
        """
        with self._survived():
            self._answers_of(set())
            if wait_for_all:
                self._take_back()
                while self._sent:
                    self._wait(self._until)
                    self._answers_of(set())
        late, self._late = self._late, []
        return late

    def _take_back(self) -> None:
        """Give up calls that have not begun."""
        for future in [future for future in self._sent if future.cancel()]:
            del self._sent[future]

    def _wait(self, until: float) -> None:
        """Wait for the next answer, until a moment at most."""
        began = time.perf_counter()
        left = min(max(until - began, 0.0), threading.TIMEOUT_MAX)
        done, _ = wait(self._sent, left, FIRST_COMPLETED)
        self._waited_s += time.perf_counter() - began
        if not done:
            raise OutOfTime

    def _answers_of(self, own: set[Future[Answer]]) -> dict[Task, BlockValue]:
        """Take the answers that are there; return those of some calls, the others are late."""
        found: dict[Task, BlockValue] = {}
        for future in [future for future in self._sent if future.done()]:
            tasks = self._sent.pop(future)
            cpu_s, values = future.result()
            self._calls += 1
            self._cpu_s += cpu_s
            if future in own:
                found.update(zip(tasks, values, strict=True))
            else:
                self._late += values
        return found
