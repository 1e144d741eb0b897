"""The reward audit: its maximisers against trying everything, and what its verdicts follow from."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from alloc import Configuration, HostType, Instance, Job, TaskGroup
from alloc.errors import InstanceError
from alloc.learning.reward_audit import (
    Audit,
    AuditRow,
    audit_reward,
    audited_reward,
    maximise_return,
)
from alloc.learning.reward_audit.measuring import earn
from alloc.learning.reward_audit.return_model import Maximiser
from alloc.learning.reward_audit.schedulers import Replay, SlotMaximiser
from alloc.schedulers import make_scheduler
from alloc.topology import flat_cluster

SLOT_S = 100.0


def gpus(count: int, rate: float) -> Configuration:
    return Configuration((TaskGroup("worker", count, 1000),), rate)


@pytest.fixture
def crowded() -> Instance:
    """Three jobs on two GPUs: a long one that scales, a short one, and one that comes later."""
    scales = (gpus(1, 1.0), gpus(2, 1.9))
    stays = (gpus(1, 1.0), gpus(2, 1.1))
    jobs = (
        Job("long", 0.0, 390.0, scales),
        Job("short", 0.0, 150.0, stays),
        Job("late", 130.0, 120.0, stays, weight=3.0),
    )
    topology = flat_cluster("two GPUs", HostType("box", 2, "gpu"), 1)
    return Instance("crowded", topology, jobs, slot_s=SLOT_S)


Tried = tuple[float, float, float]


def by_trying(instance: Instance, base: str, gamma: float, slots: int = 9) -> Tried:
    """Return the largest return over all sequences of allocations; arithmetic of its own.

    With it the least and the greatest sum of stays among those that earn it, in slots.
    """
    jobs = instance.jobs
    room = int(instance.topology.capacity[:, 0].sum())
    first = [-int(-job.arrival_s // SLOT_S) for job in jobs]
    weight = [job.weight if base == "weighted-jct" else 1.0 for job in jobs]

    @cache
    def best(t: int, left: tuple[float, ...]) -> Tried:
        if not any(left) or t == slots:
            return (0.0 if not any(left) else float("-inf"), 0.0, 0.0)
        found = (float("-inf"), 0.0, 0.0)
        options = [
            [None, *job.configurations] if left[j] and first[j] <= t else [None]
            for j, job in enumerate(jobs)
        ]
        for chosen in itertools.product(*options):
            if sum(c.demand[0] for c in chosen if c is not None) > room:
                continue
            reward, stays, after = 0.0, 0.0, list(left)
            for j, c in enumerate(chosen):
                if not left[j] or first[j] > t:
                    continue
                done = 0.0 if c is None else min(c.rate * SLOT_S, left[j])
                after[j] = 0.0 if left[j] - done < 1e-9 else left[j] - done
                stay = 1.0 if after[j] or c is None else left[j] / c.rate / SLOT_S
                if t == first[j]:
                    stay += first[j] - jobs[j].arrival_s / SLOT_S
                stays += weight[j] * stay
                reward += {
                    "progress": done / jobs[j].work,
                    "completions": float(not after[j]),
                }.get(base, -weight[j] * stay)
            later, least, greatest = best(t + 1, tuple(after))
            value = gamma**t * reward + later
            if value > found[0] + 1e-9:
                found = (value, stays + least, stays + greatest)
            elif value > found[0] - 1e-9:
                found = (found[0], min(found[1], stays + least), max(found[2], stays + greatest))
        return found

    return best(0, tuple(job.work for job in jobs))


def largest_by_trying(instance: Instance, base: str, gamma: float) -> float:
    """Return the largest return over all sequences of allocations."""
    return by_trying(instance, base, gamma)[0]


CASES = [
    ("discounted-progress", 0.9),
    ("discounted-progress", 0.5),
    ("completions", 0.9),
    ("jobs-in-system", 0.9),
    ("jobs-in-system", 1.0),
    ("weighted-jct", 0.8),
]


@pytest.mark.parametrize(("name", "gamma"), CASES)
def test_the_maximiser_earns_what_trying_everything_earns(
    crowded: Instance, name: str, gamma: float
) -> None:
    """The whole audit stands on this number, and the simulator must pay it out."""
    reward = audited_reward(name, gamma)
    found = maximise_return(crowded, reward, time_limit_s=20)
    assert found is not None
    assert found.proved
    assert found.value == pytest.approx(largest_by_trying(crowded, reward.base, gamma), rel=1e-5)
    paid = earn(crowded, Replay(found.schedule, "maximiser"), reward)
    assert paid.value == pytest.approx(found.value, rel=1e-6)


def test_no_scheduler_earns_more_than_the_maximiser(crowded: Instance) -> None:
    reward = audited_reward("discounted-progress", 0.9)
    found = maximise_return(crowded, reward, time_limit_s=20)
    assert found is not None
    for name in ("fifo", "srtf-dl2", "drf", "optimus", "exact-progress"):
        assert earn(crowded, make_scheduler(name), reward).value <= found.bound + 1e-6


def test_ties_are_broken_for_and_against_the_completion_time() -> None:
    """Two equal jobs on one GPU: slots in turn or one job after the other earn the same."""
    one = (gpus(1, 1.0),)
    jobs = tuple(Job(f"job-{j}", 0.0, 200.0, one) for j in range(2))
    topology = flat_cluster("one GPU", HostType("box", 1, "gpu"), 1)
    instance = Instance("two", topology, jobs, slot_s=SLOT_S)
    reward = audited_reward("discounted-progress", 0.9)
    stays = {}
    for ties in ("best", "worst"):
        found = maximise_return(instance, reward, ties=ties, time_limit_s=20)
        assert found is not None
        assert found.proved
        stays[ties] = earn(instance, Replay(found.schedule, ties), reward).mean_jct
    assert stays["best"] == pytest.approx((2 + 4) / 2)  # one after the other
    assert stays["worst"] == pytest.approx((3 + 4) / 2)  # in turn


@pytest.fixture
def slow_or_fast() -> Instance:
    """A job whose two configurations complete it in the same slot, early or late in it."""
    jobs = (Job("only", 0.0, 193.0, (gpus(1, 1.0), gpus(2, 1.3))),)
    topology = flat_cluster("two GPUs", HostType("box", 2, "gpu"), 1)
    return Instance("slow or fast", topology, jobs, slot_s=SLOT_S)


def two_on_two_gpus(name: str, *jobs: tuple[float, float, float]) -> Instance:
    """Two jobs of some work that each run on one GPU or on both, at these rates."""
    made = (
        Job(f"job-{j}", 0.0, work, (gpus(1, slow), gpus(2, fast)))
        for j, (work, slow, fast) in enumerate(jobs)
    )
    topology = flat_cluster("two GPUs", HostType("box", 2, "gpu"), 1)
    return Instance(name, topology, tuple(made), slot_s=SLOT_S)


@pytest.fixture
def even() -> Instance:
    """Jobs of exactly one slot: complete at its end, and not unfinished within a tolerance."""
    return two_on_two_gpus("even", (100.0, 0.5, 1.0), (120.0, 0.7, 1.2))


@pytest.fixture
def two_slots() -> Instance:
    """Jobs of exactly two slots, alone or in turn."""
    return two_on_two_gpus("two slots", (200.0, 0.5, 1.0), (380.0, 0.6, 1.9))


@pytest.mark.parametrize("instance", ["crowded", "slow_or_fast", "even", "two_slots"])
@pytest.mark.parametrize(
    ("name", "gamma"), [("discounted-progress", 0.7), ("completions", 0.8), ("completions", 0.99)]
)
def test_ties_are_what_trying_everything_finds(
    instance: str, name: str, gamma: float, request: pytest.FixtureRequest
) -> None:
    """A worst tie must be one that the simulator pays, not one that idles within a slot."""
    case = request.getfixturevalue(instance)
    reward = audited_reward(name, gamma)
    _, least, greatest = by_trying(case, reward.base, gamma)
    for ties, stays in (("best", least), ("worst", greatest)):
        found = maximise_return(case, reward, ties=ties, time_limit_s=20)  # type: ignore[arg-type]
        assert found is not None
        assert found.proved
        paid = earn(case, Replay(found.schedule, ties), reward).mean_jct
        assert paid == pytest.approx(stays / len(case.jobs), abs=1e-4)
        assert found.mean_jct == pytest.approx(paid, abs=1e-4)


def test_a_promise_that_the_simulator_does_not_keep_is_no_proof(
    slow_or_fast: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit says "proved" of what was measured, not of what a program says."""
    kept = audit_reward([slow_or_fast], audited_reward("completions", 0.8), ties=True)
    worst = kept.row("maximiser, worst ties")
    assert worst is not None
    assert worst.proved == 1

    def overstated(*args: Any, **options: Any) -> Maximiser:
        found = maximise_return(*args, **options)
        assert found is not None
        return replace(found, mean_jct=None if found.mean_jct is None else found.mean_jct + 0.1)

    monkeypatch.setattr("alloc.learning.reward_audit.audit.maximise_return", overstated)
    broken = audit_reward([slow_or_fast], audited_reward("completions", 0.8), ties=True)
    worst = broken.row("maximiser, worst ties")
    assert worst is not None
    assert worst.proved == 0


def test_undiscounted_progress_is_told_to_be_constant(crowded: Instance) -> None:
    """The trap of the reward: its sum over an episode is the number of jobs."""
    audit = audit_reward([crowded], audited_reward("discounted-progress", 1.0), teacher="fifo")
    assert audit.constant
    assert audit.blame == "reward"
    assert audit.maximiser is None
    assert all(value == pytest.approx(3.0) for row in audit.rows for value in row.value)
    assert "cannot tell a good schedule from a bad one" in audit.verdict


def test_the_aligned_reward_has_the_optimum_as_its_maximiser(crowded: Instance) -> None:
    audit = audit_reward([crowded], audited_reward("jobs-in-system"), teacher="drf")
    assert audit.maximiser is not None
    assert audit.maximiser.mean_gap == pytest.approx(0.0, abs=1e-4)
    assert "asks for the optimum itself" in audit.verdict


def test_the_maximiser_of_single_slots_agrees_with_the_exact_round(crowded: Instance) -> None:
    """Two ways to the same knapsack: the registered scheduler and the audit's own."""
    reward = audited_reward("progress")
    mine = earn(crowded, SlotMaximiser(reward), reward)
    even = crowded.replace(jobs=tuple(job.replace(weight=1.0) for job in crowded.jobs))
    theirs = earn(even, make_scheduler("exact-progress"), reward)
    assert mine.mean_jct == pytest.approx(theirs.mean_jct)


@pytest.mark.parametrize("name", ["completions", "jobs-in-system", "weighted-jct"])
def test_single_slots_of_any_reward_come_to_an_end(crowded: Instance, name: str) -> None:
    """Where no job can complete in the slot the reward is indifferent; idling would never end."""
    reward = audited_reward(name, 0.0)
    slots = SlotMaximiser(reward)
    assert earn(crowded, slots, reward).mean_jct > 0
    assert slots.num_proved == slots.num_slots


def row(role: str, gap: float) -> AuditRow:
    return AuditRow(role, role, (1 + gap / 100,), (gap,), (1.0,))


@pytest.mark.parametrize(
    ("exact", "agent", "imitation", "blame"),
    [
        (30.0, 40.0, None, "reward"),
        (5.0, 40.0, None, "network or training"),
        (5.0, 40.0, 35.0, "network"),
        (5.0, 40.0, 8.0, "training"),
        (0.1, 0.5, None, "nobody"),
        (5.0, None, None, "open"),
    ],
)
def test_blame_follows_the_shares_of_the_gap(
    exact: float, agent: float | None, imitation: float | None, blame: str
) -> None:
    rows = [row("optimum", 0.0), row("maximiser", exact)]
    rows += [row("agent", agent)] if agent is not None else []
    rows += [row("imitation", imitation)] if imitation is not None else []
    audit = Audit(audited_reward("progress"), ("one",), tuple(rows), False)
    assert audit.blame == blame
    assert f"{exact:+.1f} %" in audit.verdict


def test_what_cannot_be_audited_is_refused(crowded: Instance) -> None:
    with pytest.raises(InstanceError, match="did you mean"):
        audited_reward("discounted-progres")
    with pytest.raises(InstanceError, match="from 0"):
        audited_reward("progress", 1.5)
    with pytest.raises(InstanceError, match="looks at each slot by itself"):
        maximise_return(crowded, audited_reward("progress"))
    with pytest.raises(InstanceError, match="no instance"):
        audit_reward([], audited_reward("progress"))
    continuous = crowded.replace(slot_s=None)
    with pytest.raises(InstanceError, match="slots"):
        audit_reward([continuous], audited_reward("progress"))
