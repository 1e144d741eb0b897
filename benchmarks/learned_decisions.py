"""A learned decision: within 20 ms for 500 jobs, and 5 times faster than the exact round for 1,000.

Every policy on the shelf and the exact round decide on the same crowds, through the simulator,
which times every decision: features, network, decoding and placement. Stand-ins with made-up
weights show what the kinds themselves cost: a priority for each job, and DL2's window with its two
hidden layers of 80 (one inference for every worker, PS or bundle that is given out). The targets
are for policies that decide on all jobs at once.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alloc.problems.allocation.instance import Instance
from alloc.schedulers import Scheduler, make_scheduler
from alloc.schedulers.learned import (
    ModelCard,
    PolicyFile,
    PolicyScheduler,
    policy_kind,
    write_policy,
)
from alloc.schedulers.learned.kinds import feature_spec
from alloc.schedulers.shelf import shelf
from alloc.simulation import simulate
from benchmarks.environment import describe_environment
from benchmarks.round_scheduler import full_house
from benchmarks.verdict import Verdict, conclude

EXACT = "exact-progress"
SIZES = (500, 1000)
TARGET_MS = 20.0
TARGET_SIZE = 500
TIMES_FASTER = 5.0
LARGE_SIZE = 1000
WIDTH = 80


def stand_in(kind: str, folder: Path, **parameters: object) -> PolicyFile:
    """Return a policy of a kind with made-up weights, two hidden layers of `WIDTH` wide."""
    from onnx import TensorProto, helper, numpy_helper

    spec = feature_spec(kind, **parameters)
    rng = np.random.default_rng(0)
    seen, given = spec.inputs[0], spec.outputs[0]
    width_in = int(np.prod([axis for axis in seen.shape if isinstance(axis, int)]))
    width_out = int(np.prod([axis for axis in given.shape if isinstance(axis, int)]))
    widths = (width_in, WIDTH, WIDTH, width_out)
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "rows": np.array([0, -1]),
        "out": np.array([0 if isinstance(axis, str) else axis for axis in given.shape]),
    }
    nodes = [helper.make_node("Reshape", [seen.name, "rows"], ["x0"])]
    for k, (before, after) in enumerate(itertools.pairwise(widths)):
        arrays[f"w{k}"] = (rng.standard_normal((before, after)) / before).astype(np.float32)
        nodes.append(helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"y{k}"]))
        nodes.append(helper.make_node("Relu", [f"y{k}"], [f"x{k + 1}"]))
    nodes[-1] = helper.make_node("Reshape", [f"y{len(widths) - 2}", "out"], [given.name])
    graph = helper.make_graph(
        nodes,
        "stand-in",
        [helper.make_tensor_value_info(seen.name, TensorProto.FLOAT, list(seen.shape))],
        [helper.make_tensor_value_info(given.name, TensorProto.FLOAT, list(given.shape))],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    card = ModelCard(
        name=f"stand-in-{kind.partition('/')[0]}",
        title="Made-up weights, to time a kind",
        information="what its kind is shown",
        data="none",
        seeds=(0,),
        command="python -m benchmarks learned_decisions",
        training_hours=0,
        licence="MIT",
        date=datetime.date(2026, 11, 21),
        alloc_version="0.1.0",
    )
    return write_policy(folder / f"{card.name}.onnx", model, spec, card)


def decision_ms(crowd: Instance, scheduler: Scheduler, slots: int) -> npt.NDArray[np.float64]:
    """Return the times of the decisions in the first slots, milliseconds; one more warms up."""
    assert crowd.slot_s is not None
    run = simulate(crowd, scheduler, max_time_s=(slots + 1) * crowd.slot_s, check=False)
    return 1e3 * np.asarray(run.decision_s)[1:]


def contenders(folder: Path) -> list[tuple[str, Scheduler, bool]]:
    """Return what is timed: name, scheduler, and whether the targets are for it."""
    made: list[tuple[str, Scheduler, bool]] = [(EXACT, make_scheduler(EXACT), False)]
    for name, path, _ in shelf():
        policy = PolicyScheduler(path)
        stepwise = hasattr(policy_kind(policy.policy.spec.kind), "make_stepwise")
        made.append((name, policy, not stepwise))
    for policy_file in (
        stand_in("job-priority/1", folder),
        stand_in("dl2-window/1", folder, window=20),
    ):
        made.append((policy_file.name, PolicyScheduler(policy_file), False))
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Print the times of decisions; return 1 if a policy misses a target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learned_decisions")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of jobs")
    parser.add_argument("--hosts", type=int, default=500)
    parser.add_argument("--slots", type=int, default=10)
    arguments = parser.parse_args(argv)
    verdicts: list[Verdict] = []
    print("milliseconds of a decision, and how many times faster than the exact round (medians)")
    print(f"{'scheduler':26s} {'jobs':>6s} {'median':>8s} {'p95':>8s} {'exact/it':>9s}")
    with tempfile.TemporaryDirectory() as folder:
        candidates = contenders(Path(folder))
        for size in arguments.sizes:
            crowd = full_house(size, arguments.hosts)
            exact = 0.0
            for name, scheduler, has_target in candidates:
                times = decision_ms(crowd, scheduler, arguments.slots)
                median = float(np.median(times))
                exact = median if name == EXACT else exact
                print(
                    f"{name:26s} {size:6d} {median:8.2f} {np.quantile(times, 0.95):8.2f} "
                    f"{exact / median:9.2f}",
                    flush=True,
                )
                if has_target:
                    verdicts += _verdicts(name, size, median, exact)
    return conclude(verdicts)


def _verdicts(name: str, size: int, median: float, exact: float) -> list[Verdict]:
    """Return the verdicts on a policy at a size that a target is about."""
    if size == TARGET_SIZE:
        target = f"{name}: median decision for {size} jobs in {TARGET_MS:g} ms"
        return [Verdict(target, f"{median:.1f} ms", median <= TARGET_MS)]
    if size == LARGE_SIZE:
        target = f"{name}: {TIMES_FASTER:g} times faster than {EXACT} for {size:,} jobs"
        return [Verdict(target, f"{exact / median:.1f} times", exact >= TIMES_FASTER * median)]
    return []


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
