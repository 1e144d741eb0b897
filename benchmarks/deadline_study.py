"""How far schedulers for deadlines are from the best value that is possible, and why.

``python -m benchmarks.deadline_study [--seeds 6] [--jobs 14] [--seconds 60]``. Made queues on 16
GPUs with 16 slots of an hour: rigid gangs, concave tables, tables with steps; each with jobs that
come over time, where no policy knows what comes, and with all of them there at the start, where
nothing is hidden and a gap is the price of the rule alone. Then the same with all jobs alike, so
that the gap of `elasticflow` is not that of its blindness to weights. Gaps are to the bound of
`admission`, with 95 % confidence intervals over seeds. The tables are those of
``docs/deadline-study.md``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import get_args

from alloc.comparison import Comparison, compare
from alloc.comparison.measures import MEASURES
from alloc.comparison.settings import OPTIMUM
from alloc.comparison.summaries import Summary
from alloc.comparison.tables import proof_sentence, show_gap, show_measure
from benchmarks.admission import Shape, queue_of_tables
from benchmarks.environment import describe_environment

ON_REQUEST = True

SCHEDULERS = ("elasticflow", "exact-admission", "chronus", "primal-dual", "mlfs", "edf", "fifo")
"""Policies of the study, those that keep promises first."""
SHOWN = ("deadlines_met",)
SLOTS = 16
"""Slots of a queue."""


def study(seeds: int, jobs: int, seconds: float, *, at_once: bool, alike: bool) -> Comparison:
    """Return all policies on made queues of every shape.

    Parameters
    ----------
    seeds
        Queues of each shape.
    jobs
        Jobs of each queue; of rigid gangs, which are smaller, twice as many.
    seconds
        Time of each bound.
    at_once, alike
        As of `benchmarks.admission.queue_of_tables`.
    """
    queues = [
        queue_of_tables(
            seed,
            jobs * (2 if shape == "rigid" else 1),
            SLOTS,
            shape=shape,
            at_once=at_once,
            alike=alike,
        )
        for shape in get_args(Shape)
        for seed in range(seeds)
    ]
    return compare(queues, SCHEDULERS, objective="value", time_limit_s=seconds)


def table(comparison: Comparison) -> str:
    """Return the gap of each scheduler on each shape as Markdown, with what else it did."""
    found: dict[str, dict[str, Summary]] = {}
    for summary in comparison.per_family():
        found.setdefault(summary.scheduler, {})[summary.group] = summary
    families = list(found[OPTIMUM])
    heads = ["lost value (%)", *(MEASURES[name].header for name in SHOWN)]
    lines = [
        "| scheduler | " + " | ".join(f"{f}: {h}" for f in families for h in heads) + " |",
        "|:---|" + "---:|" * (len(families) * len(heads)),
    ]
    for name, summaries in found.items():
        cells = []
        for family in families:
            one = summaries[family]
            cells.append(show_gap(one.gap))
            cells += [show_measure(MEASURES[m], one.metrics.get(m)) for m in SHOWN]
        lines.append(f"| {'best found' if name == OPTIMUM else name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables of the study."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deadline_study")
    parser.add_argument("--seeds", type=int, default=6, help="made queues of each shape")
    parser.add_argument("--jobs", type=int, default=14, help="jobs of each queue")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each bound")
    given = parser.parse_args(argv)
    for title, at_once, alike in (
        ("Jobs come over time", False, False),
        ("All jobs are there at the start", True, False),
        ("All jobs are there at the start, and weigh the same", True, True),
    ):
        found = study(given.seeds, given.jobs, given.seconds, at_once=at_once, alike=alike)
        proofs = proof_sentence(found.bound_proofs())
        print(f"## {title}\n\n{table(found)}\n\n{proofs}\n", flush=True)
    print(describe_environment())
    return 0


if __name__ == "__main__":
    sys.exit(main())
