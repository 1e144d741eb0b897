"""MIG requests on GPUs, by alloc and by a pattern model in HiGHS as one writes it in an hour.

The alternative lists the layouts of a GPU, counts requests by profile and weight, and asks
`scipy.optimize.milp` for the numbers of layouts and requests. It stops at counts: nobody is dealt
out to a GPU, and nothing is checked. alloc deals out, minimises the GPUs used beside, checks and
certifies. Both values are held against each other.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy import optimize

import alloc
from alloc.problems.allocation.instance import Instance
from alloc.topology import HostType, flat_cluster
from alloc.topology.mig import mig_profiles
from alloc.topology.slices import GpuSlices
from benchmarks.alternatives.ratios import Row, cpu_s, in_turns, print_rows
from benchmarks.environment import describe_environment
from benchmarks.mig import GPU_TYPE, requests
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True  # `benchmarks.alternatives.table` runs it in short

SIZES = (1000, 3000, 10_000)
REQUESTS_A_GPU = 10
MAX_TIMES = 1.5
EASY_S = 0.1
_GAP = 1e-6


def made(number: int, seed: int, *, own: bool) -> Instance:
    """Return requests for more slices than there are, with weights 1 to 5 or of their own."""
    host = HostType("dgx-h100", 8, GPU_TYPE, 224_000, 2 * 1024 * 1024)
    cluster = flat_cluster("h100s", host, number // REQUESTS_A_GPU // 8)
    return Instance(f"mig-{seed}", cluster, tuple(requests(number, "small", seed, own=own)))


def by_alloc(instance: Instance) -> float:
    """Return the weight of the dealt, checked and proved answer of alloc."""
    result = alloc.solve(
        instance,
        "sharing",
        objective="weight_placed",
        limits=alloc.Limits(seconds=120.0, gap=_GAP),
    )
    assert result.certificate.verified
    assert result.certificate.objective is not None
    return result.certificate.objective


def layouts() -> list[tuple[int, ...]]:
    """Return how many instances of each profile a GPU can hold, all that are maximal."""
    profiles = tuple(mig_profiles(GPU_TYPE).values())
    found: set[tuple[int, ...]] = set()
    seen: set[tuple[object, ...]] = set()

    def grow(gpu: GpuSlices, counts: tuple[int, ...]) -> None:
        if (gpu.state, counts) in seen:
            return
        seen.add((gpu.state, counts))
        found.add(counts)
        for k, profile in enumerate(profiles):
            for start in profile.starts:
                if gpu.admits(profile, start):
                    more = gpu.copy()
                    more.add(profile, start)
                    grow(more, (*counts[:k], counts[k] + 1, *counts[k + 1 :]))

    grow(GpuSlices(profiles), (0,) * len(profiles))
    return [c for c in found if not any(c != d and all(np.array(c) <= np.array(d)) for d in found)]


def by_patterns(instance: Instance, patterns: Sequence[tuple[int, ...]]) -> float:
    """Return the weight that a pattern model places."""
    names = list(mig_profiles(GPU_TYPE))
    classes = Counter(
        (names.index(str(job.configurations[0].tasks[0].mig_profile)), job.weight)
        for job in instance.jobs
    )
    profile = np.array([k for k, _ in classes])
    columns, num = len(patterns), len(classes)
    cost = np.concatenate([np.zeros(columns), [-weight for _, weight in classes]])
    rows = np.zeros((len(names) + 1, columns + num))
    rows[:-1, :columns] = np.array(patterns).T
    rows[profile, columns + np.arange(num)] = -1.0
    rows[-1, :columns] = -1.0
    lower = np.array([*[0.0] * len(names), -float(instance.topology.num_gpus)])
    upper = np.concatenate([np.full(columns, np.inf), list(classes.values())])
    found = optimize.milp(
        cost,
        integrality=np.ones(columns + num),
        bounds=optimize.Bounds(0.0, upper),
        constraints=optimize.LinearConstraint(rows, lower, np.inf),
        options={"mip_rel_gap": _GAP},
    )
    return -float(found.fun)


def compare(number: int, seeds: Sequence[int], *, own: bool) -> Row:
    """Time both on instances of their own; the values must agree within the gap of two answers."""
    patterns = layouts()
    values: dict[int, list[float]] = {}

    def ours(seed: int) -> float:
        spent, value = cpu_s(by_alloc, made(number, seed, own=own))
        values.setdefault(seed, []).append(value)
        return spent

    def theirs(seed: int) -> float:
        spent, value = cpu_s(by_patterns, made(number, seed, own=own), patterns)
        values.setdefault(seed, []).append(value)
        return spent

    row = in_turns(number, seeds, ours, theirs)
    for seed, (a, b) in values.items():
        if abs(a - b) > 4 * _GAP * max(a, b):
            raise SystemExit(f"seed {seed}: the two answers are {a:g} and {b:g}")
    return row


def main(argv: Sequence[str] | None = None) -> int:
    """Print ratios and CPU times; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alternatives.mig_patterns")
    parser.add_argument("--requests", type=int, action="append")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, help="of the first instance (default: drawn)")
    arguments = parser.parse_args(argv)
    seed = random.randrange(2**20) if arguments.seed is None else arguments.seed
    print(f"seed {seed}")
    by_alloc(made(200, seed, own=False))  # loads the solvers
    verdicts = []
    for own in (False, True):
        seeds = range(seed, seed + arguments.repeats)
        rows = [compare(n, seeds, own=own) for n in arguments.requests or SIZES]
        print_rows(f"MIG requests, {'own weights' if own else 'weights 1 to 5'}", rows)
        last = rows[-1]
        spent = float(np.median(last.ours))
        verdicts.append(
            Verdict(
                f"{last.size:,} requests in {MAX_TIMES:g} times the pattern model's time"
                + ("" if own else f", or in {EASY_S:g} s"),
                f"{1 / last.ratio:.2f} times, {spent:.3f} s",
                last.ratio >= 1 / MAX_TIMES or (not own and spent <= EASY_S),
            )
        )
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
