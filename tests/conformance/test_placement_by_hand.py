"""F4 by hand: rules that bind, goals with the arithmetic beside them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.models.placement.facts import NOT_LINEAR, Facts
from alloc.objectives import parse_level
from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.result import Limits
from alloc.solving import solve
from alloc.topology import Domain, Host, HostType, NetworkLink, Topology
from alloc.topology.topology import HOST
from alloc.units import MILLI
from alloc.workload import Configuration, Job, PlacementRules, Slice, Spread, TaskGroup

BACKENDS_OF_MODELS = ("highs", "pyomo", "cpsat")


def close(value: float) -> Any:
    return pytest.approx(value, rel=3e-6, abs=3e-6)


def one_rack(num_hosts: int = 2, gpus: int = 2) -> Topology:
    """Return equal hosts in one rack."""
    kind = HostType("k", gpus, "a100", 8000, 8192)
    hosts = tuple(Host(f"h{h}", "k", "r0") for h in range(num_hosts))
    return Topology("rack", (kind,), hosts, ("rack",), (Domain("r0", "rack"),))


def gangs(*sizes: int, **fields: Any) -> tuple[Job, ...]:
    """Return rigid gangs of one-GPU workers."""
    return tuple(
        Job(
            f"j{n}",
            0.0,
            1.0,
            (Configuration((TaskGroup("w", size, MILLI),), 1.0),),
            elasticity="rigid",
            **fields,
        )
        for n, size in enumerate(sizes)
    )


def value_of(instance: Instance, goal: str, backend: str = "highs") -> float | None:
    """Return the optimum that a model proves, or None if there is none."""
    certificate = solve(instance, "placement", backend, objective=goal).certificate
    assert certificate.status in ("optimal", "infeasible")
    return certificate.objective


def test_small_weights_survive_the_integers_of_cp_sat() -> None:
    """A weight of 0.05 on eight-digit shares once rounded to nothing, and the bound was off."""
    instance = Instance("i", one_rack(), gangs(1, 1))
    for weight in (0.05, 0.001):
        for backend in BACKENDS_OF_MODELS:
            found = solve(
                instance, "placement", backend, objective=f"gpus_placed + {weight} balance"
            )
            # One task on each host: both run, and nothing is above the mean.
            assert found.certificate.objective == close(2.0)
            assert found.certificate.bound == close(2.0)


def test_a_start_is_what_a_stopped_search_returns() -> None:
    """Without time for a search of its own, HiGHS completes the start and hands it back."""
    instance = Instance("i", one_rack(30, 8), gangs(*[7, 5, 3, 2] * 12, weight=2.0))
    first = solve(
        instance, "placement", "highs", objective="gpus_placed", limits=Limits(seconds=20)
    )
    again = solve(
        instance,
        "placement",
        "highs",
        objective="gpus_placed then gpu_hosts_used",
        warm_start=first.solution,
        limits=Limits(seconds=5),
    )
    assert again.stages[0].objective == first.certificate.objective == 204.0


class TestWhatClassesDoNotLose:
    """Rules that bind, with the arithmetic by hand."""

    def test_gangs_in_one_rack_are_counted_rack_by_rack(self) -> None:
        """Racks of 6 GPUs hold one gang of 4 each, though 12 GPUs would hold three."""
        kind = HostType("k", 2, "a100")
        hosts = tuple(Host(f"h{n}", "k", f"r{n // 3}") for n in range(6))
        racks = tuple(Domain(f"r{n}", "rack") for n in range(2))
        topology = Topology("two", (kind,), hosts, ("rack",), racks)
        jobs = gangs(4, 4, 4, placement=PlacementRules(required="rack"))
        instance = Instance("i", topology, jobs)
        assert len(Facts(instance, (parse_level("gpus_placed"),)).classes) == 1
        for backend in BACKENDS_OF_MODELS:
            assert value_of(instance, "gpus_placed", backend) == 8.0
        free = instance.replace(jobs=gangs(4, 4, 4))
        assert value_of(free, "gpus_placed") == 12.0

    def test_slices_of_equal_jobs_stay_whole(self) -> None:
        """Hosts of 3 GPUs hold one slice of 2 each: two jobs of two slices on four hosts."""
        topology = one_rack(4, 3)
        jobs = gangs(4, 4, 4, placement=PlacementRules(slices=(Slice(HOST, 2),)))
        for backend in BACKENDS_OF_MODELS:
            found = solve(Instance("i", topology, jobs), "placement", backend)
            assert found.certificate.objective == 8.0
            assert found.certificate.status == "optimal"

    def test_moves_of_equal_jobs_are_those_of_their_tasks(self) -> None:
        """Four single tasks on four hosts go to two hosts: two of them move, whoever they are."""
        jobs = gangs(1, 1, 1, 1)
        running = tuple(Assignment(f"j{n}", 0, (TaskPlacement(f"h{n}", "w", 1),)) for n in range(4))
        instance = Instance("i", one_rack(4), jobs, running=running, moves=Moves())
        assert len(Facts(instance, (parse_level("moves"),)).classes) == 1
        for backend in BACKENDS_OF_MODELS:
            found = solve(instance, "placement", backend, objective="gpu_hosts_used + 0.05 moves")
            assert found.certificate.objective == close(2.1)

    def test_an_eviction_frees_the_gpus_that_a_gang_needs(self) -> None:
        """Both hosts hold a single task; the gang of 4 runs only if both may be stopped."""
        singles = gangs(1, 1)
        gang = gangs(4, weight=9.0)[0].replace(id="gang")
        running = tuple(Assignment(f"j{n}", 0, (TaskPlacement(f"h{n}", "w", 1),)) for n in range(2))
        instance = Instance("i", one_rack(), (*singles, gang), running=running, moves=Moves())
        evicting = instance.replace(moves=Moves(evict=True))
        for backend in BACKENDS_OF_MODELS:
            assert value_of(instance, "weight_placed", backend) == 2.0
            assert value_of(evicting, "weight_placed", backend) == 9.0
            assert value_of(evicting.replace(moves=Moves(1, True)), "weight_placed", backend) == 2.0

    def test_nested_slices_count_at_every_level(self) -> None:
        """Pairs per host and fours per rack: racks of 2 + 2 + 1 GPUs hold four of eight tasks."""
        kinds = (HostType("two", 2, "a100"), HostType("one", 1, "a100"))
        hosts = tuple(Host(f"h{n}", "one" if n % 3 == 2 else "two", f"r{n // 3}") for n in range(6))
        racks = tuple(Domain(f"r{n}", "rack") for n in range(2))
        topology = Topology("two", kinds, hosts, ("rack",), racks)
        nested = PlacementRules(slices=(Slice("rack", 4), Slice(HOST, 2)))
        for sizes, placed in (((8,), 8.0), ((4, 4, 4), 8.0)):
            instance = Instance("i", topology, gangs(*sizes, placement=nested))
            for backend in BACKENDS_OF_MODELS:
                assert value_of(instance, "gpus_placed", backend) == placed
        # Without the fine slices racks of 5 hold a slice of 4 too, but not one of 5.
        fives = Instance(
            "i", topology, gangs(5, 5, placement=PlacementRules(slices=(Slice("rack", 5),)))
        )
        assert value_of(fives, "gpus_placed") == 10.0
        pairs = gangs(6, 4, placement=PlacementRules(slices=(Slice(HOST, 2),)))
        for backend in BACKENDS_OF_MODELS:
            assert value_of(Instance("i", topology, pairs), "gpus_placed", backend) == 6.0

    def test_a_spread_forces_gangs_over_racks(self) -> None:
        """At most two per rack: four tasks need two racks, and six find no third."""
        kind = HostType("k", 4, "a100")
        hosts = tuple(Host(f"h{n}", "k", f"r{n}") for n in range(2))
        racks = tuple(Domain(f"r{n}", "rack") for n in range(2))
        topology = Topology("two", (kind,), hosts, ("rack",), racks)
        jobs = gangs(4, 6, placement=PlacementRules(spread=(Spread("rack", 2),)))
        for backend in BACKENDS_OF_MODELS:
            goal = "gpus_placed then domains_spanned"
            found = solve(Instance("i", topology, jobs), "placement", backend, objective=goal)
            assert [stage.objective for stage in found.stages] == [4.0, 2.0]

    def test_pinned_jobs_stay_although_others_could_share_their_host(self) -> None:
        """Both stand on a host of their own: one host would do, but only if the first may move."""
        running = tuple(Assignment(f"j{n}", 0, (TaskPlacement(f"h{n}", "w", 1),)) for n in range(2))
        for preemptible, used in ((True, 1.0), (False, 2.0)):
            jobs = gangs(1, 1, preemptible=preemptible)
            instance = Instance("i", one_rack(), jobs, running=running, moves=Moves(evict=True))
            for backend in BACKENDS_OF_MODELS:
                goal = "gpus_placed then hosts_used"
                found = solve(instance, "placement", backend, objective=goal)
                assert found.stages[1].objective == used

    def test_pinned_jobs_without_room_leave_no_placement(self) -> None:
        """An over-full host of pinned jobs is a result with the reason, not an exception."""
        jobs = gangs(2, 2, preemptible=False)
        running = tuple(Assignment(f"j{n}", 0, (TaskPlacement("h0", "w", 2),)) for n in range(2))
        instance = Instance("i", one_rack(), jobs, running=running, moves=Moves())
        for backend in BACKENDS_OF_MODELS:
            result = solve(instance, "placement", backend)
            assert result.certificate.status == "infeasible"
            assert "the jobs that must keep running together leave no placement" in str(
                result.conflict
            )
            assert 'Already now: host "h0" is over its gpu_milli by 2000' in str(result.conflict)

    def test_what_is_broken_at_first_is_reported_and_repaired_at_least_cost(self) -> None:
        """A split gang that may move: one task does, and the log says what was wrong."""
        kind = HostType("k", 2, "a100")
        hosts = tuple(Host(f"h{n}", "k", f"r{n // 2}") for n in range(4))
        racks = tuple(Domain(f"r{n}", "rack") for n in range(2))
        topology = Topology("two", (kind,), hosts, ("rack",), racks)
        jobs = gangs(3, placement=PlacementRules(required="rack"))
        split = (TaskPlacement("h0", "w", 2), TaskPlacement("h2", "w", 1))
        running = (Assignment("j0", 0, split),)
        instance = Instance("i", topology, jobs, running=running, moves=Moves())
        for backend in BACKENDS_OF_MODELS:
            result = solve(instance, "placement", backend, objective="moves")
            assert result.certificate.objective == 1.0
            line = 'before anything moves: job "j0" must stand in one rack, but stands in "r0"'
            assert any(line in logged for logged in result.log)


class TestRefusals:
    """What the models do not have is said, with what to take instead."""

    @pytest.mark.parametrize("name", NOT_LINEAR)
    def test_objectives_that_are_not_linear(self, name: str) -> None:
        instance = Instance("i", one_rack(), gangs(1))
        for backend in BACKENDS_OF_MODELS:
            with pytest.raises(UnsupportedFeatureError, match=f"{name} is not linear .* take"):
                solve(instance, "placement", backend, objective=name)

    def test_shares_of_gpus(self) -> None:
        share = (Configuration((TaskGroup("w", 1, 500),), 1.0),)
        instance = Instance("i", one_rack(), (Job("a", 0.0, 1.0, share, elasticity="rigid"),))
        with pytest.raises(UnsupportedFeatureError, match='use the formulation "sharing"'):
            solve(instance, "placement", "highs")

    def test_unknown_objectives_and_weights(self) -> None:
        instance = Instance("i", one_rack(), gangs(1))
        with pytest.raises(InstanceError, match='unknown objective "gpu_placed"; did you mean'):
            solve(instance, "placement", "highs", objective="gpu_placed")
        with pytest.raises(InstanceError, match="the weight of moves is"):
            solve(instance, "placement", "highs", objective="balance + 0 moves")

    def test_bandwidth_without_links_and_without_a_tree(self) -> None:
        instance = Instance("i", one_rack(3), gangs(2))
        with pytest.raises(InstanceError, match="has no links, so gangs have no bandwidth"):
            solve(instance, "placement", "highs", objective="bottleneck_bandwidth")
        # Two rails that meet only in h1: h0 and h2 are not joined, though both are to h1.
        rails = (("h0", "rail0"), ("h1", "rail0"), ("h1", "rail1"), ("h2", "rail1"))
        links = tuple(NetworkLink(a, b, 50.0) for a, b in rails)
        railed = instance.replace(topology=instance.topology.replace(links=links))
        with pytest.raises(UnsupportedFeatureError, match="so its widths are no tree"):
            solve(railed, "placement", "highs", objective="bottleneck_bandwidth")
