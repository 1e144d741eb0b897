"""Operate 100 nodes and 450 jobs: proved decisions against EDF, greedy, path relinking and others.

Decisions: the sizes of the Path Relinking paper (F. Filippini et al., IEEE Trans. Services
Computing 16(3), 2023), 10 to 100 nodes and 50 to 450 jobs, drawn by our own generator: the paper's
profiled times and its generator are not at hand, so the savings printed here are on other instances
than its "up to 97 %" against first-principle methods such as EDF and "up to 20 %" against its
hierarchical method. They depend on how much postponement is feared; the table shows that too. All
policies are our own implementations from descriptions. Streams: the same kinds of jobs arriving
over time, each policy deciding at every event, charged for what happens.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from alloc.instances.operation import (
    PUBLISHED_SIZES,
    generate_operation,
    generate_operation_stream,
)
from alloc.planning.operation_simulation import saving, simulate_operation
from alloc.problems.operation.problem import OperationPlan
from alloc.result import Limits, Result
from alloc.solving.operation.policies import decide_operation
from alloc.solving.outcome import Settings
from alloc.solving.solver import solve_within
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude, value_and_gap

ON_REQUEST = True  # the searching rivals and the streams take many minutes

TARGET_GAP = 0.01
TARGET_S = 10.0
RIVAL_S = 60.0
"""Time of the searching rivals: theirs is Python, the paper's is not, so they have more."""
EDF_SAVING = 0.97
HIERARCHICAL_SAVING = 0.20
KINDS = ("cloud", "own")
BASELINES = ("edf", "edf-shared", "hierarchical", "greedy", "andreas", "path-relinking")
STREAMED = ("edf", "edf-shared", "hierarchical", "greedy", "path-relinking", "sts")
FACTORS = (1.0, 10.0, 100.0)


def decisions(sizes: Sequence[tuple[int, int]], seeds: int) -> list[Verdict]:
    """Print the decisions and return the verdicts on them."""
    print(
        f"{'nodes':>5s} {'jobs':>5s} {'kind':6s} {'seed':>4s} {'cost':>10s} {'gap':>8s} "
        f"{'bound':>10s} {'s':>6s}   savings against " + ", ".join(BASELINES)
    )
    largest = max(sizes)
    savings: dict[str, list[float]] = {name: [] for name in BASELINES}
    gaps, times = [0.0], [0.0]
    for nodes, jobs in sizes:
        for kind in KINDS:
            for seed in range(seeds if (nodes, jobs) == largest else 1):
                problem = generate_operation(num_nodes=nodes, num_jobs=jobs, kind=kind, seed=seed)
                began = time.perf_counter()
                exact = solve_within(problem, Settings(time_limit_s=TARGET_S, workers=2))
                seconds = time.perf_counter() - began
                for name in BASELINES:
                    other = decide_operation(problem, name, Settings(time_limit_s=RIVAL_S))
                    savings[name].append(saving(value_and_gap(exact)[0], value_and_gap(other)[0]))
                _print_row(nodes, jobs, kind, seed, exact, seconds, savings)
                if (nodes, jobs) == largest:
                    gaps.append(exact.certificate.gap or 0.0)
                    times.append(seconds)
    worst = {name: min(found) for name, found in savings.items()}
    best = {name: max(found) for name, found in savings.items()}
    rivals = ("greedy", "andreas", "path-relinking")
    return [
        Verdict(
            f"{largest[0]} nodes and {largest[1]} jobs: gap <= {TARGET_GAP:.0%} in {TARGET_S:g} s",
            f"gap {max(gaps):.1e} in {max(times):.1f} s at worst over {len(gaps) - 1} decisions",
            max(gaps) <= TARGET_GAP and max(times) <= TARGET_S,
        ),
        Verdict(
            f"saves up to {EDF_SAVING:.0%} against EDF, as the paper reports of its instances",
            f"from {worst['edf']:.1%} to {best['edf']:.1%} on ours",
            best["edf"] >= EDF_SAVING,
        ),
        Verdict(
            f"saves up to {HIERARCHICAL_SAVING:.0%} against the hierarchical method, as reported",
            f"from {worst['hierarchical']:.1%} to {best['hierarchical']:.1%} on ours",
            best["hierarchical"] >= HIERARCHICAL_SAVING,
        ),
        Verdict(
            "never dearer than greedy, randomised greedy and our path relinking",
            "; ".join(f"{name} {worst[name]:.1%} to {best[name]:.1%}" for name in rivals),
            min(worst[name] for name in rivals) >= -1e-6,
        ),
    ]


def _print_row(
    nodes: int,
    jobs: int,
    kind: str,
    seed: int,
    exact: Result[OperationPlan],
    seconds: float,
    savings: dict[str, list[float]],
) -> None:
    certificate = exact.certificate
    saved = " ".join(f"{found[-1]:8.1%}" for found in savings.values())
    print(
        f"{nodes:5d} {jobs:5d} {kind:6s} {seed:4d} {exact.objective:10.2f} "
        f"{certificate.gap:8.1e} {certificate.bound_proof:>10s} {seconds:6.2f}   {saved}",
        flush=True,
    )


def fear(nodes: int, jobs: int) -> None:
    """Print how the saving against EDF depends on the fear of postponement."""
    print("\nsaving against EDF by postponement factor (the papers' rho)")
    for kind in KINDS:
        found = []
        for factor in FACTORS:
            problem = generate_operation(
                num_nodes=nodes, num_jobs=jobs, kind=kind, postponement_factor=factor
            )
            exact = decide_operation(problem, "exact", Settings(time_limit_s=TARGET_S))
            cost, _ = value_and_gap(exact)
            edf, _ = value_and_gap(decide_operation(problem, "edf"))
            found.append(f"{factor:g}: {saving(cost, edf):.1%}")
        print(f"  {kind:6s} {nodes} nodes, {jobs} jobs   {'   '.join(found)}", flush=True)


def beyond(nodes: int, jobs: int) -> None:
    """Print a decision several times the published size."""
    problem = generate_operation(num_nodes=nodes, num_jobs=jobs, kind="own", seed=1)
    result = solve_within(problem, Settings(time_limit_s=60.0, workers=2, gap=1e-4))
    print(
        f"\n{nodes} nodes, {jobs} jobs: cost {result.objective:.2f}, gap "
        f"{result.certificate.gap:.1e}, {result.certificate.seconds:.1f} s",
        flush=True,
    )


def streams(nodes: int, jobs: int, seeds: int, limit_s: float) -> list[Verdict]:
    """Print what policies make of streams and return the verdict on the exact one."""
    print(
        f"\nstreams of {jobs} jobs on {nodes} nodes: cost in all (tardiness in it), and what exact "
        "decisions save"
    )
    least = {name: 1.0 for name in ("greedy", "path-relinking")}
    for kind in KINDS:
        for load in (0.5, 1.0, 6.0):
            for seed in range(seeds):
                found = _stream(nodes, jobs, kind, load, seed, limit_s)
                for name in least:
                    # Beyond what the cluster can do, no view of one decision is enough.
                    if load <= 1:
                        least[name] = min(least[name], found[name])
    return [
        Verdict(
            "over time, at loads up to 1, exact decisions (whole jobs charged) beat greedy and "
            "path relinking",
            "; ".join(f"{name} by {value:.1%} at least" for name, value in least.items()),
            min(least.values()) >= 0,
        )
    ]


def _stream(
    nodes: int, jobs: int, kind: str, load: float, seed: int, limit_s: float
) -> dict[str, float]:
    world = generate_operation_stream(
        num_nodes=nodes, num_jobs=jobs, kind=kind, load=load, stops=True, seed=seed
    )
    limits = Limits(seconds=limit_s)
    exact = simulate_operation(world, "exact", limits)
    published = simulate_operation(world.replace(accounting="first-completion"), "exact", limits)
    runs = {name: simulate_operation(world, name, limits) for name in STREAMED}
    runs["exact, first completion"] = published
    runs["exact-expected"] = simulate_operation(world, "exact-expected", limits)
    print(
        f"  {kind} at load {load:g}, seed {seed}: exact {exact.total_cost:.2f} "
        f"({exact.tardiness_cost:.2f}), {exact.decisions} decisions in "
        f"{exact.decision_seconds:.1f} s"
    )
    saved = {name: saving(exact.total_cost, run.total_cost) for name, run in runs.items()}
    for name, run in runs.items():
        print(
            f"    {name:24s} {run.total_cost:10.2f} ({run.tardiness_cost:8.2f})  "
            f"{saved[name]:+7.1%}",
            flush=True,
        )
    return saved


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster_operation")
    parser.add_argument("--quick", action="store_true", help="small sizes only, for a smoke test")
    arguments = parser.parse_args(argv)
    sizes = PUBLISHED_SIZES[:1] if arguments.quick else PUBLISHED_SIZES
    verdicts = decisions(sizes, 1 if arguments.quick else 3)
    fear(*max(sizes))
    if not arguments.quick:
        beyond(400, 2000)
    small = (2, 4, 1, 0.1) if arguments.quick else (6, 40, 1, 0.3)
    verdicts += streams(*small)
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
