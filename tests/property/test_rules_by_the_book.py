"""Optimus and Tetris against rules that look at every job again before each task."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from alloc.instances import generate_elastic
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.schedulers.state import ClusterState, Decision, JobView
from alloc.simulation import simulate

Given = list[tuple[int, str]]
"""The hosts and roles of the tasks of a job."""


class Book:
    """A round by the book: what is free on each host, and what each job was given.

    Parameters
    ----------
    state
        What the policy sees, in slots, with jobs of workers and PSs that all may be paused.
    """

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.capacity = state.topology.capacity.tolist()
        self.free = state.topology.capacity.tolist()
        self.given: dict[str, Given] = {view.id: [] for view in state.jobs}

    def demand(self, view: JobView, role: str) -> tuple[int, ...]:
        groups = [g for c in view.configurations for g in c.tasks if g.role == role]
        return groups[0].demand

    def rates(self, view: JobView) -> dict[tuple[int, int], float]:
        return {(c.num_tasks("worker"), c.num_tasks("ps")): c.rate for c in view.configurations}

    def reached(self, view: JobView) -> tuple[int, int]:
        count = Counter(role for _, role in self.given[view.id])
        return count["worker"], count["ps"]

    def load(self, h: int) -> float:
        used = [(a - f) / max(a, 1) for a, f in zip(self.capacity[h], self.free[h], strict=True)]
        return round(used[0] + used[1], 12)

    def take(self, view: JobView, h: int, roles: tuple[str, ...]) -> bool:
        demand = np.sum([self.demand(view, role) for role in roles], axis=0).tolist()
        rest = [f - d for f, d in zip(self.free[h], demand, strict=True)]
        if min(rest) < 0:
            return False
        self.free[h] = rest
        self.given[view.id] += [(h, role) for role in roles]
        return True

    def give(self, view: JobView, role: str, count: int) -> bool:
        """Give tasks, each on the host least loaded by then, all or nothing."""
        before = [row[:] for row in self.free], self.given[view.id][:]
        for _ in range(count):
            if not self.take(view, min(range(len(self.free)), key=self.load), (role,)):
                self.free, self.given[view.id] = before
                return False
        return True

    def decision(self) -> dict[str, Counter[tuple[int, str]]]:
        """Return the tasks of the jobs that can run with what they have."""
        views = [v for v in self.state.jobs if self.rates(v).get(self.reached(v), 0.0) > 0]
        return {view.id: Counter(self.given[view.id]) for view in views}


def optimus(state: ClusterState, skip: bool) -> dict[str, Counter[tuple[int, str]]]:
    book, left_out = Book(state), set()
    while True:
        best: tuple[float, JobView, str, int] | None = None
        for view in state.jobs:
            rates, (w, u) = book.rates(view), book.reached(view)
            if view.id in left_out:
                continue
            if not rates.get((w, u), 0.0) > 0:  # first jobs start, one after the other
                first = min((pair for pair in rates if rates[pair] > 0), key=lambda p: (sum(p), p))
                best = (math.inf, view, "worker" if w < first[0] else "ps", 1)
                break
            steps = [
                (role, min(more))
                for role, more in (
                    ("ps", [v - u for x, v in rates if x == w and v > u and rates[x, v] > 0]),
                    ("worker", [x - w for x, v in rates if v == u and x > w and rates[x, v] > 0]),
                )
                if more
            ]
            for role, count in steps:
                rate = rates[(w + count, u) if role == "worker" else (w, u + count)]
                assert view.work_left is not None
                gain = view.work_left / rates[w, u] - view.work_left / rate
                if best is None or gain > best[0]:
                    best = (gain, view, role, count)
        if best is None or best[0] <= 0:
            return book.decision()
        if not book.give(*best[1:]):
            if not skip:
                return book.decision()
            left_out.add(best[1].id)


def tetris(state: ClusterState, skip: bool) -> dict[str, Counter[tuple[int, str]]]:
    book = Book(state)
    views, roles = state.jobs, ("worker", "ps")
    bundles = np.array(
        [np.sum([book.demand(v, role) for role in roles], axis=0) for v in views], dtype=float
    )
    work, left = (np.array([getattr(v, name) for v in views]) for name in ("work", "work_left"))
    tops = [max(w for w, u in book.rates(v) if w == u) for v in views]
    for h, capacity in enumerate(np.maximum(book.capacity, 1)):
        tried: set[int] = set()
        while True:
            able = [
                k for k, v in enumerate(views) if k not in tried and book.reached(v)[0] < tops[k]
            ]
            demand = bundles / capacity
            alignment = demand @ (np.array(book.free[h], dtype=float) / capacity)
            rest = demand.sum(axis=1) * (left / work)
            if not able or alignment.mean() == 0:
                break
            scores = alignment + alignment.mean() / rest.mean() * rest
            k = max(able, key=lambda k: (scores[k], -k))
            if not book.take(views[k], h, roles):
                if not skip:
                    break
                tried.add(k)
    for view in views:  # the last bundles that lead nowhere are taken back
        while book.given[view.id] and not book.rates(view).get(book.reached(view), 0.0) > 0:
            del book.given[view.id][-2:]
    return book.decision()


def thinned(seed: int) -> Instance:
    """Return jobs with gaps in their tables; pairs of equal numbers reach up, so all can start."""
    rng = random.Random(seed)
    instance = generate_elastic(
        "book",
        num_jobs=rng.choice([3, 9, 20]),
        num_hosts=rng.choice([1, 4, 9]),
        max_workers=rng.choice([2, 5, 9]),
        max_ps=rng.choice([2, 5, 9]),
        arrivals="start",
        seed=seed,
    )
    gaps = rng.choice([0.0, 0.0, 0.3])
    return instance.replace(
        jobs=tuple(
            job.replace(
                configurations=tuple(
                    c
                    for c in job.configurations
                    if c.num_tasks("worker") == c.num_tasks("ps") == 1 or rng.random() >= gaps
                )
            )
            for job in instance.jobs
        )
    )


class Compared:
    """A policy whose decisions are held against those by the book."""

    def __init__(self, name: str, skip: bool) -> None:
        self._policy, self._skip = make_scheduler(name, skip=skip), skip
        self.name, self.needs = self._policy.name, self._policy.needs
        self.information = self._policy.information
        self._by_the_book = {"optimus": optimus, "tetris": tetris}[name]

    def reset(self) -> None:
        self._policy.reset()

    def decide(self, state: ClusterState) -> Decision:
        expected = self._by_the_book(state, self._skip)
        decision = self._policy.decide(state)
        index = state.topology.host_index
        found = {
            a.job: Counter({(index[t.host], t.role): t.count for t in a.tasks})
            for a in decision.assign
        }
        assert found == expected, state.now_s
        return decision


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("name", ["optimus", "tetris"])
@pytest.mark.parametrize("seed", range(12))
def test_every_decision_is_the_one_by_the_book(name: str, skip: bool, seed: int) -> None:
    """Shortcuts over equal hosts, first tasks and equal jobs change no task of any slot."""
    instance = thinned(seed)
    assert instance.slot_s is not None
    result = simulate(instance, Compared(name, skip), max_time_s=8 * instance.slot_s)
    assert len(result.decision_s) > 0
