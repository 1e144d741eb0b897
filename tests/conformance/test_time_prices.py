"""Prices of time: what they say of plans that are begun, held against all ways to go on."""

from __future__ import annotations

import numpy as np
import pytest

from alloc.instances.projects import generate_dags
from alloc.models.project.data import ProjectData
from alloc.models.project.prices import forest
from alloc.models.project.whole_times import WholeTimes
from alloc.problems.project import Activity, Mode, ProjectJob, ProjectProblem, Resource
from alloc.solving.project import rest_bounds
from alloc.solving.project.partial_plans import PartialPlans, Steps
from alloc.solving.project.raised_prices import raised_price
from alloc.solving.project.rest_bounds import PathsAndWork
from alloc.solving.project.time_prices import Deadline, PriceTables, TimePrice, price_from
from benchmarks.tiny.project import PROJECT


def tiny(seed: int) -> Steps | None:
    """Return the steps of a tiny project, or None if its plans do not go on in layers."""
    problem, _ = PROJECT.problem(seed)
    data = ProjectData(problem)
    steps = Steps(data, "makespan", WholeTimes(data))
    return steps if steps.fit else None


def ends(steps: Steps, plans: PartialPlans) -> list[int]:
    """Return the least end that each plan can have, in units, by all ways to go on."""
    found = []
    for row in range(len(plans)):
        layer = plans[row : row + 1]
        while len(layer) and not layer.started.all():
            layer = steps.following(layer)
        found.append(int(layer.ends.max(axis=1).min()) if len(layer) else 2**62)
    return found


def begun(steps: Steps, rng: np.random.Generator, count: int) -> PartialPlans:
    """Return plans with some activities, drawn."""
    layer = steps.begin()
    for _ in range(count):
        layer = steps.following(layer)
        layer = layer[rng.permutation(len(layer))[:4]]
    return layer


def drawn(deadline: Deadline, rng: np.random.Generator) -> TimePrice:
    """Return a price with moments of no price, drawn."""
    inner = rng.integers(1, max(deadline.target, 2), 5)
    edges = np.unique(np.r_[0, inner])
    shape = (len(deadline.capacity), len(edges))
    return TimePrice(deadline, edges, rng.exponential(1.0, shape) * (rng.random(shape) < 0.7))


@pytest.mark.long
@pytest.mark.parametrize("cells", [10, 1000])
def test_no_price_says_more_than_the_least_end(monkeypatch, cells):
    """Also where a moment of the tables stands for several starts."""
    init = Deadline.__init__

    def coarse(self, steps, parent, tails, target, moments=cells):
        init(self, steps, parent, tails, target, moments)

    monkeypatch.setattr(Deadline, "__init__", coarse)
    compared, tight, shown = 0, 0, 0
    for seed in range(30):
        steps, rng = tiny(seed), np.random.default_rng(seed)
        if steps is None:
            continue
        for count in range(steps.size):
            plans = begun(steps, rng, count)
            if not len(plans):
                continue
            least = ends(steps, plans)
            for target in {min(least), int(min(least) * 1.2) + 1}:
                if target >= 2**62:
                    continue
                value = (target - 1) * steps.times.unit
                rest = PathsAndWork(steps, value)
                deadline = rest.deadline
                assert deadline.target == target
                fixed = [price for tables in rest.fixed for price in tables.prices]
                starts = rest._starts(plans)
                found = raised_price(deadline, plans[:1], starts[:, 0])
                raised = [] if found is None else [found]
                shown += len(raised)
                drawn_ones = [drawn(deadline, rng), drawn(deadline, rng)]
                for prices in [[price] for price in [*fixed, *raised, *drawn_ones]] + [drawn_ones]:
                    said, by = PriceTables(prices).soonest_end(*rest._asked(plans, starts))
                    assert ((by >= 0) & (by < len(prices))).all()
                    for end, true in zip(said, least, strict=True):
                        # Of plans that end after the deadline it says no more than that they do.
                        assert end <= (true if true <= target else target + 1)
                        tight += end == true
                        compared += 1
    assert compared > 300
    assert tight > 10
    assert shown > 10


def test_a_price_that_is_raised_shows_more_than_work_alone():
    """Long chains leave units idle at the end, which the work does not see."""
    problem = generate_dags(num_jobs=10, num_gpus=10, seed=7)
    data = ProjectData(problem)
    steps = Steps(data, "makespan", WholeTimes(data))
    plain = PathsAndWork(steps, 744.0)
    begin = steps.begin()
    price = raised_price(plain.deadline, begin, plain._starts(begin)[:, 0])
    assert price is not None
    assert 740.0 < plain(begin)[0] < 744.0
    # Plans end at 755.9 s or later; of those after 744 it is said that they are.
    assert PathsAndWork(steps, 744.0, [price])(begin)[0] > 744.0
    # For the last deadline there is a plan.
    plain = PathsAndWork(steps, 756.0)
    assert raised_price(plain.deadline, begin, plain._starts(begin)[:, 0]) is None


def test_prices_are_raised_for_the_plans_of_a_wide_layer(monkeypatch):
    """All plans that it says are late cannot be ended in time, and it is said of some."""
    monkeypatch.setattr(rest_bounds, "_MANY", 2)
    monkeypatch.setattr(rest_bounds, "_WORTH", 1)
    sharpened = 0
    for seed in range(30):
        steps, rng = tiny(seed), np.random.default_rng(seed)
        if steps is None:
            continue
        for count in range(1, steps.size):
            plans = begun(steps, rng, count)
            if len(plans) < 2:
                continue
            least = ends(steps, plans)
            target = min(least)
            if target >= 2**62:
                continue
            rest = PathsAndWork(steps, (target - 1) * steps.times.unit)
            kept = rest.sharpen(plans)
            assert len(kept) >= sum(end < target for end in least)
            sharpened += len(kept) < len(plans)
            if len(rest.raised):
                again = PathsAndWork(steps, (target - 1) * steps.times.unit, rest.raised)
                said = again(plans) / steps.times.unit
                for end, true in zip(said, least, strict=True):
                    assert true > target or end <= true + 1e-6
    assert sharpened > 5


def test_work_counts_from_a_moment_on():
    """Before the release there is nothing to do: 2 units have 30 s of work for 3 s each from 10."""
    activities = tuple(Activity(f"a{k}", (Mode(10.0, {"gpu": 1}),), (), "j") for k in range(3))
    resources, jobs = (Resource("gpu", 2),), (ProjectJob("j", 10.0),)
    data = ProjectData(ProjectProblem("p", activities, resources, jobs))
    steps = Steps(data, "makespan", WholeTimes(data))
    begin, parent = steps.begin(), forest(data)
    target = steps.times.down(40.0)
    deadline = Deadline(steps, parent, np.zeros(3, np.int64), target)
    starts = np.full((3, 1), steps.times.down(10.0))
    awaited = np.ones((3, 1), np.bool_)
    said = [
        int(
            PriceTables([price_from(deadline, 0, moment)]).soonest_end(
                begin.free, deadline.cells(starts), awaited
            )[0][0]
        )
        * steps.times.unit
        for moment in (0, steps.times.down(10.0))
    ]
    assert said[0] == pytest.approx(15.0 if steps.times.unit < 5 else 20.0, abs=steps.times.unit)
    assert said[1] == pytest.approx(25.0 if steps.times.unit < 5 else 30.0, abs=steps.times.unit)


def test_there_is_a_price_only_for_a_plan_that_a_price_shows_to_be_late():
    activities = tuple(Activity(f"a{k}", (Mode(9.0, {"gpu": 1}),)) for k in range(2))
    data = ProjectData(ProjectProblem("p", activities, (Resource("gpu", 1),)))
    steps = Steps(data, "makespan", WholeTimes(data))
    nothing, begin = np.zeros(2, np.int64), steps.begin()
    end, length = steps.times.down(18.0), steps.times.down(9.0)

    def at(target):
        return raised_price(Deadline(steps, [None, None], nothing, target), begin, nothing)

    assert at(end) is None
    assert at(end - 1) is not None
    # Late at any price.
    assert at(length - 1) is None
