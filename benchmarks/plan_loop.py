"""Plan, replay in the simulator, tighten, until the goals hold: in at most five rounds.

Every stored planning problem, with the goals replayed in the two fullest regimes of every pool.
Converged is a problem whose plan meets its goals in the replay, or of which it is proved that none
fits its limits with the room that the replay asks for. What that room costs stands beside it: the
answer against the first plan, which only the model believes in, and the round it is from.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from alloc.instances.stored_planning import load_stored_planning, stored_planning_ids
from alloc.planning.replay import ReplaySettings
from alloc.planning.report import plan
from alloc.result import Limits
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

MAX_ROUNDS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the loop on every stored problem and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="ID", action="append", choices=stored_planning_ids())
    parser.add_argument("--skip", metavar="PREFIX", action="append", default=[])
    parser.add_argument("--scheduler", default="fifo", help="policy of the replay")
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of a replication")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of each solve")
    parser.add_argument("--workers", type=int, default=1, help="processes of the replay")
    given = parser.parse_args(arguments)
    print(describe_environment())
    print(
        f"{'problem':18} {'rounds':>6} {'answer':>6} {'outcome':>10} {'goals':>6} {'first':>14} "
        f"{'cost':>14} {'dearer':>8} {'wall s':>7} {'cpu s':>7}"
    )
    verdicts = []
    for problem_id in given.only or stored_planning_ids():
        if problem_id.startswith(tuple(given.skip)):
            continue
        began, cpu = time.perf_counter(), time.process_time()
        report = plan(
            load_stored_planning(problem_id),
            limits=Limits(seconds=given.seconds, gap=0.01),
            replay=ReplaySettings(given.scheduler, jobs=given.jobs, workers=given.workers),
            max_iterations=MAX_ROUNDS,
        )
        found = report.replayed
        assert found is not None
        rounds = len(found.rounds)
        number = next(i for i, turn in enumerate(found.rounds, 1) if turn is found.answer)
        first, last = found.rounds[0].cost, found.answer.cost
        print(
            f"{problem_id:18} {rounds:6d} {number:6d} {found.outcome:>10} "
            f"{len(found.answer.measured):6d} {first:14,.0f} {last:14,.0f} "
            f"{100 * (last / first - 1):7.1f}% {time.perf_counter() - began:7.1f} "
            f"{time.process_time() - cpu:7.1f}",
            flush=True,
        )
        verdicts.append(
            Verdict(
                f"{problem_id}: the loop converges in at most {MAX_ROUNDS} rounds",
                f"{rounds} rounds, {found.outcome}",
                found.outcome in ("holds", "impossible"),
            )
        )
    return conclude(verdicts)


if __name__ == "__main__":
    raise SystemExit(main())
