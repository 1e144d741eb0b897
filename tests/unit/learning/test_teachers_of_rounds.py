"""Teachers: their labels are the optimum, and nothing but the optimum."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from needs import need_torch
from set_policies import ByHand

from alloc.errors import InstanceError
from alloc.instances.learning_worlds import BASE, TINY
from alloc.schedulers.learned.job_set import JobSetDecider, JobSetRound
from alloc.schedulers.state import ClusterState, Decision, Knowledge
from alloc.simulation import simulate

pytestmark = need_torch()

from alloc.learning.imitation.rounds import (  # noqa: E402
    LabelledRound,
    load_rounds,
    save_rounds,
)
from alloc.learning.imitation.teachers import HorizonTeacher, RoundTeacher  # noqa: E402

CROWD = replace(BASE, num_jobs=12, num_hosts=3, max_tasks=6, load=1000.0)


class Asking:
    """Lets a teacher label every round; itself decides by hand."""

    name = "asking"
    needs: Knowledge = "exact"
    information = "all"
    features = JobSetDecider.features

    def __init__(self, *teachers: RoundTeacher | HorizonTeacher) -> None:
        self.inner = JobSetDecider(ByHand(), "by hand")
        self.teachers = teachers
        self.labels: list[list[LabelledRound]] = []
        self.rounds: list[JobSetRound] = []

    def reset(self) -> None:
        self.inner.reset()

    def decide(self, state: ClusterState) -> Decision:
        round_ = self.inner.look(state)
        found = [teacher.label(state, round_) for teacher in self.teachers]
        self.labels.append([one for one in found if one is not None])
        self.rounds.append(round_)
        column, score = round_.choose(ByHand()(round_.tensors))
        return self.inner.seat(state, round_, column, score)


def ask(*teachers: RoundTeacher | HorizonTeacher, slots: float = 1.0, seed: int = 1) -> Asking:
    asking = Asking(*teachers)
    instance = CROWD.make(seed)
    assert instance.slot_s is not None
    simulate(instance, asking, max_time_s=slots * instance.slot_s)
    return asking


def test_the_label_of_a_round_is_the_best_choice_under_its_prices() -> None:
    """Whoever runs takes about the best column under the dual prices, at the utility's own scale.

    The multipliers leave a core of a few jobs undecided (the LP has at most one split job a row).
    """
    label = ask(RoundTeacher()).labels[0][0]
    assert np.allclose(label.choice.sum(axis=1), 1.0)
    assert set(np.unique(label.choice)) <= {0.0, 1.0}
    # gamma is Optimus' drop in remaining time, the teacher's utility.
    net = label.terms[..., 2] - (label.share * label.prices).sum(axis=-1)
    best = np.maximum(net.max(axis=1), 0.0)
    taken = np.where(label.choice[:, -1] > 0, 0.0, (net * label.choice[:, :-1]).sum(axis=1))
    assert (best - taken > 1e-6 * best.max()).sum() <= 4


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_the_label_of_the_horizon_fits_the_cluster_and_pays_its_prices(seed: int) -> None:
    """A mixture of profiles that fits; a resource with a price is used up."""
    label = ask(HorizonTeacher(), seed=seed).labels[0][0]
    assert np.allclose(label.choice.sum(axis=1), 1.0, atol=1e-5)
    assert (label.choice >= -1e-6).all()
    used = np.einsum("jc,jcr->r", label.choice[:, :-1], np.minimum(label.share, 1.0))
    assert (used <= 1 + 1e-5).all()
    assert (label.prices >= 0).all()
    assert label.prices.max() > 0, "twelve jobs on three hosts compete"
    assert (used[label.prices > 1e-6] > 1 - 1e-5).all()


def test_with_one_job_the_horizon_gives_it_its_fastest_configuration() -> None:
    """Nothing competes, so the label is known without a solver."""
    alone = replace(TINY, num_jobs=1).make(3)
    asking = Asking(HorizonTeacher())
    simulate(alone, asking, max_time_s=1.0)
    label, round_ = asking.labels[0][0], asking.rounds[0]
    rate = round_.book.rate[round_.jobs.table[0]]
    slots = round_.jobs.left[0] / rate.max() / 1200.0
    assert slots > 1, "the first slot is used in full"
    assert label.choice[0].argmax() == rate.argmax()
    assert label.prices.max() == pytest.approx(0.0, abs=1e-9)


def test_labelled_rounds_survive_their_file(tmp_path: Path) -> None:
    """What is read is what was written, to the bit."""
    rounds = [label for labels in ask(RoundTeacher(), slots=3.0).labels for label in labels]
    save_rounds(tmp_path / "r.npz", rounds)
    again = load_rounds(tmp_path / "r.npz")
    assert len(again) == len(rounds) == 3
    for one, other in zip(rounds, again, strict=True):
        assert np.array_equal(one.terms, other.terms)
        assert np.array_equal(one.choice, other.choice)
    save_rounds(tmp_path / "none.npz", [])
    assert load_rounds(tmp_path / "none.npz") == []


def test_damaged_labels_are_refused_in_a_sentence(tmp_path: Path) -> None:
    """A training folder that lost a file cannot resume to the same result."""
    with pytest.raises(InstanceError, match="is not there; the training folder is not whole"):
        load_rounds(tmp_path / "gone.npz")
    path = tmp_path / "cut.npz"
    save_rounds(path, ask(RoundTeacher()).labels[0])
    whole = path.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:length])
        with pytest.raises(InstanceError, match="cannot be read as labelled rounds"):
            load_rounds(path)
