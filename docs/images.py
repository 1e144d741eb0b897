"""The picture of the README, made from the code: run ``python docs/images.py``.

A test holds the numbers in it to the schedulers and to the stored optimum.
"""

from __future__ import annotations

import sys
from pathlib import Path

import alloc
from alloc.cli.demo import DEMO_INSTANCE, DEMO_SCHEDULERS
from alloc.comparison.intervals import Interval
from alloc.instances import load, manifest
from alloc.objectives import objective
from alloc.plotting import new_figure, plot_gaps
from alloc.plotting.figures import svg_text
from alloc.schedulers import make_scheduler

PICTURE = Path(__file__).parent / "images" / "gaps.svg"


def gaps() -> dict[str, Interval]:
    """Return how far each scheduler of the demo is from the proved optimum."""
    instance = load(DEMO_INSTANCE)
    optimum = next(entry.lower for entry in manifest() if entry.id == DEMO_INSTANCE)
    assert optimum is not None
    measure = objective("weighted_jct")
    found = {"optimum": Interval(0.0, None, None, 1)}
    for name in DEMO_SCHEDULERS:
        run = alloc.simulate(instance, make_scheduler(name))
        gap = measure.evaluate(instance, run.schedule) / optimum.value - 1.0
        found[name] = Interval(gap, None, None, 1)
    return found


def picture() -> str:
    """Return the picture as SVG on white, which pages dark and light show alike."""
    figure = new_figure(7.0, 3.2)
    title = "Ten elastic training jobs on 12 GPUs: weighted job completion time"
    plot_gaps(gaps(), title=title, ax=figure.add_subplot())
    text = svg_text(figure)
    end = text.index(">", text.index("<svg")) + 1
    return f'{text[:end]}\n <rect width="100%" height="100%" fill="white"/>{text[end:]}'


def main(path: Path) -> None:
    """Write the picture."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
