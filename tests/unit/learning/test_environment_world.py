"""The environments show exactly the world that schedulers meet."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from small_worlds import BARE, GANGS, SMALL, elastic, play

from alloc.learning.environments import (
    ElasticAllocation,
    ElasticEpisodes,
    GangPlacement,
)
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import Decision, make_scheduler
from alloc.schedulers.drf import Drf
from alloc.schedulers.learned.domain_choice import DomainFeatures
from alloc.simulation import metrics_of, simulate
from alloc.verification import verify
from alloc.workload import Job, rigid_gang


def grants(instance: Instance) -> list[list[str]]:
    """The jobs that DRF gives a bundle, in each slot, in turn."""
    slots: list[list[str]] = []

    class Watched(Drf):
        def decide(self, state: Any) -> Decision:
            given: Counter[tuple[str, str]] = Counter()
            slot: list[str] = []

            def watch(job: str, role: str) -> None:
                # A worker and a PS, one report each.
                given[job, role] += 1
                if role == "worker":
                    slot.append(job)

            self.watch = watch
            decision = super().decide(state)
            assert all(given[job, "ps"] == given[job, "worker"] for job, _ in given)
            slots.append(slot)
            return decision

    simulate(instance, Watched())
    return slots


@pytest.mark.parametrize("seed", range(3))
def test_agent_that_moves_like_drf_gets_what_drf_gets(seed: int) -> None:
    """The grants of DRF as bundle actions lead to DRF's schedule, host for host."""
    instance = elastic(seed)
    env = ElasticAllocation(instance, features=BARE)
    env.reset(seed=0)
    over = False
    for slot in grants(instance):
        started = env.episode.num_slots
        for job in slot:
            shown = [one.view.id for one in env.episode.slot.columns]
            *_, terminated, _, _ = env.step(3 * shown.index(job) + 2)
        if not terminated and env.episode.num_slots == started:
            *_, terminated, _, _ = env.step(BARE.end_slot)
        over = terminated
    assert over
    assert env.result is not None
    drf = simulate(instance, make_scheduler("drf"))
    assert env.result.completion_s == drf.completion_s
    assert env.result.schedule == drf.schedule


@pytest.mark.parametrize("seed", range(3))
def test_agent_that_fills_the_first_job_gets_what_fifo_gets(seed: int) -> None:
    instance = elastic(seed)
    env = ElasticAllocation(instance, features=BARE)
    env.reset()
    over = False
    while not over:
        *_, over, _, info = env.step(2)
    fifo = simulate(instance, make_scheduler("fifo"))
    assert env.result is not None
    assert env.result.schedule == fifo.schedule
    assert info["mean_jct_s"] == metrics_of(fifo).mean_jct_s
    assert info["makespan_s"] == metrics_of(fifo).makespan_s
    assert info["num_slots"] == len(fifo.decision_s)


@pytest.mark.parametrize("slot_s", [None, 600.0])
def test_gangs_placed_anywhere_are_fifo(slot_s: float | None) -> None:
    """Best fit over the whole cluster, in order of arrival: FIFO's schedule."""
    for seed in range(3):
        instance = GANGS(np.random.default_rng(seed)).replace(slot_s=slot_s)
        if slot_s:
            jobs = [job.replace(preemptible=False) for job in instance.jobs]
            instance = instance.replace(jobs=tuple(jobs))
        env = GangPlacement(instance, features=DomainFeatures(domains=3))
        env.reset()
        over = False
        while not over:
            *_, over, _, _ = env.step(env.features.anywhere)
        assert env.result is not None
        fifo = simulate(instance, make_scheduler("fifo"))
        assert env.result.completion_s == fifo.completion_s
        assert env.result.schedule == fifo.schedule


def test_chosen_domain_holds_the_gang() -> None:
    """A gang of two hosts in the leaf that was chosen; the mask knew who holds it."""
    instance = GANGS(np.random.default_rng(0))
    hosts = instance.topology.domain_of_host["leaf"]
    jobs = (
        Job("a", 0.0, 60.0, (rigid_gang(8),), elasticity="rigid"),
        Job("b", 1.0, 60.0, (rigid_gang(8),), elasticity="rigid"),
        Job("c", 2.0, 60.0, (rigid_gang(12),), elasticity="rigid"),
    )
    env = GangPlacement(instance.replace(jobs=jobs), features=DomainFeatures(domains=4))
    _, info = env.reset()
    # Nothing runs, so waiting is no choice; three leaves and one that is not there.
    assert info["action_mask"].tolist() == [1, 1, 1, 0, 1, 0]
    seen, reward, _, _, info = env.step(1)
    assert reward == -1.0 / 3600, "a second with one gang in the system"
    assert info["action_mask"].tolist() == [1, 0, 1, 0, 1, 1]
    assert seen[:, 0].tolist() == pytest.approx([1, 0, 1, 0, 2 / 3])
    assert seen[:, 3].tolist() == pytest.approx([1, 0, 1, 0, 2 / 3])
    env.step(2)
    # c is larger than any leaf: only anywhere holds it, and only when both are complete.
    assert env.episode.slot.asked is not None
    assert env.action_masks().tolist() == [False, False, False, False, True, True]
    *_, over, _, info = env.step(4)
    assert over
    assert info["num_unfinished"] == 0
    assert env.result is not None
    leaves = {
        run.job: {hosts[instance.topology.host_index[task.host]] for task in run.tasks}
        for run in env.result.schedule.runs
    }
    assert len(leaves["a"]) == len(leaves["b"]) == 1
    assert leaves["a"] != leaves["b"]
    assert len(leaves["c"]) == 2


def test_waiting_holds_the_queue_or_passes_on() -> None:
    """Without `skip` those behind a gang that waits are not asked for; with it they are."""
    jobs = tuple(
        Job(name, 0.0, 60.0, (rigid_gang(2),), elasticity="rigid") for name in ("a", "b", "c")
    )
    instance = GANGS(np.random.default_rng(0)).replace(jobs=jobs)
    for skip, asked in ((False, None), (True, "c")):
        env = GangPlacement(instance, features=DomainFeatures(domains=3, skip=skip))
        env.reset()
        env.step(0)
        *_, info = env.step(env.features.wait)
        assert info["reply"] == ("passed" if skip else "ended")
        gang = env.episode.slot.asked
        assert gang is not None
        # b waits for a to complete, and is asked for again.
        assert gang.id == (asked or "b")
        assert (env.episode.num_slots == 0) is skip


@pytest.mark.parametrize("source", [SMALL, GANGS])
def test_random_play_passes_the_judge(source: Any) -> None:
    """Whatever is played, the schedule is sound and the last info tells the simulator's metrics."""
    kind = ElasticAllocation if isinstance(source, ElasticEpisodes) else GangPlacement
    env: Any = kind(source)
    for seed in range(3):
        _, infos = play(env, np.random.default_rng(seed), seed=seed)
        result = env.result
        assert result.verified
        assert verify(result.instance, result.schedule) == []
        assert infos[-1]["num_unfinished"] == 0
        assert infos[-1]["mean_jct_s"] == metrics_of(result).mean_jct_s
