"""DL2 rebuilt and trained on ten seeds, ablated, beside the rules and the certified bound.

Run it with ``python -m benchmarks.dl2 --seeds 10``. What is trained is kept in the output folder
and not trained again; an interrupted run goes on where it was. All numbers are mean completion
times in slots on held-out traces that no training and no choice of a checkpoint has seen; the
column "as published" is the minimum over checkpoints on the validation traces themselves, which is
what DL2's own evaluation reports. Results are also written as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from alloc.comparison import mean_interval
from alloc.learning.dl2.exploration import Rules
from alloc.learning.dl2.outcome import DL2Outcome, outcome_of
from alloc.learning.dl2.rollout import Collector
from alloc.learning.dl2.settings import DL2Settings, changed, preset
from alloc.learning.dl2.trainer import DL2Trainer
from alloc.learning.publishing import publish
from alloc.learning.training import train
from alloc.problems.allocation.instance import Instance
from alloc.result import Limits
from alloc.schedulers import make_scheduler
from alloc.simulation import simulate
from alloc.solving import solve
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True
"""Hours of training; run by name only."""

OUTPUT = Path("build/benchmarks/dl2")
PAPER_VS_DRF, PAPER_VS_OPTIMUS = 44.1, 17.5
"""Reductions of the mean completion time that DL2's paper reports, per cent."""
MINUTES = 30.0
"""Most CPU minutes of one training."""
SPACING = 200
"""Updates between validations. The released code validates every 50, and reports the lowest of four
times as many; validation is most of the time of a training."""
DRAWS = 5
"""Plays of each trace by policies that draw."""

RULES: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("DRF", "drf", {"rules": "dl2"}),
    ("SRTF", "srtf-dl2", {"rules": "dl2"}),
    ("Tetris", "tetris", {"rules": "dl2"}),
    ("Optimus", "optimus", {"rules": "dl2"}),
    ("FIFO", "fifo", {"rules": "dl2"}),
    ("one worker each, PSs at random", "random-ps", {}),
    ("exact per round (progress)", "exact-progress", {}),
    ("exact per round (remaining time)", "exact-remaining-time", {}),
)
"""Rows without learning: label, scheduler, options. The five rules as DL2's evaluation has them."""

MAIN = "DL2"
VARIANTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (MAIN, "released", ()),
    ("DL2 without supervised phase", "released", ("no-supervised",)),
    ("DL2 without exploration rules", "released", ("no-exploration",)),
    ("DL2 without critic", "released", ("no-critic",)),
    (
        "DL2 without supervised phase and rules",
        "released",
        ("no-supervised-no-exploration",),
    ),
    ("DL2 with the optimum as teacher", "released", ("teacher-optimum",)),
    ("DL2 without reinforcement", "released", ("no-reinforcement",)),
    ("DL2 without replay", "released", ("no-replay",)),
    ("DL2 with aligned reward", "released", ("aligned-reward",)),
    ("DL2 with SRTF as teacher", "released", ("teacher-srtf",)),
    ("DL2 as in the paper's text", "paper", ()),
)
"""What is trained: label, preset, ablations. The first gets all seeds."""


@dataclass
class Row:
    """A row of the table.

    Parameters
    ----------
    label
        What decided.
    jcts
        Mean completion time over the held-out traces, slots; one number a seed of training.
    likeliest, last, published
        The same with the likeliest action, with the last weights, and as published.
    minutes
        CPU minutes of each training.
    """

    label: str
    jcts: list[float]
    likeliest: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    published: list[float] = field(default_factory=list)
    minutes: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """Mean over seeds, slots."""
        return float(np.mean(self.jcts))


def mean_jct_slots(instance: Instance, name: str, options: Mapping[str, Any], seed: int) -> float:
    """Return the mean completion time of a scheduler on a trace, slots."""
    result = simulate(instance, make_scheduler(name, **options), rng=seed)
    assert instance.slot_s is not None
    ends = result.completion_s
    times = [(ends[job.id] or np.inf) - job.arrival_s for job in instance.jobs]
    return float(np.mean(times)) / instance.slot_s


def rule_row(label: str, name: str, options: Mapping[str, Any], traces: Sequence[Instance]) -> Row:
    """Return the row of a scheduler without learning."""
    seeds = range(DRAWS if name == "random-ps" else 1)
    return Row(
        label,
        [
            float(np.mean([mean_jct_slots(trace, name, options, s) for trace in traces]))
            for s in seeds
        ],
    )


def random_row(settings: DL2Settings, traces: Sequence[Instance]) -> Row:
    """Return the row of evenly drawn actions that DL2's exploration rules correct."""
    features = settings.features
    collector = Collector(features, "progress", Rules())
    even = np.zeros(features.num_actions, np.float32)
    jcts = []
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        found = []
        for trace in traces:
            collector.begin(trace)
            while not collector.over:
                collector.play_slot(lambda _: even, rng, 0)
            found.append(collector.mean_jct_slots)
        jcts.append(float(np.mean(found)))
    return Row("even draws with DL2's rules", jcts)


def certified_bound(
    traces: Sequence[Instance], seconds: float, cache: Path, say: Callable[[str], None]
) -> tuple[float, float]:
    """Return the mean over traces of the proved bound, and of the schedule found, slots."""
    known = json.loads(cache.read_text()) if cache.exists() else {}
    bounds, found = [], []
    for trace in traces:
        key = f"{trace.fingerprint} {seconds:g}"
        if key not in known:
            certificate = solve(
                trace, "malleable", objective="weighted_jct", limits=Limits(seconds=seconds)
            ).certificate
            known[key] = [certificate.bound, certificate.objective]
            cache.write_text(json.dumps(known, indent=1) + "\n")
            say(f"bound of {trace.name}: {certificate.status}")
        assert trace.slot_s is not None
        # Unit weights: the weighted sum of completion times over the jobs is their mean.
        each = len(trace.jobs) * trace.slot_s
        bounds.append(known[key][0] / each)
        found.append(np.inf if known[key][1] is None else known[key][1] / each)
    return float(np.mean(bounds)), float(np.mean(found))


def trained(
    settings: DL2Settings, seed: int, output: Path, label: str, say: Callable[[str], None]
) -> DL2Outcome:
    """Return what came of a training; train it first if that is not known yet."""
    folder = output / f"{settings.fingerprint[:12]}" / f"seed-{seed}"
    kept = folder / "outcome.json"
    if kept.exists():
        return DL2Outcome.from_dict(json.loads(kept.read_text()))
    trainer = DL2Trainer(settings, seed)
    hours = train(trainer, folder)
    outcome = outcome_of(trainer, hours)
    publish(
        trainer,
        folder / "dl2.onnx",
        name="dl2",
        command=f"alloc train dl2 --seed {seed} --set validate_every={SPACING} --output DIR",
        hours=hours,
        limits=(outcome.limit,),
    )
    kept.write_text(json.dumps(outcome.to_dict(), indent=1) + "\n")
    say(
        f"{label}, seed {seed}: {np.mean(outcome.drawn):.3f} slots held out, best in validation "
        f"{outcome.validation_best:.3f} at {outcome.best_step}, last {outcome.validation_last:.3f},"
        f" {60 * outcome.cpu_hours:.1f} CPU minutes"
    )
    return outcome


def variant_row(
    label: str,
    settings: DL2Settings,
    seeds: int,
    output: Path,
    say: Callable[[str], None],
) -> Row:
    """Return the row of a training on several seeds."""
    outcomes = [trained(settings, seed, output, label, say) for seed in range(seeds)]
    return Row(
        label,
        [float(np.mean(o.drawn)) for o in outcomes],
        [float(np.mean(o.likeliest)) for o in outcomes],
        [float(np.mean(o.last_drawn)) for o in outcomes],
        [o.validation_best for o in outcomes],
        [60 * o.cpu_hours for o in outcomes],
    )


def print_table(rows: Sequence[Row], bound: float) -> None:
    """Print the rows, with changes against DRF and Optimus and the gap to the bound."""
    by_label = {row.label: row.mean for row in rows}
    drf, optimus = by_label["DRF"], by_label["Optimus"]
    print(
        f"{'mean JCT, slots, held-out traces':38s} {'seeds':>5s} {'mean':>7s} {'95 %':>15s} "
        f"{'vs DRF':>7s} {'vs Opt.':>7s} {'to bound':>8s} {'likeliest':>9s} {'last':>7s} "
        f"{'as publ.':>8s} {'CPU min':>7s}"
    )
    for row in rows:
        interval = mean_interval(row.jcts)
        span = ""
        if interval.low is not None and interval.high is not None:
            span = f"{interval.low:.3f}-{interval.high:.3f}"
        rest = [
            f"{np.mean(values):{width}.{digits}f}" if values else " " * width
            for values, width, digits in (
                (row.likeliest, 9, 3),
                (row.last, 7, 3),
                (row.published, 8, 3),
                (row.minutes, 7, 1),
            )
        ]
        print(
            f"{row.label:38s} {len(row.jcts):5d} {row.mean:7.3f} {span:>15s} "
            f"{100 * (row.mean / drf - 1):+6.1f}% {100 * (row.mean / optimus - 1):+6.1f}% "
            f"{100 * (row.mean / bound - 1):7.1f}% {' '.join(rest)}",
            flush=True,
        )
    print(
        f"DL2's paper: {-PAPER_VS_DRF} % against DRF, {-PAPER_VS_OPTIMUS} % against Optimus "
        "(testbed, its own speeds)."
    )


def verdicts(rows: Sequence[Row], bound: float) -> list[Verdict]:
    """Return whether a training took its time, and whether the paper's gains are found here."""
    by_label = {row.label: row for row in rows}
    dl2 = by_label[MAIN]
    found = [
        Verdict(
            f"one training of DL2 in {MINUTES:g} CPU minutes",
            f"{max(dl2.minutes):.1f} minutes at most",
            max(dl2.minutes) <= MINUTES,
        )
    ]
    for rival, paper in (("DRF", PAPER_VS_DRF), ("Optimus", PAPER_VS_OPTIMUS)):
        gain = 100 * (1 - dl2.mean / by_label[rival].mean)
        most = 100 * (1 - bound / by_label[rival].mean)
        found.append(
            Verdict(
                f"DL2 {paper} % below {rival}, as its paper says",
                f"{gain:.1f} %; the certified bound leaves room for {most:.1f} %",
                gain >= paper,
            )
        )
    return found


def settings_of(arguments: argparse.Namespace, name: str, ablations: Sequence[str]) -> DL2Settings:
    """Return the settings of a variant."""
    changes: dict[str, Any] = {"validate_every": SPACING}
    chosen = preset(name, *ablations)
    if arguments.quick:
        changes |= {"held_out_traces": 3, "validation_traces": 3, "validate_every": 100}
        changes["updates"] = min(chosen.updates, 200)
        changes["replay"] = min(chosen.replay, 1024)
    for text in arguments.set:
        field_name, _, value = text.partition("=")
        try:
            changes[field_name] = json.loads(value)
        except ValueError:
            changes[field_name] = value
    return changed(chosen, changes)


def main(argv: Sequence[str] | None = None) -> int:
    """Train what is missing and print the table; return 1 if a verdict is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dl2", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="trainings of DL2")
    parser.add_argument("--ablation-seeds", type=int, default=3, help="trainings of each ablation")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where trainings are kept")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="set a field of DL2Settings for all trainings, such as world.table=dips",
    )
    parser.add_argument("--bound-seconds", type=float, default=60.0, help="for each trace")
    parser.add_argument(
        "--variants",
        type=int,
        nargs="+",
        choices=range(len(VARIANTS)),
        default=list(range(len(VARIANTS))),
        help="numbers of what is trained; 0, DL2 itself, always is",
    )
    parser.add_argument("--quick", action="store_true", help="2 seeds, few updates: a smoke test")
    arguments = parser.parse_args(argv)
    if arguments.quick:
        arguments.seeds, arguments.ablation_seeds = min(arguments.seeds, 2), 1
        arguments.bound_seconds = min(arguments.bound_seconds, 10.0)
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)

    def say(line: str) -> None:
        print(line, flush=True)

    base = settings_of(arguments, "released", ())
    traces = base.world.held_out(base.held_out_traces)
    rows = [rule_row(label, name, options, traces) for label, name, options in RULES]
    rows.append(random_row(base, traces))
    for row in rows:
        say(f"{row.label}: {row.mean:.3f}")
    trained_rows = []
    for number, (label, name, ablations) in enumerate(VARIANTS):
        if number and number not in arguments.variants:
            continue
        settings = settings_of(arguments, name, ablations)
        seeds = arguments.seeds if number == 0 else arguments.ablation_seeds
        trained_rows.append(variant_row(label, settings, seeds, output, say))
        if number == 0:
            bound, best = certified_bound(
                traces, arguments.bound_seconds, output / "bounds.json", say
            )
    rows += trained_rows
    rows.append(Row("best schedule found, knowing all", [best]))
    rows.append(Row("certified bound, knowing all", [bound]))
    print_table(rows, bound)
    document = {
        "settings": base.to_dict(),
        "bound_slots": bound,
        "rows": [vars(row) | {"mean": row.mean} for row in rows],
    }
    (output / "results.json").write_text(json.dumps(document, indent=1) + "\n")
    return conclude(verdicts(rows, bound))


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
