"""The figures of the generalisation study, PNG and SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alloc.plotting import new_figure, plot_gaps, save_figure
from alloc.plotting.axes import add_legend, set_title, tidy
from alloc.plotting.palette import INK, OKABE_ITO, line_styles
from benchmarks.studies.contenders import RULE, Contender
from benchmarks.studies.factors import Level, by_factor
from benchmarks.studies.findings import Finding, gaps, jcts, ratio_of
from benchmarks.studies.running import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {
    "adds": OKABE_ITO["green"],
    "loses": OKABE_ITO["vermillion"],
    "undecided": OKABE_ITO["sky blue"],
}
_MARKERS = ("o", "s", "^")
"""By the round of colours, so that two schedulers of one colour are told apart."""
_SPREAD = 0.36
"""How far apart the first and last scheduler of a level are drawn: intervals must not overlap."""


def draw(
    results: Results,
    levels: Sequence[Level],
    contenders: Sequence[Contender],
    seeds: int,
    found: Sequence[Finding],
    folder: Path,
) -> list[Path]:
    """Save every figure: one a factor, one a policy and kind of rival, one a certified level."""
    paths: list[Path] = []
    for factor, points in by_factor(tuple(levels)).items():
        figure = new_figure(9.0, 4.2)
        factor_chart(figure.subplots(), results, factor, points, contenders, seeds)
        paths += save_figure(figure, folder / f"factor-{_slug(factor)}")
    for policy in dict.fromkeys(f.policy for f in found):
        for kind in dict.fromkeys(f.kind for f in found):
            mine = [f for f in found if (f.policy, f.kind) == (policy, kind) and f.ratio.count]
            if mine:
                figure = new_figure(8.0, 1.2 + 0.26 * len(mine))
                verdict_chart(figure.subplots(), mine)
                paths += save_figure(figure, folder / f"verdicts-{_slug(policy)}-{kind}")
    for level in levels:
        if level.certified:
            figure = new_figure(7.0, 1.2 + 0.34 * len(contenders))
            plot_gaps(
                gaps(results, level, contenders, seeds), title=level.label, ax=figure.subplots()
            )
            paths += save_figure(figure, folder / f"bound-{_slug(level.label)}")
    return paths


def factor_chart(
    ax: Axes,
    results: Results,
    factor: str,
    points: Sequence[Level],
    contenders: Sequence[Contender],
    seeds: int,
) -> None:
    """Draw each contender's mean JCT over the no-learning rule's, a point a level."""
    tidy(ax)
    styles = line_styles(c.label for c in contenders)
    for number, contender in enumerate(contenders):
        shift = _SPREAD * (number / max(len(contenders) - 1, 1) - 0.5)
        ratios = [
            ratio_of(
                jcts(results, level, contender.label, seeds), jcts(results, level, RULE, seeds)
            )
            for level in points
        ]
        known = [(x, r) for x, r in enumerate(ratios) if r.count]
        if not known:
            continue
        style = styles[contender.label]
        middles = [r.middle for _, r in known]
        ends = [(r.low, r.high) if not math.isnan(r.low) else (r.middle,) * 2 for _, r in known]
        ax.errorbar(
            [x + shift for x, _ in known],
            middles,
            yerr=[
                [m - low for m, (low, _) in zip(middles, ends, strict=True)],
                [high - m for m, (_, high) in zip(middles, ends, strict=True)],
            ],
            color=style.color,
            linestyle=style.dash,
            linewidth=2.0 if contender.role == "learned" else 0.8,
            marker=_MARKERS[number // len(OKABE_ITO) % len(_MARKERS)],
            markersize=4,
            capsize=3,
            label=contender.label,
        )
    # Ratios: twice as long and half as long are as far from 1; some rules are ten times off.
    ax.set_yscale("log")
    ticks = [t for t in (0.5, 0.8, 1, 1.25, 1.5, 2, 3, 5, 10, 20, 50) if _within(ax, t)]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xticks(range(len(points)), [level.label for level in points])
    ax.set_xlim(-0.3, len(points) - 0.7)
    ax.set_ylabel(f"mean JCT over that of {RULE}")
    set_title(ax, f"{factor}: below 1 is better than the rule without learning")
    add_legend(ax)


def _within(ax: Axes, value: float) -> bool:
    low, high = ax.get_ylim()
    return low <= value <= high


def verdict_chart(ax: Axes, found: Sequence[Finding]) -> None:
    """Draw the change against the rival at each level, with its interval."""
    tidy(ax)
    for row, finding in enumerate(found):
        ratio = finding.ratio
        change = 100 * (ratio.middle - 1)
        low, high = (
            (change, change)
            if math.isnan(ratio.low)
            else (100 * (ratio.low - 1), 100 * (ratio.high - 1))
        )
        ax.errorbar(
            [change],
            [row],
            xerr=[[change - low], [high - change]],
            fmt="o",
            markersize=5,
            capsize=3,
            color=_COLOURS[ratio.word],
        )
    ax.axvline(0.0, color=INK, linewidth=1.0)
    ax.set_yticks(range(len(found)), [f"{f.level.key} (vs {f.rival})" for f in found])
    ax.set_ylim(len(found) - 0.4, -0.6)
    ax.set_xlabel("change of the mean JCT (%); left of 0 the learned policy is better")
    set_title(ax, f"{found[0].policy} against {found[0].kind} rivals, 95 % intervals")


def _slug(text: str) -> str:
    kept = "".join(c if c.isalnum() else "-" for c in text.lower())
    return "-".join(filter(None, kept.split("-")))
