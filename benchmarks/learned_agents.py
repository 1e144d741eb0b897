"""Learned agents beside the rules they choose from or compete with, and the certified bound.

Run it with ``python -m benchmarks.learned_agents``. Held-out instances that no training and no
choice of a checkpoint has seen; mean completion times, and the ratio to a row of reference paired
by instance, with 95 % intervals over instances. The policies are the shipped ones, or files given.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from alloc.comparison import mean_interval
from alloc.instances.learning_worlds import HELD_OUT_SEEDS
from alloc.learning.actor_critic import selector, two_level
from alloc.problems.allocation.instance import Instance
from alloc.result import Limits
from alloc.schedulers import make_scheduler
from alloc.schedulers.learned.pick_backfill import PickBackfill
from alloc.schedulers.learned.stepwise import StepwiseDecider
from alloc.schedulers.state import Scheduler
from alloc.simulation import completion_times_s, simulate
from alloc.solving import solve
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True
"""Some minutes; run by name only."""

Rows = dict[str, np.ndarray]
Decide = Callable[[np.ndarray, np.ndarray], int]


class Rule:
    """A rule that picks and backfills, without any learning."""

    needs = "estimate"
    information = "run times in view"

    def __init__(self, name: str, choose: Decide) -> None:
        self.name = name
        steps = PickBackfill(two_level.WINDOW)
        decider = StepwiseDecider(lambda seen, mask, rng: choose(seen, mask), steps)
        self.decide, self.reset = decider.decide, decider.reset


def shortest(seen: np.ndarray, mask: np.ndarray) -> int:
    """Return the job in view with the shortest run time."""
    jobs = np.flatnonzero(mask[:-1])
    return int(jobs[seen[jobs, 3].argmin()])


def jcts_h(
    instances: Sequence[Instance], schedulers: Mapping[str, Callable[[], Scheduler]]
) -> Rows:
    """Return mean completion times, hours, of each scheduler on each instance."""
    return {
        name: np.array([completion_times_s(simulate(i, make())).mean() / 3600 for i in instances])
        for name, make in schedulers.items()
    }


def optimum_h(instances: Sequence[Instance], seconds: float) -> tuple[np.ndarray, int]:
    """Return the proved bounds on mean completion time, hours, and how many are optima."""
    bounds, proved = [], 0
    for instance in instances:
        certificate = solve(instance, limits=Limits(seconds=seconds)).certificate
        bounds.append(certificate.bound / len(instance.jobs) / 3600)
        proved += certificate.status == "optimal"
    return np.array(bounds), proved


def print_table(title: str, rows: Rows, reference: str) -> None:
    """Print mean completion times and ratios to a row of reference."""
    print(f"\n{title}")
    print(f"  {'':34} {'mean JCT, h':>12} {'over ' + reference:>20}   95 %")
    for name, jcts in rows.items():
        ratio = mean_interval(list(jcts / rows[reference]))
        ends = "" if ratio.low is None else f"{ratio.low:.3f} to {ratio.high:.3f}"
        print(f"  {name:34} {jcts.mean():12.3f} {ratio.mean:20.3f}   {ends}", flush=True)


def named(names: Sequence[str]) -> dict[str, Callable[[], Scheduler]]:
    """Return what makes the schedulers of these names."""
    return {name: partial(make_scheduler, name) for name in names}


def judge_selector(policy: str, per_world: int, seconds: float) -> Verdict:
    """Hold the selector against its policies, the oracles over them, and the bound."""
    instances = selector.instances(per_world=per_world)
    rows = jcts_h(instances, named((*selector.POLICIES, policy)))
    pool = np.array([rows[name] for name in selector.POLICIES])
    best = selector.POLICIES[int(pool.mean(axis=1).argmin())]
    rows["best single policy, by hindsight"] = rows[best]
    rows["best policy of each instance"] = pool.min(axis=0)
    rows["exact-remaining-time"] = jcts_h(instances, named(("exact-remaining-time",)))[
        "exact-remaining-time"
    ]
    bound, proved = optimum_h(instances, seconds)
    label = f"proved bound ({proved} of {len(instances)} optima)"
    rows[label] = bound
    print_table(
        f"selector, {len(instances)} instances of {len(selector.WORLDS)} worlds", rows, best
    )
    regret = mean_interval(list(rows[policy] / rows[best] - 1))
    low, high = regret.low or regret.mean, regret.high or regret.mean
    return Verdict(
        "selector: mean JCT below that of the best single policy",
        f"{best}: {regret.mean:+.1%}, 95 % {low:+.1%} to {high:+.1%}",
        high < 0,
    )


def judge_two_level(policy: str, count: int) -> Verdict:
    """Hold the two-level scheduler against backfilling without learning."""
    schedulers = {
        **named(("fifo", "easy-backfill")),
        "shortest first + backfilling": lambda: Rule("shortest", shortest),
        **named((policy,)),
    }
    rows = jcts_h(two_level.instances(count=count), schedulers)  # type: ignore[arg-type]
    print_table(f"two-level, {count} streams of 40 rigid gangs", rows, "easy-backfill")
    ratio = mean_interval(list(rows[policy] / rows["easy-backfill"] - 1))
    low, high = ratio.low or ratio.mean, ratio.high or ratio.mean
    return Verdict(
        "two-level: mean JCT below that of EASY backfilling",
        f"{ratio.mean:+.1%}, 95 % {low:+.1%} to {high:+.1%}",
        high < 0,
    )


def small_gangs(count: int) -> list[Instance]:
    """Return streams of ten gangs in slots, without pauses, that can be solved."""
    source = replace(two_level.EPISODES, num_jobs=10, leaves=1, slot_s=900.0, sigma=0.8)
    made = []
    for k in range(count):
        instance = source(np.random.default_rng(HELD_OUT_SEEDS[0] + 500 + k))
        jobs = tuple(job.replace(preemptible=False) for job in instance.jobs)
        made.append(instance.replace(jobs=jobs))
    return made


def compare_with_optimum(policy: str, count: int, seconds: float) -> None:
    """Print the same beside the rigid optimum, on small streams in slots."""
    instances = small_gangs(count)
    schedulers = {
        **named(("easy-backfill",)),
        "shortest first + backfilling": lambda: Rule("shortest", shortest),
        **named((policy,)),
    }
    rows = jcts_h(instances, schedulers)  # type: ignore[arg-type]
    bound, proved = optimum_h(instances, seconds)
    label = f"rigid bound ({proved} of {count} optima)"
    rows = {label: bound, **rows}
    print_table(f"two-level, {count} streams of 10 gangs in slots", rows, label)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--selector", help="file of `alloc train selector`; none is shipped")
    parser.add_argument("--two-level", default="two-level", help="policy or file")
    parser.add_argument("--per-world", type=int, default=3, help="instances of each world")
    parser.add_argument("--streams", type=int, default=20, help="streams of gangs")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each solve")
    chosen = parser.parse_args(arguments)
    print(describe_environment())
    verdicts = [judge_two_level(chosen.two_level, chosen.streams)]
    if chosen.selector is not None:
        verdicts.append(judge_selector(chosen.selector, chosen.per_world, chosen.seconds))
    compare_with_optimum(chosen.two_level, max(2, chosen.streams // 2), chosen.seconds)
    return conclude(verdicts)


if __name__ == "__main__":
    sys.exit(main())
