"""Solve F2 on the stored instances: each family to the gap, time and memory it is promised.

Every ``elastic-small`` is proved optimal in 60 s; every ``elastic-medium`` is within 2 % in 120 s;
every ``elastic-large`` within 5 % in 10 minutes and 4 GB. Each instance is solved in a process of
its own, so that its peak memory is its own. The ratio of the certified lower bound to the bound
without contention shows how loaded an instance is.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass

import alloc
from alloc.certificate import OPTIMALITY_GAP
from alloc.instances import Entry, load, manifest
from alloc.result import Limits
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True  # all of it takes more than an hour

BYTES_PER_GB = 1e9


@dataclass(frozen=True)
class Promise:
    """What a family is promised.

    Parameters
    ----------
    gap
        Largest relative gap.
    seconds
        Wall time, with reading the instance.
    gigabytes
        Most resident memory, GB, or None.
    """

    gap: float
    seconds: float
    gigabytes: float | None = None


PROMISES = {
    "elastic-tiny": Promise(OPTIMALITY_GAP, 20.0),
    "elastic-small": Promise(OPTIMALITY_GAP, 60.0),
    "elastic-medium": Promise(0.02, 120.0),
    "elastic-large": Promise(0.05, 600.0, 4.0),
}
"""The promises, by family."""
_SHARE_TO_SEARCH = 0.95
"""Of the time that is promised; the rest is for reading, the tail of a step, and the checker."""


@dataclass(frozen=True)
class Answer:
    """What a solve gave; None where there is nothing.

    Parameters
    ----------
    status, upper, lower, gap
        As certified; upper and lower are bounds on the weighted JCT, seconds.
    verified
        Whether the checker checked the schedule.
    seconds
        Wall time from loading to the checked answer.
    gigabytes
        Peak resident memory of the process, GB.
    """

    status: str
    upper: float | None
    lower: float
    gap: float | None
    verified: bool
    seconds: float
    gigabytes: float


def solve(instance_id: str, limit_s: float, seed: int, workers: int) -> Answer:
    """Solve a stored instance in this process and return what was proved."""
    began = time.perf_counter()
    certificate = alloc.solve(
        load(instance_id),
        "malleable",
        objective="weighted_jct",
        limits=Limits(seconds=limit_s, seed=seed, workers=workers),
    ).certificate
    seconds = time.perf_counter() - began
    # Linux counts in KiB.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / BYTES_PER_GB
    return Answer(
        certificate.status,
        certificate.objective,
        certificate.bound,
        certificate.gap,
        certificate.verified,
        seconds,
        peak,
    )


def solve_apart(instance_id: str, limit_s: float, seed: int, workers: int) -> Answer:
    """Solve a stored instance in a fresh process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(solve, instance_id, limit_s, seed, workers).result()


def judge(entry: Entry, answer: Answer, promise: Promise) -> Verdict:
    """Hold an answer against the promise of its family."""
    wanted = "proved optimal" if promise.gap <= OPTIMALITY_GAP else f"within {promise.gap:.0%}"
    memory = "" if promise.gigabytes is None else f" and {promise.gigabytes:g} GB"
    gap = "no schedule" if answer.gap is None else f"gap {answer.gap:.3%}"
    return Verdict(
        f"{entry.id} {wanted} in {promise.seconds:g} s{memory}",
        f"{gap}, {answer.seconds:.1f} s, {answer.gigabytes:.2f} GB",
        answer.verified
        and answer.gap is not None
        and answer.gap <= promise.gap
        and answer.seconds <= promise.seconds
        and (promise.gigabytes is None or answer.gigabytes <= promise.gigabytes),
    )


def _row(entry: Entry, answer: Answer) -> str:
    upper = "-" if answer.upper is None else f"{answer.upper:.6g}"
    gap = "-" if answer.gap is None else f"{answer.gap:.4%}"
    over = answer.lower / (entry.no_contention or math.nan)
    return (
        f"{entry.id:18s} {answer.status:12s} {answer.seconds:8.1f} {answer.gigabytes:6.2f} "
        f"{answer.lower:12.6g} {upper:>12s} {gap:>10s} {over:8.3f}"
    )


def choose(names: Sequence[str]) -> list[Entry]:
    """Return the instances with these ids or of these families, in the manifest's order.

    Raises
    ------
    ValueError
        If a name is neither.
    """
    chosen = [e for e in manifest() if e.id in names or e.family in names]
    for name in names:
        if not any(name in (e.id, e.family) for e in chosen):
            raise ValueError(f'"{name}" is neither a stored instance nor a family')
    return chosen


def main(argv: Sequence[str] | None = None) -> int:
    """Print an instance a line, then the verdicts; return 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.malleable")
    parser.add_argument(
        "--family",
        action="append",
        metavar="FAMILY|ID",
        help="repeat for more; default: all but the tiny",
    )
    parser.add_argument(
        "--time-limit", type=float, metavar="S", help="of the search; default: as promised"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print answers as JSON lines too")
    arguments = parser.parse_args(argv)
    try:
        entries = choose(arguments.family or [f for f in PROMISES if f != "elastic-tiny"])
    except ValueError as error:
        parser.error(str(error))
    print(
        f"{'instance':18s} {'status':12s} {'seconds':>8s} {'GB':>6s} {'lower':>12s} {'upper':>12s} "
        f"{'gap':>10s} {'/alone':>8s}"
    )
    verdicts = []
    for entry in entries:
        promise = PROMISES.get(entry.family, PROMISES["elastic-large"])
        limit_s = arguments.time_limit or _SHARE_TO_SEARCH * promise.seconds
        answer = solve_apart(entry.id, limit_s, arguments.seed, arguments.workers)
        print(_row(entry, answer), flush=True)
        if arguments.json:
            print(json.dumps({"instance": entry.id, "limit_s": limit_s} | asdict(answer)))
        verdicts.append(judge(entry, answer, promise))
    print("/alone: certified lower bound over the bound without contention")
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
