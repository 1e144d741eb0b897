"""Pack 1,000 jobs onto 500 GPUs by their measured interference, proved optimal in seconds.

The speeds are those that Gavel's authors measured for 26 kinds of training jobs in pairs on a V100
(in the extracts at ``ALLOC_TRACES``, or ``../shared/data/traces`` beside the repository); without
them, speeds are drawn at random. Jobs of one kind are a class. Besides: bundles of three, whose
speeds are products of pairs; and jobs with weights all of their own, where pairing is a general
maximum-weight matching and networkx' blossom algorithm is timed on the same jobs. The greedy answer
takes the best pair left until GPUs run out.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence

import networkx as nx
import numpy as np

from alloc.instances.readers import read_gavel_interference
from alloc.problems.colocation import ColocationProblem, Packing
from alloc.result import Result
from alloc.solving import solve
from alloc.workload import InterferenceTable
from benchmarks.data import data_folder
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude, value_and_gap

TARGET_S = 10.0
TARGET_GAP = 1e-6


def measured_table() -> InterferenceTable | None:
    """Return Gavel's V100 table, or None where the extracts are not."""
    traces = data_folder("traces")
    derived = traces / "gavel" / "derived"
    if not derived.is_dir():
        return None
    table, _ = read_gavel_interference(
        derived / "throughputs_isolated.csv.gz", derived / "throughputs_colocated.csv.gz"
    )
    return table


def random_table(number: int, seed: int = 0) -> InterferenceTable:
    """Return a table of as many kinds with speeds between 0.3 and 1."""
    rng = np.random.default_rng(seed)
    kinds = tuple(f"kind-{k}" for k in range(number))
    return InterferenceTable(
        "random", kinds, np.ones(number), rng.uniform(0.3, 1.0, (number, number))
    )


def greedy_pairs(
    kinds: Sequence[str], weights: Sequence[float], table: InterferenceTable, num_gpus: int
) -> float:
    """Return the value of taking the best pair left, then single jobs."""
    at = [table.position(kind) for kind in kinds]
    beside = np.where(table.beside.T > 0, table.beside, 0.0)
    speed = beside[np.ix_(at, at)]
    weight = np.array(weights)
    value = speed * weight[:, None]
    value = value + value.T
    np.fill_diagonal(value, 0.0)
    free, total, gpus = np.ones(len(at), dtype=bool), 0.0, num_gpus
    for flat in np.argsort(-value, axis=None, kind="stable"):
        i, j = divmod(int(flat), len(at))
        if not gpus or value[i, j] <= 0:
            break
        if free[i] and free[j] and i != j:
            free[i] = free[j] = False
            total += float(value[i, j])
            gpus -= 1
    return total + float(np.sort(weight[free])[::-1][:gpus].sum())


def by_blossoms(kinds: Sequence[str], weights: Sequence[float], table: InterferenceTable) -> float:
    """Return the value of networkx' maximum-weight matching with a GPU for every two jobs."""
    graph = nx.Graph()
    for i, j in itertools.combinations(range(len(kinds)), 2):
        speeds = table.speeds((kinds[i], kinds[j]))
        if speeds is not None:
            graph.add_edge(i, j, weight=weights[i] * speeds[0] + weights[j] * speeds[1])
    matched = nx.max_weight_matching(graph, maxcardinality=True)
    return float(sum(graph.edges[edge]["weight"] for edge in matched))


def priced(packing: Result[Packing]) -> int:
    """Return how many bundles the linear program came to know, as its log says."""
    return next(int(line.split()[2]) for line in packing.log if "bundles priced" in line)


def _row(name: str, packing: Result[Packing], greedy: float | None, seconds: float) -> str:
    return (
        f"{name:42s} {packing.objective:10.3f} {packing.bound:10.3f} "
        f"{'' if greedy is None else f'{greedy:.3f}':>10s} {priced(packing):9,d} "
        f"{seconds:8.2f}  {packing.certificate.bound_proof}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print values, bounds and times; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.colocation")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--matching", type=int, default=200, help="jobs with weights of their own")
    arguments = parser.parse_args(argv)
    table = measured_table()
    if table is None:
        print("Gavel's tables are not there; set ALLOC_TRACES. Speeds are drawn at random.")
        table = random_table(26)
    rng = np.random.default_rng(0)
    kinds = rng.choice(table.kinds, arguments.jobs).tolist()
    ones = [1.0] * len(kinds)
    print(
        f"{'':42s} {'value':>10s} {'bound':>10s} {'greedy':>10s} {'bundles':>9s} {'seconds':>8s}"
        "  bound"
    )
    verdicts = []
    for most, num_gpus in ((2, arguments.jobs // 2), (2, arguments.jobs * 2 // 5),
                           (3, arguments.jobs * 2 // 5)):  # fmt: skip
        began = time.perf_counter()
        packing = solve(ColocationProblem(kinds, table, num_gpus, max_per_gpu=most))
        seconds = time.perf_counter() - began
        greedy = greedy_pairs(kinds, ones, table, num_gpus) if most == 2 else None
        name = f"{len(kinds):,} jobs, {num_gpus} GPUs, {most} a GPU"
        print(_row(name, packing, greedy, seconds), flush=True)
        verdicts.append(
            Verdict(
                f"{name}: proved within {TARGET_GAP:g} in {TARGET_S:g} s",
                f"gap {packing.gap:.1e} in {seconds:.2f} s",
                value_and_gap(packing)[1] <= TARGET_GAP and seconds <= TARGET_S,
            )
        )
    some = kinds[: arguments.matching]
    weights = rng.uniform(1, 3, len(some)).tolist()
    began = time.perf_counter()
    packing = solve(ColocationProblem(some, table, len(some) // 2, weights=weights))
    seconds = time.perf_counter() - began
    name = f"{len(some)} weights, {len(some) // 2} GPUs, 2 a GPU"
    print(_row(name, packing, greedy_pairs(some, weights, table, len(some) // 2), seconds))
    began = time.perf_counter()
    blossoms = by_blossoms(some, weights, table)
    slow = time.perf_counter() - began
    print(f"{'networkx, every job in a pair':42s} {blossoms:10.3f} {'':40s} {slow:8.2f}")
    verdicts.append(
        Verdict(
            f"{name}: proved, no worse than networkx, and faster",
            f"{packing.objective:.4f} against {blossoms:.4f}, {slow / seconds:.1f} times faster",
            packing.status == "optimal"
            and value_and_gap(packing)[0] >= blossoms * (1 - 1e-6)
            and seconds <= slow,
        )
    )
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
