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
    "loses": OKABE_ITO["vermilion"],
    "undecided": OKABE_ITO["sky blue"],
}
_MARKERS = ("o", "s", "^")
"""By the round of colours, so that two schedulers of one colour are told apart."""
_NEAR = 2.5
"""Contenders no further above the rule without learning are drawn once more, by themselves."""
_WIDE = 10.0
_COARSE = (0.5, 1, 2, 5, 10, 20, 50, 100)
_FINE = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5)
"""Ticks of an axis that spans more, or less, than `_WIDE`."""
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
        near = [c for c in contenders if _is_near(results, points, c, seeds)]
        figure = new_figure(9.0, 7.6)
        whole, detail = figure.subplots(2, 1)
        names = [c.label for c in contenders]
        factor_chart(whole, results, points, contenders, seeds, names)
        factor_chart(detail, results, points, near, seeds, names)
        set_title(whole, f"{factor}: below 1 is better than the rule without learning")
        set_title(detail, f"the same: those within {_NEAR:g} times that rule")
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
    points: Sequence[Level],
    contenders: Sequence[Contender],
    seeds: int,
    names: Sequence[str],
) -> None:
    """Draw each contender's mean JCT over the no-learning rule's, a point a level.

    `names` are all names of the figure, in order: each keeps its colour in both parts of it.
    """
    tidy(ax)
    styles = line_styles(names)
    for contender in contenders:
        number = names.index(contender.label)
        shift = _SPREAD * (number / max(len(names) - 1, 1) - 0.5)
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
    low, high = ax.get_ylim()
    marks = _COARSE if high / low > _WIDE else _FINE
    ticks = [tick for tick in marks if low <= tick <= high]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xticks(range(len(points)), [level.label for level in points])
    ax.set_xlim(-0.3, len(points) - 0.7)
    ax.set_ylabel(f"mean JCT over that of {RULE}")
    add_legend(ax)


def _is_near(results: Results, points: Sequence[Level], contender: Contender, seeds: int) -> bool:
    """Return whether a contender is never far above the rule without learning."""
    ratios = [
        ratio_of(jcts(results, level, contender.label, seeds), jcts(results, level, RULE, seeds))
        for level in points
    ]
    return all(ratio.middle <= _NEAR for ratio in ratios if ratio.count)


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
