"""DL2's settings: what paper and code say, and what no training could do."""

from __future__ import annotations

import pytest

from alloc.errors import InstanceError
from alloc.learning.dl2.settings import (
    ABLATIONS,
    PRESETS,
    DL2Settings,
    changed,
    preset,
)
from alloc.learning.dl2.world import DL2World


def test_the_released_configuration_is_that_of_the_code() -> None:
    """The numbers of parameters.py and experiment.py; a slip here is a different experiment."""
    released = preset("released")
    assert (released.batch, released.replay, released.window) == (256, 8192, 20)
    assert (released.supervised_lr, released.lr, released.entropy) == (0.005, 0.0001, 0.1)
    assert (released.supervised_updates, released.supervised_kept, released.updates) == (
        200,
        100,
        6000,
    )
    assert released.features.shape == (6, 20)
    assert released.features.num_actions == 61
    # Two layers of two thirds of the 120 inputs.
    assert released.hidden == (80, 80)
    assert released.scale_shift
    assert released.discount == 0.0
    assert preset("released-experiment").hidden == (120,)


def test_the_paper_differs_from_the_code_where_we_say_so() -> None:
    """One-hot types, no first pair, 2 x 256, uniform replay, discount, its own exploration."""
    paper = preset("paper")
    assert paper.hidden == (256, 256)
    assert paper.features.shape == (8 + 5, 20)
    assert not paper.initial_bundle
    assert not paper.prioritised
    assert (paper.discount, paper.exploration, paper.exploration_share) == (0.9, "poor-states", 0.4)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("ablation", ABLATIONS)
def test_every_ablation_of_every_preset_is_a_setting_of_its_own(name: str, ablation: str) -> None:
    """Results are kept by fingerprint: two experiments must never share one."""
    if name == "paper" and ablation == "no-critic":
        with pytest.raises(InstanceError, match="without a critic"):
            preset(name, ablation)
        return
    if name == "paper" and ablation == "discounted":
        return  # the paper discounts anyway
    assert preset(name, ablation).fingerprint != preset(name).fingerprint


def test_changes_reach_the_world() -> None:
    """The command line sets any field, those of the world among them, from plain JSON values."""
    found = changed(DL2Settings(), {"world.num_hosts": 9, "hidden": [7], "entropy": 1})
    assert found.world.num_hosts == 9
    assert found.hidden == (7,)
    assert isinstance(found.entropy, float)
    assert found.to_dict()["world"]["num_hosts"] == 9


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"exploration": "rule"}, 'exploration "rule" is unknown; did you mean "rules"'),
        ({"reward": "jct"}, 'reward "jct" is unknown'),
        ({"supervised_loss": "mse"}, "supervised_loss"),
        ({"discount": 1.5}, "discount is 1.5; it must be 0 to 1"),
        ({"discount": 0.5, "critic": False}, "without a critic"),
        ({"batch": 0}, "batch"),
        ({"replay": 10}, "replay"),
        ({"hidden": []}, "hidden is"),
        ({"hidden": ["wide"]}, "give whole numbers"),
        ({"supervised_kept": 300}, "after the last of 200 supervised updates"),
        ({"supervised_updates": 0, "supervised_kept": 0, "updates": 0}, "train at least once"),
        ({"encoding": "raw"}, 'encoding "raw" is unknown'),
        ({"batches": 8}, 'have no "batches"; did you mean "batch"'),
        ({"world.hosts": 8}, 'have no "world.hosts"'),
        ({"updates": "many"}, "updates is 'many'; give int"),
        ({"critic": 1}, "critic is 1; give bool"),
        ({"world.num_jobs": 0}, "num_jobs"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, object], sentence: str) -> None:
    """In one sentence, before anything is trained."""
    with pytest.raises(InstanceError, match=sentence):
        changed(DL2Settings(), changes)


def test_unknown_names_are_refused_with_the_nearest() -> None:
    """Presets and ablations are typed by hand."""
    with pytest.raises(InstanceError, match='preset "release" is unknown; did you mean "released"'):
        preset("release")
    with pytest.raises(InstanceError, match='ablation "no-critics" is unknown'):
        preset("released", "no-critics")


def test_traces_to_train_choose_and_report_on_are_apart() -> None:
    """A trace that was trained on says nothing about one that was not."""
    world = DL2World(num_jobs=5, num_hosts=2, max_tasks=2)
    seen = [world.training(seed, k) for seed in (0, 1) for k in range(3)]
    every = [*seen, *world.validation(3), *world.held_out(3)]
    assert len({trace.fingerprint for trace in every}) == len(every)
    assert world.training(1, 2) == seen[5]


def test_traces_share_what_is_worked_out_for_cluster_and_speeds() -> None:
    """One topology and one table a model for all traces, also where the table is drawn."""
    for table in ("fit", "dips"):
        world = DL2World(num_jobs=12, num_hosts=2, max_tasks=4, table=table)
        first, second = world.held_out(2)
        assert first.topology is second.topology
        ways = {job.model: job.configurations for job in first.jobs}
        shared = [job for job in second.jobs if job.model in ways]
        assert shared
        assert all(job.configurations is ways[job.model] for job in shared)
    plain = DL2World(num_jobs=12, num_hosts=2, max_tasks=4).held_out(1)[0]
    assert [job.work for job in plain.jobs] == [job.work for job in first.jobs]
