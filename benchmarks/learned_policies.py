"""Learned policies on held-out worlds: the exact round, Optimus and DL2 beside them, paired.

Every scheduler meets the same instances of every family of `alloc.instances.learning_worlds`, on
seeds that no training and no choice of a checkpoint has seen. A difference counts only where the
95 % interval of the paired differences over seeds says so. ``set-rule`` is the learned policy's
decoder with worth by one formula: what is beyond it was learned.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import joblib
import numpy as np

from alloc.comparison import mean_interval
from alloc.instances.learning_worlds import FAMILIES, HELD_OUT_SEEDS, World, world
from alloc.schedulers import make_scheduler
from alloc.schedulers.learned.dl2_window import Dl2WindowKind
from alloc.schedulers.learned.policy_file import read_policy
from alloc.schedulers.shelf import shipped_policies
from alloc.simulation import simulate
from benchmarks.environment import describe_environment
from benchmarks.studies.contenders import DRAWN
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True
"""Half an hour; run by name only."""

LEARNED = "set-policy"
RULE = "set-rule"
EXACT = ("exact-progress", "exact-remaining-time")
OTHERS = ("optimus", "random-ps")
WITHIN = 1.05
SEEDS = 10


@dataclass(frozen=True)
class Cell:
    """What one scheduler did on one instance.

    Parameters
    ----------
    family, scheduler, seed
        Which.
    jct_slots
        Mean JCT, slots.
    decision_ms
        Mean wall time of a decision, milliseconds.
    """

    family: str
    scheduler: str
    seed: int
    jct_slots: float
    decision_ms: float


Cells = Mapping[tuple[str, str], list[Cell]]


def measure(family: World, scheduler: str, seed: int) -> Cell:
    """Run one scheduler on one instance; DL2 draws its actions, as in its own evaluation."""
    instance = family.make(seed)
    options = {"sample": True} if scheduler in DRAWN else {}
    result = simulate(
        instance,
        make_scheduler(scheduler, **options),
        knowledge="estimate" if family.work_error else "exact",
        work_error=family.work_error,
        rng=seed,
    )
    assert instance.slot_s is not None
    ends = result.completion_s
    jct_s = np.mean([(ends[job.id] or math.inf) - job.arrival_s for job in instance.jobs])
    return Cell(
        family.name,
        scheduler,
        seed,
        float(jct_s) / instance.slot_s,
        float(1e3 * np.mean(result.decision_s)),
    )


def windowed_policies() -> list[str]:
    """Return the policies of alloc that decide in DL2's window, whatever their names."""
    return [
        name
        for name, path in shipped_policies().items()
        if read_policy(path).spec.kind == Dl2WindowKind.name
    ]


def mean(cells: Sequence[Cell]) -> float:
    """Return the mean JCT of cells, slots."""
    return float(np.mean([cell.jct_slots for cell in cells]))


def ratio(ours: Sequence[Cell], theirs: Sequence[Cell]) -> tuple[float, float, float]:
    """Return the ratio of mean JCTs and the ends of its 95 % interval, paired over seeds.

    Geometric means of the ratios on each instance.
    """
    assert [cell.seed for cell in ours] == [cell.seed for cell in theirs]
    logs = [math.log(a.jct_slots / b.jct_slots) for a, b in zip(ours, theirs, strict=True)]
    found = mean_interval(logs)
    low = math.nan if found.low is None else found.low
    high = math.nan if found.high is None else found.high
    return math.exp(found.mean), math.exp(low), math.exp(high)


def best_exact(cells: Cells, families: Sequence[str]) -> str:
    """Return the utility of the exact round with the lowest mean JCT over all families."""
    return min(
        EXACT, key=lambda name: sum(math.log(mean(cells[family, name])) for family in families)
    )


def verdicts(cells: Cells, families: Sequence[str], windowed: Sequence[str]) -> list[Verdict]:
    """Return whether the targets hold."""
    exact = best_exact(cells, families)
    gaps = {f: ratio(cells[f, LEARNED], cells[f, exact])[0] for f in families}
    worst = max(gaps, key=lambda family: gaps[family])
    found = [
        Verdict(
            f"mean JCT within {100 * (WITHIN - 1):.0f} % of {exact} on every family",
            f"worst on {worst}: {100 * (gaps[worst] - 1):+.1f} %",
            gaps[worst] <= WITHIN,
        )
    ]
    for rival in ("optimus", *windowed):
        highs = {f: ratio(cells[f, LEARNED], cells[f, rival])[2] for f in families}
        worst = max(highs, key=lambda family: highs[family])
        found.append(
            Verdict(
                f"better than {rival} on every family at the 95 % level",
                f"on {sum(high < 1 for high in highs.values())} of {len(families)}; worst on "
                f"{worst}: at most {100 * (highs[worst] - 1):+.1f} %",
                highs[worst] < 1,
            )
        )
    return found


def table(cells: Cells, families: Sequence[str], schedulers: Sequence[str]) -> None:
    """Print mean JCTs, and what the learned policy's are of the others'."""
    width = max(map(len, families))
    print("mean JCT, slots")
    print(f"{'family':{width}s} " + " ".join(f"{name:>20s}" for name in schedulers))
    for family in families:
        row = " ".join(f"{mean(cells[family, name]):20.2f}" for name in schedulers)
        print(f"{family:{width}s} {row}")
    print(f"\n{LEARNED} over each, with the 95 % interval of the paired ratio")
    others = [name for name in schedulers if name != LEARNED]
    print(f"{'family':{width}s} " + " ".join(f"{name:>20s}" for name in others))
    for family in families:
        parts = []
        for name in others:
            middle, low, high = ratio(cells[family, LEARNED], cells[family, name])
            parts.append(f"{middle:.3f} [{low:.3f},{high:.3f}]".rjust(20))
        print(f"{family:{width}s} " + " ".join(parts))
    print("\nmean decision, ms")
    for name in schedulers:
        spent = [cell.decision_ms for family in families for cell in cells[family, name]]
        print(f"{name:>20s} {np.mean(spent):8.2f}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learned_policies")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="instances of each family")
    parser.add_argument("--families", default=",".join(FAMILIES), help="names, by commas")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    arguments = parser.parse_args(argv)
    families = [world(name) for name in arguments.families.split(",")]
    windowed = windowed_policies()
    schedulers = [LEARNED, RULE, *EXACT, *OTHERS, *windowed]
    cells: dict[tuple[str, str], list[Cell]] = {}
    with joblib.Parallel(n_jobs=arguments.jobs) as parallel:
        for family in families:
            done = parallel(
                joblib.delayed(measure)(family, name, seed)
                for name in schedulers
                for seed in HELD_OUT_SEEDS[: arguments.seeds]
            )
            for cell in done:
                cells.setdefault((cell.family, cell.scheduler), []).append(cell)
            gains = ", ".join(
                f"{ratio(cells[family.name, LEARNED], cells[family.name, name])[0]:.3f} of {name}"
                for name in (EXACT[0], EXACT[1], "optimus")
            )
            print(f"{family.name}: {LEARNED} takes {gains}", file=sys.stderr, flush=True)
    names = [family.name for family in families]
    table(cells, names, schedulers)
    return conclude(verdicts(cells, names, windowed))


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
