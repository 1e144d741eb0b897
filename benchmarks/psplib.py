"""Published projects: how many are proved in the time, and is every answer the published one?

``python -m benchmarks.psplib --kinds J30,j10,j20 --seconds 20 --every 1``

``--only J30_283`` takes files whose name has that in it, ``--seeds 20`` solves each with so many
seeds, and ``--plain`` puts a plain CP-SAT model beside it with the same time and threads: the CPU
time of alloc over its, where both prove the optimum, and over all files. ``--each`` prints a line
for each solve, and ``--cpu-time`` lets the limit count CPU seconds: on a busy machine that shows
what a whole core would have done.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import alloc
from alloc.instances.psplib import parse_psplib, read_psplib
from alloc.problems.project import ProjectProblem
from benchmarks.alternatives.plain_projects import solve_project_plainly
from benchmarks.cpu_limits import count_cpu_time
from benchmarks.data import data_folder

ON_REQUEST = True

KINDS = {"J30": "rcpsp", "J60": "rcpsp", "j10": "mrcpsp", "j20": "mrcpsp", "mmlib": "mrcpsp"}
"""Sets of instances, and the folder that each is in."""
_FIRST = "4 1  2  0 0 2 2 3  3 2 1 4  4 2 1 4  0 0 0"
"""A project of two activities, in Patterson's format: CP-SAT is loaded for it, and not for what is
timed."""
_SAME = 1e-6
"""Makespans are whole periods: what is this close is the same."""
_FIXED_S = 0.5
"""CPU seconds below which rules, checks and the certificate are most of a solve."""


def published(folder: Path) -> dict[str, tuple[float, bool]]:
    """Return the best known makespan of each instance, and whether it is proved."""
    with (folder / "optima.csv").open() as lines:
        return {
            row["instance"]: (float(row["best_known_makespan"]), row["proven_optimal"] == "yes")
            for row in csv.DictReader(lines)
            if row["best_known_makespan"]
        }


def is_of(name: str, kind: str) -> bool:
    """Return whether an instance is of a set."""
    return name.startswith((f"{kind}_", f"{kind}/"))


class Tally:
    """What the solves of a set came to."""

    def __init__(self) -> None:
        self.solves = self.proved = self.false = self.plainly_proved = 0
        self.gaps: list[float] = []
        self.times: list[float] = []
        self.ratios: list[float] = []
        self.slower = 0
        self.beside_s: list[float] = []

    def enter(self, known: tuple[float, bool], result: alloc.Result, cpu_s: float) -> str:
        """Enter a solve; return what is false in it, or nothing."""
        value, bound = result.objective, result.certificate.bound
        self.solves += 1
        self.times.append(cpu_s)
        self.proved += result.status == "optimal"
        self.gaps.append(1.0 if value is None else (value - bound) / value)
        best, is_proved = known
        if bound <= best + _SAME and not (is_proved and value is not None and value < best - _SAME):
            return ""
        self.false += 1
        return f"{value} and bound {bound}, published {best}"

    def beside(
        self, problem: ProjectProblem, limits: alloc.Limits, proved: bool, cpu_s: float
    ) -> str:
        """Solve the plain model too; return what it came to."""
        began = time.process_time()
        plain = solve_project_plainly(problem, limits.seconds or 60.0, limits.workers, limits.seed)
        plain_s = time.process_time() - began
        by_plain = plain.gap <= _SAME
        self.plainly_proved += by_plain
        self.beside_s.append(plain_s)
        found = f"plain {plain.objective:g}, bound {plain.bound:g}, {plain_s:.2f} CPU s"
        slow = by_plain and cpu_s > max(_FIXED_S, 2 * plain_s)
        self.slower += slow or (by_plain and not proved)
        if by_plain and proved:
            self.ratios.append(cpu_s / plain_s)
        if by_plain and not proved:
            return f"{found}, OPEN HERE"
        return f"{found}, SLOWER HERE" if slow else found

    def line(self, kind: str) -> str:
        """Return the row of the set."""
        mean, worst = statistics.fmean(self.gaps), max(self.gaps)
        found = (
            f"{kind:7} {self.solves:6}  {self.proved:6}  {self.false:5}  {100 * mean:10.2f}  "
            f"{100 * worst:11.2f}  {statistics.fmean(self.times):10.2f}  {max(self.times):11.2f}"
        )
        if not self.ratios:
            return found
        return (
            f"{found}  plain model: {self.plainly_proved} proved, CPU time of alloc over its: "
            f"median {statistics.median(self.ratios):.2f}, worst {max(self.ratios):.2f}; of all "
            f"{sum(self.times):.1f} over {sum(self.beside_s):.1f} CPU s; {self.slower} take over "
            f"twice its time and over {_FIXED_S:g} s, or are open where it proves them"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each set, and a line for each answer that takes too long; 1 if one is false.

    Parameters
    ----------
    argv
        The arguments; None: those of the command line.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.psplib", description=__doc__)
    parser.add_argument("--kinds", default="J30,j10,j20,mmlib", help="sets, with commas")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit of each solve")
    parser.add_argument("--every", type=int, default=1, help="every so many files")
    parser.add_argument("--only", default="", help="parts of names, with commas")
    parser.add_argument("--seeds", type=int, default=1, help="solves of each file")
    parser.add_argument("--workers", type=int, default=1, help="threads")
    parser.add_argument("--plain", action="store_true", help="a plain CP-SAT model beside it")
    parser.add_argument("--each", action="store_true", help="a line for each solve")
    parser.add_argument("--cpu-time", action="store_true", help="limits count CPU seconds")
    chosen = parser.parse_args(argv)
    if chosen.cpu_time:
        count_cpu_time()
    only = chosen.only.split(",")
    false = 0
    alloc.solve(parse_psplib(_FIRST))
    print("set     solves  proved  false  mean gap %  worst gap %  mean CPU s  worst CPU s")
    for kind in chosen.kinds.split(","):
        folder, tally = data_folder("orlib") / KINDS[kind], Tally()
        best = published(folder)
        names = sorted(n for n in best if is_of(n, kind) and any(part in n for part in only))
        for name in names[:: chosen.every]:
            path = folder / name
            for seed in range(chosen.seeds):
                problem = read_psplib(path if path.exists() else path.with_name(path.name + ".gz"))
                limits = alloc.Limits(chosen.seconds, seed=seed, workers=chosen.workers)
                began = time.process_time()
                result = alloc.solve(problem, limits=limits)
                cpu_s = time.process_time() - began
                wrong = tally.enter(best[name], result, cpu_s)
                if wrong:
                    print(f"FALSE: {name}, seed {seed}: {wrong}", flush=True)
                is_open = result.status != "optimal"
                value = math.inf if result.objective is None else result.objective
                line = f"{name}, seed {seed}: {value:g}, bound {result.certificate.bound:g}"
                line += f", {cpu_s:.2f} CPU s"
                if chosen.plain:
                    line += f"; {tally.beside(problem, limits, not is_open, cpu_s)}"
                if chosen.each or is_open or line.endswith("HERE"):
                    print(f"{'OPEN' if is_open else 'PROVED'}: {line}", flush=True)
        if tally.solves:
            print(tally.line(kind), flush=True)
        false += tally.false
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
