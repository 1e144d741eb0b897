"""Makespan and cost: what an evolution finds, held against the exact front.

``python -m benchmarks.two_goals [--seeds 10] [--tasks 12] [--seconds 60] [--generations 200]``.
Tasks choose among machines of three types; faster ones cost more. The exact front gets so many
seconds; the evolution, NSGA-II over modes and priorities, has its generations. Printed are the
points of the exact front, how many of them the evolution found, how much of the area under the
exact front it covers (a corner at the worst of both), and how far its makespans are above the
exact ones at the same money, in the mean.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import alloc
from alloc.comparison.intervals import mean_interval
from alloc.comparison.tables import show_interval
from alloc.instances.projects import generate_priced
from alloc.problems.project_front import ProjectFront
from alloc.solving.project.front import evolved_front, exact_front
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True
_SAME = 1e-9
"""Relative difference of two makespans that is rounding."""


def covered(front: ProjectFront, of: ProjectFront) -> float:
    """Return the share of the area that one front dominates which another does too.

    Parameters
    ----------
    front
        The other front.
    of
        The exact front.
    """
    points = [*front.points, *of.points]
    corner = (
        max(p.makespan_s for p in points) * (1 + _SAME) + 1.0,
        max(p.amount for p in points) + 1.0,
    )
    return front.hypervolume(*corner) / of.hypervolume(*corner)


def hits(front: ProjectFront, of: ProjectFront) -> int:
    """Return how many points of the exact front another has."""
    return sum(
        any(
            p.amount == q.amount and p.makespan_s <= q.makespan_s * (1 + _SAME)
            for p in front.points
        )
        for q in of.points
    )


def excess(front: ProjectFront, of: ProjectFront) -> float:
    """Return how far makespans are above the exact ones for the same money, in the mean.

    Of points of the exact front with less money than any answer needs, nothing can be said: they
    are left out.
    """
    found = []
    for q in of.points:
        able = [p.makespan_s for p in front.points if p.amount <= q.amount]
        if able:
            found.append(min(able) / q.makespan_s - 1)
    return sum(found) / len(found)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each seed, and means with intervals; 1 if an answer beats a proof."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.two_goals")
    parser.add_argument("--seeds", type=int, default=10, help="made problems")
    parser.add_argument("--tasks", type=int, default=12, help="tasks of each")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each exact front")
    parser.add_argument("--generations", type=int, default=200, help="of the evolution")
    given = parser.parse_args(argv)
    print("seed  exact  points  CPU s  found  area %  above %  CPU s")
    found: dict[str, list[float]] = {"points": [], "area": [], "above": []}
    beaten = whole = 0
    for seed in range(given.seeds):
        problem = generate_priced(num_tasks=given.tasks, seed=seed)
        began = time.process_time()
        exact = exact_front(problem, "cost", alloc.Limits(given.seconds))
        middle = time.process_time()
        evolved = evolved_front(
            problem, "cost", alloc.Limits(given.seconds, seed=seed), generations=given.generations
        )
        ended = time.process_time()
        share, above = covered(evolved, exact), excess(evolved, exact)
        number = hits(evolved, exact)
        whole += exact.is_exact
        beaten += exact.is_exact and share > 1 + _SAME
        found["points"].append(number / len(exact.points))
        found["area"].append(share)
        found["above"].append(above)
        print(
            f"{seed:4}  {'yes' if exact.is_exact else 'no':5}  {len(exact.points):6}  "
            f"{middle - began:5.1f}  {number:5}  {100 * share:6.2f}  {100 * above:7.2f}  "
            f"{ended - middle:5.1f}",
            flush=True,
        )
    for what, values in found.items():
        print(f"{what} (%): {show_interval(mean_interval(values), 100.0)}")
    verdicts = [
        Verdict("no answer beats an exact front", f"{beaten} do", not beaten),
        Verdict(
            f"every front of {given.tasks} tasks is exact in {given.seconds:g} s",
            f"{whole} of {given.seeds}",
            whole == given.seeds,
        ),
    ]
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
