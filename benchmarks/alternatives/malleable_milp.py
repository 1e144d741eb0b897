"""Small malleable instances to a proof, beside a time-indexed program in `scipy.optimize.milp`.

The alternative gets the time-indexed formulation of this package as sparse arrays, dominated
configurations dropped, which is better than a user would write, and a number of slots that reaches
a fifth beyond a known optimum; its answer is neither placed nor checked. Both count CPU time, in
turns, on the stored instances and on fresh ones of the same generator, whose seeds are drawn and
printed.
"""

from __future__ import annotations

import argparse
import gc
import math
import random
import sys
import time
from collections.abc import Sequence
from typing import cast

import numpy as np
from scipy import optimize

import alloc
from alloc.formulation import ArrayModel
from alloc.instances import generate_elastic, load, manifest
from alloc.models.malleable import build_arrays
from alloc.problems.allocation.instance import Instance
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True  # some minutes: the alternative runs into its limit

TARGET_S = 2.0
"""CPU time of alloc in which each instance is to be proved, seconds."""
GAP = 1e-4
_LIMIT_S = 60.0
_BEYOND = 1.2
"""Slots of the alternative, as a multiple of those that the optimum takes."""


def fresh(seed: int, num_jobs: int = 10) -> Instance:
    """Return an instance like those of ``elastic-small``, all jobs there at the start.

    Parameters
    ----------
    seed
        Of the draw.
    num_jobs
        Jobs, 2 or more; hosts are 0.6 as many.
    """
    return generate_elastic(
        f"fresh {seed}",
        seed=seed,
        num_jobs=num_jobs,
        num_hosts=max(2, num_jobs * 6 // 10),
        max_workers=8,
        max_ps=8,
        run_slots=(1.0, 5.0),
        arrivals="start",
    )


def by_alloc(instance: Instance) -> tuple[float, int]:
    """Return the proved value of alloc and the slots that its schedule takes."""
    limits = alloc.Limits(seconds=_LIMIT_S)
    result = alloc.solve(instance, "malleable", objective="weighted_jct", limits=limits)
    assert result.certificate.verified
    assert result.certificate.objective is not None
    assert result.solution is not None
    end_s = max(run.end_s for run in result.solution.runs)
    value = result.certificate.objective
    return value if result.certificate.status == "optimal" else math.nan, math.ceil(
        end_s / (instance.slot_s or math.inf)
    )


def by_milp(instance: Instance, num_slots: int) -> float:
    """Return the value that `scipy.optimize.milp` proves, or NaN."""
    built = build_arrays(instance, "weighted_jct", num_slots=math.ceil(_BEYOND * num_slots))
    model = cast(ArrayModel, built.model)
    found = optimize.milp(
        model.cost,
        integrality=model.integer.astype(int),
        bounds=optimize.Bounds(model.lower, model.upper),
        constraints=optimize.LinearConstraint(model.matrix, model.row_lower, model.row_upper),
        options={"mip_rel_gap": GAP, "time_limit": _LIMIT_S},
    )
    proved = found.x is not None and found.status == 0
    return float(found.fun) + model.offset if proved else math.nan


def compare(name: str, instance: Instance) -> list[Verdict]:
    """Time both; print and judge."""
    gc.collect()
    began = time.process_time()
    value, num_slots = by_alloc(instance)
    ours = time.process_time() - began
    gc.collect()
    began = time.process_time()
    other = by_milp(instance, num_slots)
    theirs = time.process_time() - began
    if not np.isnan([value, other]).any() and abs(value - other) > 2 * GAP * value:
        raise SystemExit(f"{name}: alloc proves {value:g}, milp {other:g}")
    how = "" if math.isfinite(other) else " at its limit"
    print(f"{theirs / ours:6.1f} {ours:8.2f} {theirs:8.2f}  {name}{how}", flush=True)
    proved = math.isfinite(value)
    return [
        Verdict(f"{name} proved in {TARGET_S:g} s", f"{ours:.2f} s", proved and ours <= TARGET_S),
        Verdict(f"{name} no slower than milp", f"{theirs / ours:.1f} times", ours <= theirs),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Print ratios and CPU times; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alternatives.malleable_milp")
    parser.add_argument("--fresh", type=int, default=4, help="how many fresh instances")
    parser.add_argument("--seed", type=int, help="of the first of them (default: drawn)")
    arguments = parser.parse_args(argv)
    seed = random.randrange(2**20) if arguments.seed is None else arguments.seed
    cases = [(e.id, load(e.id)) for e in manifest() if e.family == "elastic-small"]
    cases += [(f"fresh {s}", fresh(s)) for s in range(seed, seed + arguments.fresh)]
    by_milp(load("elastic-tiny/01"), by_alloc(load("elastic-tiny/01"))[1])
    print(f"seed {seed}\n{'ratio':>6s} {'alloc s':>8s} {'milp s':>8s}")
    return conclude([verdict for name, instance in cases for verdict in compare(name, instance)])


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
