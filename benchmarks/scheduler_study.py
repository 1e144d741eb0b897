"""How far each scheduler is from what is proved: gangs, graphs of stages, deadlines.

``python -m benchmarks.scheduler_study --part gangs [--seeds 10] [--seconds 20]``, and so for each
of `PARTS`: the tables of the page ``docs/scheduler-study.md``. Made instances of ten seeds; gaps
are to the certified bound, which knows the future, with 95 % confidence intervals over instances.
With ``--store FILE`` finished work is kept, and a run that was broken off goes on from there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import get_args

from alloc.comparison import Comparison, Entry, compare
from alloc.comparison.measures import MEASURES
from alloc.comparison.settings import OPTIMUM
from alloc.comparison.summaries import Summary
from alloc.comparison.tables import proof_sentence, show_gap, show_measure
from alloc.instances.projects import generate_staged
from alloc.instances.recipes.gangs import moldable
from alloc.problems.allocation.instance import Instance
from benchmarks.admission import Shape, queue_of_tables
from benchmarks.environment import describe_environment
from benchmarks.stages import SCHEDULERS

ON_REQUEST = True

OF_STAGES = tuple(Entry(name, options) for name, _, options in SCHEDULERS)
OF_GANGS = ("fifo", "easy-backfill", "conservative-backfill", "turn-around", "lpt", "srtf")
"""Schedulers of gangs: in order of arrival first, then by size or time."""
OF_DEADLINES = (
    "elasticflow",
    Entry("exact-admission", {"limit_s": 5.0}),
    "chronus",
    "primal-dual",
    "mlfs",
    "edf",
    "fifo",
)
"""Schedulers for deadlines, those that keep promises first; programs have 5 s a decision."""
JOBS, SLOTS = 14, 16
"""Jobs and slots of a queue with deadlines: most bounds are proved in the time."""
Study = Callable[[int, float, str | None], list[tuple[str, str]]]
"""Given the seeds, the seconds of each bound and where finished work is kept, returns titles and
tables."""


def show(comparison: Comparison, head: str, measures: Sequence[str] = ()) -> str:
    """Return the gap of each scheduler on each family of instances, as Markdown.

    Parameters
    ----------
    comparison
        Schedulers on instances.
    head
        What the gap is of.
    measures
        Names of measures beside the gap.
    """
    found: dict[str, dict[str, Summary]] = {}
    for summary in comparison.per_family():
        found.setdefault(summary.scheduler, {})[summary.group] = summary
    families = list(found[OPTIMUM])
    heads = [f"{head} (%)", *(MEASURES[name].header for name in measures)]
    lines = [
        "| scheduler | " + " | ".join(f"{f}: {h}" for f in families for h in heads) + " |",
        "|:---|" + "---:|" * (len(families) * len(heads)),
    ]
    for name, summaries in found.items():
        cells = []
        for family in families:
            one = summaries[family]
            failed = f" ({one.failures} of {one.runs} failed)" if one.failures else ""
            cells.append(show_gap(one.gap) + failed)
            cells += [show_measure(MEASURES[m], one.metrics.get(m)) for m in measures]
        lines.append(f"| {'best found' if name == OPTIMUM else name} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", proof_sentence(comparison.bound_proofs())])


def _gangs(seeds: int, seconds: float, store: str | None) -> list[tuple[str, str]]:
    """Moldable gangs on one host of eight GPUs: all at the start, and over an hour."""
    queues = [
        moldable(f"{name} {seed}", num_jobs=10, num_hosts=1, seed=seed, span_s=span_s)
        for name, span_s in (("at once", 0), ("in an hour", 3600))
        for seed in range(seeds)
    ]
    return [
        (
            f"Ten moldable gangs, eight GPUs: {goal.replace('_', ' ')}",
            show(_compared(queues, OF_GANGS, goal, seconds, "moldable", store), "above the bound"),
        )
        for goal in ("weighted_jct", "makespan")
    ]


def _stages(seeds: int, seconds: float, store: str | None) -> list[tuple[str, str]]:
    """Ten jobs of two or three stages on five hosts of two GPUs."""
    queues = [
        generate_staged(f"{name} {seed}", mean_gap_s=gap_s, seed=seed)
        for name, gap_s in (("a job a minute", 60.0), ("a job in five", 300.0))
        for seed in range(seeds)
    ]
    found = _compared(queues, OF_STAGES, "weighted_jct", seconds, "malleable", store)
    return [("Ten jobs of stages, ten GPUs: weighted JCT", show(found, "above the bound"))]


def _compared(
    queues: Sequence[Instance],
    schedulers: Sequence[str | Entry],
    goal: str,
    seconds: float,
    formulation: str,
    store: str | None,
) -> Comparison:
    return compare(
        queues,
        schedulers,
        objective=goal,
        formulation=formulation,
        time_limit_s=seconds,
        store=store,
    )


def _deadlines(seeds: int, seconds: float, store: str | None) -> list[tuple[str, str]]:
    """More jobs with deadlines than 16 GPUs have room for: tables, concave ones, rigid gangs.

    First jobs come over time, where no scheduler knows what comes; then all are there at the start,
    and a gap is the price of the rule alone; then they all weigh the same, so that the gap of those
    that do not look at weights is not the price of that.
    """
    tables = []
    for title, at_once, alike in (
        ("Deadlines: jobs come over time", False, False),
        ("Deadlines: all jobs are there at the start", True, False),
        ("Deadlines: all jobs are there at the start, and weigh the same", True, True),
    ):
        queues = [
            # Rigid gangs are smaller.
            queue_of_tables(
                seed,
                JOBS * (2 if shape == "rigid" else 1),
                SLOTS,
                shape=shape,
                at_once=at_once,
                alike=alike,
            )
            for shape in get_args(Shape)
            for seed in range(seeds)
        ]
        found = _compared(queues, OF_DEADLINES, "value", seconds, "malleable", store)
        tables.append((title, show(found, "lost value", ("deadlines_met",))))
    return tables


PARTS: dict[str, Study] = {"gangs": _gangs, "stages": _stages, "deadlines": _deadlines}
"""The parts of the study by name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables of a part, or of all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scheduler_study")
    parser.add_argument("--part", choices=list(PARTS), action="append", help="repeat for more")
    parser.add_argument("--seeds", type=int, default=10, help="instances of each kind")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each bound")
    parser.add_argument("--store", help="an SQLite file in which finished work is kept")
    given = parser.parse_args(argv)
    for part in given.part or PARTS:
        for title, table in PARTS[part](given.seeds, given.seconds, given.store):
            print(f"## {title}\n\n{table}\n", flush=True)
    print(describe_environment())
    return 0


if __name__ == "__main__":
    sys.exit(main())
