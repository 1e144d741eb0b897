"""A plain local search as a yardstick: single moves and swaps of two tasks, first come first kept.

It is written on its own, from arrays of tasks and hosts, and shares no code with the search that it
is compared with: what it reaches in a few seconds, a search must not fall short of.
"""

from __future__ import annotations

import time

import numpy as np

from alloc.problems.allocation.instance import Instance

_MOVE = 0.05
"""What both goals charge for a task that leaves its host."""


def single_exchanges(instance: Instance, goal: str, seconds: float) -> float:
    """Return the value that single moves and swaps reach from what runs, within CPU seconds.

    Parameters
    ----------
    instance
        Running gangs of one configuration, at most one required level, ``"rack"``.
    goal
        ``"A"``: balance + 0.05 moves; ``"B"``: gpu_hosts_used + 0.05 moves.
    seconds
        CPU seconds.
    """
    search = _Search(instance, goal)
    ends = time.process_time() + seconds
    rng = np.random.default_rng(0)
    gained = True
    while gained and time.process_time() < ends:
        gained = False
        for task in rng.permutation(len(search.host)).tolist():
            if time.process_time() >= ends:
                break
            gained = search.move(task) or search.swap(task, rng) or gained
    return search.value


class _Search:
    def __init__(self, instance: Instance, goal: str) -> None:
        topology = instance.topology
        self.goal = goal
        self.capacity = topology.capacity.astype(float)
        rack = np.asarray(topology.domain_of_host["rack"])
        self.rack = rack
        host, demand, tied = [], [], []
        for running in instance.running:
            job = instance.job(running.job)
            groups = {group.role: group for group in job.configurations[0].tasks}
            for tasks in running.tasks:
                for _ in range(tasks.count):
                    host.append(topology.host_index[tasks.host])
                    demand.append(groups[tasks.role].demand)
                    tied.append(job.placement.required is not None)
        self.host = np.array(host)
        self.home = self.host.copy()
        self.demand = np.array(demand, dtype=float)
        self.tied = np.array(tied)
        self.used = np.zeros_like(self.capacity)
        np.add.at(self.used, self.host, self.demand)
        self.mean = (self.used / self.capacity).mean(axis=0)

    @property
    def value(self) -> float:
        """The goal, computed afresh."""
        hosts = np.arange(len(self.used))
        return float(self._cost(self.used, hosts).sum()) + _MOVE * int(
            (self.host != self.home).sum()
        )

    def _cost(self, used: np.ndarray, hosts: np.ndarray | int) -> np.ndarray:
        if self.goal == "B":
            return np.asarray((used[..., 0] > 0).astype(float))
        share = used / self.capacity[hosts]
        return np.asarray(np.maximum(share - self.mean, 0.0).sum(axis=-1))

    def _moved(self, task: int, target: np.ndarray | int) -> np.ndarray:
        """Return by how much the charge for moves changes when a task goes to a host."""
        return _MOVE * (
            np.asarray(np.not_equal(target, self.home[task]), dtype=float)
            - float(self.host[task] != self.home[task])
        )

    def move(self, task: int) -> bool:
        """Make the best single move of a task, if it gains."""
        source, needs = int(self.host[task]), self.demand[task]
        hosts = np.arange(len(self.used))
        after = self.used + needs
        change = self._cost(after, hosts) - self._cost(self.used, hosts) + self._moved(task, hosts)
        change += self._cost(self.used[source] - needs, source) - self._cost(
            self.used[source], source
        )
        change[(after > self.capacity).any(axis=1)] = np.inf
        if self.tied[task]:
            change[self.rack != self.rack[source]] = np.inf
        change[source] = np.inf
        best = int(change.argmin())
        if change[best] > -1e-9:
            return False
        self._put(task, best)
        return True

    def swap(self, task: int, rng: np.random.Generator) -> bool:
        """Swap a task with the best of some random others, if that gains."""
        source, needs = int(self.host[task]), self.demand[task]
        others = rng.integers(len(self.host), size=64)
        others = others[self.host[others] != source]
        targets, their = self.host[others], self.demand[others]
        here = self.used[source] - needs + their
        there = self.used[targets] - their + needs
        change = self._cost(here, source) - self._cost(self.used[source], source)
        change = change + self._cost(there, targets) - self._cost(self.used[targets], targets)
        change += self._moved(task, targets)
        change += _MOVE * (
            (source != self.home[others]).astype(float)
            - (targets != self.home[others]).astype(float)
        )
        over = (here > self.capacity[source]).any(axis=1)
        over |= (there > self.capacity[targets]).any(axis=1)
        apart = self.rack[targets] != self.rack[source]
        over |= apart & (self.tied[others] | bool(self.tied[task]))
        change[over] = np.inf
        if not len(change) or change.min() > -1e-9:
            return False
        best = int(change.argmin())
        other, target = int(others[best]), int(targets[best])
        self._put(task, target)
        self._put(other, source)
        return True

    def _put(self, task: int, host: int) -> None:
        self.used[self.host[task]] -= self.demand[task]
        self.used[host] += self.demand[task]
        self.host[task] = host
