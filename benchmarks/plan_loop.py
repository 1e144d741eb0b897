"""Plan, replay in the simulator, tighten, until the goals hold: in at most five rounds.

Every planning problem up to small size (examples and stored ones), with the goals replayed in the
two fullest regimes of every pool. What is counted are rounds; what the room for the replay costs
stands beside them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from alloc.instances.stored_planning import load_stored_planning, stored_planning_ids
from alloc.planning.replay import ReplaySettings
from alloc.planning.report import SolveSettings, plan
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

MOST_ROUNDS = 5
ALLOWED = 8
"""Rounds after which the benchmark gives up on a problem; the target is fewer."""
LEFT_OUT = ("planning-medium", "planning-large")
"""Their solves are what `benchmarks.right_sizing` measures; name them with --only."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the loop on every stored problem and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="ID", action="append", choices=stored_planning_ids())
    parser.add_argument("--scheduler", default="fifo", help="policy of the replay")
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of a replication")
    given = parser.parse_args(arguments)
    print(describe_environment())
    print(f"{'problem':18} {'rounds':>6} {'outcome':>10} {'goals':>6} {'cost':>14} {'dearer':>8} s")
    verdicts = []
    for problem_id in given.only or [
        name for name in stored_planning_ids() if not name.startswith(LEFT_OUT)
    ]:
        began = time.perf_counter()
        report = plan(
            load_stored_planning(problem_id),
            settings=SolveSettings(time_limit_s=60.0, gap=0.01),
            replay=ReplaySettings(given.scheduler, jobs=given.jobs),
            max_rounds=ALLOWED,
        )
        assert report.replayed is not None
        rounds = report.replayed.rounds
        first = rounds[0].result.certificate.objective or float("nan")
        last = report.result.certificate.objective or float("nan")
        seconds = time.perf_counter() - began
        print(
            f"{problem_id:18} {len(rounds):6d} {report.replayed.outcome:>10} "
            f"{len(rounds[-1].measured):6d} {last:14,.0f} {100 * (last / first - 1):7.1f}% "
            f"{seconds:.1f}",
            flush=True,
        )
        verdicts.append(
            Verdict(
                f"{problem_id}: the loop converges in at most {MOST_ROUNDS} rounds",
                f"{len(rounds)} rounds, {report.replayed.outcome}",
                len(rounds) <= MOST_ROUNDS and report.replayed.outcome in ("holds", "impossible"),
            )
        )
    return conclude(verdicts)


if __name__ == "__main__":
    raise SystemExit(main())
