"""Rules that know the topology: HiveD's cells, Kueue's best-fit and balanced placement."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.schedulers.placement import (
    BestFit,
    FreeHosts,
    HivedCells,
    KueueBalanced,
    KueueBestFit,
    PlacementPolicy,
    Request,
)
from alloc.schedulers.placement.subsets import fewest_then_tightest
from alloc.topology import Domain, Host, HostType, Topology
from alloc.workload import Configuration, PlacementRules, Slice, Spread, TaskGroup

SERVER = HostType("server", 8, "H100", 64_000, 0)


def racks(*free_gpus: tuple[int, ...]) -> FreeHosts:
    """Return racks r0, r1, ... of 8-GPU hosts r0h0, ... with so many free GPUs each."""
    domains = tuple(Domain(f"r{k}", "rack") for k in range(len(free_gpus)))
    hosts = tuple(
        Host(f"r{k}h{i}", "server", f"r{k}")
        for k, rack in enumerate(free_gpus)
        for i in range(len(rack))
    )
    free = FreeHosts(Topology("racks", (SERVER,), hosts, ("rack",), domains))
    for h, number in enumerate(n for rack in free_gpus for n in rack):
        for _ in range(8 - number):
            free.take(h, TaskGroup("other", 1, 1000))
    return free


def place(
    rule: PlacementPolicy, free: FreeHosts, tasks: int, gpus: int = 1, **rules: object
) -> dict[str, int] | None:
    """Place a gang and return the tasks on each host, or None."""
    configuration = Configuration((TaskGroup("worker", tasks, gpus * 1000),), 1.0)
    request = Request(configuration, PlacementRules(**rules))  # type: ignore[arg-type]
    placed = rule.place(free, request, np.random.default_rng(0))
    return None if placed is None else {task.host: task.count for task in placed}


def test_hived_splits_the_smallest_cell() -> None:
    """Free GPUs 8, 6 = 4 + 2 and 3 = 2 + 1: the one-GPU cell is on the last host; of the two cells
    of two the first is taken; four GPUs come from the 4-cell; the whole host stays whole."""
    free = racks((8, 6, 3))
    assert place(HivedCells(), free, 1, 1) == {"r0h2": 1}
    assert place(HivedCells(), free, 1, 2) == {"r0h1": 1}
    assert place(HivedCells(), free, 1, 4) == {"r0h1": 1}
    assert free.whole.tolist() == [8, 0, 2]


def test_hived_breaks_no_whole_rack_before_a_broken_one() -> None:
    """All hosts but r1h1 are whole: an 8-GPU task goes to r1, whose cell is broken already."""
    free = racks((8, 8), (8, 5))
    assert place(HivedCells(), free, 1, 8) == {"r1h0": 1}


def test_hived_keeps_a_gang_in_the_innermost_domain() -> None:
    """16 GPUs: no host holds them, r1 does with 16 free, r0 has more room (24)."""
    free = racks((8, 8, 8), (8, 8))
    assert place(HivedCells(), free, 2, 8) == {"r1h0": 1, "r1h1": 1}


@pytest.mark.parametrize("seed", range(5))
def test_hived_places_whatever_fits_in_number_when_sizes_are_powers_of_two(seed: int) -> None:
    """Buddy cells of each size below a host are free at most once, so free GPUs that suffice in
    number always hold a cell of the size: requests of 1, 2, 4 and 8 GPUs fill the cluster in any
    order."""
    rng = np.random.default_rng(seed)
    free = racks((8, 8), (8, 8))
    left = 32
    while left:
        size = int(2 ** rng.integers(0, 4))
        if size <= left:
            assert place(HivedCells(), free, 1, size) is not None
            left -= size
    assert free.left.sum() == 0


def test_kueue_takes_the_tightest_rack_that_holds_the_job() -> None:
    """Six GPUs required in one rack: r0 has 12 free, r1 7, r2 5. r1 is the tightest that holds it;
    inside, best-fit takes the roomiest host (4) and then the tightest for the last 2."""
    free = racks((8, 4), (4, 3), (3, 2))
    assert place(KueueBestFit(), free, 6, required="rack") == {"r1h0": 4, "r1h1": 2}
    assert place(KueueBestFit(), racks((3, 2)), 6, required="rack") is None


def test_kueue_prefers_a_rack_and_then_the_fewest() -> None:
    """Fourteen GPUs fit in no rack (12, 7, 5): the roomiest is filled, the last 2 go to the
    tightest that holds them, r2."""
    free = racks((8, 4), (4, 3), (3, 2))
    placed = place(KueueBestFit(), free, 14, preferred="rack")
    assert placed is not None
    assert sum(n for host, n in placed.items() if host.startswith("r0")) == 12
    assert sum(n for host, n in placed.items() if host.startswith("r2")) == 2


def test_kueue_without_levels_fills_the_smallest_holes() -> None:
    """Unconstrained: hosts with 2, 3 and 4 free are used up in that order."""
    assert place(KueueBestFit(), racks((8, 4), (3, 2)), 6) == {"r1h1": 2, "r1h0": 3, "r0h1": 1}


def test_kueue_keeps_slices_whole() -> None:
    """Slices of 4 per rack: r0 holds 7, so one slice; r1 holds 9, so two. Three slices fit, four do
    not, although 16 GPUs are free."""
    slices = (Slice("rack", 4),)
    placed = place(KueueBestFit(), racks((4, 3), (8, 1)), 12, slices=slices)
    assert placed is not None
    assert sum(n for host, n in placed.items() if host.startswith("r0")) == 4
    assert place(KueueBestFit(), racks((4, 3), (8, 1)), 16, slices=slices) is None


def test_kueue_balances_over_the_fewest_racks() -> None:
    """24 GPUs over racks of 18, 16 and 17 hosts' worth: two racks are needed; shared evenly each
    gets 12. Best-fit instead fills one rack (18) and leaves 6 for another."""
    sizes = tuple((1,) * n for n in (18, 16, 17))
    even = place(KueueBalanced(), racks(*sizes), 24, preferred="rack", slices=(Slice("rack", 1),))
    greedy = place(KueueBestFit(), racks(*sizes), 24, preferred="rack", slices=(Slice("rack", 1),))

    def by_rack(placed: dict[str, int] | None) -> list[int]:
        assert placed is not None
        counts = [sum(n for h, n in placed.items() if h.startswith(f"r{k}h")) for k in range(3)]
        return sorted(c for c in counts if c)

    assert by_rack(even) == [12, 12]
    assert by_rack(greedy) == [6, 18]


def test_kueue_balances_hosts_inside_the_preferred_rack() -> None:
    """Preferred rack, counts on hosts: 8 tasks on hosts with 6, 5, 5 free need two hosts; even is 4
    each. Of the pairs that hold 8, 5 + 5 has the least room."""
    placed = place(KueueBalanced(), racks((6, 5, 5)), 8, preferred="rack")
    assert placed == {"r0h1": 4, "r0h2": 4}


def test_kueue_balanced_is_best_fit_where_no_balance_is_found() -> None:
    """Without a preferred level there is nothing to balance."""
    for rules in ({}, {"required": "rack"}):
        a = place(KueueBalanced(), racks((8, 4), (4, 3)), 6, **rules)  # type: ignore[arg-type]
        b = place(KueueBestFit(), racks((8, 4), (4, 3)), 6, **rules)  # type: ignore[arg-type]
        assert a == b


def test_task_rules_honour_levels_slices_and_spread() -> None:
    """Best-fit, whose paper knows no levels: required rack, slices of two per host, at most three
    tasks per rack."""
    assert place(BestFit(), racks((8, 4), (4, 3)), 7, required="rack") == {"r1h0": 4, "r1h1": 3}
    sliced = place(BestFit(), racks((3, 3), (1, 1)), 4, slices=(Slice("host", 2),))
    assert sliced == {"r0h0": 2, "r0h1": 2}
    spread = place(BestFit(), racks((8,), (8,)), 6, spread=(Spread("rack", 3),))
    assert spread == {"r0h0": 3, "r1h0": 3}
    assert place(BestFit(), racks((8,), (8,)), 7, spread=(Spread("rack", 3),)) is None


def test_a_preferred_rack_gives_way_in_task_rules() -> None:
    """Best-fit tries single racks first and then all hosts."""
    assert place(BestFit(), racks((4, 4), (2, 2)), 4, preferred="rack") == {"r1h0": 2, "r1h1": 2}
    placed = place(BestFit(), racks((4, 4), (2, 2)), 10, preferred="rack")
    assert placed is not None
    assert sum(placed.values()) == 10


@pytest.mark.parametrize("rule", [BestFit(), HivedCells(), KueueBestFit(), KueueBalanced()])
def test_unknown_levels_are_named(rule: PlacementPolicy) -> None:
    """A misspelled level must not be read as "anywhere"."""
    for kind in ("required", "preferred"):
        with pytest.raises(InstanceError, match='level "rak" is not in topology "racks"'):
            place(rule, racks((8,)), 2, **{kind: "rak"})  # type: ignore[arg-type]


def test_fewest_then_tightest_is_exact() -> None:
    """Against all subsets of random rooms."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        room = rng.integers(0, 9, int(rng.integers(1, 8))).tolist()
        count = int(rng.integers(0, 30))
        subsets = [
            (len(chosen), sum(room[i] for i in chosen))
            for size in range(len(room) + 1)
            for chosen in combinations(range(len(room)), size)
            if sum(room[i] for i in chosen) >= count
        ]
        found = fewest_then_tightest(room, count)
        if not subsets:
            assert found is None
        else:
            assert found is not None
            assert (len(found), sum(room[i] for i in found)) == min(subsets)
