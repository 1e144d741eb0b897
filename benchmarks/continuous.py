"""The best schedule found and its bound, in continuous time and on slots, with equal CPU time.

Run as ``python -m benchmarks.continuous 20 week.json week-slots.json``: the limit in CPU seconds,
and files of instances. Each is solved from the schedule of ``rollout``.
"""

from __future__ import annotations

import sys
import time

OBJECTIVE = "mean_jct"


def row(path: str, seconds: float) -> str:
    """Return a row of the table for the instance in a file.

    Parameters
    ----------
    path
        The file.
    seconds
        Limit of the solve, on the clock of the process.
    """
    # Only now, when `main` has set the clock that settings take as they are imported.
    from alloc import simulate, solve
    from alloc.documents.reading import load
    from alloc.objectives import objective
    from alloc.result import Limits

    instance = load(path)
    start = simulate(instance, "rollout").schedule
    limits = Limits(seconds=seconds)
    found = solve(instance, "malleable", objective=OBJECTIVE, limits=limits, warm_start=start)
    certificate = found.certificate
    assert certificate.objective is not None
    rollout = objective(OBJECTIVE).evaluate(instance, start)
    gaps = [100 * (value / certificate.bound - 1) for value in (rollout, certificate.objective)]
    return (
        f"| {instance.name} | {len(instance.jobs)} | {rollout:,.0f} | {certificate.objective:,.0f} "
        f"| {certificate.bound:,.0f} | {gaps[0]:.2f} | {gaps[1]:.2f} |"
    )


def main(arguments: list[str]) -> None:
    """Print the table."""
    seconds = float(arguments[0])
    # Limits count CPU time, so that other work on the machine does not shorten one of two runs.
    time.perf_counter = time.process_time
    print("| instance | jobs | rollout (s) | found (s) | bound (s) | rollout gap (%) | gap (%) |")
    print("|:---|---:|---:|---:|---:|---:|---:|")
    for path in arguments[1:]:
        print(row(path, seconds), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
