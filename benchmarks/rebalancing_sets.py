"""Rebalancing sets of any size and seed: fragmented racks of running gangs.

They look like the stored sets (`alloc.instances.readers.rebalancing`) and are drawn independently
of them, so that a search can be measured on instances nobody has tuned it on.
"""

from __future__ import annotations

import numpy as np

from alloc.problems.allocation.instance import Instance, Moves
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.topology import Domain, Host, HostType, Topology
from alloc.units import MILLI
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup

_HOST = (8, 128, 1024)
"""GPUs, cores and GiB of a host: a usual server."""
_HOSTS_PER_RACK = 10
_GANGS = {1: 0.35, 2: 0.20, 4: 0.20, 8: 0.15, 16: 0.10}
"""Share of gangs of each number of GPUs: many small ones, some of two whole hosts."""
_CORES_PER_GPU = (6, 8, 10, 12, 16, 20)
_GIB_PER_GPU = (32, 64, 96, 128, 160)
_CPU_TASK_CORES = (2, 4, 8, 16)
_CPU_TASK_GIB = (4, 8, 16, 32, 64)
_FILLED, _LEFT = 0.97, 0.80
"""Share of GPUs used before gangs depart, and after: departures leave holes."""
_MAX_MISSES = 200
"""Gangs in a row that find no room, after which the cluster counts as full."""
_MIB_PER_GIB = 1024

Task = tuple[int, int, int]
"""GPUs, cores, GiB."""
Gang = list[tuple[int, Task]]
"""Host and demand of every task."""


def rebalancing_set(num_hosts: int, seed: int) -> Instance:
    """Return a cluster whose racks departures have fragmented; every task may move.

    Parameters
    ----------
    num_hosts
        Hosts, a multiple of 10: racks have ten. Below 200 there are 4 tasks a host, else 8.
    seed
        Of all that is drawn.
    """
    rng = np.random.default_rng([num_hosts, seed])
    used = np.zeros((num_hosts, 3), dtype=np.int64)
    gangs = _fill(used, rng)
    _depart(gangs, used, rng)
    num_tasks = (4 if num_hosts < 200 else 8) * num_hosts
    gangs += _cpu_tasks(num_tasks - sum(map(len, gangs)), used, rng)
    return _instance(num_hosts, seed, gangs)


def _fill(used: np.ndarray, rng: np.random.Generator) -> list[Gang]:
    """Return gangs placed in racks of uneven popularity until hardly a GPU is free."""
    num_racks = len(used) // _HOSTS_PER_RACK
    popularity = rng.dirichlet(np.full(num_racks, 3.0))
    gangs: list[Gang] = []
    misses = 0
    while used[:, 0].sum() < _FILLED * len(used) * _HOST[0] and misses < _MAX_MISSES:
        gpus = int(rng.choice(list(_GANGS), p=list(_GANGS.values())))
        parts = [n for n in (1, 2, 4, 8) if gpus % n == 0 and gpus // n <= _HOST[0]]
        number = parts[0] if rng.random() < 0.6 else int(rng.choice(parts))
        each = gpus // number
        task = (each, each * int(rng.choice(_CORES_PER_GPU)), each * int(rng.choice(_GIB_PER_GPU)))
        for rack in rng.choice(num_racks, min(3, num_racks), replace=False, p=popularity):
            gang = _place(used, int(rack), task, number)
            if gang is not None:
                gangs.append(gang)
                break
        misses = 0 if gang is not None else misses + 1
    return gangs


def _place(used: np.ndarray, rack: int, task: Task, number: int) -> Gang | None:
    """Place a gang in a rack by best fit, or return None where it has no room."""
    before = used.copy()
    gang: Gang = []
    rows = np.arange(rack * _HOSTS_PER_RACK, (rack + 1) * _HOSTS_PER_RACK)
    for _ in range(number):
        fits = rows[(used[rows] + task <= _HOST).all(axis=1)]
        if not len(fits):
            used[:] = before
            return None
        host = int(fits[used[fits, 0].argmax()])
        used[host] += task
        gang.append((host, task))
    return gang


def _depart(gangs: list[Gang], used: np.ndarray, rng: np.random.Generator) -> None:
    while used[:, 0].sum() > _LEFT * len(used) * _HOST[0]:
        for host, task in gangs.pop(int(rng.integers(len(gangs)))):
            used[host] -= task


def _cpu_tasks(number: int, used: np.ndarray, rng: np.random.Generator) -> list[Gang]:
    """Return tasks without GPUs, each on a random host that has room."""
    made: list[Gang] = []
    for _ in range(max(number, 0)):
        task = (0, int(rng.choice(_CPU_TASK_CORES)), int(rng.choice(_CPU_TASK_GIB)))
        fits = np.flatnonzero((used + task <= _HOST).all(axis=1))
        if not len(fits):
            continue
        host = int(rng.choice(fits))
        used[host] += task
        made.append([(host, task)])
    return made


def _instance(num_hosts: int, seed: int, gangs: list[Gang]) -> Instance:
    gpus, cores, gib = _HOST
    server = HostType("server", gpus, "generic", cores * MILLI, gib * _MIB_PER_GIB)
    num_racks = num_hosts // _HOSTS_PER_RACK
    topology = Topology(
        f"{num_hosts} hosts, seed {seed}",
        (server,),
        tuple(Host(f"h{h}", "server", f"r{h // _HOSTS_PER_RACK}") for h in range(num_hosts)),
        ("rack",),
        tuple(Domain(f"r{r}", "rack") for r in range(num_racks)),
    )
    jobs, running = [], []
    for j, gang in enumerate(gangs):
        task = gang[0][1]
        group = TaskGroup(
            "task", len(gang), task[0] * MILLI, task[1] * MILLI, task[2] * _MIB_PER_GIB
        )
        rules = PlacementRules(required="rack") if len(gang) > 1 else PlacementRules()
        way = (Configuration((group,), 1.0),)
        jobs.append(Job(f"j{j}", 0.0, 1.0, way, elasticity="rigid", placement=rules))
        hosts, counts = np.unique([host for host, _ in gang], return_counts=True)
        placed = zip(hosts.tolist(), counts.tolist(), strict=True)
        tasks = tuple(TaskPlacement(f"h{h}", "task", n) for h, n in placed)
        running.append(Assignment(f"j{j}", 0, tasks))
    return Instance(
        topology.name, topology, tuple(jobs), running=tuple(running), moves=Moves(budget=None)
    )
