"""The tables of the generalisation study: Markdown for people, CSV and JSON for programs."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from alloc.comparison import mean_interval
from benchmarks.environment import environment
from benchmarks.studies.contenders import Contender, absent
from benchmarks.studies.factors import Level
from benchmarks.studies.findings import Finding, failures, findings, gaps, jcts, ratio_of, summary
from benchmarks.studies.running import Results, place_of

_COLUMNS = (
    "factor", "level", "scheduler", "role", "told", "uses", "instances", "failures",
    "mean_jct_slots", "low", "high", "gap_to_bound", "median_decision_ms",
)  # fmt: skip


def rows(
    results: Results, levels: Sequence[Level], contenders: Sequence[Contender], seeds: int
) -> list[dict[str, Any]]:
    """Return one row for each level and contender, plain values; None where there is none."""
    found = []
    for level in levels:
        above = gaps(results, level, contenders, seeds)
        for contender in contenders:
            scores = [
                score
                for seed in range(seeds)
                if (score := results.scores.get((place_of(level), contender.label, seed)))
            ]
            good = [s for s in scores if s.error is None and math.isfinite(s.jct_slots)]
            middle = mean_interval([s.jct_slots for s in good])
            gap = above[contender.label]
            values = (
                level.factor,
                level.label,
                contender.label,
                contender.role,
                told(level),
                good[0].information if good else "",
                len(good),
                len(scores) - len(good),
                middle.mean if good else None,
                middle.low,
                middle.high,
                gap.mean if gap.count else None,
                float(np.median([s.decision_ms for s in good])) if good else None,
            )
            found.append(dict(zip(_COLUMNS, values, strict=True)))
    return found


def told(level: Level) -> str:
    """Return what every scheduler is told of the work and the speeds at a level."""
    settings = level.settings
    if settings.knowledge == "exact":
        return "exact"
    speeds = f", speeds within {settings.speed_error:.0%}" if settings.speed_error else ""
    return f"work within {settings.work_error:.0%}{speeds}"


def as_csv(table: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def as_json(
    table: Sequence[Mapping[str, Any]],
    found: Sequence[Finding],
    contenders: Sequence[Contender],
    command: str,
) -> str:
    """Return rows, verdicts and environment as one JSON document."""
    document = {
        "command": command,
        "environment": environment(),
        "absent": list(absent(contenders)),
        "rows": list(table),
        "findings": [
            {
                "factor": f.level.factor,
                "level": f.level.label,
                "policy": f.policy,
                "rival": f.rival,
                "kind": f.kind,
                "ratio": _plain(f.ratio.middle),
                "low": _plain(f.ratio.low),
                "high": _plain(f.ratio.high),
                "instances": f.ratio.count,
                "failures": f.failures,
                "verdict": f.ratio.word,
            }
            for f in found
        ],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def as_markdown(
    results: Results,
    levels: Sequence[Level],
    contenders: Sequence[Contender],
    seeds: int,
    command: str,
) -> str:
    """Return the whole study as Markdown: environment, tables and every verdict."""
    found = findings(results, levels, contenders, seeds)
    policies = [c.label for c in contenders if c.role == "learned"]
    facts = "".join(f"- {name}: {value}\n" for name, value in environment().items())
    parts = [f"# Generalisation of learned schedulers\n\n`{command}`\n\n{facts}"]
    for name in absent(contenders):
        parts.append(f"Not shipped with this alloc, so not in the tables: {name}.\n")
    parts.append("## In short\n\n" + _short(found, policies))
    parts.append("## A verdict a line\n\n" + _verdicts(found, policies))
    parts.append("## Mean completion times, slots\n\n" + _means(results, levels, contenders, seeds))
    for policy in policies:
        parts.append(
            f"## Change of the mean completion time: {policy} over each\n\n"
            + _changes(results, levels, contenders, seeds, policy)
        )
    parts.append("## Above the certified bound\n\n" + _gaps(results, levels, contenders, seeds))
    parts.append("## What each was told and uses\n\n" + _uses(results, contenders))
    parts.append("## The verdicts in words\n\n" + "".join(f"- {line}\n" for line in found))
    parts.append("## Failures\n\n" + _failures(results, levels, contenders, seeds))
    return "\n".join(parts)


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _short(found: Sequence[Finding], policies: Sequence[str]) -> str:
    kinds = {
        "greedy": "the best greedy rule of the world",
        "no-learning": "the decoder without learning",
        "exact": "the better exact round",
    }
    body = [
        [policy, what, summary(found, policy, kind)]
        for policy in policies
        for kind, what in kinds.items()
    ]
    return _table(["policy", "against", "95 % intervals, no correction for their number"], body)


def _verdicts(found: Sequence[Finding], policies: Sequence[str]) -> str:
    """Return a table for each policy: change against each kind of rival, in bold where shown."""
    kinds = list(dict.fromkeys(f.kind for f in found))
    names = {
        "greedy": "the best greedy rule",
        "no-learning": "without learning",
        "exact": "the better exact round",
    }
    parts = []
    for policy in policies:
        body: dict[str, dict[str, str]] = {}
        for finding in (f for f in found if f.policy == policy):
            text = finding.ratio.text
            if finding.ratio.word in ("adds", "loses"):
                text = f"**{finding.ratio.word}** {text}"
            cell = f"{finding.rival}: {text}, n={finding.ratio.count}"
            body.setdefault(finding.level.key, {})[finding.kind] = cell
        head = [policy, *(names[kind] for kind in kinds)]
        parts.append(
            _table(
                head,
                [[key, *(cells.get(kind, "-") for kind in kinds)] for key, cells in body.items()],
            )
        )
    return "\n".join(parts)


def _means(
    results: Results, levels: Sequence[Level], contenders: Sequence[Contender], seeds: int
) -> str:
    body = []
    for level in levels:
        cells = []
        for contender in contenders:
            values = list(jcts(results, level, contender.label, seeds).values())
            finite = [value for value in values if math.isfinite(value)]
            few = f" (n={len(finite)})" if finite and len(finite) < seeds else ""
            cells.append(f"{np.mean(finite):.2f}{few}" if finite else "-")
        body.append([level.key, *cells])
    return _table(["level", *(c.label for c in contenders)], body)


def _changes(
    results: Results,
    levels: Sequence[Level],
    contenders: Sequence[Contender],
    seeds: int,
    policy: str,
) -> str:
    others = [c for c in contenders if c.label != policy]
    body = []
    for level in levels:
        ours = jcts(results, level, policy, seeds)
        ratios = [ratio_of(ours, jcts(results, level, c.label, seeds)) for c in others]
        body.append([level.key, *(ratio.text for ratio in ratios)])
    return _table(["level", *(c.label for c in others)], body)


def _gaps(
    results: Results, levels: Sequence[Level], contenders: Sequence[Contender], seeds: int
) -> str:
    certified = [level for level in levels if level.certified]
    if not certified:
        return "No level of this run is small enough for one.\n"
    columns = [gaps(results, level, contenders, seeds) for level in certified]
    body = []
    for contender in contenders:
        cells = []
        for column in columns:
            gap = column[contender.label]
            text = f"{100 * gap.mean:.1f} %" if gap.count else "-"
            if gap.low is not None and gap.high is not None:
                text += f" [{100 * gap.low:.1f}, {100 * gap.high:.1f}]"
            cells.append(f"{text} (n={gap.count})" if gap.count < seeds else text)
        body.append([contender.label, *cells])
    return _table(["scheduler", *(level.label for level in certified)], body)


def _uses(results: Results, contenders: Sequence[Contender]) -> str:
    body = []
    for contender in contenders:
        mine = [s for (_, label, _), s in results.scores.items() if label == contender.label]
        times = [s.decision_ms for s in mine if math.isfinite(s.decision_ms)]
        uses = next((s.information for s in mine if s.information), "-")
        spent = f"{np.median(times):.2f}" if times else "-"
        body.append([contender.label, contender.role, uses, spent])
    return _table(["scheduler", "stands for", "uses", "median decision, ms"], body)


def _failures(
    results: Results, levels: Sequence[Level], contenders: Sequence[Contender], seeds: int
) -> str:
    once = {place_of(level): level for level in levels}.values()
    lines = []
    for level in once:
        for contender in contenders:
            why = failures(results, level, contender.label, seeds)
            if why:
                lines.append(f"- {level.key}, {contender.label}: {len(why)} of {seeds}: {why[0]}\n")
    return "".join(lines) or "None: every simulation that was run completed every job.\n"


def missing(
    results: Results, levels: Sequence[Level], contenders: Sequence[Contender], seeds: int
) -> int:
    """Return how many simulations of the study have no result yet."""
    places = {place_of(level) for level in levels}
    wanted = ((p, c.label, s) for p in places for c in contenders for s in range(seeds))
    return sum(key not in results.scores for key in wanted)
