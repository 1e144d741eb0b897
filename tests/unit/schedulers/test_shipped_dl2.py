"""The policies with DL2's window that alloc ships: they do what their cards say."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from alloc.errors import UnsupportedFeatureError
from alloc.instances import generate_elastic
from alloc.schedulers import make_scheduler
from alloc.schedulers.learned import PolicyFile, read_policy
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
"""A held-out trace of the world that they were trained in."""

WINDOWED = ("dl2", "dl2-rl-only", "window-policy")


def mean_jct_slots(name: str, **options: object) -> float:
    """Return the mean completion time on the trace, slots."""
    result = simulate(TRACE, make_scheduler(name, **options), rng=0)
    times = [(result.completion_s[job.id] or np.inf) - job.arrival_s for job in TRACE.jobs]
    return float(np.mean(times)) / 1200.0


def shipped(name: str) -> PolicyFile:
    """Return a policy on the shelf."""
    return read_policy(shipped_policies()[name])


@pytest.mark.long
def test_they_stand_where_their_cards_put_them() -> None:
    """Between Optimus and DRF; drawn actions, as DL2 is judged, do better than the likeliest."""
    optimus, drf = mean_jct_slots("optimus"), mean_jct_slots("drf")
    taught = mean_jct_slots("window-policy")
    dl2, alone = (mean_jct_slots(name, sample=True) for name in ("dl2", "dl2-rl-only"))
    assert optimus < taught < alone < dl2 < drf
    assert dl2 < mean_jct_slots("dl2") < drf
    assert alone < mean_jct_slots("dl2-rl-only") < drf


@pytest.mark.parametrize(
    ("name", "seed", "command"),
    [
        ("dl2", 6, "alloc train dl2 --seed 6 --set validate_every=200 --output DIR"),
        (
            "dl2-rl-only",
            2,
            "alloc train dl2 --seed 2 --preset released --ablation no-supervised "
            "--set validate_every=200 --name dl2-rl-only --output dl2-rl-only",
        ),
        (
            "window-policy",
            0,
            "alloc train window-policy --teacher exact-progress --iterations 12 "
            "--encoding released --seed 0 --name window-policy --output window-policy",
        ),
    ],
)
def test_a_card_names_the_command_that_trains_it_again(name: str, seed: int, command: str) -> None:
    """Seed, settings and the world that its window belongs to."""
    policy = shipped(name)
    assert policy.card.command == command
    assert policy.card.seeds == (seed,)
    assert policy.spec.kind == "dl2-window/1"
    assert policy.spec.parameters["max_tasks"] == 16
    assert policy.spec.parameters == shipped("dl2").spec.parameters


@pytest.mark.parametrize("name", ["dl2", "dl2-rl-only"])
def test_a_card_says_which_weights_were_kept(name: str) -> None:
    """Those with the lowest validation on its curve."""
    card = shipped(name).card
    lowest = min(card.curve, key=lambda point: point.value)
    assert f"update {lowest.step:g})" in card.data
    assert ("supervised" in card.data) == (name == "dl2")


@pytest.mark.long
def test_they_run_without_pytorch() -> None:
    """A process in which PyTorch cannot be imported decides all the same."""
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from alloc.instances import load\n"
        "from alloc.schedulers import make_scheduler\n"
        "from alloc.simulation import simulate\n"
        f"for name in {WINDOWED}:\n"
        "    print(len(simulate(load('elastic-small/01'), make_scheduler(name)).unfinished))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout == "0\n0\n0\n", done.stderr


@pytest.mark.parametrize("name", WINDOWED)
def test_work_must_be_known(name: str) -> None:
    """Its window shows what remains of a job: with nothing known it is refused in one sentence."""
    with pytest.raises(UnsupportedFeatureError, match=f"{name} needs"):
        simulate(TRACE, make_scheduler(name), knowledge="none")
