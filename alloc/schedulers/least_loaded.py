"""The least loaded host: where DL2 puts the next task."""

from __future__ import annotations

import heapq

import numpy as np

from alloc.topology import Topology


class LeastLoaded:
    """Free capacity of hosts in a slot, given out on the least loaded one.

    The load of a host is the sum of the used fractions of its GPUs and of its CPUs, ties go to the
    first host, and what does not fit there does not fit: the rule of `alloc.schedulers.round`, kept
    in a heap because it is asked for every task.

    It knows GPU, CPU and memory: jobs that ask for more are not given out task by task.

    Parameters
    ----------
    topology
        The cluster; all of it is free at first.
    """

    def __init__(self, topology: Topology) -> None:
        capacity = topology.capacity
        self._gpu, self._cpu, self._memory = (column.tolist() for column in capacity.T[:3])
        self._gpus, self._cpus = (np.maximum(c, 1).astype(float).tolist() for c in capacity.T[:2])
        self.reset()

    def reset(self) -> None:
        """Free all hosts."""
        self._free_gpu, self._free_cpu = self._gpu.copy(), self._cpu.copy()
        self._free_memory = self._memory.copy()
        self._heap = [(0.0, h) for h in range(len(self._gpu))]

    def take(self, host: int, demand: tuple[int, ...]) -> None:
        """Take a demand from a host, whatever its load."""
        self._free_gpu[host] -= demand[0]
        self._free_cpu[host] -= demand[1]
        self._free_memory[host] -= demand[2]

    def sort(self) -> None:
        """Bring the order of hosts up to date after `take`."""
        self._heap = [(self._load(h), h) for h in range(len(self._gpu))]
        heapq.heapify(self._heap)

    def give(self, demand: tuple[int, ...]) -> int | None:
        """Take a demand from the least loaded host and return that host; None if it misfits."""
        host = self._heap[0][1]
        gpu = self._free_gpu[host] - demand[0]
        cpu = self._free_cpu[host] - demand[1]
        memory = self._free_memory[host] - demand[2]
        if gpu < 0 or cpu < 0 or memory < 0:
            return None
        self._free_gpu[host], self._free_cpu[host], self._free_memory[host] = gpu, cpu, memory
        heapq.heapreplace(self._heap, (self._load(host), host))
        return host

    def give_all(self, demand: tuple[int, ...], count: int) -> list[int] | None:
        """Take a demand so many times, each from the least loaded host by then; all or nothing."""
        hosts: list[int] = []
        for _ in range(count):
            host = self.give(demand)
            if host is None:
                for taken in hosts:
                    self.take(taken, (-demand[0], -demand[1], -demand[2]))
                self.sort()
                return None
            hosts.append(host)
        return hosts

    def _load(self, host: int) -> float:
        # Equal loads must be equal numbers for the tie to go to the first host.
        used: float = (self._gpu[host] - self._free_gpu[host]) / self._gpus[host]
        used += (self._cpu[host] - self._free_cpu[host]) / self._cpus[host]
        return round(used, 12)
