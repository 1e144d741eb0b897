"""Plans of capacity: the stored problems to the gap and time they are promised.

A plan over 20 host types, 5 sites, 8 quarters, 50 job classes and 20 scenarios is within 1 % in
60 s, without spare hosts and with one in every pool; the tiny and small problems are solved by both
methods, which must agree. Each solve is checked, and costs are held against the recorded bounds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from alloc.instances import Entry, manifest
from alloc.instances.stored_planning import PLANNING, load_stored_planning
from alloc.result import Limits
from alloc.solving.right_sizing.method import Method, right_size
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True  # several minutes

TARGET_GAP = 0.01
TARGET_SECONDS = 60.0
_SHARE_TO_SEARCH = 0.93
"""Of the time that is promised; the rest is for reading, the tail of a step, and the checker."""
_GAP_TO_SEARCH = 0.8
"""Of the gap that is promised."""
SAME = 2e-4
"""Relative difference up to which two methods, each solved to half of it, agree."""


@dataclass(frozen=True)
class Answer:
    """What a solve gave.

    Parameters
    ----------
    problem, method
        What was solved, and how.
    status, cost, bound, gap
        As certified; money.
    seconds, cpu_seconds
        Wall time from reading the problem to the checked plan, and time of this process.
    hosts
        Hosts ordered.
    """

    problem: str
    method: str
    status: str
    cost: float | None
    bound: float
    gap: float | None
    seconds: float
    cpu_seconds: float
    hosts: int


def solve(
    entry: Entry, method: Method, limit_s: float, gap: float, workers: int, verbose: bool
) -> Answer:
    """Solve a stored problem."""
    began, cpu = time.perf_counter(), time.process_time()
    result = right_size(
        load_stored_planning(entry.id),
        limits=Limits(seconds=limit_s, gap=gap, workers=workers),
        method=method,
        progress=(lambda line: print("   ", line, flush=True)) if verbose else None,
    )
    certificate = result.certificate
    return Answer(
        entry.id,
        method,
        certificate.status,
        certificate.objective,
        certificate.bound,
        certificate.gap,
        time.perf_counter() - began,
        time.process_time() - cpu,
        0 if result.solution is None else sum(order.count for order in result.solution.orders),
    )


def judge_large(answer: Answer, spares: int) -> Verdict:
    """Hold an answer against the target for large problems."""
    gap = "no plan" if answer.gap is None else f"gap {answer.gap:.2%}"
    return Verdict(
        f"{answer.problem} (20 host types, 5 sites, 8 quarters, 50 classes, 20 scenarios, {spares} "
        f"spare hosts) within {TARGET_GAP:.0%} in {TARGET_SECONDS:g} s",
        f"{gap}, {answer.seconds:.1f} s, {answer.cpu_seconds:.1f} s of this process's CPU",
        answer.gap is not None and answer.gap <= TARGET_GAP and answer.seconds <= TARGET_SECONDS,
    )


def judge_pair(one: Answer, two: Answer) -> Verdict:
    """Hold the answers of both methods against each other."""
    close = (one.cost is None and two.cost is None) or (
        one.cost is not None
        and two.cost is not None
        and abs(one.cost - two.cost) <= SAME * abs(one.cost)
    )
    return Verdict(
        f"{one.problem}: both methods agree to {SAME:.0e}",
        f"{_money(one.cost)} and {_money(two.cost)}, {one.seconds:.1f} s and {two.seconds:.1f} s",
        close and {one.status, two.status} <= {"optimal", "feasible"},
    )


def judge_record(entry: Entry, answer: Answer) -> Verdict | None:
    """Hold an answer against the recorded bounds: a contradiction is a wrong bound."""
    if entry.lower is None or entry.upper is None or answer.cost is None:
        return None
    slack = 1e-6 * abs(answer.cost)
    return Verdict(
        f"{entry.id}: no contradiction to the recorded bounds",
        f"{_money(answer.bound)} to {_money(answer.cost)}, recorded "
        f"{_money(entry.lower.value)} to {_money(entry.upper.value)}",
        answer.cost >= entry.lower.value - slack and answer.bound <= entry.upper.value + slack,
    )


def _money(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _row(answer: Answer) -> str:
    gap = "-" if answer.gap is None else f"{answer.gap:.3%}"
    return (
        f"{answer.problem:19s} {answer.method:14s} {answer.status:11s} {answer.seconds:7.1f} "
        f"{answer.cpu_seconds:7.1f} {_money(answer.bound):>12s} {_money(answer.cost):>12s} "
        f"{gap:>9s} {answer.hosts:6d}"
    )


def _is_small(entry: Entry) -> bool:
    """Return whether a problem is small enough for both methods."""
    return entry.id.partition("/")[0] in ("planning-tiny", "planning-small")


def solve_all_ways(entry: Entry, arguments: argparse.Namespace) -> list[Answer]:
    """Solve a problem by each method that it is for, and print a line for each."""
    limit = arguments.time_limit or _SHARE_TO_SEARCH * TARGET_SECONDS
    methods: tuple[Method, ...] = ("decomposition",)
    gap = _GAP_TO_SEARCH * TARGET_GAP
    if _is_small(entry):
        methods, gap = ("extensive", "decomposition"), SAME / 2
    gap = arguments.gap or gap
    found = []
    for method in methods:
        found.append(solve(entry, method, limit, gap, arguments.workers, arguments.verbose))
        answer = found[-1]
        print(_row(answer), flush=True)
        if arguments.json:
            print(json.dumps(asdict(answer)))
    return found


def judge(entry: Entry, answers: Sequence[Answer]) -> list[Verdict]:
    """Hold the answers for a problem against all that is promised."""
    verdicts = [judge_record(entry, answer) for answer in answers]
    if len(answers) == 2:
        verdicts.append(judge_pair(*answers))
    if entry.id.startswith("planning-large/"):
        verdicts.append(judge_large(answers[0], load_stored_planning(entry.id).failures))
    return [verdict for verdict in verdicts if verdict is not None]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.right_sizing")
    parser.add_argument(
        "--family", action="append", metavar="FAMILY|ID", help="repeat for more; default: all"
    )
    parser.add_argument("--time-limit", type=float, metavar="S", help="default: as promised")
    parser.add_argument("--gap", type=float, help="relative; default: as promised")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--cpu-clock",
        action="store_true",
        help="count the CPU time of one process where wall time is counted, on a busy machine",
    )
    parser.add_argument("--verbose", action="store_true", help="print the progress of each solve")
    parser.add_argument("--json", action="store_true", help="print answers as JSON lines too")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Print a solve a line, then the verdicts; return 1 if one fails."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.cpu_clock:
        arguments.workers = 1
        time.perf_counter = time.process_time
    names = arguments.family
    entries = [
        entry
        for entry in manifest(PLANNING)
        if not names or entry.id in names or entry.id.partition("/")[0] in names
    ]
    if not entries:
        parser.error(f"no stored planning problem among {', '.join(names)}")
    print(
        f"{'problem':19s} {'method':14s} {'status':11s} {'seconds':>7s} {'cpu s':>7s} "
        f"{'bound':>12s} {'cost':>12s} {'gap':>9s} {'hosts':>6s}"
    )
    verdicts: list[Verdict] = []
    for entry in entries:
        verdicts += judge(entry, solve_all_ways(entry, arguments))
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
