"""Placement under interference: rules, the learned agent, and the exact optimum.

Run it with ``python -m benchmarks.placement_agent FILE...``, files of ``alloc train
placement-agent``, one for each seed. Streams that no training and no choice of a checkpoint has
seen, with 95 % intervals over streams, paired; the files run in ONNX Runtime, as they are shipped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from alloc.comparison import mean_interval
from alloc.learning.actor_critic.placement_agent import HELD_OUT_SEED, held_streams
from alloc.learning.actor_critic.placement_reward import RewardModel
from alloc.learning.actor_critic.placement_rules import (
    best_fit,
    exact_rounds,
    first_fit,
    greedy,
    spread,
)
from alloc.learning.actor_critic.placement_world import (
    CLASSES,
    Asked,
    Place,
    Streams,
    place_round,
    run_stream,
    synthetic_table,
    value_of,
)
from alloc.problems.colocation import ColocationProblem
from alloc.schedulers.learned import read_policy
from alloc.schedulers.learned.kinds import choose
from alloc.schedulers.learned.network import OnnxNetwork
from alloc.solving import solve
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True
"""Needs trained files; run by name only."""

SAMPLES = 40
"""Mixes that are measured for a reward model."""


def policy(path: str) -> Place:
    """Return what a policy file chooses."""
    file = read_policy(path)
    network = OnnxNetwork(file.model, file.spec, file.name)

    def place(asked: Asked) -> int:
        return choose(network({"hosts": asked.seen[None]})["logits"][0], asked.mask, None)

    return place


def print_rows(title: str, rows: dict[str, np.ndarray], reference: str) -> None:
    """Print means and ratios to a row of reference."""
    print(f"\n{title}\n  {'':44} {'mean':>8} {'over ' + reference:>14}   95 %")
    for name, found in rows.items():
        ratio = mean_interval(list(found / rows[reference]))
        ends = "" if ratio.low is None else f"{ratio.low:.3f} to {ratio.high:.3f}"
        print(f"  {name:44} {found.mean():8.3f} {ratio.mean:14.3f}   {ends}", flush=True)


def rows_of_rounds(places: dict[str, Place], count: int, agents: int) -> dict[str, np.ndarray]:
    """Return what each comes to on single rounds on an empty cluster, and the certified optimum."""
    table = synthetic_table()
    value, rng = value_of(table), np.random.default_rng(HELD_OUT_SEED)
    rounds = [tuple(rng.integers(0, len(CLASSES), 10).tolist()) for _ in range(count)]
    asked = [[CLASSES[job] for job in queue] for queue in rounds]
    packings = [solve(ColocationProblem(kinds, table, 4, max_per_gpu=4)) for kinds in asked]
    proved = sum(p.status == "optimal" for p in packings)
    exact = np.array([packing.objective for packing in packings])
    rows = {f"exact packing ({proved} of {count} proved)": exact}
    for name, place in places.items():
        found = []
        for queue in rounds:
            on_host = np.zeros((4, len(CLASSES)), np.int64)
            place_round(on_host, queue, 4, place)
            found.append(sum(value(tuple(row)) for row in on_host.tolist()))
        rows[name] = np.array(found)
    return with_mean(rows, agents)


def with_mean(rows: dict[str, np.ndarray], agents: int) -> dict[str, np.ndarray]:
    """Add the mean over the agents, the last rows."""
    return {**rows, "agent, mean over seeds": np.mean([*rows.values()][-agents:], axis=0)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policies", nargs="+", metavar="FILE", help="trained agents")
    parser.add_argument("--streams", type=int, default=40, help="held-out streams")
    parser.add_argument("--rounds", type=int, default=40, help="single rounds")
    chosen = parser.parse_args(arguments)
    print(describe_environment())
    source, table = Streams(), synthetic_table()
    model = RewardModel(table, source.most, SAMPLES, seed=0)
    print("\nreward model:", {name: round(error, 4) for name, error in model.errors().items()})
    truth = value_of(table)
    places: dict[str, Place] = {
        "first fit": first_fit,
        "best fit": best_fit,
        "spread": spread,
        "best host for the job, reward model": greedy(model),
        "best host for the job, true speeds": greedy(truth),
        "each round exactly, reward model": exact_rounds(model),
        "each round exactly, true speeds": exact_rounds(truth),
        **{f"agent {k}": policy(path) for k, path in enumerate(chosen.policies)},
    }
    streams, agents = held_streams(source, HELD_OUT_SEED, chosen.streams), len(chosen.policies)
    rows = {
        name: np.array([run_stream(stream, table, place).jct.mean() for stream in streams])
        for name, place in places.items()
    }
    rows = with_mean(rows, agents)
    print_rows(f"mean JCT, rounds, {chosen.streams} streams on 6 hosts", rows, "spread")
    small = rows_of_rounds(places, chosen.rounds, agents)
    title = f"sum of normalised speeds, {chosen.rounds} rounds of 10 jobs on 4 empty hosts"
    print_rows(title, small, next(iter(small)))
    verdicts = []
    for rival in ("spread", "best host for the job, reward model"):
        ratio = mean_interval(list(rows["agent, mean over seeds"] / rows[rival] - 1))
        low, high = ratio.low or ratio.mean, ratio.high or ratio.mean
        text = f"{ratio.mean:+.1%}, 95 % {low:+.1%} to {high:+.1%}"
        verdicts.append(Verdict(f"agent: mean JCT below that of: {rival}", text, high < 0))
    return conclude(verdicts)


if __name__ == "__main__":
    sys.exit(main())
