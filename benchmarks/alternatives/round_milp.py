"""The first solve of a round beside `scipy.optimize.milp`, from the jobs in memory to the answer.

Every job has a table of its own, so nothing is shared and every instance is new: alloc's time
holds pruning, the search, placing, checking and the proof. The fingerprint of the instance, which
a certificate works out when somebody looks at it, is timed beside it. The alternative is what a
user would write: drop dominated configurations in a loop, fill a sparse matrix, call HiGHS; its
answer is neither placed nor checked. Both count CPU time, in turns, on instances of new seeds, and
neither pays for the garbage of making these.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
from collections.abc import Sequence

import numpy as np
from scipy import optimize, sparse

import alloc
from alloc.problems.allocation.instance import Instance
from benchmarks.environment import describe_environment
from benchmarks.round_allocation import own_tables, shared_tables
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True  # some minutes

SIZES = {200: 0.15, 1000: 0.5, 5000: 2.5}
"""Jobs, and the CPU time of alloc in which their round is to be solved, seconds."""
TARGET_RATIO = 3.0
"""Times that the alternative takes, at least."""
GAP = 1e-4
_LIMIT_S = 120.0


def made(num_jobs: int, seed: int) -> Instance:
    """Return jobs that are all there at the start, each with a table of 256 configurations."""
    case = own_tables(shared_tables(num_jobs, num_jobs // 2, seed=seed), seed)
    return Instance(f"round {seed}", case.topology, case.jobs, slot_s=case.slot_s)


def by_alloc(instance: Instance) -> float:
    """Return the value of the placed, checked and proved answer of alloc."""
    result = alloc.solve(instance, "round", limits=alloc.Limits(seconds=_LIMIT_S, gap=GAP))
    assert result.certificate.verified
    assert result.certificate.objective is not None
    return result.certificate.objective


def by_milp(instance: Instance) -> float:
    """Return the value of `scipy.optimize.milp`: how many jobs' work a slot gets done."""
    slot_s = instance.slot_s or 0.0
    value, job_of, use = [], [], []
    for j, job in enumerate(instance.jobs):
        kept: list[tuple[float, float, float]] = []
        ways = [
            (min(slot_s * c.rate / job.work, job.work_left / job.work), *c.demand[:2])
            for c in job.configurations
        ]
        # Best first: one that is no better than another that needs no more of either goes.
        for v, gpu, cpu in sorted(ways, key=lambda way: (-way[0], way[1], way[2])):
            if v > 0 and not any(g <= gpu and p <= cpu for _, g, p in kept):
                kept.append((v, gpu, cpu))
        value += [job.weight * v for v, _, _ in kept]
        use += [(gpu, cpu) for _, gpu, cpu in kept]
        job_of += [j] * len(kept)
    columns = np.arange(len(value))
    one_each = sparse.csr_array((np.ones(len(value)), (job_of, columns)))
    capacity = instance.topology.capacity.sum(axis=0)[:2]
    found = optimize.milp(
        -np.array(value),
        integrality=np.ones(len(value)),
        bounds=optimize.Bounds(0, 1),
        constraints=[
            optimize.LinearConstraint(one_each, -np.inf, 1.0),
            optimize.LinearConstraint(np.array(use).T, -np.inf, capacity),
        ],
        options={"mip_rel_gap": GAP, "time_limit": _LIMIT_S},
    )
    return float("nan") if found.x is None else -float(found.fun)


def compare(num_jobs: int, repeats: int, seed: int) -> list[Verdict]:
    """Time both in turns on instances of their own; print and judge the medians."""
    took: dict[str, list[float]] = {"alloc": [], "milp": [], "fingerprint": []}
    ways = {"alloc": by_alloc, "milp": by_milp}
    for turn in range(repeats):
        answers = {}
        for name in ("alloc", "milp") if turn % 2 else ("milp", "alloc"):
            instance = made(num_jobs, seed + turn)
            gc.collect()
            began = time.process_time()
            answers[name] = ways[name](instance)
            took[name].append(time.process_time() - began)
        began = time.process_time()
        assert instance.fingerprint
        took["fingerprint"].append(time.process_time() - began)
        # Two answers within the gap of one optimum; that of milp may not stand on the hosts.
        if answers["alloc"] < (1 - 2 * GAP) * answers["milp"]:
            raise SystemExit(f"seed {seed + turn}: alloc has {answers['alloc']:g}, milp {answers}")
    ours, theirs = (statistics.median(took[name]) for name in ("alloc", "milp"))
    ratio = statistics.median(m / a for a, m in zip(took["alloc"], took["milp"], strict=True))
    named = statistics.median(took["fingerprint"])
    print(f"{ratio:6.1f} {ours:10.3f} {theirs:10.3f} {named:13.3f}  {num_jobs:,} jobs", flush=True)
    return [
        Verdict(
            f"{num_jobs:,} jobs, first solve in {SIZES[num_jobs]:g} s",
            f"{ours:.3f} s",
            ours <= SIZES[num_jobs],
        ),
        Verdict(
            f"{num_jobs:,} jobs, {TARGET_RATIO:g} times faster than scipy's milp",
            f"{ratio:.1f} times",
            ratio >= TARGET_RATIO,
        ),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Print ratios and CPU times; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alternatives.round_milp")
    parser.add_argument("--jobs", type=int, action="append", choices=list(SIZES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, help="of the first instance (default: drawn)")
    arguments = parser.parse_args(argv)
    seed = random.randrange(2**20) if arguments.seed is None else arguments.seed
    warm = made(20, seed)
    by_alloc(warm), by_milp(warm)
    print(f"seed {seed}\n{'ratio':>6s} {'alloc s':>10s} {'milp s':>10s} {'fingerprint s':>13s}")
    verdicts = []
    for num_jobs in arguments.jobs or SIZES:
        verdicts += compare(num_jobs, arguments.repeats, seed)
    return conclude(verdicts)


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
