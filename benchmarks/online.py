"""The online scheduler beside every rule: weighted mean completion time over the best rule's.

Rows are trace weeks, elastic families and stored instances (`benchmarks.online_cases`); a figure is
the ratio of weighted mean job completion time to the best of the rules on that row. Outcomes are
kept in a file as they come, one line each; a second run goes on where the first ended.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import joblib
import numpy as np

from alloc.errors import UnsupportedFeatureError
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.schedulers.state import ClusterState, Decision, Knowledge, Scheduler
from alloc.simulation import SimulationResult, simulate
from benchmarks.environment import describe_environment
from benchmarks.online_cases import Case, cases
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True
"""Hours; run by name only."""

OURS = "rollout"
LEARNED = ("set-policy",)
"""Shown beside; not a rule."""
RULES: Mapping[str, Mapping[str, object]] = {
    "fifo": {},
    "easy-backfill": {},
    "srtf(by=fraction)": {"by": "fraction"},
    "srtf(by=time)": {"by": "time"},
    "srtf(by=time,skip)": {"by": "time", "skip": True},
    "las": {},
    "drf": {},
    "tetris": {},
    "optimus": {},
    "optimus(skip)": {"skip": True},
    "set-rule": {},
    "exact-progress": {},
    "exact-remaining-time": {},
    "exact-goodput": {},
    "best-fit": {},
    "kueue-best-fit": {},
}
"""Columns that the best rule of a row is taken from: name and options.

The rules that only place jobs differ from FIFO by the hosts they choose; two stand for all.
"""
WITHIN = 1.01
"""Most that the online scheduler may take over the best rule of a row."""
DECISION_MS = 100.0
"""Most CPU time of a decision on at most `MANY_JOBS` jobs, milliseconds."""
MANY_JOBS = 200


class Timed:
    """A scheduler with the CPU time of each decision, and how many jobs it was about."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.name = scheduler.name
        self.needs: Knowledge = scheduler.needs
        self.information = scheduler.information
        self.features = getattr(scheduler, "features", ())
        self.spent: list[tuple[int, float]] = []

    def reset(self) -> None:
        """Reset the scheduler."""
        self._scheduler.reset()

    def decide(self, state: ClusterState) -> Decision:
        """Return the scheduler's decision."""
        began = time.process_time()
        decision = self._scheduler.decide(state)
        self.spent.append((len(state.jobs), time.process_time() - began))
        return decision


def weighted_mean_jct_s(result: SimulationResult) -> float:
    """Return the weighted mean job completion time, seconds."""
    jobs, ends = result.instance.jobs, result.completion_s
    total = sum(job.weight * ((ends[job.id] or math.inf) - job.arrival_s) for job in jobs)
    return total / sum(job.weight for job in jobs)


def measure(case: Case, name: str, traces: Path) -> dict[str, object]:
    """Run one scheduler on one row; ``jct_s`` is None where it does not take the instance."""
    instance = case.make(traces)
    row: dict[str, object] = {"case": case.name, "scheduler": name, "instance": _key(instance)}
    try:
        timed = Timed(_make(name))
        result = simulate(
            instance,
            timed,
            knowledge=case.knowledge,
            work_error=case.work_error,
            rng=case.seed,
        )
    except UnsupportedFeatureError:
        return {**row, "jct_s": None}
    of_200 = [spent for jobs, spent in timed.spent[1:] if jobs <= MANY_JOBS] or [0.0]
    return {
        **row,
        "jct_s": weighted_mean_jct_s(result),
        "jobs": len(instance.jobs),
        "max_jobs": max(jobs for jobs, _ in timed.spent),
        "decisions": len(timed.spent),
        "mean_ms": 1e3 * float(np.mean([spent for _, spent in timed.spent])),
        "p99_ms": 1e3 * float(np.percentile(of_200, 99)),
        "max_ms": 1e3 * max(of_200),
        "notes": dict(result.notes),
    }


def _make(name: str) -> Scheduler:
    if name in RULES:
        return make_scheduler(name.partition("(")[0], **RULES[name])
    base, _, inner = name.partition("(")
    pairs = (pair.partition("=") for pair in inner.rstrip(")").split(",") if pair)
    return make_scheduler(base, **{key: json.loads(value) for key, _, value in pairs})


def _key(instance: Instance) -> str:
    return instance.fingerprint[:16]


class Outcomes:
    """What has been measured, kept in a file of one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: dict[tuple[str, str], dict[str, object]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                self.found[row["case"], row["scheduler"]] = row

    def add(self, row: dict[str, object]) -> None:
        """Keep one outcome."""
        self.found[str(row["case"]), str(row["scheduler"])] = row
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def jct_s(self, case: Case, name: str) -> float | None:
        """Return a weighted mean completion time, seconds, or None if there is none."""
        value = self.found.get((case.name, name), {}).get("jct_s")
        return None if value is None else float(str(value))

    def best(self, case: Case) -> tuple[float, str] | None:
        """Return the best rule of a row and its weighted mean completion time, seconds."""
        known = [(value, name) for name in RULES if (value := self.jct_s(case, name)) is not None]
        return min(known, default=None)


def run(
    rows: Sequence[Case], names: Sequence[str], traces: Path, outcomes: Outcomes, jobs: int
) -> None:
    """Measure what has not been measured."""
    due = [
        (case, name) for case in rows for name in names if (case.name, name) not in outcomes.found
    ]
    found = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(
        joblib.delayed(measure)(case, name, traces) for case, name in due
    )
    for row in found:
        outcomes.add(row)


def table(rows: Sequence[Case], names: Sequence[str], outcomes: Outcomes) -> None:
    """Print the ratios to the best rule, row by row, and the geometric mean of each group."""
    width = max(len(case.name) for case in rows) + 2
    print(" " * width + " ".join(f"{name[-14:]:>14s}" for name in names) + "  best rule")
    groups: dict[str, list[Case]] = {}
    for case in rows:
        groups.setdefault(case.group, []).append(case)
    for group, its in groups.items():
        for case in its:
            best = outcomes.best(case)
            cells = [_ratio(outcomes, case, name) for name in names]
            line = " ".join(f"{cell:14.4f}" if cell else f"{'-':>14s}" for cell in cells)
            print(f"{case.name:{width}s}{line}  {best[1] if best else '-'}")
        means = [_mean([_ratio(outcomes, case, name) for case in its]) for name in names]
        line = " ".join(f"{cell:14.4f}" if cell else f"{'-':>14s}" for cell in means)
        print(f"{'= ' + group:{width}s}{line}\n")


def _ratio(outcomes: Outcomes, case: Case, name: str) -> float | None:
    best, ours = outcomes.best(case), outcomes.jct_s(case, name)
    return None if best is None or ours is None else ours / best[0]


def _mean(ratios: Sequence[float | None]) -> float | None:
    known = [math.log(ratio) for ratio in ratios if ratio is not None]
    return math.exp(sum(known) / len(known)) if known else None


def verdicts(rows: Sequence[Case], ours: str, outcomes: Outcomes) -> list[Verdict]:
    """Return whether the targets hold on these rows."""
    ratios = {case.name: ratio for case in rows if (ratio := _ratio(outcomes, case, ours))}
    over = [name for name, ratio in ratios.items() if ratio > WITHIN]
    worst = max(ratios, key=lambda name: ratios[name])
    spent = {
        case.name: float(str(found.get("max_ms", 0.0)))
        for case in rows
        if (found := outcomes.found.get((case.name, ours)))
    }
    slowest = max(spent, key=lambda name: spent[name])
    return [
        Verdict(
            f"{ours} within {100 * (WITHIN - 1):.0f} % of the best rule on every row",
            f"{len(ratios) - len(over)} of {len(ratios)} rows; worst {worst}: "
            f"{100 * (ratios[worst] - 1):+.2f} %; geometric mean "
            f"{100 * ((_mean(list(ratios.values())) or 1.0) - 1):+.2f} %",
            not over,
        ),
        Verdict(
            f"every decision on at most {MANY_JOBS} jobs in {DECISION_MS:.0f} ms of CPU time",
            f"longest {spent[slowest]:.0f} ms, on {slowest}",
            spent[slowest] <= DECISION_MS,
        ),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.online")
    parser.add_argument("--traces", type=Path, required=True, help="folder of the public traces")
    parser.add_argument("--store", type=Path, required=True, help="file that outcomes are kept in")
    parser.add_argument("--held-out", action="store_true", help="the rows nothing was chosen by")
    parser.add_argument("--match", default="", help="only rows whose group has this in its name")
    parser.add_argument("--schedulers", default="", help="names, by semicolons; default: all")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    arguments = parser.parse_args(argv)
    rows = [case for case in cases(arguments.held_out) if arguments.match in case.group]
    names = [name for name in arguments.schedulers.split(";") if name]
    names = names or [OURS, *LEARNED, *RULES]
    outcomes = Outcomes(arguments.store)
    run(rows, names, arguments.traces, outcomes, arguments.jobs)
    table(rows, names, outcomes)
    ours = [name for name in names if name.startswith(OURS)]
    return conclude([verdict for name in ours for verdict in verdicts(rows, name, outcomes)])


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
