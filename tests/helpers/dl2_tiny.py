"""A training of DL2 that takes a second, for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from alloc.learning.dl2.settings import DL2Settings, changed, preset
from alloc.learning.dl2.world import DL2World

WORLD = DL2World(num_jobs=6, num_hosts=3, max_tasks=4, max_epochs=400)
"""Six jobs on three servers; a trace takes about ten slots."""

SMALL: dict[str, Any] = {
    "world": WORLD,
    "training_traces": 3,
    "validation_traces": 2,
    "held_out_traces": 2,
    "window": 4,
    "hidden": (8,),
    "supervised_updates": 8,
    "supervised_kept": 5,
    "updates": 16,
    "batch": 8,
    "replay": 32,
    "validate_every": 8,
}


def tiny(name: str = "released", *ablations: str, **changes: Any) -> DL2Settings:
    """Return a preset with ablations, in a world and of a length for tests."""
    chosen = preset(name, *ablations)
    short: dict[str, Any] = {k: v for k, v in SMALL.items() if k != "world"}
    if not chosen.supervised_updates:
        short |= {"supervised_updates": 0, "supervised_kept": 0}
    if not chosen.updates:
        short |= {"updates": 0, "supervised_kept": short["supervised_updates"]}
    return changed(replace(chosen, world=WORLD), short | changes)
