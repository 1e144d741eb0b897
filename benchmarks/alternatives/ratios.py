"""Two programs for one question, timed in turns: ratios, medians, memory, growth with size."""

from __future__ import annotations

import ctypes
import gc
import math
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """What one size took.

    Parameters
    ----------
    size
        Number of things.
    ours, theirs
        CPU time of each turn, seconds.
    our_mib, their_mib
        What the process grew by at most in a turn, the instance included, MiB; NaN where the
        system does not tell.
    """

    size: int
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    our_mib: float = math.nan
    their_mib: float = math.nan

    @property
    def ratio(self) -> float:
        """The alternative's time over that of alloc, the median of the turns."""
        return statistics.median(b / a for a, b in zip(self.ours, self.theirs, strict=True))


def cpu_s(call: Callable[..., T], *given: object) -> tuple[float, T]:
    """Return the CPU time of a call, seconds, and what it returns; garbage of before is gone."""
    gc.collect()
    began = time.process_time()
    answer = call(*given)
    return time.process_time() - began, answer


def in_turns(
    size: int, seeds: Sequence[int], ours: Callable[[int], float], theirs: Callable[[int], float]
) -> Row:
    """Measure both programs on instances of some seeds, each first every other time.

    Parameters
    ----------
    size
        Number of things.
    seeds
        One a turn.
    ours, theirs
        Given a seed, return the CPU time that the answer took, seconds.
    """
    took: dict[str, list[float]] = {"ours": [], "theirs": []}
    grown_mib: dict[str, list[float]] = {"ours": [], "theirs": []}
    programs = [("ours", ours), ("theirs", theirs)]
    for turn, seed in enumerate(seeds):
        for name, program in programs if turn % 2 else programs[::-1]:
            with growth_mib(grown_mib[name]):
                took[name].append(program(seed))
    return Row(
        size,
        tuple(took["ours"]),
        tuple(took["theirs"]),
        *(max(mib, default=math.nan) for mib in grown_mib.values()),
    )


@contextmanager
def growth_mib(into: list[float]) -> Iterator[None]:
    """Append how much more memory than before was held at most within the block, MiB.

    What the C library keeps of memory that was freed goes back to the system first, or it would be
    used again unseen. Only Linux forgets an earlier peak; elsewhere nothing is appended.

    Parameters
    ----------
    into
        Gets one number.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # 5: the peak is what is held now
    except (OSError, AttributeError):  # no such file, no such function
        yield
        return
    before = _peak_mib()
    yield
    into.append(_peak_mib() - before)


def _peak_mib() -> float:
    """Return the most memory held since it was last asked to forget, MiB."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 2**10


def print_rows(title: str, rows: Sequence[Row]) -> None:
    """Print ratios first, then medians and memory, then the growth exponents."""
    print(
        f"\n{title}\n{'ratio':>6s} {'alloc s':>10s} {'plain s':>10s} "
        f"{'alloc MiB':>10s} {'plain MiB':>10s}  size"
    )
    for row in rows:
        ours, theirs = statistics.median(row.ours), statistics.median(row.theirs)
        print(
            f"{row.ratio:6.2f} {ours:10.4f} {theirs:10.4f} "
            f"{row.our_mib:10.1f} {row.their_mib:10.1f}  {row.size:,}",
            flush=True,
        )
    if len(rows) > 1:
        ours, theirs = (
            exponent([row.size for row in rows], [statistics.median(one(row)) for row in rows])
            for one in (lambda row: row.ours, lambda row: row.theirs)
        )
        print(f"time grows as size to the {ours:.2f} (alloc), {theirs:.2f} (plain)", flush=True)


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return e of the fit of seconds as c size^e by least squares of the logarithms."""
    return float(np.polyfit([math.log(n) for n in sizes], [math.log(s) for s in seconds], 1)[0])
