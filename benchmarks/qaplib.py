"""Reach the best known value of QAPLIB's problems up to 30 facilities in 60 s, with a proved bound.

The core of rank mapping: tabu search for the permutation, dual ascent and branch and bound for the
proof, one thread. A run ends at its proof, or else at the time limit; that the best known value was
reached is looked up afterwards, the search does not know it. The data is not part of the
repository: it is looked for in ``qap`` under the folder that the environment variable
``ALLOC_ORLIB`` names, or ``../shared/data/orlib`` beside the repository.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alloc.instances.qaplib import read_qaplib
from alloc.problems.quadratic_assignment import Permutation
from alloc.result import Limits, Result
from alloc.solving import solve
from benchmarks.data import data_folder
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude, value_and_gap

ON_REQUEST = True

LARGEST = 30
LIMIT_S = 60.0
TARGET_SHARE = 0.8


@dataclass(frozen=True)
class Known:
    """A problem and what is published about it."""

    name: str
    size: int
    best: float
    proved: bool


def folder() -> Path:
    """Return the folder of the problems."""
    return data_folder("orlib") / "qap"


def known_values() -> list[Known]:
    """Return the problems that ``optima.csv`` lists, in its order."""
    with (folder() / "optima.csv").open(encoding="utf-8") as table:
        return [
            Known(
                row["instance"],
                int(row["n"]),
                float(row["best_known"]),
                row["proven_optimal"] == "yes",
            )
            for row in csv.DictReader(table)
        ]


def found_s(answer: Result[Permutation]) -> float:
    """Return after how many seconds the answer was found: its last line of the log with a cost."""
    costs = [line for line in answer.log if " s  cost " in line]
    return float(costs[-1].split()[0]) if costs else 0.0


def row(known: Known, answer: Result[Permutation]) -> str:
    """Return the line of a problem."""
    above = value_and_gap(answer)[0] - known.best
    over = "reached" if above <= 0 else f"+{above / max(known.best, 1):.3%}"
    return (
        f"{known.name:9s} {known.size:4d} {known.best:12,.0f} {answer.objective:12,.0f} {over:>9s} "
        f"{found_s(answer):8.2f} {answer.bound:14,.1f} {answer.gap:8.2%} "
        f"{answer.certificate.backend:23s} {answer.certificate.seconds:7.1f}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line a problem; return 1 if the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.qaplib")
    parser.add_argument("names", nargs="*", help="problems (default: all up to --largest)")
    parser.add_argument("--largest", type=int, default=LARGEST, help="most facilities")
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="S")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    if not (folder() / "optima.csv").is_file():
        print(f"no problems in {folder()}: set ALLOC_ORLIB to the folder that holds qap/")
        return 1
    chosen = [
        known
        for known in known_values()
        if (known.name in arguments.names if arguments.names else known.size <= arguments.largest)
    ]
    if not chosen:
        print(f"no problem is called {', '.join(arguments.names)} in {folder()}")
        return 1
    print(
        f"{'problem':9s} {'n':>4s} {'best known':>12s} {'found':>12s} {'':>9s} {'found s':>8s} "
        f"{'bound':>14s} {'gap':>8s} {'bound by':23s} {'s':>7s}"
    )
    answers = []
    for known in chosen:
        problem = read_qaplib(folder() / f"{known.name}.dat")
        answer = solve(problem, limits=Limits(seconds=arguments.limit, seed=arguments.seed))
        if answer.bound > known.best:
            raise AssertionError(f"{known.name}: bound {answer.bound} is above {known.best}")
        answers.append(answer)
        print(row(known, answer), flush=True)
    pairs = list(zip(chosen, answers, strict=True))
    reached = sum(value_and_gap(answer)[0] <= known.best for known, answer in pairs)
    proved = sum(answer.status == "optimal" for answer in answers)
    gaps = [value_and_gap(answer)[1] for answer in answers if answer.status != "optimal"]
    print(
        f"{proved} of {len(answers)} proved optimal; median gap of the others "
        f"{statistics.median(gaps) if gaps else 0:.2%}; median time to the best found "
        f"{statistics.median(map(found_s, answers)):.2f} s"
    )
    return conclude(
        [
            Verdict(
                f"best known value in {arguments.limit:g} s on at least {TARGET_SHARE:.0%}",
                f"{reached} of {len(answers)}",
                reached >= TARGET_SHARE * len(answers),
            )
        ]
    )


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
