"""The environments: Gymnasium's contract, and exactly the world that schedulers meet."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import alloc.learning  # noqa: F401 (registers the environments)
from alloc.errors import InstanceError, SimulationError, UnsupportedFeatureError
from alloc.instance import Instance
from alloc.instances import generate_elastic
from alloc.learning.environments import (
    REWARDS,
    Elapsed,
    ElasticAllocation,
    ElasticEpisodes,
    ElasticVector,
    GangEpisodes,
    GangPlacement,
)
from alloc.schedulers import Decision, make_scheduler
from alloc.schedulers.drf import Drf
from alloc.schedulers.learned.domain_choice import DomainFeatures
from alloc.schedulers.learned.window_features import ENCODINGS, WindowFeatures
from alloc.simulation import completion_times_s, metrics_of, simulate
from alloc.verification import verify
from alloc.workload import Job, rigid_gang

SMALL = ElasticEpisodes(num_jobs=8, num_hosts=4, max_workers=4, max_ps=4, run_slots=(0.5, 3.0))
BARE = WindowFeatures(window=8, max_tasks=4, initial_bundle=False)
GANGS = GangEpisodes(num_jobs=15, leaves=3, hosts_per_leaf=2, gpus_per_host=4, most_gpus=8)


def elastic(seed: int) -> Instance:
    return SMALL(np.random.default_rng(seed))


def play(env: Any, rng: np.random.Generator, **reset: Any) -> tuple[float, list[dict[str, Any]]]:
    """Play one episode at random among what is allowed; return its reward and infos."""
    _, info = env.reset(**reset)
    total, infos, over = 0.0, [], False
    while not over:
        action = env.action_space.sample(info["action_mask"])
        seen, reward, terminated, truncated, info = env.step(action)
        assert env.observation_space.contains(seen)
        total += reward
        infos.append(info)
        over = terminated or truncated
    return total, infos


# Gymnasium's contract.


@pytest.mark.parametrize("name", ["ElasticAllocation-v0", "GangPlacement-v0"])
@pytest.mark.parametrize("space", ["", "alloc/"])
def test_environment_is_registered_and_clean(name: str, space: str) -> None:
    """Under `check_env`, with warnings as errors as in all tests; under both names."""
    env = gymnasium.make(space + name)
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_elastic_is_clean_in_every_encoding(encoding: str) -> None:
    options = {"features": WindowFeatures(window=4, encoding=encoding), "reward": "jobs-in-system"}
    check_env(gymnasium.make("alloc/ElasticAllocation-v0", episodes=SMALL, **options).unwrapped)


@pytest.mark.parametrize(
    "options",
    [
        {"episodes": GangEpisodes(num_jobs=10, slot_s=600.0)},
        {"features": DomainFeatures("host", 16, skip=True), "knowledge": "none"},
    ],
)
def test_gangs_are_clean_in_slots_and_by_host(options: dict[str, Any]) -> None:
    check_env(gymnasium.make("alloc/GangPlacement-v0", **options).unwrapped)


def test_masks_are_as_others_expect_them() -> None:
    """int8 for Gymnasium's sampling, bool for Stable-Baselines3; new arrays each time."""
    env = ElasticAllocation(SMALL, features=BARE)
    _, info = env.reset(seed=0)
    assert info["action_mask"].dtype == np.int8
    assert env.action_masks().dtype == np.bool_
    assert (env.action_masks() == info["action_mask"]).all()
    env.action_masks()[:] = False
    assert env.action_masks().any()


def test_seed_decides_all_and_reset_goes_on() -> None:
    """The same seed plays the same episodes; without one the next episode is another."""
    env = ElasticAllocation(SMALL, speed_error=0.1, work_error=0.2, knowledge="estimate")
    played = []
    for _ in range(2):
        env.action_space.seed(1)
        first = play(env, np.random.default_rng(0), seed=5)
        second = play(env, np.random.default_rng(0))
        played.append((first[0], second[0], len(first[1])))
    assert played[0] == played[1]
    assert played[0][0] != played[0][1]


# The same world.


def grants(instance: Instance) -> list[list[str]]:
    """The jobs that DRF gives a bundle, in each slot, in turn."""
    slots: list[list[str]] = []

    class Watched(Drf):
        def decide(self, state: Any) -> Decision:
            given: Counter[str] = Counter()
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
            column = env.episode.slot.column_of(job)
            assert column is not None
            *_, terminated, _, _ = env.step(3 * column + 2)
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
    assert env.episode.slot.gang is not None
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
        gang = env.episode.slot.gang
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


# Rewards.


def test_rewards_add_up_to_what_they_say() -> None:
    """Over an episode: progress to the number of jobs, jobs in system to all completion times."""
    rng = np.random.default_rng(0)
    jobs = [job.replace(weight=1.0 + k % 3) for k, job in enumerate(elastic(4).jobs)]
    # Arrivals in the middle of slots: the wait for the next slot counts.
    jobs = [job.replace(arrival_s=job.arrival_s + 300.0 * (k % 2)) for k, job in enumerate(jobs)]
    instance = elastic(4).replace(jobs=tuple(jobs))
    for name in REWARDS:
        env = ElasticAllocation(instance, reward=name, features=WindowFeatures(window=5))
        total, _ = play(env, rng, seed=3)
        assert env.result is not None
        jct = completion_times_s(env.result)
        weights = np.array([job.weight for job in instance.jobs])
        expected = {
            "progress": len(jobs),
            "completions": len(jobs),
            "jobs-in-system": -jct.sum() / 1200.0,
            "weighted-jct": -(weights @ jct) / 1200.0,
        }[name]
        assert total == pytest.approx(expected), name


def test_reward_of_a_slot_comes_when_it_ends() -> None:
    """By hand: 0 for each grant, and DL2's sum of work done over work for the slot."""
    instance = elastic(0)
    first = instance.jobs[0].replace(arrival_s=0.0)
    env = ElasticAllocation(
        instance.replace(jobs=(first,)), features=BARE, knowledge="estimate", work_error=0.5
    )
    env.reset(seed=1)
    assert env.step(2)[1] == 0.0
    view = env.episode._simulation.state.jobs[0]
    reward = env.step(BARE.end_slot)[1]
    rate = next(c.rate for c in first.configurations if c.demand == (1000, 4000, 0))
    assert view.work != first.work
    assert reward == pytest.approx(min(rate * 1200.0, first.work) / view.work)


def test_reward_may_be_a_function() -> None:
    """Here the time itself: it adds up to the time of the simulation."""
    spans: list[Elapsed] = []

    def seconds(elapsed: Elapsed) -> float:
        spans.append(elapsed)
        return elapsed.end_s - elapsed.start_s

    env = ElasticAllocation(elastic(1), reward=seconds)
    total, _ = play(env, np.random.default_rng(0))
    assert env.result is not None
    assert total == pytest.approx(env.result.end_s - spans[0].start_s)
    done = sum(job.done for span in spans for job in span.jobs)
    assert done == pytest.approx(sum(job.work for job in elastic(1).jobs))


def test_slots_without_choice_pass_by_themselves() -> None:
    """With a cap of one task of each, the first bundle leaves nothing to choose all along."""
    roomy = elastic(2).replace(topology=ElasticEpisodes()(np.random.default_rng(0)).topology)
    features = WindowFeatures(window=4, max_tasks=1)
    env = ElasticAllocation(roomy, features=features, reward="jobs-in-system")
    _, info = env.reset()
    assert not info["action_mask"][:-1].any()
    _, reward, terminated, _, info = env.step(features.end_slot)
    assert terminated
    assert reward == pytest.approx(-len(roomy.jobs) * info["mean_jct_s"] / 1200.0)
    with pytest.raises(SimulationError, match="the episode is over"):
        env.step(0)


# Where episodes come from, and where they end.


def test_instances_are_taken_in_turn_and_a_seed_starts_over() -> None:
    given = [elastic(seed) for seed in range(3)]
    env = ElasticAllocation(given)

    def played(**reset: Any) -> str:
        env.reset(**reset)
        return env.episode._simulation.instance.fingerprint

    prints = [instance.fingerprint for instance in given]
    assert [played() for _ in range(4)] == [*prints, prints[0]]
    assert played(seed=1) == prints[0]
    assert played(options={"instance": given[2]}) == prints[2]
    assert played() == prints[1]


@pytest.mark.parametrize("source", [(), [1, 2], lambda rng: "an instance"])
def test_sources_of_something_else_are_refused(source: Any) -> None:
    with pytest.raises(InstanceError, match="episodes: the source"):
        ElasticAllocation(source).reset()


def test_idle_agent_is_cut_off() -> None:
    """Truncated after `max_slots`; the metrics then are infinite, the schedule still sound."""
    env = ElasticAllocation(elastic(0), features=BARE, max_slots=7)
    env.reset()
    for slot in range(7):
        _, _, terminated, truncated, info = env.step(BARE.end_slot)
        assert truncated is (slot == 6)
        assert not terminated
    assert (info["num_slots"], info["num_unfinished"]) == (7, 8)
    assert math.isinf(info["mean_jct_s"])
    with pytest.raises(SimulationError, match=r"the episode is over; call reset\(\)"):
        env.step(0)


@pytest.mark.parametrize("reply", ["masked", "misfit", "ended", "granted"])
def test_reply_says_what_came_of_the_action(reply: str) -> None:
    env = ElasticAllocation(elastic(0), features=BARE)
    env.reset()
    if reply == "misfit":
        for _ in range(3):
            env.step(0)
        # Eight GPUs in all, four workers of a job at most: fill the rest, then one more misses.
        for _ in range(40):
            *_, info = env.step(int(np.flatnonzero(env.action_masks())[0]))
            if info["reply"] == "misfit":
                break
    else:
        action = {"masked": BARE.end_slot - 1, "ended": BARE.end_slot, "granted": 2}[reply]
        *_, info = env.step(action)
    assert info["reply"] == reply


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ElasticAllocation(reward="progres"), InstanceError, 'did you mean "progress"'),
        (lambda: ElasticAllocation(max_slots=0), InstanceError, "max_slots"),
        (
            lambda: ElasticAllocation(elastic(0).replace(slot_s=None)).reset(),
            InstanceError,
            "has no slots, but a window is filled slot by slot",
        ),
        (
            lambda: ElasticAllocation(GangEpisodes(slot_s=60.0)).reset(),
            UnsupportedFeatureError,
            "is no malleable job",
        ),
        (
            lambda: GangPlacement(elastic(0)).reset(),
            InstanceError,
            'level "leaf", which topology .* lacks',
        ),
        (
            lambda: GangPlacement(elastic(0), features=DomainFeatures("host", 4)).reset(),
            UnsupportedFeatureError,
            "16 configurations to choose from",
        ),
        (
            lambda: GangPlacement(features=DomainFeatures(domains=2)).reset(),
            InstanceError,
            "sees 2 domains, but .* has 8",
        ),
        (lambda: DomainFeatures(domains=0), InstanceError, "domains"),
        (lambda: ElasticVector(0), InstanceError, "num_envs is 0"),
        (lambda: ElasticVector(2).reset(seed=[1]), InstanceError, "1 seeds for 2 environments"),
    ],
)
def test_what_cannot_be_played_is_refused(make: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


# Side by side.


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_side_by_side_is_one_by_one(mode: str) -> None:
    """Three environments in one array play what three alone play after the seeds s, s+1, s+2."""
    options: dict[str, Any] = {"features": WindowFeatures(window=4, max_tasks=4), "max_slots": 6}
    together = ElasticVector(3, SMALL, autoreset_mode=mode, **options)
    alone = [ElasticAllocation(SMALL, **options) for _ in range(3)]
    seen, infos = together.reset(seed=11)
    over = [False] * 3
    for i, env in enumerate(alone):
        one, info = env.reset(seed=11 + i)
        assert (seen[i] == one).all()
    rng, finished = np.random.default_rng(0), 0
    for _ in range(300):
        masks = together.action_masks()
        assert (infos["action_mask"] == masks).all()
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        seen, rewards, terminated, truncated, infos = together.step(actions)
        for i, env in enumerate(alone):
            if over[i]:
                one, info = env.reset()
                over[i] = False
                expected = (0.0, False, False)
            else:
                one, *rest, info = env.step(actions[i])
                expected = tuple(rest)
                over[i] = expected[1] or expected[2]
            assert (rewards[i], terminated[i], truncated[i]) == expected
            if over[i]:
                finished += 1
                final = infos["final_info"] if mode == "SameStep" else infos
                assert final["mean_jct_s"][i] == info["mean_jct_s"]
                if mode == "SameStep":
                    assert (infos["final_obs"][i] == one).all()
                    one, _ = env.reset()
                    over[i] = False
            assert (seen[i] == one).all()
    assert finished > 10


def test_vector_is_made_by_name_and_shares_a_list() -> None:
    """Environment i plays every n-th instance from the i-th on."""
    given = [elastic(seed) for seed in range(4)]
    envs = gymnasium.make_vec(
        "alloc/ElasticAllocation-v0",
        num_envs=2,
        vectorization_mode="vector_entry_point",
        episodes=given,
        max_slots=1,
        features=BARE,
        autoreset_mode="SameStep",
        copy=False,
    )
    vector: Any = envs.unwrapped
    assert isinstance(vector, ElasticVector)
    envs.reset(seed=0)

    def playing() -> list[str]:
        return [episode._simulation.instance.fingerprint for episode in vector.episodes]

    prints = [instance.fingerprint for instance in given]
    assert playing() == prints[:2]
    seen, *_ = envs.step(np.full(2, BARE.end_slot))
    assert playing() == prints[2:]
    assert envs.step(np.full(2, BARE.end_slot))[0] is seen, "not copied, as asked"


def test_vector_resets_what_it_is_told_to() -> None:
    envs = ElasticVector(2, SMALL, features=BARE, max_slots=1, autoreset_mode="Disabled")
    envs.reset(seed=0)
    envs.step(np.array([BARE.end_slot, 0]))
    with pytest.raises(InstanceError, match="environment 0 is over and autoreset is disabled"):
        envs.step(np.array([0, 0]))
    before = envs.episodes[1]._simulation
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert envs.episodes[1]._simulation is before
    envs.step(np.array([0, 0]))


def test_sync_vectors_of_gymnasium_work_too() -> None:
    envs = gymnasium.make_vec("alloc/GangPlacement-v0", num_envs=2, vectorization_mode="sync")
    seen, infos = envs.reset(seed=0)
    assert seen.shape == (2, *DomainFeatures().shape)
    assert infos["action_mask"].shape == (2, DomainFeatures().num_actions)
    envs.close()


def test_larger_worlds_are_generated_by_name() -> None:
    """The default episodes are those of the generator with the drawn seed."""
    instance = ElasticEpisodes(num_jobs=5)(np.random.default_rng(3))
    seed = int(np.random.default_rng(3).integers(2**31))
    again = generate_elastic(
        instance.name, num_jobs=5, num_hosts=48, run_slots=(1.0, 10.0), seed=seed
    )
    assert again.fingerprint == instance.fingerprint


def test_without_gymnasium_the_rest_works_and_the_cure_is_said() -> None:
    """Trained policies run without it; the environments say what to install."""
    program = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "import alloc.learning, alloc.schedulers.learned.window\n"
        "from alloc.errors import BackendUnavailableError\n"
        "try:\n"
        "    import alloc.learning.environments\n"
        "except BackendUnavailableError as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert (
        'the environments need Gymnasium; install it with `pip install "alloc[learn]"`'
        in run.stdout
    )
