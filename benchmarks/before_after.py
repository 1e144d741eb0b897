"""The CPU time of an older tree beside that of this one: nothing more than 5 % slower.

The older tree is a checkout of its own, for example by ``git worktree add --detach ../before
COMMIT``. Each group of workloads runs in a fresh process of either tree, in turns, with this
interpreter and its packages; so a machine whose speed drifts slows both. A ratio is the median over
the turns, with an interval of the median that assumes no distribution; a workload is slower if its
ratio is above the target and its interval above 1. Child processes count, once they have ended.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alloc.errors import nearest
from benchmarks import before_after_workloads
from benchmarks.before_after_workloads import WORKLOADS
from benchmarks.environment import commit_of, describe_environment, environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True  # it needs an older tree

TARGET = 1.05
"""CPU time over that of the older tree, at most."""
IMPORT_S = 0.03
"""CPU time of ``import alloc``, at most, whatever it was before."""
_CONFIDENCE = 0.9
"""Of the intervals, at least: five turns from the smallest to the largest ratio have 0.94."""
_HERE = Path(__file__).resolve().parents[1]
_LIMIT_S = 300.0
"""Of one process, seconds: many times what the longest takes."""


@dataclass(frozen=True)
class Row:
    """What a workload took in both trees.

    Parameters
    ----------
    name
        The workload.
    before, after
        CPU time in every turn, seconds.
    answers
        What it answered before and after, last.
    """

    name: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    answers: tuple[str, str]

    @property
    def ratios(self) -> list[float]:
        """CPU time after over that before, turn by turn, sorted."""
        return sorted(new / old for old, new in zip(self.before, self.after, strict=True))

    @property
    def ratio(self) -> float:
        """The median ratio."""
        return statistics.median(self.ratios)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the median ratio."""
        skipped = ends_left_out(len(self.ratios))
        return self.ratios[skipped], self.ratios[-1 - skipped]

    @property
    def is_slower(self) -> bool:
        """Whether the workload is slower than the target allows, beyond noise."""
        return self.ratio > TARGET and self.interval[0] > 1.0

    def __str__(self) -> str:
        """Return the line of the table."""
        low, high = self.interval
        took = [1e3 * statistics.median(each) for each in (self.before, self.after)]
        old, new = self.answers
        told = old if old == new else f"{old} -> {new}"
        mark = "SLOWER" if self.is_slower else ""
        return (
            f"{self.ratio:6.2f}  {low:5.2f} to {high:5.2f} {took[0]:10.1f} {took[1]:10.1f}  "
            f"{self.name:24s} {told:30s} {mark}".rstrip()
        )


def ends_left_out(count: int) -> int:
    """Return how many of the smallest, and of the largest, of a sample the interval leaves out.

    The median of the distribution lies between the (k+1)-th smallest and the (k+1)-th largest
    value, unless more than n - 1 - k of the n values fall on one side of it: a fair coin.

    Parameters
    ----------
    count
        Size of the sample, 1 or more.
    """
    left_out, outside = 0, 2.0 ** (1 - count)
    while 2 * (left_out + 1) < count:
        outside += 2.0 ** (1 - count) * math.comb(count, left_out + 1)
        if outside > 1 - _CONFIDENCE:
            break
        left_out += 1
    return left_out


def run_in(tree: Path, group: str) -> dict[str, tuple[float, str]]:
    """Run a group of workloads in a fresh process; return CPU time, seconds, and answer of each.

    Parameters
    ----------
    tree
        The checkout whose package they use.
    group
        Name of the group.

    Raises
    ------
    SystemExit
        If one fails: a workload must work in both trees.
    """
    # As where a package is installed, its modules are compiled once and not at each start.
    plain = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        # -P: the folder of the workloads is not a place to import from; the tree is.
        [sys.executable, "-P", before_after_workloads.__file__, group],
        cwd=tree,
        env={**plain, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
    if done.returncode:
        raise SystemExit(f"the workloads of {group} fail in {tree}:\n{done.stderr[-2000:]}")
    found: dict[str, tuple[float, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def describe_tree(tree: Path) -> None:
    """Write the metadata of a checkout into it: an older `alloc` asks them for its version.

    Parameters
    ----------
    tree
        The checkout, which is not installed.
    """
    if not list(tree.glob("*.egg-info")):
        told = "from setuptools import setup; setup()"
        subprocess.run(
            [sys.executable, "-c", told, "--quiet", "egg_info"],
            cwd=tree,
            check=True,
            capture_output=True,
            timeout=_LIMIT_S,
        )


def measure(group: str, before: Path, repeats: int) -> list[Row]:
    """Run a group of workloads in both trees in turns.

    Parameters
    ----------
    group
        Name of the group.
    before
        The older tree.
    repeats
        Turns, 1 or more.
    """
    trees = (before, _HERE)
    runs: tuple[list[dict[str, tuple[float, str]]], ...] = ([], [])
    for turn in range(repeats):
        for at in (0, 1) if turn % 2 else (1, 0):
            runs[at].append(run_in(trees[at], group))
    before_runs, after_runs = runs
    return [
        Row(
            name,
            tuple(run[name][0] for run in before_runs),
            tuple(run[name][0] for run in after_runs),
            (before_runs[-1][name][1], after_runs[-1][name][1]),
        )
        for name in WORKLOADS[group]
    ]


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Return whether the rows keep the targets."""
    slower = [f"{row.name} {row.ratio:.2f}" for row in rows if row.is_slower]
    worst = max(rows, key=lambda row: row.ratio)
    told = ", ".join(slower) or f"at most {worst.ratio:.2f}, {worst.name}"
    target = f"nothing more than {TARGET - 1:.0%} slower than before, beyond noise"
    found = [Verdict(target, told, not slower)]
    for row in rows:
        if row.name == "import alloc":
            took = statistics.median(row.after)
            target = f"{row.name} takes at most {1e3 * IMPORT_S:.0f} ms"
            found.append(Verdict(target, f"{1e3 * took:.1f} ms", took <= IMPORT_S))
    return found


def write_record(path: Path, before: Path, rows: Sequence[Row]) -> None:
    """Write the rows, with what they depend on, as JSON, in the place of older ones of their names.

    Groups that were run one after the other make one record; rows of other commits, or of another
    machine, are no part of it.
    """
    new = {
        row.name: {**dataclasses.asdict(row), "ratio": row.ratio, "interval": row.interval}
        for row in rows
    }
    record = {
        "date": datetime.date.today().isoformat(),
        "before": commit_of(before),
        "environment": environment(),
        "rows": new,
    }
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
        if _origin(known) == _origin(record):
            record["rows"] = known["rows"] | new
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def table(record: dict[str, Any]) -> str:
    """Return the rows of a record as a table of Markdown, the largest ratio first."""
    lines = ["| workload | ratio | interval | before, ms | after, ms |", "|---|---|---|---|---|"]
    for name, row in sorted(record["rows"].items(), key=lambda item: -item[1]["ratio"]):
        low, high = row["interval"]
        old, new = (f"{1e3 * statistics.median(row[tree]):,.1f}" for tree in ("before", "after"))
        lines.append(f"| {name} | {row['ratio']:.2f} | {low:.2f} to {high:.2f} | {old} | {new} |")
    return "\n".join(lines)


def _origin(record: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the commits, machine and packages of a record: all but the load of the moment."""
    return record["before"], {**record["environment"], "load": ""}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a workload is slower, 0 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="checkout of the older tree")
    parser.add_argument("--repeats", type=int, default=5, help="turns of each group")
    parser.add_argument("--only", metavar="GROUP", action="append", help="groups (default: all)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the figures as JSON")
    arguments = parser.parse_args(argv)
    before = arguments.before.resolve()
    if not (before / "alloc" / "__init__.py").is_file():
        parser.error(f"{before} is not a checkout of alloc")
    if arguments.repeats < 1:
        parser.error("--repeats is at least 1")
    for name in arguments.only or ():
        if name not in WORKLOADS:
            parser.error(
                f'unknown group "{name}"{nearest(name, WORKLOADS) or ";"} '
                f"known: {', '.join(WORKLOADS)}"
            )
    print(describe_environment())
    print(f"before     {commit_of(before)}\n")
    print(f"{'ratio':>6s}  {'interval':13s} {'before ms':>10s} {'after ms':>10s}  workload")
    describe_tree(before)
    rows: list[Row] = []
    for name in arguments.only or WORKLOADS:
        for row in measure(name, before, arguments.repeats):
            print(row, flush=True)
            rows.append(row)
        # After each group: a later one that fails loses nothing.
        if arguments.record is not None:
            write_record(arguments.record, before, rows)
    return conclude(verdicts(rows))


if __name__ == "__main__":
    sys.exit(main())
