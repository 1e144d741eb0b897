"""Where learned schedulers add over greedy rules and where they lose, factor by factor.

One command makes every number, table and figure: ``python -m benchmarks.studies.generalisation``.
Every scheduler meets the same instances at every level, on seeds that no training and no choice of
a checkpoint has seen; a difference counts only where the 95 % interval of the paired ratios says
so. Finished work is kept in the output folder: after an interrupt the same command goes on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from alloc.comparison import Store
from alloc.errors import nearest
from benchmarks.environment import describe_environment
from benchmarks.studies.charts import draw
from benchmarks.studies.contenders import absent, contenders
from benchmarks.studies.factors import LEVELS, QUICK_LEVELS
from benchmarks.studies.findings import findings, summary
from benchmarks.studies.running import run_study
from benchmarks.studies.tables import as_csv, as_json, as_markdown, missing, rows

ON_REQUEST = True
"""Half an hour of one core; run by name only."""

OUTPUT = Path("build/benchmarks/generalisation")
SEEDS = 10
QUICK_SEEDS = 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.generalisation", description=__doc__
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="instances of each level")
    parser.add_argument(
        "--exact-seeds", type=int, help="instances for the exact rounds; default: as --seeds"
    )
    parser.add_argument(
        "--without", default="", metavar="NAME,NAME...", help="schedulers to leave out"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes; -1: one on each core")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where everything is written")
    parser.add_argument("--quick", action="store_true", help="a smoke test of tiny worlds")
    parser.add_argument(
        "--stored-only", action="store_true", help="run nothing; tables of what is stored"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing and write tables and figures; return 0, whatever the verdicts are."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    everyone = contenders()
    if arguments.seeds < 1:
        parser.error("--seeds must be 1 or more")
    if arguments.exact_seeds is not None and arguments.exact_seeds < 0:
        parser.error("--exact-seeds must be 0 or more")
    if arguments.jobs == 0:
        parser.error("--jobs must be 1 or more, or -1 for one on each core")
    labels = [contender.label for contender in everyone]
    left_out = [name for name in arguments.without.split(",") if name]
    for name in left_out:
        if name not in labels:
            parser.error(f'--without: no "{name}" takes part{nearest(name, labels)}')
    everyone = tuple(contender for contender in everyone if contender.label not in left_out)
    levels = QUICK_LEVELS if arguments.quick else LEVELS
    seeds = min(arguments.seeds, QUICK_SEEDS) if arguments.quick else arguments.seeds
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    for name in absent(everyone):
        print(f"not shipped, so not in the tables: {name}")
    with Store(output / "cells.db") as store:
        results = run_study(
            levels,
            everyone,
            seeds,
            store,
            exact_seeds=arguments.exact_seeds,
            jobs=arguments.jobs,
            stored_only=arguments.stored_only,
            say=say,
        )
    found = findings(results, levels, everyone, seeds)
    words = sys.argv[1:] if argv is None else argv
    command = " ".join(["python -m benchmarks.studies.generalisation", *words])
    table = rows(results, levels, everyone, seeds)
    (output / "study.md").write_text(as_markdown(results, levels, everyone, seeds, command))
    (output / "rows.csv").write_text(as_csv(table))
    (output / "study.json").write_text(as_json(table, found, everyone, command))
    figures = draw(results, levels, everyone, seeds, found, output / "figures")
    for finding in found:
        print(finding)
    for policy in dict.fromkeys(f.policy for f in found):
        for kind in dict.fromkeys(f.kind for f in found):
            print(f"{policy} against {kind}: {summary(found, policy, kind)}")
    if gone := missing(results, levels, everyone, seeds):
        print(f"{gone} simulations were not run; the tables give the numbers of instances")
    print(f"{output}: study.md, rows.csv, study.json, {len(figures)} figures")
    return 0


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
