"""Small instances of F3 for its tests."""

from __future__ import annotations

import numpy as np

import alloc
from alloc import Configuration, HostType, Instance, Job, TaskGroup
from alloc.topology import flat_cluster
from alloc.workload import Elasticity


def speed(gpus: int, rate: float, **more: str) -> Configuration:
    return Configuration((TaskGroup("worker", gpus, 1000),), rate, more.get("kind"), "host")


def gang(name: str, ways: tuple[Configuration, ...], work: float, **more: object) -> Job:
    kind: Elasticity = "rigid" if len(ways) == 1 else "moldable"
    return Job(name, 0.0, work, ways, elasticity=kind, preemptible=False).replace(**more)


def boxes(number: int, gpus: int = 4) -> alloc.Topology:
    return flat_cluster("boxes", HostType("box", gpus, "gpu"), number)


def drawn(seed: int, number: int = 6, hosts: int = 2) -> Instance:
    rng = np.random.default_rng(seed)
    jobs = []
    for j in range(number):
        scaling = rng.uniform(0.4, 0.95)
        ways = tuple(speed(n, float(n**scaling)) for n in (1, 2, 4))
        jobs.append(gang(f"j{j}", ways, float(rng.integers(20, 200)), weight=float(1 + j % 3)))
    return Instance(f"drawn-{seed}", boxes(hosts), tuple(jobs))
