"""First-fit, best-fit, random-fit and KAI on clusters small enough to score by hand."""

from __future__ import annotations

import numpy as np
import pytest

from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.packing import HostPool
from alloc.problems.allocation.solution import TaskPlacement
from alloc.schedulers.placement import (
    BestFit,
    FirstFit,
    FreeHosts,
    KaiBinPack,
    PlacementPolicy,
    RandomFit,
    Request,
)
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, TaskGroup

BIG = HostType("big", 8, "H100", 128_000, 1_000_000)
SMALL = HostType("small", 2, "T4", 32_000, 200_000)
BARE = HostType("bare", 0, None, 64_000, 400_000)


def cluster(*kinds: HostType) -> Topology:
    """Return a flat cluster of hosts h0, h1, ... of those types."""
    types = {kind.name: kind for kind in kinds}
    hosts = tuple(Host(f"h{k}", kind.name) for k, kind in enumerate(kinds))
    return Topology("test", tuple(types.values()), hosts)


def ask(gpu: int = 0, cpu: int = 0, count: int = 1, **fields: object) -> Request:
    """Return a request for equal tasks."""
    group = TaskGroup("worker", count, gpu, cpu, **fields)  # type: ignore[arg-type]
    return Request(Configuration((group,), 1.0))


def put(rule: PlacementPolicy, free: FreeHosts, request: Request) -> tuple[TaskPlacement, ...]:
    """Place a request that must fit."""
    placed = rule.place(free, request, np.random.default_rng(0))
    assert placed is not None
    return placed


def hosts_of(placed: tuple[TaskPlacement, ...]) -> dict[str, int]:
    """Return the tasks on each host."""
    return {task.host: task.count for task in placed}


def test_first_fit_takes_the_first_hosts_and_gpus_with_room() -> None:
    """h0 has 2 GPUs: three one-GPU tasks fill it and spill one onto h1; a share of 600 then finds
    no GPU on h0 and takes position 1 of h1, the first free one."""
    free = FreeHosts(cluster(SMALL, BIG, BIG))
    assert hosts_of(put(FirstFit(), free, ask(1000, count=3))) == {"h0": 2, "h1": 1}
    assert put(FirstFit(), free, ask(600)) == (TaskPlacement("h1", "worker", 1, (1,)),)
    assert put(FirstFit(), free, ask(300)) == (TaskPlacement("h1", "worker", 1, (1,)),)


def test_best_fit_leaves_the_least_cpu_and_gpu() -> None:
    """For 1 GPU and 16 cores: the small host keeps 16/128 CPU and 1/8 GPU, 100 (1 - 0.0625 -
    0.0625) = 87.5 -> 87 points; a big one keeps 112/128 and 7/8, 12.5 -> 12 points."""
    free = FreeHosts(cluster(BIG, SMALL))
    assert hosts_of(put(BestFit(), free, ask(1000, 16_000))) == {"h1": 1}


def test_best_fit_rounds_as_published() -> None:
    """h1 is fuller by a quarter of a core, 50 * 0.25 / 128 = 0.1 points: 7.8 and 7.9 are 7 points
    when rounded down, and h0, the first, wins; exact scores send the task to h1."""
    for rounded, wanted in ((True, "h0"), (False, "h1")):
        free = FreeHosts(cluster(BIG, BIG))
        free.cpu[1] -= 250
        assert hosts_of(put(BestFit(rounded=rounded), free, ask(1000, 4_000))) == {wanted: 1}


def test_best_fit_puts_a_share_on_the_tightest_gpu() -> None:
    """GPUs with 900, 500 and 400 left: a share of 450 goes to the one with 500."""
    free = FreeHosts(cluster(BIG))
    for g, share in ((0, 100), (1, 500), (2, 600)):
        free.take(0, TaskGroup("w", 1, share), (g,))
    assert put(BestFit(), free, ask(450)) == (TaskPlacement("h0", "worker", 1, (1,)),)


def test_random_fit_draws_evenly_from_hosts_with_room() -> None:
    """Of three hosts one is full: the two others get a half each, within four deviations."""
    counts = {"h0": 0, "h1": 0, "h2": 0}
    rng = np.random.default_rng(7)
    for _ in range(400):
        free = FreeHosts(cluster(SMALL, SMALL, SMALL))
        free.take(1, TaskGroup("w", 1, 2000))
        placed = RandomFit().place(free, ask(500), rng)
        assert placed is not None
        counts[placed[0].host] += 1
    assert counts["h1"] == 0
    assert abs(counts["h0"] - 200) <= 40


def test_kai_fills_the_fullest_host_and_keeps_gpus_for_those_who_need_them() -> None:
    """Free GPUs 8, 5, 0: a GPU task goes to h1, a task without GPUs to the bare host h2."""
    free = FreeHosts(cluster(BIG, BIG, BARE))
    free.take(1, TaskGroup("w", 1, 3000))
    assert hosts_of(put(KaiBinPack(), free, ask(1000, 1000))) == {"h1": 1}
    assert hosts_of(put(KaiBinPack(), free, ask(0, 1000))) == {"h2": 1}
    assert hosts_of(put(KaiBinPack(strategy="spread"), free, ask(1000, 1000))) == {"h0": 1}


def test_kai_shares_a_gpu_that_is_shared_already() -> None:
    """h0 is fuller (1 whole GPU free of 2), but only h1 has an open GPU with 500 left."""
    free = FreeHosts(cluster(SMALL, BIG))
    free.take(0, TaskGroup("w", 1, 1000))
    free.take(1, TaskGroup("w", 1, 500), (3,))
    assert put(KaiBinPack(), free, ask(400)) == (TaskPlacement("h1", "worker", 1, (3,)),)
    assert hosts_of(put(KaiBinPack(), free, ask(400))) == {"h0": 1}


def test_kai_refuses_an_unknown_strategy() -> None:
    """A misspelled strategy must not quietly pack."""
    with pytest.raises(InstanceError, match='strategy is "pack"; it is "binpack" or "spread"'):
        KaiBinPack(strategy="pack")  # type: ignore[arg-type]


def test_tasks_respect_gpu_type_and_gpu_memory() -> None:
    """T4s have 16 GB: a task that needs 40 GB of GPU memory goes to the H100s, a typed one too."""
    free = FreeHosts(cluster(SMALL, BIG))
    assert hosts_of(put(FirstFit(), free, ask(1000, gpu_memory_mib=40_000))) == {"h1": 1}
    typed = Request(Configuration((TaskGroup("w", 1, 1000),), 1.0, gpu_type="H100"))
    assert hosts_of(put(FirstFit(), free, typed)) == {"h1": 1}


def test_sharing_tasks_do_not_ask_for_more_gpu_memory_than_there_is() -> None:
    """An H100 has 80 GB: a second share with 50 GB goes to the next GPU, though 600 are free."""
    free = FreeHosts(cluster(BIG))
    request = ask(400, gpu_memory_mib=50_000)
    assert put(BestFit(), free, request)[0].gpus == (0,)
    assert put(BestFit(), free, request)[0].gpus == (1,)


def test_mig_slices_are_refused_in_words() -> None:
    """These rules would put a slice on no GPU at all."""
    free = FreeHosts(cluster(BIG))
    with pytest.raises(UnsupportedFeatureError, match=r'asks for the MIG slice "1g\.10gb"'):
        FirstFit().place(free, ask(mig_profile="1g.10gb"), np.random.default_rng(0))


def test_free_hosts_follow_a_pool() -> None:
    """3 whole GPUs and a share of 300 at position 5 taken of 8: 4 whole GPUs and 700 remain, and
    the whole ones are not at position 5."""
    pool = HostPool(cluster(BIG))
    whole = Configuration((TaskGroup("w", 3, 1000, 2000, 10),), 1.0)
    share = Configuration((TaskGroup("s", 1, 300),), 1.0)
    pool.take(whole, (TaskPlacement("h0", "w", 3),))
    pool.take(share, (TaskPlacement("h0", "s", 1, (5,)),))
    free = FreeHosts.of_pool(pool)
    assert (free.whole[0], free.left[0], free.gpus[0, 5]) == (4, 4700, 700)
    assert (free.cpu[0], free.memory[0]) == (122_000, 999_970)
    assert free.room(TaskGroup("x", 9, 400))[0] == 4 * 2 + 1


def test_giving_back_restores_everything() -> None:
    """Undo is how a gang that finds no room leaves nothing behind."""
    free = FreeHosts(cluster(BIG, SMALL))
    before = (free.cpu.copy(), free.memory.copy(), free.gpus.copy(), free.whole.copy())
    for group in (TaskGroup("a", 1, 2000, 10, 5), TaskGroup("b", 1, 250, 10, 1, 10_000)):
        free.give(0, group, free.take(0, group))
    after = (free.cpu, free.memory, free.gpus, free.whole)
    assert all((a == b).all() for a, b in zip(before, after, strict=True))
    assert free.roomiest[0] == 1000
