"""Moldable gangs: the gap that is promised, beside a plain CP-SAT model and Saturn's program.

Wall times are those of a machine of one's own: on a shared one the promise of a size may be missed
for want of a processor, so that CPU seconds are printed too; with ``--cpu`` they are what counts,
for alloc and for the plain model. ``--draws`` takes so many other instances of each size.

The plain model gets so many times as long as alloc (``--times``), and must not be better. Where
alloc's answer is proved optimal it cannot be, and is not run. Saturn's program as published goes to
HiGHS for so many seconds (``--saturn``); its makespan is held against the same bound.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import alloc
from alloc.certificate import OPTIMALITY_GAP
from alloc.instances.recipes.gangs import moldable
from benchmarks.alternatives.plain_gangs import solve_plainly
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True  # half an hour, and ten times that with the plain model


@dataclass(frozen=True)
class Promise:
    """What an instance is promised.

    Parameters
    ----------
    parameters
        Of `alloc.instances.recipes.gangs.moldable`.
    gap
        Largest relative gap.
    seconds
        Wall time of the search.
    """

    parameters: Mapping[str, int]
    gap: float
    seconds: float


PROMISES = {
    "6-on-1": Promise({"num_jobs": 6, "num_hosts": 1, "seed": 20}, OPTIMALITY_GAP, 5.0),
    "12-on-2": Promise({"num_jobs": 12, "num_hosts": 2, "seed": 21}, OPTIMALITY_GAP, 5.0),
    "24-on-4": Promise({"num_jobs": 24, "num_hosts": 4, "seed": 22}, 0.02, 60.0),
    "64-on-8": Promise({"num_jobs": 64, "num_hosts": 8, "seed": 23}, 0.03, 120.0),
    "500-on-64": Promise({"num_jobs": 500, "num_hosts": 64, "seed": 24}, 0.05, 300.0),
    "24-on-4-of-two-types": Promise(
        {"num_jobs": 24, "num_hosts": 4, "gpu_types": 2, "span_s": 3600, "seed": 25}, 0.05, 60.0
    ),
    "64-on-8-of-two-types": Promise(
        {"num_jobs": 64, "num_hosts": 8, "gpu_types": 2, "span_s": 7200, "seed": 26}, 0.08, 300.0
    ),
}
"""Gangs on hosts, of one GPU type or, with arrivals, of two."""
OBJECTIVES = ("makespan", "weighted_jct")
ON_REQUEST_OBJECTIVES = ("tardiness",)
"""Not promised a gap: there are none relative to a value that may be 0."""
_DUE = 2.0
"""Due dates come so many shortest run times after the arrival: in these queues most are missed."""
_FIRST_DRAW = 701
"""Seed of the first of the other instances: none that the method was tuned on."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each instance and objective; return 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.moldable_gangs")
    parser.add_argument("--id", action="append", choices=list(PROMISES), help="repeat for more")
    every = (*OBJECTIVES, *ON_REQUEST_OBJECTIVES)
    parser.add_argument("--objective", action="append", choices=every)
    parser.add_argument("--times", type=float, default=0.0, help="time of the plain model, in ours")
    parser.add_argument("--saturn", type=float, default=0.0, help="seconds of Saturn's program")
    parser.add_argument("--share", type=float, default=1.0, help="of the seconds that are promised")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--draws", type=int, default=0, help="other instances of each size")
    parser.add_argument("--cpu", action="store_true", help="seconds are CPU time of the process")
    arguments = parser.parse_args(argv)
    if arguments.cpu:
        time.perf_counter = time.process_time
    verdicts = []
    for name, promise in chosen(arguments.id or list(PROMISES), arguments.draws):
        instance = with_due_dates(moldable(name, **promise.parameters))
        for objective in arguments.objective or OBJECTIVES:
            seconds = promise.seconds * arguments.share
            began = time.process_time()
            certificate = alloc.solve(
                instance,
                "moldable",
                objective=objective,
                limits=alloc.Limits(
                    seconds=seconds, seed=arguments.seed, workers=arguments.workers
                ),
            ).certificate
            cpu_s = time.process_time() - began
            gap, value = certificate.gap, certificate.objective
            assert gap is not None
            assert value is not None
            print(
                f"{name} {objective}: {value:.7g}, bound {certificate.bound:.7g} "
                f"({certificate.bound_proof}), gap {gap:.3%}, {certificate.seconds:.1f} s, "
                f"{cpu_s:.1f} CPU s",
                flush=True,
            )
            if objective in OBJECTIVES:
                target = f"{name} {objective} to {promise.gap:.2g}"
                verdicts.append(Verdict(target, f"{gap:.3%}", gap <= promise.gap))
            if arguments.saturn and objective == "makespan":
                print(saturn_line(instance, arguments.saturn, certificate.bound), flush=True)
            if arguments.times and certificate.status != "optimal":
                plain = solve_plainly(
                    instance,
                    objective,
                    seconds * arguments.times,
                    arguments.workers,
                    cpu_time=arguments.cpu,
                )
                print(
                    f"  plain CP-SAT: {plain.objective:.7g}, bound {plain.bound:.7g}, "
                    f"gap {plain.gap:.3%}"
                )
                verdicts.append(
                    Verdict(
                        f"{name} {objective} never worse than a plain model",
                        f"{value:.7g} against {plain.objective:.7g}",
                        value <= plain.objective * (1 + OPTIMALITY_GAP),
                    )
                )
    return conclude(verdicts)


def chosen(names: Sequence[str], draws: int) -> Iterator[tuple[str, Promise]]:
    """Yield the instances by name, or so many others of the same sizes."""
    for name in names:
        promise = PROMISES[name]
        if not draws:
            yield name, promise
        for seed in range(_FIRST_DRAW, _FIRST_DRAW + draws):
            parameters = {**promise.parameters, "seed": seed}
            yield f"{name}-seed-{seed}", replace(promise, parameters=parameters)


def with_due_dates(instance: alloc.Instance) -> alloc.Instance:
    """Return an instance whose jobs have due dates, which matter for tardiness alone."""
    return instance.replace(
        jobs=tuple(
            job.replace(due_date_s=float(round(job.arrival_s + _DUE * job.min_run_s)))
            for job in instance.jobs
        )
    )


def saturn_line(instance: alloc.Instance, seconds: float, bound: float) -> str:
    """Return what Saturn's program reaches, in a line.

    Parameters
    ----------
    instance
        The gangs.
    seconds
        Wall time for building and solving it.
    bound
        What is proved of the makespan.
    """
    began = time.process_time()
    result = alloc.solve(
        instance, "saturn-spase", "pyomo", limits=alloc.Limits(seconds=seconds)
    ).certificate
    cpu_s = time.process_time() - began
    if result.objective is None:
        return f"  Saturn's program: nothing, {cpu_s:.1f} CPU s"
    gap = (result.objective - bound) / result.objective
    own = (result.objective - result.bound) / result.objective
    return (
        f"  Saturn's program: {result.objective:.7g}, gap {gap:.2%} to our bound, {own:.1%} to its "
        f"own, {cpu_s:.1f} CPU s"
    )


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
