"""The DL2 policy that alloc ships: it runs in the base install, as its card says."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from alloc.errors import UnsupportedFeatureError
from alloc.instances import generate_elastic
from alloc.schedulers import make_scheduler
from alloc.schedulers.shelf import shipped_policies
from alloc.simulation import simulate

TRACE = generate_elastic(
    "as trained on",
    num_jobs=60,
    num_hosts=48,
    max_workers=16,
    max_ps=16,
    arrivals="uniform",
    arrivals_per_slot=3.0,
    max_epochs=3900,
    seed=200_001,
)
"""A held-out trace of the world that it was trained in."""


def mean_jct_slots(name: str, **options: object) -> float:
    """Return the mean completion time on the trace, slots."""
    result = simulate(TRACE, make_scheduler(name, **options), rng=0)
    times = [(result.completion_s[job.id] or np.inf) - job.arrival_s for job in TRACE.jobs]
    return float(np.mean(times)) / 1200.0


def test_it_stands_where_its_card_puts_it() -> None:
    """Between DRF and Optimus; drawn actions, as DL2 is judged, do better than the likeliest."""
    assert "dl2" in shipped_policies()
    drawn, likeliest = mean_jct_slots("dl2", sample=True), mean_jct_slots("dl2")
    assert mean_jct_slots("optimus") < drawn < likeliest < mean_jct_slots("drf")


def test_its_card_names_the_command_that_trains_it_again() -> None:
    """Seed, settings and the validation curve that its weights were chosen on."""
    scheduler = make_scheduler("dl2")
    card = scheduler.policy.card  # type: ignore[attr-defined]
    assert card.command == "alloc train dl2 --seed 6 --set validate_every=200 --output DIR"
    assert card.seeds == (6,)
    lowest = min(card.curve, key=lambda point: point.value)
    assert f"update {lowest.step:g}" in card.data
    assert scheduler.policy.spec.parameters["max_tasks"] == 16  # type: ignore[attr-defined]


def test_it_runs_without_pytorch() -> None:
    """A process in which PyTorch cannot be imported decides all the same."""
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from alloc.instances import load\n"
        "from alloc.schedulers import make_scheduler\n"
        "from alloc.simulation import simulate\n"
        "print(len(simulate(load('elastic-small/01'), make_scheduler('dl2')).unfinished))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout == "0\n", done.stderr


def test_work_must_be_known() -> None:
    """Its window shows what remains of a job: with nothing known it is refused in one sentence."""
    with pytest.raises(UnsupportedFeatureError, match="dl2"):
        simulate(TRACE, make_scheduler("dl2"), knowledge="none")
