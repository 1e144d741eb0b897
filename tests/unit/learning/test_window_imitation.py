"""DL2's network learned from the optimum: labels, DAgger, resumed to the same result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import need_torch

from alloc.errors import InstanceError
from alloc.schedulers import make_scheduler
from alloc.schedulers.learned import read_policy
from alloc.schedulers.learned.window import WindowSlot
from alloc.simulation import Simulation, simulate

pytestmark = need_torch()

import torch  # noqa: E402

from alloc.learning.dl2 import DL2World, preset  # noqa: E402
from alloc.learning.dl2.networks import DenseForward  # noqa: E402
from alloc.learning.imitation import windowed  # noqa: E402
from alloc.learning.imitation.windowed import (  # noqa: E402
    WindowPlan,
    WindowTraining,
    load_shown,
    next_step,
    play,
    targets_of,
)
from alloc.learning.publishing import publish  # noqa: E402
from alloc.learning.training import CHECKPOINT, load_checkpoint, train  # noqa: E402

SMALL = preset(
    "released",
    world=DL2World(num_jobs=8, num_hosts=4, max_tasks=4, max_epochs=3000),
    window=8,
    hidden=(16,),
    validation_traces=2,
)
PLAN = WindowPlan(dl2=SMALL, iterations=3, traces=2, updates=30, batch=32)


def outcome(folder: Path) -> tuple[dict[str, torch.Tensor], list[object]]:
    kept = load_checkpoint(folder / CHECKPOINT)
    return kept["state"]["network"], kept["curve"]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training in one go."""
    folder = tmp_path_factory.mktemp("window")
    train(WindowTraining(folder, PLAN), folder)
    return folder


def test_the_teachers_steps_lead_to_the_teachers_decision() -> None:
    """Step by step, every job in view ends with what the optimum gives it, or its first pair."""
    teacher = make_scheduler("exact-progress")
    simulation = Simulation(SMALL.world.training(0, 1), decider="pupil")
    slot = WindowSlot(SMALL.features, name="pupil")
    slots = 0
    while (state := simulation.next_decision()) is not None and slots < 6:
        targets = targets_of(teacher, state)
        slot.open(state)
        while slot.has_moves and (wanted := next_step(slot, targets)) != slot.features.end_slot:
            if not slot.mask[wanted] or slot.act(wanted).value != "granted":
                break
        for job in slot.jobs:
            workers, servers = targets.get(job.view.id, (0, 0))
            assert job.workers <= max(workers, 1)
            assert job.servers <= max(servers, 1)
        simulation.apply(slot.close())
        slots += 1
    assert slots == 6


def test_with_the_teachers_steps_a_trace_goes_as_well_as_the_teacher() -> None:
    """The first iteration shows states of a good policy, all of them labelled and allowed."""
    trace = SMALL.world.training(0, 2)
    shown = play(trace, make_scheduler("exact-progress"), WindowSlot(SMALL.features), None, 100)
    assert len(shown.actions) > 20
    assert shown.masks[np.arange(len(shown.actions)), shown.actions].all()
    assert (shown.actions == SMALL.features.end_slot).any()


def test_labels_are_for_the_states_that_the_network_comes_to() -> None:
    """An untrained network leads elsewhere than the teacher: that is the point of DAgger."""
    trace, slot = SMALL.world.training(0, 2), WindowSlot(SMALL.features)
    untrained = DenseForward(WindowTraining("unused", PLAN).network)
    taught = play(trace, make_scheduler("exact-progress"), slot, None, 100)
    own = play(trace, make_scheduler("exact-progress"), slot, untrained, 12)
    seen = {row.tobytes() for row in taught.states}
    assert sum(row.tobytes() not in seen for row in own.states) > 0.5 * len(own.states)


@pytest.mark.long
def test_rollouts_on_workers_train_the_same_weights(straight: Path, tmp_path: Path) -> None:
    """Each trace is played by itself."""
    train(WindowTraining(tmp_path, PLAN), tmp_path, jobs=2)
    network, curve = outcome(tmp_path)
    ours, our_curve = outcome(straight)
    assert curve == our_curve
    assert all(torch.equal(ours[name], network[name]) for name in ours)


def test_interrupted_it_ends_in_the_same_weights(
    straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each iteration, and in the middle of each."""
    left = 0

    def save(*arguments: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        windowed_save(*arguments)

    windowed_save = windowed.save_shown
    monkeypatch.setattr(windowed, "save_shown", save)
    for _ in range(20):
        left = 1
        try:
            train(WindowTraining(tmp_path, PLAN), tmp_path)
            break
        except KeyboardInterrupt:
            continue
    (ours, our_curve), (theirs, their_curve) = outcome(straight), outcome(tmp_path)
    assert our_curve == their_curve
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_imitation_learns_the_teachers_steps(straight: Path, tmp_path: Path) -> None:
    """With enough updates on the same states the network says what the teacher says."""
    losses = []
    for updates in (2, 600):
        folder = tmp_path / str(updates)
        train(WindowTraining(folder, replace(PLAN, iterations=1, updates=updates)), folder)
        losses.append(load_checkpoint(folder / CHECKPOINT)["curve"][0]["loss"])
    assert losses[1] < 0.6 * losses[0]
    rows = load_checkpoint(straight / CHECKPOINT)["curve"]
    assert [row["states"] for row in rows] == sorted(row["states"] for row in rows)


def test_the_policy_file_runs_like_any_other(straight: Path, tmp_path: Path) -> None:
    """Published, read and simulated without PyTorch in the loop."""
    done = WindowTraining(straight, PLAN)
    train(done, straight)
    path = tmp_path / "w.onnx"
    policy = publish(done, path, name="w", command="alloc train", hours=0.1)
    assert read_policy(policy.path).card.curve_value == "mean JCT, slots"
    result = simulate(SMALL.world.held_out(1)[0], make_scheduler(str(path)))
    assert result.unfinished == ()
    fresh = WindowTraining(tmp_path, PLAN)
    with pytest.raises(InstanceError, match="nothing has been trained"):
        publish(fresh, tmp_path / "x.onnx", name="x", command="", hours=0.0)


def test_wrong_plans_and_damaged_states_are_refused(tmp_path: Path) -> None:
    """In one sentence."""
    with pytest.raises(InstanceError, match="iterations"):
        WindowPlan(iterations=0)
    with pytest.raises(InstanceError, match="unknown scheduler"):
        WindowTraining(tmp_path, WindowPlan(dl2=SMALL, teacher="exakt"))
    path = tmp_path / "states.npz"
    path.write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(InstanceError, match="cannot be read as labelled states"):
        load_shown(path)
