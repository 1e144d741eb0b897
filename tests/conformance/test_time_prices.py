"""Prices of time: what they say of plans that are begun, held against all ways to go on."""

from __future__ import annotations

import numpy as np
import pytest

from alloc.instances.projects import generate_dags
from alloc.models.project.data import ProjectData
from alloc.models.project.prices import forest
from alloc.models.project.whole_times import WholeTimes
from alloc.problems.project import Activity, Mode, ProjectJob, ProjectProblem, Resource
from alloc.solving.project.partial_plans import PartialPlans, Steps
from alloc.solving.project.rest_bounds import PathsAndWork
from alloc.solving.project.time_prices import Deadline, TimePrice, price_from, raised_price
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
    compared, tight = 0, 0
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
                rest = PathsAndWork(steps, value, rest.raised([plans[:1]]))
                starts, deadline = rest._starts(plans), rest.deadline
                assert deadline.target == target
                awaited = ~plans.started.T
                for k, p in enumerate(deadline.parent):
                    if p is not None:
                        awaited[k] &= plans.started[:, p]
                free = np.maximum(plans.free, plans.now[:, None])
                for price in [*rest.prices, drawn(deadline, rng), drawn(deadline, rng)]:
                    said = price.soonest_end(free, deadline.cells(starts), awaited)
                    for end, true in zip(said, least, strict=True):
                        # Of plans that end after the deadline it says no more than that they do.
                        assert end <= (true if true <= target else target + 1)
                        tight += end == true
                        compared += 1
    assert compared > 300
    assert tight > 10


def test_a_price_that_is_raised_proves_more_than_work_alone():
    """Long chains leave units idle at the end, which the work does not see."""
    problem = generate_dags(num_jobs=10, num_gpus=10, seed=7)
    data = ProjectData(problem)
    steps = Steps(data, "makespan", WholeTimes(data))
    plain = PathsAndWork(steps, 760.0)
    raised = PathsAndWork(steps, 760.0, plain.raised([steps.begin()]))
    assert len(raised.prices) == len(plain.prices) + 1
    low, high = plain(steps.begin())[0], raised(steps.begin())[0]
    assert 740.0 < low < high < 755.9


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
            price_from(deadline, 0, moment).soonest_end(
                begin.free, deadline.cells(starts), awaited
            )[0]
        )
        * steps.times.unit
        for moment in (0, steps.times.down(10.0))
    ]
    assert said[0] == pytest.approx(15.0 if steps.times.unit < 5 else 20.0, abs=steps.times.unit)
    assert said[1] == pytest.approx(25.0 if steps.times.unit < 5 else 30.0, abs=steps.times.unit)


def test_there_is_no_price_for_a_plan_that_is_late():
    data = ProjectData(
        ProjectProblem("p", (Activity("a", (Mode(9.0, {"gpu": 1}),)),), (Resource("gpu", 1),))
    )
    steps = Steps(data, "makespan", WholeTimes(data))
    nothing = np.zeros(1, np.int64)
    target = steps.times.down(9.0)
    assert raised_price(Deadline(steps, [None], nothing, target), steps.begin(), nothing)
    late = Deadline(steps, [None], nothing, target - 1)
    assert raised_price(late, steps.begin(), nothing) is None
