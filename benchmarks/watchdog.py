"""Time limits kept: tiny instances of every family at limits of 0.1 to 4 s, back in limit + 1 s.

``python -m benchmarks.watchdog [--families all] [--seeds 0:500] [--workers 1]``. Three of four
instances are too large to enumerate, so that limits are met. CPU time counts, so that a busy
machine changes nothing; a solve that does not come back is ended, and reported with its seed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

from alloc.errors import UnsupportedFeatureError
from benchmarks.exhaustive import way_of
from benchmarks.tiny.families import FAMILIES, chosen
from benchmarks.tiny.family import Family
from benchmarks.tiny.running import Chunk, Crash, run_checks
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True  # minutes for every thousand instances

LIMITS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
GRACE_S = 1.0
"""CPU seconds that placing, checking and certifying an answer may take beyond the limit."""
CPU_S = 30.0
"""CPU after which a solve counts as hanging."""
_CHUNK = 10

Outcome = tuple[float, float, str]
"""Limit and CPU time, seconds, and the error, if there was one."""

_warm: set[str] = set()


def limit_of(seed: int) -> float:
    """Return the time limit of a seed's solve, seconds."""
    return LIMITS_S[seed % len(LIMITS_S)]


def check(name: str, seed: int) -> Outcome:
    """Solve the instance of a seed and measure."""
    family = FAMILIES[name]
    # Each limit meets each way: they go round at different paces.
    way = way_of(family, seed // len(LIMITS_S))
    if way not in _warm:
        # Solvers are loaded once a process; that is no part of a limit.
        _warm.add(way)
        _solve(family, family.problem(0), way, LIMITS_S[0])
    problem = family.problem(seed, large=seed % 4 != 0)
    began = time.process_time()
    error = _solve(family, problem, way, limit_of(seed))
    return limit_of(seed), time.process_time() - began, error and f"{way}: {error}"


def _solve(family: Family, problem: object, way: str, seconds: float) -> str:
    try:
        family.solve(problem, way, seconds)
    except UnsupportedFeatureError:
        return ""  # refused before work began
    except Exception as error:  # whatever it is, it is a finding
        return f"{type(error).__name__}: {error}"
    return ""


def chunks(families: Sequence[Family], seeds: range) -> Iterator[Chunk]:
    """Yield some seeds of each family in turn."""
    for first in itertools.islice(seeds, 0, None, _CHUNK):
        for family in families:
            yield family.name, tuple(range(first, min(first + _CHUNK, seeds.stop)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the watchdog; 1 if a limit was not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watchdog", description=__doc__)
    parser.add_argument("--families", default="all", help="all, plain, scaled, or names by commas")
    parser.add_argument("--seeds", default="0:500", help="first:end, the end excluded")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--time", type=float, default=math.inf, help="seconds after which to stop")
    arguments = parser.parse_args(argv)
    first, end = map(int, arguments.seeds.split(":"))
    families = chosen(arguments.families)
    number, late, errors = 0, 0, 0
    worst: dict[str, float] = defaultdict(float)
    for name, seed, outcome in run_checks(
        check,
        chunks(families, range(first, end)),
        arguments.workers,
        CPU_S,
        time.monotonic() + arguments.time,
    ):
        number += 1
        if isinstance(outcome, Crash):
            late += 1
            print(f"{name} {seed}: limit {limit_of(seed)} s: {outcome.reason}", flush=True)
            continue
        limit_s, cpu_s, error = outcome
        worst[name] = max(worst[name], cpu_s - limit_s)
        if cpu_s > limit_s + GRACE_S:
            late += 1
            print(f"{name} {seed}: limit {limit_s} s, took {cpu_s:.2f} s of CPU", flush=True)
        if error:
            errors += 1
            print(f"{name} {seed}: {error}", flush=True)
    for name, seconds in sorted(worst.items()):
        print(f"{name:18s} at most {seconds:+6.2f} s beyond the limit")
    return conclude(
        [
            Verdict(
                f"back within the limit and {GRACE_S:g} s of CPU, always",
                f"{late} of {number:,d} instances late or lost",
                late == 0,
            ),
            Verdict("no error", f"{errors} errors", errors == 0),
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
