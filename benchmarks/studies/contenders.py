"""Who takes part in the generalisation study: learned policies on the shelf, and the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from alloc.comparison import Entry
from alloc.schedulers.learned.policy_file import read_policy
from alloc.schedulers.shelf import shipped_policies

Role = Literal["learned", "greedy", "no-learning", "exact"]

RULE = "set-rule"
"""The decoder of the set policy with one formula in place of the network."""
ELASTIC_KINDS = ("job-set/1", "dl2-window/1", "job-priority/1")
"""Kinds of policies that divide a cluster of workers and PSs among jobs, slot by slot."""


@dataclass(frozen=True)
class Contender:
    """A scheduler of the study.

    Parameters
    ----------
    entry
        What is run.
    role
        What it stands for: what is learned, the rules it is to beat, the same decoder without
        learning, or the exact optimum of each round.
    """

    entry: Entry
    role: Role

    @property
    def label(self) -> str:
        """Name for people."""
        return self.entry.label


GREEDY = (
    Entry("optimus"),
    Entry("drf"),
    Entry("srtf-dl2"),
    Entry("srtf"),
    Entry("tetris"),
    Entry("fifo"),
)
"""The rules without learning and without search."""
EXACT = (Entry("exact-remaining-time"), Entry("exact-progress"))
"""The exact optimum of each round: of the drop in remaining time, and of DL2's reward."""

EXPECTED: Mapping[str, tuple[str, str]] = {
    "our set policy": ("job-set/1", "set-policy"),
    "DL2 as published": ("dl2-window/1", "dl2"),
    "DL2 by reinforcement only": ("dl2-window/1", "dl2-rl-only"),
    "DL2's network taught by the optimum": ("dl2-window/1", "window-policy"),
}
"""What the study asks for: kind and name on the shelf. One that is not there is named as absent."""
DRAWN = ("dl2", "dl2-rl-only")
"""Policies that draw their actions, as DL2's own evaluation does: the likeliest do far worse."""


def learned(shelf: Mapping[str, Path] | None = None) -> tuple[Contender, ...]:
    """Return the policies on alloc's shelf that divide a cluster among elastic jobs.

    Parameters
    ----------
    shelf
        Name to file; alloc's own by default.
    """
    found = []
    for name, path in (shipped_policies() if shelf is None else shelf).items():
        if read_policy(path).spec.kind in ELASTIC_KINDS:
            entry = Entry(
                str(path) if shelf is not None else name, {"sample": True} if name in DRAWN else {}
            )
            found.append(Contender(Entry.of(entry), "learned"))
    return tuple(found)


def absent(contenders: Sequence[Contender]) -> tuple[str, ...]:
    """Return what the study asks for and the shelf does not have yet, in words."""
    # A policy that draws says so behind its name: "dl2(sample=true)".
    names = {contender.entry.name.partition("(")[0] for contender in contenders}
    return tuple(
        f"{what} (`{name}`, kind {kind})"
        for what, (kind, name) in EXPECTED.items()
        if name not in names
    )


def contenders() -> tuple[Contender, ...]:
    """Return everyone, the learned first."""
    return (
        *learned(),
        Contender(Entry(RULE), "no-learning"),
        *(Contender(entry, "greedy") for entry in GREEDY),
        *(Contender(entry, "exact") for entry in EXACT),
    )
