"""Two programs for one question, timed in turns: ratios, medians, and how time grows with size."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    """

    size: int
    ours: tuple[float, ...]
    theirs: tuple[float, ...]

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
    """Time both programs on instances of some seeds, each first every other time.

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
    programs = [("ours", ours), ("theirs", theirs)]
    for turn, seed in enumerate(seeds):
        for name, program in programs if turn % 2 else programs[::-1]:
            took[name].append(program(seed))
    return Row(size, tuple(took["ours"]), tuple(took["theirs"]))


def print_rows(title: str, rows: Sequence[Row]) -> None:
    """Print ratios first, then medians, then the growth exponents."""
    print(f"\n{title}\n{'ratio':>6s} {'alloc s':>10s} {'plain s':>10s}  size")
    for row in rows:
        ours, theirs = statistics.median(row.ours), statistics.median(row.theirs)
        print(f"{row.ratio:6.2f} {ours:10.4f} {theirs:10.4f}  {row.size:,}", flush=True)
    if len(rows) > 1:
        ours, theirs = (
            exponent([row.size for row in rows], [statistics.median(one(row)) for row in rows])
            for one in (lambda row: row.ours, lambda row: row.theirs)
        )
        print(f"time grows as size to the {ours:.2f} (alloc), {theirs:.2f} (plain)", flush=True)


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return e of the fit of seconds as c size^e by least squares of the logarithms."""
    return float(np.polyfit([math.log(n) for n in sizes], [math.log(s) for s in seconds], 1)[0])
