"""The teacher: grants of any scheduler, in its order, as the network would have seen them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dl2_tiny import WORLD

from alloc.learning.dl2.teacher import Teacher
from alloc.schedulers import make_scheduler
from alloc.schedulers.learned.window_features import WindowFeatures
from alloc.simulation import Simulation, simulate

FEATURES = WindowFeatures(window=6, max_tasks=8)
# Tables beyond what the cluster holds: no job is ever full, so columns keep their jobs.
TRACE = replace(WORLD, max_tasks=8, max_epochs=2000).training(0, 0)
TYPE, SLOTS, LEFT, SHARE, WORKERS, SERVERS = range(6)


def lessons(
    name: str,
    features: WindowFeatures = FEATURES,
    *,
    from_pairs: bool = False,
    shuffled: bool = False,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return observations and labels of each slot of the trace."""
    teacher = Teacher(name, features, from_pairs=from_pairs, shuffled=shuffled)
    teacher.begin(TRACE)
    rng = np.random.default_rng(0)
    found = []
    while not teacher.over:
        states, labels = teacher.play_slot(rng)
        found.append((states.reshape(-1, *features.shape), labels))
    return found


def decided(name: str) -> list[dict[str, tuple[int, int]]]:
    """Return the workers and PSs of each job in each slot."""
    simulation, scheduler = Simulation(TRACE), make_scheduler(name)
    found = []
    while (state := simulation.next_decision()) is not None:
        decision = scheduler.decide(state)
        found.append(
            {
                a.job: (
                    sum(t.count for t in a.tasks if t.role == "worker"),
                    sum(t.count for t in a.tasks if t.role == "ps"),
                )
                for a in decision.assign
            }
        )
        simulation.apply(decision)
    return found


@pytest.mark.parametrize("name", ["drf", "fifo", "srtf-dl2", "tetris", "optimus", "random-ps"])
def test_the_grants_of_a_rule_lead_to_its_decision(name: str) -> None:
    """Counted up, the labels give each job what the scheduler gave it, slot by slot."""
    slots = lessons(name)
    assert len(slots) == len(decided(name)) == len(simulate(TRACE, make_scheduler(name)).decision_s)
    for (states, labels), wanted in zip(slots, decided(name), strict=True):
        granted = labels.sum(axis=0)[:-1].reshape(-1, 3)
        totals = sorted((int(w), int(u)) for w, u, _ in granted if w or u)
        assert totals == sorted(wanted.values())
        # The released code begins from nothing.
        assert not states[0, WORKERS].any()
        assert not states[0, SERVERS].any()


def test_drf_is_taught_as_worker_and_ps_in_turn() -> None:
    """The released code breaks each bundle up: never a bundle, never an end of the slot."""
    for _, labels in lessons("drf"):
        steps = labels.argmax(axis=1) % 3
        assert steps.tolist() == [0, 1] * (len(steps) // 2)
        assert (labels.sum(axis=1) == 1).all()
        assert not labels[:, -1].any()


def test_each_observation_shows_what_was_granted_before() -> None:
    """The k-th is the one before it plus its label: or the network learns from wrong states."""
    for states, labels in lessons("drf"):
        for before, after, label in zip(states, states[1:], labels, strict=False):
            change = after - before
            column, step = divmod(int(label.argmax()), 3)
            wanted = np.zeros_like(change[[WORKERS, SERVERS]])
            wanted[step, column] = 1
            visible = after[TYPE] > 0
            if (before[TYPE] == after[TYPE]).all():
                np.testing.assert_array_equal(change[[WORKERS, SERVERS]], wanted)
                assert change[SHARE, column] != 0 or before[SHARE, column] != 0
            assert visible.any()


def test_shares_of_the_slot_before_are_still_shown() -> None:
    """The released code clears tasks at the start of a slot, but not the dominant shares."""
    slots = lessons("drf")
    assert not slots[0][0][0, SHARE].any()
    assert slots[1][0][0, SHARE].any()
    # From pairs they are what the pair holds.
    states = lessons("drf", from_pairs=True)[1][0]
    np.testing.assert_array_equal(states[0, WORKERS] > 0, states[0, SHARE] > 0)


def test_shuffled_columns_show_the_same_jobs_elsewhere() -> None:
    """Columns are dealt anew for each grant, and the label goes with its job."""
    plain, dealt = lessons("drf"), lessons("drf", shuffled=True)
    moved = 0
    for (states, labels), (other, others) in zip(plain, dealt, strict=True):
        for a, b, label, its in zip(states, other, labels, others, strict=True):
            assert sorted(map(tuple, a.T)) == sorted(map(tuple, b.T))
            column, step = divmod(int(label.argmax()), 3)
            its_column, its_step = divmod(int(its.argmax()), 3)
            assert step == its_step
            np.testing.assert_array_equal(a[:, column], b[:, its_column])
            moved += column != its_column
    assert moved > 10


def test_a_grant_out_of_view_has_no_label() -> None:
    """With one column the others' grants are rows of 0, as in the released code."""
    narrow = WindowFeatures(window=1, max_tasks=8)
    rows = np.concatenate([labels.sum(axis=1) for _, labels in lessons("drf", narrow)])
    assert set(rows.tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("name", ["exact-remaining-time", "optimus"])
def test_from_pairs_the_lesson_begins_and_ends_as_the_network_will_see_it(name: str) -> None:
    """Every job with its pair at first; at last, with steps left, the end of the slot."""
    slots = lessons(name, from_pairs=True)
    ended = 0
    for (states, labels), wanted in zip(slots, decided(name), strict=True):
        present = states[0, TYPE] > 0
        assert (states[0, WORKERS] == present).all()
        assert (labels.sum(axis=1) == 1).all()
        ended += int(labels[-1, -1])
        # Granted on top of the pair: what the teacher gave beyond it.
        steps = labels[:, :-1].sum(axis=0).reshape(-1, 3)
        more = sum(max(w - 1, 0) + max(u - 1, 0) for w, u in wanted.values())
        assert steps[:, 0].sum() + steps[:, 1].sum() + 2 * steps[:, 2].sum() == more
    assert ended > 0


def test_the_optimum_is_taken_apart_by_gain() -> None:
    """The best step first: rates in view never fall behind those of a worse order at its start."""
    states, labels = lessons("exact-remaining-time", from_pairs=True)[0]
    simulation = Simulation(TRACE)
    state = simulation.next_decision()
    assert state is not None
    column, step = divmod(int(labels[0].argmax()), 3)
    view = list(state.jobs)[column]
    rates = {(c.num_tasks("worker"), c.num_tasks("ps")): c.rate for c in view.configurations}
    after = {0: (2, 1), 1: (1, 2), 2: (2, 2)}[step]
    gain = (rates[after] - rates[1, 1]) / view.work_left / (2 if step == 2 else 1)
    assert gain > 0
    assert states.shape[0] == labels.shape[0]
