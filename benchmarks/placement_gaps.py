"""How much of what could be placed do placement rules leave out, on busy fabrics of today?

Four fabrics, three loads, ten seeds: gangs wait for the GPUs that running jobs leave free
(`alloc.instances.recipes.placement.busy_cluster`), each rule places them in order of the queue, and
the most GPUs that any placement can give to them are proved. Nothing that runs may move. A cell is
the mean over the seeds of the GPUs that the rule does not place, as a share of those that can be
placed, with Student's 95 % interval. Everybody is checked. Below the table each rule is compared
with `BASELINE`, cluster by cluster.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from alloc.comparison.intervals import Interval, mean_interval
from alloc.families import FAMILIES
from alloc.instances.recipes.placement import busy_cluster
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation
from alloc.result import Limits
from alloc.schedulers import make_scheduler
from alloc.schedulers.placement.policy import PlacementPolicy
from alloc.schedulers.placement.queue import place_queue
from alloc.solving import solve
from alloc.units import MILLI
from benchmarks.environment import describe_environment

ON_REQUEST = True  # some minutes

RULES = ("first-fit", "best-fit", "fgd", "hived", "kai", "kueue-best-fit", "kueue-balanced")
LOADS = (0.3, 0.5, 0.7)
FABRICS = {
    "128 H100 hosts, 4 rail units": ("rails", (4, 32), "h100"),
    "8 racks of GB200 NVL72": ("nvl72", (8,), "h100"),
    "64 MI300X hosts, 8 leaves": ("leaf-spine", (8, 8), "mi300x"),
    "256 H200 hosts, fat tree of 4 pods": ("fat-tree", (4, 8, 8), "h200"),
}
BASELINE = "best-fit"
"""The rule that the others are compared with."""
REACHED = 1e-9
"""A loss up to this is rounding: the rule reaches the optimum."""
REQUIRED = 0.75
"""Share of the gangs of several hosts that must stand in one domain."""
FIRST_SEED = 1000
"""None of the library's instances has it."""


@dataclass(frozen=True)
class Cell:
    """What one rule leaves out on one fabric at one load.

    Parameters
    ----------
    fabric, load, rule
        Which.
    losses
        Share of the GPUs that can be placed and are not, one number a seed.
    """

    fabric: str
    load: float
    rule: str
    losses: tuple[float, ...]

    @property
    def interval(self) -> Interval:
        """Mean and 95 % interval, per cent."""
        return mean_interval([100 * loss for loss in self.losses])


def gpus_of(problem: Instance, allocation: Allocation) -> float:
    """Return the GPUs of the jobs that run, after a check of all rules.

    Raises
    ------
    RuntimeError
        If a rule is broken.
    """
    broken = FAMILIES["placement"].check(problem, allocation)
    if broken:
        raise RuntimeError(f"{problem.name}: {broken[0].sentence}")
    jobs = {job.id: job for job in problem.jobs}
    held = (jobs[a.job].configurations[a.configuration].demand[0] for a in allocation.assignments)
    return sum(held) / MILLI


def losses_of(problem: Instance, seconds: float) -> dict[str, float] | None:
    """Return what each rule leaves out, or None where nobody can be placed or nothing is proved."""
    certificate = solve(problem, "placement", limits=Limits(seconds=seconds)).certificate
    stands = gpus_of(problem, Allocation(problem.running))
    # The bound, which is the optimum where that is proved.
    most = certificate.bound - stands
    if certificate.status != "optimal" or most <= 0:
        return None
    found = {}
    for name in RULES:
        rule = make_scheduler(name)
        if not isinstance(rule, PlacementPolicy):
            raise TypeError(f"{name} is no placement rule")
        placed = gpus_of(problem, place_queue(problem, rule)) - stands
        found[name] = 1 - placed / most
    return found


def measure(seeds: int, seconds: float) -> list[Cell]:
    """Return the cells, and print what had to be left out of them."""
    cells = []
    for fabric, (kind, shape, host) in FABRICS.items():
        for load in LOADS:
            rows = []
            for seed in range(FIRST_SEED, FIRST_SEED + seeds):
                problem = busy_cluster(
                    f"{fabric}, load {load:g}, seed {seed}",
                    kind=kind,
                    shape=shape,
                    host=host,
                    load=load,
                    required=REQUIRED,
                    seed=seed,
                )
                row = losses_of(problem, seconds)
                if row is None:
                    print(f"left out: {problem.name}: no optimum proved, or nobody can be placed")
                else:
                    rows.append(row)
            cells += [Cell(fabric, load, r, tuple(row[r] for row in rows)) for r in RULES]
            print(f"{fabric}, load {load:g}: {len(rows)} of {seeds} seeds", flush=True)
    return cells


def text_of(cell: Cell) -> str:
    """Return a cell as a table shows it: mean, and half of the interval's width."""
    found = cell.interval
    if found.low is None or found.high is None:
        return "-"
    return f"{found.mean:.1f} ± {(found.high - found.low) / 2:.1f}"


def table(cells: Sequence[Cell]) -> str:
    """Return a Markdown table: a line for each fabric and load, a column for each rule."""
    lines = [
        "| fabric | load | " + " | ".join(f"`{rule}`" for rule in RULES) + " |",
        "|---|---:|" + "---:|" * len(RULES),
    ]
    for fabric, load in dict.fromkeys((cell.fabric, cell.load) for cell in cells):
        row = [text_of(c) for c in cells if (c.fabric, c.load) == (fabric, load)]
        lines.append(f"| {fabric} | {load:.0%} | " + " | ".join(row) + " |")
    lines.append("| all | | " + " | ".join(text_of(pooled(cells, rule)) for rule in RULES) + " |")
    return "\n".join(lines)


def pooled(cells: Sequence[Cell], rule: str) -> Cell:
    """Return what a rule leaves out on all clusters."""
    return Cell("", 0.0, rule, tuple(loss for c in cells if c.rule == rule for loss in c.losses))


def comparison(cells: Sequence[Cell]) -> str:
    """Return a line for each rule: where it reaches the optimum, its worst, and the baseline's."""
    base = pooled(cells, BASELINE).losses
    lines = []
    for rule in RULES:
        losses = pooled(cells, rule).losses
        if not losses:
            continue
        reached = sum(loss <= REACHED for loss in losses)
        more = Cell("", 0.0, rule, tuple(a - b for a, b in zip(losses, base, strict=True)))
        lines.append(
            f"{rule}: reaches the optimum on {reached} of {len(losses)}, leaves out "
            f"{max(losses):.0%} at worst, {text_of(more)} points more than {BASELINE}"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placement_gaps")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--time-limit", type=float, default=20.0, metavar="S", help="of a solve")
    arguments = parser.parse_args(argv)
    cells = measure(arguments.seeds, arguments.time_limit)
    print(table(cells))
    print(comparison(cells))
    return 0


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
