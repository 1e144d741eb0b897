"""Tasks given out by states of hosts: the same as looking at every host for every task."""

from __future__ import annotations

import numpy as np
import pytest

from alloc.packing import HostPool
from alloc.problems.allocation.instance import Instance
from alloc.schedulers import JobView, make_scheduler
from alloc.schedulers.least_loaded import LeastLoaded
from alloc.schedulers.state import ClusterState
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, Job, TaskGroup

KINDS = (HostType("a", 2, "x", 8000, 40), HostType("b", 4, "x", 9000, 70))


def cluster(rng: np.random.Generator) -> Topology:
    hosts = [
        Host(f"h{h}", KINDS[int(rng.integers(2))].name) for h in range(int(rng.integers(1, 9)))
    ]
    return Topology("c", KINDS, tuple(hosts))


def load(free: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    used = (capacity - free)[:, :2] / np.maximum(capacity[:, :2], 1)
    return np.round(used.sum(axis=1), 12)


@pytest.mark.parametrize("seed", range(20))
def test_the_least_loaded_host_is_that_of_a_look_at_all(seed: int) -> None:
    """Whatever is given, taken, put back, read or occupied in between."""
    rng = np.random.default_rng(seed)
    topology = cluster(rng)
    capacity, free = topology.capacity, topology.capacity.copy()
    hosts = LeastLoaded(topology)
    demands = [
        np.array([1000 * rng.integers(2), 500 * rng.integers(4), 7 * rng.integers(3)])
        for _ in range(3)
    ]
    given: list[tuple[int, np.ndarray]] = []
    for _ in range(120):
        demand = demands[int(rng.integers(3))]
        key = tuple(demand.tolist())
        match int(rng.integers(6)):
            case 0 if given:
                h, was = given.pop(int(rng.integers(len(given))))
                hosts.occupy(h, tuple(was.tolist()), -1)
                free[h] += was
            case 1:
                h = int(rng.integers(len(free)))
                fits = not ((free[h] < demand) & (demand > 0)).any()
                assert hosts.take(h, key) == fits
                if fits:
                    free[h] -= demand
                    given.append((h, demand))
            case 2:
                hosts.read(free)
            case 3:
                copy = capacity.copy()
                hosts.read(free)
                hosts.occupy(0, (0, 0, 0))
                hosts.write(copy)
                assert (copy[0] == free[0]).all()
            case _:
                expected = []
                for _ in range(2):
                    h = int(load(free, capacity).argmin())
                    if ((free[h] < demand) & (demand > 0)).any():
                        break
                    free[h] -= demand
                    expected.append(h)
                    given.append((h, demand))
                assert hosts.give_up_to(key, 2) == expected


def pairs(rng: np.random.Generator) -> tuple[Configuration, ...]:
    worker, server = (1000 * int(rng.integers(2)), 1000), (0, 500 * int(rng.integers(1, 4)))
    table = [
        Configuration(
            (TaskGroup("worker", w, *worker), TaskGroup("ps", u, *server)), w**0.7 * u**0.4
        )
        for w in range(1, 4)
        for u in range(1, 4)
        if w == u == 1 or rng.random() < 0.8
    ]
    return tuple(table)


def state_of(rng: np.random.Generator) -> ClusterState:
    topology = cluster(rng)
    tables = [pairs(rng) for _ in range(2)]
    jobs = tuple(
        Job(f"j{j}", 0.0, 100.0, tables[int(rng.integers(2))], work_done=float(rng.integers(90)))
        for j in range(int(rng.integers(1, 12)))
    )
    assert Instance("i", topology, jobs, slot_s=10.0)
    views = [
        JobView(j.id, 0.0, j.configurations, 1.0, j.work, j.work_left, position=k)
        for k, j in enumerate(jobs)
    ]
    return ClusterState(
        0.0, 10.0, views, topology, HostPool(topology), {}, "exact", np.random.default_rng(0)
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("skip", [False, True])
def test_tetris_by_states_is_tetris_host_by_host(seed: int, skip: bool) -> None:
    """Ranking the jobs once for hosts in one state gives what scoring them anew each time does."""
    state = state_of(np.random.default_rng(seed))
    capacity = np.maximum(state.topology.capacity, 1)
    views, free = list(state.jobs), state.topology.capacity.copy()
    demand, tops, reachable = [], [], []
    for view in views:
        first = view.configurations[0].tasks
        demand.append(np.sum([group.demand for group in first], axis=0))
        steps = {
            c.tasks[0].count for c in view.configurations if len({g.count for g in c.tasks}) == 1
        }
        tops.append(max(steps))
        reachable.append(steps)
    bundles = np.array(demand)
    fractions = np.array([v.work_left / v.work for v in views])
    on: list[list[int]] = [[] for _ in views]
    for h in range(len(free)):
        tried: set[int] = set()
        while open_ := [k for k in range(len(views)) if len(on[k]) < tops[k] and k not in tried]:
            parts = bundles / capacity[h]
            alignment = parts @ (free[h] / capacity[h])
            remaining = parts.sum(axis=1) * fractions
            if remaining.mean() <= 0 or alignment.mean() / remaining.mean() == 0:
                break
            scores = alignment + alignment.mean() / remaining.mean() * remaining
            k = min(open_, key=lambda k: (-scores[k], k))
            if not ((free[h] < bundles[k]) & (bundles[k] > 0)).any():
                free[h] -= bundles[k]
                on[k].append(h)
            elif skip:
                tried.add(k)
            else:
                break
    expected = {}
    for view, hosts, steps in zip(views, on, reachable, strict=True):
        while hosts and len(hosts) not in steps:
            hosts.pop()
        if hosts:
            expected[view.id] = sorted(hosts)
    decision = make_scheduler("tetris", skip=skip).decide(state)
    index = state.topology.host_index
    found = {
        a.job: sorted(index[t.host] for t in a.tasks if t.role == "worker" for _ in range(t.count))
        for a in decision.assign
    }
    if expected:  # else the rule starts nothing, and the round helps the first job
        assert found == expected
