"""Many short checks in worker processes that may crash or hang: both are found, with the seed.

A worker that uses more CPU than allowed is ended by the kernel (``RLIMIT_CPU``), one that sleeps by
its parent. The check that it was at counts as failed and the others go on in a new worker.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

try:
    import resource
except ImportError:  # not a Unix: the parent's clock alone watches the workers
    resource = None  # type: ignore[assignment]

Chunk = tuple[str, tuple[int, ...]]
"""A family and some of its seeds."""
Check = Callable[[str, int], Any]
"""Checks a seed of a family; a function at the top of a module, so that workers find it."""

_WALL_PER_CPU = 10.0
"""Wall seconds allowed per CPU second: a busy machine may run a worker a tenth of the time."""


@dataclass
class Crash:
    """A check that ended its process."""

    family: str
    seed: int
    reason: str


@dataclass
class _Worker:
    process: Any
    channel: Connection
    family: str = ""
    left: list[int] = field(default_factory=list)
    since: float = 0.0


def run_checks(
    check: Check, chunks: Iterator[Chunk], workers: int, cpu_s: float, until: float
) -> Iterator[tuple[str, int, Any]]:
    """Run the checks of chunks over worker processes; yield (family, seed, outcome or `Crash`).

    Parameters
    ----------
    check
        What to do with a family's seed.
    chunks
        What there is to do; no chunk is begun after `until`.
    workers
        Worker processes.
    cpu_s
        CPU seconds that a single check may take.
    until
        When to stop, on the clock of `time.monotonic`.
    """
    context = multiprocessing.get_context("spawn")
    crew: list[_Worker] = []

    def hire() -> _Worker:
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(there, check, cpu_s), daemon=True)
        process.start()
        there.close()
        return _Worker(process, here)

    def assign(worker: _Worker) -> bool:
        """Give the worker a chunk; whether there is one."""
        if not worker.left:
            chunk = next(chunks, None) if time.monotonic() < until else None
            if chunk is None:
                return False
            worker.family, worker.left = chunk[0], list(chunk[1])
        worker.since = time.monotonic()
        worker.channel.send((worker.family, tuple(worker.left)))
        return True

    try:
        for _ in range(workers):
            worker = hire()
            crew.append(worker)
            if not assign(worker):
                break
        while any(worker.left for worker in crew):
            busy = [worker for worker in crew if worker.left]
            ready = wait([worker.channel for worker in busy], timeout=1.0)
            for worker in busy:
                crash = None
                if worker.channel in ready:
                    try:
                        seed, outcome = worker.channel.recv()
                    except EOFError:
                        worker.process.join()
                        crash = _reason(worker.process.exitcode, cpu_s)
                    else:
                        worker.left.remove(seed)
                        worker.since = time.monotonic()
                        yield worker.family, seed, outcome
                        if not worker.left:
                            assign(worker)
                elif time.monotonic() - worker.since > _WALL_PER_CPU * cpu_s + 60.0:
                    worker.process.kill()
                    crash = "no answer: it waits for something"
                if crash is not None:
                    seed = worker.left.pop(0)
                    yield worker.family, seed, Crash(worker.family, seed, crash)
                    fresh = hire()
                    fresh.family, fresh.left = worker.family, worker.left
                    crew[crew.index(worker)] = fresh
                    assign(fresh)
    finally:
        for worker in crew:
            worker.process.kill()


def _reason(exit_code: int, cpu_s: float) -> str:
    if exit_code == -signal.SIGXCPU:
        return f"hangs: still at it after {cpu_s:g} s of CPU"
    return f"the process died with exit code {exit_code}"


def _work(channel: Connection, check: Check, cpu_s: float) -> None:
    """Do what is sent, until nothing more is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            family, seeds = channel.recv()
        except EOFError:
            return
        for seed in seeds:
            if resource is not None:
                _, hard = resource.getrlimit(resource.RLIMIT_CPU)
                resource.setrlimit(
                    resource.RLIMIT_CPU, (int(time.process_time() + cpu_s) + 1, hard)
                )
            channel.send((seed, check(family, seed)))
