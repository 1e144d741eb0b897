"""Time limits kept: tiny instances of every family at limits of 0.1 to 4 s, back in limit + 1 s.

``python -m benchmarks.watchdog [--families all] [--seeds 0:500] [--workers 1] [--record FILE]``.
Three of four instances are too large to enumerate, so that limits are met. CPU time counts, so
that a busy machine changes nothing; a solve that does not come back is ended, and reported with its
seed. With ``--record`` the seeds done are kept, so that the next run goes on from there; seeds that
were late are tried again.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path

from alloc.errors import UnsupportedFeatureError
from benchmarks.exhaustive import way_of
from benchmarks.tiny.families import FAMILIES, chosen
from benchmarks.tiny.family import Family
from benchmarks.tiny.record import Record
from benchmarks.tiny.sweeping import Outcome, chunks, sweep
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True  # half an hour for every thousand instances

RECORD = Path(__file__).parent / "records" / "watchdog.json"
"""What all runs so far have done; kept with the code."""
LIMITS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
GRACE_S = 1.0
"""CPU seconds that placing, checking and certifying an answer may take beyond the limit."""
CPU_S = 30.0
"""CPU after which a solve counts as hanging."""
_CHUNK = 10

_warm: set[str] = set()


def limit_of(seed: int) -> float:
    """Return the time limit of a seed's solve, seconds."""
    return LIMITS_S[seed % len(LIMITS_S)]


def check(name: str, seed: int) -> Outcome:
    """Solve the instance of a seed; how far beyond its limit it came back, CPU seconds."""
    family = FAMILIES[name]
    # Each limit meets each way: they go round at different paces.
    way = way_of(family, seed // len(LIMITS_S))
    if way not in _warm:
        # Solvers are loaded once a process; that is no part of a limit.
        _warm.add(way)
        _solve(family, family.problem(0), way, LIMITS_S[0])
    problem = family.problem(seed, large=seed % 4 != 0)
    limit_s = limit_of(seed)
    began = time.process_time()
    false = _solve(family, problem, way, limit_s)
    beyond_s = time.process_time() - began - limit_s
    if not false and beyond_s > GRACE_S:
        false = f"limit {limit_s} s, took {limit_s + beyond_s:.2f} s of CPU"
    return {f"by {way}": 1}, beyond_s, f"{way}: {false}" if false else ""


def _solve(family: Family, problem: object, way: str, seconds: float) -> str:
    try:
        family.solve(problem, way, seconds)
    except UnsupportedFeatureError:
        return ""  # refused before work began
    except Exception as error:  # whatever it is, it is a finding
        return f"{type(error).__name__}: {error}"
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the watchdog and print what all runs of the record found; 1 if a limit was not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watchdog", description=__doc__)
    parser.add_argument("--families", default="all", help="all, plain, scaled, or names by commas")
    parser.add_argument("--seeds", default="0:500", help="first:end, the end excluded")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--record", type=Path, default=None, help=f"for example {RECORD}")
    parser.add_argument("--time", type=float, default=math.inf, help="seconds after which to stop")
    arguments = parser.parse_args(argv)
    first, end = map(int, arguments.seeds.split(":"))
    record = Record(arguments.record)
    work = chunks(chosen(arguments.families), range(first, end), record, _CHUNK)
    sweep(check, work, record, arguments.workers, CPU_S, arguments.time)
    for name, seeds in sorted(record.done.items()):
        beyond_s = record.slowest_s[name]
        print(f"{name:18s} {len(seeds):6,d} instances, at most {beyond_s:.2f} s beyond the limit")
    number = sum(map(len, record.done.values()))
    false = sum(map(len, record.disagreements.values()))
    return conclude(
        [
            Verdict(
                f"back within the limit and {GRACE_S:g} s of CPU, always, without an error",
                f"{false} of {number + false:,d} instances late, lost or wrong",
                false == 0,
            )
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
