"""What the numbers of the generalisation study say: paired ratios, and a verdict a line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from alloc.comparison import Interval, mean_interval
from benchmarks.studies.contenders import Contender
from benchmarks.studies.factors import Level
from benchmarks.studies.running import Results, place_of

Word = Literal["adds", "loses", "undecided", "no numbers"]


@dataclass(frozen=True)
class Ratio:
    """Mean completion time of one over that of another, paired over instances.

    Parameters
    ----------
    middle, low, high
        Geometric mean of the ratios on each instance, and its 95 % interval; NaN where the sample
        cannot tell.
    count
        Instances on which both completed every job.
    """

    middle: float
    low: float
    high: float
    count: int

    @property
    def word(self) -> Word:
        """What it says of the first: ``adds`` where the whole interval is below 1."""
        if not self.count or math.isnan(self.high):
            return "no numbers" if not self.count else "undecided"
        if self.high < 1:
            return "adds"
        return "loses" if self.low > 1 else "undecided"

    @property
    def text(self) -> str:
        """The change in per cent with its interval."""
        if not self.count:
            return "-"
        change = f"{100 * (self.middle - 1):+.1f} %"
        if math.isnan(self.low):
            return change
        return f"{change} [{100 * (self.low - 1):+.1f}, {100 * (self.high - 1):+.1f}]"


@dataclass(frozen=True)
class Finding:
    """What a learned policy gains or loses at one level.

    Parameters
    ----------
    level
        Where.
    policy
        Which.
    rival
        Against whom; the greedy rule is the best of them at this level, found on the same
        instances, which favours the rules.
    kind
        ``greedy``, ``no-learning`` or ``exact``.
    ratio
        Policy over rival; below 1 the policy is better.
    failures
        Instances on which the policy failed or left jobs unfinished.
    """

    level: Level
    policy: str
    rival: str
    kind: str
    ratio: Ratio
    failures: int

    def __str__(self) -> str:
        """Return the line to print."""
        against = {
            "greedy": f"the best greedy rule ({self.rival})",
            "no-learning": f"its decoder without learning ({self.rival})",
            "exact": f"the better exact round ({self.rival})",
        }[self.kind]
        verb = {
            "adds": f"{self.policy} is better than",
            "loses": f"{self.policy} LOSES to",
            "undecided": f"no difference shown between {self.policy} and",
            "no numbers": f"no numbers for {self.policy} beside",
        }[self.ratio.word]
        failed = f"; {self.failures} failed" if self.failures else ""
        return (
            f"{self.level.key}: {verb} {against}: mean JCT {self.ratio.text} "
            f"(n = {self.ratio.count}{failed})"
        )


def jcts(results: Results, level: Level, label: str, seeds: int) -> dict[int, float]:
    """Return the mean completion time by seed, where there is one, slots."""
    place = place_of(level)
    found = {}
    for seed in range(seeds):
        score = results.scores.get((place, label, seed))
        if score is not None and score.error is None:
            found[seed] = score.jct_slots
    return found


def failures(results: Results, level: Level, label: str, seeds: int) -> list[str]:
    """Return why there is no number, once for each instance that was tried without one."""
    place = place_of(level)
    tried = [results.scores.get((place, label, seed)) for seed in range(seeds)]
    return [
        score.error or "a job never completed"
        for score in tried
        if score is not None and (score.error or not math.isfinite(score.jct_slots))
    ]


def ratio_of(ours: dict[int, float], theirs: dict[int, float]) -> Ratio:
    """Return the paired ratio over the seeds on which both have finite numbers."""
    both = [s for s in ours if s in theirs and math.isfinite(ours[s] + theirs[s])]
    if not both:
        return Ratio(math.nan, math.nan, math.nan, 0)
    found = mean_interval([math.log(ours[seed] / theirs[seed]) for seed in both])
    low = math.nan if found.low is None else math.exp(found.low)
    high = math.nan if found.high is None else math.exp(found.high)
    return Ratio(math.exp(found.mean), low, high, len(both))


def best_of(
    results: Results, level: Level, rivals: Sequence[Contender], seeds: int
) -> Contender | None:
    """Return the rival with the lowest geometric mean; those that fail anywhere come last."""
    known = {}
    for rival in rivals:
        values = list(jcts(results, level, rival.label, seeds).values())
        if values:
            finite = all(map(math.isfinite, values))
            known[rival.label] = float(np.mean(np.log(values))) if finite else math.inf
    ranked = [rival for rival in rivals if rival.label in known]
    return min(ranked, key=lambda rival: known[rival.label], default=None)


def findings(
    results: Results, levels: Sequence[Level], contenders: Sequence[Contender], seeds: int
) -> list[Finding]:
    """Return every verdict: each learned policy at each level, against each kind of rival.

    The decoder without learning is set beside every policy: what is beyond it was learned.
    """
    found = []
    for level in levels:
        for policy in (c for c in contenders if c.role == "learned"):
            ours = jcts(results, level, policy.label, seeds)
            failed = len(failures(results, level, policy.label, seeds))
            for kind in ("greedy", "no-learning", "exact"):
                rivals = [c for c in contenders if c.role == kind]
                rival = best_of(results, level, rivals, seeds)
                if rival is None:
                    continue
                ratio = ratio_of(ours, jcts(results, level, rival.label, seeds))
                found.append(Finding(level, policy.label, rival.label, kind, ratio, failed))
    return found


def gaps(
    results: Results, level: Level, contenders: Sequence[Contender], seeds: int
) -> dict[str, Interval]:
    """Return how far each is above the certified bound, with its interval over instances."""
    place = place_of(level)
    found = {}
    for contender in contenders:
        values = []
        for seed, jct in jcts(results, level, contender.label, seeds).items():
            bound = results.bounds.get((place, seed))
            if bound is not None and math.isfinite(jct):
                values.append(jct / bound - 1)
        found[contender.label] = mean_interval(values)
    return found


def summary(found: Sequence[Finding], policy: str, kind: str) -> str:
    """Return on how many levels a policy is better, not told apart, or worse."""
    mine = [f for f in found if f.policy == policy and f.kind == kind]
    # The starting world stands in several factors and counts once.
    once = {place_of(f.level): f for f in mine}.values()
    words = [f.ratio.word for f in once]
    rest = words.count("no numbers")
    return (
        f"{words.count('adds')} better, {words.count('undecided')} not told apart, "
        f"{words.count('loses')} worse{f', {rest} without numbers' if rest else ''}, "
        f"of {len(words)} worlds"
    )
