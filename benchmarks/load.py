"""Compare the best known optimum of each stored instance with its value without contention."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from alloc.instances import Bound, Entry, manifest

WANTED_RATIO = 2.0
"""Every family but the tiny one must reach it with a certified lower bound."""
_SMALLEST_FAMILY = "elastic-tiny"


def table(entries: Sequence[Entry]) -> Table:
    """Return the ratios as a table."""
    made = Table(title="Best known weighted JCT over its value without contention")
    made.add_column("instance", no_wrap=True)
    for column in ("jobs", "hosts", "no contention (s)", "lower", "upper", "gap", "proved"):
        made.add_column(column, justify="right")
    for entry in entries:
        made.add_row(
            entry.id,
            str(entry.jobs),
            str(entry.hosts),
            f"{entry.no_contention:.4g}",
            "-" if entry.lower is None else f"{_ratio(entry.lower, entry):.3f}",
            "-" if entry.upper is None else f"{_ratio(entry.upper, entry):.3f}",
            "-" if entry.gap is None else f"{entry.gap:.2%}",
            "yes" if entry.proved else "no",
        )
    return made


def _ratio(bound: Bound, entry: Entry) -> float:
    return bound.value / (entry.no_contention or math.nan)


def families_without_load(entries: Sequence[Entry]) -> list[str]:
    """Return the families in which no instance is certified to reach `WANTED_RATIO`."""
    best: dict[str, float] = {}
    for entry in entries:
        lower = 0.0 if entry.lower is None else _ratio(entry.lower, entry)
        best[entry.family] = max(best.get(entry.family, 0.0), lower)
    best.pop(_SMALLEST_FAMILY, None)
    return [family for family, ratio in best.items() if ratio < WANTED_RATIO]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a family's certified load does not reach `WANTED_RATIO`."""
    entries = [entry for entry in manifest() if entry.family.startswith("elastic-")]
    Console().print(table(entries))
    lacking = families_without_load(entries)
    if lacking:
        print(f"no certified ratio of {WANTED_RATIO:g} yet in: {', '.join(lacking)}")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
