"""Tiny random instances of every family, held to the optimum that plain enumeration finds.

``python -m benchmarks.exhaustive [--families all] [--seeds 0:20000] [--workers 16] [--record FILE]
[--time 540]``. A seed makes one instance and picks the method or backend that answers it: half of
the seeds the family's own method, the others one of the rest in turn. Its answer goes through the
checker; objective, status and bound are compared. With ``--record`` the seeds done are kept, so
that the next sweep goes on from there; seeds that disagreed are tried again. A crash or a hang of a
worker is a disagreement with its seed. Exit code 1 if there is any.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.tiny.families import FAMILIES, chosen
from benchmarks.tiny.family import Family, disagreement
from benchmarks.tiny.record import Record
from benchmarks.tiny.sweeping import Outcome, chunks, sweep

ON_REQUEST = True  # as long as one likes

RECORD = Path(__file__).parent / "records" / "exhaustive.json"
"""What all sweeps so far have done; kept with the code."""
LIMIT_S = 10.0
"""Time limit of a solve: tiny instances need a hundredth of it."""
CPU_S = 60.0
"""CPU after which a check counts as hanging; enumerations take a second at most."""
_CHUNK = 20
"""Seeds handed to a worker at once, a second of work."""


def way_of(family: Family, seed: int) -> str:
    """Return the method or backend that answers the instance of a seed."""
    first, *others = family.ways
    return others[seed // 2 % len(others)] if seed % 2 and others else first


def check(name: str, seed: int) -> Outcome:
    """Make an instance, solve it and hold the answer to the truth."""
    family = FAMILIES[name]
    way = way_of(family, seed)
    began = time.process_time()
    try:
        problem = family.problem(seed)
        truth = family.truth(problem)
        began = time.process_time()
        answer = family.solve(problem, way, LIMIT_S)
    except Exception as error:  # whatever it is, it is a finding
        return {}, time.process_time() - began, f"{way}: {type(error).__name__}: {error}"
    cpu_s = time.process_time() - began
    false = disagreement(truth, answer, way in family.open_ways)
    counts = {f"by {way}": 1, answer.status: 1}
    if answer.limited:
        counts["limit"] = 1
    if answer.proof:
        counts[f"bound {answer.proof}"] = 1
    return counts, cpu_s, "" if false is None else f"{way}: {false}"


def table(record: Record) -> str:
    """Return what has been done, a line a family."""
    header = (
        f"{'family':18s} {'instances':>9s} {'optimal':>8s} {'infeasible':>10s} {'open':>6s} "
        f"{'limit':>6s} {'disagree':>8s} {'recomputed':>10s} {'confirmed':>9s} {'claimed':>8s} "
        f"{'worst s':>8s}"
    )
    lines = [header]
    total: Counter[str] = Counter()
    for family in sorted({*record.done, *record.disagreements}):
        counts = record.counts.get(family, Counter())
        row = Counter(
            instances=len(record.done.get(family, ())),
            optimal=counts["optimal"],
            infeasible=counts["infeasible"],
            open=counts["feasible"] + counts["no_solution"],
            limit=counts["limit"],
            disagree=len(record.disagreements.get(family, {})),
            recomputed=counts["bound recomputed"],
            confirmed=counts["bound confirmed"],
            claimed=counts["bound claimed"],
        )
        total += row
        lines.append(_row(family, row, record.slowest_s.get(family, 0.0)))
    lines.append(_row("all", total, max(record.slowest_s.values(), default=0.0)))
    return "\n".join(lines)


def _row(name: str, row: Counter[str], slowest_s: float) -> str:
    return (
        f"{name:18s} {row['instances']:9,d} {row['optimal']:8,d} {row['infeasible']:10,d} "
        f"{row['open']:6,d} {row['limit']:6,d} {row['disagree']:8,d} {row['recomputed']:10,d} "
        f"{row['confirmed']:9,d} {row['claimed']:8,d} {slowest_s:8.2f}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sweep and print what all sweeps of the record have found; 1 if anything is false."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exhaustive", description=__doc__)
    parser.add_argument("--families", default="all", help="all, plain, scaled, or names by commas")
    parser.add_argument("--seeds", default="0:100", help="first:end, the end excluded")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--record", type=Path, default=None, help=f"for example {RECORD}")
    parser.add_argument("--time", type=float, default=540.0, help="seconds after which to stop")
    arguments = parser.parse_args(argv)
    first, end = map(int, arguments.seeds.split(":"))
    record = Record(arguments.record)
    began = time.monotonic()
    families = chosen(arguments.families)
    work = chunks(families, range(first, end), record, _CHUNK)
    number = sweep(check, work, record, arguments.workers, CPU_S, arguments.time)
    print(table(record))
    print(f"{number:,d} instances checked in {time.monotonic() - began:.0f} s")
    return 1 if any(record.disagreements.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
