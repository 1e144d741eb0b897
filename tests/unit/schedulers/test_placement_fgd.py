"""FGD: the measure against its definition written out, and decisions worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.schedulers.placement import Fgd, Fragmentation, FreeHosts, Request, Shape
from alloc.schedulers.placement.fragmentation import popular, shapes_of
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, TaskGroup

KIND = HostType("kind", 4, "V100", 32_000, 0)


def cluster(*kinds: HostType) -> Topology:
    """Return a flat cluster of hosts h0, h1, ... of those types."""
    types = {kind.name: kind for kind in kinds}
    hosts = tuple(Host(f"h{k}", kind.name) for k, kind in enumerate(kinds))
    return Topology("test", tuple(types.values()), hosts)


def by_definition(mix: dict[Shape, float], kind: str, cpu: int, gpus: list[int]) -> float:
    """Return F as the paper defines it, shape by shape."""
    lost = 0.0
    for shape, frequency in mix.items():
        useless = (
            not shape.num_gpus
            or (shape.gpu_types and kind not in shape.gpu_types)
            or shape.cpu_milli > cpu
            or sum(left >= shape.gpu_milli for left in gpus) < shape.num_gpus
        )
        too_full = sum(left for left in gpus if left < shape.gpu_milli)
        lost += frequency * (sum(gpus) if useless else too_full)
    return lost


def test_tables_agree_with_the_definition() -> None:
    """The split into tables is exact: 300 random states, mixes with gangs, types and pure CPU."""
    rng = np.random.default_rng(3)
    types = ["V100", "T4"]
    for _ in range(30):
        shapes = {
            Shape(0, 0, 0),
            *(
                Shape(
                    int(rng.integers(0, 9)) * 1000,
                    int(rng.integers(1, 21)) * 50 if (k := int(rng.integers(1, 4))) == 1 else 1000,
                    k,
                    tuple(sorted(rng.choice(types, int(rng.integers(0, 3)), replace=False))),
                )
                for _ in range(6)
            ),
        }
        mix = dict.fromkeys(shapes, 1 / len(shapes))
        measure = Fragmentation(types, mix)
        for _ in range(10):
            h = int(rng.integers(2))
            cpu = int(rng.integers(0, 9)) * 1000
            gpus = (rng.integers(0, 21, 4) * 50).tolist()
            found = measure.of(np.array([h]), np.array([cpu]), np.array([gpus]))[0]
            assert found == pytest.approx(by_definition(mix, types[h], cpu, gpus))


def test_a_share_is_scored_on_every_gpu() -> None:
    """`after_share` is `of` of the state after, GPU by GPU; infinite where the share lacks room."""
    mix = {Shape(2000, 500, 1): 0.5, Shape(1000, 1000, 2): 0.3, Shape(9000, 0, 0): 0.2}
    measure = Fragmentation(["V100"], mix)
    gpus = np.array([[1000, 1000, 700, 200]])
    after = measure.after_share(np.array([0]), np.array([1500]), gpus, 300)[0]
    for g in range(3):
        state = gpus.copy()
        state[0, g] -= 300
        assert after[g] == pytest.approx(measure.of(np.array([0]), np.array([1500]), state)[0])
    assert after[3] == np.inf


def test_a_hand_made_fragmentation() -> None:
    """Half the tasks want a whole GPU, half want 600. GPUs 1000, 700, 500, 0 and enough CPU: the
    first kind cannot use 700 + 500, the second 500: F = 0.5 * 1200 + 0.5 * 500 = 850. With too
    little CPU for the first kind it loses all 2200: 0.5 * 2200 + 0.5 * 500 = 1350."""
    measure = Fragmentation(["V100"], {Shape(8000, 1000, 1): 0.5, Shape(4000, 600, 1): 0.5})
    gpus = np.array([[1000, 700, 500, 0]])
    assert measure.of(np.array([0]), np.array([8000]), gpus)[0] == pytest.approx(850)
    assert measure.of(np.array([0]), np.array([7999]), gpus)[0] == pytest.approx(1350)


def test_fgd_completes_a_gpu_instead_of_opening_one() -> None:
    """All tasks want 500. A share of 500 on an empty GPU leaves 500, usable: F stays 0. On the GPU
    with 700 left it leaves 200 that nobody can use: F grows by 200. On the GPU with 500 left: F
    stays 0 as well, and comes first on h0."""
    free = FreeHosts(cluster(KIND))
    free.take(0, TaskGroup("w", 1, 300), (0,))
    free.take(0, TaskGroup("w", 1, 500), (1,))
    rule = Fgd(mix={Shape(0, 500, 1): 1.0})
    request = Request(Configuration((TaskGroup("w", 1, 500),), 1.0))
    placed = rule.place(free, request, np.random.default_rng(0))
    assert placed is not None
    assert placed[0].gpus == (1,)


def test_points_decide_before_exact_differences() -> None:
    """All tasks want 500. On h0 (one GPU left with 510) a share of 490 leaves 20 lost: F goes from
    0 to 20. On h1 it ends a GPU with 490 left, F from 490 to 0. Exactly, h1 is better by 510. With
    one point, floor(1 / (1 + e^x)) is 0 everywhere, and the first host wins."""
    for points, wanted in ((None, "h1"), (100, "h1"), (1, "h0")):
        free = FreeHosts(cluster(KIND, KIND))
        for h, left in ((0, 510), (1, 490)):
            free.take(h, TaskGroup("w", 1, 3000))
            free.take(h, TaskGroup("w", 1, 1000 - left), (3,))
        rule = Fgd(mix={Shape(0, 500, 1): 1.0}, points=points)
        request = Request(Configuration((TaskGroup("w", 1, 490),), 1.0))
        placed = rule.place(free, request, np.random.default_rng(0))
        assert placed is not None
        assert placed[0].host == wanted


def test_the_mix_keeps_the_popular_shapes() -> None:
    """Counts 6, 3, 1: 60 % needs the first only, 61 % the first two (2/3 and 1/3)."""
    a, b, c = Shape(1, 100, 1), Shape(2, 100, 1), Shape(3, 100, 1)
    counts = {a: 6.0, b: 3.0, c: 1.0}
    assert popular(counts, 0.6) == {a: 1.0}
    assert popular(counts, 0.61) == {a: pytest.approx(2 / 3), b: pytest.approx(1 / 3)}
    assert set(popular(counts, 1.0)) == {a, b, c}


def test_shapes_of_a_job() -> None:
    """Two GPUs are two whole ones, types come from the configurations, CPU tasks have no types."""
    worker, server = TaskGroup("worker", 3, 2000, 50), TaskGroup("ps", 1, 0, 70)
    ways = [Configuration((worker, server), 1.0, gpu_type=t) for t in ("V100", "A100")]
    assert shapes_of(ways) == {Shape(50, 1000, 2, ("A100", "V100")): 3, Shape(70, 0, 0): 1}
    assert shapes_of([*ways, Configuration((worker, server), 1.0)]) == {
        Shape(50, 1000, 2): 3,
        Shape(70, 0, 0): 1,
    }


def test_fgd_learns_and_forgets() -> None:
    """What was seen in one simulation must not leak into the next."""
    rule = Fgd()
    rule.observe([Configuration((TaskGroup("w", 1, 300),), 1.0)])
    assert rule._seen.total() == 1
    rule.reset()
    assert not rule._seen


def test_options_are_checked() -> None:
    """An empty mix would make every host equal, silently."""
    with pytest.raises(InstanceError, match="popularity is 0; it is a part of all tasks"):
        Fgd(popularity=0)
    with pytest.raises(InstanceError, match="mix counts no task"):
        Fgd(mix={})
    with pytest.raises(InstanceError, match='ties is "last"; it is "first" or "random"'):
        Fgd(ties="last")  # type: ignore[arg-type]


def test_ties_go_to_the_first_host_or_are_drawn() -> None:
    """Three equal hosts: the first always, or each a third of the time."""
    request = Request(Configuration((TaskGroup("w", 1, 1000),), 1.0))
    for ties, wanted in (("first", {"h0"}), ("random", {"h0", "h1", "h2"})):
        rule, rng = Fgd(mix={Shape(0, 1000, 1): 1.0}, ties=ties), np.random.default_rng(0)  # type: ignore[arg-type]
        found = set()
        for _ in range(40):
            placed = rule.place(FreeHosts(cluster(KIND, KIND, KIND)), request, rng)
            assert placed is not None
            found.add(placed[0].host)
        assert found == wanted


def test_rounding_of_sums_breaks_no_ties() -> None:
    """Hosts with the same free shares in another order are equal, though their sums differ in the
    last digit (0.1 + 0.2 + 0.3); without care that sent openb's pods all over the cluster, which
    cost FGD with exact scores three points of allocation."""
    kind = HostType("eight", 8, "V100", 96_000, 0)
    request = Request(Configuration((TaskGroup("w", 1, 100, 3000),), 1.0))
    for seed in range(60):
        rng = np.random.default_rng(seed)
        weights = rng.random(30)
        mix = {
            Shape(1000 * int(rng.integers(1, 9)), 10 * int(rng.integers(5, 100)), 1): float(weight)
            for weight in weights
        }
        shares = 10 * rng.integers(10, 99, 8)
        free = FreeHosts(cluster(kind, kind, kind))
        for h in range(3):
            for g, left in enumerate(rng.permutation(shares)):
                free.take(h, TaskGroup("w", 1, 1000 - int(left)), (g,))
        placed = Fgd(mix=mix, popularity=1.0, points=None).place(free, request, rng)
        assert placed is not None
        assert placed[0].host == "h0"
