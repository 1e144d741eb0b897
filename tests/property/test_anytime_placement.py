"""The placement search at every moment: more time is never worse, limits hold, nothing is lost.

Time is counted in looks at the clock, so that every run can be repeated exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from placement_oracle import Oracle, random_instance

from alloc.models.placement.data import PlacementData
from alloc.objectives import parse_level
from alloc.problems.allocation.instance import Affinity, Instance, Moves
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.placement.clock import endless
from alloc.solving.placement.compiling import Problem, compile_state
from alloc.solving.placement.improvement import Improver
from alloc.solving.placement.method import solve_placement
from alloc.solving.placement.ranges import fewest_hosts
from alloc.topology import Domain, Host, HostType, Topology
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup
from benchmarks.anytime import GOALS
from benchmarks.rebalancing_sets import rebalancing_set
from benchmarks.single_exchanges import single_exchanges

_EVENT = re.compile(r"incumbent (\S+), bound (\S+): (.*)")
_TASKS = ((0, 2000, 1), (1000, 1000, 2), (2000, 1000, 1), (1000, 2000, 1))
"""Milli-GPUs, milli-cores and MiB of a task: few steps, so that patterns are priced at once."""
_FEW_LOOKS = 150
"""Looks at the clock after time is up: each loop that is left looks once more."""


@dataclass(frozen=True)
class Looks(Settings):
    """A limit counted in looks at the clock; some looks may take longer."""

    jump: Callable[..., float] = lambda look: 1.0
    past: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def seconds_left(self) -> float:
        """Return the looks left, and take note of those after the end."""
        look, passed = self.past
        self.past[:] = [look + 1, passed + self.jump(int(look))]
        return max(self.time_limit_s - self.past[1], 0.0)


@dataclass(frozen=True)
class Event:
    """What a run said: after how many looks, with which value and bound."""

    look: float
    value: float
    bound: float
    what: str


@pytest.fixture(autouse=True)
def _no_exact_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances here are small, but the search is the one of large ones."""
    monkeypatch.setattr("alloc.solving.placement.method._FEW_CELLS", 0)
    monkeypatch.setattr("alloc.solving.placement.method._MANY_CELLS", 0)


def search(
    instance: Instance, goal: str, limit: Settings, stop_at: int | None = None
) -> tuple[Outcome, list[Event]]:
    """Search within a limit, interrupted at an event if one is given."""
    events: list[Event] = []

    def report(line: str) -> None:
        found = _EVENT.fullmatch(line)
        if found:
            look = limit.past[0] if isinstance(limit, Looks) else 0.0
            events.append(Event(look, float(found[1]), float(found[2]), found[3]))
            if stop_at == len(events):
                raise KeyboardInterrupt

    outcome = solve_placement(instance, goal, limit, None, report)
    return outcome, events


def value_of(instance: Instance, goal: str, outcome: Outcome) -> float:
    """Return the value of an outcome."""
    assert outcome.solution is not None
    return parse_level(goal).evaluate(instance, outcome.solution)


def racks(seed: int, num_hosts: int = 12) -> Instance:
    """Return small hosts in racks of three, unevenly filled with gangs and single tasks."""
    rng = np.random.default_rng(seed)
    hosts = tuple(Host(f"h{h}", "node", f"r{h // 3}") for h in range(num_hosts))
    domains = tuple(Domain(f"r{r}", "rack") for r in range(num_hosts // 3))
    topology = Topology("racks", (HostType("node", 4, "gpu", 8000, 8),), hosts, ("rack",), domains)
    free = topology.capacity.copy()
    jobs, running = [], []
    for j in range(3 * num_hosts):
        tasks = int(rng.choice([1, 1, 2]))
        group = TaskGroup("w", tasks, *_TASKS[int(rng.integers(len(_TASKS)))])
        first = 3 * min(int(rng.exponential(1.2)), num_hosts // 3 - 1)
        order = first + rng.permutation(3)
        on = [h for h in order.tolist() if (free[h] >= group.demand).all()][:tasks]
        if len(on) == tasks:
            free[on] -= group.demand
            rules = PlacementRules(required="rack") if tasks > 1 else PlacementRules()
            way = (Configuration((group,), 1.0),)
            jobs.append(Job(f"j{j}", 0.0, 1.0, way, elasticity="rigid", placement=rules))
            at = tuple(TaskPlacement(f"h{h}", "w", 1) for h in on)
            running.append(Assignment(f"j{j}", 0, at))
    return Instance("racks", topology, tuple(jobs), running=tuple(running), moves=Moves())


def kept_apart(instance: Instance) -> Instance:
    """Return an instance in which some pairs of its jobs share no host, so that they move whole."""
    hosts = {a.job: {task.host for task in a.tasks} for a in instance.running}
    names = [job.id for job in instance.jobs]
    pairs = [pair for pair in zip(names[::5], names[2::5], strict=False)]
    return instance.replace(
        affinities=tuple(
            Affinity("apart", "host", pair) for pair in pairs if not hosts[pair[0]] & hosts[pair[1]]
        )
    )


def overfull(instance: Instance) -> Instance:
    """Return an instance in which more runs on the first host than it can hold."""
    first = instance.topology.hosts[0]
    job = Job("more", 0.0, 1.0, (Configuration((TaskGroup("w", 1, 2000, 1000, 1),), 1.0),))
    at = Assignment(job.id, 0, (TaskPlacement(first.id, "w", 1),))
    return instance.replace(jobs=(*instance.jobs, job), running=(*instance.running, at))


WORLDS = {
    "free": racks(1),
    "budget": racks(2).replace(moves=Moves(budget=4)),
    "more hosts": racks(5, 36),
    "kept apart": kept_apart(racks(3, 24)),
    "over-full": overfull(racks(4)),
}
"""Small clusters, by what is special about them."""


_KNOWN_IN_PART = ("balance + 0.5 domains_spanned", "moves + fragmentation")
"""Goals of which patterns know a part only: whole jobs move, and the early bound ends by work."""


@pytest.mark.long
@pytest.mark.parametrize("goal", _KNOWN_IN_PART)
def test_goals_known_in_part_take_the_same_path(goal: str) -> None:
    """A longer limit goes on where a shorter one ends, with the same early bound."""
    instance = racks(1)
    runs = [search(instance, goal, Looks(float(looks))) for looks in (30, 300, 1200)]
    values = [value_of(instance, goal, outcome) for outcome, _ in runs]
    bounds = [outcome.bound for outcome, _ in runs]
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)
    for (_, short), (_, long) in pairwise(runs):
        told = [event.value for event in short]
        assert told == [event.value for event in long][: len(told)]


@pytest.mark.long
@pytest.mark.parametrize("world", [*WORLDS, "too different to price"])
@pytest.mark.parametrize("goal", GOALS.values())
def test_a_longer_limit_begins_with_what_a_shorter_one_does_and_tells_the_truth(
    goal: str, world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schedule of work does not depend on the limit, so value and bound only get better.

    Each value announced is had, none is below a bound, and none is worse than one before.
    """
    if world not in WORLDS:
        monkeypatch.setattr("alloc.solving.placement.bounds.MAX_WORK", 0.0)
    instance = WORLDS.get(world, racks(3, 24))
    values, bounds, stories = [], [], []
    limits = (10, 30, 100, 330, 500, 1000)
    for looks in limits:
        outcome, events = search(instance, goal, Looks(float(looks)))
        values.append(value_of(instance, goal, outcome))
        bounds.append(outcome.bound)
        stories.append(events)
        told = [event.value for event in events]
        assert all(later <= value + 1e-4 for value, later in pairwise(told))
        assert all(value >= outcome.bound - 1e-4 for value in told)
        assert not told or values[-1] <= told[-1] + 1e-4
    assert told
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)
    for looks, short, long in zip(limits, stories, stories[1:], strict=False):
        # At the end time is kept for the answer, and a step may be cut off.
        early = [event for event in short if event.look < looks - max(10.0, 0.02 * looks)]
        assert early == long[: len(early)]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("goal", GOALS.values())
def test_single_moves_made_together_end_where_none_gains(goal: str, world: str) -> None:
    """Moves that share no host gain what each gains alone, within the budget and the capacities."""
    instance = WORLDS[world]
    level = parse_level(goal)
    data = PlacementData.of(instance)
    problem = Problem(data)
    state = compile_state(problem, data.initial, [level])
    values = [state.value]
    while state.descend(1):
        values.append(state.value)
    assert values == sorted(values, reverse=True)
    state.refresh()
    assert state.value == pytest.approx(values[-1], abs=1e-9)
    assert state.descend() == 0
    assert state.budget is None or state.num_moves <= state.budget
    over = state.used > np.maximum(state.capacity, problem.used(data.initial))
    assert not over.any()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("goal", GOALS.values())
def test_time_that_jumps_ends_the_search(goal: str, seed: int) -> None:
    """On a busy machine any step may take long: wherever time is up, little is done after it."""
    rng = np.random.default_rng(seed)
    instance = racks(seed)
    for late in rng.integers(1, 300, size=5).tolist():
        limit = Looks(1e6, jump=lambda look, late=late: 1e7 if look == late else 1.0)
        outcome, _ = search(instance, goal, limit)
        assert limit.past[0] <= late + _FEW_LOOKS
        value_of(instance, goal, outcome)


@pytest.mark.parametrize("goal", GOALS.values())
def test_an_interrupt_loses_neither_placement_nor_bound(goal: str) -> None:
    """Ctrl-C at any moment gives the best that was announced until then."""
    instance = racks(10)
    _, events = search(instance, goal, Looks(200.0))
    assert len(events) > 2
    for number, event in enumerate(events, start=1):
        outcome, _ = search(instance, goal, Looks(200.0), stop_at=number)
        assert outcome.limit == "interrupt"
        assert value_of(instance, goal, outcome) <= event.value + 1e-4
        assert outcome.bound >= event.bound - 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_the_area_bound_stands_from_the_first_placement(seed: int) -> None:
    """No price is needed to see how many hosts the GPUs fill; no limit is too short for it."""
    instance = rebalancing_set(50, seed)
    area = np.ceil(0.8 * 50 - 2)
    outcome, events = search(instance, GOALS["B"], Settings(1e-6))
    assert fewest_hosts(instance, with_gpus=True) >= area
    assert outcome.bound >= fewest_hosts(instance, with_gpus=True)
    assert all(event.bound >= area for event in events)


@pytest.mark.long
@pytest.mark.parametrize(
    ("num_hosts", "seed"), [(30, 0), (30, 1), (30, 2), (50, 103), (50, 109)], ids=str
)
@pytest.mark.parametrize("letter", GOALS)
def test_what_comes_first_is_no_worse_than_single_exchanges(
    letter: str, num_hosts: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain local search, written apart, does not beat what stands before patterns are priced."""
    instance = rebalancing_set(num_hosts, seed)

    def interrupted(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("alloc.solving.placement.search.Search._price", interrupted)
    _, events = search(instance, GOALS[letter], Settings(60.0))
    assert events[-1].value <= single_exchanges(instance, letter, 60.0) + 1e-4


@pytest.mark.parametrize("seed", range(6))
def test_hosts_are_emptied_whole(seed: int) -> None:
    """Where no single move gains, most of a host and more is still to be had by emptying some.

    Tasks and capacities are kept.
    """
    instance = rebalancing_set(50, seed)
    problem = Problem(PlacementData.of(instance))
    state = compile_state(problem, problem.data.initial, [parse_level(GOALS["B"])])
    state.descend()
    tasks = [block.count.sum(axis=1) for block in state.blocks]
    improver = Improver(state, np.random.default_rng(seed), endless)
    before = state.value
    improver.empty_hosts()
    assert fewest_hosts(instance, with_gpus=True) <= state.value < before - 0.8
    assert (state.used <= state.capacity).all()
    for block, count in zip(state.blocks, tasks, strict=True):
        np.testing.assert_array_equal(block.count.sum(axis=1), count)
    kept = state.value
    state.refresh()
    assert state.value == pytest.approx(kept)


def test_emptying_hosts_keeps_to_the_budget_of_moves() -> None:
    """A host is not emptied where its tasks are more than may still move."""
    for budget in (0, 1, 3, 8):
        instance = rebalancing_set(30, 1).replace(moves=Moves(budget=budget))
        problem = Problem(PlacementData.of(instance))
        state = compile_state(problem, problem.data.initial, [parse_level(GOALS["B"])])
        Improver(state, np.random.default_rng(0), endless).empty_hosts()
        assert state.num_moves <= budget


@pytest.mark.long
def test_area_never_passes_the_optimum() -> None:
    """On random tiny instances the fewest hosts by area are no more than the optimum uses."""
    checked = 0
    for seed in range(150):
        instance = random_instance(np.random.default_rng(seed))
        for goal, with_gpus in (("gpu_hosts_used", True), ("hosts_used", False)):
            best = Oracle(instance).best(parse_level(goal))
            if best is not None:
                assert fewest_hosts(instance, with_gpus=with_gpus) <= best
                checked += 1
    assert checked > 100
