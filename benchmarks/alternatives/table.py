"""alloc beside what a user would write instead: ratios first, on instances of seeds drawn now.

A short form of the programs of this folder, for every day; each of them by its own name runs longer
and on larger instances.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence

from alloc.instances.planning import generate_planning
from benchmarks.alternatives import (
    event_loop,
    gang_placement,
    malleable_milp,
    mig_patterns,
    plain_planning,
    round_milp,
)
from benchmarks.alternatives.ratios import Row, cpu_s, in_turns, print_rows
from benchmarks.environment import describe_environment

REPEATS = 3
ROUNDS = (100, 200, 400)
MIG = (1000, 2000, 4000)
JOBS = (1000, 2000, 4000)
HOSTS = (100, 200, 400)
MALLEABLE = (2, 3, 5)
"""Jobs: with ten the time-indexed program takes its minute."""
CLASSES = (2, 4, 8)


def rounds(number: int, seeds: Sequence[int]) -> Row:
    """Time first solves of rounds beside `scipy.optimize.milp`."""
    return in_turns(
        number,
        seeds,
        lambda seed: cpu_s(round_milp.by_alloc, round_milp.made(number, seed))[0],
        lambda seed: cpu_s(round_milp.by_milp, round_milp.made(number, seed))[0],
    )


def first_placements(number: int, seeds: Sequence[int]) -> Row:
    """Time first placements, checked, beside best fit, which is not."""
    return in_turns(
        number,
        seeds,
        lambda seed: gang_placement.first_placement_s(gang_placement.made(number, seed)),
        lambda seed: cpu_s(
            gang_placement.by_rule, gang_placement.made(number, seed), gang_placement.best_fit
        )[0],
    )


def schedules(number: int, seeds: Sequence[int]) -> Row:
    """Time malleable schedules to a proof beside the time-indexed program in scipy."""
    num_slots: dict[int, int] = {}

    def ours(seed: int) -> float:
        spent, (_, num_slots[seed]) = cpu_s(
            malleable_milp.by_alloc, malleable_milp.fresh(seed, number)
        )
        return spent

    def theirs(seed: int) -> float:
        instance = malleable_milp.fresh(seed, number)
        known = num_slots.get(seed) or malleable_milp.by_alloc(instance)[1]
        return cpu_s(malleable_milp.by_milp, instance, known)[0]

    return in_turns(number, seeds, ours, theirs)


def plans(number: int, seeds: Sequence[int]) -> Row:
    """Time capacity plans of some classes of jobs beside the plain Pyomo model in HiGHS."""

    def spent(program: plain_planning.Program, seed: int) -> float:
        problem = generate_planning(f"plan {seed}", num_classes=number, seed=seed)
        return cpu_s(program, problem, *plain_planning.TARGETS["planning-small"][::-1])[0]

    return in_turns(
        number,
        seeds,
        lambda seed: spent(plain_planning.by_alloc, seed),
        lambda seed: spent(plain_planning.by_pyomo, seed),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print ratios, CPU times and growth exponents."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alternatives.table")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--seed", type=int, help="of the first instances (default: drawn)")
    arguments = parser.parse_args(argv)
    seed = random.randrange(2**20) if arguments.seed is None else arguments.seed
    seeds = range(seed, seed + arguments.repeats)
    print(f"seed {seed}; the ratio is the plain program's time over that of alloc")
    round_milp.by_alloc(round_milp.made(20, seed))  # these load the solvers
    mig_patterns.by_alloc(mig_patterns.made(200, seed, own=False))
    gang_placement.first_placement_s(gang_placement.made(20, seed))
    event_loop.compare(100, seeds, hosts=False)
    schedules(2, seeds[:1])
    plans(2, seeds[:1])
    print_rows("Rounds, beside a MILP of scipy", [rounds(n, seeds) for n in ROUNDS])
    for own, weights in ((False, "weights 1 to 5"), (True, "own weights")):
        print_rows(
            f"MIG requests of {weights}, beside patterns in HiGHS",
            [mig_patterns.compare(n, seeds, own=own) for n in MIG],
        )
    print_rows(
        "First placement of gangs, beside best fit", [first_placements(n, seeds) for n in HOSTS]
    )
    for hosts, what in ((False, "counts GPUs"), (True, "places gangs")):
        print_rows(
            f"A stream under FIFO, beside a heap that {what}",
            [event_loop.compare(n, seeds, hosts=hosts) for n in JOBS],
        )
    print_rows(
        "Malleable schedules, beside a time-indexed MILP of scipy",
        [schedules(n, seeds) for n in MALLEABLE],
    )
    print_rows("Capacity plans, beside a plain Pyomo model", [plans(n, seeds) for n in CLASSES])
    return 0


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
