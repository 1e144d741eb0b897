"""Sweeps: seeds of families checked in worker processes, with a record of what has been done."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from benchmarks.tiny.family import Family
from benchmarks.tiny.record import Record
from benchmarks.tiny.running import Chunk, Crash, run_checks

Outcome = tuple[dict[str, int], float, str]
"""Counts, CPU seconds to note the largest of, and what is false."""

_SAVE_S = 20.0


def chunks(families: Sequence[Family], seeds: range, record: Record, size: int) -> Iterator[Chunk]:
    """Yield the seeds that are not done, `size` of each family in turn."""
    waiting = {family.name: record.todo(family.name, seeds) for family in families}
    while waiting:
        for name in list(waiting):
            some = tuple(itertools.islice(waiting[name], size))
            if some:
                yield name, some
            else:
                del waiting[name]


def sweep(
    check: Callable[[str, int], Outcome],
    work: Iterator[Chunk],
    record: Record,
    workers: int,
    cpu_s: float,
    seconds: float,
) -> int:
    """Check seeds until all are done or time is up; return how many were checked.

    Parameters
    ----------
    check
        Checks a seed of a family; a function at the top of a module, so that workers find it.
    work
        The seeds, as `chunks` yields them.
    record
        Where outcomes are noted; written now and then, and at the end.
    workers
        Worker processes.
    cpu_s
        CPU after which a check counts as hanging: that is false, like a crash.
    seconds
        When no further chunk is begun.
    """
    saved, number = time.monotonic(), 0
    try:
        for name, seed, outcome in run_checks(
            check, work, workers, cpu_s, time.monotonic() + seconds
        ):
            if isinstance(outcome, Crash):
                outcome = ({}, cpu_s, outcome.reason)
            counts, spent_s, false = outcome
            record.add(name, seed, Counter(counts), spent_s, false)
            number += 1
            if false:
                print(f"{name} {seed}: {false}", flush=True)
            if time.monotonic() - saved > _SAVE_S:
                record.write()
                saved = time.monotonic()
    finally:
        record.write()
    return number
