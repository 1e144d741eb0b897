"""What a sweep has done: kept in a small JSON file, so that the next one goes on from there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


class Record:
    """Seeds done by family, with counts and disagreements.

    Seeds that disagreed are not done: the next sweep tries them again.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.done: dict[str, set[int]] = {}
        self.counts: dict[str, Counter[str]] = {}
        self.slowest_s: dict[str, float] = {}
        self.disagreements: dict[str, dict[int, str]] = {}
        if path is not None and path.exists():
            for family, entry in json.loads(path.read_text()).items():
                self.done[family] = set(_numbers(entry["seeds"]))
                self.counts[family] = Counter(entry["counts"])
                self.slowest_s[family] = entry["slowest_s"]
                self.disagreements[family] = {int(k): v for k, v in entry["disagreements"].items()}

    def add(self, family: str, seed: int, counts: Counter[str], cpu_s: float, false: str) -> None:
        """Note a seed: what was counted, its CPU time, and what was false, if anything."""
        if false:
            self.disagreements.setdefault(family, {})[seed] = false
            return
        self.done.setdefault(family, set()).add(seed)
        self.disagreements.get(family, {}).pop(seed, None)
        self.counts.setdefault(family, Counter()).update(counts)
        self.slowest_s[family] = max(self.slowest_s.get(family, 0.0), round(cpu_s, 2))

    def todo(self, family: str, seeds: Iterable[int]) -> Iterator[int]:
        """Yield the seeds that are not done."""
        done = self.done.get(family, set())
        return (seed for seed in seeds if seed not in done)

    def write(self) -> None:
        """Write the file."""
        if self.path is None:
            return
        families = sorted({*self.done, *self.disagreements})
        document: dict[str, Any] = {
            family: {
                "instances": len(self.done.get(family, ())),
                "seeds": _ranges(self.done.get(family, set())),
                "counts": dict(sorted(self.counts.get(family, Counter()).items())),
                "slowest_s": self.slowest_s.get(family, 0.0),
                "disagreements": dict(sorted(self.disagreements.get(family, {}).items())),
            }
            for family in families
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".part")
        partial.write_text(json.dumps(document, indent=1) + "\n")
        partial.replace(self.path)


def _ranges(seeds: set[int]) -> str:
    """Write seeds as ``"0:20,31:40"``, ends excluded."""
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and parts[-1][1] == seed:
            parts[-1][1] = seed + 1
        else:
            parts.append([seed, seed + 1])
    return ",".join(f"{first}:{end}" for first, end in parts)


def _numbers(ranges: str) -> Iterator[int]:
    for part in filter(None, ranges.split(",")):
        first, end = part.split(":")
        yield from range(int(first), int(end))
